//! From what the cases showed to one row per case and requirement.

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

/// So many of our own lines are shown with a fault.
const LED_THERE: usize = 2;
/// They are looked for so far back: an agent may have printed millions of lines since.
const LOOKED_BACK: usize = 5_000;

/// What to do where the agent was gone before it could be judged.
const MEND_THE_DEATH: &str = "The agent ended here, and what is asked was not reached. Its last \
    words are above; send it the lines of this case by hand, and mend what ends it first.";

/// What one statement came to over all transcripts.
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
    /// By suite and id of the monitor.
    seen: BTreeMap<(usize, &'static str), Watched>,
    pub timing: Timing,
    transcripts: Vec<Transcribed>,
    keeps: bool,
    initialize: Value,
    faults: Vec<String>,
    /// What was asked for. Of the rest only what is broken is news.
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

    /// What a case is asked for; a mere witness decides nothing.
    fn decided<'c>(&self, case: &'c Case) -> &'c [String] {
        match self.only.is_everything() || self.only.cases.contains(&case.id) {
            true => &case.decides,
            false => &[],
        }
    }

    /// What the monitors noted in one case, or in a recording.
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

    /// A case that was not played to its end.
    pub fn stopped(&mut self, suite: usize, of: &Suite, case: &Case) {
        let index = of.cases.iter().position(|c| c.id == case.id);
        for id in self.decided(case) {
            if let Some(requirement) = of.requirement(id) {
                let mut row = row(of, requirement, &case.id);
                row.hint = None;
                row.message = "the run was stopped before this case was over".to_owned();
                self.rows.push((suite, index.unwrap_or(usize::MAX), row));
            }
        }
    }

    /// A fault of our own.
    pub fn fault(&mut self, what: &str) {
        self.faults.push(what.to_owned());
    }

    /// The answer to initialize, where no case was played.
    pub fn initialized(&mut self, result: Value) {
        self.initialize = result;
    }

    /// By statement the cases in which monitors saw it hold.
    pub fn seen(&self) -> BTreeMap<String, Vec<String>> {
        let mut seen: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for ((_, id), watched) in &self.seen {
            let cases = seen.entry((*id).to_owned()).or_default();
            cases.extend(watched.cases.iter().cloned());
        }
        seen
    }

    /// What the agent said of itself.
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
                message: format!("a fault of agentproto itself: {fault}"),
                source: String::new(),
                section: "Harness".to_owned(),
                statement: "The harness judges".to_owned(),
                hint: Some("please report it with this output".to_owned()),
                evidence: Vec::new(),
                duration_ms: 0.0,
                transcript: None,
                known: false,
            });
        }
        (results, self.transcripts)
    }

    /// Where no process ever answered, the first case of a suite tells it; the others saw the
    /// same, and nothing of what they ask.
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
        // What a monitor saw broken is told, also where a case is what decides the statement.
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
        // One fault is told once: the case that it happened in has told it.
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
                message.push_str(&format!("; {times} times in all"));
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
            row.message = format!("held each of {held} times");
        } else {
            row.hint = None;
            row.message = "nothing happened that could have broken it".to_owned();
        }
        Some(row)
    }
}

impl Collected {
    /// Whether a monitor that saw nothing broken has something to say.
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
            // Of what its cases decide they have told already.
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

/// Everything that broke one requirement.
fn broken<'p>(id: &'p str, played: &'p Played) -> impl Iterator<Item = &'p Broken> {
    played.broken.iter().filter(move |b| b.requirement == id)
}

/// What decides about a requirement that is broken: the first that is not a guess.
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
            (Verdict::Pass, "as it must be".to_owned(), shown)
        }
        None => (
            Verdict::NotVerified,
            "nothing came that could have been judged".to_owned(),
            Vec::new(),
        ),
    }
}

/// Faulty lines, and what we said last before them: a cancel, a line that is no JSON, an answer.
fn with_what_led_there(transcript: &Transcript, lines: &[u64]) -> Vec<u64> {
    let is = |number: &u64, direction: Direction| {
        let line = transcript.line(*number);
        line.is_some_and(|line| line.direction == direction)
    };
    // Where no line of the agent is wrong, one is missing, and all that we said led there.
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

/// The last lines that say something: that we closed the input is no news.
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

/// Where the transcript of a case stands below the report directory.
pub fn file_name(suite: &str, case: &str) -> String {
    let safe = |name: &str| -> String {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        name.chars()
            .map(|c| if fits(c) { c } else { '_' })
            .collect()
    };
    format!("transcripts/{}/{}.jsonl", safe(suite), safe(case))
}
