//! Check 4: events are as the declared schema of their version says. Judged over every run of
//! the session.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::c13_versioned;
use crate::canary;
use crate::capture::Capture;
use crate::model::{Check, TOOL};
use crate::rules::{Level, Rule, Topic};
use crate::schema::{EventSchema, Fit, shortened};
use crate::session::Session;
use crate::stream::{Line, Stream};

pub const RULES: &[&Rule] = &[
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

const TYPES: &str =
    "Callers generate their types from the schema; what is not in it, they cannot read.";

const TEST: &str = "Hold every event against the schema in your tests.";

static META: Rule = Rule {
    id: "AOI-04.meta",
    check: Check::Number(4),
    level: Level::Must,
    section: "§18.2",
    demands: "Every aoi:meta is valid by the declared schema",
    why: TYPES,
    hint: TEST,
    topic: Topic::Json,
    register: &[
        "AOI-1.1-01",
        "AOI-8.1-02",
        "AOI-8.1-04",
        "AOI-8.3-01",
        "AOI-18.2-04",
    ],
};

static SUMMARY: Rule = Rule {
    id: "AOI-04.summary",
    check: Check::Number(4),
    level: Level::Must,
    section: "§18.2",
    demands: "Every aoi:summary is valid by the declared schema",
    why: TYPES,
    hint: TEST,
    topic: Topic::Json,
    register: &["AOI-1.1-01", "AOI-8.3-13", "AOI-18.2-04"],
};

static WARNING: Rule = Rule {
    id: "AOI-04.warning",
    check: Check::Number(4),
    level: Level::Must,
    section: "§18.2",
    demands: "Every aoi:warning is valid by the declared schema",
    why: TYPES,
    hint: TEST,
    topic: Topic::Json,
    register: &["AOI-2-11", "AOI-8.3-10", "AOI-18.2-04"],
};

static ERROR: Rule = Rule {
    id: "AOI-04.error",
    check: Check::Number(4),
    level: Level::Must,
    section: "§18.2",
    demands: "Every aoi:error is valid by the declared schema",
    why: TYPES,
    hint: TEST,
    topic: Topic::Json,
    register: &["AOI-8.3-11", "AOI-18.2-04"],
};

static CHECK: Rule = Rule {
    id: "AOI-04.check",
    check: Check::Number(4),
    level: Level::Must,
    section: "§18.2",
    demands: "Every aoi:check is valid by the declared schema",
    why: TYPES,
    hint: TEST,
    topic: Topic::Json,
    register: &["AOI-8.3-06", "AOI-16.2-04", "AOI-18.2-04", "AOI-19-03"],
};

/// The events that §18.2 names, each with its rule.
const CLASSES: [(&str, &Rule); 5] = [
    ("aoi:meta", &META),
    ("aoi:summary", &SUMMARY),
    ("aoi:warning", &WARNING),
    ("aoi:error", &ERROR),
    ("aoi:check", &CHECK),
];

/// Events of one run that are looked at; a flood says nothing new.
const MOST: usize = 20_000;

/// So many events of a class are tried for whether the schema could have refused them.
const TRIES: u32 = 3;

/// What the text itself says about framework events.
fn framework() -> Option<&'static EventSchema> {
    static SCHEMA: OnceLock<Option<EventSchema>> = OnceLock::new();
    let read = || {
        let text = agentproto_schemas::AOI_FRAMEWORK;
        let document: Value = serde_json::from_str(text).ok()?;
        EventSchema::read(&document).ok()
    };
    SCHEMA.get_or_init(read).as_ref()
}

/// The first thing that was wrong, and where.
type Wrong = Option<(String, Arc<Capture>)>;

/// One rule over the runs of one command.
#[derive(Default)]
struct Tally {
    seen: usize,
    wrong: Wrong,
    tries: u32,
    /// The schema would have refused something like it.
    telling: bool,
}

impl Tally {
    fn note(&mut self, message: impl FnOnce() -> String, run: &Arc<Capture>) {
        if self.wrong.is_none() {
            let message = shortened(&canary::masked(&message()));
            self.wrong = Some((message, Arc::clone(run)));
        }
    }
}

#[derive(Default)]
struct Looked {
    classes: [Tally; CLASSES.len()],
    domain: Tally,
    undeclared: Tally,
    unlisted: Tally,
    framework: Tally,
}

