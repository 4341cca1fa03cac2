//! Reads the events of an adapter and checks them strictly.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::watch;

use super::super::input::Input;
use super::super::permissions::{AgentQuestion, PermissionBroker};
use super::super::slot::{CurrentTurn, End, Slot};
use super::super::{quote, redact_error};
use super::line::{AdapterCommand, AdapterEvent, AdapterLine, AnswerBody};
use super::{Pending, reported_error, take};
use crate::context::Context;
use crate::error::{Code, Error};
use crate::event::{StopReason, StreamEvent};
use crate::forms;
use crate::usage::UsageReport;
use agentproto_sandbox::spawn::{OutputLines, Piece};

/// Maximum number of questions that wait for an answer.
const MAX_QUESTIONS: usize = 64;

/// State shared by the reader and the turns.
pub struct Shared {
    pub slot: Arc<Slot>,
    pub broker: PermissionBroker,
    context: Arc<Context>,
    connected: watch::Sender<bool>,
    session: Mutex<Option<String>>,
    turn: Mutex<String>,
    /// Whether the end of a canceled turn is still missing.
    unfinished: watch::Sender<bool>,
    output_ended: watch::Sender<bool>,
    /// An error that occurred between turns.
    pending_error: Pending<Error>,
    questions: AtomicUsize,
}

impl Shared {
    pub fn new(context: Arc<Context>, broker: PermissionBroker) -> Self {
        Shared {
            slot: Arc::default(),
            broker,
            context,
            connected: watch::Sender::new(false),
            session: Mutex::new(None),
            turn: Mutex::new(String::new()),
            unfinished: watch::Sender::new(false),
            output_ended: watch::Sender::new(false),
            pending_error: Mutex::new(None),
            questions: AtomicUsize::new(0),
        }
    }

    /// Waits for `connected`, and returns the session id if the adapter has one already.
    pub async fn connected(&self) -> Option<String> {
        let mut connected = self.connected.subscribe();
        let _ = connected.wait_for(|connected| *connected).await;
        self.session_id()
    }

    pub fn session_id(&self) -> Option<String> {
        let session = self.session.lock();
        session.clone()
    }

    pub fn set_turn(&self, id: &str) {
        *self.turn.lock() = id.to_owned();
    }

    /// Records that a turn was left before the adapter ended it.
    pub fn mark_unfinished(&self) {
        self.unfinished.send_replace(true);
    }

    /// Waits until the adapter has ended a turn that was left.
    pub async fn wait_finished(&self) {
        let mut unfinished = self.unfinished.subscribe();
        let _ = unfinished.wait_for(|unfinished| !*unfinished).await;
    }

    pub fn has_output_ended(&self) -> bool {
        *self.output_ended.borrow()
    }

    pub fn take_pending_error(&self) -> Option<Error> {
        take(&self.pending_error)
    }

    fn is_of_this_turn(&self, id: &str) -> bool {
        *self.turn.lock() == id
    }

    /// Ends the turn with an error. Without a turn, the next one starts with the error.
    fn report_violation(&self, what: String) {
        let error = Error::new(Code::ProtocolViolation, what)
            .hint("an adapter must write only events of the taxonomy, one JSON object per line (AIP-45, Normalized stream events)");
        let current = self.slot.current();
        if !current.is_some_and(|current| current.finish(End::Error(error.clone()))) {
            let mut pending_error = self.pending_error.lock();
            pending_error.get_or_insert(error);
        }
    }
}

pub async fn read(shared: Arc<Shared>, input: Input, mut lines: OutputLines) {
    while let Some(piece) = lines.next().await {
        match piece {
            Piece::Line { bytes, .. } => line(&shared, &input, &bytes).await,
            Piece::TooLong { start, length } => shared.report_violation(format!(
                "the adapter wrote a line of {length} bytes, which is too long; it starts with `{}`",
                quote(&shared.context, &start)
            )),
            Piece::Gap { lines, bytes } => shared.report_violation(format!(
                "the adapter wrote faster than its events were read: {lines} lines ({bytes} bytes) were lost"
            )),
        }
    }
    shared.output_ended.send_replace(true);
    shared.slot.output_ended();
}

