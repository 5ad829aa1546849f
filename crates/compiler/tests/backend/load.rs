//! Programs on the running kernel: all of them must be accepted, on the first try.

use crate::build::*;
use probity_ir::*;

fn load(name: &str, p: &Program) {
    let (object, layout) = compile(p);
    if !probity_kernel::can_bpf() {
        eprintln!("skipped: loading BPF programs is not permitted here");
        return;
    }
    if let Err(e) = probity_kernel::load(&object) {
        panic!("{name}: {e:?}\n{}", probity_compiler::listing(&object, &layout, p));
    }
}

#[test]
fn the_common_path_loads() {
    let (p, ..) = crate::run::common_path();
    load("common", &p);
}
