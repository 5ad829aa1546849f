//! Every routine against its meaning, in the interpreter, on random operands of lengths around the capacity.

use super::meaning::{Outcome, Value, call};
use super::*;
use probity_bpf::insn::{Insn, R1};
use probity_bpf::interp::Machine;
use probity_bpf::object::{MapKind, MapSpec, Object, ProgSpec, ProgType};

struct Rng(u64);

impl Rng {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    fn string(&mut self, alphabet: &[u8], most: u64) -> Vec<u8> {
        let len = match self.below(8) {
            0 => 0,
            1 => 1,
            2 => most,
            3 => most - 1,
            4 | 5 => self.below(6),
            _ => self.below(most + 1),
        };
        (0..len).map(|_| alphabet[self.below(alphabet.len() as u64) as usize]).collect()
    }

    fn number(&mut self, near: u64) -> i64 {
        match self.below(6) {
            0 => -(self.below(near) as i64),
            1 => i64::MIN,
            2 => i64::MAX,
            3 => self.0 as i64,
            _ => self.below(near) as i64,
        }
    }
}

/// Runs a routine on strings or bytes (in the buffers), and words.
fn run(routine: Routine, strings: &[Vec<u8>], words: &[i64], cap: u32) -> Outcome {
    let mut asm = Asm::new();
    let label = asm.label();
    asm.emit(Insn::ld_map_value(R1, 0, 0));
    asm.call_sub(label);
    asm.emit(Insn::exit());
    asm.bind(label);
    routine.write(&mut asm);
    let insns = asm.finish().expect("labels").insns;
    let spec = MapSpec::new("block", MapKind::Array, 4, routine.block(), 1);
    let prog = ProgSpec::new("test", ProgType::RawTracepoint, insns);
    let object = Object { maps: vec![spec], progs: vec![prog] };
    probity_bpf::check::check(&object, &object.progs[0]).expect("a program that passes the checks");
    let mut machine = Machine::new(&object);
    machine.env.budget = 1 << 26;
    let mut block = vec![0xa5; routine.block() as usize];
    for (at, string) in [A, routine.b()].into_iter().zip(strings) {
        block[at as usize..][..string.len()].copy_from_slice(string);
        block[at as usize + string.len()] = 0;
    }
    for (i, word) in words.iter().enumerate() {
        block[8 * (OPERAND as usize + i)..][..8].copy_from_slice(&word.to_le_bytes());
    }
    block[8 * CAP as usize..][..8].copy_from_slice(&u64::from(cap).to_le_bytes());
    machine.map_update(0, &[0; 4], &block, 0).unwrap();
    let status = machine.run(&object.progs[0], &mut [0; 8]).expect("a run without faults").r0;
    let block = machine.map_lookup(0, &[0; 4]).unwrap();
    match status {
        0 if routine.sub.is_text() => {
            let out = &block[routine.out() as usize..];
            Outcome::Text(crate::fold::text(out).to_vec())
        }
        0 => Outcome::Int(i64::from_le_bytes(block[8 * RESULT as usize..][..8].try_into().unwrap())),
        1 => Outcome::None,
        _ => Outcome::Illegal,
    }
}

fn cut(outcome: Outcome, cap: u32) -> Outcome {
    match outcome {
        Outcome::Text(mut text) => {
            text.truncate(cap as usize - 1);
            Outcome::Text(text)
        }
        other => other,
    }
}

/// Compares a routine with its meaning; `make` gives strings and words, in the order in which the subroutine takes them.
fn compare(sub: Sub, make: impl Fn(&mut Rng) -> (Vec<Vec<u8>>, Vec<i64>)) {
    let mut rng = Rng(sub as u64 + 1);
    let routine = Routine::new(sub, 128).unwrap();
    for round in 0..300 {
        let (strings, words) = make(&mut rng);
        let cap = [128, 1, 2, 9][round % 4];
        let strings_too = strings.iter().map(|s| Value::Bytes(s.clone().into()));
        let args: Vec<Value<'_>> = strings_too.chain(words.iter().map(|w| Value::Int(*w))).collect();
        let want = cut(call(sub, &args).unwrap(), cap);
        let mut words = words;
        if sub == Sub::Mac {
            words.push(strings[0].len() as i64);
        }
        assert_eq!(run(routine, &strings, &words, cap), want, "{sub:?} {args:?} cap {cap}");
    }
}

#[test]
fn finding() {
    for sub in [Sub::Index, Sub::Rindex] {
        compare(sub, |r| (vec![r.string(b"ab", 127), r.string(b"ab", 3)], vec![r.number(130)]));
        compare(sub, |r| (vec![r.string(b"a", 127), r.string(b"ab", 127)], vec![r.number(130)]));
    }
    compare(Sub::Strstr, |r| (vec![r.string(b"abc", 127), r.string(b"abc", 3)], vec![]));
    for sub in [Sub::Strchr, Sub::Strrchr] {
        compare(sub, |r| (vec![r.string(b"abcdefgh", 127)], vec![b"ahx\0"[r.below(4) as usize].into()]));
    }
}

