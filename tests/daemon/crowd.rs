//! Clients without the token cannot lock out a client that has it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::near::Near;
use super::served::Served;
use agentproto_daemon::http::server::ServerLimits;
use agentproto_daemon::http::{ClientRates, Rate, Timeouts};
use tempfile::TempDir;

/// Half of a request, as a client sends it that only wants to keep the connection.
fn half_sent(address: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("connected");
    let half = format!("GET /sessions HTTP/1.1\r\nHost: {address}\r\nX-Slow: ");
    let _ = stream.write_all(half.as_bytes());
    stream
}

fn crowd(address: &str, count: usize) -> Vec<TcpStream> {
    std::thread::scope(|scope| {
        let openers: Vec<_> = (0..16)
            .map(|_| scope.spawn(|| (0..count / 16).map(|_| half_sent(address)).collect()))
            .collect();
        let opened = openers.into_iter().map(|o| o.join().expect("opened"));
        opened.flat_map(|part: Vec<TcpStream>| part).collect()
    })
}

fn is_closed(stream: &mut TcpStream) -> bool {
    let wait = Some(Duration::from_millis(20));
    stream.set_read_timeout(wait).expect("set");
    !matches!(stream.read(&mut [0]), Err(e) if matches!(e.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut))
}

// The attack of the review: as many half-sent requests as the host has connections.
#[test]
fn half_sent_requests_do_not_lock_out_the_holder_of_the_token() {
    const MAX: usize = 1024;
    let dir = TempDir::new().expect("a directory");
    let host = Served::on(dir, &["--max-connections", &MAX.to_string()]);
    let mut slowest = Duration::ZERO;
    let mut ask = || {
        let began = Instant::now();
        let answer = host.get("/sessions");
        assert_eq!(answer.status, 200, "{answer:?}");
        slowest = slowest.max(began.elapsed());
    };
    ask();
    let stream = host.running("default");
    for _ in 0..3 {
        let held = crowd(&host.address, MAX + MAX / 8);
        for _ in 0..20 {
            ask();
        }
        drop(held);
    }
    // And while the crowd keeps coming back.
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                drop(crowd(&host.address, MAX / 4));
            }
        });
        for _ in 0..50 {
            ask();
        }
        over.store(true, Ordering::Relaxed);
    });
    host.turn(&stream, "hello");
    eprintln!("slowest request: {slowest:?}");
    // Less than a second on an idle machine. Tests run in parallel. Half-sent requests end after 15
    // seconds, and until then they used to lock everybody out.
    assert!(slowest < Duration::from_secs(12), "{slowest:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_connection_replaces_the_oldest_without_the_token() {
    let limits = ServerLimits {
        connections: 8,
        ..ServerLimits::default()
    };
    let near = Near::new(limits, ClientRates::default(), Timeouts::default()).await;
    let session = near.host.running("default").await;
    // An open stream with the token is never closed for another client.
    let mut kept = near.open();
    let request = format!(
        "GET /sessions/{}/stream HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer secret\r\n\r\n",
        session.id, near.address
    );
    kept.write_all(request.as_bytes()).expect("sent");
    kept.read_exact(&mut [0; 64]).expect("an answer");
    let mut held: Vec<TcpStream> = (0..7).map(|_| half_sent(&near.address)).collect();
    for _ in 0..20 {
        assert_eq!(near.get("/sessions").status, 200);
    }
    assert!(is_closed(&mut held[0]), "the oldest gave way");
    assert!(!is_closed(&mut held[6]), "the newest is still open");
    for _ in 0..50 {
        held.push(half_sent(&near.address));
    }
    near.host.turn(&session.id, "hello").await;
    let mut seen = String::new();
    let mut bytes = [0; 4096];
    kept.set_read_timeout(Some(Duration::from_secs(30)))
        .expect("set");
    while !seen.contains("turn-end (end_turn)") {
        let read = kept.read(&mut bytes).expect("in time");
        assert!(read > 0, "the stream was closed: {seen}");
        seen += &String::from_utf8_lossy(&bytes[..read]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_request_has_a_shorter_time_limit() {
    assert_eq!(ServerLimits::default().first_head, Duration::from_secs(5));
    let limits = ServerLimits {
        first_head: Duration::from_millis(300),
        head: Duration::from_secs(60),
        ..ServerLimits::default()
    };
    let near = Near::new(limits, ClientRates::default(), Timeouts::default()).await;
    let mut silent = near.open();
    let mut half = half_sent(&near.address);
    let mut idle = near.open();
    let whole = format!(
        "GET /sessions HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer secret\r\n\r\n",
        near.address
    );
    idle.write_all(whole.as_bytes()).expect("sent");
    idle.read_exact(&mut [0; 12]).expect("an answer");
    for stream in [&mut silent, &mut half] {
        let began = Instant::now();
        stream.read_to_end(&mut Vec::new()).expect("closed");
        assert!(began.elapsed() < Duration::from_secs(30));
    }
    idle.write_all(whole.as_bytes()).expect("sent");
    let mut rest = [0; 4096];
    assert!(idle.read(&mut rest).expect("an answer") > 0, "still open");
}

// Requests without the token do not use up the rate limit of the others.
#[tokio::test(flavor = "multi_thread")]
async fn the_holder_of_the_token_has_a_separate_rate_limit() {
    let rates = ClientRates {
        local: Rate {
            per_second: 1e-9,
            burst: 10.0,
        },
        ..ClientRates::default()
    };
    let near = Near::new(ServerLimits::default(), rates, Timeouts::default()).await;
    for _ in 0..10 {
        assert_eq!(near.ask("/healthz", "wrong").status, 200);
    }
    assert_eq!(
        near.ask("/healthz", "wrong").refusal(429),
        "too_many_requests"
    );
    for _ in 0..10 {
        assert_eq!(near.get("/sessions").status, 200);
    }
    assert_eq!(near.get("/sessions").refusal(429), "too_many_requests");
}
