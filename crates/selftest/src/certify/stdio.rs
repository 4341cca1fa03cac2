//! Self-test of the mocks that use stdio, each with its suites.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;

use super::{Depth, JOBS, MutantRow, SelftestOptions, VariantRow, is_finding};
use crate::common::MutantSet;
use agentproto_harness::model::Target;
use agentproto_harness::run::process::{Launcher, Program, StartError};
use agentproto_harness::run::{
    self, LoginMethod, RunConfig, RunDirectory, RunOptions, RunResult, RunSecrets, prompts,
};
use agentproto_harness::suite::{self, Selection, Suite};
use agentproto_mock::AgentKind;
use agentproto_mock::llm::{ModelServer, Script};
use agentproto_mock::mutants::{self, AgentMutant};

/// Response timeout. The mocks are fast, but the machine may be busy.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Number of cases that run first for a requirement that only monitors decide.
const MONITOR_CASES: usize = 3;

/// The scenario whose agent asks a model.
const MODEL_SCENARIO: &str = "model";

/// The mock model, as the harness queries it.
struct MockModel(ModelServer);

impl run::Model for MockModel {
    fn requests(&self, tag: &str) -> Value {
        self.0.log().containing(tag)
    }
}

/// A correct agent: a scenario, optionally with a variant.
struct CorrectMock {
    name: String,
    what: &'static str,
    scenario: &'static str,
    variant: Option<&'static str>,
}

/// A mock with its suites.
pub struct StdioMocks {
    kind: AgentKind,
    suites: Arc<Vec<Suite>>,
    own: OsString,
    mutants: Vec<&'static AgentMutant>,
    variants: Vec<CorrectMock>,
    /// Results of the correct mock, by scenario.
    references: Mutex<HashMap<&'static str, Arc<Reference>>>,
    depth: Depth,
    stop: &'static AtomicBool,
}

/// Results of the correct mock in a scenario.
#[derive(Default)]
pub struct Reference {
    /// Case and requirement of each finding.
    pub findings: BTreeSet<(String, String)>,
    /// Cases in which a requirement was verified, by requirement.
    confirmed: BTreeMap<String, Vec<String>>,
}

impl StdioMocks {
    pub fn new(
        kind: AgentKind,
        options: &SelftestOptions,
        stop: &'static AtomicBool,
    ) -> Result<Arc<StdioMocks>, StartError> {
        let names: &[&str] = match kind {
            AgentKind::Mcp => &["mcp"],
            AgentKind::AcpV2 => &["acp-v2-draft"],
            _ => &["acp", "open-design"],
        };
        let suites = names.iter().filter_map(|name| suite::built_in(name)?.ok());
        let own = agentproto_sandbox::helper::own_path().map_err(|error| StartError::Failed {
            program: "agentproto".to_owned(),
            reason: error.to_string(),
        })?;
        let mutants: Vec<&'static AgentMutant> = mutants::of(kind)
            .filter(|m| options.has(&[m.id, m.requirement, kind.as_str()]))
            .collect();
        Ok(Arc::new(StdioMocks {
            kind,
            suites: Arc::new(suites.collect()),
            own: own.into_os_string(),
            variants: variants(kind, options, &mutants),
            mutants,
            references: Mutex::default(),
            depth: options.depth,
            stop,
        }))
    }

    /// The cases of the mutant's requirement, and some in which monitors observe it.
    fn first_cases(&self, mutant: &AgentMutant, reference: &Reference) -> Selection {
        let requirement = mutant.requirement.to_owned();
        let cases = self.suites.iter().flat_map(|suite| &suite.cases);
        let cases = cases.filter(|case| case.decides.contains(&requirement));
        let monitored = reference
            .confirmed
            .get(mutant.requirement)
            .into_iter()
            .flatten();
        Selection {
            cases: cases
                .map(|case| case.id.clone())
                .chain(monitored.take(MONITOR_CASES).cloned())
                .collect(),
            requirements: [requirement].into(),
            names_cases: false,
            needs_all_cases: false,
        }
    }

