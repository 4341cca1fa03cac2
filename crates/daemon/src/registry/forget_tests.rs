//! A forgotten session stays forgotten, whatever its tasks write afterwards.

use std::path::Path;
use std::sync::Arc;

use agentproto_runtime::home::Home;
use agentproto_runtime::{StopReason, StreamEvent};
use agentproto_suites::proves;
use serde_json::json;

use super::entry::SessionEntry;
use super::{HostConfig, Registry, turn};
use crate::model::{SessionRecord, SessionStatus};
use crate::ring::{Channel, ItemKind};

fn open(dir: &Path) -> Registry {
    Registry::open(HostConfig::new(Home::new(dir)))
        .expect("opened")
        .0
}

/// A session without an agent.
fn insert(registry: &Registry, id: &str) -> Arc<SessionEntry> {
    let record = json!({
        "id": id, "adapterSlug": "x", "workspaceSlug": "default", "cwd": "/",
        "status": "running", "startedAt": "2026-01-01T00:00:00Z",
    });
    let record: SessionRecord = serde_json::from_value(record).expect("a record");
    let shared = &registry.shared;
    let channel = Channel::new(id, shared.epoch, 0, false, shared.log.clone());
    let entry = registry.new_entry(record, channel);
    entry.update(|_| {});
    registry.insert(Arc::clone(&entry));
    entry
}

/// The ids of the sessions after a crash now.
async fn after_a_crash(registry: &Registry, dir: &Path) -> Vec<String> {
    registry.shared.log.flush().await;
    let copy = tempfile::tempdir().expect("a directory");
    for entry in std::fs::read_dir(dir).expect("readable") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name");
        if path.is_file() && !name.to_string_lossy().ends_with("-shm") {
            std::fs::copy(&path, copy.path().join(name)).expect("copied");
        }
    }
    let found = open(copy.path()).list(false);
    found.into_iter().map(|session| session.id).collect()
}

/// What late writers write.
const LATE: &str = "kingfisher";

/// Whether a file of the history has what a late writer wrote.
async fn is_on_disk(registry: &Registry, dir: &Path) -> bool {
    registry.shared.log.wait_committed().await;
    let has_text = || {
        let files = std::fs::read_dir(dir).expect("readable");
        let files = files.map(|entry| entry.expect("an entry").path());
        let mut texts = files.filter_map(|path| std::fs::read(path).ok());
        texts.any(|text| text.windows(LATE.len()).any(|part| part == LATE.as_bytes()))
    };
    // Twice, because a checkpoint may move it from one file to another meanwhile.
    has_text() || has_text()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_late_writer_restores_a_forgotten_session() {
    proves!("A46-HTTP-07");
    let dir = tempfile::tempdir().expect("a directory");
    let registry = open(dir.path());
    let kept = insert(&registry, "ses_kept");
    type Write = fn(&Arc<SessionEntry>);
    let writers: [(&str, Write); 6] = [
        ("agent_session_id", |entry| {
            entry.update(|record| record.agent_session_id = Some(LATE.to_owned()));
        }),
        ("status", |entry| {
            entry.set_status(SessionStatus::Exited, |_| {});
        }),
        ("output", |entry| {
            entry.lines(&[crate::project::warning(LATE)])
        }),
        ("warning", |entry| entry.warn("late", LATE)),
        ("an event", |entry| {
            entry
                .channel
                .push(ItemKind::Event, &json!({ "type": "thought", "text": LATE }));
        }),
        ("a record", |entry| entry.store(entry.snapshot())),
    ];
    for (n, (what, write)) in writers.into_iter().enumerate() {
        let entry = insert(&registry, &format!("ses_{n}"));
        // Without the deletion, it is there after a crash.
        assert_eq!(
            after_a_crash(&registry, dir.path()).await.len(),
            2,
            "{what}"
        );
        forget(&registry, &entry).await;
        write(&entry);
        assert_eq!(
            after_a_crash(&registry, dir.path()).await,
            ["ses_kept"],
            "{what}"
        );
        assert!(!is_on_disk(&registry, dir.path()).await, "{what}");
    }
    let entry = insert(&registry, "ses_usage");
    forget(&registry, &entry).await;
    let mut end = StreamEvent::turn_end(StopReason::EndTurn);
    if let StreamEvent::TurnEnd { usage, .. } = &mut end {
        *usage = Some(json!({ "inputTokens": 1 }));
    }
    turn::publish_end(&entry, &end).await;
    assert_eq!(entry.snapshot().usage.input_tokens, Some(1));
    assert_eq!(after_a_crash(&registry, dir.path()).await, ["ses_kept"]);
    // The same output of another session is there.
    kept.lines(&[crate::project::warning(LATE)]);
    assert!(is_on_disk(&registry, dir.path()).await);
}

/// Does the same as `Registry::forget`, without the kill, because no agent could end the session.
async fn forget(registry: &Registry, entry: &Arc<SessionEntry>) {
    assert!(registry.remove(entry).await, "it was there");
}

/// `sessions.json` is written some time after a change.
#[tokio::test(flavor = "multi_thread")]
async fn a_stale_list_of_sessions_does_not_restore_a_forgotten_one() {
    proves!("A46-HTTP-07");
    let dir = tempfile::tempdir().expect("a directory");
    let registry = open(dir.path());
    insert(&registry, "ses_kept");
    let entry = insert(&registry, "ses_gone");
    registry.shared.file.write(&registry.list(false));
    let listed = std::fs::read(dir.path().join("sessions.json")).expect("written");
    forget(&registry, &entry).await;
    drop(entry);
    std::fs::write(dir.path().join("sessions.json"), listed).expect("written");
    assert_eq!(after_a_crash(&registry, dir.path()).await, ["ses_kept"]);
}
