//! YAML features beyond plain values: anchors, merge keys, tags, and the limits.

use agentproto_manifest::yaml::{MAX_DEPTH, MAX_NODES, parse, parse_quick, parse_with_library};
use agentproto_manifest::{ProblemKind, YamlQuirkKind, to_json};
use serde_json::{Value as Json, json};

fn value(source: &str) -> Json {
    let parsed = parse(source, 0);
    assert_eq!(parsed.problems, [], "{source:?}");
    to_json(&parsed.root.expect("a tree"))
}

fn problems(source: &str) -> Vec<ProblemKind> {
    let kinds = |parsed: agentproto_manifest::yaml::Parsed| -> Vec<ProblemKind> {
        parsed.problems.iter().map(|p| p.kind).collect()
    };
    let found = kinds(parse(source, 0));
    assert_eq!(found, kinds(parse_with_library(source, 0)));
    found
}

fn quirks(source: &str) -> Vec<(YamlQuirkKind, &str)> {
    let parsed = parse(source, 0);
    parsed
        .quirks
        .iter()
        .map(|o| (o.kind, &source[o.span.range()]))
        .collect()
}

#[test]
fn aliases_are_copies() {
    let source = "a: &x {b: [1]}\nc: *x\nd: [*x, *x]\n";
    let copy = json!({"b": [1]});
    assert_eq!(
        value(source),
        json!({"a": copy, "c": copy, "d": [copy, copy]})
    );
    assert_eq!(
        quirks(source),
        [
            (YamlQuirkKind::Anchor, "&x {"),
            (YamlQuirkKind::Alias, "*x"),
            (YamlQuirkKind::Alias, "*x"),
            (YamlQuirkKind::Alias, "*x"),
        ]
    );
    assert_eq!(value("a: &x 1\nb: &x 2\nc: *x\n")["c"], 2);
    assert_eq!(problems("a: *x\n"), [ProblemKind::Syntax]);
}

#[test]
fn own_keys_override_merged_keys_before_and_after_the_merge() {
    let base = "base: &b {x: 1, y: 2}\n";
    for own in ["own: {<<: *b, x: 9}", "own: {x: 9, <<: *b}"] {
        let found = value(&format!("{base}{own}\n"));
        assert_eq!(found["own"], json!({"x": 9, "y": 2}), "{own}");
    }
    // The first of several sources wins. Merging a list is the same as merging one by one.
    let two = "a: &a {x: 1}\nb: &b {x: 2, z: 3}\n";
    for own in ["own: {<<: [*a, *b]}", "own:\n  <<: *a\n  <<: *b"] {
        let found = value(&format!("{two}{own}\n"));
        assert_eq!(found["own"], json!({"x": 1, "z": 3}), "{own}");
    }
    let keys = |source: &str| -> Vec<String> {
        let root = parse(source, 0).root.expect("a tree");
        let own = root.get("own").expect("an entry");
        own.entries().iter().map(|e| e.key.to_string()).collect()
    };
    assert_eq!(
        keys(&format!("{base}own:\n  a: 0\n  <<: *b\n  x: 9\n")),
        ["a", "y", "x"]
    );
    // A duplicate key of the mapping itself is still an error.
    let twice = format!("{base}own:\n  <<: *b\n  x: 9\n  x: 8\n");
    assert_eq!(problems(&twice), [ProblemKind::DuplicateKey]);
}

#[test]
fn a_quoted_merge_key_is_a_key() {
    for source in ["\"<<\": {a: 1}\n", "x: {'<<': {a: 1}}\n"] {
        assert_eq!(quirks(source), []);
        assert!(source.contains("<<") && value(source).to_string().contains("<<"));
    }
}

#[test]
fn tags() {
    assert_eq!(
        value("a: !!str 5\nb: !!int 5\nc: !!str\nd: ! 5\n")["a"],
        "5"
    );
    assert_eq!(
        quirks("a: !!str 5\nb: !t 5\nc: !t {d: 1}\n"),
        [(YamlQuirkKind::Tag, "!t 5"), (YamlQuirkKind::Tag, "!t {")]
    );
    assert_eq!(value("a: !!str true\n")["a"], "true");
    assert_eq!(value("a: !!str\n")["a"], "");
}

