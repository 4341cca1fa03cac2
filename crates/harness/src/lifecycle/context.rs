//! The environment of a probe: a private state directory, a log of everything that happens, and
//! verdicts.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use super::BundleTarget;
use super::process_info::{self, ProcessInfo};
use crate::probe::{self, Log};
use crate::run::RunConfig;
use crate::run::case::NoVerdict;
use agentproto_runtime::agent::{Agent, AgentOptions};
use agentproto_runtime::arm::permissions::Permissions;
use agentproto_runtime::choices::Choices;
use agentproto_runtime::context::Context;
use agentproto_runtime::error::{Code, Error};
use agentproto_runtime::event::StreamEvent;
use agentproto_runtime::observe::{Observer, Stage};
use agentproto_runtime::session::{Session, Turn};
use agentproto_wire::Direction;

/// Environment variable that identifies the agent's process.
pub const MARKER: &str = "AGENTPROTO_CERTIFY_CASE";

/// Interval between two looks at the processes.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

static COUNT: AtomicU64 = AtomicU64::new(0);

/// A stage that has started.
#[derive(Clone, Debug)]
pub struct StageStart {
    pub stage: Stage,
    pub line: u64,
    pub at: Instant,
}

/// Logs what the runtime reports.
pub struct EventLog {
    log: Arc<Log>,
    stages: Mutex<Vec<StageStart>>,
    warnings: Mutex<Vec<(String, String, u64)>>,
}

impl EventLog {
    fn note(&self, what: &Value) -> u64 {
        let text = what.to_string();
        self.log.push(Direction::Process, text.as_bytes())
    }
}

impl Observer for EventLog {
    fn stage(&self, stage: Stage, detail: &str) {
        let line = self.note(&json!({"stage": stage.as_str(), "detail": detail}));
        let at = Instant::now();
        self.stages.lock().push(StageStart { stage, line, at });
    }

    fn progress(&self, stage: Stage, text: &str) {
        self.note(&json!({"stage": stage.as_str(), "progress": text}));
    }

    fn warning(&self, code: &str, message: &str) {
        let line = self.note(&json!({"warning": code, "message": message}));
        let warning = (code.to_owned(), message.to_owned(), line);
        self.warnings.lock().push(warning);
    }
}

/// The events of a turn.
#[derive(Default)]
pub struct TurnEvents {
    pub events: Vec<(StreamEvent, u64)>,
    pub text: String,
    pub ended: bool,
}

impl TurnEvents {
    pub fn lines(&self) -> Vec<u64> {
        let last = self.events.len().saturating_sub(3);
        let events = self.events.get(last..).unwrap_or_default();
        events.iter().map(|(_, line)| *line).collect()
    }

    /// The error that the turn ended with.
    pub fn error(&self) -> Option<TurnError<'_>> {
        match self.events.last() {
            Some((StreamEvent::Error { code, message, .. }, _)) => {
                Some(TurnError { code, message })
            }
            _ => None,
        }
    }

    pub fn count(&self, fits: impl Fn(&StreamEvent) -> bool) -> usize {
        self.events.iter().filter(|(event, _)| fits(event)).count()
    }
}

/// How a turn failed, displayed as `code: message`.
#[derive(Clone, Copy)]
pub struct TurnError<'a> {
    code: &'a str,
    pub message: &'a str,
}

impl TurnError<'_> {
    pub fn is(&self, code: Code) -> bool {
        self.code == code.as_str()
    }
}

impl fmt::Display for TurnError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

/// A bundle, and the marker that identifies its processes.
pub struct BundleSubject<'a> {
    pub target: &'a Arc<BundleTarget>,
    pub marker: String,
    event_log: Arc<EventLog>,
}

pub type ProbeContext<'a> = probe::ProbeContext<'a, BundleSubject<'a>>;

