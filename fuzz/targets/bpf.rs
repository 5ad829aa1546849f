//! Arbitrary instructions: decoded, disassembled, checked, and run in the interpreter, whatever the check said.
#![no_main]

use libfuzzer_sys::fuzz_target;
use probity_bpf::interp::Machine;
use probity_bpf::{Insn, MapKind, MapSpec, Object, ProgSpec, ProgType, check, decode, disasm, insn};

const TYPES: [ProgType; 4] = [ProgType::RawTracepoint, ProgType::Kprobe, ProgType::Tracing, ProgType::Syscall];

fn maps() -> Vec<MapSpec> {
    let mut outer = MapSpec::new("rings", MapKind::ArrayOfMaps, 4, 4, 2);
    outer.inner = Some(Box::new(MapSpec::ringbuf("inner", 4096)));
    outer.inner_count = 2;
    vec![
        MapSpec::global("data", (0..64).collect()),
        MapSpec::new("hash", MapKind::Hash, 8, 16, 4),
        MapSpec::new("percpu", MapKind::PercpuArray, 4, 8, 2),
        MapSpec::ringbuf("ring", 4096),
        MapSpec::task_storage("task", 8),
        outer,
    ]
}

// The first byte chooses the kind of program, the rest are instructions as the kernel takes them.
fuzz_target!(|data: &[u8]| {
    let Some((&first, rest)) = data.split_first() else { return };
    let insns: Vec<Insn> = rest.as_chunks().0.iter().map(|&bytes| Insn::from_bytes(bytes)).collect();
    assert_eq!(insn::to_wire(&insns), rest[..insns.len() * 8], "what was read is written");
    for pc in 0..insns.len() + 1 {
        if let Err(error) = decode(&insns, pc) {
            drop(error.to_string());
        }
    }
    let prog = ProgSpec::new("fuzz", TYPES[first as usize % TYPES.len()], insns);
    let object = Object { maps: maps(), progs: vec![prog.clone()] };
    let _ = disasm::program(&prog, &object.maps);
    for error in check::check(&object, &prog).err().into_iter().flatten() {
        drop(error.to_string());
    }
    let mut machine = Machine::new(&object);
    machine.env.budget = 1000;
    machine.env.user.map(0x1000, *b"a string\0and more bytes\0");
    machine.env.kernel.map(0xffff_8880_0000_0000, [7; 64]);
    match machine.run(&prog, &mut [5; 64]) {
        Ok(outcome) => assert!(outcome.steps <= 1000),
        Err(fault) => drop(fault.to_string()),
    }
});
