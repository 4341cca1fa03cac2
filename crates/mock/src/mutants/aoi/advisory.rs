//! Requirements outside the 13 checks, and violations of recommendations (SHOULD).

use serde_json::{Value, json};

use super::tools::*;

const SCHEMA: &[&str] = &["schema", "--output", "json"];
const CAPABILITIES: &[&str] = &["capabilities", "--output", "json"];
const HELP: &[&str] = &["--help"];

const UPSTREAM_ERROR: &str =
    "{\"type\":\"aoi:meta\"}\n{\"type\":\"aoi:error\"}\n{\"type\":\"aoi:summary\",\"ok\":false}\n";
const UPSTREAM_WARNING: &str = "{\"type\":\"aoi:meta\"}\n{\"type\":\"aoi:warning\",\"code\":\"OLD\"}\n{\"type\":\"aoi:summary\",\"ok\":true}\n";

pub fn mutants() -> Vec<AoiMutant> {
    vec![
        mutant("aoi-advisory-help-fails", "AOI-adv.help")
            .describe("`--help` exits with code 1.")
            .run(HELP)
            .exit(|info, code| if info.has("--help") { 1 } else { code }),
        mutant("aoi-advisory-short-help-unknown", "AOI-adv.help")
            .describe("`-h` is unknown.")
            .run(&["-h"])
            .word("-h", "-H"),
        mutant("aoi-advisory-no-version", "AOI-adv.version")
            .describe("`--version` is unknown.")
            .run(&["--version"])
            .word("--version", "--vversion")
            .expect_warning(),
        mutant("aoi-advisory-no-color-unknown", "AOI-adv.no-color")
            .describe("`--no-color` is unknown.")
            .run(&["search", "x", "--no-color"])
            .word("--no-color", "--no-hue")
            .expect_warning(),
        mutant("aoi-advisory-timeout-ignored", "AOI-adv.timeout")
            .describe("`--timeout` has no effect.")
            .violates(&["AOI-15-02", "AOI-16.1-05"])
            .run(&["search", "x", "--delay-ms", "20", "--timeout", "0.1"])
            .quirk(Quirk::TimeoutIgnored)
            .expect_warning(),
        mutant("aoi-13-meta-no-tool-version", "AOI-13.meta-incomplete")
            .describe("The meta event does not contain the version of the tool.")
            .violates(&["AOI-5-02", "AOI-8.1-05"])
            .event("aoi:meta", removes("tool_version"))
            .documents(|_, document| not_required(document, "tool_version"))
            .expect_warning(),
        mutant("aoi-13-meta-no-aoi-version", "AOI-13.meta-incomplete")
            .describe("The meta event does not contain the AOI version.")
            .violates(&["AOI-5-02", "AOI-8.1-06"])
            .event("aoi:meta", removes("aoi_version"))
            .documents(|_, document| not_required(document, "aoi_version"))
            .expect_warning(),
        mutant("aoi-13-meta-no-schema-name", "AOI-13.meta-incomplete")
            .describe("The meta event does not contain the name of the schema.")
            .violates(&["AOI-8.1-02"])
            .event("aoi:meta", removes("schema_name"))
            .documents(|_, document| not_required(document, "schema_name"))
            .expect_warning(),
        mutant("aoi-advisory-timestamp", "AOI-adv.timestamp")
            .describe("The timestamp is not ISO 8601.")
            .event("aoi:meta", sets("timestamp", "last Tuesday"))
            .expect_warning(),
        mutant("aoi-advisory-trace-id-changes", "AOI-adv.trace-id")
            .describe("The summary has a different trace id.")
            .event("aoi:summary", sets("trace_id", "run-other"))
            .expect_warning(),
        mutant("aoi-09-meta-shows-argv", "AOI-09.argv")
            .describe("The meta event contains the whole command line.")
            .violates(&["AOI-8.3-02", "AOI-11-01", "AOI-11-08"])
            .events(|info, _, event| {
                let secret = ["--token", "--header", "--url"]
                    .iter()
                    .any(|flag| info.value(flag).is_some());
                match secret {
                    true => send(event),
                    false => on("aoi:meta", event, |e| set(e, "argv", json!(info.args))),
                }
            }),
        mutant(
            "aoi-advisory-schema-defines-summary",
            "AOI-adv.reserved-in-schema",
        )
        .describe("The schema defines a custom event type `summary`.")
        .run(SCHEMA)
        .document(|document| {
            if let Some(Value::Object(kinds)) = document.pointer_mut("/$defs") {
                kinds.insert("summary".to_owned(), json!({ "type": "object" }));
            }
            if let Some(Value::Array(kinds)) = document.pointer_mut("/properties/type/enum") {
                kinds.push("summary".into());
            }
        }),
        mutant("aoi-advisory-code-unstable", "AOI-adv.code-unstable")
            .describe("The code of an error changes with each run.")
            .run(&["get", "absent"])
            .events(|_, _, event| {
                let code = format!("E_{}", std::process::id());
                on("aoi:error", event, |e| set(e, "code", code))
            })
            .expect_warning(),
        mutant("aoi-advisory-exit-disagrees", "AOI-adv.exit-category")
            .describe("A usage error has the exit code of invalid data.")
            .violates(&["AOI-6-03"])
            .run(&["search", "x", "--no-such-flag"])
            .exit(|_, code| if code == 64 { 65 } else { code })
            .expect_warning(),
        mutant("aoi-advisory-events-closed", "AOI-adv.output-closed")
            .describe("The schema forbids unknown fields in events.")
            .run(SCHEMA)
            .document(|document| {
                if let Some(hit) = document.pointer_mut("/$defs/hit") {
                    set(hit, "additionalProperties", false);
                }
            })
            .expect_warning(),
        mutant("aoi-12-input-open", "AOI-12.unknown-field")
            .describe("The input may contain unknown fields.")
            .run(&["import", "--input-jsonl", "-"])
            .quirk(Quirk::UnknownFieldsPass)
            .document(|document| {
                if text(document, "title") == "An item to make" {
                    remove(document, "additionalProperties");
                }
            })
            .input("{\"name\":\"a\",\"color\":\"red\"}\n")
            .expect_warning(),
        mutant("aoi-advisory-opaque-schema", "AOI-adv.opaque-one-of")
            .describe("The schema is one big `oneOf`.")
            .run(SCHEMA)
            .documents(|_, mut document| {
                let kinds = document.get("$defs").and_then(Value::as_object);
                let Some(kinds) = kinds else {
                    return EventFrame::Json(document);
                };
                let one = |kind: &String| json!({ "$ref": format!("#/$defs/{kind}") });
                let all: Vec<Value> = kinds.keys().map(one).collect();
                remove(&mut document, "allOf");
                set(&mut document, "oneOf", all);
                EventFrame::Json(document)
            })
            .expect_warning(),
        mutant("aoi-advisory-no-input-schema", "AOI-adv.input-schema")
            .describe("There is no input schema.")
            .violates(&["AOI-12.1-02", "AOI-16.2-02"])
            .run(&["input-schema"])
            .start(|info| (info.command == "input-schema").then_some(64))
            .expect_warning(),
        mutant(
            "aoi-advisory-upstream-error-ignored",
            "AOI-adv.upstream-error",
        )
        .describe("An upstream error has no effect.")
        .violates(&["AOI-13-02", "AOI-13-04", "AOI-13-07"])
        .run(&["rank"])
        .quirk(Quirk::UpstreamErrorPasses)
        .input(UPSTREAM_ERROR)
        .expect_warning(),
        mutant("aoi-12-rank-unknown-types", "AOI-12.unknown-type")
            .describe("`rank` stops at an event of an unknown type.")
            .run(&["rank"])
            .quirk(Quirk::UnknownTypesFail)
            .input("{\"type\":\"weather\"}\n")
            .expect_warning(),
        mutant("aoi-advisory-search-writes", "AOI-adv.read-only-strays")
            .describe("A search leaves a file behind.")
            .start(|info| {
                if info.command == "search" {
                    let _ = std::fs::write("last-search.txt", "searched\n");
                }
                None
            })
            .expect_warning(),
        mutant("aoi-advisory-count-unchecked", "AOI-adv.confirm-count")
            .describe("`purge` does not check the expected number of items.")
            .violates(&["AOI-14.3-02", "AOI-16.1-11"])
            .run(&["purge", "--confirm"])
            .quirk(Quirk::CountUnchecked)
            .after(ONE_ITEM)
            .expect_warning(),
        mutant("aoi-advisory-no-default-bound", "AOI-adv.default-bound")
            .describe("A search without a limit returns everything.")
            .violates(&["AOI-15-01"])
            .quirk(Quirk::NoDefaultBound)
            .expect_warning(),
        mutant("aoi-advisory-no-heartbeat", "AOI-adv.heartbeat")
            .describe("`watch` declares heartbeats but sends none.")
            .violates(&["AOI-4.2-02", "AOI-8.3-09"])
            .run(&["watch", "--count", "5", "--interval-ms", "1"])
            .drops("aoi:heartbeat")
            .expect_warning(),
        mutant("aoi-advisory-unbounded-unsaid", "AOI-adv.unbounded")
            .describe("`watch` is declared as bounded.")
            .violates(&["AOI-4.2-01", "AOI-16.3-11"])
            .run(CAPABILITIES)
            .command("watch", |watch| {
                set(watch, "bounded", true);
                remove(watch, "unbounded");
            }),
        mutant("aoi-advisory-aoi-versions", "AOI-adv.aoi-versions")
            .describe("The capabilities do not list AOI 0.2.")
            .run(CAPABILITIES)
            .document(|document| {
                if document.get("aoi_versions").is_some() {
                    set(document, "aoi_versions", json!(["0.1"]));
                }
            })
            .expect_warning(),
        mutant("aoi-advisory-command-undeclared", "AOI-adv.commands")
            .describe("The command `search` is missing from the capabilities.")
            .violates(&["AOI-16.2-03", "AOI-17-04"])
            .run(CAPABILITIES)
            .document(|document| {
                let commands = document.get_mut("commands").and_then(Value::as_array_mut);
                if let Some(commands) = commands {
                    commands.retain(|command| text(command, "name") != "search");
                }
            })
            .expect_warning(),
        mutant("aoi-04-event-undeclared", "AOI-04.unlisted-type")
            .describe("The capabilities do not list the event type of the hits of `search`.")
            .run(CAPABILITIES)
            .command(
                "search",
                sets("event_types", json!(["aoi:meta", "aoi:summary"])),
            )
            .expect_warning(),
        mutant(
            "aoi-advisory-create-is-read-only",
            "AOI-adv.read-only-changes",
        )
        .describe("`create` is declared as read-only.")
        .violates(&["AOI-14.1-01", "AOI-14.1-02"])
        .run(CAPABILITIES)
        .command("create", sets("read_only", true)),
        mutant("aoi-advisory-other-flag", "AOI-adv.machine-flag")
            .describe(
                "Machine mode has a custom flag, and both `--output` and `--format` are unknown.",
            )
            .violates(&["AOI-1-02", "AOI-16.1-03", "AOI-16.4-01", "AOI-16.4-03"])
            .run(&["search", "x", "--output", "jsonl"])
            .args(|args| {
                let renamed = |word: String| match word.as_str() {
                    "--output" => vec!["--no-output".to_owned()],
                    "--jsonl" => vec!["--output".to_owned(), "jsonl".to_owned()],
                    _ => vec![word],
                };
                args.into_iter().flat_map(renamed).collect()
            }),
        mutant(
            "aoi-advisory-input-schema-open",
            "AOI-adv.input-schema-open",
        )
        .describe("The input schema allows unknown fields, but the command rejects them.")
        .run(&["input-schema", "--command", "import"])
        .document(|document| {
            if text(document, "title") == "An item to make" {
                remove(document, "additionalProperties");
            }
        })
        .expect_warning(),
        mutant(
            "aoi-advisory-upstream-warning-lost",
            "AOI-adv.upstream-warning",
        )
        .describe("An upstream warning is neither passed on nor counted.")
        .violates(&["AOI-13-02", "AOI-13-06"])
        .run(&["rank"])
        .events(
            |info, _, event| match (info.command.as_str(), text(&event, "type")) {
                ("rank", "aoi:warning") => Vec::new(),
                ("rank", "aoi:summary") => on("aoi:summary", event, |e| set(e, "warning_count", 0)),
                _ => send(event),
            },
        )
        .input(UPSTREAM_WARNING)
        .expect_warning(),
        mutant("aoi-advisory-no-retry-hint", "AOI-adv.retry-hint")
            .describe("A rate-limited run does not say when to try again.")
            .run(&["search", "busy"])
            .event("aoi:error", removes("retry_after_ms"))
            .expect_warning(),
        mutant("aoi-advisory-bare-matches", "AOI-adv.hit-fields")
            .describe("Matches have neither a path nor a line number.")
            .violates(&["AOI-8.3-05"])
            .event("hit", sets("type", "match"))
            .expect_warning(),
        mutant("aoi-advisory-bare-hits", "AOI-adv.hit-fields")
            .describe("Hits have neither a rank nor a score.")
            .violates(&["AOI-8.3-04"])
            .event("hit", |e| {
                remove(e, "rank");
                remove(e, "score");
            })
            .document(|document| {
                if let Some(Value::Array(required)) = document.pointer_mut("/$defs/hit/required") {
                    required.retain(|known| known != "rank" && known != "score");
                }
            })
            .expect_warning(),
        mutant("aoi-advisory-manifest-thin", "AOI-adv.manifest-fields")
            .describe("The capabilities do not list the outputs.")
            .violates(&["AOI-16.2-03", "AOI-17-02"])
            .run(CAPABILITIES)
            .document(removes("outputs"))
            .expect_warning(),
        mutant("aoi-advisory-no-dry-run", "AOI-adv.dry-run")
            .describe("The capabilities do not list the dry run of `create`.")
            .violates(&["AOI-14.2-01", "AOI-17-05"])
            .run(CAPABILITIES)
            .command("create", removes("supports_dry_run"))
            .expect_warning(),
        mutant("aoi-advisory-odd-verb", "AOI-adv.verb")
            .describe("A command is called `mv`.")
            .violates(&["AOI-16.3-07"])
            .run(CAPABILITIES)
            .document(|document| {
                let commands = document.get_mut("commands").and_then(Value::as_array_mut);
                if let Some(commands) = commands {
                    commands.push(json!({ "name": "mv", "read_only": false, "bounded": true }));
                }
            })
            .expect_warning(),
        mutant("aoi-advisory-no-schema-id", "AOI-adv.schema-id")
            .describe("The schema has no `$id`.")
            .run(SCHEMA)
            .document(removes("$id"))
            .expect_warning(),
        mutant("aoi-02-crlf", "AOI-02.crlf")
            .describe("Lines end in CR and LF.")
            .lines(|_, mut line| {
                if line.last() == Some(&b'\n') {
                    line.pop();
                    line.extend(b"\r\n");
                }
                line
            })
            .expect_warning(),
        mutant("aoi-02-blank-line", "AOI-02.blank-line")
            .describe("There is a blank line between the events.")
            .before("hit", "\n")
            .expect_warning(),
        mutant(
            "aoi-02-unknown-framework-type",
            "AOI-02.unknown-framework-type",
        )
        .describe("There is an event `aoi:note`, which the framework does not define.")
        .before("hit", "{\"type\":\"aoi:note\"}\n")
        .expect_warning(),
        mutant("aoi-02-big-number", "AOI-02.big-integer")
            .describe("Hits contain a number that does not fit into a double.")
            .event("hit", sets("bytes", 9_007_199_254_740_993_u64))
            .expect_warning(),
        mutant("aoi-02-long-line", "AOI-02.long-line")
            .describe("A line is longer than a million bytes.")
            .run(&["get", "doc-001"])
            .event("entry", |e| set(e, "body", "x".repeat(2 << 20)))
            .expect_warning(),
    ]
}

/// Makes a field of the meta event optional in the schema.
fn not_required(mut document: Value, name: &str) -> EventFrame {
    if let Some(Value::Array(required)) = document.pointer_mut("/$defs/aoi:meta/required") {
        required.retain(|known| known != name);
    }
    EventFrame::Json(document)
}
