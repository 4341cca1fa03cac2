//! Runs suites against one target. Cases run in parallel, each in its own agent processes, and
//! produce one report.

pub(crate) mod case;
mod collect;
/// Command lines and mock agents as targets.
pub mod command;
pub(crate) mod connection;
mod ending;
mod evidence;
mod follow;
mod handshake;
/// Home directories of cases.
pub mod home;
mod messaging;
mod outcome;
/// Processes of the target.
pub mod process;
mod processor_waits;
/// The prompts file.
pub mod prompts;
pub mod recipe;
pub(crate) mod recipe_match;
mod recorder;
/// Checks of a recorded transcript.
pub mod recording;
/// Replay of a recording against a live agent.
pub mod rerun;
mod response_history;
mod schedule;
mod secrets;
mod services;
mod steps;
mod time_limit;
mod tools;
mod trial;
mod verdicts;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use tokio::sync::Semaphore;

use crate::model::{LoginNeed, Profile, Refusal, Report, SCHEMA, SuiteInfo, Target, Timing, Tool};
use crate::monitor::{self, Monitor};
use crate::suite::{Selection, Suite, SuiteProtocol};
pub use agentproto_sandbox::run_directory::RunDirectory;
use case::CaseOutcome;
use collect::ResultCollector;
pub use collect::{NOT_EXERCISED, file_name};
use process::Launcher;
pub use response_history::ResponseHistory;
use schedule::{at, excluded_cases, logs_out, play, redact, selected_cases, wait_for_stop};
pub use secrets::RunSecrets;
use trial::AgentState;

/// Maximum number of cases that run in parallel.
const MAX_JOBS: u32 = 1000;
/// Number of repeated cases that are too late again, after which no more are repeated: then the
/// agent is the cause, or the machine stays busy.
const MAX_LATE_AGAIN: usize = 4;

/// The mock model, which records the requests that it receives.
pub trait Model: Send + Sync {
    /// The requests whose user message contains this tag.
    fn requests(&self, tag: &str) -> Value;
}

/// How to log in if a session requires it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoginMethod {
    /// Do not log in: a login may open a browser.
    No,
    /// The method with this id.
    With(String),
    /// The first method that the agent handles itself.
    First,
}

/// Settings that all cases share.
pub struct RunConfig {
    /// What is certified, and how it is started.
    pub launcher: Launcher,
    /// Prompts by key, from the prompts file.
    pub prompts: BTreeMap<String, String>,
    /// Time limit for a response.
    pub timeout: Duration,
    /// How long to listen in order to check that nothing is sent.
    pub quiet: Duration,
    /// Time between closing stdin and killing the process at the end of a case.
    pub grace: Duration,
    /// The same before a restart, when the agent may still have to store its sessions.
    pub restart_grace: Duration,
    /// How to log in if a session requires it.
    pub login: LoginMethod,
    /// The mock model, if the agent runs with it.
    pub model: Option<Arc<dyn Model>>,
    /// Where cases create their directories.
    pub workspace: RunDirectory,
    /// Gives every case its own home directory.
    pub home: Option<home::HomeTemplate>,
    /// Environment variable with a directory for the agent's state, one per case.
    pub state_variable: Option<&'static str>,
    /// What was learned about the time to answer `initialize`.
    pub starts: ResponseHistory,
    /// What was learned about the time to answer `session/new`.
    pub sessions: ResponseHistory,
    /// What was learned about the time to answer prompts.
    pub turns: ResponseHistory,
    /// What was learned about the time to answer canceled prompts.
    pub canceled_turns: ResponseHistory,
    /// Time from the first start to the response to `initialize`.
    pub first_start: OnceLock<Duration>,
    /// Values that must not appear in a report.
    pub secrets: RunSecrets,
}

