//! Resolved secrets of a run, taken out of everything that leaves it.

use std::borrow::Cow;
use std::sync::Arc;

use parking_lot::RwLock;
use serde_json::Value;

use super::values::Values;

/// What stands in a secret's place.
pub const MASK: &str = "[secret]";
/// A shorter value would blank out half of every text; it is no secret worth the name.
const SHORTEST: usize = 4;
/// Where something was left out of a text.
const CUT: &str = "…";

/// All secrets of a run. Clones share them.
#[derive(Clone, Default)]
pub struct Masks {
    values: Arc<RwLock<Values>>,
}

impl Masks {
    /// As it is, without the spaces around it, and as both stand in JSON: errors quote lines
    /// as they came, and quote the quotes. As a name it may stand in a JSON Pointer.
    pub fn add(&self, secret: &str) {
        let mut values = self.values.write();
        for form in [secret, secret.trim()] {
            let json = in_json(form);
            let pointer = form.replace('~', "~0").replace('/', "~1");
            let forms = [
                form.to_owned(),
                in_ascii(&json),
                in_json(&json),
                json,
                pointer,
            ];
            for form in forms {
                if form.len() >= SHORTEST {
                    values.add(form);
                }
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.values.read().is_empty()
    }

    pub fn mask<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.values.read().replace(text, MASK)
    }

    /// In bytes that may be anything: a secret is text, so it stands within a piece of text. The
    /// end of what was cut off may hold the beginning of one.
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

    /// As `mask`, for a text of which parts were cut off, each told by a `…`: what is left of a
    /// secret there goes, too.
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

    /// What the end of a text begins.
    fn mask_end<'t>(&self, text: Cow<'t, str>) -> Cow<'t, str> {
        let whole = text.trim_end();
        let left = self.unsettled(whole);
        match left >= SHORTEST {
            true => {
                let keep = whole.get(..whole.len() - left).unwrap_or_default();
                Cow::Owned(format!("{keep}{MASK}"))
            }
            false => text,
        }
    }

    /// In every string of a JSON value, keys included.
    pub fn mask_value(&self, value: &mut Value) {
        if self.is_empty() {
            return;
        }
        super::replace_strings(value, true, &mut |text| match self.mask(text) {
            Cow::Owned(masked) => Some(masked),
            Cow::Borrowed(_) => None,
        });
    }

    /// For a text that comes in pieces: a secret may be cut anywhere.
    pub fn stream(&self) -> MaskedStream {
        MaskedStream {
            masks: self.clone(),
            held: String::new(),
        }
    }

    /// How many bytes at the end of a text may be the beginning of a secret.
    fn unsettled(&self, text: &str) -> usize {
        self.values.read().unsettled(text)
    }
}

/// What stands between the quotes.
fn in_json(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    let inner = quoted.get(1..quoted.len().saturating_sub(1));
    inner.unwrap_or_default().to_owned()
}

/// As writers do that keep JSON to ASCII.
fn in_ascii(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_ascii() {
            out.push(character);
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    out
}

/// Masks a text in pieces; holds back what may become a secret.
pub struct MaskedStream {
    masks: Masks,
    held: String,
}

impl MaskedStream {
    /// The next piece; what may be shown now.
    pub fn take(&mut self, piece: String) -> String {
        if self.held.is_empty() && self.masks.is_empty() {
            return piece;
        }
        self.held.push_str(&piece);
        let mut text = self
            .masks
            .mask(&std::mem::take(&mut self.held))
            .into_owned();
        let keep = self.masks.unsettled(&text);
        self.held = text.split_off(text.len() - keep);
        text
    }

    /// The end of the text.
    pub fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn masks() -> Masks {
        let masks = Masks::default();
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
    fn a_secret_as_it_stands_in_json() {
        for secret in [
            "pa\"ss\\wo",
            "two\nlines",
            "  spaced \n",
            "caf\u{e9}-\u{1f600}",
        ] {
            let masks = Masks::default();
            masks.add(secret);
            let line = json!({ "key": secret }).to_string();
            for text in [&line, &super::in_ascii(&line), secret] {
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
    fn what_a_clipped_text_still_shows_of_a_secret() {
        let shown = |text: &str| masks().mask_cut(text).into_owned();
        assert_eq!(shown("key hunter2…"), "key [secret]…");
        assert_eq!(shown("a hunter22 hunter … b"), "a [secret] [secret]… b");
        for kept in ["hun…", "hunter2", "a … b", "…", ""] {
            assert_eq!(shown(kept), kept);
        }
    }

    #[test]
    fn bytes_that_are_no_text() {
        let shown = |bytes: &[u8], is_cut| masks().mask_bytes(bytes, is_cut).into_owned();
        let whole = b"\xff hunter22\xfe hunter22";
        assert_eq!(shown(whole, false), b"\xff [secret]\xfe [secret]");
        assert_eq!(shown(b"\xff hunter2", false), b"\xff hunter2");
        assert_eq!(shown(b"\xff hunter2", true), b"\xff [secret]");
    }

    #[test]
    fn a_quote_of_a_quote() {
        let masks = Masks::default();
        masks.add("pa\"ss\\wo");
        let line = json!({ "key": "pa\"ss\\wo" }).to_string();
        let told = masks.mask(&format!("{line:?}")).into_owned();
        assert!(told.contains(MASK) && !told.contains("wo"), "{told}");
    }

    #[test]
    fn a_secret_cut_anywhere() {
        let text = "one hunter22 two";
        for cut in 0..=text.len() {
            let mut stream = masks().stream();
            let mut out = stream.take(text[..cut].to_owned());
            out.push_str(&stream.take(text[cut..].to_owned()));
            out.push_str(&stream.finish());
            assert_eq!(out, "one [secret] two", "cut at {cut}");
        }
    }

    #[test]
    fn what_only_begins_like_a_secret_is_kept() {
        let mut stream = masks().stream();
        assert_eq!(stream.take("x hun".into()), "x ");
        assert_eq!(stream.take("gry".into()), "hungry");
        assert_eq!(stream.take("hunt".into()), "");
        assert_eq!(stream.finish(), "hunt");
    }
}
