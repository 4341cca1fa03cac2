//! What check 5 demands.

use crate::model::Check;
use crate::rules::{Level, Rule, Topic};

const fn rule(id: &'static str, level: Level, section: &'static str) -> Rule {
    Rule {
        id,
        check: Check::Number(5),
        level,
        section,
        demands: "",
        why: "",
        hint: "",
        topic: Topic::Errors,
        register: &[],
    }
}

pub static FLAG: Rule = Rule {
    demands: "An unknown flag is refused",
    why: "A caller that misspells a flag believes that it was heard: a filter or a dry run silently does not happen.",
    hint: "Let the argument parser refuse what it does not know, and exit 64.",
    register: &["AOI-6-02", "AOI-6-03", "AOI-18.2-05"],
    ..rule("AOI-05.unknown-flag", Level::Must, "§18.2")
};
pub static COMMAND: Rule = Rule {
    demands: "An unknown command is refused",
    why: "A caller that asks for what is not there must learn it, not get something else.",
    hint: "Exit 64 where the first word is no command; help alone is no answer to it.",
    register: &["AOI-6-02", "AOI-6-03", "AOI-18.2-05"],
    ..rule("AOI-05.unknown-command", Level::Must, "§18.2")
};
pub static USAGE: Rule = Rule {
    demands: "Usage that the probe file calls malformed is refused",
    why: "A missing operand that is guessed at gives an answer to another question.",
    hint: "Check operands before the work begins, and exit 64.",
    register: &["AOI-6-02", "AOI-18.2-05"],
    ..rule("AOI-05.malformed", Level::Must, "§18.2")
};
pub static VALUE: Rule = Rule {
    demands: "A value that a flag cannot have, or none at all, is refused",
    why: "A limit or format that is silently replaced gives the caller what it did not ask for.",
    hint: "Parse values strictly, and exit 64 where one does not fit.",
    register: &["AOI-6-02", "AOI-18.2-05"],
    ..rule("AOI-05.bad-value", Level::Must, "§18.2")
};
pub static SIGNAL: Rule = Rule {
    demands: "Malformed usage does not kill the process by a signal",
    why: "A crash says nothing about what was wrong with the words.",
    hint: "Refuse bad usage with an error and an exit status.",
    register: &["AOI-6-02"],
    ..rule("AOI-05.signal", Level::Must, "§6")
};
pub static PROSE: Rule = Rule {
    demands: "Malformed usage prints events to stdout, or nothing",
    why: "A caller parses stdout whatever the status is.",
    hint: "Print usage to stderr, or as an aoi:error.",
    register: &["AOI-2-12", "AOI-2-13"],
    ..rule("AOI-05.prose", Level::Must, "§2")
};
pub static TRACE: Rule = Rule {
    demands: "Malformed usage prints no stack trace",
    why: "A trace tells a caller about the tool's inside and nothing about its own mistake.",
    hint: "Catch what the parser raises, and say what is wrong in a sentence.",
    register: &["AOI-2-12"],
    ..rule("AOI-05.trace", Level::Must, "§2")
};
pub static CRASH: Rule = Rule {
    demands: "The exit status of malformed usage is not that of a crash",
    why: "101, 134, 139 and what is above 128 mean a panic or a signal to whoever looks.",
    hint: "Exit 64 for usage errors.",
    register: &["AOI-6-03"],
    ..rule("AOI-05.crash-status", Level::Should, "§6")
};
pub static OK_TRUE: Rule = Rule {
    demands: "Malformed usage is not summed up with ok: true",
    why: "A caller that reads only the stream takes the refusal for a success.",
    hint: "Set ok to false in the summary of a refusal.",
    register: &["AOI-6-02"],
    ..rule("AOI-05.ok-true", Level::Must, "§4.1")
};
pub static FIELDS: Rule = Rule {
    demands: "Every aoi:error has category, code and message as texts, and retryable as a boolean",
    why: "A caller decides by them whether to try again, to ask a human or to give up.",
    hint: "Build aoi:error in one place that demands all four.",
    register: &["AOI-8.3-11", "AOI-9-03", "AOI-18.2-05"],
    ..rule("AOI-05.error-fields", Level::Must, "§9")
};
pub static CATEGORY: Rule = Rule {
    demands: "The category of an error is one of the 14",
    why: "Callers branch on the category; one of your own means nothing to them.",
    hint: "Map your own codes to usage, validation, authn, authz, not_found, conflict, rate_limited, temporary, timeout, cancelled, partial, internal, config or io.",
    register: &[
        "AOI-9-02",
        "AOI-9.1-01",
        "AOI-9.1-02",
        "AOI-9.1-03",
        "AOI-9.1-04",
        "AOI-9.1-05",
        "AOI-9.1-06",
        "AOI-9.1-07",
        "AOI-9.1-09",
        "AOI-9.1-10",
        "AOI-9.1-11",
        "AOI-9.1-12",
        "AOI-9.1-13",
        "AOI-9.1-14",
        "AOI-9.1-15",
    ],
    ..rule("AOI-05.category-unknown", Level::Should, "§9.1")
};
pub static CODE: Rule = Rule {
    demands: "The code of an error is in UPPER_SNAKE_CASE",
    why: "Codes are compared as texts; one form makes them so.",
    hint: "Write codes such as FILE_NOT_FOUND.",
    register: &["AOI-9.1-16"],
    ..rule("AOI-05.code-form", Level::Should, "§9.1")
};
pub static RETRY: Rule = Rule {
    demands: "`retryable` agrees with the category",
    why: "A caller that repeats a usage error does so for ever.",
    hint: "usage, validation, authz, not_found and config are false; rate_limited, temporary and timeout are true.",
    register: &[
        "AOI-9.1-01",
        "AOI-9.1-02",
        "AOI-9.1-04",
        "AOI-9.1-05",
        "AOI-9.1-07",
        "AOI-9.1-09",
        "AOI-9.1-10",
        "AOI-9.1-14",
    ],
    ..rule("AOI-05.retryable-contradicts", Level::Should, "§9.1")
};
pub static STRUCTURED: Rule = Rule {
    demands: "A failure after the stream has begun is told in an aoi:error",
    why: "A status alone says that something is wrong, not what.",
    hint: "Write an aoi:error before the summary of a failure.",
    register: &["AOI-2-12"],
    ..rule("AOI-05.unstructured", Level::Should, "§2")
};

pub const ALL: &[&Rule] = &[
    &FLAG,
    &COMMAND,
    &USAGE,
    &VALUE,
    &SIGNAL,
    &PROSE,
    &TRACE,
    &CRASH,
    &OK_TRUE,
    &FIELDS,
    &CATEGORY,
    &CODE,
    &RETRY,
    &STRUCTURED,
];
