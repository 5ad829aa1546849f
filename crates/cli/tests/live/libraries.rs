//! D libraries: every member that they give a value can be had on the running kernel, and the values are right.

use crate::tools::{answer, permitted};
use std::path::Path;

/// The text of a library without its comments.
fn text(path: &Path) -> String {
    let mut text = std::fs::read_to_string(path).unwrap();
    while let (Some(from), Some(to)) = (text.find("/*"), text.find("*/")) {
        text.replace_range(from..to + 2, "");
    }
    text
}

/// The programs that use all that a library gives, one for each translator and one for its variables.
fn programs(text: &str) -> Vec<String> {
    let mut programs = Vec::new();
    let mut uses = Vec::new();
    for (at, _) in text.match_indices("\ntranslator ") {
        let item = &text[at..at + text[at..].find("\n};").unwrap()];
        let (head, body) = item.split_once("{\n").unwrap();
        let (output, input) = head.trim_start_matches("\ntranslator ").split_once(" < ").unwrap();
        let input = input.trim_end_matches(" > ").rsplit_once([' ', '*']).unwrap().0;
        let pointer = if head.contains('*') { "*" } else { "" };
        let mut names: Vec<&str> =
            body.lines().filter_map(|l| Some(l.strip_prefix('\t')?.split_once(" = ")?.0)).collect();
        names.retain(|n| n.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'));
        names.dedup();
        let clauses = names.iter().map(|name| {
            let inner = match *name {
                "pr_start" => ".tv_sec",
                "pr_lwp" => ".pr_lwpid",
                _ => "",
            };
            format!("syscall::read:entry /pid == 1/ {{ trace(xlate <{output}> (({input} {pointer})arg0).{name}{inner}); }}\n")
        });
        programs.push(clauses.collect());
    }
    for line in text.lines().filter(|l| l.starts_with("inline ")) {
        let head = line.trim_start_matches("inline ").split('=').next().unwrap();
        let (name, params) = head.trim().split_once('[').unwrap_or((head.trim(), ""));
        let name = name.rsplit([' ', '*']).next().unwrap();
        if name.starts_with('_') || ["curpsinfo", "curlwpsinfo", "curcpu", "fds"].contains(&name) {
            continue;
        }
        let args = if params.is_empty() { "" } else { "[1]" };
        uses.push(format!("trace({name}{args});"));
    }
    programs.extend(uses.chunks(40).map(|some| format!("syscall::read:entry /pid == 1/ {{ {} }}\n", some.concat())));
    programs
}

#[test]
fn all_that_libraries_give_can_be_had() {
    if !permitted() {
        return;
    }
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../compiler/lib");
    let mut count = 0;
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        // Registers and flags of another machine.
        let other = if cfg!(target_arch = "x86_64") { "aarch64" } else { "x86_64" };
        if path.to_string_lossy().contains(other) {
            continue;
        }
        for program in programs(&text(&path)) {
            count += program.matches("trace(").count();
            answer(&["-qn", &format!("{program} BEGIN {{ exit(0); }}")]);
        }
    }
    assert!(count > 300, "only {count} things were found in the libraries");
}

#[test]
fn processes() {
    if !permitted() {
        return;
    }
    for (format, expression, want) in [
        ("%d", "curpsinfo->pr_pid == $pid && curpsinfo->pr_ppid == $ppid", "1"),
        ("%d", "curpsinfo->pr_pgid == $pgid && curpsinfo->pr_sid == $sid", "1"),
        ("%d", "curpsinfo->pr_uid == $uid && curpsinfo->pr_euid == $euid && curpsinfo->pr_egid == $egid", "1"),
        ("%d", "curpsinfo->pr_nlwp == curthread->signal->nr_threads && curpsinfo->pr_nlwp >= 1", "1"),
        ("%d", "curpsinfo->pr_dmodel == PR_MODEL_LP64", "1"),
        ("%d", "curpsinfo->pr_addr == (uintptr_t)curthread", "1"),
        ("%s", "curpsinfo->pr_fname", "probity"),
        ("%d", "curlwpsinfo->pr_lwpid == tid && curlwpsinfo->pr_state == SRUN && curlwpsinfo->pr_sname == 'R'", "1"),
        ("%d", "curpsinfo->pr_lwp.pr_lwpid == tid", "1"),
        ("%d", "curcpu->cpu_id == cpu", "1"),
        ("%d", "curpsinfo->pr_argc", "3"),
        ("%d", "curpsinfo->pr_start.tv_sec == curthread->group_leader->start_time / 1000000000", "1"),
    ] {
        let d = format!("BEGIN {{ printf(\"{format}\\n\", {expression}); exit(0); }}");
        assert_eq!(answer(&["-qn", &d]), format!("{want}\n"), "{expression}");
    }
}

