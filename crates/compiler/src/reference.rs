//! The reference of the language: what every built-in variable, action, subroutine, aggregating function, macro, pragma and
//! conversion means, in one line, with an example. `docs/REFERENCE.md` is made of these tables and of [`crate::options`]; a test
//! compiles every example, asks that no name of the checker's tables be left out, and fails when the page is stale.
//!
//! Whoever adds a name adds its row here.

use crate::check::known;
use crate::options::OPTIONS;
use std::fmt::Write;

/// A row: a name, its meaning, a program that uses it.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The name, as written.
    pub name: &'static str,
    /// What it means, in one line without a full stop.
    pub doc: &'static str,
    /// A D script.
    pub example: &'static str,
}

/// A table of the page.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// Its heading.
    pub title: &'static str,
    /// What is said above the table.
    pub intro: &'static str,
    /// Its rows.
    pub entries: &'static [Entry],
}

const fn e(name: &'static str, doc: &'static str, example: &'static str) -> Entry {
    Entry { name, doc, example }
}

/// Built-in variables.
#[rustfmt::skip]
pub static VARIABLES: &[Entry] = &[
    e("arg0 … arg9", "the probe's arguments as 64-bit integers; 0 where the probe has fewer", "syscall::write:entry { trace(arg2); }"),
    e("args[]", "the probe's arguments with their types", "syscall::openat:entry { trace(copyinstr((uintptr_t)args[1])); }"),
    e("caller", "the address in the kernel that the traced function returns to", "sdt:sched::sched_switch { @[caller] = count(); }"),
    e("chip", "the number of the CPU's package", "BEGIN { trace(chip); }"),
    e("cpu", "the number of the CPU", "syscall:::entry { @[cpu] = count(); }"),
    e("curcpu", "the CPU, as a `cpuinfo_t *`", "BEGIN { trace(curcpu->cpu_id); }"),
    e("curlwpsinfo", "the thread, as a `lwpsinfo_t *`", "BEGIN { trace(curlwpsinfo->pr_lwpid); }"),
    e("curpsinfo", "the process, as a `psinfo_t *`", "BEGIN { trace(curpsinfo->pr_psargs); }"),
    e("curthread", "the thread, as the kernel's `struct task_struct *`", "BEGIN { trace(curthread->prio); }"),
    e("cwd", "the path of the current directory", "syscall::openat:entry { trace(cwd); }"),
    e("epid", "the number of the enabling: of this probe with this clause", "BEGIN { trace(epid); }"),
    e("errno", "the error of the system call that returns, 0 if there is none", "syscall:::return /errno != 0/ { @[probefunc, errno] = count(); }"),
    e("execargs", "the process's arguments, in one string", "syscall::execve:return { trace(execargs); }"),
    e("execname", "the name of the thread, which is that of its program unless it was changed", "syscall:::entry { @[execname] = count(); }"),
    e("fds[]", "the open file of a descriptor, as a `fileinfo_t`", "syscall::write:entry { @[fds[arg0].fi_pathname] = sum(arg2); }"),
    e("gid", "the real group id", "BEGIN { trace(gid); }"),
    e("id", "the probe's number in `-l`", "BEGIN { trace(id); }"),
    e("ipl", "the interrupt priority level: always 0 on Linux", "BEGIN { trace(ipl); }"),
    e("lgrp", "the number of the CPU's NUMA node", "BEGIN { trace(lgrp); }"),
    e("pid", "the process's id", "syscall:::entry /pid == $pid/ { @ = count(); }"),
    e("ppid", "the parent's process id", "BEGIN { trace(ppid); }"),
    e("probefunc", "the probe's function", "syscall:::entry { @[probefunc] = count(); }"),
    e("probemod", "the probe's module", "syscall:::entry { @[probemod] = count(); }"),
    e("probename", "the probe's name", "syscall::read: { @[probename] = count(); }"),
    e("probeprov", "the probe's provider", "BEGIN { trace(probeprov); }"),
    e("root", "the path of the root directory", "BEGIN { trace(root); }"),
    e("stackdepth", "the number of frames on the kernel's stack", "sdt:sched::sched_switch { @ = quantize(stackdepth); }"),
    e("tid", "the thread's id", "syscall:::entry { @[tid] = count(); }"),
    e("timestamp", "nanoseconds since some moment in the past; only differences mean something", "syscall::read:entry { self->t = timestamp; } syscall::read:return /self->t/ { @ = quantize(timestamp - self->t); self->t = 0; }"),
    e("ucaller", "the address in the program that the traced function returns to", "syscall::write:entry { @[ucaller] = count(); }"),
    e("uid", "the real user id", "syscall::execve:entry { @[uid] = count(); }"),
    e("uregs[]", "a register of the program: `R_IP`, `R_SP`, …", "profile-97 { @[uregs[R_SP]] = count(); }"),
    e("ustackdepth", "the number of frames on the program's stack", "syscall::write:entry { @ = quantize(ustackdepth); }"),
    e("vtimestamp", "nanoseconds that the thread has run", "syscall::read:entry { self->v = vtimestamp; } syscall::read:return /self->v/ { @ = quantize(vtimestamp - self->v); self->v = 0; }"),
    e("walltimestamp", "nanoseconds since 1970", "BEGIN { printf(\"%Y\", walltimestamp); }"),
    e("self->x", "a variable of the thread, made by assignment; 0 deletes it", "syscall::read:entry { self->n = arg2; }"),
    e("this->x", "a variable of this firing, seen by all clauses of its probe", "syscall::read:entry { this->n = arg2; trace(this->n); }"),
    e("x[keys]", "an element of an associative array, made by assignment; 0 deletes it", "syscall::read:entry { bytes[pid, execname] = arg2; }"),
    e("@a[keys]", "an aggregation, assigned the value of an aggregating function", "syscall::read:entry { @bytes[execname] = sum(arg2); }"),
    e("`symbol", "a variable of the kernel; `` mod`symbol `` one of a module", "BEGIN { trace(sizeof (struct vmlinux`task_struct)); }"),
];

