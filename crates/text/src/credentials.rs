//! Detects values that look like credentials. Rules use it before they print a value, and for
//! fields that must not contain a credential. No function here returns the text itself.

use crate::redact::is_known_token;
pub use crate::redact::is_secret_name;

/// Whether a text is or contains a token of a well-known service, a private key, a password in a
/// URL, or a signed link.
pub fn is_token(text: &str) -> bool {
    // A token has no spaces, but may follow `NAME=` or `Bearer `.
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
    let bearer = |text: &str| {
        let rest = text.strip_prefix("Bearer ").filter(|_| text.len() >= 20);
        rest.is_some_and(|rest| !rest.contains(char::is_whitespace))
    };
    is_known_token(text) || bearer(text)
}

/// Whether a text is a JSON web token: three parts, the first of which is Base64 of `{"…`.
fn is_web_token(text: &str) -> bool {
    text.len() >= 30
        && text.starts_with("eyJ")
        && text.split('.').count() == 3
        && !text.contains(char::is_whitespace)
}

/// Whether a text is a URL with a password: `https://user:password@host`.
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

/// Whether a text is a placeholder, not a value: `${X}`, `$X`, `{{x}}`, `<your key>`, or empty.
pub fn is_placeholder(text: &str) -> bool {
    let text = text.trim();
    text.is_empty() || text.starts_with(['$', '<']) || text.starts_with("{{")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_recognized_by_their_prefix() {
        // Built at run time, so that no secret scanner reports this file.
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
}
