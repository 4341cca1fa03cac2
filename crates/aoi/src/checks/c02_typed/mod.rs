//! Check 2: machine mode prints JSONL, one object with a type per line, and nothing else. It
//! examines the stdout of every run of the session.

mod prose;
mod strict;
mod variants;
mod wording;

use std::collections::BTreeMap;
use std::sync::Arc;

use agentproto_text::strict_json::{JsonErrorKind, JsonQuirkKind};

use super::tally::RuleTally;
use crate::capture::Capture;
use crate::model::{CheckId, TOOL};
use crate::rules::{Level, Rule, Topic};
use crate::session::LintSession;
use crate::stream::{EventLine, EventStream, FRAMEWORK};
pub use variants::run_variants;
use wording::{TERMINAL, TRACE_IN_EVENT, WARNING_IN_EVENT};

pub const RULES: &[&Rule] = &[
    &OBJECT,
    &PROSE,
    &UTF8,
    &CONTROL,
    &STRICT,
    &LAST_LINE,
    &CRLF,
    &BLANK,
    &BIG,
    &LONG,
    &HUGE,
    &TYPE,
    &RESERVED,
    &LEGACY,
    &UNKNOWN,
    &ESCAPED,
    &ESCAPED_FRAMEWORK,
    &TRACE_IN_EVENT,
    &WARNING_IN_EVENT,
    &TERMINAL,
];

const LONG_LINE: usize = 1 << 20;

const HUGE_LINE: usize = 16 << 20;

/// Checks the stdout of every run in machine mode.
pub fn check(session: &LintSession) {
    let mut by_command: BTreeMap<String, Vec<Arc<Capture>>> = BTreeMap::new();
    for capture in session.captures() {
        if capture.is_machine {
            let runs = by_command.entry(capture.command.clone()).or_default();
            runs.push(capture);
        }
    }
    for command in session.commands() {
        by_command.entry(command.name.clone()).or_default();
    }
    for (command, runs) in &by_command {
        check_command(session, command, runs);
    }
}

type Tallies = BTreeMap<&'static str, RuleTally>;

fn check_command(session: &LintSession, command: &str, runs: &[Arc<Capture>]) {
    let mut tallies: Tallies = RULES
        .iter()
        .map(|rule| (rule.id, RuleTally::default()))
        .collect();
    let mut lines = 0;
    for run in runs {
        lines += check_run(run, &mut tallies);
        let shown = wording::terminal_output(run);
        if let (Some(shown), Some(tally)) = (shown, tallies.get_mut(TERMINAL.id)) {
            tally.record(run, shown, "no text on the controlling terminal");
        }
    }
    let reporter = session.reporter(command);
    for rule in RULES.iter().copied() {
        let mut tally = tallies.remove(rule.id).unwrap_or_default();
        if rule.id == TERMINAL.id {
            tally.report(reporter, rule, |reporter, rule| {
                reporter.not_applicable(rule, "the command was not run on a terminal");
            });
            continue;
        }
        if lines > 0 {
            tally.pass(format!("{lines} lines in {} runs", runs.len()));
        }
        tally.report(reporter, rule, |reporter, rule| {
            match (command, runs.len()) {
                (TOOL, _) => {
                    reporter.not_applicable(rule, "no run of the tool itself printed a line")
                }
                (_, 0) => reporter.skip(rule, "the command was not run"),
                _ => reporter.not_verified(rule, "no run of the command printed a line"),
            }
        });
    }
}

static OBJECT: Rule = Rule {
    id: "AOI-02.object",
    check: CheckId::Number(2),
    level: Level::Must,
    section: "§2",
    requirement: "Every line of machine mode is one complete JSON object",
    why: "Callers parse line by line, and a line that is not an object stops them.",
    hint: "Write each event as one compact JSON object on its own line, without an array around \
           them and without pretty-printing.",
    topic: Topic::Json,
    requirement_ids: &[
        "AOI-1-01",
        "AOI-2-02",
        "AOI-13.1-02",
        "AOI-16.1-03",
        "AOI-16.2-04",
        "AOI-18.2-02",
        "AOI-21-01",
    ],
};

