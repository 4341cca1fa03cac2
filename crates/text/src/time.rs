//! Times and durations in the formats of RFC 3339 and ISO 8601.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chrono::{DateTime, Datelike, NaiveDate, Utc};

/// The last second whose year has four digits, in seconds since 1970.
const END_OF_9999: u64 = 253_402_300_799;
const DAY: f64 = 86_400.0;

/// The current time, as formatted by `rfc3339`.
pub fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    rfc3339(since.unwrap_or_default())
}

/// Formats a time since 1970 as RFC 3339 in UTC, with milliseconds.
pub fn rfc3339(since: Duration) -> String {
    let at = utc(since);
    format!("{:04}-{}", at.year(), at.format("%m-%dT%H:%M:%S%.3fZ"))
}

/// Formats seconds since 1970 for people, such as `2026-11-16 13:05 UTC`.
pub fn format_minute(seconds: u64) -> String {
    let at = utc(Duration::from_secs(seconds.min(END_OF_9999)));
    at.format("%Y-%m-%d %H:%M UTC").to_string()
}

fn utc(since: Duration) -> DateTime<Utc> {
    let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    DateTime::from_timestamp(seconds, since.subsec_nanos()).unwrap_or(DateTime::<Utc>::MAX_UTC)
}

/// Parses an ISO 8601 date and time, with or without separators. Returns seconds since 1970.
/// Without a time zone it is UTC.
pub fn parse_time(text: &str) -> Option<f64> {
    let (date, time) = text.split_once(['T', 't'])?;
    let (year, month, day) = split_three(date, '-', 4)?;
    let zone_at = time.find(['Z', 'z', '+', '-']);
    let (time, zone) = time.split_at(zone_at.unwrap_or(time.len()));
    let (time, fraction) = match time.split_once(['.', ',']) {
        Some((time, fraction)) => (time, Some(fraction)),
        None => (time, None),
    };
    let (hour, minute, second) = match split_three(time, ':', 2) {
        Some(whole) => whole,
        None => {
            let (hour, minute) = split_two(time)?;
            (hour, minute, 0)
        }
    };
    let fraction = match fraction {
        None => 0.0,
        Some(digits) if is_digits(digits) => format!("0.{digits}").parse().ok()?,
        Some(_) => return None,
    };
    let is_there = (1..=31).contains(&day) && hour <= 24 && minute <= 59 && second <= 60;
    if !is_there {
        return None;
    }
    // A day after the end of the month counts into the next month.
    let first = NaiveDate::from_ymd_opt(i32::try_from(year).ok()?, month, 1)?;
    let days = (first - NaiveDate::default()).num_days() + i64::from(day - 1);
    let of_day = f64::from(hour * 3600 + minute * 60 + second) + fraction;
    Some(days as f64 * DAY + of_day - offset(zone)?)
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
        _ => split_two(rest)?,
    };
    (hour <= 23 && minute <= 59).then(|| sign * f64::from(hour * 3600 + minute * 60))
}

/// Splits `2026-05-10` or `20260510`, `15:31:56` or `153156` into its three numbers.
fn split_three(text: &str, mark: char, first: usize) -> Option<(u32, u32, u32)> {
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

fn split_two(text: &str) -> Option<(u32, u32)> {
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

/// Parses an ISO 8601 duration such as `P1W`, `PT24H` or `P1Y2M3DT4H5M6.5S`. A month has 30 days,
/// a year 365. `None` if the text is invalid or the value does not fit a `Duration`.
pub fn duration(text: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(duration_seconds(text).ok()?).ok()
}

/// Why a text is not an ISO 8601 duration, as the end of a sentence. `None` if it is one.
pub fn duration_error(text: &str) -> Option<&'static str> {
    duration_seconds(text).err()
}

fn duration_seconds(text: &str) -> Result<f64, &'static str> {
    let body = text.strip_prefix('P').ok_or("it must start with `P`")?;
    if let Some(weeks) = body.strip_suffix('W') {
        let weeks = count(weeks, true)
            .ok_or("`W` needs a number before it and cannot be combined with other units")?;
        return Ok(weeks * 7.0 * DAY);
    }
    let (date, time) = match body.split_once('T') {
        Some((_, "")) => return Err("nothing follows `T`"),
        Some((date, time)) => (date, time),
        None if body.is_empty() => return Err("nothing follows `P`"),
        None => (body, ""),
    };
    let date_units = [('Y', 365.0 * DAY), ('M', 30.0 * DAY), ('D', DAY)];
    let time_units = [('H', 3600.0), ('M', 60.0), ('S', 1.0)];
    let of_date = sum(date, &date_units, time.is_empty()).map_err(|error| {
        match time.is_empty() && date.ends_with(['H', 'S']) {
            // `P24H` is by far the most common mistake.
            true => "hours, minutes and seconds must follow a `T`",
            false => error,
        }
    })?;
    Ok(of_date + sum(time, &time_units, true)?)
}

