//! Self-test of `aoi-lint`: every mutant of the mock tool must be caught by its own check, and
//! conforming tools must not get any finding, in any variant and in any repetition.

mod trial;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::runtime::Handle;
use tokio::sync::OnceCell;

use crate::frame::{self, Caught, Spared};
use agentproto_aoi::LintError;
use agentproto_aoi::ground::{Ground, Lanes};
use agentproto_aoi::model::{Check, Finding, Report, Verdict};
use agentproto_aoi::rules::{self, Level};
use agentproto_aoi::session::Options;
use agentproto_mock::mutants::aoi as mutants;
use agentproto_mock::mutants::aoi::Mutant;
use agentproto_mock::variants::aoi as variants;
use agentproto_mock::variants::aoi::Variant;
use trial::Trial;

/// Maximum number of tools that are tested at the same time. `Lanes` limits their runs.
const TOOLS: usize = 12;
/// Maximum number of concurrent runs that mostly wait, over all tools.
const WAITERS: usize = 40;
/// Maximum number of concurrent runs of the tool that sleeps at startup.
const SLEEPERS: usize = 16;
/// Time limit of a run. The mock tool answers within milliseconds, so a longer run hangs.
const LIMIT: Duration = Duration::from_secs(6);
/// Number of repetitions of the timing-sensitive checks on the conforming tool.
const REPEATS: usize = 20;
/// Maximum number of repetitions that run at the same time.
const REPEATERS: usize = 4;
/// Stack size in bytes. All checks together are one deep future, even deeper without optimization.
const STACK: usize = 32 << 20;
const REPEATED: &str = "repeats";
const CONFORMING: &str = "conforming";
/// The variant that sleeps at startup.
const SLEEPER: &str = "slow-start";
/// Checks that depend on signals and pipes, and so on timing.
const TIMED: [Check; 2] = [Check::Number(3), Check::Number(10)];

/// Result for a mutant.
#[derive(Clone, Debug, Serialize)]
pub struct MutantRow {
    /// Id of the mutant.
    pub mutant: String,
    /// Check that must find it.
    pub check: Check,
    /// Rule that it breaks.
    pub rule: String,
    /// Its defect.
    pub wrong: String,
    /// Whether anything was found that is not found on the correct tool.
    pub killed: bool,
    /// Whether its own check found it.
    pub attributed: bool,
    /// Whether the rule that it breaks found it.
    pub named: bool,
    /// Rules that found something.
    pub found: Vec<String>,
}

/// Result for a conforming variant.
#[derive(Clone, Debug, Serialize)]
pub struct VariantRow {
    /// Name of the variant.
    pub variant: String,
    /// How it differs.
    pub what: String,
    /// Number of conforming pairs. Zero means that the variant was not really tested.
    pub proven: usize,
    /// Findings, which are all false positives.
    pub blamed: Vec<String>,
}

impl Caught for MutantRow {
    fn name(&self) -> &str {
        &self.mutant
    }
    fn wrong(&self) -> &str {
        &self.wrong
    }
    fn is_killed(&self) -> bool {
        self.killed
    }
    fn is_attributed(&self) -> bool {
        self.attributed
    }
    fn missed(&self) -> Option<String> {
        let how = match self.killed {
            _ if self.named => return None,
            true => format!("expected {}, found {}", self.rule, self.found.join(", ")),
            false => "SURVIVED".to_owned(),
        };
        Some(format!("{}: {how}", self.mutant))
    }
}

impl Spared for VariantRow {
    fn name(&self) -> &str {
        &self.variant
    }
    fn proven(&self) -> usize {
        self.proven
    }
    fn blamed(&self) -> &[String] {
        &self.blamed
    }
    fn complaints(&self) -> Vec<String> {
        let blamed = self.blamed.iter();
        blamed
            .map(|what| format!("{}: {what}", self.variant))
            .collect()
    }
}

/// Results of the self-test.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Results for mutants and variants.
    pub tried: frame::Outcome<MutantRow, VariantRow>,
    /// Number of repetitions of the timing-sensitive checks.
    pub repeats: usize,
    /// Number of repetitions with other verdicts than the first.
    pub flakes: usize,
    /// The differences, one line each.
    pub flaky: Vec<String>,
}

impl Outcome {
    /// Number of mutants that were caught by the rule that they break.
    pub fn named(&self) -> usize {
        self.tried.mutants.iter().filter(|m| m.named).count()
    }

