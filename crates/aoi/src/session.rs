//! State that all checks share: the tool, its runs, and the findings.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::capture::{Capture, End};
use crate::checks;
use crate::ground::{Ground, Lanes};
use crate::isolation::{Isolation, Walls};
use crate::model::{Check, Finding, Verdict};
use crate::probe::{Command, Probe, braces};
use crate::rules::{self, Level, Rule};
use crate::run::{self, Costs, Input, Launch, Output, Reader, World};
use crate::sweep::Sweeper;

/// Maximum number of bytes kept over all runs. Beyond it, only `KEPT_THEN` bytes of each stream are
/// kept.
const KEPT_IN_ALL: usize = 256 << 20;
/// Bytes kept of each stream once `KEPT_IN_ALL` is exceeded.
const KEPT_THEN: usize = 64 << 10;
/// Memory cost of a line in addition to its bytes, once it is parsed as an event.
const COST_OF_LINE: usize = 128;
/// Maximum number of tries of a run that was slowed down by a busy machine.
const FAIR_TRIES: usize = 3;

/// Options of a lint run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether a violated SHOULD fails instead of warns.
    pub strict: bool,
    /// Maximum number of concurrent runs.
    pub jobs: usize,
    /// Time limit of a run.
    pub limit: Duration,
    /// Time limit of a discovery run.
    pub discovery_limit: Duration,
    /// Checks to report. Empty means all checks.
    pub only: Vec<Check>,
    /// Verdicts for violations, by rule id, that override the default.
    pub severities: BTreeMap<String, Verdict>,
    /// Whether to evaluate the seven assertions of the reference `aoi-lint` as well.
    pub compat: bool,
}

impl Default for Options {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        Options {
            strict: false,
            jobs: 2 * cores,
            limit: Duration::from_secs(10),
            discovery_limit: Duration::from_secs(30),
            only: Vec::new(),
            severities: BTreeMap::new(),
            compat: false,
        }
    }
}

/// What the tool declares about itself.
#[derive(Clone, Debug, Default)]
pub struct Declared {
    /// Output of `capabilities --output json`, if it could be read.
    pub capabilities: Option<Value>,
    /// Schemas by requested version. The key "" is the schema without a requested version.
    pub schemas: BTreeMap<String, Value>,
}

impl Declared {
    /// Entry of a command in `capabilities.commands`.
    pub fn command(&self, name: &str) -> Option<&Value> {
        let commands = self.capabilities.as_ref()?.get("commands")?.as_array()?;
        commands
            .iter()
            .find(|entry| entry.get("name").and_then(Value::as_str) == Some(name))
    }

    /// Boolean field of a command's entry in `capabilities`.
    pub fn flag(&self, command: &str, key: &str) -> Option<bool> {
        self.command(command)?.get(key)?.as_bool()
    }
}

/// State of one lint run.
pub struct Session {
    /// The probe file, or the probe guessed from a command line.
    pub probe: Probe,
    /// Options of the lint run.
    pub options: Options,
    /// What the tool declares, once discovery has run.
    pub declared: OnceCell<Declared>,
    /// Isolation for discovery runs.
    pub isolation: Isolation,
    /// Command line of the tool, with the full path of the program.
    pub argv: Vec<OsString>,
    /// Time and number of all runs.
    pub costs: Costs,
    /// Set when the lint run is interrupted.
    pub stop: &'static std::sync::atomic::AtomicBool,
    root: PathBuf,
    worlds: AtomicU64,
    sweeper: Sweeper,
    /// Directories of all runs that change nothing.
    common: World,
    lanes: Arc<Lanes>,
    /// Serializes mutating probes, because they share the state that they change.
    pub mutations: tokio::sync::Mutex<()>,
    captures: Mutex<Vec<Arc<Capture>>>,
    findings: Mutex<Vec<Finding>>,
    /// Why the last run could not be started.
    unstarted: Mutex<Option<String>>,
    kept: AtomicUsize,
    uniq: AtomicU64,
}

