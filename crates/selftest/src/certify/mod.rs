//! Who judges the judge: every mutant of the mock agents must be caught with its own statement,
//! and no conforming variant may be blamed for anything.

mod field;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::sync::Semaphore;

use agentproto_harness::model::{CaseResult, Target, Verdict};
use agentproto_harness::run::process::{Launcher, Program, StartError};
use agentproto_harness::run::{
    self, Login, Options, Patience, Progress, Ran, Secrets, Setting, Workspace, prompts,
};
use agentproto_harness::suite::selection::begins;
use agentproto_harness::suite::{self, Selection, Suite};
use agentproto_mock::Kind;
use agentproto_mock::mutants::{self, Mutant};

/// Hearing nothing for so long is silence: the mocks are quick, the machine may be busy.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Runs side by side, and cases of each.
const RUNS: usize = 4;
const JOBS: usize = 2;
/// Cases that are tried first for a statement that monitors decide.
const TOUR: usize = 3;

#[derive(Clone, Debug, Serialize)]
pub struct MutantRow {
    pub mock: &'static str,
    pub mutant: String,
    pub requirement: String,
    pub wrong: String,
    /// Something failed that does not fail with the correct mock.
    pub killed: bool,
    /// Its own statement did.
    pub attributed: bool,
    /// How that was told: `fail`, or `warn` where the text only advises.
    pub verdict: Option<&'static str>,
    /// Lines that prove it.
    pub evidence: usize,
    /// Other statements that failed beside it.
    pub also: Vec<String>,
}

