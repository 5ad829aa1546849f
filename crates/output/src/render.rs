//! What all renderers share: the style, and the trait by which the consumer drives them.

use crate::Context;
use crate::agg::Aggregations;
use crate::deed::Output;
use crate::event::{Event, Item};
use crate::order::Sort;
use std::io;

/// How output looks. The options that change it while tracing (`quiet`, `flowindent`, …) may be set at any time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Style {
    /// Only what the program prints itself.
    pub quiet: bool,
    /// Indents by entry and return.
    pub flowindent: bool,
    /// Exactly DTrace's output, also where ours is better.
    pub dropin: bool,
    /// Lines without the columns of CPU and probe number, which differ from run to run: what DTrace does for its own tests.
    pub anonymous: bool,
    /// `rawbytes`: strings in hexadecimal too.
    pub rawbytes: bool,
    /// `strsize`: how many bytes of a string DTrace shows then, its NULs included.
    pub strsize: usize,
    /// `printsize`: how many bytes of a value `print` shows.
    pub printsize: u64,
    /// `stackindent`: columns before each frame of a stack.
    pub stackindent: usize,
    /// `noresolve`: user addresses as a file and an offset.
    pub noresolve: bool,
    /// What the locale has between thousands, for the flag `'` of conversions.
    pub group: Option<char>,
    /// `agghist`: an aggregation of numbers as a bar for each key.
    pub agghist: bool,
    /// `aggpack`: a distribution in one line for each key.
    pub aggpack: bool,
    /// `aggzoom`: bars are scaled by the longest, not by the sum.
    pub aggzoom: bool,
    /// `droptags`: drops with their tags.
    pub droptags: bool,
    /// The word that messages start with: `dtrace` or `probity`.
    pub prefix: String,
    /// Providers whose entries and returns cross into the kernel: `=>` and `<=` under flow indentation.
    pub crossing: Vec<String>,
    /// The order of aggregations.
    pub sort: Sort,
}

impl Default for Style {
    fn default() -> Style {
        Style {
            quiet: false,
            flowindent: false,
            dropin: false,
            anonymous: false,
            rawbytes: false,
            strsize: 256,
            printsize: 8192,
            group: None,
            agghist: false,
            aggpack: false,
            aggzoom: false,
            stackindent: 14,
            noresolve: false,
            droptags: false,
            prefix: "probity".into(),
            crossing: Vec::new(),
            sort: Sort { signed: true, ..Sort::default() },
        }
    }
}

impl Style {
    /// DTrace's own look.
    pub fn dtrace() -> Style {
        Style { dropin: true, prefix: "dtrace".into(), sort: Sort::default(), ..Style::default() }
    }
}

/// Writes events. `out` takes the answer, `err` what is said about it (text; JSON has all in `out`).
pub trait Renderer {
    /// Writes one event. A record's `clear`, `trunc`, `normalize` and `denormalize` are applied to `aggs` on the way, in
    /// their place among its other actions; the caller has read the maps before.
    fn event(
        &mut self,
        cx: &Context,
        event: &Event,
        aggs: &mut Aggregations,
        out: &mut dyn Output,
        err: &mut dyn io::Write,
    ) -> io::Result<()>;

    /// Ends a line that waits for more records of the same firing. To be called before waiting and before other output.
    fn flush(&mut self, out: &mut dyn io::Write) -> io::Result<()>;

    /// The end of tracing: prints every aggregation that has not been printed yet.
    fn finish(&mut self, cx: &Context, aggs: &mut Aggregations, out: &mut dyn io::Write) -> io::Result<()>;

    /// The style, to change it.
    fn style(&mut self) -> &mut Style;
}

/// Applies an item that changes the aggregations; others do nothing.
pub fn apply(item: &Item, aggs: &mut Aggregations) {
    match *item {
        Item::Clear(agg) => aggs.clear(agg),
        Item::Trunc(agg, count) => aggs.truncate(agg, count),
        Item::Normalize(agg, by) => aggs.normalize(agg, by),
        Item::Denormalize(agg) => aggs.denormalize(agg),
        _ => {}
    }
}
