//! Adapters of proprietary protocols as programs. They read orders as lines and write events of the
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

use super::desk::Desk;
use super::input::Input;
use super::process::{Process, Spawned};
use super::slot::{Cancel, End};
use super::{Arm, Doing, Events, Negotiated, Open, Spec};
use crate::bundle::Bundle;
use crate::context::Context;
use crate::event::StopReason;
use crate::fault::{Code, Fault};
use agentproto_manifest as manifest;
use agentproto_sandbox::spawn::{Bounds, Exit};
pub use line::Order;
use reader::Shared;

/// How long to wait for the end of a canceled turn. An adapter has one second.
const AFTER_CANCEL: Duration = Duration::from_millis(800);

/// Start of the error message when an adapter ends a turn that is not open.
pub const ENDED_AGAIN: &str = "the adapter ended a turn";

/// A program of the bundle that writes the events itself.
pub struct Executable {
    context: Arc<Context>,
    /// The adapter's own command.
    program: Spec,
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
    pub fn new(context: Arc<Context>, argv: Vec<OsString>, spec: Spec, desk: Desk) -> Executable {
        let words = spec.argv.iter();
        Executable {
            shared: Arc::new(Shared::new(Arc::clone(&context), desk)),
            context,
            program: Spec {
                argv,
                env: spec.env,
            },
            command: words.map(|w| w.to_string_lossy().into_owned()).collect(),
            started: OnceLock::new(),
            turns: AtomicU64::new(0),
            cancel: Cancel::default(),
        }
    }

    async fn start(&self) -> Result<(), Fault> {
        let spawned =
            Process::start(Arc::clone(&self.context), &self.program, Bounds::default()).await?;
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
            Err(_) => Err(Fault::new(
                Code::SessionBusy,
                "the adapter is already started",
            )),
        }
    }

    async fn connect(&self, resume: Option<&str>) -> Result<String, Fault> {
        let started = self.started()?;
        let waiting = self.shared.slot.begin(None);
        let order = Order::Connect {
            cwd: &started.cwd.to_string_lossy(),
            command: &self.command,
            resume,
            definition: &manifest::to_json(self.context.bundle.root()),
        };
        let answered = async {
            tokio::select! {
                biased;
                connected = self.shared.connected() => Ok(connected),
                end = waiting.going.ended() => Err(end),
            }
        };
        match self.telling(&order, answered).await {
            Ok(connected) => {
                let id = connected.or_else(|| resume.map(str::to_owned));
                Ok(id.unwrap_or_else(super::provisional_id))
            }
            Err(end) => Err(not_connected(
                self.failed(started, end, "while connecting").await,
            )),
        }
    }

    async fn play(&self, message: &str, events: Events) -> Result<StopReason, Fault> {
        let started = self.started()?;
        self.settled(started).await?;
        if self.cancel.is_set() {
            // The turn was canceled before it started, so the adapter is not told about it.
            return Ok(StopReason::Cancelled);
        }
        let number = self.turns.fetch_add(1, Ordering::Relaxed) + 1;
        let turn_id = format!("turn-{number}");
        let turn = self.shared.slot.begin(Some(events));
        self.shared.set_turn(&turn_id);
        let order = Order::Send {
            turn_id: &turn_id,
            message,
        };
        let ended = async {
            tokio::select! {
                biased;
                end = turn.going.ended() => Some(end),
                () = self.cancel.wait() => None,
            }
        };
        let end = match self.telling(&order, ended).await {
            Some(end) => end,
            None => {
                self.shared.desk.cancel_all();
                let order = Order::Cancel { turn_id: &turn_id };
                let told = async {
                    self.tell(&order).await;
                    turn.going.ended().await
                };
                match tokio::time::timeout(AFTER_CANCEL, told).await {
                    Ok(End::Lost) => End::Lost,
                    Ok(_) => End::Reason(StopReason::Cancelled),
                    Err(_) => {
                        self.shared.owe();
                        End::Reason(StopReason::Cancelled)
                    }
                }
            }
        };
        self.shared.desk.cancel_all();
        match end {
            End::Reason(reason) => Ok(reason),
            end => Err(self.failed(started, end, "during the turn").await),
        }
    }

    /// Checks that the adapter has ended the previous turn, exactly once.
    async fn settled(&self, started: &Started) -> Result<(), Fault> {
        if let Some(fault) = self.shared.complaint() {
            return Err(fault);
        }
        if tokio::time::timeout(AFTER_CANCEL, self.shared.paid())
            .await
            .is_ok()
        {
            return Ok(());
        }
        if self.shared.is_lost() {
            return Err(self.failed(started, End::Lost, "during the turn").await);
        }
        Err(Fault::new(
            Code::ProtocolViolation,
            "the adapter did not end the canceled turn within a second, so the next one cannot start (AIP-45, adapter guide, lifecycle invariants)",
        )
        .hint("after `cancel`, the adapter must send one `turn-end` with the reason `cancelled`"))
    }

    async fn failed(&self, started: &Started, end: End, doing: &str) -> Fault {
        match end {
            End::Fault(fault) => fault,
            _ => started.process.lost(doing).await,
        }
    }

    async fn tell(&self, order: &Order<'_>) {
        if let (Ok(line), Some(started)) = (serde_json::to_vec(order), self.started.get()) {
            let written = started.input.line(line).await;
            self.shared.slot.wrote(&started.input, &written).await;
        }
    }

    /// Sends an order and waits for `wait`, which may complete before the order was written.
    async fn telling<T>(&self, order: &Order<'_>, wait: impl Future<Output = T>) -> T {
        tokio::pin!(wait);
        tokio::select! {
            biased;
            waited = &mut wait => return waited,
            () = self.tell(order) => {}
        }
        wait.await
    }

    fn started(&self) -> Result<&Started, Fault> {
        let missing = || Fault::new(Code::SessionClosed, "the adapter is not running");
        self.started.get().ok_or_else(missing)
    }
}

