//! `-h`: a C header with a macro for each probe of the program's provider declarations. The macros need no other file and no
//! linking step: each writes a `nop` and an ELF note (`.note.stapsdt`) that says where it is and where its arguments are, and
//! a counter that a tracer raises while it traces the probe, which `…_ENABLED()` reads.

use probity_syntax::ast::{self, Derivation, Item, ProviderDecl, ProviderProbe, TypeSpecKind};
use probity_syntax::{Diagnostic, Sources, tags};
use std::fmt::Write;

/// Most arguments of a probe that the note can describe.
const MOST: usize = 12;

/// The header for all providers among the items; `name` is the file's own.
pub fn header(items: &[Item], sources: &Sources, name: &str) -> Result<String, Box<Diagnostic>> {
    let guard: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect();
    let mut out = format!(
        "/* Made by probity -h; changes belong into the provider's declaration. */\n\n#ifndef _{guard}\n#define _{guard}\n\n{PRELUDE}"
    );
    let mut any = false;
    for item in items {
        let Item::Provider(provider) = item else { continue };
        any = true;
        for probe in &provider.probes {
            macros(&mut out, provider, probe, sources)?;
        }
    }
    if !any {
        let d = Diagnostic::error(tags::D_EMPTY, None, "there is no provider declaration to make a header of");
        return Err(Box::new(d.help("declare one: `provider name { probe event(int, char *); };`")));
    }
    out += "#ifdef __cplusplus\n}\n#endif\n\n#endif\n";
    Ok(out)
}

const PRELUDE: &str = r#"#include <stdint.h>
#include <sys/types.h>

#if !defined(__GNUC__) || !(defined(__x86_64__) || defined(__aarch64__))
#error "probes need GNU C on x86-64 or arm64"
#endif

#ifdef __cplusplus
extern "C" {
#endif

#ifndef _PROBITY_PROBE
/* The size of a value, negative for signed types; pointers count as unsigned. */
#define _PROBITY_SIZE(type) ((int)sizeof(type) * ((type)-1 < (type)1 ? -1 : 1))
#define _PROBITY_ARG(n) "%c[s" #n "]@%[a" #n "]"
#define _PROBITY_PROBE(provider, name, counter, args) \
	"990:	nop\n" \
	"	.pushsection .note.stapsdt, \"?\", \"note\"\n" \
	"	.balign 4\n" \
	"	.4byte 992f-991f, 994f-993f, 3\n" \
	"991:	.asciz \"stapsdt\"\n" \
	"992:	.balign 4\n" \
	"993:	.8byte 990b\n" \
	"	.8byte _.stapsdt.base\n" \
	"	.8byte " counter "\n" \
	"	.asciz \"" provider "\"\n" \
	"	.asciz \"" name "\"\n" \
	"	.asciz \"" args "\"\n" \
	"994:	.balign 4\n" \
	"	.popsection\n" \
	"	.ifndef _.stapsdt.base\n" \
	"	.pushsection .stapsdt.base, \"aG\", \"progbits\", .stapsdt.base, comdat\n" \
	"	.weak _.stapsdt.base\n" \
	"	.hidden _.stapsdt.base\n" \
	"_.stapsdt.base: .space 1\n" \
	"	.size _.stapsdt.base, 1\n" \
	"	.popsection\n" \
	"	.endif\n"
#endif

"#;

fn macros(
    out: &mut String,
    provider: &ProviderDecl,
    probe: &ProviderProbe,
    sources: &Sources,
) -> Result<(), Box<Diagnostic>> {
    let (p, n) = (&provider.name.text, &probe.name.text);
    let shown = n.replace("__", "-");
    let upper = format!("{}_{}", p.to_ascii_uppercase(), n.replace("__", "_").to_ascii_uppercase());
    let counter = format!("_probity_{p}_{n}_semaphore");
    if probe.native.len() > MOST {
        let message = format!("probe `{n}` has {} arguments: a note holds {MOST}", probe.native.len());
        return Err(Box::new(Diagnostic::error(tags::D_PROTO_LEN, probe.span, message)));
    }
    let names: Vec<String> = (0..probe.native.len()).map(|i| format!("arg{i}")).collect();
    let mut inputs = Vec::new();
    for (i, param) in probe.native.iter().enumerate() {
        let ty = c_type(param, sources)?;
        let pointer =
            param.declarator.derivations.iter().any(|d| matches!(d, Derivation::Pointer(_) | Derivation::Array(_)));
        let size = if pointer { "8".to_string() } else { format!("_PROBITY_SIZE({ty})") };
        inputs.push(format!("[s{i}] \"i\" ({size}), [a{i}] \"nor\" (({ty})(arg{i}))"));
    }
    let args: Vec<String> = (0..names.len()).map(|i| format!("_PROBITY_ARG({i})")).collect();
    let args = if args.is_empty() { "\"\"".to_string() } else { args.join(" \" \" ") };
    let _ = writeln!(
        out,
        "/* {p}:::{shown} */\n\
         __attribute__((weak, visibility(\"hidden\"), used, section(\".probes\"))) unsigned short {counter};\n\
         #define {upper}_ENABLED() (__builtin_expect(*(volatile unsigned short *)&{counter} != 0, 0))\n\
         #define {upper}({}) \\\n\
         \t__asm__ __volatile__(_PROBITY_PROBE(\"{p}\", \"{shown}\", \"{counter}\", {args}) \\\n\
         \t\t: : {})\n",
        names.join(", "),
        inputs.join(", ")
    );
    Ok(())
}

/// The parameter's type in C, without its name.
fn c_type(param: &ast::Param, sources: &Sources) -> Result<String, Box<Diagnostic>> {
    let mut out = String::new();
    let pointers =
        param.declarator.derivations.iter().filter(|d| matches!(d, Derivation::Pointer(_) | Derivation::Array(_)));
    let pointers = pointers.count();
    match &param.specs.ty.kind {
        // D's, and a pointer to characters in C.
        TypeSpecKind::Basic(ast::Basic::String) => return Ok("const char *".into()),
        TypeSpecKind::Basic(ast::Basic::Float | ast::Basic::Double | ast::Basic::LongDouble) if pointers == 0 => {
            let message = "a probe's argument cannot be a floating-point number: a note cannot say where it is";
            let d = Diagnostic::error(tags::D_DECL_PROTO_TYPE, param.span, message);
            return Err(Box::new(d.help("pass its address")));
        }
        TypeSpecKind::Aggregate(_) if pointers == 0 => {
            let message = "a probe's argument cannot be a struct: pass its address";
            return Err(Box::new(Diagnostic::error(tags::D_DECL_PROTO_TYPE, param.span, message)));
        }
        // What it points to makes no difference to the machine.
        TypeSpecKind::Aggregate(_) => out.push_str("const void"),
        _ if pointers > 0 => out.push_str("const void"),
        _ => out.push_str(sources.text(param.specs.ty.span)),
    }
    if pointers > 0 {
        out.push_str(" *");
    }
    Ok(out)
}
