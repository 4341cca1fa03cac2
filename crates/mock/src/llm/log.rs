//! Log of the requests to the mock model.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

use super::ask::{Dialect, Question, Said};

/// Maximum number of message bytes in the log. Each request contains the whole conversation, so the
/// messages of the oldest requests are dropped above this limit.
const KEPT_BYTES: usize = 256 << 20;

/// One request and the outcome of its response.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Time of the request.
    pub at: Instant,
    /// Wire format of the request.
    pub dialect: Dialect,
    /// Name of the requested model.
    pub model: String,
    /// Messages of the conversation. Empty if they were dropped to save memory.
    pub messages: Arc<[Said]>,
    /// Names of the tools that the request offers.
    pub tools: Arc<[String]>,
    /// Whether the response is streamed.
    pub streamed: bool,
    /// HTTP status of the response, 0 until there is one.
    pub status: u16,
    /// Whether the client closed the connection before the response was complete.
    pub dropped: bool,
    /// Whether the response was sent completely.
    pub finished: bool,
}

impl Asked {
    /// The latest text of the user.
    pub fn last_user_text(&self) -> &str {
        let user = |said: &&Said| said.role == super::ask::Role::User;
        let last = self.messages.iter().rfind(user);
        last.map_or("", |said| said.text.as_str())
    }
}

#[derive(Default)]
struct Kept {
    asked: Vec<Asked>,
    bytes: usize,
    /// Number of the oldest entries whose messages were dropped.
    emptied: usize,
}

/// Handle to the log. Clones share the same log.
#[derive(Clone)]
pub struct Log {
    kept: Arc<Mutex<Kept>>,
    version: watch::Sender<u64>,
}

impl Log {
    pub(super) fn new() -> Self {
        Log {
            kept: Arc::default(),
            version: watch::Sender::new(0),
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock()
    }

    /// All requests so far, oldest first.
    pub fn all(&self) -> Vec<Asked> {
        self.kept().asked.clone()
    }

    pub fn len(&self) -> usize {
        self.kept().asked.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Receiver that is notified of every change: a new request, or the end of a response.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// Waits until the log satisfies a condition, and returns it.
    pub async fn until(&self, wanted: impl Fn(&[Asked]) -> bool) -> Vec<Asked> {
        let mut version = self.subscribe();
        loop {
            let all = self.all();
            if wanted(&all) {
                return all;
            }
            // The channel stays open, because `self` holds a sender.
            let _ = version.changed().await;
        }
    }

    pub(super) fn ask(&self, question: &Question) -> usize {
        let tools = question.tools.iter().map(|tool| tool.name.clone());
        let asked = Asked {
            at: Instant::now(),
            dialect: question.dialect,
            model: question.model.clone(),
            messages: question.messages.clone().into(),
            tools: tools.collect(),
            streamed: question.stream,
            status: 0,
            dropped: false,
            finished: false,
        };
        let mut kept = self.kept();
        kept.bytes = kept.bytes.saturating_add(weight(&asked));
        kept.asked.push(asked);
        let index = kept.asked.len() - 1;
        while kept.bytes > KEPT_BYTES && kept.emptied < index {
            let oldest = kept.emptied;
            kept.emptied += 1;
            if let Some(asked) = kept.asked.get_mut(oldest) {
                let freed = weight(asked);
                asked.messages = Arc::default();
                kept.bytes = kept.bytes.saturating_sub(freed);
            }
        }
        drop(kept);
        self.version.send_modify(|version| *version += 1);
        index
    }

    pub(super) fn note(&self, index: usize, note: impl FnOnce(&mut Asked)) {
        if let Some(asked) = self.kept().asked.get_mut(index) {
            note(asked);
        }
        self.version.send_modify(|version| *version += 1);
    }
}

fn weight(asked: &Asked) -> usize {
    asked.messages.iter().map(|said| said.text.len()).sum()
}
