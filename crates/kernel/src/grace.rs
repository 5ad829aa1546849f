//! Waiting until every program that was running has ended.
//!
//! Owns the one question "is anyone still in there?". Needed before the consumer may believe that counters are final, and
//! before it may take over the aggregations of an ended epoch.

use crate::error::Result;
use crate::load::create_map;
use crate::map::Update;
use probity_bpf::{MapKind, MapSpec};
use std::os::fd::{AsFd, AsRawFd};

/// `MEMBARRIER_CMD_GLOBAL`: a grace period of RCU, on kernels without full dynticks.
const MEMBARRIER_GLOBAL: i32 = 1;

/// Returns when every BPF program that does not sleep and was running at the call has ended.
///
/// `membarrier(2)` waits for an RCU grace period; where the kernel refuses it (`nohz_full`), an update of a map of maps does,
/// which the kernel promises for exactly this purpose.
pub fn wait() -> Result<()> {
    // SAFETY: no memory is passed.
    if unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_GLOBAL, 0, 0) } == 0 {
        return Ok(());
    }
    let mut outer = MapSpec::new("grace", MapKind::ArrayOfMaps, 4, 4, 1);
    let template = MapSpec::new("grace_inner", MapKind::Array, 4, 8, 1);
    outer.inner = Some(Box::new(template.clone()));
    outer.inner_count = 1;
    let map = create_map(&outer)?;
    let inner = create_map(&template)?;
    let fd = inner.as_fd().as_raw_fd();
    map.update(&0u32.to_ne_bytes(), &fd.to_ne_bytes(), Update::Any)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    #[expect(clippy::print_stderr, reason = "a skipped test says so")]
    fn ends() {
        if !crate::can_bpf() {
            eprintln!("skipped: needs the permission to use BPF");
            return;
        }
        super::wait().expect("a grace period ends");
    }
}
