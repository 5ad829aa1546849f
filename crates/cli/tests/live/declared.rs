//! Probes that programs declare (USDT): operands of every form, counters that switch probes on (field reports R06, R51), processes by glob.

use crate::tools::{answer, c_program, permitted, probity, run};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Notes as `sys/sdt.h` writes them, so that it need not be installed.
const NOTE: &str = r#"
#define NOTE(name, sem, args, ...) __asm__ volatile( \
  "990: nop\n.pushsection .note.stapsdt,\"?\",\"note\"\n.balign 4\n.4byte 992f-991f,994f-993f,3\n" \
  "991: .asciz \"stapsdt\"\n992: .balign 4\n993: .8byte 990b\n.8byte _.stapsdt.base\n.8byte " sem "\n" \
  ".asciz \"shelf\"\n.asciz \"" name "\"\n.asciz \"" args "\"\n994: .balign 4\n.popsection\n" \
  ".ifndef _.stapsdt.base\n.pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n.weak _.stapsdt.base\n" \
  ".hidden _.stapsdt.base\n_.stapsdt.base: .space 1\n.size _.stapsdt.base,1\n.popsection\n.endif\n" :: __VA_ARGS__)
"#;

const FORMS: &str = r#"
static volatile int hidden = -77;
struct odd { char b[7]; } odd = { { 1, 2, 3, 4, 5, 6, 7 } };
long table[4] = { 10, 20, -30, 40 };
__attribute__((noinline)) void forms(long n) {
  NOTE("memory", "0", "-4@hidden(%%rip) -8@(%0,%1,8) -8@8(%0,%1,8) 8@$table 2@hidden+2(%%rip) -8@-8(%2,%1,8)",
       "r"(table), "r"(n), "r"(table + 1));
  NOTE("parts", "0", "1@%%ah -1@%%ah 1@%%al -2@%%ax 4@%%eax -4@%%eax 8@%%rax", "a"(0xfedc8f82L - (1L << 40)));
  NOTE("odd", "0", "7@(%0) 16@(%0) -1@6(%0) 3@4(%0) 8f@%%xmm0 -4@%%fs:16", "r"(&odd)); }
int main(void) { hidden--; forms(2); return 0; }
"#;

#[test]
fn operands_of_every_form() {
    if !permitted() {
        return;
    }
    let program = c_program("operands", &format!("{NOTE}{FORMS}"), &["-O1"]).display().to_string();
    let d = r#"shelf$target:::memory { printf("%d %d %d %d %d %d\n", arg0, arg1, arg2, *(long *)copyin(arg3 + 8, 8), arg4, arg5); }
        shelf$target:::parts { printf("%d %d %d %d %d %d %d\n", arg0, arg1, arg2, arg3, arg4, arg5, arg6); }
        shelf$target:::parts { printf("%d %d\n", args[1], args[4]); }
        shelf$target:::odd { printf("%x %d %x\n", arg0, arg2, arg3); }"#;
    let out = answer(&["-qn", d, "-c", &program]);
    let expected = "-78 -30 40 20 65535 -30\n143 -113 130 -28798 4275867522 -19099774 -1095235760254\n-113 4275867522\n7060504030201 7 70605";
    assert_eq!(out.trim(), expected);
    // What a word cannot hold, or what no program can read, is refused with probe, argument and reason.
    for (argument, part) in [("arg1", "16 bytes"), ("arg4", "%xmm0"), ("arg5", "segment %fs")] {
        let run = run(&["-qn", &format!("shelf$target:::odd {{ trace({argument}); }}"), "-c", &program]);
        assert!(run.status != 0 && run.err.contains(part) && run.err.contains(argument), "{argument}: {}", run.err);
    }
}

/// One probe at three places, with two counters; says what they are, and passes the places, whenever it reads a line.
const COUNTED: &str = r#"
#include <stdio.h>
unsigned short first __attribute__((section(".probes"))), second;
int main(void) { char line[64];
  while (fgets(line, 64, stdin)) { printf("%d %d\n", first, second); fflush(stdout);
    NOTE("step", "first", "-4@$1"); NOTE("step", "second", "-4@$2"); NOTE("step", "first", "-4@$3"); }
  return 0; }
