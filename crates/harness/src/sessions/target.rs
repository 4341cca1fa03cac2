//! A session host as a target: its address, the token for it, and the adapter that it runs.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use fluent_uri::Uri;
use zeroize::Zeroizing;

use super::door::McpDoor;

/// The adapter that is used if the caller names none. Hosts that bundle the mock agents have it.
pub const DEFAULT_ADAPTER: &str = "mock-acp";

/// The address of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostAddress {
    /// Host name or IP address. An IPv6 address has brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Whether the URL starts with `https`.
    pub is_tls: bool,
    /// Prefix of every path, without a trailing slash.
    pub base: String,
}

impl HostAddress {
    /// Parses `http://127.0.0.1:4711` or `https://host/behind/a/path`.
    pub fn parse(text: &str) -> Result<HostAddress, String> {
        let uri =
            Uri::parse(text).map_err(|error| format!("`{text}` is not a valid URL: {error}"))?;
        let is_tls = match uri.scheme().as_str().to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            other => {
                return Err(format!("unsupported scheme `{other}`: use http or https"));
            }
        };
        let authority = uri
            .authority()
            .filter(|authority| !authority.host().is_empty())
            .ok_or_else(|| format!("`{text}` has no host name"))?;
        if authority.userinfo().is_some() {
            return Err("the URL must not contain a password: use --token-file".to_owned());
        }
        if uri.query().is_some() || uri.fragment().is_some() {
            return Err(format!("`{text}` must not have a query or a fragment"));
        }
        let usual = if is_tls { 443 } else { 80 };
        let port = match authority.port().map(|port| port.as_str()) {
            None | Some("") => usual,
            Some(port) => port
                .parse()
                .map_err(|_| format!("`{port}` is not a valid port"))?,
        };
        Ok(HostAddress {
            host: authority.host().to_owned(),
            port,
            is_tls,
            base: uri.path().as_str().trim_end_matches('/').to_owned(),
        })
    }

    /// The host name for sockets: an IPv6 address without brackets.
    pub fn name(&self) -> &str {
        self.host.trim_start_matches('[').trim_end_matches(']')
    }

    /// The value of the `Host` header.
    pub fn authority(&self) -> String {
        let usual = if self.is_tls { 443 } else { 80 };
        match self.port == usual {
            true => self.host.clone(),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    /// Whether the host is on this machine.
    pub fn is_loopback(&self) -> bool {
        let name = self.name();
        let is_local = name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
        is_local || name.eq_ignore_ascii_case("localhost")
    }
}

/// A session host as a target.
#[derive(Clone)]
pub struct HostTarget {
    /// Its address.
    pub address: HostAddress,
    /// Prefix of the session routes.
    pub prefix: String,
    /// Path of its MCP server.
    pub mcp: String,
    /// Its MCP server over stdin and stdout, which is used instead of the path.
    pub door: Option<McpDoor>,
    /// Bearer token, if the host requires one.
    pub token: Option<Zeroizing<String>>,
    /// The adapter that the caller named.
    pub adapter: Option<String>,
    /// Working directory of the sessions. Without it, a directory of the case is used if the host
    /// is on this machine.
    pub cwd: Option<PathBuf>,
}

/// Leaves out the token.
impl fmt::Debug for HostTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostTarget({})", self.address.authority())
    }
}

impl HostTarget {
    /// A host with the default routes.
    pub fn new(address: HostAddress, token: Option<String>) -> HostTarget {
        HostTarget {
            address,
            prefix: "/sessions".to_owned(),
            mcp: "/mcp".to_owned(),
            door: None,
            token: token.map(Zeroizing::new),
            adapter: None,
            cwd: None,
        }
    }

    /// The adapter to run: the caller's, or else [`DEFAULT_ADAPTER`].
    pub fn adapter(&self) -> &str {
        self.adapter.as_deref().unwrap_or(DEFAULT_ADAPTER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed() {
        let of = |text: &str| {
            let address = HostAddress::parse(text).expect(text);
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
            assert!(HostAddress::parse(wrong).is_err(), "{wrong}");
        }
    }
}
