//! Sessions and continuation: what ends a session, what keeps it, and questions that are answered
//! with content (A45-SESS-01 to 07, A45-CONT-03 to 14, A45-EVT-06).

use std::time::Duration;

use agentproto_daemon::model::{HistoryMessage, HistoryRole};
use agentproto_daemon::ring::FollowFrom;
use agentproto_daemon::{SessionRecord, SessionStatus, SpawnRequest};
use agentproto_runtime::arm::permissions::Answer;
use agentproto_suites::proves;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::host::{Host, adapter};
use super::served::{Served, command, work};

/// A host whose adapter `probe` is the mock agent with this `session` block.
fn host_with(session: &str, change: impl FnOnce(&mut agentproto_daemon::HostConfig)) -> Host {
    let dir = TempDir::new().expect("a directory");
    adapter(dir.path(), "probe", |text| {
        let from = text.find("session:").expect("a block");
        let to = text.find("capabilities:").expect("a block");
        format!("{}{session}\n{}", &text[..from], &text[to..])
    });
    Host::with(dir, change)
}

async fn started(host: &Host, request: SpawnRequest) -> SessionRecord {
    let session = host.spawn(request).await.expect("spawned");
    let ready = |s: &SessionRecord| s.status == SessionStatus::Running && !s.busy;
    // Polls, because a reader would count as a client.
    for _ in 0..600 {
        let now = host.registry.get(&session.id).expect("there");
        if ready(&now) {
            return now;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("not ready: {:?}", host.registry.get(&session.id));
}

async fn ended(host: &Host, id: &str) -> SessionRecord {
    for _ in 0..600 {
        let now = host.registry.get(id).expect("there");
        if !now.status.is_alive() {
            return now;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("still alive: {:?}", host.registry.get(id));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ephemeral_session_ends_with_its_last_client() {
    proves!("A45-SESS-01", "A45-SESS-05");
    let host = host_with("session: { mode: ephemeral }", |config| {
        config.reconnect_grace = Duration::from_millis(300);
    });
    let session = started(&host, host.request("probe")).await;
    // No client has connected yet, so none has disconnected.
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert!(
        host.registry
            .get(&session.id)
            .expect("there")
            .status
            .is_alive()
    );
    let follow = async || {
        host.registry
            .follow(&session.id, FollowFrom::Start)
            .await
            .expect("there")
    };
    // A client that reconnects in time keeps it.
    drop(follow().await);
    let second = follow().await;
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert!(
        host.registry
            .get(&session.id)
            .expect("there")
            .status
            .is_alive()
    );
    drop(second);
    let record = ended(&host, &session.id).await;
    assert_eq!(record.status, SessionStatus::Exited);
    assert!(record.reason.expect("a reason").contains("ephemeral"));
    host.registry.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn other_sessions_survive_a_disconnect_until_they_are_idle() {
    proves!("A45-SESS-02", "A45-SESS-06");
    for session in [
        "session: { mode: persistent, idle_timeout_ms: 1500 }",
        "session: { idle_timeout_ms: 1500 }",
    ] {
        let host = host_with(session, |config| {
            config.reconnect_grace = Duration::from_millis(100)
        });
        let session = started(&host, host.request("probe")).await;
        let follower = host.registry.follow(&session.id, FollowFrom::Start).await;
        drop(follower.expect("there"));
        tokio::time::sleep(Duration::from_millis(500)).await;
        let mut follower = host
            .registry
            .follow(&session.id, FollowFrom::Now)
            .await
            .expect("there");
        assert!(
            host.registry
                .get(&session.id)
                .expect("there")
                .status
                .is_alive()
        );
        // Clients that watch it get an event that says that it ends, and why.
        let seen = tokio::spawn(async move {
            let mut text = String::new();
            while let Some(frames) = follower.next().await {
                for frame in frames {
                    text.push_str(&String::from_utf8_lossy(&frame));
                }
            }
            text
        });
        let record = ended(&host, &session.id).await;
        assert_eq!(record.status, SessionStatus::Exited);
        assert!(
            record
                .reason
                .as_deref()
                .is_some_and(|why| why.contains("idle for 1.5 s")),
            "{record:?}"
        );
        let seen = seen.await.expect("read");
        assert!(
            seen.contains("it was idle for 1.5 s") && seen.contains("\"reason\""),
            "{seen}"
        );
        host.registry.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_hosts_idle_timeout_replaces_the_manifests() {
    proves!("A45-SESS-02");
    let host = host_with(
        "session: { mode: persistent, idle_timeout_ms: 1000 }",
        |config| {
            config.idle_timeout = Some(Duration::from_secs(3600));
        },
    );
    let session = started(&host, host.request("probe")).await;
    tokio::time::sleep(Duration::from_millis(2000)).await;
    assert!(
        host.registry
            .get(&session.id)
            .expect("there")
            .status
            .is_alive()
    );
    host.registry.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_uses_its_live_session_again() {
    proves!("A45-CONT-04", "A45-CONT-13", "A45-CONT-14");
    let host = Host::new();
    let request = |conversation: &str, operator: Option<&str>| SpawnRequest {
        conversation: Some(conversation.to_owned()),
        operator: operator.map(str::to_owned),
        ..host.request("mock-acp")
    };
    let first = started(&host, request("a", None)).await;
    assert_eq!(first.conversation.as_deref(), Some("a"));
    host.turn(&first.id, "apple").await;
    let again = host.spawn(request("a", None)).await.expect("found");
    assert_eq!(again.id, first.id);
    host.turn(&again.id, "what did I say before?").await;
    let lines = host.lines(&first.id).await;
    assert!(
        lines
            .iter()
            .any(|line| line.starts_with("Turn 2") && line.contains("apple")),
        "{lines:?}"
    );
    // Another conversation, and another operator, has another process.
    for other in [request("b", None), request("a", Some("op"))] {
        assert_ne!(host.spawn(other).await.expect("started").id, first.id);
    }
    // Two requests at once start one process.
    let (one, two) = tokio::join!(
        host.spawn(request("c", None)),
        host.spawn(request("c", None))
    );
    assert_eq!(one.expect("started").id, two.expect("found").id);
    // Other choices need a new process.
    let changed = SpawnRequest {
        mode: Some("careful".to_owned()),
        ..request("a", None)
    };
    let changed = host.spawn(changed).await.expect("started");
    assert_ne!(changed.id, first.id);
    assert_eq!(
        host.registry.get(&first.id).expect("there").status,
        SessionStatus::Killed
    );
    host.registry.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_strategy_of_a_request_decides_about_its_turns() {
    proves!("A45-CONT-02", "A45-CONT-03", "A45-CONT-07", "A45-CONT-10");
    let host = Host::new();
    let with = |continuation: &str| SpawnRequest {
        continuation: Some(continuation.to_owned()),
        ..host.request("mock-acp")
    };
    // A new session per turn: the second turn of the same session is refused.
    let none = started(&host, with("none")).await;
    host.turn(&none.id, "one").await;
    let refused = host.registry.prompt(&none.id, "two".to_owned()).await;
    assert_eq!(refused.expect_err("spent").code, "turns_spent");
    // Without a strategy, the session stays open (AIP-46).
    let open = started(&host, host.request("mock-acp")).await;
    host.turn(&open.id, "one").await;
    host.turn(&open.id, "two").await;
    let message = |role, text: &str| HistoryMessage {
        role,
        text: text.to_owned(),
    };
    let transcript = SpawnRequest {
        history: vec![
            message(HistoryRole::User, "pear"),
            message(HistoryRole::Agent, "noted"),
        ],
        prompt: Some("and now".to_owned()),
        ..with("transcript")
    };
    let told = host.spawn(transcript.clone()).await.expect("spawned");
    host.until(&told.id, |s| s.status == SessionStatus::Running && !s.busy)
        .await;
    let lines = host.lines(&told.id).await;
    assert!(lines.iter().any(|line| line.contains("pear")), "{lines:?}");
    for wrong in [
        with("telepathy"),
        SpawnRequest {
            continuation: Some("none".to_owned()),
            ..transcript
        },
        SpawnRequest {
            conversation: Some("a".to_owned()),
            ..with("native-resume")
        },
        SpawnRequest {
            adapter: "mock-repl".to_owned(),
            ..with("pinned-session")
        },
    ] {
        let error = host.spawn(wrong.clone()).await.expect_err("refused");
        assert_eq!(
            (error.status, error.code),
            (400, "continuation_unsupported"),
            "{wrong:?}"
        );
    }
    host.registry.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_is_answered_with_content_that_fits_it() {
    proves!("A45-EVT-06");
    let host = Host::new();
    let session = host.running("elicitation").await;
    let id = &session.id;
    host.registry.prompt(id, "go".into()).await.expect("taken");
    let asked = host.until(id, |s| !s.pending_permissions.is_empty()).await;
    let question = asked.pending_permissions[0].clone();
    let schema = question.schema.expect("a schema");
    assert_eq!(schema["required"], json!(["color", "number"]));
    let answer = |content: Value| {
        host.registry
            .answer(id, &question.id, Answer::Content(content))
    };
    for wrong in [
        json!("blue"),
        json!({ "color": "blue" }),
        json!({ "color": "blue", "number": "3" }),
    ] {
        let error = answer(wrong.clone()).expect_err("does not fit");
        assert_eq!(
            (error.status, error.code),
            (400, "answer_invalid"),
            "{wrong}"
        );
    }
    answer(json!({ "color": "blue", "number": 3 })).expect("taken");
    host.until(id, |s| !s.busy).await;
    let lines = host.lines(id).await;
    assert!(lines.iter().any(|line| line == "3 in blue."), "{lines:?}");
    host.registry.shutdown().await;
}

#[test]
fn a_form_is_answered_over_http() {
    proves!("A45-EVT-06");
    let host = Served::new();
    let id = host.running("default");
    let mut stream = host.stream(&id, "?from=now", "");
    host.post(
        &format!("/sessions/{id}/prompt"),
        &json!({ "prompt": "ask a question" }),
    );
    let asked = stream.until(|event, _| event == "permission");
    let question = asked.last().expect("one").data.clone();
    let path = format!(
        "/sessions/{id}/permissions/{}",
        question["id"].as_str().expect("an id")
    );
    let both = json!({ "content": { "color": "blue" }, "optionId": "decline" });
    assert_eq!(host.post(&path, &both).refusal(400), "bad_request");
    let refused = host.post(&path, &json!({ "content": { "color": 7 } }));
    assert_eq!(refused.refusal(400), "answer_invalid");
    assert_eq!(refused.json()["error"]["details"]["pointer"], "/color");
    assert_eq!(
        host.post(&path, &json!({ "content": { "color": "blue" } }))
            .json()["ok"],
        true
    );
    let rest = stream.until(|event, data| event == "status" && data["busy"] == false);
    assert!(
        rest.iter().any(|m| m.data["line"] == "You like blue."),
        "{rest:?}"
    );
    // A permission request does not accept content.
    host.post(
        &format!("/sessions/{id}/prompt"),
        &json!({ "prompt": "ask for permission" }),
    );
    let asked = stream.until(|event, data| event == "permission" && data["options"].is_array());
    let question = asked.last().expect("one").data.clone();
    let path = format!(
        "/sessions/{id}/permissions/{}",
        question["id"].as_str().expect("an id")
    );
    assert_eq!(
        host.post(&path, &json!({ "content": "yes" })).refusal(400),
        "answer_invalid"
    );
}

/// `agentproto run` next to a daemon.
fn run(host: &Served, args: &[&str]) -> (i32, Vec<Value>) {
    let mut command = command(host.dir.path());
    let output = command
        .args(["run", "--output", "jsonl"])
        .args(args)
        .output()
        .expect("started");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let lines = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"));
    (output.status.code().unwrap_or(-1), lines.collect())
}

fn text(events: &[Value]) -> String {
    let deltas = events.iter().filter(|event| event["type"] == "text-delta");
    deltas.filter_map(|event| event["text"].as_str()).collect()
}

fn error(events: &[Value]) -> Value {
    let error = events.iter().find(|event| event["type"] == "aoi:error");
    error.expect("an error").clone()
}

#[test]
fn a_conversation_continues_from_the_command_line() {
    proves!("A45-CONT-04");
    let host = Served::new();
    let turn = |args: &[&str]| {
        run(
            &host,
            &[&["mock-acp", "--conversation", "c1"], args].concat(),
        )
    };
    let (code, events) = turn(&["--prompt", "apple"]);
    assert_eq!(
        (code, text(&events).as_str()),
        (0, "You said: apple"),
        "{events:?}"
    );
    assert_eq!(events.iter().filter(|e| e["type"] == "turn-end").count(), 1);
    let (code, events) = turn(&["--prompt", "what did I say before?"]);
    assert_eq!(code, 0, "{events:?}");
    assert!(text(&events).contains("apple"), "{events:?}");
    let live = host.get("/sessions?alive=true").json()["sessions"]
        .as_array()
        .map(Vec::len);
    assert_eq!(live, Some(1));
    // Permission requests follow the options of this run.
    let (_, events) = turn(&["--prompt", "ask for permission"]);
    assert!(!text(&events).contains("allowed"), "{events:?}");
    let asked = events.iter().find(|event| event["type"] == "agent-prompt");
    assert_eq!(asked.expect("asked")["decision"], "deny", "{events:?}");
    assert_eq!(events.last().expect("a summary")["denied"], 1, "{events:?}");
    let (_, events) = turn(&["--yes", "--prompt", "ask for permission"]);
    assert!(text(&events).contains("allowed"), "{events:?}");
    // Options are sent with their type, and change the process.
    let (code, events) = turn(&["--option", "loud=true", "--prompt", "show argv"]);
    assert!(code == 0 && text(&events).contains("--loud"), "{events:?}");
    let (code, events) = run(
        &host,
        &["mock-repl", "--conversation", "c", "--prompt", "x"],
    );
    assert_eq!(
        (code, &error(&events)["code"]),
        (64, &json!("CONTINUATION_UNSUPPORTED"))
    );
    let path = work(host.dir.path());
    let path = path.to_string_lossy();
    let (code, events) = run(&host, &[&path, "--conversation", "c", "--prompt", "x"]);
    assert_eq!(
        (code, &error(&events)["code"]),
        (64, &json!("CONTINUATION_UNSUPPORTED"))
    );
}

#[test]
fn without_a_daemon_a_conversation_is_refused_with_the_reason() {
    let dir = TempDir::new().expect("a directory");
    let mut command = command(dir.path());
    let args = [
        "run",
        "mock-acp",
        "-o",
        "jsonl",
        "--conversation",
        "c",
        "--prompt",
        "x",
    ];
    let output = command.args(args).output().expect("started");
    assert_eq!(output.status.code(), Some(69));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        text.contains("NO_HOST") && text.contains("agentproto serve"),
        "{text}"
    );
}

#[test]
fn the_idle_timeout_of_serve_applies_to_its_sessions() {
    proves!("A45-SESS-02");
    let host = Served::on(
        TempDir::new().expect("a directory"),
        &["--idle-timeout", "1"],
    );
    let id = host.running("default");
    let stream = host.stream(&id, "", "");
    let seen = stream.read_out();
    let last = seen
        .iter()
        .rev()
        .find(|m| m.event == "status")
        .expect("a status");
    assert_eq!(last.data["status"], "exited");
    assert!(
        last.data["reason"]
            .as_str()
            .is_some_and(|why| why.contains("idle for 1 s")),
        "{last:?}"
    );
}
