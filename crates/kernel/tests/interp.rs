//! The interpreter of `probity-bpf` against the kernel: random arithmetic, loads, stores, atomics and jumps, run by both
//! with the same data, must leave the same data behind.

#![expect(clippy::print_stderr, reason = "a skipped test says so")]

use probity_bpf::insn::{R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10};
use probity_bpf::interp::Machine;
use probity_bpf::object::map_flags;
use probity_bpf::{
    AluOp, Asm, AtomicOp, Cond, Insn, MapSpec, Object, ProgSpec, ProgType, Reg, Size, Src, Width, disasm,
};
use probity_kernel::load;

/// Programs that are compared.
const PROGRAMS: u64 = 400;
/// Registers that programs compute with; r9 holds the address of the data.
const REGS: [Reg; 9] = [R0, R1, R2, R3, R4, R5, R6, R7, R8];
/// Words of data that programs read and write, after those that fill the registers.
const WORDS: u64 = 8;
/// Offset of the words where the registers are left.
const RESULTS: i16 = 8 * (9 + WORDS as i16);

struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 33) % n
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    fn number(&mut self) -> u64 {
        match self.below(4) {
            0 => self.pick(&[0, 1, 2, 31, 32, 33, 63, 64, 65, u64::MAX, i64::MIN as u64, i64::MAX as u64, 1 << 31]),
            1 => (self.below(200) as i64 - 100) as u64,
            2 => u64::from(self.next() as u32),
            _ => self.next(),
        }
    }

    fn reg(&mut self) -> Reg {
        self.pick(&REGS)
    }

    fn width(&mut self) -> Width {
        self.pick(&[Width::W32, Width::W64])
    }

    /// A place of `size` bytes in the data.
    fn place(&mut self, size: Size) -> i16 {
        let size = size.bytes() as u64;
        (8 * 9 + size * self.below(8 * WORDS / size)) as i16
    }

    fn size(&mut self) -> Size {
        self.pick(&[Size::B, Size::H, Size::W, Size::DW])
    }

    /// One instruction, or the two of a wide constant.
    fn insn(&mut self) -> Vec<Insn> {
        let (dst, src, width) = (self.reg(), self.reg(), self.width());
        match self.below(20) {
            0..9 => {
                let op = self.pick(&[
                    AluOp::Add,
                    AluOp::Sub,
                    AluOp::Mul,
                    AluOp::Div,
                    AluOp::Or,
                    AluOp::And,
                    AluOp::Lsh,
                    AluOp::Rsh,
                    AluOp::Mod,
                    AluOp::Xor,
                    AluOp::Mov,
                    AluOp::Arsh,
                    AluOp::Sdiv,
                    AluOp::Smod,
                ]);
                if self.below(2) == 0 {
                    return vec![Insn::alu(op, width, dst, src)];
                }
                // The verifier refuses constants that make no sense.
                let imm = match op {
                    AluOp::Lsh | AluOp::Rsh | AluOp::Arsh => {
                        self.below(if width == Width::W32 { 32 } else { 64 }) as i32
                    }
                    AluOp::Div | AluOp::Mod | AluOp::Sdiv | AluOp::Smod => match self.number() as i32 {
                        0 => -1,
                        n => n,
                    },
                    _ => self.number() as i32,
                };
                vec![Insn::alu(op, width, dst, imm)]
            }
            9 => vec![Insn::neg(width, dst)],
            10 => {
                let bits = if width == Width::W64 { self.pick(&[8, 16, 32]) } else { self.pick(&[8, 16]) };
                vec![Insn::movsx(width, dst, src, bits)]
            }
            11 => {
                let bits = self.pick(&[16, 32, 64]);
                vec![match self.below(3) {
                    0 => Insn::to_le(dst, bits),
                    1 => Insn::to_be(dst, bits),
                    _ => Insn::bswap(dst, bits),
                }]
            }
            12 => Insn::ld_imm64(dst, self.number()).to_vec(),
            13..15 => {
                let size = self.size();
                vec![Insn::ldx(size, dst, R9, self.place(size))]
            }
            15 => {
                let size = self.pick(&[Size::B, Size::H, Size::W]);
                vec![Insn::ldxs(size, dst, R9, self.place(size))]
            }
            16 => {
                let size = self.size();
                vec![Insn::st(size, R9, self.place(size), self.number() as i32)]
            }
            17 => {
                let size = self.size();
                vec![Insn::stx(size, R9, self.place(size), src)]
            }
            _ => {
                let op = self.pick(&[
                    AtomicOp::Add,
                    AtomicOp::Or,
                    AtomicOp::And,
                    AtomicOp::Xor,
                    AtomicOp::FetchAdd,
                    AtomicOp::FetchOr,
                    AtomicOp::FetchAnd,
                    AtomicOp::FetchXor,
                    AtomicOp::Xchg,
                    AtomicOp::Cmpxchg,
                ]);
                let size = if width == Width::W32 { Size::W } else { Size::DW };
                vec![Insn::atomic(op, width, R9, self.place(size), src)]
            }
        }
    }

    fn program(&mut self) -> Vec<Insn> {
        let mut a = Asm::new();
        a.emit(Insn::ld_map_value(R9, 0, 0));
        for (i, &reg) in REGS.iter().enumerate() {
            a.emit(Insn::ldx(Size::DW, reg, R9, 8 * i as i16));
        }
        for _ in 0..8 + self.below(12) {
            if self.below(3) == 0 {
                let cond = self.pick(&[
                    Cond::Eq,
                    Cond::Gt,
                    Cond::Ge,
                    Cond::Set,
                    Cond::Ne,
                    Cond::Sgt,
                    Cond::Sge,
                    Cond::Lt,
                    Cond::Le,
                    Cond::Slt,
                    Cond::Sle,
                ]);
                let src = if self.below(2) == 0 { Src::Reg(self.reg()) } else { Src::Imm(self.number() as i32) };
                let over = a.label();
                a.jmp(cond, self.width(), self.reg(), src, over);
                for _ in 0..1 + self.below(3) {
                    a.emit(self.insn());
                }
                a.bind(over);
            } else {
                for _ in 0..1 + self.below(3) {
                    a.emit(self.insn());
                }
            }
            if self.below(4) == 0 {
                // A round trip through the stack, with sizes of their own.
                let (size, reg) = (self.size(), self.reg());
                a.emit(Insn::stx(Size::DW, R10, -8, reg));
                a.emit(Insn::stx(size, R10, -8, self.reg()));
                a.emit(Insn::ldx(self.size(), self.reg(), R10, -8));
            }
        }
        for (i, &reg) in REGS.iter().enumerate() {
            a.emit(Insn::stx(Size::DW, R9, RESULTS + 8 * i as i16, reg));
        }
        a.emit(Insn::exit());
        a.finish().expect("all labels are bound").insns
    }
}

