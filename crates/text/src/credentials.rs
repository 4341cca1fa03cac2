//! What looks like a credential. Rules ask here before they print a value, and where a
//! manifest must hold none. Nothing here ever returns the text itself.

use crate::redact::is_known_token;
pub use crate::redact::is_secret_name;

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
    let bearer = |text: &str| {
        let rest = text.strip_prefix("Bearer ").filter(|_| text.len() >= 20);
        rest.is_some_and(|rest| !rest.contains(char::is_whitespace))
    };
    is_known_token(text) || bearer(text)
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
}