impl<'a> ProbeContext<'a> {
    pub fn new(
        target: &'a Arc<BundleTarget>,
        config: &'a RunConfig,
        root: &Path,
    ) -> ProbeContext<'a> {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        probe::ProbeContext::with(config, root, |log| BundleSubject {
            target,
            marker: format!("{}-{count}", std::process::id()),
            event_log: Arc::new(EventLog {
                log: Arc::clone(log),
                stages: Mutex::default(),
                warnings: Mutex::default(),
            }),
        })
    }

    pub fn note(&self, what: &Value) -> u64 {
        self.write(Direction::Process, what)
    }

    fn write(&self, direction: Direction, what: &Value) -> u64 {
        self.log.push(direction, what.to_string().as_bytes())
    }

    /// Logs an error of the runtime as evidence.
    pub fn note_error(&self, error: &Error) -> u64 {
        self.note(&json!({
            "fault": error.code.as_str(),
            "message": error.message,
            "hint": error.hint,
        }))
    }

    /// The reason for no verdict if the runtime refused. What the caller must provide is a skip.
    pub fn no_verdict_for(&self, error: &Error) -> NoVerdict {
        self.note_error(error);
        NoVerdict::of_refusal(error)
    }

    // --- runtime ---------------------------------------------------------------------------

    /// The workspace of the case.
    pub fn work(&self) -> PathBuf {
        self.root.join("work")
    }

    pub fn context(&self) -> Result<Context, Error> {
        let observer: Arc<dyn Observer> = Arc::clone(&self.subject.event_log) as _;
        self.subject
            .target
            .context(&self.root, &self.work(), observer)
    }

    /// The caller's choices.
    pub fn choices(&self) -> Choices {
        self.subject.target.options.choices.clone()
    }

    pub fn load(&self, choices: Choices) -> Result<Agent, Error> {
        self.load_in(self.context()?, choices)
    }

    pub fn load_in(&self, context: Context, choices: Choices) -> Result<Agent, Error> {
        let options = AgentOptions {
            choices,
            permissions: Permissions::Allow,
            handshake_timeout: self.config.timeout,
            turn_timeout: None,
            ..self.subject.target.agent_options()
        };
        let mut agent = Agent::load(context, options)?;
        let own = self.config.own_env(&self.root).map_err(|error| {
            let what = format!("cannot create a home directory for the agent: {error}");
            Error::new(Code::StateUnwritable, what)
        })?;
        let given = self.subject.target.options.env.iter().cloned();
        agent.choices.env.extend(given.chain(own));
        let marker = (MARKER.to_owned(), self.subject.marker.clone());
        agent.choices.env.push(marker);
        Ok(agent)
    }

    /// Opens a session with these choices.
    pub async fn session(&mut self, choices: Choices) -> Result<Session, NoVerdict> {
        let agent = self
            .load(choices)
            .map_err(|error| self.no_verdict_for(&error))?;
        self.open_session(&agent, None).await
    }

    pub async fn open_session(
        &mut self,
        agent: &Agent,
        resume: Option<&str>,
    ) -> Result<Session, NoVerdict> {
        let start_time = Instant::now();
        let started = agent.start_or_resume(resume).await;
        self.outcome.startup += start_time.elapsed();
        self.outcome.notes.push(Default::default());
        started.map_err(|error| self.no_verdict_for(&error))
    }

    /// Starts an agent, and looks at its process meanwhile, because it may not live long.
    pub async fn start_and_inspect(
        &mut self,
        agent: &Agent,
    ) -> (Result<Session, Error>, Option<ProcessInfo>) {
        self.outcome.notes.push(Default::default());
        let start_time = Instant::now();
        let mut seen = None;
        let started = {
            let starting = agent.start();
            tokio::pin!(starting);
            loop {
                tokio::select! {
                    biased;
                    started = &mut starting => break started,
                    () = tokio::time::sleep(POLL_INTERVAL) => {
                        seen = process_info::agent(&self.subject.marker).or(seen);
                    }
                }
            }
        };
        self.outcome.startup += start_time.elapsed();
        if started.is_ok() {
            // Look again after the start: a script may have executed another program.
            seen = process_info::agent(&self.subject.marker).or(seen);
        }
        (started, seen)
    }

    /// The process of an agent that only runs during its turns.
    pub async fn inspect_in_turn(
        &mut self,
        session: &Session,
    ) -> Result<Option<ProcessInfo>, NoVerdict> {
        let prompt = match self.prompt("slow") {
            Some(prompt) => prompt,
            None => self.need_prompt("text")?,
        };
        let mut turn = self
            .send(session, &prompt)
            .map_err(|error| self.no_verdict_for(&error))?;
        let until = Instant::now() + self.config.timeout;
        let mut turn_events = TurnEvents::default();
        let mut seen = None;
        loop {
            tokio::select! {
                biased;
                event = turn.next() => {
                    if turn_events.events.is_empty() {
                        seen = process_info::agent(&self.subject.marker).or(seen);
                        // The rest of the turn is not needed.
                        let _ = session.cancel().await;
                    }
                    match event {
                        Some(event) => self.record_event(&mut turn_events, event),
                        None => break,
                    }
                }
                () = tokio::time::sleep(POLL_INTERVAL) => {
                    seen = process_info::agent(&self.subject.marker).or(seen);
                    if Instant::now() >= until {
                        break;
                    }
                }
            }
        }
        Ok(seen)
    }

    /// Opens a session, and returns it with its process.
    pub async fn start_inspected(
        &mut self,
        agent: &Agent,
    ) -> Result<(Session, Option<ProcessInfo>), NoVerdict> {
        let (started, seen) = self.start_and_inspect(agent).await;
        let session = started.map_err(|error| self.no_verdict_for(&error))?;
        let seen = match seen {
            None => self.inspect_in_turn(&session).await?,
            seen => seen,
        };
        Ok((session, seen))
    }

    pub fn prompt(&self, key: &str) -> Option<String> {
        self.config.prompts.get(key).cloned()
    }

    pub fn send(&mut self, session: &Session, text: &str) -> Result<Turn, Error> {
        self.write(Direction::ToAgent, &json!({"prompt": text}));
        session.send(text)
    }

    /// Runs a whole turn.
    pub async fn turn(&mut self, session: &Session, text: &str) -> Result<TurnEvents, NoVerdict> {
        let mut turn = self
            .send(session, text)
            .map_err(|error| self.no_verdict_for(&error))?;
        Ok(self.follow(&mut turn).await)
    }

    /// Reads the events of a turn until its end or the time limit.
    pub async fn follow(&mut self, turn: &mut Turn) -> TurnEvents {
        let start_time = Instant::now();
        let until = start_time + self.config.timeout;
        let mut turn_events = TurnEvents::default();
        loop {
            match timeout_at(until, turn.next()).await {
                Ok(Some(event)) => self.record_event(&mut turn_events, event),
                Ok(None) => {
                    turn_events.ended = true;
                    break;
                }
                Err(_) => break,
            }
        }
        self.outcome.agent += start_time.elapsed();
        turn_events
    }

    pub fn record_event(&self, turn_events: &mut TurnEvents, event: StreamEvent) {
        let value = serde_json::to_value(&event).unwrap_or_default();
        let line = self.write(Direction::FromAgent, &json!({"event": value}));
        if let StreamEvent::TextDelta { text } = &event {
            turn_events.text.push_str(text);
        }
        turn_events.events.push((event, line));
    }

    pub async fn close(&self, session: &Session) {
        // A separate probe checks the teardown.
        if let Err(error) = session.close().await {
            self.note_error(&error);
        }
    }

    pub fn stages(&self) -> Vec<StageStart> {
        self.subject.event_log.stages.lock().clone()
    }

    /// Warnings with one of these codes: message and line.
    pub fn warnings(&self, codes: &[&str]) -> Vec<(String, u64)> {
        let warnings = self.subject.event_log.warnings.lock();
        let fitting = warnings
            .iter()
            .filter(|(code, _, _)| codes.contains(&code.as_str()));
        fitting
            .map(|(_, message, line)| (message.clone(), *line))
            .collect()
    }
}