/// Differences from a default run.
#[derive(Clone, Debug, Default)]
pub struct How {
    /// What stdin is connected to.
    pub input: Input,
    /// What stdout is connected to.
    pub output: Output,
    /// How stdout is read.
    pub reader: Reader,
    /// Whether the read end of stderr is closed.
    pub stderr_closed: bool,
    /// Whether to run in the isolation of discovery.
    pub isolated: bool,
    /// Isolation to use if `isolated` is not set.
    pub walls: Option<Walls>,
    /// Additional environment variables.
    pub env: Vec<(String, String)>,
    /// Time limit, if it differs from `Options::limit`.
    pub limit: Option<Duration>,
    /// Whether to run without the machine-mode options. Stdout is then not checked as machine mode.
    pub human: bool,
    /// Requested schema version.
    pub version: Option<String>,
    /// Whether the command line contains fake secrets.
    pub canaries: bool,
    /// Whether the command line makes the tool take long.
    pub slow: bool,
    /// Whether to wait until no other busy run is active.
    pub alone: bool,
    /// Directories of the run. The default is the shared ones.
    pub world: Option<World>,
}

/// Adds options to a command line. They go before `--`, because arguments after it are not options.
pub fn with_options(words: &[String], more: &[String]) -> Vec<String> {
    let end = words.iter().position(|word| word == "--");
    let (options, rest) = words.split_at(end.unwrap_or(words.len()));
    [options, more, rest].concat()
}

impl Session {
    pub fn new(
        probe: Probe,
        options: Options,
        argv: Vec<OsString>,
        root: PathBuf,
        ground: &Ground,
        stop: &'static std::sync::atomic::AtomicBool,
    ) -> std::io::Result<Session> {
        let common = World::new(root.join("common"))?;
        Ok(Session {
            declared: OnceCell::new(),
            isolation: ground.isolation.clone(),
            argv,
            costs: Costs::default(),
            stop,
            worlds: AtomicU64::new(0),
            sweeper: Sweeper::new(),
            common,
            lanes: Arc::clone(&ground.lanes),
            mutations: tokio::sync::Mutex::new(()),
            captures: Mutex::default(),
            findings: Mutex::default(),
            unstarted: Mutex::default(),
            kept: AtomicUsize::new(0),
            uniq: AtomicU64::new(0),
            root,
            probe,
            options,
        })
    }

    /// Creates directories for a probe that changes something.
    pub fn world(&self) -> std::io::Result<World> {
        let number = self.worlds.fetch_add(1, Ordering::Relaxed);
        let world = World::new(self.root.join(format!("world-{number}")))?;
        Ok(world.swept_by(&self.sweeper))
    }

    /// A string that no other probe uses.
    pub fn uniq(&self) -> String {
        let number = self.uniq.fetch_add(1, Ordering::Relaxed);
        format!("{}-{number}", std::process::id())
    }

    /// Replaces `{uniq}`, `{world}` and the given names.
    pub fn fill(&self, words: &[String], names: &[(&str, &str)], world: &World) -> Vec<String> {
        let uniq = words
            .iter()
            .any(|word| word.contains("{uniq}"))
            .then(|| self.uniq());
        let root = world.root.to_string_lossy();
        words
            .iter()
            .map(|word| {
                let mut word = word.replace("{world}", &root);
                if let Some(uniq) = &uniq {
                    word = word.replace("{uniq}", uniq);
                }
                for (name, value) in names {
                    word = word.replace(&format!("{{{name}}}"), value);
                }
                word
            })
            .collect()
    }

    /// Directories shared by all runs that change nothing.
    pub fn common(&self) -> &World {
        &self.common
    }

    /// Runs the tool with these arguments and the machine-mode options. A run that exceeded its
    /// time limit because the machine was busy is repeated once, if that is harmless.
    pub async fn run(
        &self,
        command: &str,
        probe: &str,
        words: &[String],
        how: How,
    ) -> Arc<Capture> {
        let again = How {
            alone: true,
            ..how.clone()
        };
        let is_second = how.alone;
        let run = self.run_once(command, probe, words, how).await;
        let is_doubtful = run.end == End::TimedOut && run.is_starved() && !is_second;
        match is_doubtful && (again.isolated || self.may_repeat(command)) {
            true => self.run_once(command, probe, words, again).await,
            false => run,
        }
    }

    fn may_repeat(&self, command: &str) -> bool {
        let known = self.commands().iter().find(|known| known.name == command);
        known.is_some_and(|known| checks::is_harmless(self, known))
    }

