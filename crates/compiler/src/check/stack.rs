//! Stacks, names of addresses, and registers: `stack()`, `ustack()`, `jstack()`, the `sym()` family, `uregs[]`.
//!
//! A stack is a value of the type `dt_stack_t`, a struct of whole size: it can be shown, be a member of a key, be kept in variables,
//! and its members can be read. The `sym()` family says how an address is shown; elsewhere `sym(a)` is `a`.

use super::conv::Class;
use super::names::Func;
use super::tree::*;
use super::{Checker, Res};
use probity_ir::{IntKind, Location, Member, Symbol, TypeId, TypeKind, TypeTable, stack};
use probity_syntax::ast::{self, Expr};
use probity_syntax::{Diagnostic, Span, tags};

/// The tag of the struct behind `dt_stack_t`.
const TAG: &str = "dt_stack";

/// Whether a type is that of stacks.
pub(crate) fn is_stack(types: &TypeTable, ty: TypeId) -> bool {
    matches!(types.get(types.resolve(ty)), TypeKind::Struct { union: false, name, members, .. }
        if name == TAG && members.first().is_some_and(|m| m.name == "is_user"))
}

/// Registers that `uregs[]` has beyond `struct pt_regs`: members of `curthread->thread`, from index 21 on, as regs.d numbers them.
#[cfg(target_arch = "x86_64")]
const BEYOND: &[&str] = &["ds", "es", "fsbase", "gsbase", "trap_nr"];
#[cfg(not(target_arch = "x86_64"))]
const BEYOND: &[&str] = &[];
/// Words of `struct pt_regs` that `uregs[]` has.
const REGISTERS: i64 = if cfg!(target_arch = "x86_64") { 21 } else { 34 };

/// Names of the indexes of `uregs[]`.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
pub(super) const REGISTER_NAMES: &[(&str, i64)] = &[
    ("R_R15", 0), ("R_R14", 1), ("R_R13", 2), ("R_R12", 3), ("R_RBP", 4), ("R_RBX", 5), ("R_R11", 6), ("R_R10", 7),
    ("R_R9", 8), ("R_R8", 9), ("R_RAX", 10), ("R_RCX", 11), ("R_RDX", 12), ("R_RSI", 13), ("R_RDI", 14), ("R_ERR", 15),
    ("R_RIP", 16), ("R_CS", 17), ("R_RFL", 18), ("R_RSP", 19), ("R_SS", 20), ("R_DS", 21), ("R_ES", 22), ("R_FS", 23),
    ("R_GS", 24), ("R_TRAPNO", 25),
    ("R_EBX", 5), ("R_ECX", 11), ("R_EDX", 12), ("R_ESI", 13), ("R_EDI", 14), ("R_EBP", 4), ("R_EAX", 10), ("R_EIP", 16),
    ("R_EFL", 18), ("R_ESP", 19), ("R_PC", 16), ("R_FP", 4), ("R_SP", 19), ("R_PS", 18), ("R_R0", 10), ("R_R1", 5),
];
/// Names of the indexes of `uregs[]`.
#[cfg(not(target_arch = "x86_64"))]
#[rustfmt::skip]
pub(super) const REGISTER_NAMES: &[(&str, i64)] = &[
    ("R_X0", 0), ("R_X1", 1), ("R_X2", 2), ("R_X3", 3), ("R_X4", 4), ("R_X5", 5), ("R_X6", 6), ("R_X7", 7), ("R_X8", 8),
    ("R_X9", 9), ("R_X10", 10), ("R_X11", 11), ("R_X12", 12), ("R_X13", 13), ("R_X14", 14), ("R_X15", 15), ("R_X16", 16),
    ("R_X17", 17), ("R_X18", 18), ("R_X19", 19), ("R_X20", 20), ("R_X21", 21), ("R_X22", 22), ("R_X23", 23), ("R_X24", 24),
    ("R_X25", 25), ("R_X26", 26), ("R_X27", 27), ("R_X28", 28), ("R_X29", 29), ("R_X30", 30), ("R_SP", 31), ("R_PC", 32),
    ("R_PSTATE", 33), ("R_FP", 29),
];

