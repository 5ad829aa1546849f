//! Declarations: types from specifiers and declarators, variables, type names, inlines.

use super::conv::Class;
use super::foreign::{Kind, foreign, or_help};
use super::{Checker, Entity, Res};
use probity_ir::{IntKind, Member, Scope, Space, TypeId, TypeKind};
use probity_syntax::ast::{self, Basic, Derivation, Storage, TypeSpecKind};
use probity_syntax::{Diagnostic, Span, tags};

/// No array is larger, so that offsets fit everywhere.
const LARGEST: u64 = i32::MAX as u64;

impl<'a> Checker<'a> {
    /// A declaration at the outermost level or in a clause.
    pub(super) fn declaration(&mut self, decl: &ast::Declaration, in_clause: bool) -> Res<()> {
        let base = self.specs(&decl.specs)?;
        let storage = decl.specs.storage.map(|(s, _)| s);
        let functions = storage == Some(Storage::Static)
            && decl.declarators.iter().all(|d| matches!(d.derivations.last(), Some(Derivation::Function { .. })));
        if let Some((Storage::Auto | Storage::Register | Storage::Static, span)) = decl.specs.storage
            && !functions
        {
            return self.err(tags::D_DECL_BADCLASS, span, "this storage class means nothing in D");
        }
        if in_clause && !matches!(storage, Some(Storage::This)) {
            return self.err(tags::D_DECL_LOCASSC, decl.span, "only `this` variables can be declared in a clause");
        }
        if decl.declarators.is_empty() {
            let defines = matches!(
                &decl.specs.ty.kind,
                TypeSpecKind::Aggregate(ast::AggregateSpec { tag: Some(_), .. })
                    | TypeSpecKind::Enum(ast::EnumSpec { enumerators: Some(_), .. })
            );
            if !defines {
                return self.err(tags::D_DECL_USELESS, decl.span, "this declaration declares nothing");
            }
        }
        for declarator in &decl.declarators {
            let Some(name) = &declarator.name else { continue };
            if self.external(base, storage, declarator, name)? {
                continue;
            }
            match storage {
                Some(Storage::Typedef) => self.typedef(base, declarator, name)?,
                Some(Storage::SelfVar) => self.declare(Scope::Thread, base, decl, declarator, name)?,
                Some(Storage::This) => self.declare(Scope::Clause, base, decl, declarator, name)?,
                _ => self.declare(Scope::Global, base, decl, declarator, name)?,
            }
        }
        Ok(())
    }

    fn typedef(&mut self, base: TypeId, declarator: &ast::Declarator, name: &ast::Name) -> Res<()> {
        let to = self.derive(base, &declarator.derivations, declarator.span)?;
        let ours = self.library_types.remove(&name.text);
        if let Some(&known) = self.typedefs.get(&name.text).filter(|_| !ours) {
            if !self.same_type(known, to) {
                return self.err(
                    tags::D_DECL_IDRED,
                    name.span,
                    format!("type `{}` is defined already, as another type", name.text),
                );
            }
            return Ok(());
        }
        let ty = self.types.add(TypeKind::Typedef { name: name.text.clone(), to });
        self.typedefs.insert(name.text.clone(), ty);
        Ok(())
    }

