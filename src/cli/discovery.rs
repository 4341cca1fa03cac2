//! `schema` and `capabilities`: describe this binary, offline and without any configuration.

use std::io::Write;

use serde_json::{Value, json};

use crate::cli::args::{Capabilities, DocumentOutput, InputSchema, Schema};
use crate::cli::machine::catalogue;
use crate::cli::{Failure, Outcome, io_failure};
use crate::exit;
use agentproto_report::aoi::{AOI_VERSION, Emitter, Fields, SCHEMA_NAME, SCHEMA_VERSION, object};
use agentproto_report::event::EventType;
use agentproto_schemas::{MANIFESTS, OWN};
use agentproto_text::closest_of;

/// Short name (`aip-45`) and text of a manifest schema.
fn manifest_schemas() -> impl Iterator<Item = (&'static str, &'static str)> {
    MANIFESTS.iter().map(|(id, text)| {
        let name = id.rsplit('/').nth(1).unwrap_or(id);
        (name, *text)
    })
}

fn find(name: &str) -> Option<&'static str> {
    if name == SCHEMA_NAME {
        return find("events");
    }
    OWN.iter()
        .copied()
        .chain(manifest_schemas())
        .find(|(known, _)| *known == name)
        .map(|(_, text)| text)
        .or_else(|| {
            MANIFESTS
                .iter()
                .find(|(id, _)| *id == name)
                .map(|(_, text)| *text)
        })
}

pub fn schema(args: &Schema, out: &mut dyn Write) -> Outcome {
    let name = args.name.as_deref().unwrap_or("events");
    if name == "list" {
        let names: Vec<&str> = OWN
            .iter()
            .copied()
            .chain(manifest_schemas())
            .map(|(n, _)| n)
            .collect();
        return print(&json!({ "schemas": names }), args.output, "schema", out);
    }
    if find(name).is_none() {
        let names = OWN
            .iter()
            .map(|(n, _)| *n)
            .chain(manifest_schemas().map(|(n, _)| n));
        let failure = Failure::new(exit::USAGE, format!("unknown schema `{name}`"));
        return Err(match closest_of(name, names) {
            Some(meant) => failure.hint(format!("did you mean `{meant}`?")),
            None => failure.hint("`agentproto schema --name list` lists all schemas"),
        });
    }
    print(&embedded(name)?, args.output, "schema", out)
}

/// How an MCP client reaches the sessions, or null in a build without agents.
#[cfg(agents)]
fn mcp() -> Value {
    json!({
        "stdio": "agentproto mcp",
        "streamable_http": "agentproto serve",
        "tools": agentproto_daemon::mcp::TOOL_NAMES,
    })
}

#[cfg(not(agents))]
fn mcp() -> Value {
    Value::Null
}

pub fn capabilities(args: &Capabilities, out: &mut dyn Write) -> Outcome {
    let value = json!({
        "tool": "agentproto",
        "tool_version": env!("CARGO_PKG_VERSION"),
        "aoi_versions": [AOI_VERSION],
        "outputs": ["jsonl"],
        "schemas": [{ "name": SCHEMA_NAME, "versions": [SCHEMA_VERSION], "default": SCHEMA_VERSION }],
        "input_modes": ["operands", "stdin-text"],
        "mcp": mcp(),
        "commands": catalogue::commands(),
        "global_options": {
            "schema_version": "--schema-version",
            "accept_schema": "--accept-schema",
            "machine_mode": ["--output jsonl", "--format jsonl"],
        },
    });
    print(&value, args.output, "capabilities", out)
}

/// Commands that read files in one of our formats, and the schema of the format.
const INPUTS: &[(&str, &str)] = &[
    ("aoi-lint", "aoi-probe"),
    ("certify", "suite"),
    ("diff", "transcript"),
    ("mock", "scenario"),
    ("replay", "transcript"),
    ("report merge", "certify-report"),
    ("report render", "certify-report"),
];

pub fn input_schema(args: &InputSchema, out: &mut dyn Write) -> Outcome {
    let known = || INPUTS.iter().map(|(command, _)| *command);
    if args.command == "list" {
        let commands: Vec<Value> = INPUTS
            .iter()
            .map(|(command, schema)| json!({ "command": command, "schema": schema }))
            .collect();
        let value = json!({ "commands": commands });
        return print(&value, args.output, "input-schema", out);
    }
    let named = INPUTS.iter().find(|(command, _)| *command == args.command);
    let Some((_, name)) = named else {
        let message = format!("`{}` has no input with a schema", args.command);
        let failure = Failure::new(exit::USAGE, message);
        return Err(match closest_of(&args.command, known()) {
            Some(meant) => failure.hint(format!("did you mean `{meant}`?")),
            None => failure.hint("`agentproto input-schema` lists the commands that have one"),
        });
    };
    print(&embedded(name)?, args.output, "input-schema", out)
}

fn embedded(name: &str) -> Result<Value, Failure> {
    let failure = |what: String| Failure::new(exit::INTERNAL, format!("schema `{name}`: {what}"));
    let text = find(name).ok_or_else(|| failure("missing".to_owned()))?;
    serde_json::from_str(text).map_err(|error| failure(error.to_string()))
}

/// Prints one JSON object. In machine mode it is wrapped in an event.
fn print(value: &Value, output: DocumentOutput, command: &str, out: &mut dyn Write) -> Outcome {
    if output == DocumentOutput::Jsonl {
        let started = std::time::Instant::now();
        let mut emitter = Emitter::new(out, env!("CARGO_PKG_VERSION"));
        emitter.meta(command).map_err(io_failure)?;
        let fields = object(json!({ "content": value }));
        emitter
            .event(EventType::Document, &fields)
            .map_err(io_failure)?;
        emitter
            .summary(true, started.elapsed(), Fields::new())
            .map_err(io_failure)?;
    } else {
        writeln!(out, "{value:#}").map_err(io_failure)?;
    }
    Ok(exit::CLEAN)
}
