//! What someone may have meant by a probe description that matched nothing.
//!
//! Owns closeness of names. The candidates are the providers' own probes under a wider pattern; words for what other
//! systems call differently come from the providers ([`Provider::hint`](crate::Provider::hint)).

use crate::{PROVIDERS, Provider};
use probity_ir::{ProbeDesc, is_glob};
use probity_kernel::System;

/// Most suggestions that are worth reading.
const MOST: usize = 3;

/// A field of a description, to change and to read; and whether whatever is found there will do, or only what is close.
type OpenField = (fn(&mut ProbeDesc) -> &mut String, fn(&ProbeDesc) -> &str, bool);

/// Returns descriptions and hints near `pattern`, best first; reads what a listing would, creates nothing.
pub fn near(sys: &System, pattern: &ProbeDesc) -> Vec<String> {
    let serving: Vec<&dyn Provider> =
        PROVIDERS.iter().copied().filter(|provider| provider.serves(&pattern.provider)).collect();
    if serving.is_empty() {
        let names = PROVIDERS.iter().map(|provider| (provider.name().to_owned(), provider.name().to_owned()));
        return closest(&pattern.provider, names.collect());
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
        let names =
            if any { names.into_iter().take(MOST).map(|(_, text)| text).collect() } else { closest(wanted, names) };
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
fn closest(wanted: &str, names: Vec<(String, String)>) -> Vec<String> {
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

/// Edit distance with transpositions of neighbours, as slips of the fingers go; case counts half and is free here.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.to_lowercase().chars().collect(), b.to_lowercase().chars().collect());
    // Names are foreign: very long ones are not worth a quadratic comparison.
    if a.len().abs_diff(b.len()) > 8 || a.len() > 128 {
        return usize::MAX;
    }
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let change = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = change.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_close() {
        assert_eq!(distance("read", "read"), 0);
        assert_eq!(distance("raed", "read"), 1);
        assert_eq!(distance("opn", "open"), 1);
        assert_eq!(distance("Begin", "BEGIN"), 0);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", ""), 3);
    }

    #[test]
    fn the_closest_come_first_and_far_ones_not_at_all() {
        let names = ["read", "readv", "write", "pread64"].map(|n| (n.to_owned(), n.to_owned()));
        assert_eq!(closest("raed", names.to_vec()), ["read"]);
        assert_eq!(closest("reed", names.to_vec()), ["read"]);
        assert!(closest("zzzzzz", names.to_vec()).is_empty());
    }

    #[test]
    fn suggestions_name_whole_probes() {
        let sys = System::live();
        let near = |p: &str, m: &str, f: &str, n: &str| near(&sys, &ProbeDesc::new(p, m, f, n));
        assert!(near("syscall", "", "opne", "entry").contains(&"syscall:vmlinux:open:entry".to_owned()));
        assert!(near("syscall", "", "rexit", "entry").iter().any(|hint| hint.contains("exit_group")));
        assert_eq!(near("dtrace", "", "", "BEGN"), ["dtrace:::BEGIN"]);
        assert_eq!(near("syscal", "", "read", "entry"), ["syscall"]);
        assert_eq!(near("syscall", "libc", "read", "entry")[0], "syscall:vmlinux:read:entry");
        assert!(near("syscall", "", "read", "exit").is_empty());
        assert_eq!(near("syscall", "", "read", "retrun")[0], "syscall:vmlinux:read:return");
    }
}
