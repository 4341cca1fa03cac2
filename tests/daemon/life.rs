//! A session from spawn to end (A46-STATUS-01 to 09, A46-TURN-01 to 05).

use super::host::{Host, all};
use agentproto_daemon::SessionStatus;
use agentproto_daemon::ring::FollowFrom;
use agentproto_runtime::arm::permissions::Answer;
use agentproto_suites::proves;

#[tokio::test(flavor = "multi_thread")]
async fn turns_share_one_process_and_run_one_at_a_time() {
    let host = Host::new();
    let mut request = host.request("mock-acp");
    request.label = Some("a label".into());
    let spawned = host.spawn(request).await.expect("spawned");
    assert_eq!(spawned.status, SessionStatus::Starting);
    assert_eq!(spawned.adapter_slug, "mock-acp");
    assert_eq!(spawned.workspace_slug, "default");
    assert_eq!(spawned.label.as_deref(), Some("a label"));
    let id = spawned.id;
    let running = host
        .until(&id, |s| s.status == SessionStatus::Running)
        .await;
    assert!(running.ended_at.is_none() && running.exit_code.is_none());
    host.registry
        .prompt(&id, "be slow".into())
        .await
        .expect("taken");
    let refused = host
        .registry
        .prompt(&id, "again".into())
        .await
        .expect_err("only one turn at a time");
    assert_eq!((refused.status, refused.code), (409, "session_busy"));
    assert!(host.registry.interrupt(&id).await.expect("there"));
    host.until(&id, |s| !s.busy).await;
    assert!(!host.registry.interrupt(&id).await.expect("idempotent"));
    host.turn(&id, "apple").await;
    let after = host.turn(&id, "what did I say before?").await;
    assert_eq!((after.status, after.turns), (SessionStatus::Running, 3));
    let lines = host.lines(&id).await;
    assert!(lines.iter().any(|line| line.contains("apple")), "{lines:?}");
    assert!(
        lines.contains(&"── turn-end (cancelled) ──".to_owned()),
        "{lines:?}"
    );
    assert_eq!(
        lines
            .iter()
            .filter(|l| l.as_str() == "── turn-end (end_turn) ──")
            .count(),
        2
    );
    assert!(host.registry.kill(&id).await.expect("there"));
    assert!(
        !host.registry.kill(&id).await.expect("there"),
        "the session had ended"
    );
    let killed = host.registry.get(&id).expect("there");
    assert_eq!(killed.status, SessionStatus::Killed);
    assert!(killed.ended_at.is_some());
    let late = host
        .registry
        .prompt(&id, "x".into())
        .await
        .expect_err("ended");
    assert_eq!((late.status, late.code), (409, "session_ended"));
    assert!(host.registry.forget(&id).await.expect("there"));
    assert_eq!(host.registry.get(&id).expect_err("forgotten").status, 404);
    assert!(host.registry.list(false).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_prompt_waits_for_the_agent() {
    let host = Host::new();
    let mut request = host.request("mock-acp");
    request.prompt = Some("hello there".into());
    let spawned = host.spawn(request).await.expect("spawned");
    assert!(spawned.busy);
    let refused = host
        .registry
        .prompt(&spawned.id, "x".into())
        .await
        .expect_err("only one turn at a time");
    assert_eq!(refused.status, 409);
    let after = host.until(&spawned.id, |s| s.turns == 1 && !s.busy).await;
    assert_eq!(after.status, SessionStatus::Running);
    let lines = host.lines(&spawned.id).await;
    assert!(
        lines.iter().any(|line| line.contains("hello there")),
        "{lines:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_turn_ends_exactly_once() {
    let host = Host::new();
    let session = host.running("default").await;
    let follower = host
        .registry
        .follow(&session.id, FollowFrom::Start)
        .await
        .expect("there");
    host.registry
        .prompt(&session.id, "be slow".into())
        .await
        .expect("taken");
    host.registry.kill(&session.id).await.expect("there");
    let seen = all(follower).await;
    let ends = seen.iter().filter(|(kind, data)| {
        kind == "line"
            && data["line"]
                .as_str()
                .is_some_and(|l| l.starts_with("── turn-end"))
    });
    assert_eq!(ends.count(), 1, "{seen:?}");
    let last = seen.last().expect("some");
    assert_eq!(
        (last.0.as_str(), last.1["status"].as_str()),
        ("status", Some("killed"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_crash_during_a_turn_is_an_error() {
    agentproto_suites::proves!("A46-STATUS-07");
    let host = Host::new();
    let session = host.running("crash").await;
    let follower = host
        .registry
        .follow(&session.id, FollowFrom::Start)
        .await
        .expect("there");
    host.registry
        .prompt(&session.id, "crash".into())
        .await
        .expect("taken");
    let seen = all(follower).await;
    let ended = host.registry.get(&session.id).expect("there");
    assert_eq!(ended.status, SessionStatus::Error, "{seen:?}");
    assert!(
        ended.exit_code.is_some() && ended.reason.is_some(),
        "{ended:?}"
    );
    let lines = host.lines(&session.id).await;
    let error = lines.iter().position(|line| line.starts_with("[error] "));
    let end = lines
        .iter()
        .position(|line| line == "── turn-end (error) ──");
    assert!(error < end && error.is_some(), "{lines:?}");
    assert!(ended.last_output_at.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_cannot_start_is_an_error_after_the_spawn() {
    agentproto_suites::proves!("A46-STATUS-02", "A46-PROJ-08");
    let host = Host::new();
    let session = host.running("exit-at-once").await;
    assert_eq!(session.status, SessionStatus::Error);
    let lines = host.lines(&session.id).await;
    let error = lines.iter().position(|line| line.starts_with("[error] "));
    let error = error.unwrap_or_else(|| panic!("{lines:?}"));
    let stderr = "I cannot find my configuration";
    let rest = &lines[error..];
    assert!(rest.iter().any(|line| line.contains(stderr)), "{lines:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_killed_before_it_was_ready_never_ran() {
    let host = Host::new();
    let mut request = host.request("mock-acp");
    let options = [("scenario".to_owned(), serde_json::json!("never-starts"))];
    request.options = Some(options.into_iter().collect());
    let spawned = host.spawn(request).await.expect("spawned");
    assert!(host.registry.kill(&spawned.id).await.expect("there"));
    let ended = host.registry.get(&spawned.id).expect("there");
    assert_eq!(ended.status, SessionStatus::Killed);
    assert!(
        ended
            .reason
            .expect("a reason")
            .contains("before the agent was ready")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_requests_are_refused_before_a_process_starts() {
    let host = Host::new();
    let refused = async |change: &dyn Fn(&mut agentproto_daemon::SpawnRequest)| {
        let mut request = host.request("mock-acp");
        change(&mut request);
        let error = host.spawn(request).await.expect_err("refused");
        assert!(error.hint.is_some(), "{error:?}");
        (error.status, error.code)
    };
    assert_eq!(
        refused(&|r| r.adapter = "mock-acq".into()).await,
        (404, "adapter_not_found")
    );
    assert_eq!(
        refused(&|r| r.adapter = "../mock-acp".into()).await,
        (400, "bad_request")
    );
    assert_eq!(
        refused(&|r| r.cwd = Some("work".into())).await,
        (400, "bad_request")
    );
    assert_eq!(
        refused(&|r| r.cwd = Some("/nowhere/at/all".into())).await,
        (422, "cwd_missing")
    );
    assert_eq!(
        refused(&|r| r.mode = Some("odd".into())).await,
        (400, "mode_unknown")
    );
    assert_eq!(
        refused(&|r| r.resume = Some("ses_0".into())).await,
        (404, "session_not_found")
    );
    assert!(host.registry.list(false).is_empty());
}

// A46-COMPAT-03.
#[tokio::test(flavor = "multi_thread")]
async fn a_host_without_adapters_suggests_installing_one() {
    let mut host = Host::new();
    let mut config = super::host::config(&host.dir.path().join("bare"));
    config.bundled = false;
    (host.registry, host.warnings) = agentproto_daemon::Registry::open(config).expect("opened");
    let error = host
        .spawn(host.request("mock-acp"))
        .await
        .expect_err("refused");
    assert_eq!((error.status, error.code), (501, "no_adapters"));
    assert!(error.hint.expect("a hint").contains("agentproto install"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_stays_open_until_it_is_answered() {
    let host = Host::new();
    let session = host.running("default").await;
    let id = &session.id;
    host.registry
        .prompt(id, "ask for permission".into())
        .await
        .expect("taken");
    let asked = host.until(id, |s| !s.pending_permissions.is_empty()).await;
    let question = asked.pending_permissions.first().expect("one").clone();
    let refused = host
        .registry
        .answer(id, &question.id, Answer::Choice("odd".into()));
    assert_eq!(refused.expect_err("not one of the options").status, 400);
    let refused = host.registry.answer(id, "odd", Answer::Cancelled);
    assert_eq!(refused.expect_err("unknown question").status, 404);
    let allow = question
        .options
        .iter()
        .find(|o| o.kind.as_deref() == Some("allow_once"));
    let allow = allow.expect("offered").id.clone();
    host.registry
        .answer(id, &question.id, Answer::Choice(allow))
        .expect("taken");
    let after = host.until(id, |s| !s.busy).await;
    assert!(after.pending_permissions.is_empty());
    let lines = host.lines(id).await;
    assert!(
        lines
            .iter()
            .any(|line| line.starts_with("[awaiting input]")),
        "{lines:?}"
    );
}

// A46-SCOPE-03: adapters of every protocol arm work through the same routes.
#[tokio::test(flavor = "multi_thread")]
async fn every_protocol_arm() {
    agentproto_suites::proves!("A46-SCOPE-02", "A46-SCOPE-03", "A46-STATUS-06");
    let host = Host::new();
    for adapter in ["mock-acp", "mock-mcp", "mock-repl"] {
        let session = host.spawn(host.request(adapter)).await.expect("spawned");
        host.until(&session.id, |s| s.status == SessionStatus::Running)
            .await;
        host.turn(&session.id, "hello").await;
        let lines = host.lines(&session.id).await;
        assert!(
            lines.iter().any(|line| line.contains("hello")),
            "{adapter}: {lines:?}"
        );
    }
    assert_eq!(host.registry.list(true).len(), 3);
    host.registry.shutdown().await;
    let all = host.registry.list(false);
    assert!(
        all.iter().all(|s| s.status == SessionStatus::Killed),
        "{all:?}"
    );
    let refused = host
        .spawn(host.request("mock-acp"))
        .await
        .expect_err("stopping");
    assert_eq!(refused.status, 503);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_manifest_is_refused_before_a_session_exists() {
    agentproto_suites::proves!("A45-CONF-01");
    let flavored = |host: &Host| {
        super::host::adapter(host.dir.path(), "flavored", |text| {
            text.replace("tags: [mock, acp]", "tags: [mock, acp]\nflavor: sweet")
        });
    };
    let host = Host::new();
    flavored(&host);
    let refused = host.spawn(host.request("flavored")).await;
    let refused = refused.expect_err("refused");
    assert_eq!((refused.status, refused.code), (422, "manifest_invalid"));
    let finding = &refused.details["findings"][0];
    assert_eq!(finding["rule"], "fm-unknown-field");
    assert_eq!(finding["pointer"], "/flavor");
    assert!(host.registry.list(false).is_empty());
    let dir = tempfile::tempdir().expect("a directory");
    let host = Host::with(dir, |config| config.allow_invalid = true);
    flavored(&host);
    let session = host.spawn(host.request("flavored")).await.expect("allowed");
    let warnings = &host.registry.get(&session.id).expect("there").warnings;
    assert!(
        warnings.iter().any(|w| w.code == "manifest_invalid"),
        "{warnings:?}"
    );
}

// A46-STATUS-03.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_exits_between_turns_has_status_exited() {
    agentproto_suites::proves!("A46-STATUS-03");
    let host = Host::new();
    super::host::adapter(host.dir.path(), "sleepy", |text| {
        text.replace("idle_timeout_ms: 600000", "idle_timeout_ms: 1000")
    });
    let session = host.spawn(host.request("sleepy")).await.expect("spawned");
    let ended = host.until(&session.id, |s| !s.status.is_alive()).await;
    assert_eq!(ended.status, SessionStatus::Exited, "{ended:?}");
    assert_eq!(ended.exit_code, Some(0), "{ended:?}");
    let seen = all(host
        .registry
        .follow(&session.id, FollowFrom::Start)
        .await
        .expect("there"))
    .await;
    let statuses = seen.iter().filter(|(kind, _)| kind == "status");
    let statuses: Vec<&str> = statuses
        .filter_map(|(_, data)| data["status"].as_str())
        .collect();
    assert_eq!(statuses, ["starting", "running", "exited"]);
}

// A46-SEC-04: a secret given to the agent does not appear in the output.
#[tokio::test(flavor = "multi_thread")]
async fn a_secret_does_not_reach_the_ring_buffer() {
    agentproto_suites::proves!("A46-SEC-04", "A45-AUTH-05");
    let mut host = Host::new();
    host.with_secret("hunter22-of-the-test");
    let session = host.spawn(host.request("keyed")).await.expect("spawned");
    host.until(&session.id, |s| s.status == SessionStatus::Running)
        .await;
    host.turn(&session.id, "show env MOCK_KEY").await;
    let lines = host.lines(&session.id).await.join("\n");
    assert!(
        lines.contains("[secret]") && !lines.contains("hunter22"),
        "{lines}"
    );
    host.registry.shutdown().await;
    for entry in std::fs::read_dir(host.dir.path().join("home")).expect("there") {
        let path = entry.expect("there").path();
        if path.is_file() {
            let bytes = std::fs::read(&path).expect("readable");
            let text = String::from_utf8_lossy(&bytes).into_owned();
            assert!(!text.contains("hunter22"), "{}", path.display());
        }
    }
}

/// A task of the session may still write when it is deleted.
#[tokio::test(flavor = "multi_thread")]
async fn a_forgotten_session_stays_forgotten_after_a_restart() {
    proves!("A46-HTTP-07");
    let host = Host::new();
    let kept = host.running("default").await;
    for n in 0..8 {
        let session = host.running("default").await;
        if n % 2 == 0 {
            host.registry
                .prompt(&session.id, "hello".into())
                .await
                .expect("taken");
        }
        assert!(host.registry.forget(&session.id).await.expect("there"));
    }
    host.registry.shutdown().await;
    let Host { dir, registry, .. } = host;
    drop(registry);
    let host = Host::in_dir(dir);
    let ids: Vec<String> = host
        .registry
        .list(false)
        .into_iter()
        .map(|s| s.id)
        .collect();
    assert_eq!(ids, [kept.id]);
}

/// The audit log distinguishes sessions of one adapter.
#[tokio::test(flavor = "multi_thread")]
async fn audit_events_name_the_session() {
    proves!("A44-AUDIT-03");
    let host = Host::new();
    let first = host.running("default").await;
    let second = host.running("default").await;
    host.turn(&second.id, "use a tool").await;
    host.turn(&first.id, "use a tool").await;
    let log = host.dir.path().join("home/audit/audit-log.jsonl");
    let log = std::fs::read_to_string(log).expect("a log");
    let sessions: Vec<String> = log
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"))
        .filter(|event| event["kind"] == "tool-call")
        .map(|event| event["session"].as_str().expect("a session").to_owned())
        .collect();
    assert_eq!(sessions, [second.id, first.id]);
}
