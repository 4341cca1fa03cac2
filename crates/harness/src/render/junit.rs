//! JUnit XML: one suite per section, one test case per row.

use std::time::Duration;

use super::words;
use crate::model::{CaseResult, Report};
use agentproto_report::junit::{Suite, Tests};
use agentproto_text::{clip, plain, plain_lines};

const EVIDENCE_CHARACTERS: usize = 2000;

impl Tests for Report {
    fn name(&self) -> String {
        let stopped = match self.partial {
            true => " (interrupted)",
            false => "",
        };
        format!("agentproto certify {}{stopped}", plain(&self.target.name))
    }

    fn elapsed(&self) -> Duration {
        words::millis(self.timing.wall_ms)
    }

    fn suites(&self) -> Vec<Suite<'_, CaseResult>> {
        let sections = words::sections(self).into_iter();
        let suites = sections.map(|section| {
            let title = format!("{}: {}", section.suite, section.title());
            Suite {
                title: plain(&title).into_owned(),
                rows: section.rows,
                is_clean: false,
            }
        });
        suites.collect()
    }

    fn case(&self, row: &CaseResult) -> String {
        format!("{} ({})", plain(&row.requirement), plain(&row.case))
    }

    fn duration(&self, row: &CaseResult) -> Option<Duration> {
        Some(words::millis(row.duration_ms))
    }

    fn detail(&self, row: &CaseResult) -> String {
        let mut lines = vec![
            format!(
                "{} {} ({}): {}",
                words::word(row.verdict),
                plain(&row.requirement),
                row.level.as_str(),
                plain_lines(&row.message)
            ),
            format!("spec: {}", plain(&row.statement)),
            format!("source: {}", plain(&row.source)),
        ];
        for evidence in &row.evidence {
            lines.push(format!(
                "{} {}: {}",
                plain(&evidence.direction),
                evidence.line,
                clip(&plain(&evidence.text), EVIDENCE_CHARACTERS)
            ));
        }
        if let Some(hint) = &row.hint {
            lines.push(format!("do: {}", plain(hint)));
        }
        lines.join("\n")
    }
}
