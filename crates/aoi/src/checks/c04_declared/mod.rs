//! Check 4: events are valid according to the declared schema of their version. It examines every
//! run of the session.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::c13_versioned;
use crate::canary;
use crate::capture::Capture;
use crate::model::{CheckId, TOOL};
use crate::rules::{Level, Rule, Topic};
use crate::schema::{EventSchema, Validity, shorten};
use crate::session::LintSession;
use crate::stream::{EventLine, EventStream};

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
    "Callers generate their types from the schema, and cannot read what is not in it.";

const TEST: &str = "Validate every event against the schema in your tests.";

static META: Rule = Rule {
    id: "AOI-04.meta",
    check: CheckId::Number(4),
    level: Level::Must,
    section: "§18.2",
    requirement: "Every aoi:meta is valid according to the declared schema",
    why: TYPES,
    hint: TEST,
    topic: Topic::Json,
    requirement_ids: &[
        "AOI-1.1-01",
        "AOI-8.1-02",
        "AOI-8.1-04",
        "AOI-8.3-01",
        "AOI-18.2-04",
    ],
};

static SUMMARY: Rule = Rule {
    id: "AOI-04.summary",
    check: CheckId::Number(4),
    level: Level::Must,
    section: "§18.2",
    requirement: "Every aoi:summary is valid according to the declared schema",
    why: TYPES,
    hint: TEST,
    topic: Topic::Json,
    requirement_ids: &["AOI-1.1-01", "AOI-8.3-13", "AOI-18.2-04"],
};

static WARNING: Rule = Rule {
    id: "AOI-04.warning",
    check: CheckId::Number(4),
    level: Level::Must,
    section: "§18.2",
    requirement: "Every aoi:warning is valid according to the declared schema",
    why: TYPES,
    hint: TEST,
    topic: Topic::Json,
    requirement_ids: &["AOI-2-11", "AOI-8.3-10", "AOI-18.2-04"],
};

static ERROR: Rule = Rule {
    id: "AOI-04.error",
    check: CheckId::Number(4),
    level: Level::Must,
    section: "§18.2",
    requirement: "Every aoi:error is valid according to the declared schema",
    why: TYPES,
    hint: TEST,
    topic: Topic::Json,
    requirement_ids: &["AOI-8.3-11", "AOI-18.2-04"],
};

static CHECK: Rule = Rule {
    id: "AOI-04.check",
    check: CheckId::Number(4),
    level: Level::Must,
    section: "§18.2",
    requirement: "Every aoi:check is valid according to the declared schema",
    why: TYPES,
    hint: TEST,
    topic: Topic::Json,
    requirement_ids: &["AOI-8.3-06", "AOI-16.2-04", "AOI-18.2-04", "AOI-19-03"],
};

/// The event types that §18.2 names, each with its rule.
const CLASSES: [(&str, &Rule); 5] = [
    ("aoi:meta", &META),
    ("aoi:summary", &SUMMARY),
    ("aoi:warning", &WARNING),
    ("aoi:error", &ERROR),
    ("aoi:check", &CHECK),
];

/// Maximum number of events checked per run.
const MAX_EVENTS: usize = 20_000;

/// Number of events per type that are used to test whether the schema rejects invalid ones.
const TRIES: u32 = 3;

/// The schema of framework events according to the spec.
fn framework() -> Option<&'static EventSchema> {
    static SCHEMA: OnceLock<Option<EventSchema>> = OnceLock::new();
    let read = || {
        let text = agentproto_schemas::AOI_FRAMEWORK;
        let document: Value = serde_json::from_str(text).ok()?;
        EventSchema::read(&document).ok()
    };
    SCHEMA.get_or_init(read).as_ref()
}

/// The first violation, and its run.
type Violation = Option<(String, Arc<Capture>)>;

/// One rule over the runs of one command.
#[derive(Default)]
struct EventTally {
    checked: usize,
    violation: Violation,
    tries: u32,
    /// Whether the schema rejects an invalid variant of an event.
    discriminates_events: bool,
}

impl EventTally {
    fn record(&mut self, message: impl FnOnce() -> String, run: &Arc<Capture>) {
        if self.violation.is_none() {
            let message = shorten(&canary::masked(&message()));
            self.violation = Some((message, Arc::clone(run)));
        }
    }
}

#[derive(Default)]
struct CommandTallies {
    classes: [EventTally; CLASSES.len()],
    domain: EventTally,
    undeclared: EventTally,
    unlisted: EventTally,
    framework: EventTally,
}

