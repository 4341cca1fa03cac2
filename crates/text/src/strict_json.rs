//! A strict JSON parser. RFC 8259 leaves some cases open, and most parsers handle them silently:
//! they keep the last of two members with the same name, reject or replace a lone surrogate, fail
//! on deep nesting, and round large integers. This parser returns the value and a list of all
//! such cases.

mod repair;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

pub use repair::{read_repaired, replace_lone_surrogates};

use serde_json::{Map, Value};

/// Maximum nesting depth that every parser can be expected to support. Deeper values become null.
pub const MAX_DEPTH: usize = 128;
/// Up to this value, a 64-bit float represents every integer exactly.
const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;
/// Maximum number of recorded quirks, because a hostile line can contain very many.
const MAX_QUIRKS: usize = 32;
/// Replacement for a lone surrogate.
const REPLACEMENT: char = '\u{fffd}';

/// What the parser rejects and what it only reports.
#[derive(Clone, Copy, Debug)]
pub struct ParseOptions {
    /// Largest integer that is not reported as [`JsonQuirkKind::BigInteger`].
    pub largest_integer: u64,
    /// Whether bytes that are not UTF-8 become replacement characters in strings and names.
    /// Otherwise they are an error.
    pub allows_any_bytes: bool,
    /// Whether a number that does not fit a 64-bit float becomes null. Otherwise it is an error.
    pub allows_any_number: bool,
    /// Whether more than 128 levels of nesting are an error.
    pub rejects_deep: bool,
}

impl Default for ParseOptions {
    fn default() -> Self {
        ParseOptions {
            largest_integer: MAX_SAFE_INTEGER,
            allows_any_bytes: false,
            allows_any_number: false,
            rejects_deep: false,
        }
    }
}

/// A parsed value, and everything in it that another parser might read differently.
#[derive(Clone, Debug, PartialEq)]
pub struct ParsedJson {
    /// The value.
    pub value: Value,
    /// The first 32 quirks, and at least the first of each kind.
    pub quirks: Vec<JsonQuirk>,
    /// Whether a string or a name contains a terminal escape sequence, written as `\u001b[`.
    pub has_terminal_code: bool,
}

impl ParsedJson {
    /// The first quirk of a kind.
    pub fn first(&self, kind: JsonQuirkKind) -> Option<&JsonQuirk> {
        self.quirks.iter().find(|quirk| quirk.kind == kind)
    }
}

/// Valid JSON that other parsers may read differently, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonQuirk {
    /// Place, as a JSON Pointer.
    pub pointer: String,
    /// Kind of quirk.
    pub kind: JsonQuirkKind,
    /// The duplicate name, or the digits of the integer. Empty for other kinds.
    pub text: String,
}

/// Kind of a quirk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonQuirkKind {
    /// A duplicate name in an object. The last member is kept (RFC 8259, section 4).
    DuplicateKey,
    /// A lone surrogate such as `\ud800` in a string or a name (section 8.2).
    LoneSurrogate,
    /// More than 128 levels of nesting (section 9).
    TooDeep,
    /// An integer that many parsers round (section 6).
    BigInteger,
}

/// Why the bytes are not JSON, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} at byte {at}")]
pub struct JsonError {
    /// Offset of the start of the invalid escape, number or other token.
    pub from: usize,
    /// Offset of the byte where the error was detected.
    pub at: usize,
    /// What is wrong.
    pub what: JsonErrorKind,
}

