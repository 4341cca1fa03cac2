//! AOI-CLI v0.2 machine mode: one JSON object per line, `aoi:meta` first, `aoi:summary` last.

use std::io::{self, Write};
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::TOOL;
use crate::event::EventType;
use agentproto_text as text;

/// Version of AOI-CLI in `aoi:meta`.
pub const AOI_VERSION: &str = "0.2";
/// Name of the event schema in `aoi:meta`.
pub const SCHEMA_NAME: &str = "dev.agentproto.events";
/// Version of the event schema in `aoi:meta`.
pub const SCHEMA_VERSION: &str = "1.0.0";

/// Members of an event.
pub type Fields = Map<String, Value>;

/// The portable error categories (AOI-CLI §9.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Category {
    /// Wrong command-line arguments.
    Usage,
    /// Invalid input.
    Validation,
    /// The user is not authenticated.
    Authn,
    /// The user is not authorized.
    Authz,
    /// Something that the user named does not exist.
    NotFound,
    /// The request conflicts with the current state.
    Conflict,
    /// Too many requests.
    RateLimited,
    /// A temporary failure.
    Temporary,
    /// The operation exceeded its time limit.
    Timeout,
    /// The operation was canceled.
    Cancelled,
    /// Only a part of the work succeeded.
    Partial,
    /// A bug in the tool.
    Internal,
    /// Invalid configuration.
    Config,
    /// A file or stream cannot be read or written.
    Io,
}

impl Category {
    /// Name in an event.
    pub fn as_str(self) -> &'static str {
        match self {
            Category::Usage => "usage",
            Category::Validation => "validation",
            Category::Authn => "authn",
            Category::Authz => "authz",
            Category::NotFound => "not_found",
            Category::Conflict => "conflict",
            Category::RateLimited => "rate_limited",
            Category::Temporary => "temporary",
            Category::Timeout => "timeout",
            Category::Cancelled => "cancelled",
            Category::Partial => "partial",
            Category::Internal => "internal",
            Category::Config => "config",
            Category::Io => "io",
        }
    }
}

impl Category {
    /// Whether a retry can succeed. False for categories that AOI-CLI leaves open.
    pub fn is_retryable(self) -> bool {
        matches!(
            self,
            Category::RateLimited | Category::Temporary | Category::Timeout
        )
    }
}

/// An error of one item or of the whole run.
#[derive(Clone, Debug)]
pub struct ErrorEvent<'a> {
    /// Stable error code, in any case. Events contain it in upper snake case.
    pub code: &'a str,
    /// Portable category.
    pub category: Category,
    /// What went wrong.
    pub message: &'a str,
    /// Whether a retry can succeed.
    pub retryable: bool,
    /// What to do about it.
    pub hint: Option<&'a str>,
}

impl ErrorEvent<'_> {
    fn fields(&self) -> Fields {
        let mut fields = object(json!({
            "category": self.category.as_str(),
            "code": self.code.to_ascii_uppercase().replace('-', "_"),
            "message": self.message,
            "retryable": self.retryable,
        }));
        if let Some(hint) = self.hint {
            fields.insert("hint".to_owned(), hint.into());
        }
        fields
    }
}

/// An `aoi:error` line, without its line break.
pub fn aoi_error(
    code: &str,
    category: Category,
    message: &str,
    retryable: bool,
    hint: Option<&str>,
) -> io::Result<String> {
    let error = ErrorEvent {
        code,
        category,
        message,
        retryable,
        hint,
    };
    line(EventType::Error, &error.fields())
}

/// The `aoi:summary` line of a run that one error stopped, without its line break.
pub fn aoi_summary_failed(elapsed: Duration) -> io::Result<String> {
    let fields = object(json!({
        "ok": false,
        "count": 0,
        "warning_count": 0,
        "error_count": 1,
        "partial": false,
        "truncated": false,
        "elapsed_ms": millis(elapsed),
    }));
    line(EventType::Summary, &fields)
}

/// Writes events and flushes after each line. After the reader closes the pipe, further events
/// are dropped without an error. The caller can check `is_closed` and stop early.
pub struct Emitter<'w> {
    out: &'w mut dyn Write,
    version: &'w str,
    events: usize,
    warnings: usize,
    errors: usize,
    closed: bool,
}

impl<'w> Emitter<'w> {
    /// An emitter for the given version of the tool.
    pub fn new(out: &'w mut dyn Write, version: &'w str) -> Self {
        Emitter {
            out,
            version,
            events: 0,
            warnings: 0,
            errors: 0,
            closed: false,
        }
    }

    /// Whether the reader has closed the pipe.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Writes `aoi:meta`, the first line.
    pub fn meta(&mut self, command: &str) -> io::Result<()> {
        let fields = object(json!({
            "tool": TOOL,
            "tool_version": self.version,
            "aoi_version": AOI_VERSION,
            "schema_name": SCHEMA_NAME,
            "schema_version": SCHEMA_VERSION,
            "command": command,
        }));
        self.write(EventType::Meta, &fields)
    }

    /// Writes an event.
    pub fn event(&mut self, kind: EventType, fields: &Fields) -> io::Result<()> {
        self.events += usize::from(kind.is_result());
        self.write(kind, fields)
    }

    /// Writes `aoi:warning`.
    pub fn warning(&mut self, code: &str, message: &str, hint: Option<&str>) -> io::Result<()> {
        self.warnings += 1;
        let mut fields = object(json!({
            "code": code.to_ascii_uppercase().replace('-', "_"),
            "message": message,
        }));
        if let Some(hint) = hint {
            fields.insert("hint".to_owned(), hint.into());
        }
        self.write(EventType::Warning, &fields)
    }

