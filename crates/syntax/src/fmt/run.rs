//! Tokens of an expression or declaration in a row: what is between two of them.

use super::Printer;
use crate::span::Span;
use crate::token::{self, P, Tok, Token};

/// What a token is to its neighbours.
#[derive(Clone, Copy, PartialEq)]
enum Role {
    /// Stands in front of an operand without a space: unary operators, the stars of declarators.
    Prefix,
    /// Has a space on both sides.
    Infix,
    /// A name, constant or keyword.
    Word,
    Open,
    Close,
    /// `,` and `;`
    Separator,
    /// `.` and `->`
    Glue,
    /// `++` and `--` behind an operand.
    Postfix,
    /// The angle brackets of `xlate <T>`.
    Angle,
    BraceOpen,
    BraceClose,
}

/// A brace that is open in a declaration.
#[derive(Clone, Copy, PartialEq)]
enum Brace {
    /// Members, one a line.
    Lines,
    /// Enumerators on lines of their own.
    EnumLines,
    /// Enumerators in a row.
    EnumRow,
}

impl Printer<'_> {
    fn role(&self, token: &Token, before: Option<Role>, xlate: bool) -> Role {
        let binary = self.binary.contains(&token.span.lo);
        match &token.kind {
            Tok::Punct(punct) => match punct {
                P::LParen | P::LBracket => Role::Open,
                P::RParen | P::RBracket => Role::Close,
                P::LBrace => Role::BraceOpen,
                P::RBrace => Role::BraceClose,
                P::Comma | P::Semi => Role::Separator,
                P::Dot | P::Arrow => Role::Glue,
                P::Question | P::Colon | P::Assign => Role::Infix,
                _ if binary => Role::Infix,
                P::Inc | P::Dec if matches!(before, Some(Role::Word | Role::Close | Role::Postfix)) => Role::Postfix,
                P::Lt | P::Gt if xlate => Role::Angle,
                P::Lt | P::Gt | P::Ellipsis => Role::Infix,
                _ => Role::Prefix,
            },
            _ => Role::Word,
        }
    }

    /// Writes the tokens of a span.
    pub(super) fn run(&mut self, span: Span) {
        let mut pos = span.lo as usize;
        let mut before: Option<(Role, Token)> = None;
        let mut braces: Vec<Brace> = Vec::new();
        let (mut xlate, mut is_enum) = (0, false);
        // Lines that go on are indented once more.
        let mut broken = false;
        let outer = self.indent;
        loop {
            let token = self.lx.token(pos);
            if token.kind == Tok::Eof || token.span.lo >= span.hi {
                break;
            }
            pos = token.span.hi as usize;
            let word = match &token.kind {
                Tok::Ident(word) => word.as_str(),
                _ => "",
            };
            let role = self.role(&token, before.as_ref().map(|b| b.0), xlate > 0);
            self.trivia_in_run(token.span.lo, &mut broken, !braces.is_empty());
            let text = self.text[token.span.range()].to_string();
            // Members and enumerators begin lines of their own.
            if self.line_starts() {
                if !broken || role == Role::BraceClose {
                    self.indent = outer + braces.len() - usize::from(role == Role::BraceClose && !braces.is_empty());
                }
            } else if self.newlines(self.at, token.span.lo) > 0
                && before.is_some()
                && !matches!(role, Role::Separator | Role::BraceOpen | Role::BraceClose)
            {
                self.end_line();
                broken = true;
                self.indent = outer + braces.len() + 1;
            } else if let Some((role_before, last)) = &before
                && space(*role_before, last, role, &token)
            {
                self.out.push(' ');
            }
            if role == Role::BraceClose && !self.line_starts() && braces.last() != Some(&Brace::EnumRow) {
                self.end_line();
                self.indent = outer + braces.len().saturating_sub(1);
            }
            self.put(&text);
            self.at = token.span.hi;
            if xlate > 0 && matches!(token.kind, Tok::Punct(P::Gt)) {
                xlate -= 1;
            }
            match word {
                "xlate" => xlate += 2,
                "enum" => is_enum = true,
                "struct" | "union" | "translator" | "provider" => is_enum = false,
                _ => {}
            }
            match role {
                Role::BraceOpen => {
                    let brace = match is_enum {
                        true if self.enum_on_a_line(pos) => Brace::EnumRow,
                        true => Brace::EnumLines,
                        false => Brace::Lines,
                    };
                    braces.push(brace);
                    if brace != Brace::EnumRow {
                        self.out.push('\n');
                    }
                    (broken, is_enum) = (false, false);
                }
                Role::BraceClose => {
                    braces.pop();
                    broken = false;
                    self.indent = outer + braces.len();
                }
                Role::Separator => {
                    let ends = match braces.last() {
                        Some(Brace::Lines) => token.kind == Tok::Punct(P::Semi),
                        Some(Brace::EnumLines) => token.kind == Tok::Punct(P::Comma),
                        _ => false,
                    };
                    if ends {
                        self.out.push('\n');
                        broken = false;
                    }
                }
                _ => {}
            }
            before = Some((role, token));
        }
        self.indent = outer;
    }

    /// Whether the enumerators that begin at `pos` stand on one line.
    fn enum_on_a_line(&self, pos: usize) -> bool {
        let rest = &self.text[pos..];
        let inside = &rest[..rest.find('}').unwrap_or(rest.len())];
        !inside.contains('\n') && !inside.contains("/*") && !inside.contains("//")
    }

    fn trivia_in_run(&mut self, pos: u32, broken: &mut bool, members: bool) {
        while let Some(span) = self.trivia.get(self.done).copied().filter(|s| s.lo < pos) {
            let text = &self.text[span.range()];
            let inline = text.starts_with("/*") && !text.contains('\n') && self.newlines(self.at, span.lo) == 0;
            let ends_line = self.newlines(span.hi, pos) > 0;
            if inline && !ends_line && !self.line_starts() {
                if !self.out.ends_with([' ', '(', '[']) {
                    self.out.push(' ');
                }
                self.out.push_str(text);
                self.out.push(' ');
                self.at = span.hi;
                self.done += 1;
                continue;
            }
            let structured = self.line_starts();
            self.done += 1;
            self.one_trivia(span, members);
            if !structured && !*broken {
                *broken = true;
                self.indent += 1;
            }
        }
    }
}

