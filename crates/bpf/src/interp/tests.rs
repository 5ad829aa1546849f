//! Whole programs on the machine: instructions, memory, maps, rings, helpers, interruption.

use super::*;
use crate::asm::Asm;
use crate::insn::{AluOp, Cond, R1, R2, R3, R4, R5, R6, R7, R8};
use crate::object::{MapKind, MapSpec, map_flags};
use std::collections::VecDeque;

fn prog(insns: Vec<Insn>) -> ProgSpec {
    ProgSpec::new("p", ProgType::RawTracepoint, insns)
}

fn assembled(asm: Asm) -> ProgSpec {
    prog(asm.finish().unwrap().insns)
}

fn machine(maps: Vec<MapSpec>) -> Machine {
    Machine::new(&Object { maps, progs: Vec::new() })
}

/// Runs a piece of code without maps; r0 is the result.
fn eval(insns: &[&[Insn]]) -> Result<u64, FaultKind> {
    let mut insns = insns.concat();
    insns.push(Insn::exit());
    machine(Vec::new()).run(&prog(insns), &mut [0; 16]).map(|o| o.r0).map_err(|f| f.kind)
}

fn u64_at(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().unwrap())
}

/// `helper(map 0, fp-8, …)` with the key stored at fp-8 and the value at fp-16.
fn map_call(helper: Helper, key: i32, value: i32, flags: i32) -> ProgSpec {
    let mut a = Asm::new();
    a.emit(Insn::st(Size::DW, R10, -8, key));
    a.emit(Insn::st(Size::DW, R10, -16, value));
    a.emit(Insn::ld_map_fd(R1, 0));
    a.emit(Insn::mov64(R2, R10));
    a.emit(Insn::add64(R2, -8));
    a.emit(Insn::mov64(R3, R10));
    a.emit(Insn::add64(R3, -16));
    a.emit(Insn::mov64(R4, flags));
    a.emit(Insn::call(helper));
    a.emit(Insn::exit());
    assembled(a)
}

fn result(machine: &mut Machine, prog: &ProgSpec) -> i64 {
    machine.run(prog, &mut [0; 8]).unwrap().r0 as i64
}

#[test]
fn immediates_are_sign_extended_and_32_bits_zero_extend() {
    assert_eq!(eval(&[&[Insn::mov64(R0, -1)]]), Ok(u64::MAX));
    assert_eq!(eval(&[&[Insn::mov32(R0, -1)]]), Ok(0xffff_ffff));
    assert_eq!(eval(&[&Insn::ld_imm64(R0, u64::MAX), &[Insn::alu32(AluOp::Add, R0, 1)]]), Ok(0));
    assert_eq!(eval(&[&[Insn::mov64(R0, 5), Insn::neg(Width::W32, R0)]]), Ok(0xffff_fffb));
    assert_eq!(eval(&[&[Insn::mov64(R2, 0x80), Insn::movsx(Width::W32, R0, R2, 8)]]), Ok(0xffff_ff80));
    assert_eq!(eval(&[&[Insn::mov64(R0, -1), Insn::alu64(AluOp::Div, R0, -1)]]), Ok(1));
    assert_eq!(eval(&[&[Insn::mov64(R0, 0x1234), Insn::to_be(R0, 16)]]), Ok(0x3412));
}

#[test]
fn comparisons_take_the_width_they_say() {
    let taken = |jump: Insn| eval(&[&Insn::ld_imm64(R1, 1 << 32), &[Insn::mov64(R0, 1), jump, Insn::mov64(R0, 0)]]);
    assert_eq!(taken(Insn::jmp(Cond::Eq, Width::W32, R1, 0, 1)), Ok(1));
    assert_eq!(taken(Insn::jmp(Cond::Eq, Width::W64, R1, 0, 1)), Ok(0));
    assert_eq!(taken(Insn::jmp(Cond::Lt, Width::W64, R1, -1, 1)), Ok(1));
    assert_eq!(taken(Insn::jmp(Cond::Slt, Width::W64, R1, -1, 1)), Ok(0));
}

#[test]
fn loads_and_stores_keep_width_and_sign() {
    let minus2 = Insn::st(Size::DW, R10, -8, -2);
    assert_eq!(eval(&[&[minus2, Insn::ldx(Size::H, R0, R10, -8)]]), Ok(0xfffe));
    assert_eq!(eval(&[&[minus2, Insn::ldxs(Size::H, R0, R10, -8)]]), Ok(-2i64 as u64));
    assert_eq!(eval(&[&[minus2, Insn::st(Size::B, R10, -7, 0), Insn::ldx(Size::W, R0, R10, -8)]]), Ok(0xffff_00fe));
}

