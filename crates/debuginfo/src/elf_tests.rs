use super::*;
use crate::ldcache::resolve_binary;
use std::collections::HashMap;
use std::process::Command;

/// A little 64-bit library: one code segment at 0x1000 (offset 0x200), a dynamic table with versions, a full table.
pub(crate) fn sample() -> Vec<u8> {
    let mut strings = vec![0u8];
    let mut string = |text: &str| {
        let at = strings.len() as u32;
        strings.extend(text.as_bytes());
        strings.push(0);
        at
    };
    let symbol = |name: u32, info: u8, section: u16, value: u64, size: u64| {
        let mut entry = name.to_le_bytes().to_vec();
        entry.extend([info, 0]);
        entry.extend(section.to_le_bytes());
        entry.extend(value.to_le_bytes());
        entry.extend(size.to_le_bytes());
        entry
    };
    let dynamic = [
        symbol(0, 0, 0, 0, 0),
        symbol(string("open"), 0x12, 1, 0x1000, 4),
        symbol(string("copy"), 0x1a, 1, 0x1010, 8),
        symbol(string("copy"), 0x12, 1, 0x1020, 8),
        symbol(string("undefined"), 0x12, 0, 0, 0),
        symbol(string("data"), 0x11, 1, 0x1004, 4),
        symbol(string("only_dynamic"), 0x12, 1, 0x1030, 0),
    ]
    .concat();
    let full = [
        symbol(0, 0, 0, 0, 0),
        symbol(string("open"), 0x12, 1, 0x1000, 4),
        symbol(string("__open"), 0x22, 1, 0x1000, 4),
        symbol(string("copy@@NEW_1"), 0x1a, 1, 0x1010, 8),
        symbol(string("copy@OLD_1"), 0x12, 1, 0x1020, 8),
        symbol(string("hidden"), 0x02, 1, 0x1018, 4),
        symbol(string("outside"), 0x02, 1, 0x9000, 4),
    ]
    .concat();
    let mut versions = Vec::new();
    for version in [0u16, 2, 2, 3 | HIDDEN, 0, 2, 2] {
        versions.extend(version.to_le_bytes());
    }
    let mut verdef = Vec::new();
    for (index, name, next) in [(2u16, string("NEW_1"), 28u32), (3, string("OLD_1"), 0)] {
        for half in [1u16, 0, index, 1] {
            verdef.extend(half.to_le_bytes());
        }
        for word in [0u32, 20, next, name, 0] {
            verdef.extend(word.to_le_bytes());
        }
    }
    let mut note = Vec::new();
    for word in [4u32, 4, 3] {
        note.extend(word.to_le_bytes());
    }
    note.extend(b"GNU\0\xde\xad\xbe\xef");
    let names = b"\0.text\0.strtab\0";
    let mut code = vec![0x90u8; 0x40];
    code[..4].copy_from_slice(&[0x48, 0x89, 0xe5, 0xc3]);
    // (type, link, contents); offsets follow from the order.
    let parts: Vec<(u32, u32, Vec<u8>)> = vec![
        (1, 0, code),
        (elf::SHT_DYNSYM.0, 3, dynamic),
        (elf::SHT_STRTAB.0, 0, strings),
        (elf::SHT_SYMTAB.0, 3, full),
        (elf::SHT_GNU_VERSYM.0, 2, versions),
        (elf::SHT_GNU_VERDEF.0, 3, verdef),
        (elf::SHT_NOTE.0, 0, note),
        (elf::SHT_STRTAB.0, 0, names.to_vec()),
    ];
    let mut body = vec![0u8; 0x200];
    let mut headers = vec![0u8; 64];
    for (kind, link, contents) in &parts {
        let mut header = vec![0u8; 64];
        header[0..4].copy_from_slice(&u32::from(*kind == 1).to_le_bytes());
        header[4..8].copy_from_slice(&kind.to_le_bytes());
        header[24..32].copy_from_slice(&(body.len() as u64).to_le_bytes());
        header[32..40].copy_from_slice(&(contents.len() as u64).to_le_bytes());
        header[40..44].copy_from_slice(&link.to_le_bytes());
        headers.extend(header);
        body.extend(contents);
        body.resize(body.len().next_multiple_of(8), 0);
    }
    let shoff = body.len() as u64;
    body.extend(headers);
    body[..8].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1, 0]);
    let mut put = |at: usize, bytes: &[u8]| body[at..at + bytes.len()].copy_from_slice(bytes);
    put(16, &3u16.to_le_bytes());
    put(18, &62u16.to_le_bytes());
    put(24, &0x1000u64.to_le_bytes());
    put(32, &64u64.to_le_bytes());
    put(40, &shoff.to_le_bytes());
    for (index, half) in [64u16, 56, 1, 64, parts.len() as u16 + 1, parts.len() as u16].into_iter().enumerate() {
        put(52 + 2 * index, &half.to_le_bytes());
    }
    // The load segment.
    put(64, &1u32.to_le_bytes());
    put(68, &5u32.to_le_bytes());
    put(72, &0x200u64.to_le_bytes());
    put(80, &0x1000u64.to_le_bytes());
    put(96, &0x40u64.to_le_bytes());
    put(104, &0x40u64.to_le_bytes());
    body
}