impl MutantRow {
    fn new(mock: &'static str, mutant: &str, requirement: &str, wrong: &str) -> MutantRow {
        MutantRow {
            mock,
            mutant: mutant.to_owned(),
            requirement: requirement.to_owned(),
            wrong: wrong.to_owned(),
            killed: false,
            attributed: false,
            verdict: None,
            evidence: 0,
            also: Vec::new(),
        }
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct VariantRow {
    pub mock: &'static str,
    pub variant: String,
    pub what: String,
    /// Statements that passed, so that nothing is proven by nothing.
    pub passed: usize,
    /// `REQ: message` of everything that was blamed.
    pub blamed: Vec<String>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Outcome {
    pub mutants: Vec<MutantRow>,
    pub variants: Vec<VariantRow>,
    pub wall_ms: f64,
    /// Stopped before its end.
    pub partial: bool,
}

impl Outcome {
    fn add(&mut self, other: Outcome) {
        self.mutants.extend(other.mutants);
        self.variants.extend(other.variants);
    }

    pub fn killed(&self) -> usize {
        self.mutants.iter().filter(|m| m.killed).count()
    }
    pub fn attributed(&self) -> usize {
        self.mutants.iter().filter(|m| m.attributed).count()
    }
    pub fn false_failures(&self) -> usize {
        self.variants.iter().map(|v| v.blamed.len()).sum()
    }
    pub fn is_sound(&self) -> bool {
        !self.partial
            && !self.mutants.is_empty()
            && self.attributed() == self.mutants.len()
            && self
                .variants
                .iter()
                .all(|v| v.blamed.is_empty() && v.passed > 0)
    }
}

/// How much of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// For a mutant first the cases of its statement; all of them only where it survives. Of a
    /// variant every second case: the even ones of one, the odd ones of the next.
    Quick,
    /// Every case over every mutant.
    Full,
}

/// What is tried.
#[derive(Clone, Debug)]
pub struct Trial {
    pub depth: Depth,
    /// Only these: ids of mutants, statements that they break, names of variants, or beginnings
    /// of these; or all of one mock.
    pub only: Vec<String>,
}

impl Trial {
    fn has(&self, names: &[&str]) -> bool {
        let wanted = |name: &&str| self.only.iter().any(|only| begins(only, name));
        self.only.is_empty() || names.iter().any(wanted)
    }
}

/// A correct agent: a scenario, perhaps in other clothes.
#[derive(Clone, Debug)]
struct Plain {
    name: String,
    what: String,
    scenario: String,
    variant: Option<String>,
}

pub async fn run(
    trial: &Trial,
    stop: &'static AtomicBool,
    heard: Arc<dyn Progress>,
) -> Result<Outcome, StartError> {
    let begun = Instant::now();
    let heard = Count::new(heard);
    // They mostly wait, each for silence of its own: two of them side by side.
    let (agents, targets) =
        tokio::join!(agents(trial, stop, &heard), targets(trial, stop, &heard),);
    let mut outcome = Outcome::default();
    outcome.add(agents?);
    outcome.add(targets?);
    outcome.partial = stop.load(Ordering::Relaxed);
    outcome.wall_ms = begun.elapsed().as_secs_f64() * 1000.0;
    Ok(outcome)
}

/// The mocks that speak on their stdio.
async fn agents(
    trial: &Trial,
    stop: &'static AtomicBool,
    heard: &Count,
) -> Result<Outcome, StartError> {
    let [acp, next, mcp] = [Kind::Acp, Kind::AcpV2, Kind::Mcp].map(|kind| Bench::new(kind, stop));
    let (acp, next, mcp) = (acp?, next?, mcp?);
    let mut outcome = acp.run(trial, heard).await;
    let (next, mcp) = tokio::join!(next.run(trial, heard), mcp.run(trial, heard));
    outcome.add(next);
    outcome.add(mcp);
    Ok(outcome)
}

/// What is made for the trial.
async fn targets(
    trial: &Trial,
    stop: &'static AtomicBool,
    heard: &Count,
) -> Result<Outcome, StartError> {
    let bundles = Arc::new(field::Bundles::new());
    let mut outcome = field::run(&bundles, trial, stop, heard).await;
    if stop.load(Ordering::Relaxed) {
        return Ok(outcome);
    }
    let hosts = field::Hosts::new().map_err(|reason| StartError::Failed {
        program: "agentproto".to_owned(),
        reason,
    })?;
    let hosts = Arc::new(hosts);
    outcome.add(field::run(&hosts, trial, stop, heard).await);
    hosts.stage.close().await;
    Ok(outcome)
}

/// How far all of them together have come.
struct Count {
    done: AtomicUsize,
    all: AtomicUsize,
    progress: Arc<dyn Progress>,
}

impl Count {
    fn new(progress: Arc<dyn Progress>) -> Count {
        Count {
            done: AtomicUsize::new(0),
            all: AtomicUsize::new(0),
            progress,
        }
    }

    fn expect(&self, more: usize) {
        self.all.fetch_add(more, Ordering::Relaxed);
    }

    fn one(&self, name: &str) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        let all = self.all.load(Ordering::Relaxed);
        self.progress.done(name, done, all);
    }
}

/// One mock with its suites.
struct Bench {
    kind: Kind,
    suites: Arc<Vec<Suite>>,
    own: std::ffi::OsString,
    stop: &'static AtomicBool,
}

/// What the correct mock shows in a scenario.
#[derive(Default)]
struct Base {
    blamed: BTreeSet<(String, String)>,
    /// Cases in which a statement was seen to hold.
    seen: BTreeMap<String, Vec<String>>,
}

impl Bench {
    fn new(kind: Kind, stop: &'static AtomicBool) -> Result<Arc<Bench>, StartError> {
        let names: &[&str] = match kind {
            Kind::Mcp => &["mcp"],
            Kind::AcpV2 => &["acp-v2-draft"],
            _ => &["acp", "open-design"],
        };
        let suites = names.iter().filter_map(|name| suite::built_in(name)?.ok());
        let own = agentproto_sandbox::helper::own_path().map_err(|error| StartError::Failed {
            program: "agentproto".to_owned(),
            reason: error.to_string(),
        })?;
        Ok(Arc::new(Bench {
            kind,
            suites: Arc::new(suites.collect()),
            own: own.into_os_string(),
            stop,
        }))
    }

