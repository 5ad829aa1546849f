//! A running session: loads, attaches, opens the gate, hands out what the kernel recorded, and stops.
//!
//! The gate is the state word of the layout: no clause runs before every probe is attached and BEGIN is done, and none after
//! `exit()`. Nothing is printed here; a [`Consumer`] gets everything in order.

use crate::env::provider_of;
use crate::merge::Merge;
use crate::policy::{Policy, Verdict};
use crate::rates::{IDLE, Rates};
use crate::speculation::{Fate, Speculations, Speculative, handle_of, speculative};
use crate::target::Targets;
use crate::ticks::Ticks;
use probity_bpf::helpers::Helper;
use probity_bpf::insn::Insn;
use probity_compiler::Compiled;
use probity_ir::{
    Action, AggId, Drop as Cause, ENTRY_BOUNDS, Expr, Layout, Phase, Program, SPEC_ID_BITS, SPEC_SLOT, STARTING,
    STOPPING, Unit, UnitId,
};
use probity_kernel::{Error, Kind, Loaded, Mapped, Poller, Prog, System, Update, clock, grace};
use probity_output::{Aggregations, Context, DropCount, Event, Fault, Item, Plan, Record, Store, Symbols, decode};
use probity_providers::Attachment;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long the newest records are held back, in ns, so that an older one of another CPU that is just being written can
/// come before them.
const SETTLE: u64 = 100_000;
/// The pause while records come in.
const BUSY: Duration = Duration::from_millis(2);

const TOKEN_CONTROL: u64 = 0;
const TOKEN_WAKE: u64 = 1;
const TOKEN_TARGETS: u64 = 2;

/// Receives what a session finds, in order. `probity_output`'s renderers do most of the work of one.
pub trait Consumer {
    /// A record, a fault, a count of drops or an error. `aggs` holds the aggregations as they are at this point; a record's `clear`,
    /// `trunc`, `normalize` and `denormalize` are to be applied to it in their turn ([`probity_output::render::apply`]), as the renderers do.
    fn event(&mut self, cx: &Context<'_>, event: &Event, aggs: &mut Aggregations) -> Result<(), Error>;
    /// A turn of the loop has ended: time to flush.
    fn turn(&mut self) -> Result<(), Error>;
    /// The wake-up descriptor was readable: whether to stop.
    fn interrupted(&mut self) -> bool;
    /// Whether nobody reads the answer any more, so that the session should end.
    fn closed(&self) -> bool {
        false
    }
}

/// Why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// `exit(status)`
    Exit(i32),
    /// All targets ended.
    Targets,
    /// The consumer was interrupted.
    Interrupted,
    /// A buffer of the policy `fill` is full.
    Full,
}

/// A session; dropping it detaches everything.
pub struct Session<'a> {
    sys: &'a System,
    compiled: &'a Compiled,
    symbols: &'a dyn Symbols,
    plan: Plan,
    loaded: Loaded,
    state: Mapped,
    drops: Drops,
    merge: Merge,
    aggs: Live,
    specs: Speculations,
    policy: Policy,
    /// What the policy kept, to be handed out.
    released: Vec<Vec<u8>>,
    rates: Rates,
    attachments: Vec<Attachment>,
    ticks: Option<Ticks>,
    missed_ticks: u64,
    /// When drops were reported last, ns.
    last_drops: u64,
    exit: Option<i32>,
}

/// Whether buffers of the policy `fill` are too small for what END records, for which there must be room in any case.
pub fn end_too_large(compiled: &Compiled) -> bool {
    Policy::new(&compiled.options, &compiled.program).end_too_large(&compiled.program)
}

