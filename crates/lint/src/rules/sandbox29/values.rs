//! Interprets single values of a sandbox block.

pub use agentproto_manifest::globs::wildcard_covers;

/// Whether a glob has only stars and dots, so that it matches every host name.
pub fn is_everything(host: &str) -> bool {
    host.contains('*') && host.bytes().all(|b| b == b'*' || b == b'.')
}

/// Why an egress entry is neither a host name nor a glob, with the intended host name.
#[derive(Debug, PartialEq)]
pub enum EgressError<'a> {
    Empty,
    Scheme(&'a str),
    Cidr,
    Path(&'a str),
    Port(&'a str),
    Character(char),
}

pub fn egress_error(entry: &str) -> Option<EgressError<'_>> {
    if entry.is_empty() {
        return Some(EgressError::Empty);
    }
    if let Some((_, rest)) = entry.split_once("://") {
        return Some(EgressError::Scheme(host_of(rest)));
    }
    if let Some((before, after)) = entry.split_once('/') {
        let address = before.parse::<std::net::IpAddr>().is_ok();
        let bits = !after.is_empty() && after.bytes().all(|b| b.is_ascii_digit());
        return Some(if address && bits {
            EgressError::Cidr
        } else {
            EgressError::Path(host_of(entry))
        });
    }
    // An IPv6 address has colons and no port.
    if entry.contains(':')
        && entry
            .trim_matches(['[', ']'])
            .parse::<std::net::Ipv6Addr>()
            .is_ok()
    {
        return None;
    }
    if let Some((name, port)) = entry.rsplit_once(':')
        && (port == "*" || port.bytes().all(|b| b.is_ascii_digit()))
    {
        return Some(EgressError::Port(name));
    }
    let fits = |c: char| c.is_alphanumeric() || "-._*?{},[]!".contains(c);
    entry
        .chars()
        .find(|c| !fits(*c))
        .map(EgressError::Character)
}

fn host_of(rest: &str) -> &str {
    let host = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    }
}

/// The part of a glob before its first special character.
pub fn literal_head(glob: &str) -> &str {
    let end = glob.find(['*', '?', '[', '{', '\\']).unwrap_or(glob.len());
    glob.get(..end).unwrap_or("")
}

/// Suffixes of variable names that mention a secret but do not hold one.
const HARMLESS_SUFFIXES: [&str; 13] = [
    "_FILE",
    "_PATH",
    "_DIR",
    "_URL",
    "_URI",
    "_NAME",
    "_TTL",
    "_TIMEOUT",
    "_LIMIT",
    "_DISABLED",
    "_ENABLED",
    "_HELPER",
    "_COMMAND",
];

/// Whether the name of a variable suggests a secret, for example `FORGE_TOKEN` or `DB_PASSWORD`.
pub fn has_secret_name(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    if HARMLESS_SUFFIXES.iter().any(|end| upper.ends_with(end)) {
        return false;
    }
    let two_words = [
        "API_KEY",
        "PRIVATE_KEY",
        "ACCESS_KEY",
        "SECRET_KEY",
        "SIGNING_KEY",
        "ENCRYPTION_KEY",
    ];
    upper.split(['_', '-', '.']).any(|word| {
        matches!(
            word,
            "TOKEN"
                | "SECRET"
                | "PASSWORD"
                | "PASSWD"
                | "PASSPHRASE"
                | "APIKEY"
                | "CREDENTIAL"
                | "CREDENTIALS"
        )
    }) || (two_words.iter().any(|words| upper.contains(words)) && !upper.ends_with("_ID"))
}

/// Prefixes of tokens from well-known issuers.
const TOKEN_PREFIXES: [&str; 11] = [
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "sk-",
    "xoxb-",
    "xoxp-",
    "AKIA",
    "AIza",
    "-----BEGIN ",
];

/// Whether a variable with a literal value contains a secret in plain text.
pub fn holds_secret(name: &str, value: &str) -> bool {
    if value.len() >= 16 && TOKEN_PREFIXES.iter().any(|start| value.starts_with(start)) {
        return true;
    }
    // Switches, paths and references to other variables are not secret.
    let harmless = value.is_empty()
        || matches!(
            value,
            "0" | "1" | "true" | "false" | "yes" | "no" | "on" | "off" | "none"
        )
        || value.starts_with(['/', '~', '$'])
        || value.starts_with("./");
    !harmless && has_secret_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn egress_entries_are_host_names_or_globs() {
        for good in [
            "api.x.example",
            "*.x.example",
            "localhost",
            "10.0.0.1",
            "::1",
            "[::1]",
            "bücher.example",
            "{a,b}.example",
        ] {
            assert_eq!(egress_error(good), None, "{good}");
        }
        assert_eq!(egress_error(""), Some(EgressError::Empty));
        assert_eq!(
            egress_error("https://a.example:8443/x"),
            Some(EgressError::Scheme("a.example"))
        );
        assert_eq!(egress_error("10.0.0.0/8"), Some(EgressError::Cidr));
        assert_eq!(egress_error("fe80::/10"), Some(EgressError::Cidr));
        assert_eq!(
            egress_error("a.example/v1"),
            Some(EgressError::Path("a.example"))
        );
        assert_eq!(
            egress_error("a.example:443"),
            Some(EgressError::Port("a.example"))
        );
        assert_eq!(
            egress_error("a.example:*"),
            Some(EgressError::Port("a.example"))
        );
        assert_eq!(egress_error("^a$"), Some(EgressError::Character('^')));
        assert_eq!(egress_error("a b"), Some(EgressError::Character(' ')));
        assert!(is_everything("*") && is_everything("*.*") && !is_everything("*.x"));
    }

    #[test]
    fn wildcards_cover_host_names() {
        for (own, other) in [
            ("*", "*"),
            ("*", "a.b"),
            ("*.b.c", "a.b.c"),
            ("*.b.c", "*.b.c"),
            ("*.b.c", "*.a.b.c"),
            ("A.b", "a.B"),
            ("a*c*e", "abcde"),
        ] {
            assert!(wildcard_covers(own, other), "{own} {other}");
        }
        for (own, other) in [
            ("a.b", "*.b"),
            ("*.b.c", "b.c"),
            ("*.b.c", "*"),
            ("a", "ab"),
            ("a*b", "a"),
            ("", "a"),
        ] {
            assert!(!wildcard_covers(own, other), "{own} {other}");
        }
    }

    #[test]
    fn secrets_are_recognized_by_name_and_value() {
        for name in [
            "FORGE_TOKEN",
            "DB_PASSWORD",
            "OPENAI_API_KEY",
            "client_secret",
            "AWS_SECRET_ACCESS_KEY",
        ] {
            assert!(holds_secret(name, "hunter22"), "{name}");
            assert!(
                !holds_secret(name, "") && !holds_secret(name, "${X}"),
                "{name}"
            );
        }
        for name in [
            "GH_PROMPT_DISABLED",
            "MAX_TOKENS",
            "TOKEN_LIMIT",
            "TOKEN_FILE",
            "KEYBOARD",
            "AWS_ACCESS_KEY_ID",
            "PWD",
        ] {
            assert!(!holds_secret(name, "hunter22"), "{name}");
        }
        assert!(!holds_secret("USE_TOKEN", "1"));
        assert!(holds_secret("HARMLESS", "ghp_0123456789abcdef"));
    }
}
