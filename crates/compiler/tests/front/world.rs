//! A world for the compiler: a table of probes, a few kernel types.

use probity_compiler::{Env, EnvError};
use probity_ir::*;

/// Probes and their numbers, from 1.
pub const PROBES: &[(&str, &str, &str, &str)] = &[
    ("dtrace", "", "", "BEGIN"),
    ("dtrace", "", "", "END"),
    ("dtrace", "", "", "ERROR"),
    ("syscall", "vmlinux", "read", "entry"),
    ("syscall", "vmlinux", "write", "entry"),
    ("syscall", "vmlinux", "open", "entry"),
    ("syscall", "vmlinux", "close", "entry"),
    ("syscall", "vmlinux", "read", "return"),
    ("syscall", "vmlinux", "write", "return"),
    ("pid123", "libc.so.6", "malloc", "entry"),
    ("pid123", "libc.so.6", "free", "entry"),
    ("pid123", "libc.so.6", "broken", "entry"),
    ("sdt", "sched", "", "sched_switch"),
    ("profile", "", "", "tick-1s"),
];

pub struct World;

fn desc(p: (&str, &str, &str, &str)) -> ProbeDesc {
    ProbeDesc::new(p.0, p.1, p.2, p.3)
}

fn ctx(n: u32) -> Location {
    Location::Ctx { offset: 8 * n, size: 8, signed: false }
}

fn arg(name: &str, ty: TypeId, location: Location) -> Arg {
    Arg { name: name.into(), ty, location, translated: String::new() }
}

impl Env for World {
    fn probes(&self, pattern: &ProbeDesc, found: &mut dyn FnMut(Probe)) -> Result<(), EnvError> {
        if pattern.provider.starts_with("pid9") {
            return Err(EnvError {
                tag: Some("D_PROC_GRAB"),
                message: "there is no process 9".into(),
                help: Some("name a process that runs".into()),
            });
        }
        for (i, p) in PROBES.iter().enumerate() {
            let d = desc(*p);
            let hit = glob(&pattern.provider, &d.provider)
                && glob(&pattern.module, &d.module)
                && glob(&pattern.function, &d.function)
                && glob(&pattern.name, &d.name);
            if hit {
                found(Probe { id: i as u32 + 1, desc: d });
            }
        }
        Ok(())
    }

    fn probe_by_id(&self, id: u32) -> Result<Option<Probe>, EnvError> {
        let at = (id as usize).checked_sub(1).and_then(|i| PROBES.get(i));
        Ok(at.map(|p| Probe { id, desc: desc(*p) }))
    }

