//! Secrets that are none: planted where a real one would stand, and looked for afterwards. They
//! never leave the engine: whatever is shown passes `masked`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{LazyLock, Mutex, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use memchr::memmem::Finder;
use serde_json::Value;

use crate::model::Finding;

/// Every canary begins so, and no word of a real tool does.
pub const PREFIX: &str = "aoiCanary";

/// So much of a secret's beginning or end gives it away.
const TELLING: usize = 8;
const BEGINNING: &str = "with its beginning";

/// What was planted by this process: what is shown must have nothing of it.
static PLANTED: Mutex<Planted> = Mutex::new(Planted {
    all: BTreeMap::new(),
    ends: BTreeSet::new(),
});

struct Planted {
    /// With what each can be printed as.
    all: BTreeMap<String, Vec<String>>,
    /// Their ends, which give them away as well.
    ends: BTreeSet<String>,
}

/// The prefix in every writing: whoever finds a canary in one of them finds this in the same.
static TELLTALES: LazyLock<Vec<Finder<'static>>> = LazyLock::new(|| {
    let forms = own_forms(PREFIX).into_iter();
    forms
        .map(|form| Finder::new(form.as_bytes()).into_owned())
        .collect()
});

/// A new one; `number` tells apart what is planted side by side.
pub fn new(number: u64) -> String {
    let mut bytes = [0_u8; 12];
    // SAFETY: room for what is written. Without randomness the number still tells them apart.
    unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    let random: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let canary = format!("{PREFIX}{number:02}x{random}");
    let mut planted = PLANTED.lock().unwrap_or_else(PoisonError::into_inner);
    planted.ends.extend(end(&canary).map(str::to_owned));
    planted.all.insert(canary.clone(), own_forms(&canary));
    canary
}

/// How a canary stands in some bytes, if it does.
pub fn found(canary: &str, bytes: &[u8]) -> Option<&'static str> {
    forms(canary)
        .into_iter()
        .find(|(_, form)| contains(bytes, form.as_bytes()))
        .map(|(how, _)| how)
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    memchr::memmem::find(bytes, part).is_some()
}

/// Everything that a canary can be printed as, the most telling first. A hash is no such form.
fn forms(canary: &str) -> Vec<(&'static str, String)> {
    let bytes = canary.as_bytes();
    let each = |write: &dyn Fn(u8) -> String| bytes.iter().map(|byte| write(*byte)).collect();
    let hex: String = each(&|byte| format!("{byte:02x}"));
    let mut forms = vec![
        ("as it is", canary.to_owned()),
        ("in capitals", canary.to_ascii_uppercase()),
        ("in small letters", canary.to_ascii_lowercase()),
        ("backwards", canary.chars().rev().collect()),
        ("percent-encoded", each(&|byte| format!("%{byte:02X}"))),
        ("percent-encoded", each(&|byte| format!("%{byte:02x}"))),
        ("escaped as JSON", each(&|byte| format!("\\u{byte:04x}"))),
        ("escaped as JSON", each(&|byte| format!("\\u{byte:04X}"))),
        ("in hexadecimal", hex.to_ascii_uppercase()),
        ("in hexadecimal", hex),
    ];
    for before in 0..3_usize {
        let mut text = vec![0; before];
        text.extend_from_slice(bytes);
        // What stands beside it changes the characters at both ends: only the others are its own.
        let first = (before * 8).div_ceil(6);
        let last = text.len() * 8 / 6;
        for engine in [&STANDARD, &URL_SAFE] {
            let encoded = engine.encode(&text);
            if let Some(own) = encoded.get(first..last) {
                forms.push(("in base64", own.to_owned()));
            }
        }
    }
    if let Some(begin) = canary.get(..TELLING) {
        forms.push((BEGINNING, begin.to_owned()));
    }
    if let Some(end) = end(canary) {
        forms.push(("with its end", end.to_owned()));
    }
    forms
}

/// Those that no other canary has: they all begin alike.
fn own_forms(canary: &str) -> Vec<String> {
    let forms = forms(canary).into_iter();
    let own = forms.filter(|(how, _)| *how != BEGINNING);
    own.map(|(_, form)| form).collect()
}

