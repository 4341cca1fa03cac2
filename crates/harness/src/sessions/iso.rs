//! Times as ISO-8601 writes them: a date and a time of day, with or without marks between.

/// Seconds since 1970; without a zone it counts as UTC.
pub fn seconds(text: &str) -> Option<f64> {
    let (date, time) = text.split_once(['T', 't'])?;
    let (year, month, day) = three(date, '-', 4)?;
    let zone_at = time.find(['Z', 'z', '+', '-']);
    let (time, zone) = time.split_at(zone_at.unwrap_or(time.len()));
    let (time, fraction) = match time.split_once(['.', ',']) {
        Some((time, fraction)) => (time, Some(fraction)),
        None => (time, None),
    };
    let (hour, minute, second) = match three(time, ':', 2) {
        Some(whole) => whole,
        None => {
            let (hour, minute) = two(time)?;
            (hour, minute, 0)
        }
    };
    let fraction = match fraction {
        None => 0.0,
        Some(digits) if is_digits(digits) => format!("0.{digits}").parse().ok()?,
        Some(_) => return None,
    };
    let is_there = (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour <= 24
        && minute <= 59
        && second <= 60;
    if !is_there {
        return None;
    }
    let of_day = f64::from(hour * 3600 + minute * 60 + second) + fraction;
    Some(days(year, month, day) as f64 * 86_400.0 + of_day - offset(zone)?)
}

fn offset(zone: &str) -> Option<f64> {
    let sign = match zone.chars().next() {
        None => return Some(0.0),
        Some('Z' | 'z') => return (zone.len() == 1).then_some(0.0),
        Some('-') => -1.0,
        Some(_) => 1.0,
    };
    let rest = zone.get(1..)?;
    let (hour, minute) = match rest.len() {
        2 => (number(rest)?, 0),
        _ => two(rest)?,
    };
    (hour <= 23 && minute <= 59).then(|| sign * f64::from(hour * 3600 + minute * 60))
}

/// `2026-05-10` or `20260510`, `15:31:56` or `153156`.
fn three(text: &str, mark: char, first: usize) -> Option<(u32, u32, u32)> {
    let parts: Vec<&str> = text.split(mark).collect();
    let parts = match parts.as_slice() {
        [whole] if whole.len() == first + 4 && whole.is_ascii() => {
            let (a, rest) = whole.split_at(first);
            let (b, c) = rest.split_at(2);
            [a, b, c]
        }
        [a, b, c] if a.len() == first && b.len() == 2 && c.len() == 2 => [*a, *b, *c],
        _ => return None,
    };
    let [a, b, c] = parts;
    Some((number(a)?, number(b)?, number(c)?))
}

fn two(text: &str) -> Option<(u32, u32)> {
    let (a, b) = match text.split_once(':') {
        Some(both) => both,
        None if text.len() == 4 && text.is_ascii() => text.split_at(2),
        None => return None,
    };
    (a.len() == 2 && b.len() == 2).then_some(())?;
    Some((number(a)?, number(b)?))
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

fn number(text: &str) -> Option<u32> {
    is_digits(text).then(|| text.parse().ok()).flatten()
}

/// Days since 1970 of a day in the calendar.
fn days(year: u32, month: u32, day: u32) -> i64 {
    let (month, day) = (i64::from(month), i64::from(day));
    // Years begin in March: a leap day is the last of its year.
    let year = i64::from(year) - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::seconds;

    #[test]
    fn times_are_read() {
        for (text, wanted) in [
            ("1970-01-01T00:00:00Z", 0.0),
            ("2000-02-29T00:00:00.007Z", 951_782_400.007),
            ("2024-03-01T00:00Z", 1_709_251_200.0),
            ("2024-03-01T02:00:00+02:00", 1_709_251_200.0),
            ("2024-02-29T22:30:00-0130", 1_709_251_200.0),
            ("20240301T000000Z", 1_709_251_200.0),
            ("2024-03-01T00:00:00,5", 1_709_251_200.5),
        ] {
            let found = seconds(text).expect(text);
            assert!((found - wanted).abs() < 1e-6, "{text}: {found}");
        }
        for text in [
            "",
            "now",
            "2024-03-01",
            "2024-3-1T00:00:00Z",
            "2024-13-01T00:00:00Z",
            "2024-03-01 00:00:00",
            "2024-03-01T00:00:00 GMT",
            "2024-03-01T25:00:00Z",
            "2024-03-01T00:00:00.Z",
            "2024-03-01T00:00:00+2",
            "1709251200",
            "2024-03-01T00:00:00Zx",
        ] {
            assert_eq!(seconds(text), None, "{text}");
        }
    }
}
