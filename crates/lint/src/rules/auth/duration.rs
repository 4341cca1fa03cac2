//! ISO-8601 durations: `P1W`, `PT24H`, `P1Y2M3DT4H5M6.5S`.

/// What keeps a text from being a duration, as the end of a sentence.
pub fn fault(text: &str) -> Option<&'static str> {
    let Some(body) = text.strip_prefix('P') else {
        return Some("it does not begin with `P`");
    };
    if let Some(weeks) = body.strip_suffix('W') {
        return (!is_number(weeks, true)).then_some("`W` stands alone, after a number");
    }
    let (date, time) = match body.split_once('T') {
        Some((date, time)) => (date, Some(time)),
        None => (body, None),
    };
    if time == Some("") {
        return Some("nothing follows the `T`");
    }
    if date.is_empty() && time.is_none() {
        return Some("nothing follows the `P`");
    }
    let time_follows = time.is_some();
    parts(date, "YMD", !time_follows)
        .or_else(|| parts(time?, "HMS", true))
        .map(|fault| match fault {
            // `P24H`: by far the most usual slip.
            _ if !time_follows && date.ends_with(['H', 'S']) => {
                "hours, minutes and seconds stand after a `T`"
            }
            fault => fault,
        })
}

/// Numbers, each with a unit, in the order of `units`; a fraction in the last one only.
fn parts(text: &str, units: &str, may_end_in_fraction: bool) -> Option<&'static str> {
    let mut left = units;
    let mut rest = text;
    while !rest.is_empty() {
        let at = rest.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == ','));
        let Some((number, tail)) = at.and_then(|at| rest.split_at_checked(at)) else {
            return Some("a number has no unit");
        };
        let mut tail = tail.chars();
        let unit = tail.next().unwrap_or(' ');
        rest = tail.as_str();
        let Some((_, after)) = left.split_once(unit) else {
            return Some("a unit is unknown, repeated or out of order");
        };
        left = after;
        if !is_number(number, may_end_in_fraction && rest.is_empty()) {
            return Some("a unit has no whole number before it");
        }
    }
    None
}

fn is_number(text: &str, may_have_fraction: bool) -> bool {
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    match text.split_once(['.', ',']) {
        Some((whole, fraction)) => may_have_fraction && digits(whole) && digits(fraction),
        None => digits(text),
    }
}

/// `24h` → `PT24H`: what a shorthand was probably meant to be.
pub fn suggestion(text: &str) -> Option<String> {
    let text = text.trim();
    let upper = text.to_ascii_uppercase();
    if fault(&upper).is_none() {
        return Some(upper);
    }
    if let Some(time) = upper.strip_prefix('P') {
        let with_t = format!("PT{time}");
        return fault(&with_t).is_none().then_some(with_t);
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
    fn durations() {
        for text in [
            "P1W",
            "P1.5W",
            "PT24H",
            "P1Y2M3DT4H5M6S",
            "PT0S",
            "P1D",
            "P1DT12H",
            "PT0.5H",
            "PT1M30,25S",
            "P2Y",
            "P1M",
            "PT1M",
        ] {
            assert_eq!(fault(text), None, "{text}");
        }
        for text in [
            "",
            "P",
            "PT",
            "Pfoo",
            "P24H",
            "24h",
            "PT24",
            "P1DT",
            "P1W2D",
            "P1.5DT1H",
            "PT1H1H",
            "PT1M1H",
            "P1S",
            "PTH",
            "PT1.H",
            "PT.5H",
            "pt24h",
            "P-1D",
            "-P1D",
            " P1D",
            "P1D ",
            "PT1.5H30M",
            "PW",
            "P1Ä",
        ] {
            assert!(fault(text).is_some(), "{text}");
        }
    }

    #[test]
    fn shorthands() {
        assert_eq!(suggestion("24h").as_deref(), Some("PT24H"));
        assert_eq!(suggestion("P24H").as_deref(), Some("PT24H"));
        assert_eq!(suggestion("pt8h").as_deref(), Some("PT8H"));
        assert_eq!(suggestion("7 days").as_deref(), Some("P7D"));
        assert_eq!(suggestion("daily"), None);
        assert_eq!(suggestion("h"), None);
    }
}
