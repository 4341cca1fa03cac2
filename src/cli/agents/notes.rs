//! Notes of a lifecycle command while it works, and the signals that end it.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use crate::cli::{Failure, signals};
use crate::exit;
use agentproto_report::aoi::{Emitter, object};
use agentproto_report::event::EventType;
use agentproto_runtime::observe::{Observer, Stage};

pub enum Note {
    Stage(Stage, String),
    Progress(Stage, String),
    Warning(String, String),
}

impl Note {
    /// Emits the note as an event.
    pub fn emit(&self, emitter: &mut Emitter<'_>) -> std::io::Result<()> {
        match self {
            Note::Stage(stage, text) | Note::Progress(stage, text) => {
                let fields = serde_json::json!({ "stage": stage.as_str(), "message": text });
                emitter.event(EventType::Progress, &object(fields))
            }
            Note::Warning(code, message) => emitter.warning(code, message, None),
        }
    }
}

/// An observer that sends notes to a channel.
pub struct Notes(pub mpsc::UnboundedSender<Note>);

impl Observer for Notes {
    fn stage(&self, stage: Stage, detail: &str) {
        let _ = self.0.send(Note::Stage(stage, detail.to_owned()));
    }

    fn progress(&self, stage: Stage, text: &str) {
        let _ = self.0.send(Note::Progress(stage, text.to_owned()));
    }

    fn warning(&self, code: &str, message: &str) {
        let note = Note::Warning(code.to_owned(), message.to_owned());
        let _ = self.0.send(note);
    }
}

/// What a stage does, after its name in brackets.
pub fn stage_text(stage: Stage, detail: &str) -> String {
    let what = match stage {
        Stage::Discover => format!("read {detail}"),
        Stage::Install => format!("look for the program `{detail}`"),
        Stage::VersionCheck => format!("run `{detail}`"),
        Stage::Setup => format!("check the setup steps of {detail}"),
        Stage::Auth => format!("check the login of {detail}"),
        Stage::Spawn => format!("start {detail}"),
        Stage::Handshake => format!("connect with protocol {detail}"),
        Stage::Session if detail == "new" => "open a new session".to_owned(),
        Stage::Session => format!("resume session {detail}"),
        Stage::Turn => format!("start turn {detail}"),
        Stage::Close => format!("close session {detail}"),
        Stage::Teardown => format!("stop the agent: {detail}"),
    };
    format!("[{}] {what}", stage.as_str())
}

/// SIGINT and SIGTERM, as exit codes.
pub struct Signals {
    streams: Option<(Signal, Signal)>,
    /// Exit code of a signal that arrived before this listener existed.
    early: Option<u8>,
}

impl Signals {
    pub fn new() -> Self {
        let interrupt = signal(SignalKind::interrupt());
        Signals {
            streams: interrupt.ok().zip(signal(SignalKind::terminate()).ok()),
            early: signals::hand_over(),
        }
    }

    pub async fn next(&mut self) -> u8 {
        if let Some(code) = self.early.take() {
            return code;
        }
        match &mut self.streams {
            Some((interrupt, terminate)) => tokio::select! {
                _ = interrupt.recv() => exit::INTERRUPTED,
                _ = terminate.recv() => exit::TERMINATED,
            },
            None => std::future::pending().await,
        }
    }
}

/// A single-threaded runtime, which is enough for commands that mostly wait.
pub fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| {
            Failure::new(
                exit::INTERNAL,
                format!("cannot start the async runtime: {e}"),
            )
        })
}

/// Resolves when stdout has no reader any more, or never if stdout is not a pipe. A process that
/// does not write has no other way to notice this.
pub fn output_closed() -> tokio::sync::oneshot::Receiver<()> {
    let (sender, closed) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let mut output = libc::pollfd {
            fd: libc::STDOUT_FILENO,
            events: 0,
            revents: 0,
        };
        loop {
            // SAFETY: one pollfd that outlives the call.
            let ready = unsafe { libc::poll(&raw mut output, 1, -1) };
            if ready > 0 && output.revents & (libc::POLLERR | libc::POLLHUP | libc::POLLNVAL) != 0 {
                let _ = sender.send(());
                return;
            }
            let error = std::io::Error::last_os_error();
            if ready < 0 && error.kind() != std::io::ErrorKind::Interrupted {
                return;
            }
        }
    });
    closed
}
