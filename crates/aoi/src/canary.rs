//! Secrets that are none: planted where a real one would stand, and looked for afterwards. They
//! never leave the engine: whatever is shown passes `masked`.

use std::sync::LazyLock;

use agentproto_text::redact::{Values, replace_strings};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use parking_lot::Mutex;
use serde_json::Value;

use crate::model::Finding;

/// Every canary begins so, and no word of a real tool does.
pub const PREFIX: &str = "aoiCanary";

/// So much of a secret's beginning or end gives it away.
const TELLING: usize = 8;

const MARK: &str = "[canary]";

/// What was planted by this process, in every writing: what is shown must have nothing of it.
static PLANTED: LazyLock<Mutex<Values>> = LazyLock::new(|| {
    let mut planted = Values::default();
    planted.add(PREFIX.get(..TELLING).unwrap_or(PREFIX).to_owned());
    Mutex::new(planted)
});

/// A new one; `number` tells apart what is planted side by side.
pub fn new(number: u64) -> String {
    let mut bytes = [0_u8; 12];
    // SAFETY: room for what is written. Without randomness the number still tells them apart.
    unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    let random = agentproto_text::hex(&bytes);
    let canary = format!("{PREFIX}{number:02}x{random}");
    let mut planted = PLANTED.lock();
    for (_, form) in forms(&canary) {
        planted.add(form);
    }
    drop(planted);
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
    let hex = agentproto_text::hex(bytes);
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
        forms.push(("with its beginning", begin.to_owned()));
    }
    if let Some(end) = end(canary) {
        forms.push(("with its end", end.to_owned()));
    }
    forms
}

/// A text in which nothing of a canary is left, however it was written.
pub fn masked(text: &str) -> String {
    let planted = PLANTED.lock();
    let masked = planted.replace(text, MARK);
    drop(planted);
    without_rests(&masked)
}

fn end(canary: &str) -> Option<&str> {
    canary.get(canary.len().checked_sub(TELLING)?..)
}

/// Takes away what is left of a canary beside its telling parts.
fn without_rests(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(MARK) {
        out.push_str(before);
        out.push_str(MARK);
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
    replace_strings(value, false, &mut |text| Some(masked(text)));
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
