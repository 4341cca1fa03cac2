//! ISO 8601 times.

/// Whether a text is a date, or a date and a time, with or without an offset.
pub fn is_time(text: &str) -> bool {
    let (date, time) = match text.split_once(['T', 't']) {
        Some((date, time)) => (date, Some(time)),
        None => (text, None),
    };
    is_date(date) && time.is_none_or(is_time_of_day)
}

fn is_date(date: &str) -> bool {
    let parts: Vec<&str> = date.split('-').collect();
    let [year, month, day] = parts.as_slice() else {
        return false;
    };
    digits(year, 4).is_some()
        && digits(month, 2).is_some_and(|m| (1..=12).contains(&m))
        && digits(day, 2).is_some_and(|d| (1..=31).contains(&d))
}

fn is_time_of_day(time: &str) -> bool {
    let (clock, offset) = match time.find(['Z', 'z', '+', '-']) {
        Some(at) => (time.get(..at).unwrap_or_default(), time.get(at..)),
        None => (time, None),
    };
    let mut parts = clock.split(':');
    let hour = parts.next().and_then(|h| digits(h, 2));
    let minute = parts.next().and_then(|m| digits(m, 2));
    let second = parts.next();
    hour.is_some_and(|h| h < 25)
        && minute.is_some_and(|m| m < 60)
        && second.is_none_or(is_second)
        && parts.next().is_none()
        && offset.is_none_or(is_offset)
}

fn is_second(second: &str) -> bool {
    let (whole, part) = match second.split_once(['.', ',']) {
        Some((whole, part)) => (whole, Some(part)),
        None => (second, None),
    };
    let is_part = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    digits(whole, 2).is_some_and(|s| s < 61) && part.is_none_or(is_part)
}

fn is_offset(offset: &str) -> bool {
    if offset.eq_ignore_ascii_case("z") {
        return true;
    }
    let rest = offset.strip_prefix(['+', '-']).unwrap_or_default();
    let rest = rest.replace(':', "");
    matches!(rest.len(), 2 | 4) && rest.bytes().all(|b| b.is_ascii_digit())
}

fn digits(text: &str, count: usize) -> Option<u32> {
    let fits = text.len() == count && text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|_| fits)
}

#[cfg(test)]
mod tests {
    use super::is_time;

    #[test]
    fn only_iso_8601_times_are_accepted() {
        let right = [
            "2026-01-31T12:00:00Z",
            "2026-01-31T12:00:00.123456+02:00",
            "2026-01-31",
            "2026-01-31T12:00",
        ];
        for time in right {
            assert!(is_time(time), "{time}");
        }
        let wrong = [
            "1700000000",
            "",
            "2026-13-01",
            "yesterday",
            "2026-01-31T25:61:00Z",
        ];
        for time in wrong {
            assert!(!is_time(time), "{time}");
        }
    }
}
