//! Rules about the discovery documents: capabilities (§17) and the schema (§8.2, §10).

use std::sync::Arc;

use serde_json::Value;

use crate::capture::Capture;
use crate::model::{Check, TOOL};
use crate::observe::is_mutating;
use crate::rules::{Level, Rule, Topic};
use crate::schema::{EventSchema, Form};
use crate::session::Session;
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

pub fn conclude(session: &Session) {
    manifest(session);
    schema(session);
}

/// The run that printed a discovery document.
fn source(session: &Session, word: &str) -> Option<Arc<Capture>> {
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
    check: Check::Advisory,
    level: Level::Must,
    section: "§4.2",
    demands: "An unbounded command is documented as such",
    why: "A caller that waits for its end waits forever.",
    hint: "Add `bounded: false` to the command in `capabilities`, and document it in --help.",
    topic: Topic::Surface,
    register: &["AOI-4.2-01", "AOI-16.3-11"],
};

pub(super) static AOI_VERSIONS: Rule = Rule {
    id: "AOI-adv.aoi-versions",
    check: Check::Advisory,
    level: Level::Should,
    section: "§17",
    demands: "`aoi_versions` in `capabilities` contains \"0.2\"",
    why: "It is the claim that all checks verify.",
    hint: "List every version of AOI-CLI that the tool supports.",
    topic: Topic::Discovery,
    register: &["AOI-17-02"],
};

pub(super) static MANIFEST: Rule = Rule {
    id: "AOI-adv.manifest-fields",
    check: Check::Advisory,
    level: Level::Open,
    section: "§17",
    demands: "`capabilities` has tool, tool_version, aoi_versions, outputs, schemas and commands",
    why: "A caller that can read one manifest should be able to read all of them.",
    hint: "Add the missing fields.",
    topic: Topic::Discovery,
    register: &["AOI-17-02", "AOI-17-03", "AOI-17-04", "AOI-16.2-03"],
};

pub(super) static COMMANDS: Rule = Rule {
    id: "AOI-adv.commands",
    check: Check::Advisory,
    level: Level::Should,
    section: "§17",
    demands: "Every command is listed in `commands` of `capabilities`",
    why: "Callers do not find an unlisted command, and do not know its effects.",
    hint: "Add the command with read_only, bounded and event_types.",
    topic: Topic::Discovery,
    register: &["AOI-17-04", "AOI-16.2-03"],
};

fn manifest(session: &Session) {
    let tool = session.judge(TOOL);
    let own = [&AOI_VERSIONS, &MANIFEST, &VERB];
    let declared = session.declared.get();
    let said = declared.and_then(|declared| declared.capabilities.as_ref());
    let (Some(said), Some(run)) = (said, source(session, "capabilities")) else {
        let why = "`capabilities` could not be read (check 1)";
        for rule in own {
            tool.not_applicable(rule, why);
        }
        for command in session.commands() {
            let judge = session.judge(&command.name);
            judge.not_applicable(&COMMANDS, why);
            if command.unbounded {
                judge.not_verified(&UNBOUNDED, why);
            }
        }
        return;
    };
    let versions = said.get("aoi_versions").and_then(Value::as_array);
    let has = versions.is_some_and(|all| all.iter().any(|one| one == "0.2"));
    let wrong = (!has).then(|| match versions {
        Some(all) => format!(
            "aoi_versions is {}; expected \"0.2\" in it",
            Value::from(all.clone())
        ),
        None => "aoi_versions is missing or not a list".to_owned(),
    });
    tool.held(&AOI_VERSIONS, "aoi_versions contains \"0.2\"", wrong, &run);
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
        .filter(|name| said.get(name).is_none())
        .collect();
    let wrong = (!missing.is_empty()).then(|| format!("missing: {}", missing.join(", ")));
    tool.held(&MANIFEST, "all fields of §17 are present", wrong, &run);
    verbs(session, said, &run);
    commands(session, &run);
}

pub(super) static VERB: Rule = Rule {
    id: "AOI-adv.verb",
    check: Check::Advisory,
    level: Level::Open,
    section: "§16.3",
    demands: "Commands use the standard verbs: list, get, search, create, update, delete, move, \
              copy, send, sync, watch, status",
    why: "Callers find standard names without reading documentation.",
    hint: "Use the standard name for the command, and keep the other one as an alias.",
    topic: Topic::Surface,
    register: &[
        "AOI-16.3-01",
        "AOI-16.3-02",
        "AOI-16.3-03",
        "AOI-16.3-07",
        "AOI-16.3-08",
        "AOI-16.3-12",
    ],
};

fn verbs(session: &Session, said: &Value, run: &Arc<Capture>) {
    let tool = session.judge(TOOL);
    let commands = said.get("commands").and_then(Value::as_array);
    let names = commands.into_iter().flatten();
    let names: Vec<&str> = names
        .filter_map(|command| command.get("name")?.as_str())
        .collect();
    if names.is_empty() {
        return tool.not_applicable(&VERB, "`capabilities` lists no commands");
    }
    // In `notes rm`, the verb follows a noun.
    let odd = names.iter().find_map(|name| {
        let verb = name.split_whitespace().next_back()?;
        let (_, usual) = SYNONYMS.iter().find(|(odd, _)| *odd == verb)?;
        let wanted = format!("{}{usual}", name.strip_suffix(verb)?);
        let has_both = names.contains(&wanted.as_str());
        (!has_both).then(|| format!("rename `{name}` to the standard verb `{usual}`"))
    });
    tool.held(
        &VERB,
        "no command uses another name for a standard verb",
        odd,
        run,
    );
}

