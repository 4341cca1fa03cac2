//! Commands that read JSON lines: `rank`, a transformer, and `import`, a sink.

use serde_json::{Map, Value, json};

use super::args::ParsedArgs;
use super::changes::Quirk;
use super::effects::{create_item, run_once};
use super::pipes;
use super::signals;
use super::store::ItemStore;
use super::stream::{EarlyExit, EventWriter, ToolError};

/// Maximum size of the input in bytes.
const MAX_INPUT_BYTES: usize = 64 << 20;
/// Length of a line that a mutant rejects as too long.
const LONG_LINE: usize = 8 << 10;

/// A classified line of the input.
enum Line {
    /// An item to process.
    Data(Map<String, Value>),
    /// A framework event.
    Upstream(Map<String, Value>),
    Ignored,
    Bad(ToolError),
}

/// What the upstream tool reported about its run.
#[derive(Default)]
struct Upstream {
    is_stream: bool,
    has_summary: bool,
    has_errors: bool,
    warnings: Vec<String>,
}

struct Input {
    /// Items with their line numbers, from 1.
    data: Vec<(usize, Map<String, Value>)>,
    bad: Vec<(usize, ToolError)>,
    upstream: Upstream,
    bytes: Vec<u8>,
}

impl Input {
    fn read(
        stream: &EventWriter,
        check_item: fn(&EventWriter, Map<String, Value>) -> Line,
    ) -> Result<Input, EarlyExit> {
        let bytes = pipes::read_stdin(MAX_INPUT_BYTES).map_err(|error| {
            let message = format!("Cannot read stdin: {}.", error.kind());
            EarlyExit::from(ToolError::new("io", "STDIN_UNREADABLE", message))
        })?;
        let Some(bytes) = bytes else {
            return Err(EarlyExit::Interrupted(
                signals::received().unwrap_or(libc::SIGINT),
            ));
        };
        let mut input = Input {
            data: Vec::new(),
            bad: Vec::new(),
            upstream: Upstream::default(),
            bytes: Vec::new(),
        };
        let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
        let mut lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
        let last = lines.pop();
        if !stream.has_quirk(Quirk::LastLineNeedsItsEnd) {
            lines.extend(last);
        }
        for (at, line) in lines.into_iter().enumerate() {
            match classify(stream, line, at, check_item) {
                Line::Data(item) => input.data.push((at + 1, item)),
                Line::Upstream(event) => input.upstream.record(&event),
                Line::Ignored => {}
                Line::Bad(failure) => {
                    let failure = failure.with("line_number", at + 1);
                    input.bad.push((at + 1, failure));
                }
            }
        }
        input.bytes = bytes;
        Ok(input)
    }

    /// An error of the upstream stream as a whole.
    fn upstream_failure(&self, stream: &EventWriter, words: &ParsedArgs) -> Option<ToolError> {
        let upstream = &self.upstream;
        let cut = upstream.is_stream && !upstream.has_summary;
        if cut && !stream.has_quirk(Quirk::UpstreamCutPasses) {
            let message = "The stream on stdin ended without a summary.";
            return Some(ToolError::new("validation", "UPSTREAM_INCOMPLETE", message));
        }
        let failed = upstream.has_errors && !words.has("--continue-on-error");
        if failed && !stream.has_quirk(Quirk::UpstreamErrorPasses) {
            let message = "The stream on stdin reports a failure.";
            return Some(ToolError::new("validation", "UPSTREAM_FAILED", message));
        }
        None
    }
}

impl Upstream {
    fn record(&mut self, event: &Map<String, Value>) {
        self.is_stream = true;
        let text = |name: &str| event.get(name).and_then(Value::as_str).unwrap_or_default();
        match text("type") {
            "aoi:summary" => {
                self.has_summary = true;
                self.has_errors |= event.get("ok") != Some(&Value::Bool(true));
            }
            "aoi:error" => self.has_errors = true,
            "aoi:warning" => self.warnings.push(text("code").to_owned()),
            _ => {}
        }
    }
}

fn bad(code: &'static str, message: &str) -> Line {
    Line::Bad(ToolError::new("validation", code, message))
}

