//! What the tool says of itself: capabilities (§17) and the schema (§8.2, §10).

use std::sync::Arc;

use serde_json::Value;

use crate::capture::Capture;
use crate::model::{Check, TOOL};
use crate::observe::is_mutating;
use crate::rules::{Level, Rule, Topic};
use crate::schema::{EventSchema, Form};
use crate::session::Session;
use crate::stream::FRAMEWORK;

/// Names that mean one of the usual verbs.
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

/// The run that printed a document of discovery.
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
    why: "A caller that waits for its end waits for ever.",
    hint: "Say `bounded: false` in capabilities, and say it in --help.",
    topic: Topic::Surface,
    register: &["AOI-4.2-01", "AOI-16.3-11"],
};

pub(super) static AOI_VERSIONS: Rule = Rule {
    id: "AOI-adv.aoi-versions",
    check: Check::Advisory,
    level: Level::Should,
    section: "§17",
    demands: "`aoi_versions` of capabilities has \"0.2\"",
    why: "It is the claim that everything else is held against.",
    hint: "List every version of AOI-CLI that the tool keeps.",
    topic: Topic::Discovery,
    register: &["AOI-17-02"],
};

pub(super) static MANIFEST: Rule = Rule {
    id: "AOI-adv.manifest-fields",
    check: Check::Advisory,
    level: Level::Open,
    section: "§17",
    demands: "capabilities have tool, tool_version, aoi_versions, outputs, schemas and commands",
    why: "A caller that reads one manifest should be able to read the next.",
    hint: "Add what is missing.",
    topic: Topic::Discovery,
    register: &["AOI-17-02", "AOI-17-03", "AOI-17-04", "AOI-16.2-03"],
};

pub(super) static COMMANDS: Rule = Rule {
    id: "AOI-adv.commands",
    check: Check::Advisory,
    level: Level::Should,
    section: "§17",
    demands: "Every command is among the `commands` of capabilities",
    why: "What is not listed is not found, and nothing is known of its effects.",
    hint: "List it, with read_only, bounded and event_types.",
    topic: Topic::Discovery,
    register: &["AOI-17-04", "AOI-16.2-03"],
};

fn manifest(session: &Session) {
    let tool = session.judge(TOOL);
    let own = [&AOI_VERSIONS, &MANIFEST, &VERB];
    let declared = session.declared.get();
    let said = declared.and_then(|declared| declared.capabilities.as_ref());
    let (Some(said), Some(run)) = (said, source(session, "capabilities")) else {
        let why = "there are no capabilities that can be read (check 1)";
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
        Some(all) => format!("aoi_versions is {}", Value::from(all.clone())),
        None => "there is no list aoi_versions".to_owned(),
    });
    tool.held(&AOI_VERSIONS, "0.2 is among them", wrong, &run);
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
    let wrong = (!missing.is_empty()).then(|| format!("{} is missing", missing.join(", ")));
    tool.held(&MANIFEST, "everything that §17 shows is there", wrong, &run);
    verbs(session, said, &run);
    commands(session, &run);
}

pub(super) static VERB: Rule = Rule {
    id: "AOI-adv.verb",
    check: Check::Advisory,
    level: Level::Open,
    section: "§16.3",
    demands: "Commands have the usual verbs: list, get, search, create, update, delete, move, copy, send, sync, watch, status",
    why: "A caller finds them without looking.",
    hint: "Give the command its usual name, and keep the other one for people.",
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
        return tool.not_applicable(&VERB, "capabilities list no commands");
    }
    // `notes rm` is a verb behind a noun.
    let odd = names.iter().find_map(|name| {
        let verb = name.split_whitespace().next_back()?;
        let (_, usual) = SYNONYMS.iter().find(|(odd, _)| *odd == verb)?;
        let wanted = format!("{}{usual}", name.strip_suffix(verb)?);
        let has_both = names.contains(&wanted.as_str());
        (!has_both).then(|| format!("`{name}` is what others call {usual}"))
    });
    tool.held(&VERB, "no other name stands for a usual one", odd, run);
}