/// Loads a compiled program and attaches its probes behind the closed gate.
pub fn start<'a>(sys: &'a System, compiled: &'a Compiled, symbols: &'a dyn Symbols) -> Result<Session<'a>, Error> {
    let layout = &compiled.layout;
    let loaded = probity_kernel::load(&compiled.object).map_err(|e| rejected(e, compiled))?;
    let map = |index: u32| &loaded.maps[index as usize];
    let state = map(layout.state_map).mmap()?;
    let offset = clock::realtime_offset_ns();
    state.u64(layout.realtime_offset as usize).store(offset as u64, Ordering::Relaxed);
    if let Some(first) = layout.switched_offset {
        let now = clock::monotonic_ns();
        (0..layout.ncpu).for_each(|cpu| state.u64((first + 8 * cpu) as usize).store(now, Ordering::Relaxed));
    }
    let policy = Policy::new(&compiled.options, &compiled.program);
    let drops = Drops::new(map(layout.drops_map).mmap()?, layout);
    let merge = Merge::new(&loaded, layout)?;
    let aggs = Live::new(&compiled.program, layout, &loaded, compiled.options.aggpercpu)?;
    let mut session = Session {
        sys,
        compiled,
        symbols,
        plan: Plan::new(&compiled.program),
        loaded,
        state,
        drops,
        merge,
        aggs,
        specs: Speculations::default(),
        policy,
        released: Vec::new(),
        rates: Rates::new(&compiled.options),
        attachments: Vec::new(),
        ticks: None,
        missed_ticks: 0,
        last_drops: 0,
        exit: None,
    };
    if let Some(index) = layout.entry_map {
        let mut bounds = symbols.tracepoint_entries();
        bounds.resize(ENTRY_BOUNDS as usize, u64::MAX);
        let bytes: Vec<u8> = bounds.iter().flat_map(|b| b.to_ne_bytes()).collect();
        session.loaded.maps[index as usize].update(&0u32.to_ne_bytes(), &bytes, Update::Any)?;
    }
    if names_processes(&compiled.program) {
        symbols.watch();
        symbols.turn();
    }
    session.attach()?;
    if let Some(upkeep) = &compiled.program.upkeep {
        let map = layout.arrays.get(upkeep.array.0 as usize).and_then(|&index| session.loaded.maps.get(index as usize));
        map.map_or(Ok(()), |map| crate::arguments::fill(sys, &compiled.program, upkeep, map))?;
    }
    Ok(session)
}

/// Whether a program shows addresses of processes.
fn names_processes(program: &Program) -> bool {
    let of_process = |e: &Expr| match e {
        Expr::Stack(stack) => stack.user,
        Expr::UserAddr(_) => true,
        _ => false,
    };
    program.units.iter().flat_map(|u| &u.clauses).flat_map(|c| &c.exprs).any(of_process)
}

/// Says which source line a rejected program came from; this is our bug (G3).
fn rejected(error: Error, compiled: &Compiled) -> Error {
    let Some((prog, slot)) = error.rejected_at().filter(|_| error.kind() == Kind::Rejected) else { return error };
    let overrides = |p: &probity_bpf::ProgSpec| p.insns.contains(&Insn::call(Helper::OverrideReturn));
    if compiled.object.progs.get(prog).is_some_and(overrides) {
        return error.context("return() needs a kernel with CONFIG_BPF_KPROBE_OVERRIDE, which this one may be without");
    }
    let line = slot.and_then(|s| compiled.object.progs.get(prog)?.line_at(s));
    let at = line.map_or(String::new(), |l| format!(" at line {l}"));
    error.context(format!("this is a bug in Probity: the kernel refused code that was generated{at}; please report it"))
}

