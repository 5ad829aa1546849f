//! Tests on the real kernel: what is loaded, attached and counted is really so. Each skips where that is not permitted.

#![expect(clippy::print_stderr, reason = "a skipped test says so")]

use std::hint::black_box;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use probity_bpf::insn::{R0, R1, R2, R3, R4, R6, R7, R10};
use probity_bpf::object::map_flags;
use probity_bpf::{Asm, AtomicOp, Cond, Helper, Insn, MapKind, MapSpec, Object, ProgSpec, ProgType, Size, Width};
use probity_kernel::child::Child;
use probity_kernel::perf::{Mode, ProbePmu, Rate, Source};
use probity_kernel::{Feature, Kind, Poller, Prog, Ring, System, Update, attach, load};

macro_rules! need_bpf {
    () => {
        if !probity_kernel::can_bpf() {
            eprintln!("skipped: this process may not load BPF programs");
            return;
        }
    };
}

/// A mappable array of `words` 64-bit numbers.
fn words(name: &str, words: usize) -> MapSpec {
    let mut spec = MapSpec::global(name, vec![0; words * 8]);
    spec.flags = map_flags::MMAPABLE;
    spec
}

/// A program that adds 1 to word 0 of map 0, and the cookie of its probe to word 1.
fn counter(prog_type: ProgType, cookie: bool) -> ProgSpec {
    let mut a = Asm::new();
    a.emit(Insn::ld_map_value(R6, 0, 0));
    a.emit(Insn::mov64(R2, 1));
    a.emit(Insn::atomic(AtomicOp::Add, Width::W64, R6, 0, R2));
    if cookie {
        a.emit(Insn::call(Helper::GetAttachCookie));
        a.emit(Insn::atomic(AtomicOp::Add, Width::W64, R6, 8, R0));
    }
    a.emit(Insn::mov64(R0, 0));
    a.emit(Insn::exit());
    ProgSpec::new("counter", prog_type, a.finish().unwrap().insns)
}

fn object(maps: Vec<MapSpec>, prog: ProgSpec) -> Object {
    Object { maps, progs: vec![prog] }
}

fn only(progs: &[Prog]) -> &Prog {
    assert_eq!(progs.len(), 1);
    &progs[0]
}

#[test]
fn mapped_data_is_shared_with_the_program() {
    need_bpf!();
    let mut data = words("data", 2);
    data.data = Some([40u64.to_ne_bytes(), 0u64.to_ne_bytes()].concat());
    let loaded = load(&object(vec![data], counter(ProgType::RawTracepoint, false))).unwrap();
    let mapped = loaded.map("data").unwrap().mmap().unwrap();
    assert_eq!(mapped.len(), 16);
    mapped.u64(0).fetch_add(1, Ordering::Relaxed);
    assert_eq!(only(&loaded.progs).test_run(&[], None).unwrap(), 0);
    assert_eq!(only(&loaded.progs).test_run(&[], Some(0)).unwrap(), 0);
    assert_eq!(mapped.u64(0).load(Ordering::Relaxed), 43);
    let value = loaded.maps[0].lookup(&0u32.to_ne_bytes()).unwrap().unwrap();
    assert_eq!(value[..8], 43u64.to_ne_bytes());
    let mut bytes = [0; 8];
    mapped.copy_to(0, &mut bytes);
    assert_eq!(u64::from_ne_bytes(bytes), 43);
    assert!(loaded.maps[0].lookup(&[0; 3]).is_err());
}

#[test]
fn test_run_passes_arguments_and_returns() {
    need_bpf!();
    let mut a = Asm::new();
    a.emit(Insn::ldx(Size::DW, R2, R1, 0));
    a.emit(Insn::ldx(Size::DW, R0, R1, 8));
    a.emit(Insn::add64(R0, R2));
    a.emit(Insn::exit());
    let prog = ProgSpec::new("sum", ProgType::RawTracepoint, a.finish().unwrap().insns);
    let loaded = load(&object(vec![], prog)).unwrap();
    assert_eq!(only(&loaded.progs).test_run(&[30, 12], None).unwrap(), 42);
    let info = only(&loaded.progs).info().unwrap();
    assert!(info.id > 0 && info.xlated_len > 0 && &info.name[..4] == b"sum\0");
    assert_eq!(only(&loaded.progs).recursion_misses().unwrap(), 0);
}