impl Arm for Executable {
    /// Only starts the adapter. It connects when the session opens.
    fn handshake(&self) -> Doing<'_, Negotiated> {
        Box::pin(async move {
            self.start().await?;
            Ok(Negotiated::default())
        })
    }

    fn open<'a>(&'a self, open: &'a Open) -> Doing<'a, String> {
        Box::pin(self.connect(open.resume.as_deref()))
    }

    fn turn<'a>(&'a self, message: &'a str, events: Events) -> Doing<'a, StopReason> {
        Box::pin(async move {
            let ended = self.play(message, events).await;
            self.cancel.reset();
            ended
        })
    }

    fn gone(&self) -> Pin<Box<dyn Future<Output = ()> + Send + 'static>> {
        let slot = Arc::clone(&self.shared.slot);
        Box::pin(async move { slot.lost().await })
    }

    fn cancel(&self) -> Doing<'_, ()> {
        Box::pin(async move {
            self.cancel.set();
            self.shared.desk.cancel_all();
            Ok(())
        })
    }

    fn close(&self) -> Doing<'_, ()> {
        Box::pin(async move {
            self.shared.desk.cancel_all();
            if let Some(started) = self.started.get() {
                let told = self.tell(&Order::Close);
                let _ = tokio::time::timeout(AFTER_CANCEL, told).await;
                started.input.close().await;
            }
            match self.shared.complaint() {
                Some(fault) => Err(fault),
                None => Ok(()),
            }
        })
    }

    fn stop(&self) -> Pin<Box<dyn Future<Output = Option<Exit>> + Send + '_>> {
        Box::pin(async move {
            self.shared.desk.cancel_all();
            let started = self.started.get()?;
            started.input.close().await;
            Some(started.process.stop().await)
        })
    }

    fn last_words(&self) -> Pin<Box<dyn Future<Output = Option<String>> + Send + '_>> {
        Box::pin(async move { super::words(&self.started.get()?.process).await })
    }

    fn session_id(&self) -> Option<String> {
        self.shared.session_id()
    }
}

/// `metadata.agentproto.adapter_exec`: a program and its arguments. Words that start with `./`, and
/// a program with a slash, are files of the bundle.
pub fn from_manifest(bundle: &Bundle) -> Result<Option<Vec<OsString>>, Fault> {
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
fn reported(message: String, code: Option<String>, details: Value) -> Fault {
    let known = code.as_deref().and_then(|code| code.parse().ok());
    let fault = Fault::new(known.unwrap_or(Code::TurnFailed), message);
    match (code, details) {
        (None, details) => fault.details(details),
        (Some(code), Value::Null) => fault.details(json!({ "code": code })),
        (Some(code), details) => fault.details(json!({ "code": code, "details": details })),
    }
}

/// Changes the code of an error while connecting, because no turn has failed yet.
fn not_connected(mut fault: Fault) -> Fault {
    if fault.code == Code::TurnFailed {
        fault.code = Code::AdapterUnavailable;
        fault.message = format!("the adapter could not connect: {}", fault.message);
    }
    fault
}

type Shelf<T> = Mutex<Option<T>>;

fn take<T>(shelf: &Shelf<T>) -> Option<T> {
    shelf.lock().take()
}
