//! Redacts secrets by their format, for secrets that an agent finds and prints, whose values are
//! not known.

use std::borrow::Cow;
use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use serde_json::Value;

use super::MASK;

/// Prefixes of the tokens of well-known services, each with two minimum lengths. The first is for
/// the value of a field. The second is for a word in any text, where identifiers of programs can
/// have the same prefix.
const TOKEN_FORMATS: [(&str, usize, usize); 28] = [
    ("AIza", 35, 39),
    ("AKIA", 20, 20),
    ("ASIA", 20, 20),
    ("SG.", 40, 40),
    ("dop_v1_", 40, 40),
    ("e2b_", 24, 44),
    ("eyJ", 60, 60),
    ("gho_", 30, 40),
    ("ghp_", 30, 40),
    ("ghr_", 30, 40),
    ("ghs_", 30, 40),
    ("ghu_", 30, 40),
    ("github_pat_", 30, 40),
    ("glpat-", 20, 26),
    ("gsk_", 30, 50),
    ("hf_", 30, 34),
    ("npm_", 30, 40),
    ("pypi-", 40, 40),
    ("rk_live_", 20, 30),
    ("sk-", 20, 23),
    ("sk_live_", 20, 30),
    ("sk_test_", 20, 30),
    ("whsec_", 24, 36),
    ("xapp-", 20, 24),
    ("xoxa-", 20, 24),
    ("xoxb-", 20, 24),
    ("xoxp-", 20, 24),
    ("ya29.", 30, 40),
];
const KEY_HEADER: &str = "-----BEGIN ";
const KEY_KIND: &str = "PRIVATE KEY-----";
const KEY_FOOTER: &str = "-----END ";
/// Maximum number of bytes that are held back because they may be the start of a secret.
const MAX_HELD: usize = 4096;

/// Searches for all prefixes at once. Most texts contain none of them.
static STARTS: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    let starts = TOKEN_FORMATS.iter().map(|(start, _, _)| *start);
    AhoCorasick::new(starts.chain([KEY_HEADER])).ok()
});

/// Whether the value of a field is a token of a well-known service.
pub fn is_known_token(text: &str) -> bool {
    TOKEN_FORMATS.iter().any(|(start, least, _)| {
        text.len() >= *least
            && text
                .strip_prefix(start)
                .is_some_and(|rest| !rest.contains(char::is_whitespace))
    })
}

fn is_part(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

fn is_secret(word: &str) -> bool {
    // `eyJ` starts a JSON web token only if there are three parts.
    let fits = |start: &str| start != "eyJ" || word.matches('.').count() == 2;
    TOKEN_FORMATS
        .iter()
        .any(|(start, _, least)| word.len() >= *least && word.starts_with(start) && fits(start))
}

/// Whether the word can become a secret if more text follows.
fn may_become(word: &str) -> bool {
    let begins = |form: &str| word.starts_with(form) || form.starts_with(word);
    !word.is_empty()
        && (begins(KEY_HEADER.trim_end()) || TOKEN_FORMATS.iter().any(|(form, _, _)| begins(form)))
}

/// Redacts text that arrives in pieces, in which a secret can be split.
#[derive(Default)]
pub struct TokenRedactor {
    held: String,
    /// Whether the position is between the first and the last line of a private key.
    in_key: bool,
    /// Whether the position is inside a secret that is longer than `MAX_HELD`.
    in_word: bool,
}

impl TokenRedactor {
    /// Adds a piece. Returns the text that can be shown now.
    pub fn push(&mut self, piece: &str) -> String {
        self.held.push_str(piece);
        let text = std::mem::take(&mut self.held);
        self.redact(&text, false)
    }

    /// Ends the text. Returns the rest.
    pub fn finish(&mut self) -> String {
        let text = std::mem::take(&mut self.held);
        let rest = self.redact(&text, true);
        self.in_word = false;
        rest
    }

    /// Redacts one of several lines. A private key can continue in the next line.
    pub fn line(&mut self, line: &str) -> String {
        let text = self.redact(line, true);
        self.in_word = false;
        text
    }

    fn redact(&mut self, text: &str, is_end: bool) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while !rest.is_empty() {
            if self.in_key {
                rest = self.skip_key(rest, is_end);
                continue;
            }
            let length = rest.bytes().take_while(|b| is_part(*b)).count();
            let (word, after) = rest.split_at(length);
            if self.in_word {
                self.in_word = after.is_empty();
                rest = after;
                continue;
            }
            if word.starts_with(KEY_HEADER.trim_end()) {
                match key_head(rest) {
                    Head::Key(end) => {
                        out.push_str(MASK);
                        self.in_key = true;
                        rest = rest.get(end..).unwrap_or_default();
                        continue;
                    }
                    Head::Incomplete if !is_end && rest.len() < 128 => {
                        rest.clone_into(&mut self.held);
                        return out;
                    }
                    Head::Incomplete | Head::Other => {}
                }
            }
            if after.is_empty() && !is_end && may_become(word) {
                if word.len() <= MAX_HELD {
                    word.clone_into(&mut self.held);
                    return out;
                }
                self.in_word = is_secret(word);
            }
            out.push_str(if is_secret(word) { MASK } else { word });
            // Copy everything up to the next word.
            let gap = after.bytes().take_while(|b| !is_part(*b)).count();
            let (gap, next) = after.split_at(gap);
            out.push_str(gap);
            rest = next;
        }
        out
    }

    /// Skips the text of a private key. Returns the text after it.
    fn skip_key<'t>(&mut self, text: &'t str, is_end: bool) -> &'t str {
        let Some(at) = text.find(KEY_FOOTER) else {
            // The end mark may be split between two pieces.
            let cut = (1..KEY_FOOTER.len()).rev().find(|n| {
                let head = KEY_FOOTER.get(..*n).unwrap_or_default();
                text.ends_with(head)
            });
            if !is_end && let Some(cut) = cut {
                text.get(text.len() - cut..)
                    .unwrap_or_default()
                    .clone_into(&mut self.held);
            }
            return "";
        };
        let mark = text.get(at + KEY_FOOTER.len()..).unwrap_or_default();
        match mark.find("-----") {
            Some(end) => {
                self.in_key = false;
                mark.get(end + 5..).unwrap_or_default()
            }
            None => {
                if !is_end && mark.len() < 128 {
                    text.get(at..)
                        .unwrap_or_default()
                        .clone_into(&mut self.held);
                } else {
                    self.in_key = false;
                }
                ""
            }
        }
    }
}

