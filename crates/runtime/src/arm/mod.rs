//! Protocol arms. Each speaks one protocol with the agent and translates it into the events of
//! AIP-45 (A45-EVT-09).

pub(crate) mod acp;
pub mod adapter;
mod codec;
mod elicitation;
pub(crate) mod gate;
mod input;
#[cfg(test)]
mod json;
pub mod mcp;
pub mod npm;
pub mod permissions;
pub mod process;
mod proprietary;
mod slot;
mod tool_calls;

use std::ffi::OsString;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::audit::Audit;
use crate::capabilities::CapabilityMonitor;
use crate::error::{Code, Error, stderr_block};
use crate::event::{StopReason, StreamEvent};
use crate::usage::UsageReport;
use agentproto_sandbox::spawn::Exit;
use gate::ToolGate;
use tool_calls::ToolCalls;

pub use proprietary::proprietary;

/// How long to wait for the exit of an agent that no longer reads. Its exit status and stderr
/// explain more than the failed write.
const EXIT_GRACE: Duration = Duration::from_millis(250);

/// The future that the methods of [`Arm`] return.
pub type ArmFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// How the agent is started: its argv, and its environment in addition to the policy.
#[derive(Clone, Debug)]
pub struct LaunchSpec {
    /// The program and its arguments.
    pub argv: Vec<OsString>,
    /// Variables that are set in addition to those of the policy.
    pub env: Vec<(OsString, OsString)>,
}

/// What the agent reported about itself in the handshake.
#[derive(Clone, Debug, Default)]
pub struct Negotiated {
    /// The agent's name.
    pub name: Option<String>,
    /// The agent's version.
    pub version: Option<String>,
    /// Whether it can resume sessions, or `None` if the protocol does not say.
    pub resumable: Option<bool>,
    /// Whether it accepts images or audio, or `None` if the protocol does not say.
    pub multimodal: Option<bool>,
}

/// How to open a session.
#[derive(Clone, Debug)]
pub struct OpenRequest {
    /// An earlier session to resume.
    pub resume: Option<String>,
}

/// A running agent behind its protocol. Calls come from one session, one turn at a time. `cancel`
/// may be called during a turn.
pub trait Arm: Send + Sync {
    /// Prepares what the agent needs before it starts, such as a download or the user's consent.
    /// The handshake timeout does not apply yet.
    fn prepare(&self) -> ArmFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }
    /// Starts the agent and negotiates the protocol with it.
    fn handshake(&self) -> ArmFuture<'_, Negotiated>;
    /// Opens or resumes a session, and returns its id.
    fn open<'a>(&'a self, open: &'a OpenRequest) -> ArmFuture<'a, String>;
    /// Runs one turn. Events go to the sink as they arrive. The return value says how the turn
    /// ended. If the agent exits, the error is `agent_exited`.
    fn turn<'a>(&'a self, message: &'a str, events: EventSink) -> ArmFuture<'a, StopReason>;
    /// Asks the agent to end the turn, which then returns `Cancelled`.
    fn cancel(&self) -> ArmFuture<'_, ()>;
    /// Closes the session in the protocol's own way, if it has one.
    fn close(&self) -> ArmFuture<'_, ()>;
    /// Ends the process: end of stdin, SIGTERM, SIGKILL. `None` if there is none.
    fn stop(&self) -> Pin<Box<dyn Future<Output = Option<Exit>> + Send + '_>>;
    /// What the agent wrote outside its protocol, to append to an error about a missing answer.
    fn output_excerpt(&self) -> Pin<Box<dyn Future<Output = Option<String>> + Send + '_>> {
        Box::pin(std::future::ready(None))
    }
    /// Waits until the agent has exited on its own. Never returns if no process stays between
    /// turns. Called once the session is open. The future holds no reference to the agent.
    fn exited(&self) -> Pin<Box<dyn Future<Output = ()> + Send + 'static>> {
        Box::pin(std::future::pending())
    }
    /// The sessions that the agent knows about.
    fn list(&self) -> ArmFuture<'_, Value> {
        let unsupported = Error::new(
            Code::CapabilityMismatch,
            "the agent does not support listing its sessions",
        );
        Box::pin(std::future::ready(Err(unsupported)))
    }
    /// The id that a later run resumes by, if the agent reports it only during a turn. It replaces
    /// the id that `open` returned.
    fn session_id(&self) -> Option<String> {
        None
    }
}

/// The error for an agent that still runs, but has closed its stdin.
fn closed_input() -> Error {
    let what = "the agent closed its stdin during the session";
    Error::new(Code::ProtocolViolation, what)
        .hint("report it to the agent's author; the session cannot continue")
}

/// The first part of a line that an agent wrote, masked, for an error message.
fn quote(context: &crate::context::Context, line: &[u8]) -> String {
    const MAX_QUOTE: usize = 200;
    let text = String::from_utf8_lossy(line.get(..64 * MAX_QUOTE).unwrap_or(line));
    truncate(&context.masks.mask(&text), MAX_QUOTE)
}

