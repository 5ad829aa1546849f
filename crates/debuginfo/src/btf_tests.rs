use super::*;
use crate::btf::{FuncProto, VMLINUX};
use std::sync::Arc;

/// Writes BTF.
#[derive(Default)]
struct Writer {
    types: Vec<u8>,
    strings: Vec<u8>,
    next: u32,
    /// Where the base's strings end.
    base: u32,
}

impl Writer {
    fn new() -> Writer {
        Writer { strings: vec![0], next: 1, ..Writer::default() }
    }

    fn string(&mut self, text: &str) -> u32 {
        if text.is_empty() {
            return 0;
        }
        let at = self.strings.len() as u32 + self.base;
        self.strings.extend(text.as_bytes());
        self.strings.push(0);
        at
    }

    fn add(&mut self, name: &str, kind: BtfKind, vlen: u32, flag: bool, size_or_type: u32, words: &[u32]) -> u32 {
        let name = self.string(name);
        let info = ((kind as u32) << 24) | vlen | (u32::from(flag) << 31);
        for word in [name, info, size_or_type].iter().chain(words) {
            self.types.extend(word.to_le_bytes());
        }
        self.next += 1;
        self.next - 1
    }

    fn int(&mut self, name: &str, size: u32, encoding: u32) -> u32 {
        self.add(name, BtfKind::Int, 0, false, size, &[(encoding << 24) | (size * 8)])
    }

    fn refer(&mut self, name: &str, kind: BtfKind, to: u32) -> u32 {
        self.add(name, kind, 0, false, to, &[])
    }

    fn record(&mut self, name: &str, kind: BtfKind, size: u32, bitfields: bool, members: &[(&str, u32, u32)]) -> u32 {
        let words: Vec<u32> = members.iter().flat_map(|&(name, ty, offset)| [self.string(name), ty, offset]).collect();
        self.add(name, kind, members.len() as u32, bitfields, size, &words)
    }

    fn proto(&mut self, ret: u32, params: &[(&str, u32)]) -> u32 {
        let words: Vec<u32> = params.iter().flat_map(|&(name, ty)| [self.string(name), ty]).collect();
        self.add("", BtfKind::FuncProto, params.len() as u32, false, ret, &words)
    }

    fn finish(&self) -> Vec<u8> {
        let mut file = vec![0x9f, 0xeb, 1, 0];
        let types = self.types.len() as u32;
        for word in [24, 0, types, types, self.strings.len() as u32] {
            file.extend(u32::to_le_bytes(word));
        }
        file.extend(&self.types);
        file.extend(&self.strings);
        file
    }
}