/// Evaluates all runs. Call it after the last one.
pub fn check(session: &LintSession) {
    let declared = session.declared.get();
    let schemas: BTreeMap<&str, EventSchema> = declared
        .into_iter()
        .flat_map(|declared| &declared.schemas)
        .filter_map(|(version, document)| {
            Some((version.as_str(), EventSchema::read(document).ok()?))
        })
        .collect();
    let mut by_command: BTreeMap<String, CommandTallies> = BTreeMap::new();
    for run in session.captures() {
        let stream = EventStream::parse(&run.stdout);
        if !run.is_machine || stream.lines.is_empty() || c13_versioned::is_legacy(&stream) {
            continue;
        }
        let tallies = by_command.entry(run.command.clone()).or_default();
        let schema = schemas.get(run.version.as_deref().unwrap_or_default());
        let listed = declared.and_then(|d| d.command(&run.command)?.get("event_types")?.as_array());
        for line in stream.lines.iter().take(MAX_EVENTS) {
            if let (Some(kind), Some(event)) = (line.kind(), &line.json) {
                check_event(tallies, &run, line, kind, event, schema, listed);
            }
        }
    }
    let has_schema = schemas.contains_key("");
    vacuous(session, by_command.values(), has_schema);
    for (command, tallies) in by_command {
        report(session, &command, tallies, has_schema);
    }
}

fn check_event(
    tallies: &mut CommandTallies,
    run: &Arc<Capture>,
    line: &EventLine,
    kind: &str,
    event: &Value,
    schema: Option<&EventSchema>,
    listed: Option<&Vec<Value>>,
) {
    let position = || format!("line {} of the run `{}`", line.number, run.probe);
    let is_framework = kind.starts_with("aoi:");
    if let (true, Some(spec)) = (is_framework, framework()) {
        tallies.framework.checked += 1;
        if let Validity::Invalid(why) = spec.validate(event) {
            tallies
                .framework
                .record(|| format!("{}: {kind}: {why}", position()), run);
        }
    }
    if let Some(listed) = listed {
        // Some lists contain domain types only.
        let names = |kind: &str| listed.iter().any(|name| name.as_str() == Some(kind));
        let all = listed.iter().filter_map(Value::as_str);
        let counts = !is_framework || { all }.any(|name| name.starts_with("aoi:"));
        if counts {
            tallies.unlisted.checked += 1;
            if !names(kind) {
                let message = || format!("{}: `{kind}` is not in `event_types`", position());
                tallies.unlisted.record(message, run);
            }
        }
    }
    let Some(schema) = schema else {
        return;
    };
    if let Some(types) = &schema.types {
        tallies.undeclared.checked += 1;
        if !types.contains(kind) {
            let message = || format!("{}: the schema does not define `{kind}`", position());
            return tallies.undeclared.record(message, run);
        }
    }
    let class = CLASSES.iter().position(|(name, _)| *name == kind);
    let tally = match class.and_then(|class| tallies.classes.get_mut(class)) {
        Some(tally) => tally,
        // Check 13 covers runs with a requested version.
        None if run.version.is_some() => return,
        None => &mut tallies.domain,
    };
    tally.checked += 1;
    match schema.validate(event) {
        Validity::Valid if !tally.discriminates_events && tally.tries < TRIES => {
            tally.tries += 1;
            tally.discriminates_events = schema.discriminates(event);
        }
        Validity::Valid => {}
        Validity::Invalid(why) => tally.record(|| format!("{}: {kind}: {why}", position()), run),
        Validity::Undefined => {
            let message = || format!("{}: the schema has no definition for `{kind}`", position());
            tally.record(message, run);
        }
    }
}

static VACUOUS: Rule = Rule {
    id: "AOI-04.vacuous",
    check: CheckId::Number(4),
    level: Level::Open,
    section: "§18.2",
    requirement: "The declared schema rejects invalid events",
    why: TYPES,
    hint: "Require `type` and the fields of each type. A schema that allows everything describes \
           nothing.",
    topic: Topic::Json,
    requirement_ids: &["AOI-1.1-01"],
};

/// Checks that the schema rejects something. A schema that accepts every event proves nothing.
fn vacuous<'l>(
    session: &LintSession,
    all: impl Iterator<Item = &'l CommandTallies>,
    has_schema: bool,
) {
    let reporter = session.reporter(TOOL);
    if !has_schema {
        return reporter.skip(&VACUOUS, "the schema is missing or invalid (check 1)");
    }
    let classes: Vec<&EventTally> = all.flat_map(|tallies| &tallies.classes).collect();
    let checked: usize = classes.iter().map(|tally| tally.checked).sum();
    if classes.iter().any(|tally| tally.discriminates_events) {
        return reporter.pass(
            &VACUOUS,
            "the schema rejects events with a missing field or a field of another type",
        );
    }
    let refused = classes.iter().any(|tally| tally.violation.is_some());
    let runs = session.captures();
    match runs.iter().find(|run| run.command == TOOL) {
        _ if checked == 0 => {
            reporter.not_verified(&VACUOUS, "no event was printed to test the schema with")
        }
        _ if refused => reporter.pass(&VACUOUS, "the schema rejects printed events"),
        Some(run) => {
            let message = "the schema rejects no event, even with a field missing or of another \
                           type";
            reporter.violation(&VACUOUS, message, run);
        }
        None => reporter.not_verified(&VACUOUS, "the schema rejects no event"),
    }
}