    async fn run_once(
        &self,
        command: &str,
        probe: &str,
        words: &[String],
        how: How,
    ) -> Arc<Capture> {
        // An unbounded command may need a directory of its own.
        let is_endless = |known: &&Command| known.name == command && known.unbounded;
        let own = match how.world.is_none() && self.commands().iter().any(|c| is_endless(&c)) {
            true => self.world().ok(),
            false => None,
        };
        let world = how.world.as_ref().or(own.as_ref()).unwrap_or(&self.common);
        let words = match how.human {
            true => words.to_vec(),
            false => with_options(words, &self.probe.machine_args),
        };
        let mut argv = self.argv.clone();
        argv.extend(
            words
                .iter()
                .map(|word| OsString::from(&*braces::shown(word))),
        );
        let mut env: Vec<(String, String)> = Vec::new();
        for (name, value) in &self.probe.env {
            if how.isolated && self.probe.credentials.env.contains(name) {
                continue;
            }
            let root = world.root.to_string_lossy();
            let value = value.replace("{world}", &root);
            env.push((name.clone(), braces::shown(&value).into_owned()));
        }
        env.extend(how.env);
        let launch = Launch {
            command: command.to_owned(),
            probe: probe.to_owned(),
            argv,
            env,
            input: match how.input {
                Input::Bytes(bytes) => Input::Bytes(braces::shown_bytes(bytes)),
                other => other,
            },
            output: how.output,
            stderr_closed: how.stderr_closed,
            reader: how.reader,
            walls: match how.isolated {
                true => self.isolation.walls.clone(),
                false => how.walls,
            },
            limit: how.limit.unwrap_or(self.options.limit),
            is_slow: how.slow,
            is_machine: !how.human,
            version: how.version,
            canaries: how.canaries,
        };
        let turn = self.lanes.enter(&launch, how.alone).await;
        let done = run::run(&launch, world, &self.costs).await;
        drop(turn);
        let capture = Arc::new(match done {
            Ok(capture) => self.within_memory(capture),
            Err(error) => {
                let why = error.to_string();
                let capture = not_started(launch, &why);
                *self.unstarted.lock() = Some(why);
                capture
            }
        });
        self.keep(Arc::clone(&capture));
        capture
    }

    /// Runs a command that may be repeated. It is repeated while the result is `odd` and the
    /// machine was too busy to trust that.
    pub async fn run_fairly(
        &self,
        command: &str,
        probe: &str,
        words: &[String],
        how: How,
        odd: impl Fn(&Capture) -> bool,
    ) -> Arc<Capture> {
        let again = async |alone| {
            let how = How {
                alone,
                ..how.clone()
            };
            self.run(command, probe, words, how).await
        };
        fairly(again, odd).await
    }

    /// Truncates the output once all runs together exceed the memory limit.
    fn within_memory(&self, mut capture: Capture) -> Capture {
        let lines = run::line_feeds(&capture.stdout);
        let size = capture.stdout.len() + capture.stderr.len() + COST_OF_LINE * lines;
        let before = self.kept.fetch_add(size, Ordering::Relaxed);
        if before.saturating_add(size) > KEPT_IN_ALL {
            for kept in [&mut capture.stdout, &mut capture.stderr] {
                capture.flooded |= kept.len() > KEPT_THEN;
                kept.truncate(KEPT_THEN);
                kept.shrink_to_fit();
            }
        }
        capture
    }

    /// The reason, if no run at all could be started.
    pub fn never_started(&self) -> Option<String> {
        let why = self.unstarted.lock();
        why.clone().filter(|_| self.costs.runs() == 0)
    }

    fn keep(&self, capture: Arc<Capture>) {
        self.captures.lock().push(capture);
    }

    /// All runs so far, for the checks that examine every run.
    pub fn captures(&self) -> Vec<Arc<Capture>> {
        self.captures.lock().clone()
    }

    pub fn find(&self, finding: Finding) {
        self.findings.lock().push(finding);
    }

    pub fn findings(&self) -> Vec<Finding> {
        self.findings.lock().clone()
    }

    /// The verdict for a violation of the rule.
    fn weight(&self, rule: &Rule) -> Verdict {
        if let Some(verdict) = self.options.severities.get(rule.id) {
            return *verdict;
        }
        match rule.level {
            Level::Must => Verdict::Fail,
            Level::Should if self.options.strict => Verdict::Fail,
            Level::Should | Level::Open => Verdict::Warn,
        }
    }