    fn declare(
        &mut self,
        scope: Scope,
        base: TypeId,
        decl: &ast::Declaration,
        declarator: &ast::Declarator,
        name: &ast::Name,
    ) -> Res<()> {
        let shown = super::expr::full_name(scope, &name.text);
        if self.sources.text(name.span).contains('`') {
            return self.err(tags::D_DECL_SCOPE, name.span, "a variable cannot be declared in another scope");
        }
        let (tuple, rest) = match declarator.derivations.split_last() {
            Some((Derivation::Tuple(params), rest)) => (Some(params), rest),
            _ => (None, &declarator.derivations[..]),
        };
        if let (Some(Derivation::Array(None)), None) = (rest.last(), tuple) {
            let message = format!("array `{shown}` needs a number of elements, or the types of a key");
            return self.err(tags::D_DECL_ARRNULL, declarator.span, message);
        }
        let ty = self.derive(base, rest, declarator.span)?;
        let key = match tuple {
            Some(params) => Some(self.key_of(params, declarator.span)?),
            None => None,
        };
        let known = match scope {
            Scope::Global => &self.globals,
            Scope::Thread => &self.threads,
            Scope::Clause => &self.locals,
        }
        .get(&name.text)
        .copied();
        // A variable may be declared again if that says the same.
        let (other, at) = match known {
            Some(Entity::Var(v)) => {
                let v = &self.vars[v as usize];
                (key.is_some() || !self.same_type(v.ty, ty), v.span)
            }
            Some(Entity::Array(a)) => {
                let a = &self.arrays[a as usize];
                let same_key = key.as_ref().is_some_and(|k| {
                    k.len() == a.key.len() && k.iter().zip(&a.key).all(|(x, y)| self.same_type(*x, *y))
                });
                (!same_key || !self.same_type(a.ty, ty), a.span)
            }
            Some(Entity::Poison) => return Ok(()),
            None => {
                if scope == Scope::Global
                    && (self.inlines.get(&name.text).is_some_and(|i| !self.of_library(i.span))
                        || self.enumerators.contains_key(&name.text)
                        || super::names::VARIABLES.contains(&name.text.as_str()))
                {
                    return self.err(tags::D_DECL_IDRED, name.span, format!("`{shown}` has a meaning already"));
                }
                match key {
                    Some(_) if scope == Scope::Clause => {
                        let message = format!("`{shown}`: clause-local variables cannot be associative arrays");
                        return self.err(tags::D_DECL_LOCASSC, name.span, message);
                    }
                    Some(key) => drop(self.add_array(scope, &name.text, key, ty, true, name.span)?),
                    None => {
                        let var = self.add_var(scope, &name.text, ty, name.span)?;
                        // Written `userland`, it is known at once whose memory it points into.
                        if matches!(self.class(ty), Class::Pointer(_, Space::Kernel)) && !decl.specs.quals.is_userland {
                            self.flexible.insert(var.0);
                        }
                    }
                }
                return Ok(());
            }
        };
        if other {
            let d = Diagnostic::error(
                tags::D_DECL_IDRED,
                name.span,
                format!("`{shown}` is declared already, with another type"),
            );
            return self.report(d.note(at, "it was declared or first assigned here"));
        }
        Ok(())
    }

    /// The types of a key.
    fn key_of(&mut self, params: &[ast::Param], span: Span) -> Res<Vec<TypeId>> {
        let mut key = Vec::new();
        for p in params {
            let base = self.specs(&p.specs)?;
            let ty = self.derive(base, &p.declarator.derivations, p.span)?;
            match self.class_complete(ty) {
                Class::Int(..) | Class::Pointer(..) | Class::String | Class::Struct | Class::Array(..) => key.push(ty),
                Class::Void => {
                    return self.err(tags::D_DECL_PROTO_TYPE, p.span, "`void` cannot be a member of a key");
                }
                _ => {
                    let message = format!("a value of type `{}` cannot be a member of a key", self.name(ty));
                    return self.err(tags::D_DECL_PROTO_TYPE, p.span, message);
                }
            }
        }
        if key.is_empty() {
            return self.err(tags::D_DECL_PROTO_VOID, span, "a key must have members");
        }
        Ok(key)
    }

    /// `(T)`, `sizeof (T)`
    pub(super) fn type_name(&mut self, ty: &ast::TypeName) -> Res<TypeId> {
        let base = self.specs(&ty.specs)?;
        self.derive(base, &ty.declarator.derivations, ty.span)
    }

