//! Values that a signature describes: what is computed from locations becomes operators, the rest stays a location.

use super::clause::ClauseLower;
use probity_ir::{BinOp, Expr, ExprId, Location, Test};

/// Whether a location is one that only signatures have.
fn computed(place: &Location) -> bool {
    match place {
        Location::Masked { .. } | Location::Case { .. } => true,
        Location::Narrow { of, .. } => computed(of),
        _ => false,
    }
}

impl ClauseLower<'_> {
    /// The value at a place of the firing's context.
    pub(super) fn place(&mut self, place: &Location) -> ExprId {
        match place {
            Location::Masked { of, mask } => {
                let (of, mask) = (self.place(of), self.constant(*mask));
                self.add(Expr::Bin(BinOp::And, of, mask))
            }
            Location::Case { test, then, otherwise } => {
                let (cond, then, otherwise) = (self.test(test), self.place(then), self.place(otherwise));
                self.add(Expr::Cond(cond, then, otherwise))
            }
            Location::Narrow { of, size, signed } if computed(of) => {
                let of = self.place(of);
                self.add(Expr::Ext { of, size: *size, signed: *signed })
            }
            _ => self.add(Expr::Loc(place.clone())),
        }
    }

    /// Whether a condition holds: 0 or 1.
    pub(super) fn test(&mut self, test: &Test) -> ExprId {
        match test {
            Test::Within { value, low, high } if low == high => {
                let (value, wanted) = (self.place(value), self.constant(*low));
                self.add(Expr::Bin(BinOp::Eq, value, wanted))
            }
            Test::Within { value, low, high } => {
                let value = self.place(value);
                let least = (*low != i64::MIN).then(|| {
                    let low = self.constant(*low);
                    self.add(Expr::Bin(BinOp::LeS, low, value))
                });
                let most = (*high != i64::MAX).then(|| {
                    let high = self.constant(*high);
                    self.add(Expr::Bin(BinOp::LeS, value, high))
                });
                match (least, most) {
                    (Some(a), Some(b)) => self.add(Expr::And(a, b)),
                    (Some(one), None) | (None, Some(one)) => one,
                    (None, None) => self.constant(1),
                }
            }
            Test::Less { a, b } => {
                let (a, b) = (self.place(a), self.place(b));
                self.add(Expr::Bin(BinOp::LtS, a, b))
            }
            Test::All(tests) => self.joined(tests, Expr::And, 1),
            Test::Any(tests) => self.joined(tests, Expr::Or, 0),
        }
    }

    fn joined(&mut self, tests: &[Test], join: fn(ExprId, ExprId) -> Expr, none: i64) -> ExprId {
        let mut all: Option<ExprId> = None;
        for test in tests {
            let next = self.test(test);
            all = Some(match all {
                Some(before) => self.add(join(before, next)),
                None => next,
            });
        }
        all.unwrap_or_else(|| self.constant(none))
    }
}
