//! What the text asks for beyond the 13 checks. These bear on no pair of the matrix.

use crate::model::Check;
use crate::rules::{Level, Rule, Topic};

const fn rule(
    id: &'static str,
    level: Level,
    section: &'static str,
    demands: &'static str,
    (why, hint): (&'static str, &'static str),
    topic: Topic,
    register: &'static [&'static str],
) -> Rule {
    Rule {
        id,
        check: Check::Advisory,
        level,
        section,
        demands,
        why,
        hint,
        topic,
        register,
    }
}

pub static HELP: Rule = rule(
    "AOI-adv.help",
    Level::Must,
    "§16.1",
    "`--help` and `-h` print help and exit 0",
    (
        "It is where people and programs begin, and what a discovery without a manifest falls back on.",
        "Take both before anything else is read, print to stdout and exit 0.",
    ),
    Topic::Surface,
    &["AOI-16.1-01"],
);
pub static VERSION: Rule = rule(
    "AOI-adv.version",
    Level::Should,
    "§16.1",
    "`--version` prints the version of the tool and exits 0",
    (
        "A report about a tool needs its version.",
        "Print the name and the version of the release.",
    ),
    Topic::Surface,
    &["AOI-16.1-02"],
);
pub static NO_COLOR: Rule = rule(
    "AOI-adv.no-color",
    Level::Should,
    "§16.1",
    "`--no-color` is accepted",
    (
        "Callers add it to every tool; one that refuses it breaks them.",
        "Accept it, and do nothing with it in machine mode.",
    ),
    Topic::Surface,
    &["AOI-16.1-12"],
);
pub static TIMEOUT: Rule = rule(
    "AOI-adv.timeout",
    Level::Should,
    "§16.1",
    "`--timeout SECONDS` ends a run that takes longer, with a failure",
    (
        "A caller that gives a bound must not wait beyond it.",
        "Give up when the time is over: an aoi:error of category timeout, exit 75 or 124.",
    ),
    Topic::Surface,
    &["AOI-16.1-05", "AOI-15-02"],
);
pub static MACHINE_FLAG: Rule = rule(
    "AOI-adv.machine-flag",
    Level::Must,
    "§1, §16.1",
    "`--output jsonl` or `--format jsonl` puts the tool into machine mode, unless it has no other",
    (
        "A caller that knows the text can call any tool without reading its manual.",
        "Accept one of the two beside the flag that there is.",
    ),
    Topic::Surface,
    &["AOI-1-02", "AOI-16.1-03", "AOI-16.4-03"],
);
pub static INPUT_SCHEMA: Rule = rule(
    "AOI-adv.input-schema",
    Level::Should,
    "§12.1",
    "`input-schema --output json --command NAME` prints the JSON Schema of what a command reads",
    (
        "Whoever writes the lines must know what may stand in them.",
        "Print the schema by which the command itself validates its input.",
    ),
    Topic::Input,
    &["AOI-12.1-02", "AOI-16.2-02"],
);
pub static INPUT_OPEN: Rule = rule(
    "AOI-adv.input-schema-open",
    Level::Should,
    "§10.3",
    "The schema of the input refuses unknown fields",
    (
        "A misspelt field that is let through is a value that is lost.",
        "Set `additionalProperties: false`.",
    ),
    Topic::Input,
    &["AOI-10.3-02"],
);
pub static CODE: Rule = rule(
    "AOI-adv.code-unstable",
    Level::Should,
    "§9.1",
    "The same mistake has the same code each time",
    (
        "A caller branches on it.",
        "Give every kind of failure one constant.",
    ),
    Topic::Errors,
    &["AOI-9.1-16"],
);
pub static UPSTREAM_ERROR: Rule = rule(
    "AOI-adv.upstream-error",
    Level::Should,
    "§13",
    "An aoi:error from upstream turns the own summary to ok: false",
    (
        "A pipeline is as good as its weakest part; an error in the middle must reach its end.",
        "Remember that an aoi:error came by, unless --continue-on-error was given.",
    ),
    Topic::Input,
    &["AOI-13-02", "AOI-13-04", "AOI-13-07"],
);
pub static UPSTREAM_WARNING: Rule = rule(
    "AOI-adv.upstream-warning",
    Level::Should,
    "§13",
    "An aoi:warning from upstream is passed on or counted",
    (
        "Whoever reads the end of a pipeline sees nothing else of its beginning.",
        "Emit it again, or add it to warning_count.",
    ),
    Topic::Input,
    &["AOI-13-02", "AOI-13-06"],
);
pub static TIMESTAMP: Rule = rule(
    "AOI-adv.timestamp",
    Level::Open,
    "§8.1",
    "A `timestamp` is written as ISO 8601 says",
    (
        "Other forms mean one thing here and another there.",
        "Write 2026-01-31T12:00:00Z.",
    ),
    Topic::Json,
    &["AOI-8.1-07"],
);
pub static TRACE_ID: Rule = rule(
    "AOI-adv.trace-id",
    Level::Open,
    "§8.1",
    "All events of one run have the same `trace_id`, where they have one",
    (
        "It is there to find what belongs together.",
        "Make it once, when the run begins.",
    ),
    Topic::Json,
    &["AOI-8.1-08"],
);
pub static EXIT: Rule = rule(
    "AOI-adv.exit-category",
    Level::Should,
    "§6",
    "The exit status fits the category of the error, as sysexits has it",
    (
        "A shell script sees the status and nothing else.",
        "usage 64, validation 65, internal 70, io 74, authz 77, config 78, timeout 75 or 124.",
    ),
    Topic::Errors,
    &["AOI-6-03", "AOI-6-04", "AOI-6-06", "AOI-6-08", "AOI-6-09"],
);
pub static RETRY: Rule = rule(
    "AOI-adv.retry-hint",
    Level::Should,
    "§9.1",
    "An aoi:error of category rate_limited says when to try again",
    (
        "Without it a caller guesses, and is throttled again.",
        "Add retry_after_ms, from the service's own header where it sends one.",
    ),
    Topic::Errors,
    &["AOI-9.1-08"],
);
pub static HIT: Rule = rule(
    "AOI-adv.hit-fields",
    Level::Should,
    "§8.3",
    "A `hit` has an id, path or URL, a rank or score, and a snippet or text; a `match` a path, a line and its text",
    (
        "A result that cannot be looked up or compared has to be searched for again.",
        "Add what is missing, under these names.",
    ),
    Topic::Ids,
    &["AOI-8.3-04", "AOI-8.3-05"],
);
pub static HEARTBEAT: Rule = rule(
    "AOI-adv.heartbeat",
    Level::Open,
    "§4.2",
    "An unbounded stream that declares aoi:heartbeat sends one within two seconds",
    (
        "A caller that waits for it takes the stream for dead.",
        "Send them by the clock, or do not declare them.",
    ),
    Topic::Signals,
    &["AOI-4.2-02", "AOI-8.3-09"],
);
pub static UNBOUNDED: Rule = rule(
    "AOI-adv.unbounded",
    Level::Must,
    "§4.2",
    "An unbounded command is documented as such",
    (
        "A caller that waits for its end waits for ever.",
        "Say `bounded: false` in capabilities, and say it in --help.",
    ),
    Topic::Surface,
    &["AOI-4.2-01", "AOI-16.3-11"],
);
pub static AOI_VERSIONS: Rule = rule(
    "AOI-adv.aoi-versions",
    Level::Should,
    "§17",
    "`aoi_versions` of capabilities has \"0.2\"",
    (
        "It is the claim that everything else is held against.",
        "List every version of AOI-CLI that the tool keeps.",
    ),
    Topic::Discovery,
    &["AOI-17-02"],
);
pub static MANIFEST: Rule = rule(
    "AOI-adv.manifest-fields",
    Level::Open,
    "§17",
    "capabilities have tool, tool_version, aoi_versions, outputs, schemas and commands",
    (
        "A caller that reads one manifest should be able to read the next.",
        "Add what is missing.",
    ),
    Topic::Discovery,
    &["AOI-17-02", "AOI-17-03", "AOI-17-04", "AOI-16.2-03"],
);
pub static COMMANDS: Rule = rule(
    "AOI-adv.commands",
    Level::Should,
    "§17",
    "Every command is among the `commands` of capabilities",
    (
        "What is not listed is not found, and nothing is known of its effects.",
        "List it, with read_only, bounded and event_types.",
    ),
    Topic::Discovery,
    &["AOI-17-04", "AOI-16.2-03"],
);
pub static DRY_RUN: Rule = rule(
    "AOI-adv.dry-run",
    Level::Should,
    "§14.2",
    "A command that changes something offers a dry run, and capabilities say so",
    (
        "A caller wants to see what would happen before it does.",
        "Add --dry-run with aoi:plan events, and `supports_dry_run: true`.",
    ),
    Topic::Confirm,
    &["AOI-14.2-01", "AOI-17-05"],
);
pub static VERB: Rule = rule(
    "AOI-adv.verb",
    Level::Open,
    "§16.3",
    "Commands have the usual verbs: list, get, search, create, update, delete, move, copy, send, sync, watch, status",
    (
        "A caller finds them without looking.",
        "Give the command its usual name, and keep the other one for people.",
    ),
    Topic::Surface,
    &[
        "AOI-16.3-01",
        "AOI-16.3-02",
        "AOI-16.3-03",
        "AOI-16.3-07",
        "AOI-16.3-08",
        "AOI-16.3-12",
    ],
);
pub static RESERVED: Rule = rule(
    "AOI-adv.reserved-in-schema",
    Level::Must,
    "§8.2",
    "The schema defines no event with the name of a framework event without its prefix",
    (
        "Readers of older texts would take it for the framework's own.",
        "Rename it, such as summary to digest.",
    ),
    Topic::Json,
    &["AOI-8.2-05"],
);
pub static OUTPUT_CLOSED: Rule = rule(
    "AOI-adv.output-closed",
    Level::Should,
    "§10.3",
    "Schemas of events allow unknown fields",
    (
        "A field more would be a breaking change.",
        "Leave `additionalProperties` out.",
    ),
    Topic::Versions,
    &["AOI-10.3-01"],
);
pub static ONE_OF: Rule = rule(
    "AOI-adv.opaque-one-of",
    Level::Should,
    "§10.4",
    "The schema selects by `type`, with if/then or $defs, and is no bare oneOf at its top",
    (
        "\"Matched none of 14 schemas\" tells nobody what is wrong.",
        "Write allOf of {if: {type is x}, then: {$ref}}.",
    ),
    Topic::Discovery,
    &["AOI-10.4-01"],
);
pub static ID: Rule = rule(
    "AOI-adv.schema-id",
    Level::Should,
    "§10.2",
    "`$id` of the schema is a public URL with its version",
    (
        "It is the name under which the schema is kept and compared.",
        "Such as https://schemas.example.com/mytool/events/1.0.0/schema.json.",
    ),
    Topic::Discovery,
    &["AOI-10.2-02"],
);

pub const ALL: &[&Rule] = &[
    &HELP,
    &VERSION,
    &NO_COLOR,
    &TIMEOUT,
    &MACHINE_FLAG,
    &INPUT_SCHEMA,
    &INPUT_OPEN,
    &CODE,
    &UPSTREAM_ERROR,
    &UPSTREAM_WARNING,
    &TIMESTAMP,
    &TRACE_ID,
    &EXIT,
    &RETRY,
    &HIT,
    &HEARTBEAT,
    &UNBOUNDED,
    &AOI_VERSIONS,
    &MANIFEST,
    &COMMANDS,
    &DRY_RUN,
    &VERB,
    &RESERVED,
    &OUTPUT_CLOSED,
    &ONE_OF,
    &ID,
];
