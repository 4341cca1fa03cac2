//! What check 1 demands.

use crate::model::Check;
use crate::rules::{Level, Rule, Topic};

const fn rule(
    id: &'static str,
    section: &'static str,
    demands: &'static str,
    why: &'static str,
    hint: &'static str,
    register: &'static [&'static str],
) -> Rule {
    Rule {
        id,
        check: Check::Number(1),
        level: Level::Must,
        section,
        demands,
        why,
        hint,
        topic: Topic::Discovery,
        register,
    }
}

const ALONE: &str = "An agent asks before it has logged in, and often where there is no network.";
const EMBED: &str = "Build the document into the program, or read it from the installation.";

pub static SCHEMA_FAILS: Rule = rule(
    "AOI-01.schema-fails",
    "§3.2",
    "`schema --output json` exits 0, without a query, a configuration or a sidecar file",
    "Whoever wants to know what the tool prints starts here.",
    EMBED,
    &[
        "AOI-3-01",
        "AOI-3.1-02",
        "AOI-3.1-03",
        "AOI-3.2-02",
        "AOI-3.2-05",
        "AOI-16.2-01",
        "AOI-18.2-01",
        "AOI-19-02",
    ],
);
pub static SCHEMA_HANGS: Rule = rule(
    "AOI-01.schema-hangs",
    "§3.2",
    "`schema --output json` comes to an end",
    "A caller that waits for ever has learnt nothing.",
    "Do not wait for a terminal, a network or a lock before the schema is printed.",
    &["AOI-3-01"],
);
pub static SCHEMA_NETWORK: Rule = rule(
    "AOI-01.schema-network",
    "§3.2",
    "`schema` needs no network",
    ALONE,
    EMBED,
    &["AOI-3-01", "AOI-3.2-03"],
);
pub static SCHEMA_CREDENTIALS: Rule = rule(
    "AOI-01.schema-credentials",
    "§3.2",
    "`schema` needs no login, no secret in the environment and no file with one",
    ALONE,
    "Handle `schema` before credentials are looked for.",
    &["AOI-3-01", "AOI-3.2-01", "AOI-3.2-04"],
);
pub static SCHEMA_NAME: Rule = Rule {
    level: Level::Should,
    ..rule(
        "AOI-01.schema-name",
        "§3, §16.4",
        "The schema is had by `schema --output json`, or by `aoi-schema` where `schema` is taken",
        "Callers try the names that the convention has.",
        "Add a subcommand `schema`; a flag `--schema` may stay beside it.",
        &["AOI-3-03", "AOI-3-04", "AOI-16.4-02", "AOI-16.4-04"],
    )
};
pub static SCHEMA_NOT_JSON: Rule = rule(
    "AOI-01.schema-not-json",
    "§10.1",
    "`schema --output json` prints one JSON document and nothing else",
    "A caller parses the whole of stdout.",
    "Print the document only; greetings and notes go to stderr.",
    &["AOI-10.1-01"],
);
pub static SCHEMA_IS_STREAM: Rule = rule(
    "AOI-01.schema-is-stream",
    "§10.1",
    "`schema --output json` prints a schema, not a stream of events",
    "With `json` a caller expects one document; a stream has to be unpacked first.",
    "Wrap nothing: print the schema itself.",
    &["AOI-10.1-01"],
);
pub static SCHEMA_ANSI: Rule = rule(
    "AOI-01.schema-ansi",
    "§2",
    "The schema is printed without colours",
    "Escape sequences make it no JSON.",
    "Colour nothing where machines read.",
    &["AOI-10.1-01"],
);
pub static SCHEMA_INVALID: Rule = rule(
    "AOI-01.schema-invalid",
    "§18.2",
    "The schema is valid by the meta-schema of its `$schema` (2020-12 where it names none)",
    "A schema that no validator takes protects nobody.",
    "Run a validator with the meta-schema over it in your tests.",
    &["AOI-18.2-01", "AOI-10.1-01"],
);
pub static SCHEMA_REFERENCE: Rule = rule(
    "AOI-01.schema-reference",
    "§18.2",
    "Every reference inside the schema leads somewhere",
    "A validator stops at a reference to nothing.",
    "Correct the `$ref`, or add the definition.",
    &["AOI-18.2-01"],
);
pub static SCHEMA_REMOTE: Rule = rule(
    "AOI-01.schema-remote-reference",
    "§3",
    "The schema holds all that it refers to",
    "Discovery works offline; a part that must be fetched is missing then.",
    "Put the part into `$defs`.",
    &["AOI-3-01", "AOI-3.1-02"],
);
pub static SCHEMA_FILE_ID: Rule = rule(
    "AOI-01.schema-file-id",
    "§10.2",
    "`$id` is no `file:` address, unless the schema is declared local",
    "A path of one machine names nothing on another.",
    "Use an https address with the version in it, or `local_only_schema: true` in the probe file.",
    &["AOI-10.2-01"],
);
pub static SCHEMA_MAP: Rule = Rule {
    level: Level::Open,
    ..rule(
        "AOI-01.schema-map",
        "§10.1, §23",
        "`schema` prints one schema that any event can be held against",
        "With a list or a map a caller has to know which part is meant.",
        "Put the parts into `$defs` of one schema and select by `type`.",
        &["AOI-10.1-01"],
    )
};
pub static SCHEMA_UNSTABLE: Rule = rule(
    "AOI-01.schema-unstable",
    "§3.2",
    "The schema is the same wherever it is asked for",
    "What depends on the directory is not a contract of the tool.",
    "Read nothing from the working directory.",
    &["AOI-3.2-02"],
);
pub static SCHEMA_FORMS: Rule = rule(
    "AOI-01.schema-forms-differ",
    "§3",
    "Where `schema` and `--schema` both exist, they print the same",
    "Two answers to one question leave a caller with none.",
    "Let both lead to the same code.",
    &["AOI-3-05", "AOI-3-04"],
);
pub static CAPABILITIES_FAIL: Rule = rule(
    "AOI-01.capabilities-fails",
    "§3, §18.2",
    "`capabilities --output json` exits 0, if the tool has it",
    "From it a caller knows what the tool can do.",
    EMBED,
    &["AOI-3-02", "AOI-3-03", "AOI-16.2-03", "AOI-18.2-01"],
);
pub static CAPABILITIES_HANG: Rule = rule(
    "AOI-01.capabilities-hangs",
    "§3",
    "`capabilities --output json` comes to an end",
    "A caller that waits for ever has learnt nothing.",
    "Do not wait for a terminal, a network or a lock before the capabilities are printed.",
    &["AOI-3-02"],
);
pub static CAPABILITIES_NETWORK: Rule = rule(
    "AOI-01.capabilities-network",
    "§3",
    "`capabilities` needs no network",
    ALONE,
    EMBED,
    &["AOI-3-02"],
);
pub static CAPABILITIES_CREDENTIALS: Rule = rule(
    "AOI-01.capabilities-credentials",
    "§3",
    "`capabilities` needs no login, no secret in the environment and no file with one",
    ALONE,
    "Handle `capabilities` before credentials are looked for.",
    &["AOI-3-02"],
);
pub static CAPABILITIES_NOT_JSON: Rule = rule(
    "AOI-01.capabilities-not-json",
    "§17",
    "`capabilities --output json` prints one JSON document and nothing else",
    "A caller parses the whole of stdout.",
    "Print the document only; greetings and notes go to stderr.",
    &["AOI-17-01"],
);
pub static CAPABILITIES_NOT_OBJECT: Rule = rule(
    "AOI-01.capabilities-not-object",
    "§17",
    "`capabilities` is one JSON object of its own, neither a list nor a stream of events",
    "Its fields are looked up by name.",
    "Print one object with `tool`, `aoi_versions`, `schemas` and `commands`.",
    &["AOI-17-01"],
);
pub static CAPABILITIES_SHAPE: Rule = Rule {
    level: Level::Open,
    ..rule(
        "AOI-01.capabilities-shape",
        "§17, §23",
        "The fields of `capabilities` that §17 shows have the kinds that it shows",
        "Callers written after §17 read them so.",
        "Compare the document with the example of §17.",
        &["AOI-16.2-03", "AOI-17-01"],
    )
};
pub static CAPABILITIES_FORMS: Rule = rule(
    "AOI-01.capabilities-forms-differ",
    "§3",
    "Where `capabilities` and `--capabilities` both exist, they print the same",
    "Two answers to one question leave a caller with none.",
    "Let both lead to the same code.",
    &["AOI-3-05", "AOI-3-04"],
);

pub const ALL: &[&Rule] = &[
    &SCHEMA_FAILS,
    &SCHEMA_HANGS,
    &SCHEMA_NETWORK,
    &SCHEMA_CREDENTIALS,
    &SCHEMA_NAME,
    &SCHEMA_NOT_JSON,
    &SCHEMA_IS_STREAM,
    &SCHEMA_ANSI,
    &SCHEMA_INVALID,
    &SCHEMA_REFERENCE,
    &SCHEMA_REMOTE,
    &SCHEMA_FILE_ID,
    &SCHEMA_MAP,
    &SCHEMA_UNSTABLE,
    &SCHEMA_FORMS,
    &CAPABILITIES_FAIL,
    &CAPABILITIES_HANG,
    &CAPABILITIES_NETWORK,
    &CAPABILITIES_CREDENTIALS,
    &CAPABILITIES_NOT_JSON,
    &CAPABILITIES_NOT_OBJECT,
    &CAPABILITIES_SHAPE,
    &CAPABILITIES_FORMS,
];