impl Checker<'_> {
    /// A call of the stack functions.
    pub(super) fn stack_call(&mut self, func: &Func, args: &[Expr], span: Span) -> Res<TExpr> {
        let user = func.name != "stack";
        let tag = if user { tags::D_USTACK_FRAMES } else { tags::D_STACK_SIZE };
        let limit = self.max_frames();
        let mut numbers = Vec::new();
        for (i, e) in args.iter().enumerate() {
            let value = self.expr(e)?;
            if !self.is_int(&value) {
                return self.bad_arg(func.name, i, "an integer constant", value.ty, value.span);
            }
            let (least, tag) = if i == 0 { (1, tag) } else { (0, tags::D_USTACK_STRSIZE) };
            match self.constant(&value) {
                Some(n) if n >= least && n <= i64::from(i32::MAX) => numbers.push(n as u32),
                _ => {
                    let what = if i == 0 { "number of frames" } else { "size of the string table" };
                    let message = format!(
                        "argument {} of {}(), the {what}, must be a constant of at least {least}",
                        i + 1,
                        func.name
                    );
                    return self.err(tag, e.span, message);
                }
            }
        }
        let usual = if user { self.options.ustackframes } else { self.options.stackframes };
        let usual = match func.name {
            "jstack" => self.options.jstackframes.unwrap_or(usual),
            _ => usual,
        };
        let frames = numbers.first().copied().unwrap_or(u32::try_from(usual).unwrap_or(u32::MAX)).clamp(1, limit);
        let strsize = if func.name == "jstack" { self.options.jstackstrsize as u32 } else { 0 };
        let strsize = numbers.get(1).copied().unwrap_or(strsize);
        let ty = self.stack_type(frames);
        Ok(TExpr { kind: TKind::Stack { user, frames, strsize }, ty, span })
    }

    /// The most frames that a stack can have: the option `maxframes`, within the kernel's own limit.
    pub(super) fn max_frames(&self) -> u32 {
        let kernel = self.env.max_stack();
        self.options.maxframes.map_or(kernel, |n| u32::try_from(n).unwrap_or(u32::MAX).clamp(1, kernel))
    }

    /// Says that an option asks for more frames than the kernel can walk.
    pub(super) fn frame_options(&mut self) {
        let (o, usual) = (&self.options, crate::options::Options::default());
        let set = |name, n: Option<u64>| n.map(|n| (name, n));
        let asked = [
            set("maxframes", o.maxframes),
            set("jstackframes", o.jstackframes),
            set("stackframes", Some(o.stackframes).filter(|&n| n != usual.stackframes)),
            set("ustackframes", Some(o.ustackframes).filter(|&n| n != usual.ustackframes)),
        ];
        for (name, n) in asked.into_iter().flatten() {
            let most = u64::from(self.env.max_stack());
            if n > most {
                let message = format!("the option {name} asks for {n} frames: this kernel walks at most {most}");
                let d = Diagnostic::error(tags::D_UNKNOWN, None, message);
                let _: Res<()> = self.report(d.help("raise the limit with `sysctl kernel.perf_event_max_stack=…`"));
            }
        }
    }

    /// `stackdepth`, `ustackdepth`
    pub(super) fn stack_depth(&mut self, user: bool, span: Span) -> TExpr {
        let frames = self.max_frames();
        let ty = self.stack_type(frames);
        let of = TExpr { kind: TKind::Stack { user, frames, strsize: 0 }, ty, span };
        let (part, ty) = (TKind::Part { of: Box::new(of), offset: stack::DEPTH }, self.named_int("uint32_t"));
        TExpr { kind: part, ty, span }
    }

    fn stack_type(&mut self, frames: u32) -> TypeId {
        let (uint, int) = (self.types.int(4, false), self.types.int(4, true));
        let word = self.types.int(8, false);
        let addrs = self.types.add(TypeKind::Array { of: word, len: frames });
        let member =
            |name: &str, ty, offset: u32| Member { name: name.into(), ty, bit_offset: offset * 8, bit_size: 0 };
        let members = vec![
            member("is_user", uint, stack::IS_USER),
            member("pid", int, stack::PID),
            member("depth", uint, stack::DEPTH),
            member("strsz", uint, stack::STRSIZE),
            member("more", uint, stack::MORE),
            member("addrs", addrs, stack::FRAMES),
        ];
        let size = stack::size(frames);
        let to = self.types.add(TypeKind::Struct { union: false, name: TAG.into(), size, members });
        self.types.add(TypeKind::Typedef { name: "dt_stack_t".into(), to })
    }

    /// A member of a stack that is no variable's: `ustack(7).depth`.
    pub(super) fn stack_member(&mut self, of: TExpr, name: &ast::Name, span: Span) -> Res<TExpr> {
        let m = self.member(of.ty, name)?;
        Ok(TExpr { kind: TKind::Part { of: Box::new(of), offset: m.bit_offset / 8 }, ty: m.ty, span })
    }

    /// An element of a member of such a stack: `ustack(7).addrs[0]`.
    pub(super) fn stack_frame(&mut self, of: TExpr, offset: u32, len: u32, key: TExpr, span: Span) -> Res<TExpr> {
        match self.constant(&key) {
            Some(n) if (0..i64::from(len)).contains(&n) => {
                let ty = self.types.int(8, false);
                Ok(TExpr { kind: TKind::Part { of: Box::new(of), offset: offset + 8 * n as u32 }, ty, span })
            }
            Some(n) => {
                let message = format!("index {n} is outside of the {len} frames that were asked for");
                self.err(tags::D_ARR_BADREF, key.span, message)
            }
            None => {
                let d = Diagnostic::error(
                    tags::D_PROTO_ARG,
                    key.span,
                    "the index of a stack's frames must be constant here",
                );
                self.report(d.help("assign the stack to a variable first, and index that"))
            }
        }
    }

    /// `sym(a)` and its kin.
    pub(super) fn symbol_call(&mut self, func: &Func, args: &[Expr], span: Span) -> Res<TExpr> {
        let what = match func.name {
            "sym" | "func" => Symbol::Kernel,
            "mod" => Symbol::KernelModule,
            "umod" => Symbol::UserModule,
            "uaddr" => Symbol::UserAddress,
            _ => Symbol::User,
        };
        let Some(arg) = args.first() else { return Err(super::Reported) };
        let value = self.expr(arg)?;
        let (ty, at) = (value.ty, value.span);
        let value = if self.class(ty) == Class::String { None } else { self.scalar(value) };
        let Some(value) = value else { return self.bad_arg(func.name, 0, "an address", ty, at) };
        let ty = self.symbol_type();
        Ok(TExpr { kind: TKind::Symbol(what, Box::new(value)), ty, span })
    }

    fn symbol_type(&mut self) -> TypeId {
        let to = self.types.add(TypeKind::Int { size: 8, signed: false, kind: IntKind::Number });
        self.types.add(TypeKind::Typedef { name: "uintptr_t".into(), to })
    }

    /// `uregs[n]`
    pub(super) fn uregs(&mut self, keys: &[Expr], span: Span) -> Res<TExpr> {
        let [key] = keys else {
            return self.err(tags::D_PROTO_LEN, span, format!("uregs[] takes one index, not {}", keys.len()));
        };
        let key = self.expr(key)?;
        let number = self.constant(&key).filter(|_| self.is_int(&key));
        let Some(n) = number else {
            let shown = self.name(key.ty);
            let d = Diagnostic::error(tags::D_PROTO_ARG, key.span, "the index of uregs[] must be an integer constant")
                .fact("prototype", "integer constant")
                .fact("argument", shown);
            return self.report(d.help("the registers have names, such as `uregs[R_PC]` and `uregs[R_SP]`"));
        };
        let ty = self.named_int("uint64_t");
        if (0..REGISTERS).contains(&n) {
            let place = Location::UserRegister { offset: n as u32 * 8 };
            return Ok(TExpr { kind: TKind::Place(place), ty, span });
        }
        let beyond = usize::try_from(n - REGISTERS).ok().and_then(|i| BEYOND.get(i));
        let Some(name) = beyond else {
            let message =
                format!("uregs[] has {} registers: the index {n} is out of bounds", REGISTERS as usize + BEYOND.len());
            return self.err(tags::D_UNKNOWN, key.span, message);
        };
        let task = self.task_struct("uregs[]", span)?;
        let member = self.find_member(task, "thread").and_then(|thread| {
            let m = self.find_member(thread.ty, name)?;
            Some((thread.bit_offset / 8 + m.bit_offset / 8, self.types.size(m.ty)?))
        });
        match member {
            Some((offset, size @ (1 | 2 | 4 | 8))) => {
                let base = Box::new(Location::CurrentTask);
                // Said to be signed where it is a whole word: it is a number, not a pointer.
                let place = Location::Btf { base, offset, size: size as u8, signed: size == 8 };
                Ok(TExpr { kind: TKind::Place(place), ty, span })
            }
            _ => self.err(tags::D_SYM_NOTYPES, span, format!("this kernel's `struct thread_struct` has no `{name}`")),
        }
    }

    /// `regs[]` and `vmregs[]`, which are nobody's.
    pub(super) fn no_registers(&mut self, name: &str, span: Span) -> Res<TExpr> {
        let message = format!("`{name}[]` does not exist on Linux");
        let d = Diagnostic::error(tags::D_VAR_UNSUP, span, message);
        self.report(d.help("the user registers of the current thread are `uregs[R_PC]`, `uregs[R_SP]`, …"))
    }
}
