//! Where everything is: records, variables, keys, values, tables; and the maps that hold them.
//!
//! Owns [`Plan`], which selection reads and adds to: rows of the read-only data, the scratch map's size. What the consumer
//! must know of it is [`Layout`].

use crate::codegen::{CodegenError, CodegenOptions};
use probity_bpf::object::{MapKind, MapSpec, map_flags};
use probity_ir::{
    Agg, AggLayout, DataRings, Drop, ENTRY_BOUNDS, HEADER, Layout, MAX_SPECULATIONS, Program, RINGS_BY_COMPARISON,
    RecordLayout, RingKind, SLOT_STRIDE, SLOTS, SPEC_SLOT, STARTING, Scope, Stmt, Val, VarPlace,
};
use std::collections::HashMap;

/// Offset of the state word in the state map's value.
pub const STATE_WORD: u32 = 0;
/// Offset of the wall clock's distance from the monotonic clock.
const REALTIME: u32 = 8;
/// Offset of the claim words.
const CLAIMS: u32 = 64;
/// Bytes of the control ring.
const CONTROL_RING: u32 = 256 << 10;
/// Bytes of the fault ring.
const FAULT_RING: u32 = 1 << 18;
/// Most bytes of a map's value that addresses can be computed in: the verifier's BPF_MAX_VAR_OFF.
const MAX_VALUE: u64 = 1 << 29;
/// Processes whose arguments are kept at most: as many as there can be where `kernel.pid_max` is as it was for long.
const PROCESSES: u32 = 1 << 15;
/// With more aggregations and arrays than this, aggregations whose keys and values have the same sizes share a map, because a
/// program can use 64 maps.
const SEPARATE: usize = 40;

/// A key's members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPlan {
    /// Size in bytes, a multiple of 8.
    pub size: u32,
    /// Offset and kind of each member.
    pub fields: Vec<(u32, Val)>,
}

/// An associative array's map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayPlan {
    /// Index of its map.
    pub map: u32,
    /// Its key; a thread's array has the thread's serial number in the first 8 bytes.
    pub key: KeyPlan,
    /// Whether each thread has its own elements.
    pub thread: bool,
    /// The element.
    pub val: Val,
}

/// All places.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What the consumer knows.
    pub layout: Layout,
    /// The maps, by index.
    pub maps: Vec<MapSpec>,
    /// Index of the map of read-only data.
    pub rodata_map: u32,
    /// Contents of the read-only data; begins with [`Plan::zeros`] zero bytes.
    pub rodata: Vec<u8>,
    /// Number of zero bytes at the start of the read-only data.
    pub zeros: u32,
    /// Index of the map of thread storage, where there is any.
    pub thread_map: Option<u32>,
    /// Offset of the thread's serial number in thread storage.
    pub serial: u32,
    /// Offset in the state map of the last serial number given. After it come the global variables.
    pub serial_counter: u32,
    /// Bytes of the state map's value.
    pub state_size: u32,
    /// Offset of the thread's time on CPUs in thread storage, where there is any.
    pub oncpu: u32,
    /// By array.
    pub arrays: Vec<ArrayPlan>,
    /// Number of CPUs rounded up to a power of two, less 1: a CPU number masked with it is itself, provably bounded.
    pub cpu_mask: u32,
    /// Index of the map that programs which wait copy about in, once one does.
    pub wait_map: Option<u32>,
    /// Index of the map of scratch slots, once one is used.
    pub scratch_map: Option<u32>,
    /// Bytes of a scratch slot.
    pub scratch_size: u32,
    /// Bytes at the start of a scratch slot that `alloca` and `copyin` take from; as many follow that are nobody's.
    pub copyin: u32,
}

/// Bytes that a value takes in a key or a variable.
pub fn padded(val: Val) -> u32 {
    match val {
        Val::Int => 8,
        Val::Str { cap } => cap.max(1).next_multiple_of(8),
        Val::Bytes { len } => len.next_multiple_of(8),
    }
}

fn key_plan(first: u32, members: impl Iterator<Item = Val>) -> KeyPlan {
    let mut size = first;
    let fields = members
        .map(|val| {
            size += padded(val);
            (size - padded(val), val)
        })
        .collect();
    KeyPlan { size, fields }
}

