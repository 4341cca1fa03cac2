//! Host rules: the entries of `network.egress`, and the hosts that clients request.
//!
//! A rule is a host name, a glob of one, or a single IP address. In a glob, a leading `*.` matches
//! one or more labels: `*.example.com` matches `a.example.com` and `a.b.example.com`, but not
//! `example.com`. Any other `*` matches within its label, `?` is one character, and `{a,b}` is one
//! of several texts. `*` alone matches every name. No glob matches an address. Letter case and one
//! trailing dot are ignored.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::address::{self, Literal};

/// Maximum number of rules that one entry with `{…}` expands to.
const MAX_ALTERNATIVES: usize = 64;

/// An entry of `network.egress` that cannot be enforced as written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`network.egress` entry `{rule}` {problem}")]
pub struct RuleError {
    /// The entry as written.
    pub rule: String,
    /// What is wrong with it.
    pub problem: RuleProblem,
}

/// What is wrong with an entry of `network.egress`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleProblem {
    /// It is empty.
    #[error("is empty: name a host, or remove the entry")]
    Empty,
    /// It has a URL scheme.
    #[error("has a scheme, but AIP-29 allows only host names and globs: remove the scheme")]
    Scheme,
    /// It is a range of addresses.
    #[error("is a CIDR block, which AIP-29 defers to version 2: list each address or name")]
    Cidr,
    /// It has a path.
    #[error("has a path, but AIP-29 allows only host names and globs: remove the path")]
    Path,
    /// It has a port.
    #[error("has a port, but AIP-29 has no rules for ports: remove the port")]
    Port,
    /// It contains characters outside ASCII.
    #[error("is not ASCII: write the name in its DNS form, with `xn--` labels")]
    NonAscii,
    /// It contains a character that is not allowed.
    #[error("contains the character `{0}`, which is not allowed in a host name or glob")]
    Character(char),
    /// A label is empty or longer than 63 characters.
    #[error("has an empty label or one of more than 63 characters: write a complete host name")]
    Label,
    /// It is an IP address in an unusual form.
    #[error("is not a plain IP address: write it like `192.0.2.1` or `2001:db8::1`")]
    Address,
    /// It is a glob of IP addresses.
    #[error("is a glob of addresses: list each address")]
    AddressGlob,
    /// Its braces are invalid, or expand to more than 64 names.
    #[error("has braces that are not paired, are nested, or expand to more than 64 names")]
    Braces,
}

/// Why a requested host is neither a name nor an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    #[error("the host is empty")]
    Empty,
    #[error("the host is not ASCII; use its `xn--` form")]
    NonAscii,
    #[error("the host contains a character that is not allowed in host names")]
    Character,
    #[error("the host has an empty or too long label, or is too long")]
    Label,
    #[error("the host is an invalid IP address")]
    Address,
}

/// A requested host in canonical form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// In lower case, without a trailing dot.
    Name(String),
    Address(IpAddr),
}

impl Host {
    /// Parses the bytes in the place of a host.
    pub fn parse(bytes: &[u8]) -> Result<Self, HostError> {
        if !bytes.is_ascii() {
            return Err(HostError::NonAscii);
        }
        let text = std::str::from_utf8(bytes).map_err(|_| HostError::NonAscii)?;
        let text = text.strip_suffix('.').unwrap_or(text);
        if text.is_empty() {
            return Err(HostError::Empty);
        }
        match address::literal(text) {
            Some(Literal::Address(address)) => return Ok(Self::Address(address)),
            Some(Literal::Broken) => return Err(HostError::Address),
            None => {}
        }
        if !text.bytes().all(|b| is_name_byte(b) || b == b'.') {
            return Err(HostError::Character);
        }
        if text.len() > 253 || text.split('.').any(|l| l.is_empty() || l.len() > 63) {
            return Err(HostError::Label);
        }
        Ok(Self::Name(text.to_ascii_lowercase()))
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(address) => address.fmt(f),
        }
    }
}

/// Underscores are in use, although no standard for host names allows them.
fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'
}

/// One rule, with the entry that it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRule {
    text: String,
    pattern: Pattern,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Pattern {
    Everything,
    Name(String),
    Glob {
        /// Whether one or more labels precede the listed ones.
        subdomains: bool,
        labels: Vec<String>,
    },
    Address(IpAddr),
}

