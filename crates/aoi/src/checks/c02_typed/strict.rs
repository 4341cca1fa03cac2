//! Parses one line of machine mode as strict JSON.

use agentproto_text::strict_json::{NoJson, Options, Problem, Strict, Within, read_with};

/// Accepts what other rules check (UTF-8, the size of numbers).
const OPTIONS: Options = Options {
    largest_integer: 1 << 53,
    allows_any_bytes: true,
    allows_any_number: true,
    refuses_deep: true,
};

/// A syntax error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Byte offset of the error, from 0.
    pub offset: usize,
    pub problem: Problem,
}

/// Parses the text as one JSON value.
pub fn read(text: &[u8]) -> Result<Strict, Fault> {
    read_with(text, OPTIONS).map_err(|NoJson { from, what, .. }| Fault {
        offset: match what {
            Problem::MinusInfinity => from + "Infinity".len(),
            _ => from,
        },
        problem: what,
    })
}

impl Fault {
    /// Description for messages.
    pub fn words(&self) -> &'static str {
        match self.problem {
            Problem::NotUtf8 | Problem::NoValue => "expected a value",
            Problem::EndBeforeValue => "the value is incomplete",
            Problem::NotFinite | Problem::MinusInfinity => "NaN and Infinity are not valid JSON",
            Problem::MoreAfterValue => "unexpected characters after the value",
            Problem::TooDeep => "more than 128 levels of nesting",
            Problem::NoComma(Within::List) | Problem::EndWithin(Within::List) => {
                "expected a comma or a closing bracket"
            }
            Problem::NoComma(Within::Object) | Problem::EndWithin(Within::Object) => {
                "expected a comma or a closing brace"
            }
            Problem::NoName => "expected a key in double quotes",
            Problem::NoColon => "expected a colon",
            Problem::NoDigit => "expected a digit",
            Problem::LeadingZero => "a number has a leading zero",
            Problem::NumberTooLarge => "a number is too large",
            Problem::EndWithinText | Problem::EndWithinEscape => "a string has no closing quote",
            Problem::ControlCharacter => "a string contains a control character",
            Problem::NoEscape => "unknown escape sequence",
            Problem::NoFourDigits => "expected four hexadecimal digits after \\u",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use agentproto_text::strict_json::Odd;

    fn notes(text: &str) -> Strict {
        read(text.as_bytes()).unwrap_or_else(|fault| panic!("{text}: {fault:?}"))
    }

    #[test]
    fn plain_json_has_no_oddities() {
        for text in [
            r#"{"a":1,"b":[true,false,null,-0.5e+3,""],"c":{"a":2}}"#,
            r#" {"a" : "\u0041\ud83d\ude00\n\\" } "#,
            "9007199254740992",
            "\"\u{7f}\"",
        ] {
            let notes = notes(text);
            assert_eq!(notes.oddities, [], "{text}");
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
            let fault = read(text.as_bytes()).expect_err(text);
            assert_eq!(fault.offset, offset, "{text}: {}", fault.words());
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
        let twice = twice.first(Odd::DuplicateKey).map(|odd| odd.text.as_str());
        assert_eq!(twice, Some("type"));
        assert!(has(r#""\ud800""#, Odd::LoneSurrogate));
        assert!(has(r#""\ud800\u0041""#, Odd::LoneSurrogate));
        assert!(has(r#""\udc00""#, Odd::LoneSurrogate));
        assert!(notes(r#""\u001b[31m""#).has_terminal_code);
        assert!(!notes(r#""\u001b""#).has_terminal_code);
        for big in [
            "9007199254740993",
            "-9007199254740993",
            "18446744073709551616",
            "123456789012345678901234567890",
        ] {
            assert!(has(big, Odd::BigInteger), "{big}");
        }
        assert!(!has("1e400", Odd::BigInteger));
        assert!(read(b"\"\xff\"").is_ok());
    }
}