#[test]
fn atomics_return_the_old_value_where_they_fetch() {
    let run = |op, width, old: i32, src: i32, r0: i32| {
        let code = [
            Insn::st(Size::DW, R10, -8, old),
            Insn::mov64(R1, src),
            Insn::mov64(R0, r0),
            Insn::atomic(op, width, R10, -8, R1),
        ];
        let memory = eval(&[&code, &[Insn::ldx(Size::DW, R0, R10, -8)]]).unwrap();
        let src = eval(&[&code, &[Insn::mov64(R0, R1)]]).unwrap();
        (memory as i64, src as i64, eval(&[&code]).unwrap() as i64)
    };
    use Width::{W32, W64};
    assert_eq!(run(AtomicOp::Add, W64, 40, 2, 9), (42, 2, 9));
    assert_eq!(run(AtomicOp::FetchAdd, W64, 40, 2, 9), (42, 40, 9));
    // 32 bits: the upper half in memory stays, the old value is zero-extended.
    assert_eq!(run(AtomicOp::FetchAdd, W32, -1, 1, 9), (-1 << 32, 0xffff_ffff, 9));
    assert_eq!(run(AtomicOp::FetchOr, W64, 1, 2, 9), (3, 1, 9));
    assert_eq!(run(AtomicOp::FetchAnd, W64, 3, 2, 9), (2, 3, 9));
    assert_eq!(run(AtomicOp::Xor, W64, 3, 2, 9), (1, 2, 9));
    assert_eq!(run(AtomicOp::Xchg, W64, 3, 2, 9), (2, 3, 9));
    assert_eq!(run(AtomicOp::Cmpxchg, W64, 3, 2, 3), (2, 2, 3));
    assert_eq!(run(AtomicOp::Cmpxchg, W64, 3, 2, 4), (3, 2, 3));
    assert_eq!(run(AtomicOp::Cmpxchg, W32, -1, 0, -1), (-1 << 32, 0, 0xffff_ffff));
}

#[test]
fn wrong_accesses_are_faults() {
    let r10 = |off| Insn::ldx(Size::DW, R0, R10, off);
    assert!(matches!(eval(&[&[r10(-8)]]), Err(FaultKind::UninitStack { .. })));
    assert!(matches!(eval(&[&[r10(0)]]), Err(FaultKind::BadAddress { .. })));
    assert!(matches!(eval(&[&[r10(-520)]]), Err(FaultKind::BadAddress { .. })));
    assert!(matches!(eval(&[&[Insn::st(Size::DW, R10, -12, 0)]]), Err(FaultKind::Misaligned { .. })));
    assert!(matches!(eval(&[&[Insn::st(Size::DW, R1, 0, 0)]]), Err(FaultKind::ReadOnly { .. })));
    assert!(matches!(eval(&[&[Insn::ldx(Size::DW, R0, R1, 16)]]), Err(FaultKind::BadAddress { .. })));
    let null = [Insn::mov64(R2, 0), Insn::ldx(Size::DW, R0, R2, 8)];
    assert_eq!(eval(&[&null]), Err(FaultKind::NullPointer { addr: 8 }));
    assert_eq!(eval(&[&[Insn::mov64(R0, R3)]]), Err(FaultKind::UninitRegister(R3)));
    assert_eq!(eval(&[&[Insn::mov64(R10, 0)]]), Err(FaultKind::FramePointerWrite));
    assert_eq!(eval(&[&[Insn::call(12u32)]]), Err(FaultKind::UninitRegister(R2)));
    assert_eq!(eval(&[&[Insn::ja(-1)]]), Err(FaultKind::Budget));
    assert_eq!(eval(&[&[Insn::ja(7)]]), Err(FaultKind::Decode(DecodeError::OutOfRange)));
    let fault = machine(Vec::new()).run(&prog(vec![Insn::mov64(R0, 0), Insn::mov64(R0, R9)]), &mut []);
    assert_eq!(fault, Err(Fault { pc: 1, kind: FaultKind::UninitRegister(R9) }));
}

const R9: Reg = Reg(9);

#[test]
fn subprograms_have_frames_and_keep_the_callers_registers() {
    let mut a = Asm::new();
    let sub = a.label();
    a.emit(Insn::mov64(R6, 100));
    a.emit(Insn::st(Size::DW, R10, -8, 1));
    a.emit(Insn::mov64(R1, R10));
    a.emit(Insn::mov64(R2, 5));
    a.call_sub(sub);
    a.emit(Insn::alu64(AluOp::Add, R0, R6));
    a.emit(Insn::ldx(Size::DW, R1, R10, -8));
    a.emit(Insn::alu64(AluOp::Add, R0, R1));
    a.emit(Insn::exit());
    a.bind(sub);
    a.emit(Insn::mov64(R6, 7));
    a.emit(Insn::st(Size::DW, R10, -8, 9));
    a.emit(Insn::stx(Size::DW, R1, -8, R2));
    a.emit(Insn::mov64(R0, R6));
    a.emit(Insn::exit());
    assert_eq!(result(&mut machine(Vec::new()), &assembled(a)), 7 + 100 + 5);
    // Endless recursion meets the limit of frames, not ours.
    assert_eq!(eval(&[&[Insn::call_sub(-1)]]), Err(FaultKind::TooDeep));
}