#[test]
fn functions_of_both_tables_once_each() {
    let elf = Elf::parse(sample()).unwrap();
    let mut found = Vec::new();
    elf.functions(&mut |name, func| found.push((name.to_string(), func.vaddr, func.offset, func.ifunc))).unwrap();
    let found: Vec<_> =
        found.iter().map(|(name, vaddr, offset, ifunc)| (name.as_str(), *vaddr, *offset, *ifunc)).collect();
    let expected = [
        ("open", 0x1000, 0x200, false),
        ("__open", 0x1000, 0x200, false),
        ("copy", 0x1010, 0x210, true),
        ("copy@OLD_1", 0x1020, 0x220, false),
        ("hidden", 0x1018, 0x218, false),
        ("only_dynamic", 0x1030, 0x230, false),
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_function_by_name_or_address() {
    let elf = Elf::parse(sample()).unwrap();
    let at = |name| elf.function(name).unwrap().map(|func| func.vaddr);
    assert_eq!(at("open"), Some(0x1000));
    assert_eq!(at("copy"), Some(0x1010));
    assert_eq!(at("copy@OLD_1"), Some(0x1020));
    assert_eq!(at("hidden"), Some(0x1018));
    assert_eq!((at("undefined"), at("data"), at("outside"), at("ope"), at("")), (None, None, None, None, None));
    assert_eq!(elf.aliases(0x1000).unwrap(), ["open", "__open"]);
    assert_eq!(elf.function_at(0x1002).unwrap().unwrap().0, "open");
    assert_eq!(elf.function_at(0x1008).unwrap(), None);
    let open = elf.function("open").unwrap().unwrap();
    assert_eq!(elf.instruction_boundaries(&open).unwrap(), [0, 3]);
    assert!(elf.is_instruction(&open, 3).unwrap());
    assert!(!elf.is_instruction(&open, 1).unwrap() && !elf.is_instruction(&open, 4).unwrap());
}

#[test]
fn headers_and_notes() {
    let elf = Elf::parse(sample()).unwrap();
    assert!(elf.is_pie() && elf.is_64());
    assert_eq!((elf.entry(), elf.machine()), (0x1000, 62));
    assert_eq!(elf.build_id().unwrap(), [0xde, 0xad, 0xbe, 0xef]);
    assert_eq!(Elf::debug_path(&[0xde, 0xad, 0xbe]).unwrap(), Path::new("/usr/lib/debug/.build-id/de/adbe.debug"));
    assert_eq!((elf.offset_of_vaddr(0x103f), elf.offset_of_vaddr(0x1040)), (Some(0x23f), None));
    assert_eq!((elf.vaddr_of_offset(0x200), elf.vaddr_of_offset(0x1ff)), (Some(0x1000), None));
    assert!(elf.is_code(0x210) && !elf.is_code(0x100));
    assert_eq!(elf.section(".text").unwrap().size, 0x40);
    assert_eq!((elf.interpreter(), elf.needed().unwrap()), (None, vec![]));
}

#[test]
fn what_is_no_elf_says_where() {
    let error = |bytes: Vec<u8>| Elf::parse(bytes).err().unwrap();
    assert!(error(vec![]).to_string().contains("\\x7fELF"));
    assert!(error(b"#!/bin/sh".to_vec()).to_string().contains("\\x7fELF"));
    assert!(error(sample()[..40].to_vec()).to_string().contains("header is cut short"));
    let mut big = sample();
    big[5] = 2;
    assert_eq!(error(big).kind(), Kind::Unsupported);
    let mut cut = sample();
    cut[32..40].copy_from_slice(&u64::MAX.to_le_bytes());
    assert!(error(cut).to_string().contains("program headers"));
    let mut object = sample();
    object[16] = 1;
    assert_eq!(Elf::parse(object).unwrap().function("open").unwrap_err().kind(), Kind::Unsupported);
    assert_eq!(Elf::open("/nonexistent/file").err().unwrap().kind(), Kind::NotFound);
    assert_eq!(Elf::open("/dev/null").err().unwrap().kind(), Kind::Unsupported);
    assert_eq!(Elf::open("/tmp").err().unwrap().kind(), Kind::Unsupported);
}

#[test]
fn arbitrary_bytes() {
    crate::mutate::mutate(&sample(), 20_000, fuzz_one);
}

/// Every function that `readelf` shows in this machine's libc, with the same address and size.
#[test]
fn this_machines_libc() {
    let Ok(path) = resolve_binary("libc.so.6", "", Path::new("/")) else {
        eprintln!("skipped: no libc.so.6");
        return;
    };
    let elf = Elf::open(&path).unwrap();
    let mut found: HashMap<String, Func> = HashMap::new();
    elf.functions(&mut |name, func| {
        assert!(found.insert(name.to_string(), func).is_none() || func.binding == Binding::Local)
    })
    .unwrap();
    assert!(found.len() > 2000, "{}", found.len());
    assert!(!elf.is_pie() || elf.soname().unwrap().as_deref() == Some("libc.so.6"));
    assert!(elf.build_id().is_some() && elf.interpreter().is_some());
    let malloc = elf.function("malloc").unwrap().unwrap();
    assert_eq!(found["malloc"], malloc);
    assert!(elf.aliases(malloc.vaddr).unwrap().contains(&"malloc".to_string()));
    assert!(elf.instruction_boundaries(&malloc).unwrap().len() > 3);
    let Ok(output) = Command::new("readelf").args(["-W", "--dyn-syms"]).arg(&path).output() else {
        eprintln!("skipped the comparison: no readelf");
        return;
    };
    let mut compared = 0;
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let columns: Vec<_> = line.split_whitespace().collect();
        let [_, value, size, kind @ ("FUNC" | "IFUNC"), _, _, section, name, ..] = columns[..] else { continue };
        if section == "UND" {
            continue;
        }
        let name = name.split_once("@@").map_or(name, |(name, _)| name);
        let func = found.get(name).unwrap_or_else(|| panic!("{name} is missing"));
        assert_eq!(func.vaddr, u64::from_str_radix(value, 16).unwrap(), "{name}");
        assert_eq!((Some(func.size), func.ifunc), (size.parse().ok(), kind == "IFUNC"), "{name}");
        compared += 1;
    }
    assert!(compared > 2000, "{compared}");
}

#[test]
fn this_test_itself() {
    let elf = Elf::open("/proc/self/exe").unwrap();
    let maps = crate::proc_maps::parse(&std::fs::read_to_string("/proc/self/maps").unwrap()).unwrap();
    let exe = std::fs::read_link("/proc/self/exe").unwrap();
    let modules = crate::proc_maps::modules(&maps, exe.to_str().unwrap());
    let main = modules.iter().find(|module| module.main).unwrap();
    let bias = main.load_bias(elf.segments()).unwrap();
    // A function of this binary: its address less the bias is in the file where the symbol says.
    let address = sample as fn() -> Vec<u8> as usize as u64;
    let (name, func) =
        elf.function_at(address.wrapping_sub(bias)).unwrap().expect("no symbol for a function of the test");
    assert!(name.contains("sample"), "{name}");
    assert_eq!(main.address_of_offset(func.offset), Some(address));
    assert_eq!(elf.vaddr_of_offset(func.offset), Some(func.vaddr));
}
