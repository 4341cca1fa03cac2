//! Adapters of proprietary protocols as programs. They read commands as lines and write events of the
//! taxonomy as lines (A45-CONF-05). npm adapters use the same protocol through a bridge.

mod line;
mod reader;

use std::ffi::OsString;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::input::Input;
use super::permissions::PermissionBroker;
use super::process::{Process, Spawned};
use super::slot::{Cancel, End};
use super::{Arm, ArmFuture, EventSink, LaunchSpec, Negotiated, OpenRequest};
use crate::bundle::Bundle;
use crate::context::Context;
use crate::error::{Code, Error};
use crate::event::StopReason;
use agentproto_manifest as manifest;
use agentproto_sandbox::spawn::Exit;
use line::AdapterCommand;
use reader::Shared;

/// How long to wait for the end of a canceled turn. An adapter has one second.
const AFTER_CANCEL: Duration = Duration::from_millis(800);

/// Start of the error message when an adapter ends a turn that is not open.
pub const UNEXPECTED_TURN_END: &str = "the adapter ended a turn";

/// A program of the bundle that writes the events itself.
pub struct Executable {
    context: Arc<Context>,
    /// The adapter's own command.
    program: LaunchSpec,
    /// Command line of the agent that the adapter drives.
    command: Vec<String>,
    shared: Arc<Shared>,
    started: OnceLock<Started>,
    turns: AtomicU64,
    cancel: Cancel,
}

struct Started {
    process: Process,
    input: Input,
    cwd: PathBuf,
}

impl Executable {
    /// `argv` is the adapter's, from `from_manifest`. `spec` is the agent's.
    pub fn new(
        context: Arc<Context>,
        argv: Vec<OsString>,
        spec: LaunchSpec,
        broker: PermissionBroker,
    ) -> Executable {
        let words = spec.argv.iter();
        Executable {
            shared: Arc::new(Shared::new(Arc::clone(&context), broker)),
            context,
            program: LaunchSpec {
                argv,
                env: spec.env,
            },
            command: words.map(|w| w.to_string_lossy().into_owned()).collect(),
            started: OnceLock::new(),
            turns: AtomicU64::new(0),
            cancel: Cancel::default(),
        }
    }

    async fn start(&self) -> Result<(), Error> {
        let spawned = Process::start(Arc::clone(&self.context), &self.program, None).await?;
        let Spawned {
            process, wire, cwd, ..
        } = spawned;
        let input = Input::new(wire.stdin);
        tokio::spawn(reader::read(
            Arc::clone(&self.shared),
            input.clone(),
            wire.stdout,
        ));
        let started = Started {
            process,
            input,
            cwd,
        };
        match self.started.set(started) {
            Ok(()) => Ok(()),
            Err(_) => Err(Error::new(
                Code::SessionBusy,
                "the adapter is already started",
            )),
        }
    }

    async fn connect(&self, resume: Option<&str>) -> Result<String, Error> {
        let started = self.started()?;
        let waiting = self.shared.slot.begin(None);
        let command = AdapterCommand::Connect {
            cwd: &started.cwd.to_string_lossy(),
            command: &self.command,
            resume,
            definition: &manifest::to_json(self.context.bundle.root()),
        };
        let answered = async {
            tokio::select! {
                biased;
                connected = self.shared.connected() => Ok(connected),
                end = waiting.current.ended() => Err(end),
            }
        };
        match self.send_and_wait(&command, answered).await {
            Ok(connected) => {
                let id = connected.or_else(|| resume.map(str::to_owned));
                Ok(id.unwrap_or_else(super::provisional_id))
            }
            Err(end) => Err(not_connected(
                self.end_error(started, end, "while connecting").await,
            )),
        }
    }

    async fn run_turn(&self, message: &str, events: EventSink) -> Result<StopReason, Error> {
        let started = self.started()?;
        self.check_previous_turn(started).await?;
        if self.cancel.is_set() {
            // The turn was canceled before it started, so the adapter does not receive it.
            return Ok(StopReason::Cancelled);
        }
        let number = self.turns.fetch_add(1, Ordering::Relaxed) + 1;
        let turn_id = format!("turn-{number}");
        let turn = self.shared.slot.begin(Some(events));
        self.shared.set_turn(&turn_id);
        let command = AdapterCommand::Send {
            turn_id: &turn_id,
            message,
        };
        let ended = async {
            tokio::select! {
                biased;
                end = turn.current.ended() => Some(end),
                () = self.cancel.wait() => None,
            }
        };
        let end = match self.send_and_wait(&command, ended).await {
            Some(end) => end,
            None => {
                self.shared.broker.cancel_all();
                let command = AdapterCommand::Cancel { turn_id: &turn_id };
                let sent = async {
                    self.send(&command).await;
                    turn.current.ended().await
                };
                match tokio::time::timeout(AFTER_CANCEL, sent).await {
                    Ok(End::OutputEnded) => End::OutputEnded,
                    Ok(_) => End::Reason(StopReason::Cancelled),
                    Err(_) => {
                        self.shared.mark_unfinished();
                        End::Reason(StopReason::Cancelled)
                    }
                }
            }
        };
        self.shared.broker.cancel_all();
        match end {
            End::Reason(reason) => Ok(reason),
            end => Err(self.end_error(started, end, "during the turn").await),
        }
    }

    /// Checks that the adapter has ended the previous turn, exactly once.
    async fn check_previous_turn(&self, started: &Started) -> Result<(), Error> {
        if let Some(error) = self.shared.take_pending_error() {
            return Err(error);
        }
        if tokio::time::timeout(AFTER_CANCEL, self.shared.wait_finished())
            .await
            .is_ok()
        {
            return Ok(());
        }
        if self.shared.has_output_ended() {
            return Err(self
                .end_error(started, End::OutputEnded, "during the turn")
                .await);
        }
        Err(Error::new(
            Code::ProtocolViolation,
            "the adapter did not end the canceled turn within a second, so the next one cannot start (AIP-45, adapter guide, lifecycle invariants)",
        )
        .hint("after `cancel`, the adapter must send one `turn-end` with the reason `cancelled`"))
    }

