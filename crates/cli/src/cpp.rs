//! The C preprocessor (`-C`): the system's cpp, its macros and flags, and the names in what it writes. Owns nothing of D.

use crate::args::{Args, Face};
use anyhow::{Context, Result, bail};
use probity::compiler::Options;
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::{Command, Stdio};

/// What the preprocessor calls its input. Its errors name it, and scripts that look for those expect it.
const INPUT: &str = "/dev/stdin";

/// `__SUNW_D_VERSION` of D 2.0.7: 8 bits, 12 bits, 12 bits.
const VERSION: u32 = 2 << 24 | 7;

/// Runs the preprocessor over a script. Its line markers keep the places of errors right.
pub fn run(args: &Args, name: &str, text: &[u8], options: &Options) -> Result<Vec<u8>> {
    let cpp = if options.cpppath.is_empty() { "cpp" } else { &options.cpppath };
    let mut command = Command::new(cpp);
    command.args(["-D__linux", "-D__unix", "-D__SVR4", "-D__SUNW_D=1", "-D__SUNW_D_64", "-D__Linux"]);
    command.arg(format!("-D__SUNW_D_VERSION=0x{VERSION:08x}"));
    // Headers that look for GNU C would give what only it can read.
    command.arg("-U__GNUC__");
    if cfg!(target_arch = "x86_64") {
        command.arg("-D__amd64");
    }
    match options.stdc.as_str() {
        "a" | "c" | "t" => drop(command.arg("-std=c99")),
        "s" => drop(command.arg("-traditional-cpp")),
        _ => {}
    }
    command.args(&options.cppargs).args(&args.cpp_flags);
    // The text comes through a pipe, so what it includes by a relative name is looked for beside the script.
    if let Some(dir) = Path::new(name).parent() {
        command.arg("-iquote").arg(if dir.as_os_str().is_empty() { Path::new(".") } else { dir });
    }
    command.arg(INPUT).stdin(Stdio::piped()).stdout(Stdio::piped());
    let native = args.face == Face::Probity;
    if native {
        command.stderr(Stdio::piped());
    }
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(e) if e.kind() == ErrorKind::NotFound => bail!(
            "-C runs the C preprocessor over {name}, and there is no '{cpp}' here: install it (package cpp or gcc), or name another with -x cpppath=PATH"
        ),
        Err(e) => return Err(e).with_context(|| format!("cannot run the C preprocessor '{cpp}'")),
    };
    // `#!` is no directive; the line stays, empty, for the count.
    let script = text.strip_prefix(b"#!").map_or(text, |rest| {
        let end = rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
        &rest[end..]
    });
    let mut input = child.stdin.take().context("cpp has no standard input")?;
    let feed = script.to_vec();
    // On a thread, because a long output fills its pipe before all input is read. A cpp that ends early says why itself.
    let writer = std::thread::spawn(move || drop(input.write_all(&feed)));
    let output = child.wait_with_output().context("cpp failed")?;
    drop(writer.join());
    if native {
        let said = String::from_utf8_lossy(&output.stderr).replace(&format!("{INPUT}:"), &format!("{name}:"));
        let _ = std::io::stderr().write_all(said.as_bytes());
    }
    if !output.status.success() {
        if native {
            bail!("cannot compile {name}: the preprocessor found it wrong ({cpp} ends with {})", output.status);
        }
        bail!("failed to compile script {name}: Preprocessor failed to process input program");
    }
    Ok(renamed(&output.stdout, name))
}

/// The preprocessor's output with the script's name in its line markers.
fn renamed(output: &[u8], name: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(output.len());
    let marker = format!("\"{INPUT}\"");
    for line in output.split_inclusive(|&b| b == b'\n') {
        match std::str::from_utf8(line) {
            Ok(text) if text.starts_with("# ") && text.contains(&marker) => {
                out.extend(text.replacen(&marker, &format!("\"{name}\""), 1).bytes());
            }
            _ => out.extend(line),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn markers_name_the_script() {
        let text = b"# 1 \"/dev/stdin\"\nBEGIN\n# 3 \"/usr/include/x.h\" 1\n";
        assert_eq!(super::renamed(text, "a.d"), b"# 1 \"a.d\"\nBEGIN\n# 3 \"/usr/include/x.h\" 1\n");
    }
}
