//! Attempts to reach the host's network and its daemons.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::Duration;

use crate::{Blocked, Error, Escaped, Outcome, SECRET, judged, refused};

const PATIENCE: Duration = Duration::from_secs(2);

pub fn attempt(name: &str, args: &[&str]) -> Option<Outcome> {
    Some(match (name, args) {
        ("tcp", [address]) => told(TcpStream::connect(address).map(Stream::Tcp)),
        ("udp", [address]) => udp(address, b"hello"),
        // A DNS query for the address of `a.test`, as sent by any stub resolver.
        ("dns", [address]) => udp(
            address,
            b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x01a\x04test\0\0\x01\0\x01",
        ),
        ("resolve", [name]) => resolve(name),
        ("route", [address]) => route(address),
        ("raw", []) => family(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP),
        ("raw6", []) => family(libc::AF_INET6, libc::SOCK_RAW, libc::IPPROTO_ICMPV6),
        ("packet", []) => family(libc::AF_PACKET, libc::SOCK_DGRAM, 0),
        ("vsock", []) => family(libc::AF_VSOCK, libc::SOCK_STREAM, 0),
        ("alg", []) => family(libc::AF_ALG, libc::SOCK_SEQPACKET, 0),
        ("netlink", [protocol]) => family(
            libc::AF_NETLINK,
            libc::SOCK_RAW,
            crate::number(protocol) as i32,
        ),
        ("unix", [path]) => told(UnixStream::connect(path).map(Stream::Unix)),
        ("abstract", [name]) => told(
            SocketAddr::from_abstract_name(name)
                .and_then(|address| UnixStream::connect_addr(&address))
                .map(Stream::Unix),
        ),
        ("unix_datagram", [path]) => unix_datagram(path, false),
        ("unix_datagram_of_pair", [path]) => unix_datagram(path, true),
        ("unix_stream_of_pair", [path]) => unix_stream_of_pair(path),
        ("proxy_connect", [proxy, host]) => proxy_connect(proxy, host),
        ("proxy_get", [proxy, host]) => proxy_get(proxy, host),
        ("proxy_socks", [proxy, host, port]) => proxy_socks(proxy, host, port),
        ("serve_once", [port]) => serve_once(port),
        ("local", []) => local(),
        ("pair", []) => pair(),
        _ => return None,
    })
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// Reads the secret, which the daemons of the tests send to every client.
fn told(stream: io::Result<Stream>) -> Outcome {
    let mut text = vec![0; SECRET.len()];
    let read = stream.and_then(|stream| match stream {
        Stream::Tcp(mut s) => s
            .set_read_timeout(Some(PATIENCE))
            .and_then(|()| s.read_exact(&mut text)),
        Stream::Unix(mut s) => s
            .set_read_timeout(Some(PATIENCE))
            .and_then(|()| s.read_exact(&mut text)),
    });
    match read {
        Ok(()) if text == SECRET.as_bytes() => Escaped("the host's daemon answered".into()),
        Ok(()) => Error("another server answered".into()),
        Err(error) => Blocked(error.to_string()),
    }
}

fn udp(address: &str, question: &[u8]) -> Outcome {
    let any = if address.starts_with('[') {
        "[::]:0"
    } else {
        "0.0.0.0:0"
    };
    let asked = UdpSocket::bind(any).and_then(|socket| {
        socket.set_read_timeout(Some(PATIENCE / 4))?;
        socket.send_to(question, address)?;
        let mut answer = [0; 512];
        socket.recv(&mut answer)
    });
    match asked {
        Ok(length) => Escaped(format!("{length} bytes came back")),
        Err(error) => Blocked(error.to_string()),
    }
}

/// Resolves a name with the system library.
fn resolve(name: &str) -> Outcome {
    match (name, 80).to_socket_addrs() {
        Ok(mut found) => match found.next() {
            Some(address) => Escaped(format!("{name} is {address}")),
            None => Blocked("no address".into()),
        },
        Err(error) => Blocked(error.to_string()),
    }
}

/// Checks whether the kernel has a route. No packet is sent.
fn route(address: &str) -> Outcome {
    let any = if address.starts_with('[') {
        "[::]:0"
    } else {
        "0.0.0.0:0"
    };
    match UdpSocket::bind(any).and_then(|s| s.connect(address).and_then(|()| s.local_addr())) {
        Ok(from) => Escaped(format!("a route from {from}")),
        Err(error) => Blocked(error.to_string()),
    }
}

fn family(family: i32, kind: i32, protocol: i32) -> Outcome {
    // SAFETY: plain numbers.
    judged(
        "socket",
        unsafe { libc::socket(family, kind, protocol) }.into(),
    )
}

fn address_of(path: &str) -> (libc::sockaddr_un, libc::socklen_t) {
    // SAFETY: plain data.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    for (to, from) in address.sun_path.iter_mut().zip(path.bytes()) {
        *to = from as libc::c_char;
    }
    (address, size_of::<libc::sockaddr_un>() as libc::socklen_t)
}

