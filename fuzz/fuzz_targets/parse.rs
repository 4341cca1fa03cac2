//! Parses any bytes. Parsing must terminate, spans must be valid, the two YAML readers must
//! agree, and comments must be outside scalars.
#![no_main]

use agentproto_manifest::comments::comments;
use agentproto_manifest::yaml::{Parsed, parse_quick, parse_with_library};
use agentproto_manifest::{Document, Node, Span, Value, YamlQuirkKind, to_json};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let doc = Document::from_bytes("AGENT-CLI.md", data.to_vec());
    for problem in &doc.problems {
        inside(&doc.text, problem.span);
        if let Some((span, _)) = &problem.related {
            inside(&doc.text, *span);
        }
    }
    for comment in comments(&doc) {
        assert!(doc.slice(comment).starts_with('#'));
    }
    if let Some(root) = &doc.root {
        to_json(root);
    }
    if let Some(front) = doc.frontmatter {
        let source = doc.slice(front.yaml);
        readers(source);
    }
    // Most inputs have no fences, so use their whole text as YAML.
    if doc.frontmatter.is_none() {
        readers(&doc.text);
    }
});

fn readers(source: &str) {
    let full = parse_with_library(source, 0);
    spans(source, &full);
    if let Some(quick) = parse_quick(source, 0) {
        // Compare the debug output, because `.nan` is not equal to itself.
        let same = quick == full || format!("{quick:?}") == format!("{full:?}");
        assert!(same, "\nquick {quick:#?}\nlibrary {full:#?}");
    }
}

fn inside(text: &str, span: Span) {
    assert!(text.get(span.range()).is_some(), "{span:?}");
}

fn spans(source: &str, parsed: &Parsed) {
    for quirk in &parsed.quirks {
        inside(source, quirk.span);
    }
    for problem in &parsed.problems {
        inside(source, problem.span);
    }
    // With aliases, one text is used in several places, so children can be outside their parents.
    let nested = !parsed
        .quirks
        .iter()
        .any(|o| matches!(o.kind, YamlQuirkKind::Alias | YamlQuirkKind::MergeKey));
    if let Some(root) = &parsed.root {
        node(source, root, nested);
    }
}

fn node(source: &str, parent: &Node, nested: bool) {
    inside(source, parent.span);
    let mut before = parent.span.start;
    let mut next = |span: Span| {
        inside(source, span);
        if nested {
            assert!(
                parent.span.contains(span),
                "{:?} {span:?} {parent:#?}",
                parent.span
            );
            assert!(before <= span.start, "not in order: {parent:#?}");
            before = span.end;
        }
    };
    match &parent.value {
        Value::Seq(items) => {
            for item in items {
                next(item.span);
                node(source, item, nested);
            }
        }
        Value::Map(entries) => {
            for entry in entries {
                next(entry.key_span);
                next(entry.value.span);
                node(source, &entry.value, nested);
            }
        }
        _ => {}
    }
}
