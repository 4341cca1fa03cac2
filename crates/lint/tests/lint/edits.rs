//! Applies edits to random frontmatter in mixed styles. Every edit must produce exactly the
//! intended tree and keep all comments. The expected tree is computed on JSON, independently of the
//! library's own check.

use agentproto_lint::Edit;
use agentproto_lint::edits::{self, apply_edits};
use agentproto_manifest::comments::comments;
use agentproto_manifest::{Document, Node, Style, Value, to_json};
use proptest::prelude::*;
use serde_json::{Value as Json, json};

#[derive(Clone, Debug)]
enum Tree {
    /// A scalar as it is written on one line.
    Scalar(String),
    Block(Vec<String>),
    Null,
    Seq(Vec<Tree>, Look),
    Map(Vec<(String, Tree)>, Look),
}

/// How a collection is written.
#[derive(Clone, Copy, Debug)]
struct Look {
    flow: bool,
    /// Flow: one member per line. Block: list items are indented below their key.
    wide: bool,
    trailing_comma: bool,
    comments: u8,
    blank_lines: bool,
}

fn look() -> impl Strategy<Value = Look> {
    (
        prop::bool::weighted(0.3),
        any::<bool>(),
        any::<bool>(),
        any::<u8>(),
        prop::bool::weighted(0.2),
    )
        .prop_map(|(flow, wide, trailing_comma, comments, blank_lines)| Look {
            flow,
            wide,
            trailing_comma,
            comments,
            blank_lines,
        })
}

fn scalar() -> impl Strategy<Value = Tree> {
    prop_oneof![
        6 => prop::sample::select(vec![
            "plain", "two words", "--flag", "123", "-1.5", "true", "no", "~", "1.2.3", "https://a.example/b#c",
            "\"double # not a comment\"", "'single # it''s'", "\"\"", "\"esc \\\" \\\\ \\n\"", "über", "a:b", "'123'",
        ]).prop_map(|s| Tree::Scalar(s.to_owned())),
        1 => prop::collection::vec(prop::sample::select(vec!["text", "# not a comment", "a: b"]), 1..3)
            .prop_map(|lines| Tree::Block(lines.into_iter().map(str::to_owned).collect())),
        1 => Just(Tree::Null),
    ]
}

fn tree() -> impl Strategy<Value = Tree> {
    scalar().prop_recursive(3, 20, 4, |inner| {
        prop_oneof![
            (prop::collection::vec(inner.clone(), 0..4), look())
                .prop_map(|(items, look)| Tree::Seq(items, look)),
            (entries(inner, 0..4), look()).prop_map(|(entries, look)| Tree::Map(entries, look)),
            (prop::collection::vec(scalar(), 1..4), look())
                .prop_map(|(items, look)| Tree::Seq(items, look)),
        ]
    })
}

fn entries(
    value: impl Strategy<Value = Tree>,
    size: std::ops::Range<usize>,
) -> impl Strategy<Value = Vec<(String, Tree)>> {
    let key = prop::sample::select(vec![
        "name",
        "key",
        "\"quoted key\"",
        "'single'",
        "with space",
        "ü",
        "bin_args",
        "x-y",
        "12",
    ]);
    prop::collection::vec((key, value), size).prop_map(|pairs| {
        let mut seen = Vec::new();
        let mut kept = Vec::new();
        for (key, value) in pairs {
            if !seen.contains(&key) {
                seen.push(key);
                kept.push((key.to_owned(), value));
            }
        }
        kept
    })
}

struct Writer {
    out: String,
    comment: usize,
}

impl Writer {
    fn comment(&mut self) -> String {
        self.comment += 1;
        format!(
            "# c{} with 'quotes\", [brackets] and: colons,",
            self.comment
        )
    }

    fn trailing(&mut self, wanted: bool) {
        if wanted {
            let comment = self.comment();
            self.out.push_str(&format!("  {comment}"));
        }
        self.out.push('\n');
    }

    fn line_above(&mut self, look: Look, indent: usize, i: usize) {
        if look.blank_lines && i > 0 {
            self.out.push('\n');
        }
        if look.comments & (1 << (i % 4)) != 0 && look.comments & 16 != 0 {
            let comment = self.comment();
            self.out
                .push_str(&format!("{}{comment}\n", " ".repeat(indent)));
        }
    }