static UTF8: Rule = Rule {
    id: "AOI-02.utf8",
    check: CheckId::Number(2),
    level: Level::Must,
    section: "§2",
    requirement: "Machine mode prints UTF-8 without a byte order mark to stdout",
    why: "JSON between programs is UTF-8. A strict decoder stops at the first invalid byte.",
    hint: "Encode output as UTF-8 regardless of the locale, and do not write a byte order mark.",
    topic: Topic::Json,
    requirement_ids: &["AOI-2-01"],
};

static LAST_LINE: Rule = Rule {
    id: "AOI-02.last-line",
    check: CheckId::Number(2),
    level: Level::Must,
    section: "§2",
    requirement: "The last line of machine mode ends with a line feed",
    why: "Without it, a caller cannot tell whether the last event is complete.",
    hint: "Write a line feed after every event, including the summary.",
    topic: Topic::Json,
    requirement_ids: &["AOI-2-01"],
};

static LEGACY: Rule = Rule {
    id: "AOI-02.legacy-unprefixed",
    check: CheckId::Number(2),
    level: Level::Must,
    section: "§8.2",
    requirement: "Framework events have the prefix `aoi:`",
    why: "An early draft of v0.2 used `meta` and `summary`. Current callers expect `aoi:meta` and \
          `aoi:summary`.",
    hint: "Add the prefix `aoi:` to meta, summary, warning, error, heartbeat, plan, check and \
           progress.",
    topic: Topic::Json,
    requirement_ids: &["AOI-8.2-01"],
};

/// Checks one run. Returns the number of its lines.
fn check_run(run: &Arc<Capture>, tallies: &mut Tallies) -> usize {
    let mut violation = |rule: &Rule, message: String| {
        if let Some(tally) = tallies.get_mut(rule.id) {
            tally.violation(run, || message);
        }
    };
    let bytes = &run.stdout;
    let name = &run.probe;
    if bytes.starts_with(b"\xef\xbb\xbf") {
        violation(&UTF8, format!("`{name}` starts with a byte order mark"));
    }
    if let Err(error) = std::str::from_utf8(bytes)
        && (error.error_len().is_some() || !run.is_incomplete())
    {
        let at = error.valid_up_to();
        violation(&UTF8, format!("`{name}`: invalid UTF-8 at offset {at}"));
    }
    let mut stream = EventStream::parse(bytes);
    if run.is_incomplete() && stream.lines.last().is_some_and(|line| !line.complete) {
        stream.lines.pop();
    }
    let is_legacy = stream.is_legacy();
    if is_legacy {
        let text = "`meta` with `aoi_version`: framework events have no `aoi:` prefix";
        violation(&LEGACY, format!("`{name}`: {text}"));
    }
    // A document that spans all lines would violate the rule on every line, so it is reported once.
    let whole = single_value(bytes, &stream);
    if let Some(what) = whole {
        violation(&OBJECT, format!("`{name}`: {what}"));
    }
    for line in &stream.lines {
        check_line(run, line, is_legacy, whole.is_some(), &mut violation);
    }
    if let Some(last) = stream.lines.last()
        && !last.complete
    {
        let position = position(run, last, last.bytes.len());
        violation(
            &LAST_LINE,
            format!("{position}: the last line has no line feed"),
        );
    }
    stream.lines.len()
}

fn position(run: &Capture, line: &EventLine, run_mutation: usize) -> String {
    let offset = line.offset + run_mutation;
    format!("`{}`, line {} (offset {offset})", run.probe, line.number)
}

