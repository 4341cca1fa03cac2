//! `sessions.json` (A46-REF-02): rewritten as a whole shortly after each change.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::Notify;

use super::log::set_aside;
use crate::model::Session;
use agentproto_runtime::home::Home;

const NAME: &str = "sessions.json";
/// Debounce: many changes become one write.
const SETTLE: Duration = Duration::from_millis(250);

/// The contents of the file at start-up.
#[derive(Debug, Default)]
pub struct Saved {
    pub sessions: Vec<Session>,
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
    is_told: Mutex<bool>,
}

impl SessionsFile {
    /// Reads the file. A file that cannot be parsed is moved aside and reported. Invalid sessions
    /// in it are skipped.
    pub fn open(home: &Home) -> (SessionsFile, Saved) {
        let file = SessionsFile {
            shared: Arc::new(Shared {
                home: home.clone(),
                changed: Notify::new(),
                is_told: Mutex::new(false),
            }),
        };
        let bytes = match home.read(NAME) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return (file, Saved::default()),
            Err(fault) => {
                let warning = Some(fault.message);
                return (
                    file,
                    Saved {
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
            let kept = match set_aside(&path) {
                Ok(aside) => format!("it was moved to `{}`", aside.display()),
                Err(error) => format!("it cannot be moved: {error}"),
            };
            let warning = format!(
                "cannot read `{}` as a list of sessions; {kept}",
                path.display()
            );
            return (
                file,
                Saved {
                    sessions: Vec::new(),
                    warning: Some(warning),
                },
            );
        };
        let all = listed.len();
        let sessions: Vec<Session> = listed
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
        (file, Saved { sessions, warning })
    }

    /// Schedules a write after a change.
    pub fn touch(&self) {
        self.shared.changed.notify_one();
    }

    /// Writes after each change, until the registry is dropped.
    pub async fn follow(self, sessions: impl Fn() -> Option<Vec<Session>> + Send + 'static) {
        let mut pause = SETTLE;
        loop {
            self.shared.changed.notified().await;
            tokio::time::sleep(pause).await;
            let Some(sessions) = sessions() else { return };
            let file = self.clone();
            let began = Instant::now();
            let written = tokio::task::spawn_blocking(move || file.write(&sessions));
            let _ = written.await;
            // A long history takes longer to write, so it is written less often.
            pause = SETTLE.max(10 * began.elapsed());
        }
    }

    /// Writes the file now.
    pub fn write(&self, sessions: &[Session]) {
        let mut bytes = serde_json::to_vec_pretty(&json!({ "version": 1, "sessions": sessions }))
            .unwrap_or_default();
        bytes.push(b'\n');
        let written = self.shared.home.write(NAME, &bytes);
        let mut is_told = self.shared.is_told.lock();
        match written {
            Ok(()) => *is_told = false,
            Err(fault) if !*is_told => {
                *is_told = true;
                tracing::error!("{}; sessions continue", fault.message);
            }
            Err(_) => {}
        }
    }
}
