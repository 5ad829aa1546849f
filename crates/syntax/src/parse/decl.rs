//! Declarations, types, and the definitions that begin with a keyword: inlines, translators, providers.

use super::expr::symbol;
use super::{Parsed, Parser};
use crate::ast::{
    AggregateSpec, Basic, DeclSpecs, Declaration, Declarator, Derivation, EnumSpec, Enumerator, Inline, MemberDecl,
    MemberDeclarator, Param, ProviderDecl, ProviderProbe, Quals, Storage, Tag, Translator, TranslatorMember, TypeName,
    TypeSpec, TypeSpecKind,
};
use crate::diag::Diagnostic;
use crate::span::Span;
use crate::tags;
use crate::token::{self, P, Tok};

/// Whether a declarator has a name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Naming {
    Required,
    Optional,
    Forbidden,
}

/// Which words besides types and qualifiers may stand among specifiers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Specifiers {
    /// Of a variable: storage classes, and the type may be missing behind one.
    Variable,
    /// Of a parameter: storage classes are read, the checker refuses them.
    Parameter,
    /// Of a member or a type's name.
    Type,
}

/// The keywords of arithmetic types, counted as they come in any order.
#[derive(Default)]
struct Words {
    base: Option<Basic>,
    signed: u32,
    unsigned: u32,
    short: u32,
    long: u32,
    span: Option<Span>,
}

impl Words {
    /// Whether a type has been named.
    fn any(&self) -> bool {
        self.base.is_some() || self.signed + self.unsigned + self.short + self.long > 0
    }

    /// The type; the error is a tag and a message.
    fn resolve(&self) -> Result<Basic, (&'static str, &'static str)> {
        let error = |tag, message| Err((tag, message));
        let base = self.base.unwrap_or(Basic::Int);
        let sign = self.signed + self.unsigned > 0;
        let size = self.short + self.long > 0;
        if self.signed > 0 && self.unsigned > 0 {
            return error(tags::D_DECL_COMBO, "a type cannot be both signed and unsigned");
        }
        if self.short > 0 && self.long > 0 || self.short > 1 || self.long > 2 {
            return error(tags::D_UNKNOWN, "`short` and `long` cannot be combined like this");
        }
        let is_unsigned = self.unsigned > 0;
        Ok(match base {
            Basic::Int if self.short > 0 => pick(is_unsigned, Basic::Short, Basic::UShort),
            Basic::Int if self.long == 1 => pick(is_unsigned, Basic::Long, Basic::ULong),
            Basic::Int if self.long == 2 => pick(is_unsigned, Basic::LongLong, Basic::ULongLong),
            Basic::Int => pick(is_unsigned, Basic::Int, Basic::UInt),
            Basic::Char if size => return error(tags::D_DECL_CHARATTR, "`char` is neither short nor long"),
            Basic::Char if self.signed > 0 => Basic::SChar,
            Basic::Char => pick(is_unsigned, Basic::Char, Basic::UChar),
            Basic::Void if sign || size => {
                return error(tags::D_DECL_VOIDATTR, "`void` is neither signed nor unsigned, short nor long");
            }
            _ if sign => return error(tags::D_DECL_SIGNINT, "only integer types are signed or unsigned"),
            Basic::Double if self.long == 1 && self.short == 0 => Basic::LongDouble,
            _ if size => return error(tags::D_DECL_LONGINT, "only arithmetic types are short or long"),
            other => other,
        })
    }
}

fn pick(is_unsigned: bool, signed: Basic, unsigned: Basic) -> Basic {
    if is_unsigned { unsigned } else { signed }
}

fn qualifier<'q>(quals: &'q mut Quals, word: &str) -> Option<&'q mut bool> {
    match word {
        "const" => Some(&mut quals.is_const),
        "volatile" => Some(&mut quals.is_volatile),
        "restrict" => Some(&mut quals.is_restrict),
        "userland" => Some(&mut quals.is_userland),
        _ => None,
    }
}

