//! Recognizes the spellings of SHA-256 digests, and placeholders for them.

/// SHA-256 of an empty file, which is the digest of a failed download.
const EMPTY_FILE_SHA256: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// Texts that mark a placeholder.
const PLACEHOLDER_MARKERS: [&str; 19] = [
    "<", ">", "…", "...", "${", "{{", "abc123", "todo", "fixme", "xxx", "place", "change", "sha",
    "digest", "hash", "your", "tbd", "none", "pin",
];

/// Whether the schema accepts the digest: 64 lower-case hex digits.
pub fn is_well_formed(text: &str) -> bool {
    let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    text.len() == 64 && text.bytes().all(hex)
}

/// The reason why a well-formed digest cannot be that of a real file, if there is one.
pub fn implausible_reason(text: &str) -> Option<&'static str> {
    if text == EMPTY_FILE_SHA256 {
        Some("belongs to an empty file")
    } else if is_repetition(text) {
        Some("repeats the same few characters, which a real digest does not")
    } else {
        None
    }
}

/// The reason why a text is a placeholder and not a digest, if there is one.
pub fn placeholder_reason(text: &str) -> Option<&'static str> {
    let lower = text.trim().to_ascii_lowercase();
    if lower.is_empty() {
        return Some("is empty");
    }
    if let Some(why) = implausible_reason(&lower) {
        return Some(why);
    }
    let written = bare_hex(&lower).is_some_and(|hex| hex.len() >= 32);
    let marked = PLACEHOLDER_MARKERS.iter().any(|mark| lower.contains(mark));
    (marked && !written).then_some("is a placeholder")
}

/// The digest in lower case, without prefix and whitespace. `None` unless 64 hex digits remain.
pub fn normalized(text: &str) -> Option<String> {
    let hex = bare_hex(text)?.to_ascii_lowercase();
    (hex.len() == 64).then_some(hex)
}

/// The hex digits after an optional `sha256:` or `sha256-`.
fn bare_hex(text: &str) -> Option<&str> {
    let text = text.trim();
    let rest = match text.get(..7) {
        Some(head) if ["sha256:", "sha256-"].contains(&head.to_ascii_lowercase().as_str()) => {
            text.get(7..)?.trim()
        }
        _ => text,
    };
    let hex = !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_hexdigit());
    hex.then_some(rest)
}

/// Whether the text repeats a short sequence: `0000…`, `deadbeefdeadbeef…`,
/// `0123456789abcdef0123…`.
fn is_repetition(text: &str) -> bool {
    let bytes = text.as_bytes();
    [1, 2, 3, 4, 6, 8, 10, 16].iter().any(|period| {
        bytes.len() >= period * 3
            && bytes
                .iter()
                .zip(bytes.iter().skip(*period))
                .all(|(a, b)| a == b)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const REAL: &str = "60aa3899b61bc3aad324d455a88ced2142bbf628cf45f39c0fb025f9d7714a0d";

    #[test]
    fn placeholders_are_distinguished_from_digests() {
        let texts = [
            "",
            "abc123…",
            "abc123...",
            "<sha-pinned-at-release>",
            "<sha256>",
            "TODO",
            "sha256-of-the-archive",
            "xxxxxxxx",
            "your digest here",
            EMPTY_FILE_SHA256,
            &"0".repeat(64),
            &"f".repeat(64),
            &"deadbeef".repeat(8),
            &"0123456789abcdef".repeat(4),
        ];
        for text in texts {
            assert!(placeholder_reason(text).is_some(), "{text}");
        }
        let upper = REAL.to_uppercase();
        let prefixed = format!("sha256:{REAL}");
        for text in [REAL, &upper, &prefixed, &REAL[..63], "zz12", "1234"] {
            assert_eq!(placeholder_reason(text), None, "{text}");
        }
    }

    #[test]
    fn digest_spellings_are_normalized() {
        assert_eq!(normalized(&REAL.to_uppercase()).as_deref(), Some(REAL));
        assert_eq!(
            normalized(&format!(" sha256:{REAL}")).as_deref(),
            Some(REAL)
        );
        assert_eq!(normalized(&REAL[1..]), None);
        assert_eq!(normalized("sha256:"), None);
        assert_eq!(normalized("ünïcödé"), None);
    }
}