pub(super) static DRY_RUN: Rule = Rule {
    id: "AOI-adv.dry-run",
    check: Check::Advisory,
    level: Level::Should,
    section: "§14.2",
    demands: "A command that changes something has a dry run, and `capabilities` declares it",
    why: "A caller wants to see the changes before they happen.",
    hint: "Add --dry-run with aoi:plan events, and `supports_dry_run: true`.",
    topic: Topic::Confirm,
    register: &["AOI-14.2-01", "AOI-17-05"],
};

fn commands(session: &Session, run: &Arc<Capture>) {
    for command in session.commands() {
        let judge = session.judge(&command.name);
        let declared = session.declared.get();
        let entry = declared.and_then(|declared| declared.command(&command.name));
        let says = |key: &str| entry.and_then(|entry| entry.get(key)?.as_bool());
        let wrong = entry
            .is_none()
            .then(|| "`capabilities` does not list the command".to_owned());
        judge.held(&COMMANDS, "`capabilities` lists the command", wrong, run);
        if command.unbounded {
            let told = says("bounded") == Some(false) || says("unbounded") == Some(true);
            let wrong = (!told).then(|| match says("bounded") {
                Some(true) => "`capabilities` declares the command as bounded".to_owned(),
                _ => "`capabilities` does not declare the command as unbounded".to_owned(),
            });
            judge.held(
                &UNBOUNDED,
                "`capabilities` declares the command as unbounded",
                wrong,
                run,
            );
        }
        if is_mutating(session, command) {
            let offers = says("supports_dry_run") == Some(true);
            let wrong = (!offers).then(|| "`capabilities` does not declare a dry run".to_owned());
            judge.held(&DRY_RUN, "`capabilities` declares a dry run", wrong, run);
        }
    }
}

pub(super) static RESERVED: Rule = Rule {
    id: "AOI-adv.reserved-in-schema",
    check: Check::Advisory,
    level: Level::Must,
    section: "§8.2",
    demands: "The schema defines no event with the unprefixed name of a framework event",
    why: "Callers written for an early draft would take it for a framework event.",
    hint: "Rename it, for example from summary to digest.",
    topic: Topic::Json,
    register: &["AOI-8.2-05"],
};

pub(super) static OUTPUT_CLOSED: Rule = Rule {
    id: "AOI-adv.output-closed",
    check: Check::Advisory,
    level: Level::Should,
    section: "§10.3",
    demands: "Event schemas allow unknown fields",
    why: "Otherwise an additional field is a breaking change.",
    hint: "Remove `additionalProperties: false`.",
    topic: Topic::Versions,
    register: &["AOI-10.3-01"],
};

pub(super) static ONE_OF: Rule = Rule {
    id: "AOI-adv.opaque-one-of",
    check: Check::Advisory,
    level: Level::Should,
    section: "§10.4",
    demands: "The schema selects by `type`, with if/then or $defs, and has no plain oneOf at the \
              top level",
    why: "An error such as \"matched none of 14 schemas\" does not tell what is wrong.",
    hint: "Use allOf with {if: {type is x}, then: {$ref}}.",
    topic: Topic::Discovery,
    register: &["AOI-10.4-01"],
};

pub(super) static ID: Rule = Rule {
    id: "AOI-adv.schema-id",
    check: Check::Advisory,
    level: Level::Should,
    section: "§10.2",
    demands: "`$id` of the schema is a public URL that contains the version",
    why: "It identifies the schema for caching and comparison.",
    hint: "Use a URL such as https://schemas.example.com/mytool/events/1.0.0/schema.json.",
    topic: Topic::Discovery,
    register: &["AOI-10.2-02"],
};

fn schema(session: &Session) {
    let tool = session.judge(TOOL);
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
    let is_several = read.as_ref().is_some_and(|read| read.form == Form::Several);
    let types = read.and_then(|read| read.types);
    match types {
        None => tool.not_applicable(&RESERVED, "the schema does not list its types"),
        Some(types) => {
            let reserved = |name: &&String| FRAMEWORK.contains(&format!("aoi:{name}").as_str());
            let wrong = types.iter().find(reserved);
            let wrong = wrong.map(|name| format!("the schema defines the reserved type `{name}`"));
            tool.held(&RESERVED, "no type has a reserved name", wrong, &run);
        }
    }
    let wrong = closed(document).map(|place| format!("{place} forbids unknown fields"));
    tool.held(
        &OUTPUT_CLOSED,
        "events may have additional fields",
        wrong,
        &run,
    );
    let branches = document.get("oneOf").and_then(Value::as_array);
    let opaque =
        branches.is_some_and(|all| all.len() > 1) && document.get("discriminator").is_none();
    let wrong = opaque
        .then(|| "the schema has a oneOf without a discriminator at the top level".to_owned());
    tool.held(
        &ONE_OF,
        "the schema has no plain oneOf at the top level",
        wrong,
        &run,
    );
    let id = document.get("$id").and_then(Value::as_str);
    let public = |id: &str| id.starts_with("https://") || id.starts_with("http://");
    let wrong = match id {
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
    tool.held(&ID, "`$id` is a URL with a version", wrong, &run);
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
