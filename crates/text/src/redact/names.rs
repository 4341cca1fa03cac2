//! Detects secrets by the names of their fields.

/// Suffixes of names of fields that contain a secret.
const SUFFIXES: [&str; 14] = [
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

/// Substrings of names of options, headers and parameters that contain secrets (AOI-CLI §11).
const SUBSTRINGS: [&str; 13] = [
    "token",
    "secret",
    "password",
    "passwd",
    "key",
    "credential",
    "cookie",
    "authorization",
    "auth",
    "bearer",
    "private",
    "signature",
    "header",
];

/// Whether a field with this name contains a secret. `api_key_ref` does not, because it names a
/// slot.
pub fn is_secret_name(key: &str) -> bool {
    let key = key.as_bytes();
    SUFFIXES.iter().any(|end| {
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

/// Whether an option, header or parameter with this name may contain a secret. It matches more
/// names than `is_secret_name`, for values that are hidden to be safe.
pub fn may_name_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SUBSTRINGS.iter().any(|part| name.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_differ_from_names_of_references() {
        for secret in [
            "api_key",
            "API_KEY",
            "apiKey",
            "e2b-api-key",
            "token",
            "db_password",
        ] {
            assert!(is_secret_name(secret), "{secret}");
            assert!(may_name_secret(secret), "{secret}");
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
        assert!(may_name_secret("X-Auth") && !may_name_secret("page"));
    }
}
