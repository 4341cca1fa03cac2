//! From a listed host to a connection: the name is resolved once, and exactly the checked addresses
//! are connected to.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::address;
use super::hosts::{Host, HostRules};

/// Addresses of a name, in order of preference.
pub type ResolveFuture<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>>;

/// The name service. Tests replace it.
pub trait Resolve: Send + Sync + 'static {
    /// Looks up the addresses of a name.
    fn resolve<'a>(&'a self, name: &'a str) -> ResolveFuture<'a>;
}

/// The name service of the runner's machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> ResolveFuture<'a> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// Why a host was not reached.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReachError {
    #[error("no entry of `network.egress` matches it")]
    NotListed,
    #[error("it is an IP address that `network.egress` does not list")]
    AddressNotListed,
    #[error("its address {address} is {kind}, and `network.egress` does not list that address")]
    SpecialAddress { address: IpAddr, kind: &'static str },
    #[error("its name could not be resolved: {0}")]
    Unresolved(io::Error),
    #[error("its name has no address")]
    NoAddress,
    #[error("its name was not resolved in time")]
    ResolveTimeout,
    #[error("{address} could not be reached: {error}")]
    Connect { address: IpAddr, error: io::Error },
    #[error("{address} did not respond in time")]
    ConnectTimeout { address: IpAddr },
}

impl ReachError {
    /// Whether the policy refused it. All other errors come from the network.
    pub fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::NotListed | Self::AddressNotListed | Self::SpecialAddress { .. }
        )
    }

    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::ResolveTimeout | Self::ConnectTimeout { .. })
    }

    pub fn address(&self) -> Option<IpAddr> {
        match self {
            Self::SpecialAddress { address, .. }
            | Self::Connect { address, .. }
            | Self::ConnectTimeout { address } => Some(*address),
            _ => None,
        }
    }
}

/// A host that may be reached, only by these addresses.
#[derive(Debug)]
pub(crate) struct CheckedHost {
    /// The entry that allows it, as written.
    pub rule: String,
    pub addresses: Vec<IpAddr>,
}

/// Matches the host and resolves it. A name that is not listed is never looked up, because the
/// query alone could leak data.
pub(crate) async fn check(
    host: &Host,
    rules: &HostRules,
    resolver: &dyn Resolve,
    time_limit: Duration,
) -> Result<CheckedHost, ReachError> {
    let (rule, name) = match host {
        Host::Address(address) => {
            let rule = rules
                .listing(*address)
                .ok_or(ReachError::AddressNotListed)?;
            return Ok(CheckedHost {
                rule: rule.text().to_owned(),
                addresses: vec![*address],
            });
        }
        Host::Name(name) => (rules.allowing(host).ok_or(ReachError::NotListed)?, name),
    };
    let answers = timeout(time_limit, resolver.resolve(name))
        .await
        .map_err(|_| ReachError::ResolveTimeout)?
        .map_err(ReachError::Unresolved)?;
    let own_loopback = name == "localhost" && rules.lists_localhost();
    let mut refused = None;
    let mut addresses = Vec::new();
    for answer in answers {
        let answer = address::canonical(answer);
        let own = || address::is_own(answer).then_some("an address of this machine");
        match address::special(answer).or_else(own) {
            Some(kind)
                if !(own_loopback && answer.is_loopback()) && rules.listing(answer).is_none() =>
            {
                refused.get_or_insert(ReachError::SpecialAddress {
                    address: answer,
                    kind,
                });
            }
            _ if addresses.contains(&answer) => {}
            _ => addresses.push(answer),
        }
    }
    if addresses.is_empty() {
        return Err(refused.unwrap_or(ReachError::NoAddress));
    }
    Ok(CheckedHost {
        rule: rule.text().to_owned(),
        addresses,
    })
}

/// Head start of one address before the next one is tried in parallel.
const STAGGER: Duration = Duration::from_millis(250);
/// Maximum number of addresses that are tried; each is one socket.
const MAX_ADDRESSES: usize = 8;

/// Connects to the first address that responds, and starts them in order.
pub(crate) async fn connect(
    addresses: &[IpAddr],
    port: u16,
    time_limit: Duration,
) -> Result<(TcpStream, IpAddr), ReachError> {
    let mut tries: JoinSet<Result<(TcpStream, IpAddr), ReachError>> = JoinSet::new();
    let mut waiting = addresses.iter().copied().take(MAX_ADDRESSES);
    let mut last_error = ReachError::NoAddress;
    loop {
        if let Some(address) = waiting.next() {
            tries.spawn(attempt(address, port, time_limit));
        }
        let finished = match waiting.len() {
            0 => tries.join_next().await,
            _ => match timeout(STAGGER, tries.join_next()).await {
                Ok(finished) => finished,
                Err(_) => continue,
            },
        };
        match finished {
            Some(Ok(Ok(connected))) => return Ok(connected),
            Some(Ok(Err(error))) => last_error = error,
            Some(Err(_)) => {}
            None if waiting.len() == 0 => return Err(last_error),
            None => {}
        }
    }
}

