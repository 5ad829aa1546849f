//! `proc:::NAME`: the life of processes and threads, and their signals.

use crate::derived::{Cond, Derived, Source, Typed, Value, plain, probe, translated};

/// Bits of a task's exit code: the signal that ended it, and whether it left a core.
const EXIT_SIGNAL: i64 = 0x7f;
const EXIT_CORE: i64 = 0x80;
/// What `signal_generate` says of a signal: delivered, or ignored.
const DELIVERED: i64 = 0;
const IGNORED: i64 = 1;
const SIGKILL: i64 = 9;
/// `CLD_EXITED`, `CLD_KILLED`, `CLD_DUMPED`
const CLD: [i64; 3] = [1, 2, 3];

const TASK: &str = "task_struct";
const TASK_POINTER: &str = "struct task_struct *";

/// A thread group's leader has a signal for its parent, other threads have -1.
const LEADER: Cond = Cond::Within(Value::Member(&Value::Task, TASK, "exit_signal"), 0, i64::MAX);
const NEW_LEADER: Cond = Cond::Within(Value::Member(&Value::Arg(1), TASK, "exit_signal"), 0, i64::MAX);

const EXIT_CODE: Value = Value::Member(&Value::Task, TASK, "exit_code");
const EXITED: Cond = Cond::Is(Value::Masked(&EXIT_CODE, EXIT_SIGNAL), 0);
const DUMPED: Cond = Cond::Is(Value::Masked(&EXIT_CODE, EXIT_CORE), EXIT_CORE);
const KILLED_HOW: Value = Value::Case(&DUMPED, &Value::Const(CLD[2]), &Value::Const(CLD[1]));
const EXIT_REASON: Value = Value::Case(&EXITED, &Value::Const(CLD[0]), &KILLED_HOW);

const FORKS: Cond = Cond::All(&[Cond::Is(Value::Result, 0), Cond::Call(&["clone", "clone3", "fork", "vfork"])]);
const EXECS: &[&str] = &["execve", "execveat"];
const EXEC_PATH: Value = Value::Case(&Cond::Call(&["execveat"]), &Value::CallArg(1), &Value::CallArg(0));

/// A signal without a handler is delivered as SIGKILL to every thread; which it was, the group remembers.
const SIGNAL_STRUCT: Value = Value::Member(&Value::Task, TASK, "signal");
const GROUP_CODE: Value = Value::Member(&SIGNAL_STRUCT, "signal_struct", "group_exit_code");
const FATAL: Cond = Cond::All(&[Cond::Is(Value::Arg(0), SIGKILL), Cond::Within(GROUP_CODE, 1, i64::MAX)]);
const HANDLED: Value = Value::Case(&FATAL, &Value::Masked(&GROUP_CODE, EXIT_SIGNAL), &Value::Arg(0));
const HANDLER: Value = Value::Member(&Value::Arg(2), "k_sigaction", "sa.sa_handler");

/// The thread and process that a signal is for, and the signal.
const SENT: &[Typed] = &[
    translated(Value::Arg(2), TASK_POINTER, "lwpsinfo_t *"),
    translated(Value::Arg(2), TASK_POINTER, "psinfo_t *"),
    plain(Value::Arg(0), "int"),
];
const SENT_RAW: &[Value] = &[Value::Arg(2), Value::Arg(0)];

