//! Runs suites against one target. Cases run in parallel, each in its own agent processes, and
//! produce one report.

pub(crate) mod case;
mod collect;
pub(crate) mod connection;
mod evidence;
pub mod home;
mod judging;
mod opening;
mod patience;
pub mod process;
pub mod prompts;
mod recorder;
pub mod recording;
pub mod rerun;
mod secrets;
mod services;
mod steps;
mod talk;
mod tools;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use tokio::sync::Semaphore;

use crate::model::{Report, SCHEMA, SuiteInfo, Target, Timing, Tool};
use crate::monitor::{self, Monitor};
use crate::suite::{Case, Protocol, Selection, Step, Suite, What};
pub use agentproto_sandbox::workplace::Workplace as Workspace;
use case::Played;
use collect::Collected;
pub use collect::file_name;
pub use patience::Patience;
use process::Launcher;
pub use secrets::Secrets;

/// Maximum number of cases that run in parallel.
const MOST_JOBS: u32 = 1000;

/// The mock model, which records the requests that it receives.
pub trait Model: Send + Sync {
    /// The requests whose user message contains this tag.
    fn asked(&self, tag: &str) -> Value;
}

/// How to log in if a session requires it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Login {
    /// Do not log in: a login may open a browser.
    No,
    /// The method with this id.
    With(String),
    /// The first method that the agent handles itself.
    First,
}

/// Settings that all cases share.
pub struct Setting {
    /// What is certified, and how it is started.
    pub launcher: Launcher,
    /// Prompts by key, from the prompts file.
    pub prompts: BTreeMap<String, String>,
    /// Time limit for a response.
    pub timeout: Duration,
    /// How long to listen in order to check that nothing is sent.
    pub quiet: Duration,
    /// Time between closing stdin and killing the process.
    pub grace: Duration,
    /// How to log in if a session requires it.
    pub login: Login,
    /// The mock model, if the agent runs with it.
    pub model: Option<Arc<dyn Model>>,
    /// Where cases create their directories.
    pub workspace: Workspace,
    /// Gives every case its own home directory.
    pub home: Option<home::Home>,
    /// Environment variable with a directory for the agent's state, one per case.
    pub state_variable: Option<&'static str>,
    /// What was learned about the time to answer `initialize`.
    pub starts: Patience,
    /// What was learned about the time to answer `session/new`.
    pub sessions: Patience,
    /// What was learned about the time to answer prompts.
    pub turns: Patience,
    /// Values that must not appear in a report.
    pub secrets: Secrets,
}

impl Setting {
    /// Default settings for a target: 30 seconds for a response, no login, no mock model, and the
    /// prompt that every agent understands.
    pub fn new(launcher: Launcher, workspace: Workspace) -> Self {
        Setting {
            secrets: Secrets::of(&[], &launcher),
            launcher,
            prompts: prompts::of_anybody(),
            timeout: Duration::from_secs(30),
            quiet: Duration::from_millis(300),
            grace: Duration::from_millis(1000),
            login: Login::No,
            model: None,
            workspace,
            home: None,
            state_variable: None,
            starts: Patience::default(),
            sessions: Patience::default(),
            turns: Patience::default(),
        }
    }

    /// Whether all cases share the agent's state, because they use the home directory of the user.
    fn shares_home(&self) -> bool {
        self.home.is_none() && self.state_variable.is_none()
    }

    /// Time limit for a whole case.
    pub fn longest_case(&self) -> Duration {
        self.timeout * 6 + Duration::from_secs(20)
    }