    /// Whether everything that was tested has the expected result.
    pub fn is_clean(&self) -> bool {
        self.tried.killed() == self.tried.mutants.len()
            && self.tried.false_blames() == 0
            && self.flakes == 0
            && !self.tried.partial
    }

    /// Whether nothing was tested.
    pub fn is_empty(&self) -> bool {
        self.tried.is_empty() && self.repeats == 0
    }

    /// Compares each repetition with the first.
    fn compare(&mut self, repeats: impl IntoIterator<Item = Said>) {
        let mut first: Option<Said> = None;
        for said in repeats {
            self.repeats += 1;
            match &first {
                Some(first) => {
                    let differs = difference(first, &said);
                    self.flakes += usize::from(!differs.is_empty());
                    let repeat = self.repeats;
                    let told = differs
                        .iter()
                        .map(|text| format!("repeat {repeat}: {text}"));
                    self.flaky.extend(told);
                }
                None => first = Some(said),
            }
        }
    }

    /// Whether a complete run passed: every mutant killed, at least 98 % by their own check, no
    /// false positives, and no flaky checks.
    pub fn is_sound(&self) -> bool {
        let (all, own) = (self.tried.mutants.len(), self.tried.attributed());
        !self.tried.partial
            && all > 0
            && self.tried.killed() == all
            && own * 100 >= all * 98
            && self.repeats > 1
            && self.flakes == 0
            && self.tried.spares_all()
    }
}

/// Verdicts of one repetition of the timing-sensitive checks, by rule and command.
type Said = BTreeMap<String, (Verdict, String)>;

/// Runs the self-test. `only` contains ids of mutants, names of variants or `repeats`. If it is
/// empty, everything runs.
pub fn run(
    only: &[String],
    quick: bool,
    tokio: &Handle,
    stop: &'static AtomicBool,
    heard: &dyn Fn(&str),
) -> Result<Outcome, LintError> {
    let begun = Instant::now();
    let wanted = |name: &str| only.is_empty() || only.iter().any(|one| one == name);
    let judge = tokio.block_on(Judge::new(quick, stop))?;
    let mut outcome = Outcome::default();

    // Start the slowest variant first.
    let mut variants: Vec<(usize, &Variant)> = variants::VARIANTS.iter().enumerate().collect();
    variants.retain(|(_, variant)| wanted(variant.name));
    variants.sort_by_key(|(_, variant)| variant.name != SLEEPER);
    let mut trials: Vec<Asked> = Vec::new();
    for (place, variant) in variants {
        trials.push(Asked::Variant(place, variant));
    }
    if wanted(CONFORMING) {
        trials.push(Asked::Conforming);
    }
    let mutants = mutants::all().enumerate().filter(|(_, m)| wanted(m.id));
    trials.extend(mutants.map(|(place, mutant)| Asked::Mutant(place, mutant)));
    let (mut variants, mut mutants) = (BTreeMap::new(), BTreeMap::new());
    let work = |asked: &Asked| tokio.block_on(judge.answer(asked));
    side_by_side(&trials, TOOLS, stop, work, |_, row| match row {
        Row::Variant(place, row) => {
            heard(&row.variant);
            variants.insert(place, row);
        }
        Row::Mutant(place, row) => {
            heard(&row.mutant);
            mutants.insert(place, row);
        }
    })?;
    outcome.tried.variants = variants.into_values().collect();
    outcome.tried.mutants = mutants.into_values().collect();

    if wanted(REPEATED) {
        let mut said = BTreeMap::new();
        let work = |_: &()| tokio.block_on(judge.repeat());
        side_by_side(&[(); REPEATS], REPEATERS, stop, work, |place, one| {
            heard(REPEATED);
            said.insert(place, one);
        })?;
        outcome.compare(said.into_values());
    }
    outcome.tried.partial = stop.load(Ordering::Relaxed);
    outcome.tried.wall_ms = begun.elapsed().as_secs_f64() * 1000.0;
    Ok(outcome)
}

