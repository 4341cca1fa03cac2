//! Data and floods of an agent, and long logs.

use super::*;

#[test]
fn data_of_an_agent_cannot_break_the_log() {
    let bench = Bench::new();
    let audit = open(&bench.home);
    let deep = (0..126).fold(json!(1), |inner, _| json!([inner]));
    let long = "x".repeat(9 << 20);
    for args in [deep, json!({ "text": long })] {
        let data = json!({ "id": "t1", "name": "Edit", "args": args });
        audit.record("tool.call", data).expect("written");
    }
    let id = "y".repeat(MAX_DATA);
    audit
        .record("tool.result", json!({ "id": id, "ok": true }))
        .expect("written");
    let small = json!({ "id": "t2", "args": { "list": [[["kept"]]] } });
    audit.record("tool.call", small.clone()).expect("written");
    drop(audit);
    let audit = open(&bench.home);
    audit.record("next.run", json!({})).expect("still writable");
    assert_eq!(bench.verify().expect("whole").events, 11);
    let lines = bench.lines();
    let entries: Vec<Value> = lines
        .iter()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert!(lines.concat().len() < 2 * MAX_DATA);
    assert_eq!(entries[7]["data"]["name"], "Edit");
    // `{"text":"…"}` adds eleven bytes to the text.
    assert_eq!(entries[7]["data"]["args"]["bytes"], (9 << 20) + 11);
    assert_eq!(entries[8]["data"]["ok"], true);
    assert_eq!(entries[9]["data"], small);
}

#[test]
fn a_flood_of_refusals_is_counted_but_not_written_one_by_one() {
    let bench = Bench::empty();
    let audit = open(&bench.home);
    for n in 0..10_000 {
        let data = json!({ "event": "refused", "host": format!("{n}.example") });
        audit
            .record_refusal("egress.refused", "network.egress", data)
            .expect("recorded");
    }
    audit.record("session.close", json!({})).expect("recorded");
    audit.flush().expect("recorded");
    audit
        .record_refusal("egress.refused", "network.egress", json!({"host": "next"}))
        .expect("recorded");
    drop(audit);
    let entries: Vec<Value> = bench
        .lines()
        .iter()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert!(entries.len() < 40, "{}", entries.len());
    let of = |entry: &Value| entry["data"]["count"].as_u64().unwrap_or(1);
    let refused = entries.iter().filter(|e| e["event"] == "network.egress");
    assert_eq!(refused.map(of).sum::<u64>(), 10_001);
    let summary = &entries[entries.len() - 2]["data"];
    assert_eq!(summary["host"], "9999.example");
    assert!(bench.verify().is_ok());
}

#[test]
fn requests_that_are_carried_out_are_summarized_after_many() {
    let bench = Bench::empty();
    let audit = open(&bench.home);
    for n in 0..MAX_REQUESTS + 500 {
        let data = json!({ "path": format!("/work/{n}") });
        audit.record_request("fs.read", data).expect("recorded");
    }
    audit
        .record_request("fs.write", json!({ "path": "/work/x" }))
        .expect("recorded");
    drop(audit);
    let lines = bench.lines();
    assert!(lines.len() as u64 <= MAX_REQUESTS + 20, "{}", lines.len());
    let entries: Vec<Value> = lines
        .iter()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let reads = entries.iter().filter(|e| e["event"] == "fs.read");
    let count: u64 = reads
        .map(|e| e["data"]["count"].as_u64().unwrap_or(1))
        .sum();
    assert_eq!(count, MAX_REQUESTS + 500);
    let write = entries.iter().find(|e| e["event"] == "fs.write");
    assert_eq!(write.expect("there")["data"], json!({ "path": "/work/x" }));
}

/// A summary is written when the turn ends, and the newest refusal may be older.
#[test]
fn a_summary_has_the_time_of_its_newest_refusal() {
    let bench = Bench::empty();
    let audit = open(&bench.home);
    for _ in 0..30 {
        audit
            .record_refusal("fs.read", "fs.read", json!({}))
            .expect("recorded");
    }
    let last = time::now();
    std::thread::sleep(std::time::Duration::from_millis(1100));
    audit.flush().expect("recorded");
    audit.flush().expect("nothing left");
    let lines = bench.lines();
    assert_eq!(lines.len(), 21);
    let first: Value = serde_json::from_str(&lines[0]).expect("JSON");
    assert_eq!(first["data"], json!({}));
    let summary: Value = serde_json::from_str(&lines[20]).expect("JSON");
    assert_eq!(summary["data"]["count"], 10);
    let newest = summary["data"]["last_ts"].as_str().expect("a time");
    assert!(newest <= last.as_str(), "{newest}, {last}");
    assert!(summary["ts"].as_str() > Some(newest), "{summary}");
}

#[test]
fn refusals_are_counted_when_a_session_ends_without_a_close() {
    let bench = Bench::empty();
    let audit = open(&bench.home);
    for _ in 0..100 {
        audit
            .record_refusal("fs.read", "fs.read", json!({}))
            .expect("recorded");
    }
    drop(audit);
    let lines = bench.lines();
    assert_eq!(lines.len(), 21);
    assert!(lines[20].contains("\"count\":80"), "{}", lines[20]);
}

#[test]
fn a_long_log_is_verified_in_linear_time() {
    let time = |events: u64| {
        let bench = Bench::empty();
        let audit = open(&bench.home);
        for n in 0..events {
            audit
                .record("test.step", json!({ "n": n, "text": "some text" }))
                .expect("written");
        }
        let started = std::time::Instant::now();
        assert_eq!(bench.verify().expect("whole").events, events);
        started.elapsed()
    };
    let (short, long) = (time(500), time(5_000));
    assert!(long < short * 40, "{short:?} {long:?}");
}
