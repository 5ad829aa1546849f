//! Field reports about output and accounting (FIELD R15, R16, R20 to R30), each a case of its kind. R21 is also in `exact.rs`, R22, R23
//! and R25 are in `accounting.rs`, R20 in `output.rs`.

use crate::tools::{GETPPID, answer, c_program, missed, number, permitted, probity, run};
use std::process::Stdio;

/// R15: a conversion without a modifier is as wide as its argument.
#[test]
fn printf_takes_the_size_from_the_argument() {
    if !permitted() {
        return;
    }
    let d = "BEGIN { x = 0x100000001; y = -1; this->n = (int64_t)-1;
        printf(\"%d %u %x|%d %u %x|%d %u %x|\", x, x, x, y, y, y, this->n, this->n, this->n);
        printf(\"%d %u|%hhd %hd|%d %x|%lld\\n\", (char)-1, (uint8_t)-1, 0x1ff, 0x1ffff, (short)-2, (unsigned short)-2, -1); exit(0); }";
    let want = "4294967297 4294967297 100000001|-1 4294967295 ffffffff|-1 18446744073709551615 ffffffffffffffff|\
                -1 255|-1 -1|-2 fffe|-1\n";
    assert_eq!(answer(&["-qn", d]), want);
}

/// R16: negative values have signed results and buckets of their own.
#[test]
fn negative_values_aggregate() {
    if !permitted() {
        return;
    }
    let mut d = String::from("BEGIN { ");
    for v in [-100, -5, 0, 7] {
        d += &format!(
            "@min = min({v}); @max = max({v}); @avg = avg({v}); @sum = sum({v}); @dev = stddev({v}); @q = quantize({v}); "
        );
        d += &format!("@l = lquantize({v}, -10, 10, 5); @neg = max(-3); ");
    }
    d += "printa(\"%@d %@d %@d %@d %@d %@d\\n\", @min, @max, @avg, @sum, @dev, @neg); exit(0); }";
    let text = answer(&["-qn", &d]);
    assert_eq!(text.lines().next(), Some("-100 7 -24 -98 44 -3"), "{text}");
    for line in ["             -64 |@@@@@@@@@@", "              -4 |@@@@@@@@@@", "               0 |@@@@@@@@@@"] {
        assert!(text.contains(line), "{line} in {text}");
    }
    assert!(text.contains("           < -10 |@@@@@@@@@@"), "{text}");
    assert!(text.contains("              -5 |@@@@@@@@@@"), "{text}");
}

/// R26: records of all CPUs come in the order of their times, also while threads move between CPUs.
#[test]
fn records_of_all_cpus_come_in_order() {
    if !permitted() {
        return;
    }
    let source = r#"
#define _GNU_SOURCE
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
  long cpus = sysconf(_SC_NPROCESSORS_ONLN);
  for (int p = 0; p < 2; p++)
    if (!fork()) {
      for (int i = 0; i < 2000; i++) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET((p + i / 50) % cpus, &set);
        sched_setaffinity(0, sizeof set, &set);
        syscall(SYS_getppid);
      }
      _exit(0);
    }
  while (wait(0) > 0);
}
"#;
    let program = c_program("moving", source, &["-O1"]);
    let d = "syscall::getppid:entry /ppid == $target/ { printf(\"%d\\n\", timestamp); }";
    let text = answer(&["-qn", d, "-c", program.to_str().expect("a path")]);
    let times: Vec<u64> = text.lines().map(|l| l.parse().expect(l)).collect();
    assert_eq!(times.len(), 4000);
    assert!(times.is_sorted(), "{} inversions", times.windows(2).filter(|w| w[0] > w[1]).count());
}

/// R27 and R21: values are those of all CPUs, whichever CPU asks; increments of globals and elements are not lost.
#[test]
fn values_are_those_of_all_cpus() {
    if !permitted() {
        return;
    }
    let program = c_program("all_cpus", GETPPID, &["-O1"]);
    let d = "syscall::getppid:entry /ppid == $target/ { @[\"k\"] = count(); @n = count(); a[\"k\"]++; g++; @on[cpu] = count(); }
             END { printa(\"KEY %@d\\n\", @); printa(\"N %@d\\n\", @n); printf(\"A %d\\nG %d\\n\", a[\"k\"], g); }";
    let run = run(&["-qn", d, "-c", &format!("{} 4 20000", program.display())]);
    let counted = number(&run.out, "N ");
    for word in ["KEY ", "A ", "G "] {
        assert_eq!(number(&run.out, word), counted, "{}", run.out);
    }
    // What a kernel that preempts programs did not run them for is said.
    assert!((0..=missed(&run.err)).contains(&(80_000 - counted)), "{}{}", run.out, run.err);
}

/// R29: each tracer's BEGIN fires once, however many run at a time.
#[test]
fn begin_fires_once_in_each_of_two_tracers() {
    if !permitted() {
        return;
    }
    let d = "BEGIN { printf(\"begin %d\\n\", ++n); } tick-300ms { exit(0); } END { printf(\"end %d\\n\", n); }";
    let start = || probity(&["-qn", d]).stdout(Stdio::piped()).spawn().expect("the command starts");
    let all: Vec<_> = (0..3).map(|_| start()).collect();
    for child in all {
        let out = child.wait_with_output().expect("it ends");
        assert_eq!(String::from_utf8_lossy(&out.stdout), "begin 1\nend 1\n");
    }
}

/// R30: keys of 64 kB work, or the message says which option to lower.
#[test]
fn huge_keys_work_or_say_what_to_do() {
    if !permitted() {
        return;
    }
    let d = "syscall::openat:entry /pid == $target/ { @k[copyinstr(arg1), execname] = count(); }";
    let huge = run(&["-q", "-x", "strsize=64k", "-n", d, "-c", "cat /dev/null"]);
    // A name whose page is not resident is a fault of its own.
    assert!(huge.status == 0 && !huge.err.contains("drop"), "{}", huge.err);
    assert!(huge.out.lines().any(|l| l.trim_start().starts_with("/dev/null ")), "{}", huge.out);
    let small = run(&["-q", "-x", "aggsize=16", "-n", "BEGIN { @[execname] = quantize(1); exit(0); }"]);
    assert!(small.status != 0 && small.err.contains("aggsize"), "{}", small.err);
}

/// The drop-in computes as DTrace does: in 64 bits, and a result is as wide as its operands.
#[test]
fn the_drop_in_computes_as_dtrace_does() {
    if !permitted() {
        return;
    }
    let d = "int i; char c; unsigned char u; BEGIN { i = 2000000000; c = 100; u = 200;
        printf(\"%d %d %d %d|\", i * 3 / 3, c + c, u + u, u + 100); x = i + i; y = (int64_t)(i + i); z = (int64_t)(int)(i + i);
        printf(\"%d %d %d|\", x, y, z); j = 19; printf(\"%d %d %d\\n\", j % -5, -j % 5, -j % -5); exit(0); }";
    assert_eq!(answer(&["dtrace", "-qn", d]), "2000000000 -56 144 300|-294967296 4000000000 -294967296|4 -4 -4\n\n");
    let c = "-294967296 200 400 300|-294967296 -294967296 -294967296|4 -4 -4\n";
    assert_eq!(answer(&["-qn", &d.replace("i * 3 / 3", "i + i")]), c);
}
