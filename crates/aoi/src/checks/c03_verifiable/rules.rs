//! What check 3 demands.

use crate::model::Check;
use crate::rules::{Level, Rule, Topic};

const fn rule(id: &'static str, level: Level, section: &'static str) -> Rule {
    Rule {
        id,
        check: Check::Number(3),
        level,
        section,
        demands: "",
        why: "",
        hint: "",
        topic: Topic::Summary,
        register: &[],
    }
}

pub static EXIT: Rule = Rule {
    demands: "A finite success exits 0",
    why: "The exit status is the first thing that a caller and its shell look at.",
    hint: "Exit 0 after the summary, and with another status only where something failed.",
    register: &["AOI-4.1-01", "AOI-6-01", "AOI-13.1-04", "AOI-18.2-03"],
    ..rule("AOI-03.exit-not-zero", Level::Must, "§4.1")
};
pub static SUMMARY: Rule = Rule {
    demands: "A run that exits 0 ends with exactly one aoi:summary, and nothing after it",
    why: "A stream that ends without its summary looks to a caller like a crash.",
    hint: "Write one aoi:summary as the last line, whatever was found.",
    register: &[
        "AOI-4-02",
        "AOI-4-03",
        "AOI-4.1-02",
        "AOI-8.3-12",
        "AOI-13.1-03",
    ],
    ..rule("AOI-03.summary-last", Level::Must, "§4")
};
pub static OK: Rule = Rule {
    demands: "The summary of a success has ok: true",
    why: "`ok` is how the tool itself says that it did what it was asked for.",
    hint: "Set ok to the boolean true, not to a text.",
    register: &["AOI-4.1-01", "AOI-8.3-13", "AOI-13.1-05"],
    ..rule("AOI-03.ok-not-true", Level::Must, "§4.1")
};
pub static META_FIRST: Rule = Rule {
    demands: "aoi:meta is the first event",
    why: "Schema name and version stand in it: a caller needs them before it reads the rest.",
    hint: "Write aoi:meta before the work begins.",
    register: &["AOI-0-04", "AOI-4-01", "AOI-8.3-01"],
    ..rule("AOI-03.meta-first", Level::Should, "§4")
};
pub static ONE_META: Rule = Rule {
    demands: "There is one aoi:meta at most",
    why: "Two of them leave a caller to choose which one describes the stream.",
    hint: "Write aoi:meta once per run; pass an upstream's meta on as data, if at all.",
    register: &["AOI-8.3-01"],
    ..rule("AOI-03.meta-twice", Level::Must, "§8.3")
};
pub static COUNT: Rule = Rule {
    demands: "`count` is the number of results: domain events and checks",
    why: "A caller compares it with what it received to see whether something was lost.",
    hint: "Count each domain event and aoi:check as it is written; leave meta, summary, warnings and errors out.",
    register: &["AOI-8.3-13", "AOI-19-01", "AOI-19-03"],
    ..rule("AOI-03.count", Level::Must, "§19")
};
pub static COUNT_ALL: Rule = Rule {
    demands: "`count` leaves the framework's own events out",
    why: "The examples count results only; a public SDK counts every event, so both are met.",
    hint: "Where an SDK keeps the count for you, see whether it counts meta and summary.",
    register: &["AOI-19-01"],
    ..rule("AOI-03.count-all-events", Level::Open, "§19")
};
pub static ERRORS: Rule = Rule {
    demands: "`error_count` and `warning_count` are the numbers of what was emitted; a failed check may count as an error",
    why: "A caller that reads only the summary must see that something was wrong.",
    hint: "Count aoi:error and aoi:warning as they are written.",
    register: &["AOI-8.3-13", "AOI-19-03"],
    ..rule("AOI-03.error-count", Level::Must, "§8.3")
};
pub static SLOW_READER: Rule = Rule {
    demands: "Nothing is lost to a reader that is slow",
    why: "Callers stop to think; a tool that exits before its output is taken loses the summary.",
    hint: "Flush, and wait until everything is written, before the process exits.",
    topic: Topic::Flush,
    register: &["AOI-4-02"],
    ..rule("AOI-03.summary-lost", Level::Must, "§4")
};
pub static FULL: Rule = Rule {
    demands: "Output that could not be written is no success",
    why: "A full disk would look like a complete, empty result.",
    hint: "Check the result of every write and of the last flush; exit 74 where one failed.",
    topic: Topic::Flush,
    register: &["AOI-6-02"],
    ..rule("AOI-03.write-error-ignored", Level::Must, "§6")
};
pub static FAILURE_OK: Rule = Rule {
    demands: "A run that exits with another status than 0 does not say ok: true",
    why: "Two answers to one question: a caller that reads only the stream takes the failure for a success.",
    hint: "Derive `ok` and the exit status from one value.",
    register: &["AOI-4.1-03", "AOI-6-02"],
    ..rule("AOI-03.ok-true-on-failure", Level::Must, "§4.1")
};
pub static ZERO_NOT_OK: Rule = Rule {
    demands: "A run that says ok: false does not exit 0",
    why: "A shell and every caller that looks at the status alone take it for a success.",
    hint: "Exit with the status of the category, such as 69 or 70, where ok is false.",
    register: &["AOI-6-01"],
    ..rule("AOI-03.exit-zero-on-failure", Level::Open, "§6")
};
pub static FAILURE_SUMMARY: Rule = Rule {
    demands: "A failure after aoi:meta ends with a summary, too",
    why: "Without it a failure cannot be told from a crash; the text leaves this open.",
    hint: "Write aoi:summary with ok: false on the way out.",
    register: &["AOI-4-02"],
    ..rule("AOI-03.failure-summary", Level::Open, "§23")
};
pub static UPSTREAM: Rule = Rule {
    demands: "Input that ends without its upstream's summary is a failure",
    why: "The upstream crashed: what came is a part, and its result is not the whole.",
    hint: "Remember whether aoi:summary came before the end of input; fail where it did not.",
    register: &["AOI-13-08"],
    ..rule("AOI-03.upstream-cut", Level::Should, "§13")
};
pub static HELD: Rule = Rule {
    demands: "stdout ends when the tool ends",
    why: "A process that stays behind with stdout open makes the caller wait for an end that does not come.",
    hint: "Start helpers with stdout closed or led elsewhere, and wait for those that write to it.",
    topic: Topic::Flush,
    register: &["AOI-4-03"],
    ..rule("AOI-03.stdout-held", Level::Should, "§4")
};

pub const ALL: &[&Rule] = &[
    &EXIT,
    &SUMMARY,
    &OK,
    &META_FIRST,
    &ONE_META,
    &COUNT,
    &COUNT_ALL,
    &ERRORS,
    &SLOW_READER,
    &FULL,
    &FAILURE_OK,
    &ZERO_NOT_OK,
    &FAILURE_SUMMARY,
    &UPSTREAM,
    &HELD,
];
