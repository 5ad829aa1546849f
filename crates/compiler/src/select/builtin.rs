//! Built-in variables: helper calls made once in a firing, and what is computed from them.

use super::Select;
use super::build::{Cost, Key};
use crate::vcode::{Base, Rhs, Slot, V};
use probity_bpf::helpers::Helper;
use probity_bpf::insn::{AluOp, Size, Width};
use probity_ir::Builtin;

impl Select<'_> {
    /// The value of a built-in variable.
    pub(super) fn builtin(&mut self, builtin: Builtin) -> V {
        match builtin {
            Builtin::Pid => {
                let both = self.call_once(Helper::GetCurrentPidTgid);
                self.b.alu(AluOp::Rsh, both, Rhs::Imm(32))
            }
            Builtin::Tid => {
                let both = self.call_once(Helper::GetCurrentPidTgid);
                self.b.low32(both)
            }
            Builtin::Uid => {
                let both = self.call_once(Helper::GetCurrentUidGid);
                self.b.low32(both)
            }
            Builtin::Gid => {
                let both = self.call_once(Helper::GetCurrentUidGid);
                self.b.alu(AluOp::Rsh, both, Rhs::Imm(32))
            }
            Builtin::Timestamp => self.time(),
            Builtin::WallTimestamp => self.wall_time(),
            Builtin::Vtimestamp => self.vtimestamp(),
            Builtin::Cpu => self.cpu(),
            Builtin::CurThread => self.call_once(Helper::GetCurrentTask),
            Builtin::ProbeId => {
                let unit = self.unit;
                self.probe_number(|i| unit.probes[i as usize].as_ref().map_or(0, |p| p.id))
            }
            Builtin::Epid => {
                let (program, unit, at) = (self.program, self.unit_id, self.at);
                let clause = self.unit.clauses[at].clause;
                self.probe_number(|i| probity_ir::epid(program, probity_ir::UnitId(unit as u32), clause, i))
            }
            Builtin::Caller => self.caller(false),
            Builtin::Ucaller => self.caller(true),
        }
    }

    /// A helper without arguments, called once in a firing.
    pub(super) fn call_once(&mut self, helper: Helper) -> V {
        let key = Key::Call(helper);
        if let Some(v) = self.b.find(&key, Cost::Dear) {
            return v;
        }
        let v = self.b.call(helper, &[]);
        self.b.keep(key, v);
        v
    }

    /// A helper that takes the context.
    pub(super) fn call_with_ctx(&mut self, helper: Helper) -> V {
        let ctx = self.ctx;
        self.b.call(helper, &[ctx])
    }

    /// The firing's monotonic time.
    pub(super) fn time(&mut self) -> V {
        self.call_once(Helper::KtimeGetNs)
    }

    fn wall_time(&mut self) -> V {
        // Each use is the time of its own, unlike `timestamp`'s.
        let time = self.b.call(Helper::KtimeGetNs, &[]);
        let (base, off) = self.b.map_place(self.plan.layout.state_map, self.plan.layout.realtime_offset);
        let distance = self.b.load(Size::DW, base, off);
        self.b.alu(AluOp::Add, time, Rhs::Reg(distance))
    }

    /// The CPU's number.
    pub(super) fn cpu(&mut self) -> V {
        if self.plan.cpu_mask == 0 {
            return self.b.imm(0);
        }
        self.call_once(Helper::GetSmpProcessorId)
    }

    /// The CPU's number, provably below the power of two that tables by CPU have room for.
    pub(super) fn cpu_row(&mut self) -> V {
        let cpu = self.cpu();
        match self.plan.cpu_mask {
            0 => cpu,
            mask => self.b.alu(AluOp::And, cpu, Rhs::Imm(mask as i32)),
        }
    }

    /// The executable's name in 16 bytes of stack, zero-padded.
    pub(super) fn comm(&mut self) -> Slot {
        let slot = match self.comm {
            Some(slot) => slot,
            None => self.b.piece(16),
        };
        self.comm = Some(slot);
        let key = Key::Call(Helper::GetCurrentComm);
        if self.b.find(&key, Cost::Dear).is_none() {
            self.get_comm(Base::Frame(slot), 0, 16);
            self.b.keep(key, self.ctx);
        }
        slot
    }

    /// Whether the executable's name has been fetched on every path to here.
    pub(super) fn has_comm(&self) -> bool {
        self.b.find(&Key::Call(Helper::GetCurrentComm), Cost::Dear).is_some()
    }

    /// Puts the executable's name somewhere, padded with zeros to `cap`.
    pub(super) fn get_comm(&mut self, base: Base, off: i32, cap: u32) {
        // Linux 6.1 leaves what was there after the NUL.
        self.clear(base, off, cap.next_multiple_of(8));
        let at = self.b.addr(base, off);
        let size = self.b.imm(cap.into());
        self.b.call_void(Helper::GetCurrentComm, &[at, size]);
    }

    /// 1 if the current epoch is odd, else 0.
    pub(super) fn epoch_bit(&mut self) -> V {
        let (base, off) = self.b.map_place(self.plan.layout.state_map, crate::layout::STATE_WORD);
        let word = self.b.load(Size::W, base, off);
        self.b.alu_w(AluOp::And, Width::W64, word, Rhs::Imm(1))
    }
}