fn visit(body: &[Stmt], f: &mut impl FnMut(&Stmt)) {
    for stmt in body {
        f(stmt);
        if let Stmt::If { then, otherwise, .. } = stmt {
            visit(then, f);
            visit(otherwise, f);
        }
    }
}

fn too_much(message: String) -> CodegenError {
    CodegenError { message, line: None }
}

/// Places everything that a program holds.
pub fn plan(program: &Program, options: &CodegenOptions) -> Result<Plan, CodegenError> {
    let ncpu = options.ncpu.max(1);
    let rows = ncpu.next_power_of_two();
    let mut layout = Layout { ncpu, claims_offset: CLAIMS, realtime_offset: REALTIME, ..Layout::default() };
    let mut maps = Vec::new();
    let mut add = |spec: MapSpec| {
        maps.push(spec);
        maps.len() as u32 - 1
    };

    // State: word, clock offset, claim words, serial counter, globals.
    let serial_counter = CLAIMS + rows * SLOT_STRIDE;
    let mut state_size = serial_counter + 8;
    let mut thread_size = 0;
    let wanted = probity_ir::Expr::Builtin(probity_ir::Builtin::Vtimestamp);
    let mut clauses = program.units.iter().flat_map(|u| &u.clauses);
    let vtime = program.oncpu.is_some() || clauses.any(|c| c.exprs.contains(&wanted));
    if vtime {
        layout.switched_offset = Some(state_size);
        state_size += rows * 8;
        thread_size += 8;
    }
    for var in &program.vars {
        let size = padded(var.val);
        let place = match var.scope {
            Scope::Global => {
                state_size += size;
                VarPlace::Global(state_size - size)
            }
            Scope::Thread => {
                thread_size += size;
                VarPlace::Thread(thread_size - size)
            }
            Scope::Clause => VarPlace::Clause,
        };
        layout.vars.push(place);
    }
    let nspec = program.nspec.min(MAX_SPECULATIONS);
    let words = if nspec == 0 { 0 } else { nspec.div_ceil(64).next_power_of_two() };
    layout.spec_offset = state_size;
    layout.spec_slots = state_size + 8 * words;
    state_size = layout.spec_slots + if nspec == 0 { 0 } else { nspec.next_power_of_two() * SPEC_SLOT };
    let mut state = vec![0; state_size as usize];
    state[..8].copy_from_slice(&STARTING.to_ne_bytes());
    for word in 0..words {
        // What is no id is never free.
        let ids = nspec.saturating_sub(64 * word).min(64);
        let taken = u64::MAX.checked_shl(ids).unwrap_or(0);
        let at = (layout.spec_offset + 8 * word) as usize;
        state[at..at + 8].copy_from_slice(&taken.to_ne_bytes());
    }
    let mut spec = MapSpec::global("state", state);
    spec.flags |= map_flags::MMAPABLE;
    layout.state_map = add(spec);

    let mut spec = MapSpec::new("drops", MapKind::Array, 4, (Drop::COUNT * ncpu + rows) * 8, 1);
    spec.flags |= map_flags::MMAPABLE;
    layout.drops_map = add(spec);

    layout.control_ring = add(MapSpec::ringbuf("control", CONTROL_RING));
    if program.records.iter().any(|r| r.ring != RingKind::Control) {
        let size = options.ring_size.clamp(4096, 1 << 30).next_power_of_two();
        layout.data_rings = if ncpu <= RINGS_BY_COMPARISON {
            DataRings::Each((0..ncpu).map(|cpu| add(MapSpec::ringbuf(&format!("ring{cpu}"), size))).collect())
        } else {
            let mut spec = MapSpec::new("rings", MapKind::ArrayOfMaps, 4, 4, ncpu);
            spec.inner = Some(Box::new(MapSpec::ringbuf("ring", size)));
            spec.inner_count = ncpu;
            DataRings::Nested(add(spec))
        };
    }
    let rodata_map = add(MapSpec::new("rodata", MapKind::Array, 4, 8, 1));

    let serial = thread_size;
    if program.arrays.iter().any(|a| a.scope == Scope::Thread) {
        thread_size += 8;
    }
    let thread_map = (thread_size > 0).then(|| add(MapSpec::task_storage("threads", thread_size)));

    for record in &program.records {
        let mut size = HEADER;
        let mut fields = Vec::new();
        for &val in &record.fields {
            fields.push((size, val));
            size += padded(val);
        }
        layout.records.push(RecordLayout { size, fields });
    }

    let mut zeros = 64;
    // Beside aggregations and arrays there are rings, counters and the like.
    let share = program.aggs.len() + program.arrays.len() > SEPARATE;
    // By sizes of key and value: the map, and how many aggregations it has.
    let mut shared: HashMap<(u32, u32), (u32, u32)> = HashMap::new();
    for agg in &program.aggs {
        zeros = zeros.max(agg.func.words() * 8);
        let place = plan_agg(agg, ncpu, rows, options, &mut |spec| {
            let sizes = (spec.key_size, spec.value_size);
            if !share || agg.key.is_empty() {
                return (add(spec), 0);
            }
            let (map, count) = shared.entry(sizes).or_insert_with(|| (add(spec), 0));
            *count += 1;
            (*map, *count - 1)
        })?;
        layout.aggs.push(place);
    }

    let mut arrays = Vec::new();
    for array in &program.arrays {
        let thread = array.scope == Scope::Thread;
        let key = key_plan(if thread { 8 } else { 0 }, array.key.iter().copied());
        let name = if array.name.is_empty() { "array" } else { &array.name };
        let kept = program.upkeep.as_ref().is_some_and(|upkeep| upkeep.array.0 as usize == arrays.len());
        let entries = if kept { PROCESSES } else { options.dyn_entries.max(1) };
        let mut spec = MapSpec::new(name, MapKind::Hash, key.size.max(8), padded(array.val), entries);
        spec.flags |= map_flags::NO_PREALLOC;
        let map = add(spec);
        layout.arrays.push(map);
        zeros = zeros.max(padded(array.val));
        arrays.push(ArrayPlan { map, key, thread, val: array.val });
    }
    // What is read where a thread has no storage. Global variables are cleared as a whole only by a statement: below.
    let read = program.vars.iter().filter(|v| v.scope != Scope::Global || v.val == Val::Int);
    zeros = read.map(|v| padded(v.val)).fold(zeros, u32::max);

    // Whatever is cleared by copying zeros needs that many of them.
    let mut copyin = 0;
    for clause in program.units.iter().flat_map(|u| &u.clauses) {
        visit(&clause.body, &mut |stmt| {
            if let Stmt::CopyIn { .. } | Stmt::Alloc { .. } = stmt {
                copyin = options.scratch.next_multiple_of(8) + crate::select::NULL;
                zeros = zeros.max(copyin);
            }
            if let Stmt::SetVar(v, e) = stmt
                && matches!(clause.exprs[e.0 as usize], probity_ir::Expr::Const(_))
            {
                zeros = zeros.max(padded(program.vars[v.0 as usize].val));
            }
        });
        let caps = clause.exprs.iter().map(|e| match e {
            probity_ir::Expr::ReadStr { cap, .. } | probity_ir::Expr::StrJoin { cap, .. } => *cap,
            probity_ir::Expr::Sub { cap, .. } => *cap,
            probity_ir::Expr::ReadBytes { len, .. } => *len,
            probity_ir::Expr::Stack(stack) => stack.size(),
            probity_ir::Expr::Str(bytes) => bytes.len() as u32 + 1,
            _ => 0,
        });
        zeros = caps.fold(zeros, |z, c| z.max(c.next_multiple_of(8)));
    }
    let fields = |vals: &[Val]| vals.iter().map(|&v| padded(v)).max().unwrap_or(0);
    zeros = program.aggs.iter().flat_map(|a| &a.key).map(|&(v, _)| padded(v)).fold(zeros, u32::max);
    zeros = program.arrays.iter().map(|a| fields(&a.key)).fold(zeros, u32::max);

    for &(map, count) in shared.values() {
        let entries = &mut maps[map as usize].max_entries;
        *entries = entries.saturating_mul(count);
    }
    Ok(Plan {
        layout,
        maps,
        rodata_map,
        rodata: vec![0; zeros as usize],
        zeros,
        thread_map,
        serial,
        oncpu: 0,
        serial_counter,
        state_size,
        arrays,
        cpu_mask: rows - 1,
        wait_map: None,
        scratch_map: None,
        scratch_size: 2 * copyin,
        copyin,
    })
}

