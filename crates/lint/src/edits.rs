//! Builds edits that change one value of a manifest and keep comments, order and style.
//! Functions return `None` if the way the file is written does not allow a safe edit.
//!
//! An edit is first built from the text around its place. Then it is verified: the changed file
//! must parse to the intended tree (`check`). An unexpected YAML style therefore prevents a fix,
//! but never damages a file.

mod check;
mod quoting;

use smol_str::SmolStr;

use crate::finding::Edit;
use agentproto_manifest::comments::{comments, line_end, line_start, next_line};
use agentproto_manifest::{Document, Entry, KeyKind, Node, Span, Style, Value, YamlQuirkKind};
pub use check::apply_edits;
use check::{node_at, verify, within_budget};
pub use quoting::string;
use quoting::{double, string_as};

/// Replaces the text of a scalar. Keeps its quoting style if that can represent the new text.
pub fn set_scalar(doc: &Document, node: &Node, text: &str) -> Option<Vec<Edit>> {
    within_budget(doc)?;
    let edit = replace_scalar(doc, node, string_as(node.style, text))?;
    replace_value(doc, node, vec![edit], Value::Str(SmolStr::new(text)))
}

/// Quotes a plain scalar, so that YAML reads it as a string: `123` → `"123"`.
pub fn quote(doc: &Document, node: &Node) -> Option<Vec<Edit>> {
    within_budget(doc)?;
    if node.style != Style::Plain || node.span.is_empty() {
        return None;
    }
    let text = doc.slice(node.span);
    let edit = replace_scalar(doc, node, double(text))?;
    replace_value(doc, node, vec![edit], Value::Str(SmolStr::new(text)))
}

/// Replaces a value with one line of YAML.
pub fn set_raw(doc: &Document, node: &Node, yaml: &str) -> Option<Vec<Edit>> {
    within_budget(doc)?;
    if yaml.contains(['\n', '\r']) {
        return None;
    }
    let edit = match (&node.value, node.style) {
        (Value::Seq(_) | Value::Map(_), Style::Block) => {
            if has_anchor_or_tag(doc, node.span) {
                return None;
            }
            // The new value is written after the colon, so there must be one before the old value.
            let start = match node.items().first() {
                Some(item) => dash_of(doc, item)?,
                None => node.span.start as usize,
            };
            let colon = doc.text.get(..start)?.trim_end();
            if !colon.ends_with(':') {
                return None;
            }
            edit(colon.len(), node.span.end as usize, format!(" {yaml}"))
        }
        (Value::Seq(_) | Value::Map(_), _) => {
            if has_anchor_or_tag(doc, node.span) {
                return None;
            }
            edit(node.span.start as usize, node.span.end as usize, yaml)
        }
        _ => replace_scalar(doc, node, yaml.to_owned())?,
    };
    let value = Document::parse("value.md", format!("---\nvalue: {yaml}\n---\n"))
        .root?
        .get("value")?
        .value
        .clone();
    replace_value(doc, node, vec![edit], value)
}

/// Renames a key. Keeps its quotes.
pub fn rename_key(doc: &Document, entry: &Entry, name: &str) -> Option<Vec<Edit>> {
    within_budget(doc)?;
    let written = doc.slice(entry.key_span);
    if written.is_empty() || written.contains('\n') || has_anchor_or_tag(doc, entry.key_span) {
        return None;
    }
    let style = match written.as_bytes().first() {
        Some(b'"') => Style::DoubleQuoted,
        Some(b'\'') => Style::SingleQuoted,
        _ => Style::Plain,
    };
    let edits = vec![Edit {
        span: entry.key_span,
        text: string_as(style, name),
    }];
    let mut path = doc.path_of(&entry.value)?;
    let last = path.pop()?;
    verify(doc, edits, |root| {
        let Value::Map(entries) = &mut node_at(root, &path)?.value else {
            return None;
        };
        let entry = entries.get_mut(last)?;
        entry.key = SmolStr::new(name);
        entry.key_kind = KeyKind::Str;
        Some(())
    })
}

