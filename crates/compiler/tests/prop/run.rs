//! Running a program in the interpreter and in the evaluator, and comparing all that either leaves behind.

use crate::eval::{self, Body, CTX_ADDR, Firing, Limits, Out, State, Value};
use probity_bpf::interp::Machine;
use probity_bpf::{Helper, MapKind, Object};
use probity_compiler::CodegenOptions;
use probity_ir::{
    DataRings, Drop, FAULT, FAULT_BODY, Fault, HEADER, Layout, Phase, Program, RingKind, STARTING, STOPPING, Scope,
    Val, VarPlace,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// How the firings went, all told.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// Firings.
    pub firings: u64,
    /// Records, faults included.
    pub records: u64,
    /// Faults.
    pub faults: u64,
    /// Drops.
    pub drops: u64,
    /// Instructions run.
    pub steps: u64,
}

/// What differs after a firing.
#[derive(Clone, Debug)]
pub struct Mismatch {
    /// The firing's number.
    pub firing: usize,
    /// The unit that ran.
    pub unit: usize,
    /// The difference.
    pub what: String,
}

/// The options that the seed chooses: now and then maps and scratch memory that are too small.
pub fn options(seed: u64) -> CodegenOptions {
    let tight = seed.is_multiple_of(4);
    CodegenOptions {
        ncpu: 1 + (seed / 4 % 4) as u32,
        ring_size: 1 << 18,
        agg_entries: if tight { 4 } else { 1000 },
        dyn_entries: if tight { 3 } else { 1000 },
        // No copy fits in 8 bytes; all that a clause can make fit in 1024.
        scratch: if seed % 8 == 1 { 8 } else { 1024 },
    }
}

struct Pair<'a> {
    program: &'a Program,
    object: &'a Object,
    layout: &'a Layout,
    limits: Limits,
    machine: Machine,
    state: State,
    seen: Seen,
}

/// Runs all firings on both sides.
pub fn run(
    program: &Program,
    options: &CodegenOptions,
    object: &Object,
    layout: &Layout,
    firings: &[Firing],
) -> Result<Seen, Mismatch> {
    let machine = Machine::with_cpus(object, options.ncpu as usize);
    let limits = Limits {
        array: options.dyn_entries as usize,
        agg: options.agg_entries as usize,
        scratch: options.scratch.next_multiple_of(8) as usize,
    };
    let state = State::new(program);
    let mut pair = Pair { program, object, layout, limits, machine, state, seen: Seen::default() };
    pair.state.realtime = 1_700_000_000_000_000_007;
    pair.poke(layout.realtime_offset, pair.state.realtime);
    let rank = |f: &Firing| match program.units[f.unit.0 as usize].phase {
        Phase::Begin => 0,
        Phase::Run | Phase::Timer | Phase::Always => 1,
        Phase::End => 2,
    };
    let mut order: Vec<usize> = (0..firings.len()).collect();
    order.sort_by_key(|&i| rank(&firings[i]));
    let mut at = 0;
    for (n, &i) in order.iter().enumerate() {
        let firing = &firings[i];
        // What the consumer would do between firings.
        while at < rank(firing) {
            at += 1;
            match at {
                1 if pair.state.word == STARTING => pair.set_word(0),
                2 => pair.set_word(STOPPING),
                _ => {}
            }
        }
        if n % 7 == 6 && pair.state.word >= 0 {
            pair.set_word(pair.state.word + 1);
        }
        let unit = firing.unit.0 as usize;
        pair.fire(firing).map_err(|what| Mismatch { firing: n, unit, what })?;
        if pair.state.unsure {
            break;
        }
    }
    Ok(pair.seen)
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let mut out = [0; 8];
    out.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(out)
}

fn half(bytes: &[u8], at: usize) -> u32 {
    (word(&[&bytes[at..at + 4], &[0; 4]].concat(), 0)) as u32
}

