//! Event streams over a socket: replay, gaps, readers that do not read (A46-SSE-01 to 04).

use super::served::{Served, Stream, eventually};
use serde_json::json;

fn ids(host: &Served, id: &str) -> Vec<String> {
    let mut all = Vec::new();
    let mut after = String::new();
    loop {
        let path = format!("/sessions/{id}/events?limit=1000&after={after}");
        let page = host.get(&path).json();
        let events = page["events"].as_array().expect("a list");
        all.extend(
            events
                .iter()
                .map(|e| e["id"].as_str().expect("an id").to_owned()),
        );
        match page["next"].as_str() {
            Some(next) => after = next.to_owned(),
            None => return all,
        }
    }
}

fn seen_ids(stream: Stream) -> Vec<String> {
    let seen = stream.read_out();
    assert!(seen.iter().all(|m| m.event != "gap"), "{seen:?}");
    seen.into_iter().filter_map(|m| m.id).collect()
}

#[test]
fn a_reader_resumes_from_ring_log_and_after_a_restart() {
    let host = Served::new();
    let id = host.running("default");
    host.turn(&id, "a thought");
    host.turn(&id, "use a tool");
    host.post(&format!("/sessions/{id}/kill"), &json!({}));
    let all = ids(&host, &id);
    assert!(all.len() > 12, "{all:?}");
    let check = |host: &Served| {
        for n in [0, 1, all.len() / 2, all.len() - 1] {
            let header = format!("Last-Event-ID: {}\r\n", all[n]);
            assert_eq!(seen_ids(host.stream(&id, "", &header)), all[n + 1..], "{n}");
            let query = format!("?after={}", all[n]);
            assert_eq!(seen_ids(host.stream(&id, &query, "")), all[n + 1..], "{n}");
        }
        assert_eq!(seen_ids(host.stream(&id, "", "")), all);
        assert!(seen_ids(host.stream(&id, "?from=now", "")).is_empty());
        for odd in ["x", "0-0", "ffff-3"] {
            let seen = host
                .stream(&id, "", &format!("Last-Event-ID: {odd}\r\n"))
                .read_out();
            assert_eq!(seen[0].event, "gap", "{odd}: {seen:?}");
        }
    };
    check(&host);
    let (_, _, dir) = host.stop();
    check(&Served::on(dir, &[]));
}

#[test]
fn every_kind_of_event_has_the_expected_fields() {
    agentproto_suites::proves!("A46-SSE-04", "A46-PROJ-09");
    let host = Served::new();
    let id = host.running("default");
    for prompt in ["a thought", "use a tool", "hello"] {
        host.turn(&id, prompt);
    }
    host.post(&format!("/sessions/{id}/kill"), &json!({}));
    let seen = host.stream(&id, "", "").read_out();
    for message in &seen {
        match message.event.as_str() {
            // A46-SSE-02, 03.
            "line" => {
                assert!(message.data["line"].is_string(), "{message:?}");
                let stream = message.data["stream"].as_str();
                assert!(matches!(stream, Some("stdout" | "stderr")), "{message:?}");
                let line = message.data["line"].as_str().unwrap_or_default();
                assert!(!line.contains(['\n', '\u{1b}']), "{message:?}");
            }
            "status" => assert!(message.data["status"].is_string(), "{message:?}"),
            "prompt" => assert!(message.data["prompt"].is_string(), "{message:?}"),
            "event" => assert!(message.data["type"].is_string(), "{message:?}"),
            "end" => assert!(message.id.is_none()),
            other => panic!("{other}: {message:?}"),
        }
    }
    // A46-PROJ-02 to 07: the lines in the ring buffer.
    let lines: Vec<&str> = seen
        .iter()
        .filter_map(|m| m.data["line"].as_str())
        .collect();
    for wanted in [
        "[thought] Let me think.Thinking is done.",
        "[tool] Search the notes",
        "You said: hello",
    ] {
        assert!(lines.contains(&wanted), "{wanted}: {lines:?}");
    }
    assert_eq!(
        lines
            .iter()
            .filter(|l| **l == "── turn-end (end_turn) ──")
            .count(),
        3
    );
}

#[test]
fn a_stuck_reader_does_not_block_others() {
    let host = Served::new();
    let id = host.running("flood");
    // These readers never read, so their sockets fill up.
    let stuck: Vec<Stream> = (0..3).map(|_| host.stream(&id, "", "")).collect();
    host.turn(&id, "flood");
    host.post(&format!("/sessions/{id}/kill"), &json!({}));
    let all = host.stream(&id, "", "").read_out();
    assert!(all.len() > 1000, "{}", all.len());
    // A late reader gets every event, or a gap that says what is missing.
    let late = stuck.into_iter().next().expect("one").read_out();
    let got = late.iter().filter(|m| m.id.is_some()).count();
    let gaps = late.iter().filter(|m| m.event == "gap").count();
    let whole = ids(&host, &id).len();
    assert!(got == whole || gaps > 0, "{got} of {whole}, {gaps} gaps");
}

#[test]
fn sockets_of_disconnected_readers_are_closed() {
    let host = Served::new();
    let id = host.running("default");
    let open = || {
        let fds = std::fs::read_dir(format!("/proc/{}/fd", host.child.id()));
        fds.expect("readable").count()
    };
    let before = open();
    let readers: Vec<Stream> = (0..50).map(|_| host.stream(&id, "", "")).collect();
    eventually("all readers are connected", || open() >= before + 50);
    drop(readers);
    // The host notices on the next write: an event, or the keep-alive every 25 seconds.
    eventually("their sockets are closed", || {
        host.turn(&id, "hello");
        open() < before + 10
    });
}