    /// Environment variables of one case.
    pub fn own_env(&self, root: &Path) -> io::Result<Vec<(String, String)>> {
        let mut env = match &self.home {
            Some(home) => home.furnish(root)?,
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
pub struct Options {
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
}

impl Default for Options {
    /// All cases, two per processor at a time.
    fn default() -> Self {
        static NEVER: AtomicBool = AtomicBool::new(false);
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        Options {
            jobs: 2 * cores,
            shard: None,
            stop: &NEVER,
            keep_transcripts: false,
            only: Selection::default(),
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
pub fn monitors(protocol: Protocol) -> Vec<Box<dyn Monitor>> {
    match protocol {
        Protocol::Acp | Protocol::Lifecycle => monitor::acp(),
        Protocol::Mcp => monitor::mcp(),
        Protocol::AcpV2 => monitor::acp_v2(),
        // The probes of this suite check everything themselves.
        Protocol::Sessions => Vec::new(),
    }
}

/// Runs the suites. The result is always a report, even if cases fail internally.
pub async fn run(
    suites: Arc<Vec<Suite>>,
    target: Target,
    setting: Setting,
    options: Options,
    progress: Arc<dyn Progress>,
) -> Ran {
    let begun = Instant::now();
    let started = SystemTime::now().duration_since(UNIX_EPOCH);
    let setting = Arc::new(setting);
    let work: Vec<(usize, usize)> = chosen(&suites, &options);
    let jobs = u32::try_from(options.jobs).unwrap_or(MOST_JOBS);
    let jobs = jobs.clamp(1, MOST_JOBS);
    let places = Arc::new(Semaphore::new(jobs as usize));
    let all = work.len();
    let mut running = tokio::task::JoinSet::new();
    for (suite, case) in work {
        let (setting, suites) = (Arc::clone(&setting), Arc::clone(&suites));
        let (places, stop) = (Arc::clone(&places), options.stop);
        running.spawn(async move {
            let Some((of, the_case)) = at(&suites, suite, case) else {
                return (suite, case, None);
            };
            // A logout affects every case with the same login, so this case runs alone.
            let alone = setting.shares_home() && logs_out(&the_case.steps);
            let needed = if alone { jobs } else { 1 };
            let _place = places.acquire_many_owned(needed).await;
            if stop.load(Ordering::Relaxed) {
                return (suite, case, None);
            }
            let playing = case::play(the_case, of.protocol, &setting);
            let mut played = tokio::select! {
                played = playing => Some(played),
                () = stopped(stop) => None,
            };
            if let Some(played) = &mut played {
                let bundle = setting.launcher.bundle().map(Arc::as_ref);
                setting.secrets.leave(played, bundle);
            }
            (suite, case, played)
        });
    }
    let mut collected = Collected::new(options.only.clone(), options.keep_transcripts);
    let mut done = 0;
    let mut is_partial = false;
    while let Some(ended) = running.join_next().await {
        done += 1;
        match ended {
            Ok((suite, case, Some(played))) => {
                let Some((of, the_case)) = at(&suites, suite, case) else {
                    continue;
                };
                progress.done(&format!("{} {}", of.name, the_case.id), done, all);
                collected.case(suite, of, the_case, played);
            }
            Ok((suite, case, None)) => {
                is_partial = true;
                if let Some((of, the_case)) = at(&suites, suite, case) {
                    collected.stopped(suite, of, the_case);
                }
            }
            Err(error) => {
                // An internal error in one case is reported, and the other cases continue.
                collected.fault(&setting.secrets.text(&error.to_string()));
            }
        }
    }
    let mut timing = collected.timing.clone();
    timing.wall_ms = begun.elapsed().as_secs_f64() * 1000.0;
    timing.jobs = options.jobs;
    let mut target = target;
    collected.describe(&mut target);
    setting.secrets.leave_target(&mut target);
    let infos = suites.iter().map(|suite| SuiteInfo {
        name: suite.name.clone(),
        title: suite.title.clone(),
        requirements: suite.requirements.len(),
        cases: suite.cases.len(),
    });
    let infos = infos.collect();
    let seen = collected.seen();
    let never_answered = setting.starts.never_answered();
    if never_answered.is_some() {
        collected.never_began();
    }
    let (results, transcripts) = collected.finish(&suites);
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
        never_answered: never_answered.map(|how| setting.secrets.text(&how).into_owned()),
        selection: !options.only.is_everything(),
        shard: options.shard.map(|(i, n)| format!("{i}/{n}")),
    };
    crate::render::arrange(&mut report);
    report.sum_up();
    Ran {
        report,
        transcripts,
        seen,
    }
}

/// The result of a run.
pub struct Ran {
    /// The report.
    pub report: Report,
    /// Transcripts that were kept.
    pub transcripts: Vec<Transcribed>,
    /// For each requirement id, the cases in which monitors confirmed it.
    pub seen: BTreeMap<String, Vec<String>>,
}

impl Ran {
    /// The result if nothing could be run at all.
    pub fn failed(why: &str) -> Ran {
        let mut collected = Collected::new(Selection::default(), false);
        collected.fault(why);
        let (results, transcripts) = collected.finish(&[]);
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
            never_answered: None,
            selection: false,
            shard: None,
        };
        report.sum_up();
        Ran {
            report,
            transcripts,
            seen: BTreeMap::new(),
        }
    }
}

/// A transcript that is kept.
pub struct Transcribed {
    pub suite: String,
    pub case: String,
    pub transcript: agentproto_wire::Transcript,
}

fn at(suites: &[Suite], suite: usize, case: usize) -> Option<(&Suite, &Case)> {
    let of = suites.get(suite)?;
    Some((of, of.cases.get(case)?))
}

/// Whether a case logs out.
fn logs_out(steps: &[Step]) -> bool {
    steps.iter().any(|step| match &step.what {
        What::Call(request, _) | What::Send(request) => {
            ["logout", "auth/logout"].contains(&request.method.as_str())
        }
        What::ForEach { steps, .. } | What::Repeat { steps, .. } | What::When { steps, .. } => {
            logs_out(steps)
        }
        _ => false,
    })
}

/// The cases of this run, as indexes of suite and case.
fn chosen(suites: &[Suite], options: &Options) -> Vec<(usize, usize)> {
    let mut work = Vec::new();
    for (suite, of) in suites.iter().enumerate() {
        for (index, case) in of.cases.iter().enumerate() {
            let only = &options.only;
            if only.is_everything() || only.needs_witnesses || only.cases.contains(&case.id) {
                work.push((suite, index));
            }
        }
    }
    match options.shard {
        Some((index, of)) => {
            let mine = work
                .into_iter()
                .enumerate()
                .filter(|(at, _)| at % of.max(1) == index.saturating_sub(1));
            mine.map(|(_, case)| case).collect()
        }
        None => work,
    }
}

async fn stopped(stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Adds the times of one case.
fn add(timing: &mut Timing, played: &Played) {
    let ms = |time: Duration| time.as_secs_f64() * 1000.0;
    timing.startup_ms += ms(played.startup);
    timing.waits_ms += ms(played.waits);
    timing.agent_ms += ms(played.agent);
    timing.processes += played.notes.len() as u64;
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
        assert_eq!(found, ["acp AU-09", "acp-v2-draft V2-02"]);
    }
}
