//! Check 2: machine mode is JSONL, one object a line, each with a type, and nothing else. Judged
//! on the bytes of every run of the session.

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

/// Looks at everything that was printed in machine mode.
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
            (TOOL, _) => judge.not_applicable(rule, "no run beside the commands printed a line"),
            (_, 0) => judge.skip(rule, "it was not run"),
            _ => judge.not_verified(rule, "no run of it printed a line"),
        });
    }
}

static OBJECT: Rule = Rule {
    id: "AOI-02.object",
    check: Check::Number(2),
    level: Level::Must,
    section: "§2",
    demands: "Each line of machine mode is one complete JSON object",
    why: "A caller parses line by line; a line that is no object stops it.",
    hint: "Write each event as one compact JSON object on a line of its own; no array around them, no pretty printing.",
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
    demands: "stdout of machine mode is UTF-8 without a byte order mark",
    why: "JSON between programs is UTF-8; a caller that decodes strictly stops at the first other byte.",
    hint: "Encode output as UTF-8 whatever the locale says, and write no byte order mark.",
    topic: Topic::Json,
    register: &["AOI-2-01"],
};

static LAST_LINE: Rule = Rule {
    id: "AOI-02.last-line",
    check: Check::Number(2),
    level: Level::Must,
    section: "§2",
    demands: "The last line of machine mode ends with a line feed",
    why: "Without it a caller cannot tell a complete last event from one that was cut.",
    hint: "Write the line feed with every event, the summary included.",
    topic: Topic::Json,
    register: &["AOI-2-01"],
};

static LEGACY: Rule = Rule {
    id: "AOI-02.legacy-unprefixed",
    check: Check::Number(2),
    level: Level::Must,
    section: "§8.2",
    demands: "Framework events have the prefix `aoi:`",
    why: "An early text of v0.2 wrote `meta` and `summary`; callers of today look for `aoi:meta` and `aoi:summary`.",
    hint: "Put `aoi:` before meta, summary, warning, error, heartbeat, plan, check and progress.",
    topic: Topic::Json,
    register: &["AOI-8.2-01"],
};

/// Judges one run; how many lines it has.
fn look(run: &Arc<Capture>, tallies: &mut Tallies) -> usize {
    let mut wrong = |rule: &Rule, message: String| {
        if let Some(tally) = tallies.get_mut(rule.id) {
            tally.wrong(run, || message);
        }
    };
    let bytes = &run.stdout;
    let name = &run.probe;
    if bytes.starts_with(b"\xef\xbb\xbf") {
        wrong(&UTF8, format!("`{name}` begins with a byte order mark"));
    }
    if let Err(error) = std::str::from_utf8(bytes)
        && (error.error_len().is_some() || !run.was_cut())
    {
        let at = error.valid_up_to();
        wrong(
            &UTF8,
            format!("`{name}`: the byte at offset {at} is no UTF-8"),
        );
    }
    let mut stream = Stream::read(bytes);
    if run.was_cut() && stream.lines.last().is_some_and(|line| !line.complete) {
        stream.lines.pop();
    }
    let is_legacy = stream.is_legacy();
    if is_legacy {
        let text = "`meta` with `aoi_version`: the framework's events have no `aoi:` here";
        wrong(&LEGACY, format!("`{name}`: {text}"));
    }
    // A whole document or a trace would break every line: it is told once.
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

/// Output that is one value over several lines, or one array.
fn whole(bytes: &[u8], stream: &Stream) -> Option<&'static str> {
    let first = stream.lines.first()?;
    let begins = first
        .bytes
        .iter()
        .find(|byte| !byte.is_ascii_whitespace())?;
    if stream.lines.len() > 1 && first.json.is_none() && strict::read(bytes).is_ok() {
        return Some("one JSON value over several lines, where each line is to be an object");
    }
    let is_array = *begins == b'[' && stream.lines.len() == 1 && first.json.is_some();
    is_array.then_some("one JSON array, which holds every result back to the end")
}

