//! JSON read to the letter. Most readers repair in silence what RFC 8259 leaves open: of two
//! members with one name they keep the last, half a surrogate pair they refuse or replace, deep
//! nesting breaks them, and large integers lose their end. Here the value comes with a list of
//! all that.

#[cfg(test)]
mod tests;

use memchr::memchr2;
use serde_json::{Map, Value};

/// Levels that every reader can be expected to follow; what is nested deeper is read as null.
pub const DEEPEST: usize = 128;
/// The largest integer that a number of 64 bits floating point still tells from its neighbours.
const SAFE: u64 = (1 << 53) - 1;
/// A hostile line has as many oddities as it has room for.
const KEPT: usize = 32;
/// What stands for half a surrogate pair.
const REPLACEMENT: char = '\u{fffd}';

/// A value, and what another reader might see otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct Strict {
    pub value: Value,
    pub oddities: Vec<Oddity>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Oddity {
    /// Where it stands, as a JSON Pointer.
    pub pointer: String,
    pub kind: Odd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Odd {
    /// A second member of the same name; the last one counts here (RFC 8259, section 4).
    DuplicateKey,
    /// `\ud800` without its other half, in a text or a name (section 8.2).
    LoneSurrogate,
    /// More than 128 levels (section 9).
    TooDeep,
    /// An integer that many readers cannot tell from its neighbours (section 6).
    BigInteger,
}

/// Why the bytes are no JSON, and the offset of the byte that tells.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} at byte {at}")]
pub struct NoJson {
    pub at: usize,
    pub what: &'static str,
}

/// Reads exactly one JSON value, white space around it allowed.
pub fn read(bytes: &[u8]) -> Result<Strict, NoJson> {
    let text = std::str::from_utf8(bytes).map_err(|error| NoJson {
        at: error.valid_up_to(),
        what: "no UTF-8",
    })?;
    let mut reader = Reader {
        text,
        at: 0,
        open: Vec::new(),
        deep: Vec::new(),
        oddities: Vec::new(),
    };
    let value = reader.value()?;
    Ok(Strict {
        value,
        oddities: reader.oddities,
    })
}

/// A list or an object that is not ended yet.
enum Open {
    List(Vec<Value>),
    Object(Map<String, Value>, String),
}

/// Works without recursion: how deep a line goes is the sender's choice.
struct Reader<'a> {
    text: &'a str,
    at: usize,
    open: Vec<Open>,
    /// The closing brackets of what is too deep to be kept.
    deep: Vec<u8>,
    oddities: Vec<Oddity>,
}

