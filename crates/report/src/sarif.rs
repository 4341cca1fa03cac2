//! SARIF 2.1.0, for code scanning.

use std::collections::HashMap;
use std::io::{self, Write};

use serde::Serialize;
use serde_json::{Value, json};

use crate::row::BASELINE;
use crate::{Row, RowReport, Verdict};
use agentproto_text as text;

/// Level of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SarifLevel {
    /// `error`.
    Error,
    /// `warning`.
    Warning,
    /// `note`.
    Note,
}

/// The data of a report that SARIF needs.
pub trait SarifReport: RowReport {
    /// Name of the fingerprints.
    const FINGERPRINT: &'static str;
    /// If true, only failures and warnings are results, and rows with the verdict `error` are
    /// notifications about the tool. If false, every row is a result.
    const ERRORS_ARE_NOTIFICATIONS: bool = true;
    /// Whether notifications contain the index of their rule besides its id.
    const NOTIFICATIONS_HAVE_RULE_INDEX: bool = true;

    /// Whether the run produced all results. Findings do not make a run incomplete.
    fn is_complete(&self) -> bool;
    /// Properties of the run.
    fn properties(&self) -> Value;
    /// Rule of a row.
    fn rule(&self, row: &Self::Row) -> SarifRule;
    /// Level of a row.
    fn level(&self, row: &Self::Row) -> SarifLevel;
    /// Message of a row.
    fn text(&self, row: &Self::Row) -> String;
    /// Location of a row.
    fn location(&self, row: &Self::Row) -> Value;
    /// Fingerprint of each row, which stays the same if the message changes.
    fn fingerprints(&self) -> Vec<String>;
    /// Optional members of a row's result.
    fn optional_members(&self, _: &Self::Row) -> OptionalMembers {
        OptionalMembers::default()
    }
}

/// Optional members of a result. Empty ones are left out.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OptionalMembers {
    /// Property bag of the result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub properties: Option<Value>,
    /// Other locations that explain the result.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub related_locations: Vec<Value>,
    /// Proposed fixes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fixes: Vec<Value>,
}

/// A SARIF message, as plain text and optionally as Markdown.
#[derive(Debug, Default, Serialize)]
pub struct SarifText {
    /// The message as plain text.
    pub text: String,
    /// The message as Markdown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub markdown: Option<String>,
}

impl<T: Into<String>> From<T> for SarifText {
    fn from(text: T) -> Self {
        SarifText {
            text: text.into(),
            markdown: None,
        }
    }
}

/// Default configuration of a rule.
#[derive(Debug, Serialize)]
pub struct SarifConfiguration {
    /// Level of the results if the user does not configure another one.
    pub level: SarifLevel,
}

/// Description of a rule.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SarifRule {
    /// Stable id.
    pub id: String,
    /// Name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// One sentence about the rule.
    pub short_description: SarifText,
    /// What the rule checks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub full_description: Option<SarifText>,
    /// How to fix a violation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<SarifText>,
    /// Default configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_configuration: Option<SarifConfiguration>,
    /// Property bag, for example with tags.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub properties: Option<Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Finding<'r> {
    rule_id: &'r str,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule_index: Option<usize>,
    level: SarifLevel,
    message: SarifText,
    locations: [Value; 1],
    partial_fingerprints: HashMap<&'static str, String>,
    #[serde(flatten)]
    optional_members: OptionalMembers,
    /// The rule index for rows with properties, which is written after them to keep the member
    /// order of earlier versions.
    #[serde(rename = "ruleIndex", skip_serializing_if = "Option::is_none")]
    rule_index_last: Option<usize>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    suppressions: Vec<Value>,
}

/// Writes a report as SARIF.
pub fn write<L: SarifReport>(log: &L, out: &mut dyn Write) -> io::Result<()> {
    let (rules, index) = rules(log);
    let (name, version) = log.tool();
    let at = |row: &L::Row| index.get(row.id()).copied();
    let is_result = |row: &L::Row| {
        !L::ERRORS_ARE_NOTIFICATIONS || matches!(row.verdict(), Verdict::Fail | Verdict::Warn)
    };
    let results = log.rows().iter().zip(log.fingerprints());
    let results = results.filter(|(row, _)| is_result(row));
    let results = results.map(|(row, print)| finding(log, row, at(row), print));
    let results: Vec<Finding> = results.collect();
    let mut invocation = json!({ "executionSuccessful": log.is_complete() });
    if L::ERRORS_ARE_NOTIFICATIONS {
        let errors = log.rows().iter().filter(|r| r.verdict() == Verdict::Error);
        let notifications = errors.map(|row| notification(log, row, at(row)));
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

/// Rules in the order of their first row, and the index of each.
fn rules<L: SarifReport>(log: &L) -> (Vec<SarifRule>, HashMap<&str, usize>) {
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

fn finding<'r, L: SarifReport>(
    log: &L,
    row: &'r L::Row,
    index: Option<usize>,
    print: String,
) -> Finding<'r> {
    let optional_members = log.optional_members(row);
    let is_last = optional_members.properties.is_some();
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
        optional_members,
        rule_index_last: index.filter(|_| is_last),
        suppressions: suppression.into_iter().collect(),
    }
}

fn notification<L: SarifReport>(log: &L, row: &L::Row, index: Option<usize>) -> Value {
    let rule = match index.filter(|_| L::NOTIFICATIONS_HAVE_RULE_INDEX) {
        Some(index) => json!({ "id": row.id(), "index": index }),
        None => json!({ "id": row.id() }),
    };
    json!({
        "level": SarifLevel::Error,
        "message": { "text": log.text(row) },
        "associatedRule": rule,
        "locations": [log.location(row)],
    })
}

/// Joins lines to one message. Untrusted text in it stays text.
pub fn lines(lines: &[String]) -> String {
    // Viewers would turn `[text](address)` into a link.
    text::escape_lines(&lines.join("\n")).replace("](", "] (")
}

/// Percent-encodes all characters except the slash and the unreserved characters of RFC 3986.
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
