//! Finds secrets in command lines. The results never contain the secret itself.

use agentproto_text::credentials::is_token;

/// Describes what looks like a secret in a command, without showing it.
pub fn find_secret(command: &str) -> Option<&'static str> {
    // Every token and every literal value below contains a digit, and most commands have none.
    if !command.bytes().any(|b| b.is_ascii_digit()) {
        return None;
    }
    let is_edge = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '=' | ':' | ',' | ';');
    if command.split(is_edge).any(is_token_word) {
        return Some("something that looks like an access token");
    }
    let mut words = command.split_whitespace();
    while let Some(word) = words.next() {
        let Some(flag) = word.trim_matches(['"', '\'']).strip_prefix('-') else {
            // An assignment such as `TOKEN=…` before the command.
            let assigned = word.split_once('=').filter(|(name, _)| {
                let name = name.to_ascii_lowercase().replace('_', "-");
                SECRET_FLAGS.iter().any(|flag| name.ends_with(flag))
            });
            if assigned.is_some_and(|(_, value)| is_literal(value)) {
                return Some("a variable set to a literal secret");
            }
            continue;
        };
        let flag = flag.trim_start_matches('-');
        let (name, value) = match flag.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (flag, None),
        };
        let name = name.to_ascii_lowercase().replace('_', "-");
        if SECRET_FLAGS.contains(&name.as_str()) {
            let value = value.or_else(|| words.clone().next());
            if value.is_some_and(is_literal) {
                return Some("a literal value for a flag that takes a secret");
            }
        }
    }
    None
}

const SECRET_FLAGS: [&str; 13] = [
    "token",
    "access-token",
    "auth-token",
    "bearer-token",
    "api-key",
    "apikey",
    "api-token",
    "password",
    "passwd",
    "secret",
    "client-secret",
    "secret-key",
    "access-key",
];

/// Whether a word is an access token. This is stricter than [`is_token`], because a command may
/// contain `sk-<your key>`, or a long name that only starts like a token.
fn is_token_word(word: &str) -> bool {
    is_token(word)
        && word.bytes().any(|b| b.is_ascii_digit())
        && word
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'))
}

/// Whether a value is a literal: long, with letters and digits, and not a variable, a path or a
/// placeholder.
fn is_literal(value: &str) -> bool {
    let value = value.trim_matches(['"', '\'']);
    value.len() >= 8
        && !value.starts_with(['$', '<', '{', '@', '-', '/', '~', '.', '%'])
        && !value.contains("${")
        && !value.contains("{{")
        && value.bytes().any(|b| b.is_ascii_digit())
        && value.bytes().any(|b| b.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literal_secrets_are_found_and_references_are_not() {
        for command in [
            "x login --with ghp_0123456789abcdefghij01234567",
            "x --token=abc123def456",
            "x --api-key 'abc123def456'",
            "API_KEY=abc123def456 x login",
            "x -H 'Authorization: Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc123'",
            "x AKIA0123456789ABCDEF",
        ] {
            assert!(find_secret(command).is_some(), "{command}");
        }
        for command in [
            "forge auth login --web",
            "x --token $TOKEN",
            "x --token=${TOKEN}",
            "x --token <your-token-1>",
            "x --token-file=/run/token1",
            "x --token",
            "x --password-stdin",
            "x --secret @file1234",
            "x sk-quite-a-long-word-without-figures",
            "x --client-secret",
            "GH_HOST=forge1.example x login",
            "x login --scopes read:org2,repo12345",
            "",
        ] {
            assert_eq!(find_secret(command), None, "{command}");
        }
    }
}
