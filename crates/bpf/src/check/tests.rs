//! Each error kind once, and the forms that must pass.

use super::*;
use crate::insn::{Cond, Insn, R1, R2, R3, R4, R6};
use crate::object::{MapSpec, ProgType};

fn run(insns: &[&[Insn]]) -> Result<(), Vec<CheckError>> {
    let object = Object {
        maps: vec![
            MapSpec::new("hash", MapKind::Hash, 8, 8, 16),
            MapSpec::global("data", vec![0; 16]),
            MapSpec::ringbuf("ring", 4096),
        ],
        progs: Vec::new(),
    };
    check(&object, &ProgSpec::new("p", ProgType::RawTracepoint, insns.concat()))
}

fn first(insns: &[&[Insn]]) -> (u32, K) {
    let errors = run(insns).expect_err("must be refused");
    (errors[0].pc, errors[0].kind)
}

const EXIT: [Insn; 1] = [Insn::exit()];

fn ret0() -> Vec<Insn> {
    vec![Insn::mov64(R0, 0), Insn::exit()]
}

#[test]
fn a_sound_program_passes() {
    let sub = [Insn::mov64(R0, R1), Insn::exit()];
    let program = [
        &[Insn::st(Size::DW, R10, -8, 7), Insn::mov64(R2, R10), Insn::add64(R2, -8)][..],
        &Insn::ld_map_fd(R1, 0),
        &[Insn::call(Helper::MapLookupElem), Insn::jmp(Cond::Eq, Width::W64, R0, 0, 2)],
        &[Insn::mov64(R1, 1), Insn::atomic(AtomicOp::Add, Width::W64, R0, 0, R1)],
        &[Insn::mov64(R1, 5), Insn::call_sub(1), Insn::exit()],
        &sub,
    ];
    assert_eq!(run(&program), Ok(()));
}

#[test]
fn control_must_stay_inside() {
    assert_eq!(first(&[]), (0, K::Length(0)));
    assert_eq!(first(&[&[Insn::mov64(R0, 0)]]), (0, K::RunsOff));
    assert_eq!(first(&[&[Insn::ja(5)], &EXIT]), (0, K::BadTarget(6)));
    assert_eq!(first(&[&[Insn::ja(-2)], &EXIT]), (0, K::BadTarget(-1)));
    let into_the_middle = [&[Insn::ja(1)][..], &Insn::ld_imm64(R0, 1), &EXIT];
    assert_eq!(first(&into_the_middle), (0, K::BadTarget(2)));
    assert_eq!(first(&[&ret0(), &ret0()]), (2, K::Unreachable));
    // The subprogram at 2 is entered by falling off the main program.
    assert_eq!(first(&[&[Insn::call_sub(1), Insn::mov64(R0, 0)], &ret0()]), (1, K::RunsOff));
    assert_eq!(first(&[&[Insn::call_sub(9)], &EXIT]), (0, K::BadTarget(10)));
    let bad = Insn { code: 0xff, ..Insn::default() };
    assert_eq!(first(&[&[bad], &EXIT]), (0, K::Decode(DecodeError::BadOpcode(0xff))));
}

#[test]
fn registers_must_hold_something() {
    assert_eq!(first(&[&EXIT]), (0, K::Uninit(R0)));
    assert_eq!(first(&[&[Insn::mov64(R0, R2)], &EXIT]), (0, K::Uninit(R2)));
    // Written on one of two paths.
    let diamond = [Insn::jmp(Cond::Eq, Width::W64, R1, 0, 1), Insn::mov64(R6, 1), Insn::mov64(R0, R6)];
    assert_eq!(first(&[&diamond, &EXIT]), (2, K::Uninit(R6)));
    assert_eq!(first(&[&[Insn::call(Helper::KtimeGetNs), Insn::mov64(R0, R1)], &EXIT]), (1, K::Uninit(R1)));
    assert_eq!(first(&[&[Insn::mov64(R10, 0)], &ret0()]), (0, K::FramePointerWrite));
    // r6 is not inherited by a subprogram.
    let program = [&[Insn::mov64(R6, 1), Insn::call_sub(1)][..], &EXIT, &[Insn::mov64(R0, R6)], &EXIT];
    assert_eq!(first(&program), (3, K::Uninit(R6)));
    // Initialised by a loop's first round, so by every round.
    let looped =
        [Insn::mov64(R6, 0), Insn::add64(R6, 1), Insn::jmp(Cond::Lt, Width::W64, R6, 10, -2), Insn::mov64(R0, R6)];
    assert_eq!(run(&[&looped, &EXIT]), Ok(()));
}

