//! The wire between the agent and the protocol library. Every line passes through here, in order.
//! Updates are translated here, and other messages are passed on. Lines that are not messages reach
//! neither.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use futures::channel::mpsc;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;
use tokio::sync::watch;
use tokio::time::timeout;

use super::super::{EXIT_GRACE, closed_input};
use super::prompt::PendingPrompt;
use super::services::Services;
use super::updates::{Chunk, Params, Tools};
use crate::arm::EventSink;
use crate::error::{Code, Error};
use crate::event::StreamEvent;
use crate::observe::Observer;
use agentproto_sandbox::spawn::{OutputLines, Piece};
use agentproto_text::redact::SecretRedactor;

/// Maximum number of bytes quoted from an invalid line.
const MAX_QUOTE: usize = 200;
/// Maximum number of invalid lines that are reported one by one.
const MAX_REPORTED: u32 = 5;

/// Maximum number of announced tool calls to remember, for questions about them.
const MAX_ANNOUNCED: usize = 10_000;

/// Maximum size of the input of an announced tool call to remember, in bytes.
const MAX_INPUT: usize = 16 << 10;

/// A tool call as the agent announced it.
#[derive(Clone, Debug, Default)]
pub struct Announced {
    pub name: String,
    pub kind: Option<String>,
    pub input: Value,
}

#[derive(Deserialize)]
struct Envelope<'l> {
    #[serde(borrow, default)]
    method: Option<Cow<'l, str>>,
    #[serde(borrow, default)]
    id: Option<&'l RawValue>,
    #[serde(borrow, default)]
    params: Option<&'l RawValue>,
}

/// State shared by the arm and the tap.
pub struct Shared {
    /// The current session id and the sink for its updates, or `None` between turns.
    turn: Mutex<Option<Arc<(String, EventSink)>>>,
    /// The prompt that the agent is working on.
    pub prompt: PendingPrompt,
    /// An error on this side that ends the turn, such as a question that cannot be answered.
    failure: watch::Sender<Option<Error>>,
    /// Why no more messages can arrive. Once set, it does not change.
    over: watch::Sender<Option<WireEnd>>,
    first_garbage: Mutex<Option<String>>,
    /// Announced tool calls, by id.
    announced: Mutex<HashMap<String, Announced>>,
    observer: Arc<dyn Observer>,
    masks: SecretRedactor,
}

#[derive(Clone, Debug)]
pub enum WireEnd {
    /// The agent closed its stdout.
    Closed,
    Broken(Error),
}

impl Shared {
    pub fn new(observer: Arc<dyn Observer>, masks: SecretRedactor) -> Arc<Self> {
        Arc::new(Shared {
            turn: Mutex::new(None),
            prompt: PendingPrompt::default(),
            failure: watch::channel(None).0,
            over: watch::channel(None).0,
            first_garbage: Mutex::new(None),
            announced: Mutex::default(),
            observer,
            masks,
        })
    }

    pub fn begin_turn(&self, session: &str, events: EventSink) {
        self.failure.send_replace(None);
        *self.turn() = Some(Arc::new((session.to_owned(), events)));
    }

    pub fn end_turn(&self) {
        *self.turn() = None;
    }

    /// The sink for events of the turn that are not updates.
    pub fn events(&self) -> Option<EventSink> {
        self.turn().as_ref().map(|turn| turn.1.clone())
    }

    /// Ends the current turn with an error.
    pub fn fail_turn(&self, error: Error) {
        self.failure.send_replace(Some(error));
    }

    /// Waits until this side ends the turn with an error.
    pub async fn failure(&self) -> Error {
        let mut failure = self.failure.subscribe();
        let error = failure.wait_for(Option::is_some).await;
        match error.ok().and_then(|error| error.clone()) {
            Some(error) => error,
            None => std::future::pending().await,
        }
    }

