//! HTTP clients of the proxy: tunnels by CONNECT, and single requests for `http://` URLs.

use std::io;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use super::audit::ClientProtocol;
use super::body::{Body, Framing};
use super::connection::{AllowedConnection, Dialer, Refusal, RefusalKind};
use super::relay::{self, End};
use super::request::{self, RequestAction};
use super::response::{self, ResponseHead};

/// Serves one connection of an HTTP client.
pub async fn serve(client: &TcpStream, dialer: &Dialer) {
    let mut received = Vec::new();
    let head = read_head(client, &mut received, dialer.shared.limits.head_bytes);
    let length = match timeout(dialer.shared.limits.head_time, head).await {
        Ok(Ok(Some(length))) => length,
        Ok(Ok(None)) => {
            let why = "its head is too long";
            let refusal = dialer.malformed(ClientProtocol::Http, String::new(), why);
            return respond_with(client, 431, "Request Header Fields Too Large", &refusal).await;
        }
        // The client is gone, so no response is sent.
        Ok(Err(_)) => {
            dialer.malformed(
                ClientProtocol::Http,
                String::new(),
                "it ended before its head was complete",
            );
            return;
        }
        Err(_) => {
            let why = "its head did not arrive in time";
            let refusal = dialer.malformed(ClientProtocol::Http, String::new(), why);
            return respond_with(client, 408, "Request Timeout", &refusal).await;
        }
    };
    let rest = received.split_off(length);
    let request = match request::parse(&received) {
        Ok(request) => request,
        Err(error) => {
            let refusal = dialer.malformed(ClientProtocol::Http, String::new(), &error.to_string());
            return respond_with(client, 400, "Bad Request", &refusal).await;
        }
    };
    drop(received);
    let via = match request.action {
        RequestAction::Tunnel => ClientProtocol::Connect,
        RequestAction::Forward { .. } => ClientProtocol::Http,
    };
    let (upstream, connection) = match dialer.open(via, &request.host, request.port).await {
        Ok(opened) => opened,
        Err(refusal) => return refuse(client, &refusal).await,
    };
    match request.action {
        RequestAction::Tunnel => tunnel(client, &upstream, &connection, &rest).await,
        RequestAction::Forward { head, framing } => {
            forward(client, &upstream, &connection, &head, framing, &rest).await;
        }
    }
}

/// Length of the head, or `None` if it does not end within the limit.
async fn read_head(
    client: &TcpStream,
    received: &mut Vec<u8>,
    limit: usize,
) -> io::Result<Option<usize>> {
    let mut buffer = [0; 4096];
    loop {
        let count = relay::read_some(client, &mut buffer).await?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // The end of the head may start in the bytes that were received before.
        let from = received.len().saturating_sub(3);
        received.extend_from_slice(buffer.get(..count).unwrap_or_default());
        let end = received.get(from..).and_then(request::head_end);
        match end.map(|end| from + end) {
            Some(end) if end <= limit => return Ok(Some(end)),
            Some(_) => return Ok(None),
            None if received.len() >= limit => return Ok(None),
            None => {}
        }
    }
}

async fn tunnel(
    client: &TcpStream,
    upstream: &TcpStream,
    connection: &AllowedConnection,
    rest: &[u8],
) {
    let uncounted = AtomicU64::new(0);
    let ready = b"HTTP/1.1 200 Connection established\r\n\r\n";
    if relay::write_all(client, ready, &uncounted).await.is_ok()
        && relay::write_all(upstream, rest, &connection.up)
            .await
            .is_ok()
    {
        relay::both(client, upstream, connection).await;
    }
}

async fn forward(
    client: &TcpStream,
    upstream: &TcpStream,
    connection: &AllowedConnection,
    head: &[u8],
    framing: Framing,
    rest: &[u8],
) {
    let up = async {
        if relay::write_all(upstream, head, &connection.up)
            .await
            .is_err()
        {
            return Ok(End::ReceiverClosed);
        }
        send_body(client, upstream, connection, framing, rest).await
    };
    let down = async {
        match forward_response_head(client, upstream, connection).await? {
            true => {
                relay::pump(
                    upstream,
                    client,
                    &connection.down,
                    &connection.shared().large,
                )
                .await
            }
            false => Err(io::ErrorKind::InvalidData.into()),
        }
    };
    relay::join(client, upstream, connection, up, down).await;
}