fn storage(word: &str) -> Option<Storage> {
    Some(match word {
        "auto" => Storage::Auto,
        "register" => Storage::Register,
        "static" => Storage::Static,
        "extern" => Storage::Extern,
        "typedef" => Storage::Typedef,
        "self" => Storage::SelfVar,
        "this" => Storage::This,
        _ => return None,
    })
}

fn base_type(word: &str) -> Option<Basic> {
    Some(match word {
        "void" => Basic::Void,
        "char" => Basic::Char,
        "int" => Basic::Int,
        "float" => Basic::Float,
        "double" => Basic::Double,
        "string" => Basic::String,
        "_Bool" => Basic::Bool,
        _ => return None,
    })
}

// Declarations of variables and types.
impl Parser<'_> {
    pub(super) fn declaration_item(&mut self) -> Parsed<Declaration> {
        let decl = self.declaration_head()?;
        if self.is(P::LBrace) && is_function(&decl) {
            self.skip_body();
            return Ok(decl);
        }
        self.expect(P::Semi, "after the declaration")?;
        Ok(decl)
    }

    /// Skips the body of a C function: headers have inline ones, and D has no use for them.
    fn skip_body(&mut self) {
        let outer = std::mem::replace(&mut self.lx.quiet, true);
        let open = self.braces;
        self.bump();
        while self.braces > open && self.tok().kind != Tok::Eof {
            self.bump();
        }
        self.lx.quiet = outer;
    }

    /// Inside a clause, where a `}` may end it too.
    pub(super) fn declaration(&mut self) -> Parsed<Declaration> {
        let decl = self.declaration_head()?;
        if !self.is(P::RBrace) {
            self.expect(P::Semi, "after the declaration")?;
        }
        Ok(decl)
    }

    fn declaration_head(&mut self) -> Parsed<Declaration> {
        let lo = self.tok().span;
        let specs = self.specifiers(Specifiers::Variable)?;
        let mut declarators = Vec::new();
        if !self.is(P::Semi) {
            loop {
                declarators.push(self.declarator(Naming::Required)?);
                if self.is(P::Assign) {
                    let message = "a declaration cannot give an initial value";
                    let span = self.tok().span;
                    let diag = Diagnostic::error(tags::D_SYNTAX, span, message)
                        .help("variables start as 0; assign another value in a BEGIN clause");
                    return Err(self.fail(diag));
                }
                if !self.eat(P::Comma) {
                    break;
                }
            }
        }
        let is_typedef = matches!(specs.storage, Some((Storage::Typedef, _)));
        for name in declarators.iter().filter_map(|d| d.name.as_ref()) {
            let (into, out_of) =
                if is_typedef { (&mut self.types, &mut self.idents) } else { (&mut self.idents, &mut self.types) };
            out_of.remove(&name.text);
            into.insert(name.text.clone());
        }
        let span = lo.to(self.prev);
        Ok(Declaration { specs, declarators, span })
    }

    /// A type's name, and the height of the highest expression in it.
    pub(super) fn type_name(&mut self) -> Parsed<(TypeName, u32)> {
        let outer = std::mem::replace(&mut self.type_height, 0);
        let result = self.type_name_inner();
        let height = std::mem::replace(&mut self.type_height, outer);
        result.map(|ty| (ty, height))
    }

    fn type_name_inner(&mut self) -> Parsed<TypeName> {
        let lo = self.tok().span;
        let specs = self.specifiers(Specifiers::Type)?;
        let declarator = self.declarator(Naming::Forbidden)?;
        Ok(TypeName { specs, declarator, span: lo.to(self.prev) })
    }

    /// Whether the token `n` places on begins a type.
    pub(super) fn starts_type(&mut self, n: usize) -> bool {
        match self.peek(n).kind {
            Tok::Ident(word) => {
                (token::starts_specifiers(&word) && !token::is_storage(&word))
                    || (!token::is_keyword(&word) && self.is_type(&word))
            }
            _ => false,
        }
    }

    fn specifiers(&mut self, allowed: Specifiers) -> Parsed<DeclSpecs> {
        let lo = self.tok().span;
        let mut class = None;
        let mut quals = Quals::default();
        let mut words = Words::default();
        let mut named: Option<TypeSpec> = None;
        while let Tok::Ident(word) = &self.tok().kind {
            let word = word.clone();
            let span = self.tok().span;
            if let Some(new) = storage(&word).filter(|_| allowed != Specifiers::Type) {
                if class.is_some() {
                    let message = "a declaration has one storage class";
                    return Err(self.fail(Diagnostic::error(tags::D_DECL_CLASS, span, message)));
                }
                class = Some((new, span));
                self.bump();
                continue;
            }
            if word == "inline" && matches!(class, Some((Storage::Static | Storage::Extern, _))) {
                // C's, of functions in headers.
                self.bump();
                continue;
            }
            if let Some(qual) = qualifier(&mut quals, &word) {
                *qual = true;
                self.bump();
                continue;
            }
            let basic = base_type(&word);
            let is_attr = matches!(word.as_str(), "signed" | "unsigned" | "short" | "long");
            let is_tagged = matches!(word.as_str(), "struct" | "union" | "enum");
            let has_type = named.is_some() || words.any();
            if has_type && (is_tagged || (named.is_some() && (basic.is_some() || is_attr)))
                || basic.is_some() && words.base.is_some()
            {
                let tag = match is_tagged && named.is_none() && words.base.is_none() {
                    false => tags::D_DECL_COMBO,
                    true if words.signed + words.unsigned > 0 => tags::D_DECL_SIGNINT,
                    true => tags::D_DECL_LONGINT,
                };
                let message = format!("`{word}` cannot be combined with the type in front of it");
                // A tagged type is complete for DTrace when it has read what follows the tag.
                let at = if is_tagged { self.peek(2).span } else { span };
                return Err(self.fail(Diagnostic::error(tag, span, message).dtrace_at(at)));
            }
            match word.as_str() {
                _ if basic.is_some() => words.base = basic,
                "signed" => words.signed += 1,
                "unsigned" => words.unsigned += 1,
                "short" => words.short += 1,
                "long" => words.long += 1,
                "enum" => {
                    named = Some(self.enum_spec()?);
                    continue;
                }
                _ if is_tagged => {
                    named = Some(self.aggregate_spec()?);
                    continue;
                }
                _ if has_type || token::is_keyword(&word) || !self.names_type(&word, allowed) => break,
                _ => {
                    self.bump();
                    named = Some(TypeSpec { kind: TypeSpecKind::Named(symbol(&word)), span });
                    continue;
                }
            }
            words.span = Some(words.span.map_or(span, |s| s.to(span)));
            self.bump();
        }
        let span = if self.prev.lo >= lo.lo { lo.to(self.prev) } else { Span { hi: lo.lo, ..lo } };
        let ty = match (named, words.span) {
            (Some(named), _) => named,
            (None, Some(words_span)) => match words.resolve() {
                Ok(basic) => TypeSpec { kind: TypeSpecKind::Basic(basic), span: words_span },
                Err((tag, message)) => return Err(self.fail(Diagnostic::error(tag, words_span, message))),
            },
            (None, None) if class.is_some() && allowed == Specifiers::Variable => {
                TypeSpec { kind: TypeSpecKind::Implicit, span: span.end() }
            }
            (None, None) => return Err(self.expected("a type")),
        };
        Ok(DeclSpecs { storage: class, quals, ty, span })
    }

    /// Whether the identifier that is the current token is the type, not yet what is declared.
    fn names_type(&mut self, word: &str, allowed: Specifiers) -> bool {
        if allowed != Specifiers::Variable {
            return true;
        }
        match self.peek(1).kind {
            Tok::Ident(_) | Tok::Punct(P::Star) => true,
            Tok::Punct(P::Semi | P::Comma | P::LBracket | P::Assign) => false,
            _ => self.is_type(word),
        }
    }

    fn aggregate_spec(&mut self) -> Parsed<TypeSpec> {
        let keyword = self.bump();
        let is_union = keyword.kind == Tok::Ident("union".into());
        let tag = self.tag();
        let mut members = None;
        if self.is(P::LBrace) {
            self.enter()?;
            let result = self.bracketed(Self::members);
            self.nest -= 1;
            members = Some(result?);
            self.check_scope(&tag)?;
        } else if tag.is_none() {
            return Err(self.expected("a tag or `{`"));
        }
        let kind = TypeSpecKind::Aggregate(AggregateSpec { is_union, tag, members });
        Ok(TypeSpec { kind, span: keyword.span.to(self.prev) })
    }

    fn tag(&mut self) -> Option<Tag> {
        let Tok::Ident(word) = &self.tok().kind else { return None };
        if token::is_keyword(word) {
            return None;
        }
        let symbol = symbol(word);
        Some(Tag { symbol, span: self.bump().span })
    }

    /// A type that is defined here belongs to no module.
    fn check_scope(&mut self, tag: &Option<Tag>) -> Parsed<()> {
        match tag {
            Some(tag) if !tag.symbol.scope.is_empty() => {
                let message = format!("a type of `{}` can be used, not defined", tag.symbol.scope);
                Err(self.fail(Diagnostic::error(tags::D_DECL_SCOPE, tag.span, message)))
            }
            _ => Ok(()),
        }
    }

    fn members(&mut self) -> Parsed<Vec<MemberDecl>> {
        self.bump();
        let mut members = Vec::new();
        while members.is_empty() || !self.eat(P::RBrace) {
            let lo = self.tok().span;
            let specs = self.specifiers(Specifiers::Type)?;
            let mut declarators = Vec::new();
            while !self.is(P::Semi) {
                let declarator =
                    if self.is(P::Colon) { Declarator::default() } else { self.declarator(Naming::Required)? };
                let width = if self.eat(P::Colon) { Some(self.constant()?) } else { None };
                declarators.push(MemberDeclarator { declarator, width });
                if !self.eat(P::Comma) {
                    break;
                }
            }
            let span = lo.to(self.prev);
            self.expect(P::Semi, "after the member")?;
            members.push(MemberDecl { specs, declarators, span });
        }
        Ok(members)
    }

    fn enum_spec(&mut self) -> Parsed<TypeSpec> {
        let lo = self.bump().span;
        let tag = self.tag();
        let mut enumerators = None;
        if self.is(P::LBrace) {
            enumerators = Some(self.bracketed(Self::enumerators)?);
            self.check_scope(&tag)?;
        } else if tag.is_none() {
            return Err(self.expected("a tag or `{`"));
        }
        let kind = TypeSpecKind::Enum(EnumSpec { tag, enumerators });
        Ok(TypeSpec { kind, span: lo.to(self.prev) })
    }

    fn enumerators(&mut self) -> Parsed<Vec<Enumerator>> {
        self.bump();
        let mut list = Vec::new();
        while list.is_empty() || !self.is(P::RBrace) {
            let name = self.name("the name of an enumerator")?;
            let value = if self.eat(P::Assign) { Some(self.constant()?) } else { None };
            list.push(Enumerator { name, value });
            if !self.eat(P::Comma) {
                break;
            }
        }
        self.expect(P::RBrace, "or `,` after the enumerator")?;
        Ok(list)
    }

    /// A constant expression inside a type.
    fn constant(&mut self) -> Parsed<crate::ast::Expr> {
        let expr = self.ternary()?;
        self.type_height = self.type_height.max(self.height);
        Ok(expr)
    }

    fn declarator(&mut self, naming: Naming) -> Parsed<Declarator> {
        self.enter()?;
        let result = self.declarator_inner(naming);
        self.nest -= 1;
        result
    }

    fn declarator_inner(&mut self, naming: Naming) -> Parsed<Declarator> {
        let lo = self.tok().span.lo;
        let mut derivations = Vec::new();
        while self.eat(P::Star) {
            let mut quals = Quals::default();
            while let Tok::Ident(word) = &self.tok().kind {
                let Some(qual) = qualifier(&mut quals, word) else { break };
                *qual = true;
                self.bump();
            }
            derivations.push(Derivation::Pointer(quals));
        }
        let mut name = None;
        let mut inner = Vec::new();
        let is_name = matches!(&self.tok().kind, Tok::Ident(word) if !token::is_keyword(word));
        if is_name && naming != Naming::Forbidden {
            name = Some(self.name("a name")?);
        } else if self.is(P::LParen) && (naming == Naming::Required || self.nests_declarator()) {
            self.bump();
            let nested = self.bracketed(|parser| parser.declarator(naming))?;
            self.expect(P::RParen, "after the declarator")?;
            name = nested.name;
            inner = nested.derivations;
        } else if naming == Naming::Required {
            return Err(self.name("the name that is declared").err().unwrap_or(super::Failed));
        }
        let mut suffixes = Vec::new();
        loop {
            if self.is(P::LBracket) {
                suffixes.push(self.bracketed(Self::array_suffix)?);
            } else if self.is(P::LParen) {
                self.bump();
                let (params, varargs) = self.bracketed(|parser| parser.params(P::RParen))?;
                self.expect(P::RParen, "after the parameter")?;
                suffixes.push(function(params, varargs));
            } else {
                break;
            }
        }
        // `int a[2][3]` is an array of arrays: what is written last applies first.
        derivations.extend(suffixes.into_iter().rev());
        derivations.append(&mut inner);
        let hi = self.prev.hi.max(lo);
        Ok(Declarator { name, derivations, span: Span::new(self.lx.source, lo, hi) })
    }

    /// Whether the `(` that is the current token begins a declarator in parentheses, not a list of parameters.
    fn nests_declarator(&mut self) -> bool {
        match self.peek(1).kind {
            Tok::Punct(P::Star | P::LParen | P::LBracket) => true,
            Tok::Ident(_) => !self.starts_type(1),
            _ => false,
        }
    }

    fn array_suffix(&mut self) -> Parsed<Derivation> {
        self.bump();
        if self.eat(P::RBracket) {
            return Ok(Derivation::Array(None));
        }
        // `[foo_t *]` has no meaning as a size: the checker can say that there is no such type.
        let pointer = matches!(&self.tok().kind, Tok::Ident(_))
            && self.peek(1).kind == Tok::Punct(P::Star)
            && matches!(self.peek(2).kind, Tok::Punct(P::RBracket | P::Comma | P::Star));
        let two_words =
            pointer || matches!((self.tok().kind.clone(), self.peek(1).kind), (Tok::Ident(_), Tok::Ident(_)));
        if self.starts_type(0) || two_words || self.is(P::Ellipsis) {
            let (params, varargs) = self.params(P::RBracket)?;
            if varargs {
                let message = "the keys of an associative array are listed in full";
                let span = self.prev;
                return Err(self.fail(Diagnostic::error(tags::D_DECL_PROTO_VARARGS, span, message)));
            }
            self.expect(P::RBracket, "or `,` after the key's type")?;
            return Ok(Derivation::Tuple(params));
        }
        let size = self.constant()?;
        self.expect(P::RBracket, "after the size")?;
        Ok(Derivation::Array(Some(Box::new(size))))
    }

    /// Parameters up to a closing bracket, which is not taken; whether they end in `...`.
    fn params(&mut self, close: P) -> Parsed<(Vec<Param>, bool)> {
        let mut params = Vec::new();
        if self.is(close) {
            return Ok((params, false));
        }
        loop {
            if self.eat(P::Ellipsis) {
                return Ok((params, true));
            }
            let lo = self.tok().span;
            let specs = self.specifiers(Specifiers::Parameter)?;
            let declarator = self.declarator(Naming::Optional)?;
            params.push(Param { specs, declarator, span: lo.to(self.prev) });
            if !self.eat(P::Comma) {
                return Ok((params, false));
            }
        }
    }
}

