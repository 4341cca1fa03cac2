//! What check 2 demands.

use crate::model::Check;
use crate::rules::{Level, Rule, Topic};

const fn rule(id: &'static str, level: Level, section: &'static str) -> Rule {
    Rule {
        id,
        check: Check::Number(2),
        level,
        section,
        demands: "",
        why: "",
        hint: "",
        topic: Topic::Json,
        register: &[],
    }
}

pub static OBJECT: Rule = Rule {
    demands: "Each line of machine mode is one complete JSON object",
    why: "A caller parses line by line; a line that is no object stops it.",
    hint: "Write each event as one compact JSON object on a line of its own; no array around them, no pretty printing.",
    register: &[
        "AOI-1-01",
        "AOI-2-02",
        "AOI-13.1-02",
        "AOI-16.1-03",
        "AOI-16.2-04",
        "AOI-18.2-02",
        "AOI-21-01",
    ],
    ..rule("AOI-02.object", Level::Must, "§2")
};
pub static PROSE: Rule = Rule {
    demands: "Machine mode prints no banner, heading, progress bar, stack trace, warning or other prose to stdout",
    why: "A caller parses line by line; one line of prose stops it.",
    hint: "Print nothing but events to stdout; logs, warnings and progress go to stderr or into events.",
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
    ..rule("AOI-02.prose", Level::Must, "§2")
};
pub static UTF8: Rule = Rule {
    demands: "stdout of machine mode is UTF-8 without a byte order mark",
    why: "JSON between programs is UTF-8; a caller that decodes strictly stops at the first other byte.",
    hint: "Encode output as UTF-8 whatever the locale says, and write no byte order mark.",
    register: &["AOI-2-01"],
    ..rule("AOI-02.utf8", Level::Must, "§2")
};
pub static CONTROL: Rule = Rule {
    demands: "stdout of machine mode has no colour codes and no control characters, on a terminal or not",
    why: "Escape codes are no JSON, and they hide what a human who looks at the stream sees.",
    hint: "Do not colour machine mode, even where FORCE_COLOR is set or stdout is a terminal.",
    register: &["AOI-2-06", "AOI-16.1-12"],
    ..rule("AOI-02.control", Level::Must, "§2")
};
pub static STRICT: Rule = Rule {
    demands: "An event has no name twice, no half of a surrogate pair, and is not nested without measure",
    why: "Readers disagree on what such an event says: some take the first, some the last, some refuse it.",
    hint: "Serialise events with a JSON library from a map or a struct; do not paste texts together.",
    register: &["AOI-2-01"],
    ..rule("AOI-02.strict-json", Level::Must, "§2")
};
pub static LAST_LINE: Rule = Rule {
    demands: "The last line of machine mode ends with a line feed",
    why: "Without it a caller cannot tell a complete last event from one that was cut.",
    hint: "Write the line feed with every event, the summary included.",
    register: &["AOI-2-01"],
    ..rule("AOI-02.last-line", Level::Must, "§2")
};
pub static CRLF: Rule = Rule {
    demands: "Lines end with a line feed alone",
    why: "A carriage return is white space to a JSON reader, but not to those who compare bytes.",
    hint: "Write \"\\n\", not the line end of the platform.",
    register: &["AOI-2-01"],
    ..rule("AOI-02.crlf", Level::Open, "§2")
};
pub static BLANK: Rule = Rule {
    demands: "There are no blank lines between events",
    why: "Each line is one object; a caller that takes that at its word fails on an empty one.",
    hint: "Write exactly one line feed after each event.",
    register: &["AOI-2-02"],
    ..rule("AOI-02.blank-line", Level::Open, "§2")
};
pub static BIG: Rule = Rule {
    demands: "Integers are not beyond 2^53",
    why: "Many readers keep numbers as doubles: what is larger arrives changed.",
    hint: "Write long ids and nanoseconds as texts.",
    register: &["AOI-2-01"],
    ..rule("AOI-02.big-integer", Level::Open, "§2")
};
pub static LONG: Rule = Rule {
    demands: "A line is not longer than 1 MiB",
    why: "Callers read lines into bounded buffers.",
    hint: "Split large payloads into several events, or name a file.",
    register: &["AOI-2-02"],
    ..rule("AOI-02.long-line", Level::Open, "§2")
};
pub static HUGE: Rule = Rule {
    demands: "A line is not longer than 16 MiB",
    why: "A line of that size is a document, not an event: nobody can read it as it comes.",
    hint: "Split large payloads into several events, or name a file.",
    register: &["AOI-21-01"],
    ..rule("AOI-02.huge-line", Level::Must, "§21")
};
pub static TYPE: Rule = Rule {
    demands: "Every event has a `type`, a text that is not empty",
    why: "The type is how a caller knows what an event is.",
    hint: "Give every object a `type`.",
    register: &["AOI-2-03", "AOI-8.1-01"],
    ..rule("AOI-02.type", Level::Must, "§2")
};
pub static RESERVED: Rule = Rule {
    demands: "No event has the name of a framework event without its prefix",
    why: "`summary` or `error` without `aoi:` leaves a caller to guess who speaks.",
    hint: "Write framework events with `aoi:`; give your own events another name.",
    register: &["AOI-8.2-02", "AOI-8.2-03", "AOI-8.2-04", "AOI-8.2-05"],
    ..rule("AOI-02.reserved-type", Level::Must, "§8.2")
};
pub static LEGACY: Rule = Rule {
    demands: "Framework events have the prefix `aoi:`",
    why: "An early text of v0.2 wrote `meta` and `summary`; callers of today look for `aoi:meta` and `aoi:summary`.",
    hint: "Put `aoi:` before meta, summary, warning, error, heartbeat, plan, check and progress.",
    register: &["AOI-8.2-01"],
    ..rule("AOI-02.legacy-unprefixed", Level::Must, "§8.2")
};
pub static UNKNOWN: Rule = Rule {
    demands: "The prefix `aoi:` stands only before the framework's own names",
    why: "The prefix belongs to the text; a later version may give your name another meaning.",
    hint: "Name events of your own without the prefix.",
    register: &["AOI-8.2-01"],
    ..rule("AOI-02.unknown-framework-type", Level::Should, "§8.2")
};
pub static ESCAPED: Rule = Rule {
    demands: "Data has no escaped colour codes",
    why: "Who prints the field gets the colours; data may hold them for good reason, so this is only told.",
    hint: "Take colour codes out of texts that you did not receive with them.",
    register: &["AOI-2-06"],
    ..rule("AOI-02.escaped-colour", Level::Open, "§2")
};
pub static ESCAPED_FRAME: Rule = Rule {
    demands: "Framework events have no escaped colour codes",
    why: "Their texts are the tool's own: colour in them is meant for a terminal.",
    hint: "Build messages of events without colour.",
    register: &["AOI-2-06"],
    ..rule("AOI-02.escaped-colour-in-framework", Level::Must, "§2")
};

pub const ALL: &[&Rule] = &[
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
