//! The meaning of exit codes (AIP-29, output conventions).

use agentproto_manifest::Node;

/// Meaning of exit code 0 (A29-OUT-05).
pub const OK: &str = "ok";
/// Meaning of exit code 4 (A29-OUT-08).
pub const AUTH_REQUIRED: &str = "auth_required";
/// Meaning of exit code 124 (A29-OUT-09), and of a call that exceeded its time limit.
pub const TIMEOUT: &str = "timeout";
/// Meaning of exit code 137 (A29-OUT-10), and of any other signal.
pub const KILLED: &str = "killed";
const ERROR: &str = "error";

/// Codes with a meaning in every bundle, unless the bundle declares another one (A29-OUT-11).
const RESERVED: [(i32, &str); 6] = [
    (0, OK),
    (1, ERROR),
    (2, "usage_error"),
    (4, AUTH_REQUIRED),
    (124, TIMEOUT),
    (137, KILLED),
];

/// The meaning of an exit code: declared in `output.exit_codes`, or reserved, or `error`.
pub fn meaning(declared: Option<&Node>, code: i32) -> String {
    let declared = declared.and_then(|codes| codes.str_at(&[&code.to_string()]));
    let reserved = RESERVED.iter().find(|(known, _)| *known == code);
    let reserved = reserved.map(|(_, meaning)| *meaning);
    declared.or(reserved).unwrap_or(ERROR).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use agentproto_manifest::Document;

    #[test]
    fn declared_meanings_precede_reserved_ones() {
        agentproto_suites::proves!(
            "A29-OUT-05",
            "A29-OUT-06",
            "A29-OUT-07",
            "A29-OUT-08",
            "A29-OUT-09",
            "A29-OUT-10",
            "A29-OUT-11"
        );
        let yaml = "codes: { 2: bad_words, 3: rate_limited }\n";
        let doc = Document::parse_yaml("cli.yaml", yaml.as_bytes().to_vec());
        let root = doc.root.expect("a mapping");
        let of = |code| meaning(root.get("codes"), code);
        assert_eq!([of(0), of(1), of(4)], ["ok", "error", "auth_required"]);
        assert_eq!([of(124), of(137)], ["timeout", "killed"]);
        assert_eq!(
            [of(2), of(3), of(9)],
            ["bad_words", "rate_limited", "error"]
        );
        assert_eq!(meaning(None, 2), "usage_error");
    }
}
