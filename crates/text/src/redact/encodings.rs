//! Finds known secrets in text in every encoding in which programs commonly write them.
//!
//! Each secret has a few forms: its own text, base64 and hexadecimal. A form matches if each of its
//! characters is there, as it is or escaped (`escapes`), so any mix of escapes is found. A search
//! for the first bytes of all forms, for the starts of escapes and for line breaks finds the
//! candidates.

use std::collections::BTreeSet;

use super::escapes;
use super::values::SecretValues;

/// Minimum length in bytes of a secret. A shorter one would match in most texts.
pub const MIN_LENGTH: usize = 4;
/// Minimum length in bytes of a secret that is searched in base64 and hexadecimal. A shorter one
/// has so few characters there that other data, such as an image, would contain them by chance.
const MIN_ENCODED: usize = 6;
/// Number of bytes at the start of a form that are searched in every text. It limits the size of
/// the automaton.
const ANCHOR: usize = 16;

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// A form of a secret.
#[derive(Clone, PartialEq)]
struct Form {
    bytes: Box<[u8]>,
    /// Whether programs break this form into lines, as `base64` and `xxd` do.
    may_wrap: bool,
}

/// Secrets in all their forms.
#[derive(Clone, Default)]
pub struct Encodings {
    forms: Vec<Form>,
    /// The first bytes of each form.
    anchors: SecretValues,
    /// Bytes of the anchors at which an occurrence can start or have its first escape, in order.
    heads: Vec<Head>,
    /// Bytes in `heads`.
    used: ByteSet,
    /// Bytes of the anchors after which the first line break of an occurrence can be, in order.
    before_break: Vec<Head>,
    /// Bytes of all anchors that can be wrapped.
    wraps: ByteSet,
    /// Bytes at which an escape can start, apart from `escapes::STARTS`.
    fixed_starts: BTreeSet<u8>,
    shortest: usize,
    longest: usize,
}

/// A byte of an anchor.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Head {
    byte: u8,
    /// Offset of the byte in the form.
    index: u8,
    /// Index of the form.
    form: u32,
}

/// How far a form matches.
struct Match {
    /// Where the form ends.
    end: Option<usize>,
    /// Whether the text ends where the form can continue.
    is_cut: bool,
}

impl Encodings {
    /// Adds a secret in all its forms. A secret that is too short is ignored.
    pub fn add(&mut self, secret: &str) {
        if secret.len() < MIN_LENGTH {
            return;
        }
        self.add_form(secret.to_owned(), false);
        if secret.len() < MIN_ENCODED {
            return;
        }
        let hex = crate::hex(secret.as_bytes());
        self.add_form(hex.to_ascii_uppercase(), true);
        self.add_form(hex, true);
        for form in base64_forms(secret.as_bytes()) {
            self.add_form(form, true);
        }
    }

    fn add_form(&mut self, text: String, may_wrap: bool) {
        let form = Form {
            bytes: text.as_bytes().into(),
            may_wrap,
        };
        if self.forms.contains(&form) {
            return;
        }
        for (byte, index) in text.bytes().zip(0..ANCHOR as u8) {
            // Programs do not escape letters and digits of base64.
            if index == 0 || !may_wrap || !byte.is_ascii_alphanumeric() {
                let form = self.forms.len() as u32;
                self.heads.push(Head { byte, index, form });
                self.used.add(byte);
            }
            if may_wrap {
                self.wraps.add(byte);
            }
            // After the whole anchor, the search for anchors finds the occurrence.
            if may_wrap && usize::from(index) + 1 < text.len().min(ANCHOR) {
                let form = self.forms.len() as u32;
                self.before_break.push(Head { byte, index, form });
            }
        }
        self.heads.sort_unstable();
        self.before_break.sort_unstable();
        let fixed = text.bytes().flat_map(escapes::fixed_starts);
        self.fixed_starts.extend(fixed);
        self.shortest = match self.forms.is_empty() {
            true => text.len(),
            false => self.shortest.min(text.len()),
        };
        self.longest = self.longest.max(text.len());
        let anchor = (0..=ANCHOR).rev().find_map(|end| text.get(..end));
        self.anchors.add(anchor.unwrap_or(&text).to_owned());
        self.forms.push(form);
    }

    /// Whether no secret was added.
    pub fn is_empty(&self) -> bool {
        self.forms.is_empty()
    }

