//! Clauses and statements.

use super::{Failed, Parsed, Parser, SpecKind};
use crate::ast::{Block, Clause, ExprKind, Stmt, StmtKind};
use crate::diag::Diagnostic;
use crate::span::Span;
use crate::token::{self, P, Tok};
use crate::{probespec, tags};

impl Parser<'_> {
    /// `None` where a probe description cannot be: that has been reported, and the whole clause has been read.
    pub(super) fn clause(&mut self) -> Parsed<Option<Clause>> {
        let lo = self.pos;
        let mut probes = Vec::new();
        let mut failed = false;
        loop {
            let len = probespec::length(self.lx.rest(self.pos), self.kind);
            if len == 0 {
                return Err(self.expected("a probe description"));
            }
            let hi = self.pos + len;
            match probespec::read(&mut self.lx, self.pos, hi, self.kind) {
                Some(spec) => probes.push(spec),
                None => failed = true,
            }
            self.prev = self.lx.span(self.pos, hi);
            self.pos = self.lx.skip_trivia(hi);
            self.cur = None;
            if !self.lx.rest(self.pos).starts_with(',') {
                break;
            }
            self.pos = self.lx.skip_trivia(self.pos + 1);
        }
        let rest = self.lx.rest(self.pos);
        let head = self.lx.span(lo, self.prev.hi as usize);
        let mut predicate = None;
        if rest.starts_with('/') {
            self.bump_slash();
            (self.in_predicate, self.predicate) = (true, true);
            let result = self.expression();
            (self.in_predicate, self.predicate) = (false, false);
            predicate = Some(result?);
            if !self.is(P::Slash) {
                let wanted = "an operator, or `/` to close the predicate";
                return Err(self.expected(wanted));
            }
            self.bump();
            if !self.is(P::LBrace) {
                let message = "expected actions `{ … }` after the predicate";
                let span = self.prev;
                return Err(self.fail(Diagnostic::error(tags::D_SYNTAX, span, message)));
            }
        } else if rest.is_empty() && self.kind == SpecKind::Script {
            let message = "expected a predicate or actions after this probe description";
            let diag = Diagnostic::error(tags::D_SYNTAX, head, message)
                .dtrace_says("expected predicate and/or actions following probe description")
                .help("`{}` records that the probe has fired");
            return Err(self.fail(diag));
        } else if !rest.is_empty() && !rest.starts_with('{') {
            let failed = self.expected("`,`, `/` or `{` after the probe description");
            if let Some(diag) = self.lx.diags.last_mut() {
                diag.dtrace_at = Some(Span { lo: head.hi, ..head });
            }
            return Err(failed);
        }
        let body = if self.lx.rest(self.pos).is_empty() { None } else { Some(self.block()?) };
        if failed {
            return Ok(None);
        }
        let span = self.lx.span(lo, self.prev.hi as usize);
        Ok(Some(Clause { probes, predicate, body, span }))
    }

    fn bump_slash(&mut self) {
        self.prev = self.lx.span(self.pos, self.pos + 1);
        self.pos += 1;
        self.cur = None;
    }

    /// Whether the `/` that is the current token closes the predicate: what follows cannot be an operand.
    pub(super) fn slash_closes(&mut self) -> bool {
        self.in_predicate
            && matches!(self.peek(1).kind, Tok::Eof | Tok::Punct(P::LBrace | P::Semi | P::RBrace | P::Slash))
    }

    /// `{ … }`
    pub(super) fn block(&mut self) -> Parsed<Block> {
        let open = self.expect(P::LBrace, "")?;
        let depth = self.braces;
        let mut stmts = Vec::new();
        loop {
            while self.eat(P::Semi) {}
            if self.is(P::RBrace) {
                break;
            }
            if self.tok().kind == Tok::Eof {
                let first = !self.ended;
                let failed = self.expected("`}` to close this block");
                if let Some(diag) = self.lx.diags.last_mut().filter(|_| first) {
                    diag.notes.push(crate::diag::Note { span: Some(open), message: "the block begins here".into() });
                }
                return Err(failed);
            }
            match self.statement() {
                Ok(stmt) => stmts.push(stmt),
                Err(Failed) if self.fatal => return Err(Failed),
                Err(Failed) => self.recover(depth),
            }
        }
        let close = self.bump().span;
        Ok(Block { stmts, span: open.to(close) })
    }

    /// A statement with its `;`, which may be left out in front of a `}`.
    fn statement(&mut self) -> Parsed<Stmt> {
        self.enter()?;
        let result = self.statement_inner();
        self.nest -= 1;
        result
    }

    fn statement_inner(&mut self) -> Parsed<Stmt> {
        let lo = self.tok().span;
        if self.is(P::LBrace) {
            let block = self.block()?;
            return Ok(Stmt { span: block.span, kind: StmtKind::Block(block) });
        }
        if let Tok::Ident(word) = &self.tok().kind {
            let word = word.clone();
            if word == "if" {
                return self.if_statement();
            }
            if word == "else" {
                return Err(self.fail(Diagnostic::error(tags::D_SYNTAX, lo, "this `else` has no `if` in front of it")));
            }
            if token::is_missing_statement(&word) {
                let message = format!("D has no `{word}` statement");
                let mut diag = Diagnostic::error(tags::D_SYNTAX, lo, message);
                if matches!(word.as_str(), "for" | "while" | "do") {
                    diag = diag
                        .help("a clause runs a bounded number of steps; let probes such as tick-1s do the repeating");
                }
                return Err(self.fail(diag));
            }
            if word == "typedef" {
                let message = "a typedef cannot stand inside a clause";
                let diag = Diagnostic::error(tags::D_SYNTAX, lo, message).help("write it in front of the clause");
                return Err(self.fail(diag));
            }
            if self.starts_local_declaration(&word) {
                let decl = self.declaration()?;
                return Ok(Stmt { span: decl.span, kind: StmtKind::Declaration(decl) });
            }
        }
        let expr = self.expression()?;
        self.end_statement(matches!(expr.kind, ExprKind::Ident(_)))?;
        Ok(Stmt { span: expr.span, kind: StmtKind::Expr(expr) })
    }

    fn end_statement(&mut self, after_name: bool) -> Parsed<()> {
        if self.eat(P::Semi) || self.is(P::RBrace) {
            return Ok(());
        }
        let end = self.prev.end();
        let starts_statement = matches!(self.tok().kind, Tok::Ident(_) | Tok::Agg(_)) && !after_name;
        let failed = self.expected("an operator, `;` or `}`");
        if starts_statement && let Some(diag) = self.lx.diags.last_mut() {
            diag.suggestion = Some(crate::diag::Suggestion {
                span: end,
                replacement: ";".into(),
                message: "end the statement before it".into(),
            });
        }
        Err(failed)
    }

    fn if_statement(&mut self) -> Parsed<Stmt> {
        let lo = self.bump().span;
        self.expect(P::LParen, "after `if`")?;
        let cond = self.bracketed(Self::expression)?;
        self.expect(P::RParen, "after the condition")?;
        let then = self.branch()?;
        let otherwise = if self.eat_word("else") { Some(self.branch()?) } else { None };
        let span = lo.to(self.prev);
        Ok(Stmt { kind: StmtKind::If { cond, then, otherwise }, span })
    }

    /// A block, or one statement as a block.
    fn branch(&mut self) -> Parsed<Block> {
        if self.is(P::LBrace) {
            self.enter()?;
            let block = self.block();
            self.nest -= 1;
            return block;
        }
        let lo = self.tok().span;
        if self.eat(P::Semi) {
            return Ok(Block { stmts: Vec::new(), span: lo });
        }
        let stmt = self.statement()?;
        Ok(Block { span: stmt.span, stmts: vec![stmt] })
    }

    fn starts_local_declaration(&mut self, word: &str) -> bool {
        if matches!(word, "self" | "this") {
            return !matches!(self.peek(1).kind, Tok::Punct(_));
        }
        if token::starts_specifiers(word) {
            return true;
        }
        if token::is_keyword(word) || !self.is_type(word) {
            return false;
        }
        match self.peek(1).kind {
            Tok::Ident(_) => true,
            Tok::Punct(P::Star) => {
                matches!(self.peek(2).kind, Tok::Ident(_) | Tok::Punct(P::Star))
                    && matches!(self.peek(3).kind, Tok::Ident(_) | Tok::Punct(P::Semi | P::LBracket | P::Comma))
            }
            _ => false,
        }
    }
}
