//! Translators: their declarations, `xlate`, and what stands for translated data until a member of it is asked for.
//!
//! Nothing is ever copied: `xlate<T>(e)` is [`TKind::Xlated`], and a member of it is the translator's expression for that member
//! with the input's name bound to `e`. Translated pointers can be kept in variables, because a variable that is assigned one keeps
//! what is translated, and the checker remembers by which translator.
//!
//! A member that a translator defines several times has the first definition that is right. So a library can serve kernels whose
//! structs differ.

use super::conv::Class;
use super::tree::*;
use super::{Checker, Res};
use probity_ir::{Space, TypeId};
use probity_syntax::ast::{self, Expr};
use probity_syntax::{Diagnostic, Span, near, tags};

/// How deep translators and inlines may use each other.
pub(super) const DEPTH: u32 = 64;

/// A translator that is declared.
pub(super) struct Translator<'a> {
    ast: &'a ast::Translator,
    output: TypeId,
    /// `None` where nobody has asked yet: the kernel's types cost time.
    input: Option<TypeId>,
    /// Of a library: its members are checked when they are used.
    library: bool,
}

impl<'a> Checker<'a> {
    /// `translator T < S v > { … };`
    pub(super) fn translator(&mut self, t: &'a ast::Translator, library: bool) -> Res<()> {
        let before = self.diags.len();
        let result = self.declare_translator(t, library);
        // DTrace has read all of it when it looks at its types.
        let end = Span { lo: t.span.hi.saturating_sub(1), ..t.span };
        for d in &mut self.diags[before..] {
            if matches!(d.tag, tags::D_XLATE_SOU | tags::D_XLATE_REDECL | tags::D_XLATE_INCOMPAT | tags::D_XLATE_MEMB) {
                d.dtrace_at = Some(end);
            }
        }
        result
    }

    fn declare_translator(&mut self, t: &'a ast::Translator, library: bool) -> Res<()> {
        let output = self.type_name(&t.output)?;
        match self.class_complete(output) {
            Class::Struct => {}
            Class::Forward => {
                let message =
                    format!("the definition of `{}` is not known: nothing can be translated to it", self.name(output));
                return self.err(tags::D_XLATE_SOU, t.output.span, message);
            }
            _ => {
                let message = format!("a translator makes a struct or union, not `{}`", self.name(output));
                return self.err(tags::D_XLATE_SOU, t.output.span, message);
            }
        }
        if library {
            self.translators.push(Translator { ast: t, output, input: None, library });
            return Ok(());
        }
        let input = self.type_name(&t.input)?;
        let known: Vec<&'a ast::Translator> =
            self.translators.iter().filter(|k| self.same_type(k.output, output)).map(|k| k.ast).collect();
        let known = known.into_iter().find(|k| {
            // The types of a library's that cannot be used here are no mistake.
            let before = self.diags.len();
            let same = self.type_name(&k.input).is_ok_and(|of| self.same_type(of, input));
            self.diags.truncate(before);
            same
        });
        if let Some(known) = known {
            let at = known.span;
            let message =
                format!("there is a translator from `{}` to `{}` already", self.name(input), self.name(output));
            let d = Diagnostic::error(tags::D_XLATE_REDECL, t.span, message);
            return self.report(d.note(at, "it was declared here"));
        }
        // What it says of a probe's arguments shows where it is used.
        let outside = std::mem::replace(&mut self.cx, super::Cx { in_clause: true, ..super::Cx::default() });
        let source = self.unknown(input, t.input.span);
        self.frames.push(vec![(t.input_name.text.clone(), source)]);
        let mut result = Ok(());
        for m in &t.members {
            result = result.and(self.translator_member(t, output, m).map(drop));
        }
        self.frames.pop();
        self.cx = outside;
        self.translators.push(Translator { ast: t, output, input: Some(input), library });
        result
    }

    /// Something of a type of which no more is known.
    pub(super) fn unknown(&mut self, ty: TypeId, span: Span) -> TExpr {
        match self.class_complete(ty) {
            Class::Struct | Class::Array(..) => {
                let pointer = self.types.pointer(ty, Space::Kernel);
                let addr = TExpr { kind: TKind::Held(u32::MAX), ty: pointer, span };
                TExpr { kind: TKind::Object(Box::new(addr), Space::Kernel, None), ty, span }
            }
            _ => TExpr { kind: TKind::Held(u32::MAX), ty, span },
        }
    }

