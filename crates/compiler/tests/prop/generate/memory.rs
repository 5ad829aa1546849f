//! Statements and addresses for memory of the program's own: places, scratch memory, stores.

use super::Gen;
use probity_ir::{ArrayId, BinOp, Dest, Expr, ExprId, Place, Scope, Space, Stmt, Val, VarId};

impl Gen {
    /// Takes scratch memory, or copies to what was taken.
    pub(super) fn copyin(&mut self) -> Stmt {
        let space = self.rng.pick(&[Space::User, Space::User, Space::Kernel]);
        if self.rng.chance(30)
            && let Some((to, room)) = self.copied(1)
        {
            let len = self.rng.below(u64::from(room) + 2) as i64;
            let len = if self.rng.chance(70) { self.constant(len) } else { self.small(31) };
            let from = match self.rng.below(3) {
                0 => self.copied(1).map(|c| (c.0, Space::Scratch)),
                1 => Some((self.string(1), Space::Kernel)),
                _ => None,
            };
            let (from, space) = from.unwrap_or_else(|| (self.address(space), space));
            return Stmt::Copy { to, from, space, len };
        }
        let most = self.rng.pick(&[0u32, 9, 16, 24, 33, 64]);
        let (len, room) = match self.rng.below(10) {
            0..6 => (self.constant(most.into()), most.next_multiple_of(8)),
            6..9 => (self.small(15), 8),
            _ => (self.int(1), 8),
        };
        let dst = self.temp();
        if self.rng.chance(40) {
            self.copies.push((dst, room));
            return Stmt::Alloc { dst, len };
        }
        let addr = self.address(space);
        self.copies.push((dst, room));
        Stmt::CopyIn { dst, addr, len, space }
    }

    /// A number up to `mask`.
    pub(super) fn small(&mut self, mask: i64) -> ExprId {
        let (of, mask) = (self.int(2), self.constant(mask));
        self.add(Expr::Bin(BinOp::And, of, mask))
    }

    /// A place that is bytes, and how many.
    pub(super) fn place(&mut self) -> Option<(Place, u32)> {
        let len = |val: Val| match val {
            Val::Bytes { len } => Some(len),
            _ => None,
        };
        let vars: Vec<(u32, u32)> =
            (0..).zip(&self.program.vars).filter_map(|(i, v)| len(v.val).map(|n| (i, n))).collect();
        let arrays: Vec<(u32, u32)> =
            (0..).zip(&self.program.arrays).filter_map(|(i, a)| len(a.val).map(|n| (i, n))).collect();
        if !arrays.is_empty() && (vars.is_empty() || self.rng.chance(30)) {
            let (id, len) = self.rng.pick(&arrays);
            return Some((Place::Elem(ArrayId(id), self.array_key(id)), len));
        }
        (!vars.is_empty()).then(|| self.rng.pick(&vars)).map(|(id, len)| (Place::Var(VarId(id)), len))
    }

    /// An offset at which `size` bytes are inside of `len`, if all goes well.
    pub(super) fn offset(&mut self, len: u32, size: u32) -> Option<ExprId> {
        let most = len.checked_sub(size)?;
        let at = self.rng.below(u64::from(most) + 1) as i64;
        if self.rng.chance(60) || most < 2 {
            return Some(self.constant(at));
        }
        let step = self.rng.pick(&[1, 2, 4, 8]).min(i64::from(most));
        let count = most / step as u32 + 1;
        let index = self.int(1);
        let small = self.constant(7);
        let index = if self.rng.chance(70) { self.add(Expr::Bin(BinOp::And, index, small)) } else { index };
        let index = self.add(Expr::Bounded { index, len: count });
        let step = self.constant(step);
        Some(self.add(Expr::Bin(BinOp::Mul, index, step)))
    }

    /// The address of `size` bytes in a place.
    pub(super) fn own_address(&mut self, size: u32) -> Option<ExprId> {
        let (place, len) = self.place()?;
        let offset = self.offset(len, size)?;
        let base = self.add(Expr::AddrOf(place));
        Some(self.add(Expr::Bin(BinOp::Add, base, offset)))
    }

    pub(super) fn store(&mut self) -> Option<Stmt> {
        let size = self.rng.pick(&[1u32, 1, 2, 4, 4, 8, 8, 3, 12, 20]);
        let value = |g: &mut Gen| match (size, g.rng.below(4)) {
            (1 | 2 | 4 | 8, 0..3) => g.int(3),
            (2.., 0..2) => g.string(1),
            _ => g.bytes(size),
        };
        if let Some((offset, _)) = self.copied(size) {
            return Some(Stmt::Store { to: Dest::Scratch, offset, value: value(self), size });
        }
        let (place, len) = self.place()?;
        let global = match &place {
            Place::Var(v) => self.program.vars[v.0 as usize].scope == Scope::Global,
            Place::Elem(..) => false,
        };
        if global && self.rng.chance(25) {
            let offset = if self.rng.chance(20) {
                let bad = self.rng.pick(&[0, 1 << 47, -8, 0x66_6000]);
                self.constant(bad)
            } else {
                let offset = self.offset(len, size)?;
                let base = self.add(Expr::AddrOf(place));
                self.add(Expr::Bin(BinOp::Add, base, offset))
            };
            return Some(Stmt::Store { to: Dest::Global, offset, value: value(self), size });
        }
        let offset = match self.rng.below(10) {
            0 => self.int(1),
            _ => self.offset(len, size)?,
        };
        Some(Stmt::Store { to: Dest::Place(place), offset, value: value(self), size })
    }
}
