//! All sessions of this host. Whoever asks, over whichever door, asks here (A46-MCP-07).

mod entry;
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

use self::entry::Entry;
use crate::clock::Clock;
use crate::error::ApiError;
use crate::model::{Session, Status};
use crate::pace::{Bucket, Rate};
use crate::ring::{Begin, Channel, Cursor, Follower, Item, Kind, PAGE_BYTES};
use crate::store::{Log, SessionsFile};
use agentproto_runtime::arm::desk::Answer;
use agentproto_runtime::context::Sandboxing;
use agentproto_runtime::home::Home;
use agentproto_runtime::secrets::random;
use agentproto_runtime::{Code, Fault};

/// Where the log is, in the home.
const LOG: &str = "sessions.db";
/// `get_agent_session_output` without a number.
const LINES: usize = 200;
/// Whoever is killed has so long to go by itself.
const POLITE: Duration = Duration::from_secs(3);

/// How a host is set up.
#[derive(Clone)]
pub struct Config {
    pub home: Home,
    /// Where the sessions themselves are kept: the home, unless others keep theirs there.
    pub state: Home,
    /// Where slugs are looked up before the home's own adapters.
    pub adapters: Vec<PathBuf>,
    /// Whether the mock agents of this binary are offered, too.
    pub bundled: bool,
    pub sandboxing: Sandboxing,
    /// The environment that secrets and `passthrough` come from.
    pub host_env: Vec<(OsString, OsString)>,
    /// Where a session without any workspace runs.
    pub cwd: PathBuf,
    /// Living sessions at a time.
    pub most_alive: usize,
    /// Ended sessions that are remembered; the oldest go first.
    pub most_ended: usize,
    /// How fast sessions may be started, by whoever is near and by whoever is not.
    pub starts: Rate,
    pub clock: Clock,
}

impl Config {
    pub fn new(home: Home) -> Self {
        Config {
            state: home.clone(),
            home,
            adapters: Vec::new(),
            bundled: true,
            sandboxing: Sandboxing::Auto,
            host_env: std::env::vars_os().collect(),
            cwd: std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/")),
            most_alive: 1000,
            most_ended: 10_000,
            starts: Config::starts(50, 1000),
            clock: Clock::default(),
        }
    }

    /// So many sessions a second in the long run; a host may be filled at once.
    pub fn starts(per_second: u32, most_alive: u32) -> Rate {
        Rate {
            per_second: f64::from(per_second),
            at_once: f64::from(per_second.max(most_alive)),
        }
    }
}

/// Clones are doors to the same sessions.
#[derive(Clone)]
pub struct Registry {
    shared: Arc<Shared>,
}

struct Shared {
    config: Config,
    /// Of this life of the daemon: items of two lives are never taken for each other.
    epoch: u64,
    sessions: RwLock<Sessions>,
    log: Log,
    file: SessionsFile,
    stopping: AtomicBool,
    starts: Mutex<Starts>,
    /// The host's environment, for all sessions.
    env: Arc<Vec<(OsString, OsString)>>,
    /// Of adapters that are in use.
    manifests: Mutex<Vec<std::sync::Weak<agentproto_manifest::Document>>>,
}

/// Who comes over the network does not use up what the local user may start.
struct Starts {
    near: Bucket,
    far: Bucket,
}

#[derive(Default)]
struct Sessions {
    by_id: HashMap<String, Arc<Entry>>,
    /// In the order in which they were started.
    order: Vec<Arc<Entry>>,
}

/// The last lines of a session.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Output {
    pub session_id: String,
    pub status: Status,
    pub lines: Vec<String>,
    /// Older ones of the lines that were asked for are left out: an answer has about 1 MiB. They
    /// are in the event history.
    pub truncated: bool,
}

/// Part of a session's history.
#[derive(Debug)]
pub struct Page {
    pub items: Vec<Item>,
    /// Where the next page begins; `None` at the end of what is there now.
    pub next: Option<String>,
}

