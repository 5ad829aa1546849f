//! What stands around the language on the command line: the formatter, the preprocessor, options of the environment, lists.

use crate::tools::{done, permitted, probity, run};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// A script of its own for a test.
fn script(name: &str, text: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("front-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory");
    let path = dir.join(name);
    std::fs::write(&path, text).expect("a file");
    path
}

fn fed(args: &[&str], text: &str) -> crate::tools::Run {
    let mut child = probity(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    child.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("the text is read");
    done(child.wait_with_output().expect("it ends"))
}

#[test]
fn fmt_in_place_from_a_pipe_and_checking() {
    let (bad, good) = ("BEGIN{exit(0)}\n", "BEGIN\n{\n\texit(0);\n}\n");
    assert_eq!(fed(&["fmt"], bad).out, good);
    let path = script("fmt.d", bad);
    let name = path.to_str().expect("UTF-8");
    let check = run(&["fmt", "--check", name]);
    assert_eq!((check.status, check.out.as_str()), (1, format!("{name}\n").as_str()));
    assert_eq!(run(&["fmt", name]).status, 0);
    assert_eq!(std::fs::read_to_string(&path).expect("it is there"), good);
    assert_eq!(run(&["fmt", "--check", name]).status, 0);
    let wrong = fed(&["fmt"], "BEGIN {");
    assert_eq!(wrong.status, 1);
    assert!(wrong.err.contains("D_SYNTAX"), "{}", wrong.err);
}

#[test]
fn the_preprocessor_and_its_places() {
    if !permitted() {
        return;
    }
    let path = script("cpp.d", "#define N 3\n#ifdef WITH\nBEGIN { trace(N + WITH); exit(0); }\n#endif\n");
    let name = path.to_str().expect("UTF-8");
    let r = run(&["-C", "-D", "WITH=4", "-qs", name]);
    assert_eq!((r.status, r.out.trim()), (0, "7"), "{}", r.err);
    // Places are the script's, not those of what the preprocessor wrote.
    let path = script("place.d", "#define N 3\n\nBEGIN { trace(N + what); }\n");
    let r = run(&["dtrace", "-C", "-s", path.to_str().expect("UTF-8")]);
    assert!(r.err.contains("place.d: line 3: "), "{}", r.err);
    let r = run(&["-C", "-x", "cpppath=/no/such/cpp", "-s", name]);
    assert!(r.err.contains("there is no '/no/such/cpp' here") && r.err.contains("cpppath"), "{}", r.err);
    // C headers have functions with bodies.
    let path = script("header.d", "#include <endian.h>\nBEGIN { trace(__BYTE_ORDER == __LITTLE_ENDIAN); exit(0); }\n");
    let r = run(&["-C", "-qs", path.to_str().expect("UTF-8")]);
    assert_eq!(r.status, 0, "{}", r.err);
}

#[test]
fn options_of_the_environment_and_lists() {
    if !permitted() {
        return;
    }
    let r = done(
        probity(&["-qn", "BEGIN { trace(sizeof (execname)); exit(0); }"])
            .env("DTRACE_OPT_STRSIZE", "64")
            .output()
            .expect("it starts"),
    );
    assert_eq!(r.out.trim(), "64", "{}", r.err);
    let r = run(&["dtrace", "-l", "-n", "BEGIN", "-n", ":::nothing_is_named_so"]);
    assert_eq!(r.status, 0);
    assert!(
        r.out.contains("BEGIN")
            && r.err == "dtrace: failed to match :::nothing_is_named_so: No probe matches description\n"
    );
    let r = run(&["dtrace", "-n", "BEGIN", "10", "-e"]);
    assert_eq!(r.err, "dtrace: invalid probe specifier BEGIN: extraneous argument '10' ($1 is not referenced)\n");
}

#[test]
fn a_header_of_probes_compiles_and_leaves_notes() {
    let decl = script(
        "prov.d",
        "provider prov {\n\tprobe go(int a, char *s, uint8_t u, long long);\n\tprobe my__probe();\n};\n",
    );
    let header = decl.with_extension("h");
    let (decl, header) = (decl.to_str().expect("UTF-8").to_string(), header.to_str().expect("UTF-8").to_string());
    let made = run(&["-h", "-s", &decl, "-o", &header]);
    assert_eq!(made.status, 0, "{}", made.err);
    let c = "#include \"prov.h\"
        int main(int argc, char **argv) {
            unsigned char u = argc;
            PROV_GO(argc + 5, argv[0], u, 1LL << 40);
            PROV_MY_PROBE();
            return PROV_MY_PROBE_ENABLED() ? 1 : 0;
        }";
    let dir = Path::new(&header).parent().expect("a directory").to_str().expect("UTF-8").to_string();
    let program = crate::tools::c_program("prov_user", c, &["-Wall", "-Werror", "-O2", "-I", &dir]);
    let status = std::process::Command::new(&program).status().expect("it starts");
    assert!(status.success(), "nobody traces it, so the probe is not enabled: {status}");
    let bytes = std::fs::read(&program).expect("it is there");
    for part in ["stapsdt\0", "prov\0my-probe\0", "prov\0go\0-4@"] {
        assert!(bytes.windows(part.len()).any(|w| w == part.as_bytes()), "no {part:?} in the program");
    }
    let none = run(&["-h", "-s", script("none.d", "BEGIN { exit(0); }\n").to_str().expect("UTF-8"), "-o", &header]);
    assert_eq!(none.status, 1);
    assert!(none.err.contains("no provider declaration"), "{}", none.err);
    // Alone it is the call for help.
    let help = run(&["-h"]);
    assert!(help.status == 0 && help.out.contains("usage: probity"), "{}", help.out);
}

#[test]
fn mistakes_name_what_was_meant_once() {
    let r = run(&["-e", "-n", "syscal:::entry"]);
    assert!(r.err.contains("use `syscall`"), "{}", r.err);
    let r = run(&["-e", "-n", "pid$target::malloc:entry"]);
    assert_eq!(r.err.matches("error[").count(), 1, "{}", r.err);
    assert!(r.err.contains("-p or -c"), "{}", r.err);
    let r = run(&["-e", "-n", "syscall:vmlinux:openat:entry { printf(\"%s\", args[1]); }"]);
    assert!(r.err.contains("copyinstr()") && !r.err.contains("stringof"), "{}", r.err);
}
