//! The environment variables by which programs find the proxy.

use std::net::SocketAddr;

use super::hosts::HostRules;

/// The proxy in `ALL_PROXY`. Most clients prefer the other variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AllProxy {
    /// For protocols other than HTTP. With this value, Python's httpx without its `socks` extra
    /// fails to start, even if other variables are set.
    #[default]
    Socks5h,
    Http,
}

/// Hosts that a program reaches without the proxy, on its own loopback.
const LOOPBACK_HOSTS: &str = "localhost,127.0.0.1,::1";

/// Variables for a child that sees the proxy at `address`. The child reaches its own loopback
/// without the proxy. If the runner's loopback is listed, the proxy leads there instead.
pub fn variables(address: SocketAddr, rules: &HostRules, all: AllProxy) -> Vec<(String, String)> {
    let http = format!("http://{address}");
    let all = match all {
        AllProxy::Socks5h => format!("socks5h://{address}"),
        AllProxy::Http => http.clone(),
    };
    let direct = if rules.lists_loopback() {
        ""
    } else {
        LOOPBACK_HOSTS
    };
    let mut variables = Vec::new();
    for (name, value) in [
        ("HTTP_PROXY", http.as_str()),
        ("HTTPS_PROXY", &http),
        ("ALL_PROXY", &all),
        ("NO_PROXY", direct),
    ] {
        variables.push((name.to_owned(), value.to_owned()));
        // curl and many others only read `http_proxy` in lower case.
        variables.push((name.to_ascii_lowercase(), value.to_owned()));
    }
    // Without it, Node's built-in fetch ignores the variables above.
    variables.push(("NODE_USE_ENV_PROXY".to_owned(), "1".to_owned()));
    variables
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_proxy_variables_are_set() {
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
