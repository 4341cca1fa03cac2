//! Turns the results of the cases into one row per case and requirement.

use std::collections::BTreeMap;

use serde_json::Value;

use super::CaseTranscript;
use super::case::{CaseOutcome, CaseViolation, NoVerdict};
use super::evidence::{quote_lines, quote_passed};
use super::follow::{self, Root, UnansweredRow};
use crate::model::{CaseResult, Evidence, Profile, Target, Timing, Verdict};
use crate::monitor::MonitorNotes;
use crate::suite::{Case, Requirement, Selection, Suite};
use agentproto_wire::script::process_event;
use agentproto_wire::{Direction, Transcript};

/// Number of lines sent by the harness that are shown with a violation.
const MAX_SENT_BEFORE: usize = 2;
/// How many lines back these are searched. An agent may have printed millions of lines since.
const MAX_SEARCHED_LINES: usize = 5_000;

/// Maximum number of different violations that are kept per monitor.
const MAX_VIOLATIONS: usize = 5;

/// The hint if the agent exited before the requirement could be checked.
const EXIT_HINT: &str = "Find out why the agent exits: start it by hand, and send it the messages \
                         above.";
/// The same without a message to send.
const SILENT_EXIT_HINT: &str = "Find out why the agent exits: start it by hand.";

/// The reason of a requirement that monitors check if no message was relevant to it.
pub const NOT_EXERCISED: &str = "not observed in this run";

/// What monitors found about one requirement over all transcripts.
#[derive(Default)]
struct MonitorFindings {
    passed: u64,
    violated: u64,
    /// Cases in which it held.
    cases: Vec<String>,
    rows: Vec<MonitorViolation>,
}

struct MonitorViolation {
    /// Position of the case in its suite.
    order: usize,
    case: String,
    message: String,
    evidence: Vec<Evidence>,
    is_guess: bool,
}

pub struct ResultCollector {
    rows: Vec<(usize, usize, CaseResult)>,
    /// Findings of the monitors, by suite and monitor id.
    by_monitor: BTreeMap<(usize, &'static str), MonitorFindings>,
    pub timing: Timing,
    transcripts: Vec<CaseTranscript>,
    keep_transcripts: bool,
    initialize: Value,
    internal_errors: Vec<String>,
    /// Rows that are violated because a request was not answered.
    unanswered: Vec<UnansweredRow>,
    /// The basic requests among them.
    roots: Vec<Root>,
    /// What was selected. For everything else, only violations are reported.
    only: Selection,
}

impl ResultCollector {
    pub fn new(only: Selection, keep_transcripts: bool) -> ResultCollector {
        ResultCollector {
            rows: Vec::new(),
            by_monitor: BTreeMap::new(),
            timing: Timing::default(),
            transcripts: Vec::new(),
            keep_transcripts,
            initialize: Value::Null,
            internal_errors: Vec::new(),
            unanswered: Vec::new(),
            roots: Vec::new(),
            only,
        }
    }

    /// Adds the first start of the agent, which is not part of a case.
    pub fn add_trial(&mut self, outcome: CaseOutcome) {
        super::add_times(&mut self.timing, &outcome);
        if self.initialize.is_null() {
            self.initialize = outcome.initialize;
        }
    }

