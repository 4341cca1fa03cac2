//! Check 2: only JSON objects, one per line, each with a type.

use serde_json::{Value, json};

use super::tools::*;

pub fn mutants() -> Vec<AoiMutant> {
    vec![
        mutant("aoi-02-no-type", "AOI-02.type")
            .describe("Hits have no type.")
            .violates(&["AOI-2-03", "AOI-8.1-01"])
            .event("hit", removes("type")),
        mutant("aoi-02-empty-type", "AOI-02.type")
            .describe("The type of a hit is an empty string.")
            .violates(&["AOI-2-03", "AOI-8.1-01"])
            .event("hit", sets("type", "")),
        mutant("aoi-02-type-is-number", "AOI-02.type")
            .describe("The type of a hit is a number.")
            .violates(&["AOI-2-03", "AOI-8.1-01"])
            .event("hit", sets("type", 7)),
        mutant("aoi-02-type-is-null", "AOI-02.type")
            .describe("The type of an entry is null.")
            .violates(&["AOI-2-03", "AOI-8.1-01"])
            .run(&["get", "doc-001"])
            .event("entry", sets("type", Value::Null)),
        mutant("aoi-02-arrays", "AOI-02.object")
            .describe("A hit is a list instead of an object.")
            .violates(&["AOI-2-02", "AOI-13.1-02"])
            .instead("hit", |event| send(json!(["hit", text(&event, "id")]))),
        mutant("aoi-02-bare-text", "AOI-02.object")
            .describe("There is a JSON string between the events.")
            .violates(&["AOI-2-02", "AOI-13.1-02"])
            .before("hit", "\"loading\"\n"),
        mutant("aoi-02-banner", "AOI-02.prose")
            .describe("There is a greeting before the events.")
            .violates(&["AOI-1.2-02", "AOI-2-04", "AOI-1-02"])
            .before("aoi:meta", "mock-aoi 3.7.1, hello\n"),
        mutant("aoi-02-prose-between", "AOI-02.prose")
            .describe("There is a line of text between the events.")
            .violates(&["AOI-2-08"])
            .before("hit", "Searching...\n"),
        mutant("aoi-02-prose-at-the-end", "AOI-02.prose")
            .describe("There is a line of text before the summary.")
            .violates(&["AOI-2-08"])
            .before("aoi:summary", "Done.\n"),
        mutant("aoi-02-progress-bar", "AOI-02.prose")
            .describe("A progress bar is printed to stdout.")
            .violates(&["AOI-2-07", "AOI-1.2-02"])
            .before("hit", "\r[#####     ] 50%\r\n"),
        mutant("aoi-02-markdown", "AOI-02.prose")
            .describe("There is a heading before the results.")
            .violates(&["AOI-2-05"])
            .before("hit", "## Results\n"),
        mutant("aoi-02-plain-warning", "AOI-02.prose")
            .describe("The warning of `doctor` is a line of text.")
            .violates(&["AOI-2-10"])
            .run(&["doctor"])
            .instead("aoi:summary", |event| {
                vec![raw("warning: the clock is late\n"), EventFrame::Json(event)]
            }),
        mutant("aoi-02-debug-on-stdout", "AOI-02.prose")
            .describe("With `--debug`, diagnostics are printed to stdout.")
            .violates(&["AOI-2-08"])
            .run(&["search", "x", "--debug"])
            .events(|info, counters, event| match info.has("--debug") {
                true => before("hit", "DEBUG cache miss\n", counters, event),
                false => send(event),
            }),
        mutant("aoi-02-trace-on-stdout", "AOI-02.prose")
            .describe("An error prints a stack trace to stdout.")
            .violates(&["AOI-2-09"])
            .run(&["get", "absent"])
            .events(|info, counters, event| match info.failure {
                Some("not_found") => {
                    let trace = "Traceback (most recent call last):\nKeyError: 'absent'\n";
                    before("aoi:error", trace, counters, event)
                }
                _ => send(event),
            }),
        mutant("aoi-02-coloured", "AOI-02.control")
            .describe("Hits are printed in color.")
            .violates(&["AOI-2-06"])
            .hit_lines(|text| format!("\u{1b}[32m{}\u{1b}[0m\n", text.trim_end())),
        mutant("aoi-02-coloured-when-forced", "AOI-02.control")
            .describe("With `FORCE_COLOR`, hits are printed in color.")
            .violates(&["AOI-2-06", "AOI-16.1-12"])
            .lines(
                |_, line| match is_set("FORCE_COLOR") || is_set("CLICOLOR_FORCE") {
                    true => hits(line, |text| {
                        format!("\u{1b}[32m{}\u{1b}[0m\n", text.trim_end())
                    }),
                    false => line,
                },
            )
            .env("FORCE_COLOR", "3"),
        mutant("aoi-02-coloured-on-terminal", "AOI-02.control")
            .describe("On a terminal, hits are printed in color.")
            .violates(&["AOI-2-06"])
            .lines(
                |_, line| match std::io::IsTerminal::is_terminal(&std::io::stdout()) {
                    true => hits(line, |text| {
                        format!("\u{1b}[32m{}\u{1b}[0m\n", text.trim_end())
                    }),
                    false => line,
                },
            )
            .at(RunCondition::Terminal),
        mutant(
            "aoi-02-escape-in-message",
            "AOI-02.escaped-colour-in-framework",
        )
        .describe("The message of an error contains escaped color codes.")
        .run(&["get", "absent"])
        .event(
            "aoi:error",
            sets("message", "\u{1b}[31mThere is no such item.\u{1b}[0m"),
        ),
        mutant("aoi-02-byte-order-mark", "AOI-02.utf8")
            .describe("The stream starts with a byte order mark.")
            .before("aoi:meta", "\u{feff}"),
        mutant("aoi-02-latin1", "AOI-02.utf8")
            .describe("Hits contain a byte that is not valid UTF-8.")
            .lines(|_, line| {
                let mut bytes = hits(line, |text| text.replace("On ", "On@"));
                bytes
                    .iter_mut()
                    .filter(|b| **b == b'@')
                    .for_each(|b| *b = 0xe9);
                bytes
            }),
        mutant("aoi-02-no-final-newline", "AOI-02.last-line")
            .describe("The last line has no newline.")
            .lines(|info, mut line| {
                if info.command == "search" && line.windows(11).any(|w| w == b"aoi:summary") {
                    line.pop();
                }
                line
            }),
        mutant("aoi-02-duplicate-key", "AOI-02.strict-json")
            .describe("Hits have a duplicate id.")
            .lines(|_, line| hits(line, |text| text.replacen('{', "{\"id\":\"doc-000\",", 1))),
        mutant("aoi-02-nan", "AOI-02.object")
            .describe("The score of a hit is NaN.")
            .violates(&["AOI-2-02", "AOI-13.1-02"])
            .hit_lines(|text| text.replacen("\"score\":", "\"score\":NaN,\"points\":", 1)),
        mutant("aoi-02-infinity", "AOI-02.object")
            .describe("The score of a hit is infinite.")
            .violates(&["AOI-2-02", "AOI-13.1-02"])
            .hit_lines(|text| text.replacen("\"score\":", "\"score\":Infinity,\"points\":", 1)),
        mutant("aoi-02-lone-surrogate", "AOI-02.strict-json")
            .describe("Titles contain a lone surrogate.")
            .hit_lines(|text| text.replacen("On ", "\\ud800 ", 1)),
        mutant("aoi-02-two-on-a-line", "AOI-02.object")
            .describe("Two objects are on one line.")
            .violates(&["AOI-2-02", "AOI-13.1-02"])
            .hit_lines(|text| format!("{} {{\"type\":\"hit\"}}\n", text.trim_end())),
        mutant("aoi-02-pretty-printed", "AOI-02.object")
            .describe("Hits are spread over several lines.")
            .violates(&["AOI-2-02", "AOI-13.1-02"])
            .instead("hit", |event| vec![raw(format!("{event:#}\n"))]),
        mutant("aoi-02-one-big-array", "AOI-02.object")
            .describe("The events are the items of one list.")
            .violates(&["AOI-1-01", "AOI-16.1-03", "AOI-2-02", "AOI-21-01"])
            .events(|_, _, event| match text(&event, "type") {
                "aoi:meta" => vec![raw(format!("[{event},\n"))],
                "aoi:summary" => vec![raw(format!("{event}]\n"))],
                _ => vec![raw(format!("{event},\n"))],
            }),
        mutant("aoi-02-trailing-comma", "AOI-02.object")
            .describe("There is a comma before the last brace of a hit.")
            .violates(&["AOI-2-02", "AOI-13.1-02"])
            .hit_lines(|text| text.replacen("}\n", ",}\n", 1)),
        mutant("aoi-02-single-quotes", "AOI-02.object")
            .describe("Hits are written in Python syntax with single quotes.")
            .violates(&["AOI-1-01", "AOI-16.1-03"])
            .hit_lines(|text| text.replace('"', "'")),
        mutant("aoi-02-nul", "AOI-02.control")
            .describe("A NUL byte ends each hit.")
            .hit_lines(|text| text.replacen("}\n", "}\0\n", 1)),
        mutant("aoi-02-delete-character", "AOI-02.control")
            .describe("Titles contain a raw DEL character.")
            .hit_lines(|text| text.replacen("On ", "On\u{7f} ", 1)),
        mutant("aoi-02-reserved-summary", "AOI-02.reserved-type")
            .describe("A custom event has the type `summary`.")
            .violates(&["AOI-8.2-03", "AOI-8.2-04", "AOI-8.2-05"])
            .before("hit", "{\"type\":\"summary\",\"text\":\"about agents\"}\n"),
        mutant("aoi-02-reserved-error", "AOI-02.reserved-type")
            .describe("A custom event has the type `error`.")
            .violates(&["AOI-8.2-03", "AOI-8.2-04", "AOI-8.2-05"])
            .before("hit", "{\"type\":\"error\",\"text\":\"a cache miss\"}\n"),
        mutant("aoi-02-unprefixed", "AOI-02.legacy-unprefixed")
            .describe("Framework events have no prefix, as in older drafts.")
            .events(|_, _, mut event| {
                let kind = text(&event, "type").to_owned();
                if let Some(bare) = kind.strip_prefix("aoi:") {
                    set(&mut event, "type", bare);
                }
                send(event)
            }),
        mutant("aoi-02-deep", "AOI-02.strict-json")
            .describe("Hits contain lists that are nested two hundred levels deep.")
            .lines(|_, line| {
                let nest = format!("\"nest\":{}{},", "[".repeat(200), "]".repeat(200));
                hits(line, |text| text.replacen('{', &format!("{{{nest}"), 1))
            }),
        mutant("aoi-02-huge-line", "AOI-02.huge-line")
            .describe("If a version is requested, a line has seventeen million bytes.")
            .run(&["get", "doc-001", "--schema-version", "1"])
            // Once is enough, because reading it takes seconds.
            .event_if(with_argument("--schema-version"), "entry", |e| {
                set(e, "body", "x".repeat(17 << 20))
            }),
    ]
}