    /// Applies pointers, arrays and functions to a type.
    pub(super) fn derive(&mut self, base: TypeId, derivations: &[Derivation], span: Span) -> Res<TypeId> {
        let mut ty = base;
        // Parameters have types of their own, which say nothing about this one.
        let of_program = self.of_program;
        for d in derivations {
            ty = match d {
                Derivation::Pointer(quals) => {
                    let user = quals.is_userland || of_program;
                    let space = if user { Space::User } else { Space::Kernel };
                    self.types.pointer(ty, space)
                }
                Derivation::Array(len) => {
                    if matches!(self.class(ty), Class::Void) {
                        return self.err(tags::D_DECL_VOIDATTR, span, "an array's elements cannot be `void`");
                    }
                    let len = match len {
                        Some(e) => {
                            let value = self.expr(e)?;
                            match self.constant(&value).filter(|_| self.is_int(&value)) {
                                Some(n) if n > 0 => n as u64,
                                Some(0) => 0,
                                Some(_) => {
                                    return self.err(
                                        tags::D_DECL_ARRSUB,
                                        e.span,
                                        "an array cannot have a negative size",
                                    );
                                }
                                None => {
                                    return self.err(
                                        tags::D_DECL_ARRSUB,
                                        e.span,
                                        "an array's size must be a positive integer constant",
                                    );
                                }
                            }
                        }
                        None => 0,
                    };
                    let each = self.types.size(ty).unwrap_or(1).max(1);
                    if len.checked_mul(each).is_none_or(|n| n > LARGEST) {
                        return self.err(tags::D_DECL_ARRBIG, span, "the array is too large");
                    }
                    self.types.add(TypeKind::Array { of: ty, len: len as u32 })
                }
                Derivation::Function { params, varargs, .. } => {
                    let mut list = Vec::new();
                    for p in params {
                        if let Some((_, at)) = p.specs.storage {
                            return self.err(tags::D_DECL_PARMCLASS, at, "a parameter cannot have this storage class");
                        }
                        let base = self.specs(&p.specs)?;
                        if p.declarator.derivations.iter().any(|d| matches!(d, Derivation::Tuple(_))) {
                            let message = "a parameter cannot be an associative array";
                            return self.err(tags::D_DECL_PROTO_TYPE, p.span, message);
                        }
                        if self.class(base) == Class::Void && p.declarator.derivations.is_empty() {
                            if p.declarator.name.is_some() {
                                return self.err(
                                    tags::D_DECL_PROTO_NAME,
                                    p.span,
                                    "a `void` parameter cannot have a name",
                                );
                            }
                            let message = "`void` must be the only parameter";
                            if params.len() > 1 {
                                return self.err(tags::D_DECL_PROTO_VOID, p.span, message);
                            }
                            continue;
                        }
                        list.push(self.derive(base, &p.declarator.derivations, p.span)?);
                    }
                    self.types.add(TypeKind::Func { ret: ty, params: list, varargs: *varargs })
                }
                Derivation::Tuple(_) => {
                    return self.unsupported(span, "associative arrays of this kind are");
                }
            };
        }
        self.of_program = of_program;
        // `userland` before the `*` speaks of the pointer too.
        Ok(ty)
    }

    /// The type that specifiers name.
    pub(super) fn specs(&mut self, specs: &ast::DeclSpecs) -> Res<TypeId> {
        let int = |size, signed, kind| TypeKind::Int { size, signed, kind };
        self.of_program = false;
        Ok(match &specs.ty.kind {
            TypeSpecKind::Implicit => self.basic.int,
            TypeSpecKind::Basic(basic) => {
                let kind = match basic {
                    Basic::Void => TypeKind::Void,
                    Basic::Bool => int(1, false, IntKind::Bool),
                    Basic::Char => int(1, true, IntKind::Char),
                    Basic::SChar => int(1, true, IntKind::Number),
                    Basic::UChar => int(1, false, IntKind::Number),
                    Basic::Short => int(2, true, IntKind::Number),
                    Basic::UShort => int(2, false, IntKind::Number),
                    Basic::Int => int(4, true, IntKind::Number),
                    Basic::UInt => int(4, false, IntKind::Number),
                    Basic::Long | Basic::LongLong => int(8, true, IntKind::Number),
                    Basic::ULong | Basic::ULongLong => int(8, false, IntKind::Number),
                    Basic::Float => TypeKind::Float { size: 4 },
                    Basic::Double => TypeKind::Float { size: 8 },
                    Basic::LongDouble => TypeKind::Float { size: 16 },
                    Basic::String => TypeKind::String,
                };
                let ty = self.types.add(kind);
                // `long` and `long long` are the same integers by two names.
                let name = match basic {
                    Basic::Long => "long",
                    Basic::ULong => "unsigned long",
                    Basic::LongLong => "long long",
                    Basic::ULongLong => "unsigned long long",
                    _ => return Ok(ty),
                };
                self.types.add(TypeKind::Typedef { name: name.into(), to: ty })
            }
            TypeSpecKind::Named(symbol) => self.named(symbol, specs.ty.span)?,
            TypeSpecKind::Aggregate(spec) => self.aggregate(spec, specs.ty.span)?,
            TypeSpecKind::Enum(spec) => self.enumeration(spec, specs.ty.span)?,
        })
    }

