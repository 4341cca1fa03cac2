//! Block scalars: the text after `|` and `>`.

use memchr::memchr;
use smol_str::SmolStr;

use super::Reader;
use crate::tree::{Node, Style, Value};

impl Reader<'_> {
    /// Reads `|` or `>`, with at most a chomping indicator. The text ends before the next line
    /// that is not indented deeper.
    pub(super) fn block_scalar(&mut self, indent: usize) -> Option<Node> {
        let header = self.at;
        let folded = self.peek() == Some(b'>');
        self.at += 1;
        let keep = match self.peek() {
            Some(sign @ (b'-' | b'+')) => {
                self.at += 1;
                Some(sign)
            }
            _ => None,
        };
        let sign_end = self.at;
        self.skip_spaces();
        match self.peek()? {
            b'\n' => {}
            b'#' if self.at > sign_end => {}
            _ => return None,
        }
        let rest = self.bytes.get(self.at..)?;
        let mut line = self.at + memchr(b'\n', rest)? + 1;
        let mut column = None;
        let mut value = String::new();
        let mut breaks = 0usize;
        let mut text_end = header;
        loop {
            let end = memchr(b'\n', self.bytes.get(line..)?).map(|i| line + i);
            let stop = end.unwrap_or(self.bytes.len());
            let mut at = line;
            while at < stop && self.byte(at) == Some(b' ') {
                at += 1;
            }
            if at == stop {
                // A blank line with more spaces than the indentation contains text. Leave it to
                // the library.
                if column.is_none_or(|c| at - line > c) && at > line {
                    return None;
                }
                // Leave blanks at the end of the file to the library.
                if end.is_none() && at > line {
                    return None;
                }
                if end.is_none() {
                    break;
                }
                breaks += 1;
                line = stop + 1;
                continue;
            }
            let depth = at - line;
            let column = *column.get_or_insert(depth);
            if depth < column || depth <= indent {
                if depth > indent {
                    return None;
                }
                break;
            }
            // More indented lines are folded by other rules.
            if folded && depth > column {
                return None;
            }
            let content = self.text.get(line + column..stop)?;
            if text_end == header {
                // Leading blank lines count as text.
                value.extend(std::iter::repeat_n('\n', breaks));
            } else if !folded {
                value.extend(std::iter::repeat_n('\n', breaks + 1));
            } else if breaks == 0 {
                value.push(' ');
            } else {
                value.extend(std::iter::repeat_n('\n', breaks));
            }
            value.push_str(content);
            text_end = stop;
            breaks = 0;
            match end {
                Some(end) => line = end + 1,
                None => {
                    // The last line has no line break.
                    line = stop;
                    break;
                }
            }
        }
        if text_end == header {
            return None;
        }
        // Leave text that keeps its trailing blank lines to the library.
        if keep == Some(b'+') {
            return None;
        }
        // A last line without a line break at the end of the file has none to keep.
        if keep.is_none() && text_end < self.bytes.len() {
            value.push('\n');
        }
        self.next_line_from(line.min(self.bytes.len()))?;
        let trimmed = self.text.get(header..text_end)?.trim_end().len();
        Some(Node {
            span: self.span(header, header + trimmed),
            style: if folded {
                Style::Folded
            } else {
                Style::Literal
            },
            value: Value::Str(SmolStr::new(value)),
        })
    }
}