/// What is wrong with a text that is not JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonErrorKind {
    /// The bytes are not UTF-8.
    #[error("invalid UTF-8")]
    NotUtf8,
    /// The text ends where a value is required.
    #[error("unexpected end of input, expected a value")]
    EndBeforeValue,
    /// The text is not a value.
    #[error("expected a value")]
    NoValue,
    /// `NaN` or `Infinity`.
    #[error("expected a value")]
    NotFinite,
    /// `-Infinity`.
    #[error("expected a digit")]
    MinusInfinity,
    /// Text follows the value.
    #[error("unexpected text after the value")]
    MoreAfterValue,
    /// The nesting is deeper than `MAX_DEPTH`.
    #[error("nested more than {MAX_DEPTH} levels deep")]
    TooDeep,
    /// A `,` or the end of the array or object is missing.
    #[error("expected a comma or the end of the array or object")]
    NoComma(Container),
    /// The text ends in an array or object.
    #[error("unexpected end of input in an array or object")]
    EndInContainer(Container),
    /// The name of a member is missing.
    #[error("expected a member name in double quotes")]
    NoName,
    /// The `:` after a name is missing.
    #[error("expected a colon after the member name")]
    NoColon,
    /// A digit is missing in a number.
    #[error("expected a digit")]
    NoDigit,
    /// A number has a leading zero.
    #[error("number with a leading zero")]
    LeadingZero,
    /// A number does not fit a 64-bit float.
    #[error("number out of range")]
    NumberTooLarge,
    /// The text ends in a string.
    #[error("unexpected end of input in a string")]
    EndInString,
    /// A string contains an unescaped control character.
    #[error("unescaped control character in a string")]
    ControlCharacter,
    /// The escape sequence is unknown.
    #[error("invalid escape sequence")]
    NoEscape,
    /// The text ends in an escape sequence.
    #[error("incomplete escape sequence")]
    EndInEscape,
    /// `\u` is not followed by four hexadecimal digits.
    #[error("expected four hexadecimal digits after `\\u`")]
    NoFourDigits,
}

/// The kind of collection that contains an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Container {
    /// An array.
    List,
    /// An object.
    Object,
}

/// Name of a value's type, with its article.
pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Parses exactly one JSON value with the default options. White space around it is allowed.
pub fn read(bytes: &[u8]) -> Result<ParsedJson, JsonError> {
    read_with(bytes, ParseOptions::default())
}

/// Parses exactly one JSON value. White space around it is allowed.
pub fn read_with(bytes: &[u8], options: ParseOptions) -> Result<ParsedJson, JsonError> {
    if !options.allows_any_bytes
        && let Err(error) = std::str::from_utf8(bytes)
    {
        let at = error.valid_up_to();
        return Err(JsonError {
            from: at,
            at,
            what: JsonErrorKind::NotUtf8,
        });
    }
    let mut reader = Reader {
        bytes,
        options,
        at: 0,
        open: Vec::new(),
        deep: Vec::new(),
        quirks: Vec::new(),
        has_terminal_code: false,
    };
    let value = reader.value()?;
    Ok(ParsedJson {
        value,
        quirks: reader.quirks,
        has_terminal_code: reader.has_terminal_code,
    })
}

/// An array or object that is not complete yet.
enum Open {
    List(Vec<Value>),
    Object(Map<String, Value>, String),
}

/// The parser state. It does not recurse, because untrusted input decides the nesting depth.
struct Reader<'a> {
    bytes: &'a [u8],
    options: ParseOptions,
    at: usize,
    open: Vec<Open>,
    /// Open arrays and objects that are nested too deep to be kept.
    deep: Vec<Container>,
    quirks: Vec<JsonQuirk>,
    has_terminal_code: bool,
}

