//! The dashboard page at `/`: its security policy and headers (A46-SEC-02, A46-SEC-04).
//! `tests/dashboard/run` tests the page in a browser.

use std::io::Write;

use super::served::{Answer, Served};
use base64::Engine;
use sha2::{Digest, Sha256};

fn page() -> (String, String) {
    let host = Served::new();
    let answer = host.ask("GET", "/", "", "");
    assert_eq!(
        answer.status, 200,
        "the page contains no data, so it needs no token"
    );
    assert!(!answer.text.contains(&host.token));
    (answer.head.to_lowercase(), answer.text.clone())
}

fn header<'h>(head: &'h str, name: &str) -> &'h str {
    let mut found = head
        .lines()
        .filter_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    let (first, second) = (found.next(), found.next());
    assert!(second.is_none(), "duplicate header {name}: {head}");
    first.unwrap_or_else(|| panic!("no {name}: {head}"))
}

/// The sources that one directive of the policy allows.
fn allowed<'p>(policy: &'p str, directive: &str) -> Vec<&'p str> {
    let parts = policy.split(';').map(str::trim);
    let mut found = parts.filter_map(|part| {
        let (name, sources) = part.split_once(' ')?;
        (name == directive).then(|| sources.split(' ').collect::<Vec<_>>())
    });
    let (first, second) = (found.next(), found.next());
    assert!(
        second.is_none(),
        "duplicate directive {directive}: {policy}"
    );
    first.unwrap_or_else(|| panic!("no {directive}: {policy}"))
}

/// The content of every element with this tag name. None of them may have attributes.
fn inside<'p>(page: &'p str, tag: &str) -> Vec<&'p str> {
    let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
    let parts: Vec<&str> = page
        .split(open.as_str())
        .skip(1)
        .map(|rest| rest.split_once(close.as_str()).expect("closed").0)
        .collect();
    let all = page.matches(format!("<{tag}").as_str()).count();
    assert_eq!(all, parts.len(), "a <{tag}> with attributes");
    parts
}

fn hash(text: &str) -> String {
    let hash = Sha256::digest(text.as_bytes());
    let hash = base64::engine::general_purpose::STANDARD.encode(hash);
    format!("'sha256-{hash}'")
}

#[test]
fn the_policy_is_strict_and_matches_the_content() {
    let host = Served::new();
    let answer = host.ask("GET", "/", "", "");
    // Header values are read unchanged, because hashes are case-sensitive.
    let line = answer
        .head
        .lines()
        .find(|line| line.to_lowercase().starts_with("content-security-policy:"));
    let (_, policy) = line.expect("a policy").split_once(": ").expect("a value");
    for directive in ["default-src", "base-uri", "form-action", "frame-ancestors"] {
        assert_eq!(allowed(policy, directive), ["'none'"], "{directive}");
    }
    assert_eq!(allowed(policy, "connect-src"), ["'self'"]);
    assert_eq!(allowed(policy, "img-src"), ["data:"]);
    assert_eq!(allowed(policy, "require-trusted-types-for"), ["'script'"]);
    assert_eq!(allowed(policy, "trusted-types"), ["'none'"]);
    for (tag, directive) in [("script", "script-src"), ("style", "style-src")] {
        let hashes: Vec<String> = inside(&answer.text, tag).into_iter().map(hash).collect();
        assert_eq!(hashes.len(), 1, "{tag}");
        assert_eq!(allowed(policy, directive), hashes, "{tag}");
    }
    assert!(!policy.contains("unsafe") && !policy.contains("http"));
}

#[test]
fn the_page_is_compressed_for_browsers() {
    let host = Served::new();
    let plain = host.ask("GET", "/", "", "");
    assert!(!plain.head.to_lowercase().contains("content-encoding"));
    let head = |accepted: &str| {
        let mut stream = host.open();
        let request = format!(
            "GET / HTTP/1.1\r\nHost: {}\r\nAccept-Encoding: {accepted}\r\nConnection: close\r\n\r\n",
            host.address
        );
        stream.write_all(request.as_bytes()).expect("sent");
        Answer::read_head(stream).to_lowercase()
    };
    let packed = head("gzip, deflate, br");
    assert_eq!(header(&packed, "content-encoding"), "gzip");
    assert_eq!(header(&packed, "vary"), "accept-encoding");
    let size: usize = header(&packed, "content-length").parse().expect("a size");
    assert!(size < 70_000, "{size} bytes");
    for other in ["br", "gzip;q=0", "gzipped"] {
        assert!(!head(other).contains("content-encoding"), "{other}");
    }
}

#[test]
fn the_security_headers_are_set() {
    let (head, _) = page();
    for (name, value) in [
        ("content-type", "text/html; charset=utf-8"),
        ("x-frame-options", "deny"),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cache-control", "no-store"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
    ] {
        assert_eq!(header(&head, name), value, "{name}");
    }
    assert!(!head.contains("set-cookie"));
}

#[test]
fn the_page_loads_nothing_external_and_never_parses_text_as_html() {
    let (_, page) = page();
    // The only address in the page is the SVG namespace, in the favicon.
    let addresses = page.matches("http://").count() + page.matches("https://").count();
    assert_eq!(
        addresses,
        page.matches("http://www.w3.org/2000/svg").count()
    );
    for outside in [
        "src=", "@import", "url(", "<iframe", "<object", "<embed", "<base",
    ] {
        assert!(!page.contains(outside), "{outside}");
    }
    for way in [
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "DOMParser",
        "eval(",
        "new Function",
        "srcdoc",
    ] {
        assert!(!page.contains(way), "{way}");
    }
    for handler in [
        "onclick=\"",
        "onload=\"",
        "onerror=\"",
        "style=\"",
        "javascript:",
    ] {
        assert!(!page.contains(handler), "{handler}");
    }
    assert!(page.len() < 230_000, "{} bytes", page.len());
}
