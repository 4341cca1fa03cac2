//! saphyr-parser's events → spanned tree, with budgets.

use std::borrow::Cow;
use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span as CharSpan, Tag};
use smol_str::SmolStr;

use super::scalar::{differs_in_yaml11, resolve};
use super::{Keys, MAX_DEPTH, MAX_NODES, Oddity, OddityKind, Parsed};
use crate::manifest::document::{Problem, ProblemKind};
use crate::manifest::tree::{Entry, KeyKind, Node, Span, Style, Value};

pub fn parse(source: &str, base: usize) -> Parsed {
    let mut builder = Builder::new(source, base);
    let mut documents = 0;
    for event in Parser::new_from_str(source) {
        let (event, span) = match event {
            Ok(event) => event,
            Err(error) => {
                builder.syntax_error(&error);
                return builder.finish(false);
            }
        };
        if let Event::DocumentStart(_) = event {
            documents += 1;
            if documents > 1 {
                let at = builder.place(span).start;
                builder.problems.push(Problem::new(
                    ProblemKind::MultipleDocuments,
                    Span { start: at, end: at },
                    "the frontmatter holds more than one YAML document",
                ));
                return builder.finish(true);
            }
        }
        if !builder.event(event, span) {
            return builder.finish(false);
        }
    }
    builder.finish(true)
}

struct Collection {
    start: u32,
    anchor: usize,
    kind: CollectionKind,
}

enum CollectionKind {
    Seq(Vec<Node>),
    Map {
        entries: Vec<Entry>,
        keys: Keys,
        key: Option<(SmolStr, Span, KeyKind)>,
        /// Keys that `<<` brought in; the mapping's own keys override them.
        merged: Vec<SmolStr>,
    },
}

struct Builder<'s> {
    source: &'s str,
    base: usize,
    offsets: ByteOffsets,
    stack: Vec<Collection>,
    root: Option<Node>,
    anchors: HashMap<usize, Node>,
    nodes: usize,
    /// End of the last token, relative to the source.
    last_end: usize,
    problems: Vec<Problem>,
    oddities: Vec<Oddity>,
}

impl<'s> Builder<'s> {
    fn new(source: &'s str, base: usize) -> Self {
        Builder {
            source,
            base,
            offsets: ByteOffsets::new(source),
            stack: Vec::new(),
            root: None,
            anchors: HashMap::new(),
            nodes: 0,
            last_end: 0,
            problems: Vec::new(),
            oddities: Vec::new(),
        }
    }

    fn finish(self, keep: bool) -> Parsed {
        let empty = || Node {
            span: Span::empty(self.base),
            style: Style::Plain,
            value: Value::Null,
        };
        Parsed {
            root: if keep {
                Some(self.root.unwrap_or_else(empty))
            } else {
                None
            },
            problems: self.problems,
            oddities: self.oddities,
        }
    }

    fn place(&self, span: CharSpan) -> Span {
        Span::new(
            self.base + self.offsets.byte(span.start.index()),
            self.base + self.offsets.byte(span.end.index()),
        )
    }

