//! What gcc writes, read back: types, bit-fields, signatures, places at a function's entry.

use super::*;
use probity_ir::types::{Space, TypeKind, TypeTable};
use std::path::PathBuf;
use std::process::Command;

const SOURCE: &str = r#"
#include <stdint.h>
enum colour { RED, GREEN = 5, BLUE };
enum sign { MINUS = -1, PLUS = 1 };
struct inner { short s; char c[3]; };
struct list { struct list *next; unsigned a : 3; int b : 5; struct inner in; union { long l; double d; }; enum colour col; };
typedef struct list list_t;
struct pair { double x, y; };
struct big { long a[4]; };
typedef int (*callback)(const char *, ...);
struct hidden;
int take(list_t *l, int8_t tiny, unsigned char byte, double d, int n, enum sign s) { return l->b + tiny + byte + (int)d + n + s; }
long many(int a, int b, int c, int d, int e, int f, int g, short h) { return a + b + c + d + e + f + g + h; }
struct pair by_value(struct big b, struct pair p, float f, callback cb, struct hidden *h) { p.x += b.a[0] + f + (cb != 0) + (h != 0); return p; }
static void nothing(void) {}
static __attribute__((noinline)) int part(int used, int unused) { return used * 3; }
int table[2][3];
int main(int argc, char **argv) { nothing(); return part(argc, 7) + table[0][0]; }
"#;

