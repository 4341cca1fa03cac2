//! Receives signals from the reading thread for one turn: responses to its requests, and
//! cancellations.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::rpc::{Peer, Signal};
use crate::turn::{End, Played};

/// How long to wait for an outstanding response after a cancellation.
const LATE_ANSWER: Duration = Duration::from_secs(10);

/// Result or JSON-RPC error of a request.
type Outcome = Result<Value, Value>;
/// Response of the peer to one of our requests, or the end of the turn.
pub type Called = Result<Outcome, End>;

pub struct Mailbox {
    ear: Sender<Signal>,
    signals: Receiver<Signal>,
}

impl Mailbox {
    pub fn new() -> Mailbox {
        let (ear, signals) = channel();
        Mailbox { ear, signals }
    }

    pub fn ear(&self) -> Sender<Signal> {
        self.ear.clone()
    }

    /// Ends the turn if it was cancelled in the meantime.
    pub fn listen(&self) -> Played {
        loop {
            match self.signals.try_recv() {
                Ok(signal) => _ = heard(signal)?,
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return Ok(()),
            }
        }
    }

    pub fn pause(&self, time: Duration) -> Played {
        let until = Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.signals.recv_timeout(left) {
                Ok(signal) => _ = heard(signal)?,
                Err(RecvTimeoutError::Timeout) => return Ok(()),
                Err(RecvTimeoutError::Disconnected) => return Err(End::Silence),
            }
        }
    }

    /// Sends a request and waits for its response. A cancellation ends the wait.
    pub fn call(&self, peer: &Peer, method: &str, params: Value) -> Called {
        self.listen()?;
        let id = peer.request(method, params, Some(&self.ear));
        self.wait(id)
    }

    /// Like `call`, but waits for the response even if the turn is cancelled, because the peer may
    /// have created something for us. Returns the end of the turn together with the response.
    pub fn call_through(
        &self,
        peer: &Peer,
        method: &str,
        params: Value,
    ) -> Result<(Outcome, Option<End>), End> {
        self.listen()?;
        let id = peer.request(method, params, Some(&self.ear));
        let mut end = None;
        loop {
            // A client that cancels and never answers must not block the turn forever.
            let signal = match end {
                None => self.signals.recv().map_err(|_| End::Silence)?,
                Some(_) => match self.signals.recv_timeout(LATE_ANSWER) {
                    Ok(signal) => signal,
                    Err(_) => return Err(end.unwrap_or(End::Silence)),
                },
            };
            match heard(signal) {
                Ok(Some((answered, outcome))) if answered == id => return Ok((outcome, end)),
                Ok(_) => {}
                Err(why) => end = Some(why),
            }
        }
    }

    pub fn wait(&self, id: u64) -> Called {
        loop {
            let signal = self.signals.recv().map_err(|_| End::Silence)?;
            if let Some((answered, outcome)) = heard(signal)?
                && answered == id
            {
                return Ok(outcome);
            }
        }
    }
}

/// Converts a signal to a response, or to the end of the turn.
fn heard(signal: Signal) -> Result<Option<(u64, Outcome)>, End> {
    match signal {
        Signal::Reply(id, outcome) => Ok(Some((id, outcome))),
        Signal::Cancel => Err(End::Cancelled),
        Signal::CancelRequest => Err(End::RequestCancelled),
    }
}