/// Actions.
#[rustfmt::skip]
pub static ACTIONS: &[Entry] = &[
    e("trace(v)", "records a number, a string, an array or a struct", "BEGIN { trace(execname); }"),
    e("print(v)", "records a value and prints it with its types, members and all", "BEGIN { print(*curthread->se.cfs_rq); }"),
    e("printf(format, …)", "records values and prints them by a format", "BEGIN { printf(\"%s %d\\n\", execname, pid); }"),
    e("printa([format,] @a, …)", "prints aggregations, those with equal keys side by side", "syscall:::entry { @[execname] = count(); } tick-1s { printa(\"%s %@d\\n\", @); }"),
    e("tracemem(p, n[, used])", "records `n` bytes of memory and prints them in hexadecimal", "BEGIN { tracemem(curthread->comm, 16); }"),
    e("stack([frames])", "records the kernel's stack; also a value and a key", "sdt:sched::sched_switch { @[stack(5)] = count(); }"),
    e("ustack([frames[, strsize]])", "records the program's stack; also a value and a key", "profile-97 /arg1/ { @[ustack(5)] = count(); }"),
    e("jstack([frames[, strsize]])", "`ustack` with the names that an interpreter or a JIT compiler tells", "profile-97 /arg1/ { @[jstack(5)] = count(); }"),
    e("sym(a), func(a), mod(a)", "the symbol, function or module of a kernel address", "profile-97 /arg0/ { @[func(arg0)] = count(); }"),
    e("usym(a), ufunc(a), umod(a), uaddr(a)", "the symbol, function, module or address with symbol of a program's address", "profile-97 /arg1/ { @[usym(arg1)] = count(); }"),
    e("exit(status)", "ends the tracing", "tick-10s { exit(0); }"),
    e("speculate(id)", "what the clause records from here on is printed only after commit()", "syscall::read:entry { self->s = speculation(); } syscall::read:entry /self->s/ { speculate(self->s); trace(arg2); } syscall::read:return /self->s && errno/ { commit(self->s); self->s = 0; } syscall::read:return /self->s/ { discard(self->s); self->s = 0; }"),
    e("commit(id)", "prints what was recorded speculatively", "BEGIN { this->s = speculation(); } BEGIN { commit(this->s); }"),
    e("discard(id)", "forgets what was recorded speculatively", "BEGIN { this->s = speculation(); } BEGIN { discard(this->s); }"),
    e("clear(@a)", "sets an aggregation's values to 0; its keys stay", "syscall:::entry { @[probefunc] = count(); } tick-1s { printa(@); clear(@); }"),
    e("trunc(@a[, n])", "removes all of an aggregation's elements but the `n` largest", "syscall:::entry { @[probefunc] = count(); } END { trunc(@, 10); }"),
    e("normalize(@a, n)", "divides an aggregation's values by `n` where they are printed", "syscall::read:entry { @ = sum(arg2); } END { normalize(@, 1024); }"),
    e("denormalize(@a)", "undoes normalize()", "syscall::read:entry { @ = sum(arg2); } END { normalize(@, 1024); denormalize(@); }"),
    e("setopt(name[, value])", "sets an option while tracing", "BEGIN { setopt(\"aggsortrev\"); }"),
    e("system(format, …)", "runs a shell command (`-w`)", "#pragma D option destructive\nBEGIN { system(\"date\"); }"),
    e("freopen(format, …)", "sends the output to a file (`-w`)", "#pragma D option destructive\nBEGIN { freopen(\"/tmp/out.%d\", pid); }"),
    e("ftruncate()", "empties the output file", "BEGIN { ftruncate(); }"),
    e("chill(ns)", "makes the program wait, half a second at most (`-w`)", "#pragma D option destructive\nsyscall::read:entry /execname == \"victim\"/ { chill(1000000); }"),
    e("raise(signal)", "sends a signal to the process (`-w`)", "#pragma D option destructive\nsyscall::read:entry /execname == \"victim\"/ { raise(SIGTERM); }"),
    e("stop()", "stops the process with SIGSTOP (`-w`)", "#pragma D option destructive\nsyscall::read:entry /execname == \"victim\"/ { stop(); }"),
    e("copyout(p, addr, n), copyoutstr(s, addr, n)", "writes to the program's memory (`-w`)", "#pragma D option destructive\nsyscall::uname:return { copyoutstr(\"x\", arg0, 2); }"),
    e("pcap(skb, protocol)", "records a packet for a file in pcap format", "sdt:net::net_dev_queue { pcap((void *)arg0, PCAP_ETHER); }"),
];