impl HostRule {
    /// The entry as written in the manifest, for people.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether the rule allows a request for this host.
    pub fn allows(&self, host: &Host) -> bool {
        match (&self.pattern, host) {
            (Pattern::Address(own), Host::Address(requested)) => own == requested,
            (Pattern::Everything, Host::Name(_)) => true,
            (Pattern::Name(own), Host::Name(requested)) => own == requested,
            (Pattern::Glob { subdomains, labels }, Host::Name(requested)) => {
                let requested: Vec<&str> = requested.split('.').collect();
                labels_match(*subdomains, labels, false, &requested)
            }
            _ => false,
        }
    }

    /// Whether this rule allows every host that the other rule allows.
    pub fn covers(&self, other: &Self) -> bool {
        match (&self.pattern, &other.pattern) {
            (own, theirs) if own == theirs => true,
            (Pattern::Everything, theirs) => !matches!(theirs, Pattern::Address(_)),
            (_, Pattern::Name(name)) => self.allows(&Host::Name(name.clone())),
            (
                Pattern::Glob { subdomains, labels },
                Pattern::Glob {
                    subdomains: their_subdomains,
                    labels: theirs,
                },
            ) => {
                let theirs: Vec<&str> = theirs.iter().map(String::as_str).collect();
                labels_match(*subdomains, labels, *their_subdomains, &theirs)
            }
            _ => false,
        }
    }
}

fn labels_match(subdomains: bool, own: &[String], their_subdomains: bool, theirs: &[&str]) -> bool {
    let spare = match theirs.len().checked_sub(own.len()) {
        Some(spare) => spare,
        None => return false,
    };
    let lengths_fit = match (subdomains, their_subdomains) {
        (true, true) => true,
        (true, false) => spare > 0,
        (false, true) => false,
        (false, false) => spare == 0,
    };
    lengths_fit
        && own
            .iter()
            .zip(theirs.iter().skip(spare))
            .all(|(own, label)| label_matches(own.as_bytes(), label.as_bytes()))
}

/// Matches `*` and `?` within one label. The text may also be a pattern: only `*` matches a `*`.
fn label_matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // Where to continue when the last star has to match one more byte.
    let mut retry: Option<(usize, usize)> = None;
    while let Some(byte) = text.get(t) {
        match pattern.get(p) {
            Some(b'*') => {
                retry = Some((p, t));
                p += 1;
            }
            Some(own) if *byte != b'*' && (*own == b'?' || own == byte) => {
                p += 1;
                t += 1;
            }
            _ => match retry {
                Some((star, from)) => {
                    retry = Some((star, from + 1));
                    p = star + 1;
                    t = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern
        .get(p..)
        .is_some_and(|rest| rest.iter().all(|b| *b == b'*'))
}

/// All hosts that a session may reach. If it is empty, there are none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostRules {
    rules: Vec<HostRule>,
}

impl HostRules {
    /// Parses the entries of `network.egress`. Returns an error for the first that cannot be
    /// enforced.
    pub fn parse<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> Result<Self, RuleError> {
        let mut rules = Vec::new();
        for text in texts {
            rules.extend(parse_rule(text.as_ref())?);
        }
        Ok(Self { rules })
    }

    /// The rule that allows a host, if any.
    pub fn allowing(&self, host: &Host) -> Option<&HostRule> {
        self.rules.iter().find(|rule| rule.allows(host))
    }

    /// The rule that lists this exact address, of whatever kind it is.
    pub fn listing(&self, address: IpAddr) -> Option<&HostRule> {
        self.allowing(&Host::Address(address::canonical(address)))
    }

    /// Whether `localhost` is listed literally. Only then may it be the runner's loopback.
    pub fn lists_localhost(&self) -> bool {
        self.rules
            .iter()
            .any(|rule| matches!(&rule.pattern, Pattern::Name(name) if name == "localhost"))
    }

    /// Whether a host is listed that can only be reached over loopback.
    pub fn lists_loopback(&self) -> bool {
        self.lists_localhost()
            || self
                .rules
                .iter()
                .any(|rule| matches!(rule.pattern, Pattern::Address(a) if a.is_loopback()))
    }

    /// The first rule of `narrower` that allows more than these rules do.
    pub fn uncovered<'a>(&self, narrower: &'a Self) -> Option<&'a HostRule> {
        narrower
            .rules
            .iter()
            .find(|theirs| !self.rules.iter().any(|own| own.covers(theirs)))
    }

    /// Whether no host is allowed.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }
}

