//! SARIF 2.1.0: one rule per id, and one result per failure and warning. A result is located at the
//! command's line in the probe file. Internal errors are notifications.

use serde_json::{Value, json};

use super::{docs, wording};
use crate::model::{Finding, Report, Verdict};
use crate::rules::Level;
use agentproto_report::aoi::object;
use agentproto_report::fingerprint;
use agentproto_report::sarif::{
    self, OptionalMembers, SarifConfiguration, SarifReport, SarifRule, SarifText, percent_encode,
};
use agentproto_text::clip;

const MAX_EVIDENCE_CHARS: usize = 1000;

impl SarifReport for Report {
    const FINGERPRINT: &'static str = "agentprotoAoi/v1";
    const NOTIFICATIONS_HAVE_RULE_INDEX: bool = false;

    fn is_complete(&self) -> bool {
        !self.partial && self.summary.error == 0
    }

    fn properties(&self) -> Value {
        json!({ "target": self.target.name })
    }

    fn rule(&self, row: &Finding) -> SarifRule {
        let Some(rule) = wording::rule(row) else {
            return SarifRule {
                id: row.rule.clone(),
                short_description: row.rule.as_str().into(),
                ..SarifRule::default()
            };
        };
        let level = match rule.level {
            Level::Must => sarif::SarifLevel::Error,
            Level::Should | Level::Open => sarif::SarifLevel::Warning,
        };
        let characteristics = crate::model::characteristics(rule.check);
        let mut tags: Vec<&str> = characteristics.iter().map(|c| c.as_str()).collect();
        tags.push(wording::level(rule.level));
        SarifRule {
            id: rule.id.to_owned(),
            name: None,
            short_description: rule.requirement.into(),
            full_description: Some(rule.why.into()),
            help: Some(SarifText {
                text: rule.hint.to_owned(),
                markdown: Some(docs::markdown(rule, 2)),
            }),
            default_configuration: Some(SarifConfiguration { level }),
            properties: Some(json!({ "tags": tags })),
        }
    }

    fn level(&self, row: &Finding) -> sarif::SarifLevel {
        match row.verdict {
            Verdict::Fail => sarif::SarifLevel::Error,
            _ => sarif::SarifLevel::Warning,
        }
    }

    fn text(&self, row: &Finding) -> String {
        let mut lines = vec![match row.message.trim() {
            "" => row.rule.clone(),
            message => message.to_owned(),
        }];
        if let Some(rule) = wording::rule(row) {
            lines.push(format!("Expected ({}): {}", row.section, rule.requirement));
            lines.push(rule.hint.to_owned());
        }
        if !row.repro.is_empty() {
            lines.push(format!("Run: {}", agentproto_text::shell(&row.repro)));
        }
        if let Some(observed) = wording::observed(row) {
            lines.push(format!("Observed: {observed}"));
        }
        let lines = lines
            .iter()
            .map(|line| clip(line, MAX_EVIDENCE_CHARS).into_owned());
        sarif::lines(&lines.collect::<Vec<_>>())
    }

    /// The command, and its line in the probe file if there is one.
    fn location(&self, row: &Finding) -> Value {
        let mut location = object(json!({
            "logicalLocations": [{
                "name": row.command,
                "fullyQualifiedName": format!("{} {}", self.target.name, row.command),
                "kind": "function",
            }],
        }));
        if let Some(file) = self.target.probe_file.as_deref() {
            let uri = percent_encode(file.trim_start_matches("./").trim_start_matches('/'));
            let line = self.target.lines.get(&row.command).copied().unwrap_or(1);
            let place = json!({
                "artifactLocation": { "uri": uri },
                "region": { "startLine": line.max(1) },
            });
            location.insert("physicalLocation".to_owned(), place);
        }
        Value::Object(location)
    }

    fn fingerprints(&self) -> Vec<String> {
        let rows = self.checks.iter();
        rows.map(|row| fingerprint::of(&[row.rule.as_bytes(), row.command.as_bytes()]))
            .collect()
    }

    fn optional_members(&self, row: &Finding) -> OptionalMembers {
        OptionalMembers {
            properties: Some(json!({
                "command": row.command,
                "characteristics": row.characteristics,
                "verdict": row.verdict.as_str(),
                "section": row.section,
                "repro": row.repro,
                "evidence": row.evidence,
            })),
            ..OptionalMembers::default()
        }
    }
}
