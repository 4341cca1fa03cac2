//! All sessions of this host. Every interface uses this registry (A46-MCP-07).

mod adapters;
mod entry;
#[cfg(test)]
mod forget_tests;
mod pins;
mod recover;
mod spawn;
mod turn;

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use self::entry::SessionEntry;
use crate::clock::Clock;
use crate::error::ApiError;
use crate::model::{SessionRecord, SessionStatus};
use crate::rate_limit::{Bucket, Rate};
use crate::ring::{Channel, Cursor, FollowFrom, Follower, ItemKind, LogItem, PAGE_BYTES};
use crate::store::{SessionLog, SessionsFile};
use agentproto_runtime::arm::permissions::Answer;
use agentproto_runtime::context::{SandboxSettings, Sandboxing};
use agentproto_runtime::home::Home;
use agentproto_runtime::secrets::random;
use agentproto_runtime::{Code, Error};

/// Name of the log in the state directory.
const LOG_FILE: &str = "sessions.db";
/// Default number of lines of `get_agent_session_output`.
const DEFAULT_LINES: usize = 200;
/// Interval at which old sessions are removed.
const TRIM_INTERVAL: Duration = Duration::from_secs(60 * 60);
/// Time for a killed agent to exit on its own. The runtime sends SIGTERM, and SIGKILL five seconds
/// later (AIP-45). An agent that does not answer the end of its session either takes about nine
/// seconds, so this is only reached if the runtime hangs.
const KILL_GRACE: Duration = Duration::from_secs(20);

/// Configuration of a host.
#[derive(Clone)]
pub struct HostConfig {
    /// State directory of the user, with secrets, adapters and workspaces.
    pub home: Home,
    /// State directory for sessions. The same as `home`, unless several hosts share a home.
    pub state: Home,
    /// Directories in which slugs are looked up before the home's own adapters.
    pub adapters: Vec<PathBuf>,
    /// Whether the mock agents in this binary are available as adapters.
    pub bundled: bool,
    /// Whether manifests with errors are run. Each session reports it as a warning.
    pub allow_invalid: bool,
    /// Whether the declared sandbox is enforced.
    pub sandboxing: Sandboxing,
    /// What is added to every sandbox.
    pub sandbox: SandboxSettings,
    /// Environment for secrets and `passthrough`.
    pub host_env: Vec<(OsString, OsString)>,
    /// Working directory of sessions without a workspace.
    pub cwd: PathBuf,
    /// Maximum number of live sessions.
    pub max_live: usize,
    /// Maximum number of ended sessions to remember. The oldest are removed first.
    pub max_ended: usize,
    /// Maximum age of an ended session, or `None` to keep it.
    pub max_age: Option<Duration>,
    /// Maximum size of the stored history in bytes. The oldest output is deleted first.
    pub max_history: u64,
    /// Rate limit for starting sessions, applied separately to local and remote clients.
    pub starts: Rate,
    /// Clock for the times in session records.
    pub clock: Clock,
    /// Idle limit of all sessions, or `None` to use each manifest's `session.idle_timeout_ms`.
    pub idle_timeout: Option<Duration>,
    /// Time in which a client of an ephemeral session can reconnect.
    pub reconnect_grace: Duration,
}

impl HostConfig {
    /// The default configuration for a home.
    pub fn new(home: Home) -> Self {
        HostConfig {
            state: home.clone(),
            home,
            adapters: Vec::new(),
            bundled: true,
            allow_invalid: false,
            sandboxing: Sandboxing::Auto,
            sandbox: SandboxSettings::default(),
            host_env: std::env::vars_os().collect(),
            cwd: std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/")),
            max_live: 1000,
            max_ended: 10_000,
            max_age: Some(Duration::from_secs(90 * 24 * 60 * 60)),
            max_history: 2 << 30,
            starts: HostConfig::starts(50, 1000),
            clock: Clock::default(),
            idle_timeout: None,
            reconnect_grace: Duration::from_secs(10),
        }
    }

    /// Sustained limit on new sessions per second. The burst size allows filling the host at once.
    pub fn starts(per_second: u32, max_live: u32) -> Rate {
        Rate {
            per_second: f64::from(per_second),
            burst: f64::from(per_second.max(max_live)),
        }
    }
}

/// The sessions of a host. Clones share the same sessions.
#[derive(Clone)]
pub struct Registry {
    shared: Arc<Shared>,
}

