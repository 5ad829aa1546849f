use super::*;

const MADE_UP: &str = "\
name: made_up
ID: 4711
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;
\tfield:char other[TASK_COMM_LEN];\toffset:24;\tsize:16;\tsigned:0;
\tfield:pid_t pid;\toffset:40;\tsize:4;\tsigned:1;
\tfield:long state;\toffset:48;\tsize:8;\tsigned:1;
\tfield:__data_loc char[] name;\toffset:56;\tsize:4;\tsigned:0;
\tfield:__rel_loc u64[] list;\toffset:60;\tsize:4;\tsigned:0;
\tfield:struct folio * folio;\toffset:64;\tsize:8;\tsigned:0;
\tfield:enum odd_one mode;\toffset:72;\tsize:4;\tsigned:1;
\tfield:odd_t odd;\toffset:76;\tsize:2;\tsigned:0;
\tfield:unsigned long args[6];\toffset:80;\tsize:48;\tsigned:0;
\tfield:u8 grid[2][3];\toffset:128;\tsize:6;\tsigned:0;
\tfield:struct in6_addr addr;\toffset:136;\tsize:16;\tsigned:0;
\tfield:bool yes;\toffset:152;\tsize:1;\tsigned:0;

print fmt: \"%s\", REC->comm
";

const SYSCALL: &str = "\
name: sys_enter_openat
ID: 782
format:
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;
\tfield:unsigned int fd;\toffset:16;\tsize:8;\tsigned:0;
\tfield:const char * filename;\toffset:24;\tsize:8;\tsigned:0;
\tfield:umode_t mode;\toffset:32;\tsize:8;\tsigned:0;
\tfield:size_t count;\toffset:40;\tsize:8;\tsigned:0;
\tfield:const struct iovec * vec;\toffset:48;\tsize:8;\tsigned:0;

print fmt: \"fd: 0x%08lx\", ((unsigned long)(REC->fd))
";

fn named(format: &Format, space: Space) -> Vec<(String, String)> {
    let mut types = TypeTable::default();
    let fields = format.fields.iter();
    let typed = fields.map(|field| {
        let ty = field_type(&mut types, field, space, &mut |_, _, _| None);
        (field.name.clone(), types.name(ty))
    });
    typed.collect()
}

#[test]
fn every_shape_of_field() {
    let format = parse(MADE_UP).unwrap();
    assert_eq!((format.name.as_str(), format.id, format.common.len()), ("made_up", 4711, 4));
    assert_eq!(format.print_fmt, "\"%s\", REC->comm");
    let comm = format.field("comm").unwrap();
    assert_eq!((comm.offset, comm.size, comm.array, comm.ctype.as_str()), (8, 16, Some(16), "char[16]"));
    assert_eq!(format.field("other").unwrap().array, Some(0));
    assert_eq!(format.field("name").unwrap().place, Place::DataLoc);
    assert_eq!(format.field("list").unwrap().place, Place::RelLoc);
    assert_eq!(format.field("common_pid").unwrap().offset, 4);
    let types = named(&format, Space::Kernel);
    let types: Vec<_> = types.iter().map(|(name, ty)| (name.as_str(), ty.as_str())).collect();
    let expected = [
        ("comm", "char [16]"),
        ("other", "char [16]"),
        ("pid", "pid_t"),
        ("state", "int64_t"),
        ("name", "char [0]"),
        ("list", "u64 [0]"),
        ("folio", "struct folio *"),
        ("mode", "int"),
        ("odd", "odd_t"),
        ("args", "uint64_t [6]"),
        ("grid", "u8 [2][3]"),
        ("addr", "unsigned char [16]"),
        ("yes", "_Bool"),
    ];
    assert_eq!(types, expected);
}

#[test]
fn an_unknown_typedef_has_the_formats_size() {
    let format = parse(MADE_UP).unwrap();
    let mut types = TypeTable::default();
    let odd = field_type(&mut types, format.field("odd").unwrap(), Space::Kernel, &mut |_, _, _| None);
    assert_eq!(types.size(odd), Some(2));
    // What the look-up knows wins, unless it does not fit.
    for (size, expected) in [(1, 1), (2, 2), (8, 2)] {
        let odd = field_type(&mut types, format.field("odd").unwrap(), Space::Kernel, &mut |types, keyword, name| {
            assert_eq!((keyword, name), ("typedef", "odd_t"));
            let to = types.int(size, true);
            Some(types.add(TypeKind::Typedef { name: name.into(), to }))
        });
        assert_eq!(types.size(odd), Some(expected));
    }
}

#[test]
fn system_calls_point_into_user_memory() {
    let format = parse(SYSCALL).unwrap();
    let mut types = TypeTable::default();
    let filename = field_type(&mut types, format.field("filename").unwrap(), Space::User, &mut |_, _, _| None);
    let &TypeKind::Pointer { to, space: Space::User } = types.get(filename) else { panic!() };
    assert_eq!(types.get(to), &TypeKind::Int { size: 1, signed: true, kind: IntKind::Char });
    // Eight bytes hold an argument, whose type may be narrower.
    let names = named(&format, Space::User);
    let names: Vec<_> = names.iter().map(|(_, ty)| ty.as_str()).collect();
    assert_eq!(names, ["int", "unsigned int", "char *", "umode_t", "size_t", "struct iovec *"]);
}

#[test]
fn other_texts_are_located_errors() {
    assert!(parse("").unwrap_err().to_string().contains("name:"));
    assert!(parse("name: x\n").unwrap_err().to_string().contains("ID:"));
    let error = parse("name: x\nID: 1\n\tfield:int;\toffset:0;\tsize:4;\n").unwrap_err();
    assert!(error.to_string().starts_with("line 3 "), "{error}");
    let error = parse("name: x\nID: 1\n\tfield:int a;\toffset:x;\tsize:4;\n").unwrap_err();
    assert!(error.to_string().starts_with("line 3 "), "{error}");
}

#[test]
fn the_running_kernels_formats() {
    let Ok(events) = std::fs::read_dir("/sys/kernel/tracing/events") else {
        eprintln!("skipped: tracefs is not mounted or not readable");
        return;
    };
    let mut types = TypeTable::default();
    let mut seen = 0;
    for category in events.flatten().take(40) {
        let Ok(list) = std::fs::read_dir(category.path()) else { continue };
        for event in list.flatten().take(20) {
            let Ok(text) = std::fs::read_to_string(event.path().join("format")) else { continue };
            let format = parse(&text).unwrap_or_else(|error| panic!("{}: {error}", event.path().display()));
            seen += 1;
            for field in format.common.iter().chain(&format.fields) {
                assert!(ctype::parse(&field.ctype).is_some(), "{}: {:?}", format.name, field.ctype);
                let ty = field_type(&mut types, field, Space::Kernel, &mut |_, _, _| None);
                if field.place == Place::Inline {
                    let size = types.size(ty).unwrap_or_else(|| panic!("{}: {}", format.name, field.name));
                    assert!(size <= field.size.into(), "{}: {} {size}", format.name, field.name);
                }
            }
        }
    }
    if seen == 0 {
        eprintln!("skipped: no format can be read");
    }
}

#[test]
fn other_bytes_are_errors_or_formats() {
    for seed in [MADE_UP, SYSCALL] {
        crate::mutate::mutate(seed.as_bytes(), 1000, fuzz_one);
    }
}
