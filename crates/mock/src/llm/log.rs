//! What the model was asked.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

use super::ask::{Dialect, Question, Said};

/// Beyond this, the oldest questions are told without their messages: each question carries the
/// whole conversation.
const KEPT_BYTES: usize = 256 << 20;

/// One question, and what became of its answer.
#[derive(Clone, Debug)]
pub struct Asked {
    pub at: Instant,
    pub dialect: Dialect,
    pub model: String,
    pub messages: Arc<[Said]>,
    /// Names of the tools that were offered.
    pub tools: Arc<[String]>,
    pub streamed: bool,
    /// Status of the answer; 0 until there is one.
    pub status: u16,
    /// The client hung up before the answer was over.
    pub dropped: bool,
    /// The answer was told to its end.
    pub finished: bool,
}

impl Asked {
    /// The newest text of the user.
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
    /// How many of the oldest were emptied.
    emptied: usize,
}

/// A view of the log; clones show the same.
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

    /// Everything so far, oldest first.
    pub fn all(&self) -> Vec<Asked> {
        self.kept().asked.clone()
    }

    pub fn len(&self) -> usize {
        self.kept().asked.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Tells of every change: a question that came, an answer that ended.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// Waits until the log is as wanted, and shows it.
    pub async fn until(&self, wanted: impl Fn(&[Asked]) -> bool) -> Vec<Asked> {
        let mut version = self.subscribe();
        loop {
            let all = self.all();
            if wanted(&all) {
                return all;
            }
            // We hold a sender, so that the channel is open.
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