static PROSE: Rule = Rule {
    id: "AOI-02.prose",
    check: Check::Number(2),
    level: Level::Must,
    section: "§2",
    demands: "Machine mode prints no banner, heading, progress bar, stack trace, warning or other prose to stdout",
    why: "A caller parses line by line; one line of prose stops it.",
    hint: "Print nothing but events to stdout; logs, warnings and progress go to stderr or into events.",
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
    demands: "stdout of machine mode has no colour codes and no control characters, on a terminal or not",
    why: "Escape codes are no JSON, and they hide what a human who looks at the stream sees.",
    hint: "Do not colour machine mode, even where FORCE_COLOR is set or stdout is a terminal.",
    topic: Topic::Json,
    register: &["AOI-2-06", "AOI-16.1-12"],
};

static STRICT: Rule = Rule {
    id: "AOI-02.strict-json",
    check: Check::Number(2),
    level: Level::Must,
    section: "§2",
    demands: "An event has no name twice, no half of a surrogate pair, and is not nested without measure",
    why: "Readers disagree on what such an event says: some take the first, some the last, some refuse it.",
    hint: "Serialise events with a JSON library from a map or a struct; do not paste texts together.",
    topic: Topic::Json,
    register: &["AOI-2-01"],
};

static CRLF: Rule = Rule {
    id: "AOI-02.crlf",
    check: Check::Number(2),
    level: Level::Open,
    section: "§2",
    demands: "Lines end with a line feed alone",
    why: "A carriage return is white space to a JSON reader, but not to those who compare bytes.",
    hint: "Write \"\\n\", not the line end of the platform.",
    topic: Topic::Json,
    register: &["AOI-2-01"],
};

static BLANK: Rule = Rule {
    id: "AOI-02.blank-line",
    check: Check::Number(2),
    level: Level::Open,
    section: "§2",
    demands: "There are no blank lines between events",
    why: "Each line is one object; a caller that takes that at its word fails on an empty one.",
    hint: "Write exactly one line feed after each event.",
    topic: Topic::Json,
    register: &["AOI-2-02"],
};

static BIG: Rule = Rule {
    id: "AOI-02.big-integer",
    check: Check::Number(2),
    level: Level::Open,
    section: "§2",
    demands: "Integers are not beyond 2^53",
    why: "Many readers keep numbers as doubles: what is larger arrives changed.",
    hint: "Write long ids and nanoseconds as texts.",
    topic: Topic::Json,
    register: &["AOI-2-01"],
};

static LONG: Rule = Rule {
    id: "AOI-02.long-line",
    check: Check::Number(2),
    level: Level::Open,
    section: "§2",
    demands: "A line is not longer than 1 MiB",
    why: "Callers read lines into bounded buffers.",
    hint: "Split large payloads into several events, or name a file.",
    topic: Topic::Json,
    register: &["AOI-2-02"],
};