fn parse_rule(text: &str) -> Result<Vec<HostRule>, RuleError> {
    let patterns = alternatives(text).and_then(|texts| {
        texts
            .iter()
            .map(|text| parse_pattern(text))
            .collect::<Result<Vec<_>, _>>()
    });
    let patterns = patterns.map_err(|problem| RuleError {
        rule: text.to_owned(),
        problem,
    })?;
    let rule = |pattern| HostRule {
        text: text.to_owned(),
        pattern,
    };
    Ok(patterns.into_iter().map(rule).collect())
}

/// Expands `{a,b}.example` to `a.example` and `b.example`.
fn alternatives(text: &str) -> Result<Vec<String>, RuleProblem> {
    let mut done = vec![String::new()];
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let (choices, tail) = after.split_once('}').ok_or(RuleProblem::Braces)?;
        if before.contains('}') || choices.contains('{') {
            return Err(RuleProblem::Braces);
        }
        let choices: Vec<&str> = choices.split(',').collect();
        if done.len() * choices.len() > MAX_ALTERNATIVES {
            return Err(RuleProblem::Braces);
        }
        done = done
            .iter()
            .flat_map(|head| choices.iter().map(move |c| format!("{head}{before}{c}")))
            .collect();
        rest = tail;
    }
    if rest.contains('}') {
        return Err(RuleProblem::Braces);
    }
    for head in &mut done {
        head.push_str(rest);
    }
    Ok(done)
}

fn parse_pattern(text: &str) -> Result<Pattern, RuleProblem> {
    if text.is_empty() || text == "." {
        return Err(RuleProblem::Empty);
    }
    if !text.is_ascii() {
        return Err(RuleProblem::NonAscii);
    }
    if text.contains("://") {
        return Err(RuleProblem::Scheme);
    }
    if let Some((before, bits)) = text.split_once('/') {
        let before = before.trim_start_matches('[').trim_end_matches(']');
        let address = before.parse::<IpAddr>().is_ok() || address::literal(before).is_some();
        let bits = !bits.is_empty() && bits.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        return Err(match address && bits {
            true => RuleProblem::Cidr,
            false => RuleProblem::Path,
        });
    }
    let bare = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(text);
    if let Ok(address) = bare.parse::<Ipv6Addr>() {
        return Ok(Pattern::Address(address::canonical(address.into())));
    }
    if let Some((_, port)) = text.rsplit_once(':')
        && (port == "*" || port.bytes().all(|b| b.is_ascii_digit()))
    {
        return Err(RuleProblem::Port);
    }
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.*?".contains(c);
    if let Some(c) = text.chars().find(|c| !fits(*c)) {
        return Err(RuleProblem::Character(c));
    }
    let text = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
    parse_name(&text)
}

