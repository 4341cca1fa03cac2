//! SOCKS5 clients of the proxy (RFC 1928): CONNECT without authentication. None is needed, because
//! only this sandbox can reach its proxy.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::atomic::AtomicU64;

use tokio::net::TcpStream;
use tokio::time::timeout;

use super::audit::ClientProtocol;
use super::connection::{Dialer, Refusal, RefusalKind};
use super::http::linger;
use super::relay;

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
    Incomplete,
    /// A complete message and its length in bytes.
    Complete(T, usize),
    Invalid(SocksError),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum SocksError {
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
        [] | [VERSION] => Parsed::Incomplete,
        [VERSION, count, methods @ ..] => match methods.get(..usize::from(*count)) {
            None => Parsed::Incomplete,
            Some(methods) => Parsed::Complete(
                methods.contains(&NO_AUTHENTICATION),
                2 + usize::from(*count),
            ),
        },
        _ => Parsed::Invalid(SocksError::Version),
    }
}

fn target(bytes: &[u8]) -> Parsed<Target> {
    let (command, kind, rest) = match bytes {
        [VERSION, command, _, kind, rest @ ..] => (*command, *kind, rest),
        [] | [VERSION] | [VERSION, _] | [VERSION, _, _] => return Parsed::Incomplete,
        _ => return Parsed::Invalid(SocksError::Version),
    };
    if command != 1 {
        return Parsed::Invalid(SocksError::Command);
    }
    let (length, from) = match (kind, rest) {
        (1, _) => (4, 0),
        (4, _) => (16, 0),
        (3, [length, ..]) => (usize::from(*length), 1),
        (3, []) => return Parsed::Incomplete,
        _ => return Parsed::Invalid(SocksError::AddressType),
    };
    let end = from + length;
    let (Some(address), Some(&[high, low])) = (rest.get(from..end), rest.get(end..end + 2)) else {
        return Parsed::Incomplete;
    };
    let host = match kind {
        1 => <[u8; 4]>::try_from(address).map(|a| Ipv4Addr::from(a).to_string().into_bytes()),
        4 => <[u8; 16]>::try_from(address).map(|a| Ipv6Addr::from(a).to_string().into_bytes()),
        _ => Ok(address.to_vec()),
    };
    let port = u16::from_be_bytes([high, low]);
    let host = host.unwrap_or_default();
    Parsed::Complete(Target { host, port }, 4 + end + 2)
}

/// Serves one connection of a SOCKS client.
pub async fn serve(client: &TcpStream, dialer: &Dialer) {
    let mut received = Vec::new();
    let handshake = handshake(client, &mut received);
    let requested = match timeout(dialer.shared.limits.head_time, handshake).await {
        Ok(Ok(requested)) => requested,
        Ok(Err(HandshakeError::Gone)) => {
            dialer.malformed(
                ClientProtocol::Socks5,
                String::new(),
                "it ended during its handshake",
            );
            return;
        }
        Ok(Err(HandshakeError::NoMethod)) => {
            let why = "it requires authentication, which is not supported";
            dialer.malformed(ClientProtocol::Socks5, String::new(), why);
            return end_with(client, &[VERSION, NO_METHOD]).await;
        }
        Ok(Err(HandshakeError::Invalid(error))) => {
            dialer.malformed(ClientProtocol::Socks5, String::new(), &error.to_string());
            let code = match error {
                SocksError::Version => FAILURE,
                SocksError::Command => COMMAND_NOT_SUPPORTED,
                SocksError::AddressType => ADDRESS_NOT_SUPPORTED,
            };
            return end_with(client, &reply(code)).await;
        }
        Err(_) => {
            dialer.malformed(
                ClientProtocol::Socks5,
                String::new(),
                "its handshake did not arrive in time",
            );
            return;
        }
    };
    match dialer
        .open(ClientProtocol::Socks5, &requested.host, requested.port)
        .await
    {
        Ok((upstream, connection)) => {
            let uncounted = AtomicU64::new(0);
            if relay::write_all(client, &reply(SUCCEEDED), &uncounted)
                .await
                .is_ok()
                && relay::write_all(&upstream, &received, &connection.up)
                    .await
                    .is_ok()
            {
                relay::both(client, &upstream, &connection).await;
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

enum HandshakeError {
    Gone,
    NoMethod,
    Invalid(SocksError),
}

impl From<io::Error> for HandshakeError {
    fn from(_: io::Error) -> Self {
        Self::Gone
    }
}

/// Reads the handshake. The bytes after it stay in `received`.
async fn handshake(client: &TcpStream, received: &mut Vec<u8>) -> Result<Target, HandshakeError> {
    if !read_until(client, received, greeting).await? {
        return Err(HandshakeError::NoMethod);
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
) -> Result<T, HandshakeError> {
    let mut buffer = [0; 512];
    loop {
        match parse(received) {
            Parsed::Complete(value, length) => {
                received.drain(..length.min(received.len()));
                return Ok(value);
            }
            Parsed::Invalid(error) => return Err(HandshakeError::Invalid(error)),
            Parsed::Incomplete => {}
        }
        let count = relay::read_some(client, &mut buffer).await?;
        if count == 0 {
            return Err(HandshakeError::Gone);
        }
        received.extend_from_slice(buffer.get(..count).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_target(bytes: &[u8]) -> Option<(String, u16, usize)> {
        match target(bytes) {
            Parsed::Complete(Target { host, port }, length) => {
                Some((String::from_utf8_lossy(&host).into_owned(), port, length))
            }
            _ => None,
        }
    }

    #[test]
    fn greetings_are_parsed() {
        assert_eq!(greeting(&[5, 1, 0]), Parsed::Complete(true, 3));
        assert_eq!(greeting(&[5, 2, 2, 0, 9]), Parsed::Complete(true, 4));
        assert_eq!(greeting(&[5, 1, 2]), Parsed::Complete(false, 3));
        assert_eq!(greeting(&[5, 0]), Parsed::Complete(false, 2));
        assert_eq!(greeting(&[5, 2, 0]), Parsed::Incomplete);
        assert_eq!(greeting(&[4, 1]), Parsed::Invalid(SocksError::Version));
    }

    #[test]
    fn targets_are_parsed() {
        let named = [5, 1, 0, 3, 3, b'a', b'.', b'b', 1, 187, 7];
        assert_eq!(parse_target(&named), Some(("a.b".to_owned(), 443, 10)));
        for cut in 0..10 {
            assert_eq!(target(&named[..cut]), Parsed::Incomplete, "{cut}");
        }
        assert_eq!(
            parse_target(&[5, 1, 0, 1, 10, 0, 0, 1, 0, 80]),
            Some(("10.0.0.1".to_owned(), 80, 10))
        );
        let mut six = vec![5, 1, 0, 4];
        six.extend([0; 15]);
        six.extend([1, 0, 80]);
        assert_eq!(parse_target(&six), Some(("::1".to_owned(), 80, 22)));
        for command in [0, 2, 3, 9] {
            assert_eq!(
                target(&[5, command, 0, 1]),
                Parsed::Invalid(SocksError::Command)
            );
        }
        assert_eq!(
            target(&[5, 1, 0, 2]),
            Parsed::Invalid(SocksError::AddressType)
        );
        assert_eq!(target(&[4, 1, 0, 1]), Parsed::Invalid(SocksError::Version));
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
