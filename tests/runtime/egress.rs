//! The egress proxy from the view of its clients: every protocol, every refusal, every kind of
//! abuse. Covers A29-SBX-02 and A45-SBX-02 for `network.egress`, as far as the proxy enforces them.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentproto_sandbox::egress::audit::{AuditEntry, AuditEvent, ClientProtocol};
use agentproto_sandbox::egress::resolve::ResolveFuture;
use agentproto_sandbox::egress::{AuditSink, HostRules, Proxy, ProxyLimits, Resolve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Resolver: `inner.example` is loopback, and `bad.example` does not exist.
struct Names;

impl Resolve for Names {
    fn resolve<'a>(&'a self, name: &'a str) -> ResolveFuture<'a> {
        Box::pin(async move {
            match name {
                "bad.example" => Err(io::Error::other("no such name")),
                "metadata.example" => Ok(vec![IpAddr::from([169, 254, 169, 254])]),
                _ => Ok(vec![IpAddr::from([127, 0, 0, 1])]),
            }
        })
    }
}

struct Setup {
    proxy: Proxy,
    address: SocketAddr,
    entries: Arc<Mutex<Vec<AuditEntry>>>,
}

impl Setup {
    async fn new(rules: &[&str]) -> Self {
        let limits = ProxyLimits {
            head_time: Duration::from_millis(400),
            ..ProxyLimits::default()
        };
        Self::with(rules, limits).await
    }

    async fn with(rules: &[&str], limits: ProxyLimits) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bind");
        let address = listener.local_addr().expect("address");
        let entries = Arc::new(Mutex::new(Vec::new()));
        let rules = HostRules::parse(rules).expect("rules");
        let proxy = Proxy::start_with(listener, rules, Arc::new(Names), entries.clone(), limits);
        Self {
            proxy: proxy.expect("proxy"),
            address,
            entries,
        }
    }

    async fn client(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("connect")
    }

    /// Sends bytes, then reads to the end.
    async fn ask(&self, bytes: &[u8]) -> String {
        let mut client = self.client().await;
        // A proxy that refuses early may not read everything.
        let _ = client.write_all(bytes).await;
        let mut answer = Vec::new();
        let _ = client.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    }

    async fn tunnel(&self, host: &str, port: u16) -> TcpStream {
        let mut client = self.client().await;
        let head = format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        client.write_all(head.as_bytes()).await.expect("ask");
        let mut answer = vec![0; "HTTP/1.1 200 Connection established\r\n\r\n".len()];
        client.read_exact(&mut answer).await.expect("answer");
        let reasons = &self.entries;
        assert!(answer.starts_with(b"HTTP/1.1 200 "), "{reasons:?}");
        client
    }

    async fn socks(&self, kind: u8, address: &[u8], port: u16) -> (u8, TcpStream) {
        let mut client = self.client().await;
        let mut bytes = vec![5, 1, 0, 5, 1, 0, kind];
        bytes.extend(address);
        bytes.extend(port.to_be_bytes());
        client.write_all(&bytes).await.expect("ask");
        let mut answer = [0; 12];
        client.read_exact(&mut answer).await.expect("answer");
        assert_eq!(answer[..3], [5, 0, 5]);
        (answer[3], client)
    }

    async fn end(self) -> Vec<AuditEntry> {
        self.proxy.shutdown().await;
        std::mem::take(&mut *self.entries.lock().expect("entries"))
    }
}

fn named(host: &str) -> Vec<u8> {
    let mut bytes = vec![host.len() as u8];
    bytes.extend(host.as_bytes());
    bytes
}

/// A server that echoes each connection to its end.
async fn echo() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let port = listener.local_addr().expect("address").port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut read, mut write) = stream.split();
                let _ = tokio::io::copy(&mut read, &mut write).await;
                let _ = write.shutdown().await;
            });
        }
    });
    port
}

/// A server that accepts one request, sends a fixed response, and records the request.
async fn host(answer: &'static [u8], until: &'static [u8]) -> (u16, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let port = listener.local_addr().expect("address").port();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = seen.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut received = Vec::new();
            while !received.ends_with(until) {
                match stream.read_buf(&mut received).await {
                    Ok(1..) => {}
                    _ => break,
                }
            }
            let _ = stream.write_all(answer).await;
            // Bytes after the request would be recorded here.
            let mut beyond = Vec::new();
            let wait = stream.read_buf(&mut beyond);
            let _ = tokio::time::timeout(Duration::from_millis(200), wait).await;
            received.extend(beyond);
            *sink.lock().expect("seen") = received;
        }
    });
    (port, seen)
}

