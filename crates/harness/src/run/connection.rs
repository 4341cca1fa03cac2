//! One process and the conversation with it. All raw lines are recorded and passed to the monitors,
//! and requests of the agent are answered.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::process::{AgentProcess, Launcher, StartError, merge_env};
use super::services::ClientServices;
use super::time_limit::TimeLimit;
use crate::monitor::{MonitorRunner, id_key};
use crate::suite::ClientBehavior;
use agentproto_sandbox::spawn::{Exit, Piece};
use agentproto_wire::{Direction, Envelope, Line, MessageKind, Transcript};

/// Maximum number of messages that a case can still look at. Older ones are only in the transcript.
const MAX_MESSAGES: usize = 20_000;
/// Maximum number of bytes that all connections together remember. Above it, a connection keeps
/// only its last `MIN_MESSAGES` messages.
const MAX_BYTES: usize = 16 << 20;
const MIN_MESSAGES: usize = 500;
static BYTES_IN_USE: AtomicUsize = AtomicUsize::new(0);

/// A message that was received.
#[derive(Clone)]
pub struct ReceivedMessage {
    pub line: u64,
    pub json: Arc<Value>,
    pub kind: MessageKind,
    size: usize,
}

pub enum ConnectionEvent {
    Message(ReceivedMessage),
    /// A line that is not a message, or a line of stderr.
    Other,
    /// The agent closed stdout.
    OutputEnded,
    TimedOut,
}

/// Why a response is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoResponse {
    /// The time limit was reached.
    TimedOut(Duration),
    /// The time limit was reached, but the agent could hardly run: the time since the start of the
    /// wait, and how much of it the agent waited for a processor.
    Starved(Duration, Duration),
    /// The turn or request that should have caused the message is over.
    TooLate,
    /// The process ended: how, and the end of its stderr.
    Ended(String),
}

impl std::fmt::Display for NoResponse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NoResponse::TimedOut(time) => write!(f, "timed out after {} s", time.as_secs_f64()),
            NoResponse::Starved(time, waited) => write!(
                f,
                "the machine was too busy: of {} s, the agent waited {} s for a processor",
                time.as_secs(),
                waited.as_secs().min(time.as_secs())
            ),
            NoResponse::TooLate => {
                write!(f, "the turn or request that should have caused it is over")
            }
            NoResponse::Ended(how) => write!(f, "{how}"),
        }
    }
}

pub struct Connection {
    pub(super) process: AgentProcess,
    started: Instant,
    pub transcript: Transcript,
    pub(super) monitors: MonitorRunner,
    pub services: ClientServices,
    replies: mpsc::UnboundedReceiver<Value>,
    pub inbox: VecDeque<ReceivedMessage>,
    /// Bytes written since the last line feed.
    partial_line: Vec<u8>,
    next_id: u64,
    pub(super) is_over: bool,
    /// Since when the process is expected to exit.
    pub(super) exit_awaited: Option<Instant>,
    pub(super) exit: Option<(Exit, Duration)>,
    /// Total time spent waiting for responses.
    pub waited: Duration,
    /// Additional time until the first output, because a process needs time to start.
    pub start_allowance: Duration,
    /// Whether the agent has written to stdout.
    has_output: bool,
    /// What happened at the time limits that were reached.
    pub time_outs: TimeOuts,
    /// Transcript lines of the last messages that were sent.
    last_sent: VecDeque<u64>,
}

/// Time limits that were reached while waiting for an agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeOuts {
    /// Whether a limit was reached.
    pub any: bool,
    /// Whether the machine was too busy at one of them.
    pub is_starved: bool,
}

impl TimeOuts {
    pub fn add(&mut self, other: TimeOuts) {
        self.any |= other.any;
        self.is_starved |= other.is_starved;
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let held: usize = self.inbox.iter().map(|message| message.size).sum();
        BYTES_IN_USE.fetch_sub(held, Ordering::Relaxed);
    }
}

