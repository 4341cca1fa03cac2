//! One session: its record, its output and its agent.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::pins::PinKey;
use super::{line_data, status_data};
use crate::clock::Clock;
use crate::error::ApiError;
use crate::model::{PendingPermission, SessionRecord, SessionStatus};
use crate::project::{OutputLine, Projector};
use crate::ring::{Channel, ItemKind};
use crate::store::{SessionLog, SessionsFile};
use agentproto_runtime as runtime;
use agentproto_runtime::Code;
use agentproto_runtime::arm::permissions::Answer;
use agentproto_runtime::observe::{Observer, Stage};
use agentproto_sandbox::spawn::Exit;
use agentproto_text::redact::{self, SecretRedactor};

/// Maximum number of warnings in a record.
const MAX_WARNINGS: usize = 20;
/// How long to wait for the end of a turn after its agent has ended.
const TURN_END_GRACE: Duration = Duration::from_millis(500);
/// Maximum number of characters of a prompt shown to readers. A longer one would displace
/// everything else in the ring.
const MAX_PROMPT_CHARS: usize = 16 << 10;

pub struct SessionEntry {
    pub id: String,
    pub channel: Arc<Channel>,
    record: Mutex<SessionRecord>,
    /// Joins the agent's text to lines.
    pub(super) projector: Mutex<Projector>,
    /// Removes known forms of secrets from the agent's stderr.
    stderr: Mutex<redact::TokenRedactor>,
    live: Mutex<LiveAgent>,
    /// The reason for a kill. Set once.
    pub(super) kill_reason: watch::Sender<Option<String>>,
    /// Set if later requests of the same conversation use the session.
    pin: Mutex<Option<PinKey>>,
    log: SessionLog,
    file: SessionsFile,
    pub(super) clock: Clock,
}

/// The agent and its pending work.
#[derive(Default)]
struct LiveAgent {
    session: Option<Arc<runtime::session::Session>>,
    /// Masks the secrets of the session.
    masks: Option<SecretRedactor>,
    /// A prompt that arrived before the agent was ready.
    first: Option<String>,
    /// The task that reads the current turn.
    turn_task: Option<JoinHandle<()>>,
}

impl Drop for SessionEntry {
    fn drop(&mut self) {
        self.log.release(&self.id);
    }
}

impl SessionEntry {
    pub fn new(
        record: SessionRecord,
        channel: Arc<Channel>,
        log: SessionLog,
        file: SessionsFile,
        clock: Clock,
    ) -> Arc<Self> {
        Arc::new(SessionEntry {
            id: record.id.clone(),
            channel,
            record: Mutex::new(record),
            projector: Mutex::default(),
            stderr: Mutex::default(),
            live: Mutex::default(),
            kill_reason: watch::Sender::new(None),
            pin: Mutex::default(),
            log,
            file,
            clock,
        })
    }