fn classify(
    stream: &EventWriter,
    line: &[u8],
    at: usize,
    check_item: fn(&EventWriter, Map<String, Value>) -> Line,
) -> Line {
    let unnamed = || Line::Data(Map::from_iter([("name".to_owned(), "unnamed".into())]));
    if line.iter().all(u8::is_ascii_whitespace) {
        return Line::Ignored;
    }
    if line.ends_with(b"\r") && stream.has_quirk(Quirk::LineFeedsOnly) {
        return bad(
            "INPUT_JSONL_PARSE_ERROR",
            "The line ends with a carriage return.",
        );
    }
    if line.len() > LONG_LINE && stream.has_quirk(Quirk::LongLinesFail) {
        return bad("INPUT_JSONL_PARSE_ERROR", "The line is too long.");
    }
    let parsed = match serde_json::from_slice::<Value>(line) {
        Err(_) => bad("INPUT_JSONL_PARSE_ERROR", "The line is not JSON."),
        Ok(Value::Object(fields)) => {
            let kind = fields
                .get("type")
                .and_then(Value::as_str)
                .unwrap_or_default();
            match kind.starts_with("aoi:") && !stream.has_quirk(Quirk::FrameworkIsData) {
                true => Line::Upstream(fields),
                false => check_item(stream, fields),
            }
        }
        Ok(_) if stream.has_quirk(Quirk::NonObjectsPass) => unnamed(),
        Ok(_) => bad("INPUT_NOT_AN_OBJECT", "The line is not a JSON object."),
    };
    match parsed {
        Line::Bad(mut failure) if stream.has_quirk(Quirk::QuotesInput) => {
            failure.message = format!("Invalid line: {}", String::from_utf8_lossy(line));
            Line::Bad(failure)
        }
        Line::Bad(_) if stream.has_quirk(Quirk::BadLinesVanish) => Line::Ignored,
        Line::Bad(_) if at > 0 && stream.has_quirk(Quirk::OnlyTheFirstLineIsChecked) => unnamed(),
        parsed => parsed,
    }
}

/// Checks an item to import strictly, to detect typos.
fn item(stream: &EventWriter, fields: Map<String, Value>) -> Line {
    match fields.get("type") {
        None => {}
        Some(kind) if kind == "item" => {}
        Some(_) if stream.has_quirk(Quirk::UnknownTypesFail) => {
            return bad("INPUT_TYPE_UNKNOWN", "The type of the event is unknown.");
        }
        Some(Value::String(_)) => return Line::Ignored,
        Some(_) => return bad("INPUT_SCHEMA_ERROR", "`type` must be a string."),
    }
    let known = |name: &str| matches!(name, "type" | "name" | "note");
    let name = fields
        .get("name")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let note = fields.get("note").is_none_or(Value::is_string);
    if (name.is_empty() || !note) && !stream.has_quirk(Quirk::FieldTypesPass) {
        return bad(
            "INPUT_SCHEMA_ERROR",
            "`name` must be a non-empty string, and `note` a string if present.",
        );
    }
    let lax = stream.has_quirk(Quirk::UnknownFieldsPass) || stream.has_quirk(Quirk::FieldTypesPass);
    if !lax && fields.keys().any(|name| !known(name)) {
        return bad(
            "INPUT_SCHEMA_ERROR",
            "Unknown field; expected `name` and `note`.",
        );
    }
    Line::Data(fields)
}

pub fn import(
    stream: &mut EventWriter,
    words: &ParsedArgs,
    store: &ItemStore,
) -> Result<(), EarlyExit> {
    let goes_on = words.has("--continue-on-error");
    let mut input = Input::read(stream, item)?;
    let meta = json!({ "input_mode": "jsonl", "continue_on_error": goes_on });
    stream.meta(meta)?;
    if let Some(failure) = input.upstream_failure(stream, words) {
        return Err(failure.into());
    }
    let first_bad = input.bad.first().map(|(line, _)| *line);
    if let (Some(first), false) = (first_bad, goes_on) {
        let before = stream.has_quirk(Quirk::AppliesBeforeTheBadLine);
        let after = stream.has_quirk(Quirk::AppliesAfterTheBadLine);
        input
            .data
            .retain(|(line, _)| (before && *line < first) || after);
        apply_quietly(stream, store, &input)?;
        return Err(first_failure(input));
    }
    if let (Some(first), true) = (first_bad, stream.has_quirk(Quirk::StopsAtTheFirstBadLine)) {
        input.data.retain(|(line, _)| *line < first);
        input.bad.truncate(1);
    }
    warn_of(stream, &input)?;
    if words.has("--dry-run") {
        for (_, fields) in &input.data {
            let target = name_of(fields);
            stream
                .framework(json!({ "type": "aoi:plan", "action": "create", "target": target }))?;
        }
        return end(stream, input);
    }
    let bytes = std::mem::take(&mut input.bytes);
    let items: Vec<String> = input
        .data
        .iter()
        .map(|(_, fields)| name_of(fields))
        .collect();
    let is_whole = input.bad.is_empty() && !input.upstream.has_errors;
    if is_whole {
        return run_once(stream, words, store, &[&bytes], |_, lock| {
            let created_items = items.iter().map(|name| create_item(store, lock, name));
            created_items.map(|item| item.map(created)).collect()
        });
    }
    let lock = store.lock().map_err(|error| {
        let message = format!("Cannot change the items: {}.", error.kind());
        EarlyExit::from(ToolError::new("io", "STATE_UNUSABLE", message))
    })?;
    for name in &items {
        let item = create_item(store, &lock, name)?;
        stream.domain(created(item))?;
    }
    end(stream, input)
}

