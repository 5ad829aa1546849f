//! The arguments of the processes that exist when tracing starts, for `pr_psargs` of a process other than the one that runs. What
//! happens to them later is followed in the kernel (`lib/psargs.d`).

use probity_ir::{Program, Upkeep, Val};
use probity_kernel::{Error, Map, System, Update};
use std::collections::HashSet;

/// Fills in what is kept of the processes that exist, once the units that follow them are attached: what those have stored is newer.
pub(crate) fn fill(sys: &System, program: &Program, upkeep: &Upkeep, map: &Map) -> Result<(), Error> {
    let Some(array) = program.arrays.get(upkeep.array.0 as usize) else { return Ok(()) };
    let (Val::Str { cap }, true) = (array.val, sys.has_kernel_pids()) else { return Ok(()) };
    let cap = cap as usize;
    let mut known = HashSet::new();
    // What is forked while others are read may miss its parent's arguments: that is read the second time.
    for _ in 0..2 {
        for pid in sys.processes()? {
            if !known.insert(pid) {
                continue;
            }
            // It may have ended.
            let Ok((started, arguments)) = sys.arguments(pid, cap) else { continue };
            let text = words(&arguments, cap);
            if text.is_empty() {
                continue;
            }
            let key = [u64::from(pid), started].map(u64::to_ne_bytes).concat();
            let mut value = vec![0; cap.next_multiple_of(8)];
            value[..text.len()].copy_from_slice(&text);
            if map.update(&key, &value, Update::NoExist).is_err() {
                // There is no room: the others stay unknown.
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Arguments as one text with spaces between them, with room for a NUL.
fn words(arguments: &[u8], cap: usize) -> Vec<u8> {
    let end = arguments.iter().rposition(|&b| b != 0).map_or(0, |last| last + 1);
    arguments[..end.min(cap.saturating_sub(1))].iter().map(|&b| if b == 0 { b' ' } else { b }).collect()
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn arguments_are_words() {
        assert_eq!(words(b"cat\0-n\0\0file\0", 64), b"cat -n  file");
        assert_eq!(words(b"cat\0\0", 64), b"cat");
        assert_eq!(words(b"\0", 64), b"");
        assert_eq!(words(b"sleep\x001000\0", 8), b"sleep 1");
    }
}
