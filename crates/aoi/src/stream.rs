//! Stdout of machine mode, split into lines and parsed as events.

use serde_json::Value;

/// One line, without its line feed.
#[derive(Clone, Debug)]
pub struct EventLine {
    /// Line number, from 1.
    pub number: usize,
    /// Offset of the first byte in stdout.
    pub offset: usize,
    pub bytes: Vec<u8>,
    /// `None` if the line is not valid JSON.
    pub json: Option<Value>,
    /// Whether the line ended with a line feed.
    pub complete: bool,
}

impl EventLine {
    pub fn kind(&self) -> Option<&str> {
        self.json.as_ref()?.get("type")?.as_str()
    }

    pub fn get(&self, key: &str) -> Option<&Value> {
        self.json.as_ref()?.get(key)
    }
}

#[derive(Clone, Debug, Default)]
pub struct EventStream {
    pub lines: Vec<EventLine>,
}

/// The framework event types (§8.2).
pub const FRAMEWORK: [&str; 8] = [
    "aoi:meta",
    "aoi:summary",
    "aoi:warning",
    "aoi:error",
    "aoi:heartbeat",
    "aoi:plan",
    "aoi:check",
    "aoi:progress",
];

impl EventStream {
    pub fn parse(stdout: &[u8]) -> EventStream {
        let mut lines = Vec::new();
        let mut offset = 0;
        for (index, part) in stdout.split_inclusive(|byte| *byte == b'\n').enumerate() {
            let complete = part.ends_with(b"\n");
            let bytes = part.strip_suffix(b"\n").unwrap_or(part).to_vec();
            lines.push(EventLine {
                number: index + 1,
                offset,
                json: serde_json::from_slice(&bytes).ok(),
                bytes,
                complete,
            });
            offset += part.len();
        }
        EventStream { lines }
    }

    pub fn of_type<'s>(&'s self, kind: &'s str) -> impl Iterator<Item = &'s EventLine> {
        self.lines
            .iter()
            .filter(move |line| line.kind() == Some(kind))
    }

    pub fn meta(&self) -> Option<&EventLine> {
        self.of_type("aoi:meta").next()
    }

    /// The last line that is not blank, if it is a summary.
    pub fn summary(&self) -> Option<&EventLine> {
        let last = self.lines.iter().rfind(|line| !line.bytes.is_empty())?;
        (last.kind() == Some("aoi:summary")).then_some(last)
    }

    /// Events that are not framework events.
    pub fn domain(&self) -> impl Iterator<Item = &EventLine> {
        let is_domain =
            |line: &&EventLine| line.kind().is_some_and(|kind| !kind.starts_with("aoi:"));
        self.lines.iter().filter(is_domain)
    }

    pub fn errors(&self) -> impl Iterator<Item = &EventLine> {
        self.of_type("aoi:error")
    }

    /// Whether the stream uses the syntax of early drafts, in which framework events have no
    /// prefix.
    pub fn is_legacy(&self) -> bool {
        let first = self.lines.iter().find(|line| !line.bytes.is_empty());
        first.is_some_and(|line| line.kind() == Some("meta") && line.get("aoi_version").is_some())
    }

    /// Cursor of the next page.
    pub fn next_cursor(&self) -> Option<String> {
        match self.summary()?.get("next_cursor")? {
            Value::String(text) if !text.is_empty() => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        }
    }

    /// Whether the summary reports more results.
    pub fn is_truncated(&self) -> bool {
        let declared = self.summary().and_then(|line| line.get("truncated"));
        match declared.and_then(Value::as_bool) {
            Some(declared) => declared,
            None => self.next_cursor().is_some(),
        }
    }

    /// `ok` of the terminal summary, if there is one.
    pub fn ok(&self) -> Option<bool> {
        self.summary()?.get("ok")?.as_bool()
    }
}

/// The value at a JSON pointer, as the string that identifies a resource.
pub fn id(event: &Value, pointer: &str) -> Option<String> {
    match event.pointer(pointer)? {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}
