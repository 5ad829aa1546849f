//! Aggregations as the consumer holds them: the CPUs' values merged, keys read, epochs added up. Leaves out the order
//! ([`crate::order`]), the arithmetic of results ([`crate::stats`]) and how they look.

use crate::Context;
use crate::decode::{DecodeError, member, part_text, u32_at, u64_at};
use crate::event::Value;
use crate::order;
use crate::symbol;
use probity_ir::{Agg, AggFunc, AggId, Program, Show};
use std::collections::HashMap;

/// Where the words that are fed belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// They are still in the kernel and will be read again: they count until the next [`Aggregations::begin`].
    Live,
    /// They are the consumer's now (an ended epoch, or tracing has ended): they count until they are cleared.
    Kept,
}

/// One key of an aggregation with its value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The key's members; none for an aggregation without a key.
    pub key: Vec<Value>,
    /// The value's words, merged over CPUs and epochs; see [`AggFunc::words`].
    pub words: Vec<u64>,
    /// The same by CPU, if [`Aggregations::percpu`] is set.
    pub cpus: Vec<Vec<u64>>,
    kept: Vec<u64>,
    kept_cpus: Vec<Vec<u64>>,
}

/// One aggregation.
#[derive(Clone, Debug)]
pub struct Table {
    /// Its function.
    pub func: AggFunc,
    /// Its keys, in the order they were first seen.
    pub entries: Vec<Entry>,
    /// What its values are divided by when they are shown, at least 1.
    pub normal: u64,
    /// Whether it has been printed, so that it is not printed again at the end.
    pub printed: bool,
    /// Finds an entry by the key's bytes as the map has them.
    raw: HashMap<Box<[u8]>, usize>,
    /// Finds an entry by the key's values: only where different bytes mean the same value (indexes of probes, addresses).
    alias: HashMap<Vec<Value>, usize>,
}

/// All aggregations of a program.
#[derive(Clone, Debug, Default)]
pub struct Aggregations {
    /// By [`AggId`].
    pub tables: Vec<Table>,
    /// Whether the CPUs' values are kept apart as well.
    pub percpu: bool,
}

impl Aggregations {
    /// Aggregations without any value yet.
    pub fn new(program: &Program) -> Aggregations {
        let table = |agg: &Agg| Table {
            func: agg.func,
            entries: Vec::new(),
            normal: 1,
            printed: false,
            raw: HashMap::new(),
            alias: HashMap::new(),
        };
        Aggregations { tables: program.aggs.iter().map(table).collect(), percpu: false }
    }

    /// Forgets the live words of an aggregation, before its map is read again.
    pub fn begin(&mut self, agg: AggId) {
        let Some(table) = self.tables.get_mut(agg.0 as usize) else { return };
        for entry in &mut table.entries {
            entry.words.clone_from(&entry.kept);
            entry.cpus.clone_from(&entry.kept_cpus);
        }
    }

    /// Adds one entry of an aggregation: the key's and the value's bytes as the map has them.
    ///
    /// With members the key begins with the CPU and the epoch's parity. Without, `key` is the number of the part (u32: the
    /// parity times the number of CPUs, plus the CPU) and `value` the part. A part that is all zero was never updated; where that
    /// cannot be told from an honest zero, the word after the value's, if the stride has room for it, may be not zero to say that it was.
    pub fn add(&mut self, cx: &Context, agg: AggId, key: &[u8], value: &[u8], store: Store) -> Result<(), DecodeError> {
        let unknown = DecodeError::Record(agg.0);
        let n = agg.0 as usize;
        let (Some(def), Some(layout)) = (cx.program.aggs.get(n), cx.layout.aggs.get(n)) else { return Err(unknown) };
        let table = self.tables.get_mut(n).ok_or(unknown)?;
        let count = def.func.words() as usize;
        if value.len() < count * 8 {
            return Err(DecodeError::Short { len: value.len(), want: count * 8 });
        }
        let short = DecodeError::Short { len: key.len(), want: layout.key_size as usize };
        if key.len() < layout.key_size as usize {
            return Err(short);
        }
        let mut cpu = u32_at(key, 0).ok_or(short)?;
        if def.key.is_empty() {
            cpu %= cx.layout.ncpu.max(1);
            if value.iter().take(count * 8 + 8).all(|&b| b == 0) {
                return Ok(());
            }
        }
        let words: Vec<u64> = (0..count).map(|i| u64_at(value, i * 8).unwrap_or(0)).collect();
        let at = table.find(cx, agg, def, key)?;
        let percpu = if self.percpu { cx.layout.ncpu } else { 0 };
        table.entries[at].add(def.func, &words, cpu, percpu, store);
        Ok(())
    }

    /// `clear(@a)`: keys stay, values become zero. The caller has taken care of what the kernel still holds.
    pub fn clear(&mut self, agg: AggId) {
        let Some(table) = self.tables.get_mut(agg.0 as usize) else { return };
        for entry in &mut table.entries {
            entry.words.fill(0);
            entry.kept.fill(0);
            entry.cpus.clear();
            entry.kept_cpus.clear();
        }
    }

