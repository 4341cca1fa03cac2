//! The event stream: meta first, one summary last, and the counts of the events in between.

use std::io::{ErrorKind, Write};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::args::OutputMode;
use super::changes::{Change, Counters, EventFrame, Quirk, RunInfo};
use super::pipes::StdoutPipe;
use super::signals;
use super::surface::{AOI_VERSION, SCHEMA_NAME, TOOL, TOOL_VERSION, VERSIONS};
use super::text::JsonStyle;
use super::versions;

/// How long a mutant waits for a slow reader.
const SHORT_TIMEOUT: Duration = Duration::from_millis(300);

/// Why a run ends early.
pub enum EarlyExit {
    Failed(ToolError),
    /// The signal that interrupted the run.
    Interrupted(i32),
    /// The reader has closed stdout.
    PipeClosed,
    /// Stdout cannot be written.
    WriteFailed,
    /// A mutant exits the process.
    Exit(u8),
}

pub struct ToolError {
    pub category: &'static str,
    pub code: &'static str,
    pub message: String,
    extra: Vec<(&'static str, Value)>,
}

impl ToolError {
    pub fn new(
        category: &'static str,
        code: &'static str,
        message: impl Into<String>,
    ) -> ToolError {
        ToolError {
            category,
            code,
            message: message.into(),
            extra: Vec::new(),
        }
    }
    pub fn with(mut self, name: &'static str, value: impl Into<Value>) -> ToolError {
        self.extra.push((name, value.into()));
        self
    }

    /// Whether a retry may succeed (AOI-CLI §9.1).
    fn is_retryable(&self) -> bool {
        matches!(self.category, "rate_limited" | "temporary" | "timeout")
    }

    /// Exit code of the category.
    pub fn exit(&self) -> u8 {
        match self.category {
            "usage" => 64,
            "not_found" => 66,
            "internal" => 70,
            "io" => 74,
            "authn" | "authz" => 77,
            "config" => 78,
            "timeout" => 124,
            "rate_limited" | "temporary" => 75,
            _ => 65,
        }
    }

    pub fn event(&self) -> Value {
        let mut event = json!({
            "type": "aoi:error",
            "category": self.category,
            "code": self.code,
            "message": self.message,
            "retryable": self.is_retryable(),
        });
        if let Value::Object(fields) = &mut event {
            let extra = self.extra.iter().cloned();
            fields.extend(extra.map(|(name, value)| (name.to_owned(), value)));
        }
        event
    }
}

impl From<ToolError> for EarlyExit {
    fn from(failure: ToolError) -> EarlyExit {
        EarlyExit::Failed(failure)
    }
}

impl From<super::args::UsageError> for EarlyExit {
    fn from(error: super::args::UsageError) -> EarlyExit {
        EarlyExit::Failed(ToolError::new("usage", error.code, error.message))
    }
}

pub struct EventWriter {
    pub info: RunInfo,
    pub mode: OutputMode,
    changes: Vec<&'static Change>,
    quirks: Vec<Quirk>,
    notes: Counters,
    style: JsonStyle,
    out: StdoutPipe,
    started: Instant,
    deadline: Option<Instant>,
    /// Delay before each result.
    delay: Duration,
    trace: String,
    has_meta: bool,
    count: u64,
    warnings: u64,
    errors: u64,
    /// Events that `--output json` prints at the end.
    buffered_events: Vec<Value>,
    /// Output that a mutant holds back.
    held_output: Vec<u8>,
}

impl EventWriter {
    pub fn new(
        info: RunInfo,
        mode: OutputMode,
        changes: Vec<&'static Change>,
        quirks: Vec<Quirk>,
    ) -> std::io::Result<EventWriter> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let nanos = now.map_or(0, |now| now.as_nanos());
        Ok(EventWriter {
            info,
            mode,
            changes,
            style: JsonStyle::of(&quirks),
            quirks,
            notes: Counters::new(),
            out: StdoutPipe::stdout()?,
            started: Instant::now(),
            deadline: None,
            delay: Duration::ZERO,
            trace: format!("run-{nanos:x}-{:x}", std::process::id()),
            has_meta: false,
            count: 0,
            warnings: 0,
            errors: 0,
            buffered_events: Vec::new(),
            held_output: Vec::new(),
        })
    }

