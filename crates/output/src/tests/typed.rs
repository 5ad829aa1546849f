//! `print()`: types to text and JSON.

use crate::typed::{Look, json, text};
use probity_ir::*;

/// `struct s { char c; unsigned a : 3; int b : 5; union { int i; short h; } u; int list[2]; enum e e; double d; struct s *next; struct { int in; }; }`
fn table() -> (TypeTable, TypeId, Vec<u8>) {
    let mut t = TypeTable::default();
    let int = t.int(4, true);
    let uint = t.int(4, false);
    let short = t.int(2, true);
    let char_ = t.add(TypeKind::Int { size: 1, signed: true, kind: IntKind::Char });
    let double = t.add(TypeKind::Float { size: 8 });
    let list = t.add(TypeKind::Array { of: int, len: 2 });
    let values = vec![("ONE".to_string(), 1), ("TWO".to_string(), 2)];
    let e = t.add(TypeKind::Enum { name: "e".into(), size: 4, signed: false, values });
    let member = |name: &str, ty, at: u32, bits| Member { name: name.into(), ty, bit_offset: at, bit_size: bits };
    let u = vec![member("i", int, 0, 0), member("h", short, 0, 0)];
    let u = t.add(TypeKind::Struct { union: true, name: String::new(), size: 4, members: u });
    let inner = vec![member("in", int, 0, 0)];
    let inner = t.add(TypeKind::Struct { union: false, name: String::new(), size: 4, members: inner });
    let next = t.add(TypeKind::Forward { keyword: "struct", name: "s".into(), btf: 0 });
    let next = t.pointer(next, Space::Kernel);
    let members = vec![
        member("c", char_, 0, 0),
        member("a", uint, 8, 3),
        member("b", int, 11, 5),
        member("u", u, 32, 0),
        member("list", list, 64, 0),
        member("e", e, 128, 0),
        member("d", double, 192, 0),
        member("next", next, 256, 0),
        member("", inner, 320, 0),
    ];
    let s = t.add(TypeKind::Struct { union: false, name: "s".into(), size: 48, members });
    let mut bytes = vec![0; 48];
    bytes[0] = b'x';
    bytes[1] = 0b1111_0101;
    bytes[4..8].copy_from_slice(&65_539u32.to_le_bytes());
    bytes[12..16].copy_from_slice(&(-7i32).to_le_bytes());
    bytes[16] = 2;
    bytes[24..32].copy_from_slice(&1.5f64.to_le_bytes());
    bytes[40] = 9;
    (t, s, bytes)
}

fn shown(limit: u64, dropin: bool) -> String {
    let (types, ty, bytes) = table();
    let mut out = Vec::new();
    text(&types, ty, &bytes, Some(0xff), Look { indent: 2, dropin, limit }, &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn members_that_are_not_zero() {
    let want = "0xff = *
  (struct s) {
   .c = (char)'x',
   .a = (unsigned int)5,
   .b = (int)-2,
   .u = (union) {
    .i = (int)65539,
    .h = (short)3,
   },
   .list = (int [2]) [
    (int)-7,
   ],
   .e = (enum e)TWO,
   .d = (double)1.5,
   (struct) {
    .in = (int)9,
   },
  }
";
    assert_eq!(shown(8192, false), want);
    assert_eq!(shown(8192, true), want);
}

#[test]
fn what_is_beyond_the_limit_is_marked() {
    let head =
        "0xff = *\n  (struct s) {\n   .c = (char)'x',\n   .a = (unsigned int)5,\n   .b = (int)-2,\n   .u = (union) {\n";
    let members = "    .i = (int)65539,\n    .h = (short)3,\n";
    assert_eq!(shown(8, false), format!("{head}{members}   }},\n   ...\n  }}\n"));
    // DTrace marks the cut before it ends the struct that came before.
    assert_eq!(shown(8, true), format!("{head}{members}   ...\n   }},\n  }}\n"));
}

#[test]
fn json_has_every_member() {
    let (types, ty, bytes) = table();
    let want = r#"{"c":120,"a":5,"b":-2,"u":{"i":65539,"h":3},"list":[0,-7],"e":"TWO","d":1.5,"next":"0x0","in":9}"#;
    assert_eq!(json(&types, ty, &bytes, 8192).to_string(), want);
    assert_eq!(json(&types, ty, &bytes, 8).to_string(), r#"{"c":120,"a":5,"b":-2,"u":{"i":65539,"h":3}}"#);
    // Fewer bytes than the type has: no panic.
    json(&types, ty, &bytes[..3], 8192);
    text(&types, ty, &[], None, Look { indent: 0, dropin: false, limit: 99 }, &mut Vec::new());
}
