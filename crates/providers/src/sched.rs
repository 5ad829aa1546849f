//! `sched:::NAME`: what the scheduler does with threads.
//!
//! All from tracepoints. `enqueue` and `dequeue` are what these tell: a thread is woken or new, or goes to sleep; that a thread which
//! could run is moved to another CPU is `sdt:sched::sched_migrate_task`. `on-cpu` does not see a new thread's first run
//! (`proc:::lwp-start` does). `change-pri` is what the kernel itself does to a thread, to lend it the priority of one that waits for
//! it; what programs ask for is seen at their calls (`syscall::setpriority:entry`, `syscall::sched_set*:entry`).

use crate::derived::{Cond, Derived, Source, Typed, Value, plain, probe, translated};

const TASK_POINTER: &str = "struct task_struct *";
/// `TASK_DEAD` in a task's state; what is left says that it sleeps.
const NOT_DEAD: i64 = !0x80;

const fn thread(value: Value) -> Typed {
    translated(value, TASK_POINTER, "lwpsinfo_t *")
}

const fn process(value: Value) -> Typed {
    translated(value, TASK_POINTER, "psinfo_t *")
}

/// A CPU, by its number.
const fn cpu(value: Value) -> Typed {
    translated(value, "int", "cpuinfo_t *")
}

const QUEUED_CPU: Value = Value::Member(&Value::Arg(0), "task_struct", "thread_info.cpu");
const LEFT_CPU: Value = Value::Member(&Value::Arg(1), "task_struct", "thread_info.cpu");
const AT_HEAD: Value = Value::Unknown("no tracepoint tells whether it is put at the head of the queue");

/// `sched_switch(preempt, prev, next, prev_state)`: the previous thread goes to sleep.
const SLEEPS: Cond =
    Cond::All(&[Cond::Is(Value::Arg(0), 0), Cond::Within(Value::Masked(&Value::Arg(3), NOT_DEAD), 1, i64::MAX)]);
/// The priority without a boost, and the one of the thread that waits longest for a lock, if any does: the more urgent counts.
const OWN: Value = Value::Member(&Value::Arg(0), "task_struct", "normal_prio");
const WAITER: Value = Value::Member(&Value::Nullable(&Value::Arg(1)), "task_struct", "prio");
/// `sched_pi_setprio(thread, waiter)`: the priority that the thread is about to get.
const BOOSTED: Value =
    Value::Case(&Cond::Is(Value::Arg(1), 0), &OWN, &Value::Case(&Cond::Less(WAITER, OWN), &WAITER, &OWN));
const NO_EXIT: &str = "no tracepoint fires in a thread that begins or goes on to run before Linux 6.15 (sched_exit_tp)";
const SWITCH: &[Source] = &[Source::Tracepoint("sched_switch")];
const CURRENT: &[Typed] = &[thread(Value::Task), process(Value::Task)];

/// The provider `sched`.
pub(crate) static SCHED: Derived = Derived {
    name: "sched",
    first_id: 10_100,
    probes: &[
        probe(
            "dequeue",
            SWITCH,
            Some(SLEEPS),
            &[Value::Arg(1), LEFT_CPU],
            &[thread(Value::Arg(1)), process(Value::Arg(1)), cpu(LEFT_CPU)],
        ),
        probe(
            "enqueue",
            &[Source::Tracepoints(&["sched_wakeup", "sched_wakeup_new"])],
            None,
            &[Value::Arg(0), QUEUED_CPU, AT_HEAD],
            &[thread(Value::Arg(0)), process(Value::Arg(0)), cpu(QUEUED_CPU), plain(AT_HEAD, "int")],
        ),
        probe("off-cpu", SWITCH, None, &[Value::Arg(2)], &[thread(Value::Arg(2)), process(Value::Arg(2))]),
        probe(
            "on-cpu",
            &[Source::Tracepoint("sched_exit_tp"), Source::Nowhere(NO_EXIT)],
            Some(Cond::Is(Value::Arg(0), 1)),
            &[],
            &[],
        ),
        probe("preempt", SWITCH, Some(Cond::Is(Value::Arg(0), 1)), &[], &[]),
        probe("sleep", SWITCH, Some(SLEEPS), &[], &[]),
        probe("surrender", &[Source::Entry], Some(Cond::Call(&["sched_yield"])), &[Value::Task], CURRENT),
        // The timer of the tick, among all timers.
        probe(
            "tick",
            &[Source::Tracepoint("hrtimer_expire_entry")],
            Some(Cond::Function(
                Value::Member(&Value::Arg(0), "hrtimer", "function"),
                &["tick_nohz_handler", "tick_sched_timer"],
            )),
            &[Value::Task],
            CURRENT,
        ),
        probe(
            "wakeup",
            &[Source::Tracepoint("sched_wakeup")],
            None,
            &[Value::Arg(0)],
            &[thread(Value::Arg(0)), process(Value::Arg(0))],
        ),
        probe(
            "change-pri",
            &[Source::Tracepoint("sched_pi_setprio")],
            None,
            &[Value::Arg(0), BOOSTED],
            &[thread(Value::Arg(0)), process(Value::Arg(0)), plain(BOOSTED, "int")],
        ),
        probe(
            "remain-cpu",
            &[Source::Tracepoint("sched_exit_tp"), Source::Nowhere(NO_EXIT)],
            Some(Cond::Is(Value::Arg(0), 0)),
            &[],
            &[],
        ),
    ],
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Provider;
    use crate::kernel_types::kernel_btf;
    use crate::testing::live;
    use probity_ir::{ProbeDesc, TypeTable};
    use probity_kernel::System;

    #[test]
    fn every_probe_has_a_signature_or_a_reason() {
        if !live() || kernel_btf(&System::live()).is_none() {
            return;
        }
        let sys = System::live();
        let mut types = TypeTable::default();
        SCHED
            .probes(&sys, &ProbeDesc::new("sched", "", "", ""), &mut |probe| match SCHED
                .signature(&sys, &probe, true, &mut types)
            {
                Ok(signature) => assert!(signature.raw.len() <= signature.args.len(), "{probe}"),
                Err(error) => {
                    assert!(error.to_string().contains("kernel") || error.to_string().contains(NO_EXIT), "{error}")
                }
            })
            .unwrap();
    }
}