impl<'a> Reader<'a> {
    fn value(&mut self) -> Result<Value, NoJson> {
        loop {
            self.skip_blanks();
            let mut value = match self.peek() {
                Some(b'{') => match self.enters(Open::Object(Map::new(), String::new()), b'}') {
                    true => self.leave(),
                    false => {
                        self.key()?;
                        continue;
                    }
                },
                Some(b'[') => match self.enters(Open::List(Vec::new()), b']') {
                    true => self.leave(),
                    false => continue,
                },
                Some(b'"') => Value::String(self.string()?),
                Some(b'-' | b'0'..=b'9') => self.number()?,
                Some(_) => self.word()?,
                None => return Err(self.wrong("the end where a value should be")),
            };
            // A value may end the list or object that it stands in, which is a value again.
            loop {
                self.skip_blanks();
                let Some(end) = self.end() else {
                    return match self.peek() {
                        None => Ok(value),
                        Some(_) => Err(self.wrong("more after the value")),
                    };
                };
                self.attach(value);
                match self.peek() {
                    Some(b',') => {
                        self.at += 1;
                        if end == b'}' {
                            self.skip_blanks();
                            self.key()?;
                        }
                        break;
                    }
                    Some(byte) if byte == end => {
                        self.at += 1;
                        value = self.leave();
                    }
                    Some(_) => return Err(self.wrong("neither a comma nor the end of the list")),
                    None => return Err(self.wrong("the end within a list or an object")),
                }
            }
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn rest(&self) -> &[u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    fn wrong(&self, what: &'static str) -> NoJson {
        NoJson { at: self.at, what }
    }

    fn skip_blanks(&mut self) {
        let is_blank = |byte: &&u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        self.at += self.rest().iter().take_while(is_blank).count();
    }

    // --- lists and objects -------------------------------------------------------------------

    /// Goes into a list or an object; true where it is empty, and passed already.
    fn enters(&mut self, what: Open, end: u8) -> bool {
        self.at += 1;
        if self.open.len() < DEEPEST && self.deep.is_empty() {
            self.open.push(what);
        } else {
            if self.deep.is_empty() {
                self.odd(Odd::TooDeep);
            }
            self.deep.push(end);
        }
        self.skip_blanks();
        let is_empty = self.peek() == Some(end);
        self.at += usize::from(is_empty);
        is_empty
    }

    /// The bracket that ends the innermost list or object.
    fn end(&self) -> Option<u8> {
        match (self.deep.last(), self.open.last()) {
            (Some(end), _) => Some(*end),
            (None, Some(Open::List(_))) => Some(b']'),
            (None, Some(Open::Object(..))) => Some(b'}'),
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

    /// A name and its colon.
    fn key(&mut self) -> Result<(), NoJson> {
        if self.peek() != Some(b'"') {
            return Err(self.wrong("no name of a member"));
        }
        let name = self.string()?;
        self.skip_blanks();
        if self.peek() != Some(b':') {
            return Err(self.wrong("no colon behind a name"));
        }
        self.at += 1;
        if let (Some(Open::Object(members, key)), true) =
            (self.open.last_mut(), self.deep.is_empty())
        {
            let is_known = members.contains_key(&name);
            *key = name;
            if is_known {
                self.odd(Odd::DuplicateKey);
            }
        }
        Ok(())
    }

    fn odd(&mut self, kind: Odd) {
        if self.oddities.len() < KEPT {
            let pointer = self.pointer();
            self.oddities.push(Oddity { pointer, kind });
        }
    }

    /// Where we are.
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

    // --- the rest ----------------------------------------------------------------------------

    fn word(&mut self) -> Result<Value, NoJson> {
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
        Err(self.wrong("no value"))
    }

    fn number(&mut self) -> Result<Value, NoJson> {
        let start = self.at;
        self.at += usize::from(self.peek() == Some(b'-'));
        let whole = self.digits()?;
        if whole.len() > 1 && whole.starts_with('0') {
            return Err(self.wrong("a number with a zero in front"));
        }
        let digits = whole.parse::<u64>();
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
        // So that it is the same number as everywhere else here.
        let token = self.text.get(start..self.at).unwrap_or_default();
        let number = serde_json::from_str(token);
        if is_integer && digits.is_ok_and(|digits| digits <= SAFE) {
            is_integer = false;
        }
        if is_integer {
            self.odd(Odd::BigInteger);
        }
        number.map_err(|_| self.wrong("a number that is too large"))
    }

    fn digits(&mut self) -> Result<&'a str, NoJson> {
        let start = self.at;
        let count = self.rest().iter().take_while(|b| b.is_ascii_digit());
        self.at += count.count();
        match self.text.get(start..self.at) {
            Some(digits) if !digits.is_empty() => Ok(digits),
            _ => Err(self.wrong("no digit")),
        }
    }

    fn string(&mut self) -> Result<String, NoJson> {
        self.at += 1;
        let mut out = String::new();
        let mut is_whole = true;
        loop {
            let Some(length) = memchr2(b'"', b'\\', self.rest()) else {
                self.at = self.text.len();
                return Err(self.wrong("the end within a text"));
            };
            let piece = self.text.get(self.at..self.at + length).unwrap_or_default();
            if let Some(control) = piece.bytes().position(|byte| byte < b' ') {
                self.at += control;
                return Err(self.wrong("a control character in a text"));
            }
            out.push_str(piece);
            self.at += length + 1;
            if self.text.as_bytes().get(self.at - 1) == Some(&b'"') {
                break;
            }
            let character = self.escaped()?;
            is_whole &= character.is_some();
            out.push(character.unwrap_or(REPLACEMENT));
        }
        if !is_whole {
            self.odd(Odd::LoneSurrogate);
        }
        Ok(out)
    }

    /// What stands behind a backslash; `None` is half a pair.
    fn escaped(&mut self) -> Result<Option<char>, NoJson> {
        let character = match self.peek() {
            Some(byte @ (b'"' | b'\\' | b'/')) => char::from(byte),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at += 1;
                return self.unit();
            }
            _ => return Err(self.wrong("no escape sequence")),
        };
        self.at += 1;
        Ok(Some(character))
    }

    /// Four digits, and four more where they are the first half of a pair.
    fn unit(&mut self) -> Result<Option<char>, NoJson> {
        let first = self.four_digits()?;
        if !(0xd800..0xdc00).contains(&first) {
            // The second half alone is no character.
            return Ok(char::from_u32(first));
        }
        let start = self.at;
        if self.rest().starts_with(b"\\u") {
            self.at += 2;
            let second = self.four_digits()?;
            if (0xdc00..0xe000).contains(&second) {
                let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                return Ok(char::from_u32(code));
            }
            // It is a character of its own, or half of one.
            self.at = start;
        }
        Ok(None)
    }

    fn four_digits(&mut self) -> Result<u32, NoJson> {
        let digits = self.text.get(self.at..self.at + 4);
        let digits = digits.filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
        let code = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let code = code.ok_or_else(|| self.wrong("no four digits of a character"))?;
        self.at += 4;
        Ok(code)
    }
}