/// `struct list { struct list *next; union { int a; struct { char b; long c; }; }; unsigned f : 3, g : 5; }` and more.
fn sample() -> Vec<u8> {
    let mut w = Writer::new();
    let int = w.int("int", 4, 1); // 1
    let char = w.int("char", 1, 0);
    let long = w.int("long int", 8, 1);
    let unsigned = w.int("unsigned int", 4, 0);
    let list_ptr = w.refer("", BtfKind::Ptr, 8); // 5
    let inner = w.record("", BtfKind::Struct, 16, false, &[("b", char, 0), ("c", long, 64)]);
    let either = w.record("", BtfKind::Union, 16, false, &[("a", int, 0), ("", inner, 0)]);
    let list = w.record(
        "list",
        BtfKind::Struct,
        32,
        true,
        &[("next", list_ptr, 0), ("", either, 64), ("f", unsigned, (3 << 24) | 192), ("g", unsigned, (5 << 24) | 195)],
    ); // 8
    let name = w.add("", BtfKind::Array, 0, false, 0, &[char, int, 16]);
    let list_t = w.refer("list_t", BtfKind::Typedef, list);
    let outer = w.record("outer", BtfKind::Struct, 48, false, &[("in", list_t, 0), ("name", name, 256)]); // 11
    w.add("mode", BtfKind::Enum, 2, true, 4, &[0; 4]);
    w.add("wide", BtfKind::Enum64, 1, false, 8, &[0, 5, 1]);
    w.refer("loop", BtfKind::Typedef, 14);
    let user = w.refer("user", BtfKind::TypeTag, char); // 15
    let text = w.refer("", BtfKind::Ptr, user);
    let outer_ptr = w.refer("", BtfKind::Ptr, outer);
    let proto = w.proto(long, &[("out", outer_ptr), ("text", text), ("", 0)]);
    w.refer("do_it", BtfKind::Func, proto);
    let void_ptr = w.refer("", BtfKind::Ptr, 0); // 20
    let traced = w.proto(0, &[("", void_ptr), ("", outer_ptr), ("", int)]);
    let traced_ptr = w.refer("", BtfKind::Ptr, traced);
    w.refer("btf_trace_seen", BtfKind::Typedef, traced_ptr);
    let iter = w.proto(int, &[("__data", void_ptr), ("out", outer_ptr), ("how", int)]);
    w.refer("__traceiter_seen", BtfKind::Func, iter); // 25
    w.record("selfish", BtfKind::Struct, 8, false, &[("me", 26, 0)]);
    w.add("fwd", BtfKind::Fwd, 0, true, 0, &[]);
    w.add("", BtfKind::Array, 0, false, 0, &[28, int, 16]);
    w.finish()
}

fn parsed() -> Btf {
    Btf::parse(sample()).unwrap()
}

#[test]
fn types_are_found_by_kind_and_name() {
    let btf = parsed();
    assert_eq!(btf.find(BtfKind::Int, "int"), Some(1));
    assert_eq!(btf.find(BtfKind::Struct, "list"), Some(8));
    assert_eq!(btf.find(BtfKind::Typedef, "list"), None);
    assert_eq!(btf.find(BtfKind::Struct, "lis"), None);
    assert_eq!(btf.find(BtfKind::Struct, ""), None);
    assert_eq!(btf.find_tagged("enum", "wide"), Some(13));
    assert_eq!((btf.name(8), btf.name(5), btf.name(9999)), ("list", "", ""));
    assert_eq!(
        (btf.size(11), btf.size(9), btf.size(5), btf.size(0), btf.size(14), btf.size(28)),
        (Some(48), Some(16), Some(8), None, None, None)
    );
}

#[test]
fn members_by_path() {
    let btf = parsed();
    let place = |path| {
        btf.member_offset("outer", path).map(|place| (place.bit_offset, place.bit_size, place.size, place.signed))
    };
    assert_eq!(place("in.next"), Some((0, 0, 8, false)));
    assert_eq!(place("in.a"), Some((64, 0, 4, true)));
    assert_eq!(place("in.c"), Some((128, 0, 8, true)));
    assert_eq!(place("in.f"), Some((192, 3, 4, false)));
    assert_eq!(place("in.g"), Some((195, 5, 4, false)));
    assert_eq!(place("name"), Some((256, 0, 16, false)));
    for absent in ["", ".", "in.", "in.next.next", "b", "name.x"] {
        assert_eq!(place(absent), None, "{absent}");
    }
    assert_eq!(btf.member_offset("selfish", "x"), None);
    assert_eq!(btf.member_offset("absent", "x"), None);
}

#[test]
fn prototypes_and_tracepoints() {
    let btf = parsed();
    let named = |proto: FuncProto| {
        let params = proto.params.into_iter().map(|param| (param.name, param.ty)).collect::<Vec<_>>();
        (proto.id, proto.ret, params, proto.varargs)
    };
    let do_it = named(btf.func_proto("do_it").unwrap());
    assert_eq!(do_it, (19, 3, vec![("out".into(), 17), ("text".into(), 16)], true));
    let seen = named(btf.tracepoint_args("seen").unwrap());
    assert_eq!(seen, (23, 0, vec![("out".into(), 17), ("how".into(), 1)], false));
    assert!(btf.func_proto("absent").is_none() && btf.tracepoint_args("absent").is_none());
}