    /// Writes everything after `key:` or `-`, including the line break.
    fn value(&mut self, tree: &Tree, indent: usize, look: Look, i: usize, in_list: bool) {
        let trailing = look.comments & 32 != 0 && look.comments & (1 << (i % 4)) != 0;
        match tree {
            Tree::Scalar(text) => {
                self.out.push_str(&format!(" {text}"));
                self.trailing(trailing);
            }
            Tree::Null => self.trailing(trailing),
            Tree::Block(lines) => {
                self.out.push_str(" |-");
                self.trailing(trailing);
                for line in lines {
                    self.out
                        .push_str(&format!("{}{line}\n", " ".repeat(indent + 2)));
                }
            }
            Tree::Seq(items, inner) if inner.flow || items.is_empty() => {
                self.out.push(' ');
                self.flow(tree, indent + 2);
                self.trailing(trailing);
            }
            Tree::Map(entries, inner) if inner.flow || entries.is_empty() => {
                self.out.push(' ');
                self.flow(tree, indent + 2);
                self.trailing(trailing);
            }
            Tree::Seq(_, inner) => {
                if in_list {
                    self.out.push(' ');
                    self.block(tree, indent + 2, true);
                } else {
                    self.trailing(trailing);
                    self.block(tree, if inner.wide { indent + 2 } else { indent }, false);
                }
            }
            Tree::Map(..) => {
                if in_list && !trailing {
                    self.out.push(' ');
                    self.block(tree, indent + 2, true);
                } else {
                    self.trailing(trailing);
                    self.block(tree, indent + 2, false);
                }
            }
        }
    }

    fn block(&mut self, tree: &Tree, indent: usize, mut inline: bool) {
        let pad = " ".repeat(indent);
        match tree {
            Tree::Seq(items, look) => {
                for (i, item) in items.iter().enumerate() {
                    if !inline {
                        self.line_above(*look, indent, i);
                        self.out.push_str(&pad);
                    }
                    inline = false;
                    self.out.push('-');
                    self.value(item, indent, *look, i, true);
                }
            }
            Tree::Map(entries, look) => {
                for (i, (key, value)) in entries.iter().enumerate() {
                    if !inline {
                        self.line_above(*look, indent, i);
                        self.out.push_str(&pad);
                    }
                    inline = false;
                    self.out.push_str(&format!("{key}:"));
                    self.value(value, indent, *look, i, false);
                }
            }
            _ => unreachable!("only collections are blocks"),
        }
    }

    fn flow(&mut self, tree: &Tree, indent: usize) {
        let (open, close, look, count) = match tree {
            Tree::Seq(items, look) => ('[', ']', *look, items.len()),
            Tree::Map(entries, look) => ('{', '}', *look, entries.len()),
            Tree::Scalar(text) => return self.out.push_str(text),
            Tree::Block(_) | Tree::Null => return self.out.push_str("null"),
        };
        self.out.push(open);
        let pad = " ".repeat(indent);
        for i in 0..count {
            if look.wide {
                self.out.push('\n');
                self.out.push_str(&pad);
            } else if i > 0 {
                self.out.push(' ');
            }
            match tree {
                Tree::Seq(items, _) => self.flow(&items[i], indent + 2),
                Tree::Map(entries, _) => {
                    self.out.push_str(&format!("{}: ", entries[i].0));
                    self.flow(&entries[i].1, indent + 2);
                }
                _ => {}
            }
            if i + 1 < count || look.trailing_comma {
                self.out.push(',');
            }
            if look.wide && look.comments & (1 << (i % 4)) != 0 {
                let comment = self.comment();
                self.out.push_str(&format!(" {comment}"));
            }
        }
        if look.wide && count > 0 {
            self.out.push('\n');
            self.out.push_str(&" ".repeat(indent - 1));
        }
        self.out.push(close);
    }
}

fn document() -> impl Strategy<Value = String> {
    (entries(tree(), 1..6), look(), any::<bool>(), any::<bool>()).prop_map(
        |(entries, look, crlf, closing_comment)| {
            let mut writer = Writer {
                out: "---\n".to_owned(),
                comment: 0,
            };
            writer.block(&Tree::Map(entries, look), 0, false);
            if closing_comment {
                let comment = writer.comment();
                writer.out.push_str(&format!("{comment}\n"));
            }
            writer.out.push_str("---\n\n# Body\n");
            if crlf {
                writer.out.replace('\n', "\r\n")
            } else {
                writer.out
            }
        },
    )
}

