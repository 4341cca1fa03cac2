//! The current turn, shared by the task that reads the agent and the call that waits for the end of
//! the turn.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::timeout;

use super::input::Input;
use super::{EXIT_GRACE, EventSink, closed_input};
use crate::error::Error;
use crate::event::{StopReason, StreamEvent};

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
        let mut cancelled = self.0.subscribe();
        if cancelled.wait_for(|cancelled| *cancelled).await.is_err() {
            std::future::pending().await
        }
    }
}

/// How a turn ended, as seen by the reader.
#[derive(Clone, Debug)]
pub enum End {
    Reason(StopReason),
    Error(Error),
    /// The agent's output ended.
    OutputEnded,
}

/// Holds one turn at a time.
pub struct Slot {
    current: Mutex<Option<Arc<CurrentTurn>>>,
    /// Whether the agent's output has ended. Set and read while `current` is locked.
    ended: watch::Sender<bool>,
}

impl Default for Slot {
    fn default() -> Self {
        Slot {
            current: Mutex::default(),
            ended: watch::Sender::new(false),
        }
    }
}

impl Slot {
    /// Opens a turn, which lasts until the returned value is dropped. A handshake is a turn without
    /// events.
    pub fn begin(self: &Arc<Self>, events: Option<EventSink>) -> TurnGuard {
        let current = Arc::new(CurrentTurn {
            events,
            end: watch::Sender::new(None),
            over: watch::Sender::new(false),
        });
        let mut held = self.current.lock();
        if *self.ended.borrow() {
            current.finish(End::OutputEnded);
        }
        *held = Some(Arc::clone(&current));
        drop(held);
        TurnGuard {
            slot: Arc::clone(self),
            current,
        }
    }

    /// The current turn.
    pub fn current(&self) -> Option<Arc<CurrentTurn>> {
        self.current.lock().clone()
    }

    /// Marks the agent's output as ended, which ends the current turn and every later one.
    pub fn output_ended(&self) {
        let held = self.current.lock();
        self.ended.send_replace(true);
        if let Some(current) = &*held {
            current.finish(End::OutputEnded);
        }
    }

    /// Waits until the agent's output has ended, during or between turns.
    pub async fn wait_output_end(&self) {
        let mut ended = self.ended.subscribe();
        let _ = ended.wait_for(|ended| *ended).await;
    }

    /// Called after each write. If the write failed and this side has not closed the input, the
    /// turn ends when the agent exits, or after a short wait.
    pub async fn after_write(&self, input: &Input, written: &io::Result<()>) {
        if written.is_ok()
            || input.is_closed()
            || timeout(EXIT_GRACE, self.wait_output_end()).await.is_ok()
        {
            return;
        }
        if let Some(current) = self.current() {
            current.finish(End::Error(closed_input()));
        }
    }
}

/// A turn, as seen by the reader.
pub struct CurrentTurn {
    events: Option<EventSink>,
    end: watch::Sender<Option<End>>,
    over: watch::Sender<bool>,
}

impl CurrentTurn {
    /// The sink for questions, or `None` in a handshake.
    pub fn events(&self) -> Option<&EventSink> {
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
        if let Err(error) = emitted {
            self.finish(End::Error(error));
        }
    }

    /// Waits until the turn is dropped.
    pub async fn dropped(&self) {
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
        seen.ok()
            .and_then(|end| end.clone())
            .unwrap_or(End::OutputEnded)
    }
}

/// Keeps a turn open. When it is dropped, the reader no longer sends events to it.
pub struct TurnGuard {
    slot: Arc<Slot>,
    pub current: Arc<CurrentTurn>,
}

impl Drop for TurnGuard {
    fn drop(&mut self) {
        self.current.over.send_replace(true);
        let mut held = self.slot.current.lock();
        if let Some(current) = &*held
            && Arc::ptr_eq(current, &self.current)
        {
            *held = None;
        }
    }
}