/// Detects output that is one JSON value over several lines, or one array.
fn single_value(bytes: &[u8], stream: &EventStream) -> Option<&'static str> {
    let first = stream.lines.first()?;
    let begins = first
        .bytes
        .iter()
        .find(|byte| !byte.is_ascii_whitespace())?;
    if stream.lines.len() > 1 && first.json.is_none() && strict::read(bytes).is_ok() {
        return Some("one JSON value over several lines; expected one object per line");
    }
    let is_array = *begins == b'[' && stream.lines.len() == 1 && first.json.is_some();
    is_array.then_some(
        "one JSON array, which delays every result until the end; expected one object per line",
    )
}

static PROSE: Rule = Rule {
    id: "AOI-02.prose",
    check: CheckId::Number(2),
    level: Level::Must,
    section: "§2",
    requirement: "Machine mode prints no banner, heading, progress bar, stack trace, plain-text \
              warning or other prose to stdout",
    why: "Callers parse line by line, and one line of prose stops them.",
    hint: "Print only events to stdout. Send logs, warnings and progress to stderr, or emit them \
           as events.",
    topic: Topic::Json,
    requirement_ids: &[
        "AOI-1-02",
        "AOI-1.2-02",
        "AOI-2-04",
        "AOI-2-05",
        "AOI-2-07",
        "AOI-2-08",
        "AOI-2-09",
        "AOI-2-10",
    ],
};

static CONTROL: Rule = Rule {
    id: "AOI-02.control",
    check: CheckId::Number(2),
    level: Level::Must,
    section: "§2",
    requirement: "Machine mode prints no color codes and no control characters to stdout, even on a \
              terminal",
    why: "Escape codes are not valid JSON, and they can hide text from a human who looks at the \
          stream.",
    hint: "Disable color in machine mode, even if FORCE_COLOR is set or stdout is a terminal.",
    topic: Topic::Json,
    requirement_ids: &["AOI-2-06", "AOI-16.1-12"],
};

static STRICT: Rule = Rule {
    id: "AOI-02.strict-json",
    check: CheckId::Number(2),
    level: Level::Must,
    section: "§2",
    requirement: "An event has no duplicate keys, no lone surrogates and at most 128 levels of nesting",
    why: "Parsers disagree on such events: some use the first key, some the last, some reject the \
          event.",
    hint: "Serialize events from a map or struct with a JSON library, not by concatenating \
           strings.",
    topic: Topic::Json,
    requirement_ids: &["AOI-2-01"],
};

static CRLF: Rule = Rule {
    id: "AOI-02.crlf",
    check: CheckId::Number(2),
    level: Level::Open,
    section: "§2",
    requirement: "Lines end with a line feed only",
    why: "A carriage return is whitespace to a JSON parser, but changes byte comparisons.",
    hint: "Write \"\\n\", not the platform's line ending.",
    topic: Topic::Json,
    requirement_ids: &["AOI-2-01"],
};

static BLANK: Rule = Rule {
    id: "AOI-02.blank-line",
    check: CheckId::Number(2),
    level: Level::Open,
    section: "§2",
    requirement: "Events are not separated by blank lines",
    why: "Every line is one object, and a strict caller fails on an empty line.",
    hint: "Write exactly one line feed after each event.",
    topic: Topic::Json,
    requirement_ids: &["AOI-2-02"],
};

static BIG: Rule = Rule {
    id: "AOI-02.big-integer",
    check: CheckId::Number(2),
    level: Level::Open,
    section: "§2",
    requirement: "Integers are within ±2^53",
    why: "Many parsers store numbers as doubles, which changes larger integers.",
    hint: "Write long ids and nanoseconds as strings.",
    topic: Topic::Json,
    requirement_ids: &["AOI-2-01"],
};

static LONG: Rule = Rule {
    id: "AOI-02.long-line",
    check: CheckId::Number(2),
    level: Level::Open,
    section: "§2",
    requirement: "A line has at most 1 MiB",
    why: "Callers read lines into bounded buffers.",
    hint: "Split large payloads into several events, or refer to a file.",
    topic: Topic::Json,
    requirement_ids: &["AOI-2-02"],
};

