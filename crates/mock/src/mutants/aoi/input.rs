//! Check 12: invalid lines on stdin.

use serde_json::{Value, json};

use super::tools::*;

const IMPORT: &[&str] = &["import", "--input-jsonl", "-"];
const TOLERANT: &[&str] = &["import", "--input-jsonl", "-", "--continue-on-error"];
const BAD_MIDDLE: &str = "{\"name\":\"a\"}\nnot json\n{\"name\":\"b\"}\n";
const BAD_TWICE: &str = "{\"name\":\"a\"}\nnot json\n{\"name\":\"b\"}\n[1]\n{\"name\":\"c\"}\n";
const UPSTREAM: &str = "{\"type\":\"aoi:meta\",\"tool\":\"other\"}\n{\"type\":\"weather\",\"id\":\"w\"}\n{\"name\":\"a\"}\n{\"type\":\"aoi:summary\",\"ok\":true}\n";

fn of_import(info: &RunInfo) -> bool {
    info.command == "import"
}

const FRAMEWORK: &str =
    "{\"type\":\"aoi:meta\"}\n{\"name\":\"a\"}\n{\"type\":\"aoi:summary\",\"ok\":true}\n";

pub fn mutants() -> Vec<AoiMutant> {
    vec![
        mutant("aoi-12-bad-lines-vanish", "AOI-12.silent-skip")
            .describe("Invalid lines are silently skipped.")
            .violates(&["AOI-12.2-02"])
            .run(IMPORT)
            .quirk(Quirk::BadLinesVanish)
            .input(BAD_MIDDLE),
        mutant("aoi-12-only-first-line-checked", "AOI-12.silent-skip")
            .describe("Only the first line is checked.")
            .violates(&["AOI-12.2-02"])
            .run(IMPORT)
            .quirk(Quirk::OnlyTheFirstLineIsChecked)
            .input(BAD_MIDDLE),
        mutant("aoi-12-effects-after-bad-line", "AOI-12.after-bad-line")
            .describe("The lines after an invalid one are imported although the import failed.")
            .violates(&["AOI-12.2-02"])
            .run(IMPORT)
            .quirk(Quirk::AppliesAfterTheBadLine)
            .input(BAD_MIDDLE),
        mutant("aoi-12-effects-before-bad-line", "AOI-12.before-bad-line")
            .describe("The lines before an invalid one are imported although the import failed.")
            .run(IMPORT)
            .quirk(Quirk::AppliesBeforeTheBadLine)
            .input(BAD_MIDDLE)
            .expect_warning(),
        mutant("aoi-12-tolerant-by-default", "AOI-12.declared-mode")
            .describe("An invalid line does not stop the import, although the tool declares that it does.")
            .violates(&["AOI-12.2-01"])
            .run(IMPORT)
            .args(|args| with(args, "import", "--continue-on-error"))
            .input(BAD_MIDDLE),
        mutant("aoi-12-never-tolerant", "AOI-12.goes-on")
            .describe("An invalid line stops the import even with `--continue-on-error`.")
            .violates(&["AOI-12.2-03"])
            .run(TOLERANT)
            .args(|args| match args.iter().any(|word| word == "import") {
                true => without(args, "--continue-on-error", false),
                false => args,
            })
            .input(BAD_MIDDLE),
        mutant("aoi-12-tolerant-until-the-first", "AOI-12.goes-on")
            .describe("With `--continue-on-error`, the lines after the first invalid one are lost.")
            .violates(&["AOI-12.2-03"])
            .run(TOLERANT)
            .quirk(Quirk::StopsAtTheFirstBadLine)
            .input(BAD_TWICE),
        mutant("aoi-12-line-number-from-zero", "AOI-12.line-number")
            .describe("Line numbers start at 0.")
            .run(IMPORT)
            .events(|_, _, event| match number(&event, "line_number") {
                0 => send(event),
                line => on("aoi:error", event, |e| set(e, "line_number", line - 1)),
            })
            .documents(|_, document| lines_from_zero(document))
            .input(BAD_MIDDLE),
        mutant("aoi-12-no-line-number", "AOI-12.line-number-told")
            .describe("The error does not say which line is invalid.")
            .run(IMPORT)
            .event("aoi:error", removes("line_number"))
            .input(BAD_MIDDLE)
            .expect_warning(),
        mutant("aoi-12-last-line-number", "AOI-12.line-number")
            .describe("The error always has the number of the last line.")
            .run(IMPORT)
            .events(|_, _, event| match number(&event, "line_number") {
                0 => send(event),
                _ => on("aoi:error", event, |e| set(e, "line_number", 9999)),
            })
            .input(BAD_MIDDLE),
        mutant("aoi-12-no-error-event", "AOI-12.error")
            .describe("An invalid line makes the import fail without an error event.")
            .violates(&["AOI-12.2-02", "AOI-19-04"])
            .run(IMPORT)
            .events(|info, _, event| {
                match of_import(info) && info.failure == Some("validation") {
                    true if is(&event, "aoi:error") => Vec::new(),
                    true => on("aoi:summary", event, |e| set(e, "error_count", 0)),
                    false => send(event),
                }
            })
            .input(BAD_MIDDLE),
        mutant("aoi-12-internal-error", "AOI-12.category")
            .describe("An invalid line is reported as an internal error.")
            .violates(&["AOI-9.1-02", "AOI-19-04"])
            .run(IMPORT)
            .events(|info, _, event| {
                match of_import(info) && event.get("line_number").is_some() {
                    true => on("aoi:error", event, |e| set(e, "category", "internal")),
                    false => send(event),
                }
            })
            .input(BAD_MIDDLE),
        mutant("aoi-12-failed-import-ok", "AOI-12.fail-fast")
            .describe("The summary of an import that an invalid line stopped reports a success.")
            .violates(&["AOI-12.2-02"])
            .run(IMPORT)
            .events(|info, _, event| {
                let was_signaled = of_import(info) && info.failure == Some("validation");
                match was_signaled && !info.has("--continue-on-error") {
                    true => on("aoi:summary", event, |e| set(e, "ok", true)),
                    false => send(event),
                }
            })
            .input(BAD_MIDDLE),
        mutant("aoi-12-failed-import-exits-zero", "AOI-12.fail-fast")
            .describe("An import that an invalid line stopped exits with code 0.")
            .violates(&["AOI-12.2-02"])
            .run(IMPORT)
            .exit(|info, code| {
                let was_signaled = of_import(info) && info.failure == Some("validation");
                match was_signaled && !info.has("--continue-on-error") {
                    true => 0,
                    false => code,
                }
            })
            .input(BAD_MIDDLE),
        mutant("aoi-12-not-partial", "AOI-12.partial")
            .describe("An import with invalid lines is not reported as partial.")
            .violates(&["AOI-4.1-04", "AOI-19-05"])
            .run(TOLERANT)
            .event_if(of_import, "aoi:summary", sets("partial", false))
            .input(BAD_MIDDLE),
        mutant("aoi-12-tolerant-is-ok", "AOI-12.tolerant-ok")
            .describe("A tolerant import with invalid lines is reported as partial but successful.")
            .violates(&["AOI-19-05"])
            .run(TOLERANT)
            .events(|info, _, event| {
                let is_partial = event.get("partial") == Some(&Value::Bool(true));
                match of_import(info) && is_partial && info.signal.is_none() {
                    true => on("aoi:summary", event, |e| set(e, "ok", true)),
                    false => send(event),
                }
            })
            .exit(
                |info, code| match info.has("--continue-on-error") && code == 65 {
                    true => 0,
                    false => code,
                },
            )
            .input(BAD_MIDDLE)
            .expect_warning(),
        mutant("aoi-12-two-errors-per-line", "AOI-12.one-error-each")
            .describe("Each invalid line is reported twice.")
            .violates(&["AOI-12.2-03"])
            .run(TOLERANT)
            .events(|info, counters, event| match of_import(info) {
                true if is(&event, "aoi:error") && event.get("line_number").is_some() => {
                    first(counters, "bad");
                    vec![EventFrame::Json(event.clone()), EventFrame::Json(event)]
                }
                true => {
                    let errors = number(&event, "error_count");
                    let more = counters.get("bad").copied().unwrap_or_default();
                    on("aoi:summary", event, |e| {
                        set(e, "error_count", errors + more)
                    })
                }
                false => send(event),
            })
            .input(BAD_MIDDLE),
        mutant("aoi-12-lists-pass", "AOI-12.silent-skip")
            .describe("A list is imported as an item.")
            .violates(&["AOI-12.2-02"])
            .run(IMPORT)
            .quirk(Quirk::NonObjectsPass)
            .input("{\"name\":\"a\"}\n[1]\n"),
        mutant("aoi-12-misspelt-passes", "AOI-12.silent-skip")
            .describe("A line with a misspelled field is imported.")
            .violates(&["AOI-12.2-02"])
            .run(IMPORT)
            .quirk(Quirk::FieldTypesPass)
            .input("{\"nmae\":1}\n"),
        mutant("aoi-12-last-line-lost", "AOI-12.last-line")
            .describe("A last line without a newline is lost.")
            .run(IMPORT)
            .quirk(Quirk::LastLineNeedsItsEnd)
            .input("{\"name\":\"a\"}\n{\"name\":\"b\"}"),
        mutant("aoi-12-carriage-return", "AOI-12.crlf")
            .describe("Lines that end in CR and LF are rejected.")
            .run(IMPORT)
            .quirk(Quirk::LineFeedsOnly)
            .input("{\"name\":\"a\"}\r\n{\"name\":\"b\"}\r\n"),
        mutant("aoi-12-long-lines-fail", "AOI-12.long-line")
            .describe("Lines of more than 8 KiB are rejected.")
            .run(IMPORT)
            .quirk(Quirk::LongLinesFail)
            .input(LONG),
        mutant("aoi-12-framework-is-data", "AOI-12.upstream")
            .describe("The upstream meta event is treated as an invalid item.")
            .violates(&["AOI-13-01", "AOI-13-02"])
            .run(IMPORT)
            .quirk(Quirk::FrameworkIsData)
            .quirk(Quirk::UnknownTypesFail)
            .input(FRAMEWORK),
        mutant("aoi-12-unknown-types-fail", "AOI-12.unknown-type")
            .describe("An event of an unknown type stops the import.")
            .run(IMPORT)
            .quirk(Quirk::UnknownTypesFail)
            .input(UPSTREAM)
            .expect_warning(),
        mutant("aoi-12-rank-bad-lines-vanish", "AOI-12.silent-skip")
            .describe("`rank` silently skips invalid lines.")
            .violates(&["AOI-12.2-02"])
            .run(&["rank", "--input-jsonl", "-"])
            .quirk(Quirk::BadLinesVanish)
            .input("{\"type\":\"hit\",\"id\":\"a\"}\nnot json\n"),
        mutant("aoi-12-mode-unsaid", "AOI-12.mode-manifest")
            .describe("The capabilities do not say how invalid lines are handled.")
            .violates(&["AOI-12.2-01", "AOI-12.2-04"])
            .run(&["capabilities", "--output", "json"])
            .each_command(removes("input"))
            .expect_warning(),
        mutant("aoi-12-hits-rejected", "AOI-12.good")
            .describe("`rank` rejects the hits of another tool.")
            .violates(&["AOI-0-02", "AOI-13-05"])
            .run(&["rank", "--input-jsonl", "-"])
            .input("{\"type\":\"hit\",\"id\":\"a\"}\n")
            .exit(|info, code| match info.command == "rank" && code == 0 {
                true => 65,
                false => code,
            }),
        mutant("aoi-12-mode-misstated", "AOI-12.declared-mode")
            .describe("The capabilities say that invalid lines are tolerated by default.")
            .violates(&["AOI-12.2-01"])
            .run(&["capabilities", "--output", "json"])
            .each_command(|command| {
                if let Some(input) = command.get_mut("input") {
                    set(input, "default", "continue");
                }
            }),
    ]
}

/// Input line with a name of ten thousand letters.
static LONG: &str = {
    const NAME: [u8; 10_000] = [b'x'; 10_000];
    const HEAD: &[u8] = b"{\"name\":\"";
    const TAIL: &[u8] = b"\"}\n";
    const WHOLE: [u8; 10_000 + HEAD.len() + TAIL.len()] = {
        let mut whole = [0; 10_000 + HEAD.len() + TAIL.len()];
        let (head, rest) = whole.split_at_mut(HEAD.len());
        let (name, tail) = rest.split_at_mut(NAME.len());
        head.copy_from_slice(HEAD);
        name.copy_from_slice(&NAME);
        tail.copy_from_slice(TAIL);
        whole
    };
    match std::str::from_utf8(&WHOLE) {
        Ok(text) => text,
        Err(_) => "",
    }
};

/// Adapts the schema to line numbers that start at 0.
fn lines_from_zero(mut document: Value) -> EventFrame {
    if let Some(line) = document.pointer_mut("/$defs/aoi:error/properties/line_number") {
        *line = json!({ "type": "integer", "minimum": 0 });
    }
    EventFrame::Json(document)
}