/// Subroutines.
#[rustfmt::skip]
pub static SUBROUTINES: &[Entry] = &[
    e("alloca(n)", "`n` bytes of memory until the clause ends", "BEGIN { this->p = (char *)alloca(8); this->p[0] = 'x'; trace(this->p[0]); }"),
    e("basename(path)", "what is behind the last slash", "BEGIN { trace(basename(\"/usr/bin/ls\")); }"),
    e("bcopy(from, to, n)", "copies `n` bytes to memory of alloca()", "BEGIN { this->p = (char *)alloca(16); bcopy(curthread->comm, this->p, 16); }"),
    e("cleanpath(path)", "the path without `.`, `..` and doubled slashes", "BEGIN { trace(cleanpath(\"/a/./b/../c\")); }"),
    e("copyin(addr, n)", "a copy of `n` bytes of the program's memory", "syscall::write:entry /arg2 >= 4/ { trace(*(int *)copyin(arg1, 4)); }"),
    e("copyinstr(addr[, n])", "the string at an address of the program, of at most `n` bytes", "syscall::openat:entry { trace(copyinstr(arg1)); }"),
    e("copyinto(addr, n, to)", "copies the program's memory to memory of alloca()", "syscall::write:entry /arg2 >= 4/ { this->p = (int *)alloca(4); copyinto(arg1, 4, this->p); trace(*this->p); }"),
    e("d_path(path)", "the path of a `struct path *` of the kernel", "BEGIN { trace(d_path(&curthread->fs->pwd)); }"),
    e("dirname(path)", "what is in front of the last slash", "BEGIN { trace(dirname(\"/usr/bin/ls\")); }"),
    e("getf(fd)", "the open file of a descriptor, as `struct file *`", "syscall::write:entry { trace(getf(arg0)->f_mode); }"),
    e("getmajor(dev), getminor(dev)", "the parts of a device number", "BEGIN { trace(getmajor(0x800001)); trace(getminor(0x800001)); }"),
    e("htons(n), htonl(n), htonll(n)", "a number in the network's byte order", "BEGIN { trace(htons(80)); trace(htonl(1)); trace(htonll(1)); }"),
    e("ntohs(n), ntohl(n), ntohll(n)", "a number of the network in the machine's byte order", "BEGIN { trace(ntohs(80)); trace(ntohl(1)); trace(ntohll(1)); }"),
    e("index(s, t[, from])", "where `t` is in `s` first, -1 if it is not", "BEGIN { trace(index(\"abcabc\", \"bc\")); }"),
    e("rindex(s, t[, from])", "where `t` is in `s` last, -1 if it is not", "BEGIN { trace(rindex(\"abcabc\", \"bc\")); }"),
    e("inet_ntoa(p)", "an IPv4 address as text", "BEGIN { this->a = (ipaddr_t *)alloca(4); *this->a = htonl(0x7f000001); trace(inet_ntoa(this->a)); }"),
    e("inet_ntoa6(p)", "an IPv6 address as text", "BEGIN { trace(inet_ntoa6((struct in6_addr *)alloca(16))); }"),
    e("inet_ntop(family, p)", "an address of family AF_INET or AF_INET6 as text", "BEGIN { this->a = (ipaddr_t *)alloca(4); trace(inet_ntop(AF_INET, this->a)); }"),
    e("link_ntop(type, p)", "a hardware address as text", "BEGIN { this->a = (char *)alloca(8); trace(link_ntop(1, this->a)); }"),
    e("json(s, path)", "the element of a JSON text, as text", "BEGIN { trace(json(\"{\\\"a\\\":[1,2]}\", \"a[1]\")); }"),
    e("lltostr(n[, base])", "a number as text", "BEGIN { trace(lltostr(255, 16)); }"),
    e("strtoll(s[, base])", "the number that a text begins with", "BEGIN { trace(strtoll(\"0x1f\", 16)); }"),
    e("mutex_owned(m), mutex_owner(m)", "whether the thread holds a mutex, and who holds it", "BEGIN { trace(mutex_owned((struct mutex *)&curthread->signal->cred_guard_mutex)); trace((uintptr_t)mutex_owner((struct mutex *)&curthread->signal->cred_guard_mutex)); }"),
    e("mutex_type_adaptive(m), mutex_type_spin(m)", "the kind of a mutex: on Linux all are adaptive", "BEGIN { trace(mutex_type_adaptive((struct mutex *)&curthread->signal->cred_guard_mutex)); trace(mutex_type_spin((struct mutex *)&curthread->signal->cred_guard_mutex)); }"),
    e("rw_read_held(l), rw_write_held(l), rw_iswriter(l)", "the state of a `rwlock_t`", "BEGIN { trace(rw_read_held((rwlock_t *)8)); trace(rw_write_held((rwlock_t *)8)); trace(rw_iswriter((rwlock_t *)8)); }"),
    e("progenyof(pid)", "whether the process descends from that one", "syscall:::entry /progenyof($pid)/ { @[execname] = count(); }"),
    e("rand()", "a pseudo-random number", "BEGIN { trace(rand() % 6); }"),
    e("speculation()", "the number of a new speculative buffer, 0 if there is none", "BEGIN { this->s = speculation(); trace(this->s); }"),
    e("strchr(s, c), strrchr(s, c)", "the part of a string from a character on, first or last", "BEGIN { trace(strchr(\"a/b/c\", '/')); trace(strrchr(\"a/b/c\", '/')); }"),
    e("strjoin(s, t)", "two strings as one", "BEGIN { trace(strjoin(probeprov, probename)); }"),
    e("strlen(s)", "a string's length in bytes", "BEGIN { trace(strlen(execname)); }"),
    e("strstr(s, t)", "the part of a string from another one on", "BEGIN { trace(strstr(\"abcabc\", \"ca\")); }"),
    e("strip(s)", "a string without white space at its ends", "BEGIN { trace(strip(\"  a  \")); }"),
    e("strtok(s, delimiters)", "the next word of a string; NULL goes on with the last one", "BEGIN { trace(strtok(\"a,b\", \",\")); trace(strtok(NULL, \",\")); }"),
    e("substr(s, from[, n])", "a part of a string", "BEGIN { trace(substr(\"abcdef\", 2, 3)); }"),
    e("tolower(s), toupper(s)", "a string in other letters", "BEGIN { trace(toupper(execname)); trace(tolower(execname)); }"),
    e("sizeof, offsetof, stringof, xlate", "the size of a type, the place of a member, a string of characters in memory, a translated value", "BEGIN { trace(sizeof (struct task_struct)); trace(offsetof(struct task_struct, pid)); trace(stringof(curthread->comm)); trace(xlate <psinfo_t *>(curthread)->pr_pid); }"),
];