    /// False: a budget is spent, stop.
    fn event(&mut self, event: Event<'s>, span: CharSpan) -> bool {
        let place = self.place(span);
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let node = self.scalar(text, style, tag.as_deref(), place);
                self.note_anchor(anchor, place);
                self.last_end = node.span.end as usize - self.base;
                if anchor > 0 {
                    self.anchors.insert(anchor, node.clone());
                }
                self.push(node)
            }
            Event::SequenceStart(anchor, tag) => self.open(
                anchor,
                tag.as_deref(),
                place,
                CollectionKind::Seq(Vec::new()),
            ),
            Event::MappingStart(anchor, tag) => {
                let kind = CollectionKind::Map {
                    entries: Vec::new(),
                    keys: Keys::default(),
                    key: None,
                    merged: Vec::new(),
                };
                self.open(anchor, tag.as_deref(), place, kind)
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(place),
            Event::Alias(id) => {
                self.oddities.push(Oddity {
                    kind: OddityKind::Alias,
                    span: place,
                });
                self.last_end = place.end as usize - self.base;
                let mut node = self.anchors.get(&id).cloned().unwrap_or(Node {
                    span: place,
                    style: Style::Plain,
                    value: Value::Null,
                });
                node.span = place;
                let (nodes, depth) = size(&node);
                self.nodes += nodes.saturating_sub(1);
                if self.stack.len() + depth > MAX_DEPTH {
                    return self.too_deep(place);
                }
                self.push(node)
            }
            _ => true,
        }
    }

    fn note_anchor(&mut self, anchor: usize, place: Span) {
        if anchor > 0 {
            self.oddities.push(Oddity {
                kind: OddityKind::Anchor,
                span: place,
            });
        }
    }

    fn open(
        &mut self,
        anchor: usize,
        tag: Option<&Tag>,
        place: Span,
        kind: CollectionKind,
    ) -> bool {
        self.note_anchor(anchor, place);
        if tag.is_some_and(|t| !t.is_yaml_core_schema()) {
            self.oddities.push(Oddity {
                kind: OddityKind::Tag,
                span: place,
            });
        }
        if self.stack.len() >= MAX_DEPTH {
            return self.too_deep(place);
        }
        self.last_end = place.end as usize - self.base;
        self.stack.push(Collection {
            start: place.start,
            anchor,
            kind,
        });
        true
    }

    /// Nothing may recurse further than the limit, whoever reads the tree.
    fn too_deep(&mut self, place: Span) -> bool {
        self.problems.push(Problem::new(
            ProblemKind::TooDeep,
            place,
            format!("the frontmatter is nested deeper than {MAX_DEPTH} levels"),
        ));
        false
    }

    fn close(&mut self, place: Span) -> bool {
        let Some(mut collection) = self.stack.pop() else {
            return true;
        };
        let (first, last) = match &collection.kind {
            CollectionKind::Seq(items) => (
                items.first().map(|n| n.span.start),
                items.last().map(|n| n.span.end),
            ),
            CollectionKind::Map { entries, .. } => (
                entries.first().map(|e| e.key_span.start),
                entries.last().map(|e| e.span().end),
            ),
        };
        let byte = |at: u32| self.source.as_bytes().get(at as usize - self.base);
        // A block collection whose first member is in flow style starts with a bracket, too.
        let flow =
            matches!(byte(collection.start), Some(b'[' | b'{')) && first != Some(collection.start);
        let (style, end) = if !flow {
            (Style::Block, last.unwrap_or(collection.start))
        } else if !place.is_empty() && matches!(byte(place.start), Some(b']' | b'}')) {
            (Style::Flow, place.start + 1)
        } else {
            // Behind a trailing comma the library names the place of the comma.
            let from = last.unwrap_or(collection.start + 1);
            (Style::Flow, self.closing_bracket(from))
        };
        if style == Style::Block && matches!(collection.kind, CollectionKind::Seq(_)) {
            collection.start = self.first_dash(collection.start);
        }
        self.last_end = end as usize - self.base;
        let value = match collection.kind {
            CollectionKind::Seq(items) => Value::Seq(items),
            CollectionKind::Map { entries, .. } => Value::Map(entries),
        };
        let node = Node {
            span: Span {
                start: collection.start,
                end: end.max(collection.start),
            },
            style,
            value,
        };
        if collection.anchor > 0 {
            self.anchors.insert(collection.anchor, node.clone());
        }
        self.push(node)
    }

    /// The library starts a sequence that is not indented under its key behind the dash.
    fn first_dash(&self, start: u32) -> u32 {
        let at = start as usize - self.base;
        let bytes = self.source.as_bytes();
        let is_dash = |i: usize| {
            bytes.get(i) == Some(&b'-')
                && matches!(bytes.get(i + 1), None | Some(b' ' | b'\n' | b'\r' | b'\t'))
        };
        if is_dash(at) {
            return start;
        }
        let gap = bytes.get(..at).map_or(0, |before| {
            before
                .iter()
                .rev()
                .take_while(|b| b.is_ascii_whitespace())
                .count()
        });
        match at.checked_sub(gap + 1) {
            Some(before) if is_dash(before) => (self.base + before) as u32,
            _ => start,
        }
    }

    fn closing_bracket(&self, from: u32) -> u32 {
        let start = from as usize - self.base;
        let rest = self.source.as_bytes().get(start..).unwrap_or_default();
        let mut comment = false;
        for (i, byte) in rest.iter().enumerate() {
            match byte {
                b'\n' => comment = false,
                b'#' => comment = true,
                b']' | b'}' if !comment => return from + i as u32 + 1,
                _ => {}
            }
        }
        from
    }

    fn scalar(
        &mut self,
        text: Cow<'s, str>,
        style: ScalarStyle,
        tag: Option<&Tag>,
        place: Span,
    ) -> Node {
        let (style, span) = match style {
            ScalarStyle::Plain if text.is_empty() => (Style::Plain, self.missing_value(place)),
            ScalarStyle::Plain => (Style::Plain, place),
            ScalarStyle::SingleQuoted => (Style::SingleQuoted, self.quoted_scalar(place, b'\'')),
            ScalarStyle::DoubleQuoted => (Style::DoubleQuoted, self.quoted_scalar(place, b'"')),
            ScalarStyle::Literal => (Style::Literal, self.block_scalar(place, b'|')),
            ScalarStyle::Folded => (Style::Folded, self.block_scalar(place, b'>')),
        };
        let value = match tag {
            Some(tag) => {
                if !tag.is_yaml_core_schema() {
                    self.oddities.push(Oddity {
                        kind: OddityKind::Tag,
                        span,
                    });
                }
                if style == Style::Plain && tag.suffix != "str" {
                    resolve(&text)
                } else {
                    Value::Str(SmolStr::new(text))
                }
            }
            None if style == Style::Plain => {
                if differs_in_yaml11(&text) {
                    self.oddities.push(Oddity {
                        kind: OddityKind::Yaml11,
                        span,
                    });
                }
                resolve(&text)
            }
            None => Value::Str(SmolStr::new(text)),
        };
        Node { span, style, value }
    }

    /// The library's span of a quoted scalar may run on over a comment; ours ends with the
    /// closing quote.
    fn quoted_scalar(&self, place: Span, quote: u8) -> Span {
        let bytes = self.source.as_bytes();
        let (start, end) = (
            place.start as usize - self.base,
            place.end as usize - self.base,
        );
        let Some(open) = bytes
            .get(start..end)
            .and_then(|b| b.iter().position(|b| *b == quote))
        else {
            return place;
        };
        let mut at = start + open + 1;
        while at < end {
            match bytes.get(at) {
                Some(b'\\') if quote == b'"' => at += 1,
                Some(b) if *b == quote && quote == b'\'' && bytes.get(at + 1) == Some(&quote) => {
                    at += 1
                }
                Some(b) if *b == quote => return Span::new(self.base + start, self.base + at + 1),
                _ => {}
            }
            at += 1;
        }
        place
    }

    /// The library puts a missing value before its colon, behind it, or behind the comment
    /// that follows; ours stands directly behind the `:` or `-`.
    fn missing_value(&self, place: Span) -> Span {
        let at = place.start as usize - self.base;
        let behind = match self.stack.last().map(|c| &c.kind) {
            Some(CollectionKind::Map { key: Some(key), .. }) => {
                let end = key.1.end as usize - self.base;
                let rest = self.source.get(end..).unwrap_or("");
                let gap = rest.len() - rest.trim_start().len();
                match rest.get(gap..) {
                    Some(rest) if rest.starts_with(':') => end + gap + 1,
                    _ => end,
                }
            }
            Some(CollectionKind::Seq(_)) => {
                let head = self.source.get(..at).unwrap_or("");
                let start = head.rfind('\n').map_or(0, |i| i + 1);
                let line = head.get(start..).unwrap_or("");
                let empty = |i: &usize| {
                    let rest = line.get(i + 1..).unwrap_or("").trim_start();
                    rest.is_empty() || rest.starts_with('#')
                };
                let mut dashes = line.match_indices('-').map(|(i, _)| i);
                dashes.find(empty).map_or(at, |i| start + i + 1)
            }
            _ => at,
        };
        Span::empty(self.base + behind)
    }

    /// The library's span of a block scalar is its text with the blank lines behind it;
    /// ours runs from the indicator to the end of the last line with text.
    fn block_scalar(&self, place: Span, indicator: u8) -> Span {
        let (start, end) = (
            place.start as usize - self.base,
            place.end as usize - self.base,
        );
        let bytes = self.source.as_bytes();
        let from = self.last_end.min(start);
        let header = bytes
            .get(from..start)
            .and_then(|gap| gap.iter().position(|b| *b == indicator))
            .map_or(start, |i| from + i);
        let text_end = self
            .source
            .get(header..end)
            .map_or(end, |s| header + s.trim_end().len());
        Span::new(self.base + header, self.base + text_end)
    }

    fn push(&mut self, node: Node) -> bool {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            self.problems.push(Problem::new(
                ProblemKind::TooManyNodes,
                node.span,
                format!(
                    "the frontmatter has more than {MAX_NODES} keys and values (aliases expanded)"
                ),
            ));
            return false;
        }
        let Some(parent) = self.stack.last_mut() else {
            self.root.get_or_insert(node);
            return true;
        };
        match &mut parent.kind {
            CollectionKind::Seq(items) => items.push(node),
            CollectionKind::Map {
                entries,
                keys,
                key,
                merged,
            } => {
                let Some((name, span, kind)) = key.take() else {
                    *key = Some(as_key(&node, &mut self.problems));
                    return true;
                };
                if name == "<<" && kind == KeyKind::Str {
                    self.oddities.push(Oddity {
                        kind: OddityKind::MergeKey,
                        span,
                    });
                    merge(entries, keys, merged, &node);
                    return true;
                }
                if keys.has(entries, &name)
                    && let Some(at) = entries.iter().position(|e| e.key == name)
                {
                    if !merged.contains(&name) {
                        let first = entries[at].key_span;
                        self.problems.push(duplicate_key(&name, span, first));
                        return true;
                    }
                    merged.retain(|m| *m != name);
                    entries.remove(at);
                }
                entries.push(entry(name, span, kind, node));
            }
        }
        true
    }

    fn syntax_error(&mut self, error: &ScanError) {
        let at = self.base + self.offsets.byte(error.marker().index());
        let span = Span::empty(at.min(self.base + self.source.len()));
        let mut problem = Problem::new(
            ProblemKind::Syntax,
            span,
            format!("the frontmatter is not valid YAML: {}", error.info()),
        );
        if let Some(open) = unclosed_bracket(self.source) {
            problem = problem.related(
                Span::new(self.base + open, self.base + open + 1),
                "this bracket is never closed",
            );
        }
        self.problems.push(problem);
    }
}

