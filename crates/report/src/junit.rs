//! JUnit XML with one suite per group of rows and one case per row.

use std::io::{self, Write};
use std::time::Duration;

use agentproto_text::escape_line;
use quick_junit::{NonSuccessKind, TestCase, TestCaseStatus, TestSuite};

use crate::words::verdict_name;
use crate::{Row, RowReport, Verdict};

/// A group of rows.
pub struct JunitSuite<'r, R> {
    /// Name of the group.
    pub title: String,
    /// Rows of the group.
    pub rows: Vec<&'r R>,
    /// Whether to add a passing case "no findings".
    pub is_clean: bool,
}

/// The data of a report that JUnit needs.
pub trait JunitReport: RowReport {
    /// Name of the whole run.
    fn name(&self) -> String;
    /// Duration of the whole run.
    fn elapsed(&self) -> Duration;
    /// All groups of rows.
    fn suites(&self) -> Vec<JunitSuite<'_, Self::Row>>;
    /// Name of a row's case.
    fn case(&self, row: &Self::Row) -> String;
    /// All details of a row, one per line.
    fn detail(&self, row: &Self::Row) -> String;
    /// Duration of a row, if known.
    fn duration(&self, _: &Self::Row) -> Option<Duration> {
        None
    }
    /// Verdict of a row for the build. It must not fail if the run does not fail.
    fn verdict(&self, row: &Self::Row) -> Verdict {
        row.verdict()
    }
    /// Why a row is reported as skipped, or `None` if it counts.
    fn skipped(&self, row: &Self::Row) -> Option<String> {
        let message = escape_line(row.message());
        match row.verdict() {
            Verdict::Fail | Verdict::Error => row
                .suppressed()
                .map(|_| format!("already in the baseline: {message}")),
            Verdict::Pass | Verdict::Warn => None,
            Verdict::Skip | Verdict::NotApplicable | Verdict::NotVerified => {
                Some(format!("{}: {message}", verdict_name(row.verdict())))
            }
        }
    }
}

/// Writes a report as JUnit XML.
pub fn write<T: JunitReport>(tests: &T, out: &mut dyn Write) -> io::Result<()> {
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
    // Write once, because the serializer makes many small writes.
    let xml = document.to_string().map_err(io::Error::other)?;
    writeln!(out, "{}", without_skipped_total(xml).trim_end())
}

fn case<T: JunitReport>(tests: &T, row: &T::Row) -> TestCase {
    let bad = |kind| {
        let mut status = TestCaseStatus::non_success(kind);
        status.set_type(&*escape_line(row.id()));
        status.set_message(&*escape_line(row.message()));
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

/// Removes `skipped` from `<testsuites>`. The Jenkins schema allows it only on `<testsuite>`.
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