/// Reads a value as the layout places it; `whole` wants the rest of its room to be zeros, as keys need it.
fn read(bytes: &[u8], at: u32, val: Val, whole: bool) -> Result<Value, String> {
    let at = at as usize;
    let room = |len: u32| {
        let end = at + if whole { len.next_multiple_of(8) } else { len } as usize;
        bytes.get(at..end).ok_or(format!("{val:?} at {at} is outside of {} bytes", bytes.len()))
    };
    Ok(match val {
        Val::Int => Value::Int(word(room(8)?, 0) as i64),
        Val::Str { cap } => {
            let room = room(cap)?;
            let len = room[..cap as usize].iter().position(|&b| b == 0).ok_or(format!("no NUL in {room:?}"))?;
            if whole && room[len..].iter().any(|&b| b != 0) {
                return Err(format!("a string is not padded with zeros: {room:?}"));
            }
            Value::Str(room[..len].to_vec())
        }
        Val::Bytes { len } => {
            let room = room(len)?;
            if room[len as usize..].iter().any(|&b| b != 0) {
                return Err(format!("bytes are not padded with zeros: {room:?}"));
            }
            Value::Bytes(room[..len as usize].to_vec())
        }
    })
}

fn fault_code(code: u32) -> Option<Fault> {
    [
        Fault::BadAddress,
        Fault::IllegalOp,
        Fault::DivideByZero,
        Fault::NoScratch,
        Fault::BadStack,
        Fault::BadSize,
        Fault::BadIndex,
    ]
    .into_iter()
    .find(|&f| f as u32 == code)
}

fn compare<T: PartialEq + std::fmt::Debug>(what: &str, want: &T, got: &T) -> Result<(), String> {
    if want == got { Ok(()) } else { Err(format!("{what}:\n  evaluator   {want:?}\n  interpreter {got:?}")) }
}

