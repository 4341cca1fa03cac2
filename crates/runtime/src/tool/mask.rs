//! Masks secrets in bytes that arrive in pieces.

use agentproto_text::redact::{RedactingStream, SecretRedactor};

/// Masks a stream of bytes. A secret is text, so it is inside a valid part. Everything else passes
/// unchanged.
pub struct ByteMask {
    masks: SecretRedactor,
    stream: RedactingStream,
    /// The start of a character whose rest has not arrived yet, at most three bytes.
    partial: Vec<u8>,
}

impl ByteMask {
    /// Starts a stream.
    pub fn new(masks: &SecretRedactor) -> Self {
        ByteMask {
            masks: masks.clone(),
            stream: masks.stream(),
            partial: Vec::new(),
        }
    }

    /// Adds bytes. Returns what can be shown now.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        if self.masks.is_empty() && self.partial.is_empty() {
            return bytes.to_vec();
        }
        let mut all = std::mem::take(&mut self.partial);
        all.extend_from_slice(bytes);
        let mut out = Vec::with_capacity(all.len());
        let mut chunks = all.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            let shown = self.stream.push(chunk.valid().to_owned());
            out.extend_from_slice(shown.as_bytes());
            let rest = chunk.invalid();
            if rest.is_empty() {
                continue;
            }
            if chunks.peek().is_none() && is_incomplete(rest) {
                self.partial = rest.to_vec();
                break;
            }
            out.extend_from_slice(self.stream.finish().as_bytes());
            out.extend_from_slice(rest);
        }
        out
    }

    /// Ends the stream. Returns the rest.
    pub fn finish(&mut self) -> Vec<u8> {
        let mut out = self.stream.finish().into_bytes();
        out.append(&mut self.partial);
        out
    }
}

/// Whether more bytes could complete a character.
fn is_incomplete(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask(secret: Option<&str>, bytes: &[u8], size: usize) -> Vec<u8> {
        let masks = SecretRedactor::default();
        if let Some(secret) = secret {
            masks.add(secret);
        }
        let mut mask = ByteMask::new(&masks);
        let mut out = Vec::new();
        for piece in bytes.chunks(size) {
            out.extend(mask.push(piece));
        }
        out.extend(mask.finish());
        out
    }

    #[test]
    fn bytes_without_secrets_do_not_change() {
        let bytes: Vec<u8> = (0..=255)
            .chain("äöü€😀".bytes())
            .chain([0xe2, 0x82])
            .collect();
        for size in [1, 2, 3, 7, 1000] {
            assert_eq!(mask(None, &bytes, size), bytes);
            assert_eq!(mask(Some("hunter22-canary"), &bytes, size), bytes, "{size}");
        }
    }

    #[test]
    fn a_secret_in_pieces_is_masked() {
        let text = b"\xff a hunter22-canary b \xfe";
        for size in [1, 2, 5, 1000] {
            let masked = mask(Some("hunter22-canary"), text, size);
            assert_eq!(masked, b"\xff a [secret] b \xfe", "{size}");
        }
    }
}
