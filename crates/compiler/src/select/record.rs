//! Records: reserving room in a ring, filling header and fields in place, and the record that tells of a fault.

use super::build::Name;
use super::text::Mem;
use super::{Held, Select, calls};
use crate::fold::may_fault;
use crate::vcode::{B, Base, Rhs, V};
use probity_bpf::helpers::Helper;
use probity_bpf::insn::{AluOp, Cond, Size, Width};
use probity_ir::{DataRings, Drop, FAULT, FAULT_BODY, HEADER, RecordId, RingKind, Val};
use probity_ir::{Expr, ExprId};

/// `BPF_RB_NO_WAKEUP`: the consumer polls data rings.
pub const NO_WAKEUP: i64 = 1;
/// `BPF_RB_FORCE_WAKEUP`.
const FORCE_WAKEUP: i64 = 2;

/// A kind of ring.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ring {
    Data,
    Control,
    Fault,
}

impl Select<'_> {
    /// Writes a record.
    pub(super) fn emit(&mut self, id: RecordId, values: &[ExprId]) {
        let layout = self.plan.layout.records[id.0 as usize].clone();
        let ring = self.program.records[id.0 as usize].ring;
        let early = self.early(values);
        let (ring, cause) = match ring {
            RingKind::Data | RingKind::Speculation => (Ring::Data, Drop::Data),
            RingKind::Control => (Ring::Control, Drop::Control),
        };
        let lost = self.b.cold();
        let record = self.reserve(ring, layout.size, lost);
        self.header(record, i64::from(id.0));
        self.held.push(Held::Record(record));
        for (i, (&(off, val), &value)) in layout.fields.iter().zip(values).enumerate() {
            let (base, off) = (Base::Reg(record), off as i32);
            match val {
                Val::Int => {
                    let v = match early.get(i).copied().flatten() {
                        Some(v) => Rhs::Reg(v),
                        None => self.rhs(value),
                    };
                    self.b.store(Size::DW, base, off, v);
                }
                Val::Str { cap } | Val::Bytes { len: cap } => {
                    self.put(Mem { base, off, cap: cap.max(1), padded: false }, value, false);
                }
            }
        }
        self.held.pop();
        self.submit(record, ring);
        self.lost(lost, cause);
    }

    /// Integers that can fault are evaluated before room is taken, so that a fault has nothing to give back; up to the first
    /// string that can fault, since faults come in the order of the fields. Other fields are evaluated where they are
    /// stored, so that no register holds them meanwhile.
    fn early(&mut self, values: &[ExprId]) -> Vec<Option<V>> {
        let mut out = Vec::new();
        let exprs = &self.clause.exprs;
        for &value in values {
            let faults = may_fault(exprs, value);
            if !self.is_int(value) {
                if faults {
                    break;
                }
                out.push(None);
                continue;
            }
            let costly = faults || matches!(self.expr(value), Expr::Elem(..)) && calls(exprs, value);
            out.push(costly.then(|| self.int(value)));
        }
        out
    }

    /// Room in a ring; goes to `lost` where there is none.
    fn reserve(&mut self, ring: Ring, size: u32, lost: B) -> V {
        // The time is taken just before, unless the clause has a time for all its uses already.
        self.time();
        let map = match ring {
            Ring::Control => self.b.map(self.plan.layout.control_ring),
            Ring::Fault => {
                let map = self.plan.fault_ring();
                self.b.map(map)
            }
            Ring::Data => self.data_ring(lost),
        };
        let (size, flags) = (self.b.imm(size.into()), self.b.imm(0));
        let record = self.b.call(Helper::RingbufReserve, &[map, size, flags]);
        let some = self.b.block();
        self.b.branch_null(record, lost, some);
        self.b.start(some);
        record
    }

    /// This CPU's data ring.
    fn data_ring(&mut self, lost: B) -> V {
        let cpu = self.cpu();
        match self.plan.layout.data_rings.clone() {
            DataRings::Each(maps) => {
                let (name, join) = (self.b.name(), self.b.block());
                self.choose(cpu, 0, &maps, name, join);
                self.b.start(join);
                self.b.get(name)
            }
            DataRings::Nested(rings) => {
                let slot = self.b.piece(4);
                self.b.store(Size::W, Base::Frame(slot), 0, Rhs::Reg(cpu));
                let (map, at) = (self.b.map(rings), self.b.addr(Base::Frame(slot), 0));
                let inner = self.b.call(Helper::MapLookupElem, &[map, at]);
                self.b.free(slot);
                let some = self.b.block();
                self.b.branch_null(inner, lost, some);
                self.b.start(some);
                inner
            }
            // The layout has rings wherever a program has data records.
            DataRings::None => self.b.map(self.plan.layout.control_ring),
        }
    }

    /// Sets `name` to the map of CPU `cpu` by halving `maps`, which begin with CPU `first`, and goes to `join`.
    fn choose(&mut self, cpu: V, first: u32, maps: &[u32], name: Name, join: B) {
        if let [only] = maps {
            let map = self.b.map(*only);
            self.b.set(name, map);
            self.b.jump(join);
            return;
        }
        let (low, high) = maps.split_at(maps.len() / 2);
        let middle = first + low.len() as u32;
        let (below, above) = (self.b.block(), self.b.block());
        self.b.branch(Cond::Lt, Width::W64, cpu, Rhs::Imm(middle as i32), below, above);
        self.b.start(below);
        self.choose(cpu, first, low, name, join);
        self.b.start(above);
        self.choose(cpu, middle, high, name, join);
    }

    fn header(&mut self, record: V, number: i64) {
        let base = Base::Reg(record);
        let time = self.time();
        self.b.store(Size::DW, base, 0, Rhs::Reg(time));
        self.b.store(Size::W, base, 8, Rhs::Imm(number as i32));
        let cpu = self.cpu();
        self.b.store(Size::H, base, 12, Rhs::Reg(cpu));
        let index = self.index_rhs();
        self.b.store(Size::H, base, 14, index);
    }

    fn submit(&mut self, record: V, ring: Ring) {
        let flags = self.b.imm(if ring == Ring::Control { FORCE_WAKEUP } else { NO_WAKEUP });
        self.b.call_void(Helper::RingbufSubmit, &[record, flags]);
    }

    /// Writes the record of the fault that ended the current clause.
    pub(super) fn fault_record(&mut self) {
        let info = self.b.get(self.fault_info);
        let code = self.b.get(self.fault_code);
        let value = self.b.get(self.fault_value);
        let lost = self.b.cold();
        let record = self.reserve(Ring::Fault, HEADER + FAULT_BODY, lost);
        self.header(record, i64::from(FAULT));
        let (base, body) = (Base::Reg(record), HEADER as i32);
        self.b.store(Size::W, base, body, Rhs::Imm(self.unit_id as i32));
        self.b.store(Size::W, base, body + 4, Rhs::Imm(self.at as i32));
        // Action number and line were put together where the fault was.
        self.b.store(Size::W, base, body + 8, Rhs::Reg(info));
        let line = self.b.alu(AluOp::Rsh, info, Rhs::Imm(32));
        self.b.store(Size::W, base, body + 12, Rhs::Reg(line));
        self.b.store(Size::DW, base, body + 16, Rhs::Reg(code));
        self.b.store(Size::DW, base, body + 24, Rhs::Reg(value));
        self.submit(record, Ring::Fault);
        if self.error_stops {
            let (base, off) = self.b.map_place(self.plan.layout.state_map, crate::layout::STATE_WORD);
            self.b.store(Size::DW, base, off, Rhs::Imm(probity_ir::STOPPING as i32));
        }
        self.lost(lost, Drop::Fault);
    }
}
