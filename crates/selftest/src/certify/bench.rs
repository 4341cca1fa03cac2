//! Self-test of the mocks that use stdio, each with its suites.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::{Depth, JOBS, MutantRow, Trial, VariantRow, is_blame};
use crate::frame::Subject;
use agentproto_harness::model::Target;
use agentproto_harness::run::process::{Launcher, Program, StartError};
use agentproto_harness::run::{
    self, Login, Options, Patience, Ran, Secrets, Setting, Workspace, prompts,
};
use agentproto_harness::suite::{self, Selection, Suite};
use agentproto_mock::Kind;
use agentproto_mock::mutants::{self, Mutant};

/// Response timeout. The mocks are fast, but the machine may be busy.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Number of cases that run first for a requirement that only monitors decide.
const TOUR: usize = 3;

/// A correct agent: a scenario, optionally with a variant.
struct Plain {
    name: String,
    what: &'static str,
    scenario: &'static str,
    variant: Option<&'static str>,
}

/// A mock with its suites.
pub struct Bench {
    kind: Kind,
    suites: Arc<Vec<Suite>>,
    own: OsString,
    mutants: Vec<&'static Mutant>,
    variants: Vec<Plain>,
    /// Results of the correct mock, by scenario.
    bases: Mutex<HashMap<&'static str, Arc<Base>>>,
    depth: Depth,
    stop: &'static AtomicBool,
}

/// Results of the correct mock in a scenario.
#[derive(Default)]
pub struct Base {
    /// Case and requirement of each finding.
    pub blamed: BTreeSet<(String, String)>,
    /// Cases in which a requirement was verified, by requirement.
    seen: BTreeMap<String, Vec<String>>,
}

impl Bench {
    pub fn new(
        kind: Kind,
        trial: &Trial,
        stop: &'static AtomicBool,
    ) -> Result<Arc<Bench>, StartError> {
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
        let mutants: Vec<&'static Mutant> = mutants::of(kind)
            .filter(|m| trial.has(&[m.id, m.requirement, kind.as_str()]))
            .collect();
        Ok(Arc::new(Bench {
            kind,
            suites: Arc::new(suites.collect()),
            own: own.into_os_string(),
            variants: variants(kind, trial, &mutants),
            mutants,
            bases: Mutex::default(),
            depth: trial.depth,
            stop,
        }))
    }

    /// The cases of the mutant's requirement, and some in which monitors observe it.
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

impl Subject for Bench {
    type Mutant = MutantRow;
    type Variant = VariantRow;
    const AT_ONCE: usize = 4;

    fn mutants(&self) -> usize {
        self.mutants.len()
    }

    fn variants(&self) -> usize {
        self.variants.len()
    }

    async fn variant(&self, at: usize) -> Option<VariantRow> {
        let plain = self.variants.get(at)?;
        // Run plain variants completely, because mutants are compared with them.
        let part = match (self.depth, plain.variant) {
            (Depth::Quick, Some(_)) => Some((at % 2 + 1, 2)),
            _ => None,
        };
        let ran = self.certify(&plain.env(), Selection::default(), part).await;
        // A stopped run has no result.
        if ran.report.partial {
            return None;
        }
        if plain.variant.is_none() {
            let base = Arc::new(Base::of(&ran));
            self.bases.lock().insert(plain.scenario, base);
        }
        let mut row = VariantRow::new(self.kind.as_str(), &plain.name, plain.what);
        row.tally(&ran.report.results);
        Some(row)
    }

    async fn mutant(&self, at: usize) -> Option<MutantRow> {
        let mutant = *self.mutants.get(at)?;
        let base = self.bases.lock().get(mutant.scenario).cloned();
        let base = base.unwrap_or_default();
        let env = [
            ("MOCK_SCENARIO".to_owned(), mutant.scenario.to_owned()),
            ("MOCK_MUTANT".to_owned(), mutant.id.to_owned()),
        ];
        let mut row = MutantRow::new(self.kind.as_str(), mutant);
        if self.depth == Depth::Quick {
            let ran = self
                .certify(&env, self.first_cases(mutant, &base), None)
                .await;
            row.judge(&base, &ran.report.results);
        }
        if !row.attributed {
            let ran = self.certify(&env, Selection::default(), None).await;
            row.judge(&base, &ran.report.results);
        }
        (!self.stop.load(Ordering::Relaxed)).then_some(row)
    }
}

/// The correct mock in every scenario that a mutant needs, and every variant.
fn variants(kind: Kind, trial: &Trial, mutants: &[&'static Mutant]) -> Vec<Plain> {
    let mut scenarios: BTreeSet<&'static str> = mutants.iter().map(|m| m.scenario).collect();
    if trial.only.is_empty() {
        scenarios.insert("default");
    }
    let plain = scenarios.into_iter().map(|scenario| Plain {
        name: format!("scenario {scenario}"),
        what: "the correct mock",
        scenario,
        variant: None,
    });
    let others = agentproto_mock::variants::of(kind);
    let others = others.filter(|variant| trial.has(&[variant.name, kind.as_str()]));
    let others = others.map(|variant| Plain {
        name: variant.name.to_owned(),
        what: variant.what,
        scenario: variant.scenario,
        variant: Some(variant.name),
    });
    plain.chain(others).collect()
}

impl Base {
    fn of(ran: &Ran) -> Base {
        let blamed = ran.report.results.iter().filter(is_blame);
        Base {
            blamed: blamed
                .map(|r| (r.case.clone(), r.requirement.clone()))
                .collect(),
            seen: ran.seen.clone(),
        }
    }
}

impl Plain {
    fn env(&self) -> Vec<(String, String)> {
        let mut env = vec![
            ("MOCK_SCENARIO".to_owned(), self.scenario.to_owned()),
            ("MOCK_MUTANT".to_owned(), String::new()),
        ];
        let variant = self.variant.unwrap_or_default();
        env.push(("MOCK_VARIANT".to_owned(), variant.to_owned()));
        env
    }
}