    pub fn add_case(&mut self, suite: usize, of: &Suite, case: &Case, outcome: CaseOutcome) {
        super::add_times(&mut self.timing, &outcome);
        if self.initialize.is_null() {
            self.initialize = outcome.initialize.clone();
        }
        let index = of.cases.iter().position(|c| c.id == case.id);
        for id in self.decided(case) {
            let Some(requirement) = of.requirement(id) else {
                continue;
            };
            let (verdict, message, evidence) = verdict_for(requirement, &outcome);
            let mut row = row(of, requirement, &case.id);
            row.verdict = verdict;
            row.message = message;
            row.evidence = evidence;
            row.duration_ms = outcome.duration.as_secs_f64() * 1000.0;
            let decisive = decisive(id, &outcome);
            if let Some(request) = decisive.and_then(|violation| violation.unanswered.clone()) {
                self.unanswered.push(UnansweredRow {
                    suite,
                    case: case.id.clone(),
                    requirement: id.clone(),
                    request,
                });
            }
            if !matches!(verdict, Verdict::Fail | Verdict::Warn) {
                row.hint = None;
            } else if decisive.is_some_and(|violation| violation.is_exit) {
                let is_message =
                    |e: &Evidence| e.direction == "to-agent" && !e.text.trim().is_empty();
                let hint = match row.evidence.iter().any(is_message) {
                    true => EXIT_HINT,
                    false => SILENT_EXIT_HINT,
                };
                row.hint = Some(hint.to_owned());
            }
            if self.keep_transcripts && !outcome.transcript.is_empty() {
                row.transcript = Some(file_name(&of.name, &case.id));
            }
            self.rows.push((suite, index.unwrap_or(usize::MAX), row));
        }
        let order = index.unwrap_or(usize::MAX);
        self.add_monitor_notes(
            suite,
            (order, &case.id),
            &outcome.transcript,
            &outcome.notes,
        );
        if self.keep_transcripts && !outcome.transcript.is_empty() {
            self.transcripts.push(CaseTranscript {
                suite: of.name.clone(),
                case: case.id.clone(),
                transcript: outcome.transcript,
            });
        }
    }