struct Shared {
    config: HostConfig,
    /// Random number of this daemon run, so that items of two runs are never confused.
    epoch: u64,
    sessions: RwLock<Sessions>,
    log: SessionLog,
    file: SessionsFile,
    stopping: AtomicBool,
    starts: Mutex<Starts>,
    /// Secrets of the host itself, such as its token. They are masked in every session.
    secrets: Mutex<Vec<String>>,
    /// The host's environment, shared by all sessions.
    env: Arc<Vec<(OsString, OsString)>>,
    /// Locks of conversations that are being started.
    pin_locks: pins::PinLocks,
    /// Manifests of adapters that are in use.
    manifests: Mutex<Vec<std::sync::Weak<agentproto_manifest::Document>>>,
    /// What the adapters offer, for the manifests that were read before.
    adapter_details: adapters::DetailsCache,
}

/// Remote clients do not use up the limit of the local user.
struct Starts {
    local: Bucket,
    remote: Bucket,
}

#[derive(Default)]
struct Sessions {
    by_id: HashMap<String, Arc<SessionEntry>>,
    /// In start order.
    order: Vec<Arc<SessionEntry>>,
}

/// The last lines of a session.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Output")]
pub struct SessionOutput {
    pub session_id: String,
    pub status: SessionStatus,
    pub lines: Vec<String>,
    /// Whether older lines are left out because the response is limited to about 1 MiB. They are in
    /// the event history.
    pub truncated: bool,
    /// Number of questions of the agent that wait for an answer. The turn goes on after that.
    pub open_questions: usize,
}

/// Part of a session's history.
#[derive(Debug)]
pub struct EventPage {
    pub items: Vec<LogItem>,
    /// Cursor of the next page, or `None` at the current end.
    pub next: Option<String>,
}