static DOMAIN: Rule = Rule {
    id: "AOI-04.domain",
    check: CheckId::Number(4),
    level: Level::Should,
    section: "§1.1",
    requirement: "Every domain event is valid according to the declared schema",
    why: TYPES,
    hint: TEST,
    topic: Topic::Json,
    requirement_ids: &["AOI-1.1-01", "AOI-8.3-03"],
};

static UNDECLARED: Rule = Rule {
    id: "AOI-04.undeclared-type",
    check: CheckId::Number(4),
    level: Level::Must,
    section: "§1.1, §8.2",
    requirement: "The declared schema defines the type of every printed event",
    why: TYPES,
    hint: "Add the type to the schema, or use a type that the schema defines.",
    topic: Topic::Json,
    requirement_ids: &["AOI-1.1-01"],
};

static UNLISTED: Rule = Rule {
    id: "AOI-04.unlisted-type",
    check: CheckId::Number(4),
    level: Level::Should,
    section: "§17",
    requirement: "`event_types` of a command lists every type that the command prints",
    why: TYPES,
    hint: "Add the type to `event_types` in `capabilities`.",
    topic: Topic::Json,
    requirement_ids: &["AOI-1.1-01"],
};

static FRAMEWORK: Rule = Rule {
    id: "AOI-04.framework",
    check: CheckId::Number(4),
    level: Level::Must,
    section: "§8.3, §9",
    requirement: "The fields of framework events have the types that the spec defines",
    why: TYPES,
    hint: "Compare the event with §8.3 and §9.",
    topic: Topic::Json,
    requirement_ids: &["AOI-8.3-13", "AOI-8.3-06", "AOI-8.3-11"],
};

fn report(session: &LintSession, command: &str, tallies: CommandTallies, has_schema: bool) {
    let reporter = session.reporter(command);
    let none = "the schema is missing or invalid (check 1)";
    let plain = |rule: &Rule, tally: EventTally, proof: &str, why: &str| match tally.violation {
        Some((message, run)) => reporter.violation(rule, message, &run),
        None if tally.checked == 0 => reporter.not_applicable(rule, why),
        None => reporter.pass(rule, format!("{} events: {proof}", tally.checked)),
    };
    plain(
        &FRAMEWORK,
        tallies.framework,
        "their fields have the types that the spec defines",
        "no framework event was printed",
    );
    plain(
        &UNLISTED,
        tallies.unlisted,
        "their types are in `event_types`",
        "`capabilities` lists no `event_types` for the command",
    );
    if !has_schema {
        for (_, rule) in CLASSES {
            reporter.skip(rule, none);
        }
        reporter.skip(&DOMAIN, none);
        return reporter.skip(&UNDECLARED, none);
    }
    plain(
        &UNDECLARED,
        tallies.undeclared,
        "the schema defines their types",
        "the schema does not restrict the types",
    );
    let classes = CLASSES.into_iter().zip(tallies.classes);
    let domain = (("a domain event", &DOMAIN), tallies.domain);
    for ((kind, rule), tally) in classes.chain([domain]) {
        match tally.violation {
            Some((message, run)) => reporter.violation(rule, message, &run),
            None if tally.checked == 0 => {
                reporter.not_applicable(rule, format!("no run printed {kind}"));
            }
            None if !tally.discriminates_events => {
                let why = "the schema accepts such events even with a field missing or of another \
                           type";
                reporter.not_verified(rule, why);
            }
            None => reporter.pass(rule, format!("{} events are valid", tally.checked)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// AOI-8.3-06, AOI-8.3-11, AOI-8.3-13: the examples in the spec are valid.
    #[test]
    fn the_examples_of_the_spec_are_valid_framework_events() {
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
            assert_eq!(schema.validate(&event), Validity::Valid, "{event}");
        }
        for event in [
            json!({ "type": "aoi:meta", "tool": 3 }),
            json!({ "type": "aoi:check", "name": "x" }),
            json!({ "type": "aoi:summary", "ok": "yes" }),
            json!({ "type": "aoi:summary", "ok": true, "count": "3" }),
            json!({ "type": "aoi:error", "code": "X", "category": "io", "message": "" }),
            json!({ "type": "aoi:warning", "message": ["x"] }),
        ] {
            assert!(
                matches!(schema.validate(&event), Validity::Invalid(_)),
                "{event}"
            );
        }
    }
}
