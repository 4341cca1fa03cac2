//! What several formats say about a report: names, counts, times, groups.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::prompting;
use crate::model::{CaseResult, Evidence, Report, Summary, Verdict};
use agentproto_report::row::{self, Reason};
pub use agentproto_report::words::{
    BY_WEIGHT, date, escape, markup, millis, needs_attention, time, weight, word,
};
use agentproto_text::count;

/// What a verdict means, for people who see it for the first time.
pub fn meaning(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "seen to hold",
        Verdict::Fail => "a MUST that was seen broken",
        Verdict::Warn => "not as it should be, and no failure",
        Verdict::Skip => "the run was not given what it takes",
        Verdict::NotApplicable => "the agent does not claim this",
        Verdict::NotVerified => "nothing came that could have been judged",
        Verdict::Error => "the harness could not judge",
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

/// Verdicts that occur, in the order of a legend.
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

/// A selection or a shard in which something was seen to hold, and nothing failed.
pub fn is_part_that_holds(report: &Report) -> bool {
    let summary = &report.summary;
    let is_part = report.selection || report.shard.is_some();
    is_part
        && !report.partial
        && report.never_answered.is_none()
        && summary.pass > 0
        && summary.fail + summary.error == 0
}

/// Failing rows that the baseline knows.
pub fn known(report: &Report) -> usize {
    report.results.iter().filter(|r| r.known).count()
}

/// Rows of one chapter, in the order of their first row.
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

/// Why rows have a verdict. Rows that wait for prompts are not among them: `prompting` has these.
pub fn reasons(report: &Report, verdict: Verdict) -> Vec<Reason<'_, CaseResult>> {
    let these = |row: &&CaseResult| row.verdict == verdict && !prompting::is_lacking(row);
    row::reasons(report.results.iter().filter(these))
}

/// How many rows have a verdict.
pub fn total(report: &Report, verdict: Verdict) -> usize {
    let rows = report.results.iter();
    rows.filter(|row| row.verdict == verdict).count()
}

/// Ids of rows, each once, in order.
pub fn ids<'r>(rows: &[&'r CaseResult]) -> Vec<&'r str> {
    let mut seen = HashSet::new();
    let all = rows.iter().map(|row| row.requirement.as_str());
    all.filter(|id| seen.insert(*id)).collect()
}

/// The line that shows it best: where the fault stands, or the last that the agent wrote.
pub fn proof(row: &CaseResult) -> Option<&Evidence> {
    let marked = row.evidence.iter().find(|e| e.pointer.is_some());
    let said = || row.evidence.iter().rfind(|e| e.direction == "from-agent");
    marked.or_else(said).or(row.evidence.last())
}

/// What to do where no verdict was possible.
pub const HARNESS_AT_FAULT: &str = "The harness could not judge: raise `--timeout`, lower \
    `--jobs`, and report it if it stays";

/// What the user could do so that such rows are judged.
pub fn advice(verdict: Verdict) -> Option<&'static str> {
    match verdict {
        Verdict::NotVerified => Some(
            "Each line says why. Where nothing happened, other prompts may lead the agent there.",
        ),
        _ => None,
    }
}

/// `hermes 1.2.0, protocol 1`, as the agent gave it.
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
        true => "it did not say who it is".to_owned(),
        false => parts.join(", "),
    }
}

/// How much of what MUST hold was never put to the test; `None` where all of it was.
pub fn untested(report: &Report) -> Option<String> {
    let (tested, all) = report.tested();
    (tested < all).then(|| format!("{} of {all} MUST statements were not tested", all - tested))
}

/// `certified`, or why not.
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

/// The run judged by its own measure: wall time against what the agent and the waits cost.
pub fn timing(report: &Report) -> String {
    let timing = &report.timing;
    let floor = timing.startup_ms + timing.waits_ms;
    let ratio = timing.wall_ms / floor;
    let ratio = match floor > 0.0 && ratio.is_finite() {
        true => format!(", wall is {ratio:.2} times that"),
        false => String::new(),
    };
    format!(
        "{} wall; start-up {} + enforced waits {} = {}{ratio}; {}, {}",
        time(timing.wall_ms),
        time(timing.startup_ms),
        time(timing.waits_ms),
        time(floor),
        count(
            usize::try_from(timing.processes).unwrap_or(usize::MAX),
            "process",
            "processes"
        ),
        count(timing.jobs, "job", "jobs"),
    )
}