#[test]
fn the_interpreter_computes_what_the_kernel_computes() {
    if !probity_kernel::can_bpf() {
        eprintln!("skipped: this process may not load BPF programs");
        return;
    }
    let mut rng = Rng(0x1357_9bdf_0246_8ace);
    let mut compared = 0;
    for number in 0..PROGRAMS {
        let words = 2 * REGS.len() as u64 + WORDS;
        let data: Vec<u8> = (0..words).flat_map(|_| rng.number().to_le_bytes()).collect();
        let mut spec = MapSpec::global("data", data.clone());
        spec.flags |= map_flags::MMAPABLE;
        let prog = ProgSpec::new("random", ProgType::RawTracepoint, rng.program());
        let object = Object { maps: vec![spec], progs: vec![prog] };
        let text = || disasm::program(&object.progs[0], &object.maps);

        let loaded = match load(&object) {
            Ok(loaded) => loaded,
            // Sign extensions and byte swaps are of 6.6.
            Err(error)
                if error
                    .verifier_log()
                    .is_some_and(|log| log.contains("unknown opcode") || log.contains("reserved")) =>
            {
                continue;
            }
            Err(error) => panic!("program {number}: {error}\n{}\n{}", text(), error.verifier_log().unwrap_or("")),
        };
        let mapped = loaded.maps[0].mmap().expect("the data can be mapped");
        let mut machine = Machine::new(&object);
        for round in 0..3 {
            let result = loaded.progs[0].test_run(&[], None).expect("the program runs");
            let mut want = vec![0; data.len()];
            mapped.copy_to(0, &mut want);
            let outcome = machine.run(&object.progs[0], &mut []).unwrap_or_else(|f| panic!("{f}\n{}", text()));
            let got = machine.map_lookup(0, &[0; 4]).expect("the data is there");
            let words = |bytes: &[u8]| -> Vec<String> {
                bytes
                    .chunks(8)
                    .map(|w| format!("{:016x}", w.iter().rev().fold(0u64, |n, &b| n << 8 | u64::from(b))))
                    .collect()
            };
            assert_eq!(words(&want), words(&got), "program {number}, round {round}, kernel left\n{}", text());
            assert_eq!(result, outcome.r0 as u32, "program {number}, round {round}\n{}", text());
        }
        compared += 1;
    }
    eprintln!("{compared} of {PROGRAMS} programs compared");
    assert!(compared > PROGRAMS / 20, "the kernel takes hardly any of them");
}