/// Removes a key and its value; in block style, also their lines. Comments are kept.
/// Returns `None` for the only entry of a block mapping, because the mapping would become null.
pub fn remove_entry(doc: &Document, map: &Node, entry: &Entry) -> Option<Vec<Edit>> {
    within_budget(doc)?;
    let entries = map.entries();
    let at = entries.iter().position(|e| std::ptr::eq(e, entry))?;
    let before = at.checked_sub(1).and_then(|i| entries.get(i));
    let after = entries.get(at + 1);
    let this = entry.span();
    if has_anchor_or_tag(doc, this) {
        return None;
    }
    let edits = match map.style {
        Style::Flow => remove_from_flow(
            doc,
            map.span,
            before.map(Entry::span),
            this,
            after.map(Entry::span),
        )?,
        _ if entries.len() == 1 => return None,
        _ => match indent_before(doc, this.start as usize)? {
            Indent::Spaces(_) => remove_lines(doc, this)?,
            Indent::Dash(_) => remove_after_dash(doc, this, after?.key_span)?,
        },
    };
    remove_child(doc, map, at, edits)
}

/// Removes an item of a list. Removing the only item leaves `[]`.
pub fn remove_item(doc: &Document, list: &Node, item: &Node) -> Option<Vec<Edit>> {
    within_budget(doc)?;
    let items = list.items();
    let at = items.iter().position(|n| std::ptr::eq(n, item))?;
    let before = at.checked_sub(1).and_then(|i| items.get(i));
    let after = items.get(at + 1);
    if has_anchor_or_tag(doc, item.span) {
        return None;
    }
    let edits = match list.style {
        Style::Flow => remove_from_flow(
            doc,
            list.span,
            before.map(|n| n.span),
            item.span,
            after.map(|n| n.span),
        )?,
        _ if items.len() == 1 => return set_raw(doc, list, "[]"),
        _ => {
            let dash = dash_of(doc, item)?;
            let this = Span::new(dash, item.span.end as usize);
            match indent_before(doc, dash)? {
                Indent::Spaces(_) => remove_lines(doc, this)?,
                Indent::Dash(_) => {
                    let next = dash_of(doc, after?)?;
                    remove_after_dash(doc, this, Span::new(next, next + 1))?
                }
            }
        }
    };
    remove_child(doc, list, at, edits)
}

/// Appends a string to a list of scalars, in the style of the list.
pub fn append_item(doc: &Document, list: &Node, text: &str) -> Option<Vec<Edit>> {
    within_budget(doc)?;
    let items = list.items();
    if !list.is_seq() {
        return None;
    }
    let style = items.last().map_or(Style::Plain, |n| n.style);
    let written = string_as(style, text);
    let edits = match (list.style, items.last()) {
        (Style::Flow, last) => add_to_flow(doc, list, last.map(|n| n.span), &written)?,
        (_, Some(last)) => {
            let dash = dash_of(doc, last)?;
            let (Indent::Spaces(columns) | Indent::Dash(columns)) = indent_before(doc, dash)?;
            let gap = match doc.text.get(dash + 1..last.span.start as usize) {
                Some(gap) if !gap.is_empty() && gap.bytes().all(|b| b == b' ') => gap,
                _ => " ",
            };
            let line = format!("{}-{gap}{written}", " ".repeat(columns));
            vec![insert_line_after(doc, last.span.end as usize, &line)]
        }
        _ => return None,
    };
    let path = doc.path_of(list)?;
    verify(doc, edits, |root| {
        let Value::Seq(items) = &mut node_at(root, &path)?.value else {
            return None;
        };
        items.push(scalar(Value::Str(SmolStr::new(text))));
        Some(())
    })
}

