//! Tokens to tree: recursive descent, with precedence climbing for expressions. This file owns what is common to all
//! constructs: options, the current token, errors, recovery, limits, and the outermost level.
//!
//! What DTrace's grammar decides by asking its type tables is decided here by the caller's `typedefs`, by the
//! program's own declarations, and by shape: `(x)y` and `(x *)` are casts whatever `x` is.
//!
//! After an error inside a statement reading goes on at the next statement, else at the next clause, so that one run
//! reports several errors. Nesting is limited, and so is the height of every expression ([`MAX_DEPTH`]): later
//! passes may recurse over the tree.

mod clause;
mod decl;
mod expr;

use std::collections::HashSet;

use crate::ast::{Item, Name, Program};
use crate::diag::Diagnostic;
use crate::lex::{Lexer, ident_length};
use crate::macros::Macros;
use crate::span::{SourceId, Span};
use crate::token::{self, P, Tok, Token};
use crate::{pragma, probespec, tags};

/// No expression is higher than this, and no statement or declaration is nested deeper.
pub const MAX_DEPTH: u32 = 256;

/// How deep reading may nest; a parenthesis counts twice. An unoptimised build then stays within 1.6 MiB of stack.
const MAX_NEST: u32 = 200;

/// Reading stops after so many errors.
const MAX_ERRORS: usize = 50;

/// What the parser is told.
#[derive(Clone)]
pub struct ParseOptions<'a> {
    /// Whether an identifier names a type, beyond the built-in names (`uint32_t`, `psinfo_t`, …) and the program's own
    /// typedefs. Asked with the scope where one is written: `` vmlinux`size_t ``.
    pub typedefs: &'a dyn Fn(&str) -> bool,
    /// What `$1`, `$target` and the like stand for.
    pub macros: Macros,
    /// Leave macros in the tree (for the formatter) instead of replacing them.
    pub keep_macros: bool,
}

impl Default for ParseOptions<'_> {
    fn default() -> Self {
        ParseOptions { typedefs: &|_| false, macros: Macros::default(), keep_macros: false }
    }
}

/// Where a text comes from, which decides what the last field of a short probe description is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SpecKind {
    /// A script: descriptions end in the name, and need a predicate or actions.
    Script,
    /// `-P`: a provider.
    Provider,
    /// `-m`: `[provider:]module`.
    Module,
    /// `-f`: `[[provider:]module:]function`.
    Function,
    /// `-n`: `[[[provider:]module:]function:]name`.
    Name,
    /// `-i`: a number.
    Id,
}

impl SpecKind {
    /// How many fields a description may have.
    pub fn fields(self) -> usize {
        match self {
            SpecKind::Script | SpecKind::Name => 4,
            SpecKind::Function => 3,
            SpecKind::Module => 2,
            SpecKind::Provider => 1,
            SpecKind::Id => 0,
        }
    }
}

/// Parses a script. There is always a program: what could be read of it.
pub fn parse(text: &str, source: SourceId, options: &ParseOptions<'_>) -> (Program, Vec<Diagnostic>) {
    parse_clause_flag(SpecKind::Script, text, source, options)
}

/// Parses the text of a `-P`, `-m`, `-f`, `-n` or `-i` flag: like a script, but a probe description may stand alone,
/// and is read as the flag says.
pub fn parse_clause_flag(
    kind: SpecKind,
    text: &str,
    source: SourceId,
    options: &ParseOptions<'_>,
) -> (Program, Vec<Diagnostic>) {
    let (program, _, diags) = parse_all(kind, text, source, options);
    (program, diags)
}