/// To be called when everything has run.
pub fn check(session: &Session) {
    let declared = session.declared.get();
    let schemas: BTreeMap<&str, EventSchema> = declared
        .into_iter()
        .flat_map(|declared| &declared.schemas)
        .filter_map(|(version, document)| {
            Some((version.as_str(), EventSchema::read(document).ok()?))
        })
        .collect();
    let mut by_command: BTreeMap<String, Looked> = BTreeMap::new();
    for run in session.captures() {
        let stream = Stream::read(&run.stdout);
        if !run.is_machine || stream.lines.is_empty() || c13_versioned::is_legacy(&stream) {
            continue;
        }
        let looked = by_command.entry(run.command.clone()).or_default();
        let schema = schemas.get(run.version.as_deref().unwrap_or_default());
        let listed = declared.and_then(|d| d.command(&run.command)?.get("event_types")?.as_array());
        for line in stream.lines.iter().take(MOST) {
            if let (Some(kind), Some(event)) = (line.kind(), &line.json) {
                look(looked, &run, line, kind, event, schema, listed);
            }
        }
    }
    let has_schema = schemas.contains_key("");
    vacuous(session, by_command.values(), has_schema);
    for (command, looked) in by_command {
        judge(session, &command, looked, has_schema);
    }
}

fn look(
    looked: &mut Looked,
    run: &Arc<Capture>,
    line: &Line,
    kind: &str,
    event: &Value,
    schema: Option<&EventSchema>,
    listed: Option<&Vec<Value>>,
) {
    let place = || format!("line {} of the run `{}`", line.number, run.probe);
    let is_framework = kind.starts_with("aoi:");
    if let (true, Some(text)) = (is_framework, framework()) {
        looked.framework.seen += 1;
        if let Fit::Breaks(why) = text.judge(event) {
            looked
                .framework
                .note(|| format!("{}: {kind}: {why}", place()), run);
        }
    }
    if let Some(listed) = listed {
        // Some lists name only the tool's own types.
        let names = |wanted: &str| listed.iter().any(|name| name.as_str() == Some(wanted));
        let all = listed.iter().filter_map(Value::as_str);
        let counts = !is_framework || { all }.any(|name| name.starts_with("aoi:"));
        if counts {
            looked.unlisted.seen += 1;
            if !names(kind) {
                let message = || format!("{}: `{kind}` is not in `event_types`", place());
                looked.unlisted.note(message, run);
            }
        }
    }
    let Some(schema) = schema else {
        return;
    };
    if let Some(types) = &schema.types {
        looked.undeclared.seen += 1;
        if !types.contains(kind) {
            let message = || format!("{}: the schema knows no `{kind}`", place());
            return looked.undeclared.note(message, run);
        }
    }
    let class = CLASSES.iter().position(|(name, _)| *name == kind);
    let tally = match class.and_then(|class| looked.classes.get_mut(class)) {
        Some(tally) => tally,
        // Where a version was asked for, check 13 looks at them.
        None if run.version.is_some() => return,
        None => &mut looked.domain,
    };
    tally.seen += 1;
    match schema.judge(event) {
        Fit::Fits if !tally.telling && tally.tries < TRIES => {
            tally.tries += 1;
            tally.telling = schema.discriminates(event);
        }
        Fit::Fits => {}
        Fit::Breaks(why) => tally.note(|| format!("{}: {kind}: {why}", place()), run),
        Fit::Undefined => {
            let message = || format!("{}: the schema has no `{kind}`", place());
            tally.note(message, run);
        }
    }
}

static VACUOUS: Rule = Rule {
    id: "AOI-04.vacuous",
    check: Check::Number(4),
    level: Level::Open,
    section: "§18.2",
    demands: "The declared schema refuses events that are wrong",
    why: TYPES,
    hint: "Require `type` and the fields of each type; a schema that allows everything says nothing.",
    topic: Topic::Json,
    register: &["AOI-1.1-01"],
};

/// A schema that takes every event says nothing about any.
fn vacuous<'l>(session: &Session, all: impl Iterator<Item = &'l Looked>, has_schema: bool) {
    let judge = session.judge(TOOL);
    if !has_schema {
        return judge.skip(&VACUOUS, "there is no schema that can be read (check 1)");
    }
    let classes: Vec<&Tally> = all.flat_map(|looked| &looked.classes).collect();
    let seen: usize = classes.iter().map(|tally| tally.seen).sum();
    if classes.iter().any(|tally| tally.telling) {
        return judge.pass(
            &VACUOUS,
            "events with a field less, or an odd one, are refused",
        );
    }
    let refused = classes.iter().any(|tally| tally.wrong.is_some());
    let runs = session.captures();
    match runs.iter().find(|run| run.command == TOOL) {
        _ if seen == 0 => judge.not_verified(&VACUOUS, "there was no event to try it with"),
        _ if refused => judge.pass(&VACUOUS, "it refuses events that were printed"),
        Some(run) => {
            let message = "no event that was tried is refused, whatever is taken away from it";
            judge.broken(&VACUOUS, message, run);
        }
        None => judge.not_verified(&VACUOUS, "no event that was tried is refused"),
    }
}

static DOMAIN: Rule = Rule {
    id: "AOI-04.domain",
    check: Check::Number(4),
    level: Level::Should,
    section: "§1.1",
    demands: "Every other event is valid by the declared schema",
    why: TYPES,
    hint: TEST,
    topic: Topic::Json,
    register: &["AOI-1.1-01", "AOI-8.3-03"],
};

