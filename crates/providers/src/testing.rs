//! For tests: a small program that counts what a provider's probes do, and keeps one value of each.
//!
//! It lowers only the locations that the tests need; the real lowering is the compiler's.

use crate::{Attachment, Provider};
use probity_bpf::insn::{R0, R1, R2, R3, R6, R7, R8, R10};
use probity_bpf::{AluOp, Asm, AtomicOp, Cond, Helper, Insn, MapKind, MapSpec, Object, ProgSpec, ProgType, Reg, Size};
use probity_ir::{Location, ProbeDesc, ProgKind, Selector, Signature, Space, TypeTable};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

use probity_kernel::{Loaded, System, can_bpf, load};

/// Where the x86-64 `pt_regs` keeps a DWARF register.
const PT_REGS: [i16; 17] = [80, 96, 88, 40, 104, 112, 32, 152, 72, 64, 56, 48, 24, 16, 8, 0, 128];

/// How many probes can be told apart.
const PROBES: u32 = 4096;

/// A loaded and attached counter.
pub struct Counter {
    pub attachment: Attachment,
    loaded: Loaded,
}

impl Counter {
    /// Attaches a counter to all probes that match `pattern`, for one thread only if `only` says which; it keeps the value at the place
    /// that `pick` finds in the signature.
    pub fn attach(
        provider: &dyn Provider,
        sys: &System,
        pattern: [&str; 4],
        only: Option<u32>,
        pick: fn(&Signature) -> Option<Location>,
    ) -> Counter {
        let [p, m, f, n] = pattern;
        let mut probes = Vec::new();
        provider.probes(sys, &ProbeDesc::new(p, m, f, n), &mut |desc| probes.push(desc)).unwrap();
        assert!(!probes.is_empty(), "nothing matches {pattern:?}");
        let signature = provider.signature(sys, &probes[0], false, &mut TypeTable::default()).unwrap();
        for probe in &probes {
            let other = provider.signature(sys, probe, false, &mut TypeTable::default()).unwrap();
            assert_eq!(
                (&other.prog, &other.phase, &other.group, &other.selector),
                (&signature.prog, &signature.phase, &signature.group, &signature.selector)
            );
        }
        let loaded = load(&counting(&signature, only, pick(&signature).as_ref())).unwrap_or_else(|error| {
            panic!("{error}\n{}", error.verifier_log().unwrap_or("no log"));
        });
        let probes: Vec<_> = probes.into_iter().enumerate().map(|(n, probe)| (n as u32, probe)).collect();
        let attachment = provider.attach(sys, &probes, &loaded.progs[0]).unwrap();
        Counter { attachment, loaded }
    }

    /// How often the probe with this index fired, and its last value.
    pub fn get(&self, index: u32) -> (u64, u64) {
        let value = self.loaded.maps[0].lookup(&index.to_ne_bytes()).unwrap().unwrap();
        let word = |at: usize| u64::from_ne_bytes(value[at..at + 8].try_into().unwrap());
        (word(0), word(8))
    }
}