#[test]
fn a_rejection_has_program_slot_and_log() {
    need_bpf!();
    let bad = ProgSpec::new(
        "bad",
        ProgType::RawTracepoint,
        vec![Insn::mov64(R0, 0), Insn::ldx(Size::DW, R2, R3, 0), Insn::exit()],
    );
    let error = load(&object(vec![], bad)).unwrap_err();
    assert_eq!(error.kind(), Kind::Rejected);
    assert_eq!(error.rejected_at(), Some((0, Some(1))));
    assert!(error.verifier_log().unwrap().contains("!read_ok"));
    assert!(!error.to_string().contains('\n'), "{error}");
}

/// A program that writes its two arguments to ring `map`, or discards where the first is 0.
fn writer(ring: u32) -> ProgSpec {
    let mut a = Asm::new();
    let (skip, done) = (a.label(), a.label());
    a.emit(Insn::ldx(Size::DW, R6, R1, 0));
    a.emit(Insn::ldx(Size::DW, R7, R1, 8));
    a.emit(Insn::ld_map_fd(R1, ring));
    a.emit(Insn::mov64(R2, 16));
    a.emit(Insn::mov64(R3, 0));
    a.emit(Insn::call(Helper::RingbufReserve));
    a.jmp64(Cond::Eq, R0, 0, done);
    a.emit(Insn::stx(Size::DW, R0, 0, R6));
    a.emit(Insn::stx(Size::DW, R0, 8, R7));
    a.emit(Insn::mov64(R1, R0));
    a.emit(Insn::mov64(R2, 0));
    a.jmp64(Cond::Eq, R6, 0, skip);
    a.emit(Insn::call(Helper::RingbufSubmit));
    a.emit(Insn::mov64(R0, 1));
    a.emit(Insn::exit());
    a.bind(skip);
    a.emit(Insn::call(Helper::RingbufDiscard));
    a.emit(Insn::mov64(R0, 2));
    a.bind(done);
    a.emit(Insn::exit());
    ProgSpec::new("writer", ProgType::RawTracepoint, a.finish().unwrap().insns)
}

fn pair(record: &[u8]) -> (u64, u64) {
    let word = |at: usize| u64::from_ne_bytes(record[at..at + 8].try_into().unwrap());
    assert_eq!(record.len(), 16);
    (word(0), word(8))
}

#[test]
fn a_ring_yields_every_record_in_order_and_wraps() {
    need_bpf!();
    let loaded = load(&object(vec![MapSpec::ringbuf("ring", 4096)], writer(0))).unwrap();
    let prog = only(&loaded.progs);
    let mut ring = Ring::new(&loaded.maps[0]).unwrap();
    let poller = Poller::new().unwrap();
    poller.add(&ring, 3).unwrap();
    let mut ready = Vec::new();
    poller.wait(Some(Duration::ZERO), &mut ready).unwrap();
    assert!(ready.is_empty());
    let mut seen = Vec::new();
    for round in 0..400u64 {
        assert_eq!(prog.test_run(&[round * 2 + 1, 7], None).unwrap(), 1);
        assert_eq!(prog.test_run(&[0, 0], None).unwrap(), 2);
        assert_eq!(prog.test_run(&[round * 2 + 2, 8], None).unwrap(), 1);
        assert_eq!(ring.used(), 72);
        if round == 0 {
            poller.wait(None, &mut ready).unwrap();
            assert_eq!(ready, [3]);
            // A break consumes the record and leaves the rest.
            assert_eq!(
                ring.read(|record| {
                    seen.push(pair(record));
                    ControlFlow::Break(())
                }),
                1
            );
        }
        ring.read(|record| {
            seen.push(pair(record));
            ControlFlow::Continue(())
        });
        assert_eq!(ring.used(), 0);
    }
    let expected: Vec<_> = (1..=800).map(|n| (n, 7 + (n + 1) % 2)).collect();
    assert_eq!(seen, expected);
}