impl Session<'_> {
    fn attach(&mut self) -> Result<(), Error> {
        let compiled = self.compiled;
        // The kernel runs programs in the order in which they were attached: what keeps something for the others comes first.
        let ours = |id: &UnitId| compiled.program.upkeep.as_ref().is_some_and(|upkeep| upkeep.units.contains(id));
        let (first, then): (Vec<UnitId>, Vec<UnitId>) = self.units().map(|(id, _)| id).partition(ours);
        for id in first.into_iter().chain(then) {
            let unit = &compiled.program.units[id.0 as usize];
            let mut calls: Vec<(&'static dyn probity_providers::Provider, Vec<_>)> = Vec::new();
            for (index, probe) in unit.probes.iter().enumerate() {
                let Some(probe) = probe else { continue };
                let provider = provider_of(&probe.desc)?;
                match calls.iter_mut().find(|(p, _)| p.name() == provider.name()) {
                    Some((_, list)) => list.push((index as u32, probe.desc.clone())),
                    None => calls.push((provider, vec![(index as u32, probe.desc.clone())])),
                }
            }
            for (provider, probes) in calls {
                let attachment = provider.attach(self.sys, &probes, self.prog(id)).map_err(|e| {
                    e.context(format!("cannot attach {}", probes.first().map(|p| p.1.to_string()).unwrap_or_default()))
                })?;
                self.attachments.push(attachment);
            }
        }
        Ok(())
    }

    fn units(&self) -> impl Iterator<Item = (UnitId, &Unit)> + use<'_> {
        self.compiled.program.units.iter().enumerate().map(|(i, u)| (UnitId(i as u32), u))
    }

    fn prog(&self, unit: UnitId) -> &Prog {
        &self.loaded.progs[self.compiled.layout.progs[unit.0 as usize] as usize]
    }

    /// How the probes were attached, in words, and which were left out: for `-v`.
    pub fn attachments(&self) -> &[Attachment] {
        &self.attachments
    }

    /// What reading its records needs.
    pub fn context(&self) -> Context<'_> {
        Context {
            program: &self.compiled.program,
            layout: &self.compiled.layout,
            types: &self.compiled.types,
            plan: &self.plan,
            symbols: self.symbols,
        }
    }

    /// Runs the programs of a phase in the consumer's own context, one run for each probe.
    fn run_phase(&self, phase: Phase, args: &[u64]) -> Result<(), Error> {
        for (id, unit) in self.units().filter(|(_, u)| u.phase == phase) {
            for _ in unit.probes.iter().flatten() {
                self.prog(id).test_run(args, self.cpu())?;
            }
        }
        Ok(())
    }

    /// The CPU on which the consumer runs programs, if it matters.
    fn cpu(&self) -> Option<u32> {
        // Where buffers have limits, the thread that serves timers should not go from one to another.
        let first = || probity_kernel::cpu::online().ok()?.first().copied();
        self.compiled.program.cpu.or_else(|| if self.policy.by_cpu() { first() } else { None })
    }

    /// Runs BEGIN, opens the gate and starts the timers, unless BEGIN has called `exit()`.
    pub fn begin(&mut self, consumer: &mut dyn Consumer) -> Result<(), Error> {
        self.run_phase(Phase::Begin, &[0])?;
        let word = self.state.u64(0);
        let open = word.compare_exchange(STARTING as u64, 0, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        if open {
            let timers = self.attachments.iter_mut().flat_map(|a| std::mem::take(&mut a.timers)).collect();
            self.ticks = Ticks::start(timers, self.cpu())?;
        }
        if self.rates.slow() {
            return Ok(());
        }
        self.drain(consumer, None)
    }

    /// Hands out records until `exit()`, the end of all targets, or an interruption. `wake` is a descriptor that becomes readable
    /// when the consumer should be asked.
    pub fn run(
        &mut self,
        consumer: &mut dyn Consumer,
        targets: &mut Targets,
        wake: Option<BorrowedFd<'_>>,
    ) -> Result<Outcome, Error> {
        let poller = Poller::new()?;
        poller.add(self.merge.control(), TOKEN_CONTROL)?;
        if let Some(fd) = wake {
            poller.add(fd, TOKEN_WAKE)?;
        }
        targets.watch(&poller, TOKEN_TARGETS)?;
        let mut pause = BUSY;
        let mut ready = Vec::new();
        loop {
            let before = self.merge.records;
            let now = clock::monotonic_ns();
            if self.rates.read(now) || self.merge.pressed() {
                self.drain(consumer, Some(now.saturating_sub(SETTLE)))?;
                consumer.turn()?;
            }
            if self.rates.look(now) {
                if let Some(status) = self.exit {
                    return Ok(Outcome::Exit(status));
                }
                if self.policy.full() {
                    return Ok(Outcome::Full);
                }
            }
            if consumer.closed() {
                return Ok(Outcome::Interrupted);
            }
            pause = if self.merge.records != before { BUSY } else { (pause * 2).min(self.rates.idle()) };
            if self.merge.pressed() {
                pause = Duration::ZERO;
            }
            poller.wait(Some(pause), &mut ready)?;
            if ready.contains(&TOKEN_CONTROL) {
                // What is not read yet wakes us at once: then it is time that is waited for.
                let slow = if self.rates.slow() { IDLE } else { Duration::ZERO };
                std::thread::sleep(slow);
                // Level-triggered: a control record that is still settling would wake us over and over.
                std::thread::sleep(Duration::from_nanos(SETTLE));
            }
            if ready.contains(&TOKEN_WAKE) && consumer.interrupted() {
                return Ok(Outcome::Interrupted);
            }
            if ready.iter().any(|&t| t >= TOKEN_TARGETS) && targets.all_ended()? {
                return Ok(Outcome::Targets);
            }
        }
    }

    /// Closes the gate, waits until no program runs, runs END, and hands out all that is left. Returns the last `exit()`
    /// status, if there was any.
    pub fn stop(&mut self, consumer: &mut dyn Consumer) -> Result<Option<i32>, Error> {
        if let Some(ticks) = self.ticks.take() {
            self.missed_ticks = ticks.stop();
        }
        self.state.u64(0).store(STOPPING as u64, Ordering::SeqCst);
        if self.attachments.iter().any(|a| !a.links.is_empty()) {
            grace::wait()?;
        }
        // A grace period says nothing of programs that may sleep; detaching does wait for them.
        if self.compiled.object.progs.iter().any(|p| p.sleepable) {
            self.attachments.clear();
        }
        self.drain(consumer, None)?;
        self.run_phase(Phase::End, &[0])?;
        self.drain(consumer, None)?;
        self.released = self.policy.end();
        self.drain(consumer, None)?;
        let (state, slots) = (&self.state, self.compiled.layout.spec_slots);
        self.specs.end(|handle| {
            let index = (handle & ((1 << SPEC_ID_BITS) - 1)).saturating_sub(1) as u32;
            state.u64((slots + index * SPEC_SLOT) as usize).load(Ordering::Relaxed) == handle >> SPEC_ID_BITS
        });
        self.report_missed(consumer)?;
        let status = self.exit;
        if let Some(status) = status {
            self.tell(consumer, &Event::Exit(status))?;
        }
        consumer.turn()?;
        Ok(status)
    }

    /// All aggregations with their final values, and what rendering them needs. Call after [`Session::stop`].
    pub fn aggregations(&mut self) -> Result<(Context<'_>, &mut Aggregations), Error> {
        let all: Vec<AggId> = (0..self.compiled.program.aggs.len() as u32).map(AggId).collect();
        let (compiled, plan, symbols) = (self.compiled, &self.plan, self.symbols);
        let (program, layout, types) = (&compiled.program, &compiled.layout, &compiled.types);
        let cx = Context { program, layout, types, plan, symbols };
        all.into_iter().try_for_each(|agg| self.aggs.bind(cx, &self.state).fresh(agg))?;
        Ok((cx, &mut self.aggs.values))
    }

    /// Hands out everything that is in the rings, up to a time if one is given, and new drops.
    fn drain(&mut self, consumer: &mut dyn Consumer, until: Option<u64>) -> Result<(), Error> {
        self.symbols.turn();
        let mut failure = None;
        let Session { merge, compiled, plan, symbols, aggs, specs, policy, rates, state, exit, loaded, .. } = self;
        let released = std::mem::take(&mut self.released);
        let cpu = compiled.program.cpu;
        let (program, layout, types) = (&compiled.program, &compiled.layout, &compiled.types);
        let cx = Context { program, layout, types, plan, symbols: *symbols };
        let errors: Vec<&Prog> = (compiled.program.units.iter().zip(&compiled.layout.progs))
            .filter(|(unit, _)| unit.phase == Phase::Always)
            .map(|(_, &prog)| &loaded.progs[prog as usize])
            .collect();
        let mut again = true;
        while again {
            let mut fault: Option<Fault> = None;
            let mut take = |bytes: &[u8]| {
                let kept = policy.take(cx.program, bytes) == Verdict::Keep;
                if kept && !says_exit(cx.program, bytes) {
                    return true;
                }
                let event =
                    decode(&cx, bytes).unwrap_or_else(|e| Event::Error(format!("a record cannot be read: {e}")));
                if let Event::Record(record) = &event {
                    if let Some(status) = record.items.iter().find_map(exit_status) {
                        // As in DTrace, END may set another.
                        *exit = Some(status);
                    }
                    if kept {
                        return true;
                    }
                    record.items.iter().for_each(|item| rates.set(item));
                    if let Err(e) = aggs.bind(cx, state).prepare(record) {
                        failure = Some(e);
                        return false;
                    }
                }
                failure = consumer.event(&cx, &event, &mut aggs.values).err();
                if let Event::Fault(f) = event {
                    fault = Some(f);
                }
                // ERROR runs right after its fault was reported, so that its output follows the message.
                failure.is_none() && (fault.is_none() || errors.is_empty())
            };
            for bytes in &released {
                take(bytes);
            }
            merge.drain(until, &mut |bytes| match speculative(cx.program, bytes) {
                Speculative::No => take(bytes),
                Speculative::Record if specs.record(bytes) == Fate::Committed => take(bytes),
                Speculative::Record => true,
                Speculative::Decision { commit } => {
                    let mut go_on = true;
                    let time = bytes.first_chunk().map_or(0, |b| u64::from_ne_bytes(*b));
                    specs.decide(time, handle_of(bytes), commit, |record| {
                        go_on = take(record);
                        go_on
                    });
                    go_on
                }
            });
            if let Some(e) = failure.take() {
                return Err(e);
            }
            again = fault.is_some();
            for fault in fault.iter() {
                if compiled.program.units[fault.probe.unit.0 as usize].phase == Phase::Always {
                    let drops = DropCount { cause: Cause::ErrorFault, cpu: None, count: 1 };
                    consumer.event(&cx, &Event::Drops(drops), &mut aggs.values)?;
                    continue;
                }
                // As DTrace 2: probe, clause, place, fault, illegal value. The place is a line of the source here.
                let id = fault.probe.get(cx.program).map_or(0, |p| p.id);
                let (clause, line) = (u64::from(fault.clause.0), u64::from(fault.line));
                let args = [0, u64::from(id), clause, line, u64::from(fault.code), fault.value];
                errors.iter().try_for_each(|prog| prog.test_run(&args, cpu).map(drop))?;
            }
        }
        // One line a cause and CPU in each `statusrate`; the rest is told at the end.
        let now = clock::monotonic_ns();
        if now.saturating_sub(self.last_drops) < self.compiled.options.statusrate {
            return Ok(());
        }
        self.last_drops = now;
        self.report_drops(consumer)
    }

    fn report_drops(&mut self, consumer: &mut dyn Consumer) -> Result<(), Error> {
        let mut counts = self.drops.new_counts();
        let lost = self.specs.take_lost();
        if lost > 0 {
            counts.push(DropCount { cause: Cause::Speculation, cpu: None, count: lost });
        }
        counts.into_iter().try_for_each(|count| self.tell(consumer, &Event::Drops(count)))
    }

    fn tell(&mut self, consumer: &mut dyn Consumer, event: &Event) -> Result<(), Error> {
        let (program, layout) = (&self.compiled.program, &self.compiled.layout);
        let types = &self.compiled.types;
        let cx = Context { program, layout, types, plan: &self.plan, symbols: self.symbols };
        consumer.event(&cx, event, &mut self.aggs.values)
    }

    /// Events that fired while their program could not run.
    fn report_missed(&mut self, consumer: &mut dyn Consumer) -> Result<(), Error> {
        self.report_drops(consumer)?;
        let mut count = self.missed_ticks;
        for prog in &self.loaded.progs {
            count += prog.recursion_misses()?;
        }
        if count > 0 {
            self.tell(consumer, &Event::Drops(DropCount { cause: Cause::Missed, cpu: None, count }))?;
        }
        Ok(())
    }
}

