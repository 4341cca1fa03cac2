//! Spans of keys and values in every style. Each span is shown as the text that it covers.

use agentproto_manifest::yaml::{Parsed, parse_quick, parse_with_library};
use agentproto_manifest::{Document, Entry, Node, Style, Value};

/// Lists one line per node: pointer, style, and the key and value as written.
fn listing(source: &str, parsed: &Parsed) -> Vec<String> {
    assert_eq!(parsed.problems, [], "{source:?}");
    let mut out = Vec::new();
    let root = parsed.root.as_ref().expect("a tree");
    walk(source, root, None, String::new(), &mut out);
    out
}

fn walk(source: &str, node: &Node, entry: Option<&Entry>, at: String, out: &mut Vec<String>) {
    let value = &source[node.span.range()];
    let line = match entry {
        Some(entry) => format!(
            "{at} {:?} {:?} {value:?}",
            node.style,
            &source[entry.key_span.range()]
        ),
        None => format!("{at} {:?} {value:?}", node.style),
    };
    out.push(line);
    match &node.value {
        Value::Seq(items) => {
            for (i, item) in items.iter().enumerate() {
                walk(source, item, None, format!("{at}/{i}"), out);
            }
        }
        Value::Map(entries) => {
            for entry in entries {
                walk(
                    source,
                    &entry.value,
                    Some(entry),
                    format!("{at}/{}", entry.key),
                    out,
                );
            }
        }
        _ => {}
    }
}

/// Checks the listing below the root. `quick` says whether the quick reader accepts the text, and
/// then both readers are compared.
fn check(source: &str, quick: bool, expected: &[&str]) {
    let full = listing(source, &parse_with_library(source, 0));
    assert_eq!(full[1..], *expected, "{source:?}");
    let read = parse_quick(source, 0);
    assert_eq!(read.is_some(), quick, "quick reader on {source:?}");
    if let Some(read) = read {
        assert_eq!(listing(source, &read), full, "{source:?}");
    }
}

const QUICK: bool = true;
const LIBRARY: bool = false;