pub(super) static DRY_RUN: Rule = Rule {
    id: "AOI-adv.dry-run",
    check: Check::Advisory,
    level: Level::Should,
    section: "§14.2",
    demands: "A command that changes something offers a dry run, and capabilities say so",
    why: "A caller wants to see what would happen before it does.",
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
            .then(|| "capabilities do not list it".to_owned());
        judge.held(&COMMANDS, "capabilities list it", wrong, run);
        if command.unbounded {
            let told = says("bounded") == Some(false) || says("unbounded") == Some(true);
            let wrong = (!told).then(|| match says("bounded") {
                Some(true) => "capabilities call it bounded".to_owned(),
                _ => "capabilities do not say so".to_owned(),
            });
            judge.held(&UNBOUNDED, "capabilities say so", wrong, run);
        }
        if is_mutating(session, command) {
            let offers = says("supports_dry_run") == Some(true);
            let wrong = (!offers).then(|| "capabilities declare none".to_owned());
            judge.held(&DRY_RUN, "capabilities declare one", wrong, run);
        }
    }
}

pub(super) static RESERVED: Rule = Rule {
    id: "AOI-adv.reserved-in-schema",
    check: Check::Advisory,
    level: Level::Must,
    section: "§8.2",
    demands: "The schema defines no event with the name of a framework event without its prefix",
    why: "Readers of older texts would take it for the framework's own.",
    hint: "Rename it, such as summary to digest.",
    topic: Topic::Json,
    register: &["AOI-8.2-05"],
};

pub(super) static OUTPUT_CLOSED: Rule = Rule {
    id: "AOI-adv.output-closed",
    check: Check::Advisory,
    level: Level::Should,
    section: "§10.3",
    demands: "Schemas of events allow unknown fields",
    why: "A field more would be a breaking change.",
    hint: "Leave `additionalProperties` out.",
    topic: Topic::Versions,
    register: &["AOI-10.3-01"],
};

pub(super) static ONE_OF: Rule = Rule {
    id: "AOI-adv.opaque-one-of",
    check: Check::Advisory,
    level: Level::Should,
    section: "§10.4",
    demands: "The schema selects by `type`, with if/then or $defs, and is no bare oneOf at its top",
    why: "\"Matched none of 14 schemas\" tells nobody what is wrong.",
    hint: "Write allOf of {if: {type is x}, then: {$ref}}.",
    topic: Topic::Discovery,
    register: &["AOI-10.4-01"],
};

pub(super) static ID: Rule = Rule {
    id: "AOI-adv.schema-id",
    check: Check::Advisory,
    level: Level::Should,
    section: "§10.2",
    demands: "`$id` of the schema is a public URL with its version",
    why: "It is the name under which the schema is kept and compared.",
    hint: "Such as https://schemas.example.com/mytool/events/1.0.0/schema.json.",
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
            tool.not_applicable(rule, "there is no schema that can be read (check 1)");
        }
        return;
    };
    let read = EventSchema::read(document).ok();
    let is_several = read.as_ref().is_some_and(|read| read.form == Form::Several);
    let types = read.and_then(|read| read.types);
    match types {
        None => tool.not_applicable(&RESERVED, "the schema names no types"),
        Some(types) => {
            let reserved = |name: &&String| FRAMEWORK.contains(&format!("aoi:{name}").as_str());
            let wrong = types.iter().find(reserved);
            let wrong = wrong.map(|name| format!("there is an event `{name}` in it"));
            tool.held(&RESERVED, "no type has a reserved name", wrong, &run);
        }
    }
    let wrong = closed(document).map(|place| format!("{place} refuses unknown fields"));
    tool.held(&OUTPUT_CLOSED, "events may have fields more", wrong, &run);
    let branches = document.get("oneOf").and_then(Value::as_array);
    let opaque =
        branches.is_some_and(|all| all.len() > 1) && document.get("discriminator").is_none();
    let wrong = opaque.then(|| "its top is a oneOf without a discriminator".to_owned());
    tool.held(&ONE_OF, "no oneOf hides what is wrong", wrong, &run);
    let id = document.get("$id").and_then(Value::as_str);
    let public = |id: &str| id.starts_with("https://") || id.starts_with("http://");
    let wrong = match id {
        // Check 1 speaks of those.
        _ if session.probe.local_only_schema => {
            return tool.not_applicable(&ID, "the schema is declared local");
        }
        None if is_several => {
            return tool.not_applicable(&ID, "there is a schema for each type");
        }
        None => Some("there is no `$id`".to_owned()),
        Some(id) if !public(id) => Some(format!("`$id` is {id}")),
        Some(id) if !id.bytes().any(|byte| byte.is_ascii_digit()) => {
            Some(format!("`$id` is {id}, which has no version"))
        }
        Some(_) => None,
    };
    tool.held(&ID, "a URL with a version", wrong, &run);
}

/// The first schema of an event that is closed.
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
