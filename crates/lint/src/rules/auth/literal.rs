//! Secrets written into a command line. Nothing here ever repeats what it found.

use agentproto_text::credentials::is_token;

/// What looks like a secret in a command, in words that do not show it.
pub fn find(command: &str) -> Option<&'static str> {
    // Every token and every literal value below has a figure in it; most commands have none.
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
            // `TOKEN=…` before the command.
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

/// Nearer to a real token than a word in a sentence has to be: a command may well hold
/// `sk-<your key>`, or a long name that only begins like a token.
fn is_token_word(word: &str) -> bool {
    is_token(word)
        && word.bytes().any(|b| b.is_ascii_digit())
        && word
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'))
}

/// A value and not the name of one: long, mixed, and no variable, path or placeholder.
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
    fn literals_are_found_and_names_are_not() {
        for command in [
            "x login --with ghp_0123456789abcdefghij01234567",
            "x --token=abc123def456",
            "x --api-key 'abc123def456'",
            "API_KEY=abc123def456 x login",
            "x -H 'Authorization: Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc123'",
            "x AKIA0123456789ABCDEF",
        ] {
            assert!(find(command).is_some(), "{command}");
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
            assert_eq!(find(command), None, "{command}");
        }
    }
}
