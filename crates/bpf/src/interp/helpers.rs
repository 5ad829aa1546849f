//! The helpers as the interpreter runs them: same results, same error numbers, same bytes left behind on failure.

use super::errno::{E2BIG, EAGAIN, EEXIST, EFAULT, EINVAL, ENAMETOOLONG, ENOENT, ENOMEM, ERANGE};
use super::maps::Body;
use super::memory::{Kind, func_slot, is_ours};
use super::{Fault, FaultKind, Frame, Machine, Run, TraceLine};
use crate::helpers::{ArgKind, Helper};
use crate::insn::Reg;
use crate::object::map_flags;

/// The end of user addresses on x86-64 with four page table levels.
const USER_END: u64 = 0x7fff_ffff_f000;
/// `BPF_MAX_LOOPS`.
const MAX_LOOPS: u64 = 8 << 20;
/// `BPF_F_USER_STACK`.
const USER_STACK: u64 = 1 << 8;
/// `BPF_F_REUSE_STACKID`.
const REUSE_STACKID: u64 = 1 << 10;
/// `BPF_F_CURRENT_CPU`, and the mask of the index in the same flags.
const CURRENT_CPU: u64 = 0xffff_ffff;

/// Which memory a probe read reads.
#[derive(Clone, Copy, PartialEq)]
enum Space {
    User,
    UserMaySleep,
    Kernel,
}

impl Machine {
    pub(super) fn call_helper(
        &mut self,
        run: &mut Run<'_>,
        frame: &Frame,
        id: u32,
        pc: usize,
    ) -> Result<(u64, bool), Fault> {
        let here = |kind| Fault { pc, kind };
        let helper = Helper::from_id(id).ok_or(here(FaultKind::Unsupported(id)))?;
        let mut args = [0; 5];
        for (i, arg) in args.iter_mut().enumerate() {
            match frame.get(Reg(i as u8 + 1)) {
                Ok(value) => *arg = value,
                Err(kind) if i < helper.args().len() => return Err(here(kind)),
                Err(_) => {}
            }
        }
        if run.lock.is_some() && helper != Helper::SpinUnlock {
            return Err(here(FaultKind::LockHeld));
        }
        self.check_arguments(run, helper, &args).map_err(here)?;
        if let Some(forced) = self.env.forced.get_mut(&id).and_then(|results| results.pop_front()) {
            return Ok((forced, false));
        }
        let typed = matches!(helper, Helper::GetCurrentTaskBtf | Helper::TaskPtRegs);
        let r0 = match helper {
            Helper::Loop => self.loop_helper(run, &args, pc)?,
            Helper::ForEachMapElem => self.for_each(run, &args, pc)?,
            _ => self.plain_helper(run, helper, &args).map_err(here)?,
        };
        Ok((r0, typed))
    }

    /// Refuses what the verifier would: a wrong kind of pointer where the kind can be told from the address.
    fn check_arguments(&self, run: &Run<'_>, helper: Helper, args: &[u64; 5]) -> Result<(), FaultKind> {
        for (i, kind) in helper.args().iter().enumerate() {
            let addr = args[i];
            let fits = match kind {
                ArgKind::Ctx => addr == run.ctx,
                ArgKind::Map => matches!(self.memory.kind(addr), Some((Kind::Map(_), true))),
                ArgKind::RingMem => matches!(self.memory.kind(addr), Some((Kind::Ring(..), true))),
                ArgKind::Func => func_slot(addr).is_some(),
                ArgKind::Size => addr != 0,
                _ => true,
            };
            if !fits {
                return Err(FaultKind::BadArgument { helper, arg: i as u8 + 1 });
            }
        }
        Ok(())
    }

    fn map_at(&self, addr: u64) -> usize {
        match self.memory.kind(addr) {
            Some((Kind::Map(index), _)) => index,
            // Not reached: check_arguments has looked. An index that no map has makes every use of it fail.
            _ => usize::MAX,
        }
    }

    fn map_sizes(&self, map: usize) -> (usize, usize) {
        self.maps.get(map).map_or((0, 0), |m| (m.spec.key_size as usize, m.spec.value_size as usize))
    }

    fn bytes(&self, addr: u64, len: u64) -> Result<Vec<u8>, FaultKind> {
        if len == 0 { Ok(Vec::new()) } else { self.memory.read(addr, len as usize).map(<[u8]>::to_vec) }
    }

