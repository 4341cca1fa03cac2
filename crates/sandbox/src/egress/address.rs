//! IP addresses: all their spellings, and which of them are not on the public internet.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

/// An IP address in the place of a host name.
#[derive(Debug, PartialEq, Eq)]
pub enum Literal {
    Address(IpAddr),
    /// Resolvers would read it as a number, but it is not a valid address.
    Broken,
}

/// Parses an address, or returns `None` for a name. Supports what C resolvers accept: `0x7f.1`,
/// `2130706433`, `127.1`, `[::1]`.
pub fn literal(text: &str) -> Option<Literal> {
    let bare = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    if bare.is_some() || text.contains([':', '[', ']', '%']) {
        return Some(match bare.unwrap_or(text).parse::<Ipv6Addr>() {
            Ok(address) => Literal::Address(canonical(address.into())),
            Err(_) => Literal::Broken,
        });
    }
    if !ends_in_number(text) {
        return None;
    }
    Some(match loose_v4(text) {
        Some(address) => Literal::Address(address.into()),
        None => Literal::Broken,
    })
}

/// Whether the last label is a number. No top-level domain is one, so no name ends in one.
fn ends_in_number(text: &str) -> bool {
    let last = text.rsplit('.').next().unwrap_or(text);
    is_digits(last) || hex_digits(last).is_some()
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

fn hex_digits(part: &str) -> Option<&str> {
    let digits = part.strip_prefix("0x").or(part.strip_prefix("0X"))?;
    digits
        .bytes()
        .all(|b| b.is_ascii_hexdigit())
        .then_some(digits)
}

/// Parses one to four numbers, decimal, octal or hexadecimal. The last one fills the remaining
/// bytes.
fn loose_v4(text: &str) -> Option<Ipv4Addr> {
    let numbers = text.split('.').map(number).collect::<Option<Vec<u64>>>()?;
    let (last, heads) = numbers.split_last()?;
    if heads.len() > 3 || heads.iter().any(|n| *n > 255) {
        return None;
    }
    let room = 8 * (4 - heads.len() as u32);
    if *last >= 1u64 << room {
        return None;
    }
    let head = heads.iter().fold(0, |sum, n| sum << 8 | n);
    u32::try_from(head << room | last).ok().map(Ipv4Addr::from)
}

fn number(part: &str) -> Option<u64> {
    if let Some(digits) = hex_digits(part) {
        return match digits {
            "" => Some(0),
            _ => u64::from_str_radix(digits, 16).ok(),
        };
    }
    if !is_digits(part) {
        return None;
    }
    let radix = if part.len() > 1 && part.starts_with('0') {
        8
    } else {
        10
    };
    u64::from_str_radix(part, radix).ok()
}

/// Replaces a mapped IPv6 address by its IPv4 address, because both reach the same socket.
pub fn canonical(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(address, IpAddr::V4),
        IpAddr::V4(_) => address,
    }
}

/// Whether an address belongs to this machine: only then can a socket be bound to it. If that cannot
/// be found out, for example because too many files are open, the address counts as an own one.
pub fn is_own(address: IpAddr) -> bool {
    let bind = |address: IpAddr| UdpSocket::bind((address, 0)).map(drop);
    is_own_with(address, bind, interface_addresses)
}

fn is_own_with(
    address: IpAddr,
    bind: impl Fn(IpAddr) -> io::Result<()>,
    interfaces: impl Fn() -> io::Result<Vec<IpAddr>>,
) -> bool {
    let foreign = match address {
        IpAddr::V4(_) => IpAddr::from([192, 0, 2, 1]),
        IpAddr::V6(_) => IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1]),
    };
    match bind(address) {
        // Without IPv6, this machine has no IPv6 address.
        Err(error) if error.raw_os_error() == Some(libc::EAFNOSUPPORT) => false,
        Err(error) => error.kind() != io::ErrorKind::AddrNotAvailable,
        // With `ip_nonlocal_bind`, every address can be bound.
        Ok(()) if bind(foreign).is_ok() => interfaces().map_or(true, |own| own.contains(&address)),
        Ok(()) => true,
    }
}