"#;

struct Counted {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Counted {
    fn start(program: &str) -> Counted {
        let mut child =
            Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the program starts");
        let lines = BufReader::new(child.stdout.take().expect("its output"));
        let mut counted = Counted { child, lines };
        assert_eq!(counted.step(), "0 0");
        counted
    }

    fn step(&mut self) -> String {
        writeln!(self.child.stdin.as_mut().expect("its input")).expect("it reads");
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("it answers");
        line.trim().to_owned()
    }

    /// Steps until the counters are all on or all off.
    fn until(&mut self, on: bool) -> String {
        let begun = Instant::now();
        loop {
            let line = self.step();
            if line.split(' ').all(|n| (n != "0") == on) || begun.elapsed() > Duration::from_secs(60) {
                return line;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn counters_are_raised_while_traced_and_fall_when_the_tracer_is_killed() {
    if !permitted() {
        return;
    }
    let program = c_program("counted", &format!("{NOTE}{COUNTED}"), &["-O1"]).display().to_string();
    let mut traced = Counted::start(&program);
    let mut other = Counted::start(&program);
    let pid = traced.child.id().to_string();
    let d = "BEGIN { n = 0; } shelf$target:::step { printf(\"%d\\n\", arg0); }";
    let mut command = probity(&["-qn", d, "-p", &pid]);
    let mut tracer = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the tracer starts");
    let counters = traced.until(true);
    // One for each place.
    assert_eq!(counters, "2 1");
    // Only the traced process's are.
    assert_eq!(other.step(), "0 0");
    let mut seen = BufReader::new(tracer.stdout.take().expect("its output")).lines().map_while(Result::ok);
    let places: Vec<String> = seen.by_ref().filter(|line| !line.is_empty()).take(3).collect();
    assert_eq!(places, ["1", "2", "3"]);
    tracer.kill().expect("it is killed");
    tracer.wait().expect("it ends");
    assert_eq!(traced.until(false), "0 0");
}

#[test]
fn processes_by_glob() {
    if !permitted() {
        return;
    }
    // A name of this run's own: the glob looks at all processes of the machine, on which others may run the same test.
    let name = format!("globbed{}", std::process::id());
    let source = format!("{NOTE}{}", COUNTED.replace("step", &name));
    let program = c_program("globbed", &source, &["-O1"]).display().to_string();
    let (mut one, mut two) = (Counted::start(&program), Counted::start(&program));
    let mut pids = [one.child.id(), two.child.id()];
    pids.sort_unstable();
    let listed = answer(&["-ln", &format!("she*:globbed:main:{name}")]);
    let mut providers: Vec<&str> = listed.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1)).collect();
    providers.sort_by_key(|name| (name.len(), *name));
    assert_eq!(providers, pids.map(|pid| format!("shelf{pid}")), "{listed}");
    let d = format!(
        "she*:globbed::{name} {{ @[probeprov] = count(); }} she*:globbed::{name} /arg0 == 3/ {{ seen[pid] = 1; }}
         tick-50ms /seen[$1] && seen[$2]/ {{ exit(0); }}"
    );
    let [first, second] = pids.map(|pid| pid.to_string());
    let mut command = probity(&["-qn", &d, &first, &second]);
    let mut tracer = command.stdout(Stdio::piped()).spawn().expect("the tracer starts");
    let begun = Instant::now();
    while tracer.try_wait().expect("it is ours").is_none() {
        one.step();
        two.step();
        std::thread::sleep(Duration::from_millis(10));
        if begun.elapsed() > Duration::from_secs(60) {
            let _ = tracer.kill();
        }
    }
    let out = tracer.wait_with_output().expect("it ends");
    let out = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(pids.iter().all(|pid| out.contains(&format!("shelf{pid}"))), "{out}");
}