    /// Waits until no more messages can arrive.
    pub async fn over(&self) -> WireEnd {
        let mut over = self.over.subscribe();
        match over.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(over)) => over.clone(),
            _ => WireEnd::Closed,
        }
    }

    /// Marks that no more messages can arrive, and wakes all waiting tasks.
    fn end(&self, over: WireEnd) {
        self.over.send_if_modified(|known| {
            let first = known.is_none();
            if first {
                *known = Some(over);
            }
            first
        });
        self.prompt.end();
    }

    /// A tool call as the agent announced it.
    pub fn announced(&self, id: &str) -> Option<Announced> {
        let known = self.announced.lock();
        known.get(id).cloned()
    }

    fn announce(&self, id: &str, name: &str, kind: Option<&str>, input: &Value) {
        let mut known = self.announced.lock();
        if known.len() >= MAX_ANNOUNCED {
            known.clear();
        }
        let is_small = input.to_string().len() <= MAX_INPUT;
        let announced = Announced {
            name: name.to_owned(),
            kind: kind.map(str::to_owned),
            input: match is_small {
                true => input.clone(),
                false => Value::Null,
            },
        };
        known.insert(id.to_owned(), announced);
    }

    /// The first line that was not a message. It often explains a missing answer.
    pub fn first_garbage(&self) -> Option<String> {
        self.first_garbage.lock().clone()
    }

    fn turn(&self) -> parking_lot::MutexGuard<'_, Option<Arc<(String, EventSink)>>> {
        self.turn.lock()
    }
}

/// Reads the agent's output until it ends. Messages for the library go to `to_library`.
pub async fn read(
    mut lines: OutputLines,
    shared: Arc<Shared>,
    to_library: mpsc::UnboundedSender<std::io::Result<String>>,
) {
    let mut reader = Reader::new(Arc::clone(&shared));
    let over = loop {
        let Some(piece) = lines.next().await else {
            break WireEnd::Closed;
        };
        match reader.take(piece).await {
            Ok(Some(line)) => {
                if to_library.unbounded_send(Ok(line)).is_err() {
                    break WireEnd::Closed;
                }
            }
            Ok(None) => {}
            Err(error) => break WireEnd::Broken(error),
        }
    };
    reader.finish();
    shared.end(over);
    // Later output has no reader, but it must be drained.
    while lines.next().await.is_some() {}
}

struct Reader {
    shared: Arc<Shared>,
    tools: Tools,
    garbage: u32,
    /// Number of updates for another session.
    other_session: u32,
}

impl Reader {
    fn new(shared: Arc<Shared>) -> Self {
        Reader {
            shared,
            tools: Tools::default(),
            garbage: 0,
            other_session: 0,
        }
    }

