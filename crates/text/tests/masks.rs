//! Secrets are masked in every encoding, in pieces of any size, and nothing else is masked.
//! The encoders here are independent of those under test.

use agentproto_text::redact::{MASK, SecretRedactor};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use proptest::prelude::*;

const SECRETS: [&str; 9] = [
    "hunter22",
    "tok_51HvJ8-live.Zq~",
    "p@ss w0rd/+=&\"'<>",
    "it's $HOME `x` !#%^*()[]{}|;:,?\\",
    "100%25 \\n \\u0041 &amp; '' +~0~1",
    "caf\u{e9}-\u{1f600}-key",
    "two\nlines\tand tab",
    "AKIA+/+/+/??>>~~\u{ff}\u{3ff}",
    // Longer than a line of `base64`.
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
];

fn percent(secret: &str, kept: &str, lower: bool) -> String {
    let of = |byte: u8| match byte.is_ascii() && kept.contains(char::from(byte)) {
        true => char::from(byte).to_string(),
        false if lower => format!("%{byte:02x}"),
        false => format!("%{byte:02X}"),
    };
    secret.bytes().map(of).collect()
}

fn each_char(secret: &str, of: impl Fn(char) -> String) -> String {
    secret.chars().map(of).collect()
}

fn before(secret: &str, specials: &str, mark: &str) -> String {
    each_char(secret, |c| match specials.contains(c) {
        true => format!("{mark}{c}"),
        false => c.to_string(),
    })
}

fn utf16(c: char, upper: bool) -> String {
    let units: Vec<u16> = c.encode_utf16(&mut [0; 2]).to_vec();
    let unit = |unit: u16| match upper {
        true => format!("\\u{unit:04X}"),
        false => format!("\\u{unit:04x}"),
    };
    units.into_iter().map(unit).collect()
}