pub(super) fn duplicate_key(name: &str, second: Span, first: Span) -> Problem {
    Problem::new(
        ProblemKind::DuplicateKey,
        second,
        format!("the key `{name}` stands twice in one mapping"),
    )
    .related(first, format!("`{name}` is first set here"))
}

fn entry(key: SmolStr, key_span: Span, key_kind: KeyKind, value: Node) -> Entry {
    Entry {
        key,
        key_span,
        key_kind,
        value,
    }
}

fn merge(entries: &mut Vec<Entry>, keys: &mut Keys, merged: &mut Vec<SmolStr>, source: &Node) {
    for map in std::iter::once(source).chain(source.items()) {
        for from in map.entries() {
            if !keys.has(entries, &from.key) {
                merged.push(from.key.clone());
                entries.push(from.clone());
            }
        }
    }
}

fn as_key(node: &Node, problems: &mut Vec<Problem>) -> (SmolStr, Span, KeyKind) {
    let (text, kind) = match &node.value {
        Value::Str(s) => (s.clone(), KeyKind::Str),
        Value::Int(i) => (SmolStr::new(i.to_string()), KeyKind::Int),
        Value::Null => (SmolStr::new_static("null"), KeyKind::Other),
        Value::Bool(b) => (SmolStr::new(b.to_string()), KeyKind::Other),
        Value::Float(f) => (SmolStr::new(f.to_string()), KeyKind::Other),
        Value::Seq(_) | Value::Map(_) => {
            problems.push(Problem::new(
                ProblemKind::KeyNotString,
                node.span,
                "a mapping key is itself a collection",
            ));
            (SmolStr::new_static("?"), KeyKind::Other)
        }
    };
    (text, node.span, kind)
}

