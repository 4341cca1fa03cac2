//! Rules about the discovery documents: capabilities (§17) and the schema (§8.2, §10).

use std::sync::Arc;

use serde_json::Value;

use crate::capture::Capture;
use crate::model::{CheckId, TOOL};
use crate::observe::is_mutating;
use crate::rules::{Level, Rule, Topic};
use crate::schema::{EventSchema, SchemaForm};
use crate::session::LintSession;
use crate::stream::FRAMEWORK;

/// Other names for the verbs of the spec.
const SYNONYMS: [(&str, &str); 22] = [
    ("ls", "list"),
    ("index", "list"),
    ("show", "get"),
    ("view", "get"),
    ("describe", "get"),
    ("find", "search"),
    ("query", "search"),
    ("new", "create"),
    ("add", "create"),
    ("make", "create"),
    ("edit", "update"),
    ("modify", "update"),
    ("change", "update"),
    ("rm", "delete"),
    ("remove", "delete"),
    ("del", "delete"),
    ("destroy", "delete"),
    ("mv", "move"),
    ("rename", "move"),
    ("cp", "copy"),
    ("tail", "watch"),
    ("follow", "watch"),
];

pub fn evaluate(session: &LintSession) {
    manifest(session);
    schema(session);
}

/// The run that printed a discovery document.
fn source(session: &LintSession, word: &str) -> Option<Arc<Capture>> {
    let captures = session.captures();
    let is_one = |run: &&Arc<Capture>| {
        let flag = format!("--{word}");
        let mut words = run.argv.iter().skip(1);
        run.end.is_success() && words.any(|one| one == word || *one == *flag)
    };
    captures.iter().find(is_one).cloned()
}

pub(super) static UNBOUNDED: Rule = Rule {
    id: "AOI-adv.unbounded",
    check: CheckId::Advisory,
    level: Level::Must,
    section: "§4.2",
    requirement: "An unbounded command is documented as such",
    why: "A caller that waits for its end waits forever.",
    hint: "Add `bounded: false` to the command in `capabilities`, and document it in --help.",
    topic: Topic::Surface,
    requirement_ids: &["AOI-4.2-01", "AOI-16.3-11"],
};

pub(super) static AOI_VERSIONS: Rule = Rule {
    id: "AOI-adv.aoi-versions",
    check: CheckId::Advisory,
    level: Level::Should,
    section: "§17",
    requirement: "`aoi_versions` in `capabilities` contains \"0.2\"",
    why: "It is the claim that all checks verify.",
    hint: "List every version of AOI-CLI that the tool supports.",
    topic: Topic::Discovery,
    requirement_ids: &["AOI-17-02"],
};

pub(super) static MANIFEST: Rule = Rule {
    id: "AOI-adv.manifest-fields",
    check: CheckId::Advisory,
    level: Level::Open,
    section: "§17",
    requirement: "`capabilities` has tool, tool_version, aoi_versions, outputs, schemas and commands",
    why: "A caller that can read one manifest should be able to read all of them.",
    hint: "Add the missing fields.",
    topic: Topic::Discovery,
    requirement_ids: &["AOI-17-02", "AOI-17-03", "AOI-17-04", "AOI-16.2-03"],
};

pub(super) static COMMANDS: Rule = Rule {
    id: "AOI-adv.commands",
    check: CheckId::Advisory,
    level: Level::Should,
    section: "§17",
    requirement: "Every command is listed in `commands` of `capabilities`",
    why: "Callers do not find an unlisted command, and do not know its effects.",
    hint: "Add the command with read_only, bounded and event_types.",
    topic: Topic::Discovery,
    requirement_ids: &["AOI-17-04", "AOI-16.2-03"],
};

fn manifest(session: &LintSession) {
    let tool = session.reporter(TOOL);
    let own = [&AOI_VERSIONS, &MANIFEST, &VERB];
    let declared = session.declared.get();
    let capabilities = declared.and_then(|declared| declared.capabilities.as_ref());
    let (Some(capabilities), Some(run)) = (capabilities, source(session, "capabilities")) else {
        let why = "`capabilities` could not be read (check 1)";
        for rule in own {
            tool.not_applicable(rule, why);
        }
        for command in session.commands() {
            let reporter = session.reporter(&command.name);
            reporter.not_applicable(&COMMANDS, why);
            if command.unbounded {
                reporter.not_verified(&UNBOUNDED, why);
            }
        }
        return;
    };
    let versions = capabilities.get("aoi_versions").and_then(Value::as_array);
    let has = versions.is_some_and(|all| all.iter().any(|one| one == "0.2"));
    let violation = (!has).then(|| match versions {
        Some(all) => format!(
            "aoi_versions is {}; expected \"0.2\" in it",
            Value::from(all.clone())
        ),
        None => "aoi_versions is missing or not a list".to_owned(),
    });
    tool.decide(
        &AOI_VERSIONS,
        "aoi_versions contains \"0.2\"",
        violation,
        &run,
    );
    let fields = [
        "tool",
        "tool_version",
        "aoi_versions",
        "outputs",
        "schemas",
        "commands",
    ];
    let missing: Vec<&str> = fields
        .into_iter()
        .filter(|name| capabilities.get(name).is_none())
        .collect();
    let violation = (!missing.is_empty()).then(|| format!("missing: {}", missing.join(", ")));
    tool.decide(&MANIFEST, "all fields of §17 are present", violation, &run);
    verbs(session, capabilities, &run);
    commands(session, &run);
}