/// A text in which nothing of a canary is left, however it was written.
pub fn masked(text: &str) -> String {
    let planted = PLANTED.lock().unwrap_or_else(PoisonError::into_inner);
    // Most texts have nothing of any canary, and only an end of one has nothing of the prefix.
    let told: Vec<usize> = TELLTALES
        .iter()
        .enumerate()
        .filter(|(_, form)| form.find(text.as_bytes()).is_some())
        .map(|(at, _)| at)
        .collect();
    let begin = PREFIX.get(..TELLING).unwrap_or(PREFIX);
    let has_end = has_end(text, &planted.ends);
    if told.is_empty() && !has_end && !text.contains(begin) {
        return without_rests(text);
    }
    let mut text = text.to_owned();
    for (canary, forms) in &planted.all {
        let written = told.iter().filter_map(|at| forms.get(*at));
        let ends = end(canary).filter(|_| has_end);
        let mut likely = written.map(String::as_str).chain(ends);
        if !likely.any(|form| contains(text.as_bytes(), form.as_bytes())) {
            continue;
        }
        for form in forms {
            if text.contains(form.as_str()) {
                text = text.replace(form.as_str(), "[canary]");
            }
        }
    }
    drop(planted);
    without_rests(&text.replace(begin, "[canary]"))
}

/// Whether a text has the end of a canary in it: the last of its random digits.
fn has_end(text: &str, ends: &BTreeSet<String>) -> bool {
    let mut digits = 0;
    for (at, byte) in text.bytes().enumerate() {
        digits = match byte {
            b'0'..=b'9' | b'a'..=b'f' => digits + 1,
            _ => 0,
        };
        let part = || text.get(at + 1 - TELLING..=at);
        if digits >= TELLING && part().is_some_and(|part| ends.contains(part)) {
            return true;
        }
    }
    false
}

fn end(canary: &str) -> Option<&str> {
    canary.get(canary.len().checked_sub(TELLING)?..)
}

/// Takes away what is left of a canary beside its telling parts.
fn without_rests(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("[canary]") {
        out.push_str(before);
        out.push_str("[canary]");
        rest = after.trim_start_matches(|c: char| c.is_ascii_alphanumeric());
    }
    out.push_str(rest);
    out
}

/// Nothing of a canary is left in what was found.
pub fn mask(finding: &mut Finding) {
    finding.message = masked(&finding.message);
    for word in &mut finding.repro {
        *word = masked(word);
    }
    for value in finding.evidence.values_mut() {
        mask_value(value);
    }
}

fn mask_value(value: &mut Value) {
    match value {
        Value::String(text) => *text = masked(text),
        Value::Array(items) => items.iter_mut().for_each(mask_value),
        Value::Object(fields) => fields.values_mut().for_each(mask_value),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_writing_is_found_and_masked() {
        let canary = new(7);
        let hex: String = canary.bytes().map(|byte| format!("{byte:02x}")).collect();
        let percent: String = canary.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let basic = |user: &str| STANDARD.encode(format!("{user}:{canary}!"));
        for (how, text) in [
            ("as it is", format!("token={canary};")),
            ("in capitals", canary.to_uppercase()),
            ("backwards", canary.chars().rev().collect()),
            ("percent-encoded", percent),
            ("in hexadecimal", hex),
            ("in base64", basic("u")),
            ("in base64", basic("us")),
            ("in base64", basic("use")),
            ("with its beginning", canary[..10].to_owned()),
            (
                "with its end",
                format!("****{}", &canary[canary.len() - 8..]),
            ),
            (
                "with its end",
                format!("é0f{}0f", &canary[canary.len() - 8..]),
            ),
        ] {
            assert_eq!(found(&canary, text.as_bytes()), Some(how), "{text}");
            let masked = masked(&text);
            assert_eq!(found(&canary, masked.as_bytes()), None, "{masked}");
            assert!(masked.contains("[canary]"), "{masked}");
        }
    }

    #[test]
    fn a_hash_or_a_hint_is_no_leak() {
        use sha2::Digest;
        let canary = new(8);
        let hash = sha2::Sha256::digest(canary.as_bytes());
        let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        let hint = format!("{}****{}", &canary[..4], &canary[canary.len() - 4..]);
        for text in [hash, hint, "nothing".to_owned()] {
            assert_eq!(found(&canary, text.as_bytes()), None, "{text}");
            assert_eq!(masked(&text), text);
        }
    }
}
