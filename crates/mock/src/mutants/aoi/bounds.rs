//! Check 11: limits, cursors, streaming.

use serde_json::Value;

use super::tools::*;

const SEVEN: &[&str] = &["search", "x", "--limit", "7"];
const SECOND_PAGE: &[&str] = &["search", "x", "--limit", "7", "--cursor", "p7-90422a2a"];
const LAST_PAGE: &[&str] = &["search", "x", "--limit", "25"];

pub fn mutants() -> Vec<AoiMutant> {
    vec![
        mutant("aoi-11-limit-plus-one", "AOI-11.limit")
            .describe("One more result than the limit is returned.")
            .violates(&["AOI-15-02", "AOI-16.1-06"])
            .run(SEVEN)
            .quirk(Quirk::LimitPlusOne),
        mutant("aoi-11-limit-ignored", "AOI-11.limit")
            .describe("The limit has no effect.")
            .violates(&["AOI-15-02", "AOI-16.1-06"])
            .run(SEVEN)
            .args(|args| match args.iter().any(|word| word == "search") {
                true => without(args, "--limit", true),
                false => args,
            }),
        mutant("aoi-11-truncated-missing", "AOI-11.truncated")
            .describe("The summary does not say whether the results were truncated.")
            .violates(&["AOI-15-03"])
            .run(SEVEN)
            .event("aoi:summary", removes("truncated")),
        mutant("aoi-11-truncated-never", "AOI-11.truncated")
            .describe("The summary always says that the results are complete.")
            .violates(&["AOI-15-03"])
            .run(SEVEN)
            .event("aoi:summary", sets("truncated", false)),
        mutant("aoi-11-truncated-always", "AOI-11.truncated-falsely")
            .describe("The summary always says that the results were truncated.")
            .violates(&["AOI-15-03"])
            .run(LAST_PAGE)
            .event_if(of_command("search"), "aoi:summary", sets("truncated", true)),
        mutant("aoi-11-truncated-when-exact", "AOI-11.truncated-falsely")
            .describe("A page that is exactly full is reported as truncated.")
            .violates(&["AOI-15-03"])
            .run(LAST_PAGE)
            .quirk(Quirk::TruncatedWhenExact),
        mutant("aoi-11-truncated-text", "AOI-11.truncated-type")
            .describe("`truncated` is a string.")
            .run(SEVEN)
            .events(|info, _, event| {
                let truncated = event
                    .get("truncated")
                    .cloned()
                    .unwrap_or_default()
                    .to_string();
                match info.command == "search" {
                    true => on("aoi:summary", event, |e| set(e, "truncated", truncated)),
                    false => send(event),
                }
            }),
        mutant("aoi-11-no-next-cursor", "AOI-11.next-cursor")
            .describe("A truncated page has no cursor.")
            .run(SEVEN)
            .event("aoi:summary", sets("next_cursor", Value::Null))
            .expect_warning(),
        mutant("aoi-11-cursor-after-the-end", "AOI-11.cursor-end")
            .describe("The last page has a cursor.")
            .violates(&["AOI-15-04"])
            .run(LAST_PAGE)
            .quirk(Quirk::CursorAfterTheEnd),
        mutant("aoi-11-cursor-starts-again", "AOI-11.cursor-walk")
            .describe("Every cursor leads to the first page.")
            .violates(&["AOI-16.1-07"])
            .run(SECOND_PAGE)
            .quirk(Quirk::CursorStartsAgain),
        mutant("aoi-11-cursor-skips", "AOI-11.cursor-walk")
            .describe("A result is lost between two pages.")
            .violates(&["AOI-16.1-07"])
            .run(SEVEN)
            .quirk(Quirk::CursorSkipsOne),
        mutant("aoi-11-cursor-overlaps", "AOI-11.cursor-walk")
            .describe("The last result of a page is the first of the next.")
            .violates(&["AOI-16.1-07"])
            .run(SEVEN)
            .quirk(Quirk::CursorRepeatsOne),
        mutant("aoi-11-cursor-stays", "AOI-11.cursor-walk")
            .describe("The cursor never moves.")
            .violates(&["AOI-16.1-07"])
            .run(SEVEN)
            .quirk(Quirk::CursorStays),
        mutant("aoi-11-other-order", "AOI-11.cursor-walk")
            .describe("Later pages are in another order.")
            .violates(&["AOI-16.1-07"])
            .run(SECOND_PAGE)
            .quirk(Quirk::NewOrderOnLaterPages),
        mutant("aoi-11-garbage-cursor-passes", "AOI-11.bad-cursor")
            .describe("An invalid cursor leads to the first page.")
            .run(&["search", "x", "--cursor", "garbage"])
            .quirk(Quirk::CursorUnchecked),
        mutant("aoi-11-garbage-cursor-is-empty", "AOI-11.bad-cursor")
            .describe("An invalid cursor returns an empty success.")
            .run(&["search", "x", "--cursor", "garbage"])
            .events(|info, _, event| {
                match info.failure == Some("validation") && info.has("--cursor") {
                    true if is(&event, "aoi:error") => Vec::new(),
                    true => on("aoi:summary", event, |e| {
                        set(e, "ok", true);
                        set(e, "error_count", 0);
                    }),
                    false => send(event),
                }
            })
            .exit(|info, code| match info.has("--cursor") && code == 65 {
                true => 0,
                false => code,
            }),
        mutant(
            "aoi-11-garbage-cursor-internal",
            "AOI-11.bad-cursor-category",
        )
        .describe("An invalid cursor causes an internal error.")
        .run(&["search", "x", "--cursor", "garbage"])
        .event_if(
            with_argument("--cursor"),
            "aoi:error",
            sets("category", "internal"),
        )
        .exit(|info, code| match info.has("--cursor") && code == 65 {
            true => 70,
            false => code,
        }),
        mutant("aoi-11-limit-zero-is-all", "AOI-11.odd-limit")
            .describe("A limit of 0 means no limit.")
            .violates(&["AOI-15-02", "AOI-16.1-06"])
            .run(&["search", "x", "--limit", "0"])
            .quirk(Quirk::LimitZeroIsAll),
        mutant("aoi-11-negative-limit-is-all", "AOI-11.odd-limit")
            .describe("A negative limit means no limit.")
            .violates(&["AOI-15-02", "AOI-16.1-06"])
            .run(&["search", "x", "--limit", "-1"])
            .quirk(Quirk::LimitNegativeIsAll),
        mutant("aoi-11-limit-of-one-is-two", "AOI-11.limit")
            .describe("A limit of 1 returns two results.")
            .violates(&["AOI-15-02", "AOI-16.1-06"])
            .run(&["search", "x", "--limit", "1"])
            .args(|mut args| {
                let condition = args.iter().position(|word| word == "--limit");
                let value = condition.and_then(|at| args.get_mut(at + 1));
                if let Some(value) = value.filter(|value| *value == "1") {
                    *value = "2".to_owned();
                }
                args
            }),
        mutant("aoi-11-not-streamed", "AOI-11.streams")
            .describe("Nothing is written before all results are found.")
            .violates(&["AOI-0-05", "AOI-21-01"])
            .run(&["search", "x", "--delay-ms", "60000"])
            .quirk(Quirk::BuffersAll)
            .at(RunCondition::FirstLine)
            .hangs(),
        mutant("aoi-11-page-with-twins", "AOI-11.cursor-walk")
            .describe("The first result of a page is repeated.")
            .violates(&["AOI-16.1-07"])
            .run(SEVEN)
            .events(|_, counters, event| match is(&event, "hit") {
                true if first(counters, "hit") => {
                    vec![EventFrame::Json(event.clone()), EventFrame::Json(event)]
                }
                true => match counters.get("hit").is_some_and(|hits| *hits == 2) {
                    true => Vec::new(),
                    false => send(event),
                },
                false => send(event),
            }),
    ]
}