#[test]
fn hash_flags_and_capacity() {
    for flags in [0, map_flags::NO_PREALLOC] {
        let mut spec = MapSpec::new("h", MapKind::Hash, 8, 8, 2);
        spec.flags = flags;
        let m = &mut machine(vec![spec]);
        let mut update = |key, value, flags| result(m, &map_call(Helper::MapUpdateElem, key, value, flags));
        assert_eq!(update(1, 10, 2), errno::ENOENT);
        assert_eq!(update(1, 10, 1), 0);
        assert_eq!(update(1, 11, 1), errno::EEXIST);
        assert_eq!(update(1, 12, 2), 0);
        assert_eq!(update(2, 20, 0), 0);
        assert_eq!(update(3, 30, 0), errno::E2BIG);
        assert_eq!(update(2, 21, 0), 0);
        assert_eq!(update(2, 21, 3), errno::EINVAL);
        let delete = |m: &mut Machine, key| result(m, &map_call(Helper::MapDeleteElem, key, 0, 0));
        assert_eq!(delete(m, 9), errno::ENOENT);
        assert_eq!(m.map_lookup(0, &1u64.to_le_bytes()), Some(12u64.to_le_bytes().to_vec()));
        assert_eq!(delete(m, 1), 0);
        assert_eq!(m.map_keys(0), [2u64.to_le_bytes()]);
        assert_eq!(result(m, &map_call(Helper::MapLookupElem, 1, 0, 0)), 0);
        assert_eq!(result(m, &map_call(Helper::MapUpdateElem, 3, 30, 0)), 0);
        assert_eq!(m.map_entries(0).len(), 2);
    }
}

#[test]
fn arrays_exist_and_cannot_be_deleted() {
    let mut spec = MapSpec::new("a", MapKind::Array, 4, 8, 2);
    spec.data = Some([3u64.to_le_bytes(), 4u64.to_le_bytes()].concat());
    let m = &mut machine(vec![spec]);
    assert_eq!(m.map_lookup(0, &1u32.to_le_bytes()), Some(4u64.to_le_bytes().to_vec()));
    assert_eq!(result(m, &map_call(Helper::MapUpdateElem, 1, 9, 1)), errno::EEXIST);
    assert_eq!(result(m, &map_call(Helper::MapUpdateElem, 1, 9, 2)), 0);
    assert_eq!(result(m, &map_call(Helper::MapUpdateElem, 2, 9, 0)), errno::E2BIG);
    assert_eq!(result(m, &map_call(Helper::MapDeleteElem, 1, 0, 0)), errno::EINVAL);
    assert_eq!(result(m, &map_call(Helper::MapLookupElem, 2, 0, 0)), 0);
    assert_eq!(m.map_lookup(0, &1u32.to_le_bytes()), Some(9u64.to_le_bytes().to_vec()));
}

#[test]
fn percpu_values_are_apart() {
    for kind in [MapKind::PercpuArray, MapKind::PercpuHash] {
        let m = &mut machine(vec![MapSpec::new("p", kind, 4, 4, 4)]);
        m.env.cpu = 1;
        assert_eq!(result(m, &map_call(Helper::MapUpdateElem, 2, 7, 0)), 0);
        let both = m.map_lookup(0, &2u32.to_le_bytes()).unwrap();
        assert_eq!(both, [[0; 8], [7, 0, 0, 0, 0, 0, 0, 0]].concat());
        m.env.cpu = 0;
        assert_eq!(result(m, &map_call(Helper::MapUpdateElem, 2, 5, 0)), 0);
        assert_eq!(m.map_lookup(0, &2u32.to_le_bytes()).unwrap()[..9], [5, 0, 0, 0, 0, 0, 0, 0, 7]);
        m.map_update(0, &2u32.to_le_bytes(), &[[1u8; 8], [2u8; 8]].concat(), 0).unwrap();
        assert_eq!(m.map_lookup(0, &2u32.to_le_bytes()).unwrap()[..9], [1, 1, 1, 1, 0, 0, 0, 0, 2]);
    }
}

#[test]
fn a_full_lru_hash_evicts() {
    let m = &mut machine(vec![MapSpec::new("l", MapKind::LruHash, 8, 8, 2)]);
    for key in 1..=3 {
        assert_eq!(result(m, &map_call(Helper::MapUpdateElem, key, 0, 0)), 0);
    }
    assert_eq!(m.map_keys(0), [2u64.to_le_bytes(), 3u64.to_le_bytes()]);
}

