//! Check 2: machine mode prints JSONL, one object with a type per line, and nothing else. It
//! examines the stdout of every run of the session.

mod prose;
mod strict;
mod tempt;

use std::collections::BTreeMap;
use std::sync::Arc;

use agentproto_text::strict_json::{Odd, Problem};

use super::tally::Tally;
use crate::capture::Capture;
use crate::model::{Check, TOOL};
use crate::rules::{Level, Rule, Topic};
use crate::session::Session;
use crate::stream::{FRAMEWORK, Line, Stream};
pub use tempt::tempt;

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
    &ESCAPED_FRAME,
];

const LONG_LINE: usize = 1 << 20;

const HUGE_LINE: usize = 16 << 20;

/// Checks the stdout of every run in machine mode.
pub fn check(session: &Session) {
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
        judge(session, command, runs);
    }
}

type Tallies = BTreeMap<&'static str, Tally>;

fn judge(session: &Session, command: &str, runs: &[Arc<Capture>]) {
    let mut tallies: Tallies = RULES
        .iter()
        .map(|rule| (rule.id, Tally::default()))
        .collect();
    let mut lines = 0;
    for run in runs {
        lines += look(run, &mut tallies);
    }
    let judge = session.judge(command);
    for rule in RULES.iter().copied() {
        let mut tally = tallies.remove(rule.id).unwrap_or_default();
        if lines > 0 {
            tally.held(format!("{lines} lines in {} runs", runs.len()));
        }
        tally.settle(judge, rule, |judge, rule| match (command, runs.len()) {
            (TOOL, _) => judge.not_applicable(rule, "no run of the tool itself printed a line"),
            (_, 0) => judge.skip(rule, "the command was not run"),
            _ => judge.not_verified(rule, "no run of the command printed a line"),
        });
    }
}

