//! JSON and times as text.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value};

use super::twist::Quirk;

/// How JSON is written; all are the same to a parser.
#[derive(Clone, Copy, Default)]
pub struct Style {
    is_spaced: bool,
    is_escaped: bool,
    order: Order,
}

#[derive(Clone, Copy, Default)]
enum Order {
    #[default]
    Given,
    Sorted,
    Reversed,
}

impl Style {
    pub fn of(quirks: &[Quirk]) -> Style {
        Style {
            is_spaced: quirks.contains(&Quirk::Spaced),
            is_escaped: quirks.contains(&Quirk::Escaped),
            order: match () {
                () if quirks.contains(&Quirk::Sorted) => Order::Sorted,
                () if quirks.contains(&Quirk::Reversed) => Order::Reversed,
                () => Order::Given,
            },
        }
    }

    pub fn line(self, event: &Value) -> Vec<u8> {
        let mut text = String::new();
        self.value(event, &mut text);
        text.push('\n');
        text.into_bytes()
    }

    /// Documents are for people too.
    pub fn document(self, document: &Value) -> String {
        format!("{document:#}")
    }

    fn value(self, value: &Value, text: &mut String) {
        match value {
            Value::Object(fields) => self.object(fields, text),
            Value::Array(items) => {
                text.push('[');
                for (at, item) in items.iter().enumerate() {
                    self.comma(at, text);
                    self.value(item, text);
                }
                text.push(']');
            }
            Value::String(words) => self.string(words, text),
            plain => text.push_str(&plain.to_string()),
        }
    }

    fn object(self, fields: &Map<String, Value>, text: &mut String) {
        let mut fields: Vec<_> = fields.iter().collect();
        match self.order {
            Order::Given => {}
            Order::Sorted => fields.sort_by_key(|(name, _)| name.as_str()),
            Order::Reversed => fields.reverse(),
        }
        text.push_str(if self.is_spaced { "{ " } else { "{" });
        for (at, (name, value)) in fields.into_iter().enumerate() {
            self.comma(at, text);
            self.string(name, text);
            text.push_str(if self.is_spaced { " : " } else { ":" });
            self.value(value, text);
        }
        text.push_str(if self.is_spaced { " }" } else { "}" });
    }

    fn comma(self, at: usize, text: &mut String) {
        if at > 0 {
            text.push_str(if self.is_spaced { ", " } else { "," });
        }
    }

    fn string(self, words: &str, text: &mut String) {
        if !self.is_escaped {
            text.push_str(&Value::from(words).to_string());
            return;
        }
        text.push('"');
        for unit in words.encode_utf16() {
            text.push_str(&format!("\\u{unit:04x}"));
        }
        text.push('"');
    }
}

/// RFC 3339, UTC.
pub fn timestamp(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, rest) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    let millis = since.subsec_millis();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// The date so many days after 1970-01-01. Years are counted from March, so that the leap day
/// is the last.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = year + era * 400 + u64::from(month <= 2);
    (year, month, day)
}

/// A small hash that is the same on every machine; for fingerprints, not for secrets.
pub fn hash(parts: &[&[u8]]) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for part in parts {
        for byte in part.iter().chain(&[0xff]) {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    hash
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        let at = |seconds| timestamp(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(at(951_782_399), "2000-02-28T23:59:59.000Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00.000Z");
        assert_eq!(at(1_767_225_599), "2025-12-31T23:59:59.000Z");
    }
}