    /// A type of the traced program, where a name's scope says so.
    fn user_type(&mut self, symbol: &ast::Symbol, keyword: &str, span: Span) -> Option<Res<TypeId>> {
        if symbol.scope.is_empty() {
            return None;
        }
        let probe = self.cx.probe.map(|bound| &bound.probe.desc);
        let found = self.env.user_type(&symbol.scope, probe, keyword, &symbol.name, &mut self.types)?;
        self.of_program = true;
        Some(found.or_else(|error| {
            let shown =
                format!("{}{}{}`{}", keyword, if keyword.is_empty() { "" } else { " " }, symbol.scope, symbol.name);
            let what = format!("there is no type `{shown}`");
            self.report(crate::bind::env_error(&error, tags::D_TYPE_ERR, Some(span), &what))
        }))
    }

    fn named(&mut self, symbol: &ast::Symbol, span: Span) -> Res<TypeId> {
        if symbol.scope.is_empty() || own_scope(&symbol.scope) {
            if let Some(&ty) = self.typedefs.get(&symbol.name) {
                return Ok(ty);
            }
            if super::names::INT_TYPES.iter().any(|t| t.0 == symbol.name) {
                return Ok(self.named_int(&symbol.name));
            }
        }
        if let Some(ty) = self.user_type(symbol, "", span) {
            return ty;
        }
        let own = own_scope(&symbol.scope);
        match self.env.kernel_type(&symbol.scope, "", &symbol.name, &mut self.types) {
            Some(ty) if !own => Ok(ty),
            _ if symbol.scope.is_empty() => {
                // As in DTrace, whose grammar knows a type by its being one.
                let name = &symbol.name;
                let d = Diagnostic::error(tags::D_SYNTAX, span, format!("there is no type `{name}`"));
                let d = or_help(d, foreign(Kind::Type, name));
                let ints = super::names::INT_TYPES.iter().map(|t| t.0);
                let mut own: Vec<&str> = self.typedefs.keys().map(String::as_str).collect();
                own.sort_unstable();
                let found = probity_syntax::near(name, own.into_iter().chain(ints)).map(str::to_string);
                self.report(match found {
                    _ if d.help.is_some() => d,
                    Some(n) => d.suggest(span, n.clone(), format!("use `{n}`")),
                    None => d,
                })
            }
            _ => {
                let message = format!("there is no type `{}`{}`", symbol.scope, symbol.name);
                self.err(tags::D_TYPE_ERR, span, message)
            }
        }
    }

    /// A tag that is used without being defined: the program's, else the kernel's, else one that is still to come.
    fn tagged(&mut self, keyword: &'static str, tag: &ast::Tag) -> Res<TypeId> {
        let name = &tag.symbol.name;
        let own = own_scope(&tag.symbol.scope);
        if (tag.symbol.scope.is_empty() || own)
            && let Some(&ty) = self.tags.get(&(keyword, name.clone()))
        {
            return Ok(ty);
        }
        if let Some(ty) = self.user_type(&tag.symbol, keyword, tag.span) {
            return ty;
        }
        if !own && let Some(ty) = self.env.kernel_type(&tag.symbol.scope, keyword, name, &mut self.types) {
            return Ok(ty);
        }
        if !tag.symbol.scope.is_empty() {
            return self.err(
                tags::D_TYPE_ERR,
                tag.span,
                format!("there is no type `{keyword} {}`{name}`", tag.symbol.scope),
            );
        }
        let ty = self.types.add(TypeKind::Forward { keyword, name: name.clone(), btf: 0 });
        self.tags.insert((keyword, name.clone()), ty);
        Ok(ty)
    }