static HUGE: Rule = Rule {
    id: "AOI-02.huge-line",
    check: CheckId::Number(2),
    level: Level::Must,
    section: "§21",
    requirement: "A line has at most 16 MiB",
    why: "A line of that size is a document, not an event, and cannot be processed incrementally.",
    hint: "Split large payloads into several events, or refer to a file.",
    topic: Topic::Json,
    requirement_ids: &["AOI-21-01"],
};

fn check_line(
    run: &Capture,
    line: &EventLine,
    is_legacy: bool,
    is_whole: bool,
    violation: &mut dyn FnMut(&Rule, String),
) {
    let at = |run_mutation| position(run, line, run_mutation);
    let bytes = match line.bytes.strip_suffix(b"\r") {
        Some(rest) if line.complete => {
            violation(
                &CRLF,
                format!("{}: the line ends with CR LF", at(rest.len())),
            );
            rest
        }
        _ => &line.bytes,
    };
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return violation(&BLANK, format!("{}: blank line", at(0)));
    }
    let is_control = |byte: &u8| (*byte < 0x20 && *byte != b'\t') || *byte == 0x7f;
    if let Some(run_mutation) = bytes.iter().position(is_control) {
        let byte = bytes.get(run_mutation).copied().unwrap_or_default();
        violation(
            &CONTROL,
            format!("{}: {}", at(run_mutation), describe_control(byte)),
        );
    }
    if bytes.len() > HUGE_LINE {
        return violation(
            &HUGE,
            format!("{}: the line has {} bytes", at(0), bytes.len()),
        );
    }
    if bytes.len() > LONG_LINE {
        violation(
            &LONG,
            format!("{}: the line has {} bytes", at(0), bytes.len()),
        );
    }
    if is_whole {
        return;
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    match strict::read(bytes) {
        Err(error) if error.problem == JsonErrorKind::TooDeep => {
            violation(
                &STRICT,
                format!("{}: {}", at(error.offset), error.describe()),
            );
        }
        Err(error) => match prose::kind(bytes) {
            Some(kind) => {
                let shown = prose::excerpt(bytes);
                violation(
                    &PROSE,
                    format!("{}: expected an event, found {kind}: {shown}", at(0)),
                );
            }
            None => {
                violation(
                    &OBJECT,
                    format!("{}: invalid JSON: {}", at(error.offset), error.describe()),
                );
            }
        },
        Ok(notes) => {
            if let Some(name) = notes
                .first(JsonQuirkKind::DuplicateKey)
                .map(|quirk| &quirk.text)
            {
                violation(&STRICT, format!("{}: duplicate key {name:?}", at(0)));
            }
            if notes.first(JsonQuirkKind::LoneSurrogate).is_some() {
                violation(&STRICT, format!("{}: a lone surrogate", at(0)));
            }
            if let Some(quirk) = notes.first(JsonQuirkKind::BigInteger) {
                let number: String = quirk.text.chars().take(24).collect();
                violation(
                    &BIG,
                    format!("{}: the integer {number} is outside ±2^53", at(0)),
                );
            }
            check_event(
                line,
                bytes,
                notes.has_terminal_code,
                is_legacy,
                &at(0),
                violation,
            );
        }
    }
}

static TYPE: Rule = Rule {
    id: "AOI-02.type",
    check: CheckId::Number(2),
    level: Level::Must,
    section: "§2",
    requirement: "Every event has a `type` that is a non-empty string",
    why: "The type tells a caller what the event is.",
    hint: "Add a `type` to every object.",
    topic: Topic::Json,
    requirement_ids: &["AOI-2-03", "AOI-8.1-01"],
};

