//! Agents that print their turns as JSON lines. Each turn is one process with the prompt on its
//! stdin. Later turns use the program's own resume flag.

mod claude;
mod gemini;

use std::ffi::OsString;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use agentproto_text::strict_json::read_repaired;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::task::JoinHandle;

use super::input::Input;
use super::process::{Process, Spawned};
use super::slot::Cancel;
use super::{
    Arm, ArmFuture, EventSink, LaunchSpec, Negotiated, OpenRequest, quote, redact_error, truncate,
};
use crate::bundle::Bundle;
use crate::context::Context;
use crate::error::{Code, Error};
use crate::event::{StopReason, StreamEvent};
use crate::usage::UsageReport;
use agentproto_sandbox::spawn::{Exit, OutputLines, Piece};

/// Time for a program to store its session after its last line.
const AFTER_RESULT: Duration = Duration::from_secs(2);
/// Maximum length of a session id.
const MAX_ID_LEN: usize = 200;

/// Maximum number of agent warnings passed on per turn, and maximum length of each.
const MAX_WARNINGS: u32 = 5;
const MAX_WARNING_CHARS: usize = 4000;

/// The program whose lines are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodecKind {
    Claude,
    Gemini,
}

impl CodecKind {
    /// Reads `metadata.agentproto.codec`.
    pub fn from_manifest(bundle: &Bundle) -> Result<Option<CodecKind>, Error> {
        let Some(node) = bundle.root().at(&["metadata", "agentproto", "codec"]) else {
            return Ok(None);
        };
        match node.as_str() {
            Some("claude-stream-json") => Ok(Some(CodecKind::Claude)),
            Some("gemini-stream-json") => Ok(Some(CodecKind::Gemini)),
            _ => Err(bundle.invalid(
                node,
                "`codec` must be `claude-stream-json` or `gemini-stream-json`",
            )),
        }
    }

    fn codec(self) -> Box<dyn Codec> {
        match self {
            CodecKind::Claude => Box::<claude::Claude>::default(),
            CodecKind::Gemini => Box::<gemini::Gemini>::default(),
        }
    }

    /// Flags that make the program print lines, unless the manifest already sets them.
    fn flags(self, argv: &[OsString]) -> Vec<OsString> {
        let has_flag = |names: &[&str]| {
            argv.iter().filter_map(|word| word.to_str()).any(|word| {
                let name = word.split_once('=').map_or(word, |(name, _)| name);
                names.contains(&name)
            })
        };
        let mut flags: Vec<&str> = Vec::new();
        if self == CodecKind::Claude && !has_flag(&["-p", "--print"]) {
            flags.push("--print");
        }
        if !has_flag(&["-o", "--output-format"]) {
            flags.extend(["--output-format", "stream-json"]);
        }
        if self == CodecKind::Claude && !has_flag(&["--verbose"]) {
            flags.push("--verbose");
        }
        flags.into_iter().map(OsString::from).collect()
    }
}

/// Translates the lines of one turn into events.
trait Codec: Send {
    fn line(&mut self, line: &Value, out: &mut Vec<StreamEvent>) -> LineMeaning;
}

/// The meaning of a line, apart from its events.
enum LineMeaning {
    Known,
    /// A line that the codec does not know.
    Unknown,
    Session(String),
    Warning(String),
    End {
        session: Option<String>,
        end: Result<StopReason, Error>,
        /// Usage of this process, which ran one turn.
        usage: UsageReport,
    },
}

/// A session of the agent.
#[derive(Clone)]
struct KnownSession {
    id: String,
    /// Whether a turn of it has ended, or the caller named it.
    confirmed: bool,
}

pub struct CodecArm {
    context: Arc<Context>,
    spec: LaunchSpec,
    kind: CodecKind,
    session: Mutex<Option<KnownSession>>,
    current: Mutex<Option<Arc<Process>>>,
    /// A process whose turn has ended, on its way to exit.
    ending: tokio::sync::Mutex<Option<JoinHandle<Exit>>>,
    cancel: Cancel,
    warned: AtomicBool,
    /// Number of warnings of the agent in this turn.
    warnings: AtomicU32,
    /// Cost of the session's processes so far.
    spent: Mutex<f64>,
}

