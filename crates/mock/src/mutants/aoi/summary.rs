//! Check 3: a success has exit code 0 and one summary at the end.

use serde_json::json;

use super::tools::*;

const ABSENT: &[&str] = &["get", "absent"];

pub fn mutants() -> Vec<AoiMutant> {
    vec![
        mutant("aoi-03-no-summary", "AOI-03.summary-last")
            .describe("The stream ends without a summary.")
            .violates(&[
                "AOI-4-02",
                "AOI-4-03",
                "AOI-4.1-02",
                "AOI-8.3-12",
                "AOI-13.1-03",
            ])
            .drops("aoi:summary"),
        mutant("aoi-03-no-summary-when-empty", "AOI-03.summary-last")
            .describe("A search without results ends without a summary.")
            .violates(&[
                "AOI-4-02",
                "AOI-4-03",
                "AOI-4.1-02",
                "AOI-8.3-12",
                "AOI-13.1-03",
            ])
            .run(&["search", "nothing"])
            .events(|info, _, event| {
                let is_empty = is(&event, "aoi:summary") && number(&event, "count") == 0;
                match is_empty && info.command != "fetch" && info.failure.is_none() {
                    true => Vec::new(),
                    false => send(event),
                }
            }),
        mutant("aoi-03-no-summary-of-get", "AOI-03.summary-last")
            .describe("`get` prints its entry but no summary.")
            .violates(&[
                "AOI-4-02",
                "AOI-4-03",
                "AOI-4.1-02",
                "AOI-8.3-12",
                "AOI-13.1-03",
            ])
            .run(&["get", "doc-001"])
            .drops_if(of_command("get"), "aoi:summary"),
        mutant("aoi-03-summary-on-stderr", "AOI-03.summary-last")
            .describe("The summary is printed to stderr.")
            .violates(&["AOI-4-02"])
            .instead("aoi:summary", |event| {
                stderr(&format!("{event}\n"));
                Vec::new()
            }),
        mutant("aoi-03-event-after-summary", "AOI-03.summary-last")
            .describe("An event comes after the summary.")
            .violates(&["AOI-8.3-12"])
            .instead("aoi:summary", |event| {
                vec![
                    EventFrame::Json(event),
                    EventFrame::Json(json!({ "type": "aoi:heartbeat" })),
                ]
            }),
        mutant("aoi-03-summary-first", "AOI-03.summary-last")
            .describe("The summary comes before the last result.")
            .violates(&["AOI-8.3-12"])
            .run(&["get", "doc-001"])
            .events(
                |_, _, event| match event.get("type").and_then(|t| t.as_str()) {
                    Some("entry") => {
                        let summary = json!({ "type": "aoi:summary", "ok": true, "count": 1 });
                        vec![EventFrame::Json(summary), EventFrame::Json(event)]
                    }
                    Some("aoi:summary") if event.get("ok") == Some(&true.into()) => Vec::new(),
                    _ => send(event),
                },
            ),
        mutant("aoi-03-two-summaries", "AOI-03.summary-last")
            .describe("There are two summaries.")
            .violates(&["AOI-4-02"])
            .twice("aoi:summary"),
        mutant("aoi-03-ok-false-on-success", "AOI-03.ok-not-true")
            .describe("The summary of a successful run reports a failure.")
            .violates(&[
                "AOI-4.1-01",
                "AOI-6-16",
                "AOI-8.3-13",
                "AOI-13.1-01",
                "AOI-13.1-05",
            ])
            .events(
                |info, _, event| match info.failure.or(info.signal.map(|_| "")) {
                    None => on("aoi:summary", event, |e| set(e, "ok", false)),
                    Some(_) => send(event),
                },
            ),
        mutant("aoi-03-no-ok", "AOI-03.ok-not-true")
            .describe("The summary does not say whether the run succeeded.")
            .violates(&[
                "AOI-4.1-01",
                "AOI-6-16",
                "AOI-8.3-13",
                "AOI-13.1-01",
                "AOI-13.1-05",
            ])
            .event("aoi:summary", removes("ok")),
        mutant("aoi-03-exit-one-on-success", "AOI-03.exit-not-zero")
            .describe("A successful run exits with code 1.")
            .violates(&["AOI-4.1-01", "AOI-6-01", "AOI-13.1-04"])
            .exit(|_, code| if code == 0 { 1 } else { code }),
        mutant("aoi-03-ok-true-on-failure", "AOI-03.ok-true-on-failure")
            .describe("The summary of a failed run reports a success.")
            .violates(&["AOI-4.1-03", "AOI-6-02"])
            .run(ABSENT)
            .events(|info, _, event| match info.failure {
                Some("not_found" | "validation" | "config" | "conflict") => {
                    on("aoi:summary", event, |e| set(e, "ok", true))
                }
                _ => send(event),
            }),
        mutant("aoi-03-exit-zero-on-failure", "AOI-03.exit-zero-on-failure")
            .describe("The exit code for an unknown item is 0.")
            .run(ABSENT)
            .exit(|info, code| match info.failure {
                Some("not_found") => 0,
                _ => code,
            })
            .expect_warning(),
        mutant("aoi-03-loses-summary", "AOI-03.summary-lost")
            .describe("The summary is lost when the reader is slow.")
            .quirk(Quirk::SummaryWithoutPatience)
            .at(RunCondition::SlowReader),
        mutant("aoi-03-full-device-is-fine", "AOI-03.write-error-ignored")
            .describe("The exit code is 0 although the output could not be written.")
            .exit(|info, code| if info.write_failed { 0 } else { code })
            .at(RunCondition::FullDevice),
        mutant("aoi-03-two-metas", "AOI-03.meta-twice")
            .describe("There are two meta events.")
            .twice("aoi:meta"),
        mutant("aoi-03-meta-late", "AOI-03.meta-first")
            .describe("The meta event comes after another one.")
            .violates(&["AOI-0-04", "AOI-4-01", "AOI-8.3-01"])
            .events(|_, counters, event| {
                let beat = "{\"type\":\"aoi:heartbeat\"}\n";
                before("aoi:meta", beat, counters, event)
            })
            .expect_warning(),
        mutant("aoi-03-no-meta", "AOI-03.meta-first")
            .describe("`get` has no meta event.")
            .violates(&["AOI-0-04", "AOI-4-01", "AOI-8.3-01"])
            .run(&["get", "doc-001"])
            .drops_if(of_command("get"), "aoi:meta")
            .expect_warning(),
        mutant("aoi-03-count-too-high", "AOI-03.count")
            .describe("The count in the summary is one too high.")
            .violates(&["AOI-8.3-13", "AOI-19-01"])
            .events(|_, _, event| {
                let count = number(&event, "count") + 1;
                on("aoi:summary", event, |e| set(e, "count", count))
            }),
        mutant("aoi-03-count-of-total", "AOI-03.count")
            .describe("The summary counts all results instead of those that were returned.")
            .violates(&["AOI-8.3-13", "AOI-19-01"])
            .run(&["search", "x", "--limit", "3"])
            .event_if(
                |info| info.command == "search" && info.has("--limit"),
                "aoi:summary",
                sets("count", 25),
            ),
        mutant("aoi-03-count-zero", "AOI-03.count")
            .describe("The count in the summary is always 0.")
            .violates(&["AOI-8.3-13", "AOI-19-01"])
            .event("aoi:summary", sets("count", 0)),
        mutant("aoi-03-count-of-all-events", "AOI-03.count-all-events")
            .describe("The count includes meta and summary.")
            .events(|_, _, event| {
                let count = number(&event, "count")
                    + number(&event, "warning_count")
                    + number(&event, "error_count")
                    + 2;
                on("aoi:summary", event, |e| set(e, "count", count))
            })
            .expect_warning(),
        mutant("aoi-03-error-count", "AOI-03.error-count")
            .describe("Errors are not counted.")
            .violates(&["AOI-8.3-13", "AOI-19-03"])
            .run(ABSENT)
            .event("aoi:summary", sets("error_count", 0)),
        mutant("aoi-03-warning-count", "AOI-03.error-count")
            .describe("Warnings are not counted.")
            .violates(&["AOI-8.3-13"])
            .run(&["doctor"])
            .event("aoi:summary", sets("warning_count", 0)),
        mutant("aoi-03-believes-cut-input", "AOI-03.upstream-cut")
            .describe("A stream on stdin without a summary is treated as complete.")
            .run(&["rank", "--input-jsonl", "-"])
            .quirk(Quirk::UpstreamCutPasses)
            .input("{\"type\":\"aoi:meta\"}\n{\"type\":\"hit\",\"id\":\"doc-001\"}\n")
            .expect_warning(),
        mutant("aoi-03-crashes-at-the-end", "AOI-03.summary-last")
            .describe("The process crashes before the summary with exit code 0.")
            .violates(&[
                "AOI-4-02",
                "AOI-4-03",
                "AOI-4.1-02",
                "AOI-8.3-12",
                "AOI-13.1-03",
            ])
            .instead("aoi:summary", |_| vec![EventFrame::Exit(0)]),
    ]
}
