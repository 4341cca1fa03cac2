//! Makes untrusted text safe for a terminal, a log or a model.

use std::borrow::Cow;

/// Whether a character is invisible or controls a terminal: control characters, direction marks,
/// zero-width and tag characters, noncharacters.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}'
            | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
        || u32::from(c) & 0xfffe == 0xfffe
}

/// Escape for a hidden character: `\n`, `\t`, `\u{1b}`.
pub fn escape_char(c: char) -> std::char::EscapeDefault {
    c.escape_default()
}

/// Converts text to one line that is safe to print. Hidden characters become escapes.
pub fn escape_line(text: &str) -> Cow<'_, str> {
    escape(text, is_hidden)
}

/// Like `escape_line`, but keeps line breaks.
pub fn escape_lines(text: &str) -> Cow<'_, str> {
    escape(text, |c| c != '\n' && is_hidden(c))
}

fn escape(text: &str, hidden: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&hidden) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if hidden(c) {
            out.extend(escape_char(c));
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// Converts an agent's output for a terminal. Line breaks, tabs and the joiners in emoji stay.
/// Other hidden characters become escapes.
pub fn escape_output(text: &str) -> Cow<'_, str> {
    escape(text, |c| {
        is_hidden(c) && !matches!(c, '\n' | '\t' | '\u{200d}' | '\u{fe0f}')
    })
}

/// Replaces hidden characters in JSON text by `\u` escapes. Outside strings, JSON has no hidden
/// characters except line breaks, so the serialized text can be processed as a whole.
pub fn escape_json(json: &str) -> Cow<'_, str> {
    let hidden = |c: char| c != '\n' && is_hidden(c);
    if !json.contains(hidden) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if hidden(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// Formats a JSON value on several lines, with hidden characters as escapes.
pub fn pretty(value: &serde_json::Value) -> std::io::Result<String> {
    let text = serde_json::to_string_pretty(value)?;
    Ok(escape_json(&text).into_owned())
}

/// A number with its noun, such as "1 file" or "2 files".
pub fn count(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

/// Shortens text to at most `max` characters, with `...` at the end if something was cut off.
pub fn clip(text: &str, max: usize) -> Cow<'_, str> {
    match text.char_indices().nth(max) {
        None => Cow::Borrowed(text),
        Some(_) => {
            let keep = max.saturating_sub(3);
            let end = text.char_indices().nth(keep).map_or(0, |(i, _)| i);
            Cow::Owned(format!("{}...", text.get(..end).unwrap_or("")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_shown() {
        assert_eq!(escape_line("a\u{1b}[31mb\r\n\tc"), r"a\u{1b}[31mb\r\n\tc");
        assert_eq!(
            escape_line("\u{202e}x\u{9b}\u{7f}"),
            r"\u{202e}x\u{9b}\u{7f}"
        );
        assert_eq!(escape_lines("a\nb\r"), "a\nb\\r");
        assert!(matches!(escape_line("näïve 日本 🦀"), Cow::Borrowed(_)));
    }

    #[test]
    fn json_stays_the_same_value() {
        let value = serde_json::json!({"a": "x\u{7f}\u{9b}\u{202e}\u{e0041}\u{1b}"});
        let text = pretty(&value).expect("serializes");
        assert!(!text.contains(|c| c != '\n' && is_hidden(c)), "{text}");
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&text).expect("parses"),
            value
        );
    }

    #[test]
    fn clipping_counts_characters() {
        assert_eq!(clip("日本語日本語", 6), "日本語日本語");
        assert_eq!(clip("日本語日本語日", 6), "日本語...");
        assert_eq!(clip("abc", 1), "...");
    }
}
