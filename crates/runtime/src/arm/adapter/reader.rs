//! Reads what an adapter says, and holds it to the letter.

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

/// Questions that wait for an answer at the same time.
const MOST_QUESTIONS: usize = 64;

/// What the reader and the turns share.
pub struct Shared {
    pub slot: Arc<Slot>,
    pub desk: Desk,
    context: Arc<Context>,
    connected: watch::Sender<bool>,
    session: Mutex<Option<String>>,
    turn: Mutex<String>,
    /// A cancelled turn whose end has not come.
    owed: watch::Sender<bool>,
    lost: watch::Sender<bool>,
    /// A fault that came when no turn was there to end with it.
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

    /// Waits for `connected`; the session's id, where the adapter has one already.
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

    /// The turn was left before the adapter ended it.
    pub fn owe(&self) {
        self.owed.send_replace(true);
    }

    /// Waits for the end of a turn that was left, and of the adapter.
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

    /// Ends the turn; where there is none, the next one begins with it.
    fn violated(&self, what: String) {
        let fault = Fault::new(Code::ProtocolViolation, what)
            .hint("an adapter writes nothing but events of the taxonomy, one JSON object per line (AIP-45, Normalized stream events)");
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
                "the adapter wrote a line of {length} bytes, more than the runner takes; it begins `{}`",
                quote(&shared.context, &start)
            )),
            Piece::Gap { lines, bytes } => shared.violated(format!(
                "the adapter wrote faster than its events were taken: {lines} lines ({bytes} bytes) are lost"
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
            return shared.violated(format!("the adapter wrote no event ({why}): `{quoted}`"));
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
        // Of a turn that was cancelled and left; or of none at all, and then the turn that
        // waits for its end would wait for ever.
        Some(false) => {
            if last && !shared.owed.send_replace(false) {
                let quoted = quote(&shared.context, bytes);
                shared.violated(format!(
                    "{} that nobody waits for: `{quoted}`",
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
            _ if last => format!("{} that was over: `{quoted}`", super::ENDED_AGAIN),
            _ => format!("the adapter wrote an event outside of a turn: `{quoted}`"),
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

/// Shows a question in its place among the events; the answer goes back when it is there.
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
            "the adapter asks more than {MOST_QUESTIONS} questions without reading the answers"
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
        // Only now: an adapter that asks and does not read the answers must not pile them up.
        shared.questions.fetch_sub(1, Ordering::Relaxed);
    });
}

fn remember(shared: &Shared, session: Option<String>) {
    if session.is_some() {
        *shared.session.lock() = session;
    }
}