#[test]
fn a_ring_loses_nothing_under_fire() {
    need_bpf!();
    const EACH: u64 = 20_000;
    let loaded = load(&object(vec![MapSpec::ringbuf("ring", 65536)], writer(0))).unwrap();
    let prog = only(&loaded.progs);
    let mut ring = Ring::new(&loaded.maps[0]).unwrap();
    let poller = Poller::new().unwrap();
    poller.add(&ring, 0).unwrap();
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2u64)
            .map(|id| {
                let write = move || (1..=EACH).filter(|n| prog.test_run(&[*n, id], None).unwrap() == 1).count();
                scope.spawn(write)
            })
            .collect();
        let (mut last, mut count, mut ready) = ([0; 2], 0, Vec::new());
        loop {
            // Asked before reading: what was written before it ended is read below.
            let ended = writers.iter().all(|writer| writer.is_finished());
            poller.wait(Some(Duration::from_millis(1)), &mut ready).unwrap();
            count += ring.read(|record| {
                let (n, id) = pair(record);
                assert!(n > last[id as usize]);
                last[id as usize] = n;
                ControlFlow::Continue(())
            });
            if ended {
                break;
            }
        }
        let written: usize = writers.into_iter().map(|writer| writer.join().unwrap()).sum();
        assert_eq!(count, written);
    });
    assert_eq!(ring.used(), 0);
}

#[test]
fn a_full_ring_refuses() {
    need_bpf!();
    let loaded = load(&object(vec![MapSpec::ringbuf("ring", 4096)], writer(0))).unwrap();
    let prog = only(&loaded.progs);
    let written = (0..1000).filter(|n| prog.test_run(&[n + 1, 0], None).unwrap() == 1).count();
    assert!(written < 1000);
    let mut ring = Ring::new(&loaded.maps[0]).unwrap();
    assert_eq!(ring.read(|_| ControlFlow::Continue(())), written);
}

#[test]
fn an_array_of_rings() {
    need_bpf!();
    let mut rings = MapSpec::new("rings", MapKind::ArrayOfMaps, 4, 4, 2);
    rings.inner = Some(Box::new(MapSpec::ringbuf("ring", 4096)));
    rings.inner_count = 2;
    // Looks up ring number arg0 and outputs arg1's bytes from the stack.
    let mut a = Asm::new();
    let done = a.label();
    a.emit(Insn::ldx(Size::DW, R2, R1, 0));
    a.emit(Insn::ldx(Size::DW, R3, R1, 8));
    a.emit(Insn::stx(Size::W, R10, -4, R2));
    a.emit(Insn::stx(Size::DW, R10, -24, R3));
    a.emit(Insn::stx(Size::DW, R10, -16, R3));
    a.emit(Insn::ld_map_fd(R1, 0));
    a.emit(Insn::mov64(R2, R10));
    a.emit(Insn::add64(R2, -4));
    a.emit(Insn::call(Helper::MapLookupElem));
    a.jmp64(Cond::Eq, R0, 0, done);
    a.emit(Insn::mov64(R1, R0));
    a.emit(Insn::mov64(R2, R10));
    a.emit(Insn::add64(R2, -24));
    a.emit(Insn::mov64(R3, 16));
    a.emit(Insn::mov64(R4, 0));
    a.emit(Insn::call(Helper::RingbufOutput));
    a.bind(done);
    a.emit(Insn::mov64(R0, 0));
    a.emit(Insn::exit());
    let prog = ProgSpec::new("output", ProgType::RawTracepoint, a.finish().unwrap().insns);
    let loaded = load(&object(vec![rings], prog)).unwrap();
    for args in [[0, 10], [1, 11], [1, 12], [2, 13]] {
        only(&loaded.progs).test_run(&args, None).unwrap();
    }
    let mut found = Vec::new();
    for (index, map) in loaded.maps[0].inner().iter().enumerate() {
        let mut ring = Ring::new(map).unwrap();
        ring.read(|record| {
            found.push((index, pair(record).0));
            ControlFlow::Continue(())
        });
    }
    assert_eq!(found, [(0, 10), (1, 11), (1, 12)]);
}