    /// Handles a line. Returns it if it is for the library.
    async fn take(&mut self, piece: Piece) -> Result<Option<String>, Error> {
        let bytes = match piece {
            Piece::Line { bytes, .. } => bytes,
            Piece::TooLong { length, .. } => {
                return Err(violation(format!(
                    "the agent sent a line of {length} bytes, which is too long"
                )));
            }
            Piece::Gap { lines, .. } => {
                return Err(violation(format!(
                    "{lines} lines of the agent were lost: its events were read too slowly"
                )));
            }
        };
        let bytes = bytes
            .strip_suffix(b"\r")
            .map(<[u8]>::to_vec)
            .unwrap_or(bytes);
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Ok(None);
        }
        let Ok(line) = String::from_utf8(bytes) else {
            self.report_garbage("a line that is not UTF-8");
            return Ok(None);
        };
        if let Some(chunk) = Chunk::read(&line) {
            self.chunk(chunk).await?;
            return Ok(None);
        }
        let Ok(envelope) = serde_json::from_str::<Envelope>(&line) else {
            self.report_garbage(&line);
            return Ok(None);
        };
        match (&envelope.method, envelope.id, envelope.params) {
            (Some(method), None, Some(params)) if method == "session/update" => {
                self.update(params.get()).await?;
                Ok(None)
            }
            (None, id, _) if self.shared.prompt.deliver_response(id, &line) => Ok(None),
            (Some(method), Some(_), _) if method.starts_with("fs/") => {
                if let Some(events) = self.shared.events() {
                    events.file_access();
                }
                Ok(Some(line))
            }
            _ => Ok(Some(line)),
        }
    }

    async fn update(&mut self, params: &str) -> Result<(), Error> {
        let params: Params = match serde_json::from_str(params) {
            Ok(params) => params,
            Err(error) => {
                self.report_garbage(&format!("invalid session/update: {error}"));
                return Ok(());
            }
        };
        let Some(turn) = self.turn_of(&params.session) else {
            return Ok(());
        };
        match params.update.usage() {
            Some(Ok(report)) => turn.1.report_usage(report),
            Some(Err(why)) => self.report_garbage(&format!("session/update: {why}")),
            None => {}
        }
        match self.tools.translate(&params.update) {
            Ok(events) => {
                for event in events.into_iter().flatten() {
                    if let StreamEvent::ToolCall {
                        id,
                        name,
                        kind,
                        args,
                    } = &event
                    {
                        self.shared.announce(id, name, kind.as_deref(), args);
                    }
                    turn.1.emit(event).await?;
                }
            }
            Err(why) => self.report_garbage(&format!("session/update: {why}")),
        }
        Ok(())
    }

    async fn chunk(&mut self, chunk: Chunk<'_>) -> Result<(), Error> {
        if let Some(turn) = self.turn_of(chunk.session()) {
            turn.1.emit(chunk.into_event()).await?;
        }
        Ok(())
    }

    /// The turn that an update belongs to.
    fn turn_of(&mut self, session: &str) -> Option<Arc<(String, EventSink)>> {
        // Outside a turn it is a replay, or it arrived too late.
        let turn = self.shared.turn().clone()?;
        if turn.0 == session {
            return Some(turn);
        }
        self.other_session = self.other_session.saturating_add(1);
        if self.other_session <= MAX_REPORTED {
            self.shared.observer.warning(
                "session_unknown",
                "ignored an update for another session (ACP, prompt turn)",
            );
        }
        None
    }

    /// Handles non-protocol output. The first lines are reported, the rest are counted.
    fn report_garbage(&mut self, what: &str) {
        self.garbage = self.garbage.saturating_add(1);
        if self.garbage > MAX_REPORTED {
            return;
        }
        // Masked before it is cut, because half a secret would not be recognized.
        let cut = truncate(&self.shared.masks.mask(what));
        let mut first = self.shared.first_garbage.lock();
        first.get_or_insert_with(|| cut.clone());
        drop(first);
        self.shared.observer.warning(
            "protocol_garbage",
            &format!(
                "the agent wrote non-protocol output to stdout, which was ignored (print it to stderr instead): {cut}"
            ),
        );
    }

    fn finish(&self) {
        if self.garbage > MAX_REPORTED {
            let text = format!("{} lines of the agent were not ACP messages", self.garbage);
            self.shared.observer.warning("protocol_garbage", &text);
        }
        if self.other_session > MAX_REPORTED {
            let text = format!("{} updates were for another session", self.other_session);
            self.shared.observer.warning("session_unknown", &text);
        }
    }
}

fn truncate(text: &str) -> String {
    let mut end = text.len().min(MAX_QUOTE);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let cut = text.get(..end).unwrap_or_default();
    match end < text.len() {
        true => format!("{cut}…"),
        false => cut.to_owned(),
    }
}

fn violation(what: String) -> Error {
    Error::new(Code::ProtocolViolation, what)
        .hint("report it to the agent's author; the session cannot continue")
}

