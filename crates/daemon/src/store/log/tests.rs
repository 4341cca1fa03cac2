//! Tests for the log.

use agentproto_suites::proves;

use super::*;

fn open(dir: &Path) -> SessionLog {
    SessionLog::open(&dir.join("sessions.db"), u64::MAX)
        .expect("opened")
        .0
}

fn line(seq: u64) -> LogItem {
    LogItem::new(1, seq, ItemKind::Line, &format!("\"{seq}\""))
}

/// A copy of the files as they would be after a crash now.
fn snapshot(from: &Path) -> tempfile::TempDir {
    let to = tempfile::tempdir().expect("a directory");
    for entry in std::fs::read_dir(from).expect("readable") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name");
        if !name.to_string_lossy().ends_with("-shm") {
            std::fs::copy(&path, to.path().join(name)).expect("copied");
        }
    }
    to
}

async fn seqs(log: &SessionLog, session: &str) -> Vec<u64> {
    let rows = log.page(session, 0, 1000).await;
    rows.iter().map(|row| row.seq).collect()
}

#[tokio::test]
async fn flushed_orders_survive_and_are_read_in_order() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = open(dir.path());
    log.append("a", line(0));
    log.flush().await;
    log.append("a", line(1));
    log.flush().await;
    // The database commits later, but the journal is already written.
    let found = snapshot(dir.path());
    log.append("a", line(2));
    assert_eq!(seqs(&open(found.path()), "a").await, [0, 1]);
    // A reader sees all earlier commands, flushed or not.
    assert_eq!(seqs(&log, "a").await, [0, 1, 2]);
    let found = snapshot(dir.path());
    assert_eq!(seqs(&open(found.path()), "a").await, [0, 1, 2]);
}

#[tokio::test]
async fn committed_orders_in_the_journal_are_not_replayed() {
    let dir = tempfile::tempdir().expect("a directory");
    {
        let log = open(dir.path());
        log.append("a", line(0));
        log.append("a", line(1));
        log.forget("a");
        log.append("b", line(0));
    }
    let path = dir.path().join("sessions.journal");
    let (mut journal, left) = Journal::open(&path).expect("opened");
    assert!(left.is_empty(), "an orderly end leaves nothing");
    let late = [
        (2, LogCommand::Item("a".into(), line(1))),
        (900, LogCommand::Item("b".into(), line(7))),
    ];
    let late = late.iter().map(|(n, command)| (*n, command));
    journal.save(late).expect("written");
    let log = open(dir.path());
    assert!(seqs(&log, "a").await.is_empty());
    assert_eq!(seqs(&log, "b").await, [0, 7]);
    assert!(log.shared.queue.0.lock().last >= 900, "numbers go on");
}

/// A task of a session may still write when the session is forgotten.
#[tokio::test]
async fn late_writes_do_not_restore_a_forgotten_session() {
    proves!("A46-HTTP-07");
    let dir = tempfile::tempdir().expect("a directory");
    let log = open(dir.path());
    let record = |id: &str| -> SessionRecord {
        let record = serde_json::json!({
            "id": id, "adapterSlug": "x", "workspaceSlug": "default", "cwd": "/",
            "status": "running", "startedAt": "2026-01-01T00:00:00Z",
        });
        serde_json::from_value(record).expect("a record")
    };
    for id in ["a", "b"] {
        log.record(record(id));
        log.append(id, line(0));
    }
    log.forget("a");
    log.record(record("a"));
    log.append("a", line(1));
    log.append("b", line(1));
    log.flush().await;
    for log in [open(snapshot(dir.path()).path()), log.clone()] {
        assert!(seqs(&log, "a").await.is_empty());
        assert_eq!(seqs(&log, "b").await, [0, 1]);
        let stored: Vec<String> = log.stored().into_iter().map(|s| s.session.id).collect();
        assert_eq!(stored, ["b"]);
    }
    assert_eq!(log.shared.bytes.load(Ordering::Acquire), 0);
    // No task can write any more, so the id need not be remembered.
    log.release("a");
    assert!(log.shared.queue.0.lock().forgotten.is_empty());
}
