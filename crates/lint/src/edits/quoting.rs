//! Writes strings as YAML scalars.

use agentproto_manifest::{Style, Value, yaml};

/// Writes a string as a one-line YAML value. It is plain if every YAML reader reads it as this
/// string, both in block and in flow style; otherwise it is quoted.
pub fn string(text: &str) -> String {
    if is_plain_safe(text) {
        text.to_owned()
    } else if text.contains(['"', '\\']) && !text.contains('\'') && !needs_escape(text) {
        single(text)
    } else {
        double(text)
    }
}

/// Same as [`string`], but keeps the quotes of `style` if they can represent the text.
pub(super) fn string_as(style: Style, text: &str) -> String {
    match style {
        Style::SingleQuoted if !needs_escape(text) => single(text),
        Style::SingleQuoted | Style::DoubleQuoted => double(text),
        _ => string(text),
    }
}

fn single(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

pub(super) fn double(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if escaped(c) => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Whether YAML treats a character as non-printable or as a line break.
fn escaped(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}'
        )
}

fn needs_escape(text: &str) -> bool {
    text.chars().any(escaped)
}

fn is_plain_safe(text: &str) -> bool {
    let mut chars = text.chars();
    let (Some(first), second) = (chars.next(), chars.next()) else {
        return false;
    };
    let opens = match first {
        '-' => second.is_some_and(|c| c != ' ') && !text.starts_with("---"),
        '?' | ':' | ',' | '[' | ']' | '{' | '}' | '#' | '&' | '*' | '!' | '|' | '>' | '\''
        | '"' | '%' | '@' | '`' | '=' | '<' | '~' => false,
        _ => true,
    };
    opens
        && text.trim() == text
        && !text.contains([',', '[', ']', '{', '}'])
        && !text.contains(": ")
        && !text.ends_with(':')
        && !text.contains(" #")
        && text != "..."
        && !needs_escape(text)
        && matches!(yaml::resolve_plain(text), Value::Str(_))
        && !yaml::differs_in_yaml11(text)
        && !other_in_yaml11(text)
}

/// Whether YAML 1.1 may read a text as a date, or as a number with a radix, sign, underscore or
/// colon. The test may match too much: unneeded quotes do no harm.
fn other_in_yaml11(text: &str) -> bool {
    let number_like =
        text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.'));
    let unsigned = text.trim_start_matches(['+', '-']);
    let date = unsigned.len() >= 8
        && unsigned.as_bytes().get(4) == Some(&b'-')
        && unsigned.bytes().take(4).all(|b| b.is_ascii_digit());
    let radix =
        unsigned.starts_with("0x") || unsigned.starts_with("0b") || unsigned.starts_with("0o");
    let digits = unsigned
        .bytes()
        .all(|b| b.is_ascii_digit() || matches!(b, b'_' | b'.' | b':' | b'e' | b'E' | b'+' | b'-'))
        && unsigned.bytes().any(|b| b.is_ascii_digit())
        && (unsigned.contains(['_', ':'])
            || unsigned.matches('.').count() < 2 && !unsigned.contains('-'));
    number_like && (date || radix || digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unambiguous_strings_stay_plain() {
        for text in [
            "plain",
            "--flag",
            "1.2.3",
            "a:b",
            "https://x.example/y",
            "./SECRETS.md",
            "über",
            "3.0.1-rc.1",
        ] {
            assert_eq!(string(text), text);
        }
    }

    #[test]
    fn strings_that_yaml_would_read_differently_are_quoted() {
        for text in [
            "",
            " a",
            "a ",
            "no",
            "Off",
            "true",
            "null",
            "~",
            "123",
            "1.5",
            "0777",
            "1_000",
            "12:30",
            "2026-01-02",
            "0b11",
            "=",
            "<<",
            "a: b",
            "a #b",
            "a:",
            "# a",
            "- a",
            "---",
            "[a]",
            "a, b",
            "@a/b",
            "*",
            "&a",
            "!x",
            "a\nb",
            "\u{feff}a",
            ".5",
            "+1",
        ] {
            assert!(
                string(text).starts_with(['"', '\'']),
                "{text:?} → {}",
                string(text)
            );
        }
        assert_eq!(string(r"^a\d+$"), r"^a\d+$");
        assert_eq!(string(r"^[a]\d+$"), r"'^[a]\d+$'");
        assert_eq!(string("it's [x]"), "\"it's [x]\"");
    }
}
