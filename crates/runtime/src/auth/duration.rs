//! ISO-8601 durations as `refresh.every` has them (A29-AUTH-08).

use std::time::Duration;

const DAY: f64 = 86_400.0;

/// `PT24H`, `P1W`, `P1Y2M3DT4H5M6.5S`; a month counts 30 days, a year 365.
pub fn parse(text: &str) -> Option<Duration> {
    let body = text.strip_prefix('P')?;
    let (date, time) = match body.split_once('T') {
        Some((_, "")) => return None,
        Some((date, time)) => (date, time),
        None => (body, ""),
    };
    if date.is_empty() && time.is_empty() {
        return None;
    }
    let weeks = date.ends_with('W');
    if weeks && !time.is_empty() {
        return None;
    }
    let date_units: &[(char, f64)] = match weeks {
        true => &[('W', 7.0 * DAY)],
        false => &[('Y', 365.0 * DAY), ('M', 30.0 * DAY), ('D', DAY)],
    };
    let time_units = [('H', 3600.0), ('M', 60.0), ('S', 1.0)];
    let seconds = sum(date, date_units, time.is_empty())? + sum(time, &time_units, true)?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// Numbers with units, the larger before the smaller; a fraction only in the very last.
fn sum(text: &str, units: &[(char, f64)], is_end: bool) -> Option<f64> {
    let mut rest = text;
    let mut units = units.iter();
    let mut total = 0.0;
    while !rest.is_empty() {
        let at = rest.find(|c: char| !c.is_ascii_digit() && c != '.' && c != ',')?;
        let (number, tail) = rest.split_at_checked(at)?;
        let mut tail = tail.chars();
        let unit = tail.next()?;
        rest = tail.as_str();
        let (_, size) = units.find(|(name, _)| *name == unit)?;
        let whole = number.bytes().all(|b| b.is_ascii_digit());
        if number.is_empty() || !(whole || is_end && rest.is_empty()) {
            return None;
        }
        let number = number.replace(',', ".");
        if !number.starts_with(|c: char| c.is_ascii_digit()) || number.ends_with('.') {
            return None;
        }
        total += number.parse::<f64>().ok()? * size;
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, seconds) in [
            ("PT24H", 86_400.0),
            ("P1W", 604_800.0),
            ("P1DT1H", 90_000.0),
            ("P1M", 2_592_000.0),
            ("PT1M", 60.0),
            ("PT0.5S", 0.5),
            ("PT1,5H", 5400.0),
            ("P1Y2M3DT4H5M6S", 36_993_906.0),
            ("PT0S", 0.0),
        ] {
            assert_eq!(
                parse(text),
                Some(Duration::from_secs_f64(seconds)),
                "{text}"
            );
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text(text in "P?[0-9YMWDTHS.,é]{0,12}") {
            let _ = parse(&text);
        }
    }

    #[test]
    fn no_durations() {
        for text in [
            "",
            "P",
            "PT",
            "24H",
            "P24H",
            "Pfoo",
            "P1WT1H",
            "PT1H1H",
            "PT1S1H",
            "PT1.5H2M",
            "PTH",
            "PT.5S",
            "PT5.S",
            "P-1D",
            "PT1e9S",
            "P1D2W",
            "P1Y2",
            "PT1..5S",
            "PT99999999999999999999999H",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
