//! The event stream: meta first, one summary last, and the counts of the events in between.

use std::io::{ErrorKind, Write};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::pipes::Out;
use super::signals;
use super::surface::{AOI_VERSION, SCHEMA_NAME, TOOL, TOOL_VERSION, VERSIONS};
use super::text::Style;
use super::twist::{Facts, Frame, Notes, Quirk, Twist};
use super::versions;
use super::words::Mode;

/// How long a mutant waits for a slow reader.
const NO_PATIENCE: Duration = Duration::from_millis(300);

/// Why a run ends early.
pub enum Stop {
    Failed(Failure),
    /// The signal that interrupted the run.
    Interrupted(i32),
    /// The reader has closed stdout.
    Gone,
    /// Stdout cannot be written.
    Unwritten,
    /// A mutant exits the process.
    Exit(u8),
}

pub struct Failure {
    pub category: &'static str,
    pub code: &'static str,
    pub message: String,
    extra: Vec<(&'static str, Value)>,
}

impl Failure {
    pub fn new(category: &'static str, code: &'static str, message: impl Into<String>) -> Failure {
        Failure {
            category,
            code,
            message: message.into(),
            extra: Vec::new(),
        }
    }
    pub fn with(mut self, name: &'static str, value: impl Into<Value>) -> Failure {
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

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Stop {
        Stop::Failed(failure)
    }
}

impl From<super::words::Mistake> for Stop {
    fn from(mistake: super::words::Mistake) -> Stop {
        Stop::Failed(Failure::new("usage", mistake.code, mistake.message))
    }
}

pub struct Stream {
    pub facts: Facts,
    pub mode: Mode,
    twists: Vec<&'static Twist>,
    quirks: Vec<Quirk>,
    notes: Notes,
    style: Style,
    out: Out,
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
    kept: Vec<Value>,
    /// Output that a mutant holds back.
    held: Vec<u8>,
}

impl Stream {
    pub fn new(
        facts: Facts,
        mode: Mode,
        twists: Vec<&'static Twist>,
        quirks: Vec<Quirk>,
    ) -> std::io::Result<Stream> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let nanos = now.map_or(0, |now| now.as_nanos());
        Ok(Stream {
            facts,
            mode,
            twists,
            style: Style::of(&quirks),
            quirks,
            notes: Notes::new(),
            out: Out::stdout()?,
            started: Instant::now(),
            deadline: None,
            delay: Duration::ZERO,
            trace: format!("run-{nanos:x}-{:x}", std::process::id()),
            has_meta: false,
            count: 0,
            warnings: 0,
            errors: 0,
            kept: Vec::new(),
            held: Vec::new(),
        })
    }

    pub fn quirk(&self, quirk: Quirk) -> bool {
        self.quirks.contains(&quirk)
    }

    pub fn ends_after(&mut self, time: Duration) {
        self.deadline = self.started.checked_add(time);
    }

    pub fn waits(&mut self, time: Duration) {
        self.delay = time;
    }

    /// Sleeps between two events.
    pub fn rest(&mut self, time: Duration) -> Result<(), Stop> {
        let left = self
            .deadline
            .map(|end| end.saturating_duration_since(Instant::now()));
        let time = left.map_or(time, |left| left.min(time));
        if !time.is_zero() {
            signals::sleep(time);
        }
        self.go_on()
    }

    /// Fails if a signal or the deadline ends the run here.
    pub fn go_on(&mut self) -> Result<(), Stop> {
        if let Some(signal) = signals::came() {
            return Err(Stop::Interrupted(signal));
        }
        let is_late = self.deadline.is_some_and(|end| Instant::now() >= end);
        if is_late && !self.quirk(Quirk::TimeoutIgnored) {
            let message = "Timed out (`--timeout`).";
            return Err(Failure::new("timeout", "TIMED_OUT", message).into());
        }
        Ok(())
    }