    /// The value that a translator gives one member; the input's name is bound.
    fn translator_member(
        &mut self,
        t: &'a ast::Translator,
        output: TypeId,
        m: &'a ast::TranslatorMember,
    ) -> Res<TExpr> {
        let Some(member) = self.find_member(output, &m.name.text) else {
            let mut names = Vec::new();
            self.member_names(output, &mut names, 0);
            let message =
                format!("`{}` has no member `{}` that could be translated to", self.name(output), m.name.text);
            let d = Diagnostic::error(tags::D_XLATE_MEMB, m.name.span, message);
            return self.report(match near(&m.name.text, names.iter().map(String::as_str)) {
                Some(near) => d.suggest(m.name.span, near, format!("use `{near}`")),
                None => d,
            });
        };
        let value = self.expr(&m.value)?;
        let from = value.ty;
        match self.fit_member(member.ty, value)? {
            Some(value) => Ok(value),
            None => {
                let message = format!(
                    "member `{}` is a `{}` and cannot be translated from a `{}`",
                    m.name.text,
                    self.name(member.ty),
                    self.name(from)
                );
                let d = Diagnostic::error(tags::D_XLATE_INCOMPAT, m.value.span, message);
                self.report(d.note(t.output.span, "in the translator to this type"))
            }
        }
    }

    /// Converts a value for a member of a translated struct. Pointers keep the memory that they point into.
    fn fit_member(&mut self, ty: TypeId, e: TExpr) -> Res<Option<TExpr>> {
        match (self.class_complete(ty), self.class_complete(e.ty)) {
            (Class::Struct, Class::Struct) | (Class::Array(..), Class::Array(..)) if self.same_type(ty, e.ty) => {
                Ok(Some(TExpr { ty, ..e }))
            }
            (Class::Array(of, _), _) if self.is_char(of) => self.as_string(e),
            (Class::Pointer(to, _), Class::Pointer(from, _)) if matches!(e.kind, TKind::Xlated { .. }) => {
                Ok(self.same_type(to, from).then_some(e))
            }
            (Class::Pointer(to, _), Class::Pointer(from, space)) if self.pointees_mix(to, from) => {
                let ty = self.types.pointer(to, space);
                Ok(Some(TExpr { ty, ..e }))
            }
            _ => self.assign_to(ty, e),
        }
    }

    /// `xlate <T> (e)`
    pub(super) fn xlate(&mut self, ty: &ast::TypeName, operand: &Expr, span: Span) -> Res<TExpr> {
        let to = self.type_name(ty)?;
        let e = self.expr(operand)?;
        self.translate(to, ty.span, e, span)
    }

    /// Translates to a struct or a pointer to one.
    pub(super) fn translate(&mut self, to: TypeId, to_span: Span, e: TExpr, span: Span) -> Res<TExpr> {
        let output = match self.class(to) {
            Class::Pointer(output, _) => output,
            _ => to,
        };
        match self.class_complete(output) {
            Class::Struct => {}
            Class::Forward => {
                let message =
                    format!("the definition of `{}` is not known: nothing can be translated to it", self.name(output));
                return self.err(tags::D_XLATE_SOU, to_span, message);
            }
            _ => {
                let message = format!("`xlate` makes a struct, a union or a pointer to one, not `{}`", self.name(to));
                return self.err(tags::D_XLATE_SOU, to_span, message);
            }
        }
        let from = e.ty;
        let e = self.decay(e);
        let Some((translator, input)) = self.translator_for(output, e.ty) else {
            let message = format!("there is no translator from `{}` to `{}`", self.name(from), self.name(output));
            let d = Diagnostic::error(tags::D_XLATE_NONE, span, message);
            let mut from = Vec::new();
            for i in 0..self.translators.len() {
                if self.same_type(self.translators[i].output, output)
                    && let Some(input) = self.input_of(i)
                {
                    from.push(format!("`{}`", self.name(input)));
                }
            }
            return self.report(match from.is_empty() {
                true => d,
                false => d.help(format!("there are translators to it from {}", from.join(", "))),
            });
        };
        let source = match (self.class(input), self.class(e.ty)) {
            (Class::Int(..), Class::Int(..)) => self.convert(e, input),
            (Class::Pointer(to, _), Class::Pointer(_, space)) if !matches!(e.kind, TKind::Xlated { .. }) => {
                let ty = self.types.pointer(to, space);
                TExpr { ty, ..e }
            }
            _ => e,
        };
        Ok(TExpr { kind: TKind::Xlated { translator: translator as u32, source: Box::new(source) }, ty: to, span })
    }

