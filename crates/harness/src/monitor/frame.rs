//! Framing of JSON in lines: each line should contain exactly one value. Invalid framing is still
//! parsed as far as possible, so that one framing error does not cause other violations.

use serde_json::Value;

use agentproto_text::strict_json::{self, JsonQuirk, JsonQuirkKind, MAX_DEPTH};
use agentproto_wire::{Direction, Line};

/// Maximum number of lines of a value that spans several lines.
const LINES: u64 = 10_000;
/// Maximum number of bytes of such a value.
const BYTES: usize = 1 << 20;

/// The framing of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LineFrame {
    /// Exactly one JSON value.
    Whole,
    /// Something that JSON parsers treat differently.
    Ambiguous(String),
    /// More than one value.
    Several(usize),
    /// The start of a value that may continue on the next line.
    Started,
    /// The middle of a value that started on an earlier line.
    Continued,
    /// The end of the value that started on line `from`.
    Joined { from: u64 },
    /// The value that started on line `from` was never completed.
    Unfinished { from: u64 },
    /// Invalid UTF-8, with the offset of the first invalid byte.
    NotUtf8 { at: usize },
    /// An empty line.
    Empty,
    /// Not JSON, with the reason.
    NotJson(String),
    /// The process ended before the end of the line.
    NotEnded,
    /// Too long to be kept, and therefore not checked.
    Cut,
}

/// Reads the agent's lines in order.
#[derive(Default)]
pub struct FrameReader {
    open: Option<OpenValue>,
}

/// A value that has started but not ended.
struct OpenValue {
    from: u64,
    lines: u64,
    text: String,
    depth: i64,
    in_text: bool,
    escaped: bool,
}

impl FrameReader {
    /// The framing of a line, and the values that could be parsed.
    pub fn read(&mut self, line: &Line) -> (Vec<LineFrame>, Vec<Value>) {
        match line.direction {
            Direction::ToAgent => {
                let value = serde_json::from_slice(&line.bytes).ok();
                (Vec::new(), value.into_iter().collect())
            }
            Direction::FromAgent => {
                let (mut frames, values) = self.read_answer(line);
                if !line.ended {
                    frames.push(LineFrame::NotEnded);
                }
                (frames, values)
            }
            Direction::Stderr => match std::str::from_utf8(&line.bytes) {
                Err(error) if line.cut.is_none() || error.error_len().is_some() => {
                    let at = error.valid_up_to();
                    (vec![LineFrame::NotUtf8 { at }], Vec::new())
                }
                _ => (Vec::new(), Vec::new()),
            },
            Direction::Process => (Vec::new(), Vec::new()),
        }
    }

    fn read_answer(&mut self, line: &Line) -> (Vec<LineFrame>, Vec<Value>) {
        if line.cut.is_some() {
            self.open = None;
            return (vec![LineFrame::Cut], Vec::new());
        }
        let text = match std::str::from_utf8(&line.bytes) {
            Ok(text) => text,
            Err(error) => {
                let at = error.valid_up_to();
                let text = String::from_utf8_lossy(&line.bytes);
                let value = serde_json::from_str(&text).ok();
                return (vec![LineFrame::NotUtf8 { at }], value.into_iter().collect());
            }
        };
        if text.trim().is_empty() {
            let frame = match self.open {
                Some(_) => LineFrame::Continued,
                None => LineFrame::Empty,
            };
            return (vec![frame], Vec::new());
        }
        let (read, odd) = match strict_json::read(&line.bytes) {
            Ok(strict) => (Ok(strict.value), ambiguous(&strict.quirks)),
            Err(_) => (serde_json::from_str(text), Vec::new()),
        };
        match read {
            Ok(value) if self.open.is_none() => {
                let frames = std::iter::once(LineFrame::Whole).chain(odd);
                (frames.collect(), vec![value])
            }
            // A part of a longer value can itself be valid JSON, but it is not a message.
            Ok(value) if value.get("jsonrpc").is_some() => {
                let open = self.open.take();
                let from = open.map(|open| LineFrame::Unfinished { from: open.from });
                let frames = from.into_iter().chain([LineFrame::Whole]).chain(odd);
                (frames.collect(), vec![value])
            }
            Err(error) if self.open.is_none() => self.read_broken(line.number, text, &error),
            _ => self.go_on(text),
        }
    }

