//! Finds the comments of a frontmatter. The tree does not contain them, but fixes must keep them
//! and inline ignores are written in them.

use crate::document::Document;
use crate::tree::{Node, Span, Style, Value};

/// Spans of the comments in the frontmatter, in order, each from `#` to the end of the line.
/// A `#` inside a scalar is text.
pub fn comments(doc: &Document) -> Vec<Span> {
    let Some(front) = doc.frontmatter else {
        return Vec::new();
    };
    let bytes = doc.text.as_bytes();
    let mut scalars = Vec::new();
    if let Some(root) = &doc.root {
        scalar_spans(doc, root, &mut scalars);
    }
    scalars.sort_unstable();
    let mut scalars = scalars.into_iter().peekable();
    let mut found = Vec::new();
    let mut at = front.yaml.start as usize;
    let end = front.yaml.end as usize;
    while at < end {
        while scalars.next_if(|s| s.end as usize <= at).is_some() {}
        if let Some(scalar) = scalars.peek()
            && scalar.start as usize <= at
        {
            at = scalar.end as usize;
            continue;
        }
        let starts = bytes.get(at) == Some(&b'#')
            && matches!(
                at.checked_sub(1).and_then(|i| bytes.get(i)),
                None | Some(b' ' | b'\t' | b'\n' | b'\r')
            );
        if starts {
            let stop = line_end(&doc.text, at).min(end);
            let text = doc.text.get(at..stop).unwrap_or("").trim_end();
            found.push(Span::new(at, at + text.len()));
            at = stop;
        }
        at += 1;
    }
    found
}

/// Byte offset of the start of the line that contains `at`.
pub fn line_start(text: &str, at: usize) -> usize {
    let head = text.as_bytes().get(..at).unwrap_or_default();
    head.iter().rposition(|b| *b == b'\n').map_or(0, |i| i + 1)
}

/// Byte offset of the end of the line that contains `at`, before its line break.
pub fn line_end(text: &str, at: usize) -> usize {
    let tail = text.as_bytes().get(at..).unwrap_or_default();
    match tail.iter().position(|b| *b == b'\n') {
        Some(0) => at,
        Some(n) if tail.get(n - 1) == Some(&b'\r') => at + n - 1,
        Some(n) => at + n,
        None => text.len(),
    }
}

/// Byte offset of the start of the line after the one that contains `at`.
pub fn next_line(text: &str, at: usize) -> usize {
    let tail = text.as_bytes().get(at..).unwrap_or_default();
    match tail.iter().position(|b| *b == b'\n') {
        Some(n) => at + n + 1,
        None => text.len(),
    }
}

fn scalar_spans(doc: &Document, node: &Node, out: &mut Vec<Span>) {
    match &node.value {
        Value::Seq(items) => items.iter().for_each(|item| scalar_spans(doc, item, out)),
        Value::Map(entries) => {
            for entry in entries {
                out.push(entry.key_span);
                scalar_spans(doc, &entry.value, out);
            }
        }
        _ => out.push(match node.style {
            // A comment may follow the indicator of a block scalar.
            Style::Literal | Style::Folded => Span::new(
                line_end(&doc.text, node.span.start as usize).min(node.span.end as usize),
                node.span.end as usize,
            ),
            _ => node.span,
        }),
    }
}
