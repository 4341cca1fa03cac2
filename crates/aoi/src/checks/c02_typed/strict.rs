//! Parses one line of machine mode as strict JSON.

use agentproto_text::strict_json::{
    Container, JsonError, JsonErrorKind, ParseOptions, ParsedJson, read_with,
};

/// Accepts what other rules check (UTF-8, the size of numbers).
const OPTIONS: ParseOptions = ParseOptions {
    largest_integer: 1 << 53,
    allows_any_bytes: true,
    allows_any_number: true,
    rejects_deep: true,
};

/// A syntax error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// Byte offset of the error, from 0.
    pub offset: usize,
    pub problem: JsonErrorKind,
}

/// Parses the text as one JSON value.
pub fn read(text: &[u8]) -> Result<ParsedJson, SyntaxError> {
    read_with(text, OPTIONS).map_err(|JsonError { from, what, .. }| SyntaxError {
        offset: match what {
            JsonErrorKind::MinusInfinity => from + "Infinity".len(),
            _ => from,
        },
        problem: what,
    })
}

impl SyntaxError {
    /// Description for messages.
    pub fn describe(&self) -> &'static str {
        match self.problem {
            JsonErrorKind::NotUtf8 | JsonErrorKind::NoValue => "expected a value",
            JsonErrorKind::EndBeforeValue => "the value is incomplete",
            JsonErrorKind::NotFinite | JsonErrorKind::MinusInfinity => {
                "NaN and Infinity are not valid JSON"
            }
            JsonErrorKind::MoreAfterValue => "unexpected characters after the value",
            JsonErrorKind::TooDeep => "more than 128 levels of nesting",
            JsonErrorKind::NoComma(Container::List)
            | JsonErrorKind::EndInContainer(Container::List) => {
                "expected a comma or a closing bracket"
            }
            JsonErrorKind::NoComma(Container::Object)
            | JsonErrorKind::EndInContainer(Container::Object) => {
                "expected a comma or a closing brace"
            }
            JsonErrorKind::NoName => "expected a key in double quotes",
            JsonErrorKind::NoColon => "expected a colon",
            JsonErrorKind::NoDigit => "expected a digit",
            JsonErrorKind::LeadingZero => "a number has a leading zero",
            JsonErrorKind::NumberTooLarge => "a number is too large",
            JsonErrorKind::EndInString | JsonErrorKind::EndInEscape => {
                "a string has no closing quote"
            }
            JsonErrorKind::ControlCharacter => "a string contains a control character",
            JsonErrorKind::NoEscape => "unknown escape sequence",
            JsonErrorKind::NoFourDigits => "expected four hexadecimal digits after \\u",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use agentproto_text::strict_json::JsonQuirkKind;

    fn notes(text: &str) -> ParsedJson {
        read(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error:?}"))
    }

    #[test]
    fn plain_json_has_no_quirks() {
        for text in [
            r#"{"a":1,"b":[true,false,null,-0.5e+3,""],"c":{"a":2}}"#,
            r#" {"a" : "\u0041\ud83d\ude00\n\\" } "#,
            "9007199254740992",
            "\"\u{7f}\"",
        ] {
            let notes = notes(text);
            assert_eq!(notes.quirks, [], "{text}");
            assert!(!notes.has_terminal_code, "{text}");
        }
    }

    #[test]
    fn syntax_errors_have_an_offset() {
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
            let error = read(text.as_bytes()).expect_err(text);
            assert_eq!(error.offset, offset, "{text}: {}", error.describe());
        }
        let deep = "[".repeat(100_000);
        assert_eq!(read(deep.as_bytes()).expect_err("deep").offset, 129);
        let fits = format!("{}{}", "[".repeat(128), "]".repeat(128));
        assert!(read(fits.as_bytes()).is_ok());
    }

    #[test]
    fn ambiguous_json_is_noted() {
        let has = |text: &str, kind| notes(text).first(kind).is_some();
        let twice = notes(r#"{"o":{"type":1,"\u0074ype":2}}"#);
        let twice = twice
            .first(JsonQuirkKind::DuplicateKey)
            .map(|quirk| quirk.text.as_str());
        assert_eq!(twice, Some("type"));
        assert!(has(r#""\ud800""#, JsonQuirkKind::LoneSurrogate));
        assert!(has(r#""\ud800\u0041""#, JsonQuirkKind::LoneSurrogate));
        assert!(has(r#""\udc00""#, JsonQuirkKind::LoneSurrogate));
        assert!(notes(r#""\u001b[31m""#).has_terminal_code);
        assert!(!notes(r#""\u001b""#).has_terminal_code);
        for big in [
            "9007199254740993",
            "-9007199254740993",
            "18446744073709551616",
            "123456789012345678901234567890",
        ] {
            assert!(has(big, JsonQuirkKind::BigInteger), "{big}");
        }
        assert!(!has("1e400", JsonQuirkKind::BigInteger));
        assert!(read(b"\"\xff\"").is_ok());
    }
}