async fn attempt(
    address: IpAddr,
    port: u16,
    time_limit: Duration,
) -> Result<(TcpStream, IpAddr), ReachError> {
    match timeout(
        time_limit,
        TcpStream::connect(SocketAddr::new(address, port)),
    )
    .await
    {
        Ok(Ok(stream)) => Ok((stream, address)),
        Ok(Err(error)) => Err(ReachError::Connect { address, error }),
        Err(_) => Err(ReachError::ConnectTimeout { address }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed(Vec<IpAddr>);

    impl Resolve for Fixed {
        fn resolve<'a>(&'a self, _: &'a str) -> ResolveFuture<'a> {
            Box::pin(async { Ok(self.0.clone()) })
        }
    }

    struct Never;

    impl Resolve for Never {
        fn resolve<'a>(&'a self, name: &'a str) -> ResolveFuture<'a> {
            panic!("{name} was looked up");
        }
    }

    async fn checked(rules: &[&str], host: &str, answers: &[&str]) -> Result<Vec<String>, String> {
        let rules = HostRules::parse(rules).expect("rules");
        let host = Host::parse(host.as_bytes()).expect("host");
        let answers = answers
            .iter()
            .map(|a| a.parse().expect("address"))
            .collect();
        check(&host, &rules, &Fixed(answers), Duration::from_secs(1))
            .await
            .map(|c| c.addresses.iter().map(IpAddr::to_string).collect())
            .map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn names_with_special_addresses_are_refused() {
        for answer in [
            "10.0.0.1",
            "127.0.0.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "224.0.0.1",
            "192.0.2.1",
            "198.18.0.1",
            "::",
            "::1",
            "fd00::1",
            "fe80::1",
            "::ffff:10.0.0.1",
            "::127.0.0.1",
            "64:ff9b::a00:1",
            "2002:a00:1::",
        ] {
            let result = checked(&["a.example", "*"], "a.example", &[answer]).await;
            assert!(
                result
                    .expect_err(answer)
                    .contains("does not list that address")
            );
            let listed = checked(&["a.example", answer], "a.example", &[answer]).await;
            assert_eq!(listed.map(|a| a.len()), Ok(1), "{answer} listed");
        }
        assert_eq!(
            checked(
                &["a.example"],
                "a.example",
                &["10.0.0.1", "1.1.1.1", "1.1.1.1"]
            )
            .await,
            Ok(vec!["1.1.1.1".to_owned()])
        );
        assert!(checked(&["a.example"], "a.example", &[]).await.is_err());
    }

    #[tokio::test]
    async fn localhost_is_loopback_only_when_listed_literally() {
        let own = ["localhost"];
        assert!(
            checked(&own, "LocalHost.", &["127.0.0.1", "::1"])
                .await
                .is_ok()
        );
        assert!(checked(&own, "localhost", &["10.0.0.1"]).await.is_err());
        assert!(checked(&["*"], "localhost", &["127.0.0.1"]).await.is_err());
        assert!(
            checked(&["local*"], "localhost", &["127.0.0.1"])
                .await
                .is_err()
        );
        assert!(
            checked(&["*", "localhost"], "a.localhost", &["127.0.0.1"])
                .await
                .is_err()
        );
    }

    #[tokio::test]
    async fn unlisted_names_are_never_looked_up() {
        let rules = HostRules::parse(["a.example", "1.1.1.1"]).expect("rules");
        for host in ["secret.b.example", "10.0.0.1", "1.1.1.1"] {
            let host = Host::parse(host.as_bytes()).expect("host");
            let _ = check(&host, &rules, &Never, Duration::from_secs(1)).await;
        }
    }

    #[tokio::test]
    async fn a_silent_name_service_times_out() {
        struct Silent;
        impl Resolve for Silent {
            fn resolve<'a>(&'a self, _: &'a str) -> ResolveFuture<'a> {
                Box::pin(std::future::pending())
            }
        }
        let rules = HostRules::parse(["a.example"]).expect("rules");
        let host = Host::parse(b"a.example").expect("host");
        let result = check(&host, &rules, &Silent, Duration::from_millis(20)).await;
        assert!(matches!(result, Err(ReachError::ResolveTimeout)));
    }

    #[tokio::test]
    async fn the_next_address_is_tried() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("bind");
        let port = listener.local_addr().expect("address").port();
        let addresses = ["127.0.0.2", "127.0.0.1"].map(|a| a.parse().expect("address"));
        let (_, reached) = connect(&addresses, port, Duration::from_secs(2))
            .await
            .expect("one");
        assert_eq!(reached.to_string(), "127.0.0.1");
        drop(listener);
        let result = connect(&addresses, port, Duration::from_secs(2)).await;
        assert!(matches!(result, Err(ReachError::Connect { .. })));
    }
}