    /// That a buffer of the program's has this length: looked at before as many bytes are made up to fill it with.
    fn room(&self, addr: u64, len: usize) -> Result<(), FaultKind> {
        if len == 0 { Ok(()) } else { self.memory.room(addr, len) }
    }

    fn fill(&mut self, addr: u64, bytes: &[u8]) -> Result<(), FaultKind> {
        if !bytes.is_empty() {
            self.memory.write(addr, bytes.len())?.copy_from_slice(bytes);
        }
        Ok(())
    }

    fn tick(&mut self) {
        let env = &mut self.env;
        for clock in [&mut env.ktime_ns, &mut env.boot_ns, &mut env.coarse_ns, &mut env.tai_ns] {
            *clock = clock.wrapping_add(env.ktime_step);
        }
    }

    fn plain_helper(&mut self, run: &mut Run<'_>, helper: Helper, args: &[u64; 5]) -> Result<u64, FaultKind> {
        let [a1, a2, a3, a4, a5] = *args;
        let result = match helper {
            Helper::MapLookupElem => return self.lookup(helper, a1, a2, self.env.cpu as usize),
            Helper::MapLookupPercpuElem => {
                if a3 as u32 as usize >= self.cpus {
                    return Ok(0);
                }
                return self.lookup(helper, a1, a2, a3 as u32 as usize);
            }
            Helper::MapUpdateElem => {
                let map = self.map_at(a1);
                let (key_size, value_size) = self.map_sizes(map);
                let (key, value) = (self.bytes(a2, key_size as u64)?, self.bytes(a3, value_size as u64)?);
                let cpu = self.env.cpu as usize;
                let Some(map) = self.maps.get_mut(map) else { return Ok(EINVAL as u64) };
                if map.spec.flags & map_flags::RDONLY_PROG != 0 {
                    return Err(FaultKind::ReadOnly { addr: a1 });
                }
                map.update(&mut self.memory, &key, &value, a4, Some(cpu))
            }
            Helper::MapDeleteElem => {
                let map = self.map_at(a1);
                let key = self.bytes(a2, self.map_sizes(map).0 as u64)?;
                self.maps.get_mut(map).map_or(EINVAL, |map| map.delete(&key))
            }
            Helper::ProbeReadUser => self.probe_read(a1, a2, a3, Space::User)?,
            Helper::ProbeReadKernel => self.probe_read(a1, a2, a3, Space::Kernel)?,
            Helper::ProbeRead => self.probe_read(a1, a2, a3, either_space(a3))?,
            Helper::CopyFromUser => self.probe_read(a1, a2, a3, Space::UserMaySleep)?,
            Helper::CopyFromUserTask if a5 != 0 => EINVAL,
            Helper::CopyFromUserTask => self.probe_read(a1, a2, a3, Space::UserMaySleep)?,
            Helper::ProbeReadUserStr => self.probe_read_str(a1, a2, a3, Space::User)?,
            Helper::ProbeReadKernelStr => self.probe_read_str(a1, a2, a3, Space::Kernel)?,
            Helper::ProbeReadStr => self.probe_read_str(a1, a2, a3, either_space(a3))?,
            Helper::ProbeWriteUser => {
                let bytes = self.bytes(a2, a3)?;
                if self.env.user.write(a1, &bytes) { 0 } else { EFAULT }
            }
            Helper::KtimeGetNs => return Ok(self.clock(|env| env.ktime_ns)),
            Helper::KtimeGetBootNs => return Ok(self.clock(|env| env.boot_ns)),
            Helper::KtimeGetCoarseNs => return Ok(self.clock(|env| env.coarse_ns)),
            Helper::KtimeGetTaiNs => return Ok(self.clock(|env| env.tai_ns)),
            Helper::Jiffies64 => return Ok(self.env.jiffies),
            Helper::GetPrandomU32 => return Ok(self.random()),
            Helper::GetSmpProcessorId => return Ok(u64::from(self.env.cpu)),
            Helper::GetNumaNodeId => return Ok(u64::from(self.env.numa_node)),
            Helper::GetCurrentPidTgid => return Ok(self.env.pid_tgid),
            Helper::GetCurrentUidGid => return Ok(self.env.uid_gid),
            Helper::GetCurrentTask | Helper::GetCurrentTaskBtf => return Ok(self.env.current_task),
            Helper::TaskPtRegs => return Ok(self.env.task_pt_regs),
            Helper::GetCurrentCgroupId | Helper::GetCurrentAncestorCgroupId => return Ok(self.env.cgroup_id),
            Helper::GetAttachCookie => return Ok(self.env.cookie),
            Helper::GetFuncIp => return Ok(self.env.func_ip),
            Helper::GetFuncArgCnt => return Ok(self.env.func_args.len() as u64),
            Helper::GetFuncArg => match self.env.func_args.get(a2 as u32 as usize).copied() {
                Some(value) => self.memory.store(a3, 8, value).map(|()| 0)?,
                None => EINVAL,
            },
            Helper::GetFuncRet => match self.env.func_ret {
                Some(value) => self.memory.store(a2, 8, value).map(|()| 0)?,
                None => super::errno::EOPNOTSUPP,
            },
            Helper::CurrentTaskUnderCgroup => self.env.under_cgroup,
            Helper::GetCurrentComm => {
                // Always terminated, padded with zeros.
                self.room(a1, a2 as u32 as usize)?;
                let mut out = vec![0; a2 as u32 as usize];
                let name = self.env.comm.split(|&b| b == 0).next().unwrap_or(&[]);
                let len = name.len().min(out.len().saturating_sub(1));
                out[..len].copy_from_slice(&name[..len]);
                self.fill(a1, &out).map(|()| 0)?
            }
            Helper::GetNsCurrentPidTgid => self.ns_pid_tgid(args)?,
            Helper::GetStack | Helper::GetTaskStack => self.get_stack(a2, a3, a4)?,
            Helper::GetStackid => self.get_stackid(a2, a3),
            Helper::PerfProgReadValue => {
                self.room(a2, a3 as u32 as usize)?;
                let value = if a3 == 24 { self.env.perf_value } else { [0; 3] };
                let mut bytes: Vec<u8> = value.iter().flat_map(|v| v.to_le_bytes()).collect();
                bytes.resize(a3 as u32 as usize, 0);
                self.fill(a2, &bytes)?;
                if a3 == 24 { 0 } else { EINVAL }
            }
            Helper::ReadBranchRecords | Helper::GetBranchSnapshot => ENOENT,
            Helper::PerfEventOutput => self.perf_output(args)?,
            Helper::RingbufOutput => self.ring_output(a1, a2, a3, a4)?,
            Helper::RingbufReserve => return Ok(self.ring_reserve(run, a1, a2, a3)),
            Helper::RingbufSubmit | Helper::RingbufDiscard => {
                run.records.retain(|&record| record != a1);
                self.end_record(a1, helper == Helper::RingbufSubmit);
                0
            }
            Helper::RingbufQuery => match self.maps.get(self.map_at(a1)).map(|m| &m.body) {
                Some(Body::Ring(ring)) => return Ok(ring.query(a2)),
                _ => return Err(FaultKind::BadArgument { helper, arg: 1 }),
            },
            Helper::TaskStorageGet => return self.task_storage(args),
            Helper::TaskStorageDelete if a2 == 0 => EINVAL,
            Helper::TaskStorageDelete => {
                let map = self.map_at(a1);
                self.maps.get_mut(map).map_or(EINVAL, |map| map.delete(&a2.to_le_bytes()))
            }
            Helper::SendSignal | Helper::SendSignalThread => {
                self.env.signals.push((a1 as u32, helper == Helper::SendSignalThread));
                0
            }
            Helper::OverrideReturn => {
                self.env.overridden = Some(a2);
                0
            }
            Helper::Strncmp => strncmp(&self.bytes(a1, a2)?, &self.c_string(a3, a2)?),
            Helper::TracePrintk => {
                let mut format = self.bytes(a1, a2)?;
                if format.pop() != Some(0) {
                    return Ok(EINVAL as u64);
                }
                let len = format.len() as i64;
                self.env.trace.push(TraceLine { format, args: [a3, a4, a5] });
                len
            }
            Helper::DPath => self.d_path(a1, a2, a3 as u32)?,
            Helper::SpinLock => {
                self.memory.load(a1, 4)?;
                if run.lock.replace(a1).is_some() {
                    return Err(FaultKind::LockHeld);
                }
                0
            }
            Helper::SpinUnlock => {
                if run.lock.take() != Some(a1) {
                    return Err(FaultKind::LockHeld);
                }
                0
            }
            _ => return Err(FaultKind::Unsupported(helper.id())),
        };
        Ok(result as u64)
    }

