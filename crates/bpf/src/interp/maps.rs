//! The interpreter's maps, with the kernel's results for every flag and every kind of fullness.
//!
//! Values live in `Memory`, so that programs can point to them. As in the kernel, replacing the value of a plain hash
//! makes a new element: a pointer obtained before still sees the old one, which is reused only when no program runs.

use super::errno::{E2BIG, EEXIST, EINVAL, ENOENT, EOPNOTSUPP, EPERM};
use super::memory::{Kind, Memory};
use super::rings::Ring;
use crate::object::{MapKind, MapSpec, map_flags};
use std::collections::BTreeMap;

/// `BPF_NOEXIST`.
const NOEXIST: u64 = 1;
/// `BPF_EXIST`.
const EXIST: u64 = 2;
/// `BPF_F_LOCK`.
const LOCK: u64 = 4;

/// The largest value storage that is emulated; beyond, the map can be named but not used.
const STORAGE_LIMIT: u64 = 1 << 32;

#[derive(Clone, Debug, Default)]
pub(super) struct Slots {
    /// Key → element.
    live: BTreeMap<Vec<u8>, usize>,
    /// Element → time of its last update, for eviction.
    age: BTreeMap<usize, u64>,
    clock: u64,
    next: usize,
    free: Vec<usize>,
    /// No longer reachable by key, but programs that run may still point there.
    retired: Vec<usize>,
}

#[derive(Clone, Debug)]
pub(super) enum Body {
    /// One region, or one for each CPU.
    Array(Vec<usize>),
    /// Likewise.
    Hash(Vec<usize>, Slots),
    /// Values by task address.
    Task(usize, Slots),
    /// Inner maps by key.
    Maps(BTreeMap<Vec<u8>, usize>),
    /// Ring buffer.
    Ring(Ring),
    /// perf buffers: CPU and record.
    Perf(Vec<(u32, Vec<u8>)>),
    /// Stacks by id.
    Stacks(BTreeMap<u32, Vec<u64>>),
    /// A kind, or a size, that is not emulated.
    Opaque,
}

#[derive(Clone, Debug)]
pub(super) struct Map {
    pub(super) spec: MapSpec,
    /// Its address in programs.
    pub(super) handle: u64,
    pub(super) body: Body,
}

/// Makes a map, without the inner ones of a map of maps; returns its index.
pub(super) fn create(maps: &mut Vec<Map>, memory: &mut Memory, spec: &MapSpec, cpus: usize) -> usize {
    let index = maps.len();
    let elem = spec.value_size as usize;
    let copies = if spec.kind.is_percpu() { cpus } else { 1 };
    let writable = spec.flags & map_flags::RDONLY_PROG == 0;
    let bytes = u64::from(spec.value_size.next_multiple_of(8)) * u64::from(spec.max_entries);
    let body = match spec.kind {
        MapKind::Array | MapKind::PercpuArray if bytes <= STORAGE_LIMIT => {
            let count = spec.max_entries as usize;
            Body::Array((0..copies).map(|_| memory.elements(elem, count, writable)).collect())
        }
        kind if kind.is_hash() => {
            let regions = (0..copies).map(|_| memory.elements(elem, 0, writable)).collect();
            Body::Hash(regions, Slots::default())
        }
        MapKind::TaskStorage => Body::Task(memory.elements(elem, 0, writable), Slots::default()),
        MapKind::ArrayOfMaps | MapKind::HashOfMaps => Body::Maps(BTreeMap::new()),
        MapKind::Ringbuf => Body::Ring(Ring::new(spec.max_entries)),
        MapKind::PerfEventArray => Body::Perf(Vec::new()),
        MapKind::StackTrace => Body::Stacks(BTreeMap::new()),
        _ => Body::Opaque,
    };
    let handle = memory.block(Kind::Map(index), Vec::new(), false);
    maps.push(Map { spec: spec.clone(), handle, body });
    if let (Body::Array(regions), Some(data)) = (&maps[index].body, &spec.data) {
        for (slot, value) in data.chunks(elem.max(1)).take(spec.max_entries as usize).enumerate() {
            for &region in regions {
                memory.element_mut(region, slot)[..value.len()].copy_from_slice(value);
            }
        }
    }
    index
}

fn array_index(key: &[u8]) -> Option<usize> {
    Some(u32::from_le_bytes(key.try_into().ok()?) as usize)
}