    /// Writes `aoi:error`.
    pub fn error(&mut self, error: &ErrorEvent<'_>) -> io::Result<()> {
        self.errors += 1;
        self.write(EventType::Error, &error.fields())
    }

    /// Writes `aoi:summary`, the last line. It counts the events written so far. `fields` can
    /// override these counts or add other members.
    pub fn summary(mut self, ok: bool, elapsed: Duration, fields: Fields) -> io::Result<()> {
        let mut all = object(json!({
            "ok": ok,
            "count": self.events,
            "error_count": self.errors,
            "warning_count": self.warnings,
            "partial": false,
            "truncated": false,
            "elapsed_ms": millis(elapsed),
        }));
        all.extend(fields);
        self.write(EventType::Summary, &all)
    }

    /// Writes a whole stream: `aoi:meta`, the events, `aoi:summary`.
    pub fn stream(
        mut self,
        command: &str,
        events: impl IntoIterator<Item = io::Result<(EventType, Fields)>>,
        end: (bool, Duration, Fields),
    ) -> io::Result<()> {
        self.meta(command)?;
        self.events(events, end)
    }

    /// Writes the rest of a stream whose `aoi:meta` is already written: the events, `aoi:summary`.
    pub fn events(
        mut self,
        events: impl IntoIterator<Item = io::Result<(EventType, Fields)>>,
        (ok, elapsed, summary): (bool, Duration, Fields),
    ) -> io::Result<()> {
        for event in events {
            let (kind, fields) = event?;
            self.event(kind, &fields)?;
        }
        self.summary(ok, elapsed, summary)
    }

    fn write(&mut self, kind: EventType, fields: &Fields) -> io::Result<()> {
        if self.closed {
            return Ok(());
        }
        let mut line = line(kind, fields)?;
        line.push('\n');
        match self
            .out
            .write_all(line.as_bytes())
            .and_then(|()| self.out.flush())
        {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.closed = true;
                Ok(())
            }
            done => done,
        }
    }
}

/// Writes documentation pages as events of `explain`, each with its name.
pub fn pages_jsonl<'p>(
    pages: impl Iterator<Item = (&'p str, String)>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let pages = pages.map(|(name, markdown)| {
        let page = json!({ "slug": name, "markdown": markdown });
        Ok((EventType::Doc, object(page)))
    });
    let end = (true, Duration::ZERO, Fields::new());
    Emitter::new(out, env!("CARGO_PKG_VERSION")).stream("explain", pages, end)
}

fn line(kind: EventType, fields: &Fields) -> io::Result<String> {
    let mut event = Fields::with_capacity(fields.len() + 1);
    event.insert("type".to_owned(), kind.as_str().into());
    for (key, value) in fields {
        if key != "type" {
            event.insert(key.clone(), value.clone());
        }
    }
    let json = serde_json::to_string(&event)?;
    Ok(text::escape_json(&json).into_owned())
}

fn millis(elapsed: Duration) -> u64 {
    u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
}

/// The members of a `json!` object.
pub fn object(value: Value) -> Fields {
    match value {
        Value::Object(fields) => fields,
        _ => Fields::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: &[u8]) -> Vec<Value> {
        let text = std::str::from_utf8(bytes).expect("UTF-8");
        text.lines()
            .map(|l| serde_json::from_str(l).expect("JSON"))
            .collect()
    }

    #[test]
    fn a_stream_is_framed_and_counted() {
        let mut bytes = Vec::new();
        let mut emitter = Emitter::new(&mut bytes, "1.2.3");
        emitter.meta("lint").expect("written");
        emitter
            .event(
                EventType::Finding,
                &object(json!({"type": "x", "a": "1\n2"})),
            )
            .expect("written");
        emitter
            .event(EventType::Progress, &object(json!({"stage": "read"})))
            .expect("written");
        emitter.warning("odd-thing", "odd", None).expect("written");
        emitter
            .summary(true, Duration::from_millis(7), Fields::new())
            .expect("written");
        let lines = lines(&bytes);
        let kinds: Vec<_> = lines
            .iter()
            .map(|l| l["type"].as_str().expect("a type"))
            .collect();
        assert_eq!(
            kinds,
            [
                "aoi:meta",
                "finding",
                "aoi:progress",
                "aoi:warning",
                "aoi:summary"
            ]
        );
        assert_eq!(lines[3]["code"], "ODD_THING");
        assert_eq!(lines[4]["count"], 1);
        assert_eq!(lines[4]["warning_count"], 1);
        assert_eq!(lines[4]["elapsed_ms"], 7);
    }

    #[test]
    fn a_closed_pipe_stops_the_stream_without_an_error() {
        struct Closed(usize);
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                self.0 += 1;
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut out = Closed(0);
        let mut emitter = Emitter::new(&mut out, "1.2.3");
        emitter.meta("lint").expect("ignored");
        assert!(emitter.is_closed());
        emitter
            .summary(true, Duration::ZERO, Fields::new())
            .expect("ignored");
        assert_eq!(out.0, 1);
    }

    #[test]
    fn error_lines_are_complete_events() {
        let error = aoi_error(
            "no_input",
            Category::NotFound,
            "no such file",
            false,
            Some("x"),
        )
        .expect("a line");
        assert_eq!(
            error,
            r#"{"type":"aoi:error","category":"not_found","code":"NO_INPUT","message":"no such file","retryable":false,"hint":"x"}"#
        );
        let summary = aoi_summary_failed(Duration::ZERO).expect("a line");
        assert!(
            summary.starts_with(r#"{"type":"aoi:summary","ok":false"#),
            "{summary}"
        );
    }
}