/// Aggregating functions.
#[rustfmt::skip]
pub static AGGREGATING: &[Entry] = &[
    e("count()", "how often", "syscall:::entry { @[probefunc] = count(); }"),
    e("sum(n)", "the sum", "syscall::read:entry { @ = sum(arg2); }"),
    e("avg(n)", "the mean", "syscall::read:entry { @ = avg(arg2); }"),
    e("min(n)", "the least", "syscall::read:entry { @ = min(arg2); }"),
    e("max(n)", "the greatest", "syscall::read:entry { @ = max(arg2); }"),
    e("stddev(n)", "the standard deviation", "syscall::read:entry { @ = stddev(arg2); }"),
    e("quantize(n[, weight])", "how often in each range between powers of two", "syscall::read:entry { @ = quantize(arg2); }"),
    e("lquantize(n, low, high[, step[, weight]])", "how often in each of equal ranges", "syscall::read:entry { @ = lquantize(arg2, 0, 4096, 512); }"),
    e("llquantize(n, factor, low, high, steps[, weight])", "how often in equal ranges within each power of `factor`", "syscall::read:entry { @ = llquantize(arg2, 10, 0, 6, 20); }"),
];

/// Macro variables.
#[rustfmt::skip]
pub static MACROS: &[Entry] = &[
    e("$1 … $n", "the script's arguments, as numbers, names or strings", "#pragma D option defaultargs\nBEGIN { trace($1); }"),
    e("$$1 … $$n", "the script's arguments, as strings", "#pragma D option defaultargs\nBEGIN { trace($$1); }"),
    e("$0", "the name of the script", "BEGIN { trace($$0); }"),
    e("$target", "the process of `-p`, `-c` or `-W`", "#pragma D option defaultargs\nsyscall:::entry /pid == $target/ { @ = count(); }"),
    e("$pid, $ppid, $pgid, $sid", "ids of the tracer itself", "BEGIN { trace($pid); trace($ppid); trace($pgid); trace($sid); }"),
    e("$uid, $euid, $gid, $egid", "whom the tracer runs as", "BEGIN { trace($uid); trace($euid); trace($gid); trace($egid); }"),
];

