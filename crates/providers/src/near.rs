//! What someone may have meant by a probe description that matched nothing.
//!
//! Owns which names are looked at; how far apart two are the caller says. The candidates are the providers' own probes under a wider pattern; words for what other
//! systems call differently come from the providers ([`Provider::hint`](crate::Provider::hint)).

use crate::{PROVIDERS, Provider};
use probity_ir::{ProbeDesc, is_glob};
use probity_kernel::System;

/// Most suggestions that are worth reading.
const MOST: usize = 3;

/// A field of a description, to change and to read; and whether whatever is found there will do, or only what is close.
type OpenField = (fn(&mut ProbeDesc) -> &mut String, fn(&ProbeDesc) -> &str, bool);

/// How far apart two names are.
pub type Distance<'a> = &'a dyn Fn(&str, &str) -> usize;

/// Returns descriptions and hints near `pattern`, best first; reads what a listing would, creates nothing.
pub fn near(sys: &System, pattern: &ProbeDesc, distance: Distance<'_>) -> Vec<String> {
    let serving: Vec<&dyn Provider> =
        PROVIDERS.iter().copied().filter(|provider| provider.serves(&pattern.provider)).collect();
    if serving.is_empty() {
        let names = PROVIDERS.iter().map(|provider| (provider.name().to_owned(), provider.name().to_owned()));
        return closest(&pattern.provider, names.collect(), distance);
    }
    let mut found: Vec<String> = serving.iter().filter_map(|provider| provider.hint(sys, pattern)).collect();
    // One field is wrong, most likely, so each in turn is left open. The module first: what is right but for where it
    // is (an imported function) is nearer than anything that only looks alike.
    let open: [OpenField; 3] = [
        (|desc| &mut desc.module, |desc| &desc.module, true),
        (|desc| &mut desc.function, |desc| &desc.function, false),
        (|desc| &mut desc.name, |desc| &desc.name, false),
    ];
    for (field_mut, field, any) in open {
        let wanted = field(pattern);
        if wanted.is_empty() || is_glob(wanted) || found.len() >= MOST {
            continue;
        }
        let mut wider = pattern.clone();
        field_mut(&mut wider).clear();
        let mut names: Vec<(String, String)> = Vec::new();
        for provider in &serving {
            // The provider's own error has been reported where the pattern was looked up.
            let _ = provider.probes(sys, &wider, &mut |desc| names.push((field(&desc).to_owned(), desc.to_string())));
        }
        let names = if any {
            names.into_iter().take(MOST).map(|(_, text)| text).collect()
        } else {
            closest(wanted, names, distance)
        };
        for name in names {
            if !found.contains(&name) {
                found.push(name);
            }
        }
    }
    found.truncate(MOST);
    found
}

/// The texts whose names are closest to `wanted`, if any is close enough to be a slip.
fn closest(wanted: &str, names: Vec<(String, String)>, distance: Distance<'_>) -> Vec<String> {
    let far = (wanted.chars().count() / 3).max(1);
    let mut ranked: Vec<(usize, String, String)> = names
        .into_iter()
        .filter_map(|(name, text)| {
            let distance = distance(wanted, &name);
            // A name that goes on after what was typed (`openat`, `exit_group`) is a likely wish too.
            let longer = wanted.len() >= 3 && name.starts_with(wanted);
            (distance <= far || longer).then_some((distance, name, text))
        })
        .collect();
    // Stable: of equal names, the one that is listed first.
    ranked.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
    // One of each name: entry and return of the same function are one suggestion.
    ranked.dedup_by(|a, b| a.1 == b.1);
    ranked.into_iter().take(MOST).map(|(_, _, text)| text).collect()
}
