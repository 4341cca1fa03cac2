//! Inbound URLs (AIP-29 `network.ingress`): connects a port of the host's loopback to the same port
//! in the child's network.

use std::net::Ipv4Addr;
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use crate::spawn::Sockets;

/// The port of an entry, or the reason why it cannot be exposed.
pub fn port(url: &str) -> Result<u16, String> {
    let uri = fluent_uri::Uri::parse(url).map_err(|_| "it is not a URL".to_owned())?;
    let scheme = uri.scheme().as_str();
    let authority = uri.authority().ok_or("it has no host")?;
    if !matches!(authority.host(), "localhost" | "127.0.0.1") {
        return Err(
            "only http://localhost:PORT and http://127.0.0.1:PORT can be exposed".to_owned(),
        );
    }
    if !scheme.eq_ignore_ascii_case("http") {
        return Err("only http can be exposed: the relay has no certificate for https".to_owned());
    }
    match authority.port_to_u16() {
        Ok(Some(port)) if port > 0 => Ok(port),
        Ok(_) => Ok(80),
        Err(_) => Err("its port is not a number".to_owned()),
    }
}

/// A running relay. Dropping it ends it.
pub struct Relay {
    task: JoinHandle<()>,
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Accepts on the host's loopback, and connects to the same port inside.
pub async fn relay(port: u16, sockets: Arc<Mutex<Sockets>>) -> std::io::Result<Relay> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
    let task = tokio::spawn(async move {
        let mut connections = tokio::task::JoinSet::new();
        while let Ok((outside, _)) = listener.accept().await {
            while connections.try_join_next().is_some() {}
            let sockets = Arc::clone(&sockets);
            connections.spawn(async move {
                let inside = sockets.lock().await.connect(port).await;
                if let Ok(inside) = inside {
                    copy(outside, inside).await;
                }
            });
        }
    });
    Ok(Relay { task })
}

async fn copy(mut outside: TcpStream, mut inside: TcpStream) {
    let _ = tokio::io::copy_bidirectional(&mut outside, &mut inside).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A29-SBX-04.
    #[test]
    fn loopback_urls_have_a_port() {
        assert_eq!(port("http://localhost:8912/callback"), Ok(8912));
        assert_eq!(port("http://127.0.0.1:1/"), Ok(1));
        for url in [
            "https://localhost:8912/",
            "http://example.com:80/",
            "http://[::1]:80/",
            "http://0.0.0.0:80/",
            "localhost:80",
            "http://localhost:99999/",
            "",
        ] {
            assert!(port(url).is_err(), "{url}");
        }
    }
}