/// Sums up numbers with units, in order from the largest unit to the smallest. Only the last
/// number may have a fraction.
fn sum(text: &str, units: &[(char, f64)], may_end_in_fraction: bool) -> Result<f64, &'static str> {
    let mut units = units.iter();
    let mut rest = text;
    let mut total = 0.0;
    while !rest.is_empty() {
        let at = rest.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == ','));
        let split = at.and_then(|at| rest.split_at_checked(at));
        let (number, tail) = split.ok_or("a number has no unit")?;
        let mut tail = tail.chars();
        let unit = tail.next().unwrap_or(' ');
        rest = tail.as_str();
        let (_, size) = units
            .find(|(name, _)| *name == unit)
            .ok_or("a unit is unknown, duplicate or out of order")?;
        let number = count(number, may_end_in_fraction && rest.is_empty())
            .ok_or("a unit needs a whole number before it")?;
        total += number * size;
    }
    Ok(total)
}

fn count(text: &str, may_have_fraction: bool) -> Option<f64> {
    let is_number = match text.split_once(['.', ',']) {
        Some((whole, fraction)) => may_have_fraction && is_digits(whole) && is_digits(fraction),
        None => is_digits(text),
    };
    is_number
        .then(|| text.replace(',', ".").parse().ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_formatted() {
        let at = |millis| rfc3339(Duration::from_millis(millis));
        assert_eq!(at(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(at(951_782_400_007), "2000-02-29T00:00:00.007Z");
        assert_eq!(at(1_709_251_199_999), "2024-02-29T23:59:59.999Z");
        assert_eq!(at(1_735_689_599_999), "2024-12-31T23:59:59.999Z");
        assert_eq!(at(4_107_542_400_000), "2100-03-01T00:00:00.000Z");
        assert_eq!(at(253_402_300_800_000), "10000-01-01T00:00:00.000Z");
        assert!(rfc3339(Duration::MAX).ends_with('Z'));
        assert!(now().starts_with("20") && now().ends_with('Z'));
    }

    #[test]
    fn minutes_are_formatted() {
        assert_eq!(format_minute(0), "1970-01-01 00:00 UTC");
        assert_eq!(format_minute(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(format_minute(1_794_833_100), "2026-11-16 12:45 UTC");
        assert_eq!(format_minute(u64::MAX), "9999-12-31 23:59 UTC");
    }

    #[test]
    fn times_are_parsed() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", 0.0),
            ("0000-03-01T00:00:00Z", -62_162_035_200.0),
            ("2000-02-29T00:00:00.007Z", 951_782_400.007),
            ("2024-03-01T00:00Z", 1_709_251_200.0),
            ("2024-02-30T00:00Z", 1_709_251_200.0),
            ("2024-03-01T02:00:00+02:00", 1_709_251_200.0),
            ("2024-02-29T22:30:00-0130", 1_709_251_200.0),
            ("20240301T000000Z", 1_709_251_200.0),
            ("2024-03-01T00:00:00,5", 1_709_251_200.5),
        ] {
            let found = parse_time(text).expect(text);
            assert!((found - expected).abs() < 1e-6, "{text}: {found}");
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
            assert_eq!(parse_time(text), None, "{text}");
        }
    }

    #[test]
    fn durations_are_parsed() {
        for (text, seconds) in [
            ("PT24H", 86_400.0),
            ("P1W", 604_800.0),
            ("P1.5W", 907_200.0),
            ("P1D", 86_400.0),
            ("P1DT1H", 90_000.0),
            ("P1DT12H", 129_600.0),
            ("P1M", 2_592_000.0),
            ("P2Y", 63_072_000.0),
            ("PT1M", 60.0),
            ("PT0.5S", 0.5),
            ("PT0.5H", 1800.0),
            ("PT1,5H", 5400.0),
            ("PT1M30,25S", 90.25),
            ("P1Y2M3DT4H5M6S", 36_993_906.0),
            ("PT0S", 0.0),
        ] {
            assert_eq!(duration_error(text), None, "{text}");
            assert_eq!(
                duration(text),
                Some(Duration::from_secs_f64(seconds)),
                "{text}"
            );
        }
        let long = "PT99999999999999999999999H";
        assert_eq!((duration_error(long), duration(long)), (None, None));
    }

    #[test]
    fn invalid_durations_are_rejected() {
        for text in [
            "",
            "P",
            "PT",
            "Pfoo",
            "P24H",
            "24h",
            "24H",
            "PT24",
            "P1DT",
            "P1W2D",
            "P1WT1H",
            "P1D2W",
            "P1.5DT1H",
            "PT1H1H",
            "PT1M1H",
            "PT1S1H",
            "P1S",
            "P1Y2",
            "PTH",
            "PT1.H",
            "PT.5H",
            "PT.5S",
            "PT5.S",
            "PT1..5S",
            "PT1.5H30M",
            "PT1.5H2M",
            "PT1e9S",
            "pt24h",
            "P-1D",
            "-P1D",
            " P1D",
            "P1D ",
            "PW",
            "P1Ä",
        ] {
            assert!(duration_error(text).is_some(), "{text}");
            assert_eq!(duration(text), None, "{text}");
        }
        let usual = "hours, minutes and seconds must follow a `T`";
        assert_eq!(duration_error("P24H"), Some(usual));
        assert_eq!(duration_error("P1DT"), Some("nothing follows `T`"));
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_handled(text in "P?[0-9YMWDTHS.,é]{0,12}") {
            let _ = duration(&text);
            let _ = parse_time(&text);
        }
    }
}