/// The addresses of all network interfaces.
fn interface_addresses() -> io::Result<Vec<IpAddr>> {
    let mut list = std::ptr::null_mut();
    // SAFETY: the pointer is valid for writing.
    if unsafe { libc::getifaddrs(&mut list) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut found = Vec::new();
    let mut next = list;
    // SAFETY: the list was filled above and is freed below. Its entries are valid until then.
    while let Some(entry) = unsafe { next.as_ref() } {
        next = entry.ifa_next;
        // SAFETY: an address is null or valid, and its family says which type it has.
        let address = unsafe {
            match entry.ifa_addr.as_ref().map(|a| i32::from(a.sa_family)) {
                Some(libc::AF_INET) => {
                    let v4 = entry.ifa_addr.cast::<libc::sockaddr_in>().read_unaligned();
                    Some(IpAddr::from(v4.sin_addr.s_addr.to_ne_bytes()))
                }
                Some(libc::AF_INET6) => {
                    let v6 = entry.ifa_addr.cast::<libc::sockaddr_in6>().read_unaligned();
                    Some(IpAddr::from(v6.sin6_addr.s6_addr))
                }
                _ => None,
            }
        };
        found.extend(address);
    }
    // SAFETY: the list comes from `getifaddrs` and is not used any more.
    unsafe { libc::freeifaddrs(list) };
    Ok(found)
}

/// Why an address is not a host on the public internet, or `None` if it may be one.
pub fn special(address: IpAddr) -> Option<&'static str> {
    match canonical(address) {
        IpAddr::V4(v4) => special_v4(v4),
        IpAddr::V6(v6) => special_v6(v6),
    }
}

fn special_v4(address: Ipv4Addr) -> Option<&'static str> {
    match address.octets() {
        [0, ..] => Some("unspecified"),
        [10, ..] | [192, 168, ..] | [172, 16..=31, ..] => Some("private"),
        [127, ..] => Some("loopback"),
        [169, 254, ..] => Some("link-local"),
        [100, 64..=127, ..] => Some("shared (carrier-grade NAT)"),
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => Some("documentation"),
        [198, 18..=19, ..] => Some("benchmarking"),
        [224..=239, ..] => Some("multicast"),
        [192, 0, 0, _] | [192, 88, 99, _] | [240..=255, ..] => Some("reserved"),
        _ => None,
    }
}