/// Writes the lines of the library and of the arm to the agent's stdin.
pub async fn write(
    mut stdin: pipe::Sender,
    mut lines: mpsc::UnboundedReceiver<String>,
    shared: Arc<Shared>,
    services: Arc<Services>,
) {
    use futures::StreamExt;
    while let Some(mut line) = lines.next().await {
        line.push('\n');
        if stdin.write_all(line.as_bytes()).await.is_err() {
            // Usually the agent has exited, and its exit explains more.
            if timeout(EXIT_GRACE, shared.over()).await.is_err() {
                shared.end(WireEnd::Broken(closed_input()));
            }
            return;
        }
        let answer = serde_json::from_str::<Envelope>(&line).is_ok_and(|e| e.method.is_none());
        if answer {
            services.response_written();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::Stage;

    #[derive(Default)]
    struct RecordedWarnings(Mutex<Vec<(String, String)>>);

    impl Observer for RecordedWarnings {
        fn stage(&self, _: Stage, _: &str) {}
        fn progress(&self, _: Stage, _: &str) {}
        fn warning(&self, code: &str, message: &str) {
            let mut warnings = self.0.lock();
            warnings.push((code.to_owned(), message.to_owned()));
        }
    }

    impl RecordedWarnings {
        fn of(&self, code: &str) -> Vec<String> {
            let warnings = self.0.lock();
            let matching = warnings.iter().filter(|(known, _)| known == code);
            matching.map(|(_, message)| message.clone()).collect()
        }
    }

    fn reader(masks: SecretRedactor) -> (Reader, Arc<RecordedWarnings>) {
        let warnings = Arc::new(RecordedWarnings::default());
        (Reader::new(Shared::new(warnings.clone(), masks)), warnings)
    }

    fn line(text: &str) -> Piece {
        Piece::Line {
            bytes: text.as_bytes().to_vec(),
            ended: true,
        }
    }

    #[tokio::test]
    async fn a_secret_at_the_cut_is_fully_masked() {
        let masks = SecretRedactor::default();
        masks.add("hunter22-very-long");
        for lead in (MAX_QUOTE - 20)..=MAX_QUOTE {
            let (mut reader, warnings) = reader(masks.clone());
            let text = format!("{}hunter22-very-long{}", "x".repeat(lead), "y".repeat(50));
            assert!(matches!(reader.take(line(&text)).await, Ok(None)));
            let reported = warnings.of("protocol_garbage");
            assert_eq!(reported.len(), 1);
            for text in reported.iter().chain(reader.shared.first_garbage().iter()) {
                assert!(!text.contains("xh"), "{lead}: {text}");
            }
        }
    }

    #[tokio::test]
    async fn the_first_updates_for_another_session_are_reported_and_the_rest_counted() {
        let (mut reader, warnings) = reader(SecretRedactor::default());
        let home = tempfile::tempdir().expect("a directory");
        let home = crate::home::Home::new(home.path());
        let audit = crate::audit::Audit::open(&home, "x", SecretRedactor::default());
        let (sink, mut events) = tokio::sync::mpsc::channel(8);
        let sink = EventSink::new(sink, Arc::new(audit.expect("a log")));
        reader.shared.begin_turn("ours", sink);
        let update = |session: &str| {
            let update = serde_json::json!({
                "sessionUpdate": "agent_message_chunk",
                "content": { "type": "text", "text": "x" }
            });
            let params = serde_json::json!({ "sessionId": session, "update": update });
            let message = serde_json::json!({
                "jsonrpc": "2.0", "method": "session/update", "params": params
            });
            line(&message.to_string())
        };
        for _ in 0..100 {
            assert!(matches!(reader.take(update("theirs")).await, Ok(None)));
        }
        assert!(matches!(reader.take(update("ours")).await, Ok(None)));
        assert!(events.try_recv().is_ok() && events.try_recv().is_err());
        let reported = MAX_REPORTED as usize;
        assert_eq!(warnings.of("session_unknown").len(), reported);
        reader.finish();
        let all = warnings.of("session_unknown");
        assert_eq!(all.len(), reported + 1);
        assert!(all.last().is_some_and(|text| text.starts_with("100 ")));
    }
}
