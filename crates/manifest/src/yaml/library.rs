//! Builds the spanned tree from saphyr-parser's events, with limits on its size.

mod text;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span as CharSpan, Tag};
use smol_str::SmolStr;

use self::text::{ByteOffsets, Text};
use super::cause;
use super::keys::Keys;
use super::scalar::{differs_in_yaml11, resolve};
use super::{MAX_DEPTH, MAX_NODES, Parsed, YamlQuirk, YamlQuirkKind};
use crate::document::{Problem, ProblemKind};
use crate::tree::{Entry, KeyKind, Node, Span, Style, Value};

pub fn parse(source: &str, base: usize, subject: &'static str) -> Parsed {
    let mut builder = Builder::new(source, base, subject);
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
                let at = builder.span_of(span).start;
                builder.problems.push(Problem::new(
                    ProblemKind::MultipleDocuments,
                    Span { start: at, end: at },
                    format!("{subject} contains more than one YAML document"),
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
    flow: bool,
    kind: CollectionKind,
}

enum CollectionKind {
    Seq(Vec<Node>),
    Map {
        entries: Vec<Entry>,
        key: Option<Key>,
        keys: Keys,
        merged: Merged,
    },
}

struct Key {
    name: SmolStr,
    span: Span,
    kind: KeyKind,
    /// Whether the key is a plain `<<`.
    merges: bool,
}

/// Indexes of the entries of a mapping that `<<` added.
#[derive(Default)]
struct Merged {
    entries: HashSet<usize>,
    /// Merged entries that a key of the mapping itself overrides. They are removed when the
    /// mapping is complete, because removing each at once would shift all later entries.
    overridden: HashSet<usize>,
}

struct Builder<'s> {
    text: Text<'s>,
    base: usize,
    /// Subject of the error messages, such as "the frontmatter".
    subject: &'static str,
    offsets: ByteOffsets,
    stack: Vec<Collection>,
    root: Option<Node>,
    anchors: HashMap<usize, Node>,
    nodes: usize,
    /// Number of nodes copied for aliases.
    copied: usize,
    /// End of the last token, as an offset in the source.
    last_end: usize,
    problems: Vec<Problem>,
    quirks: Vec<YamlQuirk>,
}

impl<'s> Builder<'s> {
    fn new(source: &'s str, base: usize, subject: &'static str) -> Self {
        Builder {
            text: Text { source },
            base,
            subject,
            offsets: ByteOffsets::new(source),
            stack: Vec::new(),
            root: None,
            anchors: HashMap::new(),
            nodes: 0,
            copied: 0,
            last_end: 0,
            problems: Vec::new(),
            quirks: Vec::new(),
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
            quirks: self.quirks,
        }
    }

    fn byte(&self, at: u32) -> Option<u8> {
        self.text.bytes().get(self.relative(at)).copied()
    }

    /// Converts an offset in the file to an offset in the source.
    fn relative(&self, at: u32) -> usize {
        (at as usize).saturating_sub(self.base)
    }

    fn span_of(&self, span: CharSpan) -> Span {
        Span::new(
            self.base + self.offsets.byte(span.start.index()),
            self.base + self.offsets.byte(span.end.index()),
        )
    }

    /// Handles one event. Returns false if a limit is exceeded and parsing must stop.
    fn event(&mut self, event: Event<'s>, span: CharSpan) -> bool {
        let place = self.span_of(span);
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let node = self.scalar(text, style, tag.as_deref(), place);
                self.note_anchor(anchor, place);
                self.last_end = self.relative(node.span.end);
                self.store_anchor(anchor, &node) && self.push(node)
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
                    key: None,
                    keys: Keys::default(),
                    merged: Merged::default(),
                };
                self.open(anchor, tag.as_deref(), place, kind)
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(place),
            Event::Alias(id) => {
                self.quirks.push(YamlQuirk {
                    kind: YamlQuirkKind::Alias,
                    span: place,
                });
                self.last_end = self.relative(place.end);
                let mut node = Node {
                    span: place,
                    style: Style::Plain,
                    value: Value::Null,
                };
                // Copy the anchored node only if the limits allow it.
                if let Some(anchored) = self.anchors.get(&id) {
                    self.nodes += count(anchored) - 1;
                    if self.nodes >= MAX_NODES {
                        return self.too_many(place);
                    }
                    if self.stack.len() + height(anchored) > MAX_DEPTH {
                        return self.too_deep(place);
                    }
                    node.style = anchored.style;
                    node.value = anchored.value.clone();
                }
                self.push(node)
            }
            _ => true,
        }
    }

    fn note_anchor(&mut self, anchor: usize, place: Span) {
        if anchor > 0 {
            self.quirks.push(YamlQuirk {
                kind: YamlQuirkKind::Anchor,
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
            self.quirks.push(YamlQuirk {
                kind: YamlQuirkKind::Tag,
                span: place,
            });
        }
        if self.stack.len() >= MAX_DEPTH {
            return self.too_deep(place);
        }
        let end = self.relative(place.end);
        let flow = self.text.has_bracket(self.relative(place.start), end);
        let mut start = place.start;
        let mut token_end = end;
        if place.is_empty() && matches!(kind, CollectionKind::Seq(_)) {
            start = self.first_dash(start);
            token_end = self.relative(start) + 1;
        }
        self.last_end = token_end;
        self.stack.push(Collection {
            start,
            anchor,
            flow,
            kind,
        });
        true
    }

    /// Start of a list that is not indented under its key. The library reports a place after the
    /// first dash, or after the comment that follows it.
    fn first_dash(&self, start: u32) -> u32 {
        let under_key = matches!(
            self.stack.last().map(|c| &c.kind),
            Some(CollectionKind::Map { .. })
        );
        if !under_key {
            return start;
        }
        let dash = self.text.dash(self.last_end, self.relative(start));
        dash.map_or(start, |at| (self.base + at) as u32)
    }

    fn close(&mut self, place: Span) -> bool {
        let Some(collection) = self.stack.pop() else {
            return true;
        };
        let last = match &collection.kind {
            CollectionKind::Seq(items) => items.last().map(|n| n.span.end),
            CollectionKind::Map { entries, .. } => entries.last().map(|e| e.span().end),
        };
        let (style, end) = if !collection.flow {
            (Style::Block, last.unwrap_or(collection.start))
        } else if !place.is_empty() && matches!(self.byte(place.start), Some(b']' | b'}')) {
            (Style::Flow, place.start + 1)
        } else {
            // After a trailing comma the library reports the place of the comma.
            let from = last.unwrap_or(collection.start + 1);
            let end = self.text.closing_bracket(self.relative(from));
            (Style::Flow, (self.base + end) as u32)
        };
        self.last_end = self.relative(end);
        let value = match collection.kind {
            CollectionKind::Seq(items) => Value::Seq(items),
            CollectionKind::Map {
                entries, merged, ..
            } => Value::Map(merged.without_overridden(entries)),
        };
        let node = Node {
            span: Span {
                start: collection.start,
                end: end.max(collection.start),
            },
            style,
            value,
        };
        self.store_anchor(collection.anchor, &node) && self.push(node)
    }

    /// Keeps a copy of an anchored node for its aliases. Nested anchors copy the same nodes
    /// repeatedly, so the copies are also limited.
    fn store_anchor(&mut self, anchor: usize, node: &Node) -> bool {
        if anchor == 0 {
            return true;
        }
        self.copied += count(node);
        if self.copied > MAX_NODES {
            return self.too_many(node.span);
        }
        self.anchors.insert(anchor, node.clone());
        true
    }

    fn too_deep(&mut self, at: Span) -> bool {
        let subject = self.subject;
        self.problems.push(Problem::new(
            ProblemKind::TooDeep,
            at,
            format!("{subject} is nested more than {MAX_DEPTH} levels deep (aliases expanded)"),
        ));
        false
    }

    fn too_many(&mut self, at: Span) -> bool {
        let subject = self.subject;
        self.problems.push(Problem::new(
            ProblemKind::TooManyNodes,
            at,
            format!("{subject} has more than {MAX_NODES} keys and values (aliases expanded)"),
        ));
        false
    }

    fn scalar(
        &mut self,
        mut text: Cow<'s, str>,
        style: ScalarStyle,
        tag: Option<&Tag>,
        place: Span,
    ) -> Node {
        let (style, span) = match style {
            ScalarStyle::Plain if text.is_empty() => (Style::Plain, self.missing_value(place)),
            ScalarStyle::Plain => (Style::Plain, place),
            ScalarStyle::SingleQuoted => (Style::SingleQuoted, self.quoted_scalar(place)),
            ScalarStyle::DoubleQuoted => (Style::DoubleQuoted, self.quoted_scalar(place)),
            ScalarStyle::Literal => (Style::Literal, self.block_scalar(place, b'|')),
            ScalarStyle::Folded => (Style::Folded, self.block_scalar(place, b'>')),
        };
        let is_block = matches!(style, Style::Literal | Style::Folded);
        if is_block && self.has_added_break(&text, span, place) {
            text.to_mut().pop();
        }
        let value = match tag {
            Some(tag) => {
                if !tag.is_yaml_core_schema() {
                    self.quirks.push(YamlQuirk {
                        kind: YamlQuirkKind::Tag,
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
                    self.quirks.push(YamlQuirk {
                        kind: YamlQuirkKind::Yaml11,
                        span,
                    });
                }
                resolve(&text)
            }
            None => Value::Str(SmolStr::new(text)),
        };
        Node { span, style, value }
    }

    /// Span of a quoted scalar, which ends with the closing quote. The library's span may include
    /// a comment after it.
    fn quoted_scalar(&self, place: Span) -> Span {
        let (start, end) = (self.relative(place.start), self.relative(place.end));
        let end = self.text.quoted_end(start, end).unwrap_or(end);
        Span::new(self.base + start, self.base + end)
    }

    /// Span of a missing value, which is directly after the `:` or `-`. The library reports a
    /// place before the colon, after it, or after the comment that follows.
    fn missing_value(&self, place: Span) -> Span {
        let at = self.relative(place.start);
        let behind = match self.stack.last() {
            Some(Collection {
                kind: CollectionKind::Map { key: Some(key), .. },
                ..
            }) => self.text.behind_colon(self.relative(key.span.end)),
            Some(Collection {
                kind: CollectionKind::Seq(items),
                start,
                ..
            }) => {
                let from = match items.last() {
                    Some(_) => self.last_end,
                    None => self.relative(*start),
                };
                self.text.dash(from, at).map_or(at, |dash| dash + 1)
            }
            _ => at,
        };
        Span::empty(self.base + behind)
    }

    /// Span of a block scalar, from the indicator to the end of the last line with text. The
    /// library's span is the text and the blank lines after it.
    fn block_scalar(&self, place: Span, indicator: u8) -> Span {
        let (start, end) = (self.relative(place.start), self.relative(place.end));
        let header = self.text.block_header(self.last_end, start, indicator);
        let header = header.unwrap_or(start);
        let text = self.text.source.get(header..end).unwrap_or("");
        let end = header + text.trim_end().len();
        Span::new(self.base + header, self.base + end)
    }

    /// Whether the library added a line break to a block scalar whose last line ends the file
    /// without one.
    fn has_added_break(&self, value: &str, ours: Span, place: Span) -> bool {
        value.ends_with('\n')
            && self
                .text
                .ends_unbroken(value, self.relative(ours.start), self.relative(place.end))
    }

    fn push(&mut self, node: Node) -> bool {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return self.too_many(node.span);
        }
        if let Some(tab) = self.tab_before_key(node.span) {
            let tab = Span::new(tab, tab + 1);
            self.problems.push(cause::problem(
                self.subject,
                "tab in indentation",
                tab,
                None,
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
                key,
                keys,
                merged,
            } => {
                let Some(key) = key.take() else {
                    *key = Some(as_key(&node, &mut self.problems));
                    return true;
                };
                if key.merges {
                    self.quirks.push(YamlQuirk {
                        kind: YamlQuirkKind::MergeKey,
                        span: key.span,
                    });
                    merge(entries, keys, merged, &node);
                    return true;
                }
                if let Some(at) = keys.find(entries, &key.name) {
                    if !merged.entries.contains(&at) {
                        let first = entries.get(at).map_or(key.span, |e| e.key_span);
                        self.problems
                            .push(duplicate_key(&key.name, key.span, first));
                        return true;
                    }
                    merged.overridden.insert(at);
                }
                entries.push(Entry {
                    key: key.name,
                    key_span: key.span,
                    key_kind: key.kind,
                    value: node,
                });
            }
        }
        true
    }

    /// Offset of a tab that indents a key. The library accepts some of them, but other parsers
    /// reject the file. Between brackets a tab is allowed.
    fn tab_before_key(&self, place: Span) -> Option<usize> {
        let is_key = |c: &Collection| matches!(&c.kind, CollectionKind::Map { key: None, .. });
        if !self.stack.last().is_some_and(is_key) {
            return None;
        }
        let head = self.text.bytes().get(..self.relative(place.start))?;
        let blanks = head.iter().rev().take_while(|b| matches!(b, b' ' | b'\t'));
        let start = head.len() - blanks.count();
        let tab = start + head.get(start..)?.iter().position(|b| *b == b'\t')?;
        let first = start == 0 || head.get(start - 1) == Some(&b'\n');
        (first && !self.stack.iter().any(|c| c.flow)).then_some(self.base + tab)
    }

    fn syntax_error(&mut self, error: &ScanError) {
        let at = self.base + self.offsets.byte(error.marker().index());
        let span = Span::empty(at.min(self.base + self.text.source.len()));
        // The library reads ahead and has its own depth limit.
        if error.info().contains("recursion limit") {
            self.too_deep(span);
            return;
        }
        let bracket = self.text.unclosed_bracket();
        let bracket = bracket.map(|open| Span::new(self.base + open, self.base + open + 1));
        let problem = cause::problem(self.subject, error.info(), span, bracket);
        self.problems.push(problem);
    }
}

pub(super) fn duplicate_key(name: &str, second: Span, first: Span) -> Problem {
    Problem::new(
        ProblemKind::DuplicateKey,
        second,
        format!("duplicate key `{name}`"),
    )
    .related(first, format!("`{name}` is first defined here"))
}

impl Merged {
    fn without_overridden(self, entries: Vec<Entry>) -> Vec<Entry> {
        if self.overridden.is_empty() {
            return entries;
        }
        let all = entries.into_iter().enumerate();
        all.filter(|(i, _)| !self.overridden.contains(i))
            .map(|(_, entry)| entry)
            .collect()
    }
}

fn merge(entries: &mut Vec<Entry>, keys: &mut Keys, merged: &mut Merged, source: &Node) {
    for map in std::iter::once(source).chain(source.items()) {
        for from in map.entries() {
            if keys.find(entries, &from.key).is_none() {
                merged.entries.insert(entries.len());
                entries.push(from.clone());
            }
        }
    }
}

fn as_key(node: &Node, problems: &mut Vec<Problem>) -> Key {
    let (name, kind) = match &node.value {
        Value::Str(s) => (s.clone(), KeyKind::Str),
        Value::Int(i) => (SmolStr::new(i.to_string()), KeyKind::Int),
        Value::Null => (SmolStr::new_static("null"), KeyKind::Other),
        Value::Bool(b) => (SmolStr::new(b.to_string()), KeyKind::Other),
        Value::Float(f) => (SmolStr::new(f.to_string()), KeyKind::Other),
        Value::Seq(_) | Value::Map(_) => {
            problems.push(Problem::new(
                ProblemKind::KeyNotString,
                node.span,
                "a mapping key must be a scalar, found a list or a mapping",
            ));
            (SmolStr::new_static("?"), KeyKind::Other)
        }
    };
    let merges = node.style == Style::Plain && name == "<<";
    Key {
        name,
        span: node.span,
        kind,
        merges,
    }
}

/// Number of nodes in a tree, as `push` counts them. Keys are nodes.
fn count(node: &Node) -> usize {
    1 + match &node.value {
        Value::Seq(items) => items.iter().map(count).sum(),
        Value::Map(entries) => entries.iter().map(|e| 1 + count(&e.value)).sum::<usize>(),
        _ => 0,
    }
}

/// Nesting depth of the collections in a tree.
fn height(node: &Node) -> usize {
    match &node.value {
        Value::Seq(items) => 1 + items.iter().map(height).max().unwrap_or(0),
        Value::Map(entries) => 1 + entries.iter().map(|e| height(&e.value)).max().unwrap_or(0),
        _ => 0,
    }
}