/// Whether a record has an `exit()`.
fn says_exit(program: &Program, bytes: &[u8]) -> bool {
    let number = bytes.get(8..12).and_then(|b| b.try_into().ok()).map_or(u32::MAX, u32::from_ne_bytes);
    let record = program.records.get(number as usize);
    record.is_some_and(|r| r.actions.iter().any(|a| matches!(a, Action::Exit(_))))
}

fn exit_status(item: &Item) -> Option<i32> {
    match item {
        Item::Exit(status) => Some(*status),
        _ => None,
    }
}

/// The drop counters, and how much of them has been reported.
struct Drops {
    map: Mapped,
    ncpu: u32,
    reported: Vec<u64>,
}

impl Drops {
    fn new(map: Mapped, layout: &Layout) -> Drops {
        let n = (Cause::COUNT * layout.ncpu) as usize;
        Drops { map, ncpu: layout.ncpu, reported: vec![0; n] }
    }

    fn new_counts(&mut self) -> Vec<DropCount> {
        let mut counts: Vec<DropCount> = Vec::new();
        for (i, reported) in self.reported.iter_mut().enumerate() {
            let now = self.map.u64(i * 8).load(Ordering::Relaxed);
            if now != *reported {
                let cause = Cause::ALL[i / self.ncpu as usize];
                let cpu = Some(i as u32 % self.ncpu);
                let count = now.wrapping_sub(*reported);
                // A speculation is of no CPU.
                let whole = matches!(cause, Cause::Speculation | Cause::NoSpeculation);
                let cpu = cpu.filter(|_| !whole);
                match counts.last_mut() {
                    Some(last) if whole && last.cause == cause => last.count += count,
                    _ => counts.push(DropCount { cause, cpu, count }),
                }
                *reported = now;
            }
        }
        counts
    }
}

