//! `schema` and `capabilities`: what this binary speaks, offline and without any setting.

use std::io::Write;

use serde_json::{Value, json};

use super::args::{Listing, Schema};
use super::{Failure, Outcome, io_failure};
use crate::exit;
use crate::lint::shape::SCHEMAS;
use crate::lint::text::closest_of;
use crate::report::aoi::{AOI_VERSION, Emitter, Fields, SCHEMA_NAME, SCHEMA_VERSION, object};

const OWN: &[(&str, &str)] = &[
    ("events", include_str!("../../schemas/events.schema.json")),
    (
        "lint-report",
        include_str!("../../schemas/lint-report.schema.json"),
    ),
    (
        "certify-report",
        include_str!("../../schemas/certify-report.schema.json"),
    ),
    (
        "aoi-probe",
        include_str!("../../schemas/aoi-probe.schema.json"),
    ),
    (
        "aoi-report",
        include_str!("../../schemas/aoi-report.schema.json"),
    ),
    (
        "selftest",
        include_str!("../../schemas/selftest.schema.json"),
    ),
    ("config", include_str!("../../schemas/config.schema.json")),
    (
        "baseline",
        include_str!("../../schemas/baseline.schema.json"),
    ),
    (
        "scenario",
        include_str!("../../schemas/scenario.schema.json"),
    ),
    (
        "model-script",
        include_str!("../../schemas/model-script.schema.json"),
    ),
    ("suite", include_str!("../../schemas/suite.schema.json")),
    ("prompts", include_str!("../../schemas/prompts.schema.json")),
    (
        "transcript",
        include_str!("../../schemas/transcript.schema.json"),
    ),
];

/// Short name (`aip-45`) and text of a manifest schema.
fn manifest_schemas() -> impl Iterator<Item = (&'static str, &'static str)> {
    SCHEMAS.iter().map(|(id, text)| {
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
            SCHEMAS
                .iter()
                .find(|(id, _)| *id == name)
                .map(|(_, text)| *text)
        })
}

pub fn schema(args: &Schema, out: &mut dyn Write) -> Outcome {
    if let Some(version) = &args.schema_version
        && !matches!(version.as_str(), "1" | "1.0" | "1.0.0")
    {
        return Err(Failure::new(
            exit::USAGE,
            format!("there is no schema version `{version}`"),
        )
        .hint(format!("supported: {SCHEMA_VERSION}")));
    }
    let name = args.name.as_deref().unwrap_or("events");
    if name == "list" {
        let names: Vec<&str> = OWN
            .iter()
            .copied()
            .chain(manifest_schemas())
            .map(|(n, _)| n)
            .collect();
        return print(&json!({ "schemas": names }), &args.output, "schema", out);
    }
    let Some(text) = find(name) else {
        let names = OWN
            .iter()
            .map(|(n, _)| *n)
            .chain(manifest_schemas().map(|(n, _)| n));
        let failure = Failure::new(exit::USAGE, format!("there is no schema `{name}`"));
        return Err(match closest_of(name, names) {
            Some(meant) => failure.hint(format!("did you mean `{meant}`?")),
            None => failure.hint("`agentproto schema --name list` names them all"),
        });
    };
    let value: Value = serde_json::from_str(text).map_err(|error| {
        Failure::new(exit::INTERNAL, format!("embedded schema `{name}`: {error}"))
    })?;
    print(&value, &args.output, "schema", out)
}

pub fn capabilities(args: &Listing, out: &mut dyn Write) -> Outcome {
    let framework = ["aoi:meta", "aoi:error", "aoi:summary"];
    let command = |name: &str, domain: &[&str], writes: bool| {
        let events: Vec<&str> = framework.iter().chain(domain).copied().collect();
        json!({
            "name": name,
            "read_only": !writes,
            "bounded": true,
            "supports_cursor": false,
            "auth_required": false,
            "event_types": events,
        })
    };
    // Until it is stopped.
    let endless = |name: &str, domain: &[&str], writes: bool| {
        let mut command = command(name, domain, writes);
        command["bounded"] = json!(false);
        command
    };
    #[cfg(target_os = "linux")]
    let tools: &[&str] = &crate::daemon::mcp::TOOL_NAMES;
    #[cfg(not(target_os = "linux"))]
    let tools: &[&str] = &[];
    let value = json!({
        "tool": "agentproto",
        "tool_version": env!("CARGO_PKG_VERSION"),
        "aoi_versions": [AOI_VERSION],
        "outputs": ["jsonl"],
        "schemas": [{ "name": SCHEMA_NAME, "versions": [SCHEMA_VERSION], "default": SCHEMA_VERSION }],
        "input_modes": ["operands", "stdin-text"],
        "mcp": {
            "stdio": "agentproto mcp",
            "streamable_http": "agentproto serve",
            "tools": tools,
        },
        "commands": [
            command("lint", &["finding"], true),
            command("explain", &["doc"], false),
            command("rules", &["rule", "aoi-rule"], false),
            command("coverage", &["requirement"], false),
            command("doctor", &["aoi:check"], false),
            command("install", &["aoi:progress", "aoi:warning", "aoi:plan"], true),
            command(
                "run",
                &[
                    "aoi:progress",
                    "aoi:warning",
                    "text-delta",
                    "thought",
                    "tool-call",
                    "tool-result",
                    "agent-prompt",
                    "turn-end",
                    "session",
                ],
                true,
            ),
            endless("serve", &["aoi:warning", "listening"], true),
            command("audit verify", &["audit-log"], false),
            command("mock", &["scenario", "variant", "mutant"], true),
            command("certify", &["result", "mutant", "variant"], true),
            command("sandbox explain", &["clause"], false),
            command("sandbox run", &["output", "egress"], true),
            command("setup", &["setup-step"], true),
            command("auth login", &["auth-status"], true),
            command("auth status", &["auth-status"], false),
            command("auth refresh", &["auth-status"], true),
            command("auth set", &["secret"], true),
            command("auth forget", &["secret", "auth-status"], true),
            command("aoi-lint", &["aoi:check", "pair"], true),
            command("replay", &["difference", "result"], true),
            command("diff", &["difference"], false),
            command("report merge", &["result"], true),
            command("report render", &["result"], true),
            command("schema", &["document"], false),
            command("capabilities", &["document"], false),
        ],
    });
    let output = if args.output == "human" {
        "json"
    } else {
        &args.output
    };
    print(&value, output, "capabilities", out)
}

/// Discovery is one JSON object; in machine mode it travels inside an event.
fn print(value: &Value, output: &str, command: &str, out: &mut dyn Write) -> Outcome {
    if output == "jsonl" {
        let started = std::time::Instant::now();
        let mut emitter = Emitter::new(out, env!("CARGO_PKG_VERSION"));
        emitter.meta(command).map_err(io_failure)?;
        let fields = object(json!({ "content": value }));
        emitter.event("document", &fields).map_err(io_failure)?;
        emitter
            .summary(true, started.elapsed(), Fields::new())
            .map_err(io_failure)?;
    } else {
        writeln!(out, "{value:#}").map_err(io_failure)?;
    }
    Ok(exit::CLEAN)
}
