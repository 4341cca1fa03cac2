//! Failures around the daemon, each with a clear result (A46-STATUS-06, 07, A46-REF-02).

use std::net::TcpListener;

use super::served::{Served, command, eventually, processes_of};
use rusqlite::Connection;
use serde_json::{Value, json};
use tempfile::TempDir;

// A46-STATUS-06.
#[test]
fn a_signal_ends_the_sessions_and_is_reported() {
    agentproto_suites::proves!("A46-STATUS-06", "A46-REF-02");
    let host = Served::new();
    let id = host.running("default");
    let busy = host.running("default");
    host.post(
        &format!("/sessions/{busy}/prompt"),
        &json!({ "prompt": "be slow" }),
    );
    let stream = host.stream(&busy, "", "");
    let place = host.dir.path().to_owned();
    let (status, events, dir) = host.stop();
    assert_eq!(status.code(), Some(143));
    let summary = events.last().expect("a summary");
    assert_eq!(
        (&summary["type"], &summary["reason"]),
        (&json!("aoi:summary"), &json!("interrupted"))
    );
    let seen = stream.read_out();
    let ends = seen
        .iter()
        .filter(|m| m.data["line"] == "── turn-end (cancelled) ──")
        .count();
    assert_eq!(ends, 1, "{seen:?}");
    assert!(!dir.path().join("home/runtime.json").exists());
    eventually("no process is left", || processes_of(&place).is_empty());
    let kept = std::fs::read(dir.path().join("home/sessions.json")).expect("there");
    let kept: Value = serde_json::from_slice(&kept).expect("JSON");
    for session in kept["sessions"].as_array().expect("a list") {
        assert_eq!(session["status"], "killed", "{session}");
    }
    let again = Served::on(dir, &[]);
    for id in [id, busy] {
        assert_eq!(
            again.get(&format!("/sessions/{id}")).json()["status"],
            "killed"
        );
    }
}

#[test]
fn an_occupied_port_or_state_directory_is_reported() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("bound");
    let port = taken.local_addr().expect("bound").port().to_string();
    let host = Served::new();
    let run = |dir: &std::path::Path, port: &str, output: &str| {
        let ran = command(dir)
            .args(["serve", "--port", port, "--output", output])
            .output();
        let ran = ran.expect("run");
        assert_eq!(ran.status.code(), Some(69), "{ran:?}");
        (
            String::from_utf8(ran.stdout).expect("UTF-8"),
            String::from_utf8(ran.stderr).expect("UTF-8"),
        )
    };
    let dir = TempDir::new().expect("a directory");
    let (_, said) = run(dir.path(), &port, "human");
    assert!(
        said.contains("port_taken") && said.contains("--port 0"),
        "{said}"
    );
    let (events, _) = run(dir.path(), &port, "jsonl");
    let events: Vec<Value> = events
        .lines()
        .map(|l| serde_json::from_str(l).expect("JSON"))
        .collect();
    let kinds: Vec<&str> = events.iter().filter_map(|e| e["type"].as_str()).collect();
    assert_eq!(kinds, ["aoi:meta", "aoi:error", "aoi:summary"]);
    let (_, said) = run(host.dir.path(), "0", "human");
    assert!(
        said.contains("already_serving") && said.contains(&host.address),
        "{said}"
    );
    assert_eq!(
        host.get("/sessions").status,
        200,
        "the first daemon still works"
    );
}

