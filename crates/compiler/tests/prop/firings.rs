//! Random firings for random programs: tasks, contexts, memory. Everything follows from the seed.

use crate::eval::Firing;
use crate::generate::{
    CTX_STRING, KERNEL_NUMBERS, KERNEL_STRINGS, NUMBERS, STRING_ROOM, STRINGS, USER_NUMBERS, USER_STRINGS,
};
use crate::rng::Rng;
use probity_bpf::interp::{AddressSpace, Env};
use probity_ir::{Ctx, Program, Selector, UnitId};

/// Bytes of a context.
const CTX: usize = 216;

/// A task that programs run in.
struct Task {
    pid_tgid: u64,
    uid_gid: u64,
    comm: [u8; 16],
    addr: u64,
}

/// Firings of a program's units, in random order, for `ncpu` CPUs.
pub fn firings(program: &Program, seed: u64, ncpu: u32, count: usize) -> Vec<Firing> {
    let mut rng = Rng::new(seed ^ 0xf1f1);
    let tasks: Vec<Task> = (0..3)
        .map(|i| {
            let mut comm = [0; 16];
            let name = rng.text(15);
            comm[..name.len()].copy_from_slice(&name);
            Task {
                pid_tgid: rng.below(4) << 32 | rng.below(1 << 22),
                uid_gid: rng.next(),
                comm,
                addr: 0xffff_8880_0100_0000 + 0x4000 * i,
            }
        })
        .collect();
    let mut time = 1_000_000_000;
    (0..count)
        .map(|_| {
            let task = &tasks[rng.below(3) as usize];
            let unit = UnitId(rng.below(program.units.len() as u64) as u32);
            time += rng.below(1 << 40);
            let stack = |rng: &mut Rng| -> Vec<u64> { (0..2 + rng.below(4)).map(|_| rng.next()).collect() };
            let mut env = Env {
                cpu: rng.below(u64::from(ncpu)) as u32,
                pid_tgid: task.pid_tgid,
                uid_gid: task.uid_gid,
                comm: task.comm,
                ktime_ns: time,
                current_task: task.addr,
                kernel_stack: stack(&mut rng).into_iter().map(|ip| ip | 1 << 63).collect(),
                // Addresses that a user program can have; others are a fault, which the generator does not expect here.
                user_stack: stack(&mut rng).into_iter().map(|ip| (ip >> 18).max(0x1000)).collect(),
                ..Env::default()
            };
            memory(&mut rng, &mut env.user, USER_NUMBERS, USER_STRINGS);
            memory(&mut rng, &mut env.kernel, KERNEL_NUMBERS, KERNEL_STRINGS);
            env.kernel.map(task.addr, numbers(&mut rng, 64));
            let spec = &program.units[unit.0 as usize];
            let mut ctx = numbers(&mut rng, CTX);
            match &spec.selector {
                Selector::One => {}
                Selector::Cookie => {
                    let present: Vec<u64> =
                        (0..spec.probes.len() as u64).filter(|&i| spec.probes[i as usize].is_some()).collect();
                    env.cookie = rng.pick(&present) | rng.below(3) << 32;
                }
                Selector::Syscall { limit, .. } => {
                    let number = match rng.below(10) {
                        0 => rng.next(),
                        1 => rng.pick(&[511, 512, 515, u64::MAX, 1 << 32, 3 | 1 << 32, u64::from(*limit)]),
                        2 => rng.below(u64::from(*limit)),
                        _ => {
                            let present: Vec<u64> =
                                (0..spec.probes.len() as u64).filter(|&i| spec.probes[i as usize].is_some()).collect();
                            rng.pick(&present) % 512
                        }
                    };
                    ctx[8..16].copy_from_slice(&number.to_le_bytes());
                    let flags = if rng.chance(50) { 0 } else { rng.next() };
                    ctx[16..24].copy_from_slice(&flags.to_le_bytes());
                }
            }
            if spec.prog.ctx == Ctx::Record {
                let at = CTX_STRING as usize;
                let text = rng.text(60);
                ctx[at..].fill(0);
                ctx[at..at + text.len()].copy_from_slice(&text);
                let word = CTX_STRING | (text.len() as u32 + 1) << 16;
                ctx[8..12].copy_from_slice(&word.to_le_bytes());
            }
            let lost = if rng.chance(5) { 1 + rng.below(2) as u32 } else { 0 };
            Firing { unit, ctx, env, lost }
        })
        .collect()
}

fn numbers(rng: &mut Rng, len: usize) -> Vec<u8> {
    let mut out = Vec::new();
    while out.len() < len {
        out.extend(rng.number().to_le_bytes());
    }
    out.truncate(len);
    out
}

fn memory(rng: &mut Rng, space: &mut AddressSpace, at: u64, strings: u64) {
    space.map(at, numbers(rng, NUMBERS as usize));
    let mut bytes = vec![0; (STRING_ROOM * STRINGS) as usize];
    for i in 0..STRINGS {
        let text = rng.text(300);
        let at = (i * STRING_ROOM) as usize;
        bytes[at..at + text.len()].copy_from_slice(&text);
    }
    space.map(strings, bytes);
}