impl Registry {
    /// Reads what an earlier life left, puts it right, and is ready. What is odd about it
    /// comes back as sentences for whoever starts the host.
    pub fn open(config: Config) -> Result<(Registry, Vec<String>), Fault> {
        let path = config.state.path(LOG);
        config.state.dir("")?;
        let (log, aside) = Log::open(&path)?;
        let mut warnings: Vec<String> = Vec::new();
        if let Some(aside) = aside {
            warnings.push(format!(
                "the session log was damaged; it is kept as `{}`, and history begins anew",
                aside.display()
            ));
        }
        let (file, saved) = SessionsFile::open(&config.state);
        warnings.extend(saved.warning);
        // By chance, not by the clock: a clock that is set back tells the same time twice.
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
                    near: full,
                    far: full,
                }),
                env,
                manifests: Mutex::default(),
            }),
        };
        registry.recover(saved.sessions);
        let weak = Arc::downgrade(&registry.shared);
        tokio::spawn(file.follow(move || {
            let shared = weak.upgrade()?;
            Some(Registry { shared }.list(false))
        }));
        // What was put right is written before anything else can happen to it.
        registry.shared.file.write(&registry.list(false));
        Ok((registry, warnings))
    }

    pub fn config(&self) -> &Config {
        &self.shared.config
    }

    /// The disk takes no more history at the moment.
    pub fn is_degraded(&self) -> bool {
        self.shared.log.is_broken()
    }

    /// Newest last.
    pub fn list(&self, only_alive: bool) -> Vec<Session> {
        let sessions = self.shared.sessions.read();
        let records = sessions.order.iter().map(|entry| entry.snapshot());
        records
            .filter(|s| !only_alive || s.status.is_alive())
            .collect()
    }

    pub fn get(&self, id: &str) -> Result<Session, ApiError> {
        Ok(self.entry(id)?.snapshot())
    }

    /// Refuses ids of nobody.
    pub fn knows(&self, id: &str) -> Result<(), ApiError> {
        self.entry(id).map(drop)
    }

    fn entry(&self, id: &str) -> Result<Arc<Entry>, ApiError> {
        let sessions = self.shared.sessions.read();
        let found = sessions.by_id.get(id).cloned();
        found.ok_or_else(|| ApiError::unknown_session(id))
    }

    /// A session of this registry, with all that it writes to.
    fn entry_of(&self, record: Session, channel: Arc<Channel>) -> Arc<Entry> {
        let shared = &self.shared;
        let clock = shared.config.clock.clone();
        Entry::new(
            record,
            channel,
            shared.log.clone(),
            shared.file.clone(),
            clock,
        )
    }

    fn insert(&self, entry: Arc<Entry>) {
        let mut sessions = self.shared.sessions.write();
        sessions.by_id.insert(entry.id.clone(), Arc::clone(&entry));
        sessions.order.push(entry);
    }

    /// Makes room among the ended ones.
    fn trim(&self) {
        let most = self.shared.config.most_ended;
        let mut sessions = self.shared.sessions.write();
        let ended = sessions.order.iter().filter(|e| !e.is_alive()).count();
        let mut over = ended.saturating_sub(most);
        if over == 0 {
            return;
        }
        let Sessions { by_id, order } = &mut *sessions;
        order.retain(|entry| {
            let goes = over > 0 && !entry.is_alive();
            if goes {
                over -= 1;
                by_id.remove(&entry.id);
                self.shared.log.forget(&entry.id);
            }
            !goes
        });
    }

    /// Sends a prompt; the answer comes as events (A46-TURN-04: one at a time).
    pub async fn prompt(&self, id: &str, prompt: String) -> Result<(), ApiError> {
        self.entry(id)?.prompt(prompt)?;
        // The agent hears of it first, and thinks while the rest is done.
        tokio::task::yield_now().await;
        // Who was told that it has begun finds its end, whatever becomes of the host.
        self.shared.log.flush().await;
        Ok(())
    }

    /// Ends the turn, not the session. Whether there was one.
    pub async fn interrupt(&self, id: &str) -> Result<bool, ApiError> {
        self.entry(id)?.interrupt().await
    }

    /// Answers a question of the agent.
    pub fn answer(&self, id: &str, question: &str, answer: Answer) -> Result<(), ApiError> {
        self.entry(id)?.answer(question, answer)
    }

    /// Ends the session; false where it had ended before.
    pub async fn kill(&self, id: &str) -> Result<bool, ApiError> {
        Ok(self.entry(id)?.kill("killed by a client", POLITE).await)
    }

    /// Ends the session if it lives, and takes it out of the registry and the log.
    pub async fn forget(&self, id: &str) -> Result<bool, ApiError> {
        let entry = self.entry(id)?;
        entry.kill("killed by a client", POLITE).await;
        let mut sessions = self.shared.sessions.write();
        let known = sessions.by_id.remove(id).is_some();
        sessions.order.retain(|other| !Arc::ptr_eq(other, &entry));
        drop(sessions);
        if known {
            self.shared.log.forget(id);
            self.shared.file.touch();
        }
        Ok(known)
    }

    /// The last lines, as many as an answer holds.
    pub async fn output(&self, id: &str, last: Option<usize>) -> Result<Output, ApiError> {
        let entry = self.entry(id)?;
        let count = last.unwrap_or(LINES);
        let tail = entry.channel.last_lines(count, PAGE_BYTES).await;
        let lines = tail.items.iter().filter_map(|item| {
            let data: Value = serde_json::from_str(item.data()).ok()?;
            Some(data.get("line")?.as_str()?.to_owned())
        });
        Ok(Output {
            lines: lines.collect(),
            truncated: tail.is_cut,
            session_id: id.to_owned(),
            status: entry.snapshot().status,
        })
    }

    /// Items after the one that a client has seen; all there are, without one.
    pub async fn events(
        &self,
        id: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page, ApiError> {
        let entry = self.entry(id)?;
        let from = match after {
            None | Some("") => 0,
            Some(text) => {
                let cursor = Cursor::parse(text).ok_or_else(|| unknown_cursor(text))?;
                let known = entry.channel.after(cursor).await;
                known.ok_or_else(|| unknown_cursor(text))?
            }
        };
        let items = entry.channel.page(from, limit).await;
        let last = items.last();
        let next = last.filter(|last| entry.channel.has_after(last.seq));
        let next = next.map(Item::id);
        Ok(Page { items, next })
    }

    /// A reader of its own.
    pub async fn follow(&self, id: &str, from: Begin) -> Result<Follower, ApiError> {
        let entry = self.entry(id)?;
        Ok(entry.channel.follow(from).await)
    }

    /// The host stops: live sessions are killed (A46-STATUS-06), everything is written.
    pub async fn shutdown(&self) {
        self.shared.stopping.store(true, Ordering::Release);
        let alive: Vec<Arc<Entry>> = {
            let sessions = self.shared.sessions.read();
            let alive = sessions.order.iter().filter(|entry| entry.is_alive());
            alive.cloned().collect()
        };
        let kills = alive
            .iter()
            .map(|entry| entry.kill("the host was stopped", POLITE));
        futures::future::join_all(kills).await;
        self.shared.log.settle().await;
        let file = self.shared.file.clone();
        let sessions = self.list(false);
        let _ = tokio::task::spawn_blocking(move || file.write(&sessions)).await;
    }

    fn new_id() -> Result<String, Fault> {
        let bytes: [u8; 12] = random::bytes()?;
        let hex = agentproto_text::hex(&bytes);
        Ok(format!("ses_{hex}"))
    }
}

fn unknown_cursor(text: &str) -> ApiError {
    let text: String = text.chars().take(64).collect();
    ApiError::bad_request(format!("`{text}` is no id of an event of this session"))
        .hint("take `next` of the page before, the id of an event, or leave `after` out")
}

/// A transition or a change of `busy`, as `status` events carry it.
fn status_data(session: &Session) -> Value {
    let mut data = json!({ "status": session.status, "busy": session.busy });
    if let Some(code) = session.exit_code {
        data["exitCode"] = json!(code);
    }
    if let Some(reason) = &session.reason {
        data["reason"] = json!(reason);
    }
    data
}

/// Refused once the host stops.
fn stopping() -> ApiError {
    ApiError::new(503, "stopping", "the host is being stopped")
        .hint("start it again, then ask again")
}

/// What a fault of the runtime is called where a session has begun already.
fn is_fatal(code: &str) -> bool {
    let fatal = [Code::AgentExited, Code::ProtocolViolation];
    fatal.iter().any(|known| known.as_str() == code)
}

fn line_data(text: &str, stream: crate::project::Stream) -> (Kind, Value) {
    (
        Kind::Line,
        json!({ "line": text, "stream": stream.as_str() }),
    )
}