static RESERVED: Rule = Rule {
    id: "AOI-02.reserved-type",
    check: CheckId::Number(2),
    level: Level::Must,
    section: "§8.2",
    requirement: "No domain event has the unprefixed name of a framework event",
    why: "With `summary` or `error` without `aoi:`, a caller cannot tell framework events from \
          domain events.",
    hint: "Write framework events with the prefix `aoi:`, and rename your own events.",
    topic: Topic::Json,
    requirement_ids: &["AOI-8.2-02", "AOI-8.2-03", "AOI-8.2-04", "AOI-8.2-05"],
};

static UNKNOWN: Rule = Rule {
    id: "AOI-02.unknown-framework-type",
    check: CheckId::Number(2),
    level: Level::Should,
    section: "§8.2",
    requirement: "The prefix `aoi:` is used only for the framework's own types",
    why: "The prefix is reserved for the spec. A later version may give your type another meaning.",
    hint: "Name your own events without the prefix.",
    topic: Topic::Json,
    requirement_ids: &["AOI-8.2-01"],
};

static ESCAPED: Rule = Rule {
    id: "AOI-02.escaped-colour",
    check: CheckId::Number(2),
    level: Level::Open,
    section: "§2",
    requirement: "Domain events contain no escaped color codes",
    why: "Callers that print the field print the colors as well. Data may contain them for a good \
          reason, so this only warns.",
    hint: "Remove color codes that the tool itself added.",
    topic: Topic::Json,
    requirement_ids: &["AOI-2-06"],
};

static ESCAPED_FRAMEWORK: Rule = Rule {
    id: "AOI-02.escaped-colour-in-framework",
    check: CheckId::Number(2),
    level: Level::Must,
    section: "§2",
    requirement: "Framework events contain no escaped color codes",
    why: "The tool writes these strings itself, and color in them is meant for a terminal.",
    hint: "Create the messages of events without color.",
    topic: Topic::Json,
    requirement_ids: &["AOI-2-06"],
};

fn check_event(
    line: &EventLine,
    bytes: &[u8],
    has_escape_code: bool,
    is_legacy: bool,
    position: &str,
    violation: &mut dyn FnMut(&Rule, String),
) {
    if bytes.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
        return violation(
            &OBJECT,
            format!("{position}: expected a JSON object, found another JSON value"),
        );
    }
    let kind = line.get("type");
    let named = kind
        .and_then(|kind| kind.as_str())
        .filter(|kind| !kind.is_empty());
    let Some(named) = named else {
        // A line that this parser rejects was already reported, and its type is unknown.
        if line.json.is_some() {
            let what = match kind {
                None => "the event has no `type`".to_owned(),
                Some(other) => format!("`type` must be a non-empty string, found {other}"),
            };
            violation(&TYPE, format!("{position}: {what}"));
        }
        return;
    };
    let is_framework = FRAMEWORK.contains(&named);
    let bare = FRAMEWORK
        .iter()
        .any(|known| known.strip_prefix("aoi:") == Some(named));
    if bare && !is_legacy {
        let text =
            format!("{position}: `{named}` is reserved for the framework event `aoi:{named}`");
        violation(&RESERVED, text);
    }
    if named.starts_with("aoi:") && !is_framework {
        violation(
            &UNKNOWN,
            format!("{position}: the spec does not define `{named}`"),
        );
    }
    if let Some(event) = &line.json {
        if let Some(what) = wording::trace(named, event) {
            violation(&TRACE_IN_EVENT, format!("{position}: {what}"));
        }
        if let Some(what) = wording::warning(named, event) {
            violation(&WARNING_IN_EVENT, format!("{position}: {what}"));
        }
    }
    if has_escape_code {
        let rule = if is_framework {
            &ESCAPED_FRAMEWORK
        } else {
            &ESCAPED
        };
        violation(
            rule,
            format!("{position}: an escaped color code in `{named}`"),
        );
    }
}

fn describe_control(byte: u8) -> String {
    match byte {
        0x1b => "a terminal escape code".to_owned(),
        b'\r' => "a carriage return within the line, as in progress bars".to_owned(),
        other => format!("the control character {other:#04x}"),
    }
}