#[test]
fn batches_see_every_entry_once() {
    need_bpf!();
    for kind in [MapKind::Hash, MapKind::PercpuHash] {
        let mut spec = MapSpec::new("hash", kind, 12, 24, 5000);
        spec.flags = map_flags::NO_PREALLOC;
        let map = probity_kernel::load::create_map(&spec).unwrap();
        let key = |n: u32| [n.to_ne_bytes(), [1; 4], [2; 4]].concat();
        for n in 0..5000u32 {
            let mut value = vec![0; map.whole_value()];
            value[..4].copy_from_slice(&n.to_ne_bytes());
            assert!(map.update(&key(n), &value, Update::NoExist).unwrap());
        }
        assert!(!map.update(&key(0), &vec![0; map.whole_value()], Update::NoExist).unwrap());
        let full = map.update(&key(5001), &vec![0; map.whole_value()], Update::Any).unwrap_err();
        assert_eq!(full.kind(), Kind::Limit);
        let mut seen = vec![0; 5000];
        let count = map.for_each(|key, value| {
            assert_eq!(key[..4], value[..4]);
            seen[u32::from_ne_bytes(key[..4].try_into().unwrap()) as usize] += 1;
        });
        assert_eq!(count.unwrap(), 5000);
        assert!(seen.iter().all(|times| *times == 1));
        assert!(map.delete(&key(17)).unwrap());
        assert!(!map.delete(&key(17)).unwrap());
        assert_eq!(map.lookup(&key(17)).unwrap(), None);
        assert!(map.next_key(None).unwrap().is_some());
        assert_eq!(map.drain(|_, _| {}).unwrap(), 4999);
        assert_eq!(map.for_each(|_, _| {}).unwrap(), 0);
        assert_eq!(map.next_key(None).unwrap(), None);
    }
}

#[test]
fn arrays_are_filled_and_walked() {
    need_bpf!();
    for kind in [MapKind::Array, MapKind::PercpuArray] {
        let mut spec = MapSpec::new("array", kind, 4, 12, 3);
        spec.data = Some((0..24).collect());
        let map = probity_kernel::load::create_map(&spec).unwrap();
        let mut values = Vec::new();
        assert_eq!(map.for_each(|_, value| values.push(value.to_vec())).unwrap(), 3);
        assert_eq!(values[1][..12], (12..24).collect::<Vec<u8>>());
        let last = values[1].len() - values[1].len().min(16);
        if kind == MapKind::PercpuArray {
            assert_eq!(values[1][last..last + 12], (12..24).collect::<Vec<u8>>());
        }
        assert!(values[2].iter().all(|byte| *byte == 0));
    }
    let mut constant = MapSpec::global("constant", vec![5; 8]);
    constant.flags = map_flags::RDONLY_PROG;
    constant.frozen = true;
    let map = probity_kernel::load::create_map(&constant).unwrap();
    assert_eq!(map.update(&[0; 4], &[1; 8], Update::Any).unwrap_err().kind(), Kind::Permission);
}

#[test]
fn task_storage_is_created() {
    need_bpf!();
    let map = probity_kernel::load::create_map(&MapSpec::task_storage("self", 40)).unwrap();
    assert_eq!(map.attr().value_size, 40);
}

#[test]
fn a_raw_tracepoint_counts_and_detaches_on_drop() {
    need_bpf!();
    // Counts getpgid of this thread only: other tests run at the same time.
    let mut a = Asm::new();
    let done = a.label();
    a.emit(Insn::ldx(Size::DW, R7, R1, 8));
    a.emit(Insn::call(Helper::GetCurrentPidTgid));
    a.jmp(Cond::Ne, Width::W64, R7, libc_sys_getpgid(), done);
    a.jmp(Cond::Ne, Width::W32, R0, gettid() as i32, done);
    a.emit(Insn::ld_map_value(R6, 0, 0));
    a.emit(Insn::mov64(R2, 1));
    a.emit(Insn::atomic(AtomicOp::Add, Width::W64, R6, 0, R2));
    a.bind(done);
    a.emit(Insn::mov64(R0, 0));
    a.emit(Insn::exit());
    let prog = ProgSpec::new("sys_enter", ProgType::RawTracepoint, a.finish().unwrap().insns);
    let loaded = load(&object(vec![words("data", 1)], prog)).unwrap();
    let data = loaded.maps[0].mmap().unwrap();
    let attachment = attach::raw_tracepoint(&loaded.progs[0], "sys_enter", 0).unwrap();
    for _ in 0..1000 {
        getpgid();
    }
    assert_eq!(data.u64(0).load(Ordering::Relaxed), 1000);
    drop(attachment);
    getpgid();
    assert_eq!(data.u64(0).load(Ordering::Relaxed), 1000);
    assert_eq!(attach::raw_tracepoint(&loaded.progs[0], "no_such", 0).unwrap_err().kind(), Kind::NotFound);
}