fn function(mut params: Vec<Param>, varargs: bool) -> Derivation {
    let void_only = params.len() == 1
        && !varargs
        && params[0].specs.ty.kind == TypeSpecKind::Basic(Basic::Void)
        && params[0].declarator.name.is_none()
        && params[0].declarator.derivations.is_empty();
    if void_only {
        params.clear();
    }
    Derivation::Function { params, varargs, void_only }
}

// Definitions that begin with a keyword.
impl Parser<'_> {
    pub(super) fn inline(&mut self) -> Parsed<Inline> {
        let lo = self.bump().span;
        let specs = self.specifiers(Specifiers::Variable)?;
        let declarator = self.declarator(Naming::Required)?;
        self.expect(P::Assign, "after the name of the inline")?;
        let value = self.assignment()?;
        let hi = self.expect(P::Semi, "after the inline's value")?;
        if let Some(name) = &declarator.name {
            self.idents.insert(name.text.clone());
        }
        Ok(Inline { specs, declarator, value, span: lo.to(hi) })
    }

    pub(super) fn translator(&mut self) -> Parsed<Translator> {
        let lo = self.bump().span;
        let defines = matches!(&self.tok().kind, Tok::Ident(word) if matches!(word.as_str(), "struct" | "union" | "enum"))
            && self.peek(2).kind == Tok::Punct(P::LBrace);
        if defines {
            let brace = self.peek(2).span;
            let message = "a translator names the type that it translates to, and does not define it";
            let d = Diagnostic::error(tags::D_DECL_TYPERED, brace, message);
            return Err(self.fail(d.help("write `translator T < S *v > { member = …; };`")));
        }
        let (output, _) = self.type_name()?;
        self.expect(P::Lt, "after the type that is translated to")?;
        let input_lo = self.tok().span;
        let specs = self.specifiers(Specifiers::Type)?;
        let mut declarator = self.declarator(Naming::Required)?;
        let span = input_lo.to(self.prev);
        let Some(input_name) = declarator.name.take() else {
            return Err(self.expected("the name of what is translated"));
        };
        let input = TypeName { specs, declarator, span };
        self.expect(P::Gt, "after the name of what is translated")?;
        self.expect(P::LBrace, "to begin the members")?;
        let mut members = Vec::new();
        while !self.eat(P::RBrace) {
            let name = self.member_name()?;
            self.expect(P::Assign, "after the member")?;
            let value = self.assignment()?;
            self.expect(P::Semi, "after the member's value")?;
            members.push(TranslatorMember { name, value });
        }
        let hi = self.expect(P::Semi, "after the translator")?;
        Ok(Translator { output, input, input_name, members, span: lo.to(hi) })
    }

    pub(super) fn provider(&mut self) -> Parsed<ProviderDecl> {
        let lo = self.bump().span;
        let name = self.name("the name of the provider")?;
        self.expect(P::LBrace, "to begin the provider's probes")?;
        let mut probes = Vec::new();
        while !self.eat(P::RBrace) {
            let probe_lo = self.tok().span;
            if !self.eat_word("probe") {
                return Err(self.expected("`probe` or `}`"));
            }
            let name = self.member_name()?;
            let native = self.probe_params()?;
            let translated = if self.eat(P::Colon) { Some(self.probe_params()?) } else { None };
            let hi = self.expect(P::Semi, "after the probe")?;
            probes.push(ProviderProbe { name, native, translated, span: probe_lo.to(hi) });
        }
        let hi = self.expect(P::Semi, "after the provider")?;
        Ok(ProviderDecl { name, probes, span: lo.to(hi) })
    }

    fn probe_params(&mut self) -> Parsed<Vec<Param>> {
        self.expect(P::LParen, "to begin the probe's arguments")?;
        let (params, varargs) = self.bracketed(|parser| parser.params(P::RParen))?;
        let hi = self.expect(P::RParen, "after the probe's arguments")?;
        if varargs {
            let message = "a probe's arguments are listed in full";
            return Err(self.fail(Diagnostic::error(tags::D_DECL_PROTO_VARARGS, hi, message)));
        }
        match function(params, false) {
            Derivation::Function { params, .. } => Ok(params),
            _ => Ok(Vec::new()),
        }
    }
}

/// Whether a declaration is the head of a function's definition.
fn is_function(decl: &Declaration) -> bool {
    matches!(&decl.declarators[..], [one] if matches!(one.derivations.last(), Some(Derivation::Function { .. })))
}
