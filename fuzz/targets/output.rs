//! The consumer's pure half on a fixed program: bytes of rings decoded and rendered, bytes of maps fed to aggregations,
//! in any order, as text, as DTrace has it, and as JSON.
#![no_main]

mod world;

use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use probity_ir::{AggId, Drop};
use probity_output::{
    Aggregations, Context, Deed, DropCount, Event, Json, NoSymbols, Plan, Renderer, Sort, Store, Style, Text, decode,
};
use std::io;
use std::sync::LazyLock;
use world::World;

static WORLD: LazyLock<(World, Plan)> = LazyLock::new(|| {
    let world = World::new();
    let plan = Plan::new(&world.program);
    (world, plan)
});

/// Counts what is written, so that a flood of output needs no memory.
#[derive(Default)]
struct Sink(usize);

impl io::Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl probity_output::Output for Sink {
    fn deed(&mut self, deed: Deed<'_>, style: &mut Style) -> std::result::Result<bool, String> {
        self.0 += usize::from(style.anonymous);
        Ok(!matches!(deed, Deed::Packet { .. }))
    }
}

fn style(u: &mut Unstructured) -> Result<Style> {
    let flags: u8 = u.arbitrary()?;
    let sort: u8 = u.arbitrary()?;
    let bit = |byte: u8, n: u8| byte >> n & 1 == 1;
    let base = if bit(flags, 0) { Style::dtrace() } else { Style::default() };
    Ok(Style {
        quiet: bit(flags, 1),
        flowindent: bit(flags, 2),
        rawbytes: bit(flags, 3),
        droptags: bit(flags, 4),
        sort: Sort {
            key: bit(sort, 0),
            reverse: bit(sort, 1),
            signed: bit(sort, 2),
            keypos: u32::from(sort >> 3 & 3),
            pos: u32::from(sort >> 5 & 3),
        },
        ..base
    })
}

fn run(u: &mut Unstructured) -> Result<()> {
    let (world, plan) = &*WORLD;
    let types = probity_ir::TypeTable::default();
    let cx = Context { program: &world.program, layout: &world.layout, plan, symbols: &NoSymbols, types: &types };
    let first: u8 = u.arbitrary()?;
    let mut renderer: Box<dyn Renderer> =
        if first & 1 == 0 { Box::new(Text::new(style(u)?)) } else { Box::new(Json::new(style(u)?)) };
    let mut aggs = Aggregations { percpu: first & 2 != 0, ..Aggregations::new(&world.program) };
    let mut sinks = (Sink::default(), Sink::default());
    let count = world.program.aggs.len() as u8;
    let mut steps = 0;
    while !u.is_empty() && steps < 64 {
        steps += 1;
        let agg = AggId(u32::from(u.arbitrary::<u8>()? % (count + 1)));
        match u.arbitrary::<u8>()? % 8 {
            0..=3 => {
                let len = usize::from(u.arbitrary::<u8>()?).min(u.len());
                if let Ok(event) = decode(&cx, u.bytes(len)?) {
                    renderer.event(&cx, &event, &mut aggs, &mut sinks.0, &mut sinks.1).expect("a sink never fails");
                }
            }
            4..=5 => {
                let (key_len, value_len) = world.sizes(agg);
                let mut key = u.bytes(key_len.min(u.len()))?.to_vec();
                // Few CPUs and short values, so that keys meet and most words are not cut off.
                if let Some(high) = key.get_mut(1..4) {
                    high.fill(0);
                }
                let given = u.arbitrary::<u8>()?;
                let mut value = u.bytes(usize::from(given & 63).min(u.len()))?.to_vec();
                if given & 64 == 0 {
                    value.resize(value_len.max(value.len()), given);
                }
                let store = if given & 128 == 0 { Store::Live } else { Store::Kept };
                let _ = aggs.add(&cx, agg, &key, &value, store);
            }
            6 => aggs.begin(agg),
            _ => {
                let event = match u.arbitrary::<u8>()? % 4 {
                    0 => Event::Drops(DropCount {
                        cause: *u.choose(&Drop::ALL)?,
                        cpu: u.arbitrary()?,
                        count: u.arbitrary()?,
                    }),
                    1 => Event::Error(String::from_utf8_lossy(u.bytes(u.len().min(5))?).into_owned()),
                    2 => Event::Exit(u.arbitrary()?),
                    _ => continue,
                };
                renderer.event(&cx, &event, &mut aggs, &mut sinks.0, &mut sinks.1).expect("a sink never fails");
            }
        }
    }
    renderer.flush(&mut sinks.0).expect("a sink never fails");
    renderer.finish(&cx, &mut aggs, &mut sinks.0).expect("a sink never fails");
    Ok(())
}

fuzz_target!(|data: &[u8]| {
    // Too few bytes end the sequence early.
    let _ = run(&mut Unstructured::new(data));
});