    async fn certify(
        &self,
        env: &[(String, String)],
        only: Selection,
        shard: Option<(usize, usize)>,
    ) -> RunResult {
        let mut env = env.to_vec();
        let asks_model = env.iter().any(|(_, value)| value == MODEL_SCENARIO);
        let model = match asks_model {
            true => match ModelServer::start(Script::certify()).await {
                Ok(model) => {
                    env.push(("OPENAI_BASE_URL".to_owned(), format!("{}/v1", model.url())));
                    Some(model)
                }
                Err(error) => return RunResult::failed(&error.to_string()),
            },
            false => None,
        };
        let argv = vec![self.own.clone(), "mock".into(), self.kind.as_str().into()];
        let nothing = Target::default();
        let options = RunOptions {
            jobs: JOBS,
            shard,
            stop: self.stop,
            keep_transcripts: false,
            only,
            ..RunOptions::default()
        };
        let ready = Program::new(argv, &env)
            .map_err(|error| error.to_string())
            .and_then(|program| {
                Ok((
                    Launcher::Program(program),
                    RunDirectory::new("certify").map_err(|e| e.to_string())?,
                ))
            });
        let (launcher, workspace) = match ready {
            Ok(ready) => ready,
            Err(error) => return RunResult::failed(&error),
        };
        let prompts = match model {
            Some(_) => prompts::mock_model_prompts(),
            None => prompts::mock_prompts(),
        };
        let config = RunConfig {
            prompts,
            timeout: TIMEOUT,
            login: LoginMethod::First,
            model: model.map(|model| Arc::new(MockModel(model)) as Arc<dyn run::Model>),
            state_variable: Some("MOCK_STATE_DIR"),
            secrets: RunSecrets::default(),
            ..RunConfig::new(launcher, workspace)
        };
        let suites = Arc::clone(&self.suites);
        run::run(suites, nothing, config, options, Arc::new(())).await
    }
}

impl MutantSet for StdioMocks {
    type Mutant = MutantRow;
    type Variant = VariantRow;
    const MAX_CONCURRENT: usize = 4;

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
        let result = self.certify(&plain.env(), Selection::default(), part).await;
        // A stopped run has no result.
        if result.report.partial {
            return None;
        }
        if plain.variant.is_none() {
            let reference = Arc::new(Reference::of(&result));
            self.references.lock().insert(plain.scenario, reference);
        }
        let mut row = VariantRow::new(self.kind.as_str(), &plain.name, plain.what);
        row.tally(&result.report.results);
        Some(row)
    }

    async fn mutant(&self, at: usize) -> Option<MutantRow> {
        let mutant = *self.mutants.get(at)?;
        let reference = self.references.lock().get(mutant.scenario).cloned();
        let reference = reference.unwrap_or_default();
        let env = [
            ("MOCK_SCENARIO".to_owned(), mutant.scenario.to_owned()),
            ("MOCK_MUTANT".to_owned(), mutant.id.to_owned()),
        ];
        let mut row = MutantRow::new(self.kind.as_str(), mutant);
        if self.depth == Depth::Quick {
            let result = self
                .certify(&env, self.first_cases(mutant, &reference), None)
                .await;
            row.evaluate(&reference, &result.report.results);
        }
        if !row.attributed {
            let result = self.certify(&env, Selection::default(), None).await;
            row.evaluate(&reference, &result.report.results);
        }
        (!self.stop.load(Ordering::Relaxed)).then_some(row)
    }
}

/// The correct mock in every scenario that a mutant needs, and every variant.
fn variants(
    kind: AgentKind,
    options: &SelftestOptions,
    mutants: &[&'static AgentMutant],
) -> Vec<CorrectMock> {
    let mut scenarios: BTreeSet<&'static str> = mutants.iter().map(|m| m.scenario).collect();
    if options.only.is_empty() {
        scenarios.insert("default");
    }
    let plain = scenarios.into_iter().map(|scenario| CorrectMock {
        name: format!("scenario {scenario}"),
        what: "the correct mock",
        scenario,
        variant: None,
    });
    let others = agentproto_mock::variants::of(kind);
    let others = others.filter(|variant| options.has(&[variant.name, kind.as_str()]));
    let others = others.map(|variant| CorrectMock {
        name: variant.name.to_owned(),
        what: variant.description,
        scenario: variant.scenario,
        variant: Some(variant.name),
    });
    plain.chain(others).collect()
}

impl Reference {
    fn of(result: &RunResult) -> Reference {
        let findings = result.report.results.iter().filter(is_finding);
        Reference {
            findings: findings
                .map(|r| (r.case.clone(), r.requirement.clone()))
                .collect(),
            confirmed: result.confirmed.clone(),
        }
    }
}

impl CorrectMock {
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
