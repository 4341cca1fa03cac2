//! Paged lists that change: workspaces and sessions.

use serde_json::Value;

use crate::machine_mode::host::Host;
use crate::machine_mode::{Place, Ran};

fn named(ran: &Ran, kind: &str, key: &str) -> Vec<String> {
    let events = ran.events();
    let ours = events.iter().filter(|event| event["type"] == kind);
    ours.map(|event| event[key].as_str().expect("a name").to_owned())
        .collect()
}

/// Reads all pages with two items each, and returns their items.
fn walk(list: &dyn Fn(&[&str]) -> Ran, kind: &str, key: &str) -> Vec<Vec<String>> {
    let mut pages = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let mut words = vec!["--limit", "2"];
        words.extend(cursor.iter().flat_map(|cursor| ["--cursor", cursor]));
        let ran = list(&words);
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        pages.push(named(&ran, kind, key));
        let summary = ran.summary();
        assert_eq!(summary["count"], pages.last().map_or(0, Vec::len));
        assert_eq!(summary["truncated"], summary["next_cursor"].is_string());
        match summary["next_cursor"].as_str() {
            Some(next) => cursor = Some(next.to_owned()),
            None => return pages,
        }
        assert!(pages.len() < 9, "{pages:?}");
    }
}

/// AOI-15-02, AOI-15-03, AOI-15-04, AOI-18.2-11.
#[test]
fn workspaces_are_listed_in_pages() {
    let place = Place::new();
    for name in ["one", "two", "three", "four", "five"] {
        let path = place.0.path().join(name);
        std::fs::create_dir(&path).expect("made");
        let ran = place.run(&["workspace", "add", path.to_str().expect("UTF-8")], "");
        assert_eq!(ran.code, Some(0), "{}", ran.err);
    }
    let list = |more: &[&str]| {
        let words = [&["workspace", "list", "--output", "jsonl"], more].concat();
        place.run(&words, "")
    };
    let whole = list(&[]);
    assert_eq!(whole.summary()["truncated"], false);
    let whole = named(&whole, "workspace", "slug");
    assert_eq!(whole.len(), 5);
    let pages = walk(&list, "workspace", "slug");
    assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 1]);
    assert_eq!(pages.concat(), whole);
    // Removing an earlier item does not shift the next page.
    let first = list(&["--limit", "2"]).summary();
    let next = first["next_cursor"].as_str().expect("a cursor");
    let gone = place.run(&["workspace", "remove", &whole[0]], "");
    assert_eq!(gone.code, Some(0), "{}", gone.err);
    let second = list(&["--limit", "2", "--cursor", next]);
    assert_eq!(named(&second, "workspace", "slug"), whole[2..4]);
    let gone = place.run(&["workspace", "remove", &whole[1]], "");
    assert_eq!(gone.code, Some(0), "{}", gone.err);
    for cursor in [next, "nonsense", ""] {
        let ran = list(&["--cursor", cursor]);
        assert_eq!(ran.code, Some(65), "{cursor}: {}", ran.out);
        assert_eq!(ran.error()["code"], "CURSOR_INVALID");
    }
    let words = ["workspace", "list", "--output", "json", "--limit", "1"];
    let document: Value = serde_json::from_str(&place.run(&words, "").out).expect("JSON");
    assert_eq!(document["workspaces"].as_array().map(Vec::len), Some(1));
    assert_eq!(document["truncated"], true);
    assert!(document["next_cursor"].is_string());
}

/// AOI-15-02, AOI-15-03, AOI-15-04, AOI-18.2-11.
#[test]
fn sessions_are_listed_in_pages() {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let host = Host::start(&path);
    let place = Place::new();
    let token = host.token_file();
    let host = [
        "sessions",
        "--url",
        &host.url,
        "--token-file",
        token.to_str().expect("UTF-8"),
    ];
    let list = |more: &[&str]| place.run(&[&host[..], &["--output", "jsonl"], more].concat(), "");
    let whole = named(&list(&[]), "host-session", "id");
    assert_eq!(whole.len(), 3);
    let pages = walk(&list, "host-session", "id");
    assert_eq!(pages.concat(), whole);
    assert_eq!(pages.len(), 2);
    let ran = list(&["--cursor", "nonsense"]);
    assert_eq!(ran.code, Some(65), "{}", ran.out);
    assert_eq!(ran.error()["code"], "CURSOR_INVALID");
    // A cursor is only valid for the list that it came from.
    let next = list(&["--limit", "2"]).summary()["next_cursor"].clone();
    let next = next.as_str().expect("a cursor");
    assert_eq!(list(&["--alive", "--cursor", next]).code, Some(65));
    let table = place.run(&[&host[..], &["--limit", "1"]].concat(), "");
    assert_eq!(table.out.lines().count(), 3, "{}", table.out);
    assert!(table.out.contains("more: --cursor "), "{}", table.out);
    let document = place.run(&[&host[..], &["--json", "--limit", "1"]].concat(), "");
    let document: Value = serde_json::from_str(&document.out).expect("JSON");
    assert_eq!(document["sessions"].as_array().map(Vec::len), Some(1));
    assert_eq!(document["truncated"], true);
    // Unbounded output has no pages.
    for endless in [&["--watch"][..], &["--attach", &whole[0]]] {
        let ran = list(&[endless, &["--limit", "1"]].concat());
        assert_eq!(ran.code, Some(64), "{}", ran.out);
    }
}