impl Connection {
    /// Starts a process. The transcript continues that of the previous process of the case.
    pub async fn start(
        launcher: &Launcher,
        cwd: &Path,
        env: &[(String, String)],
        monitors: MonitorRunner,
        answers: &ClientBehavior,
        root: &Path,
        (transcript, started): (Transcript, Instant),
    ) -> Result<Connection, (StartError, Transcript)> {
        let process = match launcher.start(cwd, env).await {
            Ok(process) => process,
            Err(error) => return Err((error, transcript)),
        };
        let (sender, replies) = mpsc::unbounded_channel();
        let mut connection = Connection {
            process,
            started,
            transcript,
            monitors,
            services: ClientServices::new(
                answers.clone(),
                root,
                sender,
                merge_env(&launcher.env(), env),
            ),
            replies,
            inbox: VecDeque::new(),
            partial_line: Vec::new(),
            next_id: 1,
            is_over: false,
            exit_awaited: None,
            exit: None,
            waited: Duration::ZERO,
            start_allowance: Duration::ZERO,
            has_output: false,
            time_outs: TimeOuts::default(),
            last_sent: VecDeque::new(),
        };
        connection.note(Direction::Process, br#"{"started":true}"#, true, None);
        Ok(connection)
    }

    pub(super) fn note(
        &mut self,
        direction: Direction,
        bytes: &[u8],
        ended: bool,
        length: Option<u64>,
    ) -> Line {
        let at = self.started.elapsed();
        let number = self.transcript.push(direction, at, bytes, ended, length);
        Line {
            number,
            direction,
            at,
            offset: 0,
            bytes: bytes.to_vec(),
            ended,
            cut: length,
        }
    }

    /// Writes raw bytes. Each complete line is added to the transcript.
    pub async fn write(&mut self, bytes: &[u8], within: Duration) -> Result<u64, NoResponse> {
        let mut number = self.transcript.last();
        for piece in bytes.split_inclusive(|b| *b == b'\n') {
            // A line may be written in several pieces.
            self.partial_line.extend_from_slice(piece);
            if self.partial_line.pop_if(|last| *last == b'\n').is_some() {
                let whole = std::mem::take(&mut self.partial_line);
                let line = self.note(Direction::ToAgent, &whole, true, None);
                number = line.number;
                self.last_sent.push_back(number);
                if self.last_sent.len() > 6 {
                    self.last_sent.pop_front();
                }
                self.monitors.on_line(&line);
            }
        }
        let Some(stdin) = &mut self.process.stdin else {
            return Err(NoResponse::Ended("its stdin was already closed".to_owned()));
        };
        match timeout_at(Instant::now() + within, stdin.write_all(bytes)).await {
            Ok(Ok(())) => Ok(number),
            Ok(Err(_)) => Err(self.exit_reason().await),
            Err(_) => Err(NoResponse::TimedOut(within)),
        }
    }

    pub async fn send_message(
        &mut self,
        message: &Value,
        within: Duration,
    ) -> Result<u64, NoResponse> {
        let mut bytes = message.to_string().into_bytes();
        bytes.push(b'\n');
        self.write(&bytes, within).await
    }

    /// The last lines that were sent, as evidence if the agent exits.
    pub fn last_sent(&self) -> Vec<u64> {
        self.last_sent.iter().copied().collect()
    }

    /// Stops waiting for the response to a request.
    pub fn give_up(&mut self, id: &Value) {
        self.monitors.timed_out(id);
    }

    pub fn new_id(&mut self) -> Value {
        let id = self.next_id;
        self.next_id += 1;
        json!(id)
    }

    /// Sends a request and returns its id and transcript line.
    pub async fn request(
        &mut self,
        method: &str,
        params: Option<Value>,
        id: Option<Value>,
        within: Duration,
    ) -> Result<(Value, u64), NoResponse> {
        let id = match id {
            Some(id) => id,
            None => self.new_id(),
        };
        let mut message = json!({"jsonrpc": "2.0", "id": id, "method": method});
        if let (Some(params), Some(members)) = (params, message.as_object_mut()) {
            members.insert("params".to_owned(), params);
        }
        let line = self.send_message(&message, within).await?;
        Ok((id, line))
    }

    /// Waits for the next event.
    pub async fn next(&mut self, until: Instant) -> ConnectionEvent {
        for line in self.process.stderr.take(false) {
            let line = self.note(Direction::Stderr, &line, true, None);
            self.monitors.on_line(&line);
        }
        if self.is_over {
            return ConnectionEvent::OutputEnded;
        }
        let piece = tokio::select! {
            biased;
            reply = self.replies.recv() => {
                if let Some(reply) = reply {
                    let _ = self.send_message(&reply, Duration::from_secs(5)).await;
                }
                return ConnectionEvent::Other;
            }
            piece = self.process.stdout.next() => piece,
            () = tokio::time::sleep_until(until) => return ConnectionEvent::TimedOut,
        };
        match piece {
            None => {
                self.is_over = true;
                ConnectionEvent::OutputEnded
            }
            Some(Piece::Line { bytes, ended }) => {
                self.has_output = true;
                let line = self.note(Direction::FromAgent, &bytes, ended, None);
                self.take(line).await
            }
            Some(Piece::TooLong { start, length }) => {
                self.has_output = true;
                let line = self.note(Direction::FromAgent, &start, true, Some(length));
                self.take(line).await
            }
            Some(Piece::Gap { lines, bytes }) => {
                let text = json!({"lost": {"lines": lines, "bytes": bytes}}).to_string();
                self.note(Direction::Process, text.as_bytes(), true, None);
                ConnectionEvent::Other
            }
        }
    }

    async fn take(&mut self, line: Line) -> ConnectionEvent {
        let read = self.monitors.on_line(&line);
        let (Some(json), Some(envelope)) = (read.json, read.envelope) else {
            return ConnectionEvent::Other;
        };
        // A parsed value takes more memory than its text.
        let size = line.bytes.len() * 2 + 600;
        // More than one message on a line is a violation, but each message is still handled.
        let first = self.handle(line.number, json, envelope, size).await;
        for (json, envelope) in read.rest {
            self.handle(line.number, json, envelope, size).await;
        }
        ConnectionEvent::Message(first)
    }

    async fn handle(
        &mut self,
        line: u64,
        json: Value,
        envelope: Envelope,
        size: usize,
    ) -> ReceivedMessage {
        let received = ReceivedMessage {
            line,
            json: Arc::new(json),
            kind: envelope.kind,
            size,
        };
        self.inbox.push_back(received.clone());
        let mut held = BYTES_IN_USE.fetch_add(size, Ordering::Relaxed) + size;
        while self.inbox.len() > MAX_MESSAGES
            || (self.inbox.len() > MIN_MESSAGES && held > MAX_BYTES)
        {
            let Some(old) = self.inbox.pop_front() else {
                break;
            };
            held = BYTES_IN_USE.fetch_sub(old.size, Ordering::Relaxed) - old.size;
        }
        if let MessageKind::Request { id, method } = &received.kind {
            let reply = self.services.handle_request(id, method, &received.json);
            if let Some(reply) = reply {
                let _ = self.send_message(&reply, Duration::from_secs(5)).await;
            }
        }
        received
    }

    /// Waits for the first matching message after the transcript line `from`.
    pub async fn find(
        &mut self,
        from: u64,
        within: Duration,
        fits: impl Fn(&ReceivedMessage) -> bool,
    ) -> Result<ReceivedMessage, NoResponse> {
        let start_time = Instant::now();
        let found = self.inbox.iter().find(|m| m.line > from && fits(m));
        if let Some(found) = found {
            return Ok(found.clone());
        }
        let within = match self.has_output {
            true => within,
            false => within + self.start_allowance,
        };
        let mut limit = self.time_limit(within);
        let outcome = loop {
            match self.next(limit.next_check()).await {
                ConnectionEvent::Message(received) => {
                    let same_line = self
                        .inbox
                        .iter()
                        .rev()
                        .take_while(|m| m.line == received.line);
                    let found = same_line.filter(|m| m.line > from && fits(m)).last();
                    if let Some(found) = found {
                        break Ok(found.clone());
                    }
                }
                ConnectionEvent::Other | ConnectionEvent::TimedOut => {}
                ConnectionEvent::OutputEnded => break Err(self.exit_reason().await),
            }
            if limit.is_over() {
                break Err(self.timed_out(&limit, within));
            }
        };
        self.waited += start_time.elapsed();
        outcome
    }

    /// A time limit for the agent, from now on.
    pub fn time_limit(&self, within: Duration) -> TimeLimit {
        TimeLimit::new(self.process.id(), within)
    }

    /// Records that a time limit was reached.
    pub fn timed_out(&mut self, limit: &TimeLimit, within: Duration) -> NoResponse {
        self.time_outs.any = true;
        if !limit.is_starved() {
            return NoResponse::TimedOut(within);
        }
        self.time_outs.is_starved = true;
        let (time, waited) = limit.times();
        NoResponse::Starved(time, waited)
    }

    /// Whether the agent has sent a message.
    pub fn has_messages(&self) -> bool {
        !self.inbox.is_empty()
    }

    /// Whether the agent has written anything to stdout.
    pub fn has_output(&self) -> bool {
        self.has_output
    }

    /// Waits for the response to a request.
    pub async fn answer(
        &mut self,
        id: &Value,
        within: Duration,
    ) -> Result<ReceivedMessage, NoResponse> {
        let key = id_key(id);
        let fits = move |m: &ReceivedMessage| match &m.kind {
            MessageKind::Response { id, .. } => id_key(id) == key,
            _ => false,
        };
        self.find(0, within, fits).await
    }

    /// Collects messages for a fixed time.
    pub async fn listen(&mut self, time: Duration) -> Vec<ReceivedMessage> {
        let until = Instant::now() + time;
        let mut received_messages = Vec::new();
        loop {
            match self.next(until).await {
                ConnectionEvent::Message(received) => received_messages.push(received),
                ConnectionEvent::Other => {}
                ConnectionEvent::OutputEnded | ConnectionEvent::TimedOut => {
                    return received_messages;
                }
            }
            if Instant::now() >= until {
                return received_messages;
            }
        }
    }

    pub fn is_over(&self) -> bool {
        self.is_over
    }
}