/// Nodes, and levels of collections.
fn size(node: &Node) -> (usize, usize) {
    let with = |(nodes, depth): (usize, usize), child: &Node| {
        let (more, levels) = size(child);
        (nodes + more, depth.max(levels + 1))
    };
    match &node.value {
        Value::Seq(items) => items.iter().fold((1, 1), with),
        Value::Map(entries) => entries.iter().map(|e| &e.value).fold((1, 1), with),
        _ => (1, 0),
    }
}

/// First `[` or `{` that stays open, or that is closed by the other kind: where a reader has
/// to look when the parser only complains at the end of the file.
fn unclosed_bracket(source: &str) -> Option<usize> {
    let mut open: Vec<(usize, u8)> = Vec::new();
    let mut quote = None;
    let mut comment = false;
    let mut previous = b'\n';
    for (i, byte) in source.bytes().enumerate() {
        match (quote, byte) {
            (None, b'\n') => comment = false,
            (None, _) if comment => {}
            (None, b'#') if matches!(previous, b' ' | b'\t' | b'\n') => comment = true,
            // A backslash hides a quote in double quotes only.
            (Some(q), b) if b == q && (previous != b'\\' || q == b'\'') => quote = None,
            (Some(_), b'\n') if open.is_empty() => quote = None,
            (Some(_), _) => {}
            (None, b'"' | b'\'') if matches!(previous, b' ' | b'[' | b'{' | b',' | b'\n') => {
                quote = Some(byte);
            }
            (None, b'[' | b'{') if !open.is_empty() || matches!(previous, b' ' | b'\n') => {
                open.push((i, byte))
            }
            (None, b']' | b'}') => {
                if let Some((at, opener)) = open.pop()
                    && (opener == b'[') != (byte == b']')
                {
                    return Some(at);
                }
            }
            _ => {}
        }
        previous = byte;
    }
    open.first().map(|(at, _)| *at)
}