pub(super) static VERB: Rule = Rule {
    id: "AOI-adv.verb",
    check: CheckId::Advisory,
    level: Level::Open,
    section: "§16.3",
    requirement: "Commands use the standard verbs: list, get, search, create, update, delete, move, \
              copy, send, sync, watch, status",
    why: "Callers find standard names without reading documentation.",
    hint: "Use the standard name for the command, and keep the other one as an alias.",
    topic: Topic::Surface,
    requirement_ids: &[
        "AOI-16.3-01",
        "AOI-16.3-02",
        "AOI-16.3-03",
        "AOI-16.3-07",
        "AOI-16.3-08",
        "AOI-16.3-09",
        "AOI-16.3-12",
    ],
};

fn verbs(session: &LintSession, capabilities: &Value, run: &Arc<Capture>) {
    let tool = session.reporter(TOOL);
    let commands = capabilities.get("commands").and_then(Value::as_array);
    let names = commands.into_iter().flatten();
    let names: Vec<&str> = names
        .filter_map(|command| command.get("name")?.as_str())
        .collect();
    if names.is_empty() {
        return tool.not_applicable(&VERB, "`capabilities` lists no commands");
    }
    // In `notes rm`, the verb follows a noun.
    let invalid = names.iter().find_map(|name| {
        let verb = name.split_whitespace().next_back()?;
        let (_, usual) = SYNONYMS.iter().find(|(invalid, _)| *invalid == verb)?;
        let usual_name = format!("{}{usual}", name.strip_suffix(verb)?);
        let has_both = names.contains(&usual_name.as_str());
        (!has_both).then(|| format!("rename `{name}` to the standard verb `{usual}`"))
    });
    tool.decide(
        &VERB,
        "no command uses another name for a standard verb",
        invalid,
        run,
    );
}

pub(super) static DRY_RUN: Rule = Rule {
    id: "AOI-adv.dry-run",
    check: CheckId::Advisory,
    level: Level::Should,
    section: "§14.2",
    requirement: "A command that changes something has a dry run, and `capabilities` declares it",
    why: "A caller wants to see the changes before they happen.",
    hint: "Add --dry-run with aoi:plan events, and `supports_dry_run: true`.",
    topic: Topic::Confirm,
    requirement_ids: &["AOI-14.2-01", "AOI-17-05"],
};

fn commands(session: &LintSession, run: &Arc<Capture>) {
    for command in session.commands() {
        let reporter = session.reporter(&command.name);
        let declared = session.declared.get();
        let entry = declared.and_then(|declared| declared.command(&command.name));
        let says = |key: &str| entry.and_then(|entry| entry.get(key)?.as_bool());
        let violation = entry
            .is_none()
            .then(|| "`capabilities` does not list the command".to_owned());
        reporter.decide(
            &COMMANDS,
            "`capabilities` lists the command",
            violation,
            run,
        );
        if command.unbounded {
            let is_declared = says("bounded") == Some(false) || says("unbounded") == Some(true);
            let violation = (!is_declared).then(|| match says("bounded") {
                Some(true) => "`capabilities` declares the command as bounded".to_owned(),
                _ => "`capabilities` does not declare the command as unbounded".to_owned(),
            });
            reporter.decide(
                &UNBOUNDED,
                "`capabilities` declares the command as unbounded",
                violation,
                run,
            );
        }
        if is_mutating(session, command) {
            let offers = says("supports_dry_run") == Some(true);
            let violation =
                (!offers).then(|| "`capabilities` does not declare a dry run".to_owned());
            reporter.decide(
                &DRY_RUN,
                "`capabilities` declares a dry run",
                violation,
                run,
            );
        }
    }
}

pub(super) static RESERVED: Rule = Rule {
    id: "AOI-adv.reserved-in-schema",
    check: CheckId::Advisory,
    level: Level::Must,
    section: "§8.2",
    requirement: "The schema defines no event with the unprefixed name of a framework event",
    why: "Callers written for an early draft would take it for a framework event.",
    hint: "Rename it, for example from summary to digest.",
    topic: Topic::Json,
    requirement_ids: &["AOI-8.2-05"],
};

