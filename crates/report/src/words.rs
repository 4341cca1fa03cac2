//! Words that several formats use: verdicts, times, dates, markup.

use std::time::Duration;

use agentproto_text::plain;

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

/// `2026-11-16 13:05 UTC`.
pub fn date(seconds: u64) -> String {
    // Civil date from days since 1970 (proleptic Gregorian); years beyond 9999 are not ours.
    let seconds = seconds.min(253_402_300_799);
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02} UTC",
        rest / 3600,
        rest / 60 % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_civil() {
        assert_eq!(date(0), "1970-01-01 00:00 UTC");
        assert_eq!(date(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(date(1_794_833_100), "2026-11-16 12:45 UTC");
        assert!(date(u64::MAX).starts_with("9999-12-31"));
    }

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