    /// The translator from one type to another and its input's type: one whose input is the same type, else for integers one
    /// that takes integers.
    fn translator_for(&mut self, output: TypeId, from: TypeId) -> Option<(usize, TypeId)> {
        let mut similar = None;
        // Those of the program come after the libraries', and go first.
        for i in (0..self.translators.len()).rev() {
            if !self.same_type(self.translators[i].output, output) {
                continue;
            }
            let Some(input) = self.input_of(i) else { continue };
            let alike = self.class(input) == self.class(from) || !matches!(self.class(input), Class::Int(..));
            if self.same_type(input, from) && alike {
                return Some((i, input));
            }
            if matches!((self.class(input), self.class(from)), (Class::Int(..), Class::Int(..))) {
                similar.get_or_insert((i, input));
            }
        }
        similar
    }

    fn input_of(&mut self, translator: usize) -> Option<TypeId> {
        let t = &self.translators[translator];
        if t.input.is_some() {
            return t.input;
        }
        // A library's translator from what this kernel has not is none.
        let (ast, before) = (t.ast, self.diags.len());
        let input = self.type_name(&ast.input).ok();
        self.diags.truncate(before);
        self.translators[translator].input = input;
        input
    }

    /// `xlate<T>(e).m`
    pub(super) fn translated_member(
        &mut self,
        translator: u32,
        source: TExpr,
        name: &ast::Name,
        span: Span,
    ) -> Res<TExpr> {
        let t = &self.translators[translator as usize];
        let (ast, output, library) = (t.ast, t.output, t.library);
        self.member(output, name)?;
        if !ast.members.iter().any(|m| m.name.text == name.text) {
            let message = format!("the translator to `{}` gives member `{}` no value", self.name(output), name.text);
            let d = Diagnostic::error(tags::D_XLATE_NOCONV, name.span, message);
            let mut given: Vec<&str> = ast.members.iter().map(|m| m.name.text.as_str()).collect();
            given.dedup();
            return self.report(match given.is_empty() {
                true => d,
                false => d.help(format!("it gives values to {}", given.join(", "))),
            });
        }
        if self.inline_depth >= DEPTH {
            return self.err(tags::D_UNKNOWN, span, "translators use each other without end");
        }
        // Evaluated once, however often the member's value names it.
        let (held, source) = self.held(source);
        self.inline_depth += 1;
        self.frames.push(vec![(ast.input_name.text.clone(), source)]);
        let before = self.diags.len();
        let mut value = Err(super::Reported);
        for m in ast.members.iter().filter(|m| m.name.text == name.text) {
            value = self.translator_member(ast, output, m);
            if value.is_ok() {
                self.diags.truncate(before);
                break;
            }
        }
        self.frames.pop();
        self.inline_depth -= 1;
        if value.is_err() && library && self.diags.len() > before {
            // The library is right; this kernel is another.
            let found: Vec<Diagnostic> = self.diags.drain(before..).collect();
            let message = format!(
                "member `{}` of `{}` cannot be had on this kernel: {}",
                name.text,
                self.name(output),
                found[0].message
            );
            let mut d = Diagnostic::error(found[0].tag, span, message);
            d.notes.extend(found[0].notes.iter().filter(|n| n.span.is_none()).cloned());
            return self.report(d);
        }
        Ok(self.holding(held, TExpr { span, ..value? }))
    }

    /// Something that can be named several times and is evaluated once: what has effects is held.
    pub(super) fn held(&mut self, e: TExpr) -> (Option<(u32, TExpr)>, TExpr) {
        if !e.has_effect() || matches!(e.kind, TKind::Xlated { .. }) {
            return (None, e);
        }
        self.held += 1;
        let (slot, ty, span) = (self.held, e.ty, e.span);
        match e.kind {
            TKind::Object(addr, space, bits) if !matches!(self.class(ty), Class::Int(..) | Class::Pointer(..)) => {
                let held = TExpr { kind: TKind::Held(slot), ty: addr.ty, span };
                (Some((slot, *addr)), TExpr { kind: TKind::Object(Box::new(held), space, bits), ty, span })
            }
            kind => (Some((slot, TExpr { kind, ty, span })), TExpr { kind: TKind::Held(slot), ty, span }),
        }
    }