#[test]
fn arguments_and_files() {
    if !permitted() {
        return;
    }
    let d = "syscall::read:entry /pid == $target && fds[arg0].fi_name == \"hostname\" && !n/ {
               n++; p = curpsinfo;
               printf(\"%s|%s|\", curpsinfo->pr_psargs, p->pr_psargs);
               printf(\"%s|%s|%d|%s|%s\\n\", fds[arg0].fi_pathname, fds[arg0].fi_dirname, fds[arg0].fi_oflags & O_ACCMODE,
                   fds[1000].fi_name, cwd); }";
    let out = answer(&["-qn", d, "-c", "/bin/cat /etc/hostname"]);
    let cwd = std::env::current_dir().unwrap();
    let cat = "/bin/cat /etc/hostname";
    let want = format!("{cat}|{cat}|/etc/hostname|/etc|0|<none>|{}\n", cwd.display());
    assert!(out.contains(&want), "{out}");
}

#[test]
fn where_files_are_mounted() {
    if !permitted() {
        return;
    }
    let dir = std::env::temp_dir().join(format!("probity-mounts-{}", std::process::id()));
    let (from, to) = (dir.join("from"), dir.join("to"));
    std::fs::create_dir_all(&from).unwrap();
    std::fs::create_dir_all(&to).unwrap();
    std::fs::write(from.join("file"), "text\n").unwrap();
    // The mount is in a namespace that ends with the command.
    let script = dir.join("read");
    let text = format!(
        "mount --bind {} {to}\n/bin/echo text | /bin/cat {to}/file /proc/version -\n",
        from.display(),
        to = to.display()
    );
    std::fs::write(&script, text).unwrap();
    let d = "syscall::read:entry /progenyof($target) && execname == \"cat\"/ {
               printf(\"%s|%s|%s\\n\", fds[arg0].fi_name, fds[arg0].fi_pathname, fds[arg0].fi_mount); }";
    let out = answer(&["-qn", d, "-c", &format!("unshare -m /bin/sh {}", script.display())]);
    std::fs::remove_dir_all(&dir).unwrap();
    assert!(out.contains(&format!("file|{0}/file|{0}\n", to.display())), "{out}");
    assert!(out.contains("version|/proc/version|/proc\n"), "{out}");
    let pipe = out.lines().find(|l| l.starts_with('|'));
    assert!(pipe.is_some_and(|l| l.ends_with("|<none>")), "{out}");
}

#[test]
fn arguments_of_other_processes() {
    if !permitted() {
        return;
    }
    // One that was there before: this one.
    let d = "BEGIN { printf(\"%s\\n\", xlate <psinfo_t *> (curthread->real_parent)->pr_psargs); exit(0); }";
    let own: Vec<String> = std::env::args().collect();
    assert_eq!(answer(&["-x", "strsize=4096", "-qn", d]), format!("{}\n", own.join(" ")));
    assert_eq!(
        answer(&["-x", "strsize=9", "-qn", d]).trim_end().as_bytes()[..8],
        own.join(" ").as_bytes()[..8],
        "cut to strsize"
    );

    // Those that are forked and executed later, and a thread of the kernel. Who wakes a task is another.
    let script = std::env::temp_dir().join(format!("probity-arguments-{}", std::process::id()));
    std::fs::write(&script, "sleep 0.31\n(sleep 0.32; true)\n").unwrap();
    let d = "rawtp:sched::sched_wakeup
             /args[0]->tgid != pid && (args[0]->tgid == $target || args[0]->real_parent->tgid == $target ||
                 args[0]->real_parent->real_parent->tgid == $target)/
             { printf(\"%d %d %s\\n\", args[0]->tgid, $target, xlate <psinfo_t *> (args[0])->pr_psargs); }
             rawtp:sched::sched_wakeup /args[0]->real_parent->pid == 2 && !n/
             { n++; printf(\"%d\\n\", xlate <psinfo_t *> (args[0])->pr_psargs == stringof(args[0]->comm)); }";
    let out = answer(&["-qn", d, "-c", &format!("/bin/sh {}", script.display())]);
    std::fs::remove_file(&script).unwrap();
    assert!(out.contains(" sleep 0.31\n") && out.contains(" sleep 0.32\n"), "{out}");
    assert!(out.lines().any(|l| l == "1"), "{out}");
    let shell = format!(" /bin/sh {}", script.display());
    let shells: Vec<(&str, &str)> = out.lines().filter_map(|l| l.strip_suffix(&shell)?.split_once(' ')).collect();
    assert!(!out.lines().any(|l| l.starts_with("0 ")), "{out}");
    assert!(shells.iter().any(|(pid, target)| pid == target), "the command itself: {out}");
    assert!(shells.iter().any(|(pid, target)| pid != target), "its fork: {out}");
}
