//! Texts that several formats share: names, counts, times, groups.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::prompting;
use crate::model::{CaseResult, Evidence, Report, Summary, Verdict};
use agentproto_report::row::{self, Reason};
pub use agentproto_report::words::{
    BY_WEIGHT, date, escape, markup, millis, needs_attention, time, weight, word,
};
use agentproto_text::count;

/// What a verdict means, for readers who see it for the first time.
pub fn meaning(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "the requirement holds",
        Verdict::Fail => "a MUST requirement is violated",
        Verdict::Warn => "not as it should be, but not a failure",
        Verdict::Skip => "something was missing, for example a prompt",
        Verdict::NotApplicable => "the agent does not claim this feature",
        Verdict::NotVerified => "never exercised in this run",
        Verdict::Error => "the harness could not check this",
    }
}

pub fn tally<'r>(rows: impl IntoIterator<Item = &'r CaseResult>) -> Vec<(Verdict, usize)> {
    let mut counts = [0; BY_WEIGHT.len()];
    for row in rows {
        if let Some(count) = counts.get_mut(weight(row.verdict)) {
            *count += 1;
        }
    }
    let all = BY_WEIGHT.into_iter().zip(counts);
    all.filter(|(_, n)| *n > 0).collect()
}

/// Verdicts that occur and their counts, in the order of a legend.
pub fn counts(summary: &Summary) -> Vec<(Verdict, usize)> {
    let all = [
        (Verdict::Pass, summary.pass),
        (Verdict::Fail, summary.fail),
        (Verdict::Warn, summary.warn),
        (Verdict::Error, summary.error),
        (Verdict::NotVerified, summary.not_verified),
        (Verdict::Skip, summary.skip),
        (Verdict::NotApplicable, summary.n_a),
    ];
    all.into_iter().filter(|(_, n)| *n > 0).collect()
}

/// Whether this is a selection or a shard in which something passed and nothing failed.
pub fn is_part_that_holds(report: &Report) -> bool {
    let summary = &report.summary;
    let is_part = report.selection || report.shard.is_some();
    is_part
        && !report.partial
        && report.never_answered.is_none()
        && summary.pass > 0
        && summary.fail + summary.error == 0
}

/// Number of failing rows that are known from the baseline.
pub fn known(report: &Report) -> usize {
    report.results.iter().filter(|r| r.known).count()
}

/// Rows of one section, in the order of the report.
pub struct Section<'r> {
    pub suite: &'r str,
    pub name: &'r str,
    pub rows: Vec<&'r CaseResult>,
}

impl Section<'_> {
    pub fn worst(&self) -> Verdict {
        let verdicts = self.rows.iter().map(|r| r.verdict);
        verdicts
            .min_by_key(|v| weight(*v))
            .unwrap_or(Verdict::NotVerified)
    }

    pub fn title(&self) -> &str {
        match self.name.trim() {
            "" => self.suite,
            name => name,
        }
    }
}

pub fn sections(report: &Report) -> Vec<Section<'_>> {
    let mut sections: Vec<Section> = Vec::new();
    let mut places: HashMap<(&str, &str), usize> = HashMap::new();
    for row in &report.results {
        let key = (row.suite.as_str(), row.section.as_str());
        let at = *places.entry(key).or_insert(sections.len());
        match sections.get_mut(at) {
            Some(section) => section.rows.push(row),
            None => sections.push(Section {
                suite: key.0,
                name: key.1,
                rows: vec![row],
            }),
        }
    }
    sections
}

/// The reasons for a verdict, with their rows. Rows that need a prompt are excluded, because
/// `prompting` lists them.
pub fn reasons(report: &Report, verdict: Verdict) -> Vec<Reason<'_, CaseResult>> {
    let these = |row: &&CaseResult| row.verdict == verdict && !prompting::is_lacking(row);
    row::reasons(report.results.iter().filter(these))
}

/// Number of rows with a verdict.
pub fn total(report: &Report, verdict: Verdict) -> usize {
    let rows = report.results.iter();
    rows.filter(|row| row.verdict == verdict).count()
}

/// Requirement ids of rows in order, without duplicates.
pub fn ids<'r>(rows: &[&'r CaseResult]) -> Vec<&'r str> {
    let mut seen = HashSet::new();
    let all = rows.iter().map(|row| row.requirement.as_str());
    all.filter(|id| seen.insert(*id)).collect()
}

/// The most relevant evidence: the line with a pointer to the error, or else the last line that the
/// agent wrote.
pub fn proof(row: &CaseResult) -> Option<&Evidence> {
    let marked = row.evidence.iter().find(|e| e.pointer.is_some());
    let said = || row.evidence.iter().rfind(|e| e.direction == "from-agent");
    marked.or_else(said).or(row.evidence.last())
}

/// What to do if the harness could not reach a verdict.
pub const HARNESS_AT_FAULT: &str = "The harness could not check this: raise `--timeout` or lower \
                                    `--jobs`. If the problem persists, report a bug";

/// What the user can do to get a verdict for such rows.
pub fn advice(verdict: Verdict) -> Option<&'static str> {
    match verdict {
        Verdict::NotVerified => Some(
            "Each line gives the reason. Other prompts may make the agent do what was never \
             exercised.",
        ),
        _ => None,
    }
}

/// Name, version and protocol version as the agent reported them: `hermes 1.2.0, protocol 1`.
pub fn agent(report: &Report) -> String {
    let target = &report.target;
    let field = |key: &str| target.info.get(key).and_then(Value::as_str);
    let mut parts = Vec::new();
    let name = [field("title").or(field("name")), field("version")];
    let name: Vec<&str> = name.into_iter().flatten().collect();
    if !name.is_empty() {
        parts.push(name.join(" "));
    }
    match &target.protocol_version {
        Value::Null => {}
        Value::String(version) => parts.push(format!("protocol {version}")),
        other => parts.push(format!("protocol {other}")),
    }
    match parts.is_empty() {
        true => "unknown (the agent did not identify itself)".to_owned(),
        false => parts.join(", "),
    }
}

/// How many applicable MUST requirements were not tested. `None` if all of them were tested.
pub fn untested(report: &Report) -> Option<String> {
    let (tested, all) = report.tested();
    (tested < all).then(|| {
        let untested = all - tested;
        format!("{untested} of {all} applicable MUST requirements were not tested")
    })
}

/// `certified`, or why it is not.
pub fn verdict_line(report: &Report) -> String {
    match (&report.summary.reason, report.summary.certified) {
        (_, true) => match untested(report) {
            Some(untested) => format!("certified ({untested})"),
            None => "certified".to_owned(),
        },
        (Some(reason), false) => format!("not certified: {reason}"),
        (None, false) => "not certified".to_owned(),
    }
}

/// Duration and size of the run: `63.2 s, 104 agent processes, 4 at a time`.
pub fn timing(report: &Report) -> String {
    let timing = &report.timing;
    let wall = time(timing.wall_ms);
    let processes = usize::try_from(timing.processes).unwrap_or(usize::MAX);
    let processes = count(processes, "agent process", "agent processes");
    match (timing.processes, timing.jobs) {
        (0, _) => wall,
        // A recording was not run.
        (_, 0) => format!("{wall}, {processes}"),
        (_, jobs) => format!("{wall}, {processes}, {jobs} at a time"),
    }
}