/// A shell that runs commands inside its own process: a target whose C library's calls are known.
pub struct Shell {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Shell {
    pub fn start() -> Shell {
        let mut command = Command::new("sh");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut shell = Shell { child, output };
        shell.run(":");
        shell
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Runs a line of built-in commands to its end.
    pub fn run(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}\necho done").unwrap();
        let mut answer = String::new();
        self.output.read_line(&mut answer).unwrap();
        assert_eq!(answer, "done\n");
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns whether live tests can run, and says so if not.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
pub fn live() -> bool {
    if !can_bpf() {
        eprintln!("skipped: loading programs is not permitted here");
    }
    can_bpf()
}

/// The calling thread's number.
pub fn this_thread() -> u32 {
    let link = std::fs::read_link("/proc/thread-self").unwrap();
    link.file_name().unwrap().to_str().unwrap().parse().unwrap()
}

fn counting(signature: &Signature, only: Option<u32>, value: Option<&Location>) -> Object {
    let mut a = Asm::new();
    let out = a.label();
    a.emit(Insn::mov64(R6, R1));
    if let Some(thread) = only {
        a.emit(Insn::call(Helper::GetCurrentPidTgid));
        a.emit(Insn::mov32(R0, R0));
        a.jmp64(Cond::Ne, R0, thread as i32, out);
    }
    match &signature.selector {
        Selector::One => a.emit(Insn::mov64(R7, 0)),
        Selector::Cookie => {
            a.emit(Insn::mov64(R1, R6));
            a.emit(Insn::call(Helper::GetAttachCookie));
            a.emit(Insn::mov64(R7, R0));
        }
        Selector::Syscall { number, compat, limit } => {
            lower(&mut a, number, R7, out);
            a.jmp64(Cond::Ge, R7, probity_ir::COMPAT_BASE as i32, out);
            if let Some((word, mask)) = compat {
                let native = a.label();
                lower(&mut a, word, R8, out);
                a.emit(Insn::alu64(AluOp::And, R8, *mask as i32));
                a.jmp64(Cond::Eq, R8, 0, native);
                a.emit(Insn::add64(R7, probity_ir::COMPAT_BASE as i32));
                a.bind(native);
            }
            a.jmp64(Cond::Ge, R7, *limit as i32, out);
        }
    }
    a.emit(Insn::mov64(R8, 0));
    if let Some(value) = value {
        lower(&mut a, value, R8, out);
    }
    a.emit(Insn::stx(Size::W, R10, -4, R7));
    a.emit(Insn::ld_map_fd(R1, 0));
    a.emit(Insn::mov64(R2, R10));
    a.emit(Insn::add64(R2, -4));
    a.emit(Insn::call(Helper::MapLookupElem));
    a.jmp64(Cond::Eq, R0, 0, out);
    a.emit(Insn::mov64(R1, 1));
    a.emit(Insn::atomic(AtomicOp::Add, probity_bpf::Width::W64, R0, 0, R1));
    a.emit(Insn::stx(Size::DW, R0, 8, R8));
    a.bind(out);
    a.emit(Insn::mov64(R0, 0));
    a.emit(Insn::exit());
    let ProgKind { prog_type, attach_type, btf_id, sleepable, .. } = signature.prog;
    let prog_type = match prog_type {
        2 => ProgType::Kprobe,
        5 => ProgType::Tracepoint,
        7 => ProgType::PerfEvent,
        17 => ProgType::RawTracepoint,
        26 => ProgType::Tracing,
        other => panic!("program type {other}"),
    };
    let mut prog = ProgSpec::new("counting", prog_type, a.finish().unwrap().insns);
    prog.attach_type = (attach_type != 0).then_some(attach_type);
    prog.attach_btf_id = (btf_id != 0).then_some(btf_id);
    prog.sleepable = sleepable;
    Object { maps: vec![MapSpec::new("hits", MapKind::Array, 4, 16, PROBES)], progs: vec![prog] }
}

fn lower(a: &mut Asm, location: &Location, dst: Reg, out: probity_bpf::Label) {
    match location {
        Location::Ctx { offset, size, .. } => {
            a.emit(Insn::ldx(Size::from_bytes(usize::from(*size)).unwrap(), dst, R6, *offset as i16));
        }
        Location::Reg { dwarf } => a.emit(Insn::ldx(Size::DW, dst, R6, PT_REGS[usize::from(*dwarf)])),
        Location::Pc { .. } => a.emit(Insn::ldx(Size::DW, dst, R6, 128)),
        Location::Btf { base, offset, size, .. } => {
            lower(a, base, dst, out);
            a.emit(Insn::ldx(Size::from_bytes(usize::from(*size)).unwrap(), dst, dst, *offset as i16));
        }
        Location::Narrow { of, .. } => lower(a, of, dst, out),
        Location::CurrentTask => {
            a.emit(Insn::call(Helper::GetCurrentTaskBtf));
            a.emit(Insn::mov64(dst, R0));
        }
        Location::CtxAddress { offset } => {
            a.emit(Insn::mov64(dst, R6));
            a.emit(Insn::add64(dst, *offset as i32));
        }
        Location::DataLoc { offset } => {
            a.emit(Insn::ldx(Size::W, dst, R6, *offset as i16));
            a.emit(Insn::alu64(AluOp::And, dst, 0xffff));
            a.emit(Insn::alu64(AluOp::Add, dst, R6));
        }
        Location::Memory { base, offset, size, space, .. } => {
            a.emit(Insn::st(Size::DW, R10, -16, 0));
            lower(a, base, R3, out);
            a.emit(Insn::add64(R3, *offset as i32));
            a.emit(Insn::mov64(R1, R10));
            a.emit(Insn::add64(R1, -16));
            a.emit(Insn::mov64(R2, i32::from(*size)));
            let user = *space == Space::User;
            a.emit(Insn::call(if user { Helper::ProbeReadUser } else { Helper::ProbeReadKernel }));
            a.jmp64(Cond::Ne, R0, 0, out);
            a.emit(Insn::ldx(Size::DW, dst, R10, -16));
        }
        other => panic!("{other:?}"),
    }
}
