//! SOCKS5 clients of the proxy (RFC 1928): CONNECT without authentication. None is needed, because
//! only this sandbox can reach its proxy.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::atomic::AtomicU64;

use tokio::net::TcpStream;
use tokio::time::timeout;

use super::audit::Via;
use super::http::linger;
use super::relay;
use super::session::{Asker, Refusal, RefusalKind};

pub const VERSION: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const NO_METHOD: u8 = 0xff;

/// Reply codes.
const SUCCEEDED: u8 = 0;
const FAILURE: u8 = 1;
const NOT_ALLOWED: u8 = 2;
const HOST_UNREACHABLE: u8 = 4;
const CONNECTION_REFUSED: u8 = 5;
const COMMAND_NOT_SUPPORTED: u8 = 7;
const ADDRESS_NOT_SUPPORTED: u8 = 8;

/// Result of parsing the bytes so far.
#[derive(Debug, PartialEq, Eq)]
enum Parsed<T> {
    More,
    /// A complete message and its length in bytes.
    Whole(T, usize),
    Bad(Fault),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum Fault {
    #[error("it is not SOCKS5")]
    Version,
    #[error("its command is not CONNECT")]
    Command,
    #[error("its address type is unknown")]
    AddressType,
}

#[derive(Debug, PartialEq, Eq)]
struct Target {
    host: Vec<u8>,
    port: u16,
}

/// Whether the client offers a connection without authentication.
fn greeting(bytes: &[u8]) -> Parsed<bool> {
    match bytes {
        [] | [VERSION] => Parsed::More,
        [VERSION, count, methods @ ..] => match methods.get(..usize::from(*count)) {
            None => Parsed::More,
            Some(methods) => Parsed::Whole(
                methods.contains(&NO_AUTHENTICATION),
                2 + usize::from(*count),
            ),
        },
        _ => Parsed::Bad(Fault::Version),
    }
}

fn target(bytes: &[u8]) -> Parsed<Target> {
    let (command, kind, rest) = match bytes {
        [VERSION, command, _, kind, rest @ ..] => (*command, *kind, rest),
        [] | [VERSION] | [VERSION, _] | [VERSION, _, _] => return Parsed::More,
        _ => return Parsed::Bad(Fault::Version),
    };
    if command != 1 {
        return Parsed::Bad(Fault::Command);
    }
    let (length, from) = match (kind, rest) {
        (1, _) => (4, 0),
        (4, _) => (16, 0),
        (3, [length, ..]) => (usize::from(*length), 1),
        (3, []) => return Parsed::More,
        _ => return Parsed::Bad(Fault::AddressType),
    };
    let end = from + length;
    let (Some(address), Some(&[high, low])) = (rest.get(from..end), rest.get(end..end + 2)) else {
        return Parsed::More;
    };
    let host = match kind {
        1 => <[u8; 4]>::try_from(address).map(|a| Ipv4Addr::from(a).to_string().into_bytes()),
        4 => <[u8; 16]>::try_from(address).map(|a| Ipv6Addr::from(a).to_string().into_bytes()),
        _ => Ok(address.to_vec()),
    };
    let port = u16::from_be_bytes([high, low]);
    let host = host.unwrap_or_default();
    Parsed::Whole(Target { host, port }, 4 + end + 2)
}

/// Serves one connection of a SOCKS client.
pub async fn serve(client: &TcpStream, asker: &Asker) {
    let mut received = Vec::new();
    let shaking = handshake(client, &mut received);
    let asked = match timeout(asker.shared.limits.head_time, shaking).await {
        Ok(Ok(asked)) => asked,
        Ok(Err(Shaken::Gone)) => {
            asker.malformed(Via::Socks5, String::new(), "it ended during its handshake");
            return;
        }
        Ok(Err(Shaken::NoMethod)) => {
            let why = "it requires authentication, which is not supported";
            asker.malformed(Via::Socks5, String::new(), why);
            return end_with(client, &[VERSION, NO_METHOD]).await;
        }
        Ok(Err(Shaken::Bad(fault))) => {
            asker.malformed(Via::Socks5, String::new(), &fault.to_string());
            let code = match fault {
                Fault::Version => FAILURE,
                Fault::Command => COMMAND_NOT_SUPPORTED,
                Fault::AddressType => ADDRESS_NOT_SUPPORTED,
            };
            return end_with(client, &reply(code)).await;
        }
        Err(_) => {
            asker.malformed(
                Via::Socks5,
                String::new(),
                "its handshake did not arrive in time",
            );
            return;
        }
    };
    match asker.open(Via::Socks5, &asked.host, asked.port).await {
        Ok((upstream, session)) => {
            let uncounted = AtomicU64::new(0);
            if relay::write_all(client, &reply(SUCCEEDED), &uncounted)
                .await
                .is_ok()
                && relay::write_all(&upstream, &received, &session.up)
                    .await
                    .is_ok()
            {
                relay::both(client, &upstream, &session).await;
            }
        }
        Err(refusal) => end_with(client, &reply(code_of(&refusal))).await,
    }
}

fn code_of(refusal: &Refusal) -> u8 {
    match refusal.kind {
        RefusalKind::Egress => NOT_ALLOWED,
        RefusalKind::Unreachable | RefusalKind::TimedOut => HOST_UNREACHABLE,
        RefusalKind::ConnectionRefused => CONNECTION_REFUSED,
        RefusalKind::Unrecorded => FAILURE,
    }
}

/// A reply without the bound address, which the child does not need.
fn reply(code: u8) -> [u8; 10] {
    [VERSION, code, 0, 1, 0, 0, 0, 0, 0, 0]
}

async fn end_with(client: &TcpStream, bytes: &[u8]) {
    let uncounted = AtomicU64::new(0);
    if relay::write_all(client, bytes, &uncounted).await.is_ok() {
        linger(client).await;
    }
}

enum Shaken {
    Gone,
    NoMethod,
    Bad(Fault),
}

impl From<io::Error> for Shaken {
    fn from(_: io::Error) -> Self {
        Self::Gone
    }
}

/// Reads the handshake. The bytes after it stay in `received`.
async fn handshake(client: &TcpStream, received: &mut Vec<u8>) -> Result<Target, Shaken> {
    if !read_until(client, received, greeting).await? {
        return Err(Shaken::NoMethod);
    }
    let uncounted = AtomicU64::new(0);
    relay::write_all(client, &[VERSION, NO_AUTHENTICATION], &uncounted).await?;
    read_until(client, received, target).await
}

/// Reads until `parse` succeeds. Both messages have a bounded length, so `received` has one.
async fn read_until<T>(
    client: &TcpStream,
    received: &mut Vec<u8>,
    parse: fn(&[u8]) -> Parsed<T>,
) -> Result<T, Shaken> {
    let mut buffer = [0; 512];
    loop {
        match parse(received) {
            Parsed::Whole(value, length) => {
                received.drain(..length.min(received.len()));
                return Ok(value);
            }
            Parsed::Bad(fault) => return Err(Shaken::Bad(fault)),
            Parsed::More => {}
        }
        let count = relay::read_some(client, &mut buffer).await?;
        if count == 0 {
            return Err(Shaken::Gone);
        }
        received.extend_from_slice(buffer.get(..count).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(bytes: &[u8]) -> Option<(String, u16, usize)> {
        match target(bytes) {
            Parsed::Whole(Target { host, port }, length) => {
                Some((String::from_utf8_lossy(&host).into_owned(), port, length))
            }
            _ => None,
        }
    }

    #[test]
    fn greetings_are_parsed() {
        assert_eq!(greeting(&[5, 1, 0]), Parsed::Whole(true, 3));
        assert_eq!(greeting(&[5, 2, 2, 0, 9]), Parsed::Whole(true, 4));
        assert_eq!(greeting(&[5, 1, 2]), Parsed::Whole(false, 3));
        assert_eq!(greeting(&[5, 0]), Parsed::Whole(false, 2));
        assert_eq!(greeting(&[5, 2, 0]), Parsed::More);
        assert_eq!(greeting(&[4, 1]), Parsed::Bad(Fault::Version));
    }

    #[test]
    fn targets_are_parsed() {
        let named = [5, 1, 0, 3, 3, b'a', b'.', b'b', 1, 187, 7];
        assert_eq!(asked(&named), Some(("a.b".to_owned(), 443, 10)));
        for cut in 0..10 {
            assert_eq!(target(&named[..cut]), Parsed::More, "{cut}");
        }
        assert_eq!(
            asked(&[5, 1, 0, 1, 10, 0, 0, 1, 0, 80]),
            Some(("10.0.0.1".to_owned(), 80, 10))
        );
        let mut six = vec![5, 1, 0, 4];
        six.extend([0; 15]);
        six.extend([1, 0, 80]);
        assert_eq!(asked(&six), Some(("::1".to_owned(), 80, 22)));
        for command in [0, 2, 3, 9] {
            assert_eq!(target(&[5, command, 0, 1]), Parsed::Bad(Fault::Command));
        }
        assert_eq!(target(&[5, 1, 0, 2]), Parsed::Bad(Fault::AddressType));
        assert_eq!(target(&[4, 1, 0, 1]), Parsed::Bad(Fault::Version));
    }

    proptest::proptest! {
        #[test]
        fn nothing_panics(bytes: Vec<u8>, kind: u8, rest: Vec<u8>) {
            let _ = greeting(&bytes);
            let _ = target(&bytes);
            let _ = greeting(&[&[5, kind], rest.as_slice()].concat());
            let _ = target(&[&[5, 1, 0, kind], rest.as_slice()].concat());
        }
    }
}
