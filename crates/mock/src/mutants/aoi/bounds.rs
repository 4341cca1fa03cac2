//! Check 11: limits, cursors, streaming.

use serde_json::Value;

use super::tools::*;

const SEVEN: &[&str] = &["search", "x", "--limit", "7"];
const SECOND_PAGE: &[&str] = &["search", "x", "--limit", "7", "--cursor", "p7-90422a2a"];
const LAST_PAGE: &[&str] = &["search", "x", "--limit", "25"];

pub static MUTANTS: &[Mutant] = &[
    mutant(
        "aoi-11-limit-plus-one",
        "AOI-11.limit",
        "One result more than the limit is shown.",
        SEVEN,
        Twist::Quirk(Quirk::LimitPlusOne),
    ),
    mutant(
        "aoi-11-limit-ignored",
        "AOI-11.limit",
        "The limit has no meaning.",
        SEVEN,
        Twist::Args(|args| match args.iter().any(|word| word == "search") {
            true => without(args, "--limit", true),
            false => args,
        }),
    ),
    mutant(
        "aoi-11-truncated-missing",
        "AOI-11.truncated",
        "The summary does not say whether something was cut off.",
        SEVEN,
        Twist::Event(|_, _, event| on("aoi:summary", event, |e| remove(e, "truncated"))),
    ),
    mutant(
        "aoi-11-truncated-never",
        "AOI-11.truncated",
        "Nothing is ever cut off, says the summary.",
        SEVEN,
        Twist::Event(|_, _, event| on("aoi:summary", event, |e| set(e, "truncated", false))),
    ),
    mutant(
        "aoi-11-truncated-always",
        "AOI-11.truncated-falsely",
        "Something is always cut off, says the summary.",
        LAST_PAGE,
        Twist::Event(|facts, _, event| match facts.command == "search" {
            true => on("aoi:summary", event, |e| set(e, "truncated", true)),
            false => send(event),
        }),
    ),
    mutant(
        "aoi-11-truncated-when-exact",
        "AOI-11.truncated-falsely",
        "A page that is exactly full counts as cut off.",
        LAST_PAGE,
        Twist::Quirk(Quirk::TruncatedWhenExact),
    ),
    mutant(
        "aoi-11-truncated-text",
        "AOI-11.truncated-type",
        "`truncated` is a text.",
        SEVEN,
        Twist::Event(|facts, _, event| {
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
    ),
    mutant(
        "aoi-11-no-next-cursor",
        "AOI-11.next-cursor",
        "A page that was cut off names no cursor.",
        SEVEN,
        Twist::Event(|_, _, event| {
            on("aoi:summary", event, |e| set(e, "next_cursor", Value::Null))
        }),
    )
    .warns(),
    mutant(
        "aoi-11-cursor-after-the-end",
        "AOI-11.cursor-end",
        "The last page names a cursor.",
        LAST_PAGE,
        Twist::Quirk(Quirk::CursorAfterTheEnd),
    ),
    mutant(
        "aoi-11-cursor-starts-again",
        "AOI-11.cursor-walk",
        "Every cursor leads to the first page.",
        SECOND_PAGE,
        Twist::Quirk(Quirk::CursorStartsAgain),
    ),
    mutant(
        "aoi-11-cursor-skips",
        "AOI-11.cursor-walk",
        "Between two pages a result is lost.",
        SEVEN,
        Twist::Quirk(Quirk::CursorSkipsOne),
    ),
    mutant(
        "aoi-11-cursor-overlaps",
        "AOI-11.cursor-walk",
        "The last result of a page is the first of the next.",
        SEVEN,
        Twist::Quirk(Quirk::CursorRepeatsOne),
    ),
    mutant(
        "aoi-11-cursor-stays",
        "AOI-11.cursor-walk",
        "The cursor never moves.",
        SEVEN,
        Twist::Quirk(Quirk::CursorStays),
    ),
    mutant(
        "aoi-11-other-order",
        "AOI-11.cursor-walk",
        "Later pages are in another order.",
        SECOND_PAGE,
        Twist::Quirk(Quirk::NewOrderOnLaterPages),
    ),
    mutant(
        "aoi-11-garbage-cursor-passes",
        "AOI-11.bad-cursor",
        "A cursor that is none leads to the first page.",
        &["search", "x", "--cursor", "garbage"],
        Twist::Quirk(Quirk::CursorUnchecked),
    ),
    mutant(
        "aoi-11-garbage-cursor-is-empty",
        "AOI-11.bad-cursor",
        "A cursor that is none gives an empty success.",
        &["search", "x", "--cursor", "garbage"],
        Twist::Event(|facts, _, event| {
            match facts.failure == Some("validation") && facts.has("--cursor") {
                true if is(&event, "aoi:error") => Vec::new(),
                true => on("aoi:summary", event, |e| {
                    set(e, "ok", true);
                    set(e, "error_count", 0);
                }),
                false => send(event),
            }
        }),
    )
    .and(Twist::Exit(|facts, code| {
        match facts.has("--cursor") && code == 65 {
            true => 0,
            false => code,
        }
    })),
    mutant(
        "aoi-11-garbage-cursor-internal",
        "AOI-11.bad-cursor-category",
        "A cursor that is none is an internal error.",
        &["search", "x", "--cursor", "garbage"],
        Twist::Event(|facts, _, event| match facts.has("--cursor") {
            true => on("aoi:error", event, |e| set(e, "category", "internal")),
            false => send(event),
        }),
    )
    .and(Twist::Exit(|facts, code| {
        match facts.has("--cursor") && code == 65 {
            true => 70,
            false => code,
        }
    })),
    mutant(
        "aoi-11-limit-zero-is-all",
        "AOI-11.odd-limit",
        "A limit of 0 is no limit.",
        &["search", "x", "--limit", "0"],
        Twist::Quirk(Quirk::LimitZeroIsAll),
    ),
    mutant(
        "aoi-11-negative-limit-is-all",
        "AOI-11.odd-limit",
        "A negative limit is no limit.",
        &["search", "x", "--limit", "-1"],
        Twist::Quirk(Quirk::LimitNegativeIsAll),
    ),
    mutant(
        "aoi-11-limit-of-one-is-two",
        "AOI-11.limit",
        "A limit of 1 shows two results.",
        &["search", "x", "--limit", "1"],
        Twist::Args(|mut args| {
            let place = args.iter().position(|word| word == "--limit");
            let value = place.and_then(|at| args.get_mut(at + 1));
            if let Some(value) = value.filter(|value| *value == "1") {
                *value = "2".to_owned();
            }
            args
        }),
    ),
    mutant(
        "aoi-11-not-streamed",
        "AOI-11.streams",
        "Nothing is written before everything is found.",
        &["search", "x", "--delay-ms", "60000"],
        Twist::Quirk(Quirk::BuffersAll),
    )
    .at(Place::FirstLine)
    .hangs(),
    mutant(
        "aoi-11-page-with-twins",
        "AOI-11.cursor-walk",
        "The first result of a page is there twice.",
        SEVEN,
        Twist::Event(|_, notes, event| match is(&event, "hit") {
            true if first(notes, "hit") => {
                vec![Frame::Json(event.clone()), Frame::Json(event)]
            }
            true => match notes.get("hit").is_some_and(|seen| *seen == 2) {
                true => Vec::new(),
                false => send(event),
            },
            false => send(event),
        }),
    ),
];
