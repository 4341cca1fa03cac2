//! Check 12: bad lines on stdin.

use serde_json::{Value, json};

use super::tools::*;

const IMPORT: &[&str] = &["import", "--input-jsonl", "-"];
const TOLERANT: &[&str] = &["import", "--input-jsonl", "-", "--continue-on-error"];
const BAD_MIDDLE: &str = "{\"name\":\"a\"}\nnot json\n{\"name\":\"b\"}\n";
const BAD_TWICE: &str = "{\"name\":\"a\"}\nnot json\n{\"name\":\"b\"}\n[1]\n{\"name\":\"c\"}\n";
const UPSTREAM: &str = "{\"type\":\"aoi:meta\",\"tool\":\"other\"}\n{\"type\":\"weather\",\"id\":\"w\"}\n{\"name\":\"a\"}\n{\"type\":\"aoi:summary\",\"ok\":true}\n";

fn of_import(facts: &Facts) -> bool {
    facts.command == "import"
}

pub static MUTANTS: &[Mutant] = &[
    mutant(
        "aoi-12-bad-lines-vanish",
        "AOI-12.silent-skip",
        "Bad lines are left out, and nobody is told.",
        IMPORT,
        Twist::Quirk(Quirk::BadLinesVanish),
    )
    .input(BAD_MIDDLE),
    mutant(
        "aoi-12-only-first-line-checked",
        "AOI-12.silent-skip",
        "Only the first line is checked.",
        IMPORT,
        Twist::Quirk(Quirk::OnlyTheFirstLineIsChecked),
    )
    .input(BAD_MIDDLE),
    mutant(
        "aoi-12-effects-after-bad-line",
        "AOI-12.after-bad-line",
        "The lines after a bad one are imported although the import failed.",
        IMPORT,
        Twist::Quirk(Quirk::AppliesAfterTheBadLine),
    )
    .input(BAD_MIDDLE),
    mutant(
        "aoi-12-effects-before-bad-line",
        "AOI-12.before-bad-line",
        "The lines before a bad one are imported although the import failed.",
        IMPORT,
        Twist::Quirk(Quirk::AppliesBeforeTheBadLine),
    )
    .input(BAD_MIDDLE)
    .warns(),
    mutant(
        "aoi-12-tolerant-by-default",
        "AOI-12.declared-mode",
        "A bad line does not stop the import, although the tool says so.",
        IMPORT,
        Twist::Args(|args| with(args, "import", "--continue-on-error")),
    )
    .input(BAD_MIDDLE),
    mutant(
        "aoi-12-never-tolerant",
        "AOI-12.goes-on",
        "A bad line stops the import even with `--continue-on-error`.",
        TOLERANT,
        Twist::Args(|args| match args.iter().any(|word| word == "import") {
            true => without(args, "--continue-on-error", false),
            false => args,
        }),
    )
    .input(BAD_MIDDLE),
    mutant(
        "aoi-12-tolerant-until-the-first",
        "AOI-12.goes-on",
        "With `--continue-on-error`, the lines after the first bad one are lost.",
        TOLERANT,
        Twist::Quirk(Quirk::StopsAtTheFirstBadLine),
    )
    .input(BAD_TWICE),
    mutant(
        "aoi-12-line-number-from-zero",
        "AOI-12.line-number",
        "Lines are counted from 0.",
        IMPORT,
        Twist::Event(|_, _, event| match number(&event, "line_number") {
            0 => send(event),
            line => on("aoi:error", event, |e| set(e, "line_number", line - 1)),
        }),
    )
    .and(Twist::Document(|_, document| lines_from_zero(document)))
    .input(BAD_MIDDLE),
    mutant(
        "aoi-12-no-line-number",
        "AOI-12.line-number-told",
        "The error does not say which line is bad.",
        IMPORT,
        Twist::Event(|_, _, event| on("aoi:error", event, |e| remove(e, "line_number"))),
    )
    .input(BAD_MIDDLE)
    .warns(),
    mutant(
        "aoi-12-last-line-number",
        "AOI-12.line-number",
        "The error names the last line, whichever is bad.",
        IMPORT,
        Twist::Event(|_, _, event| match number(&event, "line_number") {
            0 => send(event),
            _ => on("aoi:error", event, |e| set(e, "line_number", 9999)),
        }),
    )
    .input(BAD_MIDDLE),
    mutant(
        "aoi-12-no-error-event",
        "AOI-12.error",
        "A bad line fails the import without an error event.",
        IMPORT,
        Twist::Event(|facts, _, event| {
            match of_import(facts) && facts.failure == Some("validation") {
                true if is(&event, "aoi:error") => Vec::new(),
                true => on("aoi:summary", event, |e| set(e, "error_count", 0)),
                false => send(event),
            }
        }),
    )
    .input(BAD_MIDDLE),
    mutant(
        "aoi-12-internal-error",
        "AOI-12.category",
        "A bad line is an internal error.",
        IMPORT,
        Twist::Event(|facts, _, event| {
            match of_import(facts) && event.get("line_number").is_some() {
                true => on("aoi:error", event, |e| set(e, "category", "internal")),
                false => send(event),
            }
        }),
    )
    .input(BAD_MIDDLE),
    mutant(
        "aoi-12-failed-import-ok",
        "AOI-12.fail-fast",
        "An import that a bad line stopped is summed up as a success.",
        IMPORT,
        Twist::Event(|facts, _, event| {
            let stopped = of_import(facts) && facts.failure == Some("validation");
            match stopped && !facts.has("--continue-on-error") {
                true => on("aoi:summary", event, |e| set(e, "ok", true)),
                false => send(event),
            }
        }),
    )
    .input(BAD_MIDDLE),
    mutant(
        "aoi-12-failed-import-exits-zero",
        "AOI-12.fail-fast",
        "An import that a bad line stopped has exit code 0.",
        IMPORT,
        Twist::Exit(|facts, code| {
            let stopped = of_import(facts) && facts.failure == Some("validation");
            match stopped && !facts.has("--continue-on-error") {
                true => 0,
                false => code,
            }
        }),
    )
    .input(BAD_MIDDLE),
    mutant(
        "aoi-12-not-partial",
        "AOI-12.partial",
        "An import with bad lines is not called partial.",
        TOLERANT,
        Twist::Event(|facts, _, event| match of_import(facts) {
            true => on("aoi:summary", event, |e| set(e, "partial", false)),
            false => send(event),
        }),
    )
    .input(BAD_MIDDLE),
    mutant(
        "aoi-12-tolerant-is-ok",
        "AOI-12.tolerant-ok",
        "A tolerant import with bad lines is partial and well.",
        TOLERANT,
        Twist::Event(|facts, _, event| {
            let is_partial = event.get("partial") == Some(&Value::Bool(true));
            match of_import(facts) && is_partial && facts.signal.is_none() {
                true => on("aoi:summary", event, |e| set(e, "ok", true)),
                false => send(event),
            }
        }),
    )
    .and(Twist::Exit(|facts, code| {
        match facts.has("--continue-on-error") && code == 65 {
            true => 0,
            false => code,
        }
    }))
    .input(BAD_MIDDLE)
    .warns(),
    mutant(
        "aoi-12-two-errors-per-line",
        "AOI-12.one-error-each",
        "Each bad line is reported twice.",
        TOLERANT,
        Twist::Event(|facts, notes, event| match of_import(facts) {
            true if is(&event, "aoi:error") && event.get("line_number").is_some() => {
                first(notes, "bad");
                vec![Frame::Json(event.clone()), Frame::Json(event)]
            }
            true => {
                let errors = number(&event, "error_count");
                let more = notes.get("bad").copied().unwrap_or_default();
                on("aoi:summary", event, |e| {
                    set(e, "error_count", errors + more)
                })
            }
            false => send(event),
        }),
    )
    .input(BAD_MIDDLE),
    mutant(
        "aoi-12-lists-pass",
        "AOI-12.silent-skip",
        "A list is imported as if it were an item.",
        IMPORT,
        Twist::Quirk(Quirk::NonObjectsPass),
    )
    .input("{\"name\":\"a\"}\n[1]\n"),
    mutant(
        "aoi-12-misspelt-passes",
        "AOI-12.silent-skip",
        "A line with a misspelt field is imported.",
        IMPORT,
        Twist::Quirk(Quirk::FieldTypesPass),
    )
    .input("{\"nmae\":1}\n"),
    mutant(
        "aoi-12-last-line-lost",
        "AOI-12.last-line",
        "A last line without its end is lost.",
        IMPORT,
        Twist::Quirk(Quirk::LastLineNeedsItsEnd),
    )
    .input("{\"name\":\"a\"}\n{\"name\":\"b\"}"),
    mutant(
        "aoi-12-carriage-return",
        "AOI-12.crlf",
        "Lines that end in CR and LF are bad.",
        IMPORT,
        Twist::Quirk(Quirk::LineFeedsOnly),
    )
    .input("{\"name\":\"a\"}\r\n{\"name\":\"b\"}\r\n"),
    mutant(
        "aoi-12-long-lines-fail",
        "AOI-12.long-line",
        "Lines of more than 8 KiB are bad.",
        IMPORT,
        Twist::Quirk(Quirk::LongLinesFail),
    )
    .input(LONG),
    mutant(
        "aoi-12-framework-is-data",
        "AOI-12.upstream",
        "The meta event of the upstream is taken for a bad item.",
        IMPORT,
        Twist::Quirk(Quirk::FrameworkIsData),
    )
    .and(Twist::Quirk(Quirk::UnknownTypesFail))
    .input("{\"type\":\"aoi:meta\"}\n{\"name\":\"a\"}\n{\"type\":\"aoi:summary\",\"ok\":true}\n"),
    mutant(
        "aoi-12-unknown-types-fail",
        "AOI-12.unknown-type",
        "An event of an unknown type stops the import.",
        IMPORT,
        Twist::Quirk(Quirk::UnknownTypesFail),
    )
    .input(UPSTREAM)
    .warns(),
    mutant(
        "aoi-12-rank-bad-lines-vanish",
        "AOI-12.silent-skip",
        "`rank` leaves bad lines out, and nobody is told.",
        &["rank", "--input-jsonl", "-"],
        Twist::Quirk(Quirk::BadLinesVanish),
    )
    .input("{\"type\":\"hit\",\"id\":\"a\"}\nnot json\n"),
    mutant(
        "aoi-12-mode-unsaid",
        "AOI-12.mode-manifest",
        "The capabilities do not say what becomes of bad lines.",
        &["capabilities", "--output", "json"],
        Twist::Document(|_, mut document| {
            let commands = document.get_mut("commands").and_then(Value::as_array_mut);
            for command in commands.into_iter().flatten() {
                remove(command, "input");
            }
            Frame::Json(document)
        }),
    )
    .warns(),
    mutant(
        "aoi-12-mode-misstated",
        "AOI-12.declared-mode",
        "The capabilities say that bad lines are tolerated unless told.",
        &["capabilities", "--output", "json"],
        Twist::Document(|_, mut document| {
            let commands = document.get_mut("commands").and_then(Value::as_array_mut);
            for command in commands.into_iter().flatten() {
                if let Some(input) = command.get_mut("input") {
                    set(input, "default", "continue");
                }
            }
            Frame::Json(document)
        }),
    ),
];

/// Ten thousand letters in a name.
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

/// The schema of a tool that counts from 0.
fn lines_from_zero(mut document: Value) -> Frame {
    if let Some(line) = document.pointer_mut("/$defs/aoi:error/properties/line_number") {
        *line = json!({ "type": "integer", "minimum": 0 });
    }
    Frame::Json(document)
}