#[test]
fn pieces() {
    compare(Sub::Substr, |r| (vec![r.string(b"abcdef", 127)], vec![r.number(140), r.number(140)]));
    for sub in [Sub::Token, Sub::Rest] {
        compare(sub, |r| (vec![r.string(b"ab,;\xff", 127), r.string(b",;\xffa", 127)], vec![]));
    }
}

#[test]
fn paths_and_case() {
    for sub in [Sub::Basename, Sub::Dirname, Sub::Cleanpath] {
        compare(sub, |r| (vec![r.string(b"/./.a", 127)], vec![]));
        compare(sub, |r| (vec![r.string(b"/a", 20)], vec![]));
    }
    for sub in [Sub::Upper, Sub::Lower, Sub::Strip] {
        compare(sub, |r| (vec![r.string(b"azAZ@[`{ \t\n\xe4", 127)], vec![]));
    }
}

#[test]
fn numbers() {
    compare(Sub::Digits, |r| (vec![], vec![r.number(1000), r.number(40)]));
    compare(Sub::Digits, |r| (vec![], vec![r.number(1000), [2, 8, 10, 16][r.below(4) as usize]]));
    compare(Sub::Number, |r| (vec![r.string(b" \t-+0x19afz", 40)], vec![r.number(40)]));
    compare(Sub::Number, |r| {
        let text = [&b"-"[..], b"", b"0x"][r.below(3) as usize];
        let digits = r.string(b"0123456789ab", 22);
        (vec![[text, &digits].concat()], vec![[10, 16][r.below(2) as usize]])
    });
}

#[test]
fn addresses() {
    let bytes = |r: &mut Rng, n: usize| (0..n).map(|_| [0, 0, 0, 1, 0xff, 100, 10][r.below(7) as usize]).collect();
    compare(Sub::Ip4, |r| (vec![bytes(r, 4)], vec![]));
    for n in [0, 1, 20, 128] {
        compare(Sub::Words, |r| {
            let all = (0..n).map(|_| b"ab\0\0"[r.below(4) as usize]).collect();
            let most = [n as i64, r.below(n as u64 + 1) as i64, -1][r.below(3) as usize];
            (vec![all], vec![if n == 128 { most } else { most.clamp(0, n as i64) }])
        });
    }
    for n in [6, 20] {
        compare(Sub::Mac, |r| (vec![bytes(r, n)], vec![]));
    }
    compare(Sub::Ip6, |r| {
        let mut all: Vec<u8> = bytes(r, 16);
        match r.below(3) {
            0 => all[..10].fill(0),
            1 => {
                all[..10].fill(0);
                all[10..12].fill(0xff);
            }
            _ => {}
        }
        (vec![all], vec![r.below(2) as i64])
    });
}

#[test]
fn json() {
    fn value(r: &mut Rng, depth: u32, out: &mut Vec<u8>) {
        let space = |r: &mut Rng| [&b""[..], b" ", b"\n"][r.below(3) as usize];
        match r.below(if depth == 0 { 4 } else { 7 }) {
            0 => out.extend(b"12"),
            1 => out.extend(b"null"),
            2 => out.extend(b"\"a,]\\\"}x\""),
            3 => out.extend(b"\"\""),
            4 | 5 => {
                out.push(b'{');
                for i in 0..r.below(4) {
                    if i > 0 {
                        out.push(b',');
                    }
                    out.extend(
                        [space(r), b"\"", &b"ab"[..1 + r.below(2) as usize], b"\"", space(r), b":", space(r)].concat(),
                    );
                    value(r, depth - 1, out);
                    out.extend(space(r));
                }
                out.push(b'}');
            }
            _ => {
                out.push(b'[');
                for i in 0..r.below(4) {
                    if i > 0 {
                        out.push(b',');
                    }
                    out.extend(space(r));
                    value(r, depth - 1, out);
                    out.extend(space(r));
                }
                out.push(b']');
            }
        }
    }
    let path = |r: &mut Rng| {
        (0..r.below(4)).flat_map(|_| [&b"a"[..], b".ab", b"[0]", b"[1]", b".a"][r.below(5) as usize]).copied().collect()
    };
    compare(Sub::Json, |r| {
        let mut text = Vec::new();
        value(r, 3, &mut text);
        text.truncate(127);
        (vec![text, path(r)], vec![])
    });
    compare(Sub::Json, |r| (vec![r.string(b"{}[]\",:a1 \\", 20), path(r)], vec![]));
}
