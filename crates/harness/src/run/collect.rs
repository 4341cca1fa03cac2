//! Turns the results of the cases into one row per case and requirement.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Transcribed;
use super::case::{Blocked, Broken, Played};
use super::evidence::{glimpse, proof};
use crate::model::{CaseResult, Evidence, Target, Timing, Verdict};
use crate::monitor::Notes;
use crate::suite::{Case, Requirement, Selection, Suite};
use agentproto_wire::script::process_said;
use agentproto_wire::{Direction, Transcript};

/// Number of lines sent by the harness that are shown with a violation.
const LED_THERE: usize = 2;
/// How many lines back these are searched. An agent may have printed millions of lines since.
const LOOKED_BACK: usize = 5_000;

/// The hint if the agent exited before the requirement could be checked.
const MEND_THE_DEATH: &str = "The agent exited before this could be checked. See the end of its \
                              stderr above. Send it the lines of this case by hand, and first fix \
                              what makes it exit.";

/// What monitors found about one requirement over all transcripts.
#[derive(Default)]
struct Watched {
    held: u64,
    broken: u64,
    /// Cases in which it held.
    cases: Vec<String>,
    rows: Vec<WatchedRow>,
}

struct WatchedRow {
    case: String,
    message: String,
    evidence: Vec<Evidence>,
    is_guess: bool,
}

pub struct Collected {
    rows: Vec<(usize, usize, CaseResult)>,
    /// Findings of the monitors, by suite and monitor id.
    seen: BTreeMap<(usize, &'static str), Watched>,
    pub timing: Timing,
    transcripts: Vec<Transcribed>,
    keeps: bool,
    initialize: Value,
    faults: Vec<String>,
    /// What was selected. For everything else, only violations are reported.
    only: Selection,
}

impl Collected {
    pub fn new(only: Selection, keeps: bool) -> Collected {
        Collected {
            rows: Vec::new(),
            seen: BTreeMap::new(),
            timing: Timing::default(),
            transcripts: Vec::new(),
            keeps,
            initialize: Value::Null,
            faults: Vec::new(),
            only,
        }
    }

