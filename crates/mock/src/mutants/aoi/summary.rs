//! Check 3: success is an exit code 0 and one summary at the end.

use serde_json::json;

use super::tools::*;

const ABSENT: &[&str] = &["get", "absent"];

pub static MUTANTS: &[Mutant] = &[
    mutant(
        "aoi-03-no-summary",
        "AOI-03.summary-last",
        "The stream ends without a summary.",
        SEARCH,
        Twist::Event(|_, _, event| match is(&event, "aoi:summary") {
            true => Vec::new(),
            false => send(event),
        }),
    ),
    mutant(
        "aoi-03-no-summary-when-empty",
        "AOI-03.summary-last",
        "A search that finds nothing ends without a summary.",
        &["search", "nothing"],
        Twist::Event(|facts, _, event| {
            let is_empty = is(&event, "aoi:summary") && number(&event, "count") == 0;
            match is_empty && facts.command != "fetch" && facts.failure.is_none() {
                true => Vec::new(),
                false => send(event),
            }
        }),
    ),
    mutant(
        "aoi-03-no-summary-of-get",
        "AOI-03.summary-last",
        "`get` prints its entry and nothing after it.",
        &["get", "doc-001"],
        Twist::Event(
            |facts, _, event| match is(&event, "aoi:summary") && facts.command == "get" {
                true => Vec::new(),
                false => send(event),
            },
        ),
    ),
    mutant(
        "aoi-03-summary-on-stderr",
        "AOI-03.summary-last",
        "The summary stands on stderr.",
        SEARCH,
        Twist::Event(|_, _, event| match is(&event, "aoi:summary") {
            true => {
                stderr(&format!("{event}\n"));
                Vec::new()
            }
            false => send(event),
        }),
    ),
    mutant(
        "aoi-03-event-after-summary",
        "AOI-03.summary-last",
        "An event comes after the summary.",
        SEARCH,
        Twist::Event(|_, _, event| match is(&event, "aoi:summary") {
            true => vec![
                Frame::Json(event),
                Frame::Json(json!({ "type": "aoi:heartbeat" })),
            ],
            false => send(event),
        }),
    ),
    mutant(
        "aoi-03-summary-first",
        "AOI-03.summary-last",
        "The summary comes before the last result.",
        &["get", "doc-001"],
        Twist::Event(
            |_, _, event| match event.get("type").and_then(|t| t.as_str()) {
                Some("entry") => {
                    let summary = json!({ "type": "aoi:summary", "ok": true, "count": 1 });
                    vec![Frame::Json(summary), Frame::Json(event)]
                }
                Some("aoi:summary") if event.get("ok") == Some(&true.into()) => Vec::new(),
                _ => send(event),
            },
        ),
    ),
    mutant(
        "aoi-03-two-summaries",
        "AOI-03.summary-last",
        "There are two summaries.",
        SEARCH,
        Twist::Event(|_, _, event| match is(&event, "aoi:summary") {
            true => vec![Frame::Json(event.clone()), Frame::Json(event)],
            false => send(event),
        }),
    ),
    mutant(
        "aoi-03-ok-false-on-success",
        "AOI-03.ok-not-true",
        "A success is summed up as a failure.",
        SEARCH,
        Twist::Event(
            |facts, _, event| match facts.failure.or(facts.signal.map(|_| "")) {
                None => on("aoi:summary", event, |e| set(e, "ok", false)),
                Some(_) => send(event),
            },
        ),
    ),
    mutant(
        "aoi-03-no-ok",
        "AOI-03.ok-not-true",
        "The summary does not say whether all is well.",
        SEARCH,
        Twist::Event(|_, _, event| on("aoi:summary", event, |e| remove(e, "ok"))),
    ),
    mutant(
        "aoi-03-exit-one-on-success",
        "AOI-03.exit-not-zero",
        "A success has exit code 1.",
        SEARCH,
        Twist::Exit(|_, code| if code == 0 { 1 } else { code }),
    ),
    mutant(
        "aoi-03-ok-true-on-failure",
        "AOI-03.ok-true-on-failure",
        "A failure is summed up as a success.",
        ABSENT,
        Twist::Event(|facts, _, event| match facts.failure {
            Some("not_found" | "validation" | "config" | "conflict") => {
                on("aoi:summary", event, |e| set(e, "ok", true))
            }
            _ => send(event),
        }),
    ),
    mutant(
        "aoi-03-exit-zero-on-failure",
        "AOI-03.exit-zero-on-failure",
        "An item that is not there gives exit code 0.",
        ABSENT,
        Twist::Exit(|facts, code| match facts.failure {
            Some("not_found") => 0,
            _ => code,
        }),
    )
    .warns(),
    mutant(
        "aoi-03-loses-summary",
        "AOI-03.summary-lost",
        "The summary is lost when the reader is slow.",
        SEARCH,
        Twist::Quirk(Quirk::SummaryWithoutPatience),
    )
    .at(Place::SlowReader),
    mutant(
        "aoi-03-full-device-is-fine",
        "AOI-03.write-error-ignored",
        "Output that could not be written gives exit code 0.",
        SEARCH,
        Twist::Exit(|facts, code| if facts.unwritten { 0 } else { code }),
    )
    .at(Place::FullDevice),
    mutant(
        "aoi-03-two-metas",
        "AOI-03.meta-twice",
        "There are two meta events.",
        SEARCH,
        Twist::Event(|_, _, event| match is(&event, "aoi:meta") {
            true => vec![Frame::Json(event.clone()), Frame::Json(event)],
            false => send(event),
        }),
    ),
    mutant(
        "aoi-03-meta-late",
        "AOI-03.meta-first",
        "The meta event comes after another one.",
        SEARCH,
        Twist::Event(|_, notes, event| {
            let beat = "{\"type\":\"aoi:heartbeat\"}\n";
            before("aoi:meta", beat, notes, event)
        }),
    )
    .warns(),
    mutant(
        "aoi-03-no-meta",
        "AOI-03.meta-first",
        "`get` has no meta event.",
        &["get", "doc-001"],
        Twist::Event(
            |facts, _, event| match is(&event, "aoi:meta") && facts.command == "get" {
                true => Vec::new(),
                false => send(event),
            },
        ),
    )
    .warns(),
    mutant(
        "aoi-03-count-too-high",
        "AOI-03.count",
        "The summary counts one result too many.",
        SEARCH,
        Twist::Event(|_, _, event| {
            let count = number(&event, "count") + 1;
            on("aoi:summary", event, |e| set(e, "count", count))
        }),
    ),
    mutant(
        "aoi-03-count-of-total",
        "AOI-03.count",
        "The summary counts all results, not those that were shown.",
        &["search", "x", "--limit", "3"],
        Twist::Event(
            |facts, _, event| match facts.command == "search" && facts.has("--limit") {
                true => on("aoi:summary", event, |e| set(e, "count", 25)),
                false => send(event),
            },
        ),
    ),
    mutant(
        "aoi-03-count-zero",
        "AOI-03.count",
        "The summary always counts 0.",
        SEARCH,
        Twist::Event(|_, _, event| on("aoi:summary", event, |e| set(e, "count", 0))),
    ),
    mutant(
        "aoi-03-count-of-all-events",
        "AOI-03.count-all-events",
        "The count takes in meta and summary.",
        SEARCH,
        Twist::Event(|_, _, event| {
            let count = number(&event, "count")
                + number(&event, "warning_count")
                + number(&event, "error_count")
                + 2;
            on("aoi:summary", event, |e| set(e, "count", count))
        }),
    )
    .warns(),
    mutant(
        "aoi-03-error-count",
        "AOI-03.error-count",
        "Errors are not counted.",
        ABSENT,
        Twist::Event(|_, _, event| on("aoi:summary", event, |e| set(e, "error_count", 0))),
    ),
    mutant(
        "aoi-03-warning-count",
        "AOI-03.error-count",
        "Warnings are not counted.",
        &["doctor"],
        Twist::Event(|_, _, event| on("aoi:summary", event, |e| set(e, "warning_count", 0))),
    ),
    mutant(
        "aoi-03-believes-cut-input",
        "AOI-03.upstream-cut",
        "A stream on stdin without its summary is taken for a whole one.",
        &["rank", "--input-jsonl", "-"],
        Twist::Quirk(Quirk::UpstreamCutPasses),
    )
    .input("{\"type\":\"aoi:meta\"}\n{\"type\":\"hit\",\"id\":\"doc-001\"}\n")
    .warns(),
    mutant(
        "aoi-03-crashes-at-the-end",
        "AOI-03.summary-last",
        "The process dies before the summary and says that all is well.",
        SEARCH,
        Twist::Event(|_, _, event| match is(&event, "aoi:summary") {
            true => vec![Frame::Exit(0)],
            false => send(event),
        }),
    ),
];