/// The aggregations and the maps they are in.
struct Live {
    values: Aggregations,
    maps: Vec<probity_kernel::Map>,
    /// The epoch that programs are in; its parity is in the keys.
    epoch: u64,
}

impl Live {
    fn new(program: &Program, layout: &Layout, loaded: &Loaded, percpu: bool) -> Result<Live, Error> {
        let mut values = Aggregations::new(program);
        values.percpu = percpu;
        let map = |m: u32| {
            let missing = || Error::new(Kind::Invalid, format!("the object has no map {m}"));
            loaded.maps.get(m as usize).cloned().ok_or_else(missing)
        };
        let maps = layout.aggs.iter().map(|a| map(a.map)).collect::<Result<_, _>>()?;
        Ok(Live { values, maps, epoch: 0 })
    }

    fn bind<'b>(&'b mut self, cx: Context<'b>, state: &'b Mapped) -> Bound<'b> {
        Bound { live: self, cx, state }
    }
}

/// [`Live`] with what it needs to read its maps.
struct Bound<'b> {
    live: &'b mut Live,
    cx: Context<'b>,
    state: &'b Mapped,
}

impl Bound<'_> {
    /// Feeds a map's entries; those that `mine` chooses by epoch parity.
    fn read(&mut self, agg: AggId, store: Store, mine: impl Fn(u32) -> bool) -> Result<(), Error> {
        let layout = &self.cx.layout.aggs[agg.0 as usize];
        let map = self.live.maps[agg.0 as usize].clone();
        let mut failure = None;
        let values = &mut self.live.values;
        let mut feed = |key: &[u8], value: &[u8]| {
            if let Err(e) = values.add(&self.cx, agg, key, value, store) {
                failure = Some(e);
            }
        };
        if layout.fields.is_empty() {
            // One value: a part for each CPU, and twice that when it is double-buffered.
            let whole = map.lookup(&0u32.to_ne_bytes())?.unwrap_or_default();
            let ncpu = self.cx.layout.ncpu;
            for (i, part) in whole.chunks_exact(layout.stride as usize).enumerate() {
                if mine(i as u32 / ncpu) {
                    feed(&(i as u32).to_ne_bytes(), part);
                }
            }
        } else {
            map.for_each(|key, value| {
                if tag_of(key) == layout.tag && mine(parity_of(key)) {
                    feed(key, value);
                }
            })?;
        }
        failure.map_or(Ok(()), |e| Err(Error::new(Kind::Invalid, format!("an aggregation cannot be read: {e}"))))
    }

    /// Brings the aggregations that a record's items speak of up to date.
    ///
    /// A record that clears something ends the epoch first: what it prints and clears is exactly what was counted until then, and
    /// what is counted meanwhile belongs to the next epoch.
    fn prepare(&mut self, record: &Record) -> Result<(), Error> {
        let resets = record.items.iter().any(|i| matches!(i, Item::Clear(_) | Item::Trunc(..)));
        if resets {
            self.next_epoch()?;
        }
        for item in &record.items {
            if let Item::Clear(agg) | Item::Trunc(agg, _) = item
                && !self.cx.program.aggs[agg.0 as usize].resettable
            {
                // Only END resets it: nothing is counted any more.
                self.take(*agg)?;
            }
            let Item::Printa(aggs) = item else { continue };
            for &agg in aggs {
                if !(resets && self.cx.program.aggs[agg.0 as usize].resettable) {
                    self.fresh(agg)?;
                }
            }
        }
        Ok(())
    }

    /// Makes all that an aggregation's map holds the consumer's, when no program runs any more.
    fn take(&mut self, agg: AggId) -> Result<(), Error> {
        self.live.values.begin(agg);
        self.read(agg, Store::Kept, |_| true)?;
        let map = &self.live.maps[agg.0 as usize];
        if self.cx.layout.aggs[agg.0 as usize].fields.is_empty() {
            let len = map.lookup(&0u32.to_ne_bytes())?.map_or(0, |whole| whole.len());
            let mapped = map.mmap()?;
            (0..len).step_by(8).for_each(|offset| mapped.u64(offset).store(0, Ordering::Relaxed));
            return Ok(());
        }
        let mut keys = Vec::new();
        let tag = self.cx.layout.aggs[agg.0 as usize].tag;
        map.for_each(|key, _| {
            if tag_of(key) == tag {
                keys.push(key.to_vec());
            }
        })?;
        keys.iter().try_for_each(|key| map.delete(key).map(drop))
    }

    /// Reads an aggregation's map.
    fn fresh(&mut self, agg: AggId) -> Result<(), Error> {
        self.live.values.begin(agg);
        self.read(agg, Store::Live, |_| true)
    }

    /// Ends the epoch: what was counted in it becomes the consumer's, for all aggregations that are double-buffered.
    fn next_epoch(&mut self) -> Result<(), Error> {
        let (old, next) = (self.live.epoch, self.live.epoch + 1);
        let flipped = self.state.u64(0).compare_exchange(old, next, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        if flipped {
            self.live.epoch = next;
        }
        grace::wait()?;
        // After exit() the word stays negative and no program runs any more: both halves are the consumer's.
        let mine = |parity: u32| !flipped || u64::from(parity) == old & 1;
        let program = self.cx.program;
        for (i, agg) in program.aggs.iter().enumerate().filter(|(_, a)| a.resettable) {
            let id = AggId(i as u32);
            self.live.values.begin(id);
            self.read(id, Store::Kept, mine)?;
            self.reclaim(id, agg.key.is_empty(), mine)?;
        }
        Ok(())
    }

    /// Gives the room of an ended epoch back to the map.
    fn reclaim(&mut self, agg: AggId, keyless: bool, mine: impl Fn(u32) -> bool) -> Result<(), Error> {
        let map = &self.live.maps[agg.0 as usize];
        if keyless {
            let layout = &self.cx.layout.aggs[agg.0 as usize];
            let mapped = map.mmap()?;
            let half = (layout.stride * self.cx.layout.ncpu) as usize;
            for offset in (0..2 * half).step_by(8).filter(|o| mine((o / half) as u32)) {
                mapped.u64(offset).store(0, Ordering::Relaxed);
            }
            return Ok(());
        }
        let tag = self.cx.layout.aggs[agg.0 as usize].tag;
        let mut keys = Vec::new();
        map.for_each(|key, _| {
            if tag_of(key) == tag && mine(parity_of(key)) {
                keys.push(key.to_vec());
            }
        })?;
        keys.iter().try_for_each(|key| map.delete(key).map(drop))
    }
}

/// The epoch's parity in a key of a keyed aggregation.
fn parity_of(key: &[u8]) -> u32 {
    second(key) & 1
}

/// Which of the aggregations that share a map it belongs to.
fn tag_of(key: &[u8]) -> u32 {
    second(key) >> 1
}

fn second(key: &[u8]) -> u32 {
    key.get(4..8).and_then(|k| k.try_into().ok()).map_or(0, u32::from_ne_bytes)
}