    pub fn judge<'s>(&'s self, command: &'s str) -> Judge<'s> {
        Judge {
            session: self,
            command,
        }
    }

    pub fn commands(&self) -> &[Command] {
        &self.probe.commands
    }

    pub fn wants(&self, check: u8) -> bool {
        let only = &self.options.only;
        only.is_empty() || only.contains(&Check::Number(check))
    }

    pub fn wants_advisory(&self) -> bool {
        let only = &self.options.only;
        only.is_empty() || only.contains(&Check::Advisory)
    }

    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Returns the first conclusive run: one that is not odd, or that was not slowed down by the
/// machine. The first try runs concurrently with others, further tries run alone.
async fn fairly(
    run: impl AsyncFn(bool) -> Arc<Capture>,
    odd: impl Fn(&Capture) -> bool,
) -> Arc<Capture> {
    let mut last = run(false).await;
    for _ in 1..FAIR_TRIES {
        if !(last.is_starved() && odd(&last)) {
            break;
        }
        last = run(true).await;
    }
    last
}

fn not_started(launch: Launch, why: &str) -> Capture {
    Capture {
        command: launch.command,
        probe: launch.probe,
        argv: launch.argv,
        env: Vec::new(),
        output: launch.output,
        reader: launch.reader,
        stdout: Vec::new(),
        stderr: format!("the run could not be started: {why}").into_bytes(),
        flooded: false,
        end: End::Code(127),
        elapsed: Duration::ZERO,
        starved: Duration::ZERO,
        started: false,
        cpu: Duration::ZERO,
        arrivals: Vec::new(),
        acted: false,
        outlived: false,
        survivors: 0,
        held: false,
        after_act: None,
        is_machine: false,
        version: launch.version,
        canaries: launch.canaries,
    }
}

/// Reports findings about one command.
#[derive(Clone, Copy)]
pub struct Judge<'s> {
    pub session: &'s Session,
    pub command: &'s str,
}

impl Judge<'_> {
    pub fn pass(self, rule: &Rule, message: impl Into<String>) {
        self.say(rule, Verdict::Pass, message, None);
    }

    pub fn not_verified(self, rule: &Rule, message: impl Into<String>) {
        self.say(rule, Verdict::NotVerified, message, None);
    }

    pub fn not_applicable(self, rule: &Rule, message: impl Into<String>) {
        self.say(rule, Verdict::NotApplicable, message, None);
    }

    pub fn skip(self, rule: &Rule, message: impl Into<String>) {
        self.say(rule, Verdict::Skip, message, None);
    }

    /// Reports a violation, which fails or warns depending on the rule. A run that the machine
    /// slowed down too much is reported as `not_verified`.
    pub fn broken(self, rule: &Rule, message: impl Into<String>, capture: &Capture) {
        let message = message.into();
        match no_evidence(rule, capture) {
            Some(why) => {
                let message = format!("{why}; observed: {message}");
                self.say(rule, Verdict::NotVerified, message, Some(capture));
            }
            None => self.say(rule, self.session.weight(rule), message, Some(capture)),
        }
    }

    /// Reports a violation if `wrong` has a message, and a pass otherwise.
    pub fn held(self, rule: &Rule, proof: &str, wrong: Option<String>, capture: &Capture) {
        match wrong {
            Some(message) => self.broken(rule, message, capture),
            None => self.pass(rule, proof),
        }
    }

    fn say(
        self,
        rule: &Rule,
        verdict: Verdict,
        message: impl Into<String>,
        capture: Option<&Capture>,
    ) {
        let message = crate::canary::masked(&message.into());
        let mut finding = Finding::new(rule, self.command, verdict, message);
        if let Some(capture) = capture {
            finding.repro = repro(capture);
            finding.evidence = evidence(capture);
        }
        self.session.find(finding);
    }
}

