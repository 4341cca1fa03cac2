//! Fake secrets (canaries): passed to the tool in place of real ones, then searched for in its
//! output. Every text that is shown goes through `masked`, so that no canary leaves the engine.

use std::sync::LazyLock;

use agentproto_text::redact::{SecretValues, base64_forms, replace_strings};
use parking_lot::Mutex;
use serde_json::Value;

use crate::model::Finding;

/// Prefix of every canary. No real tool prints it.
pub const PREFIX: &str = "aoiCanary";

/// Number of leading or trailing characters that count as a leak of the secret.
const MIN_LEAK_CHARS: usize = 8;

const MARK: &str = "[canary]";

/// All canaries of this process, in every encoding, for masking.
static CANARIES: LazyLock<Mutex<SecretValues>> = LazyLock::new(|| {
    let mut canaries = SecretValues::default();
    canaries.add(PREFIX.get(..MIN_LEAK_CHARS).unwrap_or(PREFIX).to_owned());
    Mutex::new(canaries)
});

/// Creates a canary. `number` distinguishes canaries that are used together.
pub fn new(number: u64) -> String {
    let mut bytes = [0_u8; 12];
    // SAFETY: the buffer has the given length. Without randomness, the number still distinguishes
    // canaries.
    unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    let random = agentproto_text::hex(&bytes);
    let canary = format!("{PREFIX}{number:02}x{random}");
    let mut canaries = CANARIES.lock();
    for (_, form) in forms(&canary) {
        canaries.add(form);
    }
    drop(canaries);
    canary
}

/// How a canary appears in the bytes, if it does.
pub fn leaked_form(canary: &str, bytes: &[u8]) -> Option<&'static str> {
    forms(canary)
        .into_iter()
        .find(|(_, form)| contains(bytes, form.as_bytes()))
        .map(|(how, _)| how)
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    memchr::memmem::find(bytes, part).is_some()
}

/// All forms in which a canary can be printed, most specific first. A hash is not a leak.
fn forms(canary: &str) -> Vec<(&'static str, String)> {
    let bytes = canary.as_bytes();
    let each = |write: &dyn Fn(u8) -> String| bytes.iter().map(|byte| write(*byte)).collect();
    let hex = agentproto_text::hex(bytes);
    let mut forms = vec![
        ("verbatim", canary.to_owned()),
        ("in upper case", canary.to_ascii_uppercase()),
        ("in lower case", canary.to_ascii_lowercase()),
        ("reversed", canary.chars().rev().collect()),
        ("percent-encoded", each(&|byte| format!("%{byte:02X}"))),
        ("percent-encoded", each(&|byte| format!("%{byte:02x}"))),
        ("escaped as JSON", each(&|byte| format!("\\u{byte:04x}"))),
        ("escaped as JSON", each(&|byte| format!("\\u{byte:04X}"))),
        ("in hexadecimal", hex.to_ascii_uppercase()),
        ("in hexadecimal", hex),
    ];
    forms.extend(
        base64_forms(bytes)
            .into_iter()
            .map(|form| ("in base64", form)),
    );
    if let Some(begin) = canary.get(..MIN_LEAK_CHARS) {
        forms.push(("in part (its first characters)", begin.to_owned()));
    }
    if let Some(end) = last_chars(canary) {
        forms.push(("in part (its last characters)", end.to_owned()));
    }
    forms
}

/// Replaces canaries in any form by `[canary]`.
pub fn masked(text: &str) -> String {
    let canaries = CANARIES.lock();
    let masked = canaries.replace(text, MARK);
    drop(canaries);
    strip_remainders(&masked)
}

fn last_chars(canary: &str) -> Option<&str> {
    canary.get(canary.len().checked_sub(MIN_LEAK_CHARS)?..)
}

/// Removes the rest of a canary next to a masked part.
fn strip_remainders(text: &str) -> String {
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

/// Masks canaries in every text of a finding.
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
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    #[test]
    fn every_form_of_a_canary_is_found_and_masked() {
        let canary = new(7);
        let hex: String = canary.bytes().map(|byte| format!("{byte:02x}")).collect();
        let percent: String = canary.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let basic = |user: &str| STANDARD.encode(format!("{user}:{canary}!"));
        for (how, text) in [
            ("verbatim", format!("token={canary};")),
            ("in upper case", canary.to_uppercase()),
            ("reversed", canary.chars().rev().collect()),
            ("percent-encoded", percent),
            ("in hexadecimal", hex),
            ("in base64", basic("u")),
            ("in base64", basic("us")),
            ("in base64", basic("use")),
            ("in part (its first characters)", canary[..10].to_owned()),
            (
                "in part (its last characters)",
                format!("****{}", &canary[canary.len() - 8..]),
            ),
            (
                "in part (its last characters)",
                format!("é0f{}0f", &canary[canary.len() - 8..]),
            ),
        ] {
            assert_eq!(leaked_form(&canary, text.as_bytes()), Some(how), "{text}");
            let masked = masked(&text);
            assert_eq!(leaked_form(&canary, masked.as_bytes()), None, "{masked}");
            assert!(masked.contains("[canary]"), "{masked}");
        }
    }

    #[test]
    fn a_hash_or_a_short_hint_is_not_a_leak() {
        use sha2::Digest;
        let canary = new(8);
        let hash = sha2::Sha256::digest(canary.as_bytes());
        let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        let hint = format!("{}****{}", &canary[..4], &canary[canary.len() - 4..]);
        for text in [hash, hint, "nothing".to_owned()] {
            assert_eq!(leaked_form(&canary, text.as_bytes()), None, "{text}");
            assert_eq!(masked(&text), text);
        }
    }
}
