//! Starts sessions.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::entry::{EntryObserver, SessionEntry, stderr_of};
use super::pins::{self, PinLookup};
use super::{KILL_GRACE, Registry, stopping};
use crate::error::ApiError;
use crate::model::{Principal, SessionRecord, SessionStatus, SpawnRequest};
use crate::project;
use crate::ring::Channel;
use crate::workspaces::Workspaces;
use agentproto_manifest::Document;
use agentproto_runtime::agent::{Agent, AgentOptions, PreparedAgent};
use agentproto_runtime::bundle::Bundle;
use agentproto_runtime::choices::{Choices, OptionValue};
use agentproto_runtime::context::{Context, ContextOptions};
use agentproto_runtime::interact::Headless;
use agentproto_runtime::mcp_servers::McpServer;
use agentproto_runtime::session::{CloseReason, Session};
use agentproto_runtime::{Error, TokenTotals};

/// Maximum length of a label in bytes.
const MAX_LABEL: usize = 1024;

impl Registry {
    /// Starts a session. Everything that can be rejected is rejected before a process exists, and
    /// no session is created then. The record is returned as `starting`. Later failures end the
    /// session as `error`.
    pub async fn spawn(
        &self,
        request: SpawnRequest,
        principal: Principal,
    ) -> Result<SessionRecord, ApiError> {
        self.check_live_limit()?;
        self.check_rate(principal)?;
        pins::check_principal(&request, principal)?;
        let continuation = pins::requested_strategy(&request)?;
        check_label(request.label.as_deref())?;
        let resumed = match &request.resume {
            Some(id) => Some(self.resumable(id)?),
            None => None,
        };
        let config = &self.shared.config;
        let (home, own) = (config.home.clone(), config.cwd.clone());
        let (cwd, slug) = (request.cwd.clone(), request.workspace_slug.clone());
        let registry = self.clone();
        let place = tokio::task::spawn_blocking(move || {
            let all = Workspaces::load(&home)?;
            let is_used = |path: &Path| registry.is_used(path);
            all.resolve(cwd.as_deref(), slug.as_deref(), &own, principal, &is_used)
        });
        let place = place.await.map_err(|e| internal(&e.to_string()))??;
        let bundle = self.share_manifest(self.adapter(&request.adapter)?);
        let id = Registry::new_id()?;
        let record = SessionRecord {
            id: id.clone(),
            adapter_slug: request.adapter.clone(),
            workspace_slug: place.slug,
            cwd: place.cwd.to_string_lossy().into_owned(),
            status: SessionStatus::Starting,
            started_at: config.clock.now(),
            ended_at: None,
            last_output_at: None,
            exit_code: None,
            label: request.label.clone(),
            busy: false,
            turns: 0,
            reason: None,
            agent_session_id: None,
            resumable: is_resumable(&bundle),
            resumed_from: request.resume.clone(),
            conversation: request.conversation.clone(),
            continuation: request.continuation.clone(),
            permissions: request.permissions.unwrap_or_default(),
            usage: TokenTotals::default(),
            cost: None,
            context: None,
            pending_permissions: Vec::new(),
            warnings: place.warnings,
        };
        let shared = &self.shared;
        let channel = Channel::new(&id, shared.epoch, 0, false, shared.log.clone());
        let entry = self.new_entry(record, channel);
        let options = ContextOptions {
            home: config.home.clone(),
            cwd: place.cwd.clone(),
            host_env: Arc::clone(&self.shared.env),
            sandboxing: config.sandboxing,
            sandbox: config.sandbox.clone(),
            yes: false,
            observer: Arc::new(EntryObserver(Arc::downgrade(&entry))),
            interact: Arc::new(Headless),
        };
        let context = Context::new(bundle, options)?;
        let host_session = Some(id.clone());
        context
            .audit
            .set_scope(|scope| scope.host_session = host_session);
        if context.cwd != place.cwd {
            // Another agent replaced the directory after it was checked.
            return Err(ApiError::new(
                403,
                "cwd_link",
                format!(
                    "the directory `{}` was replaced by a symbolic link",
                    place.cwd.display()
                ),
            )
            .hint("find out which agent writes there, then try again"));
        }
        entry.set_masks(context.masks.clone());
        self.mask_secrets(&entry);
        let mut options = agent_options(&request, mcp_servers(&request, principal)?);
        options.max_turns = pins::max_turns(continuation.as_deref());
        options.idle_limit = config.idle_timeout;
        options.allow_invalid = config.allow_invalid;
        // Without `continuation` in the manifest, only `resumable` decides about `resume`.
        let is_declared = context.bundle.root().has("continuation");
        options.choices.continuation = continuation.filter(|_| is_declared || resumed.is_none());
        let agent = Agent::load(context, options)?;
        let pinned = self
            .find_pinned(&agent, &request, &entry.snapshot())
            .await?;
        let _starting = match pinned {
            Some(PinLookup::Found(live)) => {
                if let Some(prompt) = request.prompt {
                    self.prompt(&live.id, prompt).await?;
                }
                return Ok(live.snapshot());
            }
            Some(PinLookup::Start(pin, guard)) => {
                entry.set_pin(pin);
                Some(guard)
            }
            None => None,
        };
        let mut prepared = agent.prepare().await?;
        agent.check_sandbox(&mut prepared)?;
        // From here on the session exists, even if it fails.
        if let Some(prompt) = request.prompt {
            entry.queue_first_prompt(pins::first_prompt(&request.history, prompt));
        }
        self.check_live_limit()?;
        let now = entry.update(|_| {});
        entry
            .channel
            .push(crate::ring::ItemKind::Status, &super::status_data(&now));
        self.insert(Arc::clone(&entry));
        // Again, because a secret may have been added before the session was in the list.
        self.mask_secrets(&entry);
        self.trim();
        let grace = config.reconnect_grace;
        tokio::spawn(start(entry, agent, prepared, resumed, grace));
        // A client that knows the session will find it, even after a crash of the host.
        self.shared.log.flush().await;
        Ok(now)
    }

