//! Receives signals from the reading thread for one turn: responses to its requests, and
//! cancellations.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::rpc::{RpcPeer, TurnSignal};
use crate::turn::{TurnEnd, TurnResult};

/// How long to wait for an outstanding response after a cancellation.
const LATE_RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Result or JSON-RPC error of a request.
type Outcome = Result<Value, Value>;
/// Response of the peer to one of our requests, or the end of the turn.
pub type CallResult = Result<Outcome, TurnEnd>;

pub struct Mailbox {
    sender: Sender<TurnSignal>,
    signals: Receiver<TurnSignal>,
}

impl Mailbox {
    pub fn new() -> Mailbox {
        let (sender, signals) = channel();
        Mailbox { sender, signals }
    }

    pub fn sender(&self) -> Sender<TurnSignal> {
        self.sender.clone()
    }

    /// Ends the turn if it was canceled in the meantime.
    pub fn check_cancelled(&self) -> TurnResult {
        loop {
            match self.signals.try_recv() {
                Ok(signal) => _ = into_reply(signal)?,
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return Ok(()),
            }
        }
    }

    pub fn pause(&self, time: Duration) -> TurnResult {
        let until = Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.signals.recv_timeout(left) {
                Ok(signal) => _ = into_reply(signal)?,
                Err(RecvTimeoutError::Timeout) => return Ok(()),
                Err(RecvTimeoutError::Disconnected) => return Err(TurnEnd::NoResponse),
            }
        }
    }

    /// Sends a request and waits for its response. A cancellation ends the wait.
    pub fn call(&self, peer: &RpcPeer, method: &str, params: Value) -> CallResult {
        self.check_cancelled()?;
        let id = peer.request(method, params, Some(&self.sender));
        self.wait(id)
    }

    /// Like `call`, but waits for the response even if the turn is canceled, because the peer may
    /// have created something for us. Returns the end of the turn together with the response.
    pub fn call_through(
        &self,
        peer: &RpcPeer,
        method: &str,
        params: Value,
    ) -> Result<(Outcome, Option<TurnEnd>), TurnEnd> {
        self.check_cancelled()?;
        let id = peer.request(method, params, Some(&self.sender));
        let mut end = None;
        loop {
            // A client that cancels and never answers must not block the turn forever.
            let signal = match end {
                None => self.signals.recv().map_err(|_| TurnEnd::NoResponse)?,
                Some(_) => match self.signals.recv_timeout(LATE_RESPONSE_TIMEOUT) {
                    Ok(signal) => signal,
                    Err(_) => return Err(end.unwrap_or(TurnEnd::NoResponse)),
                },
            };
            match into_reply(signal) {
                Ok(Some((answered, outcome))) if answered == id => return Ok((outcome, end)),
                Ok(_) => {}
                Err(why) => end = Some(why),
            }
        }
    }

    pub fn wait(&self, id: u64) -> CallResult {
        loop {
            let signal = self.signals.recv().map_err(|_| TurnEnd::NoResponse)?;
            if let Some((answered, outcome)) = into_reply(signal)?
                && answered == id
            {
                return Ok(outcome);
            }
        }
    }
}

/// Converts a signal to a response, or to the end of the turn.
fn into_reply(signal: TurnSignal) -> Result<Option<(u64, Outcome)>, TurnEnd> {
    match signal {
        TurnSignal::Reply(id, outcome) => Ok(Some((id, outcome))),
        TurnSignal::Cancel => Err(TurnEnd::Cancelled),
        TurnSignal::CancelRequest => Err(TurnEnd::RequestCancelled),
    }
}
