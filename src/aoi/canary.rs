//! Secrets that are none: planted where a real one would stand, and looked for afterwards. They
//! never leave the engine: whatever is shown passes `masked`.

use serde_json::Value;

use super::model::Finding;

/// Every canary begins so, and no word of a real tool does.
pub const PREFIX: &str = "aoiCanary";

/// A new one; `vector` says where it is planted.
pub fn new(number: u64) -> String {
    let mut bytes = [0_u8; 12];
    // SAFETY: room for what is written. Without randomness the number still tells them apart.
    unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    let random: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{PREFIX}{number:02}x{random}")
}

/// A text in which nothing of a canary is left.
pub fn masked(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(PREFIX) {
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
