//! The stream of one session next to signals and typed lines, on one channel.

use std::io::BufRead;
use std::sync::mpsc::Sender;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::cli::agents::client::{Client, Frame, StreamStart};
use crate::cli::{Failure, signals};
use crate::exit;
use agentproto_runtime::arm::permissions::Answer;

/// Maximum number of attempts to reopen a broken stream.
const MAX_ATTEMPTS: usize = 10;
/// Pause before each attempt.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// Everything that a client of a session reacts to, in order of arrival.
pub enum ClientEvent {
    Frame(Frame),
    /// The stream is open, so nothing is missed from now on.
    Open,
    Lost(Failure),
    Typed(String),
    /// The user answered a question.
    Answered(String, Answer),
    /// The input has ended.
    Closed,
    Signal(i32),
}

/// Sends signals to the channel from now on.
pub fn forward_signals(sender: Sender<ClientEvent>) -> Result<(), Failure> {
    let listening = signal_hook::iterator::Signals::new([SIGINT, SIGTERM]);
    let mut listening = listening
        .map_err(|e| Failure::new(exit::INTERNAL, format!("cannot listen for signals: {e}")))?;
    if let Some(code) = signals::hand_over() {
        let _ = sender.send(ClientEvent::Signal(i32::from(code) - 128));
    }
    std::thread::spawn(move || {
        for signal in listening.forever() {
            if sender.send(ClientEvent::Signal(signal)).is_err() {
                return;
            }
        }
    });
    Ok(())
}

/// Exit code of a command that a signal ended.
pub fn exit_code(signal: i32) -> u8 {
    match signal {
        SIGTERM => exit::TERMINATED,
        _ => exit::INTERRUPTED,
    }
}

/// Reads the stream to its end. After a break it continues after the last item.
pub fn follow(client: Client, id: String, from: StreamStart, sender: Sender<ClientEvent>) {
    std::thread::spawn(move || {
        let mut last: Option<String> = None;
        let mut attempts = 0;
        loop {
            let lost = match client.stream(&id, last.as_deref(), from) {
                Ok(mut frames) => {
                    let _ = sender.send(ClientEvent::Open);
                    while let Some(frame) = frames.next() {
                        attempts = 0;
                        if frame.id.is_some() {
                            last.clone_from(&frame.id);
                        }
                        let is_end = frame.event == "end";
                        if sender.send(ClientEvent::Frame(frame)).is_err() || is_end {
                            return;
                        }
                    }
                    Failure::new(exit::UNAVAILABLE, "the stream ended unexpectedly")
                        .typed("host_unavailable")
                        .hint("`agentproto sessions` shows whether the daemon is still running")
                }
                Err(failure) => failure,
            };
            attempts += 1;
            if attempts > MAX_ATTEMPTS || lost.code != exit::UNAVAILABLE {
                let _ = sender.send(ClientEvent::Lost(lost));
                return;
            }
            std::thread::sleep(RETRY_PAUSE);
        }
    });
}

/// Sends each line of stdin to the channel.
pub fn read_input(sender: Sender<ClientEvent>) {
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            if sender.send(ClientEvent::Typed(line)).is_err() {
                return;
            }
        }
        let _ = sender.send(ClientEvent::Closed);
    });
}
