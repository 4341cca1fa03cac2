//! What check 4 demands.

use crate::model::Check;
use crate::rules::{Level, Rule, Topic};

const fn rule(
    id: &'static str,
    level: Level,
    section: &'static str,
    demands: &'static str,
    hint: &'static str,
    register: &'static [&'static str],
) -> Rule {
    Rule {
        id,
        check: Check::Number(4),
        level,
        section,
        demands,
        why: "Callers generate their types from the schema; what is not in it, they cannot read.",
        hint,
        topic: Topic::Json,
        register,
    }
}

const TEST: &str = "Hold every event against the schema in your tests.";

pub static META: Rule = rule(
    "AOI-04.meta",
    Level::Must,
    "§18.2",
    "Every aoi:meta is valid by the declared schema",
    TEST,
    &[
        "AOI-1.1-01",
        "AOI-8.1-02",
        "AOI-8.1-04",
        "AOI-8.3-01",
        "AOI-18.2-04",
    ],
);
pub static SUMMARY: Rule = rule(
    "AOI-04.summary",
    Level::Must,
    "§18.2",
    "Every aoi:summary is valid by the declared schema",
    TEST,
    &["AOI-1.1-01", "AOI-8.3-13", "AOI-18.2-04"],
);
pub static WARNING: Rule = rule(
    "AOI-04.warning",
    Level::Must,
    "§18.2",
    "Every aoi:warning is valid by the declared schema",
    TEST,
    &["AOI-2-11", "AOI-8.3-10", "AOI-18.2-04"],
);
pub static ERROR: Rule = rule(
    "AOI-04.error",
    Level::Must,
    "§18.2",
    "Every aoi:error is valid by the declared schema",
    TEST,
    &["AOI-8.3-11", "AOI-18.2-04"],
);
pub static CHECK: Rule = rule(
    "AOI-04.check",
    Level::Must,
    "§18.2",
    "Every aoi:check is valid by the declared schema",
    TEST,
    &["AOI-8.3-06", "AOI-16.2-04", "AOI-18.2-04", "AOI-19-03"],
);
pub static DOMAIN: Rule = rule(
    "AOI-04.domain",
    Level::Should,
    "§1.1",
    "Every other event is valid by the declared schema",
    TEST,
    &["AOI-1.1-01", "AOI-8.3-03"],
);
pub static UNDECLARED: Rule = rule(
    "AOI-04.undeclared-type",
    Level::Must,
    "§1.1, §8.2",
    "Every type of event that is printed is one that the declared schema knows",
    "Add the type to the schema, or print it under the name that is there.",
    &["AOI-1.1-01"],
);
pub static UNLISTED: Rule = rule(
    "AOI-04.unlisted-type",
    Level::Should,
    "§17",
    "`event_types` of a command names every type that the command prints",
    "Add the type to `event_types` in `capabilities`.",
    &["AOI-1.1-01"],
);
pub static FRAMEWORK: Rule = rule(
    "AOI-04.framework",
    Level::Must,
    "§8.3, §9",
    "The fields of framework events have the kinds that the text gives them",
    "Compare the event with §8.3 and §9.",
    &["AOI-8.3-13", "AOI-8.3-06", "AOI-8.3-11"],
);
pub static VACUOUS: Rule = rule(
    "AOI-04.vacuous",
    Level::Open,
    "§18.2",
    "The declared schema refuses events that are wrong",
    "Require `type` and the fields of each type; a schema that allows everything says nothing.",
    &["AOI-1.1-01"],
);

pub const ALL: &[&Rule] = &[
    &META,
    &SUMMARY,
    &WARNING,
    &ERROR,
    &CHECK,
    &DOMAIN,
    &UNDECLARED,
    &UNLISTED,
    &FRAMEWORK,
    &VACUOUS,
];