#[test]
fn a_replaced_value_is_still_seen_by_its_old_pointer() {
    let mut a = Asm::new();
    let miss = a.label();
    a.emit(Insn::st(Size::DW, R10, -8, 1));
    a.emit(Insn::st(Size::DW, R10, -16, 99));
    for helper in [Helper::MapLookupElem, Helper::MapUpdateElem] {
        a.emit(Insn::ld_map_fd(R1, 0));
        a.emit(Insn::mov64(R2, R10));
        a.emit(Insn::add64(R2, -8));
        a.emit(Insn::mov64(R3, R10));
        a.emit(Insn::add64(R3, -16));
        a.emit(Insn::mov64(R4, 0));
        a.emit(Insn::call(helper));
        if helper == Helper::MapLookupElem {
            a.jmp64(Cond::Eq, R0, 0, miss);
            a.emit(Insn::mov64(R6, R0));
        }
    }
    a.emit(Insn::ldx(Size::DW, R0, R6, 0));
    a.emit(Insn::exit());
    a.bind(miss);
    a.emit(Insn::mov64(R0, -1));
    a.emit(Insn::exit());
    let m = &mut machine(vec![MapSpec::new("h", MapKind::Hash, 8, 8, 4)]);
    m.map_update(0, &1u64.to_le_bytes(), &5u64.to_le_bytes(), 0).unwrap();
    let p = assembled(a);
    assert_eq!(result(m, &p), 5);
    assert_eq!(result(m, &p), 99);
}

#[test]
fn running_over_a_value_does_not_reach_its_neighbour() {
    let mut p = map_call(Helper::MapLookupElem, 0, 0, 0);
    p.insns.pop();
    p.insns.extend([Insn::ldx(Size::DW, R0, R0, 8), Insn::exit()]);
    let m = &mut machine(vec![MapSpec::new("a", MapKind::Array, 4, 8, 4)]);
    assert!(matches!(m.run(&p, &mut []), Err(Fault { pc: 10, kind: FaultKind::BadAddress { .. } })));
}

#[test]
fn global_data_is_addressed_directly() {
    let mut constant = MapSpec::global("c", 7u64.to_le_bytes().to_vec());
    constant.flags = map_flags::RDONLY_PROG;
    constant.frozen = true;
    let m = &mut machine(vec![MapSpec::global("g", vec![0; 16]), constant]);
    let mut a = Asm::new();
    a.emit(Insn::ld_map_value(R1, 0, 8));
    a.emit(Insn::ld_map_value(R2, 1, 0));
    a.emit(Insn::ldx(Size::DW, R0, R2, 0));
    a.emit(Insn::atomic(AtomicOp::Add, Width::W64, R1, 0, R0));
    a.emit(Insn::exit());
    let p = assembled(a);
    m.run(&p, &mut []).unwrap();
    m.run(&p, &mut []).unwrap();
    assert_eq!(u64_at(&m.map_lookup(0, &[0; 4]).unwrap()[8..]), 14);
    assert_eq!(m.map_update(1, &[0; 4], &[0; 8], 0), Err(errno::EPERM));
    let write = [&Insn::ld_map_value(R1, 1, 0)[..], &[Insn::st(Size::B, R1, 0, 0)]].concat();
    assert!(matches!(m.run(&prog(write), &mut []), Err(Fault { kind: FaultKind::ReadOnly { .. }, .. })));
    let outside = Insn::ld_map_value(R1, 1, 8).to_vec();
    assert!(matches!(m.run(&prog(outside), &mut []), Err(Fault { kind: FaultKind::NoSuchMap(1), .. })));
}

/// Reserves `len` bytes in ring 0, stores r9 there and ends the record by `end`; r0 is whether there was room.
fn ring_prog(len: i32, end: Option<Helper>) -> ProgSpec {
    let mut a = Asm::new();
    let full = a.label();
    a.emit(Insn::ld_map_fd(R1, 0));
    a.emit(Insn::mov64(R2, len));
    a.emit(Insn::mov64(R3, 0));
    a.emit(Insn::call(Helper::RingbufReserve));
    a.emit(Insn::mov64(R6, R0));
    a.emit(Insn::mov64(R0, 0));
    a.jmp64(Cond::Eq, R6, 0, full);
    a.emit(Insn::st(Size::DW, R6, 0, 77));
    if let Some(end) = end {
        a.emit(Insn::mov64(R1, R6));
        a.emit(Insn::mov64(R2, 0));
        a.emit(Insn::call(end));
    }
    a.emit(Insn::mov64(R0, 1));
    a.bind(full);
    a.emit(Insn::exit());
    assembled(a)
}

