//! Addresses and stacks as text: what an address is in, by DTrace's rules, and a stack's lines.

use crate::Symbols;
use crate::decode::{u32_at, u64_at};
use probity_ir::{Symbol, stack};
use serde_json::{Value as J, json};

/// What is known of an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// The module: `vmlinux`, a kernel module, or the last part of a file's name. Empty where the address is in none.
    pub module: String,
    /// The symbol. Empty where the address is in none.
    pub symbol: String,
    /// Where the symbol starts.
    pub start: u64,
    /// Where the module starts, for telling whether two addresses are in one.
    pub base: u64,
    /// Where the mapping starts that the address is in.
    pub mapping: u64,
    /// The process's mappings are known, and none of them has code at the address: it is no address of code.
    pub stray: bool,
}

/// A stack that was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StackValue {
    /// The user's rather than the kernel's.
    pub user: bool,
    /// The process of a user stack.
    pub pid: u32,
    /// Addresses, the innermost first.
    pub frames: Vec<u64>,
    /// There are deeper frames, which were not asked for.
    pub more: bool,
}

impl StackValue {
    /// Reads the bytes of [`probity_ir::stack`]; `None` if they are too few.
    pub fn read(bytes: &[u8]) -> Option<StackValue> {
        let word = |at: u32| u32_at(bytes, at as usize);
        let room = (bytes.len().checked_sub(stack::FRAMES as usize)? / 8) as u32;
        let depth = word(stack::DEPTH)?.min(room);
        let frames = (0..depth).map(|i| u64_at(bytes, (stack::FRAMES + 8 * i) as usize)).collect::<Option<_>>()?;
        let (user, pid) = (word(stack::IS_USER)? != 0, word(stack::PID)?);
        Some(StackValue { user, pid, frames, more: word(stack::MORE)? != 0 })
    }

    /// What a frame is in. A return address is one past its call, so the name is looked up where the call is; a function that ends
    /// with a call to one that never returns would be taken for the next one otherwise.
    fn named(&self, symbols: &dyn Symbols, at: usize) -> Named {
        let addr = self.frames[at].wrapping_sub(u64::from(at > 0));
        match self.user {
            true => symbols.user(self.pid, addr),
            false => symbols.kernel(addr),
        }
    }

    /// The text of each frame, and what is to be said after them.
    pub fn lines(&self, symbols: &dyn Symbols, look: Look) -> (Vec<String>, Option<String>) {
        let mut lines = Vec::new();
        let mut note = None;
        for (at, &addr) in self.frames.iter().enumerate() {
            // Where DTrace ends: nothing is at 0.
            if addr == 0 {
                break;
            }
            let named = self.named(symbols, at);
            if named.stray && at > 0 && !look.dropin {
                note = Some("… (the caller is not known: code without frame pointers)".to_string());
                break;
            }
            lines.push(if self.user && look.noresolve { in_file(&named, addr) } else { address(&named, addr) });
        }
        if look.dropin {
            return (lines, None);
        }
        if note.is_none() && self.more {
            let n = self.frames.len();
            note = Some(format!("… (deeper than {n} frame{})", if n == 1 { "" } else { "s" }));
        }
        if lines.is_empty() {
            note = Some(format!("(no {} stack)", if self.user { "user" } else { "kernel" }));
        }
        (lines, note)
    }

    /// As JSON.
    pub fn json(&self, symbols: &dyn Symbols) -> J {
        let frames: Vec<J> = (0..self.frames.len())
            .map(|at| {
                let (addr, named) = (self.frames[at], self.named(symbols, at));
                json!({"address": format!("0x{addr:x}"), "name": address(&named, addr)})
            })
            .collect();
        let mut object = json!({"stack": frames});
        if self.user {
            object["pid"] = self.pid.into();
        }
        if self.more {
            object["truncated"] = true.into();
        }
        object
    }
}

/// How addresses look.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// As DTrace does it, without notes.
    pub dropin: bool,
    /// User addresses as a file and an offset.
    pub noresolve: bool,
}

/// ``module`symbol+0xoffset``, or as much of it as is known.
pub fn address(named: &Named, addr: u64) -> String {
    let Named { module, symbol, start, .. } = named;
    match (module.is_empty(), symbol.is_empty()) {
        (true, _) => format!("0x{addr:x}"),
        (false, true) => format!("{module}`0x{addr:x}"),
        (false, false) if addr > *start => format!("{module}`{symbol}+0x{:x}", addr - start),
        (false, false) => format!("{module}`{symbol}"),
    }
}

/// `file:0xoffset` from the start of the mapping.
fn in_file(named: &Named, addr: u64) -> String {
    match named.module.is_empty() {
        true => format!("0x{addr:x}"),
        false => format!("{}:0x{:x}", named.module, addr.saturating_sub(named.mapping)),
    }
}

/// What an address is in.
pub fn named(what: Symbol, pid: u32, addr: u64, symbols: &dyn Symbols) -> Named {
    if what.is_user() { symbols.user(pid, addr) } else { symbols.kernel(addr) }
}

/// An address as `sym()` and its kin show it.
pub fn symbol(what: Symbol, pid: u32, addr: u64, symbols: &dyn Symbols, look: Look) -> String {
    let named = named(what, pid, addr, symbols);
    match what {
        Symbol::KernelModule | Symbol::UserModule if named.module.is_empty() => format!("0x{addr:x}"),
        Symbol::KernelModule | Symbol::UserModule => named.module,
        Symbol::User | Symbol::UserAddress if look.noresolve => in_file(&named, addr),
        Symbol::Kernel | Symbol::User => {
            let at = if named.symbol.is_empty() { addr } else { named.start };
            address(&named, at)
        }
        Symbol::UserAddress => address(&named, addr),
    }
}

/// The address that stands for all that look the same: a key's member.
pub fn common(what: Symbol, pid: u32, addr: u64, symbols: &dyn Symbols) -> u64 {
    if what == Symbol::UserAddress {
        return addr;
    }
    let named = named(what, pid, addr, symbols);
    match what {
        Symbol::KernelModule | Symbol::UserModule if !named.module.is_empty() => named.base,
        Symbol::Kernel | Symbol::User if !named.symbol.is_empty() => named.start,
        _ => addr,
    }
}
