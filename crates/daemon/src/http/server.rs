//! Accepts connections and serves requests, with limits on the number of connections, the time for
//! a request head, and idle time.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::response::Response;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::connections::{Admission, Connections};
use super::guard::Peer;
use crate::error::ApiError;

/// Limits on connections and requests.
#[derive(Clone, Copy, Debug)]
pub struct ServerLimits {
    /// Maximum number of open connections. A new connection closes one that has not sent the token
    /// yet, and is refused only if there is none.
    pub connections: usize,
    /// Maximum number of open connections of one peer that have not sent the token yet.
    pub unauthenticated: usize,
    /// Time limit for the first request head of a connection, including the TLS handshake.
    pub first_head: Duration,
    /// Time limit for a later request head, and for idling between two requests.
    pub head: Duration,
    /// Maximum size of a request head in bytes.
    pub head_bytes: usize,
    /// Maximum number of headers in a request.
    pub headers: usize,
    /// Time after which an unresponsive peer is disconnected. A stream notices it at its next
    /// keep-alive.
    pub peer_timeout: Duration,
    /// Time for running responses to finish when the server stops.
    pub shutdown_grace: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        ServerLimits {
            connections: 4096,
            unauthenticated: 1024,
            first_head: Duration::from_secs(5),
            head: Duration::from_secs(15),
            head_bytes: 64 << 10,
            headers: 100,
            peer_timeout: Duration::from_secs(60),
            shutdown_grace: Duration::from_secs(2),
        }
    }
}

/// Serves until `stop` becomes true, then lets running responses finish.
pub async fn serve(
    listener: TcpListener,
    app: Router,
    tls: Option<TlsAcceptor>,
    limits: ServerLimits,
    mut stop: watch::Receiver<bool>,
) {
    let open = Connections::new(limits.connections, limits.unauthenticated);
    let mut connections = JoinSet::new();
    let app = TowerToHyperService::new(app);
    loop {
        let accepted = tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => break,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, address)) = accepted else {
            // Not fatal: too many open files, or the peer disconnected immediately.
            let wait = if open.close_one() { 1 } else { 50 };
            tokio::time::sleep(Duration::from_millis(wait)).await;
            continue;
        };
        let _ = prepare(&stream, &limits);
        let place = loop {
            match open.admit(address.ip()) {
                Admission::Admitted(place) => break Some(place),
                Admission::Wait => tokio::time::sleep(Duration::from_millis(1)).await,
                Admission::Full => break None,
            }
        };
        let Some(place) = place else {
            tokio::spawn(reject(stream));
            continue;
        };
        let peer = Peer {
            address,
            over_tls: tls.is_some(),
        };
        let (app, of_request) = (app.clone(), Arc::clone(&place.0));
        // A layer of the router would copy all its routes for each connection.
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(peer);
            request.extensions_mut().insert(Arc::clone(&of_request));
            app.call(request)
        });
        let (tls, stop) = (tls.clone(), stop.clone());
        connections.spawn(async move {
            tokio::select! {
                // A request that has already arrived is served before the connection can give way.
                biased;
                () = serve_connection(stream, tls, service, limits, stop) => {}
                () = place.0.must_close(limits.first_head) => {}
            }
        });
    }
    let rest = async { while connections.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(limits.shutdown_grace, rest).await;
}

/// What answers the requests of a connection.
trait RequestService:
    Service<Request<Incoming>, Response = Response, Error = Infallible, Future: Send> + Send
{
}

impl<S> RequestService for S where
    S: Service<Request<Incoming>, Response = Response, Error = Infallible, Future: Send> + Send
{
}

fn prepare(stream: &TcpStream, limits: &ServerLimits) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    // The kernel counts whole seconds and rejects zero.
    let quarter = (limits.peer_timeout / 4).max(Duration::from_secs(1));
    let keepalive = TcpKeepalive::new()
        .with_time(quarter)
        .with_interval(quarter)
        .with_retries(3);
    socket.set_tcp_keepalive(&keepalive)?;
    // TCP keep-alive only probes idle connections. This timeout covers unacknowledged data. On
    // Linux it overrides the number of retries, so both must agree.
    socket.set_tcp_user_timeout(Some(limits.peer_timeout))
}

async fn serve_connection(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    service: impl RequestService,
    limits: ServerLimits,
    stop: watch::Receiver<bool>,
) {
    match tls {
        None => requests(stream, service, limits, stop).await,
        Some(tls) => {
            if let Ok(stream) = tls.accept(stream).await {
                requests(stream, service, limits, stop).await;
            }
        }
    }
}

async fn requests(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    service: impl RequestService,
    limits: ServerLimits,
    mut stop: watch::Receiver<bool>,
) {
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_buf_size(limits.head_bytes)
        .max_headers(limits.headers)
        .half_close(true)
        .serve_connection(TokioIo::new(stream), service);
    let mut serving = std::pin::pin!(serving);
    tokio::select! {
        _ = serving.as_mut() => return,
        _ = stop.wait_for(|stop| *stop) => serving.as_mut().graceful_shutdown(),
    }
    let _ = serving.await;
}

/// Sends an error and closes the connection.
async fn reject(mut stream: TcpStream) {
    let error = ApiError::new(503, "too_many_connections", "too many connections are open")
        .hint("close some, or try again later");
    let body = error.to_json().to_string();
    let response = format!(
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\n\
         Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    // The request is read, because the response could otherwise be lost with the connection.
    let responding = async {
        stream.write_all(response.as_bytes()).await?;
        stream.shutdown().await?;
        let mut request = stream.take(64 << 10);
        tokio::io::copy(&mut request, &mut tokio::io::sink()).await
    };
    let _ = tokio::time::timeout(Duration::from_secs(1), responding).await;
}