/// Adds a key at the end of a mapping, which may be the root. `yaml` is one line, or several lines
/// with indentation relative to the key.
pub fn add_entry(doc: &Document, map: &Node, key: &str, yaml: &str) -> Option<Vec<Edit>> {
    within_budget(doc)?;
    if !map.is_map() {
        return None;
    }
    let yaml = yaml.trim_end();
    let name = string(key);
    let own_lines = yaml.starts_with(['\n', ' ']) || yaml.starts_with("- ");
    let body = yaml.strip_prefix('\n').unwrap_or(yaml);
    let whole = match (body.is_empty(), own_lines) {
        (true, _) => format!("{name}:"),
        (_, true) => format!("{name}:\n{body}"),
        (_, false) => format!("{name}: {body}"),
    };
    let edits = match (map.style, map.entries().last()) {
        (Style::Flow, _) if whole.contains('\n') => return None,
        (Style::Flow, last) => add_to_flow(doc, map, last.map(Entry::span), &whole)?,
        (_, Some(last)) => {
            let (Indent::Spaces(columns) | Indent::Dash(columns)) =
                indent_before(doc, last.key_span.start as usize)?;
            let indent = " ".repeat(columns);
            let lines: Vec<String> = whole
                .lines()
                .map(|line| match line.trim() {
                    "" => String::new(),
                    _ => format!("{indent}{line}"),
                })
                .collect();
            let text = lines.join(newline(doc));
            vec![insert_line_after(doc, last.span().end as usize, &text)]
        }
        _ => return None,
    };
    let parsed = Document::parse("value.md", format!("---\n{whole}\n---\n"));
    let added = parsed.root?.entries().first()?.clone();
    if added.key != key || !parsed.problems.is_empty() {
        return None;
    }
    let path = doc.path_of(map)?;
    verify(doc, edits, |root| {
        let Value::Map(entries) = &mut node_at(root, &path)?.value else {
            return None;
        };
        entries.push(added);
        Some(())
    })
}

fn edit(start: usize, end: usize, text: impl Into<String>) -> Edit {
    Edit {
        span: Span::new(start, end),
        text: text.into(),
    }
}

fn scalar(value: Value) -> Node {
    Node {
        span: Span::default(),
        style: Style::Plain,
        value,
    }
}

/// Whether the span touches an anchor, alias, merge key or tag. An edit there could change other
/// places of the document.
fn has_anchor_or_tag(doc: &Document, span: Span) -> bool {
    doc.quirks.iter().any(|o| {
        o.kind != YamlQuirkKind::Yaml11 && o.span.start <= span.end && span.start <= o.span.end
    })
}

fn replace_value(doc: &Document, node: &Node, edits: Vec<Edit>, value: Value) -> Option<Vec<Edit>> {
    let path = doc.path_of(node)?;
    verify(doc, edits, |root| {
        node_at(root, &path)?.value = value;
        Some(())
    })
}

fn remove_child(doc: &Document, parent: &Node, at: usize, edits: Vec<Edit>) -> Option<Vec<Edit>> {
    let path = doc.path_of(parent)?;
    verify(doc, edits, |root| {
        match &mut node_at(root, &path)?.value {
            Value::Map(entries) if at < entries.len() => drop(entries.remove(at)),
            Value::Seq(items) if at < items.len() => drop(items.remove(at)),
            _ => return None,
        }
        Some(())
    })
}

fn replace_scalar(doc: &Document, node: &Node, written: String) -> Option<Edit> {
    let one_line = matches!(
        node.style,
        Style::Plain | Style::SingleQuoted | Style::DoubleQuoted
    ) && !matches!(node.value, Value::Seq(_) | Value::Map(_))
        && !doc.slice(node.span).contains(['\n', '\r']);
    if !one_line || has_anchor_or_tag(doc, node.span) {
        return None;
    }
    let before = (node.span.start as usize)
        .checked_sub(1)
        .and_then(|i| doc.text.as_bytes().get(i));
    let text = match before {
        // A key without a value (`key:`) needs a space before the new value.
        Some(b':' | b'-') if node.span.is_empty() => format!(" {written}"),
        _ => written,
    };
    Some(Edit {
        span: node.span,
        text,
    })
}

