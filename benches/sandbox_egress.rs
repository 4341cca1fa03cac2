//! Measures a bulk transfer through the egress proxy, as a ratio to the same transfer without it.
//! `cargo bench --bench sandbox_egress` uses only the loopback interface.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use agentproto_sandbox::egress::audit::AuditEntry;
use agentproto_sandbox::egress::resolve::ResolveFuture;
use agentproto_sandbox::egress::{HostRules, Proxy, Resolve};

const BYTES: u64 = 1 << 30;
const ROUNDS: usize = 7;
/// Maximum ratio: a transfer through the proxy may take 20 % longer.
const MAX_RATIO: f64 = 1.20;

fn main() {
    let mut missed = false;
    for (name, direction) in [("download", Direction::Down), ("upload", Direction::Up)] {
        let ratio = bulk_ratio(direction);
        let verdict = if ratio <= MAX_RATIO { "ok  " } else { "MISS" };
        missed |= ratio > MAX_RATIO;
        println!("{verdict} {name}, time over direct: {ratio:.2} (limit <= {MAX_RATIO})");
    }
    if missed {
        std::process::exit(1);
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Direction {
    Down,
    Up,
}

/// Resolves the host name that only the proxy knows to loopback.
struct Loopback;

impl Resolve for Loopback {
    fn resolve<'a>(&'a self, _: &'a str) -> ResolveFuture<'a> {
        Box::pin(async { Ok(vec![IpAddr::from([127, 0, 0, 1])]) })
    }
}

/// Ratio of the best rounds. The rounds alternate, so that other load affects both.
fn bulk_ratio(direction: Direction) -> f64 {
    let host = serve(direction);
    let runtime = tokio::runtime::Runtime::new().expect("runtime");
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let address = listener.local_addr().expect("address");
    let rules = HostRules::parse(["bulk.example", "127.0.0.1"]).expect("rules");
    let sink = Arc::new(Mutex::new(Vec::<AuditEntry>::new()));
    let proxy = runtime
        .block_on(async { Proxy::start(listener, rules, Arc::new(Loopback), sink) })
        .expect("proxy");

    let (mut direct, mut ours) = (Duration::MAX, Duration::MAX);
    for _ in 0..ROUNDS {
        direct = direct.min(transfer(connect(host), direction));
        ours = ours.min(transfer(through(address, host.port()), direction));
    }
    runtime.block_on(proxy.shutdown());
    let speed = |time: Duration| BYTES as f64 / time.as_secs_f64() / 1e9;
    println!(
        "direct {:.2} GB/s, ours {:.2} GB/s",
        speed(direct),
        speed(ours)
    );
    ours.as_secs_f64() / direct.as_secs_f64()
}

fn connect(address: SocketAddr) -> TcpStream {
    TcpStream::connect(address).expect("connect")
}

fn through(proxy: SocketAddr, port: u16) -> TcpStream {
    let mut stream = connect(proxy);
    let head = format!("CONNECT bulk.example:{port} HTTP/1.1\r\nHost: bulk.example\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("request");
    let mut answer = Vec::new();
    let mut byte = [0];
    while !answer.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).expect("answer");
        answer.extend(byte);
    }
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{answer:?}");
    stream
}

/// Time from the first byte until the other end confirms that everything has arrived.
fn transfer(mut stream: TcpStream, direction: Direction) -> Duration {
    let started = Instant::now();
    if direction == Direction::Down {
        stream.write_all(b"!").expect("start");
        assert_eq!(receive_all(&mut stream), BYTES);
    } else {
        send_all(&mut stream);
        stream.shutdown(std::net::Shutdown::Write).expect("end");
        let mut word = [0];
        stream.read_exact(&mut word).expect("word");
    }
    started.elapsed()
}

fn serve(direction: Direction) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let address = listener.local_addr().expect("address");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("accept");
            if direction == Direction::Down {
                stream.read_exact(&mut [0]).expect("start");
                send_all(&mut stream);
            } else {
                assert_eq!(receive_all(&mut stream), BYTES);
                stream.write_all(b"!").expect("word");
            }
        }
    });
    address
}

fn send_all(stream: &mut TcpStream) {
    let chunk = vec![7; 256 * 1024];
    for _ in 0..BYTES / chunk.len() as u64 {
        stream.write_all(&chunk).expect("write");
    }
}

fn receive_all(stream: &mut TcpStream) -> u64 {
    let mut buffer = vec![0; 256 * 1024];
    let mut total = 0;
    loop {
        match stream.read(&mut buffer).expect("read") {
            0 => return total,
            count => total += count as u64,
        }
    }
}
