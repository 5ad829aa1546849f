//! What the compiler asks of the world. The session answers from the running system, tests from a table.

use probity_ir::{Probe, ProbeDesc, Signature, TypeId, TypeTable};
use probity_syntax::attributes::Attributes;

/// Why the world could not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvError {
    /// A diagnostic tag that fits better than the caller's own, such as `D_PROC_GRAB`.
    pub tag: Option<&'static str>,
    /// The cause, in one line.
    pub message: String,
    /// What would help, if known.
    pub help: Option<String>,
}

/// The world as the compiler sees it. Nothing here creates or changes anything in the system (G4).
pub trait Env {
    /// Reports every probe that matches `pattern`, in a fixed order.
    fn probes(&self, pattern: &ProbeDesc, found: &mut dyn FnMut(Probe)) -> Result<(), EnvError>;
    /// The probe with this number.
    fn probe_by_id(&self, id: u32) -> Result<Option<Probe>, EnvError>;
    /// The signature of a probe; `args` are filled only if `typed` (they can be costly to find).
    fn signature(&self, probe: &Probe, typed: bool, types: &mut TypeTable) -> Result<Signature, EnvError>;
    /// Whether the untyped arguments of a probe follow the declared types of its function, so that a typed signature is needed for them.
    fn raw_follows_types(&self, _probe: &Probe) -> bool {
        false
    }
    /// A type of the traced program by name, as [`Env::kernel_type`]: `scope` is what stands before the backquote (`pid`, `pid123`),
    /// `probe` the probe of the clause that speaks of it. `None` if `scope` is none of a traced program.
    fn user_type(
        &self,
        _scope: &str,
        _probe: Option<&ProbeDesc>,
        _keyword: &str,
        _name: &str,
        _types: &mut TypeTable,
    ) -> Option<Result<TypeId, EnvError>> {
        None
    }
    /// A kernel type by name: `keyword` is `struct`, `union`, `enum` or empty for a typedef or base type. `module` is empty for any.
    fn kernel_type(&self, module: &str, keyword: &str, name: &str, types: &mut TypeTable) -> Option<TypeId>;
    /// Completes a [`probity_ir::TypeKind::Forward`] in place. `false` when no definition is known.
    fn complete(&self, ty: TypeId, types: &mut TypeTable) -> bool;
    /// The address and type of a kernel variable (`` `max_pfn ``); `module` is empty for any.
    fn kernel_symbol(&self, module: &str, name: &str, types: &mut TypeTable) -> Option<(u64, Option<TypeId>)>;
    /// What to say of a description that names what another system has and this one calls differently.
    fn foreign(&self, _pattern: &ProbeDesc) -> Option<String> {
        None
    }
    /// Names near a probe description that matched nothing, for the suggestion.
    fn near_probes(&self, pattern: &ProbeDesc) -> Vec<String>;
    /// The probe that fires when a CPU switches from one thread to another, with the kernel's own typed arguments: the second is
    /// the task that stops running.
    fn task_switch(&self, _types: &mut TypeTable) -> Option<(Probe, Signature)> {
        None
    }
    /// The most frames that the kernel walks (`kernel.perf_event_max_stack`).
    fn max_stack(&self) -> u32 {
        127
    }
    /// Number of possible CPUs.
    fn ncpu(&self) -> u32;
    /// Whether the kernel has a module, be it built in.
    fn has_module(&self, name: &str) -> bool {
        name == "vmlinux"
    }
    /// The attributes of a probe's names.
    fn attributes(&self, _probe: &Probe) -> Attributes {
        Attributes::PRIVATE
    }
    /// The package and the memory node of each possible CPU, by its number.
    fn cpu_places(&self) -> Vec<(u32, u32)> {
        Vec::new()
    }
}