    pub fn case(&mut self, suite: usize, of: &Suite, case: &Case, played: Played) {
        super::add(&mut self.timing, &played);
        if self.initialize.is_null() {
            self.initialize = played.initialize.clone();
        }
        let index = of.cases.iter().position(|c| c.id == case.id);
        for id in self.decided(case) {
            let Some(requirement) = of.requirement(id) else {
                continue;
            };
            let (verdict, message, evidence) = judge(requirement, &played);
            let mut row = row(of, requirement, &case.id);
            row.verdict = verdict;
            row.message = message;
            row.evidence = evidence;
            row.duration_ms = played.duration.as_secs_f64() * 1000.0;
            if !matches!(verdict, Verdict::Fail | Verdict::Warn) {
                row.hint = None;
            } else if decisive(id, &played).is_some_and(|broken| broken.is_death) {
                row.hint = Some(MEND_THE_DEATH.to_owned());
            }
            if self.keeps && !played.transcript.is_empty() {
                row.transcript = Some(file_name(&of.name, &case.id));
            }
            self.rows.push((suite, index.unwrap_or(usize::MAX), row));
        }
        self.watched(suite, &case.id, &played.transcript, &played.notes);
        if self.keeps && !played.transcript.is_empty() {
            self.transcripts.push(Transcribed {
                suite: of.name.clone(),
                case: case.id.clone(),
                transcript: played.transcript,
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

    /// Adds what the monitors noted in one case, or in a recording.
    pub fn watched(&mut self, suite: usize, case: &str, transcript: &Transcript, notes: &[Notes]) {
        for notes in notes {
            for (id, found) in &notes.found {
                let watched = self.seen.entry((suite, *id)).or_default();
                watched.held += found.held;
                if found.held > 0 && !watched.cases.iter().any(|known| known == case) {
                    watched.cases.push(case.to_owned());
                }
                watched.broken += found.broken;
                for violation in &found.violations {
                    if watched.rows.len() < 5
                        && !watched.rows.iter().any(|r| r.message == violation.message)
                    {
                        watched.rows.push(WatchedRow {
                            case: case.to_owned(),
                            message: violation.message.clone(),
                            evidence: proof(transcript, &violation.lines, violation.at.as_deref()),
                            is_guess: violation.is_guess,
                        });
                    }
                }
            }
        }
    }

    /// Adds a case that was interrupted.
    pub fn stopped(&mut self, suite: usize, of: &Suite, case: &Case) {
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
    pub fn fault(&mut self, what: &str) {
        self.faults.push(what.to_owned());
    }

    /// Sets the response to `initialize` if no case was played.
    pub fn initialized(&mut self, result: Value) {
        self.initialize = result;
    }

    /// For each requirement id, the cases in which monitors confirmed it.
    pub fn seen(&self) -> BTreeMap<String, Vec<String>> {
        let mut seen: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for ((_, id), watched) in &self.seen {
            let cases = seen.entry((*id).to_owned()).or_default();
            cases.extend(watched.cases.iter().cloned());
        }
        seen
    }

    /// Copies what the agent reported about itself in `initialize`.
    pub fn describe(&self, target: &mut Target) {
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

    pub fn finish(mut self, suites: &[Suite]) -> (Vec<CaseResult>, Vec<Transcribed>) {
        for (index, suite) in suites.iter().enumerate() {
            for (at, requirement) in suite.requirements.iter().enumerate() {
                if let Some(row) = self.watched_row(index, suite, requirement) {
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
        for fault in self.faults {
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
            });
        }
        (results, self.transcripts)
    }

    /// If no process ever answered, keeps only the failure of the first case of each suite. The
    /// other cases failed for the same reason, and did not check their requirements.
    pub fn never_began(&mut self) {
        let mut told = Vec::new();
        self.rows.sort_by_key(|(suite, index, _)| (*suite, *index));
        for (suite, _, row) in &mut self.rows {
            let said = row.evidence.iter().any(|e| e.direction == "from-agent");
            if row.verdict != Verdict::Fail || said {
                continue;
            }
            if told.contains(suite) {
                row.verdict = Verdict::NotVerified;
                row.hint = None;
            }
            told.push(*suite);
        }
    }

    fn watched_row(
        &self,
        index: usize,
        suite: &Suite,
        requirement: &Requirement,
    ) -> Option<CaseResult> {
        let mut row = row(suite, requirement, "monitor");
        // Report a violation that a monitor found, even if only cases decide the requirement.
        let own = [requirement.id.clone()];
        let ids = match requirement.watched.as_slice() {
            [] => own.as_slice(),
            ids => ids,
        };
        let seen: Vec<&Watched> = ids
            .iter()
            .filter_map(|id| self.seen.iter().find(|((s, i), _)| *s == index && i == id))
            .map(|(_, watched)| watched)
            .collect();
        let all: Vec<&WatchedRow> = seen.iter().flat_map(|w| &w.rows).collect();
        // Do not report a violation again that the case itself has already reported.
        let has_told = |broken: &WatchedRow| {
            let mut rows = self.rows.iter().filter(|(suite, ..)| *suite == index);
            rows.any(|(_, _, row)| {
                row.case == broken.case
                    && row.requirement == requirement.id
                    && row.verdict == requirement.level.violated()
            })
        };
        let broken: Vec<&WatchedRow> = all.iter().copied().filter(|r| !has_told(r)).collect();
        if broken.is_empty() && !all.is_empty() {
            return None;
        }
        let held: u64 = seen.iter().map(|w| w.held).sum();
        if let Some(first) = broken.iter().find(|r| !r.is_guess).or(broken.first()) {
            row.verdict = match first.is_guess {
                true => Verdict::Warn,
                false => requirement.level.violated(),
            };
            let times: u64 = seen.iter().map(|w| w.broken).sum();
            let mut message = format!("{} (case {}", first.message, first.case);
            if times > 1 {
                message.push_str(&format!("; {times} times in total"));
            }
            message.push(')');
            for other in broken.iter().filter(|r| r.message != first.message).take(3) {
                message.push_str(&format!("; also: {} (case {})", other.message, other.case));
            }
            row.message = message;
            row.evidence = first.evidence.clone();
            if self.keeps {
                row.transcript = Some(file_name(&suite.name, &first.case));
            }
        } else if !self.tells(suite, requirement, held) {
            return None;
        } else if held > 0 {
            row.hint = None;
            row.verdict = Verdict::Pass;
            row.message = format!("checks passed: {held}");
        } else {
            row.hint = None;
            row.message = "never exercised in this run".to_owned();
        }
        Some(row)
    }
}

impl Collected {
    /// Whether a monitor without violations gets a row.
    fn tells(&self, suite: &Suite, requirement: &Requirement, held: u64) -> bool {
        let id = &requirement.id;
        let is_asked = self.only.statements.contains(id);
        if requirement.watched.is_empty() {
            false
        } else if self.only.is_everything() {
            true
        } else if held > 0 {
            is_asked || self.only.names_cases
        } else {
            // If cases decide the requirement, their rows are enough.
            is_asked && !suite.cases.iter().any(|case| case.decides.contains(id))
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
    }
}

/// All violations of one requirement.
fn broken<'p>(id: &'p str, played: &'p Played) -> impl Iterator<Item = &'p Broken> {
    played.broken.iter().filter(move |b| b.requirement == id)
}

/// The violation that decides the verdict: the first that is not a guess.
fn decisive<'p>(id: &'p str, played: &'p Played) -> Option<&'p Broken> {
    let certain = broken(id, played).find(|b| !b.is_guess);
    certain.or_else(|| broken(id, played).next())
}

fn judge(requirement: &Requirement, played: &Played) -> (Verdict, String, Vec<Evidence>) {
    if let Some(first) = decisive(&requirement.id, played) {
        let verdict = match first.is_guess {
            true => Verdict::Warn,
            false => requirement.level.violated(),
        };
        let mut message = first.message.clone();
        let others = broken(&requirement.id, played).filter(|b| b.message != first.message);
        for other in others.take(3) {
            message.push_str("; also: ");
            message.push_str(&other.message);
        }
        let at = first.at.as_deref();
        let lines = with_what_led_there(&played.transcript, &first.lines);
        let shown = proof(&played.transcript, &lines, at);
        return (verdict, message, shown);
    }
    let own = played.open.iter().find(|(id, _)| *id == requirement.id);
    match own.map(|(_, blocked)| blocked).or(played.blocked.as_ref()) {
        Some(Blocked::NotApplicable(why)) => (Verdict::NotApplicable, why.clone(), Vec::new()),
        Some(Blocked::Skip(why)) => (Verdict::Skip, why.clone(), Vec::new()),
        Some(Blocked::NotVerified(why)) => {
            let lines = last_lines(&played.transcript, 2);
            let shown = glimpse(&played.transcript, &lines);
            (Verdict::NotVerified, why.clone(), shown)
        }
        Some(Blocked::Error(why)) => {
            let lines = last_lines(&played.transcript, 4);
            let shown = proof(&played.transcript, &lines, None);
            (Verdict::Error, why.clone(), shown)
        }
        None if played.looked_at.contains(&requirement.id) => {
            let from = played.shown.len().saturating_sub(2);
            let lines = played.shown.get(from..).unwrap_or_default();
            let shown = glimpse(&played.transcript, lines);
            (Verdict::Pass, "as required".to_owned(), shown)
        }
        None => (
            Verdict::NotVerified,
            "the case did not check this requirement".to_owned(),
            Vec::new(),
        ),
    }
}

/// Adds the last lines that the harness sent before the violation: a cancel, invalid JSON, a
/// response.
fn with_what_led_there(transcript: &Transcript, lines: &[u64]) -> Vec<u64> {
    let is = |number: &u64, direction: Direction| {
        let line = transcript.line(*number);
        line.is_some_and(|line| line.direction == direction)
    };
    // If no line of the agent is wrong, a line is missing, and everything that was sent is
    // relevant.
    let said = lines.iter().copied();
    let last = said.filter(|line| is(line, Direction::FromAgent)).max();
    let last = last.unwrap_or(u64::MAX);
    let before = transcript.numbers().rev().filter(|number| *number <= last);
    let ours = before
        .take(LOOKED_BACK)
        .filter(|line| is(line, Direction::ToAgent));
    let mut all = lines.to_vec();
    all.extend(ours.take(LED_THERE));
    all
}

/// The last relevant lines. The closing of stdin by the harness is left out.
fn last_lines(transcript: &Transcript, count: usize) -> Vec<u64> {
    let all = transcript.numbers().rev().take(count + 1);
    let is_news = |number: &u64| {
        let line = transcript.line(*number);
        line.is_some_and(|line| {
            line.direction != Direction::Process || process_said(&line, "input").is_none()
        })
    };
    let mut lines: Vec<u64> = all.filter(is_news).take(count).collect();
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