static HUGE: Rule = Rule {
    id: "AOI-02.huge-line",
    check: Check::Number(2),
    level: Level::Must,
    section: "§21",
    demands: "A line is not longer than 16 MiB",
    why: "A line of that size is a document, not an event: nobody can read it as it comes.",
    hint: "Split large payloads into several events, or name a file.",
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
            wrong(&CRLF, format!("{}: it ends with CR LF", at(rest.len())));
            rest
        }
        _ => &line.bytes,
    };
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return wrong(&BLANK, format!("{}: a blank line", at(0)));
    }
    let is_control = |byte: &u8| (*byte < 0x20 && *byte != b'\t') || *byte == 0x7f;
    if let Some(within) = bytes.iter().position(is_control) {
        let byte = bytes.get(within).copied().unwrap_or_default();
        wrong(&CONTROL, format!("{}: {}", at(within), control(byte)));
    }
    if bytes.len() > HUGE_LINE {
        return wrong(&HUGE, format!("{}: {} bytes", at(0), bytes.len()));
    }
    if bytes.len() > LONG_LINE {
        wrong(&LONG, format!("{}: {} bytes", at(0), bytes.len()));
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
                    format!("{}: {kind}, where an event was expected: {shown}", at(0)),
                );
            }
            None => {
                wrong(
                    &OBJECT,
                    format!("{}: no JSON: {}", at(fault.offset), fault.words()),
                );
            }
        },
        Ok(notes) => {
            if let Some(name) = notes.first(Odd::DuplicateKey).map(|odd| &odd.text) {
                wrong(
                    &STRICT,
                    format!("{}: the name {name:?} stands twice", at(0)),
                );
            }
            if notes.first(Odd::LoneSurrogate).is_some() {
                wrong(&STRICT, format!("{}: a half of a surrogate pair", at(0)));
            }
            if let Some(odd) = notes.first(Odd::BigInteger) {
                let number: String = odd.text.chars().take(24).collect();
                wrong(&BIG, format!("{}: {number} is beyond 2^53", at(0)));
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
    demands: "Every event has a `type`, a text that is not empty",
    why: "The type is how a caller knows what an event is.",
    hint: "Give every object a `type`.",
    topic: Topic::Json,
    register: &["AOI-2-03", "AOI-8.1-01"],
};

static RESERVED: Rule = Rule {
    id: "AOI-02.reserved-type",
    check: Check::Number(2),
    level: Level::Must,
    section: "§8.2",
    demands: "No event has the name of a framework event without its prefix",
    why: "`summary` or `error` without `aoi:` leaves a caller to guess who speaks.",
    hint: "Write framework events with `aoi:`; give your own events another name.",
    topic: Topic::Json,
    register: &["AOI-8.2-02", "AOI-8.2-03", "AOI-8.2-04", "AOI-8.2-05"],
};

static UNKNOWN: Rule = Rule {
    id: "AOI-02.unknown-framework-type",
    check: Check::Number(2),
    level: Level::Should,
    section: "§8.2",
    demands: "The prefix `aoi:` stands only before the framework's own names",
    why: "The prefix belongs to the text; a later version may give your name another meaning.",
    hint: "Name events of your own without the prefix.",
    topic: Topic::Json,
    register: &["AOI-8.2-01"],
};

static ESCAPED: Rule = Rule {
    id: "AOI-02.escaped-colour",
    check: Check::Number(2),
    level: Level::Open,
    section: "§2",
    demands: "Data has no escaped colour codes",
    why: "Who prints the field gets the colours; data may hold them for good reason, so this is only told.",
    hint: "Take colour codes out of texts that you did not receive with them.",
    topic: Topic::Json,
    register: &["AOI-2-06"],
};

static ESCAPED_FRAME: Rule = Rule {
    id: "AOI-02.escaped-colour-in-framework",
    check: Check::Number(2),
    level: Level::Must,
    section: "§2",
    demands: "Framework events have no escaped colour codes",
    why: "Their texts are the tool's own: colour in them is meant for a terminal.",
    hint: "Build messages of events without colour.",
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
        return wrong(&OBJECT, format!("{place}: JSON, but no object"));
    }
    let kind = line.get("type");
    let named = kind
        .and_then(|kind| kind.as_str())
        .filter(|kind| !kind.is_empty());
    let Some(named) = named else {
        // What another reader refused has been told; it says nothing about the type.
        if line.json.is_some() {
            let what = match kind {
                None => "an event without a `type`".to_owned(),
                Some(other) => format!("`type` is {other}, no text that says something"),
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
        let text = format!("{place}: `{named}` is the framework's name, without its prefix `aoi:`");
        wrong(&RESERVED, text);
    }
    if named.starts_with("aoi:") && !is_framework {
        wrong(&UNKNOWN, format!("{place}: the framework has no `{named}`"));
    }
    if has_escape_code {
        let rule = if is_framework {
            &ESCAPED_FRAME
        } else {
            &ESCAPED
        };
        wrong(
            rule,
            format!("{place}: an escaped colour code in `{named}`"),
        );
    }
}

fn control(byte: u8) -> String {
    match byte {
        0x1b => "an escape code for a terminal".to_owned(),
        b'\r' => "a carriage return, as progress bars write it".to_owned(),
        other => format!("the control character {other:#04x}"),
    }
}