impl<'a> Reader<'a> {
    fn value(&mut self) -> Result<Value, JsonError> {
        loop {
            self.skip_blanks();
            if self.options.rejects_deep && !self.deep.is_empty() {
                return Err(self.error(JsonErrorKind::TooDeep));
            }
            let mut value = match self.peek() {
                Some(b'{') => match self.enter(Open::Object(Map::new(), String::new())) {
                    true => self.leave(),
                    false => {
                        self.key()?;
                        continue;
                    }
                },
                Some(b'[') => match self.enter(Open::List(Vec::new())) {
                    true => self.leave(),
                    false => continue,
                },
                Some(b'"') => Value::String(self.string()?),
                Some(b'-' | b'0'..=b'9') => self.number()?,
                Some(_) => self.word()?,
                None => return Err(self.error(JsonErrorKind::EndBeforeValue)),
            };
            // A value may complete the array or object around it, which is then a value itself.
            loop {
                self.skip_blanks();
                let Some(within) = self.within() else {
                    return match self.peek() {
                        None => Ok(value),
                        Some(_) => Err(self.error(JsonErrorKind::MoreAfterValue)),
                    };
                };
                let end = match within {
                    Container::List => b']',
                    Container::Object => b'}',
                };
                self.attach(value);
                match self.peek() {
                    Some(b',') => {
                        self.at += 1;
                        if within == Container::Object {
                            self.skip_blanks();
                            self.key()?;
                        }
                        break;
                    }
                    Some(byte) if byte == end => {
                        self.at += 1;
                        value = self.leave();
                    }
                    Some(_) => return Err(self.error(JsonErrorKind::NoComma(within))),
                    None => return Err(self.error(JsonErrorKind::EndInContainer(within))),
                }
            }
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// The text between an offset and the current position.
    fn since(&self, start: usize) -> Cow<'a, str> {
        let read = self.bytes.get(start..self.at).unwrap_or_default();
        String::from_utf8_lossy(read)
    }

    fn error(&self, what: JsonErrorKind) -> JsonError {
        self.error_since(self.at, what)
    }

    fn error_since(&self, from: usize, what: JsonErrorKind) -> JsonError {
        let at = self.at;
        JsonError { from, at, what }
    }

    fn skip_blanks(&mut self) {
        let is_blank = |byte: &&u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        self.at += self.rest().iter().take_while(is_blank).count();
    }

    // --- arrays and objects ------------------------------------------------------------------

    /// Enters an array or object. Returns true if it is empty, and then moves past its end.
    fn enter(&mut self, what: Open) -> bool {
        self.at += 1;
        let (within, end) = match what {
            Open::List(_) => (Container::List, b']'),
            Open::Object(..) => (Container::Object, b'}'),
        };
        if self.open.len() < MAX_DEPTH && self.deep.is_empty() {
            self.open.push(what);
        } else {
            if self.deep.is_empty() {
                self.record(JsonQuirkKind::TooDeep, String::new);
            }
            self.deep.push(within);
        }
        self.skip_blanks();
        let is_empty = self.peek() == Some(end);
        self.at += usize::from(is_empty);
        is_empty
    }

    /// Kind of the innermost open array or object.
    fn within(&self) -> Option<Container> {
        match (self.deep.last(), self.open.last()) {
            (Some(within), _) => Some(*within),
            (None, Some(Open::List(_))) => Some(Container::List),
            (None, Some(Open::Object(..))) => Some(Container::Object),
            (None, None) => None,
        }
    }

    fn leave(&mut self) -> Value {
        if self.deep.pop().is_some() {
            return Value::Null;
        }
        match self.open.pop() {
            Some(Open::List(items)) => Value::Array(items),
            Some(Open::Object(members, _)) => Value::Object(members),
            None => Value::Null,
        }
    }

    fn attach(&mut self, value: Value) {
        if !self.deep.is_empty() {
            return;
        }
        match self.open.last_mut() {
            Some(Open::List(items)) => items.push(value),
            Some(Open::Object(members, key)) => _ = members.insert(std::mem::take(key), value),
            None => {}
        }
    }

    /// Parses a member name and its colon.
    fn key(&mut self) -> Result<(), JsonError> {
        if self.peek() != Some(b'"') {
            return Err(self.error(JsonErrorKind::NoName));
        }
        let name = self.string()?;
        self.skip_blanks();
        if self.peek() != Some(b':') {
            return Err(self.error(JsonErrorKind::NoColon));
        }
        self.at += 1;
        if let (Some(Open::Object(members, key)), true) =
            (self.open.last_mut(), self.deep.is_empty())
        {
            let is_known = members.contains_key(&name);
            key.clone_from(&name);
            if is_known {
                self.record(JsonQuirkKind::DuplicateKey, || name);
            }
        }
        Ok(())
    }

    fn record(&mut self, kind: JsonQuirkKind, text: impl FnOnce() -> String) {
        let is_known = |quirk: &JsonQuirk| quirk.kind == kind;
        if self.quirks.len() < MAX_QUIRKS || !self.quirks.iter().any(is_known) {
            self.quirks.push(JsonQuirk {
                pointer: self.pointer(),
                kind,
                text: text(),
            });
        }
    }

    /// JSON Pointer of the current position.
    fn pointer(&self) -> String {
        let mut pointer = String::new();
        for open in &self.open {
            pointer.push('/');
            match open {
                Open::List(items) => pointer.push_str(&items.len().to_string()),
                Open::Object(_, key) => {
                    pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
                }
            }
        }
        pointer
    }

    // --- scalars -----------------------------------------------------------------------------

    fn word(&mut self) -> Result<Value, JsonError> {
        let words = [
            ("null", Value::Null),
            ("true", Value::Bool(true)),
            ("false", Value::Bool(false)),
        ];
        for (word, value) in words {
            if self.rest().starts_with(word.as_bytes()) {
                self.at += word.len();
                return Ok(value);
            }
        }
        Err(match self.peek() {
            Some(b'N' | b'I') => self.error(JsonErrorKind::NotFinite),
            _ => self.error(JsonErrorKind::NoValue),
        })
    }

    fn number(&mut self) -> Result<Value, JsonError> {
        let start = self.at;
        self.at += usize::from(self.peek() == Some(b'-'));
        if self.rest().starts_with(b"Infinity") {
            return Err(self.error(JsonErrorKind::MinusInfinity));
        }
        let whole = self.digits()?;
        if whole.len() > 1 && whole.starts_with(b"0") {
            let second = self.at + 1 - whole.len();
            return Err(self.error_since(second, JsonErrorKind::LeadingZero));
        }
        let mut is_integer = true;
        if self.peek() == Some(b'.') {
            is_integer = false;
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            is_integer = false;
            self.at += 1;
            self.at += usize::from(matches!(self.peek(), Some(b'+' | b'-')));
            self.digits()?;
        }
        let token = self.since(start);
        if is_integer {
            let size = token.trim_start_matches('-').parse::<u64>();
            if !size.is_ok_and(|size| size <= self.options.largest_integer) {
                self.record(JsonQuirkKind::BigInteger, || token.clone().into_owned());
            }
        }
        // Convert with serde_json, so that the number is the same as everywhere else.
        match serde_json::from_str(&token) {
            Err(_) if !self.options.allows_any_number => {
                Err(self.error_since(start, JsonErrorKind::NumberTooLarge))
            }
            number => Ok(number.unwrap_or_default()),
        }
    }

    fn digits(&mut self) -> Result<&'a [u8], JsonError> {
        let rest = self.rest();
        let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        match rest.get(..count) {
            Some(digits) if count > 0 => Ok(digits),
            _ => Err(self.error(JsonErrorKind::NoDigit)),
        }
    }