/// Pragmas and control lines.
#[rustfmt::skip]
pub static PRAGMAS: &[Entry] = &[
    e("#pragma D option name[=value]", "sets an option", "#pragma D option strsize=64\nBEGIN { trace(execname); }"),
    e("#pragma D depends_on provider|module|library name", "the program needs that to be there", "#pragma D depends_on provider syscall\nBEGIN { trace(1); }"),
    e("#pragma D attributes name/data/class identifier", "states the stability of a definition", "inline int one = 1;\n#pragma D attributes Stable/Stable/Common one\nBEGIN { trace(one); }"),
    e("#pragma D binding version identifier", "states since which version a definition is there", "#pragma D binding \"1.0\" one\ninline int one = 1;\nBEGIN { trace(one); }"),
    e("#line number \"file\"", "numbers the next line", "#line 7 \"generated.d\"\nBEGIN { trace(1); }"),
];

/// Conversions of `printf`.
#[rustfmt::skip]
pub static CONVERSIONS: &[Entry] = &[
    e("%d %i %u", "an integer in decimal, of whatever size", "BEGIN { printf(\"%d %i %u\", -1, 2, 3); }"),
    e("%x %X %o", "an integer in hexadecimal or octal; `#` marks it", "BEGIN { printf(\"%#x %X %o\", 255, 255, 8); }"),
    e("%c %C", "a character; `%C` shows one that cannot be printed by its escape", "BEGIN { printf(\"%c%C\", 'a', '\\n'); }"),
    e("%s %S", "a string; `%S` shows characters that cannot be printed by their escapes", "BEGIN { printf(\"%s %S\", execname, \"a\\n\"); }"),
    e("%p", "an address", "BEGIN { printf(\"%p\", curthread); }"),
    e("%a %A", "an address as symbol and offset, of the kernel or of the program", "profile-97 { printf(\"%a %A\", arg0, arg1); }"),
    e("%k", "a stack", "sdt:sched::sched_switch { printf(\"%k\", stack(3)); }"),
    e("%Y %T", "a time of `walltimestamp`", "BEGIN { printf(\"%Y\", walltimestamp); }"),
    e("%e %f %g", "a floating-point number", "BEGIN { printf(\"%e %f %g\", 1.5, 1.5, 1.5); }"),
    e("%@d", "an aggregation's value, in printa()", "syscall:::entry { @[execname] = count(); } END { printa(\"%s %@d\\n\", @); }"),
    e("%%", "a percent sign", "BEGIN { printf(\"100%%\"); }"),
    e("%-10s %5.2f %*d", "flags `# 0 - + ' space`, width and precision as in C; `*` takes them from an argument", "BEGIN { printf(\"%-10s|%*d\", execname, 5, 42); }"),
];

