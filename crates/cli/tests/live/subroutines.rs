//! Subroutines past the kernel's verifier: every routine, on operands that are not known when the program is compiled.

use crate::tools::{answer, permitted, run};

#[test]
fn routines() {
    if !permitted() {
        return;
    }
    let set = "p = \"/a/b/../Cd//\"; s = \"one,two;;three\"; n = -255; \
        j = \"{\\\"k\\\": [1, {\\\"v\\\": \\\"x y\\\"}]}\"; a = (void *)&curthread->comm;";
    for (expression, want) in [
        ("basename(p)", "Cd"),
        ("dirname(p)", "/a/b/.."),
        ("cleanpath(p)", "/a/Cd"),
        ("toupper(p)", "/A/B/../CD//"),
        ("tolower(p)", "/a/b/../cd//"),
        ("strip(strjoin(\" \\t\", strjoin(p, \"\\n\")))", "/a/b/../Cd//"),
        ("strchr(s, 't')", "two;;three"),
        ("strrchr(s, 't')", "three"),
        ("strstr(s, \";;\")", ";;three"),
        ("strstr(s, p) == NULL ? \"none\" : \"found\"", "none"),
        ("substr(s, -5, 3)", "thr"),
        ("lltostr(index(s, \"t\"))", "4"),
        ("lltostr(rindex(s, \"t\"))", "9"),
        ("lltostr(n)", "-255"),
        ("lltostr(-n, 16)", "0xff"),
        ("lltostr(strtoll(lltostr(n)) + 1)", "-254"),
        ("json(j, \"k[1].v\")", "x y"),
        ("inet_ntoa((ipaddr_t *)a)", "112.114.111.98"),
        ("inet_ntoa6((struct in6_addr *)a)", "7072:6f62:6974:7900::"),
        ("inet_ntop(AF_INET, a)", "112.114.111.98"),
        ("link_ntop(ARPHRD_ETHER, a)", "70:72:6f:62:69:74"),
        ("d_path(&curthread->fs->root)", "/"),
    ] {
        let d = format!("BEGIN {{ {set} printf(\"%s\\n\", {expression}); exit(0); }}");
        assert_eq!(answer(&["-qn", &d]), format!("{want}\n"), "{expression}");
    }
    for (expression, want) in [
        ("htons(n)", "1ff"),
        ("ntohl(n)", "1ffffff"),
        ("htonll(n)", "1ffffffffffffff"),
        ("getmajor(0x12345678)", "123"),
        ("getminor(0x12345678)", "45678"),
        ("progenyof($pid) && progenyof(1) && !progenyof($pid + 1)", "1"),
    ] {
        let d = format!("BEGIN {{ n = -255; printf(\"%x\\n\", {expression}); exit(0); }}");
        assert_eq!(answer(&["-qn", &d]), format!("{want}\n"), "{expression}");
    }
}

/// R18: a string that is none says so directly and by way of a variable, and is a fault where its bytes are wanted.
#[test]
fn none_is_none_wherever_it_goes() {
    if !permitted() {
        return;
    }
    for (set, expression) in [
        ("", "strtok(s, \",\")"),
        ("x = strtok(s, \",\");", "x"),
        ("self->x = strtok(s, \",\");", "self->x"),
        ("this->x = strtok(s, \",\");", "this->x"),
        ("x = \"before\"; x = strchr(s, 'q'); y = x;", "y"),
    ] {
        let d = format!(
            "BEGIN {{ s = \",,\"; }} BEGIN {{ {set} printf(\"%d\\n\", ({expression}) == NULL); }} \
             BEGIN {{ {set} trace({expression}); }} ERROR {{ printf(\"fault %d\\n\", arg4); }} tick-1 {{ exit(0); }}"
        );
        let out = run(&["-qn", &d]);
        assert_eq!(out.out.split_whitespace().collect::<Vec<_>>(), ["1", "fault", "1"], "{expression}: {out:?}");
    }
}

/// Strings as members of structs and elements, assigned and compared.
#[test]
fn members_that_are_strings() {
    if !permitted() {
        return;
    }
    let d = r#"struct pair { string a; int n; string b; }; struct pair x; struct { string s; } all[int]; self struct pair t;
        BEGIN { x.a = "left"; x.b = "right"; x.n = index(x.b, "gh"); self->t.b = x.a; all[1].s = strjoin(x.a, x.b); x.a = "";
            printf("<%s> %s %d %s %s %d\n", x.a, x.b, x.n, self->t.b, all[1].s, all[1].s == "leftright"); exit(0); }"#;
    assert_eq!(answer(&["-qn", d]).trim(), "<> right 2 left leftright 1");
}
