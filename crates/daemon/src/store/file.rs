//! `sessions.json` (A46-REF-02): rewritten as a whole shortly after each change.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::Notify;

use super::database::set_aside;
use crate::model::SessionRecord;
use agentproto_runtime::home::Home;

const NAME: &str = "sessions.json";
/// Debounce: many changes become one write.
const WRITE_DELAY: Duration = Duration::from_millis(250);

/// The contents of the file at start-up.
#[derive(Debug, Default)]
pub struct SavedSessions {
    pub sessions: Vec<SessionRecord>,
    /// Warning for the user who starts the daemon.
    pub warning: Option<String>,
}

/// Writes the file outside the async threads. A failed write is reported once, and retried with the
/// next change.
#[derive(Clone)]
pub struct SessionsFile {
    shared: Arc<Shared>,
}

struct Shared {
    home: Home,
    changed: Notify,
    writer: Mutex<WriterState>,
}

/// State of the writer, locked while it writes.
#[derive(Default)]
struct WriterState {
    /// Whether the last write failed, which was reported.
    is_reported: bool,
    /// Whether the last write was the final one.
    is_closed: bool,
}

impl SessionsFile {
    /// Reads the file. A file that cannot be parsed is moved aside and reported. Invalid sessions
    /// in it are skipped.
    pub fn open(home: &Home) -> (SessionsFile, SavedSessions) {
        let file = SessionsFile {
            shared: Arc::new(Shared {
                home: home.clone(),
                changed: Notify::new(),
                writer: Mutex::default(),
            }),
        };
        let bytes = match home.read(NAME) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return (file, SavedSessions::default()),
            Err(error) => {
                let warning = Some(error.message);
                return (
                    file,
                    SavedSessions {
                        sessions: Vec::new(),
                        warning,
                    },
                );
            }
        };
        let path = home.path(NAME);
        let listed = serde_json::from_slice::<serde_json::Value>(&bytes).ok();
        let listed = listed.and_then(|value| value.get("sessions")?.as_array().cloned());
        let Some(listed) = listed else {
            let outcome = match set_aside(&path) {
                Ok(moved_to) => format!("it was moved to `{}`", moved_to.display()),
                Err(error) => format!("it cannot be moved: {error}"),
            };
            let warning = format!(
                "cannot read `{}` as a list of sessions; {outcome}",
                path.display()
            );
            return (
                file,
                SavedSessions {
                    sessions: Vec::new(),
                    warning: Some(warning),
                },
            );
        };
        let all = listed.len();
        let sessions: Vec<SessionRecord> = listed
            .into_iter()
            .filter_map(|s| serde_json::from_value(s).ok())
            .collect();
        let warning = (sessions.len() < all).then(|| {
            format!(
                "skipped {} of {all} sessions in `{}`: they cannot be read",
                all - sessions.len(),
                path.display()
            )
        });
        (file, SavedSessions { sessions, warning })
    }

    /// Schedules a write after a change.
    pub fn touch(&self) {
        self.shared.changed.notify_one();
    }

    /// Writes after each change, until the registry is dropped.
    pub async fn follow(self, sessions: impl Fn() -> Option<Vec<SessionRecord>> + Send + 'static) {
        let mut pause = WRITE_DELAY;
        loop {
            self.shared.changed.notified().await;
            tokio::time::sleep(pause).await;
            let Some(sessions) = sessions() else { return };
            let file = self.clone();
            let started = Instant::now();
            let written = tokio::task::spawn_blocking(move || file.write(&sessions));
            let _ = written.await;
            // A long history takes longer to write, so it is written less often.
            pause = WRITE_DELAY.max(10 * started.elapsed());
        }
    }

    /// Writes the file now.
    pub fn write(&self, sessions: &[SessionRecord]) {
        self.write_with(sessions, &mut self.shared.writer.lock());
    }

    /// Writes the file for the last time. A write that is still scheduled does nothing, because
    /// the caller may remove the directory now.
    pub fn close(&self, sessions: &[SessionRecord]) {
        let mut writer = self.shared.writer.lock();
        self.write_with(sessions, &mut writer);
        writer.is_closed = true;
    }

    fn write_with(&self, sessions: &[SessionRecord], writer: &mut WriterState) {
        if writer.is_closed {
            return;
        }
        let mut bytes = serde_json::to_vec_pretty(&json!({ "version": 1, "sessions": sessions }))
            .unwrap_or_default();
        bytes.push(b'\n');
        match self.shared.home.write(NAME, &bytes) {
            Ok(()) => writer.is_reported = false,
            Err(error) if !writer.is_reported => {
                writer.is_reported = true;
                tracing::error!("{}; sessions continue", error.message);
            }
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_file_is_not_written_again() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = dir.path().join("home");
        let (file, _) = SessionsFile::open(&Home::new(&root));
        file.write(&[]);
        assert!(root.join(NAME).exists());
        std::fs::remove_file(root.join(NAME)).expect("removed");
        file.close(&[]);
        assert!(root.join(NAME).exists());
        std::fs::remove_dir_all(&root).expect("removed");
        // A write that was scheduled before.
        file.write(&[]);
        assert!(!root.exists());
    }
}