/// How a lookup ended.
pub(super) enum Found<'a> {
    /// Nothing there.
    Missing,
    /// The region for each CPU (or the one region) and the element.
    Element(&'a [usize], usize),
    /// An inner map.
    Map(usize),
    /// The kind has no elements to look up.
    Unsupported,
}

impl Slots {
    fn take(&mut self, memory: &mut Memory, regions: &[usize]) -> usize {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        });
        for &region in regions {
            memory.grow(region, slot);
        }
        slot
    }

    fn retire(&mut self, slot: usize) {
        self.age.remove(&slot);
        self.retired.push(slot);
    }

    fn touch(&mut self, slot: usize) {
        self.clock += 1;
        self.age.insert(slot, self.clock);
    }

    fn evict_oldest(&mut self) {
        let oldest = self.live.iter().min_by_key(|(_, slot)| self.age.get(slot)).map(|(key, _)| key.clone());
        if let Some(slot) = oldest.and_then(|key| self.live.remove(&key)) {
            self.retire(slot);
        }
    }
}

impl Map {
    /// Finds the element of a key.
    pub(super) fn find(&self, key: &[u8]) -> Found<'_> {
        match &self.body {
            Body::Array(regions) => match array_index(key) {
                Some(slot) if slot < self.spec.max_entries as usize => Found::Element(regions, slot),
                _ => Found::Missing,
            },
            Body::Hash(regions, slots) => match slots.live.get(key) {
                Some(&slot) => Found::Element(regions, slot),
                None => Found::Missing,
            },
            Body::Task(region, slots) => match slots.live.get(key) {
                Some(&slot) => Found::Element(std::slice::from_ref(region), slot),
                None => Found::Missing,
            },
            Body::Maps(entries) => entries.get(key).map_or(Found::Missing, |&map| Found::Map(map)),
            _ => Found::Unsupported,
        }
    }

    /// The address that a program on `cpu` gets for a key; 0 when there is none, `None` when the kind has no lookup.
    pub(super) fn lookup_address(&self, memory: &Memory, maps: &[Map], key: &[u8], cpu: usize) -> Option<u64> {
        match self.find(key) {
            Found::Missing => Some(0),
            Found::Element(regions, slot) => {
                let region = regions.get(cpu).or(regions.first())?;
                Some(memory.element_address(*region, slot))
            }
            Found::Map(map) => maps.get(map).map(|m| m.handle),
            Found::Unsupported => None,
        }
    }

    /// Stores a value. From a program (`cpu` given) a per-CPU map changes on that CPU only, and a new per-CPU
    /// element is zero on the others; from outside `value` has a value for each CPU.
    pub(super) fn update(
        &mut self,
        memory: &mut Memory,
        key: &[u8],
        value: &[u8],
        flags: u64,
        cpu: Option<usize>,
    ) -> i64 {
        if flags & !LOCK > EXIST || flags & LOCK != 0 {
            return EINVAL;
        }
        let lru = matches!(self.spec.kind, MapKind::LruHash | MapKind::LruPercpuHash);
        let percpu = self.spec.kind.is_percpu();
        let capacity = self.spec.max_entries as usize;
        let (regions, slot) = match &mut self.body {
            Body::Array(regions) => {
                let Some(slot) = array_index(key).filter(|&slot| slot < capacity) else { return E2BIG };
                if flags == NOEXIST {
                    return EEXIST;
                }
                (&*regions, slot)
            }
            Body::Hash(regions, slots) => {
                let old = slots.live.get(key).copied();
                match old {
                    Some(_) if flags == NOEXIST => return EEXIST,
                    None if flags == EXIST => return ENOENT,
                    // A per-CPU element keeps its place: each CPU's value is overwritten where it is.
                    Some(slot) if percpu => {
                        slots.touch(slot);
                        (&*regions, slot)
                    }
                    _ => {
                        if old.is_none() && slots.live.len() >= capacity {
                            if !lru || capacity == 0 {
                                return E2BIG;
                            }
                            slots.evict_oldest();
                        }
                        let slot = slots.take(memory, regions);
                        for &region in &*regions {
                            memory.element_mut(region, slot).fill(0);
                        }
                        if let Some(old) = slots.live.insert(key.to_vec(), slot) {
                            slots.retire(old);
                        }
                        slots.touch(slot);
                        (&*regions, slot)
                    }
                }
            }
            Body::Perf(_) | Body::Maps(_) | Body::Stacks(_) => return EINVAL,
            _ => return EOPNOTSUPP,
        };
        write_element(memory, regions, slot, value, cpu.filter(|_| percpu));
        0
    }

    /// Removes a key.
    pub(super) fn delete(&mut self, key: &[u8]) -> i64 {
        match &mut self.body {
            Body::Array(_) => EINVAL,
            Body::Hash(_, slots) | Body::Task(_, slots) => match slots.live.remove(key) {
                Some(slot) => {
                    slots.retire(slot);
                    0
                }
                None => ENOENT,
            },
            Body::Stacks(stacks) => match array_index(key).and_then(|id| stacks.remove(&(id as u32))) {
                Some(_) => 0,
                None => ENOENT,
            },
            Body::Maps(_) => EINVAL,
            _ => EOPNOTSUPP,
        }
    }

    /// The value of a task, made when `create` and not there; 0 when there is none.
    pub(super) fn task_value(
        &mut self,
        memory: &mut Memory,
        task: u64,
        create: Option<&[u8]>,
        limit: usize,
    ) -> Option<u64> {
        let Body::Task(region, slots) = &mut self.body else { return None };
        let key = task.to_le_bytes();
        if let Some(&slot) = slots.live.get(key.as_slice()) {
            return Some(memory.element_address(*region, slot));
        }
        let Some(first) = create else { return Some(0) };
        if slots.live.len() >= limit {
            return Some(0);
        }
        let slot = slots.take(memory, &[*region]);
        let element = memory.element_mut(*region, slot);
        element.fill(0);
        let len = first.len().min(element.len());
        element[..len].copy_from_slice(&first[..len]);
        slots.live.insert(key.to_vec(), slot);
        Some(memory.element_address(*region, slot))
    }

    /// Every key, in ascending byte order; indexes for arrays, ids for stack maps.
    pub(super) fn keys(&self) -> Vec<Vec<u8>> {
        match &self.body {
            Body::Array(_) => (0..self.spec.max_entries).map(|i| i.to_le_bytes().to_vec()).collect(),
            Body::Hash(_, slots) | Body::Task(_, slots) => slots.live.keys().cloned().collect(),
            Body::Maps(entries) => entries.keys().cloned().collect(),
            Body::Stacks(stacks) => stacks.keys().map(|id| id.to_le_bytes().to_vec()).collect(),
            _ => Vec::new(),
        }
    }

    /// A value as user space sees it: for per-CPU maps each CPU's, padded to 8 bytes, one after another.
    pub(super) fn value(&self, memory: &Memory, key: &[u8]) -> Option<Vec<u8>> {
        if let Body::Stacks(stacks) = &self.body {
            let stack = stacks.get(&(array_index(key)? as u32))?;
            let mut bytes: Vec<u8> = stack.iter().flat_map(|ip| ip.to_le_bytes()).collect();
            bytes.resize(self.spec.value_size as usize, 0);
            return Some(bytes);
        }
        let Found::Element(regions, slot) = self.find(key) else { return None };
        if !self.spec.kind.is_percpu() {
            return regions.first().map(|&r| memory.element(r, slot).to_vec());
        }
        let mut out = Vec::new();
        for &region in regions {
            out.extend_from_slice(memory.element(region, slot));
            out.resize(out.len().next_multiple_of(8), 0);
        }
        Some(out)
    }

    /// As `update`, by user space.
    pub(super) fn user_update(&mut self, memory: &mut Memory, key: &[u8], value: &[u8], flags: u64) -> i64 {
        if self.spec.frozen {
            return EPERM;
        }
        if key.len() != self.spec.key_size as usize {
            return EINVAL;
        }
        self.update(memory, key, value, flags, None)
    }

    /// Elements that no key reaches any more become free.
    pub(super) fn reclaim(&mut self) {
        if let Body::Hash(_, slots) | Body::Task(_, slots) = &mut self.body {
            slots.free.append(&mut slots.retired);
        }
    }
}

fn write_element(memory: &mut Memory, regions: &[usize], slot: usize, value: &[u8], only: Option<usize>) {
    if let Some(cpu) = only {
        if let Some(&region) = regions.get(cpu) {
            copy_into(memory.element_mut(region, slot), value);
        }
        return;
    }
    let mut rest = value;
    for &region in regions {
        let element = memory.element_mut(region, slot);
        copy_into(element, rest);
        rest = rest.get(element.len().next_multiple_of(8)..).unwrap_or(&[]);
    }
}

fn copy_into(element: &mut [u8], value: &[u8]) {
    let len = element.len().min(value.len());
    element[..len].copy_from_slice(&value[..len]);
}
