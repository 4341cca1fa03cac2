//! SARIF 2.1.0: a rule per requirement, a result per failure and warning. What the harness
//! could not judge is a notification of the tool, not a result about the agent.

use std::collections::{BTreeSet, HashMap};
use std::io::{self, Write};

use serde_json::{Map, Value, json};

use super::{Options, words};
use crate::model::{CaseResult, Evidence, Level, Report, Verdict};
use agentproto_report::aoi::object;
use agentproto_report::fingerprint;
use agentproto_report::sarif::percent_encode;
use agentproto_text::{self as text, clip};

const EVIDENCE_CHARACTERS: usize = 1000;

pub fn render(report: &Report, _: &Options, out: &mut dyn Write) -> io::Result<()> {
    let (rules, index) = rules(report);
    let told = |r: &&CaseResult| matches!(r.verdict, Verdict::Fail | Verdict::Warn);
    let prints = fingerprints(report);
    let results: Vec<Value> = report
        .results
        .iter()
        .zip(&prints)
        .filter(|(row, _)| told(row))
        .map(|(row, print)| result(row, &index, print))
        .collect();
    let notifications: Vec<Value> = report
        .results
        .iter()
        .filter(|r| r.verdict == Verdict::Error)
        .map(|r| notification(r, &index))
        .collect();
    let log = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": report.tool.name,
                "version": report.tool.version,
                "rules": rules,
            } },
            "columnKind": "unicodeCodePoints",
            "invocations": [{
                "executionSuccessful": !report.partial && report.summary.error == 0,
                "toolExecutionNotifications": notifications,
            }],
            "properties": {
                "target": report.target.name,
                "certified": report.summary.certified,
            },
            "results": results,
        }],
    });
    writeln!(out, "{}", text::pretty(&log)?)
}

/// Requirements in the order of their first row, and where each stands.
fn rules(report: &Report) -> (Vec<Value>, HashMap<&str, usize>) {
    let mut rules = Vec::new();
    let mut index = HashMap::new();
    for row in &report.results {
        index.entry(row.requirement.as_str()).or_insert_with(|| {
            rules.push(rule(row));
            rules.len() - 1
        });
    }
    (rules, index)
}

fn rule(row: &CaseResult) -> Value {
    // A set: the schema refuses a tag that is there twice.
    let tags = BTreeSet::from([row.suite.as_str(), &row.section, row.level.as_str()]);
    json!({
        "id": row.requirement,
        "shortDescription": { "text": filled(&row.statement, &row.requirement) },
        "help": { "text": format!("{} ({}): {}", row.source, row.level.as_str(), row.statement) },
        "defaultConfiguration": { "level": level(row.level.violated(), row.level) },
        "properties": { "tags": tags },
    })
}

/// Viewers refuse empty texts.
fn filled<'t>(text: &'t str, instead: &'t str) -> &'t str {
    let texts = [text, instead];
    let full = texts.into_iter().find(|t| !t.trim().is_empty());
    full.unwrap_or("nothing was said")
}

fn level(verdict: Verdict, level: Level) -> &'static str {
    match (verdict, level) {
        (Verdict::Fail, _) => "error",
        (_, Level::Must | Level::Should) => "warning",
        (_, Level::May | Level::Info) => "note",
    }
}

fn result(row: &CaseResult, index: &HashMap<&str, usize>, print: &str) -> Value {
    let mut result = object(json!({
        "ruleId": row.requirement,
        "level": level(row.verdict, row.level),
        "message": { "text": message(row) },
        "locations": [location(row, words::proof(row))],
        "partialFingerprints": { "agentprotoRequirement/v1": print },
        "properties": {
            "suite": row.suite,
            "case": row.case,
            "verdict": row.verdict.as_str(),
            "source": row.source,
            "evidence": row.evidence,
        },
    }));
    if let Some(rule) = index.get(row.requirement.as_str()) {
        result.insert("ruleIndex".to_owned(), (*rule).into());
    }
    if row.known {
        let known = json!([{ "kind": "external", "justification": "baseline" }]);
        result.insert("suppressions".to_owned(), known);
    }
    Value::Object(result)
}

fn notification(row: &CaseResult, index: &HashMap<&str, usize>) -> Value {
    let mut rule = object(json!({ "id": row.requirement }));
    if let Some(at) = index.get(row.requirement.as_str()) {
        rule.insert("index".to_owned(), (*at).into());
    }
    json!({
        "level": "error",
        "message": { "text": message(row) },
        "associatedRule": rule,
        "locations": [location(row, row.evidence.last())],
    })
}

fn message(row: &CaseResult) -> String {
    let mut lines = vec![filled(&row.message, &row.statement).to_owned()];
    if let Some(hint) = &row.hint {
        lines.push(hint.clone());
    }
    for evidence in &row.evidence {
        lines.push(format!(
            "{} {}: {}",
            evidence.direction,
            evidence.line,
            clip(&evidence.text, EVIDENCE_CHARACTERS)
        ));
    }
    // Viewers would make a link of `[text](address)`.
    text::plain_lines(&lines.join("\n")).replace("](", "] (")
}

/// The line of the transcript where there is one; the case in any case.
fn location(row: &CaseResult, at: Option<&Evidence>) -> Value {
    let name = format!("{}/{}", row.suite, row.case);
    let mut location: Map<String, Value> = object(json!({
        "logicalLocations": [{ "name": row.case, "fullyQualifiedName": name }],
    }));
    if let Some(file) = row.transcript.as_deref().filter(|f| !f.is_empty()) {
        let uri = percent_encode(file.trim_start_matches('/'));
        let mut place = object(json!({ "artifactLocation": { "uri": uri } }));
        // SARIF counts lines in 32 bits.
        if let Some(line) = at
            .and_then(|e| i32::try_from(e.line).ok())
            .filter(|n| *n > 0)
        {
            place.insert("region".to_owned(), json!({ "startLine": line }));
        }
        location.insert("physicalLocation".to_owned(), Value::Object(place));
    }
    Value::Object(location)
}

/// A name for each row that survives another message; equal rows are told apart by order.
fn fingerprints(report: &Report) -> Vec<String> {
    let mut seen: HashMap<(&str, &str, &str), u32> = HashMap::new();
    report
        .results
        .iter()
        .map(|row| {
            let identity = (
                row.suite.as_str(),
                row.case.as_str(),
                row.requirement.as_str(),
            );
            let nth = seen.entry(identity).or_insert(0);
            *nth += 1;
            let parts = [identity.0, identity.1, identity.2].map(str::as_bytes);
            let [a, b, c] = parts;
            fingerprint::of(&[a, b, c, &nth.to_be_bytes()])
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_follow_the_verdict() {
        assert_eq!(level(Verdict::Fail, Level::Must), "error");
        assert_eq!(level(Verdict::Warn, Level::Should), "warning");
        assert_eq!(level(Verdict::Warn, Level::Info), "note");
    }

    #[test]
    fn texts_are_never_empty() {
        assert_eq!(filled(" ", "x"), "x");
        assert_eq!(filled("", ""), "nothing was said");
    }
}