/// Sends exactly the body, then waits until the client has closed its side.
async fn send_body(
    client: &TcpStream,
    upstream: &TcpStream,
    connection: &AllowedConnection,
    framing: Framing,
    rest: &[u8],
) -> io::Result<End> {
    let mut body = Body::new(framing);
    let mut bytes = rest.to_vec();
    loop {
        let count = body
            .take(&bytes)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        let own = bytes.get(..count).unwrap_or_default();
        if relay::write_all(upstream, own, &connection.up)
            .await
            .is_err()
        {
            return Ok(End::ReceiverClosed);
        }
        if body.is_done() {
            break;
        }
        bytes.resize(64 * 1024, 0);
        let count = relay::read_some(client, &mut bytes).await?;
        if count == 0 {
            // An incomplete body: the host must not take it for a complete one.
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes.truncate(count);
    }
    // A next request on this connection is not read, because its host may be a different one.
    let mut beyond = [0; 512];
    while relay::read_some(client, &mut beyond).await? > 0 {}
    Ok(relay::finish(upstream))
}

/// Returns `false` if the host's response is not HTTP, after reporting that to the client.
async fn forward_response_head(
    client: &TcpStream,
    upstream: &TcpStream,
    connection: &AllowedConnection,
) -> io::Result<bool> {
    let mut received = Vec::new();
    let mut buffer = vec![0; 16 * 1024];
    loop {
        if let Some(end) = response::head_end(&received) {
            let rest = received.split_off(end);
            match response::parse(&received) {
                Some(ResponseHead::Interim) => {
                    relay::write_all(client, &received, &connection.down).await?;
                    received = rest;
                    continue;
                }
                Some(ResponseHead::Final(mut head)) => {
                    head.extend_from_slice(&rest);
                    relay::write_all(client, &head, &connection.down).await?;
                    return Ok(true);
                }
                None => break,
            }
        }
        let count = relay::read_some(upstream, &mut buffer).await.unwrap_or(0);
        if count == 0 || received.len() > response::MAX_HEAD {
            break;
        }
        received.extend_from_slice(buffer.get(..count).unwrap_or_default());
    }
    let refusal = Refusal {
        kind: RefusalKind::Unreachable,
        message: format!("{} did not respond with HTTP/1.", connection.host()),
    };
    refuse(client, &refusal).await;
    Ok(false)
}

/// Sends the reason to the client, readable for people and programs.
async fn refuse(client: &TcpStream, refusal: &Refusal) {
    let (status, title) = match refusal.kind {
        RefusalKind::Egress => (403, "Forbidden"),
        RefusalKind::Unreachable | RefusalKind::ConnectionRefused => (502, "Bad Gateway"),
        RefusalKind::TimedOut => (504, "Gateway Timeout"),
        RefusalKind::Unrecorded => (503, "Service Unavailable"),
    };
    respond_with(client, status, title, refusal).await;
}

async fn respond_with(client: &TcpStream, status: u16, title: &str, refusal: &Refusal) {
    let mark = match refusal.kind {
        RefusalKind::Egress => "X-Agentproto-Refused: egress\r\n",
        _ => "",
    };
    let body = &refusal.message;
    let text = format!(
        "HTTP/1.1 {status} {title}\r\nContent-Type: text/plain; charset=utf-8\r\n\
         Content-Length: {}\r\n{mark}Connection: close\r\n\r\n{body}\n",
        body.len() + 1
    );
    let uncounted = AtomicU64::new(0);
    if relay::write_all(client, text.as_bytes(), &uncounted)
        .await
        .is_ok()
    {
        linger(client).await;
    }
}

/// Reads on for a moment. Closing with unread bytes would reset the connection, and the client
/// might not receive the response.
pub async fn linger(client: &TcpStream) {
    const MAX_DRAINED_BYTES: usize = 4 * 1024 * 1024;
    relay::finish(client);
    let drain = async {
        let mut buffer = vec![0; 16 * 1024];
        let mut drained = 0;
        while let Ok(count @ 1..) = relay::read_some(client, &mut buffer).await {
            drained += count;
            if drained > MAX_DRAINED_BYTES {
                break;
            }
        }
    };
    let _ = timeout(Duration::from_secs(1), drain).await;
}