    async fn end_error(&self, started: &Started, end: End, during: &str) -> Error {
        match end {
            End::Error(error) => error,
            _ => started.process.exit_error(during).await,
        }
    }

    async fn send(&self, command: &AdapterCommand<'_>) {
        if let (Ok(line), Some(started)) = (serde_json::to_vec(command), self.started.get()) {
            let written = started.input.line(line).await;
            self.shared.slot.after_write(&started.input, &written).await;
        }
    }

    /// Sends a command and waits for `wait`, which may complete before the command was written.
    async fn send_and_wait<T>(
        &self,
        command: &AdapterCommand<'_>,
        wait: impl Future<Output = T>,
    ) -> T {
        tokio::pin!(wait);
        tokio::select! {
            biased;
            waited = &mut wait => return waited,
            () = self.send(command) => {}
        }
        wait.await
    }

    fn started(&self) -> Result<&Started, Error> {
        let missing = || Error::new(Code::SessionClosed, "the adapter is not running");
        self.started.get().ok_or_else(missing)
    }
}

impl Arm for Executable {
    /// Only starts the adapter. It connects when the session opens.
    fn handshake(&self) -> ArmFuture<'_, Negotiated> {
        Box::pin(async move {
            self.start().await?;
            Ok(Negotiated::default())
        })
    }

    fn open<'a>(&'a self, open: &'a OpenRequest) -> ArmFuture<'a, String> {
        Box::pin(self.connect(open.resume.as_deref()))
    }

    fn turn<'a>(&'a self, message: &'a str, events: EventSink) -> ArmFuture<'a, StopReason> {
        Box::pin(async move {
            let ended = self.run_turn(message, events).await;
            self.cancel.reset();
            ended
        })
    }

    fn exited(&self) -> Pin<Box<dyn Future<Output = ()> + Send + 'static>> {
        let slot = Arc::clone(&self.shared.slot);
        Box::pin(async move { slot.wait_output_end().await })
    }

    fn cancel(&self) -> ArmFuture<'_, ()> {
        Box::pin(async move {
            self.cancel.set();
            self.shared.broker.cancel_all();
            Ok(())
        })
    }

    fn close(&self) -> ArmFuture<'_, ()> {
        Box::pin(async move {
            self.shared.broker.cancel_all();
            if let Some(started) = self.started.get() {
                let sent = self.send(&AdapterCommand::Close);
                let _ = tokio::time::timeout(AFTER_CANCEL, sent).await;
                started.input.close().await;
            }
            match self.shared.take_pending_error() {
                Some(error) => Err(error),
                None => Ok(()),
            }
        })
    }

    fn stop(&self) -> Pin<Box<dyn Future<Output = Option<Exit>> + Send + '_>> {
        Box::pin(async move {
            self.shared.broker.cancel_all();
            let started = self.started.get()?;
            started.input.close().await;
            Some(started.process.stop().await)
        })
    }

    fn output_excerpt(&self) -> Pin<Box<dyn Future<Output = Option<String>> + Send + '_>> {
        Box::pin(async move { super::stderr_excerpt(&self.started.get()?.process).await })
    }

    fn session_id(&self) -> Option<String> {
        self.shared.session_id()
    }
}

/// `metadata.agentproto.adapter_exec`: a program and its arguments. Words that start with `./`, and
/// a program with a slash, are files of the bundle.
pub fn from_manifest(bundle: &Bundle) -> Result<Option<Vec<OsString>>, Error> {
    let path = ["metadata", "agentproto", "adapter_exec"];
    let Some(node) = bundle.root().at(&path) else {
        return Ok(None);
    };
    let manifest::Value::Seq(items) = &node.value else {
        let what = format!(
            "`adapter_exec` must be a list of strings, not {}",
            node.type_name()
        );
        return Err(bundle.invalid(node, &what));
    };
    let mut argv = Vec::new();
    for item in items {
        let Some(word) = item.as_str() else {
            let what = format!(
                "`adapter_exec` must contain only strings, not {}",
                item.type_name()
            );
            return Err(bundle.invalid(item, &what));
        };
        let program = argv.is_empty() && word.contains('/');
        argv.push(match program || word.starts_with("./") {
            true => bundle
                .dir
                .join(word.trim_start_matches("./"))
                .into_os_string(),
            false => OsString::from(word),
        });
    }
    if argv.is_empty() {
        return Err(bundle.invalid(node, "`adapter_exec` is empty"));
    }
    Ok(Some(argv))
}

/// An error that the adapter reported.
fn reported_error(message: String, code: Option<String>, details: Value) -> Error {
    let known = code.as_deref().and_then(|code| code.parse().ok());
    let error = Error::new(known.unwrap_or(Code::TurnFailed), message);
    match (code, details) {
        (None, details) => error.details(details),
        (Some(code), Value::Null) => error.details(json!({ "code": code })),
        (Some(code), details) => error.details(json!({ "code": code, "details": details })),
    }
}

/// Changes the code of an error while connecting, because no turn has failed yet.
fn not_connected(mut error: Error) -> Error {
    if error.code == Code::TurnFailed {
        error.code = Code::AdapterUnavailable;
        error.message = format!("the adapter could not connect: {}", error.message);
    }
    error
}

type Pending<T> = Mutex<Option<T>>;

fn take<T>(pending: &Pending<T>) -> Option<T> {
    pending.lock().take()
}