fn parse_name(text: &str) -> Result<Pattern, RuleProblem> {
    if text.bytes().all(|b| b == b'*') {
        return Ok(Pattern::Everything);
    }
    if let Ok(address) = text.parse::<Ipv4Addr>() {
        return Ok(Pattern::Address(address.into()));
    }
    let labels: Vec<String> = text.split('.').map(str::to_owned).collect();
    if text.len() > 253 || labels.iter().any(|l| l.is_empty() || l.len() > 63) {
        return Err(RuleProblem::Label);
    }
    if !text.contains(['*', '?']) {
        return match address::literal(text) {
            Some(_) => Err(RuleProblem::Address),
            None => Ok(Pattern::Name(text.to_owned())),
        };
    }
    let only_numbers = text.bytes().all(|b| b"0123456789.*?".contains(&b));
    if only_numbers && text.bytes().any(|b| b.is_ascii_digit()) {
        return Err(RuleProblem::AddressGlob);
    }
    let subdomains = labels
        .first()
        .is_some_and(|label| label.bytes().all(|b| b == b'*'));
    let labels = labels.into_iter().skip(usize::from(subdomains)).collect();
    Ok(Pattern::Glob { subdomains, labels })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(texts: &[&str]) -> HostRules {
        HostRules::parse(texts).expect("rules")
    }

    fn allows(texts: &[&str], host: &str) -> bool {
        match Host::parse(host.as_bytes()) {
            Ok(host) => rules(texts).allowing(&host).is_some(),
            Err(_) => false,
        }
    }

    /// A29-SBX-02: names and globs, in any letter case, and nothing else.
    #[test]
    fn names_and_globs_match_hosts() {
        for (rule, host) in [
            ("api.example.com", "api.example.com"),
            ("api.example.com", "API.Example.COM"),
            ("API.example.com", "api.example.com"),
            ("api.example.com", "api.example.com."),
            ("api.example.com.", "api.example.com"),
            ("*.example.com", "a.example.com"),
            ("*.example.com", "a.b.example.com"),
            ("**.example.com", "a.b.example.com"),
            ("*.example.com", "A.EXAMPLE.com."),
            ("api-*.example.com", "api-7.example.com"),
            ("api-*.example.com", "api-.example.com"),
            ("a.*.example.com", "a.b.example.com"),
            ("example.*", "example.org"),
            ("node?.example", "node1.example"),
            ("{a,b}.example", "a.example"),
            ("{a,b}.example", "b.example"),
            ("*", "anything.example"),
            ("*", "single"),
            ("_srv.example", "_srv.example"),
            ("localhost", "LOCALHOST"),
        ] {
            assert!(allows(&[rule], host), "{rule} should allow {host}");
        }
        for (rule, host) in [
            ("api.example.com", "example.com"),
            ("api.example.com", "xapi.example.com"),
            ("api.example.com", "api.example.com.evil.org"),
            ("api.example.com", "api.example.com.."),
            ("api.example.com", ".api.example.com"),
            ("api.example.com", "api.example.com\0.evil.org"),
            ("api.example.com", "api.example.com%00"),
            ("api.example.com", "api.example.com#x"),
            ("api.example.com", "api\u{2024}example.com"),
            ("api.example.com", "user@api.example.com"),
            ("*.example.com", "example.com"),
            ("*.example.com", ".example.com"),
            ("*.example.com", "aexample.com"),
            ("*.example.com", "a.example.com.evil.org"),
            ("api-*.example.com", "api-x.evil.example.com"),
            ("a.*.example.com", "a.b.c.example.com"),
            ("a.*.example.com", "a.example.com"),
            ("example.*", "example.co.uk"),
            ("node?.example", "node.example"),
            ("node?.example", "node12.example"),
            ("{a,b}.example", "c.example"),
            ("*", "bücher.example"),
            ("*", ""),
            ("*", "."),
        ] {
            assert!(!allows(&[rule], host), "{rule} should refuse {host}");
        }
        assert!(!allows(&[], "example.com"));
    }

    #[test]
    fn addresses_are_allowed_only_if_listed_exactly() {
        for host in [
            "127.0.0.1",
            "0x7f.1",
            "2130706433",
            "127.1",
            "::1",
            "[::1]",
            "::ffff:10.0.0.1",
            "10.0.0.1",
            "1.1.1.1",
            "1.1.1.1.",
            "[2606:4700::1111]",
        ] {
            assert!(!allows(&["*", "*.*.*.*", "example.com"], host), "{host}");
        }
        for host in ["10.0.0.1", "::ffff:10.0.0.1", "[::ffff:a00:1]", "0xa.1"] {
            assert!(allows(&["10.0.0.1"], host), "{host}");
            assert!(!allows(&["10.0.0.2"], host), "{host}");
        }
        assert!(allows(&["::ffff:10.0.0.1"], "10.0.0.1"));
        assert!(allows(&["[::1]"], "::1") && allows(&["::1"], "[0::1]"));
        assert!(!allows(&["::1"], "127.0.0.1"));
    }

    /// A29-SBX-03: no CIDR, port or scheme. The error names the entry.
    #[test]
    fn invalid_rules_are_rejected() {
        let problem = |text: &str| HostRules::parse([text]).expect_err(text).problem;
        for (text, expected) in [
            ("", RuleProblem::Empty),
            (".", RuleProblem::Empty),
            ("https://a.example", RuleProblem::Scheme),
            ("10.0.0.0/8", RuleProblem::Cidr),
            ("fe80::/10", RuleProblem::Cidr),
            ("10.0.0.0/255.0.0.0", RuleProblem::Cidr),
            ("a.example/v1", RuleProblem::Path),
            ("a.example:443", RuleProblem::Port),
            ("a.example:*", RuleProblem::Port),
            ("a.example:", RuleProblem::Port),
            ("[::1]:80", RuleProblem::Port),
            ("10.0.0.1:80", RuleProblem::Port),
            ("bücher.example", RuleProblem::NonAscii),
            ("a b", RuleProblem::Character(' ')),
            ("a,b", RuleProblem::Character(',')),
            ("[ab].example", RuleProblem::Character('[')),
            ("u@a.example", RuleProblem::Character('@')),
            ("a..example", RuleProblem::Label),
            (".example", RuleProblem::Label),
            ("0x7f.1", RuleProblem::Address),
            ("127.1", RuleProblem::Address),
            ("2130706433", RuleProblem::Address),
            ("a.example.1", RuleProblem::Address),
            ("10.0.0.*", RuleProblem::AddressGlob),
            ("1*", RuleProblem::AddressGlob),
            ("{a.example", RuleProblem::Braces),
            ("a}.example", RuleProblem::Braces),
            ("{a,{b}}.example", RuleProblem::Braces),
        ] {
            assert_eq!(problem(text), expected, "{text}");
        }
        assert_eq!(problem(&"{a,b}".repeat(7)), RuleProblem::Braces);
        assert_eq!(
            HostRules::parse(["ok.example", "a.example:443"])
                .expect_err("port")
                .to_string(),
            "`network.egress` entry `a.example:443` has a port, but AIP-29 has no rules for \
             ports: remove the port"
        );
    }

    #[test]
    fn wider_rules_cover_narrower_ones() {
        for (own, theirs) in [
            ("*", "a.example"),
            ("*", "*"),
            ("*.example", "a.example"),
            ("*.example", "*.example"),
            ("*.example", "*.b.example"),
            ("*.example", "a*.example"),
            ("a*.example", "ab*.example"),
            ("a?.example", "a?.example"),
            ("A.example", "a.example."),
            ("{a,b}.example", "b.example"),
            ("10.0.0.1", "::ffff:10.0.0.1"),
        ] {
            assert_eq!(
                rules(&[own]).uncovered(&rules(&[theirs])),
                None,
                "{own} {theirs}"
            );
        }
        for (own, theirs) in [
            ("*", "10.0.0.1"),
            ("*.example", "*"),
            ("*.example", "example"),
            ("*.b.example", "*.example"),
            ("a.example", "*.example"),
            ("a*.example", "*.example"),
            ("a?.example", "a*.example"),
            ("a*.example", "a.b.example"),
            ("?.example", "*.example"),
        ] {
            let theirs_rules = rules(&[theirs]);
            let found = rules(&[own]).uncovered(&theirs_rules).map(HostRule::text);
            assert_eq!(found, Some(theirs), "{own}");
        }
    }

    proptest::proptest! {
        #[test]
        fn nothing_panics(bytes: Vec<u8>, rule: String, dotted in "[0-9a-fx.:*?{},\\[\\]]{0,24}") {
            let _ = Host::parse(&bytes);
            let _ = Host::parse(dotted.as_bytes());
            let _ = HostRules::parse([&rule]);
            let _ = HostRules::parse([&dotted]);
        }

        /// A host that a glob allows is a name, and ends like the glob.
        #[test]
        fn a_glob_allows_only_names_below_it(host in "[a-c0-9.:x]{1,16}") {
            if allows(&["*.b.c"], &host) {
                let host = host.strip_suffix('.').unwrap_or(&host);
                proptest::prop_assert!(host.ends_with(".b.c") && host.len() > 4);
            }
        }
    }
}