    /// The requirements that a case decides. None if the case runs only because monitors need its
    /// traffic.
    fn decided<'c>(&self, case: &'c Case) -> &'c [String] {
        match self.only.is_everything() || self.only.cases.contains(&case.id) {
            true => &case.decides,
            false => &[],
        }
    }

    /// Adds what the monitors noted in one case, or in a recording. The case is given with its
    /// position in the suite. Cases end in any order, but the report always names the first one in
    /// suite order, so that reports can be compared.
    pub fn add_monitor_notes(
        &mut self,
        suite: usize,
        (order, case): (usize, &str),
        transcript: &Transcript,
        notes: &[MonitorNotes],
    ) {
        for notes in notes {
            for (id, found) in &notes.found {
                let monitored = self.by_monitor.entry((suite, *id)).or_default();
                monitored.passed += found.passed;
                if found.passed > 0 && !monitored.cases.iter().any(|known| known == case) {
                    monitored.cases.push(case.to_owned());
                }
                monitored.violated += found.violated;
                for violation in &found.violations {
                    let known =
                        |r: &MonitorViolation| r.message == violation.message && r.order <= order;
                    let is_full = monitored.rows.len() >= MAX_VIOLATIONS
                        && monitored.rows.iter().all(|r| r.order <= order);
                    if is_full || monitored.rows.iter().any(known) {
                        continue;
                    }
                    let later = |r: &MonitorViolation| r.message == violation.message;
                    monitored.rows.retain(|r| !later(r));
                    monitored.rows.push(MonitorViolation {
                        order,
                        case: case.to_owned(),
                        message: violation.message.clone(),
                        evidence: quote_lines(
                            transcript,
                            &violation.lines,
                            violation.at.as_deref(),
                        ),
                        is_guess: violation.is_guess,
                    });
                    monitored.rows.sort_by_key(|r| r.order);
                    monitored.rows.truncate(MAX_VIOLATIONS);
                }
            }
        }
    }

    /// Adds a case that was interrupted.
    pub fn add_interrupted(&mut self, suite: usize, of: &Suite, case: &Case) {
        let index = of.cases.iter().position(|c| c.id == case.id);
        for id in self.decided(case) {
            if let Some(requirement) = of.requirement(id) {
                let mut row = row(of, requirement, &case.id);
                row.hint = None;
                row.message = "the run was interrupted before this case finished".to_owned();
                self.rows.push((suite, index.unwrap_or(usize::MAX), row));
            }
        }
    }

    /// Adds an internal error.
    pub fn add_internal_error(&mut self, what: &str) {
        self.internal_errors.push(what.to_owned());
    }

    /// Sets the response to `initialize` if no case was run.
    pub fn set_initialize(&mut self, result: Value) {
        self.initialize = result;
    }

    /// For each requirement id, the cases in which monitors confirmed it.
    pub fn confirmed(&self) -> BTreeMap<String, Vec<String>> {
        let mut findings: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for ((_, id), monitored) in &self.by_monitor {
            let cases = findings.entry((*id).to_owned()).or_default();
            cases.extend(monitored.cases.iter().cloned());
        }
        findings
    }

    /// Copies what the agent reported about itself in `initialize`.
    pub fn describe_target(&self, target: &mut Target) {
        let of = |key: &str| self.initialize.get(key).cloned().unwrap_or(Value::Null);
        let either = |a: &str, b: &str| match of(a) {
            Value::Null => of(b),
            value => value,
        };
        target.info = match either("agentInfo", "serverInfo") {
            Value::Null => of("info"),
            info => info,
        };
        target.protocol_version = of("protocolVersion");
        target.capabilities = either("agentCapabilities", "capabilities");
    }

    pub fn finish(mut self, suites: &[Suite]) -> (Vec<CaseResult>, Vec<CaseTranscript>) {
        follow::name_causes(&mut self.rows, &self.unanswered, suites);
        self.roots = follow::roots(&self.rows, &self.unanswered, suites);
        for (index, suite) in suites.iter().enumerate() {
            for (at, requirement) in suite.requirements.iter().enumerate() {
                if let Some(row) = self.monitor_row(index, suite, requirement) {
                    let place = suite.cases.len() + at;
                    self.rows.push((index, place, row));
                }
            }
        }
        let order = |(suite, _, row): &(usize, usize, CaseResult)| {
            let of = suites.get(*suite);
            let place =
                of.and_then(|s| s.requirements.iter().position(|r| r.id == row.requirement));
            (*suite, place.unwrap_or(usize::MAX))
        };
        self.rows
            .sort_by(|a, b| order(a).cmp(&order(b)).then(a.1.cmp(&b.1)));
        let mut results: Vec<CaseResult> = self.rows.into_iter().map(|(_, _, row)| row).collect();
        for fault in self.internal_errors {
            results.push(CaseResult {
                suite: suites.first().map(|s| s.name.clone()).unwrap_or_default(),
                case: "harness".to_owned(),
                requirement: "harness".to_owned(),
                level: crate::model::Level::Must,
                verdict: Verdict::Error,
                message: format!("internal error in agentproto: {fault}"),
                source: String::new(),
                section: "Harness".to_owned(),
                statement: "The harness reaches a verdict".to_owned(),
                hint: Some("report this bug and include this output".to_owned()),
                evidence: Vec::new(),
                duration_ms: 0.0,
                transcript: None,
                known: false,
                follows: None,
                profile: Profile::Core,
                basis: None,
                strict_verdict: None,
            });
        }
        (results, self.transcripts)
    }

    /// If no process ever answered, keeps only the failure of the first case of each suite. The
    /// other cases failed for the same reason, and did not check their requirements.
    pub fn keep_first_failures(&mut self) {
        let mut reported: Vec<(usize, String)> = Vec::new();
        self.rows.sort_by_key(|(suite, index, _)| (*suite, *index));
        for (suite, _, row) in &mut self.rows {
            let has_agent_line = row.evidence.iter().any(|e| e.direction == "from-agent");
            if row.verdict != Verdict::Fail || has_agent_line {
                continue;
            }
            match reported.iter().find(|(of, _)| of == suite) {
                None => reported.push((*suite, row.requirement.clone())),
                Some((_, first)) => {
                    row.verdict = Verdict::NotVerified;
                    row.message = format!("not checked, for the same reason as {first}");
                    row.hint = None;
                }
            }
        }
    }

    fn monitor_row(
        &self,
        index: usize,
        suite: &Suite,
        requirement: &Requirement,
    ) -> Option<CaseResult> {
        let mut row = row(suite, requirement, "monitor");
        // Report a violation that a monitor found, even if only cases decide the requirement.
        let own = [requirement.id.clone()];
        let ids = match requirement.monitors.as_slice() {
            [] => own.as_slice(),
            ids => ids,
        };
        let findings: Vec<&MonitorFindings> = ids
            .iter()
            .filter_map(|id| {
                self.by_monitor
                    .iter()
                    .find(|((s, i), _)| *s == index && i == id)
            })
            .map(|(_, monitored)| monitored)
            .collect();
        let all: Vec<&MonitorViolation> = findings.iter().flat_map(|w| &w.rows).collect();
        // Do not report a requirement again that a case has already reported.
        let rows = || self.rows.iter().filter(|(suite, ..)| *suite == index);
        let is_reported = rows().any(|(_, _, row)| {
            row.requirement == requirement.id && row.verdict == requirement.level.violated()
        });
        if is_reported && !all.is_empty() {
            return None;
        }
        let cause = |violation: &MonitorViolation| {
            let rows = rows().map(|(_, _, row)| row);
            let of_case = follow::cause_of(&violation.case, &violation.evidence, rows);
            of_case.or_else(|| follow::root_of(index, &violation.evidence, &self.roots))
        };
        let violations: Vec<&MonitorViolation> =
            all.iter().copied().filter(|r| cause(r).is_none()).collect();
        if let Some(first) = all.first().filter(|_| violations.is_empty()) {
            row.message.clone_from(&first.message);
            row.evidence = first.evidence.clone();
            follow::follow(&mut row, &cause(first).unwrap_or_default());
            return Some(row);
        }
        let passed: u64 = findings.iter().map(|w| w.passed).sum();
        if let Some(first) = violations
            .iter()
            .find(|r| !r.is_guess)
            .or(violations.first())
        {
            row.verdict = match first.is_guess {
                true => Verdict::Warn,
                false => requirement.level.violated(),
            };
            let times: u64 = findings.iter().map(|w| w.violated).sum();
            let first_seen = if times > 1 {
                "first seen in case"
            } else {
                "case"
            };
            let mut message = format!("{} ({first_seen} {}", first.message, first.case);
            if times > 1 {
                message.push_str(&format!("; {times} times in total"));
            }
            message.push(')');
            for other in violations
                .iter()
                .filter(|r| r.message != first.message)
                .take(3)
            {
                message.push_str(&format!("; also: {} (case {})", other.message, other.case));
            }
            row.message = message;
            row.evidence = first.evidence.clone();
            if self.keep_transcripts {
                row.transcript = Some(file_name(&suite.name, &first.case));
            }
        } else if !self.has_row(suite, requirement, passed) {
            return None;
        } else if passed > 0 {
            row.hint = None;
            row.verdict = Verdict::Pass;
            row.message = format!("checks passed: {passed}");
        } else {
            row.hint = None;
            row.message = NOT_EXERCISED.to_owned();
        }
        Some(row)
    }
}