/// The line break of a file: that of its opening fence.
pub fn newline(doc: &Document) -> &'static str {
    let at = doc.frontmatter.map_or(0, |front| front.open.start as usize);
    let end = line_end(&doc.text, at);
    match doc.text.get(end..) {
        Some(rest) if rest.starts_with("\r\n") => "\r\n",
        _ => "\n",
    }
}

/// Inserts a line after the line that contains `at`.
fn insert_line_after(doc: &Document, at: usize, text: &str) -> Edit {
    let end = line_end(&doc.text, at);
    edit(end, end, format!("{}{text}", newline(doc)))
}

/// The text on the line before a key or a dash, with its width in bytes.
enum Indent {
    /// Only spaces.
    Spaces(usize),
    /// At least one `- ` of an enclosing list.
    Dash(usize),
}

fn indent_before(doc: &Document, at: usize) -> Option<Indent> {
    let head = doc.text.get(line_start(&doc.text, at)..at)?;
    if head.bytes().all(|b| b == b' ') {
        Some(Indent::Spaces(head.len()))
    } else if head.bytes().all(|b| b == b' ' || b == b'-') && head.ends_with(' ') {
        Some(Indent::Dash(head.len()))
    } else {
        None
    }
}

/// Offset of the dash of a list item. There may be comments between the dash and the item.
fn dash_of(doc: &Document, item: &Node) -> Option<usize> {
    let start = item.span.start as usize;
    let mut end = doc.text.get(..start)?.trim_end().len();
    for comment in comments(doc).into_iter().rev() {
        if comment.end as usize == end {
            end = doc.text.get(..comment.start as usize)?.trim_end().len();
        }
    }
    let dash = end.checked_sub(1)?;
    // The span of an empty item starts directly after its dash.
    let apart = dash + 1 < start || item.span.is_empty();
    (doc.text.as_bytes().get(dash) == Some(&b'-') && apart).then_some(dash)
}

fn is_blank(text: &str) -> bool {
    text.bytes().all(|b| matches!(b, b' ' | b'\t' | b'\r'))
}

fn rest_of_line(doc: &Document, at: usize) -> &str {
    doc.text.get(at..line_end(&doc.text, at)).unwrap_or("")
}

/// Number of leading spaces and tabs.
fn blanks(text: &str) -> usize {
    text.len() - text.trim_start_matches([' ', '\t']).len()
}

/// Removes whole lines. Comments on them are kept on separate lines.
fn remove_lines(doc: &Document, this: Span) -> Option<Vec<Edit>> {
    let from = line_start(&doc.text, this.start as usize);
    let indent = doc.text.get(from..this.start as usize)?;
    let rest = rest_of_line(doc, this.end as usize).trim_start();
    if !rest.is_empty() && !rest.starts_with('#') {
        return None;
    }
    let mut to = next_line(&doc.text, this.end as usize);
    let kept: String = comments(doc)
        .into_iter()
        .filter(|c| c.start > this.start && (c.end as usize) <= to)
        .map(|c| format!("{indent}{}{}", doc.slice(c), newline(doc)))
        .collect();
    // If blank lines before and after the removed lines would become adjacent, keep only one.
    let blank_before = from > 0 && is_blank(rest_of_line(doc, line_start(&doc.text, from - 1)));
    let end = doc.frontmatter?.yaml.end as usize;
    if kept.is_empty() && blank_before && to < end && is_blank(rest_of_line(doc, to)) {
        to = next_line(&doc.text, to);
    }
    Some(vec![edit(from, to, kept)])
}

/// Removes an entry or item that directly follows a `- `. The next one takes its place.
fn remove_after_dash(doc: &Document, this: Span, next: Span) -> Option<Vec<Edit>> {
    let (start, end) = (this.start as usize, this.end as usize);
    let between = Span::new(start, next.start as usize);
    let mut inside = comments(doc).into_iter().filter(|c| between.contains(*c));
    match inside.next() {
        None => Some(vec![edit(start, next.start as usize, "")]),
        Some(first) if first.start < this.end => None,
        Some(_) => {
            let rest = rest_of_line(doc, end);
            let head = doc.text.get(..start)?.trim_end_matches(' ').len();
            Some(if is_blank(rest) {
                vec![edit(head, end + rest.len(), "")]
            } else {
                vec![edit(start, end + blanks(rest), "")]
            })
        }
    }
}

