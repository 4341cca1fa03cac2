//! Redacts the resolved secrets of a run in all of its output.

use std::borrow::Cow;
use std::sync::Arc;

use parking_lot::RwLock;
use serde_json::Value;

use super::encodings::{Encodings, MIN_LENGTH};
use super::values::replace_places;

/// Replacement for a secret.
pub const MASK: &str = "[secret]";
/// Mark for text that was left out.
const CUT: &str = "…";
/// Maximum number of bytes of a stream that are held back after the start of a complete secret,
/// because another one may overlap with it.
const MAX_HELD: usize = 64 << 10;

/// All secrets of a run. Clones share the same secrets.
#[derive(Clone, Default)]
pub struct SecretRedactor {
    values: Arc<RwLock<Encodings>>,
}

impl SecretRedactor {
    /// Adds a secret, as it is and without surrounding spaces. It is redacted in every common
    /// encoding (see `encodings`).
    pub fn add(&self, secret: &str) {
        let mut values = self.values.write();
        values.add(secret);
        values.add(secret.trim());
    }

    /// Whether no secret was added.
    pub fn is_empty(&self) -> bool {
        self.values.read().is_empty()
    }

    /// Replaces all secrets in a text.
    pub fn mask<'t>(&self, text: &'t str) -> Cow<'t, str> {
        replace_places(text, &self.values.read().places(text), MASK)
    }

    /// Replaces all secrets in bytes that may not be UTF-8. A secret is text, so it is inside a
    /// valid part. If the bytes are cut off, the start of a secret at the end is also replaced.
    pub fn mask_bytes<'b>(&self, bytes: &'b [u8], is_cut: bool) -> Cow<'b, [u8]> {
        if self.is_empty() {
            return Cow::Borrowed(bytes);
        }
        let mut out = Vec::with_capacity(bytes.len());
        let mut is_masked = false;
        let mut chunks = bytes.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            let mut masked = self.mask(chunk.valid());
            if is_cut && chunks.peek().is_none() {
                masked = self.mask_end(masked);
            }
            is_masked |= matches!(masked, Cow::Owned(_));
            out.extend_from_slice(masked.as_bytes());
            out.extend_from_slice(chunk.invalid());
        }
        match is_masked {
            true => Cow::Owned(out),
            false => Cow::Borrowed(bytes),
        }
    }

    /// Like `mask`, for a text in which each `…` marks a part that was cut off. The start of a
    /// secret before a `…` is also replaced.
    pub fn mask_cut<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let masked = self.mask(text);
        let mut parts: Vec<Cow<'_, str>> = masked.split(CUT).map(Cow::Borrowed).collect();
        let last = parts.len().saturating_sub(1);
        let mut is_changed = false;
        for part in parts.iter_mut().take(last) {
            *part = self.mask_end(std::mem::take(part));
            is_changed |= matches!(part, Cow::Owned(_));
        }
        match is_changed {
            true => Cow::Owned(parts.join(CUT)),
            false => masked,
        }
    }

    /// Replaces the start of a secret at the end of a text.
    fn mask_end<'t>(&self, text: Cow<'t, str>) -> Cow<'t, str> {
        let whole = text.trim_end();
        let left = self.values.read().partial_match_len(whole, false);
        match left >= MIN_LENGTH {
            true => {
                let keep = whole.get(..whole.len() - left).unwrap_or_default();
                Cow::Owned(format!("{keep}{MASK}"))
            }
            false => text,
        }
    }

    /// Replaces all secrets in the strings and keys of a JSON value.
    pub fn mask_value(&self, value: &mut Value) {
        if self.is_empty() {
            return;
        }
        super::replace_strings(value, true, &mut |text| match self.mask(text) {
            Cow::Owned(masked) => Some(masked),
            Cow::Borrowed(_) => None,
        });
    }

    /// Masks text that arrives in pieces, in which a secret can be split.
    pub fn stream(&self) -> RedactingStream {
        RedactingStream {
            masks: self.clone(),
            held: String::new(),
        }
    }
}

/// Masks text in pieces. It holds back text that may be the start of a secret.
pub struct RedactingStream {
    masks: SecretRedactor,
    held: String,
}

