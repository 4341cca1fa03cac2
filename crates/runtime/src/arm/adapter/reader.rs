//! Reads the events of an adapter and checks them strictly.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::watch;

use super::super::desk::{Asked, Desk};
use super::super::input::Input;
use super::super::slot::{End, Going, Slot};
use super::super::{in_its_words, quote};
use super::line::{Given, Line, Order, Said};
use super::{Shelf, reported, take};
use crate::context::Context;
use crate::event::{Choice, StopReason, StreamEvent};
use crate::fault::{Code, Fault};
use agentproto_sandbox::spawn::{Lines, Piece};

/// Maximum number of questions that wait for an answer.
const MOST_QUESTIONS: usize = 64;

/// State shared by the reader and the turns.
pub struct Shared {
    pub slot: Arc<Slot>,
    pub desk: Desk,
    context: Arc<Context>,
    connected: watch::Sender<bool>,
    session: Mutex<Option<String>>,
    turn: Mutex<String>,
    /// Whether the end of a canceled turn is still missing.
    owed: watch::Sender<bool>,
    lost: watch::Sender<bool>,
    /// An error that occurred between turns.
    complaint: Shelf<Fault>,
    questions: AtomicUsize,
}

impl Shared {
    pub fn new(context: Arc<Context>, desk: Desk) -> Self {
        Shared {
            slot: Arc::default(),
            desk,
            context,
            connected: watch::Sender::new(false),
            session: Mutex::new(None),
            turn: Mutex::new(String::new()),
            owed: watch::Sender::new(false),
            lost: watch::Sender::new(false),
            complaint: Mutex::new(None),
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
    pub fn owe(&self) {
        self.owed.send_replace(true);
    }

    /// Waits until the adapter has ended a turn that was left.
    pub async fn paid(&self) {
        let mut owed = self.owed.subscribe();
        let _ = owed.wait_for(|owed| !*owed).await;
    }

    pub fn is_lost(&self) -> bool {
        *self.lost.borrow()
    }

    pub fn complaint(&self) -> Option<Fault> {
        take(&self.complaint)
    }

    fn is_of_this_turn(&self, id: &str) -> bool {
        *self.turn.lock() == id
    }

    /// Ends the turn with an error. Without a turn, the next one starts with the error.
    fn violated(&self, what: String) {
        let fault = Fault::new(Code::ProtocolViolation, what)
            .hint("an adapter must write only events of the taxonomy, one JSON object per line (AIP-45, Normalized stream events)");
        let going = self.slot.going();
        if !going.is_some_and(|going| going.finish(End::Fault(fault.clone()))) {
            let mut complaint = self.complaint.lock();
            complaint.get_or_insert(fault);
        }
    }
}

pub async fn read(shared: Arc<Shared>, input: Input, mut lines: Lines) {
    while let Some(piece) = lines.next().await {
        match piece {
            Piece::Line { bytes, .. } => line(&shared, &input, &bytes).await,
            Piece::TooLong { start, length } => shared.violated(format!(
                "the adapter wrote a line of {length} bytes, which is too long; it starts with `{}`",
                quote(&shared.context, &start)
            )),
            Piece::Gap { lines, bytes } => shared.violated(format!(
                "the adapter wrote faster than its events were read: {lines} lines ({bytes} bytes) were lost"
            )),
        }
    }
    shared.lost.send_replace(true);
    shared.slot.lose();
}

async fn line(shared: &Arc<Shared>, input: &Input, bytes: &[u8]) {
    let bytes = bytes.trim_ascii();
    if bytes.is_empty() {
        return;
    }
    let Line { said, turn } = match Line::parse(bytes) {
        Ok(line) => line,
        Err(why) => {
            let quoted = quote(&shared.context, bytes);
            return shared.violated(format!(
                "the adapter wrote an invalid event ({why}): `{quoted}`"
            ));
        }
    };
    if let Said::Connected { session_id } = said {
        if shared.connected.send_replace(true) {
            let quoted = quote(&shared.context, bytes);
            return shared.violated(format!("the adapter connected twice: `{quoted}`"));
        }
        return remember(shared, session_id);
    }
    let last = matches!(said, Said::TurnEnd { .. } | Said::Error { .. });
    let named = turn.as_deref().map(|turn| shared.is_of_this_turn(turn));
    match named {
        // It belongs to a turn that was canceled and left, or to no turn at all. In the second case
        // it is an error, because the current turn would otherwise wait forever.
        Some(false) => {
            if last && !shared.owed.send_replace(false) {
                let quoted = quote(&shared.context, bytes);
                shared.violated(format!(
                    "{} that is not running: `{quoted}`",
                    super::ENDED_AGAIN
                ));
            }
            return;
        }
        Some(true) => {}
        None if *shared.owed.borrow() => {
            if last {
                shared.owed.send_replace(false);
            }
            return;
        }
        None => {}
    }
    let going = shared.slot.going();
    let open = going.filter(|going| going.end().is_none());
    let Some(going) = open else {
        if last && shared.owed.send_replace(false) {
            return;
        }
        let quoted = quote(&shared.context, bytes);
        let what = match &said {
            Said::Error { message, .. } => {
                let said = quote(&shared.context, message.as_bytes());
                format!("the adapter failed between turns: {said}")
            }
            _ if last => format!("{} that had already ended: `{quoted}`", super::ENDED_AGAIN),
            _ => format!("the adapter wrote an event outside a turn: `{quoted}`"),
        };
        return shared.violated(what);
    };
    hear(shared, input, &going, said).await;
}

async fn hear(shared: &Arc<Shared>, input: &Input, going: &Arc<Going>, said: Said) {
    let event = match said {
        Said::TextDelta { text } => StreamEvent::TextDelta { text },
        Said::Thought { text } => StreamEvent::Thought { text },
        Said::ToolCall {
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
        Said::ToolResult { id, ok, content } => StreamEvent::ToolResult { id, ok, content },
        Said::AgentPrompt {
            id,
            message,
            options,
        } => return ask(shared, input, going, id, message, options).await,
        Said::TurnEnd { reason, session_id } => {
            remember(shared, session_id);
            going.finish(End::Reason(reason));
            return;
        }
        Said::Error {
            message,
            code,
            kind,
            hint,
            details,
        } => {
            let cancelled = [&code, &kind]
                .iter()
                .any(|word| word.as_deref() == Some("cancelled"));
            going.finish(match cancelled {
                true => End::Reason(StopReason::Cancelled),
                false => {
                    let mut fault = reported(message, code.or(kind), details);
                    fault.hint = hint;
                    End::Fault(in_its_words(&shared.context, fault))
                }
            });
            return;
        }
        Said::Connected { .. } => return,
    };
    going.emit(event).await;
}

/// Sends a question in order with the other events. The answer is sent back when it arrives.
async fn ask(
    shared: &Arc<Shared>,
    input: &Input,
    going: &Arc<Going>,
    id: String,
    message: String,
    choices: Vec<Choice>,
) {
    let Some(events) = going.events() else { return };
    if shared.questions.fetch_add(1, Ordering::Relaxed) >= MOST_QUESTIONS {
        shared.questions.fetch_sub(1, Ordering::Relaxed);
        return shared.violated(format!(
            "the adapter asked more than {MOST_QUESTIONS} questions without reading the answers"
        ));
    }
    let asked = Asked {
        id: id.clone(),
        tool: message.clone(),
        message,
        choices,
        kind: None,
    };
    let shown = tokio::select! {
        shown = shared.desk.show(asked, events) => shown,
        () = going.left() => {
            shared.questions.fetch_sub(1, Ordering::Relaxed);
            return;
        }
    };
    let (shared, input, going) = (Arc::clone(shared), input.clone(), Arc::clone(going));
    tokio::spawn(async move {
        let answered = match shown {
            Ok(shown) => shown.answer().await,
            Err(fault) => Err(fault),
        };
        match answered {
            Ok(answer) => {
                let order = Order::Answer {
                    id: &id,
                    answer: Given::from(&answer),
                };
                if let Ok(line) = serde_json::to_vec(&order) {
                    let written = input.line(line).await;
                    shared.slot.wrote(&input, &written).await;
                }
            }
            Err(fault) => {
                going.finish(End::Fault(fault));
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
