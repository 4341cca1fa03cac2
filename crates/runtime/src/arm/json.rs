//! JSON as agents really write it.

use std::borrow::Cow;

use serde::Deserialize;

/// Reads one line. A program that cuts its text anywhere writes halves of surrogate pairs,
/// which no Rust string can hold: each becomes a replacement character, and the rest of the
/// line is not lost.
pub fn read<T: for<'l> Deserialize<'l>>(line: &[u8]) -> serde_json::Result<T> {
    serde_json::from_slice(line).or_else(|error| match mend(line) {
        Cow::Borrowed(_) => Err(error),
        Cow::Owned(mended) => serde_json::from_slice(&mended),
    })
}

/// The line with lone surrogates replaced.
pub fn mend(line: &[u8]) -> Cow<'_, [u8]> {
    let mut out = Cow::Borrowed(line);
    let mut at = 0;
    while let Some(found) = line.get(at..).and_then(|rest| memchr::memchr(b'\\', rest)) {
        let here = at + found;
        let unit = escape(line, here);
        at = here + if unit.is_some() { 6 } else { 2 };
        match unit {
            Some(0xD800..=0xDBFF) if matches!(escape(line, at), Some(0xDC00..=0xDFFF)) => at += 6,
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

/// The code unit of an escape `\uXXXX` that begins here.
fn escape(line: &[u8], at: usize) -> Option<u16> {
    let hex = line.get(at..at.checked_add(6)?)?.strip_prefix(b"\\u")?;
    u16::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()
}

/// Any JSON, made of the words that arms look for.
#[cfg(test)]
pub fn any_value() -> impl proptest::strategy::Strategy<Value = serde_json::Value> {
    use proptest::prelude::*;
    use serde_json::Value;
    const WORDS: &str = "type|kind|event|msg|update|data|delta|text|message|content|thinking|id|call_id|name|tool|args|arguments|result|output|is_error|isError|exit_code|status|level|info|assistant|user|system|init|stream_event|content_block_delta|text_delta|thinking_delta|tool_use|tool_result|agent_message|agent_reasoning|exec_command_begin|exec_command_end|init|error|severity|success|session_id|parent_tool_use_id|subtype|requestedSchema|properties|required|enum|oneOf|const|default|url|boolean|string|role|tool_id|tool_name|parameters|invocation|structuredContent|stop_reason|end_turn|turnId|reason|é";
    let words: Vec<&str> = WORDS.split('|').collect();
    let word = proptest::sample::select(words);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        word.clone().prop_map(Value::from),
        ".{0,5}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 60, 6, move |inner| {
        let entries = proptest::collection::vec((word.clone(), inner.clone()), 0..6);
        prop_oneof![
            proptest::collection::vec(inner, 0..4).prop_map(Value::from),
            entries.prop_map(|list| {
                let map = list.into_iter().map(|(k, v)| (k.to_owned(), v));
                Value::Object(map.collect())
            }),
        ]
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(line: &str) -> Option<String> {
        read(line.as_bytes()).ok()
    }

    #[test]
    fn halves_of_pairs_do_not_lose_the_line() {
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
    fn whole_lines_are_not_touched() {
        for line in [
            r#""\ud83d\ude00 \u00e9 \n""#,
            r#"{"a": [1, "\\"]}"#,
            r#""\ud83"#,
            "\\u",
            "",
        ] {
            assert!(matches!(mend(line.as_bytes()), Cow::Borrowed(_)), "{line}");
        }
        assert_eq!(text(r#""\ud83"#), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(line in proptest::collection::vec(any::<u8>(), 0..80), cut in r#"(\\u[dD][89a-fA-F][0-9a-f]{1,2}|\\|[a-z"]){0,12}"#) {
            mend(&line);
            mend(cut.as_bytes());
            let _ = read::<serde_json::Value>(cut.as_bytes());
        }
    }
}