    pub fn meta(&mut self, extra: Value) -> Result<(), Stop> {
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
            "schema_version": versions::full(self.facts.major).unwrap_or(VERSIONS[1]),
            "command": self.facts.command,
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
    pub fn domain(&mut self, event: Value) -> Result<(), Stop> {
        self.rest(self.delay)?;
        self.count += 1;
        let major = match self.facts.major {
            _ if self.quirk(Quirk::EventsOfVersionOne) => 1,
            _ if self.quirk(Quirk::EventsOfVersionTwo) => 2,
            major => major,
        };
        self.send(versions::shape(major, event))
    }

    pub fn check(&mut self, name: &str, detail: &str) -> Result<(), Stop> {
        self.rest(self.delay)?;
        self.count += 1;
        self.send(json!({
            "type": "aoi:check", "name": name, "ok": true, "severity": "info", "detail": detail,
        }))
    }

    /// Emits a framework event that is not a result.
    pub fn framework(&mut self, event: Value) -> Result<(), Stop> {
        if event.get("type").and_then(Value::as_str) == Some("aoi:warning") {
            self.warnings += 1;
        }
        self.send(event)
    }

    pub fn error(&mut self, failure: &Failure) -> Result<(), Stop> {
        self.errors += 1;
        self.send(failure.event())
    }

    pub fn has_errors(&self) -> bool {
        self.errors > 0
    }

    pub fn summary(&mut self, ok: bool, extra: Value) -> Result<(), Stop> {
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
        if self.mode == Mode::Json {
            let (events, summary) = (std::mem::take(&mut self.kept), "aoi:summary");
            let is_summary = |event: &Value| event.get("type").is_some_and(|t| t == summary);
            let (last, events): (Vec<_>, Vec<_>) = events.into_iter().partition(is_summary);
            let last = last.into_iter().next_back();
            self.write(format!("{:#}\n", json!({ "events": events, "summary": last })).as_bytes())?;
        }
        self.flush()
    }

    /// Prints a discovery document.
    pub fn document(&mut self, document: Value) -> Result<(), Stop> {
        let mut frame = Frame::Json(document);
        for twist in self.twists.clone() {
            frame = match (twist, frame) {
                (Twist::Document(change), Frame::Json(document)) => change(&self.facts, document),
                (_, frame) => frame,
            };
        }
        match frame {
            Frame::Json(document) => {
                let mut line = self.style.document(&document).into_bytes();
                line.push(b'\n');
                self.write(&line)
            }
            Frame::Raw(bytes) => self.write(&bytes),
            Frame::Exit(code) => Err(Stop::Exit(code)),
        }
    }

    /// A discovery document after all changes, to be emitted as an event.
    pub fn changed(&self, document: Value) -> Value {
        let mut document = document;
        for twist in &self.twists {
            if let Twist::Document(change) = twist
                && let Frame::Json(changed) = change(&self.facts, document.clone())
            {
                document = changed;
            }
        }
        document
    }

    /// Prints text for people.
    pub fn say(&mut self, text: &str) -> Result<(), Stop> {
        self.write(text.as_bytes())
    }

    fn send(&mut self, event: Value) -> Result<(), Stop> {
        match self.mode {
            Mode::Jsonl => {}
            Mode::Json => {
                self.kept.push(event);
                return Ok(());
            }
            Mode::Human => return self.tell(&event),
        }
        let mut frames = vec![Frame::Json(event)];
        for twist in self.twists.clone() {
            let Twist::Event(change) = twist else {
                continue;
            };
            let mut changed = Vec::new();
            for frame in frames {
                match frame {
                    Frame::Json(event) => {
                        changed.extend(change(&self.facts, &mut self.notes, event));
                    }
                    other => changed.push(other),
                }
            }
            frames = changed;
        }
        for frame in frames {
            let mut line = match frame {
                Frame::Json(event) => self.style.line(&event),
                Frame::Raw(bytes) => bytes,
                Frame::Exit(code) => return Err(Stop::Exit(code)),
            };
            for twist in &self.twists {
                if let Twist::Line(change) = twist {
                    line = change(&self.facts, line);
                }
            }
            self.write(&line)?;
        }
        Ok(())
    }

    /// Prints an event as text.
    fn tell(&mut self, event: &Value) -> Result<(), Stop> {
        let text = |name: &str| event.get(name).and_then(Value::as_str).unwrap_or_default();
        match text("type") {
            "aoi:error" => {
                complain(&format!("{TOOL}: {}\n", text("message")));
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

    fn write(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        if self.quirk(Quirk::BuffersAll) && signals::came().is_none() {
            self.held.extend_from_slice(bytes);
            return Ok(());
        }
        let is_last = memchr::memmem::find(bytes, b"aoi:summary").is_some();
        let patience = is_last && self.quirk(Quirk::SummaryWithoutPatience);
        match self.out.write(bytes, patience.then_some(NO_PATIENCE)) {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                if self.quirk(Quirk::WritesIntoClosedPipe) {
                    return Ok(());
                }
                self.facts.gone = true;
                Err(Stop::Gone)
            }
            Err(_) => {
                self.facts.unwritten = true;
                Err(Stop::Unwritten)
            }
        }
    }

    /// Writes the output that a mutant held back.
    pub fn flush(&mut self) -> Result<(), Stop> {
        let held = std::mem::take(&mut self.held);
        self.quirks.retain(|quirk| *quirk != Quirk::BuffersAll);
        self.write(&held)
    }
}

/// Prints a message to stderr. A closed stderr is ignored.
pub fn complain(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}