/// The provider `proc`.
pub(crate) static PROC: Derived = Derived {
    name: "proc",
    first_id: 10_000,
    probes: &[
        probe(
            "create",
            &[Source::Tracepoint("sched_process_fork")],
            Some(NEW_LEADER),
            &[Value::Arg(1)],
            &[translated(Value::Arg(1), TASK_POINTER, "psinfo_t *")],
        ),
        probe(
            "exec",
            &[Source::Entry],
            Some(Cond::Call(EXECS)),
            &[EXEC_PATH],
            &[translated(EXEC_PATH, "char *", "string")],
        ),
        probe(
            "exec-failure",
            &[Source::Return],
            Some(Cond::All(&[Cond::Within(Value::Result, i64::MIN, -1), Cond::Call(EXECS)])),
            &[Value::Result],
            &[plain(Value::Result, "int")],
        ),
        probe("exec-success", &[Source::Tracepoint("sched_process_exec")], None, &[], &[]),
        // Where the kernel says that it is the last thread, that is the process's end; else its first thread's is.
        probe(
            "exit",
            &[Source::Tracepoint("sched_process_exit")],
            Some(Cond::Flag(1, &LEADER)),
            &[EXIT_REASON],
            &[plain(EXIT_REASON, "int")],
        ),
        probe(
            "lwp-create",
            &[Source::Tracepoint("sched_process_fork")],
            None,
            &[Value::Arg(1)],
            &[
                translated(Value::Arg(1), TASK_POINTER, "lwpsinfo_t *"),
                translated(Value::Arg(1), TASK_POINTER, "psinfo_t *"),
            ],
        ),
        probe("lwp-exit", &[Source::Tracepoint("sched_process_exit")], None, &[], &[]),
        // What a new thread does first is to return 0 from the call that made it.
        probe("lwp-start", &[Source::Return], Some(FORKS), &[], &[]),
        probe(
            "signal-clear",
            &[Source::Return],
            Some(Cond::All(&[
                Cond::Within(Value::Result, 1, i64::MAX),
                Cond::Call(&["rt_sigtimedwait", "rt_sigtimedwait_time64"]),
            ])),
            &[Value::Result],
            &[plain(Value::Result, "int")],
        ),
        probe(
            "signal-discard",
            &[Source::Tracepoint("signal_generate")],
            Some(Cond::Is(Value::Arg(4), IGNORED)),
            SENT_RAW,
            SENT,
        ),
        probe(
            "signal-handle",
            &[Source::Tracepoint("signal_deliver")],
            None,
            &[HANDLED, Value::Arg(1), HANDLER],
            &[plain(HANDLED, "int"), plain(Value::Arg(1), "siginfo_t *"), plain(HANDLER, "void (*)(void)")],
        ),
        probe(
            "signal-send",
            &[Source::Tracepoint("signal_generate")],
            Some(Cond::Is(Value::Arg(4), DELIVERED)),
            SENT_RAW,
            SENT,
        ),
        probe("start", &[Source::Return], Some(Cond::All(&[FORKS, LEADER])), &[], &[]),
    ],
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Provider;
    use crate::kernel_types::kernel_btf;
    use crate::testing::live;
    use probity_ir::{Location, ProbeDesc, TypeTable};
    use probity_kernel::System;

    #[test]
    fn every_probe_has_a_signature_and_a_number() {
        if !live() || kernel_btf(&System::live()).is_none() {
            return;
        }
        let sys = System::live();
        let mut all = Vec::new();
        PROC.probes(&sys, &ProbeDesc::new("proc", "", "", ""), &mut |desc| all.push(desc)).unwrap();
        assert_eq!(all.len(), 13);
        let mut types = TypeTable::default();
        for (n, probe) in all.iter().enumerate() {
            assert_eq!(PROC.id(&sys, probe), 10_000 + n as u32);
            let signature = PROC.signature(&sys, probe, true, &mut types).unwrap();
            for arg in &signature.args {
                assert!(!matches!(arg.location, Location::None(_)), "{probe} {arg:?}");
            }
        }
        let send = ProbeDesc::new("proc", "vmlinux", "", "signal-send");
        let signature = PROC.signature(&sys, &send, true, &mut types).unwrap();
        let args: Vec<_> = signature.args.iter().map(|arg| (types.name(arg.ty), arg.translated.as_str())).collect();
        let task = "struct task_struct *".to_owned();
        assert_eq!(args, [(task.clone(), "lwpsinfo_t *"), (task, "psinfo_t *"), ("int".to_owned(), "")]);
    }
}