    fn record(&self) -> MutexGuard<'_, SessionRecord> {
        self.record.lock()
    }

    fn live(&self) -> MutexGuard<'_, LiveAgent> {
        self.live.lock()
    }

    pub fn snapshot(&self) -> SessionRecord {
        self.record().clone()
    }

    /// Working directory of the agent.
    pub(super) fn cwd(&self) -> PathBuf {
        PathBuf::from(&self.record().cwd)
    }

    /// Whether the session ended before a time.
    pub(super) fn ended_before(&self, time: Option<&str>) -> bool {
        let record = self.record();
        let ended = record.ended_at.as_deref();
        matches!((ended, time), (Some(ended), Some(time)) if ended < time)
    }

    pub fn is_alive(&self) -> bool {
        self.record().status.is_alive()
    }

    pub(super) fn pin(&self) -> Option<PinKey> {
        self.pin.lock().clone()
    }

    pub(super) fn set_pin(&self, pin: PinKey) {
        *self.pin.lock() = Some(pin);
    }

    /// Whether the agent accepts no more turns. False while it is starting.
    pub(super) fn has_used_all_turns(&self) -> bool {
        self.agent().is_some_and(|agent| agent.has_used_all_turns())
    }

    /// Changes the record and stores it.
    pub(super) fn update(&self, change: impl FnOnce(&mut SessionRecord)) -> SessionRecord {
        let mut record = self.record();
        change(&mut record);
        let now = record.clone();
        drop(record);
        self.store(now.clone());
        now
    }

    /// Changes the record without storing it, because it is stored elsewhere.
    pub(super) fn change(&self, change: impl FnOnce(&mut SessionRecord)) {
        change(&mut self.record());
    }

    pub(super) fn store(&self, record: SessionRecord) {
        self.log.record(record);
        self.file.touch();
    }

    /// Changes the status. Returns false if the transition is not allowed.
    pub(super) fn set_status(
        &self,
        next: SessionStatus,
        change: impl FnOnce(&mut SessionRecord),
    ) -> bool {
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
        let (now, data) = (record.clone(), status_data(&record));
        drop(record);
        self.store(now);
        self.channel.push(ItemKind::Status, &data);
        true
    }

    /// Publishes lines of output, and updates the time of the last output.
    pub(super) fn lines(&self, lines: &[OutputLine]) {
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
        let busy = |session: &SessionRecord| {
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
            if !record.status.is_alive() || self.kill_reason.borrow().is_some() {
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
            self.publish_status();
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
        let data = prompt_data(&session.masked(&prompt), &self.now());
        match session.send(prompt) {
            Ok(turn) => {
                self.update(|record| record.turns += 1);
                self.channel.push(ItemKind::Prompt, &data);
                self.publish_status();
                let turn_task =
                    super::turn::publish_turn(Arc::clone(self), Arc::clone(session), turn);
                self.live().turn_task = Some(tokio::spawn(turn_task));
                Ok(())
            }
            Err(error) => {
                self.record().busy = false;
                Err(error.into())
            }
        }
    }

    /// Current time for this session.
    fn now(&self) -> String {
        self.clock.now_for(&self.record())
    }

    fn publish_status(&self) {
        let data = status_data(&self.record());
        self.channel.push(ItemKind::Status, &data);
    }

    /// Called when the agent is ready. Sends the prompt that arrived before.
    pub(super) fn ready(self: &Arc<Self>, session: Arc<runtime::session::Session>) {
        let first = {
            // Both under one lock: a client that sees the session running can prompt it.
            let mut live = self.live();
            live.session = Some(Arc::clone(&session));
            self.set_status(SessionStatus::Running, |record| {
                record.agent_session_id = Some(session.id());
            });
            live.first.take()
        };
        if let Some(prompt) = first
            && let Err(error) = self.begin_turn(&session, prompt)
        {
            let mut lines = crate::project::error(&error.message, None);
            lines.push(crate::project::turn_end("error"));
            self.lines(&lines);
            self.publish_status();
        }
    }

    pub(super) fn set_masks(&self, masks: SecretRedactor) {
        self.live().masks = Some(masks);
    }

    /// Masks a secret in everything that the agent writes from now on.
    pub(super) fn mask(&self, secret: &str) {
        if let Some(masks) = &self.live().masks {
            masks.add(secret);
        }
    }

    pub(super) fn queue_first_prompt(&self, prompt: String) {
        self.record().busy = true;
        self.live().first = Some(prompt);
    }

    /// Releases the agent and all its resources.
    pub(super) fn release(&self) {
        *self.live() = LiveAgent::default();
        self.channel.close();
        // Items in the log need not stay in memory.
        let (channel, log) = (Arc::clone(&self.channel), self.log.clone());
        tokio::spawn(async move {
            if log.wait_committed().await {
                channel.clear();
            }
        });
    }

    pub(super) fn take_turn_task(&self) -> Option<JoinHandle<()>> {
        self.live().turn_task.take()
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
                self.publish_status();
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
        let pending = self
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
        let pending = pending.ok_or_else(closed)?;
        if let Answer::Choice(choice) = &answer
            && !pending.options.iter().any(|option| option.id == *choice)
        {
            let offered: Vec<&str> = pending.options.iter().map(|o| o.id.as_str()).collect();
            return Err(ApiError::bad_request(format!("unknown option `{choice}`"))
                .hint(format!("the options are {}", offered.join(", "))));
        }
        let session = self.agent().ok_or_else(closed)?;
        let said = describe(&pending, &answer);
        session
            .respond(question, answer)
            .map_err(|error| match error.code {
                Code::QuestionUnknown => closed(),
                _ => error.into(),
            })?;
        self.close_question(question, said);
        Ok(())
    }

    /// Closes a question, with the answer if the user gave one.
    fn close_question(&self, question: &str, answer: Value) {
        let mut record = self.record();
        let before = record.pending_permissions.len();
        record.pending_permissions.retain(|p| p.id != question);
        let closed = record.pending_permissions.len() < before;
        drop(record);
        if closed {
            let data = json!({ "id": question, "closed": true, "answer": answer });
            self.channel.push(ItemKind::Permission, &data);
        }
    }

    /// Ends the session: closes it, and kills it after a time limit. Returns false if it had
    /// already ended.
    pub async fn kill(self: &Arc<Self>, why: &str, grace: Duration) -> bool {
        let first = self.kill_reason.send_if_modified(|kill_reason| {
            let first = kill_reason.is_none() && self.record().status.is_alive();
            if first {
                *kill_reason = Some(why.to_owned());
            }
            first
        });
        if let Some(session) = self.agent() {
            let closed = tokio::time::timeout(grace, session.close()).await;
            if let Some(turn_task) = self.take_turn_task() {
                // Wait briefly for the last events of the turn, then abort a turn that does not
                // end.
                let abort = turn_task.abort_handle();
                if tokio::time::timeout(TURN_END_GRACE, turn_task)
                    .await
                    .is_err()
                {
                    abort.abort();
                }
            }
            let exit = closed.ok().and_then(Result::ok).and_then(|c| c.exit);
            self.finish_killed(why, exit);
        }
        // A session that is still starting is ended by its start task. All callers wait for the
        // end.
        self.channel.watch_end().over().await;
        first
    }

    /// Ends a session that was killed.
    pub(super) fn finish_killed(&self, why: &str, exit: Option<Exit>) {
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
        self.set_status(SessionStatus::Killed, |record| {
            record.reason = Some(why.to_owned());
            record.exit_code = exit.and_then(|exit| exit.status.code());
        });
        self.release();
    }

    pub(super) fn warn(&self, code: &str, message: &str) {
        let mut record = self.record();
        if record.warnings.len() < MAX_WARNINGS {
            record.warnings.push(crate::model::Warning {
                code: code.to_owned(),
                message: message.to_owned(),
            });
        }
        drop(record);
        self.lines(&[crate::project::warning(message)]);
    }
}

/// An answer for the history. The content of a form may be secret, so it is left out.
fn describe(question: &PendingPermission, answer: &Answer) -> Value {
    match answer {
        Answer::Choice(id) => {
            let chosen = question.options.iter().find(|option| option.id == *id);
            json!({ "option": id, "label": chosen.map(|o| &o.label), "kind": chosen.and_then(|o| o.kind.as_ref()) })
        }
        Answer::Content(_) => json!({ "content": true }),
        Answer::Declined | Answer::Cancelled => json!({ "declined": true }),
    }
}

/// Data of a `prompt` event, for readers that show both sides of the conversation.
fn prompt_data(prompt: &str, at: &str) -> Value {
    let prompt = &*redact::text(prompt);
    let end = prompt.char_indices().nth(MAX_PROMPT_CHARS);
    let truncated = end.and_then(|(end, _)| prompt.get(..end));
    let mut data = json!({ "prompt": truncated.unwrap_or(prompt), "at": at });
    if truncated.is_some() {
        data["cut"] = json!(true);
    }
    data
}

/// Observes what happens around the turns. Holds a weak reference, because the agent's context must
/// not keep its session alive.
pub(super) struct EntryObserver(pub std::sync::Weak<SessionEntry>);

impl Observer for EntryObserver {
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
            entry.lines(&[crate::project::stderr_line(&text)]);
        }
    }
}

/// The stderr tail in the details of an error.
pub(super) fn stderr_of(details: &Value) -> Option<&str> {
    details.get("stderr").and_then(Value::as_str)
}
