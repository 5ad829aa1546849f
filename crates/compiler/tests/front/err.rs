//! Every `err/D_TAG.name.d` fails with that tag, as its `.err` says in full. `UPDATE_EXPECT=1` writes the `.err` files.

use super::*;
use std::fs;
use std::path::Path;

#[test]
fn every_bad_program_has_its_diagnostic() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/err");
    let update = std::env::var_os("UPDATE_EXPECT").is_some();
    let mut names: Vec<_> = fs::read_dir(&dir)
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "d"))
        .collect();
    names.sort();
    assert!(names.len() > 50, "the programs are not there");
    let mut wrong = String::new();
    for path in names {
        let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
        let tag = stem.split('.').next().unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let mut input = input(&text);
        input.sources[0].origin = Origin::File(format!("{stem}.d"));
        if stem == "D_MACRO_UNUSED.args" {
            input.macros.args.push("7".into());
        }
        let (front, diags) = check_only(&input, &world::World);
        let mut seen = String::new();
        for d in &diags {
            seen += &format!("[{}] ", d.tag);
            seen += &probity_syntax::render_pretty(d, &front.sources, false);
            seen.push('\n');
        }
        if diags.first().is_none_or(|d| d.tag != tag || !d.is_error()) || front.program.is_some() {
            wrong += &format!("{stem}: no {tag}, but:\n{seen}\n");
            continue;
        }
        let expected = path.with_extension("err");
        if update {
            fs::write(&expected, &seen).unwrap();
        } else if fs::read_to_string(&expected).unwrap_or_default() != seen {
            wrong += &format!("{stem}: not as in its .err:\n{seen}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn nothing_makes_it_panic() {
    // Pieces of D in any order: most of it is wrong, none of it may stop the compiler.
    let pieces = [
        "x",
        "self->y",
        "this->z",
        "@a",
        "1",
        "\"s\"",
        "+",
        "-",
        "*",
        "&",
        "(",
        ")",
        "[",
        "]",
        "=",
        "++",
        "?",
        ":",
        ",",
        ";",
        "{",
        "}",
        "BEGIN",
        "args",
        "arg0",
        "curthread",
        "->",
        "pid",
        "count()",
        "printf",
        "copyin",
        "execname",
        "sizeof",
        "(int)",
        "(char *)",
        "/",
        "if",
        "else",
        "struct s",
        "int",
        "string",
        "inline",
        "syscall:::entry",
    ];
    let mut state = 1u64;
    for _ in 0..3000 {
        let mut text = String::from("syscall::read:entry { ");
        for _ in 0..12 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            text += pieces[(state >> 33) as usize % pieces.len()];
            text.push(' ');
        }
        text += "; }";
        let _ = check_only(&input(&text), &world::World);
    }
}

#[test]
fn mistakes_are_reported_once_and_all() {
    assert_eq!(tags_of("BEGIN { @a = sum(nothing); printa(@a); }"), ["D_IDENT_UNDEF"]);
    assert_eq!(tags_of("syscall:::entry { trace(nothing); trace(nothing2); }"), ["D_IDENT_UNDEF", "D_IDENT_UNDEF"]);
    assert_eq!(tags_of("BEGIN { x = nothing; trace(x); x = 3; }"), ["D_IDENT_UNDEF"]);
    assert_eq!(tags_of("syscall:::entry { trace(args[0] + args[7]); }"), ["D_ARGS_IDX"; 2]);
}

#[test]
fn near_names_are_offered() {
    let (_, diags) = check_only(&input("BEGIN { trace(exename); }"), &world::World);
    assert_eq!(diags[0].suggestion.as_ref().map(|s| s.replacement.as_str()), Some("execname"));
    let (_, diags) = check_only(&input("syscall::raed:entry { }"), &world::World);
    assert_eq!(diags[0].suggestion.as_ref().map(|s| s.replacement.as_str()), Some("syscall:vmlinux:read:entry"));
}

#[test]
fn formats_are_located_at_the_conversion() {
    let text = "BEGIN { printf(\"a\\tb %d %s\", 1, 2); }";
    let (_, diags) = check_only(&input(text), &world::World);
    let span = diags[0].span.unwrap();
    assert_eq!(&text[span.range()], "%s");
}
