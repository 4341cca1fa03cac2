//! The transport between rmcp and the agent's pipes, with limits. Notifications of a turn are
//! translated here, before the response that follows them reaches rmcp. rmcp would handle each
//! notification in its own task and change their order.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};

use agentproto_text::strict_json::replace_lone_surrogates;
use parking_lot::Mutex;
use rmcp::RoleClient;
use rmcp::model::GetMeta;
use rmcp::model::{ClientRequest, JsonRpcMessage, NumberOrString, ProgressToken, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::{Semaphore, mpsc};

use super::super::input::Input;
use super::super::slot::{End, Slot};
use super::translate::{Translator, usage};
use super::turn::session_in;
use crate::context::Context;
use crate::error::{Code, Error};
use crate::event::StreamEvent;
use agentproto_sandbox::spawn::{OutputLines, Piece};

/// Maximum number of messages queued for rmcp. Further ones wait in the bounded line buffer.
const MAX_QUEUED_MESSAGES: usize = 64;
/// Maximum number of agent requests whose responses are not written yet. Limits memory for an agent
/// that does not read them.
const MAX_REQUESTS: usize = 64;

/// State shared by the reader, the handler and the turn.
pub struct Shared {
    pub slot: Arc<Slot>,
    pub context: Arc<Context>,
    pub event_method: Option<String>,
    /// Whether text of this turn was already streamed.
    pub streamed: AtomicBool,
    /// Calls and progress tokens up to these numbers belong to turns that have ended.
    past_call: AtomicI64,
    past_token: AtomicI64,
    last: Mutex<(i64, i64)>,
    /// Permits for further requests of the agent.
    request_permits: Semaphore,
    /// The session id from events, for a turn without a result.
    session: Mutex<Option<String>>,
    /// The first part of the last response, for an error about it.
    answer: Mutex<String>,
    /// The first line that was not a message.
    garbage: OnceLock<String>,
}

impl Shared {
    pub fn new(context: Arc<Context>, event_method: Option<String>) -> Self {
        Shared {
            slot: Arc::default(),
            context,
            event_method,
            streamed: AtomicBool::new(false),
            past_call: AtomicI64::new(i64::MIN),
            past_token: AtomicI64::new(i64::MIN),
            last: Mutex::new((i64::MIN, i64::MIN)),
            request_permits: Semaphore::new(MAX_REQUESTS),
            session: Mutex::new(None),
            answer: Mutex::default(),
            garbage: OnceLock::new(),
        }
    }

    /// The session id, if an event contained it.
    pub fn session(&self) -> Option<String> {
        let session = self.session.lock();
        session.clone()
    }

    pub fn last_answer(&self) -> String {
        let answer = self.answer.lock();
        answer.clone()
    }

    pub fn forget_session(&self) {
        let mut session = self.session.lock();
        *session = None;
    }

    /// Marks messages for the calls so far as too late.
    pub fn end_turn(&self) {
        let (call, token) = *self.last.lock();
        self.past_call.store(call, Ordering::Relaxed);
        self.past_token.store(token, Ordering::Relaxed);
    }

    fn note_call(&self, call: &RequestId, token: Option<ProgressToken>) {
        let number = |n: &NumberOrString| match n {
            NumberOrString::Number(n) => *n,
            NumberOrString::String(_) => i64::MIN,
        };
        let token = token.map_or(i64::MIN, |token| number(&token.0));
        *self.last.lock() = (number(call), token);
    }

    /// Warns once, no matter how much the agent prints.
    fn report_garbage(&self, line: &[u8]) {
        if self.garbage.get().is_some() {
            return;
        }
        let quoted = self.garbage.get_or_init(|| self.quote(line));
        let what = format!(
            "the agent wrote non-protocol output to stdout, which was ignored (print it to stderr instead): `{quoted}`"
        );
        self.context.observer.warning("protocol_garbage", &what);
    }

    /// The first line that was not an MCP message.
    pub fn first_garbage(&self) -> Option<&str> {
        self.garbage.get().map(String::as_str)
    }

    fn quote(&self, line: &[u8]) -> String {
        super::super::quote(&self.context, line)
    }
}

/// The transport for rmcp. A clone continues to read where the original stopped.
#[derive(Clone)]
pub struct PipeTransport {
    shared: Arc<Shared>,
    input: Input,
    messages: Arc<tokio::sync::Mutex<mpsc::Receiver<RxJsonRpcMessage<RoleClient>>>>,
}

impl PipeTransport {
    /// Starts the reader.
    pub fn new(shared: Arc<Shared>, input: Input, lines: OutputLines) -> Self {
        let (to, messages) = mpsc::channel(MAX_QUEUED_MESSAGES);
        let reader = Reader {
            shared: Arc::clone(&shared),
            input: input.clone(),
            to,
            translator: Translator::default(),
        };
        tokio::spawn(reader.read(lines));
        PipeTransport {
            shared,
            input,
            messages: Arc::new(tokio::sync::Mutex::new(messages)),
        }
    }
}

impl Transport<RoleClient> for PipeTransport {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        if let JsonRpcMessage::Request(request) = &item
            && let ClientRequest::CallToolRequest(_) = &request.request
        {
            let token = request.request.get_meta().get_progress_token();
            self.shared.note_call(&request.id, token);
        }
        let answer = matches!(item, JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_));
        let (input, shared) = (self.input.clone(), Arc::clone(&self.shared));
        async move {
            let written = input.line(serde_json::to_vec(&item)?).await;
            if answer {
                shared.request_permits.add_permits(1);
            }
            shared.slot.after_write(&input, &written).await;
            written
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        self.messages.lock().await.recv().await
    }

    async fn close(&mut self) -> io::Result<()> {
        self.input.close().await;
        Ok(())
    }
}