#[test]
fn a_ring_is_full_before_its_last_byte() {
    let m = &mut machine(vec![MapSpec::ringbuf("r", 64)]);
    let p = ring_prog(8, Some(Helper::RingbufSubmit));
    assert_eq!((0..5).map(|_| result(m, &p)).sum::<i64>(), 3);
    let records = m.take_records(0);
    assert_eq!(records.len(), 3);
    assert_eq!(u64_at(&records[0]), 77);
    assert_eq!(result(m, &ring_prog(56, Some(Helper::RingbufSubmit))), 0);
    assert_eq!(result(m, &ring_prog(48, Some(Helper::RingbufDiscard))), 1);
    assert_eq!(result(m, &p), 0);
    assert!(m.take_records(0).is_empty());
    assert_eq!(result(m, &p), 1);
    assert!(matches!(m.run(&ring_prog(8, None), &mut []), Err(Fault { kind: FaultKind::RecordKept, .. })));
}

#[test]
fn records_wait_for_an_earlier_one_that_is_not_committed() {
    let m = &mut machine(vec![MapSpec::ringbuf("r", 4096)]);
    let (outer, inner) = (ring_prog(16, Some(Helper::RingbufSubmit)), ring_prog(8, Some(Helper::RingbufSubmit)));
    let mut seen = Vec::new();
    // The inner program runs while the outer one holds a record.
    let outcome = m.run_hooked(&outer, &mut [], &mut |m, step| {
        if step == 7 {
            assert_eq!(m.run(&inner, &mut []).unwrap().r0, 1);
            seen = m.take_records(0);
        }
    });
    assert_eq!(outcome.unwrap().r0, 1);
    assert!(seen.is_empty());
    assert_eq!(m.take_records(0).iter().map(Vec::len).collect::<Vec<_>>(), [16, 8]);
}

#[test]
fn a_map_of_maps_gives_inner_maps() {
    let mut outer = MapSpec::new("rings", MapKind::ArrayOfMaps, 4, 4, 2);
    outer.inner = Some(Box::new(MapSpec::ringbuf("ring", 4096)));
    outer.inner_count = 2;
    let mut p = map_call(Helper::MapLookupElem, 1, 55, 0);
    p.insns.pop();
    p.insns.extend([
        Insn::mov64(R1, R0),
        Insn::mov64(R2, R10),
        Insn::add64(R2, -16),
        Insn::mov64(R3, 8),
        Insn::mov64(R4, 0),
        Insn::call(Helper::RingbufOutput),
        Insn::exit(),
    ]);
    let m = &mut machine(vec![outer, MapSpec::global("g", vec![1])]);
    assert_eq!(result(m, &p), 0);
    let ring = m.inner_map(0, &1u32.to_le_bytes()).unwrap();
    assert_eq!(m.take_records(ring), [55u64.to_le_bytes()]);
    assert_eq!(m.map_lookup(1, &[0; 4]), Some(vec![1]));
}

#[test]
fn task_storage_is_made_on_demand() {
    let storage = |flags: i32| {
        let mut a = Asm::new();
        let none = a.label();
        a.emit(Insn::call(Helper::GetCurrentTaskBtf));
        a.emit(Insn::mov64(R2, R0));
        a.emit(Insn::ld_map_fd(R1, 0));
        a.emit(Insn::mov64(R3, 0));
        a.emit(Insn::mov64(R4, flags));
        a.emit(Insn::call(Helper::TaskStorageGet));
        a.jmp64(Cond::Eq, R0, 0, none);
        a.emit(Insn::mov64(R1, 1));
        a.emit(Insn::atomic(AtomicOp::FetchAdd, Width::W64, R0, 0, R1));
        a.emit(Insn::mov64(R0, R1));
        a.emit(Insn::exit());
        a.bind(none);
        a.emit(Insn::mov64(R0, -1));
        a.emit(Insn::exit());
        assembled(a)
    };
    let m = &mut machine(vec![MapSpec::task_storage("t", 16)]);
    m.env.task_storage_limit = 1;
    assert_eq!(result(m, &storage(0)), -1);
    assert_eq!(result(m, &storage(1)), 0);
    assert_eq!(result(m, &storage(0)), 1);
    let task = m.env.current_task.to_le_bytes();
    assert_eq!(u64_at(&m.map_lookup(0, &task).unwrap()), 2);
    m.env.current_task += 4096;
    assert_eq!(result(m, &storage(1)), -1);
    m.env.forced.insert(Helper::TaskStorageGet.id(), VecDeque::from([0]));
    m.env.current_task -= 4096;
    assert_eq!(result(m, &storage(1)), -1);
    assert_eq!(result(m, &storage(1)), 2);
}

