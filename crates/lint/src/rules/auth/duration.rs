//! Converts shorthands such as `24h` to ISO-8601 durations.

use agentproto_text::time::duration_error;

/// The duration that a shorthand was probably meant to be: `24h` → `PT24H`.
pub fn suggestion(text: &str) -> Option<String> {
    let text = text.trim();
    let upper = text.to_ascii_uppercase();
    if duration_error(&upper).is_none() {
        return Some(upper);
    }
    if let Some(time) = upper.strip_prefix('P') {
        let with_t = format!("PT{time}");
        return duration_error(&with_t).is_none().then_some(with_t);
    }
    let split = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at_checked(split)?;
    let (before, letter) = match unit.trim() {
        "s" | "sec" | "seconds" => ("PT", 'S'),
        "m" | "min" | "minutes" => ("PT", 'M'),
        "h" | "hour" | "hours" => ("PT", 'H'),
        "d" | "day" | "days" => ("P", 'D'),
        "w" | "week" | "weeks" => ("P", 'W'),
        _ => return None,
    };
    (!number.is_empty()).then(|| format!("{before}{number}{letter}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shorthands_are_converted() {
        assert_eq!(suggestion("24h").as_deref(), Some("PT24H"));
        assert_eq!(suggestion("P24H").as_deref(), Some("PT24H"));
        assert_eq!(suggestion("pt8h").as_deref(), Some("PT8H"));
        assert_eq!(suggestion("7 days").as_deref(), Some("P7D"));
        assert_eq!(suggestion("daily"), None);
        assert_eq!(suggestion("h"), None);
    }
}
