//! The formatter: the same program, laid out as the manuals lay D out. It moves tokens and comments, and writes the semicolon
//! that may be left out in front of a brace; it changes no token, and breaks no line that the author did not break, structs
//! and statements aside. What it makes it leaves as it is the second time.

mod operators;
mod run;

use crate::ast::{Block, Clause, Item, Program, Stmt, StmtKind};
use crate::diag::Diagnostic;
use crate::lex::Lexer;
use crate::parse::{ParseOptions, SpecKind, parse_all};
use crate::span::{SourceId, Span};
use crate::token::{P, Tok};
use crate::{dump, tags};
use std::collections::HashSet;

/// Formats a script; the errors where it is none.
pub fn format(text: &str, source: SourceId) -> Result<String, Vec<Diagnostic>> {
    let (program, trivia, diags) = read(text, source);
    if diags.iter().any(Diagnostic::is_error) {
        return Err(diags);
    }
    let options = options();
    let mut printer = Printer {
        text,
        lx: Lexer::new(text, source, &options),
        binary: operators::binary(&program),
        trivia,
        done: 0,
        out: String::new(),
        indent: 0,
        at: 0,
    };
    printer.program(&program);
    let out = printer.out;
    // Layout is worth no risk: what does not read back as the same program is not given out.
    let (again, comments, wrong) = read(&out, source);
    let same = wrong.iter().all(|d| !d.is_error()) && dump::dump(&again) == dump::dump(&program);
    if !same || comments.len() != printer.trivia.len() {
        let message = "a bug in the formatter: its text would not be the same program";
        return Err(vec![Diagnostic::error(tags::D_UNKNOWN, Span::new(source, 0, 0), message).note(None, out)]);
    }
    Ok(out)
}

fn options() -> ParseOptions<'static> {
    ParseOptions { typedefs: &|name| name.ends_with("_t"), keep_macros: true, ..ParseOptions::default() }
}

/// The program, and its comments and control lines in order. Directives of the preprocessor are no errors here.
fn read(text: &str, source: SourceId) -> (Program, Vec<Span>, Vec<Diagnostic>) {
    let (program, controls, mut diags) = parse_all(SpecKind::Script, text, source, &options());
    diags.retain(|d| !matches!(d.tag, tags::D_PRAGCTL_INVAL | tags::D_PRAGERR));
    let mut trivia = program.comments.clone();
    trivia.extend(controls);
    trivia.sort_by_key(|span| span.lo);
    (program, trivia, diags)
}

struct Printer<'a> {
    text: &'a str,
    lx: Lexer<'a>,
    /// Where operators with two operands begin.
    binary: HashSet<u32>,
    trivia: Vec<Span>,
    /// How many of them are written.
    done: usize,
    out: String,
    indent: usize,
    /// The end of what is written, in the source.
    at: u32,
}

