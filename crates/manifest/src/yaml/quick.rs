//! The quick reader supports block mappings and sequences, one-line scalars, block scalars, flow
//! collections and comments. It is written by hand because reading YAML takes most of the time of
//! a lint run, and no library provides spans at this speed.
//!
//! It never reports an error. For anything unusual (anchors, tags, tabs, CRLF, multi-line plain
//! or quoted scalars, empty values, duplicate keys, …) it returns `None`, and the library reads
//! the text instead.

mod block_scalar;
mod flow;

use memchr::{memchr, memchr2, memchr3};
use smol_str::SmolStr;

use super::keys::Keys;
use super::scalar::{differs_in_yaml11, resolve};
use super::{MAX_DEPTH, MAX_NODES, Parsed, YamlQuirk, YamlQuirkKind};
use crate::tree::{Entry, KeyKind, Node, Span, Style, Value};

pub fn parse(source: &str, base: usize) -> Option<Parsed> {
    if !is_plain_text(source) || base + source.len() > u32::MAX as usize {
        return None;
    }
    let mut reader = Reader {
        text: source,
        bytes: source.as_bytes(),
        base,
        at: 0,
        indent: None,
        depth: 0,
        nodes: 1,
        quirks: Vec::new(),
    };
    reader.next_line_from(0)?;
    let indent = reader.indent?;
    let root = reader.block(indent)?;
    // Text remains that does not belong to the root.
    if reader.indent.is_some() {
        return None;
    }
    Some(Parsed {
        root: Some(root),
        problems: Vec::new(),
        quirks: reader.quirks,
    })
}

/// Whether the text has no control characters and no line breaks or marks outside ASCII.
fn is_plain_text(source: &str) -> bool {
    let bytes = source.as_bytes();
    // Check whole chunks without an early exit, so that the compiler can vectorize the loop.
    let control = bytes.chunks(64).any(|chunk| {
        chunk.iter().fold(false, |any, b| {
            any | ((*b < 0x20) & (*b != b'\n')) | (*b == 0x7f)
        })
    });
    if control {
        return false;
    }
    source.is_ascii()
        || !source.chars().any(|c| {
            matches!(
                c,
                '\u{80}'
                    ..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}'
            )
        })
}

struct Reader<'s> {
    text: &'s str,
    bytes: &'s [u8],
    base: usize,
    at: usize,
    /// Column of the content at `at` if it is the first content of its line. `None` at the end of
    /// the text.
    indent: Option<usize>,
    depth: usize,
    /// Number of nodes so far: the root, all items, and all keys and values.
    nodes: usize,
    quirks: Vec<YamlQuirk>,
}