impl RunConfig {
    /// Default settings for a target: 30 seconds for a response, no login, no mock model, and the
    /// prompt that every agent understands.
    pub fn new(launcher: Launcher, workspace: RunDirectory) -> Self {
        RunConfig {
            secrets: RunSecrets::new(&[], &launcher),
            launcher,
            prompts: prompts::default_prompts(),
            timeout: Duration::from_secs(30),
            quiet: Duration::from_millis(300),
            grace: Duration::from_millis(1000),
            restart_grace: Duration::from_secs(5),
            login: LoginMethod::No,
            model: None,
            workspace,
            home: None,
            state_variable: None,
            starts: ResponseHistory::default(),
            sessions: ResponseHistory::default(),
            turns: ResponseHistory::default(),
            canceled_turns: ResponseHistory::default(),
            first_start: OnceLock::new(),
        }
    }

    /// Whether all cases share the agent's state, because they use the home directory of the user.
    fn shares_home(&self) -> bool {
        self.home.is_none() && self.state_variable.is_none()
    }

    /// Why the runtime refused to start the bundle, without secrets.
    fn refusal(&self) -> Option<Refusal> {
        let error = self.launcher.bundle()?.refusal()?;
        let text = |text: &String| self.secrets.text(text).into_owned();
        Some(Refusal {
            code: error.code.as_str().to_owned(),
            message: text(&error.message),
            hint: error.hint.as_ref().map(text),
        })
    }

    /// Time limit for a whole case.
    pub fn case_limit(&self) -> Duration {
        self.timeout * 6 + Duration::from_secs(20)
    }

    /// Environment variables of one case.
    pub fn own_env(&self, root: &Path) -> io::Result<Vec<(String, String)>> {
        let mut env = match &self.home {
            Some(home) => home.create(root)?,
            None => Vec::new(),
        };
        if let Some(name) = self.state_variable {
            let state = root.join("state");
            std::fs::create_dir_all(&state)?;
            env.push((name.to_owned(), state.to_string_lossy().into_owned()));
        }
        Ok(env)
    }
}

/// Which cases run, and how many in parallel.
pub struct RunOptions {
    /// Maximum number of cases that run in parallel.
    pub jobs: usize,
    /// The shard to run: its number, starting at 1, and the number of shards.
    pub shard: Option<(usize, usize)>,
    /// Set by the caller to interrupt the run: no new case starts, and running cases end.
    pub stop: &'static AtomicBool,
    /// Whether the transcripts of all cases are kept.
    pub keep_transcripts: bool,
    /// The selected requirements and cases.
    pub only: Selection,
    /// Which requirements decide about the certificate.
    pub profile: Profile,
}

impl Default for RunOptions {
    /// All cases, two per processor at a time, and the profile `strict`.
    fn default() -> Self {
        static NEVER_STOP: AtomicBool = AtomicBool::new(false);
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        RunOptions {
            jobs: 2 * cores,
            shard: None,
            stop: &NEVER_STOP,
            keep_transcripts: false,
            only: Selection::default(),
            profile: Profile::Strict,
        }
    }
}

/// Receives the progress of a run.
pub trait Progress: Send + Sync {
    /// `what` is finished, as number `done` of `all` cases.
    fn done(&self, what: &str, done: usize, all: usize);
}

/// Ignores the progress.
impl Progress for () {
    fn done(&self, _: &str, _: usize, _: usize) {}
}

/// The monitors for a protocol.
pub fn monitors(protocol: SuiteProtocol) -> Vec<Box<dyn Monitor>> {
    match protocol {
        SuiteProtocol::Acp | SuiteProtocol::Lifecycle => monitor::acp(),
        SuiteProtocol::Mcp => monitor::mcp(),
        SuiteProtocol::AcpV2 => monitor::acp_v2(),
        // The probes of this suite check everything themselves.
        SuiteProtocol::Sessions => Vec::new(),
    }
}