impl CodecArm {
    pub fn new(context: Arc<Context>, spec: LaunchSpec, kind: CodecKind) -> CodecArm {
        CodecArm {
            context,
            spec,
            kind,
            session: Mutex::new(None),
            current: Mutex::new(None),
            ending: tokio::sync::Mutex::new(None),
            cancel: Cancel::default(),
            warned: AtomicBool::new(false),
            warnings: AtomicU32::new(0),
            spent: Mutex::new(0.0),
        }
    }

    /// The session of a canceled turn may never have been stored. If the agent does not know it, a
    /// new one is started.
    async fn run_turn(&self, message: &str, events: &EventSink) -> Result<StopReason, Error> {
        let unconfirmed = self
            .session
            .lock()
            .as_ref()
            .is_some_and(|known| !known.confirmed);
        match self.attempt(message, events).await {
            Attempt::ExitedEarly(error) if unconfirmed => {
                self.session.lock().take();
                let what = format!(
                    "the session of the canceled turn is gone; starting a new one: {error}"
                );
                self.context.observer.warning("session_unknown", &what);
                match self.attempt(message, events).await {
                    Attempt::ExitedEarly(error) => Err(error),
                    Attempt::Ended(end) => end,
                }
            }
            Attempt::ExitedEarly(error) => Err(error),
            Attempt::Ended(end) => end,
        }
    }

    async fn attempt(&self, message: &str, events: &EventSink) -> Attempt {
        self.wait_for_exit().await;
        if self.cancel.is_set() {
            return Attempt::Ended(Ok(StopReason::Cancelled));
        }
        let command = self.command();
        let spawned = Process::start(Arc::clone(&self.context), &command, None);
        let Spawned { process, wire, .. } = match spawned.await {
            Ok(spawned) => spawned,
            Err(error) => return Attempt::Ended(Err(error)),
        };
        let process = Arc::new(process);
        *self.current.lock() = Some(Arc::clone(&process));
        let input = Input::new(wire.stdin);
        let (feed, prompt) = (input.clone(), message.as_bytes().to_vec());
        // Runs in its own task, because a program may respond before it has read everything.
        tokio::spawn(async move {
            let _ = feed.bytes(prompt).await;
            feed.close().await;
        });
        let mut lines = wire.stdout;
        let outcome = tokio::select! {
            biased;
            () = self.cancel.wait() => None,
            outcome = self.read_events(&mut lines, events) => Some(outcome),
        };
        self.count_warnings();
        input.close().await;
        match outcome {
            Some(Ended::OutputEnded { recognized }) => {
                self.current.lock().take();
                let error = process.exit_error("during the turn").await;
                match recognized {
                    true => Attempt::Ended(Err(error)),
                    false => Attempt::ExitedEarly(error),
                }
            }
            Some(Ended::End(end)) => {
                self.end_later(async move {
                    let rest = async { while lines.next().await.is_some() {} };
                    let _ = tokio::time::timeout(AFTER_RESULT, rest).await;
                    process.stop().await
                })
                .await;
                Attempt::Ended(end)
            }
            None => {
                process.signal(libc::SIGINT).await;
                self.end_later(async move { process.stop().await }).await;
                Attempt::Ended(Ok(StopReason::Cancelled))
            }
        }
    }

