//! Which CPUs there are.
//!
//! Owns the parser of the kernel's CPU lists. "Possible" sizes per-CPU maps; "online" is where events can be opened.

use std::sync::OnceLock;

use crate::error::{Error, Kind, Result};

/// Parses a list like `0-3,8,10-11`, as sysfs prints it.
pub fn parse_list(text: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
        // The kernel's own limit is 8192; more means that this is no CPU list.
        if last < first || last > 1 << 16 {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

/// Returns the CPUs that are online.
pub fn online() -> Result<Vec<u32>> {
    let path = "/sys/devices/system/cpu/online";
    let text = std::fs::read_to_string(path).map_err(|e| Error::io(e, format!("cannot read {path}")))?;
    parse_list(text.trim()).ok_or_else(|| Error::new(Kind::Invalid, format!("{path} is no list of CPUs: {text:?}")))
}

/// Returns how many CPUs the running kernel may ever have, which is how many values a per-CPU map has.
pub fn possible_count() -> Result<usize> {
    static COUNT: OnceLock<usize> = OnceLock::new();
    if let Some(count) = COUNT.get() {
        return Ok(*count);
    }
    let path = "/sys/devices/system/cpu/possible";
    let text = std::fs::read_to_string(path).map_err(|error| Error::io(error, format!("cannot read {path}")))?;
    // Per-CPU values are packed: holes in the numbering take no room (num_possible_cpus, not nr_cpu_ids).
    let count = parse_list(&text).map(|cpus| cpus.len()).filter(|count| *count > 0);
    let count = count.ok_or_else(|| Error::new(Kind::Io, format!("{path} is no list of CPUs: {:?}", text.trim())))?;
    Ok(*COUNT.get_or_init(|| count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_parse() {
        assert_eq!(parse_list("0-2,8\n"), Some(vec![0, 1, 2, 8]));
        assert_eq!(parse_list("0\n"), Some(vec![0]));
        assert_eq!(parse_list("\n"), Some(vec![]));
        assert_eq!(parse_list("3-1"), None);
        assert_eq!(parse_list("0-99999999"), None);
        assert_eq!(parse_list("x"), None);
    }
}