    /// `trunc(@a[, count])`: keeps the `count` highest keys by value, or the lowest if it is negative. Without a count none.
    pub fn truncate(&mut self, agg: AggId, count: Option<i64>) {
        let Some(table) = self.tables.get_mut(agg.0 as usize) else { return };
        let count = count.unwrap_or(0);
        let keep = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
        let entries = std::mem::take(&mut table.entries);
        let mut weighed: Vec<_> = entries.into_iter().map(|e| (order::weight(table.func, &e.words), e)).collect();
        weighed.sort_by(|(x, a), (y, b)| {
            let order = x.cmp(y).then_with(|| order::by_key(&a.key, &b.key, 0, false));
            if count < 0 { order } else { order.reverse() }
        });
        let entries: Vec<Entry> = weighed.into_iter().take(keep).map(|(_, e)| e).collect();
        table.raw.clear();
        table.alias.clear();
        // Bytes of keys are not kept: an entry that is fed again is found by its values.
        for (at, entry) in entries.iter().enumerate() {
            table.alias.insert(entry.key.clone(), at);
        }
        table.entries = entries;
    }

    /// `normalize(@a, by)`: shown values are divided by it. 0 is taken as 1.
    pub fn normalize(&mut self, agg: AggId, by: u64) {
        if let Some(table) = self.tables.get_mut(agg.0 as usize) {
            table.normal = by.max(1);
        }
    }

    /// `denormalize(@a)`
    pub fn denormalize(&mut self, agg: AggId) {
        self.normalize(agg, 1);
    }
}

impl Entry {
    /// Adds one CPU's words. `percpu` is the number of CPUs if they are kept apart, else 0.
    fn add(&mut self, func: AggFunc, words: &[u64], cpu: u32, percpu: u32, store: Store) {
        merge(func, &mut self.words, words);
        if store == Store::Kept {
            merge(func, &mut self.kept, words);
        }
        if cpu < percpu {
            for (list, wanted) in [(&mut self.cpus, true), (&mut self.kept_cpus, store == Store::Kept)] {
                list.resize_with(percpu as usize, || vec![0; words.len()]);
                if wanted {
                    merge(func, &mut list[cpu as usize], words);
                }
            }
        }
    }
}

impl Table {
    /// The entry of a key, which is added if it is new.
    fn find(&mut self, cx: &Context, agg: AggId, def: &Agg, key: &[u8]) -> Result<usize, DecodeError> {
        // The first 8 bytes are the CPU and the parity; without members nothing but an index is there.
        let bytes = if def.key.is_empty() { &[][..] } else { key.get(8..).unwrap_or(&[]) };
        if let Some(&at) = self.raw.get(bytes) {
            return Ok(at);
        }
        let values = read_key(cx, agg, def, key)?;
        let same = |s: &Show| matches!(s, Show::ProbePart(_) | Show::Symbol(_));
        let aliased = !self.alias.is_empty() || def.key.iter().any(|(_, s)| same(s));
        let known = if aliased { self.alias.get(&values).copied() } else { None };
        let at = known.unwrap_or(self.entries.len());
        if known.is_none() {
            if aliased {
                self.alias.insert(values.clone(), at);
            }
            let zero = vec![0; def.func.words() as usize];
            self.entries.push(Entry { key: values, words: zero.clone(), kept: zero, ..Entry::default() });
        }
        self.raw.insert(bytes.into(), at);
        Ok(at)
    }
}

/// Reads the members of a key.
fn read_key(cx: &Context, agg: AggId, def: &Agg, key: &[u8]) -> Result<Vec<Value>, DecodeError> {
    let n = agg.0 as usize;
    let plan = cx.plan.aggs.get(n);
    let mut values = Vec::with_capacity(def.key.len());
    for (i, (_, show)) in def.key.iter().enumerate() {
        let field = DecodeError::Field(i as u32);
        let &(offset, val) = cx.layout.aggs.get(n).and_then(|a| a.fields.get(i)).ok_or(field)?;
        let cut = plan.and_then(|p| p.cut.get(i)).copied().unwrap_or(false);
        let part = |part, raw| part_text(cx.program, def.probes_of?, raw as u32, part).map(str::to_string);
        let mut value = member(key, offset, val, show, cut, part).ok_or(field)?;
        // Addresses that are in the same function are the same key.
        if let Value::Symbol { what, pid, addr } = &mut value {
            *addr = symbol::common(*what, *pid, *addr, cx.symbols);
        }
        values.push(value);
    }
    Ok(values)
}

/// Adds the words of a value to those of another.
pub fn merge(func: AggFunc, into: &mut [u64], from: &[u64]) {
    match func {
        AggFunc::Min | AggFunc::Max => {
            for (a, &b) in into.iter_mut().zip(from) {
                *a = (*a).max(b);
            }
        }
        AggFunc::Stddev => {
            let square = |w: &[u64]| {
                let word = |i: usize| u128::from(w.get(i).copied().unwrap_or(0));
                word(3) << 64 | word(2)
            };
            let sum = square(into).wrapping_add(square(from));
            for (a, &b) in into.iter_mut().zip(from) {
                *a = a.wrapping_add(b);
            }
            if let [_, _, low, high] = into {
                (*low, *high) = (sum as u64, (sum >> 64) as u64);
            }
        }
        _ => {
            for (a, &b) in into.iter_mut().zip(from) {
                *a = a.wrapping_add(b);
            }
        }
    }
}
