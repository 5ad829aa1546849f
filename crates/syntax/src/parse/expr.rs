//! Expressions.

use super::{Failed, MAX_DEPTH, Parsed, Parser};
use crate::ast::{AggRef, BinaryOp, Expr, ExprKind, Name, Symbol, UnaryOp};
use crate::diag::Diagnostic;
use crate::span::Span;
use crate::tags;
use crate::token::{self, P, Tok};

/// Precedence of a binary operator, from 1 (weakest); all are left-associative.
fn binary_op(punct: P) -> Option<(BinaryOp, u8)> {
    Some(match punct {
        P::OrOr => (BinaryOp::Or, 1),
        P::XorXor => (BinaryOp::Xor, 2),
        P::AndAnd => (BinaryOp::And, 3),
        P::Pipe => (BinaryOp::BitOr, 4),
        P::Caret => (BinaryOp::BitXor, 5),
        P::Amp => (BinaryOp::BitAnd, 6),
        P::EqEq => (BinaryOp::Eq, 7),
        P::NotEq => (BinaryOp::Ne, 7),
        P::Lt => (BinaryOp::Lt, 8),
        P::Le => (BinaryOp::Le, 8),
        P::Gt => (BinaryOp::Gt, 8),
        P::Ge => (BinaryOp::Ge, 8),
        P::Shl => (BinaryOp::Shl, 9),
        P::Shr => (BinaryOp::Shr, 9),
        P::Plus => (BinaryOp::Add, 10),
        P::Minus => (BinaryOp::Sub, 10),
        P::Star => (BinaryOp::Mul, 11),
        P::Slash => (BinaryOp::Div, 11),
        P::Percent => (BinaryOp::Mod, 11),
        _ => return None,
    })
}

fn assign_op(punct: P) -> Option<Option<BinaryOp>> {
    Some(match punct {
        P::Assign => None,
        P::AddEq => Some(BinaryOp::Add),
        P::SubEq => Some(BinaryOp::Sub),
        P::MulEq => Some(BinaryOp::Mul),
        P::DivEq => Some(BinaryOp::Div),
        P::ModEq => Some(BinaryOp::Mod),
        P::AndEq => Some(BinaryOp::BitAnd),
        P::XorEq => Some(BinaryOp::BitXor),
        P::OrEq => Some(BinaryOp::BitOr),
        P::ShlEq => Some(BinaryOp::Shl),
        P::ShrEq => Some(BinaryOp::Shr),
        _ => return None,
    })
}

fn unary_op(punct: P) -> Option<UnaryOp> {
    Some(match punct {
        P::Plus => UnaryOp::Plus,
        P::Minus => UnaryOp::Neg,
        P::Bang => UnaryOp::Not,
        P::Tilde => UnaryOp::BitNot,
        P::Star => UnaryOp::Deref,
        P::Amp => UnaryOp::AddrOf,
        P::Inc => UnaryOp::PreInc,
        P::Dec => UnaryOp::PreDec,
        _ => return None,
    })
}

/// A left operand and its operator.
struct Waiting {
    left: Expr,
    height: u32,
    op: BinaryOp,
    op_span: Span,
    strength: u8,
}

/// Splits `` mod`sym `` at its last backquote.
pub(super) fn symbol(text: &str) -> Symbol {
    match text.rsplit_once('`') {
        Some((scope, name)) => Symbol { scope: scope.into(), name: name.into() },
        None => Symbol { scope: String::new(), name: text.into() },
    }
}