async fn line(shared: &Arc<Shared>, input: &Input, bytes: &[u8]) {
    let bytes = bytes.trim_ascii();
    if bytes.is_empty() {
        return;
    }
    let AdapterLine { event, turn } = match AdapterLine::parse(bytes) {
        Ok(line) => line,
        Err(why) => {
            let quoted = quote(&shared.context, bytes);
            return shared.report_violation(format!(
                "the adapter wrote an invalid event ({why}): `{quoted}`"
            ));
        }
    };
    if let AdapterEvent::Connected { session_id } = event {
        if shared.connected.send_replace(true) {
            let quoted = quote(&shared.context, bytes);
            return shared.report_violation(format!("the adapter connected twice: `{quoted}`"));
        }
        return remember(shared, session_id);
    }
    let last = matches!(
        event,
        AdapterEvent::TurnEnd { .. } | AdapterEvent::Error { .. }
    );
    let named = turn.as_deref().map(|turn| shared.is_of_this_turn(turn));
    match named {
        // It belongs to a turn that was canceled and left, or to no turn at all. In the second case
        // it is an error, because the current turn would otherwise wait forever.
        Some(false) => {
            if last && !shared.unfinished.send_replace(false) {
                let quoted = quote(&shared.context, bytes);
                shared.report_violation(format!(
                    "{} that is not running: `{quoted}`",
                    super::UNEXPECTED_TURN_END
                ));
            }
            return;
        }
        Some(true) => {}
        None if *shared.unfinished.borrow() => {
            if last {
                shared.unfinished.send_replace(false);
            }
            return;
        }
        None => {}
    }
    let current = shared.slot.current();
    let open = current.filter(|current| current.end().is_none());
    let Some(current) = open else {
        if last && shared.unfinished.send_replace(false) {
            return;
        }
        let quoted = quote(&shared.context, bytes);
        let what = match &event {
            AdapterEvent::Error { message, .. } => {
                let text = quote(&shared.context, message.as_bytes());
                format!("the adapter failed between turns: {text}")
            }
            _ if last => format!(
                "{} that had already ended: `{quoted}`",
                super::UNEXPECTED_TURN_END
            ),
            _ => format!("the adapter wrote an event outside a turn: `{quoted}`"),
        };
        return shared.report_violation(what);
    };
    handle_event(shared, input, &current, event).await;
}

async fn handle_event(
    shared: &Arc<Shared>,
    input: &Input,
    current: &Arc<CurrentTurn>,
    event: AdapterEvent,
) {
    let stream_event = match event {
        AdapterEvent::TextDelta { text } => StreamEvent::TextDelta { text },
        AdapterEvent::Thought { text, plan: None } => StreamEvent::thought(text),
        AdapterEvent::Thought {
            plan: Some(entries),
            ..
        } => match StreamEvent::plan(entries) {
            Some(plan) => plan,
            None => return,
        },
        AdapterEvent::ToolCall {
            id,
            name,
            kind,
            args,
        } => StreamEvent::ToolCall {
            id,
            name,
            kind,
            args,
        },
        AdapterEvent::ToolResult { id, ok, content } => StreamEvent::ToolResult { id, ok, content },
        AdapterEvent::AgentPrompt {
            id,
            message,
            options,
            schema,
        } => {
            // Without options and schema, the question asks for any text.
            let free = || options.is_empty().then(|| json!({ "type": "string" }));
            let question = AgentQuestion {
                schema: schema
                    .as_ref()
                    .and_then(forms::usable)
                    .cloned()
                    .or_else(free),
                is_permission: options.iter().any(|option| option.kind.is_some()),
                id,
                tool: message.clone(),
                message,
                choices: options,
                kind: None,
                details: None,
            };
            return ask(shared, input, current, question).await;
        }
        AdapterEvent::TurnEnd {
            reason,
            session_id,
            usage,
            cost,
            context,
        } => {
            remember(shared, session_id);
            if let Some(events) = current.events() {
                events.report_usage(UsageReport {
                    usage,
                    cost,
                    context,
                });
            }
            current.finish(End::Reason(reason));
            return;
        }
        AdapterEvent::Error {
            message,
            code,
            kind,
            hint,
            details,
        } => {
            let cancelled = [&code, &kind]
                .iter()
                .any(|word| word.as_deref() == Some("cancelled"));
            current.finish(match cancelled {
                true => End::Reason(StopReason::Cancelled),
                false => {
                    let mut error = reported_error(message, code.or(kind), details);
                    error.hint = hint;
                    End::Error(redact_error(&shared.context, error))
                }
            });
            return;
        }
        AdapterEvent::Connected { .. } => return,
    };
    current.emit(stream_event).await;
}

/// Sends a question in order with the other events. The answer is sent back when it arrives.
async fn ask(
    shared: &Arc<Shared>,
    input: &Input,
    current: &Arc<CurrentTurn>,
    question: AgentQuestion,
) {
    let Some(events) = current.events() else {
        return;
    };
    if shared.questions.fetch_add(1, Ordering::Relaxed) >= MAX_QUESTIONS {
        shared.questions.fetch_sub(1, Ordering::Relaxed);
        return shared.report_violation(format!(
            "the adapter asked more than {MAX_QUESTIONS} questions without reading the answers"
        ));
    }
    let id = question.id.clone();
    let pending = tokio::select! {
        pending = shared.broker.show(question, events) => pending,
        () = current.dropped() => {
            shared.questions.fetch_sub(1, Ordering::Relaxed);
            return;
        }
    };
    let (shared, input, current) = (Arc::clone(shared), input.clone(), Arc::clone(current));
    tokio::spawn(async move {
        let answered = match pending {
            Ok(pending) => pending.answer().await,
            Err(error) => Err(error),
        };
        match answered {
            Ok(answer) => {
                let command = AdapterCommand::Answer {
                    id: &id,
                    answer: AnswerBody::from(&answer),
                };
                if let Ok(line) = serde_json::to_vec(&command) {
                    let written = input.line(line).await;
                    shared.slot.after_write(&input, &written).await;
                }
            }
            Err(error) => {
                current.finish(End::Error(error));
            }
        }
        // Decremented only now, so that unread answers of an adapter do not accumulate.
        shared.questions.fetch_sub(1, Ordering::Relaxed);
    });
}

fn remember(shared: &Shared, session: Option<String>) {
    if session.is_some() {
        *shared.session.lock() = session;
    }
}