    fn clock(&mut self, which: fn(&super::Env) -> u64) -> u64 {
        let now = which(&self.env);
        self.tick();
        now
    }

    fn random(&mut self) -> u64 {
        let mut x = self.env.random.max(1);
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.env.random = x;
        x & 0xffff_ffff
    }

    fn lookup(&self, helper: Helper, map: u64, key: u64, cpu: usize) -> Result<u64, FaultKind> {
        let index = self.map_at(map);
        let unsupported = FaultKind::Unsupported(helper.id());
        let map = self.maps.get(index).ok_or(unsupported)?;
        let key = match map.spec.key_size as usize {
            0 => &[],
            len => self.memory.read(key, len)?,
        };
        map.lookup_address(&self.memory, &self.maps, key, cpu).ok_or(unsupported)
    }

    /// The bytes of user or kernel memory, or why there are none.
    fn fetch(&self, addr: u64, len: usize, space: Space) -> Result<Vec<u8>, i64> {
        match space {
            Space::Kernel if is_ours(addr) => self.memory.peek(addr, len).ok_or(EFAULT),
            Space::Kernel if !is_kernel_address(addr) => Err(ERANGE),
            Space::Kernel => self.env.kernel.read(addr, len, false).ok_or(EFAULT),
            _ if addr >= USER_END => Err(EFAULT),
            _ => self.env.user.read(addr, len, space == Space::UserMaySleep).ok_or(EFAULT),
        }
    }

