use super::*;

#[test]
fn a_compiled_probe() {
    // Built here rather than kept as a binary: the note's layout is the assembler's, not ours.
    let source = r#"
        .text
        .globl main
        .type main, @function
main:   nop
site:   nop
        ret
        .size main, .-main
        .pushsection .note.stapsdt,"?","note"
        .balign 4
        .4byte 992f-991f, 994f-993f, 3
991:    .asciz "stapsdt"
992:    .balign 4
993:    .8byte site
        .8byte _.stapsdt.base
        .8byte sema
        .asciz "prov"
        .asciz "hello"
        .asciz "-4@%edi 8@(%rsi)"
994:    .balign 4
        .popsection
        .pushsection .stapsdt.base,"aG","progbits",.stapsdt.base,comdat
        .weak _.stapsdt.base
        .hidden _.stapsdt.base
_.stapsdt.base: .space 1
        .size _.stapsdt.base,1
        .popsection
        .section .probes,"aw"
        .globl sema
sema:   .short 0
        .section .note.GNU-stack,"",@progbits
"#;
    if !cfg!(target_arch = "x86_64") {
        eprintln!("skipped: the sample is x86-64 assembler");
        return;
    }
    let dir = std::env::temp_dir().join(format!("probity-debuginfo-stapsdt-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let (text, program) = (dir.join("probe.s"), dir.join("probe"));
    std::fs::write(&text, source).unwrap();
    let built = std::process::Command::new("cc").arg("-o").arg(&program).arg(&text).output();
    let elf = built.ok().filter(|built| built.status.success()).map(|_| Elf::open(&program).unwrap());
    let bytes = std::fs::read(&program);
    let _ = std::fs::remove_dir_all(&dir);
    let Some(elf) = elf else {
        eprintln!("skipped: no C compiler");
        return;
    };
    let probes = probes(&elf).unwrap();
    let main = elf.function("main").unwrap().unwrap();
    assert_eq!(probes.len(), 1);
    let probe = &probes[0];
    assert_eq!((probe.provider.as_str(), probe.name.as_str()), ("prov", "hello"));
    assert_eq!(probe.arguments, "-4@%edi 8@(%rsi)");
    assert_eq!((probe.vaddr, probe.offset), (main.vaddr + 1, main.offset + 1));
    assert!(matches!(probe.semaphore, Semaphore::At(_)));
    crate::mutate::mutate(&bytes.unwrap(), 300, fuzz_one);
}

#[test]
fn files_without_notes_have_no_probes() {
    let elf = Elf::open("/proc/self/exe").unwrap();
    // glibc, which is linked in, may have some of its own.
    assert!(probes(&elf).is_ok());
}