/// Offset of the first comma between two members of a flow collection, outside comments.
fn comma_in(doc: &Document, from: usize, to: usize) -> Option<usize> {
    let mut comment = false;
    let gap = doc.text.as_bytes().get(from..to)?;
    for (i, byte) in gap.iter().enumerate() {
        match byte {
            b'\n' => comment = false,
            b'#' => comment = true,
            b',' if !comment => return Some(from + i),
            _ => {}
        }
    }
    None
}

fn remove_from_flow(
    doc: &Document,
    outer: Span,
    before: Option<Span>,
    this: Span,
    after: Option<Span>,
) -> Option<Vec<Edit>> {
    let (start, end) = (this.start as usize, this.end as usize);
    let inner_end = (outer.end as usize).checked_sub(1)?;
    let commented = |from: usize, to: usize| doc.text.get(from..to).is_none_or(|t| t.contains('#'));
    let line = line_start(&doc.text, start);
    let own_line = doc.text.get(line..start).is_some_and(is_blank);
    let gap_end = after.map_or(inner_end, |s| s.start as usize);
    if let Some(comma) = comma_in(doc, end, gap_end) {
        if commented(end, comma) {
            return Some(vec![edit(start, end, ""), edit(comma, comma + 1, "")]);
        }
        let rest = rest_of_line(doc, comma + 1);
        let head = doc.text.get(..start)?.trim_end_matches([' ', '\t']).len();
        return Some(vec![if own_line && is_blank(rest) {
            edit(line, next_line(&doc.text, comma), "")
        } else if !own_line && (is_blank(rest) || after.is_none()) {
            edit(head, comma + 1, "")
        } else {
            edit(start, comma + 1 + blanks(rest), "")
        }]);
    }
    let rest = rest_of_line(doc, end);
    let own_comment = own_line && rest.trim_start().starts_with('#');
    match before.map(|s| s.end as usize) {
        Some(previous) if !commented(previous, start) && !own_comment => {
            Some(vec![edit(previous, end, "")])
        }
        Some(_) if own_line && is_blank(rest) => {
            Some(vec![edit(line, next_line(&doc.text, end), "")])
        }
        None if !commented(outer.start as usize + 1, start) && !commented(end, inner_end) => {
            Some(vec![edit(outer.start as usize + 1, inner_end, "")])
        }
        _ => Some(vec![edit(start, end + blanks(rest), "")]),
    }
}

fn add_to_flow(
    doc: &Document,
    outer: &Node,
    last: Option<Span>,
    written: &str,
) -> Option<Vec<Edit>> {
    let inner_end = (outer.span.end as usize).checked_sub(1)?;
    let Some(last) = last else {
        let inner = doc.text.get(outer.span.start as usize + 1..inner_end)?;
        return Some(vec![if inner.trim().is_empty() {
            edit(outer.span.start as usize + 1, inner_end, written)
        } else {
            edit(inner_end, inner_end, written)
        }]);
    };
    let (start, end) = (last.start as usize, last.end as usize);
    let indent = doc.text.get(line_start(&doc.text, start)..start)?;
    if !is_blank(indent) {
        return Some(vec![edit(end, end, format!(", {written}"))]);
    }
    let comma = comma_in(doc, end, inner_end);
    let line = line_end(&doc.text, comma.unwrap_or(end));
    // If the closing bracket is on the same line, the new member cannot have its own line.
    if line > inner_end {
        return Some(vec![edit(end, end, format!(", {written}"))]);
    }
    let tail = if comma.is_some() { "," } else { "" };
    let added = edit(
        line,
        line,
        format!("{}{indent}{written}{tail}", newline(doc)),
    );
    Some(match comma {
        Some(_) => vec![added],
        None => vec![edit(end, end, ","), added],
    })
}