    fn probe_read(&mut self, dst: u64, len: u64, src: u64, space: Space) -> Result<i64, FaultKind> {
        let len = len as u32 as usize;
        if len == 0 {
            // The kernel checks the address even then, except when it copies pages in.
            return Ok(match space {
                Space::Kernel if !is_ours(src) && !is_kernel_address(src) => ERANGE,
                Space::User if src > USER_END => EFAULT,
                _ => 0,
            });
        }
        self.room(dst, len)?;
        let (bytes, result) = match self.fetch(src, len, space) {
            Ok(bytes) => (bytes, 0),
            Err(errno) => (vec![0; len], errno),
        };
        self.fill(dst, &bytes)?;
        Ok(result)
    }

    /// The result counts the NUL; a text that does not fit is cut and terminated; after a fault the destination is
    /// zero. Bytes after the NUL stay as they were, except that user strings are copied by words where the string
    /// allows it, which zeroes the rest of the last word.
    fn probe_read_str(&mut self, dst: u64, len: u64, src: u64, space: Space) -> Result<i64, FaultKind> {
        let len = len as u32 as usize;
        if len == 0 {
            return Ok(0);
        }
        self.room(dst, len)?;
        let mut text = Vec::new();
        let mut errno = 0;
        let mut words = space == Space::User;
        while text.len() < len {
            let at = src.wrapping_add(text.len() as u64);
            words &= len - text.len() >= 8;
            if words {
                if let Ok(word) = self.fetch(at, 8, space) {
                    match word.iter().position(|&b| b == 0) {
                        Some(nul) => {
                            text.extend_from_slice(&word[..=nul]);
                            break;
                        }
                        None => text.extend_from_slice(&word),
                    }
                    continue;
                }
                words = false;
            }
            match self.fetch(at, 1, space) {
                Ok(byte) => text.extend_from_slice(&byte),
                Err(error) => errno = error,
            }
            if errno != 0 || text.last() == Some(&0) {
                break;
            }
        }
        if errno != 0 {
            self.fill(dst, &vec![0; len])?;
            return Ok(errno);
        }
        if let Some(last) = text.last_mut() {
            *last = 0;
        }
        let result = text.len() as i64;
        if words {
            text.resize(text.len().next_multiple_of(8).min(len), 0);
        }
        self.fill_partly(dst, &text, len)?;
        Ok(result)
    }

