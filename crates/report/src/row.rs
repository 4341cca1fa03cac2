//! The row and report model of the shared formats, for `lint`, `certify` and `aoi-lint`. If a
//! format needs more, it defines its own trait.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;

use crate::Verdict;

/// A finding, or the result for a requirement.
pub trait Row {
    /// Stable id: the slug of a rule or the id of a requirement.
    fn id(&self) -> &str;
    /// Subject of the row: a file, the command of a tool, or a suite and its case.
    fn subject(&self) -> Cow<'_, str>;
    /// Verdict of the row.
    fn verdict(&self) -> Verdict;
    /// What was found.
    fn message(&self) -> &str;
    /// Why the row does not count: `baseline`, or the reason in an ignore comment.
    fn suppressed(&self) -> Option<&str>;
}

/// A report, as the shared formats read it.
pub trait RowReport {
    /// Type of the rows.
    type Row: Row;
    /// Name and version of the tool that produced the report.
    fn tool(&self) -> (&str, &str);
    /// All rows.
    fn rows(&self) -> &[Self::Row];
}

/// Value of `Row::suppressed` for rows that are in the baseline.
pub const BASELINE: &str = "baseline";

/// Verdicts that need attention, worst first, each with the heading for its rows.
pub const HEADINGS: [(Verdict, &str); 3] = [
    (Verdict::Fail, "Failures"),
    (Verdict::Error, "Errors"),
    (Verdict::Warn, "Warnings"),
];

/// The rows with a verdict, new ones before those in the baseline.
pub fn new_first<R: Row>(rows: &[R], verdict: Verdict) -> Vec<&R> {
    let these = rows.iter().filter(|row| row.verdict() == verdict);
    let mut these: Vec<&R> = these.collect();
    these.sort_by_key(|row| row.suppressed().is_some());
    these
}

/// Rows with the same message.
pub struct Reason<'r, R> {
    /// The message.
    pub message: &'r str,
    /// The rows.
    pub rows: Vec<&'r R>,
}

/// Groups rows by their message, in the order of the first row of each.
pub fn reasons<'r, R: Row>(rows: impl IntoIterator<Item = &'r R>) -> Vec<Reason<'r, R>> {
    let mut reasons: Vec<Reason<R>> = Vec::new();
    let mut places = std::collections::HashMap::new();
    for row in rows {
        let message = match row.message().trim() {
            "" => "no reason given",
            message => message,
        };
        let at = *places.entry(message).or_insert(reasons.len());
        match reasons.get_mut(at) {
            Some(reason) => reason.rows.push(row),
            None => reasons.push(Reason {
                message,
                rows: vec![row],
            }),
        }
    }
    reasons
}

/// Number of rows per verdict, taken from a summary that has other members as well.
pub fn counts(summary: &impl Serialize) -> serde_json::Result<Value> {
    let all = serde_json::to_value(summary)?;
    let count = |verdict: Verdict| (verdict.as_str().to_owned(), all[verdict.as_str()].clone());
    Ok(Value::Object(Verdict::ALL.map(count).into_iter().collect()))
}

/// The first `most` items of a list, and the number of the others.
pub fn join_first<S: AsRef<str>>(
    items: &[S],
    most: usize,
    show: impl Fn(&str) -> String,
) -> String {
    let some = items.iter().take(most).map(|item| show(item.as_ref()));
    let some = some.collect::<Vec<_>>().join(", ");
    match items.len() > most {
        true => format!("{some} and {} more", items.len() - most),
        false => some,
    }
}
