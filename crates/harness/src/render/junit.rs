//! JUnit XML: one suite per section, one test case per row.

use std::time::Duration;

use super::words;
use crate::model::{CaseResult, Report};
use agentproto_report::junit::{JunitReport, JunitSuite};
use agentproto_text::{clip, escape_line, escape_lines};

const EVIDENCE_CHARACTERS: usize = 2000;

impl JunitReport for Report {
    fn name(&self) -> String {
        let stopped = match self.partial {
            true => " (interrupted)",
            false => "",
        };
        let profile = match words::profile(self) {
            Some(_) => format!(" (profile {})", self.profile),
            None => String::new(),
        };
        format!(
            "agentproto certify {}{profile}{stopped}",
            escape_line(&self.target.name)
        )
    }

    fn elapsed(&self) -> Duration {
        words::millis(self.timing.wall_ms)
    }

    fn suites(&self) -> Vec<JunitSuite<'_, CaseResult>> {
        let sections = words::sections(self).into_iter();
        let suites = sections.map(|section| {
            let title = format!("{}: {}", section.suite, section.title());
            JunitSuite {
                title: escape_line(&title).into_owned(),
                rows: section.rows,
                is_clean: false,
            }
        });
        suites.collect()
    }

    fn case(&self, row: &CaseResult) -> String {
        format!(
            "{} ({})",
            escape_line(&row.requirement),
            escape_line(&row.case)
        )
    }

    fn duration(&self, row: &CaseResult) -> Option<Duration> {
        Some(words::millis(row.duration_ms))
    }

    fn detail(&self, row: &CaseResult) -> String {
        let mut lines = vec![
            format!(
                "{} {} ({}): {}",
                words::verdict_name(row.verdict),
                escape_line(&row.requirement),
                words::level(row),
                escape_lines(&row.message)
            ),
            format!("spec: {}", escape_line(&row.statement)),
            format!("source: {}", escape_line(&words::source(row))),
        ];
        for evidence in &row.evidence {
            lines.push(format!(
                "{} {}: {}",
                escape_line(&evidence.direction),
                evidence.line,
                clip(&escape_line(&evidence.text), EVIDENCE_CHARACTERS)
            ));
        }
        if let Some(hint) = &row.hint {
            lines.push(format!("do: {}", escape_line(hint)));
        }
        lines.join("\n")
    }
}