    fn aggregate(&mut self, spec: &ast::AggregateSpec, span: Span) -> Res<TypeId> {
        let keyword = if spec.is_union { "union" } else { "struct" };
        let Some(members) = &spec.members else {
            return match &spec.tag {
                Some(tag) => self.tagged(keyword, tag),
                None => self.err(tags::D_DECL_USELESS, span, format!("a `{keyword}` without a tag needs members")),
            };
        };
        let name = spec.tag.as_ref().map_or(String::new(), |t| t.symbol.name.clone());
        let forward = match &spec.tag {
            Some(tag) => {
                let forward = self.types.add(TypeKind::Forward { keyword, name: name.clone(), btf: 0 });
                match self.tags.get(&(keyword, name.clone())) {
                    Some(&ty) if ty != forward || !matches!(self.types.get(ty), TypeKind::Forward { .. }) => {
                        let message = format!("`{keyword} {name}` is defined already");
                        return self.err(tags::D_DECL_TYPERED, tag.span, message);
                    }
                    _ => {}
                }
                // Members may point to the struct itself.
                self.tags.insert((keyword, name.clone()), forward);
                Some(forward)
            }
            None => None,
        };
        let kind = self.layout(spec.is_union, name, members)?;
        match forward {
            Some(id) => {
                self.types.complete(id, kind);
                Ok(id)
            }
            None => Ok(self.types.add(kind)),
        }
    }

    /// Lays out a struct or union as the System V ABIs do.
    fn layout(&mut self, union: bool, name: String, decls: &[ast::MemberDecl]) -> Res<TypeKind> {
        let mut members: Vec<Member> = Vec::new();
        let (mut bit, mut align, mut largest) = (0u64, 1u64, 0u64);
        for decl in decls {
            let base = self.specs(&decl.specs)?;
            let anonymous = [None];
            let declarators: Vec<Option<&ast::MemberDeclarator>> = if decl.declarators.is_empty() {
                anonymous.to_vec()
            } else {
                decl.declarators.iter().map(Some).collect()
            };
            for d in declarators {
                let (ty, label, span) = match d {
                    Some(d) => {
                        let ty = self.derive(base, &d.declarator.derivations, decl.span)?;
                        let label = d.declarator.name.as_ref().map_or(String::new(), |n| n.text.clone());
                        (ty, label, d.declarator.name.as_ref().map_or(decl.span, |n| n.span))
                    }
                    None => (base, String::new(), decl.span),
                };
                if !label.is_empty() && members.iter().any(|m| m.name == label) {
                    return self.err(tags::D_UNKNOWN, span, format!("member `{label}` is declared twice"));
                }
                match self.class_complete(ty) {
                    Class::Void => return self.err(tags::D_DECL_VOIDOBJ, span, "a member cannot be `void`"),
                    Class::Func => return self.err(tags::D_DECL_VOIDOBJ, span, "a member cannot be a function"),
                    Class::Forward => {
                        let message = format!("the definition of `{}` is not known", self.name(ty));
                        return self.err(tags::D_DECL_INCOMPLETE, span, message);
                    }
                    _ => {}
                }
                // In memory a string is `strsize` characters.
                let size = match self.class(ty) {
                    Class::String => self.options.strsize,
                    _ => self.types.size(ty).unwrap_or(0),
                };
                let its_align = self.align(ty, 0);
                let width = match d.and_then(|d| d.width.as_ref()) {
                    Some(e) => Some(self.width(e, ty, size, !label.is_empty())?),
                    None => None,
                };
                if union {
                    bit = 0;
                }
                let unit = size.max(1) * 8;
                let at = match width {
                    Some(0) => {
                        bit = bit.next_multiple_of(unit);
                        continue;
                    }
                    // A bit-field does not cross a boundary of its type.
                    Some(w) if bit / unit != (bit + u64::from(w) - 1) / unit => bit.next_multiple_of(unit),
                    Some(_) => bit,
                    None => bit.next_multiple_of(its_align * 8),
                };
                let end = at + width.map_or(size * 8, u64::from);
                if end > LARGEST {
                    return self.err(tags::D_DECL_ARRBIG, span, "the type is too large");
                }
                bit = end;
                largest = largest.max(end);
                if width.is_none() || !label.is_empty() {
                    align = align.max(its_align);
                    members.push(Member { name: label, ty, bit_offset: at as u32, bit_size: width.unwrap_or(0) });
                }
            }
        }
        let size = largest.div_ceil(8).next_multiple_of(align) as u32;
        Ok(TypeKind::Struct { union, name, size, members })
    }