impl RedactingStream {
    /// Adds a piece. Returns the text that can be shown now.
    pub fn push(&mut self, piece: String) -> String {
        if self.held.is_empty() && self.masks.is_empty() {
            return piece;
        }
        self.held.push_str(&piece);
        let text = std::mem::take(&mut self.held);
        let secrets = self.masks.values.read();
        let mut places = secrets.places(&text);
        let mut shown = text.len() - secrets.partial_match_len(&text, true);
        drop(secrets);
        // A complete secret can overlap with one that is not complete yet.
        while let Some((start, end)) = places.pop_if(|(_, end)| *end > shown) {
            if start < shown && text.len() - start > MAX_HELD {
                places.push((start, end));
                shown = end;
                break;
            }
            shown = shown.min(start);
        }
        let (text, held) = text.split_at(shown);
        held.clone_into(&mut self.held);
        replace_places(text, &places, MASK).into_owned()
    }

    /// Ends the text. Returns the rest.
    pub fn finish(&mut self) -> String {
        let rest = std::mem::take(&mut self.held);
        self.masks.mask(&rest).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn masks() -> SecretRedactor {
        let masks = SecretRedactor::default();
        masks.add("hunter22");
        masks.add("hunter22-long");
        masks.add("abc");
        masks
    }

    #[test]
    fn whole_texts_and_values() {
        assert_eq!(masks().mask("a hunter22-long b"), "a [secret] b");
        assert_eq!(masks().mask("abc stays: too short"), "abc stays: too short");
        let mut value = json!({"hunter22": ["x hunter22", 1]});
        masks().mask_value(&mut value);
        assert_eq!(value, json!({"[secret]": ["x [secret]", 1]}));
    }

    #[test]
    fn secrets_in_json_are_masked() {
        for secret in [
            "pa\"ss\\wo",
            "two\nlines",
            "  spaced \n",
            "caf\u{e9}-\u{1f600}",
        ] {
            let masks = SecretRedactor::default();
            masks.add(secret);
            let line = json!({ "key": secret }).to_string();
            for text in [&line, &line.replace('\u{e9}', "\\u00e9"), secret] {
                let masked = masks.mask(text);
                assert!(masked.contains(MASK), "{masked}");
                let left = ["ss", "lines", "spaced", "caf"];
                assert!(!left.iter().any(|l| masked.contains(l)), "{masked}");
            }
            let trimmed = format!("got [{}]", secret.trim());
            assert_eq!(masks.mask(&trimmed), "got [[secret]]");
        }
    }

    #[test]
    fn a_secret_that_is_cut_off_is_masked() {
        let shown = |text: &str| masks().mask_cut(text).into_owned();
        assert_eq!(shown("key hunter2…"), "key [secret]…");
        assert_eq!(shown("a hunter22 hunter … b"), "a [secret] [secret]… b");
        for kept in ["hun…", "hunter2", "a … b", "…", "", "a &quot…", r"a \u00…"] {
            assert_eq!(shown(kept), kept);
        }
    }

    #[test]
    fn secrets_between_invalid_bytes_are_masked() {
        let shown = |bytes: &[u8], is_cut| masks().mask_bytes(bytes, is_cut).into_owned();
        let whole = b"\xff hunter22\xfe hunter22";
        assert_eq!(shown(whole, false), b"\xff [secret]\xfe [secret]");
        assert_eq!(shown(b"\xff hunter2", false), b"\xff hunter2");
        assert_eq!(shown(b"\xff hunter2", true), b"\xff [secret]");
    }

    #[test]
    fn secrets_in_quoted_json_are_masked() {
        let masks = SecretRedactor::default();
        masks.add("pa\"ss\\wo");
        let line = json!({ "key": "pa\"ss\\wo" }).to_string();
        let redacted = masks.mask(&format!("{line:?}")).into_owned();
        assert!(
            redacted.contains(MASK) && !redacted.contains("wo"),
            "{redacted}"
        );
    }

    #[test]
    fn a_secret_split_between_pieces_is_masked() {
        let text = "one hunter22 two";
        for cut in 0..=text.len() {
            let mut stream = masks().stream();
            let mut out = stream.push(text[..cut].to_owned());
            out.push_str(&stream.push(text[cut..].to_owned()));
            out.push_str(&stream.finish());
            assert_eq!(out, "one [secret] two", "cut at {cut}");
        }
    }

    #[test]
    fn text_that_only_starts_like_a_secret_is_shown() {
        let mut stream = masks().stream();
        assert_eq!(stream.push("x hun".into()), "x ");
        assert_eq!(stream.push("gry".into()), "hungry");
        assert_eq!(stream.push("hunt".into()), "");
        assert_eq!(stream.finish(), "hunt");
    }
}
