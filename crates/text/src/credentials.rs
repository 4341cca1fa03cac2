//! What looks like a credential. Rules ask here before they print a value, and where a
//! manifest must hold none. Nothing here ever returns the text itself.

/// Marks at the start of well-known tokens, with the least length of the whole token, so
/// that a word that merely begins like one is spared.
const TOKEN_STARTS: [(&str, usize); 29] = [
    ("AIza", 35),
    ("AKIA", 20),
    ("ASIA", 20),
    ("Bearer ", 20),
    ("SG.", 40),
    ("dop_v1_", 40),
    ("e2b_", 24),
    ("eyJ", 60),
    ("gho_", 30),
    ("ghp_", 30),
    ("ghr_", 30),
    ("ghs_", 30),
    ("ghu_", 30),
    ("github_pat_", 30),
    ("glpat-", 20),
    ("gsk_", 30),
    ("hf_", 30),
    ("npm_", 30),
    ("pypi-", 40),
    ("rk_live_", 20),
    ("sk-", 20),
    ("sk_live_", 20),
    ("sk_test_", 20),
    ("whsec_", 24),
    ("xapp-", 20),
    ("xoxa-", 20),
    ("xoxb-", 20),
    ("xoxp-", 20),
    ("ya29.", 30),
];

/// Words that end the name of a field that holds a secret.
const SECRET_ENDS: [&str; 14] = [
    "access_key",
    "accesskey",
    "api_key",
    "apikey",
    "auth_key",
    "credential",
    "credentials",
    "passphrase",
    "passwd",
    "password",
    "private_key",
    "privatekey",
    "secret",
    "token",
];

/// Whether a text is, or holds, a token of a well-known service, a private key, a password
/// in a URL or a signed link.
pub fn is_token(text: &str) -> bool {
    // Tokens have no spaces, but may follow `NAME=` or `Bearer `.
    let bare = text.rsplit_once('=').map_or(text, |(_, after)| after);
    starts_like_token(text)
        || (bare.len() < text.len() && starts_like_token(bare))
        || is_web_token(bare)
        || (text.contains("-----BEGIN ") && text.contains("PRIVATE KEY"))
        || has_password(text)
        || text.contains("X-Amz-Signature=")
        || text.contains("X-Goog-Signature=")
}

fn starts_like_token(text: &str) -> bool {
    TOKEN_STARTS.iter().any(|(start, least)| {
        text.len() >= *least
            && text
                .strip_prefix(start)
                .is_some_and(|rest| !rest.contains(char::is_whitespace))
    })
}

/// A JSON web token: three parts, the first of which begins with `{"` in Base64.
fn is_web_token(text: &str) -> bool {
    text.len() >= 30
        && text.starts_with("eyJ")
        && text.split('.').count() == 3
        && !text.contains(char::is_whitespace)
}

/// `https://user:password@host`.
fn has_password(text: &str) -> bool {
    let Some((_, rest)) = text.split_once("://") else {
        return false;
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    let Some((user, _)) = authority.rsplit_once('@') else {
        return false;
    };
    user.split_once(':')
        .is_some_and(|(_, password)| !password.is_empty() && !is_placeholder(password))
}

/// Whether a field of this name holds a secret. `api_key_ref` names a slot, so it does not.
pub fn is_secret_name(key: &str) -> bool {
    let key = key.as_bytes();
    SECRET_ENDS.iter().any(|end| {
        let Some((before, tail)) = key
            .len()
            .checked_sub(end.len())
            .and_then(|at| key.split_at_checked(at))
        else {
            return false;
        };
        let same = |(a, b): (&u8, u8)| a.to_ascii_lowercase() == b || (*a == b'-' && b == b'_');
        let starts_word = match before.last() {
            None | Some(b'_' | b'-' | b'.') => true,
            Some(last) => {
                last.is_ascii_lowercase() && tail.first().is_some_and(u8::is_ascii_uppercase)
            }
        };
        starts_word && tail.iter().zip(end.bytes()).all(same)
    })
}

/// `${X}`, `$X`, `{{x}}`, `<your key>`: a place for a value, not a value.
pub fn is_placeholder(text: &str) -> bool {
    let text = text.trim();
    text.is_empty() || text.starts_with(['$', '<']) || text.starts_with("{{")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_known_by_their_start() {
        // Put together here so that no scanner takes this file for a leak.
        let long = "a1b2c3d4".repeat(6);
        for start in ["sk-", "ghp_", "xoxb-", "e2b_", "Bearer "] {
            assert!(is_token(&format!("{start}{long}")), "{start}");
        }
        assert!(is_token(&format!("API_KEY=ghp_{long}")));
        assert!(is_token("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc123"));
        assert!(is_token("postgres://app:hunter2@db.example/x"));
        for fine in [
            "sk-short",
            "eyJhbGciOiJIUzI1NiJ9 in a sentence. And another. One more.",
            "harbor-daytona-key",
            "https://x.example/a?b=c",
            "https://user@x.example",
            "https://u:${PASSWORD}@x.example",
            "Bearer of bad news, all of it in one long line",
            "",
        ] {
            assert!(!is_token(fine), "{fine}");
        }
    }

    #[test]
    fn names_tell_secrets_from_pointers_to_them() {
        for secret in [
            "api_key",
            "API_KEY",
            "apiKey",
            "e2b-api-key",
            "token",
            "db_password",
        ] {
            assert!(is_secret_name(secret), "{secret}");
        }
        for fine in [
            "api_key_ref",
            "token_count",
            "secret_slug",
            "keyboard",
            "mytoken_id",
        ] {
            assert!(!is_secret_name(fine), "{fine}");
        }
    }
}