pub(super) static OUTPUT_CLOSED: Rule = Rule {
    id: "AOI-adv.output-closed",
    check: CheckId::Advisory,
    level: Level::Should,
    section: "§10.3",
    requirement: "Event schemas allow unknown fields",
    why: "Otherwise an additional field is a breaking change.",
    hint: "Remove `additionalProperties: false`.",
    topic: Topic::Versions,
    requirement_ids: &["AOI-10.3-01"],
};

pub(super) static ONE_OF: Rule = Rule {
    id: "AOI-adv.opaque-one-of",
    check: CheckId::Advisory,
    level: Level::Should,
    section: "§10.4",
    requirement: "The schema selects by `type`, with if/then or $defs, and has no plain oneOf at the \
              top level",
    why: "An error such as \"matched none of 14 schemas\" does not tell what is wrong.",
    hint: "Use allOf with {if: {type is x}, then: {$ref}}.",
    topic: Topic::Discovery,
    requirement_ids: &["AOI-10.4-01"],
};

pub(super) static ID: Rule = Rule {
    id: "AOI-adv.schema-id",
    check: CheckId::Advisory,
    level: Level::Should,
    section: "§10.2",
    requirement: "`$id` of the schema is a public URL that contains the version",
    why: "It identifies the schema for caching and comparison.",
    hint: "Use a URL such as https://schemas.example.com/mytool/events/1.0.0/schema.json.",
    topic: Topic::Discovery,
    requirement_ids: &["AOI-10.2-02"],
};

fn schema(session: &LintSession) {
    let tool = session.reporter(TOOL);
    let rules: [&Rule; 4] = [&RESERVED, &OUTPUT_CLOSED, &ONE_OF, &ID];
    let declared = session.declared.get();
    let document = declared.and_then(|declared| declared.schemas.get(""));
    let (Some(document), Some(run)) = (document, source(session, "schema")) else {
        for rule in rules {
            tool.not_applicable(rule, "the schema is missing or invalid (check 1)");
        }
        return;
    };
    let read = EventSchema::read(document).ok();
    let is_several = read
        .as_ref()
        .is_some_and(|read| read.form == SchemaForm::Several);
    let types = read.and_then(|read| read.types);
    match types {
        None => tool.not_applicable(&RESERVED, "the schema does not list its types"),
        Some(types) => {
            let reserved = |name: &&String| FRAMEWORK.contains(&format!("aoi:{name}").as_str());
            let violation = types.iter().find(reserved);
            let violation =
                violation.map(|name| format!("the schema defines the reserved type `{name}`"));
            tool.decide(&RESERVED, "no type has a reserved name", violation, &run);
        }
    }
    let violation = closed(document).map(|place| format!("{place} forbids unknown fields"));
    tool.decide(
        &OUTPUT_CLOSED,
        "events may have additional fields",
        violation,
        &run,
    );
    let branches = document.get("oneOf").and_then(Value::as_array);
    let opaque =
        branches.is_some_and(|all| all.len() > 1) && document.get("discriminator").is_none();
    let violation = opaque
        .then(|| "the schema has a oneOf without a discriminator at the top level".to_owned());
    tool.decide(
        &ONE_OF,
        "the schema has no plain oneOf at the top level",
        violation,
        &run,
    );
    let id = document.get("$id").and_then(Value::as_str);
    let public = |id: &str| id.starts_with("https://") || id.starts_with("http://");
    let violation = match id {
        // Check 1 covers local schemas.
        _ if session.probe.local_only_schema => {
            return tool.not_applicable(&ID, "the schema is declared local");
        }
        None if is_several => {
            return tool.not_applicable(&ID, "there is one schema per type");
        }
        None => Some("the schema has no `$id`".to_owned()),
        Some(id) if !public(id) => Some(format!("`$id` is {id}, which is not a public URL")),
        Some(id) if !id.bytes().any(|byte| byte.is_ascii_digit()) => {
            Some(format!("`$id` is {id}, which contains no version"))
        }
        Some(_) => None,
    };
    tool.decide(&ID, "`$id` is a URL with a version", violation, &run);
}

/// The first event schema that forbids unknown fields.
fn closed(document: &Value) -> Option<String> {
    let is_closed =
        |schema: &Value| schema.get("additionalProperties") == Some(&Value::Bool(false));
    if is_closed(document) {
        return Some("the schema".to_owned());
    }
    let keyed = ["$defs", "definitions"]
        .iter()
        .filter_map(|key| document.get(*key)?.as_object());
    keyed
        .chain(document.as_object())
        .flatten()
        .find(|(_, schema)| is_closed(schema))
        .map(|(name, _)| format!("`{name}`"))
}
