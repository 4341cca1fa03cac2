//! What the shared formats ask of a row and of a report, whoever judged: the linter, the harness
//! or the AOI engine. What one format asks besides is a trait beside that format.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;

use crate::Verdict;

/// One finding, or what came of one requirement.
pub trait Row {
    /// Stable: the slug of a rule, the id of a requirement.
    fn id(&self) -> &str;
    /// What it is about: a file, the command of a tool, a suite and its case.
    fn place(&self) -> Cow<'_, str>;
    fn verdict(&self) -> Verdict;
    fn message(&self) -> &str;
    /// Why it does not count: `baseline`, or the reason that an ignore gives.
    fn suppressed(&self) -> Option<&str>;
}

/// A report as the shared formats see it.
pub trait Report {
    type Row: Row;
    /// Name and version of the tool that judged.
    fn tool(&self) -> (&str, &str);
    fn rows(&self) -> &[Self::Row];
}

/// Why the rows that a baseline knows do not count.
pub const BASELINE: &str = "baseline";

/// Verdicts that a reader has to look at, worst first, and what their rows are called.
pub const ATTENTION: [(Verdict, &str); 3] = [
    (Verdict::Fail, "Failures"),
    (Verdict::Error, "Not judged"),
    (Verdict::Warn, "Warnings"),
];

/// The rows of a verdict; what the baseline knows comes after what is new.
pub fn new_first<R: Row>(rows: &[R], verdict: Verdict) -> Vec<&R> {
    let these = rows.iter().filter(|row| row.verdict() == verdict);
    let mut these: Vec<&R> = these.collect();
    these.sort_by_key(|row| row.suppressed().is_some());
    these
}

/// Rows that share a reason.
pub struct Reason<'r, R> {
    pub message: &'r str,
    pub rows: Vec<&'r R>,
}

/// Groups rows by their message, in the order of the first row of each.
pub fn reasons<'r, R: Row>(rows: impl IntoIterator<Item = &'r R>) -> Vec<Reason<'r, R>> {
    let mut reasons: Vec<Reason<R>> = Vec::new();
    let mut places = std::collections::HashMap::new();
    for row in rows {
        let message = match row.message().trim() {
            "" => "no reason was given",
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

/// How many rows have each verdict, of a summary that says more than that.
pub fn counts(summary: &impl Serialize) -> serde_json::Result<Value> {
    let all = serde_json::to_value(summary)?;
    let count = |verdict: Verdict| (verdict.as_str().to_owned(), all[verdict.as_str()].clone());
    Ok(Value::Object(Verdict::ALL.map(count).into_iter().collect()))
}

/// The first few of a list, and how many more there are.
pub fn first<S: AsRef<str>>(items: &[S], most: usize, show: impl Fn(&str) -> String) -> String {
    let some = items.iter().take(most).map(|item| show(item.as_ref()));
    let some = some.collect::<Vec<_>>().join(", ");
    match items.len() > most {
        true => format!("{some} and {} more", items.len() - most),
        false => some,
    }
}