/// The library counts characters; we count bytes.
struct ByteOffsets {
    /// Characters before each non-ASCII character's end, with the surplus of bytes so far.
    shifts: Vec<(u32, u32)>,
    len: usize,
}

impl ByteOffsets {
    fn new(source: &str) -> Self {
        let mut shifts = Vec::new();
        if !source.is_ascii() {
            let mut surplus = 0;
            for (chars, c) in source.chars().enumerate() {
                let extra = c.len_utf8() as u32 - 1;
                if extra > 0 {
                    surplus += extra;
                    shifts.push((chars as u32 + 1, surplus));
                }
            }
        }
        ByteOffsets {
            shifts,
            len: source.len(),
        }
    }

    fn byte(&self, char_index: usize) -> usize {
        let before = self
            .shifts
            .partition_point(|(at, _)| *at as usize <= char_index);
        let surplus = match before.checked_sub(1).and_then(|i| self.shifts.get(i)) {
            Some((_, surplus)) => *surplus as usize,
            None => 0,
        };
        (char_index + surplus).min(self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::unclosed_bracket;

    #[test]
    fn the_bracket_to_mend_is_found() {
        assert_eq!(unclosed_bracket("a: [1, 2]\nb: {}\n"), None);
        assert_eq!(unclosed_bracket("a: [1, 2\nb: {}\n"), Some(3));
        assert_eq!(unclosed_bracket("a: {b: [1, 2}\n"), Some(7));
        assert_eq!(unclosed_bracket("# see [1\na: 'x[\\'\nb: [\n"), Some(21));
        assert_eq!(unclosed_bracket("a: \"[\\\"[\"\n"), None);
    }
}
