//! Check 11: limits, cursors, streaming.

use serde_json::Value;

use super::tools::*;

const SEVEN: &[&str] = &["search", "x", "--limit", "7"];
const SECOND_PAGE: &[&str] = &["search", "x", "--limit", "7", "--cursor", "p7-90422a2a"];
const LAST_PAGE: &[&str] = &["search", "x", "--limit", "25"];

pub fn mutants() -> Vec<Mutant> {
    vec![
        wrong("aoi-11-limit-plus-one", "AOI-11.limit")
            .says("One more result than the limit is returned.")
            .run(SEVEN)
            .quirk(Quirk::LimitPlusOne),
        wrong("aoi-11-limit-ignored", "AOI-11.limit")
            .says("The limit has no effect.")
            .run(SEVEN)
            .args(|args| match args.iter().any(|word| word == "search") {
                true => without(args, "--limit", true),
                false => args,
            }),
        wrong("aoi-11-truncated-missing", "AOI-11.truncated")
            .says("The summary does not say whether the results were truncated.")
            .run(SEVEN)
            .event("aoi:summary", removes("truncated")),
        wrong("aoi-11-truncated-never", "AOI-11.truncated")
            .says("The summary always says that the results are complete.")
            .run(SEVEN)
            .event("aoi:summary", sets("truncated", false)),
        wrong("aoi-11-truncated-always", "AOI-11.truncated-falsely")
            .says("The summary always says that the results were truncated.")
            .run(LAST_PAGE)
            .event_if(of("search"), "aoi:summary", sets("truncated", true)),
        wrong("aoi-11-truncated-when-exact", "AOI-11.truncated-falsely")
            .says("A page that is exactly full is reported as truncated.")
            .run(LAST_PAGE)
            .quirk(Quirk::TruncatedWhenExact),
        wrong("aoi-11-truncated-text", "AOI-11.truncated-type")
            .says("`truncated` is a string.")
            .run(SEVEN)
            .events(|facts, _, event| {
                let said = event
                    .get("truncated")
                    .cloned()
                    .unwrap_or_default()
                    .to_string();
                match facts.command == "search" {
                    true => on("aoi:summary", event, |e| set(e, "truncated", said)),
                    false => send(event),
                }
            }),
        wrong("aoi-11-no-next-cursor", "AOI-11.next-cursor")
            .says("A truncated page has no cursor.")
            .run(SEVEN)
            .event("aoi:summary", sets("next_cursor", Value::Null))
            .warns(),
        wrong("aoi-11-cursor-after-the-end", "AOI-11.cursor-end")
            .says("The last page has a cursor.")
            .run(LAST_PAGE)
            .quirk(Quirk::CursorAfterTheEnd),
        wrong("aoi-11-cursor-starts-again", "AOI-11.cursor-walk")
            .says("Every cursor leads to the first page.")
            .run(SECOND_PAGE)
            .quirk(Quirk::CursorStartsAgain),
        wrong("aoi-11-cursor-skips", "AOI-11.cursor-walk")
            .says("A result is lost between two pages.")
            .run(SEVEN)
            .quirk(Quirk::CursorSkipsOne),
        wrong("aoi-11-cursor-overlaps", "AOI-11.cursor-walk")
            .says("The last result of a page is the first of the next.")
            .run(SEVEN)
            .quirk(Quirk::CursorRepeatsOne),
        wrong("aoi-11-cursor-stays", "AOI-11.cursor-walk")
            .says("The cursor never moves.")
            .run(SEVEN)
            .quirk(Quirk::CursorStays),
        wrong("aoi-11-other-order", "AOI-11.cursor-walk")
            .says("Later pages are in another order.")
            .run(SECOND_PAGE)
            .quirk(Quirk::NewOrderOnLaterPages),
        wrong("aoi-11-garbage-cursor-passes", "AOI-11.bad-cursor")
            .says("An invalid cursor leads to the first page.")
            .run(&["search", "x", "--cursor", "garbage"])
            .quirk(Quirk::CursorUnchecked),
        wrong("aoi-11-garbage-cursor-is-empty", "AOI-11.bad-cursor")
            .says("An invalid cursor returns an empty success.")
            .run(&["search", "x", "--cursor", "garbage"])
            .events(|facts, _, event| {
                match facts.failure == Some("validation") && facts.has("--cursor") {
                    true if is(&event, "aoi:error") => Vec::new(),
                    true => on("aoi:summary", event, |e| {
                        set(e, "ok", true);
                        set(e, "error_count", 0);
                    }),
                    false => send(event),
                }
            })
            .exit(|facts, code| match facts.has("--cursor") && code == 65 {
                true => 0,
                false => code,
            }),
        wrong(
            "aoi-11-garbage-cursor-internal",
            "AOI-11.bad-cursor-category",
        )
        .says("An invalid cursor causes an internal error.")
        .run(&["search", "x", "--cursor", "garbage"])
        .event_if(given("--cursor"), "aoi:error", sets("category", "internal"))
        .exit(|facts, code| match facts.has("--cursor") && code == 65 {
            true => 70,
            false => code,
        }),
        wrong("aoi-11-limit-zero-is-all", "AOI-11.odd-limit")
            .says("A limit of 0 means no limit.")
            .run(&["search", "x", "--limit", "0"])
            .quirk(Quirk::LimitZeroIsAll),
        wrong("aoi-11-negative-limit-is-all", "AOI-11.odd-limit")
            .says("A negative limit means no limit.")
            .run(&["search", "x", "--limit", "-1"])
            .quirk(Quirk::LimitNegativeIsAll),
        wrong("aoi-11-limit-of-one-is-two", "AOI-11.limit")
            .says("A limit of 1 returns two results.")
            .run(&["search", "x", "--limit", "1"])
            .args(|mut args| {
                let place = args.iter().position(|word| word == "--limit");
                let value = place.and_then(|at| args.get_mut(at + 1));
                if let Some(value) = value.filter(|value| *value == "1") {
                    *value = "2".to_owned();
                }
                args
            }),
        wrong("aoi-11-not-streamed", "AOI-11.streams")
            .says("Nothing is written before all results are found.")
            .run(&["search", "x", "--delay-ms", "60000"])
            .quirk(Quirk::BuffersAll)
            .at(Place::FirstLine)
            .hangs(),
        wrong("aoi-11-page-with-twins", "AOI-11.cursor-walk")
            .says("The first result of a page is repeated.")
            .run(SEVEN)
            .events(|_, notes, event| match is(&event, "hit") {
                true if first(notes, "hit") => {
                    vec![Frame::Json(event.clone()), Frame::Json(event)]
                }
                true => match notes.get("hit").is_some_and(|seen| *seen == 2) {
                    true => Vec::new(),
                    false => send(event),
                },
                false => send(event),
            }),
    ]
}
