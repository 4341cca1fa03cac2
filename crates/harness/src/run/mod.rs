//! Runs suites against one target: cases side by side, each in processes of its own, and one
//! report at the end.

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

/// More at a time is no use to anybody.
const MOST_JOBS: u32 = 1000;

/// A model that can be asked what it was asked.
pub trait Model: Send + Sync {
    /// The questions with this tag in what the user said.
    fn asked(&self, tag: &str) -> Value;
}

/// How to log in where a session needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Login {
    /// Not at all: a login may open a browser.
    No,
    With(String),
    /// The first method that the agent itself handles.
    First,
}

/// Everything that all cases share.
pub struct Setting {
    pub launcher: Launcher,
    pub prompts: BTreeMap<String, String>,
    pub timeout: Duration,
    /// How long nothing may come, where that is the question.
    pub quiet: Duration,
    /// From the end of input to force.
    pub grace: Duration,
    pub login: Login,
    pub model: Option<Arc<dyn Model>>,
    pub workspace: Workspace,
    /// A home of its own for every case.
    pub home: Option<home::Home>,
    /// A variable that names a directory in which the agent may keep things, case by case.
    pub state_variable: Option<&'static str>,
    /// What was learned about answers to initialize, to session/new, and to prompts.
    pub starts: Patience,
    pub sessions: Patience,
    pub turns: Patience,
    /// What no report may tell.
    pub secrets: Secrets,
}

impl Setting {
    /// Whether all cases find what an agent keeps in one place: the user's own home.
    fn shares_home(&self) -> bool {
        self.home.is_none() && self.state_variable.is_none()
    }

    /// However patient its steps are, a case has an end.
    pub fn longest_case(&self) -> Duration {
        self.timeout * 6 + Duration::from_secs(20)
    }

    /// Variables that differ from case to case.
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

/// Which cases are run, and how many at a time.
pub struct Options {
    pub jobs: usize,
    /// This part of the cases: index from 1, of so many.
    pub shard: Option<(usize, usize)>,
    /// Set from outside: no new case is started, running ones are ended.
    pub stop: &'static AtomicBool,
    pub keep_transcripts: bool,
    /// Only these.
    pub only: Selection,
}

/// Hears how a run goes on.
pub trait Progress: Send + Sync {
    fn done(&self, what: &str, done: usize, all: usize);
}

/// Nobody listens.
impl Progress for () {
    fn done(&self, _: &str, _: usize, _: usize) {}
}

pub fn monitors(protocol: Protocol) -> Vec<Box<dyn Monitor>> {
    match protocol {
        Protocol::Acp | Protocol::Lifecycle => monitor::acp(),
        Protocol::Mcp => monitor::mcp(),
        Protocol::AcpV2 => monitor::acp_v2(),
        // Their probes judge by themselves.
        Protocol::Sessions => Vec::new(),
    }
}

/// Runs the suites; whatever happens, there is a report.
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
            // A logout is felt by every case that uses the same login: it has all places.
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
                // A fault of ours in one case is told, and the others go on.
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

/// What a run came to.
pub struct Ran {
    pub report: Report,
    pub transcripts: Vec<Transcribed>,
    /// By statement the cases in which monitors saw it hold.
    pub seen: BTreeMap<String, Vec<String>>,
}

impl Ran {
    /// Nothing could be run at all.
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

/// A transcript that is worth keeping.
pub struct Transcribed {
    pub suite: String,
    pub case: String,
    pub transcript: agentproto_wire::Transcript,
}

fn at(suites: &[Suite], suite: usize, case: usize) -> Option<(&Suite, &Case)> {
    let of = suites.get(suite)?;
    Some((of, of.cases.get(case)?))
}

/// Whether a case ends a login.
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

/// The cases of this run, by suite and index.
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

/// Sums of one case.
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
    fn cases_that_end_a_login_are_known() {
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