/// A29-SBX-02: each variation of an unlisted name is refused, and the listed name works.
#[tokio::test]
async fn connect_refuses_unlisted_hosts() {
    let port = echo().await;
    let rules = [
        "inner.example",
        "*.glob.example",
        "127.0.0.1",
        "metadata.example",
    ];
    let setup = Setup::new(&rules).await;
    for host in [
        "other.example",
        "example",
        "inner.example.evil.org",
        "xinner.example",
        "glob.example",
        "xglob.example",
        "10.0.0.1",
        "0xa.1",
        "167772161",
        "[::1]",
        "[::ffff:10.0.0.1]",
        "[fe80::1%25lo]",
        "metadata.example",
        "inner.example..",
        "inner.example%00",
        "inn\u{e9}r.example",
        "user@inner.example",
        "",
    ] {
        let answer = setup
            .ask(format!("CONNECT {host}:{port} HTTP/1.1\r\n\r\n").as_bytes())
            .await;
        assert!(
            answer.starts_with("HTTP/1.1 403 Forbidden\r\n"),
            "{host}: {answer}"
        );
        assert!(
            answer.contains("\r\nX-Agentproto-Refused: egress\r\n"),
            "{host}"
        );
        assert!(answer.contains("`network.egress`"), "{host}: {answer}");
    }
    for host in [
        "inner.example",
        "INNER.Example",
        "inner.example.",
        "a.glob.example",
        "a.b.glob.example",
        "127.0.0.1",
        "127.1",
        "0x7f.1",
        "2130706433",
        "[::ffff:127.0.0.1]",
    ] {
        let mut client = setup.tunnel(host, port).await;
        client.write_all(b"ping").await.expect("write");
        client.shutdown().await.expect("half-close");
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.expect("read");
        assert_eq!(answer, b"ping", "{host}");
    }
    let stats = setup.proxy.stats();
    assert_eq!((stats.allowed, stats.refused, stats.failed), (10, 18, 0));
    setup.end().await;
}

#[tokio::test]
async fn socks_refuses_unlisted_hosts() {
    let port = echo().await;
    let setup = Setup::new(&["inner.example", "127.0.0.1", "gone.example", "bad.example"]).await;
    let mapped = "::ffff:127.0.0.1"
        .parse::<std::net::Ipv6Addr>()
        .expect("mapped");
    for (kind, address) in [
        (3, named("inner.example")),
        (3, named("INNER.example.")),
        (1, vec![127, 0, 0, 1]),
        (4, mapped.octets().to_vec()),
        (3, named("127.1")),
    ] {
        let (code, mut client) = setup.socks(kind, &address, port).await;
        assert_eq!(code, 0, "{address:?}");
        client.write_all(b"ping").await.expect("write");
        client.shutdown().await.expect("half-close");
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.expect("read");
        assert_eq!(answer, b"ping");
    }
    for (kind, address) in [
        (3, named("other.example")),
        (3, named("10.0.0.1")),
        (3, named("")),
        (3, named("inner.example\0")),
        (1, vec![10, 0, 0, 1]),
        (1, vec![127, 0, 0, 2]),
        (4, std::net::Ipv6Addr::LOCALHOST.octets().to_vec()),
    ] {
        assert_eq!(setup.socks(kind, &address, port).await.0, 2, "{address:?}");
    }
    let closed = std::net::TcpListener::bind("127.0.0.1:0").expect("bind");
    let unused = closed.local_addr().expect("address").port();
    drop(closed);
    assert_eq!(setup.socks(3, &named("gone.example"), unused).await.0, 5);
    assert_eq!(setup.socks(3, &named("bad.example"), port).await.0, 4);
    for command in [2, 3] {
        let answer = setup
            .ask(&[5, 1, 0, 5, command, 0, 1, 0, 0, 0, 0, 0, 0])
            .await;
        assert_eq!(answer.as_bytes().get(3), Some(&7));
    }
    assert_eq!(setup.ask(&[5, 1, 2]).await, "\u{5}\u{fffd}");
    setup.end().await;
}