static OBJECT: Rule = Rule {
    id: "AOI-02.object",
    check: Check::Number(2),
    level: Level::Must,
    section: "§2",
    demands: "Every line of machine mode is one complete JSON object",
    why: "Callers parse line by line, and a line that is not an object stops them.",
    hint: "Write each event as one compact JSON object on its own line, without an array around \
           them and without pretty-printing.",
    topic: Topic::Json,
    register: &[
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
    check: Check::Number(2),
    level: Level::Must,
    section: "§2",
    demands: "Machine mode prints UTF-8 without a byte order mark to stdout",
    why: "JSON between programs is UTF-8. A strict decoder stops at the first invalid byte.",
    hint: "Encode output as UTF-8 regardless of the locale, and do not write a byte order mark.",
    topic: Topic::Json,
    register: &["AOI-2-01"],
};

static LAST_LINE: Rule = Rule {
    id: "AOI-02.last-line",
    check: Check::Number(2),
    level: Level::Must,
    section: "§2",
    demands: "The last line of machine mode ends with a line feed",
    why: "Without it, a caller cannot tell whether the last event is complete.",
    hint: "Write a line feed after every event, including the summary.",
    topic: Topic::Json,
    register: &["AOI-2-01"],
};

static LEGACY: Rule = Rule {
    id: "AOI-02.legacy-unprefixed",
    check: Check::Number(2),
    level: Level::Must,
    section: "§8.2",
    demands: "Framework events have the prefix `aoi:`",
    why: "An early draft of v0.2 used `meta` and `summary`. Current callers expect `aoi:meta` and \
          `aoi:summary`.",
    hint: "Add the prefix `aoi:` to meta, summary, warning, error, heartbeat, plan, check and \
           progress.",
    topic: Topic::Json,
    register: &["AOI-8.2-01"],
};

/// Checks one run. Returns the number of its lines.
fn look(run: &Arc<Capture>, tallies: &mut Tallies) -> usize {
    let mut wrong = |rule: &Rule, message: String| {
        if let Some(tally) = tallies.get_mut(rule.id) {
            tally.wrong(run, || message);
        }
    };
    let bytes = &run.stdout;
    let name = &run.probe;
    if bytes.starts_with(b"\xef\xbb\xbf") {
        wrong(&UTF8, format!("`{name}` starts with a byte order mark"));
    }
    if let Err(error) = std::str::from_utf8(bytes)
        && (error.error_len().is_some() || !run.was_cut())
    {
        let at = error.valid_up_to();
        wrong(&UTF8, format!("`{name}`: invalid UTF-8 at offset {at}"));
    }
    let mut stream = Stream::read(bytes);
    if run.was_cut() && stream.lines.last().is_some_and(|line| !line.complete) {
        stream.lines.pop();
    }
    let is_legacy = stream.is_legacy();
    if is_legacy {
        let text = "`meta` with `aoi_version`: framework events have no `aoi:` prefix";
        wrong(&LEGACY, format!("`{name}`: {text}"));
    }
    // A document that spans all lines would violate the rule on every line, so it is reported once.
    let whole = whole(bytes, &stream);
    if let Some(what) = whole {
        wrong(&OBJECT, format!("`{name}`: {what}"));
    }
    for line in &stream.lines {
        look_at_line(run, line, is_legacy, whole.is_some(), &mut wrong);
    }
    if let Some(last) = stream.lines.last()
        && !last.complete
    {
        let place = place(run, last, last.bytes.len());
        wrong(
            &LAST_LINE,
            format!("{place}: the last line has no line feed"),
        );
    }
    stream.lines.len()
}

fn place(run: &Capture, line: &Line, within: usize) -> String {
    let offset = line.offset + within;
    format!("`{}`, line {} (offset {offset})", run.probe, line.number)
}

/// Detects output that is one JSON value over several lines, or one array.
fn whole(bytes: &[u8], stream: &Stream) -> Option<&'static str> {
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
    check: Check::Number(2),
    level: Level::Must,
    section: "§2",
    demands: "Machine mode prints no banner, heading, progress bar, stack trace, plain-text \
              warning or other prose to stdout",
    why: "Callers parse line by line, and one line of prose stops them.",
    hint: "Print only events to stdout. Send logs, warnings and progress to stderr, or emit them \
           as events.",
    topic: Topic::Json,
    register: &[
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
    check: Check::Number(2),
    level: Level::Must,
    section: "§2",
    demands: "Machine mode prints no color codes and no control characters to stdout, even on a \
              terminal",
    why: "Escape codes are not valid JSON, and they can hide text from a human who looks at the \
          stream.",
    hint: "Disable color in machine mode, even if FORCE_COLOR is set or stdout is a terminal.",
    topic: Topic::Json,
    register: &["AOI-2-06", "AOI-16.1-12"],
};

static STRICT: Rule = Rule {
    id: "AOI-02.strict-json",
    check: Check::Number(2),
    level: Level::Must,
    section: "§2",
    demands: "An event has no duplicate keys, no lone surrogates and at most 128 levels of nesting",
    why: "Parsers disagree on such events: some use the first key, some the last, some reject the \
          event.",
    hint: "Serialize events from a map or struct with a JSON library, not by concatenating \
           strings.",
    topic: Topic::Json,
    register: &["AOI-2-01"],
};

static CRLF: Rule = Rule {
    id: "AOI-02.crlf",
    check: Check::Number(2),
    level: Level::Open,
    section: "§2",
    demands: "Lines end with a line feed only",
    why: "A carriage return is whitespace to a JSON parser, but changes byte comparisons.",
    hint: "Write \"\\n\", not the platform's line ending.",
    topic: Topic::Json,
    register: &["AOI-2-01"],
};

static BLANK: Rule = Rule {
    id: "AOI-02.blank-line",
    check: Check::Number(2),
    level: Level::Open,
    section: "§2",
    demands: "Events are not separated by blank lines",
    why: "Every line is one object, and a strict caller fails on an empty line.",
    hint: "Write exactly one line feed after each event.",
    topic: Topic::Json,
    register: &["AOI-2-02"],
};

static BIG: Rule = Rule {
    id: "AOI-02.big-integer",
    check: Check::Number(2),
    level: Level::Open,
    section: "§2",
    demands: "Integers are within ±2^53",
    why: "Many parsers store numbers as doubles, which changes larger integers.",
    hint: "Write long ids and nanoseconds as strings.",
    topic: Topic::Json,
    register: &["AOI-2-01"],
};

static LONG: Rule = Rule {
    id: "AOI-02.long-line",
    check: Check::Number(2),
    level: Level::Open,
    section: "§2",
    demands: "A line has at most 1 MiB",
    why: "Callers read lines into bounded buffers.",
    hint: "Split large payloads into several events, or refer to a file.",
    topic: Topic::Json,
    register: &["AOI-2-02"],
};

static HUGE: Rule = Rule {
    id: "AOI-02.huge-line",
    check: Check::Number(2),
    level: Level::Must,
    section: "§21",
    demands: "A line has at most 16 MiB",
    why: "A line of that size is a document, not an event, and cannot be processed incrementally.",
    hint: "Split large payloads into several events, or refer to a file.",
    topic: Topic::Json,
    register: &["AOI-21-01"],
};

fn look_at_line(
    run: &Capture,
    line: &Line,
    is_legacy: bool,
    is_whole: bool,
    wrong: &mut dyn FnMut(&Rule, String),
) {
    let at = |within| place(run, line, within);
    let bytes = match line.bytes.strip_suffix(b"\r") {
        Some(rest) if line.complete => {
            wrong(
                &CRLF,
                format!("{}: the line ends with CR LF", at(rest.len())),
            );
            rest
        }
        _ => &line.bytes,
    };
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return wrong(&BLANK, format!("{}: blank line", at(0)));
    }
    let is_control = |byte: &u8| (*byte < 0x20 && *byte != b'\t') || *byte == 0x7f;
    if let Some(within) = bytes.iter().position(is_control) {
        let byte = bytes.get(within).copied().unwrap_or_default();
        wrong(&CONTROL, format!("{}: {}", at(within), control(byte)));
    }
    if bytes.len() > HUGE_LINE {
        return wrong(
            &HUGE,
            format!("{}: the line has {} bytes", at(0), bytes.len()),
        );
    }
    if bytes.len() > LONG_LINE {
        wrong(
            &LONG,
            format!("{}: the line has {} bytes", at(0), bytes.len()),
        );
    }
    if is_whole {
        return;
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    match strict::read(bytes) {
        Err(fault) if fault.problem == Problem::TooDeep => {
            wrong(&STRICT, format!("{}: {}", at(fault.offset), fault.words()));
        }
        Err(fault) => match prose::kind(bytes) {
            Some(kind) => {
                let shown = prose::shown(bytes);
                wrong(
                    &PROSE,
                    format!("{}: expected an event, found {kind}: {shown}", at(0)),
                );
            }
            None => {
                wrong(
                    &OBJECT,
                    format!("{}: invalid JSON: {}", at(fault.offset), fault.words()),
                );
            }
        },
        Ok(notes) => {
            if let Some(name) = notes.first(Odd::DuplicateKey).map(|odd| &odd.text) {
                wrong(&STRICT, format!("{}: duplicate key {name:?}", at(0)));
            }
            if notes.first(Odd::LoneSurrogate).is_some() {
                wrong(&STRICT, format!("{}: a lone surrogate", at(0)));
            }
            if let Some(odd) = notes.first(Odd::BigInteger) {
                let number: String = odd.text.chars().take(24).collect();
                wrong(
                    &BIG,
                    format!("{}: the integer {number} is outside ±2^53", at(0)),
                );
            }
            look_at_event(
                line,
                bytes,
                notes.has_terminal_code,
                is_legacy,
                &at(0),
                wrong,
            );
        }
    }
}

static TYPE: Rule = Rule {
    id: "AOI-02.type",
    check: Check::Number(2),
    level: Level::Must,
    section: "§2",
    demands: "Every event has a `type` that is a non-empty string",
    why: "The type tells a caller what the event is.",
    hint: "Add a `type` to every object.",
    topic: Topic::Json,
    register: &["AOI-2-03", "AOI-8.1-01"],
};

static RESERVED: Rule = Rule {
    id: "AOI-02.reserved-type",
    check: Check::Number(2),
    level: Level::Must,
    section: "§8.2",
    demands: "No domain event has the unprefixed name of a framework event",
    why: "With `summary` or `error` without `aoi:`, a caller cannot tell framework events from \
          domain events.",
    hint: "Write framework events with the prefix `aoi:`, and rename your own events.",
    topic: Topic::Json,
    register: &["AOI-8.2-02", "AOI-8.2-03", "AOI-8.2-04", "AOI-8.2-05"],
};

static UNKNOWN: Rule = Rule {
    id: "AOI-02.unknown-framework-type",
    check: Check::Number(2),
    level: Level::Should,
    section: "§8.2",
    demands: "The prefix `aoi:` is used only for the framework's own types",
    why: "The prefix is reserved for the spec. A later version may give your type another meaning.",
    hint: "Name your own events without the prefix.",
    topic: Topic::Json,
    register: &["AOI-8.2-01"],
};

static ESCAPED: Rule = Rule {
    id: "AOI-02.escaped-colour",
    check: Check::Number(2),
    level: Level::Open,
    section: "§2",
    demands: "Domain events contain no escaped color codes",
    why: "Callers that print the field print the colors as well. Data may contain them for a good \
          reason, so this only warns.",
    hint: "Remove color codes that the tool itself added.",
    topic: Topic::Json,
    register: &["AOI-2-06"],
};

static ESCAPED_FRAME: Rule = Rule {
    id: "AOI-02.escaped-colour-in-framework",
    check: Check::Number(2),
    level: Level::Must,
    section: "§2",
    demands: "Framework events contain no escaped color codes",
    why: "The tool writes these strings itself, and color in them is meant for a terminal.",
    hint: "Create the messages of events without color.",
    topic: Topic::Json,
    register: &["AOI-2-06"],
};

fn look_at_event(
    line: &Line,
    bytes: &[u8],
    has_escape_code: bool,
    is_legacy: bool,
    place: &str,
    wrong: &mut dyn FnMut(&Rule, String),
) {
    if bytes.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
        return wrong(
            &OBJECT,
            format!("{place}: expected a JSON object, found another JSON value"),
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
            wrong(&TYPE, format!("{place}: {what}"));
        }
        return;
    };
    let is_framework = FRAMEWORK.contains(&named);
    let bare = FRAMEWORK
        .iter()
        .any(|known| known.strip_prefix("aoi:") == Some(named));
    if bare && !is_legacy {
        let text = format!("{place}: `{named}` is reserved for the framework event `aoi:{named}`");
        wrong(&RESERVED, text);
    }
    if named.starts_with("aoi:") && !is_framework {
        wrong(
            &UNKNOWN,
            format!("{place}: the spec does not define `{named}`"),
        );
    }
    if has_escape_code {
        let rule = if is_framework {
            &ESCAPED_FRAME
        } else {
            &ESCAPED
        };
        wrong(rule, format!("{place}: an escaped color code in `{named}`"));
    }
}

fn control(byte: u8) -> String {
    match byte {
        0x1b => "a terminal escape code".to_owned(),
        b'\r' => "a carriage return within the line, as in progress bars".to_owned(),
        other => format!("the control character {other:#04x}"),
    }
}