#[test]
fn structs_behind_pointers_are_completed_when_asked() {
    let btf = parsed();
    let mut types = TypeTable::default();
    let pointer = btf.import(17, &mut types, Space::Kernel).unwrap();
    let TypeKind::Pointer { to, space: Space::Kernel } = *types.get(pointer) else { panic!() };
    assert_eq!(types.get(to), &TypeKind::Forward { keyword: "struct", name: "outer".into(), btf: 12 });
    assert!(btf.complete(&mut types, to).unwrap());
    assert!(!btf.complete(&mut types, to).unwrap());
    assert_eq!(types.size(to), Some(48));
    let TypeKind::Struct { members, .. } = types.get(to).clone() else { panic!() };
    assert_eq!(types.name(members[0].ty), "list_t");
    // What is embedded is complete, and the same type when it is reached through its own pointer.
    let list = types.resolve(members[0].ty);
    let TypeKind::Struct { members, size: 32, .. } = types.get(list).clone() else { panic!() };
    let TypeKind::Pointer { to: next, .. } = *types.get(members[0].ty) else { panic!() };
    assert_eq!(next, list);
    assert_eq!((members[1].name.as_str(), members[1].bit_offset), ("", 64));
    assert_eq!((members[3].bit_offset, members[3].bit_size), (195, 5));
    assert_eq!(btf.import(17, &mut types, Space::Kernel).unwrap(), pointer);
}

#[test]
fn user_memory_stays_user_memory() {
    let btf = parsed();
    let mut types = TypeTable::default();
    let text = btf.import(16, &mut types, Space::Kernel).unwrap();
    let TypeKind::Pointer { to, space: Space::User } = *types.get(text) else { panic!() };
    assert_eq!(types.get(to), &TypeKind::Int { size: 1, signed: true, kind: IntKind::Char });
    let outer = btf.import(17, &mut types, Space::User).unwrap();
    let TypeKind::Pointer { to, space: Space::User } = *types.get(outer) else { panic!() };
    assert!(btf.complete(&mut types, to).unwrap());
    let TypeKind::Struct { members, .. } = types.get(to).clone() else { panic!() };
    let TypeKind::Struct { members, .. } = types.get(types.resolve(members[0].ty)) else { panic!() };
    assert!(matches!(types.get(members[0].ty), TypeKind::Pointer { space: Space::User, .. }));
    // Known by name only, as from a tracepoint's format.
    let named = types.add(TypeKind::Forward { keyword: "struct", name: "list".into(), btf: USER });
    assert!(btf.complete(&mut types, named).unwrap());
    let TypeKind::Struct { members, .. } = types.get(named) else { panic!() };
    assert!(matches!(types.get(members[0].ty), TypeKind::Pointer { space: Space::User, .. }));
}

#[test]
fn enums_functions_and_forwards() {
    let btf = parsed();
    let mut types = TypeTable::default();
    let wide = btf.import_named("enum", "wide", &mut types, Space::Kernel).unwrap().unwrap();
    let TypeKind::Enum { size: 8, values, .. } = types.get(wide) else { panic!() };
    assert_eq!(values[0].1, 0x1_0000_0005);
    let func = btf.import(19, &mut types, Space::Kernel).unwrap();
    assert_eq!(types.name(func), "long int ()(struct outer *, char *, ...)");
    let forward = btf.import(27, &mut types, Space::Kernel).unwrap();
    assert_eq!(types.get(forward), &TypeKind::Forward { keyword: "union", name: "fwd".into(), btf: 0 });
    assert!(!btf.complete(&mut types, forward).unwrap());
    assert_eq!(btf.import_named("struct", "absent", &mut types, Space::Kernel).unwrap(), None);
}