fn plan_agg(
    agg: &Agg,
    ncpu: u32,
    rows: u32,
    options: &CodegenOptions,
    add: &mut dyn FnMut(MapSpec) -> (u32, u32),
) -> Result<AggLayout, CodegenError> {
    let words = agg.func.words();
    let name = if agg.name.is_empty() { "agg" } else { &agg.name };
    if agg.key.is_empty() {
        // With a word that tells a value that is zero from none.
        let stride = (words * 8 + 8).next_multiple_of(64);
        let parts = rows + if agg.resettable { ncpu } else { 0 };
        let size = u64::from(parts) * u64::from(stride);
        if size > MAX_VALUE {
            return Err(too_much(format!("aggregation @{} needs {size} bytes: use fewer buckets", agg.name)));
        }
        let mut spec = MapSpec::new(name, MapKind::Array, 4, size as u32, 1);
        // The consumer zeroes the parts of an ended epoch in place.
        spec.flags |= map_flags::MMAPABLE;
        let (map, tag) = add(spec);
        return Ok(AggLayout { map, key_size: 4, fields: Vec::new(), words, tag, stride });
    }
    let key = key_plan(8, agg.key.iter().map(|&(val, _)| val));
    let mut spec = MapSpec::new(name, MapKind::Hash, key.size, words * 8, options.agg_entries.max(1));
    spec.flags |= map_flags::NO_PREALLOC;
    let (map, tag) = add(spec);
    Ok(AggLayout { map, key_size: key.size, fields: key.fields, words, tag, stride: 0 })
}