/// A function to probe.
#[inline(never)]
extern "C" fn probed(n: u64) -> u64 {
    black_box(n).wrapping_mul(3)
}

/// A second one.
#[inline(never)]
extern "C" fn probed_too(n: u64) -> u64 {
    black_box(n).wrapping_mul(5)
}

fn place(function: extern "C" fn(u64) -> u64) -> (PathBuf, u64) {
    let address = function as usize as u64;
    let maps = System::live().maps(std::process::id()).unwrap();
    let mapping = maps.iter().find(|m| (m.start..m.end).contains(&address)).unwrap();
    (PathBuf::from(&mapping.path), address - mapping.start + mapping.offset)
}

#[test]
fn uprobe_multi_passes_cookies() {
    need_bpf!();
    let sys = System::live();
    if !sys.has(Feature::UprobeMulti) {
        eprintln!("skipped: no uprobe multi-links before Linux 6.6");
        return;
    }
    let mut prog = counter(ProgType::Kprobe, true);
    prog.attach_type = Some(probity_kernel::sys::attach_type::TRACE_UPROBE_MULTI);
    let loaded = load(&object(vec![words("data", 2)], prog)).unwrap();
    let data = loaded.maps[0].mmap().unwrap();
    let (path, first) = place(probed);
    let (_, second) = place(probed_too);
    let sites = [(first, 100), (second, 1)];
    let pid = Some(std::process::id());
    let entry = attach::uprobe_multi(&loaded.progs[0], &path, &sites, pid, false).unwrap();
    assert_eq!(probed(2) + probed_too(2), 16);
    assert_eq!(data.u64(0).load(Ordering::Relaxed), 2);
    assert_eq!(data.u64(8).load(Ordering::Relaxed), 101);
    // Every thread of the process is followed.
    std::thread::spawn(|| probed(1)).join().unwrap();
    assert_eq!(data.u64(8).load(Ordering::Relaxed), 201);
    drop(entry);
    probed(1);
    assert_eq!(data.u64(0).load(Ordering::Relaxed), 3);
    let ret = attach::uprobe_multi(&loaded.progs[0], &path, &sites[..1], pid, true).unwrap();
    assert_eq!(probed(2), 6);
    assert_eq!(data.u64(8).load(Ordering::Relaxed), 301);
    drop(ret);
    let error = attach::uprobe_multi(&loaded.progs[0], &path, &sites, Some(1 << 23), false).unwrap_err();
    assert_eq!(error.kind(), Kind::Gone, "{error}");
}

#[test]
fn a_command_can_be_probed_from_its_first_instruction() {
    need_bpf!();
    let sys = System::live();
    if !sys.has(Feature::UprobeMulti) {
        eprintln!("skipped: no uprobe multi-links before Linux 6.6");
        return;
    }
    let mut prog = counter(ProgType::Kprobe, true);
    prog.attach_type = Some(probity_kernel::sys::attach_type::TRACE_UPROBE_MULTI);
    let loaded = load(&object(vec![words("data", 2)], prog)).unwrap();
    let data = loaded.maps[0].mmap().unwrap();
    let mut child = Child::spawn(&["sleep".to_owned(), "0".to_owned()]).unwrap();
    child.run_to_entry(&sys).unwrap();
    // The entry point is where the breakpoint was, so its page is the child's own copy.
    let entry = sys.auxv(child.pid(), libc::AT_ENTRY).unwrap().unwrap();
    let maps = sys.maps(child.pid()).unwrap();
    let mapping = maps.iter().find(|m| (m.start..m.end).contains(&entry)).unwrap();
    let offset = entry - mapping.start + mapping.offset;
    let path = sys.path_in(child.pid(), &mapping.path);
    let probe = attach::uprobe_multi(&loaded.progs[0], &path, &[(offset, 6)], Some(child.pid()), false).unwrap();
    child.detach().unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(data.u64(0).load(Ordering::Relaxed), 1);
    assert_eq!(data.u64(8).load(Ordering::Relaxed), 6);
    drop(probe);
}