#[test]
fn cycles_are_errors() {
    let btf = parsed();
    let mut types = TypeTable::default();
    for id in [14, 26, 28, 9999] {
        let error = btf.import(id, &mut types, Space::Kernel).unwrap_err();
        assert_eq!(error.kind(), crate::Kind::Malformed, "{id}: {error}");
    }
}

#[test]
fn a_module_continues_its_base() {
    let base = Arc::new(parsed());
    let mut w = Writer::new();
    w.base = {
        let bytes = sample();
        u32::from_le_bytes(bytes[20..24].try_into().unwrap())
    };
    w.next = base.end();
    let own = w.record("mod_thing", BtfKind::Struct, 8, false, &[("link", 5, 0)]);
    let module = Btf::parse_split(w.finish(), base.clone()).unwrap();
    assert_eq!(module.find(BtfKind::Struct, "mod_thing"), Some(own));
    assert_eq!(base.find(BtfKind::Struct, "mod_thing"), None);
    assert_eq!(module.find(BtfKind::Struct, "outer"), Some(11));
    assert_eq!(module.member_offset("mod_thing", "link").unwrap().size, 8);
    let mut types = TypeTable::default();
    let id = module.import(own, &mut types, Space::Kernel).unwrap();
    assert_eq!(types.name(id), "struct mod_thing");
}

#[test]
fn other_bytes_are_errors() {
    let error = |bytes: &[u8]| Btf::parse(bytes.to_vec()).err().unwrap();
    assert!(error(b"").to_string().contains("cut short"));
    assert!(error(&[0; 64]).to_string().contains("not BTF"));
    assert_eq!(error(&[0xeb, 0x9f, 1, 0]).kind(), crate::Kind::Unsupported);
    let mut cut = sample();
    cut[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(error(&cut).to_string().contains("type section"));
    let mut kind = sample();
    kind[24 + 7] = 31;
    assert!(error(&kind).to_string().contains("type 1 at offset 0x0"));
    crate::mutate::mutate(&sample(), 3000, fuzz_one);
}

#[test]
fn the_running_kernel() {
    let btf = match Btf::open(VMLINUX) {
        Ok(btf) => btf,
        Err(error) => {
            eprintln!("skipped: {error}");
            return;
        }
    };
    assert_eq!(btf.member_offset("task_struct", "pid").unwrap().size, 4);
    assert!(btf.member_offset("task_struct", "comm").unwrap().size == 16);
    assert!(btf.member_offset("task_struct", "se.avg.load_avg").is_some());
    let read = btf.func_proto("vfs_read").unwrap();
    let names: Vec<_> = read.params.iter().map(|param| param.name.as_str()).collect();
    assert_eq!(names, ["file", "buf", "count", "pos"]);
    let switch = btf.tracepoint_args("sched_switch").unwrap();
    let names: Vec<_> = switch.params.iter().map(|param| param.name.as_str()).collect();
    assert_eq!(names[..3], ["preempt", "prev", "next"]);
    let mut types = TypeTable::default();
    let prev = btf.import(switch.params[1].ty, &mut types, Space::Kernel).unwrap();
    assert_eq!(types.name(prev), "struct task_struct *");
    let TypeKind::Pointer { to, .. } = *types.get(prev) else { panic!() };
    assert!(btf.complete(&mut types, to).unwrap());
    assert_eq!(
        types.size(to).unwrap(),
        u64::from(btf.size(btf.find(BtfKind::Struct, "task_struct").unwrap()).unwrap())
    );
    // Everything that is a value's type can be imported, each in a table of its own to be independent of the rest.
    for record in btf.records().step_by(61) {
        let mut types = TypeTable::default();
        if !matches!(record.kind, BtfKind::DataSec | BtfKind::DeclTag) {
            let id = btf.import(record.id, &mut types, Space::Kernel).unwrap();
            if let (Some(size), Some(expected)) = (types.size(id), btf.size(record.id)) {
                assert_eq!(size, u64::from(expected), "{}", record.id);
            }
        }
    }
}
