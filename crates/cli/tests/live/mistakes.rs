//! G5: wrong input gets a located diagnostic with its tag, exit status 1, and nothing is attached.

use crate::tools::{c_program, copy_program, permitted, run};

/// Program, the tag, and a word of the message.
const MISTAKES: &[(&str, &str, &str)] = &[
    ("BEGIN { trace(1 }", "D_SYNTAX", ""),
    ("BEGIN { x = ; }", "D_SYNTAX", ""),
    ("syscall::raed:entry { trace(1); }", "D_PDESC_ZERO", "read"),
    ("nosuch:::x { trace(1); }", "D_PDESC_ZERO", ""),
    ("BEGIN { trace(nosuch); }", "D_IDENT_UNDEF", "nosuch"),
    ("BEGIN { trace(execnam); }", "D_IDENT_UNDEF", "execname"),
    ("BEGIN { trace(\"a\" - \"b\"); exit(0); }", "D_OP_INCOMPAT", ""),
    ("BEGIN { trace(strlen()); }", "D_PROTO_LEN", ""),
    ("BEGIN { printf(\"%d %d\", 1); }", "D_PRINTF_ARG_PROTO", ""),
    ("BEGIN { printf(\"%s\", 1); }", "D_PRINTF_ARG_TYPE", ""),
    ("BEGIN { @a = count(); @a = sum(1); }", "D_AGG_REDEF", ""),
    ("BEGIN { trace($1); }", "D_MACRO_UNDEF", "$1"),
];

#[test]
fn in_the_program() {
    if !permitted() {
        return;
    }
    for (d, tag, word) in MISTAKES {
        let ours = run(&["-n", d]);
        assert_eq!(ours.status, 1, "{d}: {}", ours.err);
        assert!(ours.err.contains(tag), "{d}: no {tag} in {}", ours.err);
        assert!(ours.err.contains(word), "{d}: no {word} in {}", ours.err);
        assert!(ours.err.contains(d), "{d}: the source line is not shown: {}", ours.err);
        assert!(!ours.err.contains("verifier"), "{}", ours.err);
        let theirs = run(&["dtrace", "-xerrtags", "-n", d]);
        assert_eq!(theirs.status, 1, "{d}");
        assert!(theirs.err.starts_with("dtrace: invalid probe specifier "), "{d}: {}", theirs.err);
        assert!(theirs.err.contains(&format!("[{tag}]")), "{d}: no [{tag}] in {}", theirs.err);
    }
}

#[test]
fn in_the_world() {
    if !permitted() {
        return;
    }
    let missing = run(&["-n", "BEGIN { exit(0); }", "-p", "4194303"]);
    assert_eq!(missing.status, 1);
    assert!(missing.err.contains("4194303"), "{}", missing.err);
    let r = run(&["-n", "pid4194303:libc.so.6:malloc:entry { trace(1); }"]);
    assert_eq!(r.status, 1);
    assert!(r.err.contains("4194303"), "{}", r.err);
    let text = c_program("text", "int main(void) {}", &[]).with_extension("c");
    let r = run(&["-n", &format!("uprobe:{}:main:entry {{ trace(1); }}", text.display())]);
    assert_eq!(r.status, 1);
    assert!(r.err.contains("ELF"), "{}", r.err);
    let r = run(&["-n", "uprobe:nosuchprogram:main:entry { trace(1); }"]);
    assert_eq!(r.status, 1);
    assert!(r.err.contains("nosuchprogram"), "{}", r.err);
    for (args, word) in [
        (&["-s", "/nonexistent.d"][..], "/nonexistent.d"),
        (&["-n", "BEGIN { exit(0); }", "-x", "nosuch=1"][..], "nosuch"),
        (&["-n", "BEGIN { exit(0); }", "-c", "/nonexistent/command"][..], "/nonexistent/command"),
        (&["-n", "BEGIN { exit(0); }", "-o", "/nonexistent/dir/file"][..], "/nonexistent/dir/file"),
    ] {
        let r = run(args);
        assert_eq!(r.status, 1, "{args:?} {}", r.err);
        assert!(r.err.contains(word), "{args:?}: {}", r.err);
    }
}

#[test]
fn without_permission() {
    if !permitted() {
        return;
    }
    // As nobody, through the shell's own means: a copy, because the build directory may not be readable for others.
    let dir = std::env::temp_dir().join(format!("probity-nobody-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory");
    let copy = dir.join("probity");
    copy_program(env!("CARGO_BIN_EXE_probity").as_ref(), &copy);
    let output = std::process::Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&copy)
        .args(["-n", "BEGIN { exit(0); }"])
        .output();
    let _ = std::fs::remove_dir_all(&dir);
    let Ok(output) = output else {
        eprintln!("skipped: no setpriv here");
        return;
    };
    let r = crate::tools::done(output);
    assert_eq!(r.status, 1, "{}", r.err);
    assert!(r.err.contains("root") || r.err.contains("CAP_BPF"), "{}", r.err);
    // One cause, one line; besides what was matched.
    assert!(r.err.lines().count() <= 2, "{}", r.err);
}
