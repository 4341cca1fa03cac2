//! JUnit XML: a suite per group of rows, a case per row.

use std::io::{self, Write};
use std::time::Duration;

use agentproto_text::plain;
use quick_junit::{NonSuccessKind, TestCase, TestCaseStatus, TestSuite};

use crate::words::word;
use crate::{Report, Row, Verdict};

/// Rows under one title.
pub struct Suite<'r, R> {
    pub title: String,
    pub rows: Vec<&'r R>,
    /// A case that passes says that nothing was found.
    pub is_clean: bool,
}

/// What JUnit asks of a report.
pub trait Tests: Report {
    fn name(&self) -> String;
    fn elapsed(&self) -> Duration;
    fn suites(&self) -> Vec<Suite<'_, Self::Row>>;
    /// The name of a row's case.
    fn case(&self, row: &Self::Row) -> String;
    /// All that is known of a row, line by line.
    fn detail(&self, row: &Self::Row) -> String;
    fn duration(&self, _: &Self::Row) -> Option<Duration> {
        None
    }
    /// What the build shall think of a row: it stays green where the run does.
    fn verdict(&self, row: &Self::Row) -> Verdict {
        row.verdict()
    }
    /// Why a row counts neither for nor against the build.
    fn skipped(&self, row: &Self::Row) -> Option<String> {
        let message = plain(row.message());
        match row.verdict() {
            Verdict::Fail | Verdict::Error => row
                .suppressed()
                .map(|_| format!("known from the baseline: {message}")),
            Verdict::Pass | Verdict::Warn => None,
            Verdict::Skip | Verdict::NotApplicable | Verdict::NotVerified => {
                Some(format!("{}: {message}", word(row.verdict())))
            }
        }
    }
}

pub fn write<T: Tests>(tests: &T, out: &mut dyn Write) -> io::Result<()> {
    let mut document = quick_junit::Report::new(tests.name());
    document.set_time(tests.elapsed());
    for group in tests.suites() {
        let mut suite = TestSuite::new(group.title.as_str());
        let mut add = |mut case: TestCase| {
            case.set_classname(group.title.as_str());
            suite.add_test_case(case);
        };
        if group.is_clean {
            add(TestCase::new("no findings", TestCaseStatus::success()));
        }
        for row in &group.rows {
            let mut case = case(tests, row);
            if let Some(duration) = tests.duration(row) {
                case.set_time(duration);
            }
            add(case);
        }
        document.add_test_suite(suite);
    }
    // One write: the serializer's own are many and small.
    let xml = document.to_string().map_err(io::Error::other)?;
    writeln!(out, "{}", without_skipped_total(xml).trim_end())
}

fn case<T: Tests>(tests: &T, row: &T::Row) -> TestCase {
    let bad = |kind| {
        let mut status = TestCaseStatus::non_success(kind);
        status.set_type(&*plain(row.id()));
        status.set_message(&*plain(row.message()));
        status.set_description(tests.detail(row));
        status
    };
    let status = match (tests.skipped(row), tests.verdict(row)) {
        (Some(why), _) => {
            let mut status = TestCaseStatus::skipped();
            status.set_message(why);
            status
        }
        (None, Verdict::Fail) => bad(NonSuccessKind::Failure),
        (None, Verdict::Error) => bad(NonSuccessKind::Error),
        (None, _) => TestCaseStatus::success(),
    };
    let warns =
        matches!(status, TestCaseStatus::Success { .. }) && tests.verdict(row) == Verdict::Warn;
    let mut case = TestCase::new(tests.case(row), status);
    if warns {
        case.set_system_out(tests.detail(row));
    }
    case
}

/// The schema by which Jenkins checks a file knows `skipped` on suites, not on their list.
fn without_skipped_total(mut xml: String) -> String {
    let root = xml.find("<testsuites ").and_then(|start| {
        let end = start + xml.get(start..)?.find('>')?;
        let from = start + xml.get(start..end)?.find(" skipped=\"")?;
        let value = from + " skipped=\"".len();
        let to = value + xml.get(value..end)?.find('"')? + 1;
        Some(from..to)
    });
    if let Some(attribute) = root {
        xml.replace_range(attribute, "");
    }
    xml
}