    fn read_broken(
        &mut self,
        number: u64,
        text: &str,
        error: &serde_json::Error,
    ) -> (Vec<LineFrame>, Vec<Value>) {
        let mut stream = serde_json::Deserializer::from_str(text).into_iter::<Value>();
        let mut values = Vec::new();
        while let Some(Ok(value)) = stream.next() {
            values.push(value);
        }
        let rest = text.get(stream.byte_offset()..).unwrap_or_default().trim();
        if values.iter().any(Value::is_object) {
            let more = usize::from(!rest.is_empty());
            let frame = match rest.is_empty() || rest.starts_with('{') {
                true => LineFrame::Several(values.len() + more),
                false => LineFrame::NotJson(format!("text after the JSON value: {}", quoted(rest))),
            };
            return (vec![frame], values);
        }
        if error.is_eof() && text.trim_start().starts_with(['{', '[']) {
            let mut open = OpenValue::new(number);
            open.take(text);
            self.open = Some(open);
            return (vec![LineFrame::Started], Vec::new());
        }
        let why = match text.trim_start().chars().next() {
            Some('\u{feff}') => "it starts with a byte order mark".to_owned(),
            // Invalid JSON: the position of the error helps.
            Some('{' | '[') => format!("{error}: {}", quoted(text)),
            // Other text, such as a log message.
            _ => quoted(text),
        };
        (vec![LineFrame::NotJson(why)], Vec::new())
    }

    fn go_on(&mut self, text: &str) -> (Vec<LineFrame>, Vec<Value>) {
        let Some(open) = &mut self.open else {
            return (Vec::new(), Vec::new());
        };
        open.take(text);
        let from = open.from;
        if open.depth <= 0 {
            let value = serde_json::from_str(&open.text).ok();
            self.open = None;
            return (
                vec![LineFrame::Joined { from }],
                value.into_iter().collect(),
            );
        }
        if open.lines > LINES {
            self.open = None;
            return (vec![LineFrame::Unfinished { from }], Vec::new());
        }
        (vec![LineFrame::Continued], Vec::new())
    }
}

impl OpenValue {
    fn new(from: u64) -> OpenValue {
        OpenValue {
            from,
            lines: 0,
            text: String::new(),
            depth: 0,
            in_text: false,
            escaped: false,
        }
    }

    fn take(&mut self, text: &str) {
        self.lines += 1;
        if self.text.len() + text.len() <= BYTES {
            self.text.push_str(text);
            self.text.push('\n');
        }
        for byte in text.bytes() {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' if self.in_text => self.escaped = true,
                b'"' => self.in_text = !self.in_text,
                b'{' | b'[' if !self.in_text => self.depth += 1,
                b'}' | b']' if !self.in_text => self.depth -= 1,
                _ => {}
            }
        }
    }
}

/// Describes what RFC 8259 allows but warns about, because parsers disagree on the result.
fn ambiguous(oddities: &[JsonQuirk]) -> Vec<LineFrame> {
    let ambiguities = oddities.iter().filter_map(|oddity| {
        let at = &oddity.pointer;
        Some(match oddity.kind {
            JsonQuirkKind::DuplicateKey => format!(
                "duplicate key {at} in an object: parsers take the first value, the last, or \
                 neither (RFC 8259, section 4)"
            ),
            JsonQuirkKind::LoneSurrogate => format!(
                "the string at {at:?} contains half of a surrogate pair, which is not a character \
                 (RFC 8259, section 8.2)"
            ),
            JsonQuirkKind::TooDeep => format!(
                "the message is nested deeper than {MAX_DEPTH} levels, which not every parser \
                 supports (RFC 8259, section 9)"
            ),
            // The harness sends ids of that size, and the agent must return them.
            JsonQuirkKind::BigInteger => return None,
        })
    });
    ambiguities.map(LineFrame::Ambiguous).collect()
}

/// The start of a text as a printable, quoted string.
pub fn quoted(text: &str) -> String {
    let mut short: String = text.chars().take(80).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    format!("{short:?}")
}
