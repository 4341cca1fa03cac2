//! One session: its record, its output and its agent.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::{line_data, status_data};
use crate::clock::Clock;
use crate::error::ApiError;
use crate::model::{Session, Status};
use crate::project::{Line, Projector, Stream};
use crate::ring::{Channel, Kind};
use crate::store::{Log, SessionsFile};
use agentproto_runtime as runtime;
use agentproto_runtime::arm::desk::Answer;
use agentproto_runtime::observe::{Observer, Stage};
use agentproto_sandbox::spawn::Exit;
use agentproto_text::redact;

/// Maximum number of warnings in a record.
const MOST_WARNINGS: usize = 20;
/// How long to wait for the end of a turn after its agent has ended.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// Maximum number of characters of a prompt shown to readers. A longer one would displace
/// everything else in the ring.
const SHOWN_OF_A_PROMPT: usize = 16 << 10;

pub struct Entry {
    pub id: String,
    pub channel: Arc<Channel>,
    record: Mutex<Session>,
    /// Joins the agent's text to lines.
    pub(super) projector: Mutex<Projector>,
    /// Removes known forms of secrets from the agent's stderr.
    stderr: Mutex<redact::Stream>,
    live: Mutex<Live>,
    /// The reason for a kill. Set once.
    pub(super) doomed: watch::Sender<Option<String>>,
    log: Log,
    file: SessionsFile,
    pub(super) clock: Clock,
}

/// The agent and its pending work.
#[derive(Default)]
struct Live {
    session: Option<Arc<runtime::session::Session>>,
    /// A prompt that arrived before the agent was ready.
    first: Option<String>,
    /// The task that reads the current turn.
    pump: Option<JoinHandle<()>>,
}

impl Entry {
    pub fn new(
        record: Session,
        channel: Arc<Channel>,
        log: Log,
        file: SessionsFile,
        clock: Clock,
    ) -> Arc<Self> {
        Arc::new(Entry {
            id: record.id.clone(),
            channel,
            record: Mutex::new(record),
            projector: Mutex::default(),
            stderr: Mutex::default(),
            live: Mutex::default(),
            doomed: watch::Sender::new(None),
            log,
            file,
            clock,
        })
    }