fn special_v6(address: Ipv6Addr) -> Option<&'static str> {
    let words = address.segments();
    let v4 =
        |high: u16, low: u16| special_v4(Ipv4Addr::from(u32::from(high) << 16 | u32::from(low)));
    match words {
        [0, 0, 0, 0, 0, 0, 0, 0] => Some("unspecified"),
        [0, 0, 0, 0, 0, 0, 0, 1] => Some("loopback"),
        // IPv4-compatible addresses, and the well-known prefix of NAT64: treated like the address
        // they contain.
        [0, 0, 0, 0, 0, 0, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => v4(high, low),
        [0x64, 0xff9b, 1, ..] => Some("private"),
        [0xfc00..=0xfdff, ..] => Some("private"),
        [0xfe80..=0xfebf, ..] => Some("link-local"),
        [0xfec0..=0xfeff, ..] => Some("private"),
        [0xff00..=0xffff, ..] => Some("multicast"),
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0x0fff, ..] => Some("documentation"),
        [0x2001, 2, 0, ..] => Some("benchmarking"),
        // Teredo, ORCHID and ranges of other protocols.
        [0x2001, 0..=0x1ff, ..] => Some("reserved"),
        [0x2002, high, low, ..] => v4(high, low),
        // ISATAP contains an IPv4 address at its end.
        [0x2000..=0x3fff, _, _, _, 0 | 0x200, 0x5efe, high, low] => v4(high, low),
        [0x2000..=0x3fff, ..] => None,
        _ => Some("reserved"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Option<String> {
        match literal(text)? {
            Literal::Address(address) => Some(address.to_string()),
            Literal::Broken => Some("broken".to_owned()),
        }
    }

    #[test]
    fn addresses_of_this_machine_are_recognized() {
        assert!(is_own(Ipv4Addr::LOCALHOST.into()));
        assert!(!is_own(IpAddr::from([192, 0, 2, 7])));
        assert!(!is_own(IpAddr::from([8, 8, 8, 8])));
        let own = interface_addresses().expect("listed");
        assert!(own.contains(&Ipv4Addr::LOCALHOST.into()), "{own:?}");
        assert!(own.into_iter().filter(IpAddr::is_ipv4).all(is_own));
    }

    #[test]
    fn an_address_that_cannot_be_checked_counts_as_own() {
        let (own, other) = (IpAddr::from([1, 1, 1, 1]), IpAddr::from([8, 8, 8, 8]));
        let v6 = IpAddr::from([0x2606, 0x4700, 0, 0, 0, 0, 0, 1]);
        let known = || Ok(vec![own]);
        let failing = |code: i32| move |_: IpAddr| Err(io::Error::from_raw_os_error(code));
        for code in [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::EACCES] {
            assert!(is_own_with(other, failing(code), known), "{code}");
        }
        assert!(!is_own_with(other, failing(libc::EADDRNOTAVAIL), known));
        assert!(!is_own_with(v6, failing(libc::EAFNOSUPPORT), known));
        // With `ip_nonlocal_bind`.
        let all = |_: IpAddr| Ok(());
        assert!(is_own_with(own, all, known));
        assert!(!is_own_with(other, all, known));
        assert!(is_own_with(other, all, || Err(io::Error::other("no list"))));
    }

    #[test]
    fn all_spellings_of_an_address_are_parsed() {
        for (text, meant) in [
            ("127.0.0.1", "127.0.0.1"),
            ("127.1", "127.0.0.1"),
            ("127.0.1", "127.0.0.1"),
            ("2130706433", "127.0.0.1"),
            ("0x7f000001", "127.0.0.1"),
            ("0x7f.1", "127.0.0.1"),
            ("0X7F.0.0.0x1", "127.0.0.1"),
            ("0177.0.0.01", "127.0.0.1"),
            ("017700000001", "127.0.0.1"),
            ("0x", "0.0.0.0"),
            ("0", "0.0.0.0"),
            ("::1", "::1"),
            ("[::1]", "::1"),
            ("0:0:0:0:0:0:0:1", "::1"),
            ("::ffff:10.0.0.1", "10.0.0.1"),
            ("[::FFFF:a00:1]", "10.0.0.1"),
            ("256.0.0.1", "broken"),
            ("1.2.3.4.5", "broken"),
            ("4294967296", "broken"),
            ("1.2.3.08", "broken"),
            ("example.1", "broken"),
            ("1..2", "broken"),
            ("fe80::1%eth0", "broken"),
            ("[::1", "broken"),
            ("[127.0.0.1]", "broken"),
            ("a:b", "broken"),
            ("99999999999999999999999", "broken"),
        ] {
            assert_eq!(address(text).as_deref(), Some(meant), "{text}");
        }
        for name in ["example.com", "1.example", "0xg", "a1", "1-2", "", "x.0xzz"] {
            assert_eq!(literal(name), None, "{name}");
        }
    }

    #[test]
    fn special_addresses_are_recognized() {
        for (text, why) in [
            ("0.0.0.0", "unspecified"),
            ("10.255.0.1", "private"),
            ("172.16.0.1", "private"),
            ("172.31.255.255", "private"),
            ("192.168.0.1", "private"),
            ("127.9.9.9", "loopback"),
            ("169.254.169.254", "link-local"),
            ("100.64.0.1", "shared (carrier-grade NAT)"),
            ("100.127.255.255", "shared (carrier-grade NAT)"),
            ("192.0.2.1", "documentation"),
            ("198.51.100.1", "documentation"),
            ("203.0.113.1", "documentation"),
            ("198.18.0.1", "benchmarking"),
            ("198.19.255.1", "benchmarking"),
            ("224.0.0.1", "multicast"),
            ("255.255.255.255", "reserved"),
            ("192.0.0.8", "reserved"),
            ("::", "unspecified"),
            ("::1", "loopback"),
            ("::ffff:10.0.0.1", "private"),
            ("::10.0.0.1", "private"),
            ("::127.0.0.1", "loopback"),
            ("64:ff9b::10.0.0.1", "private"),
            ("64:ff9b:1::1", "private"),
            ("2002:a00:1::", "private"),
            ("2002:7f00:1::", "loopback"),
            ("2001:db8::1", "documentation"),
            ("3fff::1", "documentation"),
            ("2001:2::1", "benchmarking"),
            ("2001:0:4136::1", "reserved"),
            ("fd00::1", "private"),
            ("fe80::1", "link-local"),
            ("fec0::1", "private"),
            ("ff02::1", "multicast"),
            ("100::1", "reserved"),
            ("4000::1", "reserved"),
            ("2606::5efe:a00:1", "private"),
        ] {
            let address = text.parse().expect(text);
            assert_eq!(special(address), Some(why), "{text}");
        }
        for text in [
            "1.1.1.1",
            "172.15.0.1",
            "172.32.0.1",
            "100.63.0.1",
            "100.128.0.1",
            "169.253.0.1",
            "192.169.0.1",
            "198.17.0.1",
            "223.255.255.255",
            "2606:4700::1111",
            "2001:4860::8888",
            "64:ff9b::1.1.1.1",
            "2002:101:101::",
            "::ffff:1.1.1.1",
        ] {
            assert_eq!(special(text.parse().expect(text)), None, "{text}");
        }
    }
}