impl ResultCollector {
    /// Whether a monitor without violations gets a row.
    fn has_row(&self, suite: &Suite, requirement: &Requirement, passed: u64) -> bool {
        let id = &requirement.id;
        let is_selected = self.only.requirements.contains(id);
        if requirement.monitors.is_empty() {
            false
        } else if self.only.is_everything() {
            true
        } else if passed > 0 {
            is_selected || self.only.names_cases
        } else {
            // If cases decide the requirement, their rows are enough.
            is_selected && !suite.cases.iter().any(|case| case.decides.contains(id))
        }
    }
}

fn row(suite: &Suite, requirement: &Requirement, case: &str) -> CaseResult {
    CaseResult {
        suite: suite.name.clone(),
        case: case.to_owned(),
        requirement: requirement.id.clone(),
        level: requirement.level,
        verdict: Verdict::NotVerified,
        message: String::new(),
        source: requirement.source.clone(),
        section: requirement.section.clone(),
        statement: requirement.statement.clone(),
        hint: requirement.hint.clone(),
        evidence: Vec::new(),
        duration_ms: 0.0,
        transcript: None,
        known: false,
        follows: None,
        profile: requirement.profile,
        basis: requirement.basis.clone(),
        strict_verdict: None,
    }
}

/// All violations of one requirement.
fn violations_of<'p>(
    id: &'p str,
    outcome: &'p CaseOutcome,
) -> impl Iterator<Item = &'p CaseViolation> {
    outcome
        .violations
        .iter()
        .filter(move |b| b.requirement == id)
}

/// The violation that decides the verdict: the first that is not a guess.
fn decisive<'p>(id: &'p str, outcome: &'p CaseOutcome) -> Option<&'p CaseViolation> {
    let certain = violations_of(id, outcome).find(|b| !b.is_guess);
    certain.or_else(|| violations_of(id, outcome).next())
}

