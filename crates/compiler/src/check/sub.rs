//! Subroutines by table: their names, prototypes and results, and the expressions that they become.

use super::conv::Class;
use super::tree::*;
use super::{Checker, Res};
use probity_ir::{BinOp, Builtin, Space, Sub, TypeId, TypeKind};
use probity_syntax::ast::{self, Expr, ExprKind};
use probity_syntax::{Diagnostic, Span, tags};

/// What an argument must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arg {
    /// A string, or characters in memory; NULL is an address that cannot be read.
    Str,
    /// As `Str`; NULL means something.
    StrOrNull,
    /// An integer, described for messages.
    Int(&'static str),
    /// An integer that is known when the program is compiled.
    Const,
    /// A pointer to an object of this size that is no struct, or to one of these types.
    To(&'static str, &'static [&'static str], u64),
    /// Any pointer.
    Pointer,
}

/// What a call becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Becomes {
    /// A subroutine with the arguments as they are, of this type (a string where empty).
    Sub(Sub, &'static str),
    /// Something else.
    Own(Own),
    /// Nothing: why, and what to use.
    Refused(&'static str, &'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Own {
    Strtok,
    /// The last argument is a base, 10 where there is none.
    Based(Sub),
    Ip4,
    Ip6,
    Ntop,
    Link,
    Major,
    Minor,
    /// The owner of a mutex.
    Owner,
    Owned,
    /// Whether a lock is of a kind: on Linux all mutexes put their waiters to sleep.
    Kind(i64),
    /// These bits of a queued rwlock's count.
    Rwlock(i64),
    Getf,
    Rand,
    Progeny,
    Path,
}

/// A subroutine.
pub(super) struct Row {
    pub name: &'static str,
    least: usize,
    args: &'static [Arg],
    becomes: Becomes,
}

const MUTEX: Arg = Arg::To("struct mutex *", &["struct mutex"], 0);
const RWLOCK: Arg = Arg::To("rwlock_t *", &["rwlock_t", "struct rwlock"], 0);
const IN4: Arg = Arg::To("ipaddr_t *", &["struct in_addr"], 4);
const IN6: Arg = Arg::To("struct in6_addr *", &["struct in6_addr", "in6_addr_t"], 0);
const NUM: Arg = Arg::Int("int");

const fn sub(name: &'static str, least: usize, args: &'static [Arg], sub: Sub, ty: &'static str) -> Row {
    Row { name, least, args, becomes: Becomes::Sub(sub, ty) }
}

const fn own(name: &'static str, least: usize, args: &'static [Arg], own: Own) -> Row {
    Row { name, least, args, becomes: Becomes::Own(own) }
}

const fn refused(name: &'static str, args: &'static [Arg], why: &'static str, instead: &'static str) -> Row {
    Row { name, least: args.len(), args, becomes: Becomes::Refused(why, instead) }
}

#[rustfmt::skip]
pub(super) static SUBS: &[Row] = &[
    sub("index", 2, &[Arg::Str, Arg::Str, Arg::Int("int64_t")], Sub::Index, "int"),
    sub("rindex", 2, &[Arg::Str, Arg::Str, Arg::Int("int64_t")], Sub::Rindex, "int"),
    sub("strchr", 2, &[Arg::Str, Arg::Int("char")], Sub::Strchr, ""),
    sub("strrchr", 2, &[Arg::Str, Arg::Int("char")], Sub::Strrchr, ""),
    sub("strstr", 2, &[Arg::Str, Arg::Str], Sub::Strstr, ""),
    sub("substr", 2, &[Arg::Str, Arg::Int("int64_t"), Arg::Int("int64_t")], Sub::Substr, ""),
    own("strtok", 2, &[Arg::StrOrNull, Arg::Str], Own::Strtok),
    sub("json", 2, &[Arg::Str, Arg::Str], Sub::Json, ""),
    sub("basename", 1, &[Arg::Str], Sub::Basename, ""),
    sub("dirname", 1, &[Arg::Str], Sub::Dirname, ""),
    sub("cleanpath", 1, &[Arg::Str], Sub::Cleanpath, ""),
    sub("toupper", 1, &[Arg::Str], Sub::Upper, ""),
    sub("tolower", 1, &[Arg::Str], Sub::Lower, ""),
    sub("strip", 1, &[Arg::Str], Sub::Strip, ""),
    own("lltostr", 1, &[Arg::Int("int64_t"), NUM], Own::Based(Sub::Digits)),
    own("strtoll", 1, &[Arg::Str, NUM], Own::Based(Sub::Number)),
    own("inet_ntoa", 1, &[IN4], Own::Ip4),
    own("inet_ntoa6", 1, &[IN6, Arg::Const], Own::Ip6),
    own("inet_ntop", 2, &[NUM, Arg::Pointer], Own::Ntop),
    own("link_ntop", 2, &[NUM, Arg::Pointer], Own::Link),
    sub("htons", 1, &[Arg::Int("uint16_t")], Sub::Swap2, "uint16_t"),
    sub("htonl", 1, &[Arg::Int("uint32_t")], Sub::Swap4, "uint32_t"),
    sub("htonll", 1, &[Arg::Int("uint64_t")], Sub::Swap8, "uint64_t"),
    sub("ntohs", 1, &[Arg::Int("uint16_t")], Sub::Swap2, "uint16_t"),
    sub("ntohl", 1, &[Arg::Int("uint32_t")], Sub::Swap4, "uint32_t"),
    sub("ntohll", 1, &[Arg::Int("uint64_t")], Sub::Swap8, "uint64_t"),
    own("rand", 0, &[], Own::Rand),
    own("getmajor", 1, &[Arg::Int("uint32_t")], Own::Major),
    own("getminor", 1, &[Arg::Int("uint32_t")], Own::Minor),
    own("mutex_owned", 1, &[MUTEX], Own::Owned),
    own("mutex_owner", 1, &[MUTEX], Own::Owner),
    own("mutex_type_adaptive", 1, &[MUTEX], Own::Kind(1)),
    own("mutex_type_spin", 1, &[MUTEX], Own::Kind(0)),
    own("rw_iswriter", 1, &[RWLOCK], Own::Rwlock(0x1ff)),
    own("rw_read_held", 1, &[RWLOCK], Own::Rwlock(!0x1ff)),
    own("rw_write_held", 1, &[RWLOCK], Own::Rwlock(0xff)),
    own("progenyof", 1, &[Arg::Int("pid_t")], Own::Progeny),
    own("d_path", 1, &[Arg::To("struct path *", &["struct path"], 0)], Own::Path),
    own("getf", 1, &[NUM], Own::Getf),
    refused("ddi_pathname", &[Arg::Pointer, NUM], "device trees with paths are Solaris's", "use d_path() for the path of a file"),
    refused("msgsize", &[Arg::Pointer], "STREAMS messages are Solaris's", "a packet's size on Linux is `((struct sk_buff *)p)->len`"),
    refused("msgdsize", &[Arg::Pointer], "STREAMS messages are Solaris's", "a packet's size on Linux is `((struct sk_buff *)p)->len`"),
];

pub(super) fn find(name: &str) -> Option<&'static Row> {
    SUBS.iter().find(|row| row.name == name)
}

impl Row {
    /// Whether it is known only to be refused.
    pub(super) fn refused(&self) -> bool {
        matches!(self.becomes, Becomes::Refused(..))
    }

    /// For the count of arguments.
    pub(super) fn func(&self) -> super::names::Func {
        super::names::Func {
            name: self.name,
            kind: super::names::FuncKind::Subroutine,
            least: self.least,
            most: self.args.len(),
        }
    }
}

impl Checker<'_> {
    /// A call of a subroutine of the table.
    pub(super) fn sub_call(&mut self, row: &'static Row, args: &[Expr], span: Span) -> Res<TExpr> {
        self.count_args(&row.func(), args.len(), span)?;
        let mut values = Vec::new();
        for (i, (arg, kind)) in args.iter().zip(row.args).enumerate() {
            if let ExprKind::Call { name, .. } = &arg.kind
                && super::names::function(&name.text).is_some_and(|f| f.kind == super::names::FuncKind::Action)
            {
                let void = self.basic.void;
                return self.bad_arg(row.name, i, kind.text(), void, arg.span);
            }
            let value = self.expr(arg)?;
            values.push(self.sub_arg(row.name, i, *kind, value)?);
        }
        match row.becomes {
            Becomes::Sub(sub, ty) => {
                let ty = if ty.is_empty() { self.basic.string } else { self.named_int(ty) };
                Ok(TExpr { kind: TKind::Sub(sub, values), ty, span })
            }
            Becomes::Own(own) => self.own_sub(own, values, span),
            Becomes::Refused(why, instead) => {
                let d = Diagnostic::error(tags::D_FUNC_UNDEF, span, format!("{}() cannot be used: {why}", row.name));
                self.report(d.help(instead))
            }
        }
    }

    fn sub_arg(&mut self, func: &str, i: usize, kind: Arg, e: TExpr) -> Res<TExpr> {
        let (ty, span) = (e.ty, e.span);
        let null = matches!(e.kind, TKind::Int(0));
        let good = match kind {
            Arg::StrOrNull if null => Some(e),
            Arg::Str | Arg::StrOrNull => self.string_or_null(e)?,
            Arg::Int(name) if self.is_int(&e) => {
                let to = self.named_int(name);
                Some(self.convert(e, to))
            }
            Arg::Int(_) => None,
            Arg::Const => (self.is_int(&e) && self.constant(&e).is_some()).then_some(e),
            Arg::Pointer | Arg::To(..) => {
                let e = self.decay(e);
                let fits = match (self.class(e.ty), kind) {
                    (Class::Pointer(to, _), Arg::To(_, names, size)) => {
                        self.class(to) == Class::Void || self.is_named(to, names) || {
                            let resolved = self.class_complete(to);
                            matches!(resolved, Class::Int(n, _) if u64::from(n) == size)
                        }
                    }
                    (Class::Pointer(..), _) => true,
                    _ => null,
                };
                fits.then_some(e)
            }
        };
        match good {
            Some(e) => Ok(e),
            None => self.bad_arg(func, i, kind.text(), ty, span),
        }
    }

    /// A string; NULL is an address that cannot be read, whenever it is.
    pub(super) fn string_or_null(&mut self, e: TExpr) -> Res<Option<TExpr>> {
        if !matches!(e.kind, TKind::Int(0)) {
            return self.as_string(e);
        }
        let (span, ty) = (e.span, self.basic.string);
        let kind = TKind::ReadStr { addr: Box::new(e), space: Space::Kernel, max: None, len: None };
        Ok(Some(TExpr { kind, ty, span }))
    }

    /// Whether a type has one of these names, by itself or as a typedef.
    fn is_named(&self, ty: TypeId, names: &[&str]) -> bool {
        let mut ty = ty;
        // A chain of typedefs from foreign data may be a ring.
        for _ in 0..16 {
            if names.contains(&self.name(ty).as_str()) {
                return true;
            }
            match self.types.get(ty) {
                TypeKind::Typedef { to, .. } => ty = *to,
                _ => return false,
            }
        }
        false
    }

    fn own_sub(&mut self, own: Own, args: Vec<TExpr>, span: Span) -> Res<TExpr> {
        let (int, ulong) = (self.basic.int, self.basic.ulong);
        let mut args = args.into_iter();
        let mut next = || args.next().ok_or(super::Reported);
        match own {
            Own::Rand => Ok(TExpr { kind: TKind::Sub(Sub::Random, Vec::new()), ty: int, span }),
            // MINORBITS is 20.
            Own::Major | Own::Minor => {
                let uint = self.basic.uint;
                let dev = next()?;
                let e = match own {
                    Own::Major => self.bits(BinOp::ShrU, dev, 20, span),
                    _ => self.bits(BinOp::And, dev, (1 << 20) - 1, span),
                };
                Ok(self.convert(e, uint))
            }
            Own::Owner => {
                let task = self.task_type(span)?;
                let owner = self.mutex_owner(next()?, span)?;
                let ty = self.types.pointer(task, Space::Kernel);
                Ok(TExpr { ty, ..owner })
            }
            Own::Owned => {
                let owner = Box::new(self.mutex_owner(next()?, span)?);
                let current = TExpr { kind: TKind::Builtin(Builtin::CurThread), ty: ulong, span };
                Ok(TExpr { kind: TKind::Bin(BinOp::Eq, owner, Box::new(current)), ty: int, span })
            }
            Own::Kind(answer) => Ok(TExpr::int(answer, int, span)),
            Own::Rwlock(mask) => {
                let lock = next()?;
                let at = self.kernel_path(&lock, "rwlock_t", &["raw_lock", "cnts"], span)?;
                let uint = self.basic.uint;
                let count = TExpr { kind: TKind::Object(Box::new(at), Space::Kernel, None), ty: uint, span };
                let bits = self.bits(BinOp::And, count, mask as u32 as i64, span);
                match self.truth(TExpr { ty: uint, ..bits }) {
                    Some(truth) => Ok(truth),
                    None => Err(super::Reported),
                }
            }
            Own::Getf => self.getf(next()?, span),
            Own::Progeny => {
                let pid = next()?;
                let task = self.task_type(span)?;
                let mut args = vec![pid];
                for member in ["tgid", "real_parent"] {
                    args.push(self.offset_of(task, "struct task_struct", &[member], span)?);
                }
                Ok(TExpr { kind: TKind::Sub(Sub::Progeny, args), ty: int, span })
            }
            Own::Path => self.path_text(next()?, None, span),
            Own::Strtok => {
                let (s, delimiters) = (next()?, Box::new(next()?));
                let s = (!matches!(s.kind, TKind::Int(0))).then(|| Box::new(s));
                Ok(TExpr { kind: TKind::Strtok(s, delimiters), ty: self.basic.string, span })
            }
            Own::Based(sub) => {
                let value = next()?;
                let base = next().unwrap_or_else(|_| TExpr::int(10, int, span));
                if let Some(n) = self.constant(&base).filter(|n| !(2..=36).contains(n)) {
                    let message = format!("a number's base is 2 to 36, not {n}");
                    return self.err(tags::D_PROTO_ARG, base.span, message);
                }
                let ty = if sub == Sub::Digits { self.basic.string } else { self.named_int("int64_t") };
                Ok(TExpr { kind: TKind::Sub(sub, vec![value, base]), ty, span })
            }
            Own::Ip4 => {
                let addr = next()?;
                self.address_text(Sub::Ip4, &addr, 4, Vec::new(), span)
            }
            Own::Ip6 => {
                let addr = next()?;
                let strict = next().unwrap_or_else(|_| TExpr::int(0, int, span));
                self.address_text(Sub::Ip6, &addr, 16, vec![strict], span)
            }
            Own::Ntop => {
                let (family, addr) = (next()?, next()?);
                let strict = TExpr::int(1, int, span);
                let four = self.address_text(Sub::Ip4, &addr, 4, Vec::new(), span)?;
                let six = self.address_text(Sub::Ip6, &addr, 16, vec![strict], span)?;
                self.by_number(family, vec![(2, four), (10, six)], span)
            }
            Own::Link => {
                let (kind, addr) = (next()?, next()?);
                let ether = self.address_text(Sub::Mac, &addr, 6, Vec::new(), span)?;
                let infiniband = self.address_text(Sub::Mac, &addr, 20, Vec::new(), span)?;
                self.by_number(kind, vec![(1, ether), (32, infiniband)], span)
            }
        }
    }

    /// The text of an address of `len` bytes in memory.
    fn address_text(&mut self, sub: Sub, addr: &TExpr, len: u32, more: Vec<TExpr>, span: Span) -> Res<TExpr> {
        let space = match self.class(addr.ty) {
            Class::Pointer(_, space) => space,
            _ => Space::Kernel,
        };
        self.needs_process(space, span)?;
        let byte = self.named_int("uint8_t");
        let ty = self.types.add(TypeKind::Array { of: byte, len });
        let bytes = TExpr { kind: TKind::Object(Box::new(addr.clone()), space, None), ty, span };
        let args = std::iter::once(bytes).chain(more).collect();
        Ok(TExpr { kind: TKind::Sub(sub, args), ty: self.basic.string, span })
    }

    /// The value whose number `which` is; an illegal operation where it is none of them. Choices repeat operands, so those must not
    /// have effects.
    fn by_number(&mut self, which: TExpr, choices: Vec<(i64, TExpr)>, span: Span) -> Res<TExpr> {
        if let Some(bad) = choices.iter().map(|c| &c.1).chain([&which]).find(|e| e.has_effect()) {
            let at = bad.span;
            return self.unsupported(at, "assignments within the arguments of this subroutine are");
        }
        let (int, string) = (self.basic.int, self.basic.string);
        let illegal = TExpr { kind: TKind::Sub(Sub::Illegal, Vec::new()), ty: int, span };
        let text = TKind::Sub(Sub::Digits, vec![illegal, TExpr::int(10, int, span)]);
        let mut out = TExpr { kind: text, ty: string, span };
        for (number, value) in choices.into_iter().rev() {
            let number = Box::new(TExpr::int(number, int, span));
            let is = TExpr { kind: TKind::Bin(BinOp::Eq, Box::new(which.clone()), number), ty: int, span };
            out = TExpr { kind: TKind::Cond(Box::new(is), Box::new(value), Box::new(out)), ty: string, span };
        }
        Ok(out)
    }

    /// Where a string stands beside NULL, NULL becomes the empty string: to a comparison they are the same.
    pub(super) fn null_as_string(&mut self, a: TExpr, b: TExpr) -> (TExpr, TExpr) {
        let string = self.basic.string;
        let is_string = |s: &Self, e: &TExpr| s.class(e.ty) == Class::String;
        let empty = |e: TExpr| TExpr { kind: TKind::Str(Vec::new()), ty: string, span: e.span };
        match (&a.kind, &b.kind) {
            (_, TKind::Int(0)) if is_string(self, &a) => (a, empty(b)),
            (TKind::Int(0), _) if is_string(self, &b) => (empty(a), b),
            _ => (a, b),
        }
    }

    /// `e op c`, 64 bits.
    fn bits(&mut self, op: BinOp, e: TExpr, c: i64, span: Span) -> TExpr {
        let ulong = self.basic.ulong;
        let e = self.convert(e, ulong);
        let c = Box::new(TExpr::int(c, ulong, span));
        TExpr { kind: TKind::Bin(op, Box::new(e), c), ty: ulong, span }
    }

    /// The offset of a member of the kernel's, as a constant.
    fn offset_of(&mut self, ty: TypeId, name: &str, path: &[&str], span: Span) -> Res<TExpr> {
        let (mut ty, mut offset) = (ty, 0);
        for &member in path {
            let Some(m) = self.find_member(ty, member) else {
                let message = format!("this kernel's `{name}` has no `{}`", path.join("."));
                return self.err(tags::D_SYM_NOTYPES, span, message);
            };
            offset += i64::from(m.bit_offset / 8);
            ty = m.ty;
        }
        let ulong = self.basic.ulong;
        Ok(TExpr::int(offset, ulong, span))
    }

    /// `d_path(p)`; where an entry is given, that one's path on the mount of `p`: its address in the kernel's memory.
    pub(super) fn path_text(&mut self, path: TExpr, entry: Option<TExpr>, span: Span) -> Res<TExpr> {
        let ulong = self.basic.ulong;
        let name = |text: &str| ast::Name { text: text.into(), span };
        let task = self.task_type(span)?;
        let ty = self.types.pointer(task, Space::Kernel);
        let current = TExpr { kind: TKind::Builtin(Builtin::CurThread), ty, span };
        let fs = self.access(current, true, &name("fs"), span)?;
        let root = self.access(fs, true, &name("root"), span)?;
        let root = self.address_of(root, span)?;
        let mut args = vec![path, TExpr { ty: ulong, ..root }];
        for (kind, members) in [
            ("struct path", &["mnt"][..]),
            ("struct path", &["dentry"]),
            ("struct dentry", &["d_parent"]),
            ("struct dentry", &["d_name", "name"]),
            ("struct dentry", &["d_name", "len"]),
            ("struct vfsmount", &["mnt_root"]),
            ("struct mount", &["mnt"]),
            ("struct mount", &["mnt_parent"]),
            ("struct mount", &["mnt_mountpoint"]),
        ] {
            let ty = self.kernel_struct(kind, span)?;
            args.push(self.offset_of(ty, kind, members, span)?);
        }
        args.push(match entry {
            Some(entry) => {
                let path = self.convert(args[0].clone(), ulong);
                TExpr { kind: TKind::Bin(BinOp::Sub, Box::new(entry), Box::new(path)), ty: ulong, span }
            }
            None => args[3].clone(),
        });
        Ok(TExpr { kind: TKind::Sub(Sub::Path, args), ty: self.basic.string, span })
    }

    /// The address of a member of the kernel's object at `base`, whose pointer's own type may know it; else `name` does.
    fn kernel_path(&mut self, base: &TExpr, name: &str, path: &[&str], span: Span) -> Res<TExpr> {
        let mut ty = match self.class(base.ty) {
            Class::Pointer(to, _) if self.class_complete(to) == Class::Struct => to,
            _ => self.kernel_struct(name, span)?,
        };
        let mut offset = 0;
        for &member in path {
            let Some(m) = self.find_member(ty, member) else {
                let message = format!("this kernel's `{name}` has no `{}`", path.join("."));
                return self.err(tags::D_SYM_NOTYPES, span, message);
            };
            offset += i64::from(m.bit_offset / 8);
            ty = m.ty;
        }
        let at = self.offset(base.clone(), offset, span);
        let ty = self.types.pointer(ty, Space::Kernel);
        Ok(TExpr { ty, ..at })
    }

    fn kernel_struct(&mut self, name: &str, span: Span) -> Res<TypeId> {
        let (keyword, tag) = name.split_once(' ').unwrap_or(("", name));
        match self.env.kernel_type("", keyword, tag, &mut self.types) {
            Some(ty) if self.complete(ty) => Ok(ty),
            _ => {
                let message = format!("this needs the kernel's `{name}`, whose type information (BTF) was not found");
                self.err(tags::D_SYM_NOTYPES, span, message)
            }
        }
    }

    fn task_type(&mut self, span: Span) -> Res<TypeId> {
        self.kernel_struct("struct task_struct", span)
    }

    /// The task that owns a mutex: the lock's word without its flags.
    fn mutex_owner(&mut self, lock: TExpr, span: Span) -> Res<TExpr> {
        let ulong = self.basic.ulong;
        let at = self.kernel_path(&lock, "struct mutex", &["owner"], span)?;
        let word = TExpr { kind: TKind::Object(Box::new(at), Space::Kernel, None), ty: ulong, span };
        Ok(self.bits(BinOp::And, word, !7, span))
    }

    /// The file of a descriptor of the current process; NULL where it is not open.
    fn getf(&mut self, fd: TExpr, span: Span) -> Res<TExpr> {
        self.needs_process(Space::User, span)?;
        let name = |text: &str| ast::Name { text: text.into(), span };
        let task = self.task_type(span)?;
        let ty = self.types.pointer(task, Space::Kernel);
        let current = TExpr { kind: TKind::Builtin(Builtin::CurThread), ty, span };
        let files = self.access(current, true, &name("files"), span)?;
        let table = self.access(files, true, &name("fdt"), span)?;
        let most = self.access(table.clone(), true, &name("max_fds"), span)?;
        let array = self.access(table, true, &name("fd"), span)?;
        let (uint, int) = (self.basic.uint, self.basic.int);
        let (fd, most) = (self.convert(fd, uint), self.convert(most, uint));
        let file = self.subscript(array, fd.clone(), span)?;
        let ty = file.ty;
        let known = TExpr { kind: TKind::Bin(BinOp::LtU, Box::new(fd), Box::new(most)), ty: int, span };
        let null = Box::new(TExpr::int(0, ty, span));
        Ok(TExpr { kind: TKind::Cond(Box::new(known), Box::new(file), null), ty, span })
    }
}

impl Arg {
    fn text(self) -> &'static str {
        match self {
            Arg::Str | Arg::StrOrNull => "string",
            Arg::Int(name) | Arg::To(name, ..) => name,
            Arg::Const => "a constant integer",
            Arg::Pointer => "a pointer",
        }
    }
}