/// Compiles the source; `None`, with a word, where there is no compiler.
fn compiled(name: &str, flags: &[&str]) -> Option<PathBuf> {
    let directory = std::env::temp_dir().join(format!("probity-dwarf-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let (source, output) = (directory.join("t.c"), directory.join("t"));
    std::fs::write(&source, SOURCE).unwrap();
    let status = Command::new("gcc").args(flags).arg("-o").arg(&output).arg(&source).status();
    match status {
        Ok(status) if status.success() => Some(output),
        _ => {
            eprintln!("skipped: no gcc, or it refuses {flags:?}");
            None
        }
    }
}

/// Numbers entries as a session would.
fn numbering(seen: &mut Vec<Die>) -> impl FnMut(Die) -> u32 + '_ {
    |die| {
        let at = seen.iter().position(|known| *known == die).unwrap_or_else(|| {
            seen.push(die);
            seen.len() - 1
        });
        at as u32 + 1
    }
}

fn open(path: &PathBuf) -> (Elf, Dwarf) {
    let elf = Elf::open(path).unwrap();
    let dwarf = Dwarf::of(&elf).unwrap().unwrap();
    (elf, dwarf)
}

fn signature(elf: &Elf, dwarf: &Dwarf, name: &str) -> Function {
    let func = elf.function(name).unwrap().unwrap();
    dwarf.function(dwarf.function_at(func.vaddr).unwrap(), func.vaddr).unwrap()
}

#[test]
fn types_are_those_of_the_source() {
    for flags in [&["-g"][..], &["-g", "-O2"], &["-gdwarf-4"], &["-g", "-gz"]] {
        let Some(path) = compiled("types", flags) else { return };
        let (_, dwarf) = open(&path);
        let (mut types, mut seen) = (TypeTable::default(), Vec::new());
        let list = dwarf.named("struct", "list").unwrap();
        let id = dwarf.import(list, &mut types, &mut numbering(&mut seen)).unwrap();
        assert_eq!(types.size(id), Some(32), "{flags:?}");
        let TypeKind::Struct { members, .. } = types.get(id).clone() else { panic!("{:?}", types.get(id)) };
        let place = |name: &str| members.iter().find(|m| m.name == name).map(|m| (m.bit_offset, m.bit_size)).unwrap();
        assert_eq!((place("next"), place("a"), place("b")), ((0, 0), (64, 3), (67, 5)));
        assert_eq!((place("in"), place(""), place("col")), ((80, 0), (128, 0), (192, 0)));
        // The pointer leads back to the same type, in user memory.
        assert_eq!(types.get(members[0].ty), &TypeKind::Pointer { to: id, space: Space::User });
        let inner = members.iter().find(|m| m.name == "in").unwrap().ty;
        assert_eq!(types.size(inner), Some(6));
        let sign = dwarf.import(dwarf.named("enum", "sign").unwrap(), &mut types, &mut numbering(&mut seen)).unwrap();
        let TypeKind::Enum { signed: true, values, .. } = types.get(sign) else { panic!("{:?}", types.get(sign)) };
        assert_eq!(values[0], ("MINUS".to_owned(), -1));
        let callback = dwarf.named("typedef", "callback").unwrap();
        let callback = dwarf.import(callback, &mut types, &mut numbering(&mut seen)).unwrap();
        assert_eq!(types.name(types.resolve(callback)), "int (*)(char *, ...)");
        assert!(dwarf.named("struct", "hidden").is_none());
        assert!(dwarf.named("struct", "colour").is_none());
    }
}

#[test]
fn a_struct_behind_a_pointer_is_defined_when_asked_for() {
    let Some(path) = compiled("lazy", &["-g"]) else { return };
    let (elf, dwarf) = open(&path);
    let take = signature(&elf, &dwarf, "take");
    let (mut types, mut seen) = (TypeTable::default(), Vec::new());
    let pointer = dwarf.import(take.params[0].ty.unwrap(), &mut types, &mut numbering(&mut seen)).unwrap();
    let TypeKind::Pointer { to, .. } = *types.get(pointer) else { panic!("{:?}", types.get(pointer)) };
    let TypeKind::Forward { btf, .. } = *types.get(types.resolve(to)) else { panic!("{:?}", types.get(to)) };
    let die = seen[btf as usize - 1];
    let kind = dwarf.definition(die, &mut types, &mut numbering(&mut seen)).unwrap().unwrap();
    assert!(matches!(kind, TypeKind::Struct { size: 32, .. }));
    // What is only declared has no definition.
    let hidden = signature(&elf, &dwarf, "by_value").params[4].ty.unwrap();
    dwarf.import(hidden, &mut types, &mut numbering(&mut seen)).unwrap();
    let last = *seen.last().unwrap();
    assert_eq!(dwarf.definition(last, &mut types, &mut numbering(&mut seen)).unwrap(), None);
}

#[test]
fn conventions_see_classes() {
    let Some(path) = compiled("classes", &["-g"]) else { return };
    let (elf, dwarf) = open(&path);
    let classes = |name: &str| -> Vec<Class> {
        signature(&elf, &dwarf, name).params.iter().map(|p| dwarf.class(p.ty.unwrap()).unwrap()).collect()
    };
    let int = |size, signed| Class::Int { size, signed };
    let take = [int(8, false), int(1, true), int(1, false), Class::Float, int(4, true), int(4, true)];
    assert_eq!(classes("take"), take);
    let by_value = [
        Class::Aggregate { size: 32, float: [false; 2] },
        Class::Aggregate { size: 16, float: [true; 2] },
        Class::Float,
        int(8, false),
        int(8, false),
    ];
    assert_eq!(classes("by_value"), by_value);
    let names: Vec<String> = signature(&elf, &dwarf, "take").params.into_iter().map(|p| p.name).collect();
    assert_eq!(names, ["l", "tiny", "byte", "d", "n", "s"]);
    let nothing = signature(&elf, &dwarf, "nothing");
    assert!(nothing.params.is_empty() && nothing.ret.is_none());
    assert_eq!(dwarf.class(signature(&elf, &dwarf, "many").ret.unwrap()), Some(int(8, true)));
}

#[test]
fn places_at_the_entry() {
    for flags in [&["-g", "-O0"][..], &["-g", "-O2"]] {
        let Some(path) = compiled("places", flags) else { return };
        let (elf, dwarf) = open(&path);
        let many = signature(&elf, &dwarf, "many");
        for (n, param) in many.params.iter().enumerate() {
            match n {
                0..6 => {
                    assert!(matches!(param.at_entry, AtEntry::Convention | AtEntry::Register(_)), "{flags:?} {param:?}")
                }
                // At -O0 narrow ones are copied to a home of their own.
                6 => assert_eq!(param.at_entry, AtEntry::Stack(0), "{flags:?}"),
                _ => assert!(matches!(param.at_entry, AtEntry::Stack(8) | AtEntry::Convention), "{flags:?} {param:?}"),
            }
        }
    }
    // A clone that lacks a parameter says so.
    let Some(path) = compiled("clones", &["-g", "-O2"]) else { return };
    let (elf, dwarf) = open(&path);
    let mut clone = None;
    elf.functions(&mut |name, func| {
        if name.starts_with("part.") {
            clone = Some(func.vaddr);
        }
    })
    .unwrap();
    if let Some(vaddr) = clone {
        let function = dwarf.function(dwarf.function_at(vaddr).unwrap(), vaddr).unwrap();
        let names: Vec<&str> = function.params.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(names, ["used", "unused"]);
    }
}

#[test]
fn damaged_information_is_no_panic() {
    let Some(path) = compiled("damaged", &["-g"]) else { return };
    let good = std::fs::read(&path).unwrap();
    let elf = Elf::parse(good.clone()).unwrap();
    let section = elf.section(".debug_info").unwrap().clone();
    let abbrev = elf.section(".debug_abbrev").unwrap().clone();
    for n in 0..400u64 {
        let mut bytes = good.clone();
        let section = if n % 3 == 0 { &abbrev } else { &section };
        let at = section.offset + (n * 7919) % section.size;
        bytes[at as usize] ^= 1 << (n % 8);
        fuzz_one(&bytes);
    }
}
