//! Which operators have two operands: `-` and `*` look alike with one.

use crate::ast::{
    Block, DeclSpecs, Declarator, Derivation, Expr, ExprKind, Item, Program, Stmt, StmtKind, TypeName, TypeSpecKind,
};
use std::collections::HashSet;

/// The places of all operators with two operands, assignments among them.
pub(super) fn binary(program: &Program) -> HashSet<u32> {
    let mut found = Finder(HashSet::new());
    for item in &program.items {
        match item {
            Item::Clause(clause) => {
                clause.predicate.iter().for_each(|e| found.expr(e));
                clause.body.iter().for_each(|b| found.block(b));
            }
            Item::Declaration(decl) => {
                found.specs(&decl.specs);
                decl.declarators.iter().for_each(|d| found.declarator(d));
            }
            Item::Inline(inline) => {
                found.specs(&inline.specs);
                found.declarator(&inline.declarator);
                found.expr(&inline.value);
            }
            Item::Translator(t) => {
                found.type_name(&t.output);
                found.type_name(&t.input);
                t.members.iter().for_each(|m| found.expr(&m.value));
            }
            Item::Provider(p) => {
                for params in p.probes.iter().flat_map(|p| std::iter::once(&p.native).chain(&p.translated)) {
                    for param in params {
                        found.specs(&param.specs);
                        found.declarator(&param.declarator);
                    }
                }
            }
            Item::Pragma(_) => {}
        }
    }
    found.0
}

struct Finder(HashSet<u32>);

impl Finder {
    fn block(&mut self, block: &Block) {
        block.stmts.iter().for_each(|s| self.stmt(s));
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match &stmt.kind {
            StmtKind::Expr(e) => self.expr(e),
            StmtKind::Declaration(decl) => {
                self.specs(&decl.specs);
                decl.declarators.iter().for_each(|d| self.declarator(d));
            }
            StmtKind::Block(block) => self.block(block),
            StmtKind::If { cond, then, otherwise } => {
                self.expr(cond);
                self.block(then);
                otherwise.iter().for_each(|b| self.block(b));
            }
        }
    }

    fn type_name(&mut self, ty: &TypeName) {
        self.specs(&ty.specs);
        self.declarator(&ty.declarator);
    }

    fn specs(&mut self, specs: &DeclSpecs) {
        match &specs.ty.kind {
            TypeSpecKind::Aggregate(spec) => {
                for member in spec.members.iter().flatten() {
                    self.specs(&member.specs);
                    for d in &member.declarators {
                        self.declarator(&d.declarator);
                        d.width.iter().for_each(|e| self.expr(e));
                    }
                }
            }
            TypeSpecKind::Enum(spec) => {
                spec.enumerators.iter().flatten().filter_map(|e| e.value.as_ref()).for_each(|e| self.expr(e));
            }
            TypeSpecKind::Basic(_) | TypeSpecKind::Named(_) | TypeSpecKind::Implicit => {}
        }
    }

    fn declarator(&mut self, declarator: &Declarator) {
        for derivation in &declarator.derivations {
            match derivation {
                Derivation::Pointer(_) | Derivation::Array(None) => {}
                Derivation::Array(Some(e)) => self.expr(e),
                Derivation::Tuple(params) | Derivation::Function { params, .. } => {
                    for param in params {
                        self.specs(&param.specs);
                        self.declarator(&param.declarator);
                    }
                }
            }
        }
    }

    fn expr(&mut self, e: &Expr) {
        match &e.kind {
            ExprKind::Binary { op_span, left, right, .. } => {
                self.0.insert(op_span.lo);
                self.expr(left);
                self.expr(right);
            }
            ExprKind::Assign { op_span, target, value, .. } => {
                self.0.insert(op_span.lo);
                self.expr(target);
                self.expr(value);
            }
            ExprKind::Aggregation(agg) => agg.keys.iter().flatten().for_each(|e| self.expr(e)),
            ExprKind::Call { args, .. } => args.iter().for_each(|e| self.expr(e)),
            ExprKind::Index { base, keys } => {
                self.expr(base);
                keys.iter().for_each(|e| self.expr(e));
            }
            ExprKind::Member { base, .. } | ExprKind::Arrow { base, .. } => self.expr(base),
            ExprKind::Unary { operand, .. } => self.expr(operand),
            ExprKind::Ternary { cond, then, otherwise } => {
                self.expr(cond);
                self.expr(then);
                self.expr(otherwise);
            }
            ExprKind::Comma { left, right } => {
                self.expr(left);
                self.expr(right);
            }
            ExprKind::Cast { ty, operand } | ExprKind::Xlate { ty, operand } => {
                self.type_name(ty);
                self.expr(operand);
            }
            ExprKind::SizeofExpr(e) | ExprKind::Stringof(e) => self.expr(e),
            ExprKind::SizeofType(ty) | ExprKind::Offsetof { ty, .. } => self.type_name(ty),
            _ => {}
        }
    }
}
