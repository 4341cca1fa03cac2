//! One line of machine mode, read as JSON to the letter.

use agentproto_text::strict_json::{NoJson, Options, Problem, Strict, Within, read_with};

/// What other rules judge (UTF-8) or leave open (the size of a number) is read.
const OPTIONS: Options = Options {
    largest_integer: 1 << 53,
    allows_any_bytes: true,
    allows_any_number: true,
    refuses_deep: true,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// From 0, in bytes.
    pub offset: usize,
    pub problem: Problem,
}

/// Reads one value that fills the text.
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
    pub fn words(&self) -> &'static str {
        match self.problem {
            Problem::NotUtf8 | Problem::NoValue => "no value begins so",
            Problem::EndBeforeValue => "it ends before its value does",
            Problem::NotFinite | Problem::MinusInfinity => "NaN and Infinity are no JSON",
            Problem::MoreAfterValue => "something follows the value",
            Problem::TooDeep => "it is nested more than 128 deep",
            Problem::NoComma(Within::List) | Problem::EndWithin(Within::List) => {
                "a comma or a closing bracket was expected"
            }
            Problem::NoComma(Within::Object) | Problem::EndWithin(Within::Object) => {
                "a comma or a closing brace was expected"
            }
            Problem::NoName => "a name in quotes was expected",
            Problem::NoColon => "a colon was expected",
            Problem::NoDigit => "a digit was expected",
            Problem::LeadingZero => "a number begins with a zero",
            Problem::NumberTooLarge => "a number is too large",
            Problem::EndWithinText | Problem::EndWithinEscape => "a text has no closing quote",
            Problem::ControlCharacter => "a control character stands in a text",
            Problem::NoEscape => "there is no such escape",
            Problem::NoFourDigits => "four digits were expected after \\u",
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
    fn plain_json_has_nothing_to_note() {
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
            assert_eq!(fault.offset, offset, "{text}: {}", fault.words());
        }
        let deep = "[".repeat(100_000);
        assert_eq!(read(deep.as_bytes()).expect_err("deep").offset, 129);
        let fits = format!("{}{}", "[".repeat(128), "]".repeat(128));
        assert!(read(fits.as_bytes()).is_ok());
    }

    #[test]
    fn what_others_repair_is_noted() {
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