    fn signature(&self, probe: &Probe, typed: bool, types: &mut TypeTable) -> Result<Signature, EnvError> {
        let d = &probe.desc;
        let prog = |ctx| ProgKind { prog_type: 17, attach_type: 0, btf_id: 0, sleepable: false, ctx };
        let mut s = Signature {
            prog: prog(Ctx::Args),
            phase: Phase::Run,
            group: d.provider.clone(),
            selector: Selector::Cookie,
            when: None,
            index: 0,
            raw: Vec::new(),
            args: Vec::new(),
            errno: None,
            caller: None,
            ucaller: None,
        };
        let char_ty = types.add(TypeKind::Int { size: 1, signed: true, kind: IntKind::Char });
        match d.provider.as_str() {
            "dtrace" => {
                s.selector = Selector::One;
                s.group = d.name.clone();
                s.phase = match d.name.as_str() {
                    "BEGIN" => Phase::Begin,
                    "END" => Phase::End,
                    _ => Phase::Always,
                };
                s.raw = (0..6).map(ctx).collect();
            }
            "syscall" => {
                let index = ["read", "write", "open", "close"].iter().position(|n| *n == d.function).unwrap_or(0);
                s.index = index as u32;
                s.group = format!("syscall_{}", d.name);
                s.selector = Selector::Syscall { number: ctx(1), compat: None, limit: 512 };
                if d.name == "return" {
                    s.raw = vec![ctx(1), ctx(1)];
                    s.errno = Some(ctx(1));
                } else {
                    s.raw = (0..6)
                        .map(|n| Location::Memory {
                            base: Box::new(ctx(0)),
                            offset: 8 * n,
                            size: 8,
                            signed: false,
                            space: Space::Kernel,
                        })
                        .collect();
                }
                if typed {
                    let buf = types.pointer(char_ty, Space::User);
                    let (int, ulong, long) = (types.int(4, false), types.int(8, false), types.int(8, true));
                    let raw = |n: usize| s.raw[n].clone();
                    s.args = match (d.function.as_str(), d.name.as_str()) {
                        (_, "return") => vec![arg("ret", long, raw(0))],
                        ("open", _) => vec![arg("path", buf, raw(0)), arg("flags", int, raw(1))],
                        ("close", _) => vec![arg("fd", int, raw(0))],
                        _ => vec![arg("fd", int, raw(0)), arg("buf", buf, raw(1)), arg("count", ulong, raw(2))],
                    };
                }
            }
            "pid123" => {
                if d.function == "broken" {
                    return Err(EnvError { tag: None, message: "no instruction starts there".into(), help: None });
                }
                s.prog = prog(Ctx::Regs);
                s.raw = (0..6).map(|n| Location::Reg { dwarf: n }).collect();
                s.raw.push(Location::None("it is passed in a vector register".into()));
                let size = types.int(8, false);
                if typed {
                    s.args = vec![arg("n", size, s.raw[0].clone())];
                }
            }
            "sdt" => {
                s.prog = prog(Ctx::Record);
                s.raw = (0..4).map(ctx).collect();
                if typed {
                    let comm = types.add(TypeKind::Array { of: char_ty, len: 16 });
                    let task = self.kernel_type("", "struct", "task_struct", types).unwrap_or(char_ty);
                    let task = types.pointer(task, Space::Kernel);
                    let float = types.add(TypeKind::Float { size: 8 });
                    s.args = vec![
                        arg("comm", comm, Location::CtxAddress { offset: 8 }),
                        arg("task", task, ctx(3)),
                        arg("f", float, ctx(4)),
                    ];
                }
            }
            _ => {
                s.selector = Selector::One;
                s.raw = vec![ctx(0), ctx(1)];
            }
        }
        Ok(s)
    }

    fn kernel_type(&self, module: &str, keyword: &str, name: &str, types: &mut TypeTable) -> Option<TypeId> {
        if !matches!(module, "" | "vmlinux") {
            return None;
        }
        match (keyword, name) {
            ("struct", "task_struct" | "opaque") => {
                Some(types.add(TypeKind::Forward { keyword: "struct", name: name.into(), btf: 7 }))
            }
            ("", "gfp_t") => {
                let to = types.int(4, false);
                Some(types.add(TypeKind::Typedef { name: name.into(), to }))
            }
            _ => None,
        }
    }

    fn complete(&self, ty: TypeId, types: &mut TypeTable) -> bool {
        if !matches!(types.get(ty), TypeKind::Forward { name, btf: 7, .. } if name == "task_struct") {
            return false;
        }
        let (int, uint) = (types.int(4, true), types.int(4, false));
        let parent = types.pointer(ty, Space::Kernel);
        let char_ty = types.add(TypeKind::Int { size: 1, signed: true, kind: IntKind::Char });
        let comm = types.add(TypeKind::Array { of: char_ty, len: 16 });
        let m = |name: &str, ty, bytes: u32| Member { name: name.into(), ty, bit_offset: bytes * 8, bit_size: 0 };
        let members = vec![
            m("pid", int, 16),
            m("tgid", int, 20),
            m("real_parent", parent, 24),
            Member { name: "in_execve".into(), ty: uint, bit_offset: 32 * 8 + 3, bit_size: 2 },
            m("comm", comm, 40),
        ];
        types.complete(ty, TypeKind::Struct { union: false, name: "task_struct".into(), size: 64, members });
        true
    }

    fn kernel_symbol(&self, _: &str, name: &str, types: &mut TypeTable) -> Option<(u64, Option<TypeId>)> {
        match name {
            "max_pfn" => Some((0xffff_ffff_8000_0000, Some(types.int(8, false)))),
            "untyped" => Some((1, None)),
            _ => None,
        }
    }

    fn near_probes(&self, pattern: &ProbeDesc) -> Vec<String> {
        PROBES
            .iter()
            .map(|p| desc(*p))
            .filter(|d| d.function == "read" && pattern.function == "raed")
            .map(|d| d.to_string())
            .collect()
    }

    fn ncpu(&self) -> u32 {
        2
    }
}
