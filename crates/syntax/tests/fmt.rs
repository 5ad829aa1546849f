//! The formatter: it keeps the program and its comments, and has nothing to change in what it made. Over the corpus of the parser's
//! tests, over mutations of it, and over any directory of D scripts named by `PROBITY_FMT_DIR`.
#![allow(clippy::disallowed_methods, missing_docs)]

use probity_syntax::{SourceId, fmt::format, tags};
use std::path::{Path, PathBuf};

fn scripts(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            scripts(&path, out);
        } else if path.extension().is_some_and(|ext| ext == "d") {
            out.push(path);
        }
    }
    out.sort();
}

/// Formats and formats again; whether the text is a program.
fn check(text: &str, name: &str) -> bool {
    let once = match format(text, SourceId(0)) {
        Ok(once) => once,
        Err(diags) => {
            let bug = diags.iter().find(|d| d.tag == tags::D_UNKNOWN && d.message.contains("formatter"));
            assert!(
                bug.is_none(),
                "{name} is not kept:\n{text}\n--- became ---\n{}",
                bug.map_or("", |d| &d.notes[0].message)
            );
            return false;
        }
    };
    match format(&once, SourceId(0)) {
        Ok(twice) => assert!(once == twice, "{name} is changed again:\n{once}\n--- to ---\n{twice}"),
        Err(diags) => panic!("{name} is not read back: {}\n{once}", diags[0].message),
    }
    true
}

#[test]
fn corpus() {
    let mut paths = Vec::new();
    scripts(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests"), &mut paths);
    if let Some(dir) = std::env::var_os("PROBITY_FMT_DIR") {
        scripts(Path::new(&dir), &mut paths);
    }
    let mut formatted = 0;
    for path in &paths {
        let Ok(bytes) = std::fs::read(path) else { continue };
        formatted += usize::from(check(&String::from_utf8_lossy(&bytes), &path.display().to_string()));
    }
    assert!(formatted > 10, "{formatted} of {} scripts", paths.len());
}

#[test]
fn mutations() {
    let mut paths = Vec::new();
    scripts(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests"), &mut paths);
    let texts: Vec<String> =
        paths.iter().map(|p| String::from_utf8_lossy(&std::fs::read(p).unwrap()).into_owned()).collect();
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut below = |n: usize| {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % n.max(1)
    };
    // White space and comments between tokens: what a formatter moves.
    const PIECES: &[&str] =
        &[" ", "\n", "\n\n\n", "\t", "/* c */", "// d\n", "\n/* e\n * f\n */\n", ";", "/* g */\n", "\n// h\n"];
    for round in 0..1500 {
        let mut text = texts[round % texts.len()].clone();
        for _ in 0..1 + below(5) {
            let mut at = below(text.len() + 1);
            while !text.is_char_boundary(at) {
                at -= 1;
            }
            text.insert_str(at, PIECES[below(PIECES.len())]);
        }
        check(&text, "a mutation");
    }
}

#[test]
fn layout() {
    let text = "#!/usr/bin/env probity\n#pragma D option quiet\n/* what it counts */\nint x [int];struct s{int a:3 ;char *b;}  ;enum e{A,B=2};\n\
        syscall::read:entry,syscall::write:entry/pid==$target&&arg2>-1/{self->t=timestamp;@a[execname,(int)-1]=count();// hm\n\
        if(x[1]){y=&x-*p;trace(a?b:c)}else if(z)f(x);else{printf(\"%d\\n\",x++ + ++y)}}\n\n\n\n\nEND{}\n";
    let expected = "#!/usr/bin/env probity
#pragma D option quiet
/* what it counts */
int x[int];
struct s {
	int a : 3;
	char *b;
};
enum e { A, B = 2 };

syscall::read:entry,
syscall::write:entry
/pid == $target && arg2 > -1/
{
	self->t = timestamp;
	@a[execname, (int)-1] = count(); // hm
	if (x[1]) {
		y = &x - *p;
		trace(a ? b : c);
	} else if (z)
		f(x);
	else {
		printf(\"%d\\n\", x++ + ++y);
	}
}

END
{
}
";
    assert_eq!(format(text, SourceId(0)).unwrap(), expected);
}