#[test]
fn the_frame_is_512_bytes_and_read_after_written() {
    assert_eq!(run(&[&[Insn::st(Size::DW, R10, -512, 0)], &ret0()]), Ok(()));
    assert_eq!(first(&[&[Insn::st(Size::DW, R10, -520, 0)], &ret0()]), (0, K::StackBounds(-520)));
    assert_eq!(first(&[&[Insn::st(Size::B, R10, 0, 0)], &ret0()]), (0, K::StackBounds(0)));
    assert_eq!(first(&[&[Insn::st(Size::DW, R10, -12, 0)], &ret0()]), (0, K::StackAlignment(-12)));
    assert_eq!(first(&[&[Insn::ldx(Size::W, R0, R10, -4)], &EXIT]), (0, K::StackUninit(-4)));
    let through_copy = [Insn::mov64(R2, R10), Insn::add64(R2, -16), Insn::ldx(Size::DW, R0, R2, 8)];
    assert_eq!(first(&[&through_copy, &EXIT]), (2, K::StackUninit(-8)));
    let stored = [Insn::mov64(R2, 1), Insn::stx(Size::DW, R10, -8, R2)];
    let atomic = |op| [Insn::atomic(op, Width::W64, R10, -8, R2)];
    assert_eq!(run(&[&stored, &atomic(AtomicOp::Add), &ret0()]), Ok(()));
    assert_eq!(first(&[&stored, &atomic(AtomicOp::Xchg), &ret0()]), (2, K::FetchFromStack(-8)));
}

#[test]
fn helpers_get_what_they_take() {
    let key = [Insn::mov64(R2, R10), Insn::add64(R2, -8)];
    let lookup = [Insn::call(Helper::MapLookupElem)];
    assert_eq!(first(&[&key, &Insn::ld_map_fd(R1, 0), &lookup, &ret0()]), (4, K::StackUninit(-8)));
    assert_eq!(first(&[&Insn::ld_map_fd(R1, 9), &ret0()]), (0, K::NoSuchMap(9)));
    assert_eq!(first(&[&Insn::ld_map_value(R1, 1, 16), &ret0()]), (0, K::BadMapValue(1)));
    assert_eq!(first(&[&Insn::ld_map_value(R1, 0, 0), &ret0()]), (0, K::BadMapValue(0)));
    let not_a_map = [Insn::mov64(R1, 1), Insn::st(Size::DW, R10, -8, 0)];
    let bad = K::BadArgument(Helper::MapLookupElem, 1);
    assert_eq!(first(&[&not_a_map, &key, &lookup, &ret0()]), (4, bad));
    // What a helper fills may be read.
    let filled = [
        Insn::mov64(R1, R10),
        Insn::add64(R1, -16),
        Insn::mov64(R2, 16),
        Insn::call(Helper::GetCurrentComm),
        Insn::ldx(Size::DW, R0, R10, -8),
    ];
    assert_eq!(run(&[&filled, &EXIT]), Ok(()));
    let reserve = [Insn::mov64(R3, 0), Insn::mov64(R4, 0), Insn::call(Helper::RingbufReserve)];
    let ring = Insn::ld_map_fd(R1, 2);
    assert_eq!(
        first(&[&[Insn::call(Helper::KtimeGetNs), Insn::mov64(R2, R0)], &ring, &reserve, &ret0()]),
        (6, K::BadArgument(Helper::RingbufReserve, 2))
    );
}
