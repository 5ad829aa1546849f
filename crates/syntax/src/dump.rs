//! The tree as text, in parentheses, one item or statement a line: for tests and for people who look at what the
//! parser made of a program. Nothing reads it back.

use std::fmt::Write;

use crate::ast::{
    Block, Clause, DeclSpecs, Declaration, Declarator, Derivation, Expr, ExprKind, Item, Param, PragmaKind, ProbeSpec,
    ProbeSpecKind, Program, Quals, Stmt, StmtKind, Storage, Symbol, Tag, TypeName, TypeSpecKind,
};

/// The whole program.
pub fn dump(program: &Program) -> String {
    let mut out = String::new();
    for item in &program.items {
        self::item(&mut out, item);
    }
    if !program.args_used.is_empty() {
        line(&mut out, 0, &format!("(args {})", join(&program.args_used, |arg| format!("${arg}"))));
    }
    out
}

fn line(out: &mut String, depth: usize, text: &str) {
    for _ in 0..depth {
        out.push_str("  ");
    }
    out.push_str(text);
    out.push('\n');
}

fn join<T>(list: &[T], show: impl Fn(&T) -> String) -> String {
    list.iter().map(show).collect::<Vec<_>>().join(" ")
}

fn item(out: &mut String, item: &Item) {
    match item {
        Item::Clause(clause) => self::clause(out, clause),
        Item::Declaration(decl) => line(out, 0, &declaration(decl)),
        Item::Inline(inline) => {
            let text =
                format!("(inline {} {} {})", specs(&inline.specs), declarator(&inline.declarator), expr(&inline.value));
            line(out, 0, &text);
        }
        Item::Translator(xlator) => {
            let (output, input, name) = (type_name(&xlator.output), type_name(&xlator.input), &xlator.input_name.text);
            line(out, 0, &format!("(translator {output} {input} {name}"));
            for member in &xlator.members {
                line(out, 1, &format!("(= {} {})", member.name.text, expr(&member.value)));
            }
            line(out, 0, ")");
        }
        Item::Provider(provider) => {
            line(out, 0, &format!("(provider {}", provider.name.text));
            for probe in &provider.probes {
                let translated = probe.translated.as_ref().map_or(String::new(), |p| format!(" : ({})", params(p)));
                line(out, 1, &format!("(probe {} ({}){translated})", probe.name.text, params(&probe.native)));
            }
            line(out, 0, ")");
        }
        Item::Pragma(pragma) => line(out, 0, &self::pragma(&pragma.kind)),
    }
}

fn pragma(kind: &PragmaKind) -> String {
    match kind {
        PragmaKind::Option { name, value: None } => format!("(option {})", name.text),
        PragmaKind::Option { name, value: Some(value) } => format!("(option {} {:?})", name.text, value.text),
        PragmaKind::Attributes { attributes, subject } => {
            format!("(attributes {} {})", attributes.text, join(subject, |word| word.text.clone()))
        }
        PragmaKind::Binding { version, name } => format!("(binding {:?} {})", version.text, name.text),
        PragmaKind::DependsOn { class, name } => format!("(depends_on {} {})", class.text, name.text),
        PragmaKind::Error(text) => format!("(error {text:?})"),
    }
}

fn clause(out: &mut String, clause: &Clause) {
    line(out, 0, "(clause");
    for spec in &clause.probes {
        line(out, 1, &probe_spec(spec));
    }
    if let Some(predicate) = &clause.predicate {
        line(out, 1, &format!("(predicate {})", expr(predicate)));
    }
    match &clause.body {
        Some(body) => block(out, 1, "body", body),
        None => line(out, 1, "(no body)"),
    }
    line(out, 0, ")");
}

fn probe_spec(spec: &ProbeSpec) -> String {
    match &spec.kind {
        ProbeSpecKind::Id(id) => format!("(id {id})"),
        ProbeSpecKind::IdRange(first, last) => format!("(id {first} {last})"),
        ProbeSpecKind::Fields { provider, module, function, name } => {
            format!("(probe {:?} {:?} {:?} {:?})", provider.text, module.text, function.text, name.text)
        }
    }
}