    /// The value of `body`, in which what is held is named.
    pub(super) fn holding(&mut self, held: Option<(u32, TExpr)>, body: TExpr) -> TExpr {
        let Some((slot, value)) = held else { return body };
        let (ty, span) = (body.ty, body.span);
        match body.kind {
            // It goes into what is read, so that the type of the whole stays an object or translated data.
            TKind::Object(addr, space, bits) => {
                let (at, at_span) = (addr.ty, addr.span);
                let addr = TExpr { kind: TKind::Hold(slot, Box::new(value), addr), ty: at, span: at_span };
                TExpr { kind: TKind::Object(Box::new(addr), space, bits), ty, span }
            }
            TKind::Xlated { translator, source } => {
                let source = self.holding(Some((slot, value)), *source);
                TExpr { kind: TKind::Xlated { translator, source: Box::new(source) }, ty, span }
            }
            kind => {
                let body = Box::new(TExpr { kind, ty, span });
                TExpr { kind: TKind::Hold(slot, Box::new(value), body), ty, span }
            }
        }
    }

    /// `p = xlate<T *>(e)`: the variable keeps what is translated.
    pub(super) fn assign_translated(&mut self, target: TExpr, translator: u32, value: TExpr, span: Span) -> Res<TExpr> {
        let to = value.ty;
        if matches!(target.kind, TKind::Object(..)) && self.class(to) == Class::Struct && self.same_type(target.ty, to)
        {
            return self.assign_members(target, translator, value, span);
        }
        let TKind::Xlated { source, .. } = value.kind else { return Err(super::Reported) };
        let place = match &target.kind {
            TKind::Var(v) => Some(Place::Var(v.0)),
            TKind::Elem(a, _) => Some(Place::Array(a.0)),
            _ => None,
        };
        let Some(place) = place.filter(|_| matches!(self.class(to), Class::Pointer(..))) else {
            let message = format!("translated data of type `{}` cannot be assigned as a whole here", self.name(to));
            let d = Diagnostic::error(tags::D_OP_INCOMPAT, value.span, message);
            return self.report(d.help("assign its members one by one, or keep a translated pointer: `xlate<T *>(…)`"));
        };
        let declared = match (self.class(target.ty), self.class(to)) {
            (Class::Pointer(a, _), Class::Pointer(b, _)) => self.same_type(a, b),
            _ => false,
        };
        if let TKind::Var(v) = target.kind
            && declared
            && self.flexible.remove(&v.0)
        {
            self.vars[v.0 as usize].ty = source.ty;
            self.translated.insert(place, (translator, to));
        } else if !self.translated.contains_key(&place) && self.fresh == Some(place) {
            self.translated.insert(place, (translator, to));
        }
        match self.translated.get(&place) {
            Some((known, _)) if *known == translator => {}
            _ => {
                let message =
                    "this variable holds something else elsewhere: it cannot hold translated data of this kind too";
                let d = Diagnostic::error(tags::D_OP_INCOMPAT, value.span, message);
                return self.report(d.help("use another variable, or keep the members that are needed"));
            }
        }
        let ty = match place {
            Place::Var(v) => self.vars[v as usize].ty,
            Place::Array(a) => self.arrays[a as usize].ty,
        };
        let from = source.ty;
        let Some(kept) = self.assign_to(ty, *source)? else { return self.incompatible(span, ty, "=", from) };
        let target = TExpr { ty, ..target };
        let kind = TKind::Assign { target: Box::new(target), value: Box::new(kept), add: None };
        let source = Box::new(TExpr { kind, ty, span });
        Ok(TExpr { kind: TKind::Xlated { translator, source }, ty: to, span })
    }

