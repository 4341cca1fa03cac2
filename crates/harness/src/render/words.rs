//! Texts that several formats share: names, counts, times, groups.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::prompting;
use crate::model::{
    CaseResult, Evidence, Level, MOCK, Profile, RECORDING, Report, Summary, URL, Verdict,
};
use crate::tck;
use agentproto_report::row::{self, Reason};
pub use agentproto_report::words::{
    BY_SEVERITY, date, escape_html, format_duration, millis, needs_attention, safe_html,
    severity_rank, verdict_name,
};
use agentproto_text::count;

/// Maximum number of untested requirements that are listed.
const MAX_UNTESTED: usize = 8;

/// What a verdict means, for readers who see it for the first time.
pub fn meaning(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "the requirement holds",
        Verdict::Fail => "a MUST requirement is violated",
        Verdict::Warn => {
            "a requirement that is not a MUST of the profile is violated, or a MUST may be violated"
        }
        Verdict::Skip => "not run, for the reason given",
        Verdict::NotApplicable => "does not apply to this agent",
        Verdict::NotVerified => "no evidence for or against the requirement",
        Verdict::Error => "agentproto could not check this",
    }
}

pub fn tally<'r>(rows: impl IntoIterator<Item = &'r CaseResult>) -> Vec<(Verdict, usize)> {
    let mut counts = [0; BY_SEVERITY.len()];
    for row in rows {
        if let Some(count) = counts.get_mut(severity_rank(row.verdict)) {
            *count += 1;
        }
    }
    let all = BY_SEVERITY.into_iter().zip(counts);
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

/// The result of a run, as its headline names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunState {
    Certified,
    /// Nothing failed in a part of a run, or in a recording.
    Passed,
    /// Like `Passed`, but nothing passed either.
    NothingTested,
    NotCertified,
}

/// Whether the headline is `NOT CERTIFIED` although nothing failed: the agent does not speak the
/// protocol, or the run was not complete.
pub fn fails_without_failure(report: &Report) -> bool {
    report.summary.fail == 0 && RunState::of(report) == RunState::NotCertified
}

impl RunState {
    pub fn of(report: &Report) -> RunState {
        let summary = &report.summary;
        let is_part = report.selection || report.shard.is_some() || report.target.kind == RECORDING;
        let is_complete = is_part && !report.partial && report.never_answered.is_none();
        let is_clean = summary.fail + summary.error == 0 && !report.lacks_initialize();
        match summary.certified {
            true => RunState::Certified,
            // NOT CERTIFIED would read like a failure.
            false if is_complete && is_clean && summary.pass > 0 => RunState::Passed,
            false if is_complete && is_clean => RunState::NothingTested,
            false => RunState::NotCertified,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            RunState::Certified => "Certified",
            RunState::Passed => "Passed",
            RunState::NothingTested => "Nothing tested",
            RunState::NotCertified => "Not certified",
        }
    }
}

/// What follows the state in the headline: counts or the reason. Empty if there is nothing to add.
pub fn state_details(report: &Report) -> String {
    let reason = report.summary.reason.as_deref();
    match (RunState::of(report), reason) {
        (RunState::Certified, _) => untested(report).unwrap_or_default(),
        (RunState::Passed, reason) => {
            let (pass, all) = (report.summary.pass, report.results.len());
            let reason = reason.map_or_else(String::new, |r| format!(" (no certificate: {r})"));
            let mut counts = format!("{pass} of {}", count(all, "row", "rows"));
            for (verdict, n) in self::counts(&report.summary) {
                if verdict != Verdict::Pass {
                    counts.push_str(&format!(", {n} {}", verdict_name(verdict)));
                }
            }
            format!("{counts}{reason}")
        }
        (RunState::NothingTested, Some(reason)) => format!("no certificate: {reason}"),
        (RunState::NotCertified, Some(reason)) => reason.to_owned(),
        (_, None) => String::new(),
    }
}

/// Number of failing rows that are known from the baseline.
pub fn known_failures(report: &Report) -> usize {
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
            .min_by_key(|v| severity_rank(*v))
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
    let these = |row: &&CaseResult| row.verdict == verdict && !prompting::needs_prompt(row);
    row::reasons(report.results.iter().filter(these))
}

/// Number of rows with a verdict.
pub fn total(report: &Report, verdict: Verdict) -> usize {
    let rows = report.results.iter();
    rows.filter(|row| row.verdict == verdict).count()
}

/// Number of different requirements in the rows.
pub fn requirements(report: &Report) -> usize {
    let rows = report.results.iter();
    let ids: HashSet<_> = rows.map(|row| (&row.suite, &row.requirement)).collect();
    ids.len()
}

/// Requirement ids of rows in order, without duplicates.
pub fn ids<'r>(rows: &[&'r CaseResult]) -> Vec<&'r str> {
    let mut seen = HashSet::new();
    let all = rows.iter().map(|row| row.requirement.as_str());
    all.filter(|id| seen.insert(*id)).collect()
}

/// The most relevant evidence: the line with a pointer to the error, or else the last line that the
/// agent wrote.
pub fn main_evidence(row: &CaseResult) -> Option<&Evidence> {
    let marked = row.evidence.iter().find(|e| e.pointer.is_some());
    let from_agent = || row.evidence.iter().rfind(|e| e.direction == "from-agent");
    marked.or_else(from_agent).or(row.evidence.last())
}

/// What to do if agentproto could not reach a verdict.
pub const ERROR_HINT: &str = "agentproto could not check this. If it was a timeout, raise \
                              `--timeout` or lower `--jobs`. Otherwise report a bug.";

