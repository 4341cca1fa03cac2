//! Flow collections: `[…]` and `{…}`, on one line or several.

use memchr::memchr;
use smol_str::SmolStr;

use super::{Reader, is_indicator};
use crate::tree::{Entry, KeyKind, Node, Style, Value};
use crate::yaml::MAX_DEPTH;
use crate::yaml::keys::Keys;

impl Reader<'_> {
    /// Skips blanks, line breaks and comments between the tokens of a flow collection.
    fn flow_gap(&mut self, indent: usize) -> Option<()> {
        loop {
            match self.peek()? {
                b' ' => self.at += 1,
                b'\n' => {
                    let line = self.at + 1;
                    self.next_line_from(line)?;
                    // The lines of a flow collection must be indented deeper than its block.
                    if self.indent? <= indent {
                        return None;
                    }
                }
                b'#' if matches!(self.byte(self.at.wrapping_sub(1)), Some(b' ' | b'\n')) => {
                    self.at += memchr(b'\n', self.bytes.get(self.at..)?)?;
                }
                _ => return Some(()),
            }
        }
    }

    pub(super) fn flow(&mut self, indent: usize) -> Option<Node> {
        if self.depth >= MAX_DEPTH {
            return None;
        }
        self.depth += 1;
        let node = if self.peek()? == b'[' {
            self.flow_seq(indent)
        } else {
            self.flow_map(indent)
        };
        self.depth -= 1;
        node
    }

    fn flow_seq(&mut self, indent: usize) -> Option<Node> {
        let start = self.at;
        self.at += 1;
        let mut items = Vec::new();
        loop {
            self.flow_gap(indent)?;
            if self.peek()? == b']' {
                break;
            }
            items.push(self.flow_value(indent)?);
            self.count(1)?;
            self.flow_gap(indent)?;
            match self.peek()? {
                b',' => self.at += 1,
                b']' => break,
                _ => return None,
            }
        }
        self.at += 1;
        Some(Node {
            span: self.span(start, self.at),
            style: Style::Flow,
            value: Value::Seq(items),
        })
    }

    fn flow_map(&mut self, indent: usize) -> Option<Node> {
        let start = self.at;
        self.at += 1;
        let mut entries: Vec<Entry> = Vec::new();
        let mut keys = Keys::default();
        loop {
            self.flow_gap(indent)?;
            if self.peek()? == b'}' {
                break;
            }
            let quoted = matches!(self.peek()?, b'"' | b'\'');
            let key = self.flow_scalar()?;
            if self.peek()? != b':' || (!quoted && !matches!(self.byte(self.at + 1), Some(b' '))) {
                return None;
            }
            self.at += 1;
            let (name, kind) = match key.value {
                Value::Str(name) => (name, KeyKind::Str),
                Value::Int(i) => (SmolStr::new(i.to_string()), KeyKind::Int),
                _ => return None,
            };
            if (name == "<<" && !quoted) || keys.find(&entries, &name).is_some() {
                return None;
            }
            self.flow_gap(indent)?;
            let value = self.flow_value(indent)?;
            self.count(2)?;
            entries.push(Entry {
                key: name,
                key_span: key.span,
                key_kind: kind,
                value,
            });
            self.flow_gap(indent)?;
            match self.peek()? {
                b',' => self.at += 1,
                b'}' => break,
                _ => return None,
            }
        }
        self.at += 1;
        Some(Node {
            span: self.span(start, self.at),
            style: Style::Flow,
            value: Value::Map(entries),
        })
    }

    fn flow_value(&mut self, indent: usize) -> Option<Node> {
        match self.peek()? {
            b'[' | b'{' => self.flow(indent),
            _ => self.flow_scalar(),
        }
    }

    fn flow_scalar(&mut self) -> Option<Node> {
        match self.peek()? {
            b'"' | b'\'' => return self.quoted(),
            first if is_indicator(first) || matches!(first, b'-' | b'?' | b':') => {
                // `-x` and `--flag` are ordinary words.
                let next = self.byte(self.at + 1)?;
                if first != b'-' || matches!(next, b' ' | b'\n' | b',' | b'[' | b']' | b'{' | b'}')
                {
                    return None;
                }
            }
            _ => {}
        }
        let start = self.at;
        let mut at = start;
        loop {
            match self.byte(at)? {
                b',' | b'[' | b']' | b'{' | b'}' | b'\n' => break,
                b':' if matches!(
                    self.byte(at + 1)?,
                    b' ' | b'\n' | b',' | b'[' | b']' | b'{' | b'}'
                ) =>
                {
                    break;
                }
                b'#' if self.byte(at.checked_sub(1)?) == Some(b' ') => break,
                _ => at += 1,
            }
        }
        let text = self.text.get(start..at)?.trim_end_matches(' ');
        if text.is_empty() {
            return None;
        }
        self.at = start + text.len();
        // Leave a space before the colon of a key to the library.
        if self.byte(at) == Some(b':') && self.at != at {
            return None;
        }
        self.plain_node(start, text)
    }
}
