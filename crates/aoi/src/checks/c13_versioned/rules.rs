//! What check 13 demands.

use crate::model::Check;
use crate::rules::{Level, Rule, Topic};

const fn rule(
    id: &'static str,
    level: Level,
    section: &'static str,
    demands: &'static str,
    why: &'static str,
    hint: &'static str,
    register: &'static [&'static str],
) -> Rule {
    Rule {
        id,
        check: Check::Number(13),
        level,
        section,
        demands,
        why,
        hint,
        topic: Topic::Versions,
        register,
    }
}

const BRANCH: &str = "Callers choose how to read a stream by its schema version (§5.2).";
const ONE_PLACE: &str =
    "Take the version in meta, in `capabilities` and in `schema` from one place.";

pub static MISSING: Rule = rule(
    "AOI-13.version-missing",
    Level::Must,
    "§5, §18.2",
    "aoi:meta has a `schema_version`",
    BRANCH,
    "Put `schema_version` into aoi:meta.",
    &["AOI-5-02", "AOI-8.1-03", "AOI-18.2-13"],
);
pub static TYPE: Rule = rule(
    "AOI-13.version-type",
    Level::Must,
    "§5",
    "`schema_version` is a text",
    "1.10 as a number is 1.1.",
    "Write it in quotes.",
    &["AOI-8.1-03"],
);
pub static FORM: Rule = rule(
    "AOI-13.version-form",
    Level::Must,
    "§5.1",
    "`schema_version` begins with its major number, such as 1.0.0",
    "A breaking change is told by the major number; without one nobody can tell.",
    "Use major.minor.patch.",
    &["AOI-8.1-03"],
);
pub static UNDECLARED: Rule = rule(
    "AOI-13.version-undeclared",
    Level::Must,
    "§17",
    "The name and version of the schema in aoi:meta are among those of `capabilities`",
    "A caller has prepared for the versions that were declared.",
    ONE_PLACE,
    &["AOI-17-03", "AOI-8.1-02"],
);
pub static DEFAULT: Rule = rule(
    "AOI-13.default-differs",
    Level::Must,
    "§17",
    "Without negotiation the version is the `default` of `capabilities`",
    "Who does not ask relies on the default.",
    ONE_PLACE,
    &["AOI-17-03"],
);
pub static CONFLATED: Rule = rule(
    "AOI-13.conflated",
    Level::Open,
    "§5",
    "The schema version is not the tool's version, nor AOI's",
    "If they move together, every release looks like a change of the schema, or none does.",
    "Give the schema a version of its own. One release alone cannot show more than equality.",
    &["AOI-5-01"],
);
pub static INCOMPLETE: Rule = rule(
    "AOI-13.meta-incomplete",
    Level::Should,
    "§5",
    "aoi:meta has `tool_version`, `aoi_version` and `schema_name`",
    "The three versions are separate things, and the name says whose schema it is.",
    "Add what is missing to aoi:meta.",
    &["AOI-5-02", "AOI-8.1-02", "AOI-8.1-05", "AOI-8.1-06"],
);
pub static HONOURED: Rule = rule(
    "AOI-13.not-honoured",
    Level::Must,
    "§5.1",
    "A version that is asked for is what aoi:meta then says",
    BRANCH,
    "Let the option choose the version, or refuse it.",
    &["AOI-5.1-02", "AOI-16.1-04", "AOI-18.2-13"],
);
pub static EVENTS: Rule = rule(
    "AOI-13.events-differ",
    Level::Must,
    "§5.1",
    "The events of a version are valid by the schema of that version",
    "A version that is only said, not kept, breaks whoever believes it.",
    "Test each version against `schema --schema-version N`.",
    &["AOI-5.1-02", "AOI-10.1-02", "AOI-19-02"],
);
pub static IDENTICAL: Rule = rule(
    "AOI-13.schemas-identical",
    Level::Should,
    "§5.1",
    "`schema --schema-version N` prints another schema for another major version",
    "Versions with one schema are one version, or the option is ignored.",
    "Let `schema` honour the option.",
    &["AOI-10.1-02", "AOI-19-02"],
);
pub static NAME: Rule = rule(
    "AOI-13.name-ignored",
    Level::Should,
    "§5.1",
    "A schema of another name is refused, not served as if it were the own one",
    "Who asks for another schema cannot read this one.",
    "Compare the name before the `@`.",
    &["AOI-5.1-02"],
);
pub static UNSUPPORTED_SERVED: Rule = rule(
    "AOI-13.unsupported-served",
    Level::Must,
    "§5.1",
    "A version that is not offered is refused, not served as the default",
    "A caller that cannot read the default would read it all the same.",
    "End with a usage error.",
    &["AOI-16.1-04", "AOI-18.2-13"],
);
pub static UNSUPPORTED_EXIT: Rule = rule(
    "AOI-13.unsupported-exit",
    Level::Must,
    "§5.1, §6",
    "A version that is not offered gives an exit other than 0",
    "The exit is what shells look at.",
    "Exit 64.",
    &["AOI-16.1-04"],
);
pub static UNSUPPORTED_MUTE: Rule = rule(
    "AOI-13.unsupported-unstructured",
    Level::Must,
    "§2, §5.1",
    "Once the stream has begun, the refusal of a version is an aoi:error",
    "Prose on stderr is allowed only before the stream starts.",
    "Refuse before aoi:meta, or with an aoi:error.",
    &["AOI-16.1-04"],
);
pub static UNSUPPORTED_LATE: Rule = rule(
    "AOI-13.unsupported-after-data",
    Level::Must,
    "§5.1",
    "A version that is not offered is refused before any data",
    "Data in a version that nobody asked for has then already been read.",
    "Look at the option before the work begins.",
    &["AOI-16.1-04"],
);

pub const ALL: &[&Rule] = &[
    &MISSING,
    &TYPE,
    &FORM,
    &UNDECLARED,
    &DEFAULT,
    &CONFLATED,
    &INCOMPLETE,
    &HONOURED,
    &EVENTS,
    &IDENTICAL,
    &NAME,
    &UNSUPPORTED_SERVED,
    &UNSUPPORTED_EXIT,
    &UNSUPPORTED_MUTE,
    &UNSUPPORTED_LATE,
];