/// Kills the daemon during a turn and checks what it reports after a restart.
fn killed_in_the_middle(dir: TempDir) -> TempDir {
    let host = Served::on(dir, &[]);
    let idle = host.running("default");
    host.turn(&idle, "a finished turn");
    let busy = host.running("default");
    host.post(
        &format!("/sessions/{busy}/prompt"),
        &json!({ "prompt": "be slow" }),
    );
    host.signal(libc::SIGKILL);
    let (_, _, dir) = host.ended();
    let place = dir.path().to_owned();
    eventually("no agent survives its host", || {
        processes_of(&place).is_empty()
    });
    let kept = std::fs::read(dir.path().join("home/sessions.json")).expect("there");
    serde_json::from_slice::<Value>(&kept).expect("valid JSON after every kill");
    let again = Served::on(dir, &[]);
    for id in [&idle, &busy] {
        let session = again.get(&format!("/sessions/{id}")).json();
        assert_eq!(session["status"], "error", "{session}");
        assert_eq!(session["busy"], false);
        assert!(
            session["reason"]
                .as_str()
                .is_some_and(|r| r.contains("host ended")),
            "{session}"
        );
    }
    let lines = again.lines(&idle);
    assert!(
        lines.iter().any(|l| l == "You said: a finished turn"),
        "{lines:?}"
    );
    assert_eq!(
        again.lines(&busy).last().map(String::as_str),
        Some("── turn-end (error) ──")
    );
    again.stop().2
}

#[test]
fn a_killed_daemon_leaves_no_live_sessions() {
    let mut dir = TempDir::new().expect("a directory");
    for _ in 0..2 {
        dir = killed_in_the_middle(dir);
    }
}

#[test]
fn damaged_files_are_moved_aside_and_reported() {
    let host = Served::new();
    let id = host.running("default");
    host.turn(&id, "hello");
    let (_, _, dir) = host.stop();
    let home = dir.path().join("home");
    std::fs::write(home.join("sessions.json"), "{\"sessions\": [").expect("written");
    let host = Served::on(dir, &[]);
    let warned = host
        .said
        .iter()
        .find(|e| e["type"] == "aoi:warning")
        .expect("a warning");
    assert!(
        warned["message"]
            .as_str()
            .is_some_and(|m| m.contains("sessions.json")),
        "{warned}"
    );
    let kept = || {
        std::fs::read_dir(host.home())
            .expect("there")
            .filter_map(Result::ok)
    };
    let aside = kept().find(|e| {
        e.file_name()
            .to_string_lossy()
            .starts_with("sessions.json.damaged-")
    });
    let aside = std::fs::read_to_string(aside.expect("kept").path()).expect("readable");
    assert_eq!(aside, "{\"sessions\": [");
    assert_eq!(
        host.get(&format!("/sessions/{id}")).json()["status"],
        "killed",
        "restored from the log"
    );

    std::fs::write(host.home().join("workspaces.json"), "no JSON").expect("written");
    let refused = host.post("/sessions/agent", &json!({ "adapter": "mock-acp" }));
    assert_eq!(refused.refusal(422), "manifest_invalid");
    assert_eq!(host.get("/workspaces").refusal(422), "manifest_invalid");
    std::fs::remove_file(host.home().join("workspaces.json")).expect("removed");

    let (_, _, dir) = host.stop();
    std::fs::write(dir.path().join("home/sessions.db"), "x".repeat(5000)).expect("written");
    // Without this, SQLite could restore the database from the write-ahead log.
    let _ = std::fs::remove_file(dir.path().join("home/sessions.db-wal"));
    let host = Served::on(dir, &[]);
    assert!(
        host.said.iter().any(|e| e["type"] == "aoi:warning"),
        "{:?}",
        host.said
    );
    assert_eq!(
        host.get(&format!("/sessions/{id}")).json()["status"],
        "killed",
        "restored from the JSON file"
    );
    let new = host.running("default");
    host.turn(&new, "hello");
}