/// As [`parse_clause_flag`], with the control lines, in order.
pub(crate) fn parse_all(
    kind: SpecKind,
    text: &str,
    source: SourceId,
    options: &ParseOptions<'_>,
) -> (Program, Vec<Span>, Vec<Diagnostic>) {
    let mut parser = Parser {
        lx: Lexer::new(text, source, options),
        kind,
        pos: 0,
        cur: None,
        prev: Span::new(source, 0, 0),
        braces: 0,
        nest: 0,
        height: 0,
        type_height: 0,
        in_predicate: false,
        predicate: false,
        fatal: false,
        ended: false,
        types: HashSet::new(),
        idents: HashSet::new(),
        items: Vec::new(),
        controls_done: 0,
    };
    parser.program();
    let Parser { lx, items, .. } = parser;
    let program = Program { items, args_used: lx.args_used.into_iter().collect(), comments: lx.comments };
    let mut diags = lx.diags;
    diags.sort_by_key(|d| d.span.map(|s| s.lo));
    (program, lx.controls, diags)
}

/// An error has been reported; the construct cannot be read.
#[derive(Debug)]
struct Failed;

type Parsed<T> = Result<T, Failed>;

struct Parser<'a> {
    lx: Lexer<'a>,
    kind: SpecKind,
    /// Where the next token is looked for.
    pos: usize,
    /// The token at `pos`, once it has been looked at. At the outermost level nothing is, because probe
    /// descriptions are no tokens.
    cur: Option<Token>,
    /// The last token taken.
    prev: Span,
    /// Braces that are open in this item.
    braces: u32,
    nest: u32,
    /// Of the expression read last.
    height: u32,
    /// The highest expression inside the type being read.
    type_height: u32,
    /// A `/` may close the predicate here: outside of parentheses and brackets.
    in_predicate: bool,
    /// A predicate is being read.
    predicate: bool,
    fatal: bool,
    /// The end of the text has been reported to come too early; it is no better news the second time.
    ended: bool,
    /// Typedefs of the program.
    types: HashSet<String>,
    /// Identifiers that have been used as variables; they are no types any more.
    idents: HashSet<String>,
    items: Vec<Item>,
    controls_done: usize,
}

// Tokens.
impl Parser<'_> {
    fn tok(&mut self) -> &Token {
        if self.cur.is_none() {
            self.cur = Some(self.lx.token(self.pos));
        }
        // Just filled; the fallback is never made.
        self.cur.get_or_insert(Token { kind: Tok::Eof, span: self.prev })
    }

    /// Takes the token.
    fn bump(&mut self) -> Token {
        self.tok();
        let token = self.cur.take().unwrap_or(Token { kind: Tok::Eof, span: self.prev });
        self.pos = token.span.hi as usize;
        self.prev = token.span;
        match token.kind {
            Tok::Punct(P::LBrace) => self.braces += 1,
            Tok::Punct(P::RBrace) => self.braces = self.braces.saturating_sub(1),
            _ => {}
        }
        token
    }

    /// The token `n` places behind the current one.
    fn peek(&mut self, n: usize) -> Token {
        let mut token = self.tok().clone();
        for _ in 0..n {
            token = self.lx.token(token.span.hi as usize);
        }
        token
    }

    fn is(&mut self, punct: P) -> bool {
        self.tok().kind == Tok::Punct(punct)
    }

    fn is_word(&mut self, word: &str) -> bool {
        matches!(&self.tok().kind, Tok::Ident(text) if text == word)
    }

    fn eat(&mut self, punct: P) -> bool {
        let found = self.is(punct);
        if found {
            self.bump();
        }
        found
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        if found {
            self.bump();
        }
        found
    }

    fn expect(&mut self, punct: P, after: &str) -> Parsed<Span> {
        if self.is(punct) {
            return Ok(self.bump().span);
        }
        let wanted = format!("`{}` {after}", punct.text());
        Err(self.expected(wanted.trim_end()))
    }

    /// Takes an identifier that is no keyword.
    fn name(&mut self, what: &str) -> Parsed<Name> {
        match &self.tok().kind {
            Tok::Ident(text) if !token::is_keyword(text) => {
                let text = text.clone();
                let span = self.bump().span;
                Ok(Name { text, span })
            }
            Tok::Ident(text) => {
                let message = format!("expected {what}, found the reserved word `{text}`");
                let span = self.tok().span;
                Err(self.fail(Diagnostic::error(tags::D_SYNTAX, span, message)))
            }
            _ => Err(self.expected(what)),
        }
    }

    /// Takes a member's name: keywords are none there.
    fn member_name(&mut self) -> Parsed<Name> {
        match &self.tok().kind {
            Tok::Ident(text) => {
                let text = text.clone();
                let span = self.bump().span;
                Ok(Name { text, span })
            }
            _ => Err(self.expected("the name of a member")),
        }
    }
}