    /// Resumes an ended session as a new one in the same directory.
    pub async fn resume(&self, id: &str, principal: Principal) -> Result<SessionRecord, ApiError> {
        let resumed = self.get(id)?;
        let request = SpawnRequest {
            adapter: resumed.adapter_slug,
            cwd: Some(resumed.cwd),
            label: resumed.label,
            permissions: Some(resumed.permissions),
            resume: Some(id.to_owned()),
            ..SpawnRequest::default()
        };
        self.spawn(request, principal).await
    }

    /// Whether a path is in the directory of a session. Its agent may have planted it.
    fn is_used(&self, path: &Path) -> bool {
        let sessions = self.shared.sessions.read();
        let mut entries = sessions.order.iter();
        entries.any(|entry| path.starts_with(entry.cwd()))
    }

    fn check_live_limit(&self) -> Result<(), ApiError> {
        if self.shared.stopping.load(Ordering::Acquire) {
            return Err(stopping());
        }
        let max = self.shared.config.max_live;
        let sessions = self.shared.sessions.read();
        let alive = sessions
            .order
            .iter()
            .filter(|entry| entry.is_alive())
            .count();
        if alive >= max {
            return Err(ApiError::new(
                429,
                "too_many_sessions",
                format!("too many live sessions ({alive})"),
            )
            .hint("kill one, or start the host with a higher `--max-sessions`"));
        }
        Ok(())
    }

    /// Limits how fast sessions are started over any interface, for example by a runaway loop.
    fn check_rate(&self, principal: Principal) -> Result<(), ApiError> {
        let mut starts = self.shared.starts.lock();
        let bucket = match principal {
            Principal::Local => &mut starts.local,
            Principal::Remote => &mut starts.remote,
        };
        let rate = self.shared.config.starts;
        bucket.take(rate, Instant::now()).map_err(|wait| {
            ApiError::new(
                429,
                "too_many_starts",
                format!(
                    "sessions are started too fast: the limit is {} per second",
                    rate.per_second
                ),
            )
            .retry_after(wait)
            .hint("wait for `Retry-After`, prompt a live session, or start the host with a higher `--spawn-rate`")
        })
    }

    /// The agent's own id of an ended session.
    fn resumable(&self, id: &str) -> Result<String, ApiError> {
        let resumed = self.get(id)?;
        if resumed.status.is_alive() {
            return Err(
                ApiError::new(409, "session_alive", format!("session `{id}` is alive"))
                    .hint("prompt it instead"),
            );
        }
        let unsupported = |why: &str| {
            ApiError::new(
                422,
                "continuation_unsupported",
                format!("cannot resume session `{id}`: {why}"),
            )
            .hint("start a new session")
        };
        if !resumed.resumable {
            return Err(unsupported(
                "its adapter does not declare `resumable` (AIP-45, Session model)",
            ));
        }
        resumed
            .agent_session_id
            .ok_or_else(|| unsupported("its agent did not report a session id"))
    }