#[tokio::test]
async fn a_plain_http_request_is_forwarded_unchanged() {
    const ANSWER: &[u8] =
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nConnection: keep-alive\r\n\
        Transfer-Encoding: chunked\r\n\r\n3\r\na\0\xff\r\n0\r\nT: v\r\n\r\n";
    let (port, seen) = host(ANSWER, b"0\r\n\r\n").await;
    let setup = Setup::new(&["inner.example", "127.0.0.1"]).await;
    let mut client = setup.client().await;
    let request = format!(
        "POST http://Inner.example:{port}/p?q HTTP/1.1\r\nHost: evil.example\r\n\
         Proxy-Authorization: Basic c2VjcmV0\r\nTransfer-Encoding: chunked\r\n\r\n\
         5\r\nhello\r\n0\r\n\r\nGET http://other.example/next HTTP/1.1\r\n\r\n"
    );
    client.write_all(request.as_bytes()).await.expect("write");
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).await.expect("read");
    let expected: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\
        Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n3\r\na\0\xff\r\n0\r\nT: v\r\n\r\n";
    assert_eq!(
        String::from_utf8_lossy(&answer),
        String::from_utf8_lossy(expected)
    );
    assert_eq!(answer, expected);
    let seen = String::from_utf8(seen.lock().expect("seen").clone()).expect("text");
    assert_eq!(
        seen,
        format!(
            "POST /p?q HTTP/1.1\r\nHost: Inner.example:{port}\r\nTransfer-Encoding: chunked\r\n\
             Connection: close\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
        )
    );
    drop(client);
    let refused = setup
        .ask(b"GET http://other.example/secret HTTP/1.1\r\n\r\n")
        .await;
    assert!(refused.starts_with("HTTP/1.1 403 ") && refused.contains("other.example"));
    let entries = setup.end().await;
    let log = serde_json::to_string(&entries).expect("json");
    for private in ["secret", "c2VjcmV0", "evil.example", "/p", "hello"] {
        assert!(!log.contains(private), "{private}: {log}");
    }
}

#[tokio::test]
async fn large_transfers_are_exact_in_both_directions() {
    let port = echo().await;
    let setup = Setup::new(&["inner.example", "127.0.0.1"]).await;
    let sent: Arc<Vec<u8>> = Arc::new((0..9_000_017u32).map(|i| ((i * 31) >> 3) as u8).collect());
    let (mut read, mut write) = setup.tunnel("inner.example", port).await.into_split();
    let copy = sent.clone();
    let writer = tokio::spawn(async move {
        write.write_all(&copy).await.expect("write");
        write.shutdown().await.expect("half-close");
    });
    let mut received = Vec::new();
    read.read_to_end(&mut received).await.expect("read");
    writer.await.expect("writer");
    assert!(received == *sent);
    drop(read);
    tokio::time::sleep(Duration::from_millis(50)).await;
    let entries = setup.end().await;
    let closed = entries.last().expect("closed");
    let all = Some(sent.len() as u64);
    assert_eq!(
        (closed.event, closed.up, closed.down),
        (AuditEvent::Closed, all, all)
    );
}

#[tokio::test]
async fn abuse_does_not_affect_other_clients() {
    let port = echo().await;
    let setup = Setup::new(&["inner.example", "127.0.0.1"]).await;
    // No bytes, an incomplete head, and a head that arrives byte by byte.
    assert_eq!(setup.ask(b"").await, "");
    let slow = setup
        .ask(b"GET http://inner.example/ HTTP/1.1\r\nA: b")
        .await;
    assert!(slow.starts_with("HTTP/1.1 408 "), "{slow}");
    let mut dripping = setup.client().await;
    let started = std::time::Instant::now();
    while started.elapsed() < Duration::from_secs(5) {
        if dripping.write_all(b"x").await.is_err() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(
        started.elapsed() < Duration::from_secs(5),
        "the proxy never gives up on a slow head"
    );
    // A head that is too large.
    let mut long = b"GET http://inner.example/ HTTP/1.1\r\nA: ".to_vec();
    long.resize(1 << 20, b'a');
    let answer = setup.ask(&long).await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    // Other protocols and random bytes.
    for bytes in [
        &b"\x16\x03\x01\x02\x00\x01\r\n\r\n"[..],
        b"\r\n\r\n",
        b"\x04\x01\0\x50\r\n\r\n",
    ] {
        let answer = setup.ask(bytes).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    }
    for first in 0..=255u8 {
        let mut client = setup.client().await;
        client
            .write_all(&[first, 255, 0, first])
            .await
            .expect("write");
        drop(client);
    }
    // The proxy still works.
    let mut client = setup.tunnel("inner.example", port).await;
    client.write_all(b"still").await.expect("write");
    let mut answer = [0; 5];
    client.read_exact(&mut answer).await.expect("read");
    assert_eq!(&answer, b"still");
    setup.end().await;
}

#[tokio::test]
async fn connections_are_limited() {
    let port = echo().await;
    let limits = ProxyLimits {
        connections: 2,
        ..ProxyLimits::default()
    };
    let setup = Setup::with(&["inner.example", "127.0.0.1"], limits).await;
    let first = setup.tunnel("inner.example", port).await;
    let _second = setup.tunnel("inner.example", port).await;
    let third = setup.tunnel("inner.example", port);
    tokio::pin!(third);
    let wait = tokio::time::timeout(Duration::from_millis(200), &mut third).await;
    assert!(wait.is_err(), "a third connection was served");
    assert_eq!(setup.proxy.stats().active, 2);
    drop(first);
    tokio::time::timeout(Duration::from_secs(5), third)
        .await
        .expect("a free slot for the third connection");
}

/// A connection reset by the host is passed on, so that a partial response never looks complete.
#[tokio::test]
async fn a_reset_is_passed_on() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let port = listener.local_addr().expect("address").port();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("accept");
        stream.read_exact(&mut [0]).await.expect("read");
        stream.set_zero_linger().expect("linger");
    });
    let setup = Setup::new(&["inner.example", "127.0.0.1"]).await;
    let mut client = setup.tunnel("inner.example", port).await;
    client.write_all(b"x").await.expect("write");
    let end = client.read(&mut [0; 8]).await;
    assert_eq!(
        end.expect_err("reset").kind(),
        io::ErrorKind::ConnectionReset
    );
}

