use super::*;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// One instruction, and nothing else, is in each of these.
const LONG_MODE: &[&[u8]] = &[
    &[0x90],
    &[0xf3, 0x0f, 0x1e, 0xfa],                         // endbr64
    &[0x48, 0x89, 0xe5],                               // mov %rsp,%rbp
    &[0x66, 0x2e, 0x0f, 0x1f, 0x84, 0x00, 0, 0, 0, 0], // nopw
    &[0x48, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8],             // movabs
    &[0x66, 0xb8, 1, 2],                               // mov $,%ax
    &[0xa1, 1, 2, 3, 4, 5, 6, 7, 8],                   // movabs moffs
    &[0x67, 0xa1, 1, 2, 3, 4],                         // the same, addr32
    &[0xf6, 0x05, 1, 2, 3, 4, 5],                      // testb $,x(%rip)
    &[0xf7, 0xd8],                                     // neg
    &[0x66, 0xf7, 0xc0, 1, 2],                         // test $,%ax
    &[0xc8, 1, 2, 3],                                  // enter
    &[0xc2, 1, 2],                                     // ret $
    &[0x66, 0x48, 0xe8, 1, 2, 3, 4],                   // call, as of TLS sequences
    &[0x0f, 0x84, 1, 2, 3, 4],                         // je
    &[0x0f, 0x38, 0xf0, 0x00],                         // movbe
    &[0x66, 0x0f, 0x3a, 0x0f, 0xc1, 8],                // palignr
    &[0x0f, 0x0f, 0xc1, 0x9e],                         // 3DNow!
    &[0x66, 0x0f, 0x78, 0xc0, 1, 2],                   // extrq
    &[0x0f, 0x20, 0x05],                               // mov %cr0,%rbp, mod ignored
    &[0xc5, 0xf8, 0x77],                               // vzeroupper
    &[0xc5, 0xfd, 0x70, 0xc1, 3],                      // vpshufd
    &[0xc4, 0xe2, 0x7d, 0x18, 0x05, 1, 2, 3, 4],       // vbroadcastss x(%rip)
    &[0xc4, 0xe3, 0x7d, 0x39, 0xc0, 1],                // vextracti128
    &[0x62, 0xf1, 0x7c, 0x48, 0x10, 0x47, 1],          // vmovups 0x40(%rdi),%zmm0
    &[0x62, 0xf3, 0x7d, 0x48, 0x3b, 0xc0, 1],          // vextracti32x8
    &[0x62, 0xf5, 0x7c, 0x48, 0x58, 0xc0],             // vaddph
    &[0x8f, 0xe8, 0x78, 0xa2, 0xc1, 0x20],             // vpcmov (XOP)
    &[0x8f, 0xea, 0x78, 0x10, 0xc1, 1, 2, 3, 4],       // bextr (XOP)
    &[0x8f, 0xc0],                                     // pop
    &[0x42, 0x80, 0x3c, 0x25, 1, 2, 3, 4, 5],          // cmpb $,x(,%r12)
    &[0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0],    // mov %fs:0x28,%rax
    &[0xc7, 0xf8, 1, 2, 3, 4],                         // xbegin
    &[0x0f, 0x0b],                                     // ud2
    &[0x48, 0x66, 0xb8, 1, 2],                         // a REX before another prefix is void
];

const SHORT_MODE: &[&[u8]] = &[
    &[0x40],                   // inc
    &[0x67, 0x8b, 0x06, 1, 2], // mov x16,%eax
    &[0x67, 0x8b, 0x40, 1],    // mov 1(%bx,%si)
    &[0x62, 0x05, 1, 2, 3, 4], // bound
    &[0xc5, 0x05, 1, 2, 3, 4], // lds
    &[0xc5, 0xf8, 0x77],       // vzeroupper
    &[0x9a, 1, 2, 3, 4, 5, 6], // lcall
    &[0xa1, 1, 2, 3, 4],       // mov moffs
    &[0x66, 0xe8, 1, 2],       // callw
    &[0xd4, 10],               // aam
    &[0x06],                   // push %es
];

#[test]
fn every_encoding() {
    for (cases, long) in [(LONG_MODE, true), (SHORT_MODE, false)] {
        for case in cases {
            assert_eq!(instruction_len(case, long), Some(case.len()), "{case:02x?}");
            // What is cut short has no length; what follows does not matter.
            assert_eq!(instruction_len(&case[..case.len() - 1], long), None, "{case:02x?}");
            let longer: Vec<_> = case.iter().copied().chain([0xff; 16]).collect();
            assert_eq!(instruction_len(&longer, long), Some(case.len()), "{case:02x?}");
        }
    }
}

#[test]
fn what_is_no_instruction() {
    for bytes in [
        &[0x06u8][..],
        &[0x60],
        &[0xea, 0, 0, 0, 0, 0, 0],
        &[0x0f, 0x04, 0],
        &[0xc4, 0xe0, 0x7d, 0x18, 0xc0],
        &[0x66; 16],
    ] {
        assert_eq!(instruction_len(bytes, true), None, "{bytes:02x?}");
    }
}

#[test]
fn boundaries_stop_at_what_does_not_decode() {
    assert_eq!(boundaries(&[0x90, 0x48, 0x89, 0xe5, 0xc3, 0x06, 0x90], true), [0, 1, 4]);
    assert!(boundaries(&[], true).is_empty());
}

#[test]
fn arbitrary_bytes() {
    let seed: Vec<u8> = LONG_MODE.concat();
    crate::mutate::mutate(&seed, 2000, fuzz_one);
}

/// The disassembler of binutils is the independent checker: every instruction of libc's code must have its length.
#[test]
fn lengths_are_those_of_objdump() {
    let paths = ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/libc.so.6", "/usr/lib/libc.so.6"];
    let Some(path) = paths.into_iter().find(|path| std::path::Path::new(path).exists()) else {
        eprintln!("skipped: no libc.so.6 of this architecture");
        return;
    };
    let mut objdump = Command::new("objdump");
    objdump.args(["-d", "-w", "--section=.text", path]).stdout(Stdio::piped()).stderr(Stdio::null());
    let Ok(mut child) = objdump.spawn() else {
        eprintln!("skipped: no objdump");
        return;
    };
    let (mut right, mut wrong) = (0, Vec::new());
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        let mut columns = line.split('\t');
        let (Some(_), Some(bytes), Some(text)) = (columns.next(), columns.next(), columns.next()) else { continue };
        // objdump shows a wait and prefixes without an instruction as instructions of their own.
        if text.contains("(bad)") || text.starts_with("rex") || text.starts_with("fwait") {
            continue;
        }
        let bytes: Vec<u8> = bytes.split_whitespace().map_while(|byte| u8::from_str_radix(byte, 16).ok()).collect();
        match instruction_len(&bytes, true) == Some(bytes.len()) {
            true => right += 1,
            false => wrong.push(line.clone()),
        }
    }
    let _ = child.wait();
    assert!(wrong.is_empty(), "{} of {}: {:#?}", wrong.len(), right + wrong.len(), &wrong[..wrong.len().min(20)]);
    assert!(right > 100_000, "{right}");
}