impl Plan {
    /// Adds read-only bytes, or finds them; returns their offset, a multiple of 8.
    pub fn constant(&mut self, bytes: &[u8]) -> u32 {
        let from = self.zeros as usize;
        let found = (from..self.rodata.len()).step_by(8).find(|&at| self.rodata[at..].starts_with(bytes));
        let at = found.unwrap_or_else(|| {
            let at = self.rodata.len();
            self.rodata.extend_from_slice(bytes);
            self.rodata.resize(self.rodata.len().next_multiple_of(8), 0);
            at
        });
        at as u32
    }

    /// The global variables in the state map's value: offset and size.
    pub fn globals(&self) -> (u32, u32) {
        (self.serial_counter + 8, self.state_size - self.serial_counter - 8)
    }

    /// The map of the kernel's functions between tracepoints and programs.
    pub fn entry_map(&mut self) -> u32 {
        *self.layout.entry_map.get_or_insert_with(|| {
            self.maps.push(MapSpec::global("entry", vec![0xff; ENTRY_BOUNDS as usize * 8]));
            self.maps.len() as u32 - 1
        })
    }

    /// The ring of fault records.
    pub fn fault_ring(&mut self) -> u32 {
        *self.layout.fault_ring.get_or_insert_with(|| {
            self.maps.push(MapSpec::ringbuf("faults", FAULT_RING));
            self.maps.len() as u32 - 1
        })
    }

    /// The map that programs which wait copy about in.
    pub fn wait_map(&mut self) -> u32 {
        *self.wait_map.get_or_insert_with(|| {
            self.maps.push(MapSpec::new("wait", MapKind::Array, 4, crate::vcode::WAIT_ROOM, 1));
            self.maps.len() as u32 - 1
        })
    }

    /// The map of scratch slots, of which each must have room for `size` bytes.
    pub fn scratch(&mut self, size: u32) -> u32 {
        self.scratch_size = self.scratch_size.max(size.next_multiple_of(8));
        let entries = self.layout.ncpu * SLOTS;
        *self.scratch_map.get_or_insert_with(|| {
            self.maps.push(MapSpec::new("scratch", MapKind::Array, 4, 0, entries));
            self.maps.len() as u32 - 1
        })
    }

