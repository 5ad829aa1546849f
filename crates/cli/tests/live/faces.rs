//! DTrace's layouts and messages, and our own.

use crate::tools::{answer, permitted, run};
use serde_json::Value;

#[test]
fn default_lines() {
    if !permitted() {
        return;
    }
    let r = run(&["dtrace", "-n", "BEGIN { trace(42); trace(\"hi\"); exit(0); }"]);
    assert_eq!(r.err, "dtrace: description 'BEGIN ' matched 1 probe\n");
    let lines: Vec<&str> = r.out.lines().collect();
    assert_eq!(lines[0], "CPU     ID                    FUNCTION:NAME");
    assert!(
        lines[1].ends_with("      1                           :BEGIN          42  hi                               "),
        "{}",
        r.out
    );
}

#[test]
fn aggregations_at_the_end() {
    if !permitted() {
        return;
    }
    let d = "BEGIN { @a[\"x\", 1] = sum(5); @a[\"y\", 2] = sum(3); @q = quantize(5); @q = quantize(9); exit(0); }";
    let out = answer(&["dtrace", "-qn", d]);
    let want = "
  y                                                         2                3
  x                                                         1                5

           value  ------------- Distribution ------------- count    
               2 |                                         0        
               4 |@@@@@@@@@@@@@@@@@@@@                     1        
               8 |@@@@@@@@@@@@@@@@@@@@                     1        
              16 |                                         0        

";
    assert_eq!(out, want);
}

#[test]
fn json_has_one_object_a_line() {
    if !permitted() {
        return;
    }
    let d = "BEGIN { trace(-1); printf(\"%s|%d\\n\", \"a\\\"b\", 7); @[\"k\"] = count(); x = *(int *)8; } BEGIN { exit(2); }";
    let r = run(&["--format", "json", "-n", d]);
    assert_eq!(r.status, 2);
    let objects: Vec<Value> = r.out.lines().map(|l| serde_json::from_str(l).expect(l)).collect();
    let of = |t: &str| objects.iter().filter(|o| o["type"] == t).count();
    assert_eq!((of("fault"), of("aggregation"), of("exit")), (1, 1, 1), "{}", r.out);
}

#[test]
fn a_script_with_arguments() {
    if !permitted() {
        return;
    }
    let dir = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("script-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory");
    let file = dir.join("args.d");
    let d = "#!/usr/bin/env probity\n#pragma D option quiet\nBEGIN { printf(\"%d %s %s\\n\", $1, $$2, $$0 != \"\" ? \"named\" : \"\"); exit($1); }\n";
    std::fs::write(&file, d).expect("the script is written");
    let r = run(&[&file.display().to_string(), "6", "two"]);
    assert_eq!((r.status, r.out.as_str()), (6, "6 two named\n"), "{}", r.err);
}

#[test]
fn flow_indent() {
    if !permitted() {
        return;
    }
    let d = "syscall::getppid:entry, syscall::getppid:return /pid == $target/ {}";
    let program = crate::tools::c_program(
        "flow",
        "#include <unistd.h>\n#include <sys/syscall.h>\nint main(void) { syscall(SYS_getppid); }",
        &[],
    );
    let out = answer(&["-Fn", d, "-c", &program.display().to_string()]);
    assert!(out.contains(" => getppid") && out.contains(" <= getppid"), "{out}");
}

#[test]
fn what_a_wildcard_leaves_out_is_said_unless_quiet() {
    if !permitted() {
        return;
    }
    let d = "io::: {} BEGIN { exit(0); }";
    let r = run(&["dtrace", "-n", d]);
    assert!(r.status == 0 && r.err.contains("of the probes cannot be traced"), "{}", r.err);
    let r = run(&["dtrace", "-qn", d]);
    assert!(r.status == 0 && r.err.is_empty(), "{}", r.err);
    let r = run(&["dtrace", "-qn", "io:::wait-start {}"]);
    assert!(r.status == 1 && r.err.contains("io:vmlinux::wait-start"), "{}", r.err);
}
