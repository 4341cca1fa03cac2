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
use super::look::{self, Seen};
use crate::probe::{self, Log};
use crate::run::Setting;
use crate::run::case::Blocked;
use agentproto_runtime::agent::{Agent, Wishlist};
use agentproto_runtime::arm::desk::Permissions;
use agentproto_runtime::choices::Wanted;
use agentproto_runtime::context::Context;
use agentproto_runtime::event::StreamEvent;
use agentproto_runtime::fault::{Code, Fault};
use agentproto_runtime::observe::{Observer, Stage};
use agentproto_runtime::session::{Session, Turn};
use agentproto_wire::Direction;

/// Environment variable that identifies the agent's process.
pub const MARKER: &str = "AGENTPROTO_CERTIFY_CASE";

/// Interval between two looks at the processes.
const GLANCE: Duration = Duration::from_millis(10);

static COUNT: AtomicU64 = AtomicU64::new(0);

/// A stage that has started.
#[derive(Clone, Debug)]
pub struct Told {
    pub stage: Stage,
    pub line: u64,
    pub at: Instant,
}

/// Logs what the runtime reports.
pub struct Observed {
    log: Arc<Log>,
    stages: Mutex<Vec<Told>>,
    warnings: Mutex<Vec<(String, String, u64)>>,
}

impl Observed {
    fn note(&self, what: &Value) -> u64 {
        let text = what.to_string();
        self.log.push(Direction::Process, text.as_bytes())
    }
}

