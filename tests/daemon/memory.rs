//! State that survives a restart of the daemon (A46-REF-02, A46-REF-03).

use super::host::{Host, all};
use agentproto_daemon::SessionStatus;
use agentproto_daemon::ring::FollowFrom;
use serde_json::Value;

/// Runs a host that ends without a shutdown: the runtime is dropped.
fn first_life(dir: tempfile::TempDir, scene: impl AsyncFnOnce(&Host)) -> tempfile::TempDir {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let dir = runtime.block_on(async {
        let host = Host::in_dir(dir);
        scene(&host).await;
        host.dir
    });
    runtime.shutdown_timeout(std::time::Duration::from_secs(5));
    dir
}

#[test]
fn an_unclean_end_leaves_no_live_sessions() {
    let dir = tempfile::TempDir::new().expect("a directory");
    let mut ids = Vec::new();
    let dir = first_life(dir, async |host| {
        let idle = host.running("default").await;
        host.turn(&idle.id, "a finished turn").await;
        let busy = host.running("default").await;
        host.registry
            .prompt(&busy.id, "be slow".into())
            .await
            .expect("taken");
        let killed = host.running("default").await;
        host.registry.kill(&killed.id).await.expect("there");
        ids = vec![idle.id, busy.id, killed.id];
    });
    first_life(dir, async |host| {
        let [idle, busy, killed] = [0, 1, 2].map(|n| host.registry.get(&ids[n]).expect("kept"));
        assert_eq!(killed.status, SessionStatus::Killed);
        for session in [&idle, &busy] {
            assert_eq!(session.status, SessionStatus::Error);
            assert!(!session.busy && session.ended_at.is_some());
            assert!(
                session
                    .reason
                    .as_deref()
                    .is_some_and(|r| r.contains("host ended"))
            );
        }
        let lines = host.lines(&idle.id).await;
        assert!(
            lines.iter().any(|l| l.contains("a finished turn")),
            "{lines:?}"
        );
        let lines = host.lines(&busy.id).await;
        assert_eq!(
            lines.last().map(String::as_str),
            Some("── turn-end (error) ──")
        );
        let seen = all(host
            .registry
            .follow(&busy.id, FollowFrom::Start)
            .await
            .expect("there"))
        .await;
        let last = seen.last().expect("some");
        assert_eq!(
            (last.0.as_str(), last.1["status"].as_str()),
            ("status", Some("error"))
        );
        // The mock agent is resumable: it continues the conversation.
        let again = host
            .registry
            .resume(&idle.id, agentproto_daemon::model::Principal::Local)
            .await
            .expect("resumed");
        assert_eq!(again.resumed_from.as_deref(), Some(idle.id.as_str()));
        host.until(&again.id, |s| s.status == SessionStatus::Running)
            .await;
        host.turn(&again.id, "what did I say before?").await;
        let lines = host.lines(&again.id).await;
        assert!(
            lines.iter().any(|l| l.contains("a finished turn")),
            "{lines:?}"
        );
    });
}

#[test]
fn damaged_state_is_moved_aside_and_reported() {
    let dir = tempfile::TempDir::new().expect("a directory");
    let mut id = String::new();
    let dir = first_life(dir, async |host| {
        let session = host.running("default").await;
        host.registry.shutdown().await;
        id = session.id;
    });
    let home = dir.path().join("home");
    let listed: Value =
        serde_json::from_slice(&std::fs::read(home.join("sessions.json")).expect("there"))
            .expect("JSON");
    assert_eq!(listed["sessions"][0]["id"], id.as_str());
    std::fs::write(home.join("sessions.json"), b"{ not json").expect("written");
    let dir = first_life(dir, async |host| {
        assert!(
            host.warnings.iter().any(|w| w.contains("sessions.json")),
            "{:?}",
            host.warnings
        );
        assert!(host.registry.get(&id).is_ok(), "restored from the log");
    });
    std::fs::write(home.join("sessions.db"), vec![7; 8192]).expect("written");
    let _ = std::fs::remove_file(home.join("sessions.db-wal"));
    first_life(dir, async |host| {
        assert!(
            host.warnings
                .iter()
                .any(|w| w.contains("session log was damaged")),
            "{:?}",
            host.warnings
        );
        assert!(
            host.registry.get(&id).is_ok(),
            "restored from the JSON file"
        );
        let kept = std::fs::read_dir(&home)
            .expect("there")
            .filter_map(Result::ok);
        let kept = kept.filter(|e| e.file_name().to_string_lossy().contains(".damaged-"));
        assert_eq!(kept.count(), 2);
    });
}

#[test]
fn the_oldest_sessions_are_removed_first() {
    let dir = tempfile::TempDir::new().expect("a directory");
    let mut ids = Vec::new();
    let dir = first_life(dir, async |host| {
        for _ in 0..3 {
            let session = host.running("default").await;
            host.registry.kill(&session.id).await.expect("there");
            ids.push(session.id);
        }
        host.registry.shutdown().await;
    });
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let mut config = super::host::config(dir.path());
        config.max_ended = 2;
        let (registry, _) = agentproto_daemon::Registry::open(config).expect("opened");
        let left: Vec<String> = registry.list(false).into_iter().map(|s| s.id).collect();
        assert_eq!(left, ids[1..]);
    });
}