#[test]
fn folding_and_escapes() {
    assert_eq!(value("a: b\n  c\n\n  d\n")["a"], "b c\nd");
    assert_eq!(value("a: 'b\n\n\n  c '\n")["a"], "b\n\nc ");
    assert_eq!(
        value("a: \"b \\\n  \\ c\\x41\\u00e9\\/\"\n")["a"],
        "b  cAé/"
    );
    assert_eq!(
        value("a: >\n  b\n  c\n\n   d\n  e\n")["a"],
        "b c\n\n d\ne\n"
    );
    assert_eq!(value("a: >+\n  b\n\n\nc: 1\n")["a"], "b\n\n\n");
    assert_eq!(value("a: |1\n  b\n c\n")["a"], " b\nc\n");
    assert_eq!(value("a: |\n\n  b\n")["a"], "\nb\n");
    assert_eq!(
        value("a: b\r\n  c\r\nd: |\r\n  e\r\n  f\r\n"),
        json!({"a": "b c", "d": "e\nf\n"})
    );
}

#[test]
fn no_line_break_is_added_to_a_block_scalar_at_the_end_of_the_file() {
    let headers = [
        "|", "|-", "|+", ">", ">-", ">+", "|1", "|2-", "|+1", ">2", "| # c",
    ];
    let bodies = [
        "  b",
        "  b\n  c",
        "\n  b",
        "  b  ",
        "  b\n   c",
        "  b\n  # no comment",
        "  b\n# comment",
        "  b\n",
        "  b\n\n",
        // Blanks at the end of the file: less than the indentation, equal to it, and more.
        "  b\n ",
        "  b\n  ",
        "  b\n   ",
        "  b\n\n ",
        "  b\n\n  ",
        "  b\n\n   ",
        "  b\n    \n ",
        "  b\n    \n  ",
        "",
        " ",
        "   ",
        "\n",
        "\n  ",
        "\n\n ",
    ];
    let mut quick = 0;
    for header in headers {
        for body in bodies {
            for before in ["a: ", "- ", "a:\n- ", "a: |\n  x\nb: "] {
                for line_break in ["\n", "\r\n"] {
                    let source = format!("{before}{header}\n{body}").replace('\n', line_break);
                    let theirs: Json = serde_yaml::from_str(&source).expect("valid");
                    let full = parse_with_library(&source, 0);
                    assert_eq!(full.problems, [], "{source:?}");
                    let ours = to_json(full.root.as_ref().expect("a tree"));
                    assert_eq!(ours, theirs, "{source:?}");
                    if let Some(parsed) = parse_quick(&source, 0) {
                        assert_eq!(parsed, full, "{source:?}");
                        quick += usize::from(!source.ends_with('\n'));
                    }
                }
            }
        }
    }
    // The quick reader supports the plain cases.
    assert!(quick >= 50, "{quick}");
    let found = parse_quick("a: |\n  b", 0).and_then(|parsed| parsed.root);
    assert_eq!(found.map(|root| to_json(&root)), Some(json!({"a": "b"})));
}

#[test]
fn nesting_up_to_the_limit() {
    // The root mapping counts as one level.
    let flow = |levels: usize| format!("a: {}1{}\n", "[".repeat(levels), "]".repeat(levels));
    let block = |levels: usize| -> String {
        let lines = (0..levels).map(|i| format!("{}a:\n", " ".repeat(i)));
        lines.collect::<String>() + &" ".repeat(levels) + "b: 1\n"
    };
    for source in [flow(MAX_DEPTH - 1), block(MAX_DEPTH - 1)] {
        assert_eq!(problems(&source), []);
        assert_eq!(
            parse_quick(&source, 0),
            Some(parse_with_library(&source, 0))
        );
    }
    for source in [
        flow(MAX_DEPTH),
        block(MAX_DEPTH),
        flow(50_000),
        "[".repeat(100_000),
    ] {
        assert_eq!(problems(&source), [ProblemKind::TooDeep]);
        assert!(parse_quick(&source, 0).is_none());
    }
    assert_eq!(problems(&"{a: ".repeat(50_000)), [ProblemKind::TooDeep]);
    assert_eq!(problems(&"- ".repeat(50_000)), [ProblemKind::TooDeep]);
}

#[test]
fn aliases_count_toward_the_depth_limit() {
    let half = MAX_DEPTH / 2;
    let nest = |inner: &str| format!("{}{inner}{}", "[".repeat(half), "]".repeat(half));
    let fits = format!("a: &a {}\nb: [*a]\n", nest("1"));
    assert_eq!(problems(&fits), []);
    let deep = format!("a: &a {}\nb: &b {}\n", nest("1"), nest("*a"));
    assert_eq!(problems(&deep), [ProblemKind::TooDeep]);
}