    async fn read_events(&self, lines: &mut OutputLines, events: &EventSink) -> Ended {
        let mut codec = self.kind.codec();
        let mut out = Vec::new();
        let mut recognized = false;
        while let Some(piece) = lines.next().await {
            let bytes = match piece {
                Piece::Line { bytes, .. } => bytes,
                Piece::TooLong { start, length } => {
                    return violation(format!(
                        "the agent wrote a line of {length} bytes, which is too long; it starts with `{}`",
                        quote(&self.context, &start)
                    ));
                }
                Piece::Gap { lines, bytes } => {
                    return violation(format!(
                        "the agent wrote faster than its events were read: {lines} lines ({bytes} bytes) were lost"
                    ));
                }
            };
            let bytes = bytes.trim_ascii();
            if bytes.is_empty() {
                continue;
            }
            let meaning = match read_repaired::<Value>(bytes) {
                Ok(line) => codec.line(&line, &mut out),
                Err(_) => LineMeaning::Unknown,
            };
            recognized |= !matches!(meaning, LineMeaning::Unknown);
            for event in out.drain(..) {
                if let Err(error) = events.emit(event).await {
                    return Ended::End(Err(error));
                }
            }
            match meaning {
                LineMeaning::Known => {}
                LineMeaning::Unknown => self.warn_unknown_output(bytes),
                LineMeaning::Session(id) => self.remember(id, false),
                LineMeaning::Warning(text) => self.forward_warning(&text),
                LineMeaning::End {
                    session,
                    end,
                    usage,
                } => {
                    events.report_usage(self.with_earlier_cost(usage));
                    let known = session.or_else(|| self.session_id());
                    if let Some(id) = known {
                        self.remember(id, true);
                    }
                    return Ended::End(end.map_err(|error| redact_error(&self.context, error)));
                }
            }
        }
        Ended::OutputEnded { recognized }
    }

    /// Adds the cost of the session's earlier processes, because each program knows only its own.
    fn with_earlier_cost(&self, mut usage: UsageReport) -> UsageReport {
        if let Some(cost) = &mut usage.cost {
            let mut spent = self.spent.lock();
            *spent += cost.amount.max(0.0);
            cost.amount = *spent;
        }
        usage
    }

    /// The agent's command line. It never contains the prompt.
    fn command(&self) -> LaunchSpec {
        let mut spec = self.spec.clone();
        spec.argv.extend(self.kind.flags(&self.spec.argv));
        if let Some(id) = self.session_id() {
            spec.argv.extend(["--resume".into(), id.into()]);
        }
        spec
    }

    /// Waits until no process of an earlier turn is running.
    async fn wait_for_exit(&self) -> Option<Exit> {
        let ending = self.ending.lock().await.take();
        let ended = match ending {
            Some(ending) => ending.await.ok(),
            None => None,
        };
        let remaining = self.current.lock().take();
        match remaining {
            Some(process) => Some(process.stop().await),
            None => ended,
        }
    }

    async fn end_later(&self, end: impl Future<Output = Exit> + Send + 'static) {
        let mut ending = self.ending.lock().await;
        self.current.lock().take();
        *ending = Some(tokio::spawn(end));
    }

    fn remember(&self, id: String, confirmed: bool) {
        if !is_id(&id) {
            return self.warn_unknown_output(id.as_bytes());
        }
        let mut session = self.session.lock();
        let known = session
            .as_ref()
            .is_some_and(|known| known.confirmed && known.id == id);
        *session = Some(KnownSession {
            id,
            confirmed: confirmed || known,
        });
    }

    /// Passes on a warning of the agent. Only the first few are shown, the rest are counted.
    fn forward_warning(&self, text: &str) {
        if self.warnings.fetch_add(1, Ordering::Relaxed) < MAX_WARNINGS {
            let text = truncate(&self.context.masks.mask(text), MAX_WARNING_CHARS);
            self.context.observer.warning("agent_warning", &text);
        }
    }

    fn count_warnings(&self) {
        let all = self.warnings.swap(0, Ordering::Relaxed);
        if all > MAX_WARNINGS {
            let text = format!("the agent gave {all} warnings in this turn");
            self.context.observer.warning("agent_warning", &text);
        }
    }

    /// Warns once about output that the codec does not know.
    fn warn_unknown_output(&self, what: &[u8]) {
        if !self.warned.swap(true, Ordering::Relaxed) {
            let what = format!(
                "the agent wrote non-protocol output to stdout, which was ignored: `{}`",
                quote(&self.context, what)
            );
            self.context.observer.warning("protocol_garbage", &what);
        }
    }
}

enum Ended {
    End(Result<StopReason, Error>),
    /// `recognized`: whether the agent had written a line that its codec knows.
    OutputEnded {
        recognized: bool,
    },
}