/// Collects all nodes with their JSON pointers.
fn walk<'d>(node: &'d Node, pointer: String, out: &mut Vec<(String, &'d Node)>) {
    match &node.value {
        Value::Seq(items) => {
            for (i, item) in items.iter().enumerate() {
                walk(item, format!("{pointer}/{i}"), out);
            }
        }
        Value::Map(entries) => {
            for entry in entries {
                let token = entry.key.replace('~', "~0").replace('/', "~1");
                walk(&entry.value, format!("{pointer}/{token}"), out);
            }
        }
        _ => {}
    }
    out.push((pointer, node));
}

fn comment_texts(doc: &Document) -> Vec<String> {
    let mut texts: Vec<String> = comments(doc)
        .iter()
        .map(|s| doc.slice(*s).to_owned())
        .collect();
    texts.sort();
    texts
}

fn verify(doc: &Document, edits: &[Edit], expected: &Json, what: &str) {
    let text = apply_edits(&doc.text, edits).expect("edits apply");
    let after = Document::parse("AGENT-CLI.md", text);
    let context = || format!("{what}\nbefore:\n{}\nafter:\n{}", doc.text, after.text);
    assert!(
        after.problems.is_empty(),
        "{:?}\n{}",
        after.problems,
        context()
    );
    let found = to_json(after.root.as_ref().expect("a root"));
    // Compare as text, because the order of keys matters.
    assert_eq!(found.to_string(), expected.to_string(), "{}", context());
    assert_eq!(comment_texts(doc), comment_texts(&after), "{}", context());
    assert_eq!(
        doc.text.contains("\r\n"),
        after.text.contains("\r\n"),
        "{}",
        context()
    );
    if doc.text.contains("\r\n") {
        assert_eq!(
            after.text.matches('\n').count(),
            after.text.matches("\r\n").count(),
            "{}",
            context()
        );
    }
}

fn is_scalar(node: &Node) -> bool {
    !node.is_map() && !node.is_seq()
}

fn at<'j>(json: &'j mut Json, pointer: &str) -> &'j mut Json {
    json.pointer_mut(pointer).expect("pointer of a node")
}

