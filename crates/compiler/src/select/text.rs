//! Strings and bytes: where they are, putting them somewhere, comparing, length, joining.
//!
//! A string in memory means its bytes up to the first NUL, or to its capacity. The bytes after the NUL are anything unless
//! the place is known to be zero-padded.

use super::Select;
use super::build::Name;
use super::place::{is_this_memory, uses_var};
use crate::fold::text;
use crate::vcode::{B, Base, Rhs, V};
use probity_bpf::insn::{AluOp, Cond, Size, Width};
use probity_ir::{Expr, ExprId, Place, Space, StrOp, TempId, Val};

/// A string or bytes in memory of ours.
#[derive(Clone, Copy, Debug)]
pub struct Mem {
    /// Where it is.
    pub base: Base,
    /// Byte offset from there.
    pub off: i32,
    /// Bytes that may be read.
    pub cap: u32,
    /// Whether all bytes after the NUL, up to `cap`, are zero.
    pub padded: bool,
}

/// A string.
#[derive(Clone, Copy, Debug)]
pub enum Text<'a> {
    /// Known.
    Const(&'a [u8]),
    /// In memory.
    Mem(Mem),
}

/// A string or bytes to assign.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// A string.
    Text(Text<'a>),
    /// So many bytes.
    Bytes(Mem, u32),
}

/// Longest constant that is written by stores; longer ones are copied.
const INLINE: usize = 128;

/// The parts that bytes are loaded or stored in, none of them larger than `align`: offset and size.
fn parts(len: u32, align: u32) -> impl Iterator<Item = (u32, Size)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let size = match (len - at).min(align) {
            0 => return None,
            1 => Size::B,
            2 | 3 => Size::H,
            4..8 => Size::W,
            _ => Size::DW,
        };
        at += size.bytes() as u32;
        Some((at - size.bytes() as u32, size))
    })
}

/// Up to eight bytes as the number that a load of them gives.
fn word(bytes: &[u8]) -> i64 {
    let mut word = [0; 8];
    let n = bytes.len().min(8);
    word[..n].copy_from_slice(&bytes[..n]);
    if cfg!(target_endian = "big") { i64::from_be_bytes(word) } else { i64::from_le_bytes(word) }
}

impl<'a> Select<'a> {
    /// Memory for `size` bytes until the end of the statement: on the stack if small, else in scratch memory.
    pub(super) fn buffer(&mut self, size: u32) -> Mem {
        let (base, off) = if size <= self.limits.string {
            let slot = self.b.piece(size);
            self.pieces.push(slot);
            (Base::Frame(slot), 0)
        } else {
            self.scratch_piece(size)
        };
        Mem { base, off, cap: size, padded: false }
    }

    /// Memory that lasts as long as the clause's strings do.
    fn lasting(&mut self, size: u32, stack: bool) -> Mem {
        let (base, off) = if stack {
            (Base::Frame(self.b.piece(size)), 0)
        } else {
            let place = self.scratch_piece(size);
            self.keep_scratch();
            place
        };
        Mem { base, off, cap: size, padded: false }
    }

    /// Gives the firing's `this->` strings their places, empty.
    pub(super) fn place_this_strings(&mut self) {
        for (i, var) in self.program.vars.iter().enumerate() {
            let id = probity_ir::VarId(i as u32);
            if !is_this_memory(var) {
                continue;
            }
            let size = crate::layout::padded(var.val);
            if !self.unit.clauses.iter().any(|c| uses_var(c, id)) {
                continue;
            }
            let stack = self.fits_stack(id);
            if !stack && self.scratch.is_none() {
                self.needs.insert(super::scratch::UNIT, super::scratch::Need::Body);
            }
            let mem = self.lasting(size, stack);
            self.clear(mem.base, mem.off, size);
            self.this_strings.insert(id, mem);
        }
    }

    /// Gives the clause's temporaries in memory their places: strings, and integers where there are too many for the stack.
    pub(super) fn place_temps(&mut self) {
        for (i, &val) in self.clause.temps.iter().enumerate() {
            let size = match val {
                Val::Int if self.limits.temps => continue,
                Val::Int => 8,
                Val::Str { cap } => cap.max(1).next_multiple_of(8),
                Val::Bytes { len } => len.next_multiple_of(8),
            };
            if sets_temp(&self.clause.body, TempId(i as u32)) {
                let mem = self.lasting(size, val != Val::Int && size <= self.limits.string);
                if val == Val::Int {
                    self.clear(mem.base, mem.off, size);
                }
                self.temps.insert(TempId(i as u32), mem);
            }
        }
    }