/// Runs the suites. The result is always a report, even if cases fail internally.
pub async fn run(
    suites: Arc<Vec<Suite>>,
    target: Target,
    config: RunConfig,
    options: RunOptions,
    progress: Arc<dyn Progress>,
) -> RunResult {
    let start_time = Instant::now();
    let started = SystemTime::now().duration_since(UNIX_EPOCH);
    let config = Arc::new(config);
    let work: Vec<(usize, usize)> = selected_cases(&suites, &options);
    let jobs = u32::try_from(options.jobs).unwrap_or(MAX_JOBS);
    let jobs = jobs.clamp(1, MAX_JOBS);
    let slots = Arc::new(Semaphore::new(jobs as usize));
    let all = work.len();
    let mut collector = ResultCollector::new(options.only.clone(), options.keep_transcripts);
    let cases = work
        .iter()
        .filter_map(|(suite, case)| at(&suites, *suite, *case));
    let cases: Vec<_> = cases.map(|(suite, case)| (suite.protocol, case)).collect();
    let mut trials = tokio::select! {
        trials = Box::pin(trial::trials(&cases, &config)) => trials,
        () = wait_for_stop(options.stop) => Vec::new(),
    };
    for trial in &mut trials {
        redact(&mut trial.outcome, &config);
    }
    let needs_login = trials
        .iter()
        .find(|trial| trial.state == AgentState::Locked);
    let needs_login = needs_login.map(|trial| LoginNeed::of(&trial.outcome.initialize, &target));
    let is_dead = trials.iter().any(|trial| trial.state.is_silent());
    let excluded = excluded_cases(&suites, &work, &trials, &config);
    for trial in trials {
        collector.add_trial(trial.outcome);
    }
    let mut running = tokio::task::JoinSet::new();
    for (suite, case) in work {
        let (config, suites) = (Arc::clone(&config), Arc::clone(&suites));
        let (slots, stop) = (Arc::clone(&slots), options.stop);
        let excluded = excluded.get(&(suite, case)).cloned();
        running.spawn(async move {
            let Some((of, the_case)) = at(&suites, suite, case) else {
                return (suite, case, None);
            };
            if let Some(why) = excluded {
                return (suite, case, Some(CaseOutcome::no_verdict(why)));
            }
            // A logout affects every case with the same login, so this case runs alone.
            let alone = config.shares_home() && logs_out(&the_case.steps);
            let needed = if alone { jobs } else { 1 };
            let _slot = slots.acquire_many_owned(needed).await;
            let outcome = play(of, the_case, &config, stop).await;
            (suite, case, outcome)
        });
    }
    let mut done = 0;
    let mut is_partial = false;
    let mut late: Vec<(usize, usize, CaseOutcome)> = Vec::new();
    while let Some(ended) = running.join_next().await {
        match ended {
            Ok((suite, case, Some(outcome))) if outcome.is_late() && !is_dead => {
                late.push((suite, case, outcome));
            }
            Ok((suite, case, Some(outcome))) => {
                let Some((of, the_case)) = at(&suites, suite, case) else {
                    continue;
                };
                done += 1;
                progress.done(&format!("{} {}", of.name, the_case.id), done, all);
                collector.add_case(suite, of, the_case, outcome);
            }
            Ok((suite, case, None)) => {
                is_partial = true;
                if let Some((of, the_case)) = at(&suites, suite, case) {
                    collector.add_interrupted(suite, of, the_case);
                }
            }
            Err(error) => {
                // An internal error in one case is reported, and the other cases continue.
                collector.add_internal_error(&config.secrets.text(&error.to_string()));
            }
        }
    }
    // Cases that were too late are repeated alone, because other cases may have been the cause.
    late.sort_by_key(|(suite, case, _)| (*suite, *case));
    if !late.is_empty() {
        let (turns, canceled) = (&config.turns, &config.canceled_turns);
        for history in [&config.starts, &config.sessions, turns, canceled] {
            history.try_again();
        }
    }
    let (mut late_again, mut starved_again) = (0, 0);
    for (suite, case, first) in late {
        let Some((of, the_case)) = at(&suites, suite, case) else {
            continue;
        };
        let again = match first.time_outs.is_starved {
            true => starved_again,
            false => late_again,
        };
        let outcome = match again < MAX_LATE_AGAIN {
            true => {
                collector.timing.repeated += 1;
                play(of, the_case, &config, options.stop).await
            }
            false => Some(first),
        };
        match outcome {
            Some(outcome) => {
                late_again += usize::from(outcome.is_late() && !outcome.time_outs.is_starved);
                starved_again += usize::from(outcome.is_late() && outcome.time_outs.is_starved);
                done += 1;
                progress.done(&format!("{} {}", of.name, the_case.id), done, all);
                collector.add_case(suite, of, the_case, outcome);
            }
            None => {
                is_partial = true;
                collector.add_interrupted(suite, of, the_case);
            }
        }
    }
    let mut timing = collector.timing.clone();
    timing.wall_ms = start_time.elapsed().as_secs_f64() * 1000.0;
    timing.jobs = options.jobs;
    let mut target = target;
    collector.describe_target(&mut target);
    config.secrets.redact_target(&mut target);
    let infos = suites.iter().map(|suite| SuiteInfo {
        name: suite.name.clone(),
        title: suite.title.clone(),
        requirements: suite.requirements.len(),
        cases: suite.cases.len(),
    });
    let infos = infos.collect();
    let confirmed = collector.confirmed();
    let never_answered = config.starts.never_answered();
    if never_answered.is_some() {
        collector.keep_first_failures();
    }
    let (results, transcripts) = collector.finish(&suites);
    let mut report = Report {
        schema: SCHEMA.to_owned(),
        tool: Tool::default(),
        target,
        suites: infos,
        results,
        summary: Default::default(),
        timing,
        started: started.map(|s| s.as_secs()).unwrap_or_default(),
        partial: is_partial,
        needs_login,
        never_answered: never_answered.map(|how| config.secrets.text(&how).into_owned()),
        not_started: config.refusal(),
        selection: !options.only.is_everything(),
        shard: options.shard.map(|(i, n)| format!("{i}/{n}")),
        profile: options.profile,
        tck: Vec::new(),
    };
    report.apply_profile(options.profile);
    crate::render::arrange(&mut report);
    report.summarize();
    RunResult {
        report,
        transcripts,
        confirmed,
    }
}