impl Pair<'_> {
    fn state_bytes(&self) -> Vec<u8> {
        self.machine.map_lookup(self.layout.state_map as usize, &[0; 4]).expect("the state map")
    }

    fn poke(&mut self, at: u32, value: i64) {
        let mut bytes = self.state_bytes();
        bytes[at as usize..at as usize + 8].copy_from_slice(&value.to_le_bytes());
        self.machine.map_update(self.layout.state_map as usize, &[0; 4], &bytes, 0).expect("the state map");
    }

    fn set_word(&mut self, value: i64) {
        self.state.word = value;
        self.poke(0, value);
    }

    fn fire(&mut self, firing: &Firing) -> Result<(), String> {
        self.machine.env = firing.env.clone();
        if firing.lost > 0 {
            let results = VecDeque::from(vec![0; firing.lost as usize]);
            self.machine.env.forced.insert(Helper::RingbufReserve.id(), results);
        }
        let prog = &self.object.progs[self.layout.progs[firing.unit.0 as usize] as usize];
        let mut ctx = firing.ctx.clone();
        let outcome = self.machine.run(prog, &mut ctx).map_err(|fault| format!("the interpreter stops: {fault}"))?;
        eval::fire(self.program, self.limits, &mut self.state, firing);

        if self.state.unsure {
            return Ok(());
        }
        let got = self.take_records()?;
        let want = std::mem::take(&mut self.state.records);
        self.seen.firings += 1;
        self.seen.steps += outcome.steps;
        self.seen.records += want.len() as u64;
        self.seen.faults += want.iter().filter(|r| matches!(r.body, Body::Fault(..))).count() as u64;
        // Data, faults and control have rings of their own, so the order between them is not seen.
        for (ring, faults) in [(RingKind::Data, false), (RingKind::Data, true), (RingKind::Control, false)] {
            let mine = |r: &&Out| r.ring == ring && matches!(r.body, Body::Fault(..)) == faults;
            let of = |records: &[Out]| records.iter().filter(mine).cloned().collect::<Vec<_>>();
            let (want, got) = (of(&want), of(&got));
            for (want, got) in want.iter().zip(&got) {
                compare("records differ", want, got)?;
            }
            compare(&format!("number of records in {ring:?}"), &want.len(), &got.len())
                .map_err(|e| format!("{e}\n  want {want:?}\n  got {got:?}"))?;
        }
        self.compare_drops()?;
        self.compare_vars()?;
        self.compare_arrays()?;
        self.compare_aggs()
    }

    fn take_records(&mut self) -> Result<Vec<Out>, String> {
        let mut out = Vec::new();
        for cpu in 0..self.layout.ncpu {
            let ring = match &self.layout.data_rings {
                DataRings::Each(maps) => maps[cpu as usize] as usize,
                DataRings::Nested(rings) => {
                    self.machine.inner_map(*rings as usize, &cpu.to_le_bytes()).ok_or("no data ring")?
                }
                DataRings::None => continue,
            };
            for bytes in self.machine.take_records(ring) {
                let record = self.decode(RingKind::Data, &bytes)?;
                compare("the ring's CPU", &cpu, &u32::from(record.cpu))?;
                out.push(record);
            }
        }
        for bytes in self.layout.fault_ring.map_or_else(Vec::new, |r| self.machine.take_records(r as usize)) {
            out.push(self.decode(RingKind::Data, &bytes)?);
        }
        for bytes in self.machine.take_records(self.layout.control_ring as usize) {
            out.push(self.decode(RingKind::Control, &bytes)?);
        }
        Ok(out)
    }

    fn decode(&self, ring: RingKind, bytes: &[u8]) -> Result<Out, String> {
        let number = half(bytes, 8);
        let at = HEADER as usize;
        let body = if number == FAULT {
            compare("a fault record's size", &(HEADER + FAULT_BODY), &(bytes.len() as u32))?;
            let part = |n: usize| half(bytes, at + 4 * n);
            let code = fault_code(part(4)).ok_or(format!("an unknown fault {}", part(4)))?;
            // The interpreter's own addresses are tagged; the only one a fault can have is one in the context.
            let value = match word(bytes, at + 24) {
                value if value >> 56 == 0xb5 => CTX_ADDR | value & ((1 << 40) - 1),
                value => value,
            };
            Body::Fault(part(0), part(1), part(2), part(3), code, value)
        } else {
            let layout = self.layout.records.get(number as usize).ok_or("an unknown record")?;
            compare("a record's size", &layout.size, &(bytes.len() as u32))?;
            let fields = layout.fields.iter().map(|&(at, val)| read(bytes, at, val, false));
            Body::Fields(number, fields.collect::<Result<_, _>>()?)
        };
        let header = half(bytes, 12);
        Ok(Out { ring, time: word(bytes, 0), cpu: header as u16, index: (header >> 16) as u16, body })
    }

    fn compare_drops(&mut self) -> Result<(), String> {
        let bytes = self.machine.map_lookup(self.layout.drops_map as usize, &[0; 4]).ok_or("no drops map")?;
        let ncpu = self.layout.ncpu;
        let mut got = BTreeMap::new();
        for cause in Drop::ALL {
            for cpu in 0..ncpu {
                let n = word(&bytes, 8 * (cause as u32 * ncpu + cpu) as usize);
                if n > 0 {
                    got.insert((cause, cpu), n);
                }
            }
        }
        self.seen.drops = got.values().sum();
        compare("drops", &self.state.drops, &got)
    }

    fn threads_map(&self) -> Option<usize> {
        self.object.maps.iter().position(|m| m.kind == MapKind::TaskStorage)
    }

    fn compare_vars(&self) -> Result<(), String> {
        let state = self.state_bytes();
        compare("state word", &self.state.word, &(word(&state, 0) as i64))?;
        for cpu in 0..self.layout.ncpu {
            let at = self.layout.claims_offset + cpu * probity_ir::SLOT_STRIDE;
            compare(&format!("claim word of CPU {cpu}"), &0, &word(&state, at as usize))?;
        }
        for (id, var) in self.program.vars.iter().enumerate() {
            let name = &var.name;
            match self.layout.vars[id] {
                VarPlace::Global(at) => {
                    compare(&format!("variable {name}"), &self.state.globals[id], &read(&state, at, var.val, false)?)?;
                }
                VarPlace::Thread(at) => {
                    let map = self.threads_map().ok_or("no map of thread storage")?;
                    let set = self.state.threads.keys().filter(|k| k.1 == id as u32).map(|k| k.0);
                    let tasks: BTreeSet<u64> =
                        self.machine.map_keys(map).iter().map(|k| word(k, 0)).chain(set).collect();
                    for task in tasks {
                        let got = match self.machine.map_lookup(map, &task.to_le_bytes()) {
                            Some(bytes) => read(&bytes, at, var.val, false)?,
                            None => Value::zero(var.val),
                        };
                        let want = self.state.threads.get(&(task, id as u32)).cloned();
                        let want = want.unwrap_or_else(|| Value::zero(var.val));
                        compare(&format!("self->{name} of task {task:#x}"), &want, &got)?;
                    }
                }
                VarPlace::Clause => {}
            }
        }
        Ok(())
    }

    /// The task with this serial number; the number is the last word of its storage.
    fn task_of(&self, serial: u64) -> Result<u64, String> {
        let map = self.threads_map().ok_or("no map of thread storage")?;
        let mut entries = self.machine.map_entries(map).into_iter();
        let found = entries.find(|(_, bytes)| word(bytes, bytes.len() - 8) == serial);
        found.map(|(key, _)| word(&key, 0)).ok_or(format!("no thread has the number {serial}"))
    }

    fn compare_arrays(&self) -> Result<(), String> {
        for (id, array) in self.program.arrays.iter().enumerate() {
            let mut got = BTreeMap::new();
            for (key, bytes) in self.machine.map_entries(self.layout.arrays[id] as usize) {
                let thread = array.scope == Scope::Thread;
                let task = if thread { self.task_of(word(&key, 0))? } else { 0 };
                let mut at = if thread { 8 } else { 0 };
                let mut members = Vec::new();
                for &val in &array.key {
                    members.push(read(&key, at, val, true)?);
                    at += match val {
                        Val::Int => 8,
                        Val::Str { cap: n } | Val::Bytes { len: n } => n.next_multiple_of(8),
                    };
                }
                compare("size of a key", &(at as usize).max(8), &key.len())?;
                got.insert((task, members), read(&bytes, 0, array.val, false)?);
            }
            compare(&format!("array {}", array.name), &self.state.arrays[id], &got)?;
        }
        Ok(())
    }

    fn compare_aggs(&self) -> Result<(), String> {
        for (id, agg) in self.program.aggs.iter().enumerate() {
            let layout = &self.layout.aggs[id];
            let words = |bytes: &[u8], at: u32| -> Vec<u64> {
                (0..layout.words).map(|i| word(bytes, (at + 8 * i) as usize)).collect()
            };
            let mut got = BTreeMap::new();
            for (key, bytes) in self.machine.map_entries(layout.map as usize) {
                if !agg.key.is_empty() {
                    let members = layout.fields.iter().map(|&(at, val)| read(&key, at, val, true));
                    let members = members.collect::<Result<Vec<_>, _>>()?;
                    got.insert((half(&key, 0), half(&key, 4), members), words(&bytes, 0));
                    continue;
                }
                for part in 0..self.layout.ncpu * if agg.resettable { 2 } else { 1 } {
                    let value = words(&bytes, part * layout.stride);
                    if value.iter().any(|&w| w != 0) {
                        got.insert((part % self.layout.ncpu, part / self.layout.ncpu, Vec::new()), value);
                    }
                }
            }
            let mut want = self.state.aggs[id].clone();
            if agg.key.is_empty() {
                want.retain(|_, words| words.iter().any(|&w| w != 0));
            }
            compare(&format!("aggregation @{} {:?}", agg.name, agg.func), &want, &got)?;
        }
        Ok(())
    }
}
