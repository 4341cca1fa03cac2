//! Redacts arguments that look like secrets from errors.

use std::borrow::Cow;

use agentproto_text::redact::{SecretValues, may_name_secret};

/// URL parameters that hold secrets, although their names do not look like it.
const PARAMETERS: [&str; 5] = ["sig", "code", "sas", "pwd", "pass"];
const REPLACEMENT: &str = "[redacted]";

/// The values to redact.
#[derive(Clone, Debug, Default)]
pub struct Secrets(SecretValues);

impl Secrets {
    /// Finds secrets in the arguments up to `--`. What follows belongs to another program.
    pub fn of<'w>(words: impl Iterator<Item = Cow<'w, str>>) -> Self {
        let mut found = Secrets::default();
        // Whether the previous argument was an option whose value is a secret.
        let mut expects_secret = false;
        for word in words.take_while(|word| word != "--") {
            if expects_secret && !word.starts_with("--") {
                found.add(&word);
            }
            expects_secret = false;
            found.scan(&word);
            if let Some(name) = word.strip_prefix('-')
                && !word.contains('=')
            {
                // A file with a secret is named by its path, which is not secret.
                expects_secret = name == "H" || may_name_secret(name) && !name.ends_with("-file");
            }
        }
        found
    }

    fn add(&mut self, secret: &str) {
        let secret = secret.trim();
        self.add_value(secret);
        // The last word of a header is the secret itself.
        if let Some((_, last)) = secret.rsplit_once([' ', ':', '=']) {
            self.add(last);
        }
    }

    /// Looks for `name=value`, `Name: value` and secrets in URLs.
    fn scan(&mut self, word: &str) {
        if let Some((scheme, rest)) = word.split_once("://") {
            let scheme = scheme.rsplit('=').next().unwrap_or_default();
            if !scheme.is_empty() {
                return self.url(rest);
            }
        }
        if let Some((name, value)) = word.split_once(['=', ':'])
            && may_name_secret(name)
        {
            self.add(value);
        }
    }

    fn url(&mut self, rest: &str) {
        let (location, query) = rest.split_once(['?', '#']).unwrap_or((rest, ""));
        let authority = location.split('/').next().unwrap_or_default();
        if let Some((user, _)) = authority.rsplit_once('@') {
            let (name, password) = user.split_once(':').unwrap_or(("", user));
            for part in [user, name, password] {
                self.add_value(part);
            }
        }
        for pair in query.split(['&', '#', '?', ';']) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let is_known = PARAMETERS
                .iter()
                .any(|known| name.eq_ignore_ascii_case(known));
            if !value.is_empty() && (is_known || may_name_secret(name)) {
                self.add_value(value);
            }
        }
    }

    fn add_value(&mut self, secret: &str) {
        match secret.len() {
            0 => {}
            // A short value occurs in many words, so it is redacted only in quotes.
            1..4 => {
                self.0.add(format!("'{secret}'"));
                self.0.add(format!("`{secret}`"));
            }
            _ => self.0.add(secret.to_owned()),
        }
    }

    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.0.replace(text, REPLACEMENT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redacted(words: &[&str], text: &str) -> String {
        let words = words.iter().map(|word| Cow::Borrowed(*word));
        Secrets::of(words).redact(text).into_owned()
    }

    /// AOI-11-02, AOI-18.2-09.
    #[test]
    fn values_that_look_like_secrets_are_redacted() {
        let secret = "s3cr3t-value";
        for words in [
            &["lint", "--token", secret][..],
            &["lint", "--client-secret=s3cr3t-value"],
            &["lint", "--api-key", secret],
            &["--header", "Authorization: Bearer s3cr3t-value"],
            &["-H", "X-Whatever: s3cr3t-value"],
            &["Authorization: Bearer s3cr3t-value"],
            &["https://user:s3cr3t-value@host.example/x"],
            &["https://s3cr3t-value@host.example"],
            &["--url=https://host.example/?a=1&sig=s3cr3t-value"],
            &["https://host.example/p#access_token=s3cr3t-value"],
            &["password=s3cr3t-value"],
            &["--env", "GITHUB_TOKEN=s3cr3t-value"],
        ] {
            let redacted_text = redacted(words, &format!("error: '{secret}' is wrong"));
            assert!(
                !redacted_text.contains(secret),
                "{words:?}: {redacted_text}"
            );
        }
    }

    #[test]
    fn other_values_are_not_redacted() {
        for (words, text) in [
            (&["lint", "--output", "xml"][..], "'xml' is not a format"),
            (
                &["https://host.example/a?page=2"],
                "https://host.example/a?page=2",
            ),
            (&["run", "--", "--token", "abcdef"], "abcdef"),
            (&["--token", "a"], "a fact about a token"),
            (&["--token-file", "token.txt"], "`token.txt` does not exist"),
        ] {
            assert_eq!(redacted(words, text), text, "{words:?}");
        }
        assert_eq!(redacted(&["--token", "a"], "value 'a'"), "value [redacted]");
    }
}