#[test]
fn scalars_on_one_line() {
    check("a: b\n", QUICK, &[r#"/a Plain "a" "b""#]);
    check("a: b c  # d\n", QUICK, &[r#"/a Plain "a" "b c""#]);
    check("a b: c#d\n", QUICK, &[r#"/a b Plain "a b" "c#d""#]);
    check("a : b", QUICK, &[r#"/a Plain "a" "b""#]);
    check("'a': 'b'\n", QUICK, &[r#"/a SingleQuoted "'a'" "'b'""#]);
    check(
        "a: 'it''s' # c\n",
        QUICK,
        &[r#"/a SingleQuoted "a" "'it''s'""#],
    );
    check(
        r#""a\n": "b\"" # c"#,
        QUICK,
        &[r#"/a
 DoubleQuoted "\"a\\n\"" "\"b\\\"\"""#],
    );
    check("é: ü # ö\n", QUICK, &[r#"/é Plain "é" "ü""#]);
    check("1: 2\n", QUICK, &[r#"/1 Plain "1" "2""#]);
}

#[test]
fn scalars_over_several_lines() {
    check(
        "a: b\n  c\n\n  d\ne: f\n",
        LIBRARY,
        &[r#"/a Plain "a" "b\n  c\n\n  d""#, r#"/e Plain "e" "f""#],
    );
    check("a:\n  b\n  c # d\n", LIBRARY, &[r#"/a Plain "a" "b\n  c""#]);
    check(
        "a: 'b\n  c' # d\n",
        LIBRARY,
        &[r#"/a SingleQuoted "a" "'b\n  c'""#],
    );
    check(
        "a: \"b\\\n  c\" # \"\n",
        LIBRARY,
        &[r#"/a DoubleQuoted "a" "\"b\\\n  c\"""#],
    );
    check(
        "a:\n  # c\n  'b'\n",
        LIBRARY,
        &[r#"/a SingleQuoted "a" "'b'""#],
    );
}

#[test]
fn missing_values() {
    check(
        "a:\nb: 1\n",
        LIBRARY,
        &[r#"/a Plain "a" """#, r#"/b Plain "b" "1""#],
    );
    for (source, at) in [
        ("a:\nb: 1\n", 2),
        ("a:   # c\nb: 1\n", 2),
        ("a: \n", 2),
        ("a:", 2),
    ] {
        let root = parse_with_library(source, 0).root.expect("a tree");
        let span = root.get("a").expect("an entry").span;
        assert_eq!((span.start, span.end), (at, at), "{source:?}");
    }
    for (source, at) in [
        ("- \n- b\n", 1),
        ("- # c\n- b\n", 1),
        ("-\n", 1),
        ("- - # c\n", 3),
    ] {
        let mut node = &parse_with_library(source, 0).root.expect("a tree");
        while let Some(first) = node.items().first() {
            node = first;
        }
        assert_eq!((node.span.start, node.span.end), (at, at), "{source:?}");
    }
}

#[test]
fn block_scalars_with_every_indicator() {
    let text = "  x\n   y\n\n";
    for kind in ["|", ">"] {
        for indicator in ["", "-", "+", "2", "2-", "-2", "2+", "+2"] {
            for tail in ["", " # c", "  "] {
                let header = format!("{kind}{indicator}");
                let style = if kind == "|" { "Literal" } else { "Folded" };
                let source = format!("a: {header}{tail}\n{text}b: 1\n");
                let full = parse_with_library(&source, 0);
                let value = format!("{header}{tail}\n  x\n   y");
                assert_eq!(
                    listing(&source, &full)[1..],
                    [
                        format!("/a {style} \"a\" {value:?}"),
                        "/b Plain \"b\" \"1\"".to_owned()
                    ]
                );
                let break_behind = match indicator.trim_matches('2') {
                    "-" => "",
                    "+" => "\n\n",
                    _ => "\n",
                };
                let expected = format!("x\n y{break_behind}");
                let root = full.root.as_ref().expect("a tree");
                assert_eq!(root.str_at(&["a"]), Some(expected.as_str()), "{source:?}");
                if let Some(quick) = parse_quick(&source, 0) {
                    assert_eq!(quick, full, "{source:?}");
                }
            }
        }
    }
}

#[test]
fn block_scalars_in_unusual_places() {
    check("a: |\n  x\n", QUICK, &[r#"/a Literal "a" "|\n  x""#]);
    check(
        "a: |\n  x\n\nb: c\n",
        QUICK,
        &[r#"/a Literal "a" "|\n  x""#, r#"/b Plain "b" "c""#],
    );
    check(
        "a: >-\n  x\n  y\n# c\nb: |-\n\n  z\nc: d\n",
        QUICK,
        &[
            r#"/a Folded "a" ">-\n  x\n  y""#,
            r#"/b Literal "b" "|-\n\n  z""#,
            r#"/c Plain "c" "d""#,
        ],
    );
    check(
        "- |\n x\n- >\n y\n- z\n",
        QUICK,
        &[
            r#"/0 Literal "|\n x""#,
            r#"/1 Folded ">\n y""#,
            r#"/2 Plain "z""#,
        ],
    );
    check("a: |\n  x\n\n", QUICK, &[r#"/a Literal "a" "|\n  x""#]);
    check("a: |", LIBRARY, &[r#"/a Literal "a" "|""#]);
    check(
        "a: |\nb: 1\n",
        LIBRARY,
        &[r#"/a Literal "a" "|""#, r#"/b Plain "b" "1""#],
    );
    check(
        "'|': |-\n  |\nb: 1\n",
        QUICK,
        &[r#"/| Literal "'|'" "|-\n  |""#, r#"/b Plain "b" "1""#],
    );
}

#[test]
fn block_collections() {
    check(
        "a:\n  b: 1\n  c:\n    d: 2\n",
        QUICK,
        &[
            r#"/a Block "a" "b: 1\n  c:\n    d: 2""#,
            r#"/a/b Plain "b" "1""#,
            r#"/a/c Block "c" "d: 2""#,
            r#"/a/c/d Plain "d" "2""#,
        ],
    );
    check(
        "a:\n- b\n- c: 1\n  d: 2\n",
        QUICK,
        &[
            r#"/a Block "a" "- b\n- c: 1\n  d: 2""#,
            r#"/a/0 Plain "b""#,
            r#"/a/1 Block "c: 1\n  d: 2""#,
            r#"/a/1/c Plain "c" "1""#,
            r#"/a/1/d Plain "d" "2""#,
        ],
    );
    check(
        "a:\n  - - b\n    - c\n  - d\n",
        LIBRARY,
        &[
            r#"/a Block "a" "- - b\n    - c\n  - d""#,
            r#"/a/0 Block "- b\n    - c""#,
            r#"/a/0/0 Plain "b""#,
            r#"/a/0/1 Plain "c""#,
            r#"/a/1 Plain "d""#,
        ],
    );
    check(
        "a:\n  - [b]\n  - {c: d}\n",
        QUICK,
        &[
            r#"/a Block "a" "- [b]\n  - {c: d}""#,
            r#"/a/0 Flow "[b]""#,
            r#"/a/0/0 Plain "b""#,
            r#"/a/1 Flow "{c: d}""#,
            r#"/a/1/c Plain "c" "d""#,
        ],
    );
}

#[test]
fn flow_collections() {
    check(
        "a: [b, 'c', {d: 1}]  # e\n",
        QUICK,
        &[
            r#"/a Flow "a" "[b, 'c', {d: 1}]""#,
            r#"/a/0 Plain "b""#,
            r#"/a/1 SingleQuoted "'c'""#,
            r#"/a/2 Flow "{d: 1}""#,
            r#"/a/2/d Plain "d" "1""#,
        ],
    );
    check(
        "a: [\n    b, # ]\n    c,\n  ]\n",
        QUICK,
        &[
            r#"/a Flow "a" "[\n    b, # ]\n    c,\n  ]""#,
            r#"/a/0 Plain "b""#,
            r#"/a/1 Plain "c""#,
        ],
    );
    check(
        "a: {b: 1, 'c': [], }\n",
        QUICK,
        &[
            r#"/a Flow "a" "{b: 1, 'c': [], }""#,
            r#"/a/b Plain "b" "1""#,
            r#"/a/c Flow "'c'" "[]""#,
        ],
    );
    check(
        "a: {b, c: }\n",
        LIBRARY,
        &[
            r#"/a Flow "a" "{b, c: }""#,
            r#"/a/b Plain "b" """#,
            r#"/a/c Plain "c" """#,
        ],
    );
    check("{a: b}\n", LIBRARY, &[r#"/a Plain "a" "b""#]);
    check("{\"a\":b}\n", LIBRARY, &[r#"/a Plain "\"a\"" "b""#]);
    check(
        "a: [b: c]\n",
        LIBRARY,
        &[
            r#"/a Flow "a" "[b: c]""#,
            r#"/a/0 Block "b: c""#,
            r#"/a/0/b Plain "b" "c""#,
        ],
    );
}

/// Line breaks that the quick reader leaves to the library.
#[test]
fn flow_collections_with_space_inside() {
    check(
        "a: { b: c }\r\nd: [ # [\r\n  e ]\r\n",
        LIBRARY,
        &[
            r#"/a Flow "a" "{ b: c }""#,
            r#"/a/b Plain "b" "c""#,
            r#"/d Flow "d" "[ # [\r\n  e ]""#,
            r#"/d/0 Plain "e""#,
        ],
    );
    check(
        "a: &x # [ {\n  b: c\n",
        LIBRARY,
        &[
            r#"/a Block "a" "&x # [ {\n  b: c""#,
            r#"/a/b Plain "b" "c""#,
        ],
    );
}

#[test]
fn comments_everywhere() {
    let source = "# 1\na: b # 2\n# 3\n\n  # 4\nc: # 5\n  # 6\n  - d # 7\n  # 8\n  - # 9\n    e: f # 10\n# 11\n";
    check(
        source,
        QUICK,
        &[
            r#"/a Plain "a" "b""#,
            r#"/c Block "c" "- d # 7\n  # 8\n  - # 9\n    e: f""#,
            r#"/c/0 Plain "d""#,
            r#"/c/1 Block "e: f""#,
            r#"/c/1/e Plain "e" "f""#,
        ],
    );
}

#[test]
fn lines_that_end_with_crlf() {
    check(
        "a: b\r\nc:\r\n  - d\r\n  - 'e'\r\nf: |\r\n  g\r\n  h\r\ni: [j,\r\n  k]\r\nl: m\r\n  n\r\n",
        LIBRARY,
        &[
            r#"/a Plain "a" "b""#,
            r#"/c Block "c" "- d\r\n  - 'e'""#,
            r#"/c/0 Plain "d""#,
            r#"/c/1 SingleQuoted "'e'""#,
            r#"/f Literal "f" "|\r\n  g\r\n  h""#,
            r#"/i Flow "i" "[j,\r\n  k]""#,
            r#"/i/0 Plain "j""#,
            r#"/i/1 Plain "k""#,
            r#"/l Plain "l" "m\r\n  n""#,
        ],
    );
}

#[test]
fn anchors_and_tags_belong_to_their_value() {
    check(
        "a: &x b\nc: *x\n",
        LIBRARY,
        &[r#"/a Plain "a" "&x b""#, r#"/c Plain "c" "*x""#],
    );
    check(
        "a: !!str 5\nb: !t 'c' # '\n",
        LIBRARY,
        &[
            r#"/a Plain "a" "!!str 5""#,
            r#"/b SingleQuoted "b" "!t 'c'""#,
        ],
    );
    check(
        "a: &x'y \"b\" # c\n",
        LIBRARY,
        &[r#"/a DoubleQuoted "a" "&x'y \"b\"""#],
    );
    check(
        "a: &x\n  b: 1\nc: !!map\n  d: 2\n",
        LIBRARY,
        &[
            r#"/a Block "a" "&x\n  b: 1""#,
            r#"/a/b Plain "b" "1""#,
            r#"/c Block "c" "!!map\n  d: 2""#,
            r#"/c/d Plain "d" "2""#,
        ],
    );
    check(
        "a: &x [1, ]\nb: !t {c: d}\n",
        LIBRARY,
        &[
            r#"/a Flow "a" "&x [1, ]""#,
            r#"/a/0 Plain "1""#,
            r#"/b Flow "b" "!t {c: d}""#,
            r#"/b/c Plain "c" "d""#,
        ],
    );
    check(
        "a: &x |\n  b\nc: &y\n- d\n",
        LIBRARY,
        &[
            r#"/a Literal "a" "&x |\n  b""#,
            r#"/c Block "c" "&y\n- d""#,
            r#"/c/0 Plain "d""#,
        ],
    );
}

#[test]
fn comments_between_a_value_and_its_indicator() {
    check(
        "a:\n- # c -\n- b\n",
        LIBRARY,
        &[
            r#"/a Block "a" "- # c -\n- b""#,
            r#"/a/0 Plain """#,
            r#"/a/1 Plain "b""#,
        ],
    );
    check(
        "a: # - x\n# - y\n- # c\n  # d\n  - e\n  -\n",
        LIBRARY,
        &[
            r#"/a Block "a" "- # c\n  # d\n  - e\n  -""#,
            r#"/a/0 Block "- e\n  -""#,
            r#"/a/0/0 Plain "e""#,
            r#"/a/0/1 Plain """#,
        ],
    );
    check(
        "a: # | x\n  |\n  b\n",
        LIBRARY,
        &[r#"/a Literal "a" "|\n  b""#],
    );
    check("a: # - b -", LIBRARY, &[r#"/a Plain "a" """#]);
    check(
        "a:\n  -b:\n  - #c -",
        LIBRARY,
        &[
            r#"/a Block "a" "-b:\n  -""#,
            r#"/a/-b Block "-b" "-""#,
            r#"/a/-b/0 Plain """#,
        ],
    );
}

/// Spans count from the first byte of the file, including the byte order mark and the fence.
#[test]
fn spans_of_a_file() {
    for (mark, eol) in [
        ("", "\n"),
        ("\u{feff}", "\n"),
        ("\u{feff}", "\r\n"),
        ("", "\r\n"),
    ] {
        let text = format!("{mark}---{eol}é: ü{eol}a: [b]{eol}---{eol}body{eol}");
        let doc = Document::parse("AGENT-CLI.md", text);
        assert_eq!(doc.problems, []);
        let root = doc.root.as_ref().expect("a mapping");
        assert_eq!(doc.slice(root.entries()[0].key_span), "é");
        assert_eq!(doc.slice(root.entries()[0].value.span), "ü");
        assert_eq!(doc.slice(root.entries()[1].value.span), "[b]");
        assert_eq!(doc.position(root.entries()[1].value.span.start).line, 3);
        assert_eq!(doc.position(root.entries()[1].value.span.start).column, 4);
        assert_eq!(root.style, Style::Block);
        assert_eq!(doc.body(), format!("body{eol}"));
    }
}
