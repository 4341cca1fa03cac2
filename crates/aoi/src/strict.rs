//! JSON by the letter: what a lenient reader repairs in silence is told here.

use std::collections::HashSet;

/// Deeper nesting is no event that a caller could be asked to read.
pub const DEEPEST: usize = 128;
/// The largest integer that every reader of JSON keeps exact.
const EXACT: u64 = 1 << 53;

/// What a value that is JSON has in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// A name that an object has twice.
    pub duplicate: Option<String>,
    /// A half of a surrogate pair without its other half.
    pub lone_surrogate: bool,
    pub big_integer: Option<String>,
    /// An escape sequence for a terminal, written as `\u001b`.
    pub escape_code: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// From 0, in bytes.
    pub offset: usize,
    pub what: &'static str,
}

/// Reads one value that fills the text.
pub fn read(text: &[u8]) -> Result<Notes, Fault> {
    let mut reader = Reader {
        text,
        at: 0,
        notes: Notes::default(),
    };
    reader.space();
    reader.value(0)?;
    reader.space();
    match reader.peek() {
        None => Ok(reader.notes),
        Some(_) => Err(reader.fault("something follows the value")),
    }
}

struct Reader<'t> {
    text: &'t [u8],
    at: usize,
    notes: Notes,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn fault(&self, what: &'static str) -> Fault {
        Fault {
            offset: self.at,
            what,
        }
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn word(&mut self, word: &str) -> bool {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let fits = rest.starts_with(word.as_bytes());
        if fits {
            self.at += word.len();
        }
        fits
    }

    fn value(&mut self, depth: usize) -> Result<(), Fault> {
        if depth > DEEPEST {
            return Err(self.fault("it is nested more than 128 deep"));
        }
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => self.string().map(drop),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b'N' | b'I') => Err(self.fault("NaN and Infinity are no JSON")),
            Some(_) if ["true", "false", "null"].iter().any(|w| self.word(w)) => Ok(()),
            Some(_) => Err(self.fault("no value begins so")),
            None => Err(self.fault("it ends before its value does")),
        }
    }

    fn object(&mut self, depth: usize) -> Result<(), Fault> {
        let mut names = HashSet::new();
        self.at += 1;
        self.space();
        if self.word("}") {
            return Ok(());
        }
        loop {
            if self.peek() != Some(b'"') {
                return Err(self.fault("a name in quotes was expected"));
            }
            let name = self.string()?;
            if !names.insert(name.clone()) {
                let name = String::from_utf8_lossy(&name).into_owned();
                self.notes.duplicate.get_or_insert(name);
            }
            self.space();
            if !self.word(":") {
                return Err(self.fault("a colon was expected"));
            }
            self.space();
            self.value(depth + 1)?;
            self.space();
            if self.word("}") {
                return Ok(());
            }
            if !self.word(",") {
                return Err(self.fault("a comma or a closing brace was expected"));
            }
            self.space();
        }
    }

    fn array(&mut self, depth: usize) -> Result<(), Fault> {
        self.at += 1;
        self.space();
        if self.word("]") {
            return Ok(());
        }
        loop {
            self.value(depth + 1)?;
            self.space();
            if self.word("]") {
                return Ok(());
            }
            if !self.word(",") {
                return Err(self.fault("a comma or a closing bracket was expected"));
            }
            self.space();
        }
    }

    /// What it says, as UTF-8; a lone surrogate is kept as three bytes.
    fn string(&mut self) -> Result<Vec<u8>, Fault> {
        let mut said = Vec::new();
        self.at += 1;
        loop {
            match self.peek() {
                None => return Err(self.fault("a text has no closing quote")),
                Some(b'"') => {
                    self.at += 1;
                    return Ok(said);
                }
                Some(b'\\') => self.escape(&mut said)?,
                Some(byte) if byte < 0x20 => {
                    return Err(self.fault("a control character stands in a text"));
                }
                Some(byte) => {
                    said.push(byte);
                    self.at += 1;
                }
            }
        }
    }

    fn escape(&mut self, said: &mut Vec<u8>) -> Result<(), Fault> {
        let Some(kind) = self.text.get(self.at + 1).copied() else {
            return Err(self.fault("a text has no closing quote"));
        };
        let plain = match kind {
            b'"' | b'\\' | b'/' => kind,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => return self.unicode(said),
            _ => return Err(self.fault("there is no such escape")),
        };
        said.push(plain);
        self.at += 2;
        Ok(())
    }

    fn unicode(&mut self, said: &mut Vec<u8>) -> Result<(), Fault> {
        let first = self.unit()?;
        let mut code = first;
        if (0xd800..0xdc00).contains(&first) && self.peek() == Some(b'\\') {
            let before = self.at;
            let second = match self.text.get(self.at + 1) {
                Some(b'u') => self.unit()?,
                _ => 0,
            };
            match (0xdc00..0xe000).contains(&second) {
                true => code = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00),
                false => self.at = before,
            }
        }
        let mut buffer = [0; 4];
        match char::from_u32(code) {
            Some(c) => said.extend_from_slice(c.encode_utf8(&mut buffer).as_bytes()),
            None => {
                self.notes.lone_surrogate = true;
                let low = |shift: u32| ((code >> shift) & 0x3f) as u8 | 0x80;
                said.extend_from_slice(&[0xed, low(6), low(0)]);
            }
        }
        let next = self.text.get(self.at);
        self.notes.escape_code |= code == 0x1b && matches!(next, Some(b'[' | b']'));
        Ok(())
    }

    /// The four digits of `\uXXXX`.
    fn unit(&mut self) -> Result<u32, Fault> {
        let digits = self.text.get(self.at + 2..self.at + 6);
        let digits = digits.filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let number = digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u32::from_str_radix(digits, 16).ok())
            .ok_or_else(|| self.fault("four digits were expected after \\u"))?;
        self.at += 6;
        Ok(number)
    }

    fn digits(&mut self) -> Result<(), Fault> {
        let begin = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        match self.at > begin {
            true => Ok(()),
            false => Err(self.fault("a digit was expected")),
        }
    }

    fn number(&mut self) -> Result<(), Fault> {
        let begin = self.at;
        self.word("-");
        if self.word("Infinity") {
            return Err(self.fault("NaN and Infinity are no JSON"));
        }
        if self.word("0") {
            if matches!(self.peek(), Some(b'0'..=b'9')) {
                return Err(self.fault("a number begins with a zero"));
            }
        } else {
            self.digits()?;
        }
        let whole = self.text.get(begin..self.at).unwrap_or_default();
        let mut is_integer = true;
        if self.word(".") {
            is_integer = false;
            self.digits()?;
        }
        if self.word("e") || self.word("E") {
            is_integer = false;
            let _ = self.word("+") || self.word("-");
            self.digits()?;
        }
        if is_integer {
            let text = String::from_utf8_lossy(whole).into_owned();
            let size = text.trim_start_matches('-').parse::<u64>();
            if size.is_ok_and(|size| size > EXACT) || text.len() > 20 {
                let shown: String = text.chars().take(24).collect();
                self.notes.big_integer.get_or_insert(shown);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notes(text: &str) -> Notes {
        read(text.as_bytes()).unwrap_or_else(|fault| panic!("{text}: {fault:?}"))
    }

    #[test]
    fn plain_json_has_nothing_to_note() {
        for text in [
            r#"{"a":1,"b":[true,false,null,-0.5e+3,""],"c":{"a":2}}"#,
            r#" {"a" : "\u0041\ud83d\ude00\n\\" } "#,
            "9007199254740992",
            "\"\u{7f}\"",
        ] {
            assert_eq!(notes(text), Notes::default(), "{text}");
        }
    }

    #[test]
    fn what_is_no_json_is_told_where() {
        for (text, offset) in [
            ("", 0),
            ("{\"a\":NaN}", 5),
            ("{\"a\":-Infinity}", 14),
            ("{\"a\":1,}", 7),
            ("{\"a\":01}", 6),
            ("{'a':1}", 1),
            ("[1 2]", 3),
            ("{} {}", 3),
            ("\"\\x\"", 1),
            ("\"\\u12g4\"", 1),
            ("\"a\u{1b}[0m\"", 2),
            ("tru", 0),
            ("\"", 1),
        ] {
            let fault = read(text.as_bytes()).expect_err(text);
            assert_eq!(fault.offset, offset, "{text}: {}", fault.what);
        }
        let deep = "[".repeat(100_000);
        assert_eq!(read(deep.as_bytes()).expect_err("deep").offset, 129);
        let fits = format!("{}{}", "[".repeat(128), "]".repeat(128));
        assert!(read(fits.as_bytes()).is_ok());
    }

    #[test]
    fn what_others_repair_is_noted() {
        let twice = notes(r#"{"o":{"type":1,"\u0074ype":2}}"#);
        assert_eq!(twice.duplicate.as_deref(), Some("type"));
        assert!(notes(r#""\ud800""#).lone_surrogate);
        assert!(notes(r#""\ud800\u0041""#).lone_surrogate);
        assert!(notes(r#""\udc00""#).lone_surrogate);
        assert!(notes(r#""\u001b[31m""#).escape_code);
        assert!(!notes(r#""\u001b""#).escape_code);
        for big in [
            "9007199254740993",
            "-9007199254740993",
            "123456789012345678901234567890",
        ] {
            assert!(notes(big).big_integer.is_some(), "{big}");
        }
        assert!(notes("1e400").big_integer.is_none());
    }
}