#[test]
fn typed_pointers_read_kernel_memory_and_zero_where_there_is_none() {
    let mut code = vec![Insn::call(Helper::GetCurrentTaskBtf), Insn::stx(Size::DW, R10, -8, R0)];
    code.extend([Insn::ldx(Size::DW, R6, R10, -8), Insn::ldx(Size::DW, R7, R6, 16), Insn::ldx(Size::W, R8, R7, 4)]);
    code.extend([Insn::mov64(R0, R8), Insn::exit()]);
    let m = &mut machine(Vec::new());
    let (task, parent) = (m.env.current_task, 0xffff_8880_0200_0000u64);
    assert_eq!(result(m, &prog(code.clone())), 0);
    m.env.kernel.map(task, [[0; 16].as_slice(), &parent.to_le_bytes()].concat());
    m.env.kernel.map(parent, [1, 2, 3, 4, 9, 0, 0, 0]);
    assert_eq!(result(m, &prog(code.clone())), 9);
    // The untyped sibling gives a number, which cannot be dereferenced.
    code[0] = Insn::call(Helper::GetCurrentTask);
    assert!(matches!(m.run(&prog(code), &mut []), Err(Fault { pc: 3, kind: FaultKind::BadAddress { .. } })));
}

/// Calls a probe read of `len` bytes from `addr` into fp-32, which is filled with 0x11 before; result and bytes.
fn probe_read(m: &mut Machine, helper: Helper, addr: u64, len: i32) -> (i64, Vec<u8>) {
    let mut a = Asm::new();
    for off in [-32, -24, -16, -8] {
        a.emit(Insn::st(Size::DW, R10, off, 0x1111_1111));
        a.emit(Insn::st(Size::W, R10, off + 4, 0x1111_1111));
    }
    a.emit(Insn::mov64(R1, R10));
    a.emit(Insn::add64(R1, -32));
    a.emit(Insn::mov64(R2, len));
    a.emit(Insn::ld_imm64(R3, addr));
    a.emit(Insn::call(helper));
    a.emit(Insn::mov64(R6, R0));
    for (i, off) in [-32i16, -24, -16, -8].into_iter().enumerate() {
        a.emit(Insn::ldx(Size::DW, R7, R10, off));
        a.emit(Insn::ld_map_value(R8, 0, 8 * i as u32));
        a.emit(Insn::stx(Size::DW, R8, 0, R7));
    }
    a.emit(Insn::mov64(R0, R6));
    a.emit(Insn::exit());
    let r0 = result(m, &assembled(a));
    (r0, m.map_lookup(0, &[0; 4]).unwrap())
}

#[test]
fn probe_reads_fail_as_the_kernels_do() {
    let m = &mut machine(vec![MapSpec::global("out", vec![0; 32])]);
    m.env.user.map(0x1000, *b"hello\0world, this is long");
    m.env.user.map_absent(0x9000, *b"absent\0\0");
    m.env.kernel.map(0xffff_8880_0000_0000, *b"kernel\0!");
    let mut read = |helper, addr, len| probe_read(m, helper, addr, len);
    use Helper::{CopyFromUser, ProbeReadKernel, ProbeReadKernelStr, ProbeReadUser, ProbeReadUserStr};

    assert_eq!(read(ProbeReadUser, 0x1000, 5), (0, [&b"hello"[..], &[0x11; 27]].concat()));
    let (r0, bytes) = read(ProbeReadUser, 0x1000 + 20, 8);
    assert_eq!((r0, &bytes[..9]), (errno::EFAULT, &[0, 0, 0, 0, 0, 0, 0, 0, 0x11][..]));
    assert_eq!(read(ProbeReadUser, 0x9000, 6).0, errno::EFAULT);
    assert_eq!(read(CopyFromUser, 0x9000, 6).1[..7], *b"absent\x11");
    assert_eq!(read(ProbeReadKernel, 0x1000, 4).0, errno::ERANGE);
    assert_eq!(read(ProbeReadKernel, 0xffff_8880_0000_0004, 8).0, errno::EFAULT);
    assert_eq!(read(ProbeReadKernel, 0xffff_8880_0000_0000, 8).1[..8], *b"kernel\0!");

    // User strings come by words, kernel strings by bytes.
    let (r0, bytes) = read(ProbeReadUserStr, 0x1000, 16);
    assert_eq!((r0, &bytes[..9]), (6, &b"hello\0\0\0\x11"[..]));
    let (r0, bytes) = read(ProbeReadKernelStr, 0xffff_8880_0000_0000, 16);
    assert_eq!((r0, &bytes[..8]), (7, &b"kernel\0\x11"[..]));
    let (r0, bytes) = read(ProbeReadUserStr, 0x1006, 6);
    assert_eq!((r0, &bytes[..7]), (6, &b"world\0\x11"[..]));
    let (r0, bytes) = read(ProbeReadUserStr, 0x1006, 32);
    assert_eq!((r0, bytes), (errno::EFAULT, vec![0; 32]));
    assert_eq!(read(ProbeReadUserStr, 0, 4).0, errno::EFAULT);
    assert_eq!(read(ProbeReadUserStr, 0, 0).0, 0);
}

