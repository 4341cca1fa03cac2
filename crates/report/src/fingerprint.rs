//! Stable fingerprints of findings: SHA-256 over their parts.

pub use agentproto_text::hex;
use sha2::{Digest, Sha256};

/// Fingerprint of the parts, as hexadecimal digits.
pub fn of(parts: &[&[u8]]) -> String {
    hex(&digest(parts))
}

/// SHA-256 of the bytes, as `sha256sum` prints it.
pub fn sha256(bytes: &[u8]) -> String {
    hex(&<[u8; 32]>::from(Sha256::digest(bytes)))
}

/// SHA-256 over the parts and their lengths.
pub fn digest(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        // Without the lengths, ("a", "bc") and ("ab", "c") would have the same hash.
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}