    /// The maps and the layout, when all programs have been made.
    pub fn finish(mut self) -> (Vec<MapSpec>, Layout) {
        if let Some(map) = self.scratch_map {
            self.maps[map as usize].value_size = self.scratch_size.max(8);
        }
        let spec = &mut self.maps[self.rodata_map as usize];
        spec.value_size = self.rodata.len() as u32;
        spec.flags |= map_flags::RDONLY_PROG;
        spec.data = Some(self.rodata);
        spec.frozen = true;
        (self.maps, self.layout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use probity_ir::{Array, ClauseId, Record, RingKind, Show, UnitId, Var};

    fn options(ncpu: u32) -> CodegenOptions {
        CodegenOptions { ncpu, ring_size: 5000, agg_entries: 100, dyn_entries: 100, scratch: 256 }
    }

    #[test]
    fn places_do_not_overlap() {
        let var = |name: &str, scope, val| Var { name: name.into(), scope, val };
        let program = Program {
            vars: vec![
                var("a", Scope::Global, Val::Int),
                var("s", Scope::Global, Val::Str { cap: 13 }),
                var("b", Scope::Global, Val::Int),
                var("t", Scope::Thread, Val::Int),
            ],
            arrays: vec![Array {
                name: "m".into(),
                scope: Scope::Thread,
                key: vec![Val::Str { cap: 9 }, Val::Int],
                val: Val::Int,
            }],
            records: vec![Record {
                clause: ClauseId(0),
                unit: UnitId(0),
                ring: RingKind::Data,
                fields: vec![Val::Int, Val::Str { cap: 10 }, Val::Int],
                actions: vec![],
            }],
            ..Program::default()
        };
        let plan = plan(&program, &options(3)).unwrap();
        let VarPlace::Global(a) = plan.layout.vars[0] else { panic!() };
        assert_eq!(a, plan.serial_counter + 8);
        assert!(plan.serial_counter >= CLAIMS + 4 * SLOT_STRIDE);
        assert_eq!(plan.layout.vars[2], VarPlace::Global(a + 8 + 16));
        assert_eq!(plan.layout.vars[3], VarPlace::Thread(0));
        assert_eq!(plan.serial, 8);
        assert_eq!(plan.arrays[0].key.size, 8 + 16 + 8);
        assert_eq!(plan.layout.records[0].fields[1].0, 24);
        assert_eq!(plan.layout.records[0].size, 48);
        assert_eq!(plan.cpu_mask, 3);
        let DataRings::Each(rings) = &plan.layout.data_rings else { panic!("three CPUs are compared") };
        assert!(rings.len() == 3 && rings.iter().all(|&r| plan.maps[r as usize].max_entries == 8192));
        let DataRings::Nested(rings) = self::plan(&program, &options(9)).unwrap().layout.data_rings else {
            panic!("nine CPUs are looked up")
        };
        let many = self::plan(&program, &options(9)).unwrap();
        assert_eq!(many.maps[rings as usize].inner.as_ref().unwrap().max_entries, 8192);
    }

    #[test]
    fn keyless_aggregations_have_room_for_every_cpu_and_epoch() {
        let agg = |resettable| Agg {
            name: "a".into(),
            func: probity_ir::AggFunc::Quantize,
            key: Vec::<(Val, Show)>::new(),
            resettable,
            probes_of: None,
        };
        let program = Program { aggs: vec![agg(false), agg(true)], ..Program::default() };
        let plan = plan(&program, &options(3)).unwrap();
        for (layout, parts) in plan.layout.aggs.iter().zip([3, 6]) {
            assert_eq!(layout.stride, 1024);
            assert!(plan.maps[layout.map as usize].value_size >= parts * layout.stride);
        }
    }

    #[test]
    fn constants_are_shared() {
        let mut plan = plan(&Program::default(), &options(1)).unwrap();
        let a = plan.constant(b"hello");
        assert_eq!(plan.constant(b"hello"), a);
        assert_ne!(plan.constant(b"hellp"), a);
        assert_eq!(a % 8, 0);
    }
}
