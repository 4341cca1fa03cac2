//! SARIF 2.1.0: a rule per requirement, a result per failure and warning. What the harness could
//! not check is a notification of the tool, not a result about the agent.

use std::collections::{BTreeSet, HashMap};

use serde_json::{Value, json};

use super::words;
use crate::model::{CaseResult, Level, Report, Verdict};
use agentproto_report::aoi::object;
use agentproto_report::fingerprint;
use agentproto_report::sarif::{
    self, OptionalMembers, SarifConfiguration, SarifReport, SarifRule, percent_encode,
};
use agentproto_text::clip;

const EVIDENCE_CHARACTERS: usize = 1000;

impl SarifReport for Report {
    const FINGERPRINT: &'static str = "agentprotoRequirement/v1";

    fn is_complete(&self) -> bool {
        !self.partial && self.summary.error == 0
    }

    fn properties(&self) -> Value {
        json!({
            "target": self.target.name,
            "certified": self.summary.certified,
            "profile": self.profile,
        })
    }

    fn rule(&self, row: &CaseResult) -> SarifRule {
        // A set, because the SARIF schema does not allow duplicate tags.
        let tags = BTreeSet::from([row.suite.as_str(), &row.section, row.level.as_str()]);
        let source = words::source(row);
        let help = format!("{source} ({}): {}", row.level.as_str(), row.statement);
        SarifRule {
            id: row.requirement.clone(),
            short_description: filled(&row.statement, &row.requirement).into(),
            help: Some(help.into()),
            default_configuration: Some(SarifConfiguration {
                level: level(self.violated(row), row.level),
            }),
            properties: Some(json!({ "tags": tags })),
            ..SarifRule::default()
        }
    }

    fn level(&self, row: &CaseResult) -> sarif::SarifLevel {
        level(row.verdict, row.level)
    }

    fn text(&self, row: &CaseResult) -> String {
        let mut lines = vec![filled(&row.message, &row.statement).to_owned()];
        lines.extend(row.hint.clone());
        lines.extend(row.evidence.iter().map(|evidence| {
            let text = clip(&evidence.text, EVIDENCE_CHARACTERS);
            format!("{} {}: {text}", evidence.direction, evidence.line)
        }));
        sarif::lines(&lines)
    }

    /// The line of the transcript, if there is one, and always the case.
    fn location(&self, row: &CaseResult) -> Value {
        let name = format!("{}/{}", row.suite, row.case);
        let mut location = object(json!({
            "logicalLocations": [{ "name": row.case, "fullyQualifiedName": name }],
        }));
        if let Some(file) = row.transcript.as_deref().filter(|f| !f.is_empty()) {
            let uri = percent_encode(file.trim_start_matches('/'));
            let mut place = object(json!({ "artifactLocation": { "uri": uri } }));
            let at = match row.verdict {
                Verdict::Error => row.evidence.last(),
                _ => words::main_evidence(row),
            };
            // SARIF line numbers have 32 bits.
            let line = at.and_then(|e| i32::try_from(e.line).ok());
            if let Some(line) = line.filter(|n| *n > 0) {
                place.insert("region".to_owned(), json!({ "startLine": line }));
            }
            location.insert("physicalLocation".to_owned(), Value::Object(place));
        }
        Value::Object(location)
    }

    /// Equal rows are distinguished by their order.
    fn fingerprints(&self) -> Vec<String> {
        let mut seen: HashMap<[&str; 3], u32> = HashMap::new();
        let rows = self.results.iter();
        rows.map(|row| {
            let identity = [row.suite.as_str(), &row.case, &row.requirement];
            let nth = seen.entry(identity).or_insert(0);
            *nth += 1;
            let [a, b, c] = identity.map(str::as_bytes);
            fingerprint::of(&[a, b, c, &nth.to_be_bytes()])
        })
        .collect()
    }

    fn optional_members(&self, row: &CaseResult) -> OptionalMembers {
        OptionalMembers {
            properties: Some(json!({
                "suite": row.suite,
                "case": row.case,
                "verdict": row.verdict.as_str(),
                "source": row.source,
                "profile": row.profile,
                "evidence": row.evidence,
            })),
            ..OptionalMembers::default()
        }
    }
}

impl Report {
    /// The verdict for a violation of the requirement of a row, in the profile of the report.
    fn violated(&self, row: &CaseResult) -> Verdict {
        match row.level.violated() {
            Verdict::Fail if !self.decides(row) => Verdict::Warn,
            verdict => verdict,
        }
    }
}

/// The text, or a replacement if it is blank: SARIF viewers reject empty texts.
fn filled<'t>(text: &'t str, instead: &'t str) -> &'t str {
    let texts = [text, instead];
    let full = texts.into_iter().find(|t| !t.trim().is_empty());
    full.unwrap_or("no description")
}

fn level(verdict: Verdict, level: Level) -> sarif::SarifLevel {
    match (verdict, level) {
        (Verdict::Fail, _) => sarif::SarifLevel::Error,
        (_, Level::Must | Level::Should) => sarif::SarifLevel::Warning,
        (_, Level::May | Level::Info) => sarif::SarifLevel::Note,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_follow_the_verdict() {
        assert_eq!(level(Verdict::Fail, Level::Must), sarif::SarifLevel::Error);
        assert_eq!(
            level(Verdict::Warn, Level::Should),
            sarif::SarifLevel::Warning
        );
        assert_eq!(level(Verdict::Warn, Level::Info), sarif::SarifLevel::Note);
    }

    #[test]
    fn empty_texts_are_replaced() {
        assert_eq!(filled(" ", "x"), "x");
        assert_eq!(filled("", ""), "no description");
    }
}