enum Head {
    /// The first line of a private key, which ends at this offset.
    Key(usize),
    /// The line is not complete yet.
    Incomplete,
    /// Anything else.
    Other,
}

fn key_head(text: &str) -> Head {
    let line = text.lines().next().unwrap_or(text);
    match line.find(KEY_KIND) {
        Some(at) if line.starts_with(KEY_HEADER) => Head::Key(at + KEY_KIND.len()),
        _ if line.len() == text.len() => Head::Incomplete,
        _ => Head::Other,
    }
}

/// Redacts a whole text.
pub fn text(text: &str) -> Cow<'_, str> {
    let suspicious = STARTS.as_ref().is_none_or(|starts| starts.is_match(text));
    if !suspicious {
        return Cow::Borrowed(text);
    }
    let mut stream = TokenRedactor::default();
    Cow::Owned(stream.redact(text, true))
}

/// Redacts every string in a JSON value. Returns whether anything was redacted.
pub fn value(value: &mut Value) -> bool {
    super::replace_strings(value, false, &mut |found| match text(found) {
        Cow::Owned(clean) if clean != *found => Some(clean),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Built at run time, so that no secret scanner reports this file.
    fn secrets() -> Vec<String> {
        let of = |prefix: &str, n: usize| format!("{prefix}{}", "aB3".repeat(n / 3 + 1));
        vec![
            of("sk-", 30),
            of("sk-ant-api03-", 60),
            of("ghp_", 36),
            of("github_pat_", 60),
            of("glpat-", 20),
            of("xoxb-", 30),
            of("AIza", 35),
            of("npm_", 36),
            of("gsk_", 52),
            of("ya29.", 40),
            format!("{}{}", "AKIA", "ABCDEFGHIJKLMNOP"),
            format!("{}.{}.{}", of("eyJ", 30), of("eyJ", 40), of("x", 30)),
        ]
    }

    #[test]
    fn known_token_formats_are_redacted_and_other_words_stay() {
        for secret in secrets() {
            for around in ["", " ", "\"", "=", "\n"] {
                let found = text(&format!("a{around} {secret}{around}b")).into_owned();
                if around.is_empty() {
                    assert!(!found.contains(&secret[..20]), "{found}");
                } else {
                    assert_eq!(found, format!("a{around} {MASK}{around}b"));
                }
            }
        }
        for plain in [
            "sk-learn and task-runner",
            "the AKIA prefix",
            "eyJ",
            "ghp_short",
            "gsk_gl_shader_node_get_n_children",
            "risk-averse-people-who-read-long-words",
            "grüße … 日本",
            "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
        ] {
            assert_eq!(text(plain), plain);
        }
    }

    #[test]
    fn secrets_are_redacted_in_pieces_of_any_size() {
        let key = format!(
            "{}RSA {KEY_KIND}\nMIIEabc\n+/x=\n{}RSA {KEY_KIND}",
            KEY_HEADER, KEY_FOOTER
        );
        let redacted: Vec<String> = secrets().into_iter().chain([key]).collect();
        let whole = format!("begin {} end; ghp_ no; sk", redacted.join(" x "));
        let expected = format!(
            "begin {} end; ghp_ no; sk",
            vec![MASK; redacted.len()].join(" x ")
        );
        assert_eq!(text(&whole), expected);
        let letters: Vec<char> = whole.chars().collect();
        for size in [1, 2, 3, 7, 20, 64, 1000] {
            let mut stream = TokenRedactor::default();
            let mut got = String::new();
            for piece in letters.chunks(size) {
                got.push_str(&stream.push(&piece.iter().collect::<String>()));
            }
            got.push_str(&stream.finish());
            assert_eq!(got, expected, "pieces of {size}");
        }
    }

    #[test]
    fn a_long_secret_does_not_fill_memory() {
        let mut stream = TokenRedactor::default();
        let mut got = stream.push("sk-");
        for _ in 0..5000 {
            got.push_str(&stream.push("abcdef"));
            assert!(stream.held.len() <= MAX_HELD + 16);
        }
        got.push_str(&stream.push(" after"));
        got.push_str(&stream.finish());
        assert_eq!(got, format!("{MASK} after"));
    }

    #[test]
    fn a_private_key_is_redacted_over_several_lines() {
        let mut stream = TokenRedactor::default();
        let lines = [
            format!("found {KEY_HEADER}{KEY_KIND}"),
            "MIIEabc".to_owned(),
            format!("{KEY_FOOTER}{KEY_KIND}"),
            "after".to_owned(),
        ];
        let shown: Vec<String> = lines.iter().map(|line| stream.line(line)).collect();
        assert_eq!(shown, ["found [secret]", "", "", "after"]);
    }
}
