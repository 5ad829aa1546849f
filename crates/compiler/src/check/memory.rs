//! The subroutines that take, fill and give away memory: `alloca`, `bcopy`, `copyinto`, `copyout`, `copyoutstr`.

use super::conv::Class;
use super::tree::*;
use super::{Checker, Res};
use probity_ir::{Space, TypeId};
use probity_syntax::{Diagnostic, Span, tags};

impl Checker<'_> {
    /// A size for scratch memory: a constant that cannot fit is refused.
    pub(super) fn scratch_size(&mut self, func: &str, len: &TExpr) -> Res<()> {
        let Some(n) = self.constant(len) else { return Ok(()) };
        if (0..=self.options.scratchsize as i64).contains(&n) {
            return Ok(());
        }
        let message = format!("{func}() of {n} bytes: scratch memory has {} bytes", self.options.scratchsize);
        let d = Diagnostic::error(tags::D_ALLOCA_SIZE, len.span, message);
        self.report(d.help("set the option `scratchsize` to a higher value"))
    }

    /// `alloca(n)`
    pub(super) fn alloca(&mut self, args: Vec<TExpr>, span: Span) -> Res<TExpr> {
        let [len] = &args[..] else { return Err(super::Reported) };
        let len = self.number("alloca", 0, len.clone(), "size_t")?;
        self.scratch_size("alloca", &len)?;
        let void = self.basic.void;
        let ty = self.types.pointer(void, Space::Scratch);
        Ok(TExpr { kind: TKind::Memory(MemoryCall::Alloca, vec![len]), ty, span })
    }

    /// `bcopy(from, to, n)`
    pub(super) fn bcopy(&mut self, args: Vec<TExpr>, span: Span) -> Res<TExpr> {
        let [from, to, len] = self.three(args)?;
        let (from, space) = self.source("bcopy", from, span)?;
        let to = self.scratch_pointer("bcopy", 1, to)?;
        let len = self.number("bcopy", 2, len, "size_t")?;
        self.memory_call(MemoryCall::Copy(space), [from, to, len], span)
    }

    /// `copyinto(from, n, to)`
    pub(super) fn copyinto(&mut self, args: Vec<TExpr>, span: Span) -> Res<TExpr> {
        let [from, len, to] = self.three(args)?;
        let from = self.number("copyinto", 0, from, "uintptr_t")?;
        let len = self.number("copyinto", 1, len, "size_t")?;
        let to = self.scratch_pointer("copyinto", 2, to)?;
        self.memory_call(MemoryCall::CopyInto(self.process_memory()), [from, len, to], span)
    }

    /// `copyout(from, to, n)`, `copyoutstr(s, to, n)`
    pub(super) fn copyout(&mut self, name: &'static str, args: Vec<TExpr>, span: Span) -> Res<TExpr> {
        let [from, to, len] = self.three(args)?;
        let text = name == "copyoutstr";
        let (from, space) = if text {
            let (ty, at) = (from.ty, from.span);
            match self.class(ty) {
                Class::Pointer(to, space) if self.class(to) == Class::Void => (self.read_str(from, space, at), space),
                _ => match self.as_string(from)? {
                    Some(from) => (from, Space::Kernel),
                    None => return self.bad_arg(name, 0, "a string", ty, at),
                },
            }
        } else {
            self.source(name, from, span)?
        };
        let to = self.number(name, 1, to, "uintptr_t")?;
        let len = self.number(name, 2, len, "size_t")?;
        self.destructive(name, span)?;
        self.memory_call(MemoryCall::CopyOut(space, text), [from, to, len], span)
    }

    /// What the functions read that copy from a process. In a clause that the tracer runs itself there is none: they fault.
    pub(super) fn process_memory(&self) -> Space {
        if self.runs_in_tracer() { Space::Absent } else { Space::User }
    }

    fn memory_call(&mut self, call: MemoryCall, args: [TExpr; 3], span: Span) -> Res<TExpr> {
        Ok(TExpr { kind: TKind::Memory(call, args.to_vec()), ty: self.basic.void, span })
    }

    fn three(&self, args: Vec<TExpr>) -> Res<[TExpr; 3]> {
        args.try_into().map_err(|_| super::Reported)
    }

    /// An integer or an address.
    fn number(&mut self, func: &str, i: usize, e: TExpr, wanted: &str) -> Res<TExpr> {
        let (ty, at) = (e.ty, e.span);
        let value = if self.class(ty) == Class::String { None } else { self.scalar(e) };
        match value {
            Some(e) if wanted == "size_t" => {
                let size = self.basic.long;
                Ok(self.convert(e, size))
            }
            Some(e) => Ok(e),
            None => self.bad_arg(func, i, wanted, ty, at),
        }
    }

    /// What bytes are copied from: an address, or a string.
    fn source(&mut self, func: &str, e: TExpr, span: Span) -> Res<(TExpr, Space)> {
        let (ty, at) = (e.ty, e.span);
        if self.class(ty) == Class::String {
            return Ok((e, Space::Kernel));
        }
        let e = self.decay(e);
        match self.class(e.ty) {
            Class::Pointer(_, space) => {
                self.needs_process(space, span)?;
                Ok((e, space))
            }
            _ => self.bad_arg(func, 0, "a pointer", ty, at),
        }
    }

    /// Where bytes are copied to: only what `alloca` or `copyin` gave.
    fn scratch_pointer(&mut self, func: &str, i: usize, e: TExpr) -> Res<TExpr> {
        let e = self.decay(e);
        let (ty, at) = (e.ty, e.span);
        match self.class(ty) {
            Class::Pointer(_, Space::Scratch) => Ok(e),
            Class::Pointer(..) => {
                let message = format!("argument {} of {func}() must point to memory from alloca()", i + 1);
                let d = Diagnostic::error(tags::D_PROTO_ARG, at, message);
                let d = d.fact("prototype", "alloca pointer").fact("argument", "non-alloca pointer");
                self.report(d.help("copy to memory that alloca() gives, and assign from there"))
            }
            _ => self.bad_pointer(func, i, ty, at),
        }
    }

    fn bad_pointer<T>(&mut self, func: &str, i: usize, ty: TypeId, at: Span) -> Res<T> {
        self.bad_arg(func, i, "a pointer to memory from alloca()", ty, at)
    }
}
