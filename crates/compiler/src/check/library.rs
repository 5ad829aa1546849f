//! What libraries may say that programs may not: names that give way to a program's own, and functions that only they can call, for
//! what the kernel's structs do not tell.

use super::conv::Class;
use super::tree::*;
use super::{Checker, Res};
use probity_ir::{BinOp, Space, Sub, TypeId, TypeKind};
use probity_syntax::ast::{self, Expr, Item};
use probity_syntax::{Span, tags};

impl<'a> Checker<'a> {
    /// Takes over an item of a library. What it says is checked where it is used: kernels differ, and a program is to pay only for
    /// what it uses.
    pub(super) fn library_item(&mut self, item: &'a Item) {
        match item {
            Item::Declaration(decl) => {
                // Reported already, if it is wrong.
                let _ = self.declaration(decl, false);
                if matches!(decl.specs.storage, Some((ast::Storage::Typedef, _))) {
                    let names = decl.declarators.iter().filter_map(|d| d.name.as_ref());
                    self.library_types.extend(names.map(|n| n.text.clone()));
                }
            }
            Item::Inline(inline) => {
                if let Some(name) = &inline.declarator.name {
                    self.inlines.insert(name.text.clone(), inline);
                }
            }
            Item::Translator(t) => drop(self.translator(t, true)),
            Item::Provider(p) => drop(self.provider(p)),
            Item::Clause(clause) => {
                let _: Res<()> = self.err(tags::D_SYNTAX, clause.span, "a library cannot have clauses");
            }
            Item::Pragma(_) => {}
        }
    }

    /// A call that only a library can make.
    pub(super) fn library_call(&mut self, name: &ast::Name, args: &[Expr], span: Span) -> Option<Res<TExpr>> {
        if !name.text.starts_with('_') || !self.of_library(name.span) {
            return None;
        }
        match (name.text.as_str(), args) {
            ("_cpu_chip", [cpu]) => Some(self.cpu_place(cpu, |place| place.0, "chipid_t", span)),
            ("_cpu_node", [cpu]) => Some(self.cpu_place(cpu, |place| place.1, "lgrp_id_t", span)),
            ("_psargs", [start, end]) => Some(self.arguments_text(start, end, span)),
            ("_mount_path", [path, entry]) => Some(self.mount_path(path, entry, span)),
            _ => None,
        }
    }

    /// The path of a directory entry on a path's mount.
    fn mount_path(&mut self, path: &Expr, entry: &Expr, span: Span) -> Res<TExpr> {
        let (path, entry) = (self.expr(path)?, self.expr(entry)?);
        let ulong = self.basic.ulong;
        let entry = self.convert(entry, ulong);
        self.path_text(path, Some(entry), span)
    }

    /// The arguments of the process that runs, from where they are kept in its memory, with spaces between them.
    fn arguments_text(&mut self, start: &Expr, end: &Expr, span: Span) -> Res<TExpr> {
        let (start, end) = (self.expr(start)?, self.expr(end)?);
        let (ulong, string) = (self.basic.ulong, self.basic.string);
        let make = |kind, ty| TExpr { kind, ty, span };
        let room = self.options.strsize.min(self.options.scratchsize);
        let room = TExpr::int(room.min(u64::from(u16::MAX)) as i64, ulong, span);
        let len = make(TKind::Bin(BinOp::Sub, Box::new(end), Box::new(start.clone())), ulong);
        let fits = make(TKind::Bin(BinOp::LtU, Box::new(len.clone()), Box::new(room.clone())), self.basic.int);
        let most = make(TKind::Cond(Box::new(fits), Box::new(len.clone()), Box::new(room.clone())), ulong);
        let void = self.basic.void;
        let (scratch, byte) = (self.types.pointer(void, Space::Scratch), self.named_int("uint8_t"));
        let len_of = self.constant(&room).unwrap_or(0) as u32;
        let bytes = self.types.add(TypeKind::Array { of: byte, len: len_of });
        self.held += 1;
        // All of it is read, whatever there is to be copied.
        let room = make(TKind::Memory(MemoryCall::Alloca, vec![room]), scratch);
        let held = make(TKind::Held(self.held), scratch);
        let copy = make(TKind::Memory(MemoryCall::CopyInto(Space::User), vec![start, most, held.clone()]), void);
        let copied = Box::new(held);
        let copied = make(TKind::Object(copied, Space::Scratch, None), bytes);
        let words = make(TKind::Sub(Sub::Words, vec![copied, len]), string);
        let words = make(TKind::Comma(Box::new(copy), Box::new(words)), string);
        Ok(make(TKind::Hold(self.held, Box::new(room), Box::new(words)), string))
    }

    /// What is known of a CPU by its number, as comparisons: few runs of CPUs differ in it.
    fn cpu_place(&mut self, cpu: &Expr, part: fn(&(u32, u32)) -> u32, ty: &str, span: Span) -> Res<TExpr> {
        let cpu = self.expr(cpu)?;
        let ty = self.named_int(ty);
        let mut runs: Vec<(i64, i64)> = Vec::new();
        for (n, place) in self.env.cpu_places().iter().enumerate() {
            let value = i64::from(part(place));
            if runs.last().is_none_or(|run| run.1 != value) {
                runs.push((n as i64, value));
            }
        }
        if !matches!(self.class(cpu.ty), Class::Int(..)) {
            return Err(super::Reported);
        }
        let (held, cpu) = self.held(cpu);
        let value = self.of_run(&runs, &cpu, ty, span);
        Ok(self.holding(held, value))
    }

    fn of_run(&mut self, runs: &[(i64, i64)], cpu: &TExpr, ty: TypeId, span: Span) -> TExpr {
        match runs {
            [] => TExpr::int(0, ty, span),
            [(_, value)] => TExpr::int(*value, ty, span),
            _ => {
                let (low, high) = runs.split_at(runs.len() / 2);
                let first = TExpr::int(high[0].0, cpu.ty, span);
                let int = self.basic.int;
                let below = TKind::Bin(BinOp::LtS, Box::new(cpu.clone()), Box::new(first));
                let cond = Box::new(TExpr { kind: below, ty: int, span });
                let (low, high) = (self.of_run(low, cpu, ty, span), self.of_run(high, cpu, ty, span));
                TExpr { kind: TKind::Cond(cond, Box::new(low), Box::new(high)), ty, span }
            }
        }
    }
}