/// What the user can do to get a verdict for such rows.
pub fn advice(report: &Report, verdict: Verdict) -> Option<&'static str> {
    let is_running = report.not_started.is_none()
        && report.never_answered.is_none()
        && !report.lacks_initialize();
    let takes_prompts = ![MOCK, RECORDING].contains(&&*report.target.kind);
    match verdict {
        Verdict::NotVerified if is_running && takes_prompts => Some(
            "To test more of these, add prompts that trigger them (`--prompts FILE`). \
             `agentproto explain ID` describes a requirement.",
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
    if !parts.is_empty() {
        return parts.join(", ");
    }
    if let Some(refusal) = &report.not_started {
        return format!("not started: {}", refusal.code);
    }
    let is_started = report.timing.processes > 0 || [URL, RECORDING].contains(&&*target.kind);
    let is_skipped = |row: &CaseResult| row.verdict == Verdict::Skip;
    if !is_started && !report.results.is_empty() && report.results.iter().all(is_skipped) {
        "not started: every selected case was skipped".to_owned()
    } else if !is_started {
        "not started".to_owned()
    } else if report.lacks_initialize() || report.never_answered.is_some() {
        "unknown (it did not answer `initialize`)".to_owned()
    } else {
        "unknown (the agent did not identify itself)".to_owned()
    }
}

/// How many applicable MUST requirements were tested, with the ids of the others. `None` if all of
/// them were tested.
pub fn untested(report: &Report) -> Option<String> {
    let (tested, all) = report.tested();
    (tested < all).then(|| {
        let ids = report.untested();
        let ids = row::join_first(&ids, MAX_UNTESTED, str::to_owned);
        format!("{tested} of {all} MUST requirements tested (not tested: {ids})")
    })
}

/// The profile that decided, and what another one would decide. `None` if all profiles are the same
/// for the suites of the report.
pub fn profile(report: &Report) -> Option<String> {
    if !report.has_profiles() {
        return None;
    }
    let name = report.profile;
    let decides = match report.profile {
        Profile::Strict => "every MUST decides",
        Profile::Core | Profile::Tck => {
            "a MUST decides only if the official kit of the protocol also demands it"
        }
    };
    let other = match &report.summary.strict {
        Some(strict) if !strict.requirements.is_empty() => {
            let ids: Vec<&str> = strict.requirements.iter().map(String::as_str).collect();
            let ids = row::join_first(&ids, MAX_UNTESTED, str::to_owned);
            format!("; the profile strict would fail {ids}")
        }
        Some(strict) if strict.certified => "; the profile strict would also certify".to_owned(),
        _ => String::new(),
    };
    Some(format!("{name} ({decides}{other})"))
}

/// What the official kit would decide, for the profile `tck`.
pub fn kit(report: &Report) -> Option<String> {
    let results = report.tck.as_slice();
    if results.is_empty() {
        return None;
    }
    let state = match tck::conforms(results) {
        true => "conformant",
        false => "not conformant",
    };
    let counts = [
        Verdict::Pass,
        Verdict::Fail,
        Verdict::Skip,
        Verdict::NotVerified,
    ];
    let number = |verdict| results.iter().filter(|r| r.verdict == verdict).count();
    let counts: Vec<String> = counts
        .into_iter()
        .map(|verdict| (verdict, number(verdict)))
        .filter(|(_, n)| *n > 0)
        .map(|(verdict, n)| format!("{n} {}", kit_verdict(verdict)))
        .collect();
    Some(format!("{state} ({})", counts.join(", ")))
}

/// The name of a verdict in the table of the official kit.
pub fn kit_verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::NotVerified => "not checked here",
        other => verdict_name(other),
    }
}

/// The level of a row, and whether it decides only in the profile `strict`.
pub fn level(row: &CaseResult) -> String {
    match (row.level, row.strict_verdict) {
        (Level::Must, Some(_)) => "MUST, only in the profile strict".to_owned(),
        (level, _) => level.as_str().to_owned(),
    }
}

/// The source of a row, and what it says there.
pub fn source(row: &CaseResult) -> String {
    match &row.basis {
        Some(basis) => format!(
            "{}: {} ({})",
            row.source,
            basis.says,
            basis.binding.describe()
        ),
        None => row.source.clone(),
    }
}

/// The state and its details, for a sentence: `not certified (1 failed)`.
pub fn verdict_line(report: &Report) -> String {
    let state = RunState::of(report).name().to_lowercase();
    match (RunState::of(report), state_details(report)) {
        (_, details) if details.is_empty() => state,
        (RunState::Certified, details) => format!("{state}, {details}"),
        (RunState::Passed, details) => format!("{state}: {details}"),
        (_, details) => format!("{state} ({details})"),
    }
}

/// Duration and size of the run: `63.2 s, 104 agent processes, up to 4 in parallel`.
pub fn timing(report: &Report) -> String {
    let timing = &report.timing;
    let wall = format_duration(timing.wall_ms);
    let processes = usize::try_from(timing.processes).unwrap_or(usize::MAX);
    if report.target.kind == RECORDING {
        let processes = count(processes, "recorded process", "recorded processes");
        return format!("checked {processes} in {wall}");
    }
    let processes = count(processes, "agent process", "agent processes");
    let repeated = match usize::try_from(timing.repeated).unwrap_or(usize::MAX) {
        0 => String::new(),
        n => format!("; {} repeated alone", count(n, "late case", "late cases")),
    };
    match (timing.processes, timing.jobs) {
        (0, _) => wall,
        _ if report.not_started.is_some() => wall,
        (_, 0 | 1) | (1, _) => format!("{wall}, {processes}{repeated}"),
        (_, jobs) => format!("{wall}, {processes}, up to {jobs} in parallel{repeated}"),
    }
}
