//! `sessions.json` (A46-REF-02): written whole, a little after the last change.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::Notify;

use super::log::set_aside;
use crate::model::Session;
use agentproto_runtime::home::Home;

const NAME: &str = "sessions.json";
/// After a change, so that many changes are one write.
const SETTLE: Duration = Duration::from_millis(250);

/// What was found at start-up.
#[derive(Debug, Default)]
pub struct Saved {
    pub sessions: Vec<Session>,
    /// Told to whoever starts the daemon.
    pub warning: Option<String>,
}

/// Writes the file off the async threads; a failed write is told once, and tried again with
/// the next change.
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
    /// Reads what is there. A file that cannot be read is kept aside and reported; sessions in
    /// it that make no sense are left out.
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
                Ok(aside) => format!("it is kept as `{}`", aside.display()),
                Err(error) => format!("and it cannot be moved: {error}"),
            };
            let warning = format!(
                "`{}` cannot be read as a list of sessions; {kept}",
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
                "{} of {all} sessions in `{}` cannot be read and are left out",
                all - sessions.len(),
                path.display()
            )
        });
        (file, Saved { sessions, warning })
    }

    /// Something changed; the file follows.
    pub fn touch(&self) {
        self.shared.changed.notify_one();
    }

    /// Follows the registry until it is dropped.
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
            // A long history is written less often, so that writing is never all it does.
            pause = SETTLE.max(10 * began.elapsed());
        }
    }

    /// Writes it now.
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
                tracing::error!("{}; sessions go on", fault.message);
            }
            Err(_) => {}
        }
    }
}
