//! The proxy of one session. It accepts on a socket that the child can reach, until it is shut
//! down.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use super::audit::{AuditSink, ClientProtocol};
use super::connection::{Counters, Dialer, ProxyState};
use super::hosts::HostRules;
use super::resolve::Resolve;
use super::{http, socks};

/// Limits on the runner's resources that a child can use.
#[derive(Debug, Clone, Copy)]
pub struct ProxyLimits {
    /// Maximum number of open connections; more wait to be accepted.
    pub connections: usize,
    /// Maximum length of the head of an HTTP request, in bytes.
    pub head_bytes: usize,
    /// Time limit for the whole head, from the moment that its first byte is awaited.
    pub head_time: Duration,
    /// Time limit for resolving a name.
    pub resolve: Duration,
    /// Time limit for connecting to each address.
    pub connect: Duration,
    /// Time without data after which a half-closed connection is aborted.
    pub half_closed: Duration,
    /// Maximum number of directions with a large buffer.
    pub large: usize,
}

impl Default for ProxyLimits {
    fn default() -> Self {
        Self {
            connections: 256,
            head_bytes: 16 * 1024,
            head_time: Duration::from_secs(15),
            resolve: Duration::from_secs(10),
            connect: Duration::from_secs(15),
            half_closed: Duration::from_secs(600),
            large: 16,
        }
    }
}

/// Counters of a proxy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Number of accepted connections.
    pub connections: u64,
    /// Number of connections that are open now.
    pub active: usize,
    /// Number of requests that were allowed.
    pub allowed: u64,
    /// Number of requests that the policy refused.
    pub refused: u64,
    /// Number of allowed requests whose host could not be reached.
    pub failed: u64,
    /// Number of entries that could not be written to the audit log.
    pub unrecorded: u64,
    /// Number of bytes of closed connections from the child.
    pub up: u64,
    /// Number of bytes of closed connections to the child.
    pub down: u64,
}

/// A running proxy. Dropping it ends it at once, with all its connections.
pub struct Proxy {
    shared: Arc<ProxyState>,
    stop: watch::Sender<bool>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    /// Serves on `listener` with the default limits. Needs a running tokio runtime.
    pub fn start(
        listener: std::net::TcpListener,
        rules: HostRules,
        resolver: Arc<dyn Resolve>,
        sink: Arc<dyn AuditSink>,
    ) -> io::Result<Self> {
        Self::start_with(listener, rules, resolver, sink, ProxyLimits::default())
    }

    /// Like `start`, with other limits.
    pub fn start_with(
        listener: std::net::TcpListener,
        rules: HostRules,
        resolver: Arc<dyn Resolve>,
        sink: Arc<dyn AuditSink>,
        limits: ProxyLimits,
    ) -> io::Result<Self> {
        let runtime = tokio::runtime::Handle::try_current().map_err(io::Error::other)?;
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let shared = Arc::new(ProxyState {
            rules,
            resolver,
            sink,
            limits,
            counters: Counters::default(),
            large: Semaphore::new(limits.large),
        });
        let (stop, stopped) = watch::channel(false);
        let accepting = runtime.spawn(accept(listener, shared.clone(), stopped));
        Ok(Self {
            shared,
            stop,
            accepting,
        })
    }

    /// The counters so far.
    pub fn stats(&self) -> Stats {
        let counters = &self.shared.counters;
        Stats {
            connections: counters.connections.load(Relaxed),
            active: counters.active.load(Relaxed),
            allowed: counters.allowed.load(Relaxed),
            refused: counters.refused.load(Relaxed),
            failed: counters.failed.load(Relaxed),
            unrecorded: counters.unrecorded.load(Relaxed),
            up: counters.up.load(Relaxed),
            down: counters.down.load(Relaxed),
        }
    }

    /// Aborts every connection and closes the socket. When it returns, all entries are written.
    pub async fn shutdown(mut self) -> Stats {
        self.stop.send_replace(true);
        let _ = (&mut self.accepting).await;
        self.stats()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(
    listener: TcpListener,
    shared: Arc<ProxyState>,
    mut stopped: watch::Receiver<bool>,
) {
    let mut connections = JoinSet::new();
    loop {
        let has_capacity = connections.len() < shared.limits.connections.max(1);
        tokio::select! {
            biased;
            _ = stopped.changed() => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept(), if has_capacity => match accepted {
                Ok((client, _)) => {
                    let connection = shared.counters.connections.fetch_add(1, Relaxed) + 1;
                    let dialer = Dialer { shared: shared.clone(), connection };
                    connections.spawn(serve(client, dialer));
                }
                // Out of descriptors, or the client is already gone.
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            },
        }
    }
    drop(listener);
    connections.shutdown().await;
}

/// Counts a connection as active until it is dropped, however the connection ends.
struct Active(Arc<ProxyState>);

impl Drop for Active {
    fn drop(&mut self) {
        self.0.counters.active.fetch_sub(1, Relaxed);
    }
}

async fn serve(client: TcpStream, dialer: Dialer) {
    dialer.shared.counters.active.fetch_add(1, Relaxed);
    let _active = Active(dialer.shared.clone());
    let _ = client.set_nodelay(true);
    let mut first = [0];
    match timeout(dialer.shared.limits.head_time, client.peek(&mut first)).await {
        Ok(Ok(1)) if first == [socks::VERSION] => socks::serve(&client, &dialer).await,
        Ok(Ok(1)) => http::serve(&client, &dialer).await,
        // The client sent nothing, so there is nothing to record.
        Ok(_) => {}
        Err(_) => {
            dialer.malformed(
                ClientProtocol::Http,
                String::new(),
                "no request arrived in time",
            );
        }
    }
}
