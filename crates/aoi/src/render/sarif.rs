//! SARIF 2.1.0: a rule per id, a result per failure and warning, placed at the command's line of
//! the probe file. What the linter could not judge is a notification.

use std::collections::HashMap;
use std::io::{self, Write};

use serde_json::{Map, Value, json};

use super::{Options, docs, words};
use crate::model::{Finding, Report, Verdict};
use crate::rules::Level;
use agentproto_report::aoi::object;
use agentproto_report::fingerprint;
use agentproto_report::sarif::percent_encode;
use agentproto_text::{self as text, clip};

const SHOWN: usize = 1000;

pub fn render(report: &Report, _: &Options, out: &mut dyn Write) -> io::Result<()> {
    let mut rules: Vec<Value> = Vec::new();
    let mut index: HashMap<&str, usize> = HashMap::new();
    for row in &report.checks {
        index.entry(row.rule.as_str()).or_insert_with(|| {
            rules.push(rule(row));
            rules.len() - 1
        });
    }
    let of = |wanted: &[Verdict], made: &dyn Fn(&Finding) -> Value| -> Vec<Value> {
        let rows = report.checks.iter().filter(|r| wanted.contains(&r.verdict));
        rows.map(made).collect()
    };
    let results = of(&[Verdict::Fail, Verdict::Warn], &|row| {
        result(row, &index, report)
    });
    let notifications = of(&[Verdict::Error], &|row| {
        json!({
            "level": "error",
            "message": { "text": message(row) },
            "associatedRule": { "id": row.rule },
            "locations": [location(row, report)],
        })
    });
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
            "properties": { "target": report.target.name },
            "results": results,
        }],
    });
    writeln!(out, "{}", text::pretty(&log)?)
}

fn rule(row: &Finding) -> Value {
    let Some(rule) = words::rule(row) else {
        return json!({ "id": row.rule, "shortDescription": { "text": row.rule } });
    };
    let level = match rule.level {
        Level::Must => "error",
        Level::Should | Level::Open => "warning",
    };
    let characteristics = crate::model::characteristics(rule.check);
    let mut tags: Vec<&str> = characteristics.iter().map(|c| c.as_str()).collect();
    tags.push(words::level(rule.level));
    json!({
        "id": rule.id,
        "shortDescription": { "text": rule.demands },
        "fullDescription": { "text": rule.why },
        "help": { "text": rule.hint, "markdown": docs::markdown(rule, 2) },
        "defaultConfiguration": { "level": level },
        "properties": { "tags": tags },
    })
}

fn result(row: &Finding, index: &HashMap<&str, usize>, report: &Report) -> Value {
    let print = fingerprint::of(&[row.rule.as_bytes(), row.command.as_bytes()]);
    let mut result = object(json!({
        "ruleId": row.rule,
        "level": if row.verdict == Verdict::Fail { "error" } else { "warning" },
        "message": { "text": message(row) },
        "locations": [location(row, report)],
        "partialFingerprints": { "agentprotoAoi/v1": print },
        "properties": {
            "command": row.command,
            "characteristics": row.characteristics,
            "verdict": row.verdict.as_str(),
            "section": row.section,
            "repro": row.repro,
            "evidence": row.evidence,
        },
    }));
    if let Some(at) = index.get(row.rule.as_str()) {
        result.insert("ruleIndex".to_owned(), (*at).into());
    }
    if row.known {
        let known = json!([{ "kind": "external", "justification": "baseline" }]);
        result.insert("suppressions".to_owned(), known);
    }
    Value::Object(result)
}

fn message(row: &Finding) -> String {
    let mut lines = vec![match row.message.trim() {
        "" => row.rule.clone(),
        message => message.to_owned(),
    }];
    if let Some(rule) = words::rule(row) {
        lines.push(format!("Expected ({}): {}", row.section, rule.demands));
        lines.push(rule.hint.to_owned());
    }
    if !row.repro.is_empty() {
        lines.push(format!("Run: {}", words::shell(&row.repro)));
    }
    if let Some(observed) = words::observed(row) {
        lines.push(format!("Observed: {observed}"));
    }
    let lines: Vec<_> = lines.iter().map(|line| clip(line, SHOWN)).collect();
    // Viewers would make a link of `[text](address)`.
    text::plain_lines(&lines.join("\n")).replace("](", "] (")
}

/// The command, and its line where there is a probe file.
fn location(row: &Finding, report: &Report) -> Value {
    let mut location: Map<String, Value> = object(json!({
        "logicalLocations": [{
            "name": row.command,
            "fullyQualifiedName": format!("{} {}", report.target.name, row.command),
            "kind": "function",
        }],
    }));
    if let Some(file) = report.target.probe_file.as_deref() {
        let uri = percent_encode(file.trim_start_matches("./").trim_start_matches('/'));
        let line = report.target.lines.get(&row.command).copied().unwrap_or(1);
        let place = json!({
            "artifactLocation": { "uri": uri },
            "region": { "startLine": line.max(1) },
        });
        location.insert("physicalLocation".to_owned(), place);
    }
    Value::Object(location)
}
