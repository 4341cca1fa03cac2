//! A name for a finding that survives edits elsewhere in the file.

use std::collections::HashMap;

use sha2::{Digest, Sha256};

use super::{Meta, message};
use crate::lint::Report;

/// One per finding, in the report's order: SHA-256 over rule, file, pointer and message, not
/// over lines. Equal findings are told apart by their order.
pub fn fingerprints(report: &Report, meta: &Meta) -> Vec<String> {
    let mut seen: HashMap<[u8; 32], u32> = HashMap::new();
    report
        .findings
        .iter()
        .map(|finding| {
            let path = meta.path(&finding.file);
            let parts = [finding.rule.slug, &path, &finding.pointer, message(finding)];
            let identity = digest(&parts.map(str::as_bytes));
            let nth = seen.entry(identity).or_insert(0);
            *nth += 1;
            match *nth {
                1 => hex(&identity),
                n => hex(&digest(&[&identity, &n.to_be_bytes()])),
            }
        })
        .collect()
}

/// The name of a thing by its parts.
#[cfg(target_os = "linux")]
pub(super) fn of(parts: &[&[u8]]) -> String {
    hex(&digest(parts))
}

/// SHA-256 of some bytes, as `sha256sum` prints it.
#[cfg(target_os = "linux")]
pub(super) fn sha256(bytes: &[u8]) -> String {
    hex(&<[u8; 32]>::from(Sha256::digest(bytes)))
}

fn digest(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        // Lengths keep ("a", "bc") and ("ab", "c") apart.
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
