//! Classifies a line that is not JSON, for the message.

use crate::stack_trace;

/// What the line looks like. `None` if it looks like invalid JSON.
pub fn kind(line: &[u8]) -> Option<&'static str> {
    let text = String::from_utf8_lossy(line);
    let plain = text.trim();
    if stack_trace::find(line).is_some() {
        return Some("a stack trace");
    }
    if plain.starts_with(['{', '[', '"', '}', ']']) && !is_log(plain) {
        return None;
    }
    if plain.starts_with('#') || plain.starts_with("```") {
        return Some("a markdown heading");
    }
    let lower = plain.to_ascii_lowercase();
    if text.contains('\r') || plain.contains('%') && plain.contains(['█', '#', '=', '▏']) {
        return Some("a progress bar");
    }
    if lower.starts_with("warn") || lower.contains("warning:") {
        return Some("a plain-text warning");
    }
    if plain.starts_with(['=', '*', '-', '+', '|', '─', '┌', '│', '╔']) {
        return Some("a banner or a table");
    }
    Some("prose")
}

/// Whether the line is a log message such as `[info] started`, not an array.
fn is_log(text: &str) -> bool {
    let Some(inner) = text.strip_prefix('[').map(str::trim_start) else {
        return false;
    };
    let begins = |words: &[&str]| words.iter().any(|word| inner.starts_with(word));
    let is_value = inner.starts_with(|c: char| c.is_ascii_digit() || "{[\"-]".contains(c))
        || begins(&["true", "false", "null", "NaN", "Infinity"]);
    !inner.is_empty() && !is_value
}

/// The first 60 characters, escaped.
pub fn excerpt(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let cut: String = text.chars().take(60).collect();
    format!("{cut:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_classified_by_their_look() {
        for (line, expected) in [
            ("Searching for agents...", Some("prose")),
            ("# Results", Some("a markdown heading")),
            ("\r 50%", Some("a progress bar")),
            ("[####    ] 50%", Some("a progress bar")),
            ("WARNING: cache is old", Some("a plain-text warning")),
            ("==== mytool 1.0 ====", Some("a banner or a table")),
            ("Traceback (most recent call last):", Some("a stack trace")),
            ("[Debug] started", Some("prose")),
            ("[info] started", Some("prose")),
            ("{\"type\":\"hit\",", None),
            ("[1, 2", None),
            ("{'type': 'hit'}", None),
        ] {
            let found = kind(line.as_bytes());
            assert_eq!(found, expected, "{line}");
        }
    }
}
