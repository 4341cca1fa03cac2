//! Resolved secrets, taken out of everything that leaves the runner.

use std::borrow::Cow;
use std::sync::{Arc, PoisonError, RwLock};

use serde_json::Value;

/// What stands in a secret's place.
pub const MASK: &str = "[secret]";
/// A shorter value would blank out half of every text; it is no secret worth the name.
const SHORTEST: usize = 4;
/// Where something was left out of a text.
const CUT: &str = "…";

/// All secrets of a run. Clones share them.
#[derive(Clone, Default)]
pub struct Masks {
    values: Arc<RwLock<Vec<String>>>,
}

impl Masks {
    /// As it is, without the spaces around it, and as both stand in JSON: errors quote lines
    /// as they came, and quote the quotes. As a name it may stand in a JSON Pointer.
    pub fn add(&self, secret: &str) {
        let mut values = self.values.write().unwrap_or_else(PoisonError::into_inner);
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
                if form.len() >= SHORTEST && !values.contains(&form) {
                    values.push(form);
                }
            }
        }
        // A secret that holds another one goes first, whole.
        values.sort_by_key(|v| std::cmp::Reverse(v.len()));
    }

    pub fn is_empty(&self) -> bool {
        self.values
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .is_empty()
    }

    pub fn mask<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let values = self.values.read().unwrap_or_else(PoisonError::into_inner);
        let mut out = Cow::Borrowed(text);
        for value in values.iter() {
            if out.contains(value.as_str()) {
                out = Cow::Owned(out.replace(value.as_str(), MASK));
            }
        }
        out
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
        match value {
            Value::String(text) => {
                if let Cow::Owned(masked) = self.mask(text) {
                    *text = masked;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.mask_value(item)),
            Value::Object(map) => {
                let hidden = |key: &String| matches!(self.mask(key), Cow::Owned(_));
                if map.keys().any(hidden) {
                    let old = std::mem::take(map);
                    for (key, value) in old {
                        map.insert(self.mask(&key).into_owned(), value);
                    }
                }
                map.values_mut().for_each(|value| self.mask_value(value));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
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
        let values = self.values.read().unwrap_or_else(PoisonError::into_inner);
        let longest = values.iter().map(String::len).max().unwrap_or(0);
        let from = text.len().saturating_sub(longest.saturating_sub(1));
        let starts = (from..text.len()).filter(|&at| text.is_char_boundary(at));
        let begins = |at: &usize| {
            let rest = text.get(*at..).unwrap_or_default();
            values.iter().any(|v| v.starts_with(rest))
        };
        starts
            .filter(begins)
            .map(|at| text.len() - at)
            .next()
            .unwrap_or(0)
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