#[test]
fn nodes_up_to_the_limit() {
    // The root, a key and the list are one node each; a pair is two.
    let list = |items: usize| format!("a: [{}]\n", vec!["1"; items].join(","));
    let lines = |items: usize| format!("a:\n{}", "- 1\n".repeat(items));
    let pairs = |n: usize| (0..n).map(|i| format!("k{i}: 1\n")).collect::<String>();
    for source in [
        list(MAX_NODES - 3),
        lines(MAX_NODES - 3),
        pairs((MAX_NODES - 1) / 2),
    ] {
        assert_eq!(problems(&source), []);
        assert!(parse_quick(&source, 0).is_some());
    }
    for source in [
        list(MAX_NODES - 2),
        lines(MAX_NODES - 2),
        pairs(MAX_NODES / 2),
    ] {
        assert_eq!(problems(&source), [ProblemKind::TooManyNodes]);
        assert!(parse_quick(&source, 0).is_none());
    }
}

#[test]
fn a_small_file_cannot_become_a_large_tree() {
    // Each line contains the line before ten times.
    let mut laughs = "l0: &l0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n".to_owned();
    for i in 1..12 {
        let ten = vec![format!("*l{}", i - 1); 10].join(", ");
        laughs += &format!("l{i}: &l{i} [{ten}]\n");
    }
    assert_eq!(problems(&laughs), [ProblemKind::TooManyNodes]);
    // Each anchor contains all anchors inside it.
    let levels = MAX_DEPTH - 2;
    let open: String = (0..levels).map(|i| format!("&a{i} [")).collect();
    let nested = format!("a: {open}{}{}\n", "1,".repeat(50_000), "]".repeat(levels));
    assert_eq!(problems(&nested), [ProblemKind::TooManyNodes]);
}

#[test]
fn duplicate_keys_are_found_in_large_mappings() {
    let keys: String = (0..100).map(|i| format!("k{i}: {i}\n")).collect();
    assert_eq!(problems(&keys), []);
    let twice = format!("{keys}k99: 1\nk0: 2\n");
    assert_eq!(problems(&twice), [ProblemKind::DuplicateKey; 2]);
    let first = parse(&twice, 0).problems[1]
        .related
        .clone()
        .expect("the first place");
    assert_eq!(&twice[first.0.range()], "k0");
    let flow: Vec<String> = (0..100).map(|i| format!("k{i}: {i}")).collect();
    let flow = format!("a: {{{}, k50: x}}\n", flow.join(", "));
    assert_eq!(problems(&flow), [ProblemKind::DuplicateKey]);
    let merged = format!("a: &a {{{}}}\nb:\n  <<: *a\n", flow_body(100))
        + &(0..100)
            .rev()
            .map(|i| format!("  k{i}: own\n"))
            .collect::<String>();
    let found = value(&merged);
    assert_eq!(found["b"].as_object().map(serde_json::Map::len), Some(100));
    assert!(
        found["b"]
            .as_object()
            .is_some_and(|b| b.values().all(|v| v == "own"))
    );
}

fn flow_body(pairs: usize) -> String {
    let pairs: Vec<String> = (0..pairs).map(|i| format!("k{i}: {i}")).collect();
    pairs.join(", ")
}

#[test]
fn keys_of_every_kind() {
    let parsed = parse("1: a\n~: b\ntrue: c\n1.5: d\n? [x]\n: e\n", 0);
    let kinds: Vec<ProblemKind> = parsed.problems.iter().map(|p| p.kind).collect();
    assert_eq!(kinds, [ProblemKind::KeyNotString]);
    let keys: Vec<String> = parsed
        .root
        .expect("a tree")
        .entries()
        .iter()
        .map(|e| format!("{} {:?}", e.key, e.key_kind))
        .collect();
    assert_eq!(
        keys,
        ["1 Int", "null Other", "true Other", "1.5 Other", "? Other"]
    );
}

#[test]
fn a_tab_between_brackets_is_allowed() {
    for source in [
        "a: {\n \tb: 1}\n",
        "a: &x {\n \tb: 1}\n",
        "a: !t {\n \tb: 1}\n",
    ] {
        assert_eq!(value(source)["a"]["b"], 1, "{source:?}");
    }
}