    /// Ranges of the secrets in a text, in order. Ranges that overlap are merged.
    pub fn places(&self, text: &str) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        if text.len() < self.shortest || self.is_empty() {
            return found;
        }
        let bytes = text.as_bytes();
        self.anchors.each_place(text, &mut |start, end| {
            let anchor = bytes.get(start..end).unwrap_or_default();
            // Of several anchors at one place, this is the longest.
            let fits = |form: &&Form| form.bytes.iter().zip(anchor).all(|(a, b)| a == b);
            for form in self.forms.iter().filter(fits) {
                let end = form.follow(bytes, start, 0).end;
                found.extend(end.map(|end| (start, end)));
            }
        });
        let [a, b, c] = escapes::STARTS;
        for at in memchr::memchr3_iter(a, b, c, bytes) {
            self.places_of_escape(bytes, at, &mut found);
        }
        for start in &self.fixed_starts {
            for at in memchr::memchr_iter(*start, bytes) {
                self.places_of_escape(bytes, at, &mut found);
            }
        }
        if !self.before_break.is_empty() {
            for line_end in [b'\n', b'\r'] {
                for at in memchr::memchr_iter(line_end, bytes) {
                    self.places_of_break(bytes, at, &mut found);
                }
            }
        }
        super::values::merge(&mut found);
        found
    }

    /// Finds occurrences whose first escape is at this offset. The characters before it are there
    /// as they are.
    fn places_of_escape(&self, text: &[u8], at: usize, found: &mut Vec<(usize, usize)>) {
        let (before, rest) = text.split_at(at);
        // A line break in a JSON string.
        if rest.first() == Some(&b'\\') {
            self.places_of_break(text, at, found);
        }
        escapes::each(rest, |length, decoded| {
            for (form, index) in self.forms_with(decoded) {
                if before.ends_with(form.bytes.get(..index).unwrap_or_default()) {
                    let end = form.follow(text, at + length, index + decoded.len()).end;
                    found.extend(end.map(|end| (at - index, end)));
                }
            }
        });
    }

    /// Finds occurrences whose first line break is at this offset, if it is in their anchor. The
    /// characters before it are there as they are.
    fn places_of_break(&self, text: &[u8], at: usize, found: &mut Vec<(usize, usize)>) {
        let (before, rest) = text.split_at(at);
        // Most lines end with punctuation, or start with a space.
        let Some(last) = before.last().filter(|last| self.wraps.contains(**last)) else {
            return;
        };
        let Some(length) = line_break(rest) else {
            return;
        };
        let next = rest.get(length);
        let is_special =
            next.is_some_and(|next| escapes::is_start(*next) || matches!(next, b'\n' | b'\r'));
        if !is_special && !next.is_some_and(|next| self.wraps.contains(*next)) {
            return;
        }
        let from = self.before_break.partition_point(|head| head.byte < *last);
        let heads = self.before_break.get(from..).unwrap_or_default();
        for head in heads.iter().take_while(|head| head.byte == *last) {
            let known = usize::from(head.index) + 1;
            let form = self.forms.get(head.form as usize);
            let fits = |form: &&Form| {
                let start = form.bytes.get(..known);
                let continues = is_special || form.bytes.get(known) == next;
                continues && start.is_some_and(|start| before.ends_with(start))
            };
            if let Some(form) = form.filter(fits) {
                let end = form.follow(text, at + length, known).end;
                found.extend(end.map(|end| (at - known, end)));
            }
        }
    }

    /// Forms that contain these bytes in their anchor, each with the offset of the bytes.
    fn forms_with(&self, bytes: &[u8]) -> impl Iterator<Item = (&Form, usize)> {
        let first = bytes.first().filter(|byte| self.used.contains(**byte));
        let heads = first.map_or(&[][..], |first| {
            let from = self.heads.partition_point(|head| head.byte < *first);
            self.heads.get(from..).unwrap_or_default()
        });
        let heads = heads
            .iter()
            .take_while(move |head| Some(&head.byte) == first);
        heads.filter_map(move |head| {
            let form = self.forms.get(head.form as usize)?;
            let index = usize::from(head.index);
            let fits = form.bytes.get(index..)?.starts_with(bytes);
            fits.then_some((form, index))
        })
    }

    /// Number of bytes at the end of a text that can be the start of a secret. `with_escapes` is
    /// whether an incomplete escape alone can be one.
    pub fn partial_match_len(&self, text: &str, with_escapes: bool) -> usize {
        let longest = self.longest.saturating_mul(escapes::MAX_ESCAPE);
        let from = text.len().saturating_sub(longest);
        let is_cut = |at: &usize| self.is_cut(text.as_bytes(), *at, with_escapes);
        let first = (from..text.len()).find(is_cut);
        first.map_or(0, |at| text.len() - at)
    }

    /// Whether the text ends inside a form that starts at this offset.
    fn is_cut(&self, text: &[u8], at: usize, with_escapes: bool) -> bool {
        let rest = text.get(at..).unwrap_or_default();
        let ends_inside = |length: usize, decoded: &[u8]| {
            let forms = self.forms_with(decoded);
            let mut forms = forms.take_while(|(_, index)| *index == 0);
            forms.any(|(form, _)| form.follow(text, at + length, decoded.len()).is_cut)
        };
        let Some(first) = rest.first() else {
            return false;
        };
        let mut is_cut = ends_inside(1, &[*first]);
        let escape_is_cut = escapes::each(rest, |length, decoded| {
            is_cut = is_cut || ends_inside(length, decoded);
        });
        is_cut || (with_escapes && escape_is_cut)
    }
}