fn block(out: &mut String, depth: usize, head: &str, block: &Block) {
    if block.stmts.is_empty() {
        return line(out, depth, &format!("({head})"));
    }
    line(out, depth, &format!("({head}"));
    for stmt in &block.stmts {
        statement(out, depth + 1, stmt);
    }
    line(out, depth, ")");
}

fn statement(out: &mut String, depth: usize, stmt: &Stmt) {
    match &stmt.kind {
        StmtKind::Expr(e) => line(out, depth, &expr(e)),
        StmtKind::Declaration(decl) => line(out, depth, &declaration(decl)),
        StmtKind::Block(inner) => block(out, depth, "block", inner),
        StmtKind::If { cond, then, otherwise } => {
            line(out, depth, &format!("(if {}", expr(cond)));
            block(out, depth + 1, "then", then);
            if let Some(otherwise) = otherwise {
                block(out, depth + 1, "else", otherwise);
            }
            line(out, depth, ")");
        }
    }
}

fn symbol(symbol: &Symbol) -> String {
    if symbol.scope.is_empty() { symbol.name.clone() } else { format!("{}`{}", symbol.scope, symbol.name) }
}

fn exprs(list: &[Expr]) -> String {
    let mut out = String::new();
    for e in list {
        let _ = write!(out, " {}", expr(e));
    }
    out
}

/// One expression.
pub fn expr(e: &Expr) -> String {
    match &e.kind {
        ExprKind::Int(int) => {
            let sign = if int.negative { "-" } else { "" };
            let longs = "l".repeat(int.longs as usize);
            format!("{sign}{}{}{longs}", int.value, if int.unsigned { "u" } else { "" })
        }
        ExprKind::Char(char) => format!("(char {:#x})", char.value),
        ExprKind::Float(float) => format!("{:?}", float.value),
        ExprKind::String(bytes) => format!("\"{}\"", bytes.escape_ascii()),
        ExprKind::Ident(name) => name.clone(),
        ExprKind::SelfVar(name) => format!("self->{}", name.text),
        ExprKind::ThisVar(name) => format!("this->{}", name.text),
        ExprKind::Symbol(symbol) => format!("{}`{}", symbol.scope, symbol.name),
        ExprKind::Aggregation(agg) => match &agg.keys {
            Some(keys) => format!("(@{}{})", agg.name, exprs(keys)),
            None => format!("@{}", agg.name),
        },
        ExprKind::Macro(name) => format!("{}{}", if name.quoted { "$$" } else { "$" }, name.name),
        ExprKind::Call { name, args } => format!("(call {}{})", name.text, exprs(args)),
        ExprKind::Index { base, keys } => format!("(index {}{})", expr(base), exprs(keys)),
        ExprKind::Member { base, member } => format!("(. {} {})", expr(base), member.text),
        ExprKind::Arrow { base, member } => format!("(-> {} {})", expr(base), member.text),
        ExprKind::Unary { op, operand } => {
            let post =
                if matches!(op, crate::ast::UnaryOp::PostInc | crate::ast::UnaryOp::PostDec) { "post" } else { "" };
            format!("({post}{} {})", op.text(), expr(operand))
        }
        ExprKind::Binary { op, left, right, .. } => format!("({} {} {})", op.text(), expr(left), expr(right)),
        ExprKind::Assign { op, target, value, .. } => {
            format!("({}= {} {})", op.map_or("", |op| op.text()), expr(target), expr(value))
        }
        ExprKind::Ternary { cond, then, otherwise } => {
            format!("(? {} {} {})", expr(cond), expr(then), expr(otherwise))
        }
        ExprKind::Comma { left, right } => format!("(, {} {})", expr(left), expr(right)),
        ExprKind::Cast { ty, operand } => format!("(cast {} {})", type_name(ty), expr(operand)),
        ExprKind::SizeofExpr(operand) => format!("(sizeof {})", expr(operand)),
        ExprKind::SizeofType(ty) => format!("(sizeof {})", type_name(ty)),
        ExprKind::Stringof(operand) => format!("(stringof {})", expr(operand)),
        ExprKind::Offsetof { ty, members } => {
            format!("(offsetof {} {})", type_name(ty), join(members, |m| m.text.clone()))
        }
        ExprKind::Xlate { ty, operand } => format!("(xlate {} {})", type_name(ty), expr(operand)),
        ExprKind::Error => "(error)".into(),
    }
}