/// Why a run cannot decide a rule, whatever its output looks like.
fn no_evidence(rule: &Rule, capture: &Capture) -> Option<String> {
    if !capture.started {
        return Some("the run could not be started".to_owned());
    }
    let is_timed = capture.end == End::TimedOut || rules::is_timed(rule);
    (is_timed && capture.is_starved()).then(|| {
        let (waited, all) = (capture.starved.as_millis(), capture.elapsed.as_millis());
        format!("the machine was busy: the run waited {waited} of {all} ms for a CPU")
    })
}

/// Command line that reproduces the run, with fake secrets masked.
fn repro(capture: &Capture) -> Vec<String> {
    let words = capture.argv.iter().map(|word| word.to_string_lossy());
    words.map(|word| crate::canary::masked(&word)).collect()
}

/// Details of a run for the report: the first 2000 bytes of its output, with fake secrets masked.
fn evidence(capture: &Capture) -> serde_json::Map<String, Value> {
    let shown = |bytes: &[u8]| {
        let part = bytes.get(..2000).unwrap_or(bytes);
        crate::canary::masked(&String::from_utf8_lossy(part))
    };
    let value = json!({
        "probe": capture.probe,
        "env": capture.env,
        "end": match capture.flooded {
            true => "the tool printed more than the limit and was killed".to_owned(),
            false => capture.end.told(),
        },
        "stdout": shown(&capture.stdout),
        "stdout_bytes": capture.stdout.len(),
        "stderr": shown(&capture.stderr),
        "elapsed_ms": u64::try_from(capture.elapsed.as_millis()).unwrap_or(u64::MAX),
    });
    match value {
        Value::Object(fields) => fields,
        _ => serde_json::Map::new(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A run that ended like this, after waiting this many milliseconds for a CPU.
    pub fn run(starved: u64, end: End) -> Capture {
        let launch = Launch {
            command: "watch".to_owned(),
            probe: "ok".to_owned(),
            argv: Vec::new(),
            env: Vec::new(),
            input: Input::Null,
            output: Output::Pipe,
            stderr_closed: false,
            reader: Reader::All,
            walls: None,
            limit: Duration::from_secs(2),
            is_slow: false,
            is_machine: true,
            version: None,
            canaries: false,
        };
        Capture {
            started: true,
            end,
            elapsed: Duration::from_secs(2),
            starved: Duration::from_millis(starved),
            ..not_started(launch, "")
        }
    }

    #[tokio::test]
    async fn a_suspicious_run_on_a_busy_machine_is_repeated() {
        let killed = End::Signal(libc::SIGINT);
        let (busy, calm, good) = (1100, 900, End::Code(130));
        for (runs, tries, expected) in [
            (vec![(busy, killed), (calm, killed)], 2, killed),
            (vec![(busy, killed), (busy, good)], 2, good),
            (vec![(busy, killed); 9], FAIR_TRIES, killed),
            // A good run and a run on an idle machine are not repeated.
            (vec![(busy, good), (calm, killed)], 1, good),
            (vec![(calm, killed), (calm, good)], 1, killed),
        ] {
            let begun = std::cell::RefCell::new(Vec::new());
            let next = async |alone| {
                let (starved, end) = runs[begun.borrow().len()];
                begun.borrow_mut().push(alone);
                Arc::new(run(starved, end))
            };
            let last = fairly(next, |run| run.end == killed).await;
            assert_eq!(last.end, expected, "{runs:?}");
            let begun = begun.into_inner();
            assert_eq!(begun.len(), tries, "{runs:?}");
            assert!(!begun[0] && begun[1..].iter().all(|alone| *alone));
        }
    }

    #[test]
    fn timing_on_a_busy_machine_is_not_a_violation() {
        let says = |rule: &str, capture: &Capture| {
            let rule = rules::find(rule).unwrap();
            no_evidence(rule, capture).is_none()
        };
        let (silent, line) = ("AOI-10.unbounded-silent", "AOI-12.line-number");
        for (rule, starved, end, expected) in [
            (silent, 900, End::Code(0), true),
            (silent, 1100, End::Code(0), false),
            (line, 1100, End::Code(0), true),
            (line, 1100, End::TimedOut, false),
            (line, 900, End::TimedOut, true),
        ] {
            let run = run(starved, end);
            assert_eq!(says(rule, &run), expected, "{rule} {starved} {end:?}");
        }
        let refused = Capture {
            started: false,
            ..run(0, End::Code(127))
        };
        assert!(!says(line, &refused));
    }
}
