//! The form of ids, tags and versions, and corrections of invalid ones.

use super::fits;

/// The versions that the schemas accept.
pub const LOOSE_VERSION: &str = r"^[0-9]+\.[0-9]+\.[0-9]+(?:[-+][A-Za-z0-9_.\-]+)?$";

/// Converts a text to kebab case: `Code Hosting`, `code_hosting` and `codeHosting` become
/// `code-hosting`. `None` if the result would be empty or letters would be lost.
pub fn kebab(text: &str, keep_dots: bool) -> Option<String> {
    let text = text.trim();
    // Upper-case letters separate words only if the text starts in lower case: `GitHub` is one
    // word, `gitHost` is two.
    let humps = text.starts_with(|c: char| c.is_ascii_lowercase());
    let mut out = String::with_capacity(text.len());
    let mut before = ' ';
    for c in text.chars() {
        if c.is_ascii_alphanumeric() {
            let hump = humps && c.is_ascii_uppercase() && before.is_ascii_lowercase();
            if hump {
                out.push('-');
            }
            out.push(c.to_ascii_lowercase());
        } else if c.is_alphanumeric() {
            return None;
        } else if keep_dots && c == '.' {
            out.push('.');
        } else if !out.is_empty() && !out.ends_with(['-', '.']) {
            out.push('-');
        }
        before = c;
    }
    let out = out.trim_matches(['-', '.']);
    (!out.is_empty()).then(|| out.to_owned())
}

pub fn is_kebab(text: &str) -> bool {
    let mut before = '-';
    for c in text.chars() {
        let legal = c.is_ascii_lowercase() || c.is_ascii_digit() || (c == '-' && before != '-');
        if !legal {
            return false;
        }
        before = c;
    }
    before != '-'
}

/// A corrected id that matches the pattern, if there is one.
pub fn corrected_id(id: &str, pattern: &str) -> Option<String> {
    let corrected = if pattern.starts_with("^@") {
        let (owner, slug) = id.trim().trim_start_matches('@').split_once('/')?;
        format!("@{}/{}", kebab(owner, false)?, kebab(slug, false)?)
    } else {
        // The id of a tool may contain dots.
        kebab(id, pattern.contains("a-z0-9.\\-"))?
    };
    fits(pattern, &corrected).then_some(corrected)
}

/// Completes a version: `v1.2` → `1.2.0`. `None` if the result would not be a semantic version.
pub fn corrected_version(text: &str) -> Option<String> {
    let text = text.trim().trim_start_matches(['v', 'V', '=']).trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (core, rest) = text.split_at(end);
    let mut numbers: Vec<&str> = core.split('.').collect();
    if numbers.len() > 3 || numbers.iter().any(|n| n.is_empty()) {
        return None;
    }
    numbers.resize(3, "0");
    let numbers: Vec<&str> = numbers.into_iter().map(without_zeros).collect();
    let corrected = format!("{}{rest}", numbers.join("."));
    (semver::Version::parse(&corrected).is_ok() && fits(LOOSE_VERSION, &corrected))
        .then_some(corrected)
}

fn without_zeros(number: &str) -> &str {
    match number.trim_start_matches('0') {
        "" => "0",
        rest => rest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_kebab_case() {
        let of = |text: &str| kebab(text, false);
        assert_eq!(of("Code Hosting").as_deref(), Some("code-hosting"));
        assert_eq!(of("code__hosting_").as_deref(), Some("code-hosting"));
        assert_eq!(of("codeHosting").as_deref(), Some("code-hosting"));
        assert_eq!(of("GitHub").as_deref(), Some("github"));
        assert_eq!(of("CI/CD").as_deref(), Some("ci-cd"));
        assert_eq!(of("Zürich"), None);
        assert_eq!(of("--"), None);
        assert_eq!(kebab("Merge.Open", true).as_deref(), Some("merge.open"));
        for text in ["a", "a-b", "a1-2"] {
            assert!(is_kebab(text), "{text}");
        }
        for text in ["", "-a", "a-", "a--b", "A", "a_b", "a b"] {
            assert!(!is_kebab(text), "{text}");
        }
    }

    #[test]
    fn corrected_ids_match_the_pattern() {
        let plain = r"^[a-z0-9][a-z0-9\-]{1,63}$";
        assert_eq!(corrected_id("My_Tool", plain).as_deref(), Some("my-tool"));
        assert_eq!(corrected_id("X", plain), None);
        let operator = "^[a-z][a-z0-9-]{0,62}[a-z0-9]$";
        assert_eq!(corrected_id("7Seas", operator), None);
        let tool = r"^[a-z0-9][a-z0-9.\-]{0,78}[a-z0-9]$";
        assert_eq!(
            corrected_id("Merge.Open", tool).as_deref(),
            Some("merge.open")
        );
        let scoped = "^@[a-z0-9][a-z0-9-]*/[a-z0-9][a-z0-9-]*$";
        assert_eq!(
            corrected_id("Acme/Box 1", scoped).as_deref(),
            Some("@acme/box-1")
        );
        assert_eq!(corrected_id("box", scoped), None);
    }

    #[test]
    fn versions_are_completed() {
        let of = |text: &str| corrected_version(text);
        assert_eq!(of("v1.2.3").as_deref(), Some("1.2.3"));
        assert_eq!(of("1.2").as_deref(), Some("1.2.0"));
        assert_eq!(of("2").as_deref(), Some("2.0.0"));
        assert_eq!(of("1.10").as_deref(), Some("1.10.0"));
        assert_eq!(of("1.2-rc.1").as_deref(), Some("1.2.0-rc.1"));
        assert_eq!(of("1.2.3.4"), None);
        assert_eq!(of("1..2"), None);
        assert_eq!(of("latest"), None);
        assert_eq!(of(""), None);
        assert_eq!(of("1.x"), None);
    }
}