// Errors and limits.
impl Parser<'_> {
    fn error(&mut self, diag: Diagnostic) {
        self.lx.diags.push(diag);
        self.fatal |= self.lx.diags.len() >= MAX_ERRORS;
    }

    fn fail(&mut self, diag: Diagnostic) -> Failed {
        self.error(diag);
        Failed
    }

    /// Reports that something else stands where `what` should.
    fn expected(&mut self, what: &str) -> Failed {
        let Token { kind, mut span } = self.tok().clone();
        let found = if kind == Tok::Eof {
            if std::mem::replace(&mut self.ended, true) {
                return Failed;
            }
            // Behind the last token, not behind the white space after it: that is where something is missing.
            span = self.prev.end();
            "the end of the text".to_string()
        } else {
            let text = self.lx.text.get(span.range()).unwrap_or("");
            let mut shown: String = text.chars().take(32).take_while(|c| *c != '\n').collect();
            if shown.len() < text.len() {
                shown.push('…');
            }
            format!("`{shown}`")
        };
        let mut at = self.tok().span;
        if self.predicate && kind == Tok::Punct(P::Slash) {
            // DTrace reads the end of a predicate together with the white space behind it.
            let rest = self.lx.rest(at.hi as usize);
            at.lo = at.hi + (rest.len() - rest.trim_start().len()) as u32;
            at.hi = at.lo;
        }
        let diag = Diagnostic::error(tags::D_SYNTAX, span, format!("expected {what}, found {found}")).dtrace_at(at);
        self.fail(diag.label(format!("expected {what}")))
    }

    /// One level deeper; every call that succeeds is paired with `self.nest -= 1`.
    fn enter(&mut self) -> Parsed<()> {
        if self.nest >= MAX_NEST {
            return Err(self.too_deep());
        }
        self.nest += 1;
        Ok(())
    }

    fn too_deep(&mut self) -> Failed {
        let span = self.tok().span;
        if !self.fatal {
            let message = "the program is nested too deep here";
            let diag = Diagnostic::error(tags::D_SYNTAX, span, message).help("use variables for parts of it");
            self.error(diag);
        }
        self.fatal = true;
        Failed
    }

    /// Reads inside brackets of any kind, where a `/` is a division.
    fn bracketed<T>(&mut self, read: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        let outer = std::mem::replace(&mut self.in_predicate, false);
        let result = read(self);
        self.in_predicate = outer;
        result
    }

    /// Inside a block that has `open` braces around it: skips to behind the next `;` or the `}` of a block opened
    /// meanwhile, or to the `}` that closes the block. At the outermost level, where `open` is 0: to behind the next
    /// `;` or `}` that leaves no brace open.
    fn recover(&mut self, open: u32) {
        let outer = std::mem::replace(&mut self.lx.quiet, true);
        loop {
            let closes = open > 0 && self.braces <= open;
            let punct = match self.tok().kind {
                Tok::Eof => break,
                Tok::Punct(P::RBrace) if closes => break,
                Tok::Punct(punct) => Some(punct),
                _ => None,
            };
            self.bump();
            if matches!(punct, Some(P::Semi | P::RBrace)) && self.braces <= open {
                break;
            }
        }
        self.lx.quiet = outer;
    }
}