fn declaration(decl: &Declaration) -> String {
    let mut out = format!("(declare {}", specs(&decl.specs));
    for d in &decl.declarators {
        let _ = write!(out, " {}", declarator(d));
    }
    out.push(')');
    out
}

fn quals(quals: &Quals) -> String {
    let names = [
        (quals.is_const, "const "),
        (quals.is_volatile, "volatile "),
        (quals.is_restrict, "restrict "),
        (quals.is_userland, "userland "),
    ];
    names.iter().filter(|(is_set, _)| *is_set).map(|(_, name)| *name).collect()
}

fn tag(tag: &Option<Tag>) -> String {
    tag.as_ref().map_or(String::new(), |tag| format!(" {}", symbol(&tag.symbol)))
}

fn specs(specs: &DeclSpecs) -> String {
    let storage = match specs.storage {
        None => "",
        Some((Storage::Auto, _)) => "auto ",
        Some((Storage::Register, _)) => "register ",
        Some((Storage::Static, _)) => "static ",
        Some((Storage::Extern, _)) => "extern ",
        Some((Storage::Typedef, _)) => "typedef ",
        Some((Storage::SelfVar, _)) => "self ",
        Some((Storage::This, _)) => "this ",
    };
    let ty = match &specs.ty.kind {
        TypeSpecKind::Basic(basic) => format!("{basic:?}").to_lowercase(),
        TypeSpecKind::Named(name) => symbol(name),
        TypeSpecKind::Implicit => "implicit".into(),
        TypeSpecKind::Aggregate(aggregate) => {
            let mut out = format!("({}{}", if aggregate.is_union { "union" } else { "struct" }, tag(&aggregate.tag));
            if let Some(members) = &aggregate.members {
                out.push_str(" {");
                for member in members {
                    let _ = write!(out, " ({}", self::specs(&member.specs));
                    for d in &member.declarators {
                        let _ = write!(out, " {}", declarator(&d.declarator));
                        if let Some(width) = &d.width {
                            let _ = write!(out, ":{}", expr(width));
                        }
                    }
                    out.push(')');
                }
                out.push_str(" }");
            }
            out.push(')');
            out
        }
        TypeSpecKind::Enum(spec) => {
            let mut out = format!("(enum{}", tag(&spec.tag));
            if let Some(enumerators) = &spec.enumerators {
                out.push_str(" {");
                for e in enumerators {
                    let _ = write!(out, " {}", e.name.text);
                    if let Some(value) = &e.value {
                        let _ = write!(out, "={}", expr(value));
                    }
                }
                out.push_str(" }");
            }
            out.push(')');
            out
        }
    };
    format!("{storage}{}{ty}", quals(&specs.quals))
}

/// `name: outermost derivation … innermost`, read from the name as C's declarations are.
fn declarator(d: &Declarator) -> String {
    let mut out = d.name.as_ref().map_or("_".to_string(), |name| name.text.clone());
    for derivation in d.derivations.iter().rev() {
        match derivation {
            Derivation::Pointer(q) => {
                let _ = write!(out, "{}*", quals(q));
            }
            Derivation::Array(None) => out.push_str("[]"),
            Derivation::Array(Some(size)) => {
                let _ = write!(out, "[{}]", expr(size));
            }
            Derivation::Tuple(list) => {
                let _ = write!(out, "[({})]", params(list));
            }
            Derivation::Function { params: list, varargs, void_only } => {
                let tail = if *varargs {
                    " ..."
                } else if *void_only {
                    "void"
                } else {
                    ""
                };
                let _ = write!(out, "({}{tail})", params(list));
            }
        }
    }
    out
}

fn params(list: &[Param]) -> String {
    list.iter().map(|p| format!("{} {}", specs(&p.specs), declarator(&p.declarator))).collect::<Vec<_>>().join(", ")
}

fn type_name(ty: &TypeName) -> String {
    format!("<{} {}>", specs(&ty.specs), declarator(&ty.declarator))
}
