//! Recognizes stack traces of common languages.

/// Number of bytes that are searched for a trace.
const MAX_SEARCHED_BYTES: usize = 256 << 10;

/// A stack trace that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackTrace {
    /// Language that prints such traces.
    pub language: &'static str,
    /// The line that identifies the trace, truncated to 160 characters.
    pub line: String,
}

/// Finds the first line that only occurs in stack traces.
pub fn find(output: &[u8]) -> Option<StackTrace> {
    let text = String::from_utf8_lossy(output.get(..MAX_SEARCHED_BYTES).unwrap_or(output));
    text.lines().find_map(|line| {
        let language = language(line)?;
        let line = line.trim().chars().take(160).collect();
        Some(StackTrace { language, line })
    })
}

fn language(line: &str) -> Option<&'static str> {
    let bare = line.trim_start();
    let is_frame = bare.len() < line.len() && bare.starts_with("at ");
    if bare.starts_with("Traceback (most recent call last)")
        || bare.starts_with("Exception ignored in: <_io")
    {
        return Some("Python");
    }
    if bare.starts_with("thread '") && bare.contains("panicked at ") {
        return Some("Rust");
    }
    if is_goroutine(bare) || bare.starts_with("panic: runtime error") {
        return Some("Go");
    }
    if bare.contains("Unhandled 'error' event") || bare.contains("UnhandledPromiseRejection") {
        return Some("JavaScript");
    }
    if bare.starts_with("Exception in thread \"") || (is_frame && is_java(bare)) {
        return Some("Java");
    }
    if bare.starts_with("Unhandled exception. ") || (is_frame && bare.contains(":line ")) {
        return Some(".NET");
    }
    if is_frame && ends_with_position(bare) {
        return Some("JavaScript");
    }
    if is_ruby(bare) {
        return Some("Ruby");
    }
    if bare.starts_with("PHP Fatal error:  Uncaught") {
        return Some("PHP");
    }
    let sanitizer = bare.starts_with("==") && bare.contains("==ERROR: AddressSanitizer");
    sanitizer.then_some("a sanitizer")
}

/// `goroutine 1 [running]:`
fn is_goroutine(line: &str) -> bool {
    let Some(rest) = line.strip_prefix("goroutine ") else {
        return false;
    };
    let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    rest.starts_with(" [")
}

/// `at org.example.Main.run(Main.java:12)`
fn is_java(line: &str) -> bool {
    [
        ".java:",
        ".kt:",
        ".scala:",
        "(Native Method)",
        "(Unknown Source)",
    ]
    .iter()
    .any(|mark| line.contains(mark))
        && line.trim_end().ends_with(')')
}

/// `at main (file.js:12:34)`
fn ends_with_position(line: &str) -> bool {
    let line = line.trim_end().trim_end_matches(')');
    let mut parts = line.rsplitn(3, ':');
    let number = |part: Option<&str>| {
        part.is_some_and(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
    };
    number(parts.next()) && number(parts.next()) && parts.next().is_some()
}

/// `tool.rb:12:in 'write': Broken pipe`
fn is_ruby(line: &str) -> bool {
    let line = line.strip_prefix("from ").unwrap_or(line);
    let Some((_, rest)) = line.split_once(".rb:") else {
        return false;
    };
    let digits = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    digits.len() < rest.len() && digits.starts_with(":in ")
}

/// Finds a line that mentions a broken pipe.
pub fn broken_pipe(output: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(output.get(..MAX_SEARCHED_BYTES).unwrap_or(output));
    let line = text.lines().find(|line| {
        let line = line.to_ascii_lowercase();
        line.contains("broken pipe") || line.contains("epipe") || line.contains("os error 32")
    })?;
    Some(line.trim().chars().take(160).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stack_traces_of_common_languages_are_found() {
        for (language, text) in [
            (
                "Python",
                "Traceback (most recent call last):\n  File \"t.py\", line 1",
            ),
            (
                "Rust",
                "thread 'main' panicked at src/main.rs:3:5:\nfailed printing",
            ),
            (
                "Rust",
                "thread 'main' (123) panicked at library/std/src/io/stdio.rs:1165:9:",
            ),
            ("Go", "goroutine 12 [running]:\nmain.main()"),
            (
                "JavaScript",
                "Error: write EPIPE\n    at afterWriteDispatched (node:internal/stream_base_commons:161:15)",
            ),
            ("JavaScript", "      throw er; // Unhandled 'error' event"),
            ("Java", "\tat org.example.Main.run(Main.java:12)"),
            (
                ".NET",
                "   at Tool.Main(String[] args) in /src/Program.cs:line 12",
            ),
            (
                "Ruby",
                "tool.rb:3:in 'IO#write': Broken pipe (Errno::EPIPE)",
            ),
            (
                "a sanitizer",
                "==12==ERROR: AddressSanitizer: heap-use-after-free",
            ),
        ] {
            let found = find(text.as_bytes()).map(|trace| trace.language);
            assert_eq!(found, Some(language), "{text}");
        }
    }

    #[test]
    fn ordinary_messages_are_not_traces() {
        for text in [
            "usage: tool [--limit N]",
            "error: unknown flag at position 3",
            "at 12:30:00 the run began",
            "mytool: write error: Broken pipe",
            "warning: see tool.rb: it moved",
            "goroutine leak check is off",
            "{\"type\":\"aoi:meta\"}",
        ] {
            assert_eq!(find(text.as_bytes()), None, "{text}");
        }
        assert!(broken_pipe(b"tool: write error: Broken pipe\n").is_some());
        assert!(broken_pipe(b"tool: done\n").is_none());
    }
}
