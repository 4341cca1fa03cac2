//! A host under its URL: where it is, who we are to it, and what it is asked to run.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use fluent_uri::Uri;
use zeroize::Zeroizing;

/// The adapter that is tried where the caller names none: hosts that bundle our mocks have it.
pub const USUAL_ADAPTER: &str = "mock-acp";

/// Where a host listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    pub host: String,
    pub port: u16,
    pub is_tls: bool,
    /// What stands before every path; without a slash at its end.
    pub base: String,
}

impl Address {
    /// Reads `http://127.0.0.1:4711` or `https://host/behind/a/path`.
    pub fn parse(text: &str) -> Result<Address, String> {
        let uri = Uri::parse(text).map_err(|error| format!("`{text}` is no URL: {error}"))?;
        let is_tls = match uri.scheme().as_str().to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            other => {
                return Err(format!(
                    "`{other}:` is not spoken here, only http and https"
                ));
            }
        };
        let authority = uri
            .authority()
            .filter(|authority| !authority.host().is_empty())
            .ok_or_else(|| format!("`{text}` names no host"))?;
        if authority.userinfo().is_some() {
            return Err("a URL does not hold a password here: give it as --token-file".to_owned());
        }
        if uri.query().is_some() || uri.fragment().is_some() {
            return Err(format!("`{text}` is more than the address of a host"));
        }
        let usual = if is_tls { 443 } else { 80 };
        let port = match authority.port().map(|port| port.as_str()) {
            None | Some("") => usual,
            Some(port) => port.parse().map_err(|_| format!("`{port}` is no port"))?,
        };
        Ok(Address {
            host: authority.host().to_owned(),
            port,
            is_tls,
            base: uri.path().as_str().trim_end_matches('/').to_owned(),
        })
    }

    /// As sockets take it: without the brackets of an IPv6 address.
    pub fn name(&self) -> &str {
        self.host.trim_start_matches('[').trim_end_matches(']')
    }

    /// As the `Host` header has it.
    pub fn authority(&self) -> String {
        let usual = if self.is_tls { 443 } else { 80 };
        match self.port == usual {
            true => self.host.clone(),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    /// On this very machine.
    pub fn is_loopback(&self) -> bool {
        let name = self.name();
        let is_local = name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
        is_local || name.eq_ignore_ascii_case("localhost")
    }
}

/// A host as a target.
#[derive(Clone)]
pub struct HostTarget {
    pub address: Address,
    /// The prefix of the routes.
    pub prefix: String,
    /// Where its MCP server is, if it has one.
    pub mcp: String,
    pub token: Option<Zeroizing<String>>,
    /// What the caller named.
    pub adapter: Option<String>,
    /// Where sessions run; without it a directory of the case, if the host is on this machine.
    pub cwd: Option<PathBuf>,
}

/// The token stays out of it.
impl fmt::Debug for HostTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostTarget({})", self.address.authority())
    }
}

impl HostTarget {
    pub fn new(address: Address, token: Option<String>) -> HostTarget {
        HostTarget {
            address,
            prefix: "/sessions".to_owned(),
            mcp: "/mcp".to_owned(),
            token: token.map(Zeroizing::new),
            adapter: None,
            cwd: None,
        }
    }

    pub fn adapter(&self) -> &str {
        self.adapter.as_deref().unwrap_or(USUAL_ADAPTER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        let of = |text: &str| {
            let address = Address::parse(text).expect(text);
            (
                address.authority(),
                address.base.clone(),
                address.is_loopback(),
            )
        };
        let own = |a: &str, b: &str, local| (a.to_owned(), b.to_owned(), local);
        assert_eq!(of("http://127.0.0.1:4711"), own("127.0.0.1:4711", "", true));
        assert_eq!(of("http://localhost/"), own("localhost", "", true));
        assert_eq!(of("http://[::1]:80/a/b/"), own("[::1]", "/a/b", true));
        assert_eq!(of("https://x.example/p"), own("x.example", "/p", false));
        assert_eq!(of("HTTPS://x.example:80"), own("x.example:80", "", false));
        for wrong in [
            "",
            "127.0.0.1:4711",
            "ftp://x",
            "http://",
            "http://user:pw@x",
            "http://x:99999",
            "http://x/?token=1",
            "/sessions",
        ] {
            assert!(Address::parse(wrong).is_err(), "{wrong}");
        }
    }
}