impl Observer for Observed {
    fn stage(&self, stage: Stage, detail: &str) {
        let line = self.note(&json!({"stage": stage.as_str(), "detail": detail}));
        let at = Instant::now();
        self.stages.lock().push(Told { stage, line, at });
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
pub struct Said {
    pub events: Vec<(StreamEvent, u64)>,
    pub text: String,
    pub ended: bool,
}

impl Said {
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
pub struct Subject<'a> {
    pub target: &'a Arc<BundleTarget>,
    pub marker: String,
    observed: Arc<Observed>,
}

pub type Stand<'a> = probe::Stand<'a, Subject<'a>>;

impl<'a> Stand<'a> {
    pub fn new(target: &'a Arc<BundleTarget>, setting: &'a Setting, root: &Path) -> Stand<'a> {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        probe::Stand::with(setting, root, |log| Subject {
            target,
            marker: format!("{}-{count}", std::process::id()),
            observed: Arc::new(Observed {
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
    pub fn fault(&self, fault: &Fault) -> u64 {
        self.note(&json!({
            "fault": fault.code.as_str(),
            "message": fault.message,
            "hint": fault.hint,
        }))
    }

    /// The reason for no verdict if the runtime refused. What the caller must provide is a skip.
    pub fn refused(&self, fault: &Fault) -> Blocked {
        self.fault(fault);
        let hint = fault.hint.as_ref().map(|hint| format!(" ({hint})"));
        let why = format!(
            "{}: {}{}",
            fault.code.as_str(),
            fault.message,
            hint.unwrap_or_default()
        );
        match fault.code {
            Code::AuthRequired | Code::SetupRequired | Code::Declined => Blocked::Skip(why),
            Code::StateUnwritable => Blocked::Error(why),
            _ => Blocked::NotVerified(why),
        }
    }

    // --- runtime ---------------------------------------------------------------------------

    /// The workspace of the case.
    pub fn work(&self) -> PathBuf {
        self.root.join("work")
    }

    pub fn context(&self) -> Result<Context, Fault> {
        let observer: Arc<dyn Observer> = Arc::clone(&self.subject.observed) as _;
        self.subject
            .target
            .context(&self.root, &self.work(), observer)
    }

    /// The caller's choices.
    pub fn wanted(&self) -> Wanted {
        self.subject.target.choices.wanted.clone()
    }

    pub fn load(&self, wanted: Wanted) -> Result<Agent, Fault> {
        self.load_in(self.context()?, wanted)
    }

    pub fn load_in(&self, context: Context, wanted: Wanted) -> Result<Agent, Fault> {
        let wishes = Wishlist {
            wanted,
            permissions: Permissions::Allow,
            handshake_timeout: self.setting.timeout,
            turn_timeout: None,
            ..self.subject.target.wishes()
        };
        let mut agent = Agent::load(context, wishes)?;
        let own = self.setting.own_env(&self.root).map_err(|error| {
            let what = format!("cannot create a home directory for the agent: {error}");
            Fault::new(Code::StateUnwritable, what)
        })?;
        let given = self.subject.target.choices.env.iter().cloned();
        agent.chosen.env.extend(given.chain(own));
        let marker = (MARKER.to_owned(), self.subject.marker.clone());
        agent.chosen.env.push(marker);
        Ok(agent)
    }

    /// Opens a session with these choices.
    pub async fn session(&mut self, wanted: Wanted) -> Result<Session, Blocked> {
        let agent = self.load(wanted).map_err(|fault| self.refused(&fault))?;
        self.open_session(&agent, None).await
    }

    pub async fn open_session(
        &mut self,
        agent: &Agent,
        resume: Option<&str>,
    ) -> Result<Session, Blocked> {
        let begun = Instant::now();
        let started = agent.start_or_resume(resume).await;
        self.played.startup += begun.elapsed();
        self.played.notes.push(Default::default());
        started.map_err(|fault| self.refused(&fault))
    }

    /// Starts an agent, and looks at its process meanwhile, because it may not live long.
    pub async fn start_and_look(
        &mut self,
        agent: &Agent,
    ) -> (Result<Session, Fault>, Option<Seen>) {
        self.played.notes.push(Default::default());
        let begun = Instant::now();
        let mut seen = None;
        let started = {
            let starting = agent.start();
            tokio::pin!(starting);
            loop {
                tokio::select! {
                    biased;
                    started = &mut starting => break started,
                    () = tokio::time::sleep(GLANCE) => {
                        seen = look::agent(&self.subject.marker).or(seen);
                    }
                }
            }
        };
        self.played.startup += begun.elapsed();
        if started.is_ok() {
            // Look again after the start: a script may have executed another program.
            seen = look::agent(&self.subject.marker).or(seen);
        }
        (started, seen)
    }

    /// The process of an agent that only runs during its turns.
    pub async fn look_in_turn(&mut self, session: &Session) -> Result<Option<Seen>, Blocked> {
        let prompt = match self.prompt("slow") {
            Some(prompt) => prompt,
            None => self.need_prompt("text")?,
        };
        let mut turn = self
            .send(session, &prompt)
            .map_err(|fault| self.refused(&fault))?;
        let until = Instant::now() + self.setting.timeout;
        let mut said = Said::default();
        let mut seen = None;
        loop {
            tokio::select! {
                biased;
                event = turn.next() => {
                    if said.events.is_empty() {
                        seen = look::agent(&self.subject.marker).or(seen);
                        // The rest of the turn is not needed.
                        let _ = session.cancel().await;
                    }
                    match event {
                        Some(event) => self.heard(&mut said, event),
                        None => break,
                    }
                }
                () = tokio::time::sleep(GLANCE) => {
                    seen = look::agent(&self.subject.marker).or(seen);
                    if Instant::now() >= until {
                        break;
                    }
                }
            }
        }
        Ok(seen)
    }

    /// Opens a session, and returns it with its process.
    pub async fn seen(&mut self, agent: &Agent) -> Result<(Session, Option<Seen>), Blocked> {
        let (started, seen) = self.start_and_look(agent).await;
        let session = started.map_err(|fault| self.refused(&fault))?;
        let seen = match seen {
            None => self.look_in_turn(&session).await?,
            seen => seen,
        };
        Ok((session, seen))
    }

    pub fn prompt(&self, key: &str) -> Option<String> {
        self.setting.prompts.get(key).cloned()
    }

    pub fn send(&mut self, session: &Session, text: &str) -> Result<Turn, Fault> {
        self.write(Direction::ToAgent, &json!({"prompt": text}));
        session.send(text)
    }

    /// Runs a whole turn.
    pub async fn turn(&mut self, session: &Session, text: &str) -> Result<Said, Blocked> {
        let mut turn = self
            .send(session, text)
            .map_err(|fault| self.refused(&fault))?;
        Ok(self.follow(&mut turn).await)
    }

    /// Reads the events of a turn until its end or the time limit.
    pub async fn follow(&mut self, turn: &mut Turn) -> Said {
        let begun = Instant::now();
        let until = begun + self.setting.timeout;
        let mut said = Said::default();
        loop {
            match timeout_at(until, turn.next()).await {
                Ok(Some(event)) => self.heard(&mut said, event),
                Ok(None) => {
                    said.ended = true;
                    break;
                }
                Err(_) => break,
            }
        }
        self.played.agent += begun.elapsed();
        said
    }

    pub fn heard(&self, said: &mut Said, event: StreamEvent) {
        let value = serde_json::to_value(&event).unwrap_or_default();
        let line = self.write(Direction::FromAgent, &json!({"event": value}));
        if let StreamEvent::TextDelta { text } = &event {
            said.text.push_str(text);
        }
        said.events.push((event, line));
    }

    pub async fn close(&self, session: &Session) {
        // A separate probe checks the teardown.
        if let Err(fault) = session.close().await {
            self.fault(&fault);
        }
    }

    pub fn stages(&self) -> Vec<Told> {
        self.subject.observed.stages.lock().clone()
    }

    /// Warnings with one of these codes: message and line.
    pub fn warnings(&self, codes: &[&str]) -> Vec<(String, u64)> {
        let warnings = self.subject.observed.warnings.lock();
        let fitting = warnings
            .iter()
            .filter(|(code, _, _)| codes.contains(&code.as_str()));
        fitting
            .map(|(_, message, line)| (message.clone(), *line))
            .collect()
    }
}
