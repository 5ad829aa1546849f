//! Subroutines in random programs: those whose result is a matter of their operands and always there.

use super::Gen;
use probity_ir::{Expr, Sub};

impl Gen {
    /// A subroutine that gives a number.
    pub(super) fn sub_number(&mut self) -> Expr {
        let sub = self.rng.pick(&[Sub::Swap2, Sub::Swap4, Sub::Swap8, Sub::Index, Sub::Rindex]);
        let args = match sub {
            Sub::Index | Sub::Rindex => {
                let mut args = vec![self.string(1), self.string(0)];
                if self.rng.chance(50) {
                    args.push(self.int(1));
                }
                args
            }
            _ => vec![self.int(1)],
        };
        Expr::Sub { sub, args, cap: 0 }
    }

    /// A subroutine that gives a string.
    pub(super) fn sub_text(&mut self) -> Expr {
        use Sub::{Basename, Cleanpath, Dirname, Lower, Rest, Strip, Substr, Upper};
        let sub = self.rng.pick(&[Basename, Cleanpath, Dirname, Lower, Rest, Strip, Substr, Upper]);
        let mut args = vec![self.string(1)];
        match sub {
            Rest => args.push(self.string(0)),
            Substr => {
                args.push(self.int(1));
                if self.rng.chance(50) {
                    args.push(self.int(1));
                }
            }
            _ => {}
        }
        Expr::Sub { sub, args, cap: self.rng.pick(&[2, 8, 33, 64, 256]) }
    }
}
