//! Recognizes placeholders, credential names and shell syntax in the texts of options.

/// The first `{name}`, `${name}` or `{{name}}` that is not exactly `{value}`.
pub fn unknown_placeholder(text: &str) -> Option<&str> {
    let mut from = 0;
    while let Some(open) = text.get(from..)?.find('{').map(|i| i + from) {
        let rest = text.get(open..)?;
        let braces = rest.bytes().take_while(|b| *b == b'{').count();
        let inner = rest.get(braces..)?;
        let name_len = inner
            .bytes()
            .take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-' | b' '))
            .count();
        let name = inner.get(..name_len)?;
        let closing = inner
            .bytes()
            .skip(name_len)
            .take_while(|b| *b == b'}')
            .count()
            .min(braces);
        let end = open + braces + name_len + closing;
        let starts_well = name
            .trim_start()
            .starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        if closing > 0 && starts_well {
            let dollar = open > 0 && text.as_bytes().get(open - 1) == Some(&b'$');
            if dollar || braces > 1 || name != "value" {
                return text.get(open - usize::from(dollar)..end);
            }
        }
        from = end.max(open + 1);
    }
    None
}

/// Whether a name is that of a credential: `api_key`, `AUTH_TOKEN`, `password`.
pub fn is_secret_name(name: &str) -> bool {
    let mut words = name
        .split(['_', '-', '.', ' '])
        .filter(|word| !word.is_empty())
        .rev();
    let is = |word: &str, list: &[&str]| list.iter().any(|l| word.eq_ignore_ascii_case(l));
    let Some(last) = words.next() else {
        return false;
    };
    if is(last, &["key"]) {
        // Keys that are not credentials.
        let plain = [
            "sort",
            "primary",
            "cache",
            "partition",
            "foreign",
            "public",
            "hot",
            "shortcut",
            "index",
            "group",
            "routing",
            "map",
        ];
        return !words.next().is_some_and(|before| is(before, &plain));
    }
    is(
        last,
        &[
            "token",
            "secret",
            "password",
            "passwd",
            "passphrase",
            "credential",
            "credentials",
            "apikey",
        ],
    )
}

/// The name of a flag without its value: `--api-key={value}` → `--api-key`.
pub fn flag_name(text: &str) -> &str {
    text.split_once('=').map_or(text, |(name, _)| name)
}

/// The first shell syntax in a text, and its byte offset.
pub fn shell_syntax(text: &str, has_placeholders: bool) -> Option<(usize, &str)> {
    if matches!(
        text,
        "|" | ">" | ">>" | "<" | "<<" | ";" | "&" | "2>&1" | "&&" | "||"
    ) {
        return Some((0, text));
    }
    if text.starts_with("~/") {
        return Some((0, text.get(..1)?));
    }
    let interesting = |b: u8| matches!(b, b'&' | b'|' | b'$' | b'`');
    if !text.bytes().any(interesting) {
        return None;
    }
    for sign in ["&&", "||", "$(", "`"] {
        if let Some(at) = text.find(sign) {
            return Some((at, text.get(at..at + sign.len())?));
        }
    }
    // In option templates `${x}` is a wrong placeholder, which has its own rule.
    let at = text.find('$')?;
    let name = text.get(at + 1..)?;
    let (name, braced) = match name.strip_prefix('{') {
        Some(_) if has_placeholders => return None,
        Some(rest) => (rest, true),
        None => (name, false),
    };
    let len = name
        .bytes()
        .take_while(|b| b.is_ascii_alphanumeric() || *b == b'_')
        .count();
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let closes = !braced || name.as_bytes().get(len) == Some(&b'}');
    (starts_well && closes).then_some(())?;
    Some((at, text.get(at..at + 1 + len + 2 * usize::from(braced))?))
}

/// Whether this is a valid name of an environment variable.
pub fn is_env_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes
        .next()
        .is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_value_is_a_known_placeholder() {
        for fine in [
            "{value}",
            "--x={value}",
            "{value}{value}",
            "{}",
            "{\"a\": 1}",
            "a}b{",
            "{1}",
            "",
        ] {
            assert_eq!(unknown_placeholder(fine), None, "{fine}");
        }
        for (text, found) in [
            ("--x={val}", "{val}"),
            ("${value}", "${value}"),
            ("{{value}}", "{{value}}"),
            ("{value}:{input.x}", "{input.x}"),
            ("ü{ value }", "{ value }"),
            ("{{{a}", "{{{a}"),
        ] {
            assert_eq!(unknown_placeholder(text), Some(found), "{text}");
        }
    }

    #[test]
    fn credential_names_are_recognized() {
        for secret in [
            "api_key",
            "AUTH_TOKEN",
            "password",
            "--api-key",
            "key",
            "gitlab-token",
        ] {
            assert!(is_secret_name(secret), "{secret}");
        }
        for plain in [
            "max_tokens",
            "token_budget",
            "sort_key",
            "key_scope",
            "secret_name",
            "",
            "--",
        ] {
            assert!(!is_secret_name(plain), "{plain}");
        }
    }

    #[test]
    fn shell_syntax_is_found() {
        for (text, sign) in [
            ("a && b", "&&"),
            ("$(pwd)", "$("),
            ("--dir=$HOME/x", "$HOME"),
            ("${HOME}/x", "${HOME}"),
            ("~/x", "~"),
            ("|", "|"),
        ] {
            assert_eq!(
                shell_syntax(text, false).map(|(_, s)| s),
                Some(sign),
                "{text}"
            );
        }
        for fine in [
            "https://x.example/?a=1&b=2",
            "a|b",
            "cost: 5$",
            "$",
            "--x",
            "${",
            "$ü",
            "a~/b",
        ] {
            assert_eq!(shell_syntax(fine, false), None, "{fine}");
        }
        assert_eq!(shell_syntax("${value}", true), None);
    }

    #[test]
    fn environment_variable_names_are_validated() {
        assert!(is_env_name("A_1") && is_env_name("_") && is_env_name("path"));
        assert!(!is_env_name("") && !is_env_name("1A") && !is_env_name("A-B") && !is_env_name("Ä"));
    }
}
