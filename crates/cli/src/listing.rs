//! `-S`: the generated programs as text, in our form or in the columns of DTrace's.

use crate::args::Face;
use probity::bpf::{ProgSpec, disasm};
use probity::compiler::Compiled;

/// All programs.
pub fn listing(face: Face, compiled: &Compiled) -> String {
    if face == Face::Probity {
        return probity::compiler::listing(&compiled.object, &compiled.layout, &compiled.program);
    }
    let mut out = String::new();
    for (unit, &prog) in compiled.program.units.iter().zip(&compiled.layout.progs) {
        let Some(spec) = compiled.object.progs.get(prog as usize) else { continue };
        for clause in &unit.clauses {
            let span = compiled.program.clauses.get(clause.clause.0 as usize).map_or((0, 0, 0), |c| c.span);
            let text = compiled.sources.sources.get(span.0 as usize).and_then(|s| s.text.get(span.1 as usize..));
            out += &format!("Disassembly of clause {}\n", description(text.unwrap_or("")));
        }
        rows(spec, compiled, &mut out);
        out.push('\n');
    }
    out
}

/// The first probe description of a clause, with all its colons.
fn description(clause: &str) -> String {
    let end = clause.find(['{', ',', '/', '\n']).unwrap_or(clause.len());
    let text = clause[..end].trim();
    format!("{}{text}", ":".repeat(3usize.saturating_sub(text.matches(':').count())))
}

/// Line of the source, slot, the fields of each instruction, and what it does.
fn rows(spec: &ProgSpec, compiled: &Compiled, out: &mut String) {
    let mut line = 0;
    for row in disasm::program(spec, &compiled.object.maps).lines() {
        if let Some(n) = row.strip_prefix("; line ") {
            line = n.parse().unwrap_or(line);
            continue;
        }
        let Some((slot, text)) = row.split_once(": ") else { continue };
        let Some(insn) = slot.parse::<usize>().ok().and_then(|at| spec.insns.get(at)) else { continue };
        let text = text.split_once(") ").map_or(text, |(_, rest)| rest);
        let fields = format!("{:02x} {} {} {:04x} {:08x}", insn.code, insn.dst.0, insn.src.0, insn.off, insn.imm);
        *out += &format!("{line:04} {slot:0>5}: {fields}    {text}\n");
    }
}

#[cfg(test)]
mod tests {
    use super::description;

    #[test]
    fn descriptions_have_three_colons() {
        assert_eq!(description("BEGIN { exit(0); }"), ":::BEGIN");
        assert_eq!(description("syscall::open:entry,\nEND {"), "syscall::open:entry");
        assert_eq!(description("write:entry /x/ {"), "::write:entry");
    }
}