impl<'s> Reader<'s> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.bytes.get(at).copied()
    }

    fn span(&self, start: usize, end: usize) -> Span {
        Span::new(self.base + start, self.base + end)
    }

    fn is_blank_or_end(byte: Option<u8>) -> bool {
        matches!(byte, None | Some(b' ' | b'\n'))
    }

    fn skip_spaces(&mut self) {
        while self.peek() == Some(b' ') {
            self.at += 1;
        }
    }

    /// Adds nodes to the count. `None` if the limit is exceeded.
    fn count(&mut self, more: usize) -> Option<()> {
        self.nodes += more;
        (self.nodes <= MAX_NODES).then_some(())
    }

    /// Moves from the start of a line to the next content.
    fn next_line_from(&mut self, start: usize) -> Option<()> {
        let mut line = start;
        loop {
            let mut at = line;
            while self.byte(at) == Some(b' ') {
                at += 1;
            }
            match self.byte(at) {
                None => {
                    self.at = self.bytes.len();
                    self.indent = None;
                    return Some(());
                }
                Some(b'\n') => line = at + 1,
                Some(b'#') => {
                    line = memchr(b'\n', self.bytes.get(at..)?)
                        .map_or(self.bytes.len(), |i| at + i + 1);
                }
                Some(first) => {
                    let marker = at == line && matches!(first, b'-' | b'.' | b'%');
                    if marker && matches!(self.bytes.get(at..at + 3), Some(b"---" | b"..."))
                        || (at == line && first == b'%')
                    {
                        return None;
                    }
                    self.at = at;
                    self.indent = Some(at - line);
                    return Some(());
                }
            }
        }
    }

    /// Moves from the end of a value to the next content. Only blanks and a comment may follow on
    /// its line.
    fn end_line(&mut self) -> Option<()> {
        let value_end = self.at;
        self.skip_spaces();
        match self.peek() {
            None => {
                self.indent = None;
                Some(())
            }
            Some(b'\n') => self.next_line_from(self.at + 1),
            Some(b'#') if self.at > value_end => {
                let rest = self.bytes.get(self.at..)?;
                let next = memchr(b'\n', rest).map_or(self.bytes.len(), |i| self.at + i + 1);
                self.next_line_from(next)
            }
            _ => None,
        }
    }

    /// Reads the block collection at the current position.
    fn block(&mut self, indent: usize) -> Option<Node> {
        if self.depth >= MAX_DEPTH {
            return None;
        }
        self.depth += 1;
        let node = if self.at_dash() {
            self.block_seq(indent)
        } else {
            self.block_map(indent)
        };
        self.depth -= 1;
        node
    }

    fn at_dash(&self) -> bool {
        self.peek() == Some(b'-') && Self::is_blank_or_end(self.byte(self.at + 1))
    }

    fn block_seq(&mut self, indent: usize) -> Option<Node> {
        let start = self.at;
        let mut items = Vec::new();
        while self.indent == Some(indent) && self.at_dash() {
            self.at += 1;
            let dash_end = self.at;
            self.skip_spaces();
            let item = match self.peek()? {
                b'\n' => self.block_value(indent, false)?,
                b'#' if self.at > dash_end => self.block_value(indent, false)?,
                b'-' if self.at_dash() => return None,
                first
                    if first != b'"'
                        && first != b'\''
                        && !is_indicator(first)
                        && self.is_key_line() =>
                {
                    let column = indent + (self.at - (dash_end - 1));
                    self.indent = Some(column);
                    if self.depth >= MAX_DEPTH {
                        return None;
                    }
                    self.depth += 1;
                    let map = self.block_map(column)?;
                    self.depth -= 1;
                    map
                }
                _ => self.inline_value(indent)?,
            };
            if self.indent.is_some_and(|next| next > indent) {
                return None;
            }
            self.count(1)?;
            items.push(item);
        }
        let end = items.last()?.span.end;
        Some(Node {
            span: Span {
                start: (self.base + start) as u32,
                end,
            },
            style: Style::Block,
            value: Value::Seq(items),
        })
    }

    /// Whether the rest of the line is `key: …`.
    fn is_key_line(&self) -> bool {
        let rest = self.bytes.get(self.at..).unwrap_or(&[]);
        let mut from = 0;
        while let Some(i) = memchr3(b':', b'\n', b'#', rest.get(from..).unwrap_or(&[])) {
            let at = from + i;
            match rest.get(at) {
                Some(b':') if Self::is_blank_or_end(rest.get(at + 1).copied()) => return true,
                Some(b'\n') => return false,
                Some(b'#') if at > 0 && rest.get(at - 1) == Some(&b' ') => return false,
                _ => from = at + 1,
            }
        }
        false
    }

    fn block_map(&mut self, indent: usize) -> Option<Node> {
        let start = self.at;
        let mut entries: Vec<Entry> = Vec::with_capacity(4);
        let mut keys = Keys::default();
        while self.indent == Some(indent) && !self.at_dash() {
            let (key, key_span, key_kind) = self.key()?;
            if keys.find(&entries, &key).is_some() {
                return None;
            }
            let colon_end = self.at;
            self.skip_spaces();
            let value = match self.peek()? {
                b'\n' => self.block_value(indent, true)?,
                b'#' if self.at > colon_end => self.block_value(indent, true)?,
                _ => self.inline_value(indent)?,
            };
            if self.indent.is_some_and(|next| next > indent) {
                return None;
            }
            self.count(2)?;
            entries.push(Entry {
                key,
                key_span,
                key_kind,
                value,
            });
        }
        let end = entries.last()?.value.span.end;
        Some(Node {
            span: Span {
                start: (self.base + start) as u32,
                end,
            },
            style: Style::Block,
            value: Value::Map(entries),
        })
    }

    /// Reads a key and its colon. Stops after the colon.
    fn key(&mut self) -> Option<(SmolStr, Span, KeyKind)> {
        let start = self.at;
        match self.peek()? {
            b'"' | b'\'' => {
                let node = self.quoted()?;
                let Value::Str(key) = node.value else {
                    return None;
                };
                if self.peek() != Some(b':') || !Self::is_blank_or_end(self.byte(self.at + 1)) {
                    return None;
                }
                self.at += 1;
                Some((key, node.span, KeyKind::Str))
            }
            first if is_indicator(first) || matches!(first, b'-' | b'?' | b':') => None,
            _ => {
                let rest = self.bytes.get(start..)?;
                let mut from = 0;
                let colon = loop {
                    let at = from + memchr3(b':', b'\n', b'#', rest.get(from..)?)?;
                    match rest.get(at) {
                        Some(b':') if Self::is_blank_or_end(rest.get(at + 1).copied()) => {
                            break start + at;
                        }
                        Some(b'\n') => return None,
                        Some(b'#') if rest.get(at.checked_sub(1)?) == Some(&b' ') => return None,
                        _ => from = at + 1,
                    }
                };
                let text = self.text.get(start..colon)?.trim_end_matches(' ');
                // YAML limits implicit keys to 1024 characters. Leave long ones to the library.
                if text.len() > 500 || text == "<<" {
                    return None;
                }
                let span = self.span(start, start + text.len());
                self.note_yaml11(text, span);
                let (key, kind) = match resolve(text) {
                    Value::Str(key) => (key, KeyKind::Str),
                    Value::Int(i) => (SmolStr::new(i.to_string()), KeyKind::Int),
                    _ => return None,
                };
                self.at = colon + 1;
                Some((key, span, kind))
            }
        }
    }

    /// Reads the block on the next lines that is the value of a key or dash at the end of a line.
    fn block_value(&mut self, indent: usize, may_be_dash: bool) -> Option<Node> {
        let rest = self.bytes.get(self.at..)?;
        let next = memchr(b'\n', rest).map_or(self.bytes.len(), |i| self.at + i + 1);
        self.next_line_from(next)?;
        let inner = self.indent?;
        let fits = inner > indent || (may_be_dash && inner == indent && self.at_dash());
        if !fits {
            return None;
        }
        // Leave a scalar on its own line to the library.
        let keyed = self.at_dash()
            || matches!(self.peek(), Some(b'"' | b'\''))
            || self.peek().is_some_and(|b| !is_indicator(b)) && self.is_key_line();
        keyed.then(|| self.block(inner))?
    }

    /// Reads a value on the same line as its key or dash, in a block at `indent`.
    fn inline_value(&mut self, indent: usize) -> Option<Node> {
        let node = match self.peek()? {
            b'[' | b'{' => self.flow(indent)?,
            b'"' | b'\'' => {
                let node = self.quoted()?;
                // `- "key": value` is a mapping, which is left to the library.
                if self.peek() == Some(b':') {
                    return None;
                }
                node
            }
            b'|' | b'>' => return self.block_scalar(indent),
            first if is_indicator(first) => return None,
            b'-' | b'?' | b':' if Self::is_blank_or_end(self.byte(self.at + 1)) => return None,
            b'?' | b':' => return None,
            _ => self.plain_line()?,
        };
        self.end_line()?;
        Some(node)
    }

    fn plain_line(&mut self) -> Option<Node> {
        let start = self.at;
        let rest = self.bytes.get(start..)?;
        let mut from = 0;
        let end = loop {
            let Some(i) = memchr3(b':', b'\n', b'#', rest.get(from..)?) else {
                break rest.len();
            };
            let at = from + i;
            match rest.get(at) {
                Some(b':') if Self::is_blank_or_end(rest.get(at + 1).copied()) => return None,
                Some(b'\n') => break at,
                Some(b'#') if at > 0 && rest.get(at - 1) == Some(&b' ') => break at,
                _ => from = at + 1,
            }
        };
        let text = self.text.get(start..start + end)?.trim_end_matches(' ');
        self.at = start + text.len();
        self.plain_node(start, text)
    }

    fn plain_node(&mut self, start: usize, text: &str) -> Option<Node> {
        let span = self.span(start, start + text.len());
        self.note_yaml11(text, span);
        Some(Node {
            span,
            style: Style::Plain,
            value: resolve(text),
        })
    }

    fn note_yaml11(&mut self, text: &str, span: Span) {
        if differs_in_yaml11(text) {
            self.quirks.push(YamlQuirk {
                kind: YamlQuirkKind::Yaml11,
                span,
            });
        }
    }

    /// Reads a quoted scalar on one line. Stops after the closing quote.
    fn quoted(&mut self) -> Option<Node> {
        let start = self.at;
        let (value, style, end) = if self.peek() == Some(b'\'') {
            let (value, end) = self.single_quoted(start + 1)?;
            (value, Style::SingleQuoted, end)
        } else {
            let (value, end) = self.double_quoted(start + 1)?;
            (value, Style::DoubleQuoted, end)
        };
        self.at = end;
        Some(Node {
            span: self.span(start, end),
            style,
            value: Value::Str(value),
        })
    }

    fn single_quoted(&self, start: usize) -> Option<(SmolStr, usize)> {
        let mut at = start;
        let mut doubled = false;
        loop {
            at += memchr2(b'\'', b'\n', self.bytes.get(at..)?)?;
            if self.byte(at) == Some(b'\n') {
                return None;
            }
            if self.byte(at + 1) != Some(b'\'') {
                let raw = self.text.get(start..at)?;
                let value = if doubled {
                    SmolStr::new(raw.replace("''", "'"))
                } else {
                    SmolStr::new(raw)
                };
                return Some((value, at + 1));
            }
            doubled = true;
            at += 2;
        }
    }

    fn double_quoted(&self, start: usize) -> Option<(SmolStr, usize)> {
        let mut at = start;
        let mut unescaped = String::new();
        let mut copied = start;
        loop {
            at += memchr3(b'"', b'\\', b'\n', self.bytes.get(at..)?)?;
            match self.byte(at)? {
                b'"' if copied == start => {
                    return Some((SmolStr::new(self.text.get(start..at)?), at + 1));
                }
                b'"' => {
                    unescaped.push_str(self.text.get(copied..at)?);
                    return Some((SmolStr::new(unescaped), at + 1));
                }
                b'\\' => {
                    unescaped.push_str(self.text.get(copied..at)?);
                    // Leave rarer escapes to the library.
                    unescaped.push(match self.byte(at + 1)? {
                        b'n' => '\n',
                        b't' => '\t',
                        b'"' => '"',
                        b'\\' => '\\',
                        b'/' => '/',
                        _ => return None,
                    });
                    at += 2;
                    copied = at;
                }
                _ => return None,
            }
        }
    }
}

/// Whether a byte cannot start a plain scalar.
fn is_indicator(byte: u8) -> bool {
    matches!(
        byte,
        b',' | b'['
            | b']'
            | b'{'
            | b'}'
            | b'#'
            | b'&'
            | b'*'
            | b'!'
            | b'|'
            | b'>'
            | b'\''
            | b'"'
            | b'%'
            | b'@'
            | b'`'
    )
}