#[test]
fn comm_is_cut_terminated_and_padded() {
    let m = &mut machine(vec![MapSpec::global("out", vec![0; 32])]);
    m.env.comm = *b"long-name-here\0x";
    let mut comm = |len| {
        let mut a = Asm::new();
        a.emit(Insn::ld_map_value(R1, 0, 0));
        a.emit(Insn::mov64(R2, len));
        a.emit(Insn::call(Helper::GetCurrentComm));
        a.emit(Insn::exit());
        assert_eq!(result(m, &assembled(a)), 0);
        m.map_lookup(0, &[0; 4]).unwrap()
    };
    assert_eq!(comm(16)[..16], *b"long-name-here\0\0");
    assert_eq!(comm(5)[..6], *b"long\0n");
}

#[test]
fn loops_call_back() {
    let mut a = Asm::new();
    let body = a.label();
    a.emit(Insn::st(Size::DW, R10, -8, 0));
    a.emit(Insn::mov64(R1, 10));
    a.ld_func(R2, body);
    a.emit(Insn::mov64(R3, R10));
    a.emit(Insn::add64(R3, -8));
    a.emit(Insn::mov64(R4, 0));
    a.emit(Insn::call(Helper::Loop));
    a.emit(Insn::ldx(Size::DW, R1, R10, -8));
    a.emit(Insn::alu64(AluOp::Lsh, R0, 32));
    a.emit(Insn::alu64(AluOp::Or, R0, R1));
    a.emit(Insn::exit());
    a.bind(body);
    a.emit(Insn::ldx(Size::DW, R3, R2, 0));
    a.emit(Insn::alu64(AluOp::Add, R3, R1));
    a.emit(Insn::stx(Size::DW, R2, 0, R3));
    a.emit(Insn::mov64(R0, 0));
    let go_on = a.label();
    a.jmp64(Cond::Lt, R1, 4, go_on);
    a.emit(Insn::mov64(R0, 1));
    a.bind(go_on);
    a.emit(Insn::exit());
    // Indexes 0 to 4, five calls.
    assert_eq!(result(&mut machine(Vec::new()), &assembled(a)), 5 << 32 | 10);
}

#[test]
fn every_element_is_called_for() {
    let mut a = Asm::new();
    let body = a.label();
    a.emit(Insn::ld_map_fd(R1, 0));
    a.ld_func(R2, body);
    a.emit(Insn::mov64(R3, 0));
    a.emit(Insn::mov64(R4, 0));
    a.emit(Insn::call(Helper::ForEachMapElem));
    a.emit(Insn::exit());
    a.bind(body);
    a.emit(Insn::ldx(Size::DW, R5, R2, 0));
    a.emit(Insn::stx(Size::DW, R3, 0, R5));
    a.emit(Insn::mov64(R0, 0));
    a.emit(Insn::exit());
    let m = &mut machine(vec![MapSpec::new("h", MapKind::Hash, 8, 8, 4)]);
    for key in 1..4u64 {
        m.map_update(0, &key.to_le_bytes(), &[0; 8], 0).unwrap();
    }
    assert_eq!(result(m, &assembled(a)), 3);
    assert!(m.map_entries(0).iter().all(|(key, value)| key == value));
}

#[test]
fn stacks_are_copied_and_named() {
    let m = &mut machine(vec![MapSpec::new("s", MapKind::StackTrace, 4, 32, 64)]);
    m.env.user_stack = vec![1, 2, 3];
    let ids = |m: &mut Machine, flags| {
        let mut a = Asm::new();
        a.emit(Insn::ld_map_fd(R2, 0));
        a.emit(Insn::mov64(R3, flags));
        a.emit(Insn::call(Helper::GetStackid));
        a.emit(Insn::exit());
        result(m, &assembled(a))
    };
    let id = ids(m, 1 << 8);
    assert!(id >= 0);
    assert_eq!(ids(m, 1 << 8), id);
    assert_eq!(ids(m, 0), errno::EFAULT);
    let bytes = m.map_lookup(0, &(id as u32).to_le_bytes()).unwrap();
    assert_eq!([u64_at(&bytes), u64_at(&bytes[8..]), u64_at(&bytes[24..])], [1, 2, 0]);
}

