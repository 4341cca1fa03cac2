//! SARIF 2.1.0, for code scanning.

use std::collections::HashMap;
use std::io::{self, Write};

use serde::Serialize;
use serde_json::{Value, json};

use crate::row::BASELINE;
use crate::{Report, Row, Verdict};
use agentproto_text as text;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    Error,
    Warning,
    Note,
}

/// What SARIF asks of a report.
pub trait Log: Report {
    /// The name of its fingerprints.
    const FINGERPRINT: &'static str;
    /// What could not be judged is a notification about the tool, and only failures and warnings
    /// are results. Otherwise every row is a result.
    const NOTIFIES: bool = true;
    /// Notifications name the place of their rule in the list, beside its id.
    const NUMBERS: bool = true;

    /// Whether the results are all there are; findings are not a failure of the run.
    fn is_complete(&self) -> bool;
    fn properties(&self) -> Value;
    /// The rule behind a row.
    fn rule(&self, row: &Self::Row) -> Rule;
    fn level(&self, row: &Self::Row) -> Level;
    fn text(&self, row: &Self::Row) -> String;
    fn location(&self, row: &Self::Row) -> Value;
    /// A name for each row that survives another message.
    fn fingerprints(&self) -> Vec<String>;
    fn more(&self, _: &Self::Row) -> More {
        More::default()
    }
}

/// What a result has besides, each where there is something.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct More {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub properties: Option<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub related_locations: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fixes: Vec<Value>,
}

#[derive(Debug, Default, Serialize)]
pub struct Text {
    pub text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub markdown: Option<String>,
}

impl<T: Into<String>> From<T> for Text {
    fn from(text: T) -> Self {
        Text {
            text: text.into(),
            markdown: None,
        }
    }
}

#[derive(Debug, Serialize)]
pub struct Configuration {
    pub level: Level,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    pub id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub short_description: Text,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub full_description: Option<Text>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<Text>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_configuration: Option<Configuration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub properties: Option<Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Finding<'r> {
    rule_id: &'r str,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule_index: Option<usize>,
    level: Level,
    message: Text,
    locations: [Value; 1],
    partial_fingerprints: HashMap<&'static str, String>,
    #[serde(flatten)]
    more: More,
    /// The same, behind properties: where the rows have some it has always been there.
    #[serde(rename = "ruleIndex", skip_serializing_if = "Option::is_none")]
    rule_index_last: Option<usize>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    suppressions: Vec<Value>,
}

pub fn write<L: Log>(log: &L, out: &mut dyn Write) -> io::Result<()> {
    let (rules, index) = rules(log);
    let (name, version) = log.tool();
    let at = |row: &L::Row| index.get(row.id()).copied();
    let is_result =
        |row: &L::Row| !L::NOTIFIES || matches!(row.verdict(), Verdict::Fail | Verdict::Warn);
    let results = log.rows().iter().zip(log.fingerprints());
    let results = results.filter(|(row, _)| is_result(row));
    let results = results.map(|(row, print)| finding(log, row, at(row), print));
    let results: Vec<Finding> = results.collect();
    let mut invocation = json!({ "executionSuccessful": log.is_complete() });
    if L::NOTIFIES {
        let unjudged = log.rows().iter().filter(|r| r.verdict() == Verdict::Error);
        let notifications = unjudged.map(|row| notification(log, row, at(row)));
        invocation["toolExecutionNotifications"] = notifications.collect();
    }
    let document = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": { "name": name, "version": version, "rules": rules } },
            "columnKind": "unicodeCodePoints",
            "invocations": [invocation],
            "properties": log.properties(),
            "results": results,
        }],
    });
    writeln!(out, "{}", text::pretty(&document)?)
}

/// Rules in the order of their first row, and where each is.
fn rules<L: Log>(log: &L) -> (Vec<Rule>, HashMap<&str, usize>) {
    let mut rules = Vec::new();
    let mut index = HashMap::new();
    for row in log.rows() {
        index.entry(row.id()).or_insert_with(|| {
            rules.push(log.rule(row));
            rules.len() - 1
        });
    }
    (rules, index)
}

fn finding<'r, L: Log>(
    log: &L,
    row: &'r L::Row,
    index: Option<usize>,
    print: String,
) -> Finding<'r> {
    let more = log.more(row);
    let is_last = more.properties.is_some();
    let suppression = row.suppressed().map(|reason| {
        let kind = match reason == BASELINE {
            true => "external",
            false => "inSource",
        };
        json!({ "kind": kind, "justification": reason })
    });
    Finding {
        rule_id: row.id(),
        rule_index: index.filter(|_| !is_last),
        level: log.level(row),
        message: log.text(row).into(),
        locations: [log.location(row)],
        partial_fingerprints: HashMap::from([(L::FINGERPRINT, print)]),
        more,
        rule_index_last: index.filter(|_| is_last),
        suppressions: suppression.into_iter().collect(),
    }
}

fn notification<L: Log>(log: &L, row: &L::Row, index: Option<usize>) -> Value {
    let rule = match index.filter(|_| L::NUMBERS) {
        Some(index) => json!({ "id": row.id(), "index": index }),
        None => json!({ "id": row.id() }),
    };
    json!({
        "level": Level::Error,
        "message": { "text": log.text(row) },
        "associatedRule": rule,
        "locations": [log.location(row)],
    })
}

/// Lines as one message; what others wrote in it stays text.
pub fn lines(lines: &[String]) -> String {
    // Viewers would make a link of `[text](address)`.
    text::plain_lines(&lines.join("\n")).replace("](", "] (")
}

/// All but unreserved characters and the slash, as RFC 3986 has it.
pub fn percent_encode(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                out.push(char::from(byte))
            }
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_are_percent_encoded() {
        assert_eq!(percent_encode("a b/ü#1%.md"), "a%20b/%C3%BC%231%25.md");
    }
}
