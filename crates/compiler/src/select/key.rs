//! Keys: members put side by side, zero-padded, on the stack or in scratch memory.

use super::Select;
use super::text::Mem;
use crate::vcode::{Base, Rhs, Slot};
use probity_bpf::insn::Size;
use probity_ir::{ExprId, Val};

/// A key that was built.
#[derive(Clone, Copy, Debug)]
pub struct BuiltKey {
    /// Where it is.
    pub base: Base,
    /// Byte offset from there.
    pub off: i32,
    piece: Option<Slot>,
}

impl Select<'_> {
    /// Room for a key.
    pub(super) fn key_room(&mut self, size: u32) -> BuiltKey {
        if size <= self.limits.key {
            let slot = self.b.piece(size);
            return BuiltKey { base: Base::Frame(slot), off: 0, piece: Some(slot) };
        }
        let (base, off) = self.scratch_piece(size);
        BuiltKey { base, off, piece: None }
    }

    /// Evaluates a key's members into their places.
    pub(super) fn put_members(&mut self, key: BuiltKey, fields: &[(u32, Val)], members: &[ExprId]) {
        for (&(at, val), &member) in fields.iter().zip(members) {
            let off = key.off + at as i32;
            match val {
                Val::Int => {
                    let v = self.rhs(member);
                    self.b.store(Size::DW, key.base, off, v);
                }
                Val::Str { cap } | Val::Bytes { len: cap } => {
                    if self.is_int(member) {
                        self.fail(
                            "a key member is an integer where a string is declared (a bug in the checker)".into(),
                        );
                    }
                    self.put(Mem { base: key.base, off, cap: cap.max(1), padded: false }, member, true);
                }
            }
        }
        if fields.is_empty() && members.is_empty() {
            self.b.store(Size::DW, key.base, key.off, Rhs::Imm(0));
        }
    }

    /// Gives a key's room back.
    pub(super) fn free_key(&mut self, key: BuiltKey) {
        if let Some(slot) = key.piece {
            self.b.free(slot);
        }
    }
}
