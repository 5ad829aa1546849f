//! Counts are exact under fire: several CPUs, a fast profile and a pid-provider clause at once (G2).

use crate::tools::{GETPPID, answer, c_program, number, permitted};

#[test]
fn every_call_is_counted() {
    if !permitted() {
        return;
    }
    let program = c_program("exact", GETPPID, &["-O1"]);
    let path = program.display();
    let (procs, calls, works) = (4, 100_000, 200);
    let d = format!(
        "syscall:vmlinux:getppid:entry /ppid == $target/ {{ @n = count(); @s = sum(2); @q[cpu] = quantize(pid); @a = avg(7); }}
         profile-4999 {{ @p[cpu] = count(); }}
         uprobe:{path}:work:entry {{ @w = count(); }}
         END {{ printa(\"N %@d\\n\", @n); printa(\"S %@d\\n\", @s); printa(\"A %@d\\n\", @a); printa(\"W %@d\\n\", @w); printa(@q); }}"
    );
    let out = answer(&["-qn", &d, "-c", &format!("{path} {procs} {calls} {works}")]);
    assert_eq!(number(&out, "N "), procs * calls, "{out}");
    assert_eq!(number(&out, "S "), 2 * procs * calls, "{out}");
    assert_eq!(number(&out, "A "), 7, "{out}");
    assert_eq!(number(&out, "W "), procs * works, "{out}");
    let counted: i64 =
        out.lines().filter(|l| l.contains('|')).filter_map(|l| l.split_whitespace().last()?.parse::<i64>().ok()).sum();
    assert_eq!(counted, procs * calls, "{out}");
}

#[test]
fn global_increments_are_exact() {
    if !permitted() {
        return;
    }
    let program = c_program("increments", GETPPID, &["-O1"]);
    let d = "syscall::getppid:entry /ppid == $target/ { n++; a[cpu & 0] += 2; } END { printf(\"N %d\\nA %d\\n\", n, a[0]); }";
    let d = format!("int64_t n; int64_t a[int]; {d}");
    let file = program.with_extension("d");
    std::fs::write(&file, d).expect("the script is written");
    let out = answer(&["-qs", &file.display().to_string(), "-c", &format!("{} 2 50000", program.display())]);
    assert_eq!((number(&out, "N "), number(&out, "A ")), (100_000, 200_000), "{out}");
}

#[test]
fn clearing_loses_nothing() {
    if !permitted() {
        return;
    }
    let program = c_program("clearing", GETPPID, &["-O1"]);
    let d = "syscall::getppid:entry /ppid == $target/ { @n = count(); @k[cpu] = count(); @all = count(); }
             tick-20ms { printa(\"N %@d\\n\", @n); clear(@n); printa(\"K %d %@d\\n\", @k); trunc(@k); }
             END { printa(\"N %@d\\n\", @n); printa(\"K %d %@d\\n\", @k); printa(\"ALL %@d\\n\", @all); }";
    let out = answer(&["-qn", d, "-c", &format!("{} 2 150000", program.display())]);
    let sum = |word: &str| -> i64 {
        let lines = out.lines().filter(|l| l.starts_with(word));
        lines.filter_map(|l| l.rsplit(' ').next()?.parse::<i64>().ok()).sum()
    };
    assert_eq!(number(&out, "ALL "), 300_000, "{out}");
    assert_eq!(sum("N "), 300_000, "{out}");
    assert_eq!(sum("K "), 300_000, "{out}");
}
