//! Protocol arms: each speaks one protocol to the agent and translates it, once, into the
//! events of AIP-45 (A45-EVT-09).

pub mod acp;
pub mod adapter;
pub mod codec;
pub mod desk;
pub mod input;
#[cfg(test)]
#[cfg(test)]
mod json;
pub mod mcp;
pub mod npm;
pub mod process;
mod proprietary;
pub mod slot;

use std::ffi::OsString;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::audit::Audit;
use crate::event::{StopReason, StreamEvent};
use crate::fault::{Code, Fault};
use agentproto_sandbox::spawn::Exit;

pub use proprietary::proprietary;

/// From an agent that takes nothing more to its end; what ends it tells more than its silence.
const LAST_WORD: Duration = Duration::from_millis(250);

pub type Doing<'a, T> = Pin<Box<dyn Future<Output = Result<T, Fault>> + Send + 'a>>;

/// How the agent is started: the whole argv and what its environment gets beyond the policy.
#[derive(Clone, Debug)]
pub struct Spec {
    pub argv: Vec<OsString>,
    pub env: Vec<(OsString, OsString)>,
}

/// What the agent said of itself in the handshake.
#[derive(Clone, Debug, Default)]
pub struct Negotiated {
    pub name: Option<String>,
    pub version: Option<String>,
    /// Can it take a session up again? `None` where the protocol does not tell.
    pub resumable: Option<bool>,
    /// Does it take images? `None` where the protocol does not tell.
    pub multimodal: Option<bool>,
}

/// Where a session begins.
#[derive(Clone, Debug)]
pub struct Open {
    /// A former session to go on with.
    pub resume: Option<String>,
}

/// A running agent behind its protocol. Calls come from one session, one turn at a time;
/// `cancel` comes in between.
pub trait Arm: Send + Sync {
    /// What has to be there before the agent can start, and may take its time: a download, a
    /// person's consent. The handshake's time does not run yet.
    fn prepare(&self) -> Doing<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }
    /// Starts the agent and agrees on a protocol with it.
    fn handshake(&self) -> Doing<'_, Negotiated>;
    /// Opens a session, or takes one up again; its id.
    fn open<'a>(&'a self, open: &'a Open) -> Doing<'a, String>;
    /// One turn. Events go to the sink as they come; the end of the turn is the return value.
    /// An agent that dies gives `agent_exited`.
    fn turn<'a>(&'a self, message: &'a str, events: Events) -> Doing<'a, StopReason>;
    /// Asks the agent to end the turn; the turn itself then returns `Cancelled`.
    fn cancel(&self) -> Doing<'_, ()>;
    /// Closes the session in the protocol's own way, where it has one.
    fn close(&self) -> Doing<'_, ()>;
    /// Ends the process by the ladder; `None` where there is none.
    fn stop(&self) -> Pin<Box<dyn Future<Output = Option<Exit>> + Send + '_>>;
    /// What the agent said beside its protocol, for an error about its silence.
    fn last_words(&self) -> Pin<Box<dyn Future<Output = Option<String>> + Send + '_>> {
        Box::pin(std::future::ready(None))
    }
    /// Waits until the agent has ended on its own; for ever where no process stays between
    /// turns. Asked for once the session is open; holds nothing of the agent.
    fn gone(&self) -> Pin<Box<dyn Future<Output = ()> + Send + 'static>> {
        Box::pin(std::future::pending())
    }
    /// The sessions that the agent knows.
    fn list(&self) -> Doing<'_, Value> {
        let no = Fault::new(
            Code::CapabilityMismatch,
            "the agent does not list its sessions",
        );
        Box::pin(std::future::ready(Err(no)))
    }
    /// What a later run resumes by, where the agent tells it only in a turn; it replaces the
    /// id that `open` gave.
    fn session_id(&self) -> Option<String> {
        None
    }
}

/// An agent that still runs, and cannot be told anything.
fn closed_input() -> Fault {
    let what = "the agent has closed its standard input in the middle of its session";
    Fault::new(Code::ProtocolViolation, what)
        .hint("report it to the agent's author; the session cannot go on")
}

/// The beginning of a line that an agent wrote, fit for an error.
fn quote(context: &crate::context::Context, line: &[u8]) -> String {
    const QUOTED: usize = 200;
    let text = String::from_utf8_lossy(line.get(..64 * QUOTED).unwrap_or(line));
    cut(&context.masks.mask(&text), QUOTED)
}

/// A fault in an agent's words: masked, and no longer than anybody reads.
pub(super) fn in_its_words(context: &crate::context::Context, mut fault: Fault) -> Fault {
    const LONGEST: usize = 4000;
    const LARGEST: usize = 16 << 10;
    fault.message = cut(&context.masks.mask(&fault.message), LONGEST);
    fault.hint = fault
        .hint
        .map(|hint| cut(&context.masks.mask(&hint), LONGEST));
    if fault.details.to_string().len() > LARGEST {
        fault.details = Box::default();
    }
    context.masks.mask_value(&mut fault.details);
    fault
}

fn cut(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// What a process wrote to standard error, for an error about its silence.
async fn words(process: &process::Process) -> Option<String> {
    let words = process.last_words().await;
    (!words.is_empty()).then(|| format!("its last words: {words}"))
}

/// A session's name until the agent gives it its own.
fn provisional_id() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let micros = since.map_or(0, |since| since.as_micros());
    let number = crate::home::unique();
    format!("local-{:x}-{micros:x}-{number:x}", std::process::id())
}

/// Where an arm puts the events of a turn.
#[derive(Clone)]
pub struct Events {
    sink: mpsc::Sender<StreamEvent>,
    audit: Arc<Audit>,
}

impl Events {
    pub fn new(sink: mpsc::Sender<StreamEvent>, audit: Arc<Audit>) -> Self {
        Events { sink, audit }
    }

    /// Waits while the reader is slow; a reader that has gone is no fault. Tool calls and
    /// questions go into the audit log first (A45-LIFE-07, A45-SEC-03).
    pub async fn emit(&self, event: StreamEvent) -> Result<(), Fault> {
        match &event {
            StreamEvent::ToolCall {
                id,
                name,
                kind,
                args,
            } => self.audit.record(
                "tool.call",
                json!({ "id": id, "name": name, "kind": kind, "args": args }),
            )?,
            StreamEvent::ToolResult { id, ok, .. } => {
                self.audit
                    .record("tool.result", json!({ "id": id, "ok": ok }))?;
            }
            StreamEvent::AgentPrompt { id, message, .. } => self
                .audit
                .record("agent.prompt", json!({ "id": id, "message": message }))?,
            _ => {}
        }
        // Mostly there is room, and nothing has to wait.
        if let Err(TrySendError::Full(event)) = self.sink.try_send(event) {
            let _ = self.sink.send(event).await;
        }
        Ok(())
    }

    /// Something of the arm's own that belongs into the audit log.
    pub fn record(&self, event: &str, data: Value) -> Result<(), Fault> {
        self.audit.record(event, data)
    }
}