    /// Finds an adapter by slug. Paths are not allowed, because a client could run any manifest on
    /// the machine.
    fn adapter(&self, slug: &str) -> Result<Bundle, ApiError> {
        let config = &self.shared.config;
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        let is_slug =
            (1..=128).contains(&slug.len()) && slug.bytes().all(plain) && !slug.starts_with('.');
        if !is_slug {
            return Err(ApiError::bad_request(
                "`adapter` is not a slug: use letters, digits, `-`, `_` and `.`",
            )
            .hint("pass the name of an adapter, not a path"));
        }
        if let Some(bundle) = Bundle::installed(slug, &config.adapters, &config.home)? {
            return Ok(bundle);
        }
        if config.bundled
            && let Some(bundle) = Bundle::bundled(slug, &config.home)?
        {
            return Ok(bundle);
        }
        let known = self.adapters();
        if known.is_empty() {
            // Without adapters, spawning is not implemented (A46-COMPAT-03).
            return Err(ApiError::new(501, "no_adapters", "no adapter is installed on this host")
                .hint(format!(
                    "put a bundle with an AGENT-CLI.md into `{}`, then `agentproto install SLUG`",
                    config.home.path("adapters").display()
                )));
        }
        let closest = known
            .iter()
            .min_by_key(|name| strsim::levenshtein(name, slug));
        let hint = match closest.filter(|name| strsim::levenshtein(name, slug) <= 3) {
            Some(close) => format!(
                "did you mean `{close}`? Known adapters: {}",
                known.join(", ")
            ),
            None => format!("known adapters: {}", known.join(", ")),
        };
        Err(ApiError::new(
            404,
            "adapter_not_found",
            format!("unknown adapter `{slug}`"),
        )
        .hint(hint))
    }

    /// Shares one copy of a manifest between its sessions. A changed text is a different manifest.
    fn share_manifest(&self, mut bundle: Bundle) -> Bundle {
        let mut known = self.shared.manifests.lock();
        known.retain(|manifest| manifest.strong_count() > 0);
        let mut alive = known.iter().filter_map(std::sync::Weak::upgrade);
        let is_same = |other: &Arc<Document>| {
            other.path == bundle.manifest.path && other.text == bundle.manifest.text
        };
        match alive.find(is_same) {
            Some(same) => bundle.manifest = same,
            None => known.push(Arc::downgrade(&bundle.manifest)),
        }
        bundle
    }
}

/// Returns an error for a label that is too long.
pub(super) fn check_label(label: Option<&str>) -> Result<(), ApiError> {
    match label.is_some_and(|label| label.len() > MAX_LABEL) {
        true => Err(
            ApiError::bad_request(format!("`label` is longer than {MAX_LABEL} bytes"))
                .hint("choose a shorter label"),
        ),
        false => Ok(()),
    }
}

fn internal(why: &str) -> ApiError {
    ApiError::new(500, "internal", format!("internal error: {why}")).hint("please report it")
}

/// The MCP servers of a request. A remote client must not choose which program runs here.
fn mcp_servers(request: &SpawnRequest, principal: Principal) -> Result<Vec<McpServer>, ApiError> {
    let mut servers = Vec::new();
    for value in &request.mcp_servers {
        servers.extend(McpServer::parse(value)?);
    }
    let program = servers.iter().find(|server| server.is_program());
    match (program, principal) {
        (Some(server), Principal::Remote) => {
            let what = format!(
                "the MCP server `{}` is a program, which only local clients may choose",
                server.name()
            );
            Err(ApiError::new(403, "mcp_server_refused", what)
                .hint("use a server with a `url`, or start the session on the host"))
        }
        _ => Ok(servers),
    }
}

fn agent_options(request: &SpawnRequest, mcp_servers: Vec<McpServer>) -> AgentOptions {
    let options = request.options.iter().flatten();
    AgentOptions {
        choices: Choices {
            mode: request.mode.clone(),
            model: request.model.clone(),
            options: options
                .map(|(id, value)| (id.clone(), OptionValue::Typed(value.clone())))
                .collect(),
            ..Choices::default()
        },
        permissions: request.permissions.unwrap_or_default().into(),
        mcp_servers,
        ..AgentOptions::default()
    }
}

fn is_resumable(bundle: &Bundle) -> bool {
    let Some(agent) = bundle.agent() else {
        return false;
    };
    let declared = agent.capabilities().and_then(|c| c.resumable()) == Some(true);
    declared || agent.session().and_then(|s| s.mode()) == Some("resumable")
}

