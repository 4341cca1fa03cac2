//! Text helpers that several formats share: verdicts, times, dates, escaping.

use std::time::Duration;

use agentproto_text::escape_line;
pub use agentproto_text::time::format_minute as date;

use crate::Verdict;

/// All verdicts in the order of a report, worst first.
pub const BY_SEVERITY: [Verdict; 7] = [
    Verdict::Fail,
    Verdict::Error,
    Verdict::Warn,
    Verdict::Pass,
    Verdict::NotVerified,
    Verdict::Skip,
    Verdict::NotApplicable,
];

/// Position of a verdict in `BY_SEVERITY`. 0 is the worst.
pub fn severity_rank(verdict: Verdict) -> usize {
    BY_SEVERITY.iter().position(|v| *v == verdict).unwrap_or(0)
}

/// Name of a verdict for people.
pub fn verdict_name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "pass",
        Verdict::Fail => "fail",
        Verdict::Warn => "warn",
        Verdict::Skip => "skip",
        Verdict::NotApplicable => "n/a",
        Verdict::NotVerified => "not verified",
        Verdict::Error => "error",
    }
}

/// Whether a verdict needs attention.
pub fn needs_attention(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Fail | Verdict::Error | Verdict::Warn)
}

/// Escapes untrusted text for HTML and SVG, including attributes.
pub fn safe_html(text: &str) -> String {
    escape_html(&escape_line(text))
}

/// Like `safe_html`, for text whose hidden characters are already escaped.
pub fn escape_html(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// Milliseconds as a duration. Values that are out of range become zero.
pub fn millis(ms: f64) -> Duration {
    Duration::try_from_secs_f64(ms / 1000.0).unwrap_or_default()
}

/// Formats milliseconds, such as `820 ms`, `4.2 s` or `3 min 5 s`.
pub fn format_duration(ms: f64) -> String {
    let ms = if ms.is_finite() { ms.max(0.0) } else { 0.0 };
    if ms < 1000.0 {
        format!("{ms:.0} ms")
    } else if ms < 120_000.0 {
        format!("{:.1} s", ms / 1000.0)
    } else {
        let seconds = millis(ms).as_secs();
        format!("{} min {} s", seconds / 60, seconds % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short_and_never_panic() {
        assert_eq!(format_duration(12.4), "12 ms");
        assert_eq!(format_duration(4200.0), "4.2 s");
        assert_eq!(format_duration(185_000.0), "3 min 5 s");
        assert_eq!(format_duration(-5.0), "0 ms");
        assert_eq!(format_duration(f64::NAN), "0 ms");
        assert_eq!(millis(f64::INFINITY), Duration::ZERO);
        assert!(!format_duration(f64::MAX).is_empty());
    }
}
