//! Statements beyond the 13 checks.

use serde_json::{Value, json};

use super::tools::*;

const SCHEMA: &[&str] = &["schema", "--output", "json"];
const CAPABILITIES: &[&str] = &["capabilities", "--output", "json"];
const HELP: &[&str] = &["--help"];

/// Changes one command in the capabilities.
fn command(mut document: Value, name: &str, change: impl Fn(&mut Value)) -> Frame {
    let commands = document.get_mut("commands").and_then(Value::as_array_mut);
    for command in commands.into_iter().flatten() {
        if text(command, "name") == name {
            change(command);
        }
    }
    Frame::Json(document)
}

pub static MUTANTS: &[Mutant] = &[
    mutant(
        "aoi-advisory-help-fails",
        "AOI-advisory.help",
        "`--help` has exit code 1.",
        HELP,
        Twist::Exit(|facts, code| if facts.has("--help") { 1 } else { code }),
    ),
    mutant(
        "aoi-advisory-short-help-unknown",
        "AOI-advisory.help",
        "`-h` is unknown.",
        &["-h"],
        Twist::Args(|args| {
            let renamed = |word: String| if word == "-h" { "-H".to_owned() } else { word };
            args.into_iter().map(renamed).collect()
        }),
    ),
    mutant(
        "aoi-advisory-no-version",
        "AOI-advisory.version",
        "`--version` is unknown.",
        &["--version"],
        Twist::Args(|args| {
            let renamed = |word: String| if word == "--version" { "--vversion".to_owned() } else { word };
            args.into_iter().map(renamed).collect()
        }),
    )
    .warns(),
    mutant(
        "aoi-advisory-no-color-unknown",
        "AOI-advisory.no-color",
        "`--no-color` is unknown.",
        &["search", "x", "--no-color"],
        Twist::Args(|args| {
            let renamed = |word: String| if word == "--no-color" { "--no-hue".to_owned() } else { word };
            args.into_iter().map(renamed).collect()
        }),
    )
    .warns(),
    mutant(
        "aoi-advisory-timeout-ignored",
        "AOI-advisory.timeout",
        "`--timeout` has no meaning.",
        &["search", "x", "--delay-ms", "20", "--timeout", "0.1"],
        Twist::Quirk(Quirk::TimeoutIgnored),
    )
    .warns(),
    mutant(
        "aoi-advisory-meta-no-tool-version",
        "AOI-advisory.meta-versions",
        "The meta event does not say the version of the tool.",
        SEARCH,
        Twist::Event(|_, _, event| on("aoi:meta", event, |e| remove(e, "tool_version"))),
    )
    .and(Twist::Document(|_, document| not_required(document, "tool_version")))
    .warns(),
    mutant(
        "aoi-advisory-meta-no-aoi-version",
        "AOI-advisory.meta-versions",
        "The meta event does not say the version of AOI.",
        SEARCH,
        Twist::Event(|_, _, event| on("aoi:meta", event, |e| remove(e, "aoi_version"))),
    )
    .and(Twist::Document(|_, document| not_required(document, "aoi_version")))
    .warns(),
    mutant(
        "aoi-advisory-timestamp",
        "AOI-advisory.timestamp",
        "The timestamp is not ISO 8601.",
        SEARCH,
        Twist::Event(|_, _, event| on("aoi:meta", event, |e| set(e, "timestamp", "last Tuesday"))),
    )
    .warns(),
    mutant(
        "aoi-advisory-trace-id-changes",
        "AOI-advisory.trace-id",
        "The trace id is another one in the summary.",
        SEARCH,
        Twist::Event(|_, _, event| on("aoi:summary", event, |e| set(e, "trace_id", "run-other"))),
    )
    .warns(),
    mutant(
        "aoi-advisory-meta-shows-argv",
        "AOI-advisory.meta-argv",
        "The meta event shows the whole command line.",
        SEARCH,
        Twist::Event(|facts, _, event| {
            let secret = ["--token", "--header", "--url"].iter().any(|flag| facts.value(flag).is_some());
            match secret {
                true => send(event),
                false => on("aoi:meta", event, |e| set(e, "argv", json!(facts.args))),
            }
        }),
    ),
    mutant(
        "aoi-advisory-schema-defines-summary",
        "AOI-advisory.reserved-in-schema",
        "The schema defines an event `summary` of the tool's own.",
        SCHEMA,
        Twist::Document(|_, mut document| {
            if let Some(Value::Object(kinds)) = document.pointer_mut("/$defs") {
                kinds.insert("summary".to_owned(), json!({ "type": "object" }));
            }
            if let Some(Value::Array(kinds)) = document.pointer_mut("/properties/type/enum") {
                kinds.push("summary".into());
            }
            Frame::Json(document)
        }),
    ),
    mutant(
        "aoi-advisory-code-unstable",
        "AOI-advisory.code-unstable",
        "The code of an error is another one in each run.",
        &["get", "absent"],
        Twist::Event(|_, _, event| {
            let code = format!("E_{}", std::process::id());
            on("aoi:error", event, |e| set(e, "code", code))
        }),
    )
    .warns(),
    mutant(
        "aoi-advisory-exit-disagrees",
        "AOI-advisory.exit-category",
        "Wrong usage has the exit code of bad data.",
        &["search", "x", "--no-such-flag"],
        Twist::Exit(|_, code| if code == 64 { 65 } else { code }),
    )
    .warns(),
    mutant(
        "aoi-advisory-events-closed",
        "AOI-advisory.output-strict",
        "The schema forbids unknown fields in events.",
        SCHEMA,
        Twist::Document(|_, mut document| {
            if let Some(hit) = document.pointer_mut("/$defs/hit") {
                set(hit, "additionalProperties", false);
            }
            Frame::Json(document)
        }),
    )
    .warns(),
    mutant(
        "aoi-advisory-input-open",
        "AOI-advisory.input-lax",
        "The input may hold fields that nobody knows.",
        &["import", "--input-jsonl", "-"],
        Twist::Quirk(Quirk::UnknownFieldsPass),
    )
    .and(Twist::Document(|_, mut document| {
        if text(&document, "title") == "An item to make" {
            remove(&mut document, "additionalProperties");
        }
        Frame::Json(document)
    }))
    .input("{\"name\":\"a\",\"colour\":\"red\"}\n")
    .warns(),
    mutant(
        "aoi-advisory-opaque-schema",
        "AOI-advisory.opaque-one-of",
        "The schema is one big `oneOf`.",
        SCHEMA,
        Twist::Document(|_, mut document| {
            let kinds = document.get("$defs").and_then(Value::as_object);
            let Some(kinds) = kinds else {
                return Frame::Json(document);
            };
            let one = |kind: &String| json!({ "$ref": format!("#/$defs/{kind}") });
            let all: Vec<Value> = kinds.keys().map(one).collect();
            remove(&mut document, "allOf");
            set(&mut document, "oneOf", all);
            Frame::Json(document)
        }),
    )
    .warns(),
    mutant(
        "aoi-advisory-no-input-schema",
        "AOI-advisory.input-schema",
        "There is no schema of the input.",
        &["input-schema"],
        Twist::Start(|facts| (facts.command == "input-schema").then_some(64)),
    )
    .warns(),
    mutant(
        "aoi-advisory-upstream-error-ignored",
        "AOI-advisory.upstream-error",
        "An error of the upstream changes nothing.",
        &["rank"],
        Twist::Quirk(Quirk::UpstreamErrorPasses),
    )
    .input("{\"type\":\"aoi:meta\"}\n{\"type\":\"aoi:error\"}\n{\"type\":\"aoi:summary\",\"ok\":false}\n")
    .warns(),
    mutant(
        "aoi-advisory-rank-unknown-types",
        "AOI-advisory.unknown-type",
        "`rank` stops at an event of an unknown type.",
        &["rank"],
        Twist::Quirk(Quirk::UnknownTypesFail),
    )
    .input("{\"type\":\"weather\"}\n")
    .warns(),
    mutant(
        "aoi-advisory-search-writes",
        "AOI-advisory.read-only-writes",
        "A search leaves a file behind.",
        SEARCH,
        Twist::Start(|facts| {
            if facts.command == "search" {
                let _ = std::fs::write("last-search.txt", "searched\n");
            }
            None
        }),
    ),
    mutant(
        "aoi-advisory-count-unchecked",
        "AOI-advisory.confirm-count",
        "`purge` does not check how many items were expected.",
        &["purge", "--confirm"],
        Twist::Quirk(Quirk::CountUnchecked),
    )
    .after(ONE_ITEM)
    .warns(),
    mutant(
        "aoi-advisory-no-default-bound",
        "AOI-advisory.default-bound",
        "A search without a limit shows everything.",
        SEARCH,
        Twist::Quirk(Quirk::NoDefaultBound),
    )
    .warns(),
    mutant(
        "aoi-advisory-no-heartbeat",
        "AOI-advisory.heartbeat",
        "`watch` declares heartbeats and sends none.",
        &["watch", "--count", "5", "--interval-ms", "1"],
        Twist::Event(|_, _, event| match is(&event, "aoi:heartbeat") {
            true => Vec::new(),
            false => send(event),
        }),
    )
    .warns(),
    mutant(
        "aoi-advisory-unbounded-unsaid",
        "AOI-advisory.unbounded",
        "`watch` is called bounded.",
        CAPABILITIES,
        Twist::Document(|_, document| {
            command(document, "watch", |watch| {
                set(watch, "bounded", true);
                remove(watch, "unbounded");
            })
        }),
    ),
    mutant(
        "aoi-advisory-aoi-versions",
        "AOI-advisory.aoi-versions",
        "The capabilities do not know AOI 0.2.",
        CAPABILITIES,
        Twist::Document(|_, mut document| {
            if document.get("aoi_versions").is_some() {
                set(&mut document, "aoi_versions", json!(["0.1"]));
            }
            Frame::Json(document)
        }),
    )
    .warns(),
    mutant(
        "aoi-advisory-command-undeclared",
        "AOI-advisory.commands",
        "The capabilities forget the command `search`.",
        CAPABILITIES,
        Twist::Document(|_, mut document| {
            let commands = document.get_mut("commands").and_then(Value::as_array_mut);
            if let Some(commands) = commands {
                commands.retain(|command| text(command, "name") != "search");
            }
            Frame::Json(document)
        }),
    )
    .warns(),
    mutant(
        "aoi-advisory-event-undeclared",
        "AOI-advisory.event-types",
        "The capabilities do not know that `search` sends hits.",
        CAPABILITIES,
        Twist::Document(|_, document| {
            command(document, "search", |search| {
                set(search, "event_types", json!(["aoi:meta", "aoi:summary"]));
            })
        }),
    )
    .warns(),
    mutant(
        "aoi-advisory-create-is-read-only",
        "AOI-advisory.read-only-writes",
        "`create` is called read-only.",
        CAPABILITIES,
        Twist::Document(|_, document| {
            command(document, "create", |create| set(create, "read_only", true))
        }),
    ),
    mutant(
        "aoi-advisory-crlf",
        "AOI-02.crlf",
        "Lines end in CR and LF.",
        SEARCH,
        Twist::Line(|_, mut line| {
            if line.last() == Some(&b'\n') {
                line.pop();
                line.extend(b"\r\n");
            }
            line
        }),
    )
    .warns(),
    mutant(
        "aoi-advisory-blank-line",
        "AOI-02.blank-line",
        "A blank line stands between the events.",
        SEARCH,
        Twist::Event(|_, notes, event| before("hit", "\n", notes, event)),
    )
    .warns(),
    mutant(
        "aoi-advisory-unknown-framework-type",
        "AOI-02.unknown-framework-type",
        "There is an event `aoi:note`, which the framework does not have.",
        SEARCH,
        Twist::Event(|_, notes, event| before("hit", "{\"type\":\"aoi:note\"}\n", notes, event)),
    )
    .warns(),
    mutant(
        "aoi-advisory-big-number",
        "AOI-02.big-number",
        "Hits hold a number that a double cannot hold.",
        SEARCH,
        Twist::Event(|_, _, event| on("hit", event, |e| set(e, "bytes", 9_007_199_254_740_993_u64))),
    )
    .warns(),
    mutant(
        "aoi-advisory-long-line",
        "AOI-02.line-length",
        "A line has more than a million bytes.",
        &["get", "doc-001"],
        Twist::Event(|_, _, event| on("entry", event, |e| set(e, "body", "x".repeat(2 << 20)))),
    )
    .warns(),
];

/// A schema in which a field of the meta event may be left out.
fn not_required(mut document: Value, name: &str) -> Frame {
    if let Some(Value::Array(required)) = document.pointer_mut("/$defs/aoi:meta/required") {
        required.retain(|known| known != name);
    }
    Frame::Json(document)
}
