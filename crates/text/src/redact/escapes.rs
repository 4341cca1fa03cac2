//! Decodes the escapes in which other formats write single characters: percent-encoding, JSON and
//! C strings, XML and HTML, shells, and JSON Pointers.

/// Escapes with a fixed spelling, and the character that each stands for.
const FIXED: [(&[u8], u8); 9] = [
    // HTML forms.
    (b"+", b' '),
    // JSON Pointers.
    (b"~0", b'~'),
    (b"~1", b'/'),
    // A quote inside of quotes: SQL, YAML and CSV.
    (b"''", b'\''),
    (b"\"\"", b'"'),
    // A quote inside of quotes: shells, also inside of a JSON string.
    (br"'\''", b'\''),
    (br"'\\''", b'\''),
    (br#"'"'"'"#, b'\''),
    (br#"'\"'\"'"#, b'\''),
];

/// Names of characters in XML and HTML.
const ENTITIES: [(&[u8], u8); 36] = [
    (b"amp", b'&'),
    (b"AMP", b'&'),
    (b"ast", b'*'),
    (b"apos", b'\''),
    (b"bsol", b'\\'),
    (b"colon", b':'),
    (b"comma", b','),
    (b"commat", b'@'),
    (b"dollar", b'$'),
    (b"equals", b'='),
    (b"excl", b'!'),
    (b"grave", b'`'),
    (b"gt", b'>'),
    (b"GT", b'>'),
    (b"Hat", b'^'),
    (b"hyphen", b'-'),
    (b"lbrace", b'{'),
    (b"lbrack", b'['),
    (b"lcub", b'{'),
    (b"lowbar", b'_'),
    (b"lpar", b'('),
    (b"lsqb", b'['),
    (b"lt", b'<'),
    (b"LT", b'<'),
    (b"num", b'#'),
    (b"percnt", b'%'),
    (b"period", b'.'),
    (b"plus", b'+'),
    (b"quest", b'?'),
    (b"quot", b'"'),
    (b"rcub", b'}'),
    (b"rpar", b')'),
    (b"rsqb", b']'),
    (b"semi", b';'),
    (b"sol", b'/'),
    (b"verbar", b'|'),
];

/// Maximum number of times that a text is escaped again, as JSON in JSON in JSON.
const MAX_LEVELS: usize = 3;
/// Maximum length of a run of backslashes that is one escape: two to the power of `MAX_LEVELS`.
const MAX_BACKSLASHES: usize = 1 << MAX_LEVELS;
/// Maximum number of digits of an XML character reference, with leading zeros.
const MAX_DIGITS: usize = 8;
/// Maximum length in bytes of one escape. The longest is a surrogate pair: two halves, each with a
/// run of backslashes, `u` and four digits.
pub const MAX_ESCAPE: usize = 2 * (MAX_BACKSLASHES + 5);

/// Characters at which any escape can start, apart from those of `fixed_starts`.
pub const STARTS: [u8; 3] = [b'%', b'\\', b'&'];

/// Characters at which an escape starts that stands for `byte` and has a fixed spelling.
pub fn fixed_starts(byte: u8) -> impl Iterator<Item = u8> {
    let fixed = FIXED.iter().filter(move |(_, of)| *of == byte);
    fixed.filter_map(|(form, _)| form.first().copied())
}

/// Whether an escape can start with this byte.
pub fn is_start(byte: u8) -> bool {
    STARTS.contains(&byte) || matches!(byte, b'+' | b'~' | b'\'' | b'"')
}

/// Calls `found` with the length and the decoded bytes of every escape at the start of `text`.
/// There can be several, because `%2541` can be `%41` or `A`. Returns whether `text` ends inside an
/// escape.
pub fn each(text: &[u8], mut found: impl FnMut(usize, &[u8])) -> bool {
    match text.first() {
        Some(b'%') => percent(text, &mut found),
        Some(b'\\') => backslash(text, &mut found),
        Some(b'&') => entity(text, &mut found),
        Some(b'+' | b'~' | b'\'' | b'"') => fixed(text, &mut found),
        _ => false,
    }
}

fn fixed(text: &[u8], found: &mut impl FnMut(usize, &[u8])) -> bool {
    let mut is_cut = false;
    for (form, byte) in FIXED {
        if text.starts_with(form) {
            found(form.len(), &[byte]);
        }
        is_cut |= form.len() > text.len() && form.starts_with(text);
    }
    is_cut
}

/// `%41`. The percent sign can be encoded again: `%2541`.
fn percent(text: &[u8], found: &mut impl FnMut(usize, &[u8])) -> bool {
    let mut at = 1;
    for _ in 0..MAX_LEVELS {
        match number(text.get(at..).unwrap_or_default(), 16, 2, 2) {
            Number::Cut => return true,
            Number::Other => return false,
            Number::Value(value, _) => {
                at += 2;
                found(at, &[value as u8]);
                if value != u32::from(b'%') {
                    return false;
                }
            }
        }
    }
    false
}

/// `\"`, `\n`, `\u0041`, `\x41`, `\101`. The backslash can be escaped again: `\\\"`.
fn backslash(text: &[u8], found: &mut impl FnMut(usize, &[u8])) -> bool {
    let run = text.iter().take(MAX_BACKSLASHES);
    let run = run.take_while(|byte| **byte == b'\\').count();
    for level in 1..=MAX_LEVELS {
        if 1 << level <= run {
            found(1 << level, b"\\");
        }
    }
    let after = text.get(run..).unwrap_or_default();
    let Some((kind, rest)) = after.split_first() else {
        return true;
    };
    let head = run + 1;
    let digits = match kind {
        b'u' if rest.first() == Some(&b'{') => {
            let digits = rest.get(1..).unwrap_or_default();
            return match number(digits, 16, 1, MAX_DIGITS) {
                Number::Cut => true,
                Number::Value(value, length) if digits.get(length) == Some(&b'}') => {
                    character(value, head + length + 2, found);
                    false
                }
                Number::Value(_, length) => length == digits.len(),
                Number::Other => false,
            };
        }
        b'u' => number(rest, 16, 4, 4),
        b'U' => number(rest, 16, 8, 8),
        b'x' => {
            // `\x4` and then `1` is also possible, but programs write two digits.
            return match number(rest, 16, 2, 2) {
                Number::Value(value, length) => {
                    found(head + length, &[value as u8]);
                    false
                }
                other => matches!(other, Number::Cut),
            };
        }
        b'0'..=b'7' => {
            return match number(after, 8, 3, 3) {
                Number::Value(value @ ..=255, length) => {
                    found(run + length, &[value as u8]);
                    false
                }
                other => matches!(other, Number::Cut),
            };
        }
        b'n' => return one(b'\n', head, found),
        b't' => return one(b'\t', head, found),
        b'r' => return one(b'\r', head, found),
        b'a' => return one(0x07, head, found),
        b'b' => return one(0x08, head, found),
        b'v' => return one(0x0b, head, found),
        b'f' => return one(0x0c, head, found),
        b'e' | b'E' => return one(0x1b, head, found),
        b' ' | b'!'..=b'/' | b':'..=b'@' | b'['..=b'`' | b'{'..=b'~' => {
            return one(*kind, head, found);
        }
        _ => return false,
    };
    match digits {
        Number::Cut => true,
        Number::Other => false,
        // The first half of a surrogate pair. The second one has the same number of backslashes.
        Number::Value(high @ 0xd800..0xdc00, length) => {
            let low = rest.get(length..).unwrap_or_default();
            let mark: Vec<u8> = [vec![b'\\'; run], vec![b'u']].concat();
            let Some(digits) = low.strip_prefix(mark.as_slice()) else {
                return mark.starts_with(low);
            };
            match number(digits, 16, 4, 4) {
                Number::Value(low @ 0xdc00..0xe000, more) => {
                    let value = 0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00);
                    character(value, head + length + mark.len() + more, found);
                    false
                }
                other => matches!(other, Number::Cut),
            }
        }
        Number::Value(value, length) => {
            character(value, head + length, found);
            false
        }
    }
}

/// `&quot;`, `&#34;`, `&#x22;`. The ampersand can be escaped again: `&amp;quot;`.
fn entity(text: &[u8], found: &mut impl FnMut(usize, &[u8])) -> bool {
    let mut at = 1;
    for _ in 0..MAX_LEVELS {
        let rest = text.get(at..).unwrap_or_default();
        let longest = MAX_DIGITS + 3;
        let Some(end) = rest.iter().take(longest).position(|byte| *byte == b';') else {
            let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'#';
            return rest.len() < longest && rest.iter().all(is_name);
        };
        let name = rest.get(..end).unwrap_or_default();
        at += end + 1;
        let value = match name {
            [b'#', b'x' | b'X', digits @ ..] => whole_number(digits, 16),
            [b'#', digits @ ..] => whole_number(digits, 10),
            _ => {
                let known = ENTITIES.iter().find(|(known, _)| *known == name);
                known.map(|(_, byte)| u32::from(*byte))
            }
        };
        let Some(value) = value else {
            return false;
        };
        character(value, at, found);
        if value != u32::from(b'&') {
            return false;
        }
    }
    false
}

fn one(byte: u8, length: usize, found: &mut impl FnMut(usize, &[u8])) -> bool {
    found(length, &[byte]);
    false
}

fn character(value: u32, length: usize, found: &mut impl FnMut(usize, &[u8])) {
    if let Some(character) = char::from_u32(value) {
        found(length, character.encode_utf8(&mut [0; 4]).as_bytes());
    }
}

enum Number {
    /// A value and its number of digits.
    Value(u32, usize),
    /// The text ends before the last digit.
    Cut,
    Other,
}

/// Reads at least `least` and at most `most` digits.
fn number(text: &[u8], radix: u32, least: usize, most: usize) -> Number {
    let digits = text.iter().take(most);
    let digits = digits.map_while(|byte| char::from(*byte).to_digit(radix));
    let (value, length) = digits.fold((0_u32, 0), |(value, length), digit| {
        (value.wrapping_mul(radix).wrapping_add(digit), length + 1)
    });
    match length >= least {
        true => Number::Value(value, length),
        false if length == text.len() => Number::Cut,
        false => Number::Other,
    }
}

fn whole_number(digits: &[u8], radix: u32) -> Option<u32> {
    match number(digits, radix, 1, MAX_DIGITS) {
        Number::Value(value, length) if length == digits.len() => Some(value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(usize, String)> {
        let mut all = Vec::new();
        each(text.as_bytes(), |length, bytes| {
            all.push((length, String::from_utf8_lossy(bytes).into_owned()));
        });
        all
    }

    fn is_cut(text: &str) -> bool {
        each(text.as_bytes(), |_, _| {})
    }

    #[test]
    fn each_escape_is_decoded() {
        for (text, wanted) in [
            ("%41", "A"),
            ("%2f", "/"),
            ("%2F", "/"),
            ("%252F", "/"),
            ("+", " "),
            (r#"\""#, "\""),
            (r#"\\\""#, "\""),
            (r"\\", "\\"),
            (r"\\\\", "\\"),
            (r"\n", "\n"),
            (r"\/", "/"),
            (r"\u0041", "A"),
            (r"\u00E9", "é"),
            (r"\\u00e9", "é"),
            (r"\u{1f600}", "😀"),
            (r"\ud83d\ude00", "😀"),
            (r"\\ud83d\\ude00", "😀"),
            (r"\x41", "A"),
            (r"\101", "A"),
            (r"\$", "$"),
            (r"\ ", " "),
            (r"'\''", "'"),
            (r#"'"'"'"#, "'"),
            ("&amp;", "&"),
            ("&quot;", "\""),
            ("&apos;", "'"),
            ("&#39;", "'"),
            ("&#039;", "'"),
            ("&#x27;", "'"),
            ("&#X000027;", "'"),
            ("&amp;#39;", "'"),
            ("&amp;amp;lt;", "<"),
            ("&commat;", "@"),
            ("~0", "~"),
            ("~1", "/"),
        ] {
            let found = read(text);
            assert!(
                found.contains(&(text.len(), wanted.to_owned())),
                "{text}: {found:?}"
            );
            assert!(text.len() <= MAX_ESCAPE);
            // Each proper prefix can become this escape.
            for end in 1..text.len() {
                let prefix = &text[..end];
                assert!(is_cut(prefix) || !read(prefix).is_empty(), "{prefix}");
            }
        }
    }

    #[test]
    fn other_text_is_not_an_escape() {
        for text in [
            "",
            "a",
            "%",
            "%4",
            "%zz",
            "100% of",
            "&",
            "& b",
            "&nosuch;",
            "&#;",
            "&#x;",
            "&#xzz;",
            r"\",
            r"\q",
            r"\u12",
            r"\u12zz",
            r"\xz",
            r"\ud83d",
            r"\ud83dx",
            r"\u{}",
            "&#1114112;",
        ] {
            assert!(read(text).is_empty(), "{text}: {:?}", read(text));
        }
        for whole in ["%zz", "& b", "a", "&nosuch;", r"\q", r"\u12zz"] {
            assert!(!is_cut(whole), "{whole}");
        }
    }
}