#[tokio::test]
async fn every_decision_is_in_the_audit_log() {
    let port = echo().await;
    let setup = Setup::new(&["*.glob.example", "127.0.0.1", "bad.example"]).await;
    let mut client = setup.tunnel("A.glob.example.", port).await;
    client.write_all(b"four").await.expect("write");
    client.read_exact(&mut [0; 4]).await.expect("read");
    setup
        .ask(b"CONNECT other.example:443 HTTP/1.1\r\n\r\n")
        .await;
    let failed = setup.ask(b"CONNECT bad.example:443 HTTP/1.1\r\n\r\n").await;
    assert!(failed.starts_with("HTTP/1.1 502 ") && !failed.contains("X-Agentproto-Refused"));
    setup.ask(b"CONNECT u:pass@a:443 HTTP/1.1\r\n\r\n").await;
    // The first connection is still open. The shutdown ends it and logs it.
    let entries = setup.end().await;
    assert_eq!(client.read(&mut [0; 8]).await.unwrap_or(0), 0);
    let brief: Vec<_> = entries
        .iter()
        .map(|e| (e.connection, e.event, e.host.as_str(), e.port))
        .collect();
    assert_eq!(
        brief,
        [
            (1, AuditEvent::Allowed, "a.glob.example", port),
            (2, AuditEvent::Refused, "other.example", 443),
            (3, AuditEvent::Failed, "bad.example", 443),
            (4, AuditEvent::Refused, "a", 0),
            (1, AuditEvent::Closed, "a.glob.example", port),
        ]
    );
    let [allowed, refused, failed, malformed, closed] = entries.as_slice() else {
        panic!("{entries:?}");
    };
    assert_eq!(allowed.rule.as_deref(), Some("*.glob.example"));
    assert_eq!(allowed.address, Some(IpAddr::from([127, 0, 0, 1])));
    assert_eq!((allowed.via, allowed.up), (ClientProtocol::Connect, None));
    assert_eq!(
        refused.reason.as_deref(),
        Some("no entry of `network.egress` matches it")
    );
    assert!(
        failed
            .reason
            .as_deref()
            .is_some_and(|r| r.contains("no such name"))
    );
    assert!(
        malformed
            .reason
            .as_deref()
            .is_some_and(|r| r.starts_with("invalid request"))
    );
    assert_eq!((closed.up, closed.down), (Some(4), Some(4)));
    assert!(entries.iter().all(|e| e.time.ends_with('Z')));
}

#[tokio::test]
async fn without_an_audit_entry_nothing_is_forwarded() {
    struct Full;
    impl AuditSink for Full {
        fn record(&self, _: &AuditEntry) -> io::Result<()> {
            Err(io::ErrorKind::StorageFull.into())
        }
    }
    let port = echo().await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bind");
    let address = listener.local_addr().expect("address");
    let rules = HostRules::parse(["127.0.0.1"]).expect("rules");
    let proxy = Proxy::start(listener, rules, Arc::new(Names), Arc::new(Full)).expect("proxy");
    let mut client = TcpStream::connect(address).await.expect("connect");
    let head = format!("CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n");
    client.write_all(head.as_bytes()).await.expect("write");
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.expect("read");
    assert!(
        answer.starts_with("HTTP/1.1 503 ") && answer.contains("audit log"),
        "{answer}"
    );
    assert_eq!(proxy.shutdown().await.unrecorded, 1);
}

#[test]
fn without_an_async_runtime_it_is_an_error() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bind");
    let sink = Arc::new(Mutex::new(Vec::<AuditEntry>::new()));
    assert!(Proxy::start(listener, HostRules::default(), Arc::new(Names), sink).is_err());
}
