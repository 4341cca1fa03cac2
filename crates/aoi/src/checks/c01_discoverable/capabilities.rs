//! Checks the document that `capabilities` prints.

use std::sync::Arc;

use super::document::DiscoveryOutput;
use super::invocations::DiscoveryRun;
use super::{CAPABILITIES, compare_forms, document, invocations, listed, report_success};
use crate::capture::Capture;
use crate::model::{CheckId, TOOL};
use crate::rules::{Level, Rule, Topic};
use crate::schema;
use crate::session::LintSession;

pub(super) static CAPABILITIES_FAIL: Rule = Rule {
    id: "AOI-01.capabilities-fails",
    check: CheckId::Number(1),
    level: Level::Must,
    section: "§3, §18.2",
    requirement: "If the tool has `capabilities --output json`, it exits 0",
    why: "It tells callers what the tool can do.",
    hint: "Let `capabilities` print a document and exit with 0 in every environment. Embed the \
           document in the program, or read it from the installation directory.",
    topic: Topic::Discovery,
    requirement_ids: &["AOI-3-02", "AOI-3-03", "AOI-16.2-03", "AOI-18.2-01"],
};

pub(super) static CAPABILITIES_NOT_JSON: Rule = Rule {
    id: "AOI-01.capabilities-not-json",
    check: CheckId::Number(1),
    level: Level::Must,
    section: "§17",
    requirement: "`capabilities --output json` prints one JSON document and nothing else",
    why: "Callers parse all of stdout.",
    hint: "Print only the document to stdout, and everything else to stderr.",
    topic: Topic::Discovery,
    requirement_ids: &["AOI-17-01"],
};

pub(super) static CAPABILITIES_NOT_OBJECT: Rule = Rule {
    id: "AOI-01.capabilities-not-object",
    check: CheckId::Number(1),
    level: Level::Must,
    section: "§17",
    requirement: "`capabilities` prints one JSON object, not a list, a stream of events or the schema",
    why: "Callers look up its fields by name.",
    hint: "Print one object with `tool`, `aoi_versions`, `schemas` and `commands`.",
    topic: Topic::Discovery,
    requirement_ids: &["AOI-17-01"],
};

pub(super) static CAPABILITIES_SHAPE: Rule = Rule {
    id: "AOI-01.capabilities-shape",
    check: CheckId::Number(1),
    level: Level::Open,
    section: "§17, §23",
    requirement: "The fields of `capabilities` have the types that §17 shows",
    why: "Callers written according to §17 expect these types.",
    hint: "Compare the document with the example in §17.",
    topic: Topic::Discovery,
    requirement_ids: &["AOI-16.2-03", "AOI-17-01"],
};

pub(super) async fn check_capabilities(
    session: &LintSession,
    answer: Option<&DiscoveryRun>,
    schema: Option<&DiscoveryRun>,
) {
    let Some(answer) = answer else {
        return;
    };
    let reporter = session.reporter(TOOL);
    if answer.json().is_none() && !is_advertised(session).await {
        let why = "the help text does not mention `capabilities`";
        return reporter.not_applicable(&CAPABILITIES_FAIL, why);
    }
    if !answer.capture.end.is_success() {
        return invocations::diagnose(session, &CAPABILITIES, answer).await;
    }
    report_success(session, &CAPABILITIES, answer);
    let run = &answer.capture;
    let begins = match &answer.document {
        DiscoveryOutput::Empty => Some("stdout is empty".to_owned()),
        DiscoveryOutput::Other(line) => Some(format!(
            "stdout is not one JSON document; it starts with `{line}`"
        )),
        _ if answer.has_escapes => Some("the output contains escape sequences".to_owned()),
        _ => None,
    };
    let is_json = begins.is_none();
    reporter.decide(
        &CAPABILITIES_NOT_JSON,
        "stdout is one JSON document",
        begins,
        run,
    );
    if !is_json {
        return;
    }
    let same = answer.json().is_some() && schema.and_then(DiscoveryRun::json) == answer.json();
    let invalid = match &answer.document {
        DiscoveryOutput::Stream(events) => Some(format!("stdout is a stream of {events} events")),
        _ if same => Some("it is the same document as the schema".to_owned()),
        DiscoveryOutput::Json(value) if !value.is_object() => {
            Some("it is not an object".to_owned())
        }
        _ => None,
    };
    let is_object = invalid.is_none();
    reporter.decide(
        &CAPABILITIES_NOT_OBJECT,
        "it is one JSON object",
        invalid,
        run,
    );
    if let (true, Some(manifest)) = (is_object, answer.json()) {
        let invalid = document::invalid_fields(manifest);
        let violation = (!invalid.is_empty()).then(|| schema::shorten(&invalid.join("; ")));
        reporter.decide(
            &CAPABILITIES_SHAPE,
            "its fields have the types that §17 shows",
            violation,
            run,
        );
        if session.is_advisory_selected() {
            listed::check(session, manifest, run).await;
        }
    }
    compare_forms(session, &CAPABILITIES, answer).await;
}

/// Whether the help text mentions capabilities.
async fn is_advertised(session: &LintSession) -> bool {
    let run: Arc<Capture> = invocations::run_isolated(session, &["--help".to_owned()], None).await;
    let text = [run.stdout.as_slice(), run.stderr.as_slice()].concat();
    String::from_utf8_lossy(&text).contains("capabilities")
}
