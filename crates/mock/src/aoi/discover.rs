//! Discovery commands: they need no login, no network and no state.

use serde_json::{Value, json};

use super::args::{OutputMode, ParsedArgs};
use super::changes::Quirk;
use super::credentials;
use super::schema;
use super::source;
use super::stream::{EarlyExit, EventWriter, ToolError};
use super::surface::{
    AOI_VERSION, COMMANDS, CommandEffect, CommandSpec, SCHEMA_NAME, TOOL, TOOL_VERSION,
};
use super::versions;

/// Prints a document, or emits it as an event if a stream is requested.
pub fn print(
    stream: &mut EventWriter,
    words: &ParsedArgs,
    kind: &str,
    document: Value,
) -> Result<(), EarlyExit> {
    let is_stream = words.value("--output") == Some("jsonl");
    if !is_stream || stream.mode != OutputMode::Jsonl {
        stream.document(document)?;
        return stream.flush();
    }
    stream.meta(json!({}))?;
    let document = stream.apply_changes(document);
    stream.domain(json!({ "type": "document", "kind": kind, "document": document }))?;
    stream.summary(true, json!({}))
}

pub fn input_schema(stream: &mut EventWriter, words: &ParsedArgs) -> Result<(), EarlyExit> {
    let command = words.value("--command").unwrap_or("import");
    if !matches!(command, "import" | "rank") {
        let message = "Only `import` and `rank` read structured input.";
        return Err(ToolError::new("usage", "NO_INPUT_SCHEMA", message).into());
    }
    print(stream, words, "input-schema", schema::input(command))
}

pub fn capabilities(quirks: &[Quirk]) -> Value {
    let versions = versions::supported(quirks);
    let default = versions.last().copied();
    let commands: Vec<Value> = COMMANDS.iter().map(describe).collect();
    json!({
        "tool": TOOL,
        "tool_version": TOOL_VERSION,
        "aoi_versions": [AOI_VERSION],
        "outputs": ["jsonl", "json", "human"],
        "schemas": [{ "name": SCHEMA_NAME, "versions": versions, "default": default }],
        "auth": { "commands": ["fetch"], "environment": [credentials::VARIABLE] },
        "exit_codes": { "66": "no such item", "124": "timed out (--timeout)" },
        "commands": commands,
    })
}

fn describe(command: &CommandSpec) -> Value {
    let is_unbounded = command.name == "watch";
    let mut events = vec!["aoi:meta"];
    events.extend(command.events);
    if command.name == "doctor" {
        events.push("aoi:check");
    }
    if command.has("--dry-run") {
        events.push("aoi:plan");
    }
    if command.name == "search" {
        events.push("aoi:progress");
    }
    if is_unbounded {
        events.push("aoi:heartbeat");
    }
    events.extend(["aoi:warning", "aoi:error", "aoi:summary"]);
    let mut capabilities_document = json!({
        "name": command.name,
        "description": command.description,
        "read_only": command.effect == CommandEffect::ReadOnly,
        "bounded": !is_unbounded,
        "supports_limit": command.has("--limit"),
        "supports_cursor": command.has("--cursor"),
        "event_types": events,
    });
    let Value::Object(fields) = &mut capabilities_document else {
        return capabilities_document;
    };
    let mut say = |name: &str, value: Value| fields.insert(name.to_owned(), value);
    if command.effect != CommandEffect::ReadOnly {
        let is_destructive = command.effect == CommandEffect::Destructive;
        say("destructive", is_destructive.into());
        say("requires_confirm", is_destructive.into());
        say("supports_dry_run", command.has("--dry-run").into());
        say(
            "supports_idempotency_key",
            command.has("--idempotency-key").into(),
        );
    }
    if is_unbounded {
        say("unbounded", true.into());
        say("heartbeat_interval_ms", source::BEAT_MS.into());
    }
    if command.name == "fetch" {
        say("requires_auth", true.into());
    }
    if command.reads_input() {
        let input = json!({
            "mode": "jsonl",
            "flag": "--input-jsonl",
            "malformed": "configurable",
            "default": "fail_fast",
            "continue_flag": "--continue-on-error",
        });
        say("input", input);
    }
    capabilities_document
}

pub fn doctor(
    stream: &mut EventWriter,
    words: &ParsedArgs,
    has_state: bool,
) -> Result<(), EarlyExit> {
    stream.meta(json!({}))?;
    stream.check("stdout", "writable")?;
    let state = if has_state {
        "set"
    } else {
        "not set; only commands that change something need it"
    };
    stream.check("state", state)?;
    let has_token = credentials::found(words).is_some();
    let token = if has_token {
        "found"
    } else {
        "not found; only `fetch` needs them"
    };
    stream.check("credentials", token)?;
    if !has_token {
        stream.framework(json!({
            "type": "aoi:warning",
            "code": "NO_CREDENTIALS",
            "message": "No credentials found; `fetch` will fail.",
        }))?;
    }
    stream.summary(true, json!({}))
}