    fn record(&self) -> MutexGuard<'_, Session> {
        self.record.lock()
    }

    fn live(&self) -> MutexGuard<'_, Live> {
        self.live.lock()
    }

    pub fn snapshot(&self) -> Session {
        self.record().clone()
    }

    pub fn is_alive(&self) -> bool {
        self.record().status.is_alive()
    }

    /// Changes the record and stores it.
    pub(super) fn update(&self, change: impl FnOnce(&mut Session)) -> Session {
        let mut record = self.record();
        change(&mut record);
        let now = record.clone();
        drop(record);
        self.keep(now.clone());
        now
    }

    /// Changes the record without storing it, because it is stored elsewhere.
    pub(super) fn change(&self, change: impl FnOnce(&mut Session)) {
        change(&mut self.record());
    }

    pub(super) fn keep(&self, record: Session) {
        self.log.record(record);
        self.file.touch();
    }

    /// Changes the status. Returns false if the transition is not allowed.
    pub(super) fn become_(&self, next: Status, change: impl FnOnce(&mut Session)) -> bool {
        let mut record = self.record();
        if !record.status.can_become(next) {
            return false;
        }
        record.status = next;
        if !next.is_alive() {
            record.ended_at = Some(self.clock.now_for(&record));
            record.busy = false;
            record.pending_permissions.clear();
        }
        change(&mut record);
        let (now, told) = (record.clone(), status_data(&record));
        drop(record);
        self.keep(now);
        self.channel.push(Kind::Status, &told);
        true
    }

    /// Publishes lines of output, and updates the time of the last output.
    pub(super) fn lines(&self, lines: &[Line]) {
        if lines.is_empty() {
            return;
        }
        self.change(|record| record.last_output_at = Some(self.clock.now_for(record)));
        for line in lines {
            let (kind, data) = line_data(&line.text, line.stream);
            self.channel.push(kind, &data);
        }
    }

    /// Accepts a prompt, or returns why it cannot.
    pub fn prompt(self: &Arc<Self>, prompt: String) -> Result<(), ApiError> {
        let mut live = self.live();
        let busy = |session: &Session| {
            ApiError::new(
                409,
                "session_busy",
                format!(
                    "session `{}` is busy: a turn is running (AIP-46, Multi-turn semantics)",
                    session.id
                ),
            )
            .hint("wait for its turn-end line, or POST …/interrupt")
        };
        {
            let mut record = self.record();
            if !record.status.is_alive() || self.doomed.borrow().is_some() {
                let what = format!(
                    "session `{}` has ended: {}",
                    record.id,
                    record.status.as_str()
                );
                let hint = match record.resumable {
                    true => "POST …/resume to continue it in a new session",
                    false => "start a new session",
                };
                return Err(ApiError::new(409, "session_ended", what).hint(hint));
            }
            if record.busy {
                return Err(busy(&record));
            }
            record.busy = true;
        }
        let Some(session) = live.session.clone() else {
            live.first = Some(prompt);
            drop(live);
            self.tell_busy();
            return Ok(());
        };
        drop(live);
        self.begin_turn(&session, prompt)
    }

    fn begin_turn(
        self: &Arc<Self>,
        session: &Arc<runtime::session::Session>,
        prompt: String,
    ) -> Result<(), ApiError> {
        let shown = prompt_data(&session.masked(&prompt), &self.now());
        match session.send(prompt) {
            Ok(turn) => {
                self.update(|record| record.turns += 1);
                self.channel.push(Kind::Prompt, &shown);
                self.tell_busy();
                let pump = super::turn::pump(Arc::clone(self), Arc::clone(session), turn);
                self.live().pump = Some(tokio::spawn(pump));
                Ok(())
            }
            Err(fault) => {
                self.record().busy = false;
                Err(fault.into())
            }
        }
    }

    /// Current time for this session.
    fn now(&self) -> String {
        self.clock.now_for(&self.record())
    }

    fn tell_busy(&self) {
        let told = status_data(&self.record());
        self.channel.push(Kind::Status, &told);
    }

    /// Called when the agent is ready. Sends the prompt that arrived before.
    pub(super) fn ready(self: &Arc<Self>, session: Arc<runtime::session::Session>) {
        let first = {
            // Both under one lock: a client that sees the session running can prompt it.
            let mut live = self.live();
            live.session = Some(Arc::clone(&session));
            self.become_(Status::Running, |record| {
                record.agent_session_id = Some(session.id());
            });
            live.first.take()
        };
        if let Some(prompt) = first
            && let Err(error) = self.begin_turn(&session, prompt)
        {
            let mut told = crate::project::error(&error.message, None);
            told.push(crate::project::turn_end("error"));
            self.lines(&told);
            self.tell_busy();
        }
    }

    pub(super) fn hold_first(&self, prompt: String) {
        self.record().busy = true;
        self.live().first = Some(prompt);
    }

    /// Releases the agent and all its resources.
    pub(super) fn release(&self) {
        *self.live() = Live::default();
        self.channel.close();
        // Items in the log need not stay in memory.
        let (channel, log) = (Arc::clone(&self.channel), self.log.clone());
        tokio::spawn(async move {
            log.settle().await;
            if !log.is_broken() {
                channel.clear();
            }
        });
    }

    pub(super) fn take_pump(&self) -> Option<JoinHandle<()>> {
        self.live().pump.take()
    }

    pub(super) fn agent(&self) -> Option<Arc<runtime::session::Session>> {
        self.live().session.clone()
    }

    pub async fn interrupt(&self) -> Result<bool, ApiError> {
        let session = {
            let mut live = self.live();
            if live.session.is_none() && live.first.take().is_some() {
                drop(live);
                self.record().busy = false;
                self.lines(&[crate::project::turn_end("cancelled")]);
                self.tell_busy();
                return Ok(true);
            }
            live.session.clone()
        };
        match session {
            Some(session) => Ok(session.cancel().await?),
            None => Ok(false),
        }
    }

    pub fn answer(&self, question: &str, answer: Answer) -> Result<(), ApiError> {
        let asked = self
            .record()
            .pending_permissions
            .iter()
            .find(|p| p.id == question)
            .cloned();
        let closed = || {
            ApiError::new(
                404,
                "permission_not_found",
                format!(
                    "no open question `{}`",
                    question.chars().take(64).collect::<String>()
                ),
            )
            .hint("GET /sessions/:id lists open questions as `pendingPermissions`")
        };
        let asked = asked.ok_or_else(closed)?;
        if let Answer::Choice(choice) = &answer
            && !asked.options.iter().any(|option| option.id == *choice)
        {
            let offered: Vec<&str> = asked.options.iter().map(|o| o.id.as_str()).collect();
            return Err(ApiError::bad_request(format!("unknown option `{choice}`"))
                .hint(format!("the options are {}", offered.join(", "))));
        }
        let session = self.agent().ok_or_else(closed)?;
        if !session.answer(question, answer) {
            return Err(closed());
        }
        self.close_question(question);
        Ok(())
    }

    pub(super) fn close_question(&self, question: &str) {
        let mut record = self.record();
        let before = record.pending_permissions.len();
        record.pending_permissions.retain(|p| p.id != question);
        let closed = record.pending_permissions.len() < before;
        drop(record);
        if closed {
            let data = json!({ "id": question, "closed": true });
            self.channel.push(Kind::Permission, &data);
        }
    }

    /// Ends the session: closes it, and kills it after a time limit. Returns false if it had
    /// already ended.
    pub async fn kill(self: &Arc<Self>, why: &str, polite: Duration) -> bool {
        let first = self.doomed.send_if_modified(|doomed| {
            let first = doomed.is_none() && self.record().status.is_alive();
            if first {
                *doomed = Some(why.to_owned());
            }
            first
        });
        if let Some(session) = self.agent() {
            let closed = tokio::time::timeout(polite, session.close()).await;
            if let Some(pump) = self.take_pump() {
                // Wait briefly for the last events of the turn, then abort a turn that does not
                // end.
                let stuck = pump.abort_handle();
                if tokio::time::timeout(LAST_WORDS, pump).await.is_err() {
                    stuck.abort();
                }
            }
            let exit = closed.ok().and_then(Result::ok).and_then(|c| c.exit);
            self.killed(why, exit);
        }
        // A session that is still starting is ended by its start task. All callers wait for the
        // end.
        self.channel.watch_end().over().await;
        first
    }

    /// Ends a session that was killed.
    pub(super) fn killed(&self, why: &str, exit: Option<Exit>) {
        let is_busy = self.record().busy;
        if is_busy {
            // Its turn has no end event.
            let mut lines = Vec::new();
            self.projector.lock().flush(&mut lines);
            lines.push(crate::project::turn_end("cancelled"));
            if self.is_alive() {
                self.lines(&lines);
            }
        }
        self.become_(Status::Killed, |record| {
            record.reason = Some(why.to_owned());
            record.exit_code = exit.and_then(|exit| exit.status.code());
        });
        self.release();
    }

    pub(super) fn warn(&self, code: &str, message: &str) {
        let mut record = self.record();
        if record.warnings.len() < MOST_WARNINGS {
            record.warnings.push(crate::model::Warning {
                code: code.to_owned(),
                message: message.to_owned(),
            });
        }
        drop(record);
        self.lines(&[Line {
            text: format!("[warning] {message}"),
            stream: Stream::Stderr,
        }]);
    }
}

