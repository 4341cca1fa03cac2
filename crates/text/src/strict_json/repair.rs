//! Repairs JSON with lone surrogates, which agents write when they cut a text inside a surrogate
//! pair. A Rust string cannot contain them.

use std::borrow::Cow;

use memchr::memchr;
use serde::de::DeserializeOwned;

/// Parses one line. Each lone surrogate becomes a replacement character, so that the rest of the
/// line is kept.
pub fn read_repaired<T: DeserializeOwned>(line: &[u8]) -> serde_json::Result<T> {
    serde_json::from_slice(line).or_else(|error| match replace_lone_surrogates(line) {
        Cow::Borrowed(_) => Err(error),
        Cow::Owned(repaired) => serde_json::from_slice(&repaired),
    })
}

/// Replaces lone surrogates in a line by U+FFFD.
pub fn replace_lone_surrogates(line: &[u8]) -> Cow<'_, [u8]> {
    let mut out = Cow::Borrowed(line);
    let mut at = 0;
    while let Some(found) = line.get(at..).and_then(|rest| memchr(b'\\', rest)) {
        let here = at + found;
        let unit = code_unit(line, here);
        at = here + if unit.is_some() { 6 } else { 2 };
        match unit {
            Some(0xD800..=0xDBFF) if matches!(code_unit(line, at), Some(0xDC00..=0xDFFF)) => {
                at += 6;
            }
            Some(0xD800..=0xDFFF) => {
                if let Some(hex) = out.to_mut().get_mut(here + 2..here + 6) {
                    hex.copy_from_slice(b"fffd");
                }
            }
            _ => {}
        }
    }
    out
}

/// The code unit of the escape `\uXXXX` at offset `at`.
pub(super) fn code_unit(line: &[u8], at: usize) -> Option<u16> {
    let hex = line.get(at..at.checked_add(6)?)?.strip_prefix(b"\\u")?;
    let hex = Some(hex).filter(|hex| hex.iter().all(u8::is_ascii_hexdigit))?;
    u16::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(line: &str) -> Option<String> {
        read_repaired(line.as_bytes()).ok()
    }

    #[test]
    fn lone_surrogates_are_replaced() {
        assert_eq!(text(r#""a \ud83d b""#).as_deref(), Some("a \u{fffd} b"));
        assert_eq!(text(r#""\uDE00x""#).as_deref(), Some("\u{fffd}x"));
        assert_eq!(
            text(r#""\ud83d\ud83d\ude00""#).as_deref(),
            Some("\u{fffd}😀")
        );
        assert_eq!(
            text(r#""\\ud83d \ud83d""#).as_deref(),
            Some("\\ud83d \u{fffd}")
        );
    }

    #[test]
    fn lines_without_lone_surrogates_are_unchanged() {
        for line in [
            r#""\ud83d\ude00 \u00e9 \n""#,
            r#"{"a": [1, "\\"]}"#,
            r#""\ud83"#,
            "\\u",
            "",
        ] {
            let repaired = replace_lone_surrogates(line.as_bytes());
            assert!(matches!(repaired, Cow::Borrowed(_)), "{line}");
        }
        assert_eq!(text(r#""\ud83"#), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_handled(line in proptest::collection::vec(any::<u8>(), 0..80), cut in r#"(\\u[dD][89a-fA-F][0-9a-f]{1,2}|\\|[a-z"]){0,12}"#) {
            replace_lone_surrogates(&line);
            replace_lone_surrogates(cut.as_bytes());
            let _ = read_repaired::<serde_json::Value>(cut.as_bytes());
        }
    }
}