/// All tables but that of the options.
pub static SECTIONS: &[Section] = &[
    Section {
        title: "Variables",
        intro: "Built-in variables, and the forms of the program's own.",
        entries: VARIABLES,
    },
    Section {
        title: "Actions",
        intro: "Actions record data or change something; each is a statement of its own.",
        entries: ACTIONS,
    },
    Section {
        title: "Subroutines",
        intro: "Subroutines have a value and can stand in any expression.",
        entries: SUBROUTINES,
    },
    Section {
        title: "Aggregating functions",
        intro: "They are assigned to an aggregation: `@name[keys] = f(…);`.",
        entries: AGGREGATING,
    },
    Section {
        title: "Macro variables",
        intro: "They are replaced by text before the program is read.",
        entries: MACROS,
    },
    Section { title: "Pragmas", intro: "Each stands on a line of its own.", entries: PRAGMAS },
    Section {
        title: "Conversions",
        intro: "In the formats of `printf`, `printa`, `system` and `freopen`.",
        entries: CONVERSIONS,
    },
];

/// The page.
pub fn markdown() -> String {
    let mut out = String::from(
        "# D reference\n\n\
         Made from the compiler's tables by `cargo xtask docs`; do not edit. Every example is compiled by the tests.\n",
    );
    let cell = |text: &str| text.replace('|', "\\|").replace('\n', " ⏎ ");
    // Code spans with backquotes in them need longer fences.
    let code = |text: &str| {
        let fence = if text.contains('`') { "`` " } else { "`" };
        let close: String = fence.chars().rev().collect();
        format!("{fence}{}{close}", cell(text))
    };
    for section in SECTIONS {
        let _ = write!(out, "\n## {}\n\n{}\n\n| | meaning | example |\n|---|---|---|\n", section.title, section.intro);
        for entry in section.entries {
            let _ = writeln!(out, "| {} | {} | {} |", code(entry.name), cell(entry.doc), code(entry.example));
        }
    }
    out += "\n## Options\n\nSet by `-x name=value`, `#pragma D option name=value`, or `DTRACE_OPT_NAME` in the environment; those marked \
            † also by setopt() while tracing.\n\n| | default | meaning |\n|---|---|---|\n";
    for option in OPTIONS {
        let mark = if option.dynamic { " †" } else { "" };
        let default = if option.default.is_empty() { String::new() } else { code(option.default) };
        let _ = writeln!(out, "| `{}`{mark} | {default} | {} |", option.name, cell(option.doc));
    }
    out
}

/// Names that the compiler knows and no row speaks of; and rows' examples that do not use what they are about.
pub fn gaps() -> Vec<String> {
    let all: Vec<&Entry> = SECTIONS.iter().flat_map(|s| s.entries).collect();
    let words = |text: &str| -> Vec<String> {
        text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').map(str::to_string).collect()
    };
    let named: Vec<String> = all.iter().flat_map(|entry| words(entry.name)).collect();
    let is_arg = |name: &str| name.len() == 4 && name.starts_with("arg") && name != "args";
    known().into_iter().filter(|name| !is_arg(name) && !named.iter().any(|n| n == name)).map(str::to_string).collect()
}