/// Data of a `prompt` event, for readers that show both sides of the conversation.
fn prompt_data(prompt: &str, at: &str) -> Value {
    let prompt = &*redact::text(prompt);
    let end = prompt.char_indices().nth(SHOWN_OF_A_PROMPT);
    let shown = end.and_then(|(end, _)| prompt.get(..end));
    let mut data = json!({ "prompt": shown.unwrap_or(prompt), "at": at });
    if shown.is_some() {
        data["cut"] = json!(true);
    }
    data
}

/// Observes what happens around the turns. Holds a weak reference, because the agent's context must
/// not keep its session alive.
pub(super) struct Ear(pub std::sync::Weak<Entry>);

impl Observer for Ear {
    fn stage(&self, _: Stage, _: &str) {}

    fn progress(&self, _: Stage, _: &str) {}

    fn warning(&self, code: &str, message: &str) {
        if let Some(entry) = self.0.upgrade() {
            entry.warn(code, message);
        }
    }

    fn stderr(&self, line: &str) {
        let Some(entry) = self.0.upgrade() else {
            return;
        };
        let text = entry.stderr.lock().line(line);
        if !text.is_empty() || line.is_empty() {
            entry.lines(&[Line {
                text,
                stream: Stream::Stderr,
            }]);
        }
    }
}

/// The stderr tail in the details of an error.
pub(super) fn told(details: &Value) -> Option<&str> {
    details.get("stderr").and_then(Value::as_str)
}