enum Attempt {
    Ended(Result<StopReason, Error>),
    /// The agent exited before it wrote a known line.
    ExitedEarly(Error),
}

fn violation(what: String) -> Ended {
    Ended::End(Err(Error::new(Code::ProtocolViolation, what)))
}

/// A session id is used in an argv, where it must not look like a flag.
fn is_id(id: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    !id.is_empty() && id.len() <= MAX_ID_LEN && !id.starts_with('-') && id.bytes().all(fits)
}

impl Drop for CodecArm {
    fn drop(&mut self) {
        if let Some(ending) = self.ending.get_mut().take() {
            ending.abort();
        }
    }
}

impl Arm for CodecArm {
    /// Nothing is negotiated before a turn. Only checks that the agent could be started.
    fn handshake(&self) -> ArmFuture<'_, Negotiated> {
        Box::pin(async move {
            let command = self.command();
            self.context.prepare(&command.argv, &command.env)?;
            Ok(Negotiated {
                resumable: Some(true),
                ..Negotiated::default()
            })
        })
    }

    fn open<'a>(&'a self, open: &'a OpenRequest) -> ArmFuture<'a, String> {
        Box::pin(async move {
            match &open.resume {
                None => Ok(super::provisional_id()),
                Some(id) if is_id(id) => {
                    self.remember(id.clone(), true);
                    Ok(id.clone())
                }
                Some(_) => Err(
                    Error::new(Code::SessionUnknown, "invalid session id to resume")
                        .hint("use the `session_id` of an earlier run"),
                ),
            }
        })
    }

    fn turn<'a>(&'a self, message: &'a str, events: EventSink) -> ArmFuture<'a, StopReason> {
        Box::pin(async move {
            let ended = self.run_turn(message, &events).await;
            self.cancel.reset();
            ended
        })
    }

    fn cancel(&self) -> ArmFuture<'_, ()> {
        Box::pin(async move {
            self.cancel.set();
            Ok(())
        })
    }

    fn close(&self) -> ArmFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn stop(&self) -> Pin<Box<dyn Future<Output = Option<Exit>> + Send + '_>> {
        Box::pin(self.wait_for_exit())
    }

    fn output_excerpt(&self) -> Pin<Box<dyn Future<Output = Option<String>> + Send + '_>> {
        Box::pin(async move {
            let process = self.current.lock().clone()?;
            super::stderr_excerpt(&process).await
        })
    }

    fn session_id(&self) -> Option<String> {
        self.session.lock().as_ref().map(|known| known.id.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_added_where_they_are_missing() {
        let flags = |kind: CodecKind, words: &[&str]| {
            let argv: Vec<OsString> = words.iter().map(OsString::from).collect();
            kind.flags(&argv)
        };
        assert_eq!(
            flags(CodecKind::Claude, &["claude"]),
            ["--print", "--output-format", "stream-json", "--verbose"]
        );
        assert_eq!(
            flags(
                CodecKind::Claude,
                &["claude", "-p", "--output-format=stream-json"]
            ),
            ["--verbose"]
        );
        assert_eq!(
            flags(CodecKind::Gemini, &["gemini"]),
            ["--output-format", "stream-json"]
        );
        assert!(flags(CodecKind::Gemini, &["gemini", "-o", "stream-json"]).is_empty());
    }

    proptest::proptest! {
        #[test]
        fn no_json_causes_a_panic(lines in proptest::collection::vec(crate::arm::json::any_value(), 1..6)) {
            for kind in [CodecKind::Claude, CodecKind::Gemini] {
                let mut codec = kind.codec();
                let mut out = Vec::new();
                for line in &lines {
                    codec.line(line, &mut out);
                }
            }
        }
    }

    #[test]
    fn a_session_id_cannot_be_a_flag() {
        assert!(is_id("3fa0-b.c_1"));
        for bad in [
            "",
            "-x",
            "--yolo",
            "a b",
            "a=b",
            "a/b",
            "é",
            &"x".repeat(201),
        ] {
            assert!(!is_id(bad), "{bad}");
        }
    }
}