fn created(item: super::store::StoredItem) -> Value {
    json!({ "type": "created", "id": item.id, "name": item.name })
}

/// Applies items although the run fails, as a mutant does.
fn apply_quietly(
    stream: &mut EventWriter,
    store: &ItemStore,
    input: &Input,
) -> Result<(), EarlyExit> {
    if input.data.is_empty() {
        return Ok(());
    }
    let Ok(lock) = store.lock() else {
        return Ok(());
    };
    for (_, fields) in &input.data {
        let item = create_item(store, &lock, &name_of(fields))?;
        stream.domain(created(item))?;
    }
    Ok(())
}

fn name_of(fields: &Map<String, Value>) -> String {
    let name = fields.get("name").and_then(Value::as_str);
    name.unwrap_or("unnamed").to_owned()
}

fn first_failure(input: Input) -> EarlyExit {
    let first = input.bad.into_iter().next();
    let failure = first.map(|(_, failure)| failure);
    let unknown = || ToolError::new("internal", "NO_FAILURE", "The failure has no reason.");
    failure.unwrap_or_else(unknown).into()
}

/// Forwards the warnings of the upstream tool.
fn warn_of(stream: &mut EventWriter, input: &Input) -> Result<(), EarlyExit> {
    for code in &input.upstream.warnings {
        let message = format!("The stream on stdin warns: {}.", known_code(code));
        stream.framework(json!({
            "type": "aoi:warning", "code": "UPSTREAM_WARNING", "message": message,
        }))?;
    }
    if input.upstream.has_errors {
        let message = "The stream on stdin reports a failure.";
        stream.framework(json!({
            "type": "aoi:warning", "code": "UPSTREAM_FAILED", "message": message,
        }))?;
    }
    Ok(())
}

/// The code, if it has a valid form. Nothing else of the input is shown.
fn known_code(code: &str) -> &str {
    let fits = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    match code.len() <= 64 && code.chars().all(fits) {
        true => code,
        false => "an invalid code",
    }
}

/// Writes one error for each invalid line, then the summary. The exit code also reports a failure.
fn end(stream: &mut EventWriter, input: Input) -> Result<(), EarlyExit> {
    let is_partial = !input.bad.is_empty() || input.upstream.has_errors;
    for (_, failure) in &input.bad {
        stream.error(failure)?;
    }
    let ok = !stream.has_errors();
    stream.summary(ok, json!({ "partial": is_partial }))?;
    if !ok {
        stream.info.failure = Some("validation");
    }
    Ok(())
}

/// Checks an upstream event: hits are ranked, unknown types are ignored.
fn hit(stream: &EventWriter, fields: Map<String, Value>) -> Line {
    match fields.get("type").and_then(Value::as_str) {
        None => bad("INPUT_SCHEMA_ERROR", "The event has no type."),
        Some("hit") => match fields.get("id").and_then(Value::as_str) {
            Some(id) if !id.is_empty() => Line::Data(fields),
            _ if stream.has_quirk(Quirk::FieldTypesPass) => Line::Ignored,
            _ => bad("INPUT_SCHEMA_ERROR", "The hit has no id."),
        },
        Some(_) if stream.has_quirk(Quirk::UnknownTypesFail) => {
            bad("INPUT_TYPE_UNKNOWN", "The type of the event is unknown.")
        }
        Some(_) => Line::Ignored,
    }
}

pub fn rank(stream: &mut EventWriter, words: &ParsedArgs) -> Result<(), EarlyExit> {
    let goes_on = words.has("--continue-on-error");
    let mut input = Input::read(stream, hit)?;
    let meta = json!({ "input_mode": "jsonl", "continue_on_error": goes_on });
    stream.meta(meta)?;
    if let Some(failure) = input.upstream_failure(stream, words) {
        return Err(failure.into());
    }
    if !input.bad.is_empty() && !goes_on {
        return Err(first_failure(input));
    }
    warn_of(stream, &input)?;
    // Highest score first. Items without a score follow in their order.
    let score = |fields: &Map<String, Value>| fields.get("score").and_then(Value::as_u64);
    input
        .data
        .sort_by_key(|(_, fields)| std::cmp::Reverse(score(fields)));
    for (at, (_, fields)) in input.data.iter().enumerate() {
        let id = fields
            .get("id")
            .and_then(Value::as_str)
            .unwrap_or("unnamed");
        stream.domain(json!({ "type": "ranked", "rank": at + 1, "id": id }))?;
    }
    end(stream, input)
}