impl Printer<'_> {
    fn line_starts(&self) -> bool {
        self.out.is_empty() || self.out.ends_with('\n')
    }

    /// Ends the line, if one is begun.
    fn end_line(&mut self) {
        let end = self.out.trim_end_matches([' ', '\t']).len();
        self.out.truncate(end);
        if !self.line_starts() {
            self.out.push('\n');
        }
    }

    fn tabs(&mut self) {
        if self.line_starts() {
            (0..self.indent).for_each(|_| self.out.push('\t'));
        }
    }

    fn put(&mut self, text: &str) {
        self.tabs();
        self.out.push_str(text);
    }

    fn newlines(&self, lo: u32, hi: u32) -> usize {
        self.text.get(lo as usize..hi.max(lo) as usize).map_or(0, |t| t.bytes().filter(|b| *b == b'\n').count())
    }

    /// A blank line where the source has one or more in front of `pos`.
    fn keep_blank(&mut self, pos: u32) {
        let opens = self.out.trim_end().ends_with('{');
        if self.newlines(self.at, pos) > 1 && !self.out.is_empty() && !opens && !self.out.ends_with("\n\n") {
            self.end_line();
            self.out.push('\n');
        }
    }

    /// Writes the comments and control lines in front of `pos`, each on a line of its own, or behind what it stood behind.
    fn trivia_before(&mut self, pos: u32) {
        while let Some(span) = self.trivia.get(self.done).copied().filter(|s| s.lo < pos) {
            self.done += 1;
            self.one_trivia(span, true);
        }
    }

    fn one_trivia(&mut self, span: Span, blank: bool) {
        let text = self.text.get(span.range()).unwrap_or("").trim_end().to_string();
        if text.starts_with('#') {
            self.end_line();
            if blank {
                self.keep_blank(span.lo);
            }
            self.out.push_str(&text);
            self.out.push('\n');
        } else if self.newlines(self.at, span.lo) == 0 && !self.out.is_empty() {
            // Behind something on its line, which may have been ended meanwhile.
            if self.out.ends_with('\n') {
                self.out.pop();
            }
            if !self.line_starts() {
                self.out.push(' ');
            }
            self.put(&text);
            self.out.push('\n');
        } else {
            self.end_line();
            if blank {
                self.keep_blank(span.lo);
            }
            let text = self.aligned(&text);
            self.put(&text);
            self.out.push('\n');
        }
        self.at = span.hi;
    }

    /// A comment of several lines whose lines begin with `*`, moved as a whole.
    fn aligned(&self, text: &str) -> String {
        let mut lines = text.lines();
        let Some(first) = lines.next() else { return String::new() };
        if !text.starts_with("/*") || !text.lines().skip(1).all(|l| l.trim_start().starts_with('*')) {
            return text.to_string();
        }
        let mut out = first.trim_end().to_string();
        for line in lines {
            out.push('\n');
            (0..self.indent).for_each(|_| out.push('\t'));
            out.push(' ');
            out.push_str(line.trim());
        }
        out
    }

    fn program(&mut self, program: &Program) {
        let mut after_clause = false;
        for item in &program.items {
            let (lo, clause) = match item {
                // Control lines are trivia here.
                Item::Pragma(_) => continue,
                Item::Clause(c) => (c.span.lo, true),
                Item::Declaration(d) => (d.span.lo, false),
                Item::Inline(i) => (i.span.lo, false),
                Item::Translator(t) => (t.span.lo, false),
                Item::Provider(p) => (p.span.lo, false),
            };
            let before = self.out.len();
            self.trivia_before(lo);
            self.end_line();
            self.keep_blank(lo);
            // A clause stands by itself, its comment with it.
            if (clause || after_clause)
                && self.out.len() == before
                && !self.out.is_empty()
                && !self.out.ends_with("\n\n")
            {
                self.out.push('\n');
            }
            match item {
                Item::Clause(c) => self.clause(c),
                Item::Declaration(d) => self.outer(d.span, true),
                Item::Inline(i) => self.outer(i.span, false),
                Item::Translator(t) => self.outer(t.span, false),
                Item::Provider(p) => self.outer(p.span, false),
                Item::Pragma(_) => {}
            }
            after_clause = clause;
        }
        self.trivia_before(u32::MAX);
        self.end_line();
        let end = self.out.trim_end().len();
        self.out.truncate(end);
        if !self.out.is_empty() {
            self.out.push('\n');
        }
    }

    /// A declaration, whose span ends in front of the semicolon, or a definition, whose span has it.
    fn outer(&mut self, span: Span, declaration: bool) {
        self.run(span);
        let next = self.lx.skip_trivia(self.at as usize);
        if declaration && self.text[next..].starts_with('{') {
            self.put(" ");
            self.function_body(next);
        } else if declaration {
            self.put(";");
            self.semicolon_passed();
        }
        self.out.push('\n');
    }

    /// A C function's body, as it is.
    fn function_body(&mut self, lo: usize) {
        let (mut pos, mut depth) = (lo, 0u32);
        loop {
            let token = self.lx.token(pos);
            pos = token.span.hi as usize;
            match token.kind {
                Tok::Eof => break,
                Tok::Punct(P::LBrace) => depth += 1,
                Tok::Punct(P::RBrace) => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
        let text = self.text;
        self.put(text.get(lo..pos).unwrap_or(""));
        self.at = pos as u32;
        self.done += self.trivia[self.done..].iter().take_while(|s| (s.lo as usize) < pos).count();
    }

    /// Moves the place behind a semicolon, so that a comment behind it is one behind the statement.
    fn semicolon_passed(&mut self) {
        let next = self.lx.skip_trivia(self.at as usize);
        if self.text[next..].starts_with(';')
            && self.newlines(self.at, next as u32) == 0
            && !self.trivia_between(self.at, next as u32)
        {
            self.at = next as u32 + 1;
        }
    }

    fn trivia_between(&self, lo: u32, hi: u32) -> bool {
        self.trivia[self.done..].iter().take_while(|s| s.lo < hi).any(|s| s.lo >= lo)
    }

    fn clause(&mut self, clause: &Clause) {
        for (i, probe) in clause.probes.iter().enumerate() {
            self.trivia_before(probe.span.lo);
            let text = self.text;
            self.put(&text[probe.span.range()]);
            self.at = probe.span.hi;
            if i + 1 < clause.probes.len() {
                self.out.push(',');
                // Past the comma, for a comment behind it.
                if self.text[self.at as usize..].starts_with(',') {
                    self.at += 1;
                }
            }
            self.out.push('\n');
        }
        if let Some(predicate) = &clause.predicate {
            self.trivia_before(predicate.span.lo);
            self.put("/");
            self.run(predicate.span);
            self.put("/\n");
        }
        if let Some(body) = &clause.body {
            self.trivia_before(body.span.lo);
            self.block(body);
            self.out.push('\n');
        }
    }

    /// `{ … }`, without a line end behind it.
    fn block(&mut self, block: &Block) {
        self.put("{\n");
        self.at = block.span.lo + 1;
        self.indent += 1;
        for stmt in &block.stmts {
            self.trivia_before(stmt.span.lo);
            self.keep_blank(stmt.span.lo);
            self.stmt(stmt);
        }
        self.trivia_before(block.span.hi.saturating_sub(1));
        self.end_line();
        self.indent -= 1;
        self.put("}");
        self.at = block.span.hi;
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match &stmt.kind {
            StmtKind::Expr(_) | StmtKind::Declaration(_) => {
                self.run(stmt.span);
                self.put(";");
                self.semicolon_passed();
                self.out.push('\n');
            }
            StmtKind::Block(block) => {
                self.block(block);
                self.out.push('\n');
            }
            StmtKind::If { cond, then, otherwise } => {
                self.put("if (");
                self.at = stmt.span.lo + 2;
                self.run(cond.span);
                self.put(")");
                let braced = self.branch(then);
                let Some(otherwise) = otherwise else {
                    if braced {
                        self.out.push('\n');
                    }
                    return;
                };
                if braced && !self.trivia_between(then.span.hi, otherwise.span.lo) {
                    self.put(" else");
                } else {
                    self.end_line();
                    self.trivia_before(otherwise.span.lo);
                    self.put("else");
                }
                match &otherwise.stmts[..] {
                    [only @ Stmt { kind: StmtKind::If { .. }, .. }] if !self.is_braced(otherwise) => {
                        self.put(" ");
                        self.stmt(only);
                    }
                    _ => {
                        if self.branch(otherwise) {
                            self.out.push('\n');
                        }
                    }
                }
            }
        }
    }

    fn is_braced(&self, block: &Block) -> bool {
        self.text[block.span.range()].starts_with('{')
    }

    /// A branch of an `if`; whether it has braces, behind which the line is open.
    fn branch(&mut self, block: &Block) -> bool {
        if self.is_braced(block) {
            self.put(" ");
            self.block(block);
            return true;
        }
        match &block.stmts[..] {
            [] => {
                self.put(";\n");
                self.at = block.span.hi;
            }
            stmts => {
                self.end_line();
                self.indent += 1;
                for stmt in stmts {
                    self.trivia_before(stmt.span.lo);
                    self.stmt(stmt);
                }
                self.indent -= 1;
            }
        }
        false
    }
}
