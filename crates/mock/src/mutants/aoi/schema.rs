//! Check 4: events are as the schema says.

use serde_json::{Value, json};

use super::tools::*;

const ABSENT: &[&str] = &["get", "absent"];
const SCHEMA: &[&str] = &["schema", "--output", "json"];

pub static MUTANTS: &[Mutant] = &[
    mutant(
        "aoi-04-meta-tool-number",
        "AOI-04.meta",
        "The name of the tool is a number.",
        SEARCH,
        Twist::Event(|_, _, event| on("aoi:meta", event, |e| set(e, "tool", 5))),
    ),
    mutant(
        "aoi-04-meta-no-command",
        "AOI-04.meta",
        "The meta event lacks the command that the schema requires.",
        SEARCH,
        Twist::Event(|_, _, event| on("aoi:meta", event, |e| remove(e, "command"))),
    ),
    mutant(
        "aoi-04-summary-count-text",
        "AOI-04.summary",
        "The count is a text.",
        SEARCH,
        Twist::Event(|_, _, event| {
            let count = number(&event, "count").to_string();
            on("aoi:summary", event, |e| set(e, "count", count))
        }),
    ),
    mutant(
        "aoi-04-summary-elapsed-text",
        "AOI-04.summary",
        "The elapsed time is a text with a unit.",
        SEARCH,
        Twist::Event(|_, _, event| on("aoi:summary", event, |e| set(e, "elapsed_ms", "3 ms"))),
    ),
    mutant(
        "aoi-04-summary-partial-null",
        "AOI-04.summary",
        "`partial` is null.",
        SEARCH,
        Twist::Event(|_, _, event| on("aoi:summary", event, |e| set(e, "partial", Value::Null))),
    ),
    mutant(
        "aoi-04-warning-no-message",
        "AOI-04.warning",
        "A warning has no message.",
        &["doctor"],
        Twist::Event(|_, _, event| on("aoi:warning", event, |e| remove(e, "message"))),
    ),
    mutant(
        "aoi-04-warning-code-number",
        "AOI-04.warning",
        "The code of a warning is a number.",
        &["doctor"],
        Twist::Event(|_, _, event| on("aoi:warning", event, |e| set(e, "code", 3))),
    ),
    mutant(
        "aoi-04-error-hint-list",
        "AOI-04.error",
        "The hint of an error is a list.",
        ABSENT,
        Twist::Event(|_, _, event| on("aoi:error", event, |e| set(e, "hint", json!(["look"])))),
    ),
    mutant(
        "aoi-04-error-empty-message",
        "AOI-04.error",
        "The message of an error is empty.",
        ABSENT,
        Twist::Event(|_, _, event| on("aoi:error", event, |e| set(e, "message", ""))),
    ),
    mutant(
        "aoi-04-check-no-ok",
        "AOI-04.check",
        "A check does not say how it ended.",
        &["doctor"],
        Twist::Event(|_, _, event| on("aoi:check", event, |e| remove(e, "ok"))),
    ),
    mutant(
        "aoi-04-check-odd-severity",
        "AOI-04.check",
        "The severity of a check is none that the schema knows.",
        &["doctor"],
        Twist::Event(|_, _, event| on("aoi:check", event, |e| set(e, "severity", "meh"))),
    ),
    mutant(
        "aoi-04-check-no-name",
        "AOI-04.check",
        "A check has no name.",
        &["doctor"],
        Twist::Event(|_, _, event| on("aoi:check", event, |e| remove(e, "name"))),
    ),
    mutant(
        "aoi-04-undeclared-type",
        "AOI-04.undeclared-type",
        "Hits are called `result`, which the schema does not know.",
        SEARCH,
        Twist::Event(|_, _, event| on("hit", event, |e| set(e, "type", "result"))),
    ),
    mutant(
        "aoi-04-schema-wants-more",
        "AOI-04.summary",
        "The schema requires a total that no summary has.",
        SCHEMA,
        Twist::Document(|_, mut document| {
            if let Some(required) = document.pointer_mut("/$defs/aoi:summary/required") {
                *required = json!(["type", "ok", "total"]);
            }
            Frame::Json(document)
        }),
    ),
    mutant(
        "aoi-04-schema-old-aoi-version",
        "AOI-04.meta",
        "The schema says another AOI version than the meta event.",
        SCHEMA,
        Twist::Document(|_, mut document| {
            if let Some(meta) = document.pointer_mut("/$defs/aoi:meta/properties/aoi_version") {
                *meta = json!({ "const": "0.1" });
            }
            Frame::Json(document)
        }),
    ),
    mutant(
        "aoi-04-schema-empty",
        "AOI-04.vacuous",
        "The schema allows everything.",
        SCHEMA,
        Twist::Document(|_, document| match document.get("$defs") {
            Some(_) => Frame::Json(json!({})),
            None => Frame::Json(document),
        }),
    )
    .proves_nothing(),
    mutant(
        "aoi-04-schema-loose",
        "AOI-04.vacuous",
        "The schema describes its types and never uses the descriptions.",
        SCHEMA,
        Twist::Document(|_, mut document| {
            if document.get("$defs").is_some() {
                remove(&mut document, "allOf");
                remove(&mut document, "required");
                remove(&mut document, "$defs");
            }
            Frame::Json(document)
        }),
    )
    .proves_nothing(),
    mutant(
        "aoi-04-hit-without-title",
        "AOI-04.domain",
        "Hits lack the title that the schema requires.",
        SEARCH,
        Twist::Event(|_, _, event| on("hit", event, |e| remove(e, "title"))),
    )
    .warns(),
];
