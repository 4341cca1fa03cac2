//! The variables by which programs find the proxy.

use std::net::SocketAddr;

use super::hosts::HostRules;

/// What `ALL_PROXY` names. Most clients take the others first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AllProxy {
    /// For protocols other than HTTP. Python's httpx without its `socks` extra does not
    /// start with it, whatever else is set.
    #[default]
    Socks5h,
    Http,
}

/// Names for which a program goes straight to its own loopback.
const OWN: &str = "localhost,127.0.0.1,::1";

/// Variables for a child that sees the proxy at `address`. Its own loopback needs no proxy,
/// unless the runner's is listed: then the proxy is the way there.
pub fn variables(address: SocketAddr, rules: &HostRules, all: AllProxy) -> Vec<(String, String)> {
    let http = format!("http://{address}");
    let all = match all {
        AllProxy::Socks5h => format!("socks5h://{address}"),
        AllProxy::Http => http.clone(),
    };
    let direct = if rules.lists_loopback() { "" } else { OWN };
    let mut variables = Vec::new();
    for (name, value) in [
        ("HTTP_PROXY", http.as_str()),
        ("HTTPS_PROXY", &http),
        ("ALL_PROXY", &all),
        ("NO_PROXY", direct),
    ] {
        variables.push((name.to_owned(), value.to_owned()));
        // curl and much else knows `http_proxy` in lower case only.
        variables.push((name.to_ascii_lowercase(), value.to_owned()));
    }
    // Without it, Node's own fetch ignores the variables above.
    variables.push(("NODE_USE_ENV_PROXY".to_owned(), "1".to_owned()));
    variables
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variable() {
        let address = "127.0.0.1:3128".parse().expect("address");
        let of =
            |rules: &[&str], all| variables(address, &HostRules::parse(rules).expect("rules"), all);
        let all = of(&["a.example"], AllProxy::Socks5h);
        let get = |name: &str| {
            let found = all.iter().find(|(own, _)| own == name);
            found.map(|(_, value)| value.as_str())
        };
        for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"] {
            assert_eq!(get(name), Some("http://127.0.0.1:3128"), "{name}");
        }
        for name in ["ALL_PROXY", "all_proxy"] {
            assert_eq!(get(name), Some("socks5h://127.0.0.1:3128"), "{name}");
        }
        assert_eq!(get("no_proxy"), Some("localhost,127.0.0.1,::1"));
        assert_eq!(get("NODE_USE_ENV_PROXY"), Some("1"));
        for listed in ["localhost", "127.0.0.1", "::1"] {
            let direct = of(&[listed], AllProxy::Http);
            assert!(
                direct.contains(&("NO_PROXY".to_owned(), String::new())),
                "{listed}"
            );
        }
    }
}