fn json(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

fn wrapped(text: &str, width: usize) -> String {
    let chars: Vec<char> = text.chars().collect();
    let lines = chars.chunks(width).map(|line| line.iter().collect());
    lines.collect::<Vec<String>>().join("\n")
}

/// The secret as many programs write it. Each is replaced completely.
fn escaped_forms(secret: &str) -> Vec<(&'static str, String)> {
    const ALNUM: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let mut forms = vec![("plain", secret.to_owned())];
    // RFC 3986, `encodeURIComponent`, `encodeURI`, Python's `quote`, forms, and everything.
    for kept in [
        "-_.~",
        "-_.!~*'()",
        "-_.!~*'();/?:@&=+$,#",
        "-_.~/",
        "*-._",
        "",
    ] {
        let kept = match kept {
            "" => String::new(),
            kept => format!("{ALNUM}{kept}"),
        };
        for lower in [false, true] {
            let form = percent(secret, &kept, lower);
            forms.push(("percent", form.clone()));
            forms.push(("percent with plus", form.replace("%20", "+")));
            forms.push(("percent twice", form.replace('%', "%25")));
            forms.push(("percent in JSON", json(&form)));
        }
    }
    let json_form = json(secret);
    let solidus = json_form.replace('/', "\\/");
    let html = |c: char| match c {
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        '&' => "&amp;".to_owned(),
        '"' => "&quot;".to_owned(),
        '\'' => "&#39;".to_owned(),
        c => c.to_string(),
    };
    let xml = each_char(secret, html);
    let single = secret.replace('\'', r"'\''");
    let c_string = secret
        .replace('\\', r"\\")
        .replace('\'', r"\'")
        .replace('\n', r"\n")
        .replace('\t', r"\t");
    let bytes = |of: fn(u8) -> String| secret.bytes().map(of).collect::<String>();
    let lowered = each_char(secret, |c| utf16(c, false));
    forms.extend([
        ("JSON", json_form.clone()),
        ("JSON in JSON", json(&json_form)),
        ("JSON in JSON in JSON", json(&json(&json_form))),
        ("JSON with escaped solidus", solidus),
        ("JSON, all escaped in lower case", lowered.clone()),
        (
            "JSON, all escaped in upper case",
            each_char(secret, |c| utf16(c, true)),
        ),
        ("JSON, all escaped in JSON", json(&lowered)),
        (
            "JSON as Go writes it",
            json_form.replace('<', r"\u003c").replace('&', r"\u0026"),
        ),
        (
            "Rust debug",
            format!("{secret:?}")
                .trim_matches('"')
                .replace("\\\"", "\""),
        ),
        ("JSON pointer", secret.replace('~', "~0").replace('/', "~1")),
        ("XML", xml.clone()),
        ("XML with apos", xml.replace("&#39;", "&apos;")),
        ("XML with padded digits", xml.replace("&#39;", "&#039;")),
        (
            "XML with hexadecimal",
            xml.replace("&#39;", "&#x27;").replace("&quot;", "&#x22;"),
        ),
        ("XML twice", each_char(&xml, html)),
        ("XML in JSON", json(&xml)),
        (
            "XML decimal",
            each_char(secret, |c| format!("&#{};", u32::from(c))),
        ),
        (
            "XML hexadecimal",
            each_char(secret, |c| format!("&#x{:x};", u32::from(c))),
        ),
        (
            "XML upper hexadecimal",
            each_char(secret, |c| format!("&#x{:X};", u32::from(c))),
        ),
        ("single quotes", single.clone()),
        ("single quotes in JSON", json(&single)),
        (
            "single quotes in double quotes",
            secret.replace('\'', r#"'"'"'"#),
        ),
        ("SQL and YAML", secret.replace('\'', "''")),
        ("CSV", secret.replace('"', "\"\"")),
        ("double quotes", before(secret, "\"\\$`", "\\")),
        (
            "backslashes",
            before(secret, " \"'\\$`!#^*()[]{}|;:,?<>&=+@/~%", "\\"),
        ),
        ("dollar quotes", c_string),
        ("C hexadecimal", bytes(|byte| format!("\\x{byte:02x}"))),
        ("C octal", bytes(|byte| format!("\\{byte:03o}"))),
    ]);
    forms
}

/// Encodings of a text that contains the secret. Characters that also depend on what is around the
/// secret stay, so only the inner part is compared.
fn encoded_forms(secret: &str) -> Vec<(&'static str, String)> {
    let mut forms = Vec::new();
    let hex: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
    forms.push(("hexadecimal", hex.clone()));
    forms.push(("upper hexadecimal", hex.to_uppercase()));
    forms.push(("hexadecimal in lines", wrapped(&hex, 60)));
    for around in ["", "u:", "user:", "root:", "\u{e9}:"] {
        for after in ["", "\n", "@host"] {
            let text = format!("{around}{secret}{after}");
            let all = [
                ("base64", STANDARD.encode(&text)),
                ("base64 without padding", STANDARD_NO_PAD.encode(&text)),
                ("URL-safe base64", URL_SAFE.encode(&text)),
                (
                    "URL-safe base64 without padding",
                    URL_SAFE_NO_PAD.encode(&text),
                ),
                ("base64 in lines", wrapped(&STANDARD.encode(&text), 76)),
                (
                    "base64 in lines in JSON",
                    json(&wrapped(&STANDARD.encode(&text), 64)),
                ),
                (
                    "base64 in PHP's JSON",
                    STANDARD.encode(&text).replace('/', "\\/"),
                ),
                (
                    "base64 in a URL",
                    STANDARD
                        .encode(&text)
                        .replace('+', "%2B")
                        .replace('/', "%2F"),
                ),
            ];
            forms.extend(all);
        }
    }
    forms
}

fn masks(secret: &str) -> SecretRedactor {
    let masks = SecretRedactor::default();
    masks.add(secret);
    masks
}

/// The text after it went through a stream in these pieces.
fn streamed(masks: &SecretRedactor, text: &str, cuts: &[usize]) -> String {
    let mut stream = masks.stream();
    let mut out = String::new();
    let mut from = 0;
    for cut in cuts.iter().copied().chain([text.len()]) {
        if let Some(piece) = text.get(from..cut) {
            out.push_str(&stream.push(piece.to_owned()));
            from = cut;
        }
    }
    out + &stream.finish()
}

/// Checks one text at every place where it can be split, and character by character.
fn check_splits(masks: &SecretRedactor, text: &str, wanted: &str, how: &str) {
    for cut in 0..=text.len() {
        assert_eq!(
            streamed(masks, text, &[cut]),
            wanted,
            "{how}: {text:?} cut at {cut}"
        );
    }
    let all: Vec<usize> = (0..text.len()).collect();
    assert_eq!(
        streamed(masks, text, &all),
        wanted,
        "{how}: {text:?} in characters"
    );
}

#[test]
fn each_escaped_form_is_masked_at_every_split() {
    for secret in SECRETS {
        let masks = masks(secret);
        for (how, form) in escaped_forms(secret) {
            let text = format!("a=({form}) b");
            let wanted = format!("a=({MASK}) b");
            assert_eq!(masks.mask(&text), wanted, "{how}: {text:?}");
            check_splits(&masks, &text, &wanted, how);
        }
    }
}

#[test]
fn each_encoded_form_is_masked_at_every_split() {
    for secret in SECRETS {
        let masks = masks(secret);
        for (how, form) in encoded_forms(secret) {
            let text = format!("a=({form}) b");
            let masked = masks.mask(&text).into_owned();
            assert!(masked.contains(MASK), "{how}: {text:?}");
            // At most the characters around the secret are left: those of 8 bytes before it and 5
            // bytes after it, and line breaks between them.
            let left = masked.len() - "a=() b".len() - MASK.len();
            assert!(left <= 28, "{how}: {masked:?}");
            check_splits(&masks, &text, &masked, how);
        }
    }
}

/// Texts without a secret stay as they are, also in pieces.
/// The first line break can be anywhere in the secret, also after its first character.
#[test]
fn wrapped_forms_are_masked_wherever_the_first_line_break_is() {
    for secret in [SECRETS[0], SECRETS[1], SECRETS[8]] {
        let masks = masks(secret);
        for before in 0..80 {
            let all = "x".repeat(before) + secret + "yyy";
            let hex: String = all.bytes().map(|byte| format!("{byte:02x}")).collect();
            let forms = [STANDARD.encode(&all), hex.to_uppercase(), hex];
            for (form, per_byte) in forms.iter().zip([4.0 / 3.0, 2.0, 2.0]) {
                let least = (secret.len() as f64 * per_byte) as usize - 2;
                for width in [3, 60, 64, 76] {
                    let lines = wrapped(form, width);
                    for text in [lines.clone(), lines.replace('\n', "\r\n"), json(&lines)] {
                        let masked = masks.mask(&text).into_owned();
                        let shown = masked.replace(['\n', '\r'], "").replace("\\n", "");
                        let expected = form.len() - least + MASK.len();
                        let how = format!("{before} before, width {width}: {masked}");
                        assert!(masked.contains(MASK) && shown.len() <= expected, "{how}");
                        // Streams take longer, and every offset of the break is in some of them.
                        let sizes: &[usize] = match before % 8 {
                            0 => &[1, 7],
                            _ if text == lines => &[64],
                            _ => &[],
                        };
                        for size in sizes.iter().copied() {
                            let cuts: Vec<usize> = (size..text.len()).step_by(size).collect();
                            assert_eq!(streamed(&masks, &text, &cuts), masked, "{how}");
                        }
                    }
                }
            }
        }
        // The start of a secret before a line break, and then something else.
        let form = STANDARD.encode(secret);
        for at in 1..12.min(form.len() - 2) {
            let text = format!("{}\n{}\n", &form[..at], "Q".repeat(40));
            assert_eq!(masks.mask(&text), text);
        }
    }
}

#[test]
fn other_text_is_not_masked() {
    let image: Vec<u8> = (0..60_000_u32)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    let image = STANDARD.encode(image);
    let texts = [
        "const hunterSecretProvider = new HunterProvider(hunter2);",
        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "123e4567-e89b-12d3-a456-426614174000",
        "sha512-z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H0NE8XYXysP+DGNKHfuwvY7kxvUdBeoGlODJ6+SfaPg==",
        "https://host.example/a%20b?c=d%2Fe&f=%C3%A9+g",
        r#"{"path":"C:\\Users\\x","text":"a\nb\t\"c\" \u00e9 \ud83d\ude00"}"#,
        "&lt;p class=&quot;x&quot;&gt;a &amp; b&#39;s&lt;/p&gt;",
        r"find . -name '*.rs' -exec sh -c 'echo '\''$1'\''' \;",
        "two lines and tab, it's 100% of $HOME",
        "\\\\\\\\\\\\\\\\\\\\\\\\ %%%%%% &&&& '''' +++ ~~~",
        &image,
    ];
    let masks = SecretRedactor::default();
    SECRETS.iter().for_each(|secret| masks.add(secret));
    for text in texts {
        assert_eq!(masks.mask(text), text);
        for size in [1, 7, 4096] {
            let cuts: Vec<usize> = (0..text.len()).step_by(size).collect();
            assert_eq!(streamed(&masks, text, &cuts), text);
        }
    }
}

/// In base64 and hexadecimal, a short secret has so few characters that they occur by chance.
#[test]
fn short_secrets_are_masked_only_as_text() {
    for (secret, text) in [
        ("abc", "abc %61%62%63 YWJj 616263"),
        ("abcd", "YWJjZA== 61626364"),
        ("abcde", "YWJjZGU= 6162636465"),
    ] {
        assert_eq!(masks(secret).mask(text), text);
    }
    assert_eq!(
        masks("a/cd").mask(r"x a/cd a%2Fcd a\/cd"),
        "x [secret] [secret] [secret]"
    );
    assert_eq!(
        masks("abcdef").mask("YWJjZGVm 616263646566"),
        "[secret] [secret]"
    );
}

#[test]
fn a_secret_in_a_longer_secret_is_masked_at_every_split() {
    let masks = SecretRedactor::default();
    for secret in ["hunter22", "hunter22-long", "xhunter22", "22-longer"] {
        masks.add(secret);
    }
    for (text, wanted) in [
        ("a hunter22-long b", "a [secret] b"),
        ("a hunter22-longer b", "a [secret] b"),
        ("a xhunter22-lonx b", "a [secret]-lonx b"),
        ("a hunter22", "a [secret]"),
    ] {
        assert_eq!(masks.mask(text), wanted);
        check_splits(&masks, text, wanted, "overlapping secrets");
    }
}

/// A program that repeats its secret without end does not fill memory.
#[test]
fn endless_secrets_are_not_held_back() {
    let masks = masks("aaaaaaaa");
    let mut stream = masks.stream();
    let piece = "a".repeat(10_000);
    let mut out = String::new();
    for _ in 0..40 {
        out.push_str(&stream.push(piece.clone()));
    }
    assert!(out.contains(MASK), "something is shown before the end");
    out.push_str(&stream.finish());
    assert!(!out.contains("aaaaaaaa") && out.len() < 200, "{out}");
}

proptest! {
    /// Each character can be written in another way.
    #[test]
    fn any_mix_of_escapes_is_masked(
        secret in "[ -~é😀]{6,20}",
        ways in proptest::collection::vec(0..7_u8, 20),
        cuts in proptest::collection::vec(0..200_usize, 0..4),
    ) {
        prop_assume!(secret.trim() == secret);
        let mut form = String::new();
        for (c, way) in secret.chars().zip(ways) {
            form.push_str(&match way {
                0 => percent(&c.to_string(), "", false),
                1 => percent(&c.to_string(), "", true),
                2 => utf16(c, true),
                3 => format!("&#{};", u32::from(c)),
                4 => format!("&#x{:x};", u32::from(c)),
                _ => c.to_string(),
            });
        }
        let masks = masks(&secret);
        let text = format!("<{form}>");
        let masked = masks.mask(&text).into_owned();
        prop_assert_eq!(&masked, &format!("<{}>", MASK));
        let mut cuts = cuts;
        cuts.sort_unstable();
        prop_assert_eq!(streamed(&masks, &text, &cuts), masked);
    }

    /// A stream produces the same text as the whole, for any secrets and any pieces.
    #[test]
    fn a_stream_masks_what_the_whole_masks(
        secrets in proptest::collection::vec("[ab%\\\\']{4,7}", 1..4),
        text in "[ab%\\\\'25]{0,40}",
        cuts in proptest::collection::vec(0..40_usize, 0..6),
    ) {
        let masks = SecretRedactor::default();
        secrets.iter().for_each(|secret| masks.add(secret));
        let mut cuts = cuts;
        cuts.sort_unstable();
        prop_assert_eq!(streamed(&masks, &text, &cuts), masks.mask(&text).into_owned());
    }

    #[test]
    fn hashes_and_identifiers_are_not_masked(text in "([0-9a-f]{40} |[A-Za-z0-9+/]{60} |[a-z_]{1,20} ){1,20}") {
        let masks = SecretRedactor::default();
        SECRETS.iter().for_each(|secret| masks.add(secret));
        prop_assert_eq!(masks.mask(&text), text.as_str());
    }
}