    /// `s = xlate<T>(e)`: the members that the translator gives values to, the rest is zero. All values are known before the first
    /// is assigned, because what is translated may be the struct itself.
    fn assign_members(&mut self, target: TExpr, translator: u32, value: TExpr, span: Span) -> Res<TExpr> {
        let TKind::Xlated { source, .. } = value.kind else { return Err(super::Reported) };
        let (ty, at) = (target.ty, value.span);
        let (held, source) = self.held(*source);
        let mut holds: Vec<(u32, TExpr)> = held.into_iter().collect();
        let ast = self.translators[translator as usize].ast;
        let assign = |target: TExpr, value: TExpr| {
            let ty = target.ty;
            TExpr { kind: TKind::Assign { target: Box::new(target), value: Box::new(value), add: None }, ty, span }
        };
        let int = self.basic.int;
        let mut steps = vec![assign(target.clone(), TExpr::int(0, int, span))];
        for (i, m) in ast.members.iter().enumerate() {
            if ast.members[..i].iter().any(|before| before.name.text == m.name.text) {
                continue;
            }
            let name = ast::Name { text: m.name.text.clone(), span: at };
            let member = self.access(target.clone(), false, &name, span)?;
            let value = self.translated_member(translator, source.clone(), &name, at)?;
            if !matches!(member.kind, TKind::Object(..)) {
                let what = format!(
                    "member `{}` is a `{}`: structs with such members in variables are",
                    name.text,
                    self.name(member.ty)
                );
                return self.unsupported(at, &what);
            }
            if let TKind::Xlated { translator, .. } = value.kind {
                steps.push(self.assign_translated(member, translator, value, span)?);
                continue;
            }
            let from = value.ty;
            let Some(value) = self.assign_to(member.ty, value)? else {
                return self.incompatible(span, member.ty, "=", from);
            };
            let value = match self.class(value.ty) {
                // Structs are copied; that one overlaps the other is past helping.
                Class::Struct | Class::Array(..) => value,
                _ if matches!(value.kind, TKind::Int(_) | TKind::Str(_)) => value,
                _ => {
                    self.held += 1;
                    let (slot, ty, span) = (self.held, value.ty, value.span);
                    holds.push((slot, value));
                    TExpr { kind: TKind::Held(slot), ty, span }
                }
            };
            steps.push(assign(member, value));
        }
        let mut body = target;
        for step in steps.into_iter().rev() {
            body = TExpr { kind: TKind::Comma(Box::new(step), Box::new(body)), ty, span };
        }
        for (slot, value) in holds.into_iter().rev() {
            body = TExpr { kind: TKind::Hold(slot, Box::new(value), Box::new(body)), ty, span };
        }
        Ok(body)
    }

    /// A variable that keeps what is translated stands for the translated data.
    pub(super) fn as_translated(&self, e: TExpr) -> TExpr {
        let place = match &e.kind {
            TKind::Var(v) => Place::Var(v.0),
            TKind::Elem(a, _) => Place::Array(a.0),
            _ => return e,
        };
        match self.translated.get(&place) {
            Some(&(translator, to)) => {
                let span = e.span;
                TExpr { kind: TKind::Xlated { translator, source: Box::new(e) }, ty: to, span }
            }
            None => e,
        }
    }

    /// The address of what a translated pointer translates, where it has one.
    pub(super) fn translated_address(&self, e: TExpr) -> TExpr {
        let pointer = |ty| matches!(self.class(ty), Class::Pointer(..));
        match e.kind {
            TKind::Xlated { source, .. } if pointer(e.ty) && pointer(source.ty) => *source,
            kind => TExpr { kind, ..e },
        }
    }

    /// Reports translated data where a value is wanted: only its members have values. An expression that stands alone may be one.
    pub(super) fn no_translated_values(&mut self, stmts: &mut [TStmt]) {
        for stmt in stmts {
            match &mut stmt.kind {
                TStmtKind::Expr(e) => {
                    while let TKind::Xlated { source, .. } = &mut e.kind {
                        *e = (**source).clone();
                    }
                    self.no_translated_value(e);
                }
                TStmtKind::If(c, a, b) => {
                    self.no_translated_value(c);
                    self.no_translated_values(a);
                    self.no_translated_values(b);
                }
                _ => crate::lower::exprs_of(stmt).into_iter().for_each(|e| self.no_translated_value(e)),
            }
        }
    }

    pub(super) fn no_translated_value(&mut self, e: &TExpr) {
        let mut found = None;
        e.any(&mut |e| {
            if matches!(e.kind, TKind::Xlated { .. }) {
                found.get_or_insert((e.ty, e.span));
            }
            found.is_some()
        });
        if let Some((ty, span)) = found {
            let message =
                format!("translated data (`{}`) has no value of its own, only its members have", self.name(ty));
            let d = Diagnostic::error(tags::D_CG_DYN, span, message);
            let _: Res<()> = self.report(d.help("name the member that is wanted: `…->member`"));
        }
    }
}

/// What can keep translated data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Place {
    Var(u32),
    Array(u32),
}