#[test]
fn an_interrupting_program_sees_and_changes_the_same_maps() {
    // r0 = *g; *g = r0 + 1, not atomic: the interrupting run's addition is lost, exactly when it comes in between.
    let mut a = Asm::new();
    a.emit(Insn::ld_map_value(R1, 0, 0));
    a.emit(Insn::ldx(Size::DW, R0, R1, 0));
    a.emit(Insn::add64(R0, 1));
    a.emit(Insn::stx(Size::DW, R1, 0, R0));
    a.emit(Insn::exit());
    let p = assembled(a);
    for (at, total) in [(0, 2), (1, 2), (2, 1), (3, 1), (4, 2)] {
        let m = &mut machine(vec![MapSpec::global("g", vec![0; 8])]);
        m.run_hooked(&p, &mut [], &mut |m, step| {
            if step == at {
                m.run(&p, &mut []).unwrap();
            }
        })
        .unwrap();
        assert_eq!(u64_at(&m.map_lookup(0, &[0; 4]).unwrap()), total, "interrupted at {at}");
    }
}

/// Any eight bytes, many times: an error or a result, never a panic.
#[test]
fn random_programs_do_not_panic() {
    let mut seed = 1u64;
    let mut next = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let object = Object { maps: vec![MapSpec::new("h", MapKind::Hash, 8, 8, 4)], progs: Vec::new() };
    let m = &mut Machine::new(&object);
    m.env.budget = 1000;
    let codes: Vec<u8> = (0..=255u8).filter(|c| c & 7 != 0).collect();
    for _ in 0..20_000 {
        let insns = (0..8)
            .map(|_| {
                let (a, b) = (next(), next());
                Insn {
                    code: codes[a as usize % codes.len()],
                    dst: Reg((a >> 8) as u8 % 11),
                    src: if a >> 60 == 0 { Reg((a >> 16) as u8 % 11) } else { Reg(0) },
                    off: if a & 1 << 20 == 0 { 0 } else { (a >> 24) as i16 },
                    imm: if b & 3 == 0 { 0 } else { (b >> 8) as i32 >> (b % 32) },
                }
            })
            .collect();
        let p = prog(insns);
        let _ = m.run(&p, &mut [0; 16]);
        let _ = crate::check::check(&object, &p);
        let _ = crate::disasm::program(&p, &object.maps);
    }
}

/// Found by the fuzzer: a buffer of 4 GiB was made up before it was seen that the program's has 8 bytes.
#[test]
fn sizes_no_buffer_has_are_refused_before_they_are_filled() {
    let sized = [
        (Helper::GetStack, R2, R3),
        (Helper::GetCurrentComm, R1, R2),
        (Helper::PerfProgReadValue, R2, R3),
        (Helper::GetNsCurrentPidTgid, R3, R4),
        (Helper::ProbeReadUser, R1, R2),
        (Helper::ProbeReadUserStr, R1, R2),
    ];
    for (helper, buffer, size) in sized {
        let mut code: Vec<Insn> = [R2, R3, R4].map(|reg| Insn::mov64(reg, 0)).to_vec();
        code.extend([Insn::mov64(buffer, R10), Insn::add64(buffer, -8), Insn::mov64(size, -1), Insn::call(helper)]);
        let found = eval(&[&code]);
        assert!(matches!(found, Err(FaultKind::BadAddress { len: 0xffff_ffff, .. })), "{helper}: {found:?}");
    }
}

/// A short run of what the fuzzer does for long: whatever the instructions, there is an answer.
#[test]
fn any_instructions() {
    // All classes, with the operations of each; any byte for the rest would be refused at once.
    const CODES: &[u8] = &[
        0xb7, 0xbf, 0x07, 0x0f, 0x1f, 0x3f, 0x97, 0xd7, 0xdc, 0xb4, 0xc7, 0x61, 0x79, 0x81, 0x62, 0x7a, 0x7b, 0xdb,
        0xc3, 0x18, 0x05, 0x06, 0x15, 0x1d, 0x65, 0xce, 0x85, 0x95, 0x00,
    ];
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32
    };
    let maps = vec![
        MapSpec::global("data", vec![1; 64]),
        MapSpec::new("h", MapKind::Hash, 8, 8, 4),
        MapSpec::ringbuf("r", 4096),
    ];
    for round in 0..2000 {
        let insns = (0..1 + round % 24).map(|_| {
            let mut bytes = (next() << 32 | next()).to_le_bytes();
            bytes[0] = CODES[next() as usize % CODES.len()];
            // Mostly registers that exist and small numbers.
            bytes[1] %= 0xb0;
            if next() % 4 != 0 {
                bytes[3] = 0;
                bytes[5..].fill(0);
            }
            Insn::from_bytes(bytes)
        });
        let prog = prog(insns.collect());
        let object = Object { maps: maps.clone(), progs: vec![prog.clone()] };
        assert!(!crate::disasm::program(&prog, &object.maps).is_empty());
        let checked = crate::check::check(&object, &prog);
        assert!(checked.err().is_none_or(|errors| !errors.is_empty()));
        let mut machine = Machine::new(&object);
        machine.env.budget = 200;
        let _ = machine.run(&prog, &mut [3; 64]);
    }
}