    pub fn has_quirk(&self, quirk: Quirk) -> bool {
        self.quirks.contains(&quirk)
    }

    pub fn set_timeout(&mut self, time: Duration) {
        self.deadline = self.started.checked_add(time);
    }

    pub fn set_delay(&mut self, time: Duration) {
        self.delay = time;
    }

    /// Sleeps between two events.
    pub fn sleep(&mut self, time: Duration) -> Result<(), EarlyExit> {
        let left = self
            .deadline
            .map(|end| end.saturating_duration_since(Instant::now()));
        let time = left.map_or(time, |left| left.min(time));
        if !time.is_zero() {
            signals::sleep(time);
        }
        self.check_stop()
    }

    /// Fails if a signal or the deadline ends the run here.
    pub fn check_stop(&mut self) -> Result<(), EarlyExit> {
        if let Some(signal) = signals::received() {
            return Err(EarlyExit::Interrupted(signal));
        }
        let is_late = self.deadline.is_some_and(|end| Instant::now() >= end);
        if is_late && !self.has_quirk(Quirk::TimeoutIgnored) {
            let message = "Timed out (`--timeout`).";
            return Err(ToolError::new("timeout", "TIMED_OUT", message).into());
        }
        Ok(())
    }

    pub fn meta(&mut self, extra: Value) -> Result<(), EarlyExit> {
        if self.has_meta {
            return Ok(());
        }
        self.has_meta = true;
        let mut event = json!({
            "type": "aoi:meta",
            "tool": TOOL,
            "tool_version": TOOL_VERSION,
            "aoi_version": AOI_VERSION,
            "schema_name": SCHEMA_NAME,
            "schema_version": versions::full(self.info.major).unwrap_or(VERSIONS[1]),
            "command": self.info.command,
            "trace_id": self.trace,
            "timestamp": crate::iso8601(SystemTime::now()),
            "args_redacted": true,
        });
        if let (Value::Object(fields), Value::Object(extra)) = (&mut event, extra) {
            fields.extend(extra);
        }
        self.send(event)
    }

    /// Emits a domain event in the format of the requested version.
    pub fn domain(&mut self, event: Value) -> Result<(), EarlyExit> {
        self.sleep(self.delay)?;
        self.count += 1;
        let major = match self.info.major {
            _ if self.has_quirk(Quirk::EventsOfVersionOne) => 1,
            _ if self.has_quirk(Quirk::EventsOfVersionTwo) => 2,
            major => major,
        };
        self.send(versions::shape(major, event))
    }

    pub fn check(&mut self, name: &str, detail: &str) -> Result<(), EarlyExit> {
        self.sleep(self.delay)?;
        self.count += 1;
        self.send(json!({
            "type": "aoi:check", "name": name, "ok": true, "severity": "info", "detail": detail,
        }))
    }

    /// Emits a framework event that is not a result.
    pub fn framework(&mut self, event: Value) -> Result<(), EarlyExit> {
        if event.get("type").and_then(Value::as_str) == Some("aoi:warning") {
            self.warnings += 1;
        }
        self.send(event)
    }

    pub fn error(&mut self, failure: &ToolError) -> Result<(), EarlyExit> {
        self.errors += 1;
        self.send(failure.event())
    }

    pub fn has_errors(&self) -> bool {
        self.errors > 0
    }

    pub fn summary(&mut self, ok: bool, extra: Value) -> Result<(), EarlyExit> {
        let elapsed = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let mut event = json!({
            "type": "aoi:summary",
            "ok": ok,
            "count": self.count,
            "warning_count": self.warnings,
            "error_count": self.errors,
            "partial": false,
            "truncated": false,
            "next_cursor": null,
            "elapsed_ms": elapsed,
            "trace_id": self.trace,
        });
        if let (Value::Object(fields), Value::Object(extra)) = (&mut event, extra) {
            fields.extend(extra);
        }
        self.send(event)?;
        if self.mode == OutputMode::Json {
            let (events, summary) = (std::mem::take(&mut self.buffered_events), "aoi:summary");
            let is_summary = |event: &Value| event.get("type").is_some_and(|t| t == summary);
            let (last, events): (Vec<_>, Vec<_>) = events.into_iter().partition(is_summary);
            let last = last.into_iter().next_back();
            self.write(format!("{:#}\n", json!({ "events": events, "summary": last })).as_bytes())?;
        }
        self.flush()
    }

