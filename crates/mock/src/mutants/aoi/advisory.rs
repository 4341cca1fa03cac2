//! Statements beyond the 13 checks, and what is wrong only by a SHOULD.

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
        "AOI-adv.help",
        "`--help` has exit code 1.",
        HELP,
        Twist::Exit(|facts, code| if facts.has("--help") { 1 } else { code }),
    ),
    mutant(
        "aoi-advisory-short-help-unknown",
        "AOI-adv.help",
        "`-h` is unknown.",
        &["-h"],
        Twist::Args(|args| {
            let renamed = |word: String| if word == "-h" { "-H".to_owned() } else { word };
            args.into_iter().map(renamed).collect()
        }),
    ),
    mutant(
        "aoi-advisory-no-version",
        "AOI-adv.version",
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
        "AOI-adv.no-color",
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
        "AOI-adv.timeout",
        "`--timeout` has no meaning.",
        &["search", "x", "--delay-ms", "20", "--timeout", "0.1"],
        Twist::Quirk(Quirk::TimeoutIgnored),
    )
    .warns(),
    mutant(
        "aoi-13-meta-no-tool-version",
        "AOI-13.meta-incomplete",
        "The meta event does not say the version of the tool.",
        SEARCH,
        Twist::Event(|_, _, event| on("aoi:meta", event, |e| remove(e, "tool_version"))),
    )
    .and(Twist::Document(|_, document| not_required(document, "tool_version")))
    .warns(),
    mutant(
        "aoi-13-meta-no-aoi-version",
        "AOI-13.meta-incomplete",
        "The meta event does not say the version of AOI.",
        SEARCH,
        Twist::Event(|_, _, event| on("aoi:meta", event, |e| remove(e, "aoi_version"))),
    )
    .and(Twist::Document(|_, document| not_required(document, "aoi_version")))
    .warns(),
    mutant(
        "aoi-advisory-timestamp",
        "AOI-adv.timestamp",
        "The timestamp is not ISO 8601.",
        SEARCH,
        Twist::Event(|_, _, event| on("aoi:meta", event, |e| set(e, "timestamp", "last Tuesday"))),
    )
    .warns(),
    mutant(
        "aoi-advisory-trace-id-changes",
        "AOI-adv.trace-id",
        "The trace id is another one in the summary.",
        SEARCH,
        Twist::Event(|_, _, event| on("aoi:summary", event, |e| set(e, "trace_id", "run-other"))),
    )
    .warns(),
    mutant(
        "aoi-09-meta-shows-argv",
        "AOI-09.argv",
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
        "AOI-adv.reserved-in-schema",
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
        "AOI-adv.code-unstable",
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
        "AOI-adv.exit-category",
        "Wrong usage has the exit code of bad data.",
        &["search", "x", "--no-such-flag"],
        Twist::Exit(|_, code| if code == 64 { 65 } else { code }),
    )
    .warns(),
    mutant(
        "aoi-advisory-events-closed",
        "AOI-adv.output-closed",
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
        "aoi-12-input-open",
        "AOI-12.unknown-field",
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
        "AOI-adv.opaque-one-of",
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
        "AOI-adv.input-schema",
        "There is no schema of the input.",
        &["input-schema"],
        Twist::Start(|facts| (facts.command == "input-schema").then_some(64)),
    )
    .warns(),
    mutant(
        "aoi-advisory-upstream-error-ignored",
        "AOI-adv.upstream-error",
        "An error of the upstream changes nothing.",
        &["rank"],
        Twist::Quirk(Quirk::UpstreamErrorPasses),
    )
    .input("{\"type\":\"aoi:meta\"}\n{\"type\":\"aoi:error\"}\n{\"type\":\"aoi:summary\",\"ok\":false}\n")
    .warns(),
    mutant(
        "aoi-12-rank-unknown-types",
        "AOI-12.unknown-type",
        "`rank` stops at an event of an unknown type.",
        &["rank"],
        Twist::Quirk(Quirk::UnknownTypesFail),
    )
    .input("{\"type\":\"weather\"}\n")
    .warns(),
    mutant(
        "aoi-advisory-search-writes",
        "AOI-adv.read-only-strays",
        "A search leaves a file behind.",
        SEARCH,
        Twist::Start(|facts| {
            if facts.command == "search" {
                let _ = std::fs::write("last-search.txt", "searched\n");
            }
            None
        }),
    )
    .warns(),
    mutant(
        "aoi-advisory-count-unchecked",
        "AOI-adv.confirm-count",
        "`purge` does not check how many items were expected.",
        &["purge", "--confirm"],
        Twist::Quirk(Quirk::CountUnchecked),
    )
    .after(ONE_ITEM)
    .warns(),
    mutant(
        "aoi-advisory-no-default-bound",
        "AOI-adv.default-bound",
        "A search without a limit shows everything.",
        SEARCH,
        Twist::Quirk(Quirk::NoDefaultBound),
    )
    .warns(),
    mutant(
        "aoi-advisory-no-heartbeat",
        "AOI-adv.heartbeat",
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
        "AOI-adv.unbounded",
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
        "AOI-adv.aoi-versions",
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
        "AOI-adv.commands",
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
        "aoi-04-event-undeclared",
        "AOI-04.unlisted-type",
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
        "AOI-adv.read-only-changes",
        "`create` is called read-only.",
        CAPABILITIES,
        Twist::Document(|_, document| {
            command(document, "create", |create| set(create, "read_only", true))
        }),
    ),
    mutant(
        "aoi-advisory-other-flag",
        "AOI-adv.machine-flag",
        "Machine mode has a flag of its own; neither `--output` nor `--format` is known.",
        &["search", "x", "--output", "jsonl"],
        Twist::Args(|args| {
            let renamed = |word: String| match word.as_str() {
                "--output" => vec!["--no-output".to_owned()],
                "--jsonl" => vec!["--output".to_owned(), "jsonl".to_owned()],
                _ => vec![word],
            };
            args.into_iter().flat_map(renamed).collect()
        }),
    ),
    mutant(
        "aoi-advisory-input-schema-open",
        "AOI-adv.input-schema-open",
        "The schema of the input lets unknown fields pass; the command does not.",
        &["input-schema", "--command", "import"],
        Twist::Document(|_, mut document| {
            if text(&document, "title") == "An item to make" {
                remove(&mut document, "additionalProperties");
            }
            Frame::Json(document)
        }),
    )
    .warns(),
    mutant(
        "aoi-advisory-upstream-warning-lost",
        "AOI-adv.upstream-warning",
        "A warning of the upstream is neither passed on nor counted.",
        &["rank"],
        Twist::Event(|facts, _, event| match (facts.command.as_str(), text(&event, "type")) {
            ("rank", "aoi:warning") => Vec::new(),
            ("rank", "aoi:summary") => on("aoi:summary", event, |e| set(e, "warning_count", 0)),
            _ => send(event),
        }),
    )
    .input("{\"type\":\"aoi:meta\"}\n{\"type\":\"aoi:warning\",\"code\":\"OLD\"}\n{\"type\":\"aoi:summary\",\"ok\":true}\n")
    .warns(),
    mutant(
        "aoi-advisory-no-retry-hint",
        "AOI-adv.retry-hint",
        "A throttled run does not say when to try again.",
        &["search", "busy"],
        Twist::Event(|_, _, event| on("aoi:error", event, |e| remove(e, "retry_after_ms"))),
    )
    .warns(),
    mutant(
        "aoi-advisory-bare-hits",
        "AOI-adv.hit-fields",
        "Hits have neither a rank nor a score.",
        SEARCH,
        Twist::Event(|_, _, event| {
            on("hit", event, |e| {
                remove(e, "rank");
                remove(e, "score");
            })
        }),
    )
    .and(Twist::Document(|_, mut document| {
        if let Some(Value::Array(required)) = document.pointer_mut("/$defs/hit/required") {
            required.retain(|known| known != "rank" && known != "score");
        }
        Frame::Json(document)
    }))
    .warns(),
    mutant(
        "aoi-advisory-manifest-thin",
        "AOI-adv.manifest-fields",
        "The capabilities do not say which outputs there are.",
        CAPABILITIES,
        Twist::Document(|_, mut document| {
            remove(&mut document, "outputs");
            Frame::Json(document)
        }),
    )
    .warns(),
    mutant(
        "aoi-advisory-no-dry-run",
        "AOI-adv.dry-run",
        "The capabilities do not say that `create` has a dry run.",
        CAPABILITIES,
        Twist::Document(|_, document| {
            command(document, "create", |create| remove(create, "supports_dry_run"))
        }),
    )
    .warns(),
    mutant(
        "aoi-advisory-odd-verb",
        "AOI-adv.verb",
        "A command is called `mv`.",
        CAPABILITIES,
        Twist::Document(|_, mut document| {
            let commands = document.get_mut("commands").and_then(Value::as_array_mut);
            if let Some(commands) = commands {
                commands.push(json!({ "name": "mv", "read_only": false, "bounded": true }));
            }
            Frame::Json(document)
        }),
    )
    .warns(),
    mutant(
        "aoi-advisory-no-schema-id",
        "AOI-adv.schema-id",
        "The schema has no `$id`.",
        SCHEMA,
        Twist::Document(|_, mut document| {
            remove(&mut document, "$id");
            Frame::Json(document)
        }),
    )
    .warns(),
    mutant(
        "aoi-02-crlf",
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
        "aoi-02-blank-line",
        "AOI-02.blank-line",
        "A blank line stands between the events.",
        SEARCH,
        Twist::Event(|_, notes, event| before("hit", "\n", notes, event)),
    )
    .warns(),
    mutant(
        "aoi-02-unknown-framework-type",
        "AOI-02.unknown-framework-type",
        "There is an event `aoi:note`, which the framework does not have.",
        SEARCH,
        Twist::Event(|_, notes, event| before("hit", "{\"type\":\"aoi:note\"}\n", notes, event)),
    )
    .warns(),
    mutant(
        "aoi-02-big-number",
        "AOI-02.big-integer",
        "Hits hold a number that a double cannot hold.",
        SEARCH,
        Twist::Event(|_, _, event| on("hit", event, |e| set(e, "bytes", 9_007_199_254_740_993_u64))),
    )
    .warns(),
    mutant(
        "aoi-02-long-line",
        "AOI-02.long-line",
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
