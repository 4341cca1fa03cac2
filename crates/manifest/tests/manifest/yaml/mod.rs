//! Compares the two YAML readers with each other, and with serde_yaml as an independent oracle.

mod meaning;
mod spans;

use agentproto_manifest::yaml::{parse, parse_quick, parse_with_library};
use agentproto_manifest::{Node, Value, to_json};
use proptest::prelude::*;

/// Asserts that the quick reader, if it accepts the text, returns the same tree, spans and
/// quirks as the library.
fn agree(source: &str) {
    if let Some(quick) = parse_quick(source, 7) {
        let full = parse_with_library(source, 7);
        assert_eq!(quick, full, "\n--- source ---\n{source}");
    }
}

/// Asserts that every span is on character boundaries inside the text, and inside its parent.
fn spans_are_sound(node: &Node, source: &str) {
    let range = node.span.range();
    assert!(
        source.get(range.clone()).is_some(),
        "{range:?} in {source:?}"
    );
    let children: Vec<&Node> = match &node.value {
        Value::Seq(items) => items.iter().collect(),
        Value::Map(entries) => {
            for entry in entries {
                assert!(source.get(entry.key_span.range()).is_some());
            }
            entries.iter().map(|e| &e.value).collect()
        }
        _ => return,
    };
    for child in children {
        spans_are_sound(child, source);
    }
}

fn fragments() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        Just("a"),
        Just("bin"),
        Just("x y"),
        Just("1"),
        Just("0777"),
        Just("1e3"),
        Just("true"),
        Just("no"),
        Just("~"),
        Just("'q'"),
        Just("'it''s'"),
        Just("\"d\\n\""),
        Just("\"é\\\"\""),
        Just("é ü"),
        Just("-x"),
        Just("--flag"),
        Just("a:b"),
        Just("https://x.y/z?q=1#f"),
        Just("a#b"),
        Just("<<"),
        Just("&a"),
        Just("*a"),
        Just("!t"),
        Just("!!str 5"),
        Just("|"),
        Just(">"),
        Just("|-"),
        Just(">-"),
        Just("|+"),
        Just(">2"),
        Just("[a, b]"),
        Just("{a: 1, \"b\": [c]}"),
        Just("[]"),
        Just("{}"),
        Just("[a"),
        Just("{a: b"),
        Just("]"),
        Just("[a: b]"),
        Just("{a, b}"),
        Just("[-, x]"),
        Just("{a: -x, b: --y}"),
        Just("[a # c\n  , b]"),
        Just("[\n    a,\n    b\n  ]"),
        Just("[a,]"),
        Just("{ a : 1 }"),
        Just("{a:1}"),
        Just("{\"a\":1}"),
        Just("? k"),
        Just(","),
        Just("%"),
        Just("@"),
        Just("`"),
        Just("\t"),
        Just(""),
        Just("1.2.3"),
        Just(".5"),
        Just("12:30:00"),
        Just("'"),
        Just("\""),
        Just("a b: c"),
        Just("a: b: c"),
        Just("…"),
        Just("null"),
        Just("'a': b"),
        Just("key with # hash"),
        Just(": x"),
        Just("a :b"),
        Just("a : b"),
    ];
    let line = (
        0usize..5,
        prop_oneof![Just(""), Just("- "), Just("-"), Just("- - "), Just("-  ")],
        word.clone(),
        prop_oneof![Just(": "), Just(":"), Just(" "), Just(":  "), Just("")],
        word,
        prop_oneof![
            Just(""),
            Just(" # c"),
            Just("#c"),
            Just("  "),
            Just("  # d: e")
        ],
    )
        .prop_map(|(indent, dash, a, sep, b, tail)| {
            format!("{}{dash}{a}{sep}{b}{tail}", "  ".repeat(indent))
        });
    let any_line = prop_oneof![8 => line, 1 => Just(String::new()), 1 => Just("   ".to_owned()), 1 => Just("# note".to_owned()), 1 => Just("    text more".to_owned()), 1 => Just("      deep".to_owned())];
    (proptest::collection::vec(any_line, 1..9), any::<bool>()).prop_map(|(lines, newline)| {
        let mut text = lines.join("\n");
        if newline {
            text.push('\n');
        }
        text
    })
}