/// Runs `work` on all items with several threads, and reports each result when it is ready. The
/// first error or a signal stops it.
fn side_by_side<T: Sync, R: Send>(
    all: &[T],
    threads: usize,
    stop: &AtomicBool,
    work: impl Fn(&T) -> Result<R, LintError> + Sync,
    mut heard: impl FnMut(usize, R),
) -> Result<(), LintError> {
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let is_over = || stop.load(Ordering::Relaxed) || failed.load(Ordering::Relaxed);
    let (say, said) = channel();
    std::thread::scope(|scope| {
        for _ in 0..threads.min(all.len()) {
            let say = say.clone();
            let thread = std::thread::Builder::new().stack_size(STACK);
            let started = thread.spawn_scoped(scope, || {
                let say = say;
                while !is_over() {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    let Some(one) = all.get(place) else { break };
                    let _ = say.send((place, work(one)));
                }
            });
            started.map_err(LintError::Thread)?;
        }
        drop(say);
        let mut first = Ok(());
        for (place, done) in said {
            match done {
                // Ignore results after a signal, because they may be incomplete.
                Ok(_) if stop.load(Ordering::Relaxed) => {}
                Ok(done) => heard(place, done),
                Err(error) => {
                    failed.store(true, Ordering::Relaxed);
                    first = first.and(Err(error));
                }
            }
        }
        first
    })
}

/// Differences between a repetition and the first.
fn difference(first: &Said, said: &Said) -> Vec<String> {
    let keys: BTreeSet<&String> = first.keys().chain(said.keys()).collect();
    let of = |said: &Said, key: &str| match said.get(key) {
        Some((verdict, message)) => format!("{} ({message})", verdict.as_str()),
        None => "no verdict".to_owned(),
    };
    let verdict = |said: &Said, key: &str| said.get(key).map(|(verdict, _)| *verdict);
    keys.into_iter()
        .filter(|key| verdict(first, key) != verdict(said, key))
        .map(|key| format!("{key}: {}, first run {}", of(said, key), of(first, key)))
        .collect()
}