impl Form {
    /// Compares the text from `at` with the form from `index`. A character can be escaped in
    /// several ways, so all positions are followed.
    fn follow(&self, text: &[u8], at: usize, index: usize) -> Match {
        let mut is_cut = false;
        let mut end = None;
        let mut open = BTreeSet::new();
        let mut next = Some((index, at));
        while let Some((mut index, mut at)) = next {
            // Most characters are not escaped.
            while let (Some(found), Some(wanted)) = (text.get(at), self.bytes.get(index))
                && found == wanted
                && !escapes::is_start(*found)
            {
                index += 1;
                at += 1;
            }
            let wanted = self.bytes.get(index..).unwrap_or_default();
            let rest = text.get(at..).unwrap_or_default();
            match (wanted.first(), rest.first()) {
                (None, _) => end = end.max(Some(at)),
                (_, None) => is_cut = true,
                (Some(byte), Some(found)) => {
                    if byte == found {
                        open.insert((index + 1, at + 1));
                    }
                    is_cut |= escapes::each(rest, |length, decoded| {
                        if wanted.starts_with(decoded) {
                            open.insert((index + decoded.len(), at + length));
                        }
                    });
                    let wrap = line_break(rest).filter(|_| self.may_wrap);
                    open.extend(wrap.map(|length| (index, at + length)));
                }
            }
            next = open.pop_first();
        }
        Match { end, is_cut }
    }
}

/// Length of a line break at the start of a text, also of one in a JSON string.
fn line_break(text: &[u8]) -> Option<usize> {
    match text {
        [b'\n' | b'\r', ..] => Some(1),
        [b'\\', b'n' | b'r', ..] => Some(2),
        [b'\\', b'\\', b'n' | b'r', ..] => Some(3),
        _ => None,
    }
}

/// The characters in which base64 writes `bytes`, standard and URL-safe, at each of the three
/// positions that they can have in a longer text. A character that also depends on the neighboring
/// bytes is left out.
pub fn base64_forms(bytes: &[u8]) -> Vec<String> {
    let mut forms = Vec::new();
    for before in 0..3 {
        let first = (before * 8_usize).div_ceil(6);
        let last = (before + bytes.len()) * 8 / 6;
        let digit = |at: usize| {
            let bit = |bit: usize| {
                let byte = bytes.get((at * 6 + bit) / 8 - before);
                byte.is_some_and(|byte| byte >> (7 - (at * 6 + bit) % 8) & 1 == 1)
            };
            let value = (0..6).fold(0, |value, n| value << 1 | usize::from(bit(n)));
            BASE64.get(value).map_or('=', |digit| char::from(*digit))
        };
        let standard: String = (first..last).map(digit).collect();
        let url_safe = standard.replace('+', "-").replace('/', "_");
        if url_safe != standard {
            forms.push(url_safe);
        }
        forms.push(standard);
    }
    forms
}

/// A set of bytes.
#[derive(Clone, Copy, Default)]
struct ByteSet([u64; 4]);

impl ByteSet {
    fn add(&mut self, byte: u8) {
        if let Some(word) = self.0.get_mut(usize::from(byte >> 6)) {
            *word |= 1 << (byte & 63);
        }
    }

    fn contains(&self, byte: u8) -> bool {
        let word = self.0.get(usize::from(byte >> 6));
        word.is_some_and(|word| word >> (byte & 63) & 1 == 1)
    }
}