    async fn run(self: &Arc<Self>, trial: &Trial, heard: &Count) -> Outcome {
        let mut outcome = Outcome::default();
        let depth = trial.depth;
        let mutants = mutants::of(self.kind)
            .filter(|m| trial.has(&[m.id, m.requirement, self.kind.as_str()]));
        let mutants: Vec<&'static Mutant> = mutants.collect();
        let variants = self.variants(trial, &mutants);
        heard.expect(variants.len() + mutants.len());
        let places = Arc::new(Semaphore::new(RUNS));
        // Variants first: the plain ones are what mutants are compared with.
        let mut running = tokio::task::JoinSet::new();
        for (number, plain) in variants.into_iter().enumerate() {
            let (bench, places) = (Arc::clone(self), Arc::clone(&places));
            // What mutants are compared with is run as a whole.
            let part = match (depth, &plain.variant) {
                (Depth::Quick, Some(_)) => Some((number % 2 + 1, 2)),
                _ => None,
            };
            running.spawn(async move {
                let _place = places.acquire_owned().await;
                let ran = bench
                    .certify(&plain.env(), Selection::default(), part)
                    .await;
                (plain, ran)
            });
        }
        let mut bases: HashMap<String, Base> = HashMap::new();
        while let Some(ended) = running.join_next().await {
            let Ok((plain, ran)) = ended else { continue };
            // Who was not heard to the end is not judged.
            if ran.report.partial {
                continue;
            }
            heard.one(&plain.name);
            let row = variant_row(self.kind, &plain, &ran);
            outcome.variants.push(row);
            if plain.variant.is_none() {
                bases.insert(plain.scenario.clone(), base(&ran));
            }
        }
        outcome.variants.sort_by(|a, b| a.variant.cmp(&b.variant));
        let bases = Arc::new(bases);
        let mut running = tokio::task::JoinSet::new();
        for mutant in mutants {
            let (bench, places) = (Arc::clone(self), Arc::clone(&places));
            let bases = Arc::clone(&bases);
            running.spawn(async move {
                let _place = places.acquire_owned().await;
                let row = bench.mutant(mutant, depth, &bases).await;
                (!bench.stop.load(Ordering::Relaxed)).then_some(row)
            });
        }
        let mut rows = Vec::new();
        while let Some(ended) = running.join_next().await {
            let Ok(Some(row)) = ended else { continue };
            heard.one(&row.mutant);
            rows.push(row);
        }
        rows.sort_by(|a, b| a.mutant.cmp(&b.mutant));
        outcome.mutants.extend(rows);
        outcome
    }