// The outermost level.
impl Parser<'_> {
    fn program(&mut self) {
        loop {
            self.pos = self.lx.skip_trivia(self.pos);
            self.cur = None;
            self.take_controls();
            let rest = self.lx.rest(self.pos);
            if rest.is_empty() || self.fatal {
                break;
            }
            if rest.starts_with(';') {
                self.pos += 1;
                continue;
            }
            let start = self.pos;
            self.braces = 0;
            match self.item() {
                Ok(item) => self.items.extend(item),
                Err(Failed) => {
                    self.nest = 0;
                    self.in_predicate = false;
                    self.recover(0);
                    if self.pos == start {
                        // Nothing was taken and nothing skipped: never stand still.
                        self.pos = self.lx.text.len();
                    }
                }
            }
        }
        self.take_controls();
    }

    /// Makes items of the control lines met since the last time.
    fn take_controls(&mut self) {
        while let Some(span) = self.lx.controls.get(self.controls_done).copied() {
            self.controls_done += 1;
            let (kind, diag) = pragma::read(self.lx.text, span);
            if let Some(diag) = diag {
                self.error(diag);
            }
            if let Some(pragma) = kind {
                self.items.push(Item::Pragma(pragma));
            }
        }
    }

    fn item(&mut self) -> Parsed<Option<Item>> {
        let rest = self.lx.rest(self.pos);
        let spec = probespec::length(rest, self.kind);
        let scoped = rest.bytes().take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'`')).count();
        let word = &rest[..scoped];
        // `int *x;` and `int*x;` declare, `int* { … }` and `int*x { … }` are globs.
        let is_plain = ident_length(word.trim_start_matches('`')) > 0
            && spec >= scoped
            && rest[scoped..spec].bytes().all(|b| b == b'*');
        let after = self.lx.skip_trivia(self.pos + spec);
        let next = self.lx.rest(after);
        let ends = next.is_empty() || next.starts_with(['{', '/', ',']);
        let is_pointer = !ends
            && rest[scoped..].starts_with('*')
            && rest[scoped..spec].bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'*' | b'_'))
            && (token::starts_specifiers(word) || self.is_type(word));
        if is_pointer {
            return self.declaration_item().map(|item| Some(Item::Declaration(item)));
        }
        if !is_plain {
            return self.clause().map(|clause| clause.map(Item::Clause));
        }
        match word {
            "inline" if !ends => self.inline().map(|item| Some(Item::Inline(item))),
            "translator" if !ends => self.translator().map(|item| Some(Item::Translator(item))),
            "provider" if !ends => self.provider().map(|item| Some(Item::Provider(item))),
            "struct" | "union" | "enum" => self.declaration_item().map(|item| Some(Item::Declaration(item))),
            _ if ends => self.clause().map(|clause| clause.map(Item::Clause)),
            "self" | "this" => self.declaration_item().map(|item| Some(Item::Declaration(item))),
            _ if token::starts_specifiers(word) || self.is_type(word) => {
                self.declaration_item().map(|item| Some(Item::Declaration(item)))
            }
            _ if self.looks_declared(word, after) => self.declaration_item().map(|item| Some(Item::Declaration(item))),
            _ => self.clause().map(|clause| clause.map(Item::Clause)),
        }
    }

    /// `foo_t x;`, `foo_t *x[int];` with a type that nobody knows: the checker has more to say about that than a
    /// parser that wants a probe there.
    fn looks_declared(&mut self, word: &str, after: usize) -> bool {
        if matches!(word, "BEGIN" | "END" | "ERROR") {
            return false;
        }
        let next = self.lx.rest(after);
        let stars = next.len() - next.trim_start_matches(['*', ' ']).len();
        let name = ident_length(&next[stars..]);
        let behind = self.lx.rest(after + stars + name).trim_start();
        name > 0 && behind.starts_with([';', '[', ','])
    }

    fn is_type(&self, name: &str) -> bool {
        // The program's own types and C's may be named with their scope.
        let own = name.strip_prefix("D`").or_else(|| name.strip_prefix("C`"));
        self.types.contains(own.unwrap_or(name))
            || (!self.idents.contains(name) && (token::is_builtin_type(name) || (self.lx.options.typedefs)(name)))
    }
}
