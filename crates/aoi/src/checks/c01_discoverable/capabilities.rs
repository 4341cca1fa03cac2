//! Checks the document that `capabilities` prints.

use std::sync::Arc;

use super::document::Document;
use super::ways::Answer;
use super::{CAPABILITIES, EMBED, answered, document, forms, ways};
use crate::capture::Capture;
use crate::model::{Check, TOOL};
use crate::rules::{Level, Rule, Topic};
use crate::schema;
use crate::session::Session;

pub(super) static CAPABILITIES_FAIL: Rule = Rule {
    id: "AOI-01.capabilities-fails",
    check: Check::Number(1),
    level: Level::Must,
    section: "§3, §18.2",
    demands: "If the tool has `capabilities --output json`, it exits 0",
    why: "It tells callers what the tool can do.",
    hint: EMBED,
    topic: Topic::Discovery,
    register: &["AOI-3-02", "AOI-3-03", "AOI-16.2-03", "AOI-18.2-01"],
};

pub(super) static CAPABILITIES_NOT_JSON: Rule = Rule {
    id: "AOI-01.capabilities-not-json",
    check: Check::Number(1),
    level: Level::Must,
    section: "§17",
    demands: "`capabilities --output json` prints one JSON document and nothing else",
    why: "Callers parse all of stdout.",
    hint: "Print only the document to stdout, and everything else to stderr.",
    topic: Topic::Discovery,
    register: &["AOI-17-01"],
};

pub(super) static CAPABILITIES_NOT_OBJECT: Rule = Rule {
    id: "AOI-01.capabilities-not-object",
    check: Check::Number(1),
    level: Level::Must,
    section: "§17",
    demands: "`capabilities` prints one JSON object, not a list, a stream of events or the schema",
    why: "Callers look up its fields by name.",
    hint: "Print one object with `tool`, `aoi_versions`, `schemas` and `commands`.",
    topic: Topic::Discovery,
    register: &["AOI-17-01"],
};

pub(super) static CAPABILITIES_SHAPE: Rule = Rule {
    id: "AOI-01.capabilities-shape",
    check: Check::Number(1),
    level: Level::Open,
    section: "§17, §23",
    demands: "The fields of `capabilities` have the types that §17 shows",
    why: "Callers written according to §17 expect these types.",
    hint: "Compare the document with the example in §17.",
    topic: Topic::Discovery,
    register: &["AOI-16.2-03", "AOI-17-01"],
};

pub(super) async fn judge_capabilities(
    session: &Session,
    answer: Option<&Answer>,
    schema: Option<&Answer>,
) {
    let Some(answer) = answer else {
        return;
    };
    let judge = session.judge(TOOL);
    if answer.json().is_none() && !is_advertised(session).await {
        let why = "the help text does not mention `capabilities`";
        return judge.not_applicable(&CAPABILITIES_FAIL, why);
    }
    if !answer.capture.end.is_success() {
        return ways::diagnose(session, &CAPABILITIES, answer).await;
    }
    answered(session, &CAPABILITIES, answer);
    let run = &answer.capture;
    let begins = match &answer.document {
        Document::Empty => Some("stdout is empty".to_owned()),
        Document::Other(line) => Some(format!(
            "stdout is not one JSON document; it starts with `{line}`"
        )),
        _ if answer.coloured => Some("the output contains escape sequences".to_owned()),
        _ => None,
    };
    let is_json = begins.is_none();
    judge.held(
        &CAPABILITIES_NOT_JSON,
        "stdout is one JSON document",
        begins,
        run,
    );
    if !is_json {
        return;
    }
    let same = answer.json().is_some() && schema.and_then(Answer::json) == answer.json();
    let odd = match &answer.document {
        Document::Stream(events) => Some(format!("stdout is a stream of {events} events")),
        _ if same => Some("it is the same document as the schema".to_owned()),
        Document::Json(value) if !value.is_object() => Some("it is not an object".to_owned()),
        _ => None,
    };
    let is_object = odd.is_none();
    judge.held(&CAPABILITIES_NOT_OBJECT, "it is one JSON object", odd, run);
    if let (true, Some(manifest)) = (is_object, answer.json()) {
        let odd = document::odd_shape(manifest);
        let wrong = (!odd.is_empty()).then(|| schema::shortened(&odd.join("; ")));
        judge.held(
            &CAPABILITIES_SHAPE,
            "its fields have the types that §17 shows",
            wrong,
            run,
        );
    }
    forms(session, &CAPABILITIES, answer).await;
}

/// Whether the help text mentions capabilities.
async fn is_advertised(session: &Session) -> bool {
    let run: Arc<Capture> = ways::ask(session, &["--help".to_owned()], None).await;
    let text = [run.stdout.as_slice(), run.stderr.as_slice()].concat();
    String::from_utf8_lossy(&text).contains("capabilities")
}
