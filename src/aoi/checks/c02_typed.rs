//! Check 2: machine mode is JSONL, one object a line, each with a type, and nothing else. Judged
//! over every run of the session.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::aoi::capture::Capture;
use crate::aoi::model::Check;
use crate::aoi::rules::{Level, Rule, Topic};
use crate::aoi::session::Session;
use crate::aoi::stream::Stream;

pub static OBJECT: Rule = Rule {
    id: "AOI-02.object",
    check: Check::Number(2),
    level: Level::Must,
    section: "§2",
    demands: "Each line of machine mode is one complete JSON object",
    why: "A caller parses line by line; one line of prose stops it.",
    hint: "Print nothing but events to stdout; logs and progress go to stderr.",
    topic: Topic::Json,
    register: &["AOI-2-02"],
};
pub static TYPE: Rule = Rule {
    id: "AOI-02.type",
    check: Check::Number(2),
    level: Level::Must,
    section: "§2",
    demands: "Every event has a `type`, a text that is not empty",
    why: "The type is how a caller knows what an event is.",
    hint: "Give every object a `type`.",
    topic: Topic::Json,
    register: &["AOI-2-03"],
};

pub const RULES: &[&Rule] = &[&OBJECT, &TYPE];

pub fn check(session: &Session) {
    let mut by_command: BTreeMap<String, Vec<Arc<Capture>>> = BTreeMap::new();
    for capture in session.captures() {
        if capture.is_machine {
            let runs = by_command.entry(capture.command.clone()).or_default();
            runs.push(capture);
        }
    }
    for (command, runs) in &by_command {
        judge(session, command, runs);
    }
}

fn judge(session: &Session, command: &str, runs: &[Arc<Capture>]) {
    let judge = session.judge(command);
    let (mut lines, mut objects, mut types) = (0, None, None);
    for run in runs {
        for line in Stream::read(&run.stdout).lines {
            lines += 1;
            let place = || format!("line {} of the run `{}`", line.number, run.probe);
            match &line.json {
                Some(serde_json::Value::Object(members)) => {
                    let named = members.get("type").and_then(|kind| kind.as_str());
                    if named.is_none_or(str::is_empty) {
                        types.get_or_insert_with(|| {
                            (format!("{}: an event without a type", place()), run)
                        });
                    }
                }
                Some(_) => {
                    objects
                        .get_or_insert_with(|| (format!("{}: JSON, but no object", place()), run));
                }
                None => {
                    objects.get_or_insert_with(|| (format!("{}: no JSON", place()), run));
                }
            }
        }
    }
    for (rule, wrong) in [(&OBJECT, objects), (&TYPE, types)] {
        match wrong {
            Some((message, run)) => judge.broken(rule, message, run),
            None if lines == 0 => judge.not_verified(rule, "no run printed a line"),
            None => judge.pass(rule, format!("{lines} lines in {} runs", runs.len())),
        }
    }
}
