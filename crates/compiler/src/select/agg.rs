//! Aggregations: finding this CPU's part of the value and updating its words atomically, since another program of ours may
//! interrupt this one on the same CPU.

use super::Select;
use super::array::NO_EXIST;
use super::build::Name;
use crate::layout::KeyPlan;
use crate::vcode::{B, Base, Rhs, V};
use probity_bpf::insn::{AluOp, AtomicOp, Cond, Size, Width};
use probity_ir::buckets::{QUANTIZE_ZERO, llquantize_bounds, lquantize_levels};
use probity_ir::{AggFunc, AggId, Drop, ExprId};

/// How often a minimum or maximum is tried to be exchanged.
const TRIES: u32 = 8;

impl Select<'_> {
    /// `@a[key] = f(args)`.
    pub(super) fn aggregate(&mut self, agg: AggId, key: &[ExprId], args: &[ExprId]) {
        let spec = &self.program.aggs[agg.0 as usize];
        let lost = self.b.cold();
        // The key's operands come before the function's; what they are stored in outlives the evaluation of these.
        let room = (!key.is_empty()).then(|| self.agg_key(agg, key));
        let value = args.first().map(|&e| self.int(e));
        let weight = args.get(1).map(|&e| self.int(e));
        let place = self.bucket(spec.func, value);
        let ptr = match room {
            Some(room) => self.agg_entry(agg, room, lost),
            None => self.agg_part(agg),
        };
        self.update(spec.func, ptr, value, weight, place, lost);
        // Only these can be zero after an update. A key that is there says so by itself.
        let counts = matches!(spec.func, AggFunc::Count | AggFunc::Avg | AggFunc::Stddev);
        if key.is_empty() && !counts {
            let touched = spec.func.words() as i32 * 8;
            self.b.store(Size::DW, Base::Reg(ptr), touched, Rhs::Imm(1));
        }
        self.lost(lost, Drop::Aggregation);
    }

    fn agg_key(&mut self, agg: AggId, members: &[ExprId]) -> super::key::BuiltKey {
        let layout = &self.plan.layout.aggs[agg.0 as usize];
        let tag = layout.tag;
        let key = KeyPlan { size: layout.key_size, fields: layout.fields.clone() };
        let room = self.key_room(key.size);
        self.put_members(room, &key.fields, members);
        let cpu = self.cpu();
        let first = if self.program.aggs[agg.0 as usize].resettable {
            let epoch = self.epoch_bit();
            let high = self.b.alu(AluOp::Lsh, epoch, Rhs::Imm(32));
            self.b.alu(AluOp::Or, high, Rhs::Reg(cpu))
        } else {
            cpu
        };
        let first = match tag {
            0 => first,
            tag => {
                let tag = self.b.rhs(i64::from(tag) << 33);
                self.b.alu(AluOp::Or, first, tag)
            }
        };
        self.b.store(Size::DW, room.base, room.off, Rhs::Reg(first));
        room
    }

    /// The value of a key, made of zeros where it is new.
    fn agg_entry(&mut self, agg: AggId, room: super::key::BuiltKey, lost: B) -> V {
        let map = self.plan.layout.aggs[agg.0 as usize].map;
        let name = self.b.name();
        let ptr = self.look_up(map, room);
        self.b.set(name, ptr);
        let (absent, found) = (self.b.cold(), self.b.block());
        self.b.branch_null(ptr, absent, found);
        self.b.start(absent);
        let zeros = self.b.map_value(self.plan.rodata_map, 0);
        self.insert(map, room, zeros, NO_EXIST);
        let ptr = self.look_up(map, room);
        self.b.set(name, ptr);
        self.b.branch_null(ptr, lost, found);
        self.b.start(found);
        self.free_key(room);
        self.b.get(name)
    }

    /// This CPU's part of an aggregation without members.
    fn agg_part(&mut self, agg: AggId) -> V {
        let (map, stride) = {
            let layout = &self.plan.layout.aggs[agg.0 as usize];
            (layout.map, layout.stride)
        };
        let mut row = self.cpu_row();
        if self.program.aggs[agg.0 as usize].resettable {
            let epoch = self.epoch_bit();
            let first = self.b.alu(AluOp::Mul, epoch, Rhs::Imm(self.plan.layout.ncpu as i32));
            row = self.b.alu(AluOp::Add, first, Rhs::Reg(row));
        } else if self.plan.cpu_mask == 0 {
            return self.b.map_value(map, 0);
        }
        let off = if stride.is_power_of_two() {
            self.b.alu(AluOp::Lsh, row, Rhs::Imm(stride.trailing_zeros() as i32))
        } else {
            self.b.alu(AluOp::Mul, row, Rhs::Imm(stride as i32))
        };
        let base = self.b.map_value(map, 0);
        self.b.add_ptr(base, Rhs::Reg(off))
    }

    fn update(&mut self, func: AggFunc, ptr: V, value: Option<V>, weight: Option<V>, place: Option<V>, lost: B) {
        let at = Base::Reg(ptr);
        let value = match value {
            Some(v) => v,
            None => self.b.imm(1),
        };
        match func {
            AggFunc::Count => {
                let one = self.b.imm(1);
                self.b.atomic(AtomicOp::Add, at, 0, one);
            }
            AggFunc::Sum => self.b.atomic(AtomicOp::Add, at, 0, value),
            AggFunc::Avg | AggFunc::Stddev => {
                let one = self.b.imm(1);
                self.b.atomic(AtomicOp::Add, at, 0, one);
                self.b.atomic(AtomicOp::Add, at, 8, value);
                if func == AggFunc::Stddev {
                    self.add_square(at, value);
                }
            }
            AggFunc::Min => {
                let max = self.b.imm(i64::MAX);
                let better = self.b.alu(AluOp::Sub, max, Rhs::Reg(value));
                self.raise(at, better, lost);
            }
            AggFunc::Max => {
                let top = self.b.rhs(i64::MIN);
                let better = self.b.alu(AluOp::Xor, value, top);
                self.raise(at, better, lost);
            }
            AggFunc::Quantize | AggFunc::Lquantize { .. } | AggFunc::Llquantize { .. } => {
                let weight = match weight {
                    Some(v) => v,
                    None => self.b.imm(1),
                };
                let place = match place {
                    Some(v) => v,
                    None => self.b.imm(0),
                };
                let off = self.b.alu(AluOp::Lsh, place, Rhs::Imm(3));
                let at = self.b.add_ptr(ptr, Rhs::Reg(off));
                self.b.atomic(AtomicOp::Add, Base::Reg(at), 0, weight);
            }
        }
    }

    /// Raises the word to `better`, unsigned, if that is larger.
    fn raise(&mut self, at: Base, better: V, lost: B) {
        let name = self.b.name();
        let done = self.b.block();
        let first = self.b.load(Size::DW, at, 0);
        self.b.set(name, first);
        for n in 0..TRIES {
            let current = self.b.get(name);
            let try_it = if n == 0 { self.b.block() } else { self.b.cold() };
            self.b.branch(Cond::Ge, Width::W64, current, Rhs::Reg(better), done, try_it);
            self.b.start(try_it);
            let before = self.b.cmpxchg(at, 0, current, better);
            self.b.set(name, before);
            let again = if n + 1 == TRIES { lost } else { self.b.cold() };
            self.b.branch(Cond::Eq, Width::W64, before, Rhs::Reg(current), done, again);
            if again != lost {
                self.b.start(again);
            }
        }
        self.b.start(done);
    }

    /// Adds v² to the 128 bits at words 2 and 3: the square from 32-bit halves, the carry of the low word from what it was.
    fn add_square(&mut self, at: Base, v: V) {
        let (v, _) = self.magnitude(v);
        let low = self.b.low32(v);
        let high = self.b.alu(AluOp::Rsh, v, Rhs::Imm(32));
        let ll = self.b.alu(AluOp::Mul, low, Rhs::Reg(low));
        let lh = self.b.alu(AluOp::Mul, low, Rhs::Reg(high));
        let hh = self.b.alu(AluOp::Mul, high, Rhs::Reg(high));
        // v² = hh·2^64 + lh·2^33 + ll.
        let middle = self.b.alu(AluOp::Lsh, lh, Rhs::Imm(33));
        let sum = self.b.alu(AluOp::Add, ll, Rhs::Reg(middle));
        let carry = self.carry(ll, middle, sum);
        let top = self.b.alu(AluOp::Rsh, lh, Rhs::Imm(31));
        let top = self.b.alu(AluOp::Add, hh, Rhs::Reg(top));
        let top = self.b.alu(AluOp::Add, top, Rhs::Reg(carry));
        let before = self.b.fetch(AtomicOp::FetchAdd, at, 16, sum);
        let after = self.b.alu(AluOp::Add, before, Rhs::Reg(sum));
        let carry = self.carry(before, sum, after);
        let top = self.b.alu(AluOp::Add, top, Rhs::Reg(carry));
        self.b.atomic(AtomicOp::Add, at, 24, top);
    }

    /// The carry out of `a + b = sum`.
    fn carry(&mut self, a: V, b: V, sum: V) -> V {
        let both = self.b.alu(AluOp::And, a, Rhs::Reg(b));
        let either = self.b.alu(AluOp::Or, a, Rhs::Reg(b));
        let not = self.b.alu(AluOp::Xor, sum, Rhs::Imm(-1));
        let lost = self.b.alu(AluOp::And, either, Rhs::Reg(not));
        let top = self.b.alu(AluOp::Or, both, Rhs::Reg(lost));
        self.b.alu(AluOp::Rsh, top, Rhs::Imm(63))
    }

    // Buckets.

    /// The word that counts `value`.
    fn bucket(&mut self, func: AggFunc, value: Option<V>) -> Option<V> {
        let v = value?;
        match func {
            AggFunc::Quantize => Some(self.quantize(v)),
            AggFunc::Lquantize { low, high, step } => Some(self.lquantize(v, low, high, step)),
            AggFunc::Llquantize { factor, low, high, steps } => {
                Some(self.llquantize(v, &llquantize_bounds(factor, low, high, steps)))
            }
            _ => None,
        }
    }

    fn quantize(&mut self, v: V) -> V {
        let v = self.b.scalar(v);
        let name = self.b.name();
        let zero = QUANTIZE_ZERO as i32;
        let (positive, rest, negative, none, done) =
            (self.b.block(), self.b.cold(), self.b.cold(), self.b.cold(), self.b.block());
        self.b.branch(Cond::Sgt, Width::W64, v, Rhs::Imm(0), positive, rest);
        self.b.start(positive);
        let log = self.b.log2(v);
        let place = self.b.alu(AluOp::Add, log, Rhs::Imm(zero + 1));
        self.finish_bucket(name, place, done);
        self.b.start(rest);
        self.b.branch(Cond::Eq, Width::W64, v, Rhs::Imm(0), none, negative);
        self.b.start(none);
        let place = self.b.imm(zero.into());
        self.finish_bucket(name, place, done);
        self.b.start(negative);
        let magnitude = self.b.neg(v);
        let log = self.b.log2(magnitude);
        let log = self.b.min(log, QUANTIZE_ZERO - 1);
        let least = self.b.imm(i64::from(zero) - 1);
        let place = self.b.alu(AluOp::Sub, least, Rhs::Reg(log));
        self.finish_bucket(name, place, done);
        self.b.start(done);
        self.b.get(name)
    }

    fn finish_bucket(&mut self, name: Name, place: V, done: B) {
        self.b.set(name, place);
        self.b.jump(done);
    }

    fn lquantize(&mut self, v: V, low: i32, high: i32, step: u16) -> V {
        let v = self.b.scalar(v);
        let levels = lquantize_levels(low, high, step);
        let name = self.b.name();
        let (below, inside, done) = (self.b.block(), self.b.block(), self.b.block());
        self.b.branch(Cond::Slt, Width::W64, v, Rhs::Imm(low), below, inside);
        self.b.start(below);
        let place = self.b.imm(0);
        self.finish_bucket(name, place, done);
        self.b.start(inside);
        // The last level may reach beyond the upper bound.
        if (i64::from(high) - i64::from(low)) % i64::from(step.max(1)) != 0 {
            let (above, within) = (self.b.block(), self.b.block());
            self.b.branch(Cond::Sge, Width::W64, v, Rhs::Imm(high), above, within);
            self.b.start(above);
            let place = self.b.imm(i64::from(levels) + 1);
            self.finish_bucket(name, place, done);
            self.b.start(within);
        }
        let from = self.b.rhs(-i64::from(low));
        let distance = self.b.alu(AluOp::Add, v, from);
        let level = match step {
            0 | 1 => distance,
            step => self.b.alu(AluOp::Div, distance, Rhs::Imm(step.into())),
        };
        let level = self.b.min(level, levels);
        let place = self.b.alu(AluOp::Add, level, Rhs::Imm(1));
        self.finish_bucket(name, place, done);
        self.b.start(done);
        self.b.get(name)
    }

    /// A binary search without branches in a table of the bounds, so that the verifier follows one path.
    fn llquantize(&mut self, v: V, bounds: &[i64]) -> V {
        let n = bounds.len() as i32;
        let (magnitude, sign) = self.magnitude(v);
        // Only the least integer's magnitude is above every bound that fits 63 bits.
        let top = self.b.alu(AluOp::Rsh, magnitude, Rhs::Imm(63));
        let magnitude = self.b.alu(AluOp::Sub, magnitude, Rhs::Reg(top));
        let size = (bounds.len() + 1).next_power_of_two();
        // table[i] is the bound that must be reached for a count of i: table[0] always is.
        let mut bytes = vec![0u8; size * 8];
        for i in 1..size {
            let bound = bounds.get(i - 1).copied().unwrap_or(i64::MAX);
            bytes[i * 8..i * 8 + 8].copy_from_slice(&bound.to_ne_bytes());
        }
        let at = self.plan.constant(&bytes);
        let mut count = self.b.imm(0);
        let mut step = size as i32 / 2;
        while step > 0 {
            let next = self.b.alu(AluOp::Add, count, Rhs::Imm(step));
            let off = self.b.alu(AluOp::Lsh, next, Rhs::Imm(3));
            let base = self.b.map_value(self.plan.rodata_map, at);
            let entry = self.b.add_ptr(base, Rhs::Reg(off));
            let bound = self.b.load(Size::DW, Base::Reg(entry), 0);
            let distance = self.b.alu(AluOp::Sub, magnitude, Rhs::Reg(bound));
            let less = self.b.alu(AluOp::Arsh, distance, Rhs::Imm(63));
            let reached = self.b.alu(AluOp::Xor, less, Rhs::Imm(-1));
            let more = self.b.alu(AluOp::And, reached, Rhs::Imm(step));
            count = self.b.alu(AluOp::Add, count, Rhs::Reg(more));
            step /= 2;
        }
        let count = self.b.min(count, n as u32);
        // n + count where v is positive, n - count where it is negative.
        let flipped = self.b.alu(AluOp::Xor, count, Rhs::Reg(sign));
        let signed = self.b.alu(AluOp::Sub, flipped, Rhs::Reg(sign));
        let place = self.b.alu(AluOp::Add, signed, Rhs::Imm(n));
        self.b.min(place, 2 * n as u32)
    }
}
