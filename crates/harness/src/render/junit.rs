//! JUnit XML: a suite per section, a case per row.

use std::io::{self, Write};

use quick_junit::{NonSuccessKind, TestCase, TestCaseStatus, TestSuite};

use super::{Options, words};
use crate::model::{CaseResult, Report, Verdict};
use agentproto_report::junit::without_skipped_total;
use agentproto_text::{clip, plain, plain_lines};

const EVIDENCE_CHARACTERS: usize = 2000;

pub fn render(report: &Report, _: &Options, out: &mut dyn Write) -> io::Result<()> {
    let stopped = if report.partial {
        " (stopped before its end)"
    } else {
        ""
    };
    let name = format!("agentproto certify {}{stopped}", plain(&report.target.name));
    let mut document = quick_junit::Report::new(&*name);
    document.set_time(words::millis(report.timing.wall_ms));
    for section in words::sections(report) {
        let title = format!("{}: {}", section.suite, section.title());
        let title = plain(&title);
        let mut suite = TestSuite::new(&*title);
        for row in section.rows {
            let mut case = case(row);
            case.set_classname(&*title);
            case.set_time(words::millis(row.duration_ms));
            suite.add_test_case(case);
        }
        document.add_test_suite(suite);
    }
    let xml = document.to_string().map_err(io::Error::other)?;
    let xml = without_skipped_total(xml);
    out.write_all(xml.trim_end().as_bytes())?;
    writeln!(out)
}

fn case(row: &CaseResult) -> TestCase {
    let name = format!("{} ({})", plain(&row.requirement), plain(&row.case));
    let message = plain(&row.message).into_owned();
    let bad = |kind| {
        let mut status = TestCaseStatus::non_success(kind);
        status.set_type(&*plain(&row.requirement));
        status.set_message(&*message);
        status.set_description(detail(row));
        TestCase::new(name.as_str(), status)
    };
    let skipped = |why: String| {
        let mut status = TestCaseStatus::skipped();
        status.set_message(why);
        TestCase::new(name.as_str(), status)
    };
    match row.verdict {
        // As the run does, the build stays green for what the baseline knows.
        Verdict::Fail | Verdict::Error if row.known => {
            skipped(format!("known from the baseline: {message}"))
        }
        Verdict::Fail => bad(NonSuccessKind::Failure),
        Verdict::Error => bad(NonSuccessKind::Error),
        Verdict::Pass => TestCase::new(name, TestCaseStatus::success()),
        Verdict::Warn => {
            let mut case = TestCase::new(name, TestCaseStatus::success());
            case.set_system_out(detail(row));
            case
        }
        Verdict::Skip | Verdict::NotApplicable | Verdict::NotVerified => {
            skipped(format!("{}: {message}", words::word(row.verdict)))
        }
    }
}

/// All that is known of a row, line by line.
fn detail(row: &CaseResult) -> String {
    let mut lines = vec![
        format!(
            "{} {} ({}): {}",
            words::word(row.verdict),
            plain(&row.requirement),
            row.level.as_str(),
            plain_lines(&row.message)
        ),
        format!("asked: {}", plain(&row.statement)),
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