impl Registry {
    /// Opens the state directory, recovers sessions of an earlier run, and returns the registry.
    /// Also returns warnings about the state, for the user who starts the host.
    pub fn open(config: HostConfig) -> Result<(Registry, Vec<String>), Error> {
        let path = config.state.path(LOG_FILE);
        config.state.dir("")?;
        let (log, opened) = SessionLog::open(&path, config.max_history)?;
        let mut warnings = opened.warnings.clone();
        let (file, saved) = SessionsFile::open(&config.state);
        warnings.extend(saved.warning);
        // Random instead of time-based, because a clock that is set back repeats its times.
        let epoch = u64::from_be_bytes(random::bytes()?) >> 8;
        let full = Bucket::full(config.starts, Instant::now());
        let env = Arc::new(config.host_env.clone());
        let registry = Registry {
            shared: Arc::new(Shared {
                epoch,
                sessions: RwLock::default(),
                file: file.clone(),
                log,
                config,
                stopping: AtomicBool::new(false),
                starts: Mutex::new(Starts {
                    local: full,
                    remote: full,
                }),
                secrets: Mutex::default(),
                env,
                pin_locks: pins::PinLocks::default(),
                manifests: Mutex::default(),
                adapter_details: adapters::DetailsCache::default(),
            }),
        };
        registry.recover(saved.sessions, &opened);
        let weak = Arc::downgrade(&registry.shared);
        tokio::spawn(file.follow(move || {
            let shared = weak.upgrade()?;
            Some(Registry { shared }.list(false))
        }));
        let weak = Arc::downgrade(&registry.shared);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(TRIM_INTERVAL).await;
                let Some(shared) = weak.upgrade() else { return };
                Registry { shared }.trim();
            }
        });
        // Write recovered sessions before anything else can happen to them.
        registry.shared.file.write(&registry.list(false));
        Ok((registry, warnings))
    }

    /// The configuration.
    pub fn config(&self) -> &HostConfig {
        &self.shared.config
    }

    /// Whether the disk currently rejects new history.
    pub fn is_degraded(&self) -> bool {
        self.shared.log.is_broken()
    }

    /// Masks a secret of the host in the output, the history and the audit entries of all sessions.
    pub fn mask(&self, secret: &str) {
        self.shared.secrets.lock().push(secret.to_owned());
        for entry in &self.shared.sessions.read().order {
            entry.mask(secret);
        }
    }

    /// Masks the secrets of the host in one session.
    fn mask_secrets(&self, entry: &SessionEntry) {
        for secret in self.shared.secrets.lock().iter() {
            entry.mask(secret);
        }
    }

    /// All sessions, or only live ones, oldest first.
    pub fn list(&self, only_alive: bool) -> Vec<SessionRecord> {
        let sessions = self.shared.sessions.read();
        let records = sessions.order.iter().map(|entry| entry.snapshot());
        records
            .filter(|s| !only_alive || s.status.is_alive())
            .collect()
    }

    /// One page of the sessions, oldest first, and the id after which the next page starts.
    pub fn list_page(
        &self,
        only_alive: bool,
        after: Option<&str>,
        limit: usize,
    ) -> Result<(Vec<SessionRecord>, Option<String>), ApiError> {
        if limit == 0 {
            return Err(ApiError::bad_request("`limit` must be at least 1"));
        }
        let after = after.map(|id| self.entry(id)).transpose()?;
        let sessions = self.shared.sessions.read();
        let start = match &after {
            None => 0,
            Some(after) => {
                let at = sessions.order.iter().position(|e| Arc::ptr_eq(e, after));
                at.map_or(sessions.order.len(), |at| at + 1)
            }
        };
        let rest = sessions.order.iter().skip(start);
        let mut rest = rest
            .filter(|entry| !only_alive || entry.is_alive())
            .peekable();
        let page: Vec<SessionRecord> = rest.by_ref().take(limit).map(|e| e.snapshot()).collect();
        let next = rest.peek().and(page.last()).map(|last| last.id.clone());
        Ok((page, next))
    }

    /// The record of one session.
    pub fn get(&self, id: &str) -> Result<SessionRecord, ApiError> {
        Ok(self.entry(id)?.snapshot())
    }

    /// Returns an error if the session is unknown.
    pub fn check_known(&self, id: &str) -> Result<(), ApiError> {
        self.entry(id).map(drop)
    }

    fn entry(&self, id: &str) -> Result<Arc<SessionEntry>, ApiError> {
        let sessions = self.shared.sessions.read();
        let found = sessions.by_id.get(id).cloned();
        found.ok_or_else(|| ApiError::unknown_session(id))
    }

    /// Creates the entry of a session with its log, file and clock.
    fn new_entry(&self, record: SessionRecord, channel: Arc<Channel>) -> Arc<SessionEntry> {
        let shared = &self.shared;
        let clock = shared.config.clock.clone();
        SessionEntry::new(
            record,
            channel,
            shared.log.clone(),
            shared.file.clone(),
            clock,
        )
    }

    fn insert(&self, entry: Arc<SessionEntry>) {
        let mut sessions = self.shared.sessions.write();
        sessions.by_id.insert(entry.id.clone(), Arc::clone(&entry));
        sessions.order.push(entry);
    }

    /// Removes the oldest ended sessions beyond the limit, and those that ended too long ago.
    fn trim(&self) {
        let config = &self.shared.config;
        let oldest = config.max_age.map(|age| config.clock.before(age));
        let mut sessions = self.shared.sessions.write();
        let ended = sessions.order.iter().filter(|e| !e.is_alive()).count();
        let mut over = ended.saturating_sub(config.max_ended);
        let Sessions { by_id, order } = &mut *sessions;
        order.retain(|entry| {
            let removed = !entry.is_alive() && (over > 0 || entry.ended_before(oldest.as_deref()));
            if removed {
                over = over.saturating_sub(1);
                by_id.remove(&entry.id);
                self.shared.log.forget(&entry.id);
                self.shared.file.touch();
            }
            !removed
        });
    }

    /// Sends a prompt. The reply arrives as events. Only one turn runs at a time (A46-TURN-04).
    pub async fn prompt(&self, id: &str, prompt: String) -> Result<(), ApiError> {
        self.entry(id)?.prompt(prompt)?;
        // Let the agent receive the prompt before the log is flushed.
        tokio::task::yield_now().await;
        // A client that sees the turn start will also find its end, even after a crash of the host.
        self.shared.log.flush().await;
        Ok(())
    }

    /// Cancels the turn, not the session. Returns whether there was a turn.
    pub async fn interrupt(&self, id: &str) -> Result<bool, ApiError> {
        self.entry(id)?.interrupt().await
    }

    /// Answers a question of the agent.
    pub fn answer(&self, id: &str, question: &str, answer: Answer) -> Result<(), ApiError> {
        self.entry(id)?.answer(question, answer)
    }

    /// Kills the session. Returns false if it had already ended.
    pub async fn kill(&self, id: &str) -> Result<bool, ApiError> {
        Ok(self.entry(id)?.kill("killed by a client", KILL_GRACE).await)
    }

    /// Changes the label of a session, also of an ended one.
    pub async fn rename(&self, id: &str, label: Option<String>) -> Result<SessionRecord, ApiError> {
        spawn::check_label(label.as_deref())?;
        let entry = self.entry(id)?;
        let now = entry.update(|record| record.label = label);
        // A client relies on the answer, even after a crash of the host.
        self.shared.log.flush().await;
        Ok(now)
    }

    /// Kills the session if it is alive, and removes it from the registry and the log.
    pub async fn forget(&self, id: &str) -> Result<bool, ApiError> {
        let entry = self.entry(id)?;
        entry.kill("killed by a client", KILL_GRACE).await;
        Ok(self.remove(&entry).await)
    }

    /// Removes a session from the registry and the log. Returns false if it was already removed.
    async fn remove(&self, entry: &Arc<SessionEntry>) -> bool {
        let known = {
            let mut sessions = self.shared.sessions.write();
            sessions.order.retain(|other| !Arc::ptr_eq(other, entry));
            sessions.by_id.remove(&entry.id).is_some()
        };
        if known {
            self.shared.log.forget(&entry.id);
            self.shared.file.touch();
            // A client relies on the answer, even after a crash of the host.
            self.shared.log.flush().await;
        }
        known
    }

    /// The last lines, limited to the size of a response.
    pub async fn output(&self, id: &str, last: Option<usize>) -> Result<SessionOutput, ApiError> {
        let entry = self.entry(id)?;
        let count = last.unwrap_or(DEFAULT_LINES);
        let tail = entry.channel.last_lines(count, PAGE_BYTES).await;
        let lines = tail.items.iter().filter_map(|item| {
            let data: Value = serde_json::from_str(item.data()).ok()?;
            Some(data.get("line")?.as_str()?.to_owned())
        });
        let now = entry.snapshot();
        Ok(SessionOutput {
            lines: lines.collect(),
            truncated: tail.truncated,
            session_id: id.to_owned(),
            status: now.status,
            open_questions: now.pending_permissions.len(),
        })
    }

    /// Items after the last one that a client has seen, or all items without a cursor.
    pub async fn events(
        &self,
        id: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<EventPage, ApiError> {
        let entry = self.entry(id)?;
        let from = match after {
            None | Some("") => 0,
            Some(text) => {
                let cursor = Cursor::parse(text).ok_or_else(|| unknown_cursor(text))?;
                let known = entry.channel.position_after(cursor).await;
                known.ok_or_else(|| unknown_cursor(text))?
            }
        };
        let items = entry.channel.page(from, limit).await;
        let last = items.last();
        let next = last.filter(|last| entry.channel.has_after(last));
        let next = next.map(LogItem::id);
        Ok(EventPage { items, next })
    }

    /// A new reader of a session.
    pub async fn follow(&self, id: &str, from: FollowFrom) -> Result<Follower, ApiError> {
        let entry = self.entry(id)?;
        Ok(entry.channel.follow(from).await)
    }

    /// Stops the host: kills live sessions (A46-STATUS-06) and writes all state.
    pub async fn shutdown(&self) {
        self.shared.stopping.store(true, Ordering::Release);
        let alive: Vec<Arc<SessionEntry>> = {
            let sessions = self.shared.sessions.read();
            let alive = sessions.order.iter().filter(|entry| entry.is_alive());
            alive.cloned().collect()
        };
        let kills = alive
            .iter()
            .map(|entry| entry.kill("the host was stopped", KILL_GRACE));
        futures::future::join_all(kills).await;
        self.shared.log.wait_committed().await;
        let file = self.shared.file.clone();
        let sessions = self.list(false);
        let _ = tokio::task::spawn_blocking(move || file.close(&sessions)).await;
    }

    fn new_id() -> Result<String, Error> {
        let bytes: [u8; 12] = random::bytes()?;
        let hex = agentproto_text::hex(&bytes);
        Ok(format!("ses_{hex}"))
    }
}

fn unknown_cursor(text: &str) -> ApiError {
    let text: String = text.chars().take(64).collect();
    ApiError::bad_request(format!("unknown cursor `{text}`"))
        .hint("use `next` of the previous page or the id of an event, or omit `after`")
}

/// Data of a `status` event, for a change of status or of `busy`.
fn status_data(session: &SessionRecord) -> Value {
    let mut data = json!({ "status": session.status, "busy": session.busy });
    if let Some(code) = session.exit_code {
        data["exitCode"] = json!(code);
    }
    if let Some(reason) = &session.reason {
        data["reason"] = json!(reason);
    }
    data
}

/// The error for requests while the host stops.
fn stopping() -> ApiError {
    ApiError::new(503, "stopping", "the host is being stopped").hint("start it again, then retry")
}

/// Whether an error of a turn also ends the session.
fn is_fatal(code: &str) -> bool {
    let fatal = [Code::AgentExited, Code::ProtocolViolation];
    fatal.iter().any(|known| known.as_str() == code)
}

fn line_data(text: &str, stream: crate::project::OutputStream) -> (ItemKind, Value) {
    (
        ItemKind::Line,
        json!({ "line": text, "stream": stream.as_str() }),
    )
}
