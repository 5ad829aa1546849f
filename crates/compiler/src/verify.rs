//! Our own checks of a generated object, so that what the kernel's verifier would refuse for plain reasons is found in tests
//! (and in debug builds) with the place.

use crate::codegen::CodegenError;
use probity_bpf::Object;
use probity_bpf::check::check_object;

/// Checks every program.
pub fn verify(object: &Object) -> Result<(), CodegenError> {
    let Err(errors) = check_object(object) else { return Ok(()) };
    let Some((prog, error)) = errors.into_iter().next() else { return Ok(()) };
    let name = object.progs.get(prog).map_or("?", |p| p.name.as_str());
    let line = object.progs.get(prog).and_then(|p| p.line_at(error.pc));
    Err(CodegenError { message: format!("a bug in the code generator: {name}: {error}"), line })
}
