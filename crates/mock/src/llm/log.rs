//! Log of the requests to the mock model.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::request::{ChatMessage, Dialect, Media, ModelRequest};

/// Maximum number of message bytes in the log. Each request contains the whole conversation, so the
/// messages of the oldest requests are dropped above this limit.
const MAX_LOG_BYTES: usize = 256 << 20;

/// One request and the outcome of its response.
#[derive(Clone, Debug)]
pub struct LoggedRequest {
    /// Time of the request.
    pub at: Instant,
    /// Wire format of the request.
    pub dialect: Dialect,
    /// Name of the requested model.
    pub model: String,
    /// Messages of the conversation. Empty if they were dropped to save memory.
    pub messages: Arc<[ChatMessage]>,
    /// Names of the tools that the request offers.
    pub tools: Arc<[String]>,
    /// Content other than text, such as images.
    pub media: Arc<[Media]>,
    /// The text that the rule of the response looks for with `contains`. Empty for other rules.
    pub rule: String,
    /// Whether the response is streamed.
    pub streamed: bool,
    /// HTTP status of the response, 0 until there is one.
    pub status: u16,
    /// Whether the client closed the connection before the response was complete.
    pub dropped: bool,
    /// Whether the response was sent completely.
    pub finished: bool,
}

impl LoggedRequest {
    /// The latest text of the user.
    pub fn last_user_text(&self) -> &str {
        let user = |message: &&ChatMessage| message.role == super::request::ChatRole::User;
        let last = self.messages.iter().rfind(user);
        last.map_or("", |message| message.text.as_str())
    }

    /// The request as JSON.
    pub fn to_json(&self) -> Value {
        let messages = self.messages.iter();
        let messages =
            messages.map(|message| json!({"role": message.role.as_str(), "text": message.text}));
        let media = self.media.iter().map(|media| media.as_str());
        json!({
            "dialect": self.dialect.as_str(),
            "model": self.model,
            "messages": messages.collect::<Vec<Value>>(),
            "tools": &*self.tools,
            "media": media.collect::<Vec<_>>(),
            "rule": self.rule,
            "streamed": self.streamed,
            "status": self.status,
            "dropped": self.dropped,
            "finished": self.finished,
        })
    }
}

#[derive(Default)]
struct LogData {
    entries: Vec<LoggedRequest>,
    bytes: usize,
    /// Number of the oldest entries whose messages were dropped.
    emptied: usize,
}

/// Handle to the log. Clones share the same log.
#[derive(Clone)]
pub struct RequestLog {
    data: Arc<Mutex<LogData>>,
    version: watch::Sender<u64>,
}

impl RequestLog {
    pub(super) fn new() -> Self {
        RequestLog {
            data: Arc::default(),
            version: watch::Sender::new(0),
        }
    }

    fn data(&self) -> MutexGuard<'_, LogData> {
        self.data.lock()
    }

    /// All requests so far, oldest first.
    pub fn all(&self) -> Vec<LoggedRequest> {
        self.data().entries.clone()
    }

    /// The requests with a message that contains this text, as JSON, oldest first.
    pub fn containing(&self, text: &str) -> Value {
        let all = self.all().into_iter().filter(|request| {
            let mut messages = request.messages.iter();
            messages.any(|message| message.text.contains(text))
        });
        all.map(|request| request.to_json()).collect()
    }

    /// Number of requests so far.
    pub fn len(&self) -> usize {
        self.data().entries.len()
    }

    /// Whether the log is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Receiver that is notified of every change: a new request, or the end of a response.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// Waits until the log satisfies a condition, and returns it.
    pub async fn until(&self, condition: impl Fn(&[LoggedRequest]) -> bool) -> Vec<LoggedRequest> {
        let mut version = self.subscribe();
        loop {
            let all = self.all();
            if condition(&all) {
                return all;
            }
            // The channel stays open, because `self` holds a sender.
            let _ = version.changed().await;
        }
    }

    pub(super) fn add(&self, request: &ModelRequest) -> usize {
        let tools = request.tools.iter().map(|tool| tool.name.clone());
        let entry = LoggedRequest {
            at: Instant::now(),
            dialect: request.dialect,
            model: request.model.clone(),
            messages: request.messages.clone().into(),
            tools: tools.collect(),
            media: request.media.as_slice().into(),
            rule: String::new(),
            streamed: request.stream,
            status: 0,
            dropped: false,
            finished: false,
        };
        let mut data = self.data();
        data.bytes = data.bytes.saturating_add(message_bytes(&entry));
        data.entries.push(entry);
        let index = data.entries.len() - 1;
        while data.bytes > MAX_LOG_BYTES && data.emptied < index {
            let oldest = data.emptied;
            data.emptied += 1;
            if let Some(entry) = data.entries.get_mut(oldest) {
                let freed = message_bytes(entry);
                entry.messages = Arc::default();
                data.bytes = data.bytes.saturating_sub(freed);
            }
        }
        drop(data);
        self.version.send_modify(|version| *version += 1);
        index
    }

    pub(super) fn update(&self, index: usize, change: impl FnOnce(&mut LoggedRequest)) {
        if let Some(entry) = self.data().entries.get_mut(index) {
            change(entry);
        }
        self.version.send_modify(|version| *version += 1);
    }
}

fn message_bytes(entry: &LoggedRequest) -> usize {
    entry
        .messages
        .iter()
        .map(|message| message.text.len())
        .sum()
}
