//! How fast sessions may be started, and how much of their output comes at once, over both doors.

use super::host::Host;
use super::near::Near;
use super::served::Served;
use agentproto_daemon::http::Rate;
use serde_json::{Value, json};
use tempfile::TempDir;

/// So many at once, and the next one after a hundred seconds.
async fn slow(at_once: f64) -> Near {
    let dir = TempDir::new().expect("a directory");
    let host = Host::with(dir, |config| {
        config.starts = Rate {
            per_second: 0.01,
            at_once,
        };
    });
    Near::of(host).await
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_started_no_faster_than_the_host_lets() {
    let near = slow(2.0).await;
    let cwd = near.host.dir.path().join("work");
    let wanted = json!({ "adapter": "mock-acp", "cwd": cwd });
    let first = near.post("/sessions/agent", &wanted);
    assert_eq!(first.status, 201, "{first:?}");
    let by_tool = near.tool("start_agent_session", &wanted);
    assert_eq!(by_tool["isError"], json!(false), "{by_tool}");
    // Both doors draw from the same bucket, and a resume is a start.
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
    // How long to wait is told, and true.
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
    // Everything else goes on, and what was refused left nothing behind.
    assert_eq!(
        near.get("/sessions").json()["sessions"]
            .as_array()
            .map(Vec::len),
        Some(2)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_waits_as_long_as_told_may_start_again() {
    let dir = TempDir::new().expect("a directory");
    let host = Host::with(dir, |config| {
        config.starts = Rate {
            per_second: 1.0,
            at_once: 1.0,
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

// A46-MCP-05: the last lines, as far as one answer reaches, and the rest in the history.
#[tokio::test(flavor = "multi_thread")]
async fn the_last_lines_have_a_bound_in_bytes_and_say_when_they_are_cut() {
    let near = Near::of(Host::new()).await;
    let session = near.host.running("default").await;
    let path = |count: usize| format!("/sessions/{}/output?lastN={count}", session.id);
    near.host.turn(&session.id, "few words").await;
    let small = near.get(&path(1000)).json();
    assert_eq!(small["truncated"], json!(false), "{small}");
    // Some of it in the ring, the older part in the log alone.
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
        "the same by both doors"
    );
    // What fits is whole, and not said to be cut.
    let few = near.get(&path(4)).json();
    assert_eq!(few["truncated"], json!(false));
    assert_eq!(few["lines"].as_array().map(Vec::len), Some(4));
    assert_eq!(
        few["lines"].as_array().expect("lines")[..],
        lines[lines.len() - 4..]
    );
    // An ended session is read from the log alone, by the same rule.
    near.host.registry.kill(&session.id).await.expect("killed");
    let ended = near.get(&path(1000)).json();
    assert_eq!(
        (&ended["truncated"], &ended["lines"]),
        (&json!(true), &by_http["lines"])
    );
}

// An attempt counts, whatever becomes of it: looking for the adapter is work, too.
#[test]
fn the_rate_of_starts_is_that_of_the_command_line() {
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