struct Reader {
    shared: Arc<Shared>,
    input: Input,
    to: mpsc::Sender<RxJsonRpcMessage<RoleClient>>,
    translator: Translator,
}

#[derive(Deserialize)]
struct Envelope<'l> {
    #[serde(borrow, default)]
    method: Option<std::borrow::Cow<'l, str>>,
    #[serde(borrow, default)]
    id: Option<&'l RawValue>,
    #[serde(borrow, default)]
    params: Option<&'l RawValue>,
}

impl Reader {
    async fn read(mut self, mut lines: OutputLines) {
        while let Some(piece) = lines.next().await {
            match piece {
                Piece::Line { bytes, .. } => self.line(&bytes).await,
                Piece::TooLong { start, length } => self.report_violation(format!(
                    "the agent sent a line of {length} bytes, which is too long; it starts with `{}`",
                    self.shared.quote(&start)
                )),
                Piece::Gap { lines, bytes } => self.report_violation(format!(
                    "the agent wrote faster than its events were read: {lines} lines ({bytes} bytes) were lost"
                )),
            }
        }
        self.shared.slot.output_ended();
    }

    async fn line(&mut self, line: &[u8]) {
        let line = line.trim_ascii();
        if line.is_empty() {
            return;
        }
        // Invalid surrogate escapes are replaced first, because parsing reports them only later.
        let line = &*replace_lone_surrogates(line);
        let Ok(envelope) = serde_json::from_slice::<Envelope>(line) else {
            return self.shared.report_garbage(line);
        };
        if let (Some(method), None) = (envelope.method.as_deref(), envelope.id)
            && let Some(kind) = self.kind(method)
        {
            let params = envelope.params.map_or("null", RawValue::get);
            let params = serde_json::from_str(params).unwrap_or(Value::Null);
            return self.notification(kind, &params).await;
        }
        match serde_json::from_slice::<RxJsonRpcMessage<RoleClient>>(line) {
            Ok(message) => {
                if matches!(message, JsonRpcMessage::Request(_)) && !self.take_permit() {
                    return;
                }
                if matches!(
                    message,
                    JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_)
                ) {
                    let quoted = self.shared.quote(line);
                    *self.shared.answer.lock() = quoted;
                }
                // The receiver is gone after the client was closed.
                let _ = self.to.send(message).await;
            }
            Err(error) => self.unreadable(line, &envelope, &error.to_string()).await,
        }
    }

    /// Takes a permit for one more request, or reports a violation if there is none.
    fn take_permit(&self) -> bool {
        match self.shared.request_permits.try_acquire() {
            Ok(permit) => {
                permit.forget();
                true
            }
            Err(_) => {
                self.report_violation(format!(
                    "the agent sent more than {MAX_REQUESTS} requests without reading the responses"
                ));
                false
            }
        }
    }

    /// The kind of a notification that is translated here.
    fn kind(&self, method: &str) -> Option<Kind> {
        if Some(method) == self.shared.event_method.as_deref() {
            return Some(Kind::Event);
        }
        match method {
            "notifications/progress" => Some(Kind::Progress),
            "notifications/message" => Some(Kind::Log),
            _ => None,
        }
    }

    async fn notification(&mut self, kind: Kind, params: &Value) {
        let number = |value: Option<&Value>| value.and_then(Value::as_i64).unwrap_or(i64::MAX);
        let meta = params.get("_meta").and_then(|meta| meta.get("requestId"));
        let call = meta.or_else(|| params.get("requestId"));
        let late = match kind {
            Kind::Progress => {
                number(params.get("progressToken"))
                    <= self.shared.past_token.load(Ordering::Relaxed)
            }
            Kind::Log | Kind::Event => {
                number(call) <= self.shared.past_call.load(Ordering::Relaxed)
            }
        };
        let Some(current) = self.shared.slot.current().filter(|_| !late) else {
            return;
        };
        let event = match kind {
            Kind::Progress => {
                let message = params.get("message").and_then(Value::as_str);
                message
                    .filter(|text| !text.is_empty())
                    .map(|text| StreamEvent::TextDelta {
                        text: text.to_owned(),
                    })
            }
            Kind::Log => self.translator.log(params),
            Kind::Event => {
                if let Some(id) = session_in(params) {
                    *self.shared.session.lock() = Some(id);
                }
                if let Some(events) = current.events() {
                    events.report_usage(usage(params));
                }
                self.translator.event(params)
            }
        };
        let Some(event) = event else { return };
        if matches!(event, StreamEvent::TextDelta { .. }) {
            self.shared.streamed.store(true, Ordering::Relaxed);
        }
        current.emit(event).await;
    }

    /// Handles JSON that is not an MCP message. A request gets an error response, so that the agent
    /// does not wait. An invalid response ends the turn that waits for it.
    async fn unreadable(&self, line: &[u8], envelope: &Envelope<'_>, why: &str) {
        match (&envelope.method, envelope.id) {
            (Some(_), Some(id)) => {
                let answer = format!(
                    r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-32600,"message":"invalid request"}}}}"#,
                    id.get()
                );
                self.shared.report_garbage(line);
                if !self.take_permit() {
                    return;
                }
                let (input, shared) = (self.input.clone(), Arc::clone(&self.shared));
                // Written in its own task, so that an agent that does not read cannot block the
                // reader.
                tokio::spawn(async move {
                    let _ = input.line(answer.into_bytes()).await;
                    shared.request_permits.add_permits(1);
                });
            }
            (None, Some(_)) => self.report_violation(format!(
                "the agent's response is not a JSON-RPC 2.0 response ({why}): `{}`",
                self.shared.quote(line)
            )),
            _ => self.shared.report_garbage(line),
        }
    }

    /// A message that the turn may have needed is lost, so the turn fails with the reason.
    fn report_violation(&self, what: String) {
        match self.shared.slot.current() {
            Some(current) => {
                current.finish(End::Error(Error::new(Code::ProtocolViolation, what)));
            }
            None => self
                .shared
                .context
                .observer
                .warning("protocol_violation", &what),
        }
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Progress,
    Log,
    Event,
}