    fn string(&mut self) -> Result<String, JsonError> {
        self.at += 1;
        let mut out = String::new();
        let mut is_whole = true;
        loop {
            let start = self.at;
            let rest = self.rest();
            let ends = |byte: &u8| matches!(byte, b'"' | b'\\') || *byte < b' ';
            self.at += rest.iter().position(ends).unwrap_or(rest.len());
            out.push_str(&self.since(start));
            match self.peek() {
                None => return Err(self.error(JsonErrorKind::EndInString)),
                Some(b'"') => break,
                Some(b'\\') => {
                    let character = self.escaped()?;
                    is_whole &= character.is_some();
                    out.push(character.unwrap_or(REPLACEMENT));
                }
                Some(_) => return Err(self.error(JsonErrorKind::ControlCharacter)),
            }
        }
        self.at += 1;
        if !is_whole {
            self.record(JsonQuirkKind::LoneSurrogate, String::new);
        }
        Ok(out)
    }

    /// Parses an escape sequence. `None` is a lone surrogate.
    fn escaped(&mut self) -> Result<Option<char>, JsonError> {
        let start = self.at;
        self.at += 1;
        let character = match self.peek() {
            Some(byte @ (b'"' | b'\\' | b'/')) => char::from(byte),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at = start;
                return self.unit();
            }
            Some(_) => return Err(self.error_since(start, JsonErrorKind::NoEscape)),
            None => return Err(self.error_since(start, JsonErrorKind::EndInEscape)),
        };
        self.at += 1;
        Ok(Some(character))
    }

    /// Parses `\uXXXX`, and the next one if both are a surrogate pair.
    fn unit(&mut self) -> Result<Option<char>, JsonError> {
        let first = self.four_digits()?;
        if (0xd800..0xdc00).contains(&first) && self.rest().starts_with(b"\\u") {
            let start = self.at;
            let second = self.four_digits()?;
            if (0xdc00..0xe000).contains(&second) {
                let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                return Ok(char::from_u32(code));
            }
            // The second escape does not complete the pair. Parse it again on its own.
            self.at = start;
        }
        self.has_terminal_code |= first == 0x1b && matches!(self.peek(), Some(b'[' | b']'));
        Ok(char::from_u32(first))
    }

    fn four_digits(&mut self) -> Result<u32, JsonError> {
        let start = self.at;
        let Some(code) = repair::code_unit(self.bytes, start) else {
            self.at += 2;
            return Err(self.error_since(start, JsonErrorKind::NoFourDigits));
        };
        self.at += 6;
        Ok(u32::from(code))
    }
}
