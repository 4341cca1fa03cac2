//! Check 2: nothing but JSON objects, one per line, each with a type.

use serde_json::{Value, json};

use super::tools::*;

pub static MUTANTS: &[Mutant] = &[
    mutant(
        "aoi-02-no-type",
        "AOI-02.type",
        "Hits have no type.",
        SEARCH,
        Twist::Event(|_, _, event| on("hit", event, |e| remove(e, "type"))),
    ),
    mutant(
        "aoi-02-empty-type",
        "AOI-02.type",
        "The type of a hit is the empty text.",
        SEARCH,
        Twist::Event(|_, _, event| on("hit", event, |e| set(e, "type", ""))),
    ),
    mutant(
        "aoi-02-type-is-number",
        "AOI-02.type",
        "The type of a hit is a number.",
        SEARCH,
        Twist::Event(|_, _, event| on("hit", event, |e| set(e, "type", 7))),
    ),
    mutant(
        "aoi-02-type-is-null",
        "AOI-02.type",
        "The type of an entry is null.",
        &["get", "doc-001"],
        Twist::Event(|_, _, event| on("entry", event, |e| set(e, "type", Value::Null))),
    ),
    mutant(
        "aoi-02-arrays",
        "AOI-02.object",
        "A hit is a list in place of an object.",
        SEARCH,
        Twist::Event(|_, _, event| match is(&event, "hit") {
            true => send(json!(["hit", text(&event, "id")])),
            false => send(event),
        }),
    ),
    mutant(
        "aoi-02-bare-text",
        "AOI-02.object",
        "A JSON text stands between the events.",
        SEARCH,
        Twist::Event(|_, notes, event| before("hit", "\"loading\"\n", notes, event)),
    ),
    mutant(
        "aoi-02-banner",
        "AOI-02.prose",
        "A line of greeting stands before the events.",
        SEARCH,
        Twist::Event(|_, notes, event| before("aoi:meta", "mock-aoi 3.7.1, hello\n", notes, event)),
    ),
    mutant(
        "aoi-02-prose-between",
        "AOI-02.prose",
        "A remark stands between the events.",
        SEARCH,
        Twist::Event(|_, notes, event| before("hit", "Searching...\n", notes, event)),
    ),
    mutant(
        "aoi-02-prose-at-the-end",
        "AOI-02.prose",
        "A remark stands before the summary.",
        SEARCH,
        Twist::Event(|_, notes, event| before("aoi:summary", "Done.\n", notes, event)),
    ),
    mutant(
        "aoi-02-progress-bar",
        "AOI-02.prose",
        "A progress bar is drawn on stdout.",
        SEARCH,
        Twist::Event(|_, notes, event| before("hit", "\r[#####     ] 50%\r\n", notes, event)),
    ),
    mutant(
        "aoi-02-markdown",
        "AOI-02.prose",
        "A heading stands before the results.",
        SEARCH,
        Twist::Event(|_, notes, event| before("hit", "## Results\n", notes, event)),
    ),
    mutant(
        "aoi-02-plain-warning",
        "AOI-02.prose",
        "The doctor's warning is a line of text.",
        &["doctor"],
        Twist::Event(|_, _, event| match is(&event, "aoi:summary") {
            true => vec![raw("warning: the clock is late\n"), Frame::Json(event)],
            false => send(event),
        }),
    ),
    mutant(
        "aoi-02-debug-on-stdout",
        "AOI-02.prose",
        "With `--debug`, diagnostics stand on stdout.",
        &["search", "x", "--debug"],
        Twist::Event(|facts, notes, event| match facts.has("--debug") {
            true => before("hit", "DEBUG cache miss\n", notes, event),
            false => send(event),
        }),
    ),
    mutant(
        "aoi-02-trace-on-stdout",
        "AOI-02.prose",
        "An error brings a stack trace on stdout.",
        &["get", "absent"],
        Twist::Event(|facts, notes, event| match facts.failure {
            Some("not_found") => {
                let trace = "Traceback (most recent call last):\nKeyError: 'absent'\n";
                before("aoi:error", trace, notes, event)
            }
            _ => send(event),
        }),
    ),
    mutant(
        "aoi-02-coloured",
        "AOI-02.control",
        "Hits are printed in colours.",
        SEARCH,
        Twist::Line(|_, line| {
            hits(line, |text| {
                format!("\u{1b}[32m{}\u{1b}[0m\n", text.trim_end())
            })
        }),
    ),
    mutant(
        "aoi-02-coloured-when-forced",
        "AOI-02.control",
        "With `FORCE_COLOR`, hits are printed in colours.",
        SEARCH,
        Twist::Line(
            |_, line| match is_set("FORCE_COLOR") || is_set("CLICOLOR_FORCE") {
                true => hits(line, |text| {
                    format!("\u{1b}[32m{}\u{1b}[0m\n", text.trim_end())
                }),
                false => line,
            },
        ),
    )
    .env("FORCE_COLOR", "3"),
    mutant(
        "aoi-02-coloured-on-terminal",
        "AOI-02.control",
        "On a terminal, hits are printed in colours.",
        SEARCH,
        Twist::Line(
            |_, line| match std::io::IsTerminal::is_terminal(&std::io::stdout()) {
                true => hits(line, |text| {
                    format!("\u{1b}[32m{}\u{1b}[0m\n", text.trim_end())
                }),
                false => line,
            },
        ),
    )
    .at(Place::Terminal),
    mutant(
        "aoi-02-escape-in-message",
        "AOI-02.escaped-colour-in-framework",
        "The message of an error holds escaped colours.",
        &["get", "absent"],
        Twist::Event(|_, _, event| {
            on("aoi:error", event, |e| {
                set(e, "message", "\u{1b}[31mThere is no such item.\u{1b}[0m")
            })
        }),
    ),
    mutant(
        "aoi-02-byte-order-mark",
        "AOI-02.utf8",
        "The stream begins with a byte order mark.",
        SEARCH,
        Twist::Event(|_, notes, event| before("aoi:meta", "\u{feff}", notes, event)),
    ),
    mutant(
        "aoi-02-latin1",
        "AOI-02.utf8",
        "Hits hold a byte that is no UTF-8.",
        SEARCH,
        Twist::Line(|_, line| {
            let mut bytes = hits(line, |text| text.replace("On ", "On@"));
            bytes
                .iter_mut()
                .filter(|b| **b == b'@')
                .for_each(|b| *b = 0xe9);
            bytes
        }),
    ),
    mutant(
        "aoi-02-no-final-newline",
        "AOI-02.last-line",
        "The last line has no end.",
        SEARCH,
        Twist::Line(|facts, mut line| {
            if facts.command == "search" && line.windows(11).any(|w| w == b"aoi:summary") {
                line.pop();
            }
            line
        }),
    ),
    mutant(
        "aoi-02-duplicate-key",
        "AOI-02.strict-json",
        "Hits have two ids.",
        SEARCH,
        Twist::Line(|_, line| hits(line, |text| text.replacen('{', "{\"id\":\"doc-000\",", 1))),
    ),
    mutant(
        "aoi-02-nan",
        "AOI-02.object",
        "The score of a hit is not a number.",
        SEARCH,
        Twist::Line(|_, line| {
            hits(line, |text| {
                text.replacen("\"score\":", "\"score\":NaN,\"points\":", 1)
            })
        }),
    ),
    mutant(
        "aoi-02-infinity",
        "AOI-02.object",
        "The score of a hit is infinite.",
        SEARCH,
        Twist::Line(|_, line| {
            hits(line, |text| {
                text.replacen("\"score\":", "\"score\":Infinity,\"points\":", 1)
            })
        }),
    ),
    mutant(
        "aoi-02-lone-surrogate",
        "AOI-02.strict-json",
        "Titles hold half a character.",
        SEARCH,
        Twist::Line(|_, line| hits(line, |text| text.replacen("On ", "\\ud800 ", 1))),
    ),
    mutant(
        "aoi-02-two-on-a-line",
        "AOI-02.object",
        "Two objects stand on one line.",
        SEARCH,
        Twist::Line(|_, line| {
            hits(line, |text| {
                format!("{} {{\"type\":\"hit\"}}\n", text.trim_end())
            })
        }),
    ),
    mutant(
        "aoi-02-pretty-printed",
        "AOI-02.object",
        "Hits are spread over several lines.",
        SEARCH,
        Twist::Event(|_, _, event| match is(&event, "hit") {
            true => vec![raw(format!("{event:#}\n"))],
            false => send(event),
        }),
    ),
    mutant(
        "aoi-02-one-big-array",
        "AOI-02.object",
        "The events are the members of one list.",
        SEARCH,
        Twist::Event(|_, _, event| match text(&event, "type") {
            "aoi:meta" => vec![raw(format!("[{event},\n"))],
            "aoi:summary" => vec![raw(format!("{event}]\n"))],
            _ => vec![raw(format!("{event},\n"))],
        }),
    ),
    mutant(
        "aoi-02-trailing-comma",
        "AOI-02.object",
        "A comma stands before the last brace of a hit.",
        SEARCH,
        Twist::Line(|_, line| hits(line, |text| text.replacen("}\n", ",}\n", 1))),
    ),
    mutant(
        "aoi-02-single-quotes",
        "AOI-02.object",
        "Hits are written as Python would show them.",
        SEARCH,
        Twist::Line(|_, line| hits(line, |text| text.replace('"', "'"))),
    ),
    mutant(
        "aoi-02-nul",
        "AOI-02.control",
        "A NUL byte ends each hit.",
        SEARCH,
        Twist::Line(|_, line| hits(line, |text| text.replacen("}\n", "}\0\n", 1))),
    ),
    mutant(
        "aoi-02-delete-character",
        "AOI-02.control",
        "Titles hold a raw DEL.",
        SEARCH,
        Twist::Line(|_, line| hits(line, |text| text.replacen("On ", "On\u{7f} ", 1))),
    ),
    mutant(
        "aoi-02-reserved-summary",
        "AOI-02.reserved-type",
        "An event of the tool's own is called `summary`.",
        SEARCH,
        Twist::Event(|_, notes, event| {
            before(
                "hit",
                "{\"type\":\"summary\",\"text\":\"about agents\"}\n",
                notes,
                event,
            )
        }),
    ),
    mutant(
        "aoi-02-reserved-error",
        "AOI-02.reserved-type",
        "An event of the tool's own is called `error`.",
        SEARCH,
        Twist::Event(|_, notes, event| {
            before(
                "hit",
                "{\"type\":\"error\",\"text\":\"a cache miss\"}\n",
                notes,
                event,
            )
        }),
    ),
    mutant(
        "aoi-02-unprefixed",
        "AOI-02.legacy-unprefixed",
        "Events of the framework have no prefix, as in older drafts.",
        SEARCH,
        Twist::Event(|_, _, mut event| {
            let kind = text(&event, "type").to_owned();
            if let Some(bare) = kind.strip_prefix("aoi:") {
                set(&mut event, "type", bare);
            }
            send(event)
        }),
    ),
    mutant(
        "aoi-02-deep",
        "AOI-02.strict-json",
        "Hits hold lists in lists, two hundred deep.",
        SEARCH,
        Twist::Line(|_, line| {
            let nest = format!("\"nest\":{}{},", "[".repeat(200), "]".repeat(200));
            hits(line, |text| text.replacen('{', &format!("{{{nest}"), 1))
        }),
    ),
    mutant(
        "aoi-02-huge-line",
        "AOI-02.huge-line",
        "Where a version is asked for, a line has seventeen million bytes.",
        &["get", "doc-001", "--schema-version", "1"],
        // Once is enough: whoever reads it has work for seconds.
        Twist::Event(|facts, _, event| match facts.has("--schema-version") {
            true => on("entry", event, |e| set(e, "body", "x".repeat(17 << 20))),
            false => send(event),
        }),
    ),
];