// The clock went back, so the timestamps of earlier sessions are in the future.
#[test]
fn a_clock_jump_does_not_change_sessions() {
    let host = Served::new();
    let id = host.running("default");
    host.turn(&id, "hello");
    host.post(&format!("/sessions/{id}/kill"), &json!({}));
    let before = host.stream(&id, "", "").read_out();
    let (_, _, dir) = host.stop();
    let log = Connection::open(dir.path().join("home/sessions.db")).expect("opened");
    let text: String = log
        .query_row("SELECT record FROM records", [], |row| row.get(0))
        .expect("one");
    let mut record: Value = serde_json::from_str(&text).expect("JSON");
    for field in ["startedAt", "endedAt", "lastOutputAt"] {
        record[field] = json!("2999-01-01T00:00:00.000Z");
    }
    let changed = log.execute(
        "UPDATE records SET started_at = ?1, record = ?2",
        ["2999-01-01T00:00:00.000Z", &record.to_string()],
    );
    assert_eq!(changed.expect("written"), 1);
    drop(log);
    let host = Served::on(dir, &[]);
    let new = host.running("default");
    host.turn(&new, "hello again");
    let after = host.stream(&id, "", "").read_out();
    assert_eq!(after.len(), before.len());
    let header = format!(
        "Last-Event-ID: {}\r\n",
        before[2].id.as_deref().expect("an id")
    );
    assert_eq!(
        host.stream(&id, "", &header).read_out().len(),
        before.len() - 3
    );
    assert_eq!(
        host.get("/sessions").json()["sessions"]
            .as_array()
            .map(Vec::len),
        Some(2)
    );
}

#[test]
fn the_history_is_limited_to_ten_thousand_sessions() {
    let host = Served::new();
    let id = host.running("default");
    host.turn(&id, "hello");
    let (_, _, dir) = host.stop();
    let mut log = Connection::open(dir.path().join("home/sessions.db")).expect("opened");
    let text: String = log
        .query_row("SELECT record FROM records", [], |row| row.get(0))
        .expect("one");
    let mut record: Value = serde_json::from_str(&text).expect("JSON");
    record["startedAt"] = json!("2001-01-01T00:00:00.000Z");
    // The format of earlier versions, which is converted.
    let old = "CREATE TABLE sessions (id TEXT PRIMARY KEY, started_at TEXT, record TEXT);
        CREATE TABLE items (session TEXT, seq INTEGER, epoch INTEGER, kind TEXT, data TEXT);";
    log.execute_batch(old).expect("created");
    let filling = log.transaction().expect("begun");
    for n in 0..10_000 {
        let name = format!("ses_{n:024}");
        record["id"] = json!(name);
        let item = "{\"line\":\"old\",\"stream\":\"stdout\"}";
        filling
            .execute(
                "INSERT INTO sessions VALUES (?1, '2001-01-01T00:00:00.000Z', ?2)",
                [&name, &record.to_string()],
            )
            .expect("written");
        filling
            .execute(
                "INSERT INTO items VALUES (?1, 0, 1, 'line', ?2)",
                [&name, item],
            )
            .expect("written");
    }
    filling.commit().expect("written");
    drop(log);
    let host = Served::on(dir, &[]);
    let listed = host.get("/sessions").json();
    let listed = listed["sessions"].as_array().expect("a list");
    // One session was over the limit, so the oldest was removed.
    assert_eq!(listed.len(), 10_000);
    assert!(listed.iter().any(|s| s["id"] == id.as_str()));
    assert_eq!(host.lines("ses_000000000000000000009999"), ["old"]);
    let new = host.running("default");
    host.turn(&new, "hello");
    assert_eq!(
        host.delete("/sessions/ses_000000000000000000009999").json()["ok"],
        true
    );
}

// A46-STATUS-07: an agent that dies during a turn.
#[test]
fn an_agent_crash_ends_the_turn_with_an_error() {
    let host = Served::new();
    let id = host.running("crash");
    let stream = host.stream(&id, "?from=now", "");
    host.post(
        &format!("/sessions/{id}/prompt"),
        &json!({ "prompt": "crash" }),
    );
    let seen = stream.read_out();
    let lines: Vec<&str> = seen
        .iter()
        .filter_map(|m| m.data["line"].as_str())
        .collect();
    assert!(lines.iter().any(|l| l.starts_with("[error] ")), "{lines:?}");
    assert!(lines.contains(&"── turn-end (error) ──"), "{lines:?}");
    let last = seen.last().expect("an end");
    assert_eq!(last.data["status"], "error");
}

