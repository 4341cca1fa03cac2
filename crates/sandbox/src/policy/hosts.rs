//! Host names of `network.egress`. The proxy matches them. This module only rejects entries that
//! cannot be host names.

use super::block::ClauseValue;
use super::draft::Draft;
use crate::clause::Clause;

/// The entries that are host names or globs. Others cannot be enforced.
pub fn egress(entries: Vec<ClauseValue<String>>, draft: &mut Draft) -> Vec<(Clause, String)> {
    let mut out = Vec::new();
    for ClauseValue { clause, value, .. } in entries {
        match host_error(&value) {
            Some(why) => {
                let why = format!("{why}; `network.egress` takes only host names and globs");
                draft.unenforceable.push((clause, why));
            }
            None => out.push((clause, value)),
        }
    }
    out
}

fn host_error(host: &str) -> Option<&'static str> {
    if host.parse::<std::net::IpAddr>().is_ok() {
        return None;
    }
    let letter =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '*') || !c.is_ascii();
    if host.is_empty() {
        Some("it is empty")
    } else if host.contains("://") {
        Some("it has a scheme")
    } else if host.contains('/') {
        Some("it has a path or an address range")
    } else if host.contains(':') {
        Some("it has a port")
    } else if host
        .chars()
        .any(|c| !letter(c) || c.is_whitespace() || c.is_control())
    {
        Some("it contains a character that is not allowed in host names")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a29_sbx_03_only_host_names() {
        for host in [
            "api.github.com",
            "*.x.io",
            "localhost",
            "127.0.0.1",
            "::1",
            "*",
        ] {
            assert_eq!(host_error(host), None, "{host}");
        }
        for host in [
            "https://x.io",
            "10.0.0.0/8",
            "x.io:443",
            "x.io/a",
            "",
            "a b",
            "[::1]",
            "a\n",
        ] {
            assert!(host_error(host).is_some(), "{host}");
        }
    }
}