/// A tool to test, and its index in the list of its kind.
enum Asked {
    Conforming,
    Variant(usize, &'static Variant),
    Mutant(usize, &'static Mutant),
}

enum Row {
    Variant(usize, VariantRow),
    Mutant(usize, MutantRow),
}

/// The environment in which all tools are tested.
struct Judge {
    ground: Ground,
    /// Separate environment for the tool that sleeps, because it would block the others.
    aside: Ground,
    /// Report on the correct tool.
    plain: OnceCell<Report>,
    quick: bool,
    stop: &'static AtomicBool,
}

impl Judge {
    async fn new(quick: bool, stop: &'static AtomicBool) -> Result<Judge, LintError> {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        let probe = Trial::default().probe()?;
        let lanes = Lanes::with_waiters(2 * cores, WAITERS);
        Ok(Judge {
            ground: agentproto_aoi::ground(&probe, lanes).await?,
            aside: agentproto_aoi::ground(&probe, Lanes::new(SLEEPERS)).await?,
            plain: OnceCell::new(),
            quick,
            stop,
        })
    }

    async fn plain(&self) -> Result<&Report, LintError> {
        let tried = async || self.try_one(&Trial::default()).await;
        self.plain.get_or_try_init(tried).await
    }

    async fn answer(&self, asked: &Asked) -> Result<Row, LintError> {
        Ok(match *asked {
            // Index 0, before all variants.
            Asked::Conforming => {
                let report = self.plain().await?;
                Row::Variant(0, row(CONFORMING, "the correct mock tool", report, &[]))
            }
            Asked::Variant(place, variant) => {
                let trial = Trial::variant(variant.name, self.quick);
                let report = self.try_one(&trial).await?;
                let row = row(variant.name, variant.what, &report, variant.warns);
                Row::Variant(place + 1, row)
            }
            Asked::Mutant(place, mutant) => Row::Mutant(place, self.mutant(mutant).await?),
        })
    }

    /// Tests a mutant. A quick run starts with its own check on its own command, then all checks
    /// on that command, then its own check on all commands. It runs all checks on all commands
    /// only if nothing else finds the defect.
    async fn mutant(&self, mutant: &'static Mutant) -> Result<MutantRow, LintError> {
        let own = check_of(mutant.id);
        let trials = match self.quick {
            true => vec![
                Trial::narrow(mutant, own),
                Trial::wide(mutant),
                Trial::own(mutant, own),
                Trial::whole(mutant),
            ],
            false => vec![Trial::whole(mutant)],
        };
        let mut found = Vec::new();
        for trial in trials {
            let report = self.try_one(&trial).await?;
            let usual: BTreeSet<String> = blamed(self.plain().await?).map(key).collect();
            found = news(&report, &usual, mutant);
            if found.iter().any(|f| f.rule == mutant.requirement) {
                break;
            }
        }
        Ok(MutantRow {
            mutant: mutant.id.to_owned(),
            check: own,
            rule: mutant.requirement.to_owned(),
            wrong: mutant.wrong.to_owned(),
            killed: !found.is_empty(),
            attributed: found.iter().any(|f| f.check == own),
            named: found.iter().any(|f| f.rule == mutant.requirement),
            found: found.iter().map(|f| f.rule.clone()).collect(),
        })
    }

    async fn repeat(&self) -> Result<Said, LintError> {
        let trial = Trial {
            checks: TIMED.to_vec(),
            ..Trial::default()
        };
        let report = self.try_one(&trial).await?;
        let said = report.checks.iter();
        Ok(said
            .map(|f| (key(f), (f.verdict, f.message.clone())))
            .collect())
    }

    async fn try_one(&self, trial: &Trial) -> Result<Report, LintError> {
        let ground = match trial.name == SLEEPER {
            true => &self.aside,
            false => &self.ground,
        };
        let options = Options {
            only: trial.checks.clone(),
            limit: LIMIT,
            discovery_limit: LIMIT,
            ..Options::default()
        };
        agentproto_aoi::lint_on(ground, Instant::now(), trial.probe()?, options, self.stop).await
    }
}

/// Rules with the verdict fail, warn or error.
fn blamed(report: &Report) -> impl Iterator<Item = &Finding> {
    let is_broken =
        |f: &&Finding| matches!(f.verdict, Verdict::Fail | Verdict::Warn | Verdict::Error);
    report.checks.iter().filter(is_broken)
}

fn key(finding: &Finding) -> String {
    format!("{} {}", finding.rule, finding.command)
}

/// Findings on the mutant that the correct tool does not have. A mutant that breaks a MUST must
/// have the verdict fail.
fn news(report: &Report, usual: &BTreeSet<String>, mutant: &Mutant) -> Vec<Finding> {
    let is_must = rules::find(mutant.requirement).is_none_or(|rule| rule.level == Level::Must);
    let counts = |f: &&Finding| match mutant.verdict {
        // A tool that hides its state cannot be verified, and the report must say so.
        mutants::Verdict::NotVerified => {
            !matches!(f.verdict, Verdict::Pass | Verdict::NotApplicable)
        }
        _ if is_must => f.verdict == Verdict::Fail,
        _ => matches!(f.verdict, Verdict::Fail | Verdict::Warn),
    };
    let found = report.checks.iter().filter(counts);
    found
        .filter(|f| !usual.contains(&key(f)))
        .cloned()
        .collect()
}

fn row(name: &str, what: &str, report: &Report, allowed: &[&str]) -> VariantRow {
    let excused = |f: &&Finding| f.verdict == Verdict::Warn && allowed.contains(&f.rule.as_str());
    VariantRow {
        variant: name.to_owned(),
        what: what.to_owned(),
        proven: report.summary.pairs_proven,
        blamed: blamed(report)
            .filter(|f| !excused(f))
            .map(|f| format!("{} {}: {}", f.rule, f.command, f.message))
            .collect(),
    }
}

/// Check of a mutant: `aoi-03-…` belongs to check 3.
fn check_of(id: &str) -> Check {
    let number = id.split('-').nth(1).and_then(|part| part.parse().ok());
    number.map_or(Check::Advisory, Check::Number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differing_repetitions_are_reported() {
        let said = |verdict| -> Said {
            let row = |verdict| (verdict, "seen".to_owned());
            [
                ("a".to_owned(), row(Verdict::Pass)),
                ("b".to_owned(), row(verdict)),
            ]
            .into()
        };
        let mut outcome = Outcome::default();
        let mut shorter = said(Verdict::Pass);
        shorter.remove("a");
        let pass = || said(Verdict::Pass);
        outcome.compare([pass(), pass(), said(Verdict::NotVerified), shorter]);
        assert_eq!((outcome.repeats, outcome.flakes), (4, 2));
        let told = [
            "repeat 3: b: not_verified (seen), first run pass (seen)",
            "repeat 4: a: no verdict, first run pass (seen)",
        ];
        assert_eq!(outcome.flaky, told);
        assert!(!outcome.is_clean() && !outcome.is_sound());
    }
}
