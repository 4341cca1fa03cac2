//! The current turn, shared by the task that reads the agent and the call that waits for the end of
//! the turn.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::timeout;

use super::input::Input;
use super::{Events, LAST_WORD, closed_input};
use crate::event::{StopReason, StreamEvent};
use crate::fault::Fault;

/// Whether the turn is to be canceled.
pub struct Cancel(watch::Sender<bool>);

impl Default for Cancel {
    fn default() -> Self {
        Cancel(watch::Sender::new(false))
    }
}

impl Cancel {
    /// Called at the end of a turn, not at its start, because a caller may cancel a turn before it
    /// runs.
    pub fn reset(&self) {
        self.0.send_replace(false);
    }

    pub fn set(&self) {
        self.0.send_replace(true);
    }

    pub fn is_set(&self) -> bool {
        *self.0.borrow()
    }

    pub async fn wait(&self) {
        let mut told = self.0.subscribe();
        if told.wait_for(|told| *told).await.is_err() {
            std::future::pending().await
        }
    }
}

/// How a turn ended, as seen by the reader.
#[derive(Clone, Debug)]
pub enum End {
    Reason(StopReason),
    Fault(Fault),
    /// The agent's output ended.
    Lost,
}

/// Holds one turn at a time.
pub struct Slot {
    going: Mutex<Option<Arc<Going>>>,
    /// Whether the agent's output has ended. Set and read while `going` is locked.
    lost: watch::Sender<bool>,
}

impl Default for Slot {
    fn default() -> Self {
        Slot {
            going: Mutex::default(),
            lost: watch::Sender::new(false),
        }
    }
}

impl Slot {
    /// Opens a turn, which lasts until the returned value is dropped. A handshake is a turn without
    /// events.
    pub fn begin(self: &Arc<Self>, events: Option<Events>) -> Turn {
        let going = Arc::new(Going {
            events,
            end: watch::Sender::new(None),
            over: watch::Sender::new(false),
        });
        let mut held = self.going.lock();
        if *self.lost.borrow() {
            going.finish(End::Lost);
        }
        *held = Some(Arc::clone(&going));
        drop(held);
        Turn {
            slot: Arc::clone(self),
            going,
        }
    }

    /// The current turn.
    pub fn going(&self) -> Option<Arc<Going>> {
        self.going.lock().clone()
    }

    /// Marks the agent's output as ended, which ends the current turn and every later one.
    pub fn lose(&self) {
        let held = self.going.lock();
        self.lost.send_replace(true);
        if let Some(going) = &*held {
            going.finish(End::Lost);
        }
    }

    /// Waits until the agent's output has ended, during or between turns.
    pub async fn lost(&self) {
        let mut lost = self.lost.subscribe();
        let _ = lost.wait_for(|lost| *lost).await;
    }

    /// Called after each write. If the write failed and this side has not closed the input, the
    /// turn ends when the agent exits, or after a short wait.
    pub async fn wrote(&self, input: &Input, written: &io::Result<()>) {
        if written.is_ok() || input.is_closed() || timeout(LAST_WORD, self.lost()).await.is_ok() {
            return;
        }
        if let Some(going) = self.going() {
            going.finish(End::Fault(closed_input()));
        }
    }
}

/// A turn, as seen by the reader.
pub struct Going {
    events: Option<Events>,
    end: watch::Sender<Option<End>>,
    over: watch::Sender<bool>,
}

impl Going {
    /// The sink for questions, or `None` in a handshake.
    pub fn events(&self) -> Option<&Events> {
        self.events.as_ref()
    }

    /// Sends an event. Waits while the consumer is slow, but not longer than the turn lasts. Events
    /// after its end are dropped. An event that cannot be audited ends the turn.
    pub async fn emit(&self, event: StreamEvent) {
        let Some(events) = &self.events else { return };
        if self.end.borrow().is_some() {
            return;
        }
        let mut over = self.over.subscribe();
        let emitted = tokio::select! {
            biased;
            emitted = events.emit(event) => emitted,
            _ = over.wait_for(|over| *over) => Ok(()),
        };
        if let Err(fault) = emitted {
            self.finish(End::Fault(fault));
        }
    }

    /// Waits until the turn is dropped.
    pub async fn left(&self) {
        let mut over = self.over.subscribe();
        let _ = over.wait_for(|over| *over).await;
    }

    /// Sets the end of the turn. Returns false if it has already ended.
    pub fn finish(&self, end: End) -> bool {
        self.end.send_if_modified(|known| {
            let first = known.is_none();
            if first {
                *known = Some(end);
            }
            first
        })
    }

    pub fn end(&self) -> Option<End> {
        self.end.borrow().clone()
    }

    pub async fn ended(&self) -> End {
        let mut end = self.end.subscribe();
        let seen = end.wait_for(Option::is_some).await;
        seen.ok().and_then(|end| end.clone()).unwrap_or(End::Lost)
    }
}

/// Keeps a turn open. When it is dropped, the reader no longer sends events to it.
pub struct Turn {
    slot: Arc<Slot>,
    pub going: Arc<Going>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.going.over.send_replace(true);
        let mut held = self.slot.going.lock();
        if let Some(going) = &*held
            && Arc::ptr_eq(going, &self.going)
        {
            *held = None;
        }
    }
}
