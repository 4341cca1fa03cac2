//! The head of a host's response. It is passed on without its connection headers, because a
//! connection to the proxy carries one request.

/// Maximum length of a response head, in bytes. Hosts with many cookies send tens of kilobytes.
pub const MAX_HEAD: usize = 256 * 1024;

/// Position after the head. Hosts are parsed as leniently as clients parse them.
pub fn head_end(bytes: &[u8]) -> Option<usize> {
    memchr::memchr_iter(b'\n', bytes).find_map(|at| match bytes.get(at + 1..)? {
        [b'\n', ..] => Some(at + 2),
        [b'\r', b'\n', ..] => Some(at + 3),
        _ => None,
    })
}

#[derive(Debug, PartialEq, Eq)]
pub enum ResponseHead {
    /// Another head follows (`100 Continue`).
    Interim,
    /// The head that the client gets; the body follows.
    Final(Vec<u8>),
}

/// Parses a response head, or returns `None` if it is not HTTP/1.
pub fn parse(head: &[u8]) -> Option<ResponseHead> {
    let mut lines = head.split_inclusive(|b| *b == b'\n');
    let first = lines.next()?;
    let status = first.strip_prefix(b"HTTP/1.")?.get(2..5)?;
    if !status.iter().all(u8::is_ascii_digit) {
        return None;
    }
    if status.starts_with(b"1") && status != b"101" {
        return Some(ResponseHead::Interim);
    }
    let mut sent = first.to_vec();
    let mut is_dropped = false;
    for line in lines {
        let folded = line.starts_with(b" ") || line.starts_with(b"\t");
        if line.trim_ascii().is_empty() {
            break;
        }
        if !folded {
            is_dropped = is_connection_header(line);
        }
        if !is_dropped {
            sent.extend_from_slice(line);
        }
    }
    sent.extend_from_slice(b"Connection: close\r\n\r\n");
    Some(ResponseHead::Final(sent))
}

fn is_connection_header(line: &[u8]) -> bool {
    let name = line
        .split(|b| *b == b':')
        .next()
        .unwrap_or(line)
        .trim_ascii();
    [&b"connection"[..], b"proxy-connection", b"keep-alive"]
        .into_iter()
        .any(|own| name.eq_ignore_ascii_case(own))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(text: &str) -> Option<String> {
        match parse(text.as_bytes())? {
            ResponseHead::Interim => Some("interim".to_owned()),
            ResponseHead::Final(head) => Some(String::from_utf8(head).expect("text")),
        }
    }

    #[test]
    fn response_heads_are_parsed() {
        assert_eq!(
            passed("HTTP/1.1 200 OK\r\nA: b\r\nConnection: keep-alive,\r\n x\r\nKeep-Alive: 5\r\nC: d\r\n\te\r\n\r\n").as_deref(),
            Some("HTTP/1.1 200 OK\r\nA: b\r\nC: d\r\n\te\r\nConnection: close\r\n\r\n")
        );
        assert_eq!(
            passed("HTTP/1.0 204\nA: b\n\n").as_deref(),
            Some("HTTP/1.0 204\nA: b\nConnection: close\r\n\r\n")
        );
        assert_eq!(
            passed("HTTP/1.1 100 Continue\r\n\r\n").as_deref(),
            Some("interim")
        );
        for bad in [
            "",
            "HTTP/2 200\r\n\r\n",
            "HTTP/1.1\r\n\r\n",
            "HTTP/1.1 2x0\r\n\r\n",
            "SSH-2.0\r\n\r\n",
        ] {
            assert_eq!(passed(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn the_end_of_a_head_is_found() {
        assert_eq!(head_end(b"a\r\n\r\nb"), Some(5));
        assert_eq!(head_end(b"a\n\nb"), Some(3));
        assert_eq!(head_end(b"a\n\r\nb"), Some(4));
        assert_eq!(head_end(b"a\r\n\r"), None);
        assert_eq!(head_end(b""), None);
    }

    proptest::proptest! {
        #[test]
        fn nothing_panics(bytes: Vec<u8>, text in "HTTP/1.[01] ?[0-9]{0,3}([a-z:\r\n \t]{0,20})") {
            for bytes in [bytes.as_slice(), text.as_bytes()] {
                let _ = head_end(bytes);
                let _ = parse(bytes);
            }
        }
    }
}