/// Whether a space is between two tokens.
fn space(before: Role, last: &Token, role: Role, token: &Token) -> bool {
    use Role::*;
    let word = |t: &Token| match &t.kind {
        Tok::Ident(word) => word.clone(),
        _ => String::new(),
    };
    match (before, role) {
        (_, Separator) => false,
        (Separator, _) => true,
        (BraceOpen, _) | (_, BraceClose | BraceOpen) | (BraceClose, _) => true,
        (Open, _) | (_, Close) => false,
        // `2 .m` is no `2.m`.
        (_, Glue) => matches!(last.kind, Tok::Int(_)) && token.kind == Tok::Punct(P::Dot),
        (Glue, _) => false,
        (_, Postfix) => false,
        (Infix, _) | (_, Infix) => true,
        (Angle, Open) => false,
        (Angle, Angle) => false,
        (Angle, Word | Prefix) => matches!(last.kind, Tok::Punct(P::Gt)),
        (Word, Angle) => word(last) == "xlate",
        (_, Angle) => false,
        // `- -x` is not `--x`, `& &x` not `&&x`.
        (Prefix, Prefix) => matches!(
            (&last.kind, &token.kind),
            (Tok::Punct(P::Minus), Tok::Punct(P::Minus | P::Dec))
                | (Tok::Punct(P::Plus), Tok::Punct(P::Plus | P::Inc))
                | (Tok::Punct(P::Dec), Tok::Punct(P::Minus | P::Dec))
                | (Tok::Punct(P::Inc), Tok::Punct(P::Plus | P::Inc))
                | (Tok::Punct(P::Amp), Tok::Punct(P::Amp))
        ),
        (Prefix, _) => false,
        (Word, Open) => {
            // `f(x)`, `sizeof (x)`, `int (*f)(void)`, `a[i]`, `if (x)`
            let last = word(last);
            token.kind == Tok::Punct(P::LParen) && token::is_keyword(&last) && last != "return"
        }
        (Close, Open) => false,
        // A cast, and what it is of.
        (Close, Word | Prefix) => false,
        (Postfix, Open) => false,
        (Word | Postfix, Word | Prefix) => true,
    }
}
