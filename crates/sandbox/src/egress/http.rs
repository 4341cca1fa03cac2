//! HTTP clients of the proxy: tunnels by CONNECT, and single requests for `http://` URLs.

use std::io;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use super::answer::{self, Answer};
use super::audit::Via;
use super::body::{Body, Framing};
use super::relay::{self, End};
use super::request::{self, Want};
use super::session::{Asker, Refusal, RefusalKind, Session};

/// Serves one connection of an HTTP client.
pub async fn serve(client: &TcpStream, asker: &Asker) {
    let mut received = Vec::new();
    let head = read_head(client, &mut received, asker.shared.limits.head_bytes);
    let length = match timeout(asker.shared.limits.head_time, head).await {
        Ok(Ok(Some(length))) => length,
        Ok(Ok(None)) => {
            let why = "its head is too long";
            let refusal = asker.malformed(Via::Http, String::new(), why);
            return answer_with(client, 431, "Request Header Fields Too Large", &refusal).await;
        }
        // The client is gone, so no response is sent.
        Ok(Err(_)) => {
            asker.malformed(
                Via::Http,
                String::new(),
                "it ended before its head was complete",
            );
            return;
        }
        Err(_) => {
            let why = "its head did not arrive in time";
            let refusal = asker.malformed(Via::Http, String::new(), why);
            return answer_with(client, 408, "Request Timeout", &refusal).await;
        }
    };
    let behind = received.split_off(length);
    let request = match request::parse(&received) {
        Ok(request) => request,
        Err(fault) => {
            let refusal = asker.malformed(Via::Http, String::new(), &fault.to_string());
            return answer_with(client, 400, "Bad Request", &refusal).await;
        }
    };
    drop(received);
    let via = match request.want {
        Want::Tunnel => Via::Connect,
        Want::Forward { .. } => Via::Http,
    };
    let (upstream, session) = match asker.open(via, &request.host, request.port).await {
        Ok(opened) => opened,
        Err(refusal) => return refuse(client, &refusal).await,
    };
    match request.want {
        Want::Tunnel => tunnel(client, &upstream, &session, &behind).await,
        Want::Forward { head, framing } => {
            forward(client, &upstream, &session, &head, framing, &behind).await;
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

async fn tunnel(client: &TcpStream, upstream: &TcpStream, session: &Session, behind: &[u8]) {
    let uncounted = AtomicU64::new(0);
    let ready = b"HTTP/1.1 200 Connection established\r\n\r\n";
    if relay::write_all(client, ready, &uncounted).await.is_ok()
        && relay::write_all(upstream, behind, &session.up)
            .await
            .is_ok()
    {
        relay::both(client, upstream, session).await;
    }
}

async fn forward(
    client: &TcpStream,
    upstream: &TcpStream,
    session: &Session,
    head: &[u8],
    framing: Framing,
    behind: &[u8],
) {
    let up = async {
        if relay::write_all(upstream, head, &session.up).await.is_err() {
            return Ok(End::Deaf);
        }
        send_body(client, upstream, session, framing, behind).await
    };
    let down = async {
        match pass_answer_head(client, upstream, session).await? {
            true => relay::pump(upstream, client, &session.down, &session.shared().large).await,
            false => Err(io::ErrorKind::InvalidData.into()),
        }
    };
    relay::join(client, upstream, session, up, down).await;
}

/// Sends exactly the body, then waits until the client has closed its side.
async fn send_body(
    client: &TcpStream,
    upstream: &TcpStream,
    session: &Session,
    framing: Framing,
    behind: &[u8],
) -> io::Result<End> {
    let mut body = Body::new(framing);
    let mut bytes = behind.to_vec();
    loop {
        let count = body
            .take(&bytes)
            .map_err(|fault| io::Error::new(io::ErrorKind::InvalidData, fault))?;
        let own = bytes.get(..count).unwrap_or_default();
        if relay::write_all(upstream, own, &session.up).await.is_err() {
            return Ok(End::Deaf);
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
async fn pass_answer_head(
    client: &TcpStream,
    upstream: &TcpStream,
    session: &Session,
) -> io::Result<bool> {
    let mut received = Vec::new();
    let mut buffer = vec![0; 16 * 1024];
    loop {
        if let Some(end) = answer::head_end(&received) {
            let rest = received.split_off(end);
            match answer::parse(&received) {
                Some(Answer::Interim) => {
                    relay::write_all(client, &received, &session.down).await?;
                    received = rest;
                    continue;
                }
                Some(Answer::Final(mut head)) => {
                    head.extend_from_slice(&rest);
                    relay::write_all(client, &head, &session.down).await?;
                    return Ok(true);
                }
                None => break,
            }
        }
        let count = relay::read_some(upstream, &mut buffer).await.unwrap_or(0);
        if count == 0 || received.len() > answer::MAX_HEAD {
            break;
        }
        received.extend_from_slice(buffer.get(..count).unwrap_or_default());
    }
    let refusal = Refusal {
        kind: RefusalKind::Unreachable,
        message: format!("{} did not respond with HTTP/1.", session.host()),
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
    answer_with(client, status, title, refusal).await;
}

async fn answer_with(client: &TcpStream, status: u16, title: &str, refusal: &Refusal) {
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
    const MOST: usize = 4 * 1024 * 1024;
    relay::finish(client);
    let drain = async {
        let mut buffer = vec![0; 16 * 1024];
        let mut drained = 0;
        while let Ok(count @ 1..) = relay::read_some(client, &mut buffer).await {
            drained += count;
            if drained > MOST {
                break;
            }
        }
    };
    let _ = timeout(Duration::from_secs(1), drain).await;
}
