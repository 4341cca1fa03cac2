//! Limits on session starts and on the output of one response, over HTTP and MCP.

use super::host::Host;
use super::near::Near;
use super::served::Served;
use agentproto_daemon::http::Rate;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A server that allows this many starts at once, and the next one only after 100 seconds.
async fn slow(burst: f64) -> Near {
    let dir = TempDir::new().expect("a directory");
    let host = Host::with(dir, |config| {
        config.starts = Rate {
            per_second: 0.01,
            burst,
        };
    });
    Near::of(host).await
}

#[tokio::test(flavor = "multi_thread")]
async fn session_starts_are_rate_limited() {
    let near = slow(2.0).await;
    let cwd = near.host.dir.path().join("work");
    let wanted = json!({ "adapter": "mock-acp", "cwd": cwd });
    let first = near.post("/sessions/agent", &wanted);
    assert_eq!(first.status, 201, "{first:?}");
    let by_tool = near.tool("start_agent_session", &wanted);
    assert_eq!(by_tool["isError"], json!(false), "{by_tool}");
    // HTTP and MCP share one token bucket, and a resume counts as a start.
    let refused = near.post("/sessions/agent", &wanted);
    assert_eq!(refused.refusal(429), "too_many_starts");
    let id = first.json()["id"].as_str().expect("an id").to_owned();
    near.post(&format!("/sessions/{id}/kill"), &json!({}));
    let resumed = near.post(&format!("/sessions/{id}/resume"), &json!({}));
    assert_eq!(resumed.refusal(429), "too_many_starts");
    let by_tool = near.tool("start_agent_session", &wanted);
    assert_eq!(by_tool["isError"], json!(true), "{by_tool}");
    let told: Value =
        serde_json::from_str(by_tool["content"][0]["text"].as_str().expect("text")).expect("JSON");
    assert_eq!(told["error"]["code"], "too_many_starts");
    // The refusal states the correct time to wait.
    let header = refused
        .head
        .lines()
        .find_map(|line| line.strip_prefix("retry-after: "));
    let seconds: u64 = header.expect("a header").parse().expect("seconds");
    assert!((90..=100).contains(&seconds), "{seconds}");
    assert_eq!(
        refused.json()["error"]["details"]["retryAfterSeconds"],
        seconds
    );
    assert!(refused.text.contains("--spawn-rate"), "{refused:?}");
    // Other requests still work, and the refused starts left nothing behind.
    assert_eq!(
        near.get("/sessions").json()["sessions"]
            .as_array()
            .map(Vec::len),
        Some(2)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_succeeds_after_the_stated_wait() {
    let dir = TempDir::new().expect("a directory");
    let host = Host::with(dir, |config| {
        config.starts = Rate {
            per_second: 1.0,
            burst: 1.0,
        };
    });
    let near = Near::of(host).await;
    let wanted = json!({ "adapter": "mock-acp", "cwd": near.host.dir.path().join("work") });
    assert_eq!(near.post("/sessions/agent", &wanted).status, 201);
    let refused = near.post("/sessions/agent", &wanted);
    assert_eq!(refused.refusal(429), "too_many_starts");
    assert!(refused.head.contains("retry-after: 1\r\n"), "{refused:?}");
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert_eq!(near.post("/sessions/agent", &wanted).status, 201);
}

// A46-MCP-05: a response has the last lines up to its size limit; the rest is in the history.
#[tokio::test(flavor = "multi_thread")]
async fn the_last_lines_are_limited_in_bytes_and_report_truncation() {
    let near = Near::of(Host::new()).await;
    let session = near.host.running("default").await;
    let path = |count: usize| format!("/sessions/{}/output?lastN={count}", session.id);
    near.host.turn(&session.id, "few words").await;
    let small = near.get(&path(1000)).json();
    assert_eq!(small["truncated"], json!(false), "{small}");
    // The newest part is in the ring buffer, the older part only in the log.
    let long = "a long line ".repeat(5_000);
    for _ in 0..40 {
        near.host.turn(&session.id, &long).await;
    }
    near.host.turn(&session.id, "the end").await;
    let by_http = near.get(&path(1000));
    let bytes = by_http.text.len();
    assert!((512 << 10..=(1 << 20) + 1024).contains(&bytes), "{bytes}");
    let by_http = by_http.json();
    assert_eq!(by_http["truncated"], json!(true));
    let lines = by_http["lines"].as_array().expect("lines");
    let last: Vec<&Value> = lines.iter().rev().take(2).collect();
    assert_eq!(last, ["── turn-end (end_turn) ──", "You said: the end"]);
    let by_tool = near.tool(
        "get_agent_session_output",
        &json!({ "sessionId": session.id, "lastN": 10_000 }),
    );
    assert_eq!(
        by_tool["structuredContent"], by_http,
        "the same over HTTP and MCP"
    );
    // Lines that fit are returned in full and not marked as truncated.
    let few = near.get(&path(4)).json();
    assert_eq!(few["truncated"], json!(false));
    assert_eq!(few["lines"].as_array().map(Vec::len), Some(4));
    assert_eq!(
        few["lines"].as_array().expect("lines")[..],
        lines[lines.len() - 4..]
    );
    // The output of an ended session is read from the log alone, with the same limit.
    near.host.registry.kill(&session.id).await.expect("killed");
    let ended = near.get(&path(1000)).json();
    assert_eq!(
        (&ended["truncated"], &ended["lines"]),
        (&json!(true), &by_http["lines"])
    );
}

// Failed attempts count as well, because looking up the adapter is work.
#[test]
fn the_start_rate_is_set_on_the_command_line() {
    let codes = |args: &[&str]| {
        let host = Served::on(TempDir::new().expect("a directory"), args);
        let wanted = json!({ "adapter": "no-such-agent" });
        let answers = (0..20).map(|_| host.post("/sessions/agent", &wanted));
        let codes = answers.map(|answer| answer.refusal(answer.status));
        codes.collect::<Vec<String>>()
    };
    let slow = codes(&["--spawn-rate", "1", "--max-sessions", "1"]);
    assert_eq!(slow[0], "adapter_not_found");
    assert!(slow.contains(&"too_many_starts".to_owned()), "{slow:?}");
    let usual = codes(&[]);
    assert!(
        usual.iter().all(|code| code == "adapter_not_found"),
        "{usual:?}"
    );
}