/// Sends a datagram to a path. A datagram socket can reach any path, even if it is one of a
/// connected pair.
fn unix_datagram(path: &str, from_pair: bool) -> Outcome {
    let mut pair = [-1; 2];
    // SAFETY: room for two descriptors; plain numbers.
    let socket = unsafe {
        if from_pair {
            if libc::socketpair(libc::AF_UNIX, libc::SOCK_DGRAM, 0, pair.as_mut_ptr()) < 0 {
                return refused("socketpair");
            }
            pair[0]
        } else {
            libc::socket(libc::AF_UNIX, libc::SOCK_DGRAM, 0)
        }
    };
    if socket < 0 {
        return refused("socket");
    }
    let (address, length) = address_of(path);
    // SAFETY: the address outlives the call.
    let sent = unsafe {
        libc::sendto(
            socket,
            c"hello".as_ptr().cast(),
            5,
            0,
            (&raw const address).cast(),
            length,
        )
    };
    if sent < 0 {
        refused("sendto")
    } else {
        Escaped(format!("the host's daemon got {sent} bytes"))
    }
}

fn unix_stream_of_pair(path: &str) -> Outcome {
    let mut pair = [-1; 2];
    // SAFETY: room for two descriptors.
    if unsafe { libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, pair.as_mut_ptr()) } < 0 {
        return refused("socketpair");
    }
    let (address, length) = address_of(path);
    // SAFETY: descriptors of ours; the address outlives the call.
    let done = unsafe {
        libc::close(pair[1]);
        libc::connect(pair[0], (&raw const address).cast(), length)
    };
    if done < 0 {
        return refused("connect");
    }
    // SAFETY: a descriptor that has no other owner.
    let stream = unsafe { OwnedFd::from_raw_fd(pair[0]) };
    told(Ok(Stream::Unix(stream.into())))
}

fn ask(proxy: &str, question: &[u8]) -> io::Result<(TcpStream, Vec<u8>)> {
    let mut stream = TcpStream::connect(proxy)?;
    stream.set_read_timeout(Some(PATIENCE * 3))?;
    stream.write_all(question)?;
    let mut answer = vec![0; 512];
    let length = stream.read(&mut answer)?;
    answer.truncate(length);
    Ok((stream, answer))
}

/// Connects through the proxy. `host` includes the port.
fn proxy_connect(proxy: &str, host: &str) -> Outcome {
    let question = format!("CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    match ask(proxy, question.as_bytes()) {
        Ok((stream, answer)) => {
            let line = String::from_utf8_lossy(&answer)
                .lines()
                .next()
                .unwrap_or_default()
                .to_owned();
            match line.split(' ').nth(1) {
                Some("200") => match told(Ok(Stream::Tcp(stream))) {
                    Escaped(how) => Escaped(how),
                    // The secret may have arrived together with the header.
                    _ if holds(&answer) => Escaped(line),
                    other => other,
                },
                Some("403" | "400" | "502") => Blocked(line),
                _ => Error(format!("the proxy said {line:?}")),
            }
        }
        Err(error) => Error(format!("proxy: {error}")),
    }
}

/// Waits for one connection through the host, and answers it.
fn serve_once(port: &str) -> Outcome {
    let served = std::net::TcpListener::bind(format!("127.0.0.1:{port}")).and_then(|listener| {
        let (mut stream, _) = listener.accept()?;
        stream.read_exact(&mut [0; 5])?;
        stream.write_all(b"from inside")
    });
    match served {
        Ok(()) => Escaped("was reached".to_owned()),
        Err(error) => Error(error.to_string()),
    }
}

fn holds(text: &[u8]) -> bool {
    text.windows(SECRET.len()).any(|w| w == SECRET.as_bytes())
}

/// Sends a plain request in absolute form, with another host in its header.
fn proxy_get(proxy: &str, host: &str) -> Outcome {
    let question = format!("GET http://{host}/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n");
    match ask(proxy, question.as_bytes()) {
        Ok((_, answer)) if holds(&answer) => Escaped("the host answered".into()),
        Ok((_, answer)) => Blocked(
            String::from_utf8_lossy(&answer)
                .lines()
                .next()
                .unwrap_or_default()
                .to_owned(),
        ),
        Err(error) => Blocked(format!("proxy: {error}")),
    }
}

fn proxy_socks(proxy: &str, host: &str, port: &str) -> Outcome {
    let port: u16 = port.parse().unwrap_or(0);
    let done = ask(proxy, &[5, 1, 0]).and_then(|(mut stream, method)| {
        if method != [5, 0] {
            return Err(io::Error::other(format!("no method: {method:?}")));
        }
        let mut question = vec![5, 1, 0, 3, host.len() as u8];
        question.extend_from_slice(host.as_bytes());
        question.extend_from_slice(&port.to_be_bytes());
        stream.write_all(&question)?;
        let mut answer = [0; 4];
        stream.read_exact(&mut answer)?;
        let address = if answer[3] == 4 { 18 } else { 6 };
        stream.read_exact(&mut vec![0; address])?;
        Ok((stream, answer[1]))
    });
    match done {
        Ok((stream, 0)) => told(Ok(Stream::Tcp(stream))),
        Ok((_, code)) => Blocked(format!("answer {code}")),
        Err(error) => Blocked(format!("proxy: {error}")),
    }
}

/// Checks that the loopback interface of the sandbox works.
fn local() -> Outcome {
    let done = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| {
        let mut out = TcpStream::connect(listener.local_addr()?)?;
        let (mut inner, _) = listener.accept()?;
        out.write_all(b"x")?;
        out.shutdown(Shutdown::Write)?;
        let mut text = String::new();
        inner.read_to_string(&mut text)
    });
    match done {
        Ok(_) => Escaped("loopback".into()),
        Err(error) => Blocked(error.to_string()),
    }
}

fn pair() -> Outcome {
    match UnixStream::pair() {
        Ok((a, _b)) => Escaped(format!("descriptor {}", a.as_raw_fd())),
        Err(error) => Blocked(error.to_string()),
    }
}
