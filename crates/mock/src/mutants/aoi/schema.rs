//! Check 4: events match the schema.

use serde_json::{Value, json};

use super::tools::*;

const ABSENT: &[&str] = &["get", "absent"];
const SCHEMA: &[&str] = &["schema", "--output", "json"];

pub fn mutants() -> Vec<AoiMutant> {
    vec![
        mutant("aoi-04-meta-tool-number", "AOI-04.meta")
            .describe("The name of the tool is a number.")
            .violates(&["AOI-8.1-04"])
            .event("aoi:meta", sets("tool", 5)),
        mutant("aoi-04-meta-no-command", "AOI-04.meta")
            .describe("The meta event has no command, which the schema requires.")
            .violates(&["AOI-8.3-01"])
            .event("aoi:meta", removes("command")),
        mutant("aoi-04-summary-count-text", "AOI-04.summary")
            .describe("The count is a string.")
            .violates(&["AOI-8.3-13"])
            .events(|_, _, event| {
                let count = number(&event, "count").to_string();
                on("aoi:summary", event, |e| set(e, "count", count))
            }),
        mutant("aoi-04-summary-elapsed-text", "AOI-04.summary")
            .describe("The elapsed time is a string with a unit.")
            .violates(&["AOI-8.3-13"])
            .event("aoi:summary", sets("elapsed_ms", "3 ms")),
        mutant("aoi-04-summary-partial-null", "AOI-04.summary")
            .describe("`partial` is null.")
            .violates(&["AOI-8.3-13"])
            .event("aoi:summary", sets("partial", Value::Null)),
        mutant("aoi-04-warning-no-message", "AOI-04.warning")
            .describe("A warning has no message.")
            .violates(&["AOI-2-11", "AOI-8.3-10"])
            .run(&["doctor"])
            .event("aoi:warning", removes("message")),
        mutant("aoi-04-warning-code-number", "AOI-04.warning")
            .describe("The code of a warning is a number.")
            .violates(&["AOI-2-11", "AOI-8.3-10"])
            .run(&["doctor"])
            .event("aoi:warning", sets("code", 3)),
        mutant("aoi-04-error-hint-list", "AOI-04.error")
            .describe("The hint of an error is a list.")
            .violates(&["AOI-8.3-11"])
            .run(ABSENT)
            .event("aoi:error", sets("hint", json!(["look"]))),
        mutant("aoi-04-error-empty-message", "AOI-04.error")
            .describe("The message of an error is empty.")
            .violates(&["AOI-8.3-11"])
            .run(ABSENT)
            .event("aoi:error", sets("message", "")),
        mutant("aoi-04-check-no-ok", "AOI-04.check")
            .describe("A check event has no result.")
            .violates(&["AOI-8.3-06", "AOI-16.2-04"])
            .run(&["doctor"])
            .event("aoi:check", removes("ok")),
        mutant("aoi-04-check-odd-severity", "AOI-04.check")
            .describe("The severity of a check event is not in the schema.")
            .violates(&["AOI-8.3-06", "AOI-16.2-04"])
            .run(&["doctor"])
            .event("aoi:check", sets("severity", "meh")),
        mutant("aoi-04-check-no-name", "AOI-04.check")
            .describe("A check event has no name.")
            .violates(&["AOI-8.3-06", "AOI-16.2-04"])
            .run(&["doctor"])
            .event("aoi:check", removes("name")),
        mutant("aoi-04-undeclared-type", "AOI-04.undeclared-type")
            .describe("Hits have the type `result`, which is not in the schema.")
            .event("hit", sets("type", "result")),
        mutant("aoi-04-schema-wants-more", "AOI-04.summary")
            .describe("The schema requires a total that no summary has.")
            .violates(&["AOI-1.1-01"])
            .run(SCHEMA)
            .document(|document| {
                if let Some(required) = document.pointer_mut("/$defs/aoi:summary/required") {
                    *required = json!(["type", "ok", "total"]);
                }
            }),
        mutant("aoi-04-schema-old-aoi-version", "AOI-04.meta")
            .describe("The schema and the meta event have different AOI versions.")
            .violates(&["AOI-1.1-01"])
            .run(SCHEMA)
            .document(|document| {
                if let Some(meta) = document.pointer_mut("/$defs/aoi:meta/properties/aoi_version") {
                    *meta = json!({ "const": "0.1" });
                }
            }),
        mutant("aoi-04-schema-empty", "AOI-04.vacuous")
            .describe("The schema allows everything.")
            .run(SCHEMA)
            .documents(|_, document| match document.get("$defs") {
                Some(_) => EventFrame::Json(json!({})),
                None => EventFrame::Json(document),
            })
            .expect_not_verified(),
        mutant("aoi-04-schema-loose", "AOI-04.vacuous")
            .describe("The schema defines its event types but does not apply the definitions.")
            .run(SCHEMA)
            .document(|document| {
                if document.get("$defs").is_some() {
                    remove(document, "allOf");
                    remove(document, "required");
                    remove(document, "$defs");
                }
            })
            .expect_not_verified(),
        mutant("aoi-04-hit-without-title", "AOI-04.domain")
            .describe("Hits have no title, which the schema requires.")
            .violates(&["AOI-1.1-01"])
            .event("hit", removes("title"))
            .expect_warning(),
    ]
}