/// The result of a run.
pub struct RunResult {
    /// The report.
    pub report: Report,
    /// Transcripts that were kept.
    pub transcripts: Vec<CaseTranscript>,
    /// For each requirement id, the cases in which monitors confirmed it.
    pub confirmed: BTreeMap<String, Vec<String>>,
}

impl RunResult {
    /// The result if nothing could be run at all.
    pub fn failed(why: &str) -> RunResult {
        let mut collector = ResultCollector::new(Selection::default(), false);
        collector.add_internal_error(why);
        let (results, transcripts) = collector.finish(&[]);
        let mut report = Report {
            schema: SCHEMA.to_owned(),
            tool: Tool::default(),
            target: Target::default(),
            suites: Vec::new(),
            results,
            summary: Default::default(),
            timing: Timing::default(),
            started: 0,
            partial: false,
            needs_login: None,
            never_answered: None,
            not_started: None,
            selection: false,
            shard: None,
            profile: Profile::Strict,
            tck: Vec::new(),
        };
        report.summarize();
        RunResult {
            report,
            transcripts,
            confirmed: BTreeMap::new(),
        }
    }
}

/// A transcript that is kept.
pub struct CaseTranscript {
    /// Name of the suite.
    pub suite: String,
    /// Id of the case.
    pub case: String,
    /// Lines of all processes of the case.
    pub transcript: agentproto_wire::Transcript,
}

/// Adds the times of one case.
fn add_times(timing: &mut Timing, outcome: &CaseOutcome) {
    let ms = |time: Duration| time.as_secs_f64() * 1000.0;
    timing.startup_ms += ms(outcome.startup);
    timing.waits_ms += ms(outcome.waits);
    timing.agent_ms += ms(outcome.agent);
    timing.processes += outcome.notes.len() as u64;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite;

    #[test]
    fn cases_that_log_out_are_recognized() {
        let mut found = Vec::new();
        for name in suite::names() {
            let suite = suite::built_in(name)
                .expect("a suite")
                .expect("no mistakes");
            let cases = suite.cases.iter().filter(|case| logs_out(&case.steps));
            found.extend(cases.map(|case| format!("{name} {}", case.decides.join(","))));
        }
        let draft = ["acp-v2-draft V2-02", "acp-v2-draft V2-41"];
        assert_eq!(found, [&["acp AU-09"][..], &draft].concat());
    }
}