    fn width(&mut self, e: &ast::Expr, ty: TypeId, size: u64, named: bool) -> Res<u32> {
        let value = self.expr(e)?;
        let Some(n) = self.constant(&value).filter(|n| *n > 0 || *n == 0 && !named) else {
            return self.err(tags::D_DECL_BFCONST, e.span, "a bit-field's width must be a positive integer constant");
        };
        if !matches!(self.class(ty), Class::Int(..)) {
            let message = format!("a bit-field must be an integer, not `{}`", self.name(ty));
            return self.err(tags::D_DECL_BFTYPE, e.span, message);
        }
        if n as u64 > size * 8 {
            let message = format!("a bit-field of type `{}` has at most {} bits", self.name(ty), size * 8);
            return self.err(tags::D_DECL_BFSIZE, e.span, message);
        }
        Ok(n as u32)
    }

    fn align(&self, ty: TypeId, depth: u32) -> u64 {
        if depth > 32 {
            return 1;
        }
        match self.types.get(self.types.resolve(ty)) {
            TypeKind::Array { of, .. } => self.align(*of, depth + 1),
            TypeKind::Struct { members, .. } => members.iter().map(|m| self.align(m.ty, depth + 1)).max().unwrap_or(1),
            _ => self.types.size(ty).unwrap_or(1).clamp(1, 16),
        }
    }

    fn enumeration(&mut self, spec: &ast::EnumSpec, span: Span) -> Res<TypeId> {
        let Some(enumerators) = &spec.enumerators else {
            return match &spec.tag {
                Some(tag) => self.tagged("enum", tag),
                None => self.err(tags::D_DECL_USELESS, span, "an `enum` without a tag needs enumerators"),
            };
        };
        let name = spec.tag.as_ref().map_or(String::new(), |t| t.symbol.name.clone());
        if let Some(tag) = &spec.tag
            && self
                .tags
                .get(&("enum", name.clone()))
                .is_some_and(|t| !matches!(self.types.get(*t), TypeKind::Forward { .. }))
        {
            return self.err(tags::D_DECL_TYPERED, tag.span, format!("`enum {name}` is defined already"));
        }
        let mut values: Vec<(String, i64)> = Vec::new();
        let mut next = 0i64;
        let int = self.basic.int;
        for (i, e) in enumerators.iter().enumerate() {
            // DTrace knows an enumerator when it has read what follows: for the last one, the brace.
            let before_brace = Span { lo: e.value.as_ref().map_or(e.name.span, |v| v.span).hi, hi: span.hi, ..span };
            let last = i + 1 == enumerators.len() && !self.sources.text(before_brace).contains(',');
            let at = if last { Span { lo: span.hi.saturating_sub(1), ..span } } else { e.name.span };
            if let Some(value) = &e.value {
                let checked = self.expr(value)?;
                next = match self.constant(&checked).filter(|_| self.is_int(&checked)) {
                    Some(v) => v,
                    None => {
                        let message = format!("the value of enumerator `{}` must be an integer constant", e.name.text);
                        return self.report(Diagnostic::error(tags::D_DECL_ENCONST, value.span, message).dtrace_at(at));
                    }
                };
            }
            if i32::try_from(next).is_err() {
                let message = format!("the value of enumerator `{}` does not fit an `int`", e.name.text);
                return self.report(Diagnostic::error(tags::D_DECL_ENOFLOW, e.name.span, message).dtrace_at(at));
            }
            if self.enumerators.contains_key(&e.name.text) || self.globals.contains_key(&e.name.text) {
                return self.err(tags::D_DECL_IDRED, e.name.span, format!("`{}` is declared already", e.name.text));
            }
            self.enumerators.insert(e.name.text.clone(), (next, int));
            values.push((e.name.text.clone(), next));
            next += 1;
        }
        let signed = values.iter().any(|v| v.1 < 0);
        let ty = self.types.add(TypeKind::Enum { name: name.clone(), size: 4, signed, values });
        if spec.tag.is_some() {
            self.tags.insert(("enum", name), ty);
        }
        Ok(ty)
    }
}

/// Whether a scope names the program's own types (`` D`t ``) or C's (`` C`int32_t ``), not a module's.
fn own_scope(scope: &str) -> bool {
    matches!(scope, "C" | "D")
}
