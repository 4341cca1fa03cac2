//! Words that several formats use: verdicts, times, dates, markup.

use std::time::Duration;

use agentproto_text::plain;
pub use agentproto_text::time::minute as date;

use crate::Verdict;

/// Worst first: the order in which people want to read.
pub const BY_WEIGHT: [Verdict; 7] = [
    Verdict::Fail,
    Verdict::Error,
    Verdict::Warn,
    Verdict::Pass,
    Verdict::NotVerified,
    Verdict::Skip,
    Verdict::NotApplicable,
];

/// 0 is the worst.
pub fn weight(verdict: Verdict) -> usize {
    BY_WEIGHT.iter().position(|v| *v == verdict).unwrap_or(0)
}

pub fn word(verdict: Verdict) -> &'static str {
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

/// Verdicts that a reader has to look at.
pub fn needs_attention(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Fail | Verdict::Error | Verdict::Warn)
}

/// Text of others inside HTML, SVG or an attribute of them.
pub fn markup(text: &str) -> String {
    escape(&plain(text))
}

/// As `markup`, for text whose hidden characters are shown already.
pub fn escape(text: &str) -> String {
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

pub fn millis(ms: f64) -> Duration {
    Duration::try_from_secs_f64(ms / 1000.0).unwrap_or_default()
}

/// `820 ms`, `4.2 s`, `3 min 5 s`.
pub fn time(ms: f64) -> String {
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
        assert_eq!(time(12.4), "12 ms");
        assert_eq!(time(4200.0), "4.2 s");
        assert_eq!(time(185_000.0), "3 min 5 s");
        assert_eq!(time(-5.0), "0 ms");
        assert_eq!(time(f64::NAN), "0 ms");
        assert_eq!(millis(f64::INFINITY), Duration::ZERO);
        assert!(!time(f64::MAX).is_empty());
    }
}
