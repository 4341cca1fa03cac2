//! Types of plain scalars in the YAML 1.2 core schema, and differences from YAML 1.1.

use smol_str::SmolStr;

use crate::tree::Value;

/// Resolves the type of an untagged plain scalar.
pub fn resolve(text: &str) -> Value {
    let bytes = text.as_bytes();
    let Some(first) = bytes.first() else {
        return Value::Null;
    };
    match first {
        b'~' if bytes.len() == 1 => return Value::Null,
        b'n' | b'N' if matches!(text, "null" | "Null" | "NULL") => return Value::Null,
        b't' | b'T' if matches!(text, "true" | "True" | "TRUE") => return Value::Bool(true),
        b'f' | b'F' if matches!(text, "false" | "False" | "FALSE") => return Value::Bool(false),
        b'0'..=b'9' | b'+' | b'-' | b'.' => {
            if let Some(number) = number(text) {
                return number;
            }
        }
        _ => {}
    }
    Value::Str(SmolStr::new(text))
}

fn number(text: &str) -> Option<Value> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    if digits(unsigned) {
        return Some(integer(text, text.strip_prefix('+').unwrap_or(text), 10));
    }
    if let Some(hex) = text.strip_prefix("0x") {
        return (!hex.is_empty() && hex.bytes().all(|b| b.is_ascii_hexdigit()))
            .then(|| integer(text, hex, 16));
    }
    if let Some(octal) = text.strip_prefix("0o") {
        return (!octal.is_empty() && octal.bytes().all(|b| (b'0'..=b'7').contains(&b)))
            .then(|| integer(text, octal, 8));
    }
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") {
        let sign = if text.starts_with('-') { -1.0 } else { 1.0 };
        return Some(Value::Float(sign * f64::INFINITY));
    }
    if matches!(text, ".nan" | ".NaN" | ".NAN") {
        return Some(Value::Float(f64::NAN));
    }
    is_float(unsigned).then(|| text.parse().ok().map(Value::Float))?
}

/// Parses an integer. One that does not fit 64 bits becomes a float, as in JSON parsers.
fn integer(text: &str, digits: &str, radix: u32) -> Value {
    match i64::from_str_radix(digits, radix) {
        Ok(i) => Value::Int(i),
        Err(_) => Value::Float(text.parse().unwrap_or(f64::MAX)),
    }
}

/// Whether the text matches `(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`.
fn is_float(text: &str) -> bool {
    let bytes = text.as_bytes();
    let run = |mut i: usize| {
        while bytes.get(i).is_some_and(u8::is_ascii_digit) {
            i += 1;
        }
        i
    };
    let whole = run(0);
    let mut at = whole;
    if bytes.get(at) == Some(&b'.') {
        let fraction = run(at + 1);
        if whole == 0 && fraction == at + 1 {
            return false;
        }
        at = fraction;
    } else if whole == 0 {
        return false;
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        at += 1;
        if matches!(bytes.get(at), Some(b'+' | b'-')) {
            at += 1;
        }
        let exponent = run(at);
        if exponent == at {
            return false;
        }
        at = exponent;
    }
    at == bytes.len()
}

/// Whether this plain scalar has another type in YAML 1.1 than in YAML 1.2.
pub fn differs_in_yaml11(text: &str) -> bool {
    let bytes = text.as_bytes();
    if bytes.is_empty() || bytes.len() > 24 {
        return false;
    }
    match bytes[0] {
        b'y' | b'Y' | b'n' | b'N' | b'o' | b'O' => {
            bytes.len() <= 3
                && matches!(
                    text,
                    "y" | "Y"
                        | "yes"
                        | "Yes"
                        | "YES"
                        | "n"
                        | "N"
                        | "no"
                        | "No"
                        | "NO"
                        | "on"
                        | "On"
                        | "ON"
                        | "off"
                        | "Off"
                        | "OFF"
                )
        }
        b'0'..=b'9' | b'+' | b'-' => {
            let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
            octal11(unsigned) || underscored(unsigned) || sexagesimal(unsigned)
        }
        _ => false,
    }
}

/// `0777` is 511 in YAML 1.1 and 777 in YAML 1.2.
fn octal11(text: &str) -> bool {
    text.len() > 1 && text.starts_with('0') && text.bytes().all(|b| (b'0'..=b'7').contains(&b))
}

/// `1_000` is a number in YAML 1.1 and text in YAML 1.2.
fn underscored(text: &str) -> bool {
    text.contains('_')
        && text.starts_with(|c: char| c.is_ascii_digit())
        && text
            .bytes()
            .all(|b| b.is_ascii_digit() || b == b'_' || b == b'.')
}

/// `12:30:00` is 45000 in YAML 1.1 and text in YAML 1.2.
fn sexagesimal(text: &str) -> bool {
    let mut parts = text.split(':');
    let head = parts.next().unwrap_or("");
    let mut any = false;
    let rest_fits = parts.all(|part| {
        any = true;
        matches!(part.len(), 1 | 2)
            && part.bytes().all(|b| b.is_ascii_digit())
            && part.parse::<u8>().is_ok_and(|n| n < 60)
    });
    any && rest_fits && !head.is_empty() && head.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn core_schema() {
        assert_eq!(resolve(""), Value::Null);
        assert_eq!(resolve("~"), Value::Null);
        assert_eq!(resolve("True"), Value::Bool(true));
        assert_eq!(resolve("no"), Value::Str("no".into()));
        assert_eq!(resolve("-12"), Value::Int(-12));
        assert_eq!(resolve("0777"), Value::Int(777));
        assert_eq!(resolve("0x1f"), Value::Int(31));
        assert_eq!(resolve("0o17"), Value::Int(15));
        assert_eq!(resolve("1e3"), Value::Float(1000.0));
        assert_eq!(resolve("1."), Value::Float(1.0));
        assert_eq!(resolve(".5"), Value::Float(0.5));
        assert_eq!(resolve("."), Value::Str(".".into()));
        assert_eq!(resolve("1.2.3"), Value::Str("1.2.3".into()));
        assert_eq!(resolve("-"), Value::Str("-".into()));
        assert_eq!(resolve("1e"), Value::Str("1e".into()));
        assert_eq!(resolve("99999999999999999999"), Value::Float(1e20));
    }

    #[test]
    fn yaml_1_1_differences() {
        for text in ["no", "On", "0777", "1_000", "12:30:00", "-1:30"] {
            assert!(differs_in_yaml11(text), "{text}");
        }
        for text in ["nope", "0", "08", "1.2.3", "10:99", "a_b", "one", "2026"] {
            assert!(!differs_in_yaml11(text), "{text}");
        }
    }
}
