//! Clients that disappear without closing the connection, and clients that stop reading: the host
//! closes their connections and frees their slots.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::host::Host;
use super::near::Near;
use super::network::{self, HERE, THERE};
use super::served::eventually;
use agentproto_daemon::http::server::ServerLimits;
use agentproto_daemon::http::{ClientRates, Timeouts};
use socket2::{Domain, Socket, Type};

/// Time after which the host notices that a client is gone.
const GONE: Duration = Duration::from_secs(2);
/// Interval of keep-alives, with which a stream notices it.
const SIGN: Duration = Duration::from_millis(200);

/// All other time limits are too long to matter here.
fn times() -> Timeouts {
    Timeouts {
        body: Duration::from_secs(600),
        keep_alive: SIGN,
    }
}

fn limits(connections: usize) -> ServerLimits {
    ServerLimits {
        connections,
        first_head: Duration::from_secs(600),
        head: Duration::from_secs(600),
        peer_timeout: GONE,
        ..ServerLimits::default()
    }
}

/// A client whose address will be removed.
fn from_there(near: &Near) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket
        .bind(&SocketAddr::from((THERE, 0)).into())
        .expect("bound");
    let to: SocketAddr = near.address.parse().expect("an address");
    socket.connect(&to.into()).expect("connected");
    socket.into()
}

fn stream_request(near: &Near, id: &str) -> String {
    format!(
        "GET /sessions/{id}/stream HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer secret\r\n\r\n",
        near.address
    )
}

/// Connections of the host to this peer that the kernel still lists.
fn open_to(peer: std::net::Ipv4Addr, near: &Near) -> usize {
    let hex = |address: std::net::Ipv4Addr| format!("{:08X}", u32::from(address).swap_bytes());
    let port = near.address.rsplit(':').next().expect("a port");
    let port: u16 = port.parse().expect("a number");
    let own = format!("{}:{port:04X}", hex(HERE));
    let table = std::fs::read_to_string("/proc/thread-self/net/tcp").expect("a table");
    let rows = table.lines().filter(|row| {
        let mut words = row.split_whitespace().skip(1);
        let (here, there) = (words.next(), words.next());
        here == Some(own.as_str()) && there.is_some_and(|t| t.starts_with(&hex(peer)))
    });
    rows.count()
}

#[test]
fn connections_of_a_vanished_client_are_closed() {
    if !network::entered("vanished::connections_of_a_vanished_client_are_closed") {
        return;
    }
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let host = Host::new();
        let here = HERE.to_string();
        let near = Near::at(&here, host, limits(4), ClientRates::default(), times()).await;
        let session = near.host.running("default").await;
        // One stream reader, one with half a request head, one with half a body, and one that has
        // sent nothing.
        let mut reader = from_there(&near);
        let asked = stream_request(&near, &session.id);
        reader.write_all(asked.as_bytes()).expect("sent");
        let mut first = [0; 12];
        reader.read_exact(&mut first).expect("an answer");
        assert_eq!(&first, b"HTTP/1.1 200");
        let mut head = from_there(&near);
        head.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Half: ")
            .expect("sent");
        let mut body = from_there(&near);
        let half = format!(
            "POST /sessions/agent HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer secret\r\n\
             Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{",
            near.address
        );
        body.write_all(half.as_bytes()).expect("sent");
        let silent = from_there(&near);
        eventually("all connection slots are taken", || {
            open_to(THERE, &near) == 4
        });
        network::vanish();
        let since = Instant::now();
        eventually("all connections are closed", || open_to(THERE, &near) == 0);
        // The last probe may have been sent just before, so allow some extra time.
        let took = since.elapsed();
        assert!(took < 3 * GONE, "{took:?}");
        // All four slots are free, not only one. The host frees a slot shortly after the kernel
        // has closed its connection.
        let mut again = Vec::new();
        eventually("four new connections are accepted", || {
            let mut stream = near.open();
            stream.write_all(asked.as_bytes()).expect("sent");
            let mut first = [0; 12];
            stream.read_exact(&mut first).expect("an answer");
            if &first == b"HTTP/1.1 200" {
                again.push(stream);
            } else {
                assert_eq!(&first, b"HTTP/1.1 503");
            }
            again.len() == 4
        });
        eventually("four new connections fit", || {
            near.ask("/healthz", "").status == 503
        });
        drop(again);
        eventually("further connections are accepted", || {
            near.ask("/healthz", "").status == 200
        });
        near.host.turn(&session.id, "and the session lives").await;
        drop((reader, head, body, silent));
    });
}

// This client answers TCP probes, so it is not gone. It is disconnected because it does not read.
#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_stops_reading_is_disconnected() {
    let near = Near::at(
        "127.0.0.1",
        Host::new(),
        limits(1),
        ClientRates::default(),
        times(),
    )
    .await;
    let session = near.host.running("default").await;
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.set_recv_buffer_size(4096).expect("set");
    let to: SocketAddr = near.address.parse().expect("an address");
    socket.connect(&to.into()).expect("connected");
    let mut reader: TcpStream = socket.into();
    let asked = stream_request(&near, &session.id);
    reader.write_all(asked.as_bytes()).expect("sent");
    // From its answer on, it does not give way to a new connection.
    reader.read_exact(&mut [0; 12]).expect("an answer");
    let begun = Instant::now();
    let long = "much to say ".repeat(20_000);
    let mut turns = 0;
    // Until the socket buffers are full and the time limit has passed.
    while near.ask("/healthz", "").status == 503 {
        near.host.turn(&session.id, &long).await;
        turns += 1;
        assert!(
            begun.elapsed() < Duration::from_secs(80),
            "still connected after {turns} turns"
        );
    }
    assert!(begun.elapsed() >= GONE, "disconnected before {GONE:?}");
    near.host.turn(&session.id, "and the session lives").await;
    drop(reader);
}