/// Masks and shortens an error that contains text of the agent.
pub(super) fn redact_error(context: &crate::context::Context, mut error: Error) -> Error {
    const MAX_CHARS: usize = 4000;
    const MAX_DETAILS: usize = 16 << 10;
    error.message = truncate(&context.masks.mask(&error.message), MAX_CHARS);
    error.hint = error
        .hint
        .map(|hint| truncate(&context.masks.mask(&hint), MAX_CHARS));
    if error.details.to_string().len() > MAX_DETAILS {
        error.details = Box::default();
    }
    context.masks.mask_value(&mut error.details);
    error
}

fn truncate(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// The end of a process's stderr, for an error about a missing answer.
async fn stderr_excerpt(process: &process::Process) -> Option<String> {
    let tail = process.stderr_tail().await;
    (!tail.is_empty()).then(|| stderr_block(&tail))
}

/// A session id to use until the agent reports its own.
fn provisional_id() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let micros = since.map_or(0, |since| since.as_micros());
    let number = crate::home::unique();
    format!("local-{:x}-{micros:x}-{number:x}", std::process::id())
}

/// The sink for the events of a turn.
#[derive(Clone)]
pub struct EventSink {
    sink: mpsc::Sender<StreamEvent>,
    audit: Arc<Audit>,
    calls: Arc<ToolCalls>,
    usage: Arc<Mutex<UsageReport>>,
    /// Compares the events with the declared capabilities.
    monitor: Option<Arc<CapabilityMonitor>>,
    /// Checks that tool calls passed the permission policy.
    gate: Option<Arc<ToolGate>>,
}

impl EventSink {
    /// Creates a sink that sends to a channel and writes to an audit log.
    pub fn new(sink: mpsc::Sender<StreamEvent>, audit: Arc<Audit>) -> Self {
        EventSink {
            sink,
            audit,
            calls: Arc::default(),
            usage: Arc::default(),
            monitor: None,
            gate: None,
        }
    }

    /// Keeps what the agent reports about its usage, for the end of the turn. Invalid data is
    /// ignored.
    pub fn report_usage(&self, report: UsageReport) {
        self.usage.lock().merge(report);
    }

    /// The reported usage of the turn.
    pub fn take_usage(&self) -> UsageReport {
        std::mem::take(&mut *self.usage.lock())
    }

    /// Compares the events with the declared capabilities.
    #[must_use]
    pub fn monitored(mut self, monitor: Arc<CapabilityMonitor>) -> Self {
        self.monitor = Some(monitor);
        self
    }

    /// Checks that tool calls passed the permission policy.
    #[must_use]
    pub(crate) fn gated(mut self, gate: Arc<ToolGate>) -> Self {
        self.gate = Some(gate);
        self
    }

    /// Notes that the agent read or wrote a file through the host.
    pub fn file_access(&self) {
        if let Some(monitor) = &self.monitor {
            monitor.file_access();
        }
    }

    /// Sends an event. Waits while the reader is slow. A reader that is gone is not an error. Tool
    /// calls and questions are written to the audit log first (A45-LIFE-07, A45-SEC-03).
    pub async fn emit(&self, event: StreamEvent) -> Result<(), Error> {
        match &event {
            StreamEvent::ToolCall {
                id,
                name,
                kind,
                args,
            } => {
                let call = json!({ "name": name, "kind": kind, "args": args });
                self.calls.begin(&self.audit, id, call)?;
            }
            StreamEvent::ToolResult { id, ok, content } => {
                let state = ok.then(|| self.calls.state(id));
                self.calls.end(&self.audit, id, *ok, content)?;
                if let (Some(gate), Some(state)) = (&self.gate, state) {
                    gate.check(&self.audit, id, &state)?;
                }
            }
            StreamEvent::AgentPrompt { id, message, .. } => self.audit.record(
                "agent.prompt",
                json!({ "id": id, "message": message, "state": "suspended" }),
            )?,
            _ => {}
        }
        if let Some(monitor) = &self.monitor {
            monitor.event(&event);
        }
        // Usually there is space, and nothing has to wait.
        if let Err(TrySendError::Full(event)) = self.sink.try_send(event) {
            let _ = self.sink.send(event).await;
        }
        Ok(())
    }

    /// Says that a question is about a tool call, so that the audit log can name its approver.
    pub fn question_about(&self, question: &str, call: &str) {
        self.calls.asked(question, call);
    }

    /// Writes the answer to a question to the audit log. `by_user` is false if a rule decided.
    pub(crate) fn answered(
        &self,
        question: &str,
        choice: &str,
        by_user: bool,
        allowed: bool,
    ) -> Result<(), Error> {
        let approver = match by_user {
            true => self.audit.actor(),
            false => tool_calls::AUTOMATIC,
        };
        self.calls.decided(question, approver, allowed);
        let entry = json!({
            "id": question, "choice": choice, "approver": approver, "state": "running",
        });
        self.audit.record("agent.prompt.answer", entry)
    }

    /// Writes the calls without a result to the audit log. Call it at the end of a turn.
    pub fn finish_calls(&self) -> Result<(), Error> {
        self.calls.finish(&self.audit)
    }

    /// Writes an arm's own entry to the audit log.
    pub fn record(&self, event: &str, data: Value) -> Result<(), Error> {
        self.audit.record(event, data)
    }
}