    /// Writes `bytes` into a buffer of `len` that counts as written as a whole.
    fn fill_partly(&mut self, dst: u64, bytes: &[u8], len: usize) -> Result<(), FaultKind> {
        self.memory.write(dst, len)?[..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn ns_pid_tgid(&mut self, args: &[u64; 5]) -> Result<i64, FaultKind> {
        let [dev, ino, buf, size, _] = *args;
        let matching = self.env.pid_ns.filter(|ns| size == 8 && ns.0 == dev && ns.1 == ino);
        self.room(buf, size as u32 as usize)?;
        let mut bytes = vec![0; size as u32 as usize];
        if let Some((_, _, pid, tgid)) = matching {
            bytes[..4].copy_from_slice(&pid.to_le_bytes());
            bytes[4..8].copy_from_slice(&tgid.to_le_bytes());
        }
        self.fill(buf, &bytes)?;
        Ok(if matching.is_some() { 0 } else { EINVAL })
    }

    /// The stack without the frames that are to be skipped, if there are so many.
    fn stack_of(&self, flags: u64) -> Option<&[u64]> {
        let stack = if flags & USER_STACK != 0 { &self.env.user_stack } else { &self.env.kernel_stack };
        stack.get((flags & 0xff) as usize..)
    }

    fn get_stack(&mut self, buf: u64, size: u64, flags: u64) -> Result<i64, FaultKind> {
        let size = size as u32 as usize;
        self.room(buf, size)?;
        let bad_flags = flags & !(0xff | USER_STACK) != 0;
        let mut bytes: Vec<u8> = Vec::new();
        let stack = self.stack_of(flags);
        let short = stack.is_none();
        if !bad_flags && size.is_multiple_of(8) {
            bytes = stack.unwrap_or(&[]).iter().take(size / 8).flat_map(|ip| ip.to_le_bytes()).collect();
        }
        let used = bytes.len();
        bytes.resize(size, 0);
        self.fill(buf, &bytes)?;
        Ok(if bad_flags || !size.is_multiple_of(8) {
            EINVAL
        } else if short {
            EFAULT
        } else {
            used as i64
        })
    }

    fn get_stackid(&mut self, map: u64, flags: u64) -> i64 {
        if flags & !(0xff | USER_STACK | 1 << 9 | REUSE_STACKID) != 0 {
            return EINVAL;
        }
        let map = self.map_at(map);
        let depth = self.map_sizes(map).1 / 8;
        let stack: Vec<u64> = self.stack_of(flags).unwrap_or(&[]).iter().copied().take(depth).collect();
        if stack.is_empty() {
            return EFAULT;
        }
        let Some(map) = self.maps.get_mut(map) else { return EINVAL };
        let buckets = map.spec.max_entries.max(1).next_power_of_two();
        let Body::Stacks(stacks) = &mut map.body else { return EINVAL };
        // Not the kernel's hash (its seed is its own affair), but like it one that ids are drawn from.
        let hash = stack.iter().fold(0xcbf2_9ce4_8422_2325u64, |h, ip| (h ^ ip).wrapping_mul(0x0000_0100_0000_01b3));
        let id = (hash ^ hash >> 32) as u32 & (buckets - 1);
        match stacks.get(&id) {
            Some(old) if *old == stack => return i64::from(id),
            Some(_) if flags & REUSE_STACKID == 0 => return EEXIST,
            _ => {}
        }
        stacks.insert(id, stack);
        i64::from(id)
    }

    fn perf_output(&mut self, args: &[u64; 5]) -> Result<i64, FaultKind> {
        let [_, map, flags, data, len] = *args;
        let bytes = self.bytes(data, len)?;
        let index = if flags & CURRENT_CPU == CURRENT_CPU { self.env.cpu } else { flags as u32 };
        let map = self.map_at(map);
        let Some(map) = self.maps.get_mut(map) else { return Ok(EINVAL) };
        if flags & !CURRENT_CPU != 0 {
            return Ok(EINVAL);
        }
        if index >= map.spec.max_entries {
            return Ok(E2BIG);
        }
        let Body::Perf(records) = &mut map.body else { return Ok(EINVAL) };
        records.push((index, bytes));
        Ok(0)
    }

    fn ring_output(&mut self, map: u64, data: u64, len: u64, flags: u64) -> Result<i64, FaultKind> {
        let bytes = self.bytes(data, len)?;
        if flags & !3 != 0 {
            return Ok(EINVAL);
        }
        let map = self.map_at(map);
        let Some(Body::Ring(ring)) = self.maps.get_mut(map).map(|m| &mut m.body) else { return Ok(EINVAL) };
        let Some(sequence) = ring.reserve(len) else { return Ok(EAGAIN) };
        ring.submit(sequence, bytes);
        Ok(0)
    }

    fn ring_reserve(&mut self, run: &mut Run<'_>, map: u64, len: u64, flags: u64) -> u64 {
        let map = self.map_at(map);
        let Some(Body::Ring(ring)) = self.maps.get_mut(map).map(|m| &mut m.body) else { return 0 };
        if flags != 0 {
            return 0;
        }
        let Some(sequence) = ring.reserve(len) else { return 0 };
        let record = self.memory.junk(Kind::Ring(map, sequence), len as usize);
        run.records.push(record);
        record
    }

    fn task_storage(&mut self, args: &[u64; 5]) -> Result<u64, FaultKind> {
        let [map, task, value, flags, _] = *args;
        if task == 0 || flags & !1 != 0 {
            return Ok(0);
        }
        let map = self.map_at(map);
        let value_size = self.map_sizes(map).1;
        let first = if value == 0 { Vec::new() } else { self.bytes(value, value_size as u64)? };
        let create = (flags == 1).then_some(first.as_slice());
        let limit = self.env.task_storage_limit;
        let unsupported = FaultKind::Unsupported(Helper::TaskStorageGet.id());
        let map = self.maps.get_mut(map).ok_or(unsupported)?;
        map.task_value(&mut self.memory, task, create, limit).ok_or(unsupported)
    }

    /// The bytes up to a NUL, at most `limit`.
    fn c_string(&self, addr: u64, limit: u64) -> Result<Vec<u8>, FaultKind> {
        let mut text = Vec::new();
        while (text.len() as u64) < limit {
            let byte = self.memory.read(addr.wrapping_add(text.len() as u64), 1)?[0];
            text.push(byte);
            if byte == 0 {
                break;
            }
        }
        Ok(text)
    }

    fn d_path(&mut self, path: u64, buf: u64, size: u32) -> Result<i64, FaultKind> {
        if size == 0 {
            return Ok(0);
        }
        let Some(text) = self.env.paths.get(&path) else { return Ok(ENOMEM) };
        let mut bytes = text.clone().into_bytes();
        bytes.push(0);
        if bytes.len() > size as usize {
            return Ok(ENAMETOOLONG);
        }
        self.fill_partly(buf, &bytes, size as usize)?;
        Ok(bytes.len() as i64)
    }

    fn callback(&mut self, run: &mut Run<'_>, func: u64, args: &[u64], pc: usize) -> Result<u64, Fault> {
        let start = func_slot(func).unwrap_or(pc);
        let mut regs = [0; 11];
        regs[1..=args.len()].copy_from_slice(args);
        let valid = ((1u16 << args.len()) - 1) << 1;
        self.call(run, start, Frame { regs, valid, typed: 0 }).map(|(r0, _)| r0)
    }

    fn loop_helper(&mut self, run: &mut Run<'_>, args: &[u64; 5], pc: usize) -> Result<u64, Fault> {
        let [count, func, ctx, flags, _] = *args;
        let count = u64::from(count as u32);
        if flags != 0 {
            return Ok(EINVAL as u64);
        }
        if count > MAX_LOOPS {
            return Ok(E2BIG as u64);
        }
        for i in 0..count {
            if self.callback(run, func, &[i, ctx], pc)? != 0 {
                return Ok(i + 1);
            }
        }
        Ok(count)
    }

    fn for_each(&mut self, run: &mut Run<'_>, args: &[u64; 5], pc: usize) -> Result<u64, Fault> {
        let [map, func, ctx, flags, _] = *args;
        if flags != 0 {
            return Ok(EINVAL as u64);
        }
        let index = self.map_at(map);
        let mut called = 0;
        for key in self.map_keys(index) {
            let cpu = self.env.cpu as usize;
            let found = self.maps.get(index).and_then(|m| m.lookup_address(&self.memory, &self.maps, &key, cpu));
            // A callback may have deleted a later element.
            let Some(value) = found.filter(|&addr| addr != 0) else { continue };
            let lent = self.memory.block(Kind::Lent, key, false);
            called += 1;
            let result = self.callback(run, func, &[map, lent, value, ctx], pc);
            self.memory.release(lent);
            if result? != 0 {
                break;
            }
        }
        Ok(called)
    }
}

/// The old `probe_read` chooses by the address.
fn either_space(addr: u64) -> Space {
    if addr < USER_END { Space::User } else { Space::Kernel }
}

/// Addresses that the kernel lets `probe_read_kernel` try: canonical, and above user space.
fn is_kernel_address(addr: u64) -> bool {
    addr >= 0xffff_8000_0000_0000
}

/// `strncmp` as the kernel's C version has it: -1, 0 or 1.
fn strncmp(a: &[u8], b: &[u8]) -> i64 {
    for (i, &x) in a.iter().enumerate() {
        let y = b.get(i).copied().unwrap_or(0);
        if x != y {
            return if x < y { -1 } else { 1 };
        }
        if x == 0 {
            break;
        }
    }
    0
}