#[test]
fn uprobe_pmu_passes_a_cookie() {
    need_bpf!();
    let Ok(pmu) = ProbePmu::read(&System::live(), "uprobe") else {
        eprintln!("skipped: no uprobe PMU");
        return;
    };
    let loaded = load(&object(vec![words("data", 2)], counter(ProgType::Kprobe, true))).unwrap();
    let data = loaded.maps[0].mmap().unwrap();
    let (path, offset) = place(probed_pmu);
    let pid = Some(std::process::id());
    let probe = attach::uprobe_pmu(&loaded.progs[0], &pmu, &path, (offset, 9), 0, pid, false).unwrap();
    // A uprobe PMU event of one pid follows the thread of that number; the program runs for all of the process.
    probed_pmu(1);
    assert_eq!(data.u64(0).load(Ordering::Relaxed), 1);
    assert_eq!(data.u64(8).load(Ordering::Relaxed), 9);
    drop(probe);
    probed_pmu(1);
    assert_eq!(data.u64(0).load(Ordering::Relaxed), 1);
}

/// A third one.
#[inline(never)]
extern "C" fn probed_pmu(n: u64) -> u64 {
    black_box(n).wrapping_mul(7)
}

#[test]
fn a_perf_tracepoint_passes_a_cookie() {
    need_bpf!();
    let sys = System::live();
    let id = sys.tracefs().unwrap().read("events/sched/sched_process_exit/id").unwrap();
    let loaded = load(&object(vec![words("data", 2)], counter(ProgType::Tracepoint, true))).unwrap();
    let data = loaded.maps[0].mmap().unwrap();
    let probe = attach::perf_tracepoint(&loaded.progs[0], id.trim().parse().unwrap(), 5).unwrap();
    std::thread::spawn(|| {}).join().unwrap();
    // The thread may be joined a moment before it exits.
    while data.u64(0).load(Ordering::Relaxed) == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(probe);
    let fired = data.u64(0).load(Ordering::Relaxed);
    assert_eq!(data.u64(8).load(Ordering::Relaxed), 5 * fired);
}

#[test]
fn sampling_fires_on_busy_cpus() {
    need_bpf!();
    let loaded = load(&object(vec![words("data", 2)], counter(ProgType::PerfEvent, true))).unwrap();
    let data = loaded.maps[0].mmap().unwrap();
    let cpus = System::live().online_cpus().unwrap();
    let profile =
        attach::sample(&loaded.progs[0], &Source::CpuClock, Rate::Frequency(997), Mode::All, &cpus, 2).unwrap();
    assert_eq!(profile.len(), cpus.len() * 2);
    let mut n = 0u64;
    while data.u64(0).load(Ordering::Relaxed) < 3 {
        n = black_box(n + 1);
    }
    assert!(data.u64(8).load(Ordering::Relaxed) >= 6);
    drop(profile);
    let after = data.u64(0).load(Ordering::Relaxed);
    for _ in 0..1_000_000 {
        n = black_box(n + 1);
    }
    assert_eq!(data.u64(0).load(Ordering::Relaxed), after);
}

#[test]
fn nothing_is_left_of_a_loaded_object() {
    need_bpf!();
    let loaded = load(&object(vec![words("data", 2)], counter(ProgType::RawTracepoint, false))).unwrap();
    let id = only(&loaded.progs).info().unwrap().id;
    assert!(probity_kernel::sys::prog_ids().contains(&id));
    drop(loaded);
    // The kernel frees a program after a grace period.
    for _ in 0..1000 {
        if !probity_kernel::sys::prog_ids().contains(&id) {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("program {id} is still loaded");
}

fn libc_sys_getpgid() -> i32 {
    i32::try_from(libc::SYS_getpgid).unwrap()
}

fn getpgid() {
    // SAFETY: asks for this process's group.
    unsafe { libc::getpgid(0) };
}

fn gettid() -> u32 {
    // SAFETY: no preconditions.
    unsafe { libc::gettid() as u32 }
}
