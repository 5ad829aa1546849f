//! Actions on what is outside the program: the tracer's output and options, commands, and the process or kernel that is traced.

use super::names::Func;
use super::tree::*;
use super::{Checker, Res};
use probity_ir::{Ctx, KernelAct, Phase};
use probity_syntax::ast::{Expr, ExprKind};
use probity_syntax::{Diagnostic, Span, tags};

/// The longest `chill()`, in nanoseconds.
const MAX_CHILL: i64 = 500_000_000;
/// Linux's number of `SIGSTOP`, and the highest signal's.
const SIGSTOP: i64 = 19;
const SIGRTMAX: i64 = 64;

impl Checker<'_> {
    /// One of these actions; `None` where it is another.
    pub(super) fn outside(&mut self, func: &Func, args: &[Expr], span: Span) -> Option<Res<TAction>> {
        let name = func.name;
        let result = match name {
            "system" | "freopen" => self.recording(name, span).and_then(|()| self.command(name, args, span)),
            "ftruncate" => self.recording(name, span).map(|()| TAction::Ftruncate),
            "setopt" => self.recording(name, span).and_then(|()| self.setopt(args)),
            "pcap" => self.recording(name, span).and_then(|()| self.pcap(args, span)),
            "raise" => self.destructive(name, span).and_then(|()| self.raise(args, span)),
            "stop" => self.destructive(name, span).map(|()| {
                let signal = TExpr::int(SIGSTOP, self.basic.int, span);
                TAction::Kernel(KernelAct::Raise, vec![signal])
            }),
            "chill" => self.destructive(name, span).and_then(|()| self.chill(args)),
            "return" => self.destructive(name, span).and_then(|()| self.override_return(args, span)),
            "panic" | "breakpoint" => self.destructive(name, span).and_then(|()| {
                let message = format!("{name}() cannot be done: Linux lets no BPF program stop the kernel");
                let d = Diagnostic::error(tags::D_UNKNOWN, span, message);
                let help = match name {
                    "panic" => "to crash this machine, write c to /proc/sysrq-trigger, as in system(\"echo c > /proc/sysrq-trigger\")",
                    _ => "stop the process with stop(), or the whole kernel from a debugger's side",
                };
                self.report(d.help(help))
            }),
            _ => return None,
        };
        Some(result)
    }

    /// `system(format, …)` and `freopen(format, …)`
    fn command(&mut self, name: &'static str, args: &[Expr], span: Span) -> Res<TAction> {
        self.destructive(name, span)?;
        let Some((first, rest)) = args.split_first() else { return Err(super::Reported) };
        if let (ExprKind::String(text), "freopen") = (&first.kind, name) {
            if text.is_empty() {
                if let Some(extra) = rest.first() {
                    return self.err(tags::D_PRINTF_ARG_EXTRA, extra.span, "freopen(\"\") takes nothing more");
                }
                return Ok(TAction::Freopen(probity_ir::Format::default(), Vec::new()));
            }
            if text == b"." {
                let message = "freopen() cannot write to \".\": it is a directory";
                let d = Diagnostic::error(tags::D_FREOPEN_INVALID, first.span, message);
                return self.report(d.help("name a file, or give \"\" to return to the first output"));
            }
        }
        let before = self.diags.len();
        let action = self.printf(first, rest, span);
        for d in &mut self.diags[before..] {
            d.message = d.message.replace("printf()", &format!("{name}()"));
        }
        match (action?, name) {
            (TAction::Printf(format, operands), "system") => Ok(TAction::System(format, operands)),
            (TAction::Printf(format, operands), _) => Ok(TAction::Freopen(format, operands)),
            (other, _) => Ok(other),
        }
    }

    /// `setopt(name[, value])`
    fn setopt(&mut self, args: &[Expr]) -> Res<TAction> {
        let mut texts = Vec::new();
        for (i, e) in args.iter().enumerate() {
            let value = self.expr(e)?;
            let (ty, at) = (value.ty, value.span);
            match self.as_string(value)? {
                Some(text) => texts.push(text),
                None => return self.bad_arg("setopt", i, "a string", ty, at),
            }
        }
        let mut texts = texts.into_iter();
        match texts.next() {
            Some(name) => Ok(TAction::Setopt(name, texts.next())),
            None => Err(super::Reported),
        }
    }

    /// `pcap(skb, protocol)`
    fn pcap(&mut self, args: &[Expr], span: Span) -> Res<TAction> {
        let [skb, proto] = args else { return Err(super::Reported) };
        let value = self.expr(skb)?;
        let (ty, at) = (value.ty, value.span);
        let Some(skb) = self.scalar(value) else {
            return self.bad_arg("pcap", 0, "a pointer to a struct sk_buff", ty, at);
        };
        let proto = self.integer_arg(proto, "pcap", 1)?;
        let buff = self.env.kernel_type("", "struct", "sk_buff", &mut self.types).filter(|&t| self.complete(t));
        let places = buff.and_then(|buff| {
            let mut at = |name| self.find_member(buff, name).map(|m| m.bit_offset / 8);
            Some([at("len")?, at("data_len")?, at("data")?])
        });
        let Some([len, data_len, data]) = places else {
            let message = "pcap() needs the kernel's type information (BTF) of struct sk_buff, which was not found";
            let d = Diagnostic::error(tags::D_SYM_NOTYPES, span, message);
            return self.report(d.help("use a kernel that has /sys/kernel/btf/vmlinux"));
        };
        Ok(TAction::Pcap { skb, proto, len, data_len, data })
    }

    fn raise(&mut self, args: &[Expr], span: Span) -> Res<TAction> {
        let [signal] = args else { return Err(super::Reported) };
        let signal = self.integer_arg(signal, "raise", 0)?;
        if let Some(n) = self.constant(&signal)
            && !(1..=SIGRTMAX).contains(&n)
        {
            let d = Diagnostic::error(tags::D_PROTO_ARG, span, format!("there is no signal {n}"));
            return self
                .report(d.help("signals are 1 to 64; signal 0, which tests for a process, has no meaning here"));
        }
        Ok(TAction::Kernel(KernelAct::Raise, vec![signal]))
    }

    fn chill(&mut self, args: &[Expr]) -> Res<TAction> {
        let [ns] = args else { return Err(super::Reported) };
        let ns = self.integer_arg(ns, "chill", 0)?;
        if let Some(n) = self.constant(&ns)
            && !(0..=MAX_CHILL).contains(&n)
        {
            let message = format!("chill() of {n} ns: it takes 0 to {MAX_CHILL}, half a second");
            return self.err(tags::D_PROTO_ARG, ns.span, message);
        }
        Ok(TAction::Kernel(KernelAct::Chill, vec![ns]))
    }

    /// `return(value)`
    fn override_return(&mut self, args: &[Expr], span: Span) -> Res<TAction> {
        let [value] = args else { return Err(super::Reported) };
        let value = self.integer_arg(value, "return", 0)?;
        // Only a program at a kernel function's entry, with the registers at hand, may replace the call.
        let able = self.cx.signature.is_none_or(|s| {
            s.prog.ctx == Ctx::Regs
                && s.phase == Phase::Run
                && self.cx.probe.is_some_and(|p| p.probe.desc.name == "entry")
        });
        if !able {
            let probe = self.cx.probe.map(|p| p.probe.desc.to_string()).unwrap_or_default();
            let d = Diagnostic::error(tags::D_UNKNOWN, span, format!("return() not allowed for {probe}"));
            return self.report(d.help(
                "it works at kprobes on entry to functions of the kernel's list for error injection (rawfbt:::entry)",
            ));
        }
        Ok(TAction::Kernel(KernelAct::Return, vec![value]))
    }
}