impl Parser<'_> {
    /// An expression, commas included.
    pub(super) fn expression(&mut self) -> Parsed<Expr> {
        let mut left = self.assignment()?;
        while self.eat(P::Comma) {
            let height = self.height;
            let right = self.assignment()?;
            let span = left.span.to(right.span);
            let kind = ExprKind::Comma { left: Box::new(left), right: Box::new(right) };
            left = self.node(kind, span, height.max(self.height))?;
        }
        Ok(left)
    }

    /// An expression without commas outside of brackets.
    pub(super) fn assignment(&mut self) -> Parsed<Expr> {
        self.enter()?;
        let result = self.assignment_inner();
        self.nest -= 1;
        result
    }

    fn assignment_inner(&mut self) -> Parsed<Expr> {
        let target = self.ternary()?;
        let Tok::Punct(punct) = self.tok().kind else { return Ok(target) };
        let Some(op) = assign_op(punct) else { return Ok(target) };
        let height = self.height;
        let op_span = self.bump().span;
        if let ExprKind::Ident(name) = &target.kind {
            self.idents.insert(name.clone());
        }
        let value = self.assignment()?;
        let span = target.span.to(value.span);
        let kind = ExprKind::Assign { op, op_span, target: Box::new(target), value: Box::new(value) };
        self.node(kind, span, height.max(self.height))
    }

    /// An expression without assignments and commas outside of brackets.
    pub(super) fn ternary(&mut self) -> Parsed<Expr> {
        let cond = self.binary()?;
        if !self.is(P::Question) {
            return Ok(cond);
        }
        self.enter()?;
        let result = self.ternary_rest(cond);
        self.nest -= 1;
        result
    }

    fn ternary_rest(&mut self, cond: Expr) -> Parsed<Expr> {
        let mut height = self.height;
        self.bump();
        let then = self.expression()?;
        height = height.max(self.height);
        self.expect(P::Colon, "of the conditional operator")?;
        let otherwise = self.ternary()?;
        height = height.max(self.height);
        let span = cond.span.to(otherwise.span);
        let kind = ExprKind::Ternary { cond: Box::new(cond), then: Box::new(then), otherwise: Box::new(otherwise) };
        self.node(kind, span, height)
    }

    /// Operands and binary operators. The operators that wait for their right operand are on a list, not on the
    /// stack: recursion over eleven precedences at every parenthesis would cost much of it.
    fn binary(&mut self) -> Parsed<Expr> {
        let mut waiting: Vec<Waiting> = Vec::new();
        let mut right = self.unary()?;
        loop {
            let next = self.binary_operator();
            let strength = next.map_or(0, |(_, strength)| strength);
            while let Some(Waiting { left, height, op, op_span, .. }) = waiting.pop_if(|w| w.strength >= strength) {
                let span = left.span.to(right.span);
                let kind = ExprKind::Binary { op, op_span, left: Box::new(left), right: Box::new(right) };
                right = self.node(kind, span, height.max(self.height))?;
            }
            let Some((op, strength)) = next else { return Ok(right) };
            let height = self.height;
            let op_span = self.bump().span;
            waiting.push(Waiting { left: right, height, op, op_span, strength });
            right = self.unary()?;
        }
    }

    fn binary_operator(&mut self) -> Option<(BinaryOp, u8)> {
        let Tok::Punct(punct) = self.tok().kind else { return None };
        let found = binary_op(punct)?;
        if punct == P::Slash && self.slash_closes() { None } else { Some(found) }
    }

    fn unary(&mut self) -> Parsed<Expr> {
        self.enter()?;
        let result = self.unary_inner();
        self.nest -= 1;
        result
    }

    fn unary_inner(&mut self) -> Parsed<Expr> {
        let lo = self.tok().span;
        match &self.tok().kind {
            Tok::Punct(punct) => {
                if let Some(op) = unary_op(*punct) {
                    self.bump();
                    let operand = self.unary()?;
                    let span = lo.to(operand.span);
                    return self.node(ExprKind::Unary { op, operand: Box::new(operand) }, span, self.height);
                }
                if *punct == P::LParen && self.starts_cast() {
                    return self.cast();
                }
                self.postfix()
            }
            Tok::Ident(word) => match word.as_str() {
                "sizeof" => self.sizeof(),
                "stringof" => {
                    self.bump();
                    let operand = self.unary()?;
                    let span = lo.to(operand.span);
                    self.node(ExprKind::Stringof(Box::new(operand)), span, self.height)
                }
                _ => self.postfix(),
            },
            _ => self.postfix(),
        }
    }

    fn cast(&mut self) -> Parsed<Expr> {
        let lo = self.bump().span;
        let (ty, type_height) = self.bracketed(Self::type_name)?;
        self.expect(P::RParen, "after the type")?;
        let operand = self.unary()?;
        let span = lo.to(operand.span);
        let kind = ExprKind::Cast { ty: Box::new(ty), operand: Box::new(operand) };
        self.node(kind, span, self.height.max(type_height))
    }

    fn sizeof(&mut self) -> Parsed<Expr> {
        let lo = self.bump().span;
        if self.is(P::LParen) && self.starts_type(1) {
            self.bump();
            let (ty, height) = self.bracketed(Self::type_name)?;
            let hi = self.expect(P::RParen, "after the type")?;
            return self.node(ExprKind::SizeofType(Box::new(ty)), lo.to(hi), height);
        }
        let operand = self.unary()?;
        let span = lo.to(operand.span);
        self.node(ExprKind::SizeofExpr(Box::new(operand)), span, self.height)
    }

    /// Whether the `(` that is the current token begins a cast.
    fn starts_cast(&mut self) -> bool {
        if self.starts_type(1) {
            return true;
        }
        let Tok::Ident(word) = self.peek(1).kind else { return false };
        if token::is_keyword(&word) {
            return false;
        }
        // `(x *)` and `(x **)` are no expressions, and neither is `(x)` in front of an operand.
        let mut n = 2;
        while n < 8 && self.peek(n).kind == Tok::Punct(P::Star) {
            n += 1;
        }
        if self.peek(n).kind != Tok::Punct(P::RParen) {
            return false;
        }
        let next = self.peek(n + 1).kind;
        n > 2 || matches!(next, Tok::Int(_) | Tok::Char(_) | Tok::Float(_) | Tok::Str(_) | Tok::Ident(_) | Tok::Agg(_))
    }

    fn postfix(&mut self) -> Parsed<Expr> {
        let mut expr = self.primary()?;
        loop {
            let Tok::Punct(punct) = self.tok().kind else { return Ok(expr) };
            let height = self.height;
            match punct {
                P::LBracket => {
                    self.bump();
                    let (keys, keys_height) = self.list(P::RBracket)?;
                    let hi = self.expect(P::RBracket, "after the index")?;
                    if keys.is_empty() {
                        let diag = Diagnostic::error(tags::D_SYNTAX, hi, "expected an index between `[` and `]`");
                        return Err(self.fail(diag));
                    }
                    let span = expr.span.to(hi);
                    let kind = ExprKind::Index { base: Box::new(expr), keys };
                    expr = self.node(kind, span, height.max(keys_height))?;
                }
                P::LParen => expr = self.call(expr)?,
                P::Dot | P::Arrow => {
                    self.bump();
                    let member = self.member_name()?;
                    let span = expr.span.to(member.span);
                    let base = Box::new(expr);
                    let kind = if punct == P::Dot {
                        ExprKind::Member { base, member }
                    } else {
                        ExprKind::Arrow { base, member }
                    };
                    expr = self.node(kind, span, height)?;
                }
                P::Inc | P::Dec => {
                    let op = if punct == P::Inc { UnaryOp::PostInc } else { UnaryOp::PostDec };
                    let hi = self.bump().span;
                    let span = expr.span.to(hi);
                    if let ExprKind::Ident(name) = &expr.kind {
                        self.idents.insert(name.clone());
                    }
                    expr = self.node(ExprKind::Unary { op, operand: Box::new(expr) }, span, height)?;
                }
                _ => return Ok(expr),
            }
        }
    }

    fn call(&mut self, function: Expr) -> Parsed<Expr> {
        let name = match function.kind {
            ExprKind::Ident(text) if function.parens == 0 => Name { text, span: function.span },
            _ => {
                let message = "only a function's name can stand in front of `(`";
                return Err(self.fail(Diagnostic::error(tags::D_FUNC_IDENT, function.span, message)));
            }
        };
        self.bump();
        let (args, height) = self.list(P::RParen)?;
        let hi = self.expect(P::RParen, "or `,` after the argument")?;
        let span = name.span.to(hi);
        self.node(ExprKind::Call { name, args }, span, height)
    }

    /// Expressions with commas between them up to a closing bracket, which is not taken.
    fn list(&mut self, close: P) -> Parsed<(Vec<Expr>, u32)> {
        self.bracketed(|parser| {
            let mut list = Vec::new();
            let mut height = 0;
            if parser.is(close) {
                return Ok((list, height));
            }
            loop {
                list.push(parser.assignment()?);
                height = height.max(parser.height);
                if !parser.eat(P::Comma) {
                    return Ok((list, height));
                }
            }
        })
    }

    fn primary(&mut self) -> Parsed<Expr> {
        self.height = 0;
        let span = self.tok().span;
        let kind = match &self.tok().kind {
            Tok::Int(int) => ExprKind::Int(*int),
            Tok::Char(char) => ExprKind::Char(*char),
            Tok::Float(float) => ExprKind::Float(*float),
            Tok::Str(bytes) => ExprKind::String(bytes.clone()),
            Tok::Macro(name) => ExprKind::Macro(name.clone()),
            Tok::Agg(_) => return self.aggregation(),
            Tok::Punct(P::LParen) => return self.parenthesised(),
            Tok::Ident(word) => {
                let word = word.clone();
                return self.word(word, span);
            }
            Tok::Unknown => {
                let message = match self.lx.text.get(span.range()) {
                    Some("\u{fffd}") => "this byte is not part of any UTF-8 character".to_string(),
                    found => format!("`{}` has no meaning in D", found.unwrap_or("").escape_debug()),
                };
                return Err(self.fail(Diagnostic::error(tags::D_SYNTAX, span, message)));
            }
            Tok::Eof | Tok::Punct(_) => return Err(self.expected("an expression")),
        };
        self.bump();
        self.node(kind, span, 0)
    }

    fn parenthesised(&mut self) -> Parsed<Expr> {
        let lo = self.bump().span;
        let mut expr = self.bracketed(Self::expression)?;
        let hi = self.expect(P::RParen, "to close the parenthesis")?;
        expr.span = lo.to(hi);
        expr.parens = expr.parens.saturating_add(1);
        Ok(expr)
    }

    fn aggregation(&mut self) -> Parsed<Expr> {
        let token = self.bump();
        let Tok::Agg(name) = token.kind else { return Err(Failed) };
        let mut span = token.span;
        let mut keys = None;
        let mut height = 0;
        if self.eat(P::LBracket) {
            let (list, list_height) = self.list(P::RBracket)?;
            let hi = self.expect(P::RBracket, "or `,` after the key")?;
            if list.is_empty() {
                let diag = Diagnostic::error(tags::D_SYNTAX, hi, "expected a key between `[` and `]`")
                    .help("an aggregation without keys has no brackets");
                return Err(self.fail(diag));
            }
            span = span.to(hi);
            height = list_height;
            keys = Some(list);
        }
        self.node(ExprKind::Aggregation(AggRef { name, name_span: token.span, keys }), span, height)
    }

    /// An expression that begins with a word.
    fn word(&mut self, word: String, span: Span) -> Parsed<Expr> {
        match word.as_str() {
            "self" | "this" => {
                self.bump();
                self.expect(P::Arrow, &format!("after `{word}`"))?;
                let name = self.member_name()?;
                let span = span.to(name.span);
                let kind = if word == "self" { ExprKind::SelfVar(name) } else { ExprKind::ThisVar(name) };
                self.node(kind, span, 0)
            }
            "offsetof" => self.offsetof(),
            "xlate" => self.xlate(),
            // Also the action that overrides a function's return value.
            "return" if self.peek(1).kind == Tok::Punct(P::LParen) => {
                self.bump();
                self.node(ExprKind::Ident(word), span, 0)
            }
            _ if token::is_keyword(&word) => {
                let message = format!("expected an expression, found the reserved word `{word}`");
                Err(self.fail(Diagnostic::error(tags::D_SYNTAX, span, message)))
            }
            _ => {
                self.bump();
                let kind = if word.contains('`') { ExprKind::Symbol(symbol(&word)) } else { ExprKind::Ident(word) };
                self.node(kind, span, 0)
            }
        }
    }

    fn offsetof(&mut self) -> Parsed<Expr> {
        let lo = self.bump().span;
        self.expect(P::LParen, "after `offsetof`")?;
        let (ty, height) = self.bracketed(Self::type_name)?;
        self.expect(P::Comma, "after the type")?;
        let mut members = vec![self.member_name()?];
        while self.eat(P::Dot) {
            members.push(self.member_name()?);
        }
        let hi = self.expect(P::RParen, "after the member")?;
        self.node(ExprKind::Offsetof { ty: Box::new(ty), members }, lo.to(hi), height)
    }

    fn xlate(&mut self) -> Parsed<Expr> {
        let lo = self.bump().span;
        self.expect(P::Lt, "after `xlate`")?;
        let (ty, type_height) = self.bracketed(Self::type_name)?;
        self.expect(P::Gt, "after the type")?;
        self.expect(P::LParen, "after `xlate <…>`")?;
        let operand = self.bracketed(Self::expression)?;
        let hi = self.expect(P::RParen, "after the expression")?;
        let height = self.height.max(type_height);
        self.node(ExprKind::Xlate { ty: Box::new(ty), operand: Box::new(operand) }, lo.to(hi), height)
    }

    /// An expression one level above its highest part.
    fn node(&mut self, kind: ExprKind, span: Span, parts: u32) -> Parsed<Expr> {
        if parts >= MAX_DEPTH {
            return Err(self.too_deep());
        }
        self.height = parts + 1;
        Ok(Expr::new(kind, span))
    }
}