#[test]
fn max_sessions_is_enforced() {
    let host = Served::on(
        TempDir::new().expect("a directory"),
        &["--max-sessions", "1"],
    );
    let id = host.running("default");
    let refused = host.post("/sessions/agent", &json!({ "adapter": "mock-acp" }));
    assert_eq!(refused.refusal(429), "too_many_sessions");
    host.post(&format!("/sessions/{id}/kill"), &json!({}));
    host.running("default");
}

/// The daemon disables huge pages for itself. Agents keep the system's setting: the processes that
/// start them have it. The mock agent itself is this program, and disables them as well.
#[test]
fn only_the_daemon_disables_huge_pages() {
    let host = Served::new();
    host.running("default");
    let allowed = |pid: u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find(|l| l.starts_with("THP_enabled:"))?;
        line.split_whitespace().nth(1).map(str::to_owned)
    };
    let ours = allowed(std::process::id()).expect("the kernel reports it since Linux 5.0");
    assert_eq!(allowed(host.child.id()).as_deref(), Some("0"));
    let work = super::served::work(host.dir.path());
    let is_mock = |pid: u32| {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.split(|byte| *byte == 0).any(|word| word == b"mock")
    };
    let agents: Vec<String> = processes_of(&work)
        .into_iter()
        .filter(|pid| *pid != host.child.id() && !is_mock(*pid))
        .filter_map(allowed)
        .collect();
    assert!(!agents.is_empty());
    assert!(agents.iter().all(|agent| *agent == ours), "{agents:?}");
}

/// Files below a directory that contain a text.
fn files_with(dir: &std::path::Path, text: &str) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files_with(&path, text));
        } else if std::fs::read(&path).is_ok_and(|bytes| {
            bytes
                .windows(text.len())
                .any(|part| part == text.as_bytes())
        }) {
            found.push(path);
        }
    }
    found
}

/// What a deleted session has said is in no file any more: not in the database, not in its
/// write-ahead log, and not in the journal.
#[test]
fn the_output_of_a_deleted_session_is_gone_from_disk() {
    agentproto_suites::proves!("A46-HTTP-07");
    let host = Served::new();
    let home = host.home();
    let kept = host.running("default");
    host.turn(&kept, "heron");
    for is_busy in [false, true] {
        let id = host.running("default");
        for n in 0..20 {
            host.turn(&id, &format!("kingfisher number {n}"));
        }
        if is_busy {
            host.post(
                &format!("/sessions/{id}/prompt"),
                &json!({ "prompt": "be slow with the kingfisher" }),
            );
        }
        eventually("the output is stored", || {
            !files_with(&home, "kingfisher").is_empty()
        });
        assert_eq!(host.delete(&format!("/sessions/{id}")).status, 200);
        eventually("the output is gone", || {
            files_with(&home, "kingfisher").is_empty()
        });
        eventually("the record is gone", || {
            files_with(&home, &id).iter().all(|file| {
                // The ids of forgotten sessions are kept, and the audit log is not history.
                let name = file.to_string_lossy();
                name.contains("sessions.db") || name.contains("audit")
            })
        });
        assert!(!files_with(&home, "heron").is_empty(), "the other session");
    }
}

/// The list of sessions is written later than the answer.
#[test]
fn a_deleted_session_does_not_return_after_a_crash() {
    let mut host = Served::new();
    for _ in 0..3 {
        let id = host.running("default");
        let list = host.home().join("sessions.json");
        eventually("the session is in the list", || {
            std::fs::read_to_string(&list).is_ok_and(|text| text.contains(&id))
        });
        assert_eq!(host.delete(&format!("/sessions/{id}")).status, 200);
        host.signal(libc::SIGKILL);
        let (_, _, dir) = host.ended();
        eventually("no process is left", || processes_of(dir.path()).is_empty());
        host = Served::on(dir, &[]);
        assert_eq!(host.get("/sessions").json(), json!({ "sessions": [] }));
    }
}
