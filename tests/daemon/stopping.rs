//! The end of an agent under the daemon: end of stdin, SIGTERM, and five seconds later SIGKILL
//! (AIP-45), the same as under `run`.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::json;
use tempfile::TempDir;

use super::served::{Served, eventually, processes_of};

/// Saves its work for four seconds after SIGTERM. It does not answer `connect` in a directory with
/// a file `slow`.
const AGENT: &str = r#"#!/bin/sh
trap 'sleep 4; echo saved > saved; exit 0' TERM
echo > started
while IFS= read -r line; do
  case $line in
    *'"op":"connect"'*) [ -e slow ] || echo '{"type":"connected","sessionId":"s"}' ;;
    *'"op":"send"'*) printf '%s\n' '{"type":"text-delta","text":"working\n"}' ;;
  esac
done
while :; do sleep 1; done
"#;

fn host() -> Served {
    let dir = TempDir::new().expect("a directory");
    let bundle = dir.path().join("home/adapters/diligent");
    std::fs::create_dir_all(&bundle).expect("made");
    let bundles = agentproto_mock_agents::bundles();
    let mock = bundles.iter().find(|b| b.name == "mock-repl");
    for (path, bytes, _) in mock.expect("there").files {
        let text = String::from_utf8_lossy(bytes).replace("mock-repl", "diligent");
        let text = text.replace(
            "codec: claude-stream-json",
            "adapter_exec: [sh, ./agent.sh]",
        );
        std::fs::write(bundle.join(path), text).expect("written");
    }
    std::fs::write(bundle.join("agent.sh"), AGENT).expect("written");
    Served::on(dir, &[])
}

/// Starts a session in a directory of its own. Returns its id and the directory.
fn start(host: &Served, name: &str, prompt: Option<&str>) -> (String, PathBuf) {
    let cwd = host.dir.path().join(name);
    std::fs::create_dir_all(&cwd).expect("made");
    if name == "slow" {
        std::fs::write(cwd.join("slow"), "").expect("written");
    }
    let body = json!({ "adapter": "diligent", "cwd": cwd, "prompt": prompt });
    let started = host.post("/sessions/agent", &body);
    assert_eq!(started.status, 201, "{}", started.text);
    let id = started.json()["id"].as_str().expect("an id").to_owned();
    eventually("the agent has started", || cwd.join("started").exists());
    if prompt.is_some() {
        eventually("the turn has started", || {
            host.lines(&id).iter().any(|line| line == "working")
        });
    } else if name != "slow" {
        eventually("the session is running", || {
            host.get(&format!("/sessions/{id}")).json()["status"] == "running"
        });
    }
    (id, cwd)
}

fn has_saved(cwd: &Path) -> bool {
    std::fs::read_to_string(cwd.join("saved")).is_ok_and(|text| text == "saved\n")
}

#[test]
fn an_agent_that_saves_for_four_seconds_is_not_killed_before() {
    let host = host();
    let (idle, idle_cwd) = start(&host, "idle", None);
    let (busy, busy_cwd) = start(&host, "busy", Some("work"));
    let (slow, slow_cwd) = start(&host, "slow", None);
    let (_, last_cwd) = start(&host, "last", Some("work"));
    let kill = |id: &str| {
        host.post(&format!("/sessions/{id}/kill"), &json!({}))
            .status
    };
    // A kill, a deletion, and a kill before the agent was ready.
    std::thread::scope(|scope| {
        let killed = scope.spawn(|| kill(&idle));
        let deleted = scope.spawn(|| host.delete(&format!("/sessions/{busy}")).status);
        let early = scope.spawn(|| kill(&slow));
        for ended in [killed, deleted] {
            assert_eq!(ended.join().expect("answered"), 200);
        }
        assert_eq!(early.join().expect("answered"), 200);
    });
    for cwd in [idle_cwd, busy_cwd, slow_cwd] {
        assert!(has_saved(&cwd), "{}", cwd.display());
    }
    // The end of the daemon.
    assert!(!has_saved(&last_cwd));
    let (status, _, dir) = host.stop();
    assert_eq!(status.code(), Some(143));
    assert!(has_saved(&last_cwd));
    assert_eq!(processes_of(dir.path()), [0_u32; 0]);
}

/// Agents that exit when their session ends do not delay the end of the daemon.
#[test]
fn the_daemon_stops_within_three_seconds() {
    let host = Served::new();
    for _ in 0..3 {
        host.running("default");
    }
    let busy = host.running("slow");
    host.post(
        &format!("/sessions/{busy}/prompt"),
        &json!({ "prompt": "x" }),
    );
    let began = Instant::now();
    let (status, _, _dir) = host.stop();
    assert_eq!(status.code(), Some(143));
    let took = began.elapsed();
    assert!(took < Duration::from_secs(3), "{took:?}");
}