    /// Sets a temporary to a string.
    pub(super) fn set_temp_string(&mut self, temp: TempId, e: ExprId) {
        let Some(&mem) = self.temps.get(&temp) else { return };
        // A fault ends the temporary's life, so what is read can go straight to its place.
        if matches!(self.expr(e), Expr::ReadStr { .. } | Expr::ReadBytes { .. } | Expr::Stack(_)) {
            return self.put(mem, e, false);
        }
        if matches!(self.expr(e), Expr::Temp(same) if *same == temp) {
            return;
        }
        let value = self.value_of(e, None);
        self.prepare(mem, self.temp_may_be_none(temp));
        self.put_value(mem, value);
        self.pass_value(mem, value, e);
    }

    /// The string or bytes that are to be assigned: evaluated, so that a fault leaves the variable as it was. Bytes that are in
    /// the place which they are assigned to are copied.
    pub(super) fn value_of(&mut self, e: ExprId, to: Option<&Place>) -> Value<'a> {
        match self.val(e) {
            Val::Bytes { len } if matches!((self.expr(e), to), (Expr::ReadBytes { addr, .. }, Some(to)) if self.is_in(*addr, to)) =>
            {
                let mem = self.buffer(len.next_multiple_of(8).max(8));
                self.put(mem, e, false);
                Value::Bytes(mem, len)
            }
            Val::Bytes { len } => Value::Bytes(self.bytes_of(e), len),
            _ => Value::Text(self.text_or_none(e)),
        }
    }

    /// Assigns a string or bytes.
    pub(super) fn put_value(&mut self, to: Mem, value: Value<'a>) {
        match value {
            Value::Bytes(from, len) => self.copy(to, from, len.min(to.cap)),
            Value::Text(Text::Const(bytes)) => self.put_const(to, bytes, false),
            Value::Text(Text::Mem(mem)) => self.put_mem(to, mem, false),
        }
    }

    /// Where a string is, computed and stored first if need be.
    pub(super) fn text(&mut self, id: ExprId) -> Text<'a> {
        let allowed = std::mem::take(&mut self.none_ok);
        match self.expr(id) {
            Expr::Str(bytes) => Text::Const(text(bytes)),
            Expr::Comm => Text::Mem(Mem { base: Base::Frame(self.comm()), off: 0, cap: 16, padded: true }),
            Expr::ProbeText(part) => {
                let (ptr, cap) = self.probe_text(*part);
                Text::Mem(Mem { base: Base::Reg(ptr), off: 0, cap, padded: true })
            }
            Expr::Temp(t) => match self.temps.get(t) {
                Some(&mem) => {
                    self.refuse_none(id, mem, allowed);
                    Text::Mem(mem)
                }
                None => Text::Const(b""),
            },
            Expr::Var(var) => {
                let mem = self.var_string(*var);
                self.refuse_none(id, mem, allowed);
                Text::Mem(mem)
            }
            Expr::Elem(array, key) => Text::Mem(self.elem_string(*array, key)),
            Expr::StrJoin { a, b, cap } => Text::Mem(self.join(*a, *b, *cap)),
            Expr::Sub { sub, args, cap } => Text::Mem(self.sub_text(*sub, args, *cap, allowed)),
            Expr::ReadBytes { addr, space: Space::Kernel, len } if *len > 0 => match self.own_memory(*addr, *len) {
                Some((base, off)) => Text::Mem(Mem { base, off, cap: *len, padded: false }),
                None => self.buffered(id, allowed),
            },
            _ => self.buffered(id, allowed),
        }
    }

    /// Where a string or bytes are once they have been put into a buffer.
    fn buffered(&mut self, id: ExprId, allowed: bool) -> Text<'a> {
        let cap = match self.val(id) {
            Val::Str { cap } => cap,
            Val::Bytes { len } => len,
            Val::Int => 1,
        };
        let mem = self.buffer(cap.next_multiple_of(8));
        // Of two strings the shorter one must not leave stack unwritten that is read for the longer one: the
        // verifier before 6.3 refuses that.
        let pad = matches!(self.expr(id), Expr::Cond(..)) && matches!(mem.base, Base::Frame(_));
        self.prepare(mem, allowed && self.may_be_none(id));
        self.none_ok = allowed;
        self.put(mem, id, pad);
        Text::Mem(Mem { cap, ..mem })
    }

    /// Puts a string into `to`, cut to its capacity, with zeros after it up to the capacity if `pad`. A fault may leave
    /// anything in `to`.
    pub(super) fn put(&mut self, to: Mem, id: ExprId, pad: bool) {
        let allowed = std::mem::take(&mut self.none_ok);
        match self.expr(id) {
            Expr::ReadStr { addr, space: Space::Scratch, cap, max } => {
                let at = self.int(*addr);
                let cap = (*cap).clamp(1, to.cap);
                let max = max.map(|max| self.int(max));
                // See below.
                if pad || matches!(to.base, Base::Frame(_)) {
                    self.clear(to.base, to.off, to.cap.next_multiple_of(8));
                }
                if let Some((from, size)) = self.scratch_str(at, cap, max) {
                    self.probe_read_str(to.base, to.off, size, from, Space::Kernel);
                }
            }
            Expr::ReadStr { addr, space, cap, max } => {
                let own = if *space == Space::Kernel { self.own_memory(*addr, 1) } else { None };
                let addr = match own {
                    Some((base, off)) => self.b.addr(base, off),
                    None => self.address(*addr),
                };
                let cap = (*cap).clamp(1, to.cap);
                let limit = max.map(|max| match self.expr(max) {
                    Expr::Const(n) => Rhs::Imm((*n as u64).min(u64::from(cap) - 1) as i32 + 1),
                    _ => {
                        let max = self.int(max);
                        let max = self.b.min(max, cap - 1);
                        Rhs::Reg(self.b.alu(AluOp::Add, max, Rhs::Imm(1)))
                    }
                });
                // A read of fewer bytes than there are leaves some of the stack unwritten, which the verifier before 6.3
                // lets nobody read, and wants written before a read of an unknown length.
                if pad || (limit.is_some() && matches!(to.base, Base::Frame(_))) {
                    self.clear(to.base, to.off, to.cap.next_multiple_of(8));
                }
                let size = limit.unwrap_or(Rhs::Imm(cap as i32));
                if own.is_some() {
                    self.probe_read_str(to.base, to.off, size, addr, Space::Kernel);
                } else {
                    self.read_str(to.base, to.off, size, addr, *space);
                }
            }
            Expr::ReadBytes { .. } => {
                let Expr::ReadBytes { addr, space, len } = self.expr(id) else { return };
                let len = (*len).min(to.cap);
                let own = if *space == Space::Kernel && len > 0 { self.own_memory(*addr, len) } else { None };
                if pad {
                    self.clear(to.base, to.off + (len & !7) as i32, to.cap.next_multiple_of(8) - (len & !7));
                }
                if let Some((base, off)) = own {
                    return self.copy(to, Mem { base, off, cap: len, padded: false }, len);
                }
                let addr = self.address(*addr);
                if *space == Space::Scratch {
                    if let Some((base, off)) = self.scratch_place(addr, len) {
                        self.copy(to, Mem { base, off, cap: len, padded: false }, len);
                    }
                } else if len > 0 {
                    self.read_bytes(to.base, to.off, len, addr, *space);
                }
            }
            Expr::Stack(stack) => self.put_stack(to, stack),
            Expr::UserAddr(addr) => self.put_user_addr(to, *addr),
            Expr::Comm if to.cap >= 16 && !self.has_comm() => {
                let cap = if pad { to.cap.next_multiple_of(8) } else { 16 };
                self.get_comm(to.base, to.off, cap);
            }
            Expr::Cond(c, a, b) => {
                let (yes, no, join) = (self.b.block(), self.b.block(), self.b.block());
                self.branch(*c, yes, no);
                for (block, e) in [(yes, *a), (no, *b)] {
                    self.b.start(block);
                    self.none_ok = allowed;
                    self.put(to, e, pad);
                    self.b.jump(join);
                }
                self.b.start(join);
            }
            Expr::StrJoin { a, b, cap } => {
                let cap = (*cap).min(to.cap);
                if let Text::Const(first) = self.known_text(*a) {
                    self.join_const(Mem { cap, ..to }, first, *b, pad.then_some(to.cap));
                } else {
                    let mem = self.join(*a, *b, cap);
                    self.put_mem(to, mem, pad);
                }
            }
            _ => match self.val(id) {
                Val::Bytes { len } => {
                    let from = self.bytes_of(id);
                    let len = len.min(to.cap);
                    self.copy(to, from, len);
                }
                _ => {
                    self.none_ok = allowed;
                    match self.text(id) {
                        Text::Const(bytes) => self.put_const(to, bytes, pad),
                        Text::Mem(mem) => {
                            self.put_mem(to, mem, pad);
                            if allowed {
                                self.pass_none(to, mem, id);
                            }
                        }
                    }
                }
            },
        }
    }

    /// Where bytes by value are.
    pub(super) fn bytes_of(&mut self, id: ExprId) -> Mem {
        match self.text(id) {
            Text::Mem(mem) => mem,
            Text::Const(_) => self.buffer(8),
        }
    }

    /// A string that is known without code.
    fn known_text(&self, id: ExprId) -> Text<'a> {
        match self.expr(id) {
            Expr::Str(bytes) => Text::Const(text(bytes)),
            _ => Text::Mem(Mem { base: Base::Reg(self.ctx), off: 0, cap: 0, padded: false }),
        }
    }

    fn copy(&mut self, to: Mem, from: Mem, len: u32) {
        if len <= 64 {
            // The stack is read and written at aligned places only.
            let framed = |m: Mem| if matches!(m.base, Base::Frame(_)) { m.off } else { 0 };
            let align = 1 << (framed(to) | framed(from) | 8).trailing_zeros();
            for (at, size) in parts(len, align) {
                let v = self.b.load(size, from.base, from.off + at as i32);
                self.b.store(size, to.base, to.off + at as i32, Rhs::Reg(v));
            }
            return;
        }
        let from = self.b.addr(from.base, from.off);
        self.copy_bytes(to.base, to.off, len, from);
    }

    /// Writes a constant string.
    fn put_const(&mut self, to: Mem, bytes: &[u8], pad: bool) {
        let len = bytes.len().min(to.cap.saturating_sub(1) as usize);
        let mut all = bytes[..len].to_vec();
        all.push(0);
        let room = to.cap.next_multiple_of(8);
        if all.len() <= INLINE {
            // Places are padded to 8 bytes, so whole words can be written.
            let words = all.len().next_multiple_of(8);
            all.resize(words, 0);
            for (i, bytes) in all.chunks(8).enumerate() {
                let value = self.b.rhs(word(bytes));
                self.b.store(Size::DW, to.base, to.off + i as i32 * 8, value);
            }
            if pad {
                self.clear(to.base, to.off + words as i32, room - words as u32);
            }
            return;
        }
        let at = self.plan.constant(&all);
        let from = self.b.map_value(self.plan.rodata_map, at);
        let words = all.len().next_multiple_of(8) as u32;
        self.copy_bytes(to.base, to.off, words, from);
        if pad {
            self.clear(to.base, to.off + words as i32, room - words);
        }
    }

    /// Copies a string from other memory of ours.
    fn put_mem(&mut self, to: Mem, from: Mem, pad: bool) {
        let words = from.cap.next_multiple_of(8);
        if from.padded && words <= 32 && from.cap <= to.cap && words == from.cap {
            self.copy(to, from, words);
            if pad {
                self.clear(to.base, to.off + words as i32, to.cap.next_multiple_of(8) - words);
            }
            return;
        }
        if pad {
            self.clear(to.base, to.off, to.cap.next_multiple_of(8));
        }
        let addr = self.b.addr(from.base, from.off);
        self.copy_str(to.base, to.off, to.cap.min(from.cap), addr);
    }

    // Length and joining.

    /// `strlen`.
    pub(super) fn str_len(&mut self, id: ExprId) -> V {
        // A NUL counts in what the helper returns.
        let with_nul = match self.expr(id) {
            Expr::ReadStr { addr, space, cap, max: None } if *space != Space::Scratch => {
                let addr = self.address(*addr);
                let to = self.buffer((*cap).max(1));
                self.read_str(to.base, to.off, Rhs::Imm(to.cap as i32), addr, *space)
            }
            _ => match self.text(id) {
                Text::Const(bytes) => return self.b.imm(bytes.len() as i64),
                Text::Mem(mem) => {
                    let to = self.buffer(mem.cap);
                    let from = self.b.addr(mem.base, mem.off);
                    self.copy_str(to.base, to.off, mem.cap, from)
                }
            },
        };
        self.b.alu(AluOp::Add, with_nul, Rhs::Imm(-1))
    }

    /// `strjoin` after a constant.
    fn join_const(&mut self, to: Mem, first: &[u8], second: ExprId, pad: Option<u32>) {
        let len = (first.len() as u32).min(to.cap.saturating_sub(1));
        let rest = to.cap - len;
        // The second is read to where it goes if that is aligned, else by way of a buffer, because what puts a string may
        // store words.
        let source = match self.text(second) {
            Text::Mem(mem) => self.b.addr(mem.base, mem.off),
            Text::Const(bytes) => self.constant_text(bytes),
        };
        let cap = match self.val(second) {
            Val::Str { cap } => cap.clamp(1, rest),
            _ => rest,
        };
        if let Some(all) = pad {
            self.clear(to.base, to.off, all.next_multiple_of(8));
        }
        self.put_const(to, first, false);
        self.copy_str(to.base, to.off + len as i32, cap, source);
    }

    /// The address of a constant.
    pub(super) fn constant_text(&mut self, bytes: &[u8]) -> V {
        let mut all = bytes.to_vec();
        all.push(0);
        let at = self.plan.constant(&all);
        self.b.map_value(self.plan.rodata_map, at)
    }

    /// `strjoin` into memory of its own.
    fn join(&mut self, a: ExprId, b: ExprId, cap: u32) -> Mem {
        let cap = cap.max(1);
        if let Text::Const(first) = self.known_text(a) {
            let to = Mem { cap, ..self.buffer(cap.next_multiple_of(8)) };
            // What is joined may be shorter than what it is compared with: see `text`.
            let pad = matches!(to.base, Base::Frame(_)).then_some(cap);
            self.join_const(to, first, b, pad);
            return to;
        }
        // Where the second goes is known only at run time; room for all of it after the longest first keeps that provable.
        let first = self.text(a);
        let second = match self.text(b) {
            Text::Mem(mem) => (self.b.addr(mem.base, mem.off), mem.cap.min(cap)),
            Text::Const(bytes) => (self.constant_text(bytes), (bytes.len() as u32 + 1).min(cap)),
        };
        let (base, off) = self.scratch_piece(2 * cap.next_multiple_of(8));
        let from = match first {
            Text::Mem(mem) => (self.b.addr(mem.base, mem.off), mem.cap.min(cap)),
            Text::Const(bytes) => (self.constant_text(bytes), (bytes.len() as u32 + 1).min(cap)),
        };
        let with_nul = self.copy_str(base, off, from.1, from.0);
        let len = self.b.alu(AluOp::Add, with_nul, Rhs::Imm(-1));
        let len = self.b.min(len, cap - 1);
        let start = self.b.addr(base, off);
        let end = self.b.add_ptr(start, Rhs::Reg(len));
        self.copy_str(Base::Reg(end), 0, second.1, second.0);
        self.b.store(Size::B, base, off + cap as i32 - 1, Rhs::Imm(0));
        Mem { base, off, cap, padded: false }
    }

    // Comparing.

    /// Goes to `then` if the comparison holds, else to `other`.
    pub(super) fn compare_strings(&mut self, op: StrOp, a: ExprId, b: ExprId, then: B, other: B) {
        let equality = matches!(op, StrOp::Eq | StrOp::Ne);
        let (x, y) = (self.text_or_none(a), self.text_or_none(b));
        let (same, differ) = if op == StrOp::Ne { (other, then) } else { (then, other) };
        match (x, y) {
            (Text::Const(x), Text::Const(y)) => {
                let holds = crate::fold::compare(op, x, y);
                self.b.jump(if holds { then } else { other });
            }
            (Text::Mem(mem), Text::Const(bytes)) | (Text::Const(bytes), Text::Mem(mem)) if equality => {
                self.equals_const(mem, bytes, same, differ);
            }
            (x, y) => {
                let (x, y) = (self.padded_text(x), self.padded_text(y));
                self.compare_words(op, x, y, then, other);
            }
        }
    }

    /// Compares up to the constant's NUL, in as few loads as the readable bytes allow.
    fn equals_const(&mut self, mem: Mem, bytes: &[u8], same: B, differ: B) {
        if bytes.len() as u32 >= mem.cap {
            // A string of the full capacity without a NUL cannot be: strings end within their capacity.
            return self.b.jump(differ);
        }
        let mut all = bytes.to_vec();
        all.push(0);
        if mem.padded {
            let wide = all.len().next_multiple_of(8);
            if wide <= mem.cap as usize {
                all.resize(wide, 0);
            }
        }
        let list: Vec<(u32, Size)> = parts(all.len() as u32, 8).collect();
        for (i, &(at, size)) in list.iter().enumerate() {
            let v = self.b.load(size, mem.base, mem.off + at as i32);
            let value = word(&all[at as usize..][..size.bytes()]);
            let next = if i + 1 == list.len() { same } else { self.b.block() };
            match size {
                Size::W => self.b.branch(Cond::Eq, Width::W32, v, Rhs::Imm(value as i32), next, differ),
                _ => {
                    let value = self.b.rhs(value);
                    self.b.branch(Cond::Eq, Width::W64, v, value, next, differ);
                }
            }
            if next != same {
                self.b.start(next);
            }
        }
    }

    /// The string with zeros after it, in whole words.
    fn padded_text(&mut self, t: Text<'a>) -> Text<'a> {
        let Text::Mem(mem) = t else { return t };
        if mem.padded && mem.cap % 8 == 0 {
            return t;
        }
        let room = mem.cap.next_multiple_of(8);
        let to = Mem { cap: room, padded: true, ..self.buffer(room) };
        self.clear(to.base, to.off, room);
        let from = self.b.addr(mem.base, mem.off);
        self.copy_str(to.base, to.off, mem.cap, from);
        Text::Mem(to)
    }

    /// Compares word by word. Strings of different capacity cannot be equal beyond the shorter one, because its NUL is in it.
    fn compare_words(&mut self, op: StrOp, x: Text<'a>, y: Text<'a>, then: B, other: B) {
        let words = |t: &Text<'_>| match t {
            Text::Const(bytes) => bytes.len() as u32 / 8 + 1,
            Text::Mem(mem) => mem.cap / 8,
        };
        let count = words(&x).min(words(&y));
        let equality = matches!(op, StrOp::Eq | StrOp::Ne);
        let holds_when_equal = matches!(op, StrOp::Eq | StrOp::Le | StrOp::Ge);
        let same = if holds_when_equal { then } else { other };
        let differ = match op {
            StrOp::Eq => other,
            StrOp::Ne => then,
            _ => self.b.block(),
        };
        let (left, right) = (self.b.name(), self.b.name());
        for i in 0..count {
            let last = i + 1 == count;
            let next = if last { same } else { self.b.block() };
            let a = self.word_of(x, i);
            let b = self.word_of(y, i);
            self.b.set(left, a);
            self.b.set(right, b);
            self.b.branch(Cond::Eq, Width::W64, a, Rhs::Reg(b), next, differ);
            if !last {
                self.b.start(next);
            }
        }
        if equality {
            return;
        }
        self.b.start(differ);
        let (a, b) = (self.get_word(left), self.get_word(right));
        self.b.branch(Self::order(op), Width::W64, a, Rhs::Reg(b), then, other);
    }

    fn get_word(&mut self, name: Name) -> V {
        let v = self.b.get(name);
        self.b.swapped(v)
    }

    fn word_of(&mut self, t: Text<'a>, i: u32) -> V {
        match t {
            Text::Const(bytes) => self.b.imm(word(&bytes[(i as usize * 8).min(bytes.len())..])),
            Text::Mem(mem) => self.b.load(Size::DW, mem.base, mem.off + i as i32 * 8),
        }
    }
}

fn sets_temp(body: &[probity_ir::Stmt], temp: TempId) -> bool {
    body.iter().any(|s| match s {
        probity_ir::Stmt::SetTemp(t, _) => *t == temp,
        probity_ir::Stmt::If { then, otherwise, .. } => sets_temp(then, temp) || sets_temp(otherwise, temp),
        _ => false,
    })
}