/// Whether the manifest declares that a session ends with its client. Without a declared mode,
/// sessions stay open for further turns, as AIP-46 asks.
fn is_ephemeral(bundle: &Bundle) -> bool {
    let session = bundle.agent().and_then(|agent| agent.session());
    session.and_then(|session| session.mode()) == Some("ephemeral")
}

/// Waits until the session's last client has disconnected, and none has connected again. A session
/// that no client has followed yet is not disconnected. A running turn ends first.
async fn unwatched(entry: &SessionEntry, grace: Duration) {
    let mut watchers = entry.channel.watchers();
    // The sender is in the entry, so waiting cannot fail.
    let _ = watchers.wait_for(|count| *count > 0).await;
    loop {
        let _ = watchers.wait_for(|count| *count == 0).await;
        let back = watchers.wait_for(|count| *count > 0);
        if tokio::time::timeout(grace, back).await.is_err() && !entry.snapshot().busy {
            return;
        }
    }
}

/// Why the host closed a session, for its record.
fn end_reason(session: &Session, why: CloseReason) -> Option<String> {
    match why {
        CloseReason::Idle => Some(format!(
            "the session was idle for {} s (`session.idle_timeout_ms`, or `serve --idle-timeout`)",
            session.idle_limit().as_secs_f64()
        )),
        CloseReason::Disconnected => Some(
            "the last client disconnected, and the manifest has `session.mode: ephemeral`"
                .to_owned(),
        ),
        CloseReason::Closed | CloseReason::Left | CloseReason::Broken => None,
    }
}

/// Starts the agent, then watches it until its end.
async fn start(
    entry: Arc<SessionEntry>,
    agent: Agent,
    prepared: PreparedAgent,
    resumed: Option<String>,
    grace: Duration,
) {
    let is_ephemeral = is_ephemeral(&agent.context.bundle);
    let kill_reason = entry.kill_reason.subscribe();
    // Boxed, so that memory for the start is freed before the session runs.
    let mut killed = entry.kill_reason.subscribe();
    let killed = async move { _ = killed.wait_for(Option::is_some).await };
    let starting = Box::pin(async move {
        let resumed = resumed.as_deref();
        agent.start_prepared(prepared, resumed, killed).await
    });
    let session = match starting.await {
        Ok(session) => Arc::new(session),
        Err(error) => {
            let why = kill_reason.borrow().clone();
            return match why {
                Some(why) => {
                    entry.finish_killed(&format!("{why}, before the agent was ready"), None)
                }
                None => failed(&entry, &error),
            };
        }
    };
    let ended = session.ended();
    entry.ready(Arc::clone(&session));
    if kill_reason.borrow().is_some() {
        // The kill arrived after the start but before this check.
        let why = kill_reason.borrow().clone().unwrap_or_default();
        let closed = tokio::time::timeout(KILL_GRACE, session.close()).await;
        let exit = closed.ok().and_then(Result::ok).and_then(|c| c.exit);
        return entry.finish_killed(&why, exit);
    }
    // An agent may report its session id only during a turn.
    let mut over = entry.channel.watch_end();
    let disconnected = async {
        match is_ephemeral {
            true => unwatched(&entry, grace).await,
            false => std::future::pending().await,
        }
    };
    tokio::pin!(ended);
    let closed = tokio::select! {
        closed = &mut ended => closed,
        () = over.over() => return,
        () = disconnected => {
            let _ = session.close_disconnected().await;
            ended.await
        }
    };
    if let Some(why) = closed.and_then(|closed| end_reason(&session, closed.why)) {
        entry.change(|record| record.reason = Some(why));
    }
    let own = session.id();
    entry.update(|record| record.agent_session_id = Some(own));
    // A running turn publishes its own end first, and whether the agent ended with it.
    if let Some(task) = entry.take_turn_task() {
        let _ = task.await;
    }
    if entry.kill_reason.borrow().is_none() {
        super::turn::agent_exited(&entry, closed.and_then(|closed| closed.exit));
        entry.release();
    }
}

fn failed(entry: &SessionEntry, error: &Error) {
    let mut lines = project::error(&error.message, stderr_of(&error.details));
    if entry.snapshot().busy {
        lines.push(project::turn_end("error"));
    }
    entry.lines(&lines);
    entry.set_status(SessionStatus::Error, |record| {
        record.reason = Some(error.message.clone());
        record.exit_code = error.details["exit_code"]
            .as_i64()
            .and_then(|code| i32::try_from(code).ok());
    });
    entry.release();
}