fn verdict_for(
    requirement: &Requirement,
    outcome: &CaseOutcome,
) -> (Verdict, String, Vec<Evidence>) {
    if let Some(first) = decisive(&requirement.id, outcome) {
        let verdict = match first.is_guess {
            true => Verdict::Warn,
            false => requirement.level.violated(),
        };
        let mut message = first.message.clone();
        let others = violations_of(&requirement.id, outcome).filter(|b| b.message != first.message);
        for other in others.take(3) {
            message.push_str("; also: ");
            message.push_str(&other.message);
        }
        let at = first.at.as_deref();
        let lines = with_sent_before(&outcome.transcript, &first.lines);
        let shown = quote_lines(&outcome.transcript, &lines, at);
        return (verdict, message, shown);
    }
    let own = outcome
        .undecided
        .iter()
        .find(|(id, _)| *id == requirement.id);
    match own
        .map(|(_, no_verdict)| no_verdict)
        .or(outcome.no_verdict.as_ref())
    {
        Some(NoVerdict::NotApplicable(why)) => (Verdict::NotApplicable, why.clone(), Vec::new()),
        Some(NoVerdict::Skip(why)) => (Verdict::Skip, why.clone(), Vec::new()),
        Some(NoVerdict::NotVerified(why)) => {
            let lines = last_lines(&outcome.transcript, 2);
            let shown = quote_passed(&outcome.transcript, &lines);
            (Verdict::NotVerified, why.clone(), shown)
        }
        Some(NoVerdict::Error(why)) => {
            let lines = last_lines(&outcome.transcript, 4);
            let shown = quote_lines(&outcome.transcript, &lines, None);
            (Verdict::Error, why.clone(), shown)
        }
        None if outcome.checked.contains(&requirement.id) => {
            // The lines that were checked last. If the check was about something else, such as a
            // file, the last lines of the case.
            let proof = outcome.proof.iter().rev();
            let mut proof = proof.filter(|(id, lines)| *id == requirement.id && !lines.is_empty());
            let proof = proof.next().map(|(_, lines)| lines.as_slice());
            let lines = proof.unwrap_or(&outcome.passed_lines);
            let from = lines.len().saturating_sub(2);
            let lines = lines.get(from..).unwrap_or_default();
            let shown = quote_passed(&outcome.transcript, lines);
            (Verdict::Pass, "met".to_owned(), shown)
        }
        None => (
            Verdict::NotVerified,
            "the agent did nothing to which the requirement applies".to_owned(),
            Vec::new(),
        ),
    }
}

/// Adds the last lines that the harness sent before the violation: a cancel, invalid JSON, a
/// response.
fn with_sent_before(transcript: &Transcript, lines: &[u64]) -> Vec<u64> {
    let is = |number: &u64, direction: Direction| {
        let line = transcript.line(*number);
        line.is_some_and(|line| line.direction == direction)
    };
    // If no line of the agent is wrong, a line is missing, and everything that was sent is
    // relevant.
    let numbers = lines.iter().copied();
    let last = numbers.filter(|line| is(line, Direction::FromAgent)).max();
    let last = last.unwrap_or(u64::MAX);
    let before = transcript.numbers().rev().filter(|number| *number <= last);
    let ours = before
        .take(MAX_SEARCHED_LINES)
        .filter(|line| is(line, Direction::ToAgent));
    let mut all = lines.to_vec();
    all.extend(ours.take(MAX_SENT_BEFORE));
    all
}

/// The last relevant lines. The closing of stdin by the harness is left out.
fn last_lines(transcript: &Transcript, count: usize) -> Vec<u64> {
    let all = transcript.numbers().rev().take(count + 1);
    let is_relevant = |number: &u64| {
        let line = transcript.line(*number);
        line.is_some_and(|line| {
            line.direction != Direction::Process || process_event(&line, "input").is_none()
        })
    };
    let mut lines: Vec<u64> = all.filter(is_relevant).take(count).collect();
    lines.reverse();
    lines
}

/// Path of the transcript of a case, relative to the report directory.
pub fn file_name(suite: &str, case: &str) -> String {
    let safe = |name: &str| -> String {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        name.chars()
            .map(|c| if fits(c) { c } else { '_' })
            .collect()
    };
    format!("transcripts/{}/{}.jsonl", safe(suite), safe(case))
}