/// A valid document in mixed styles, most of which the quick reader supports.
fn document() -> impl Strategy<Value = String> {
    let scalar = prop_oneof![
        "[a-z][a-z0-9-]{0,30}",
        "[1-9][0-9]{0,4}",
        "'[a-z ]{0,8}'",
        "\"[a-zé ]{0,8}\"",
        Just("true".to_owned()),
        Just("~".to_owned()),
        Just("a: b".to_owned()).prop_map(|_| "x".to_owned()),
        "[a-z]{1,5} [a-z]{1,5}",
        "\\./[a-z]{1,6}\\.md",
    ];
    let flow = prop_oneof![
        proptest::collection::vec(scalar.clone(), 0..4).prop_map(|v| format!("[{}]", v.join(", "))),
        proptest::collection::vec(scalar.clone(), 0..4).prop_map(|v| {
            let pairs: Vec<_> = v
                .iter()
                .enumerate()
                .map(|(i, s)| format!("k{i}: {s}"))
                .collect();
            format!("{{ {} }}", pairs.join(", "))
        }),
    ];
    let block = (
        "[|>]",
        prop_oneof![Just(""), Just("-")],
        proptest::collection::vec(
            prop_oneof![Just(String::new()), "[a-z#:é ]{0,6}[a-z]"],
            1..4,
        ),
    );
    let value = prop_oneof![4 => scalar.clone(), 2 => flow];
    let entry = (value, 0usize..6, block, any::<bool>());
    proptest::collection::vec(entry, 1..6).prop_map(|entries| {
        let mut out = String::new();
        for (i, (value, form, (kind, chomp, lines), comment)) in entries.into_iter().enumerate() {
            let tail = if comment { "  # why" } else { "" };
            match form {
                0 | 1 => out.push_str(&format!("key{i}: {value}{tail}\n")),
                2 => out.push_str(&format!(
                    "key{i}:{tail}\n  sub: {value}\n  more: [1, 2]{tail}\n"
                )),
                3 => out.push_str(&format!(
                    "key{i}:\n  - {value}{tail}\n  - id: x\n    v: {value}\n"
                )),
                4 => out.push_str(&format!("key{i}:\n- {value}\n- a: {value}\n  b:\n  - c\n")),
                _ => {
                    out.push_str(&format!("key{i}: {kind}{chomp}{tail}\n"));
                    for line in lines {
                        out.push_str(&format!("  {line}\n"));
                    }
                    out.push('\n');
                }
            }
        }
        out
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn readers_agree_on_line_soup(source in fragments()) {
        agree(&source);
    }

    #[test]
    fn readers_agree_on_documents(source in document()) {
        agree(&source);
        agree(source.trim_end());
    }

    #[test]
    fn parsing_never_panics(source in "\\PC{0,80}|[-:#\\[\\]{}'\"|>&*!,?a \n]{0,60}") {
        let parsed = parse(&source, 0);
        if let Some(root) = parsed.root {
            spans_are_sound(&root, &source);
        }
        agree(&source);
    }

    #[test]
    fn values_agree_with_serde_yaml(source in document(), unended in any::<bool>()) {
        let source = if unended { source.trim_end().to_owned() } else { source };
        let ours = parse(&source, 0);
        prop_assume!(ours.problems.is_empty());
        let theirs: serde_yaml::Value = match serde_yaml::from_str(&source) {
            Ok(value) => value,
            Err(error) => panic!("serde_yaml rejects what we accept: {error}\n{source}"),
        };
        let theirs = serde_json::to_value(theirs).expect("string keys only");
        let ours = to_json(&ours.root.expect("no problems, so a root"));
        prop_assert_eq!(ours, theirs, "{}", source);
    }
}

#[test]
fn realistic_documents_do_not_need_the_library() {
    for bundle in [
        "forge/CLI.md",
        "harbor/AGENT-CLI.md",
        "harbor/harbor.ACP.md",
        "gull/AGENT-CLI.md",
        "quill/AGENT-CLI.md",
        "harbor/SECRETS.md",
    ] {
        let path = crate::repository().join("fixtures/base").join(bundle);
        let text = std::fs::read_to_string(path).expect("fixture");
        let yaml = text.split("---\n").nth(1).expect("frontmatter");
        assert!(
            parse_quick(yaml, 0).is_some(),
            "{bundle} falls back to the library"
        );
        agree(yaml);
    }
}