    /// The correct mock in every scenario that a mutant needs, and every variant.
    fn variants(&self, trial: &Trial, mutants: &[&'static Mutant]) -> Vec<Plain> {
        let mut scenarios: BTreeSet<&str> = mutants.iter().map(|m| m.scenario).collect();
        if trial.only.is_empty() {
            scenarios.insert("default");
        }
        let plain = scenarios.into_iter().map(|scenario| Plain {
            name: format!("scenario {scenario}"),
            what: "the correct mock".to_owned(),
            scenario: scenario.to_owned(),
            variant: None,
        });
        let others = agentproto_mock::variants::of(self.kind);
        let others = others.filter(|variant| trial.has(&[variant.name, self.kind.as_str()]));
        let others = others.map(|variant| Plain {
            name: variant.name.to_owned(),
            what: variant.what.to_owned(),
            scenario: variant.scenario.to_owned(),
            variant: Some(variant.name.to_owned()),
        });
        plain.chain(others).collect()
    }

    async fn mutant(
        &self,
        mutant: &'static Mutant,
        depth: Depth,
        bases: &HashMap<String, Base>,
    ) -> MutantRow {
        let nothing = Base::default();
        let base = bases.get(mutant.scenario).unwrap_or(&nothing);
        let env = [
            ("MOCK_SCENARIO".to_owned(), mutant.scenario.to_owned()),
            ("MOCK_MUTANT".to_owned(), mutant.id.to_owned()),
        ];
        let mock = self.kind.as_str();
        let mut row = MutantRow::new(mock, mutant.id, mutant.requirement, mutant.wrong);
        if depth == Depth::Quick {
            let ran = self
                .certify(&env, self.first_cases(mutant, base), None)
                .await;
            judge(&mut row, base, &ran.report.results);
            if row.attributed {
                return row;
            }
        }
        let ran = self.certify(&env, Selection::default(), None).await;
        judge(&mut row, base, &ran.report.results);
        row
    }

    /// The cases of the mutant's statement, and some in which monitors see it.
    fn first_cases(&self, mutant: &Mutant, base: &Base) -> Selection {
        let statement = mutant.requirement.to_owned();
        let cases = self.suites.iter().flat_map(|suite| &suite.cases);
        let cases = cases.filter(|case| case.decides.contains(&statement));
        let tour = base.seen.get(mutant.requirement).into_iter().flatten();
        Selection {
            cases: cases
                .map(|case| case.id.clone())
                .chain(tour.take(TOUR).cloned())
                .collect(),
            statements: [statement].into(),
            names_cases: false,
            needs_witnesses: false,
        }
    }

    async fn certify(
        &self,
        env: &[(String, String)],
        only: Selection,
        shard: Option<(usize, usize)>,
    ) -> Ran {
        let argv = vec![self.own.clone(), "mock".into(), self.kind.as_str().into()];
        let nothing = Target::default();
        let options = Options {
            jobs: JOBS,
            shard,
            stop: self.stop,
            keep_transcripts: false,
            only,
        };
        let ready = Program::new(argv, env)
            .map_err(|error| error.to_string())
            .and_then(|program| {
                Ok((
                    Launcher::Program(program),
                    Workspace::new("certify").map_err(|e| e.to_string())?,
                ))
            });
        let (launcher, workspace) = match ready {
            Ok(ready) => ready,
            Err(error) => return Ran::failed(&error),
        };
        let setting = Setting {
            launcher,
            prompts: prompts::of_mock(),
            timeout: TIMEOUT,
            quiet: Duration::from_millis(300),
            grace: Duration::from_millis(1000),
            login: Login::First,
            model: None,
            workspace,
            home: None,
            state_variable: Some("MOCK_STATE_DIR"),
            starts: Patience::default(),
            sessions: Patience::default(),
            turns: Patience::default(),
            secrets: Secrets::default(),
        };
        let suites = Arc::clone(&self.suites);
        run::run(suites, nothing, setting, options, Arc::new(())).await
    }
}

impl Plain {
    fn env(&self) -> Vec<(String, String)> {
        let mut env = vec![
            ("MOCK_SCENARIO".to_owned(), self.scenario.clone()),
            ("MOCK_MUTANT".to_owned(), String::new()),
        ];
        let variant = self.variant.clone().unwrap_or_default();
        env.push(("MOCK_VARIANT".to_owned(), variant));
        env
    }
}

fn is_blame(row: &&CaseResult) -> bool {
    matches!(row.verdict, Verdict::Fail | Verdict::Warn | Verdict::Error)
}

fn variant_row(kind: Kind, plain: &Plain, ran: &Ran) -> VariantRow {
    let (passed, blamed) = tally(&ran.report.results);
    VariantRow {
        mock: kind.as_str(),
        variant: plain.name.clone(),
        what: plain.what.clone(),
        passed,
        blamed,
    }
}

/// How many passed, and everything that was blamed.
fn tally(results: &[CaseResult]) -> (usize, Vec<String>) {
    let blamed = results.iter().filter(is_blame);
    let blamed = blamed.map(|r| format!("{} ({}): {}", r.requirement, r.case, r.message));
    let passed = results.iter().filter(|r| r.verdict == Verdict::Pass);
    (passed.count(), blamed.collect())
}

fn base(ran: &Ran) -> Base {
    let blamed = ran.report.results.iter().filter(is_blame);
    Base {
        blamed: blamed
            .map(|r| (r.case.clone(), r.requirement.clone()))
            .collect(),
        seen: ran.seen.clone(),
    }
}

fn judge(row: &mut MutantRow, base: &Base, results: &[CaseResult]) {
    let new = results.iter().filter(|r| {
        // A fault of ours kills nothing.
        let blames = matches!(r.verdict, Verdict::Fail | Verdict::Warn);
        blames
            && !base
                .blamed
                .contains(&(r.case.clone(), r.requirement.clone()))
    });
    let mut also = BTreeSet::new();
    for result in new {
        row.killed = true;
        if result.requirement != row.requirement {
            also.insert(result.requirement.clone());
            continue;
        }
        row.attributed = true;
        // A failure outweighs a warning.
        if row.verdict.is_none() || result.verdict == Verdict::Fail {
            row.verdict = Some(result.verdict.as_str());
        }
        row.evidence = row.evidence.max(result.evidence.len());
    }
    row.also = also.into_iter().collect();
}