    /// Prints a discovery document.
    pub fn document(&mut self, document: Value) -> Result<(), EarlyExit> {
        let mut frame = EventFrame::Json(document);
        for change in self.changes.clone() {
            frame = match (change, frame) {
                (Change::Document(change), EventFrame::Json(document)) => {
                    change(&self.info, document)
                }
                (_, frame) => frame,
            };
        }
        match frame {
            EventFrame::Json(document) => {
                let mut line = self.style.document(&document).into_bytes();
                line.push(b'\n');
                self.write(&line)
            }
            EventFrame::Raw(bytes) => self.write(&bytes),
            EventFrame::Exit(code) => Err(EarlyExit::Exit(code)),
        }
    }

    /// A discovery document after all changes, to be emitted as an event.
    pub fn apply_changes(&self, document: Value) -> Value {
        let mut document = document;
        for change in &self.changes {
            if let Change::Document(change) = change
                && let EventFrame::Json(apply_changes) = change(&self.info, document.clone())
            {
                document = apply_changes;
            }
        }
        document
    }

    /// Prints text for people.
    pub fn print(&mut self, text: &str) -> Result<(), EarlyExit> {
        self.write(text.as_bytes())
    }

    fn send(&mut self, event: Value) -> Result<(), EarlyExit> {
        match self.mode {
            OutputMode::Jsonl => {}
            OutputMode::Json => {
                self.buffered_events.push(event);
                return Ok(());
            }
            OutputMode::Human => return self.print_event(&event),
        }
        let mut frames = vec![EventFrame::Json(event)];
        for change in self.changes.clone() {
            let Change::Event(change) = change else {
                continue;
            };
            let mut apply_changes = Vec::new();
            for frame in frames {
                match frame {
                    EventFrame::Json(event) => {
                        apply_changes.extend(change(&self.info, &mut self.notes, event));
                    }
                    other => apply_changes.push(other),
                }
            }
            frames = apply_changes;
        }
        for frame in frames {
            let mut line = match frame {
                EventFrame::Json(event) => self.style.line(&event),
                EventFrame::Raw(bytes) => bytes,
                EventFrame::Exit(code) => return Err(EarlyExit::Exit(code)),
            };
            for change in &self.changes {
                if let Change::Line(change) = change {
                    line = change(&self.info, line);
                }
            }
            self.write(&line)?;
        }
        Ok(())
    }

    /// Prints an event as text.
    fn print_event(&mut self, event: &Value) -> Result<(), EarlyExit> {
        let text = |name: &str| event.get(name).and_then(Value::as_str).unwrap_or_default();
        match text("type") {
            "aoi:error" => {
                eprint(&format!("{TOOL}: {}\n", text("message")));
                Ok(())
            }
            kind if kind.starts_with("aoi:") && kind != "aoi:plan" && kind != "aoi:check" => Ok(()),
            _ => {
                let named = ["id", "name", "title", "snippet", "detail", "action"];
                let words: Vec<&str> = named.into_iter().map(text).collect();
                let line = words.join("  ");
                self.write(format!("{}\n", line.trim()).as_bytes())
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), EarlyExit> {
        if self.has_quirk(Quirk::BuffersAll) && signals::received().is_none() {
            self.held_output.extend_from_slice(bytes);
            return Ok(());
        }
        let is_last = memchr::memmem::find(bytes, b"aoi:summary").is_some();
        let patience = is_last && self.has_quirk(Quirk::SummaryWithoutPatience);
        match self.out.write(bytes, patience.then_some(SHORT_TIMEOUT)) {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                if self.has_quirk(Quirk::WritesIntoClosedPipe) {
                    return Ok(());
                }
                self.info.pipe_closed = true;
                Err(EarlyExit::PipeClosed)
            }
            Err(_) => {
                self.info.write_failed = true;
                Err(EarlyExit::WriteFailed)
            }
        }
    }

    /// Writes the output that a mutant held back.
    pub fn flush(&mut self) -> Result<(), EarlyExit> {
        let held_output = std::mem::take(&mut self.held_output);
        self.quirks.retain(|quirk| *quirk != Quirk::BuffersAll);
        self.write(&held_output)
    }
}

/// Prints a message to stderr. A closed stderr is ignored.
pub fn eprint(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}