const TEXTS: [&str; 7] = [
    "word",
    "no",
    "12",
    "a, b",
    "it's: \"x\"",
    "new\nline",
    "^a\\d+$",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 400,
        failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn edits_produce_the_intended_tree_and_keep_comments(source in document(), pick in any::<prop::sample::Index>()) {
        let doc = Document::parse("AGENT-CLI.md", source.clone());
        prop_assert!(doc.problems.is_empty(), "{:?}\n{}", doc.problems, doc.text);
        let root = doc.root.as_ref().expect("a root");
        let json = to_json(root);
        let text = TEXTS[pick.index(TEXTS.len())];
        let mut nodes = Vec::new();
        walk(root, String::new(), &mut nodes);
        for (pointer, node) in nodes {
            let what = |name: &str| format!("{name} {text:?} at {pointer}");
            let one_line = is_scalar(node) && !matches!(node.style, Style::Literal | Style::Folded);
            if let Some(edits) = edits::set_scalar(&doc, node, text) {
                let mut expected = json.clone();
                *at(&mut expected, &pointer) = json!(text);
                verify(&doc, &edits, &expected, &what("set_scalar"));
            } else {
                prop_assert!(!one_line, "{} refused\n{}", what("set_scalar"), doc.text);
            }
            if let Some(edits) = edits::quote(&doc, node) {
                let mut expected = json.clone();
                *at(&mut expected, &pointer) = json!(doc.slice(node.span));
                verify(&doc, &edits, &expected, &what("quote"));
            } else {
                let quotable = one_line && node.style == Style::Plain && !node.span.is_empty();
                prop_assert!(!quotable, "{} refused\n{}", what("quote"), doc.text);
            }
            if let Some(edits) = edits::set_raw(&doc, node, "[7, x]") {
                let mut expected = json.clone();
                *at(&mut expected, &pointer) = json!([7, "x"]);
                if pointer.is_empty() { expected = json!([7, "x"]); }
                verify(&doc, &edits, &expected, &what("set_raw"));
            } else {
                prop_assert!(!one_line, "{} refused\n{}", what("set_raw"), doc.text);
            }
            if let Some(edits) = edits::append_item(&doc, node, text) {
                let mut expected = json.clone();
                at(&mut expected, &pointer).as_array_mut().expect("a list").push(json!(text));
                verify(&doc, &edits, &expected, &what("append_item"));
            } else {
                prop_assert!(!node.is_seq(), "{} refused\n{}", what("append_item"), doc.text);
            }
            for (yaml, value) in [("true", json!(true)), ("[a, b]", json!(["a", "b"])), ("\n  - a\n  - b: 1", json!(["a", {"b": 1}]))] {
                if let Some(edits) = edits::add_entry(&doc, node, "added", yaml) {
                    let mut expected = json.clone();
                    at(&mut expected, &pointer).as_object_mut().expect("a map").insert("added".into(), value);
                    verify(&doc, &edits, &expected, &what("add_entry"));
                } else {
                    let flow = node.style == Style::Flow && yaml.contains('\n');
                    prop_assert!(!node.is_map() || flow, "{} {yaml:?} refused\n{}", what("add_entry"), doc.text);
                }
            }
            for (i, item) in node.items().iter().enumerate() {
                if let Some(edits) = edits::remove_item(&doc, node, item) {
                    let mut expected = json.clone();
                    at(&mut expected, &pointer).as_array_mut().expect("a list").remove(i);
                    verify(&doc, &edits, &expected, &format!("remove item {i} of {pointer}"));
                } else {
                    let plain = item.style != Style::Block
                        && node.items().len() > 1
                        && !doc.slice(item.span).contains("# c");
                    let line = doc.text[..item.span.start as usize].rsplit('\n').next().unwrap_or("");
                    let nested = line.matches('-').count() > 1;
                    prop_assert!(!plain || nested, "remove item {i} of {pointer} refused\n{}", doc.text);
                }
            }
            for (i, entry) in node.entries().iter().enumerate() {
                if let Some(edits) = edits::remove_entry(&doc, node, entry) {
                    let mut expected = json.clone();
                    at(&mut expected, &pointer).as_object_mut().expect("a map").shift_remove(entry.key.as_str());
                    verify(&doc, &edits, &expected, &format!("remove entry {} of {pointer}", entry.key));
                } else {
                    let refusable = node.entries().len() == 1
                        || i == 0
                        || node.style == Style::Flow && doc.slice(entry.value.span).contains("# c");
                    prop_assert!(refusable, "remove entry {} of {pointer} refused\n{}", entry.key, doc.text);
                }
                if let Some(edits) = edits::rename_key(&doc, entry, "renamed, so") {
                    let mut expected = json.clone();
                    let map = at(&mut expected, &pointer).as_object_mut().expect("a map");
                    *map = std::mem::take(map).into_iter()
                        .map(|(k, v)| (if k == entry.key.as_str() { "renamed, so".to_owned() } else { k }, v))
                        .collect();
                    verify(&doc, &edits, &expected, &format!("rename {} of {pointer}", entry.key));
                } else {
                    prop_assert!(false, "rename {} of {pointer} refused\n{}", entry.key, doc.text);
                }
            }
        }
    }

    #[test]
    fn written_strings_parse_to_the_same_string(text in "\\PC{0,12}|[ -~\\n\\t]{0,12}|[-+0-9_.:eExob]{1,8}|[\\x00-\\x1f\\x7f-\\u{a0}\\u{2028}\\u{feff}a]{0,4}") {
        for template in ["---\nvalue: @@\n---\n", "---\nvalue: [@@, 1]\n---\n", "---\nvalue:\n  - @@ # c\n---\n"] {
            let doc = Document::parse("x.md", template.replace("@@", &edits::string(&text)));
            prop_assert!(doc.problems.is_empty(), "{:?} {}", doc.problems, doc.text);
            let value = doc.root.as_ref().and_then(|r| r.get("value")).expect("a value");
            let found = value.items().first().unwrap_or(value);
            prop_assert_eq!(found.as_str(), Some(text.as_str()), "{}", doc.text);
        }
    }
}