static UNDECLARED: Rule = Rule {
    id: "AOI-04.undeclared-type",
    check: Check::Number(4),
    level: Level::Must,
    section: "§1.1, §8.2",
    demands: "Every type of event that is printed is one that the declared schema knows",
    why: TYPES,
    hint: "Add the type to the schema, or print it under the name that is there.",
    topic: Topic::Json,
    register: &["AOI-1.1-01"],
};

static UNLISTED: Rule = Rule {
    id: "AOI-04.unlisted-type",
    check: Check::Number(4),
    level: Level::Should,
    section: "§17",
    demands: "`event_types` of a command names every type that the command prints",
    why: TYPES,
    hint: "Add the type to `event_types` in `capabilities`.",
    topic: Topic::Json,
    register: &["AOI-1.1-01"],
};

static FRAMEWORK: Rule = Rule {
    id: "AOI-04.framework",
    check: Check::Number(4),
    level: Level::Must,
    section: "§8.3, §9",
    demands: "The fields of framework events have the kinds that the text gives them",
    why: TYPES,
    hint: "Compare the event with §8.3 and §9.",
    topic: Topic::Json,
    register: &["AOI-8.3-13", "AOI-8.3-06", "AOI-8.3-11"],
};

fn judge(session: &Session, command: &str, looked: Looked, has_schema: bool) {
    let judge = session.judge(command);
    let none = "there is no schema that can be read (check 1)";
    let plain = |rule: &Rule, tally: Tally, proof: &str, why: &str| match tally.wrong {
        Some((message, run)) => judge.broken(rule, message, &run),
        None if tally.seen == 0 => judge.not_applicable(rule, why),
        None => judge.pass(rule, format!("{} events: {proof}", tally.seen)),
    };
    plain(
        &FRAMEWORK,
        looked.framework,
        "their fields are as in the text",
        "no framework event was printed",
    );
    plain(
        &UNLISTED,
        looked.unlisted,
        "their types are in `event_types`",
        "`capabilities` lists no `event_types` for it",
    );
    if !has_schema {
        for (_, rule) in CLASSES {
            judge.skip(rule, none);
        }
        judge.skip(&DOMAIN, none);
        return judge.skip(&UNDECLARED, none);
    }
    plain(
        &UNDECLARED,
        looked.undeclared,
        "the schema knows their types",
        "the schema leaves the types open",
    );
    let classes = CLASSES.into_iter().zip(looked.classes);
    let domain = (("an event of its own", &DOMAIN), looked.domain);
    for ((kind, rule), tally) in classes.chain([domain]) {
        match tally.wrong {
            Some((message, run)) => judge.broken(rule, message, &run),
            None if tally.seen == 0 => {
                judge.not_applicable(rule, format!("{kind} was printed in no run"));
            }
            None if !tally.telling => {
                let why = "the schema takes such an event whatever is taken away from it";
                judge.not_verified(rule, why);
            }
            None => judge.pass(rule, format!("{} are valid", tally.seen)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// AOI-8.3-06, AOI-8.3-11, AOI-8.3-13: what stands in the text itself is valid.
    #[test]
    fn the_examples_of_the_text_are_framework_events() {
        let schema = framework().expect("our own schema");
        for event in [
            json!({ "type": "aoi:meta", "tool": "outline", "command": "search" }),
            json!({ "type": "aoi:meta", "command": "search", "args_redacted": true }),
            json!({ "type": "aoi:check", "name": "config_file", "ok": true, "severity": "info",
                "detail": "found" }),
            json!({ "type": "aoi:summary", "ok": true, "count": 42, "warning_count": 1,
                "next_cursor": null, "elapsed_ms": 384 }),
            json!({ "type": "aoi:summary", "ok": false, "reason": "interrupted" }),
            json!({ "type": "aoi:error", "code": "FILE_NOT_FOUND", "category": "not_found",
                "message": "none", "retryable": false, "target": "/a" }),
            json!({ "type": "aoi:warning" }),
            json!({ "type": "summary", "ok": "a text of the domain" }),
        ] {
            assert_eq!(schema.judge(&event), Fit::Fits, "{event}");
        }
        for event in [
            json!({ "type": "aoi:meta", "tool": 3 }),
            json!({ "type": "aoi:check", "name": "x" }),
            json!({ "type": "aoi:summary", "ok": "yes" }),
            json!({ "type": "aoi:summary", "ok": true, "count": "3" }),
            json!({ "type": "aoi:error", "code": "X", "category": "io", "message": "" }),
            json!({ "type": "aoi:warning", "message": ["x"] }),
        ] {
            assert!(matches!(schema.judge(&event), Fit::Breaks(_)), "{event}");
        }
    }
}
