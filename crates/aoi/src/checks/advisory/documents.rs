//! What the tool says of itself: capabilities (§17) and the schema (§8.2, §10).

use std::sync::Arc;

use serde_json::Value;

use super::rules::{
    AOI_VERSIONS, COMMANDS, DRY_RUN, ID, MANIFEST, ONE_OF, OUTPUT_CLOSED, RESERVED, UNBOUNDED, VERB,
};
use crate::capture::Capture;
use crate::model::TOOL;
use crate::observe::is_mutating;
use crate::rules::Rule;
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
