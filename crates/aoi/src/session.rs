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

use crate::capture::{Capture, ExitKind};
use crate::checks;
use crate::cleanup::Cleaner;
use crate::isolation::{Isolation, IsolationBackend};
use crate::model::{CheckId, Finding, Verdict};
use crate::probe::{ProbeCommand, ProbeSpec, placeholders};
use crate::rules::{self, Level, Rule};
use crate::run::{self, ReadMode, RunDirs, RunSpec, RunStats, StdinSource, StdoutTarget};
use crate::shared::{RunSlots, SharedEnvironment};

/// Maximum number of bytes kept over all runs. Beyond it, only
/// `MAX_BYTES_BEYOND_TOTAL` bytes of each stream are kept.
const MAX_TOTAL_BYTES: usize = 256 << 20;
/// Bytes kept of each stream once `MAX_TOTAL_BYTES` is exceeded.
const MAX_BYTES_BEYOND_TOTAL: usize = 64 << 10;
/// Memory cost of a line in addition to its bytes, once it is parsed as an event.
const LINE_OVERHEAD: usize = 128;
/// Maximum number of tries of a run that was slowed down by a busy machine.
const MAX_TRIES: usize = 3;

/// Options of a lint run.
#[derive(Clone, Debug)]
pub struct LintOptions {
    /// Whether a violated SHOULD fails instead of warns.
    pub strict: bool,
    /// Maximum number of concurrent runs.
    pub jobs: usize,
    /// Time limit of a run.
    pub limit: Duration,
    /// Time limit of a discovery run.
    pub discovery_limit: Duration,
    /// Checks to report. Empty means all checks.
    pub only: Vec<CheckId>,
    /// Verdicts for violations, by rule id, that override the default.
    pub severities: BTreeMap<String, Verdict>,
    /// Called when a run starts.
    pub on_run: RunObserver,
    /// Called when a verdict is final.
    pub on_finding: FindingObserver,
    /// Whether to evaluate the seven assertions of the reference `aoi-lint` as well.
    pub compat: bool,
}

/// Receives the command and the name of each run when it starts.
#[derive(Clone, Default)]
pub struct RunObserver(Option<Arc<OnRun>>);

type OnRun = dyn Fn(&str, &str) + Send + Sync;

impl RunObserver {
    /// Calls this function.
    pub fn new(call: impl Fn(&str, &str) + Send + Sync + 'static) -> RunObserver {
        RunObserver(Some(Arc::new(call)))
    }

    fn notify(&self, command: &str, run: &str) {
        if let Some(call) = &self.0 {
            call(command, run);
        }
    }
}

impl std::fmt::Debug for RunObserver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RunObserver({})", self.0.is_some())
    }
}

/// Receives each finding as soon as it is decided.
#[derive(Clone, Default)]
pub struct FindingObserver(Option<Arc<OnFinding>>);

type OnFinding = dyn Fn(&Finding) + Send + Sync;

impl FindingObserver {
    /// Calls this function.
    pub fn new(call: impl Fn(&Finding) + Send + Sync + 'static) -> FindingObserver {
        FindingObserver(Some(Arc::new(call)))
    }
}

impl std::fmt::Debug for FindingObserver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FindingObserver({})", self.0.is_some())
    }
}

impl Default for LintOptions {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        LintOptions {
            strict: false,
            jobs: 2 * cores,
            limit: Duration::from_secs(10),
            discovery_limit: Duration::from_secs(30),
            only: Vec::new(),
            severities: BTreeMap::new(),
            on_run: RunObserver::default(),
            on_finding: FindingObserver::default(),
            compat: false,
        }
    }
}

/// What the tool declares about itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Declarations {
    /// Output of `capabilities --output json`, if it could be read.
    pub capabilities: Option<Value>,
    /// Schemas by requested version. The key "" is the schema without a requested version.
    pub schemas: BTreeMap<String, Value>,
}

impl Declarations {
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
pub(crate) struct LintSession {
    /// The probe file, or the probe guessed from a command line.
    pub probe: ProbeSpec,
    /// Options of the lint run.
    pub options: LintOptions,
    /// What the tool declares, once discovery has run.
    pub declared: OnceCell<Declarations>,
    /// Isolation for discovery runs.
    pub isolation: Isolation,
    /// Command line of the tool, with the full path of the program.
    pub argv: Vec<OsString>,
    /// Time and number of all runs.
    pub stats: RunStats,
    /// Set when the lint run is interrupted.
    pub stop: &'static std::sync::atomic::AtomicBool,
    root: PathBuf,
    next_dirs: AtomicU64,
    cleaner: Cleaner,
    /// Directories of all runs that change nothing.
    shared_dirs: RunDirs,
    slots: Arc<RunSlots>,
    /// Commands of the probe file, completed after discovery (`adapt`).
    adapted: OnceCell<Vec<ProbeCommand>>,
    /// Ids of the resources that commands without side effects need, by command name.
    targets: OnceCell<BTreeMap<String, String>>,
    /// Serializes mutating probes, because they share the state that they change.
    pub mutations: tokio::sync::Mutex<()>,
    captures: Mutex<Vec<Arc<Capture>>>,
    findings: Mutex<Vec<Finding>>,
    /// Why the last run could not be started.
    last_start_error: Mutex<Option<String>>,
    kept_bytes: AtomicUsize,
    uniq: AtomicU64,
}

/// Differences from a default run.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunOptions {
    /// What stdin is connected to.
    pub input: StdinSource,
    /// What stdout is connected to.
    pub output: StdoutTarget,
    /// How stdout is read.
    pub reader: ReadMode,
    /// Whether the read end of stderr is closed.
    pub stderr_closed: bool,
    /// Whether to run in the isolation of discovery.
    pub isolated: bool,
    /// Isolation to use if `isolated` is not set.
    pub backend: Option<IsolationBackend>,
    /// Additional environment variables.
    pub env: Vec<(String, String)>,
    /// Time limit, if it differs from `LintOptions::limit`.
    pub limit: Option<Duration>,
    /// Whether to run without the machine-mode options. Stdout is then not checked as machine mode.
    pub no_machine_args: bool,
    /// Requested schema version.
    pub version: Option<String>,
    /// Whether the command line contains fake secrets.
    pub canaries: bool,
    /// Whether the command line makes the tool take long.
    pub slow: bool,
    /// Whether to wait until no other busy run is active.
    pub alone: bool,
    /// Directories of the run. The default is the shared ones.
    pub dirs: Option<RunDirs>,
}

/// Adds options to a command line. They go before `--`, because arguments after it are not options.
pub(crate) fn with_options(words: &[String], more: &[String]) -> Vec<String> {
    let end = words.iter().position(|word| word == "--");
    let (options, rest) = words.split_at(end.unwrap_or(words.len()));
    [options, more, rest].concat()
}

impl LintSession {
    pub fn new(
        probe: ProbeSpec,
        options: LintOptions,
        argv: Vec<OsString>,
        root: PathBuf,
        shared: &SharedEnvironment,
        stop: &'static std::sync::atomic::AtomicBool,
    ) -> std::io::Result<LintSession> {
        let shared_dirs = RunDirs::new(root.join("common"))?;
        Ok(LintSession {
            declared: OnceCell::new(),
            isolation: shared.isolation.clone(),
            argv,
            stats: RunStats::default(),
            stop,
            next_dirs: AtomicU64::new(0),
            cleaner: Cleaner::new(),
            shared_dirs,
            slots: Arc::clone(&shared.slots),
            adapted: OnceCell::new(),
            targets: OnceCell::new(),
            mutations: tokio::sync::Mutex::new(()),
            captures: Mutex::default(),
            findings: Mutex::default(),
            last_start_error: Mutex::default(),
            kept_bytes: AtomicUsize::new(0),
            uniq: AtomicU64::new(0),
            root,
            probe,
            options,
        })
    }

    /// Creates directories for a probe that changes something.
    pub fn new_dirs(&self) -> std::io::Result<RunDirs> {
        let number = self.next_dirs.fetch_add(1, Ordering::Relaxed);
        let dirs = RunDirs::new(self.root.join(format!("world-{number}")))?;
        Ok(dirs.removed_by(&self.cleaner))
    }

    /// A string that no other probe uses.
    pub fn uniq(&self) -> String {
        let number = self.uniq.fetch_add(1, Ordering::Relaxed);
        format!("{}-{number}", std::process::id())
    }

    /// Replaces `{uniq}`, `{world}` and the given names.
    pub fn fill(&self, words: &[String], names: &[(&str, &str)], dirs: &RunDirs) -> Vec<String> {
        let uniq = words
            .iter()
            .any(|word| word.contains("{uniq}"))
            .then(|| self.uniq());
        let root = dirs.root.to_string_lossy();
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
    pub fn shared_dirs(&self) -> &RunDirs {
        &self.shared_dirs
    }

    /// Runs the tool with these arguments and the machine-mode options. A run that exceeded its
    /// time limit because the machine was busy is repeated once, if that is harmless.
    pub async fn run(
        &self,
        command: &str,
        probe: &str,
        words: &[String],
        how: RunOptions,
    ) -> Arc<Capture> {
        let again = RunOptions {
            alone: true,
            ..how.clone()
        };
        let is_second = how.alone;
        let run = self.run_once(command, probe, words, how).await;
        let is_suspicious = run.end == ExitKind::TimedOut && run.is_delayed() && !is_second;
        match is_suspicious && (again.isolated || self.may_repeat(command)) {
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
        how: RunOptions,
    ) -> Arc<Capture> {
        // An unbounded command may need a directory of its own.
        let is_unbounded = |known: &&ProbeCommand| known.name == command && known.unbounded;
        let own = match how.dirs.is_none() && self.commands().iter().any(|c| is_unbounded(&c)) {
            true => self.new_dirs().ok(),
            false => None,
        };
        let dirs = how
            .dirs
            .as_ref()
            .or(own.as_ref())
            .unwrap_or(&self.shared_dirs);
        let words = match how.no_machine_args {
            true => words.to_vec(),
            false => with_options(words, &self.probe.machine_args),
        };
        let mut argv = self.argv.clone();
        argv.extend(
            words
                .iter()
                .map(|word| OsString::from(&*placeholders::unprotect(word))),
        );
        let mut env: Vec<(String, String)> = Vec::new();
        for (name, value) in &self.probe.env {
            if how.isolated && self.probe.credentials.env.contains(name) {
                continue;
            }
            let root = dirs.root.to_string_lossy();
            let value = value.replace("{world}", &root);
            env.push((name.clone(), placeholders::unprotect(&value).into_owned()));
        }
        env.extend(how.env);
        let spec = RunSpec {
            command: command.to_owned(),
            probe: probe.to_owned(),
            argv,
            env,
            input: match how.input {
                StdinSource::Bytes(bytes) => {
                    StdinSource::Bytes(placeholders::unprotect_bytes(bytes))
                }
                StdinSource::Held(bytes) => StdinSource::Held(placeholders::unprotect_bytes(bytes)),
                other => other,
            },
            output: how.output,
            stderr_closed: how.stderr_closed,
            reader: how.reader,
            backend: match how.isolated {
                true => self.isolation.backend.clone(),
                false => how.backend,
            },
            limit: how.limit.unwrap_or(self.options.limit),
            is_slow: how.slow,
            is_machine: !how.no_machine_args,
            version: how.version,
            canaries: how.canaries,
        };
        let permit = self.slots.acquire(&spec, how.alone).await;
        self.options.on_run.notify(command, probe);
        let done = run::run(&spec, dirs, &self.stats).await;
        drop(permit);
        let capture = Arc::new(match done {
            Ok(capture) => self.limit_memory(capture),
            Err(error) => {
                let why = error.to_string();
                let capture = not_started(spec, &why);
                *self.last_start_error.lock() = Some(why);
                capture
            }
        });
        self.store(Arc::clone(&capture));
        capture
    }

    /// Runs a command that may be repeated. It is repeated while the result `is_suspicious` and the
    /// machine was too busy to trust that.
    pub async fn run_with_retries(
        &self,
        command: &str,
        probe: &str,
        words: &[String],
        how: RunOptions,
        is_suspicious: impl Fn(&Capture) -> bool,
    ) -> Arc<Capture> {
        let again = async |alone| {
            let how = RunOptions {
                alone,
                ..how.clone()
            };
            self.run(command, probe, words, how).await
        };
        retry_if_delayed(again, is_suspicious).await
    }

    /// Truncates the output once all runs together exceed the memory limit.
    fn limit_memory(&self, mut capture: Capture) -> Capture {
        let lines = run::line_feeds(&capture.stdout);
        let size = capture.stdout.len() + capture.stderr.len() + LINE_OVERHEAD * lines;
        let before = self.kept_bytes.fetch_add(size, Ordering::Relaxed);
        if before.saturating_add(size) > MAX_TOTAL_BYTES {
            for kept_bytes in [&mut capture.stdout, &mut capture.stderr] {
                capture.flooded |= kept_bytes.len() > MAX_BYTES_BEYOND_TOTAL;
                kept_bytes.truncate(MAX_BYTES_BEYOND_TOTAL);
                kept_bytes.shrink_to_fit();
            }
        }
        capture
    }

    /// The reason, if no run at all could be started.
    pub fn start_error(&self) -> Option<String> {
        let why = self.last_start_error.lock();
        why.clone().filter(|_| self.stats.runs() == 0)
    }

    fn store(&self, capture: Arc<Capture>) {
        self.captures.lock().push(capture);
    }

    /// All runs so far, for the checks that examine every run.
    pub fn captures(&self) -> Vec<Arc<Capture>> {
        self.captures.lock().clone()
    }

    pub fn add_finding(&self, mut finding: Finding) {
        let only = &self.options.only;
        if let Some(call) = &self.options.on_finding.0
            && (only.is_empty() || only.contains(&finding.check))
        {
            crate::canary::mask(&mut finding);
            call(&finding);
        }
        self.findings.lock().push(finding);
    }

    pub fn findings(&self) -> Vec<Finding> {
        self.findings.lock().clone()
    }

    /// The verdict for a violation of the rule.
    fn violation_verdict(&self, rule: &Rule) -> Verdict {
        if let Some(verdict) = self.options.severities.get(rule.id) {
            return *verdict;
        }
        match rule.level {
            Level::Must => Verdict::Fail,
            Level::Should if self.options.strict => Verdict::Fail,
            Level::Should | Level::Open => Verdict::Warn,
        }
    }

    pub fn reporter<'s>(&'s self, command: &'s str) -> Reporter<'s> {
        Reporter {
            session: self,
            command,
        }
    }

    pub fn commands(&self) -> &[ProbeCommand] {
        self.adapted.get().unwrap_or(&self.probe.commands)
    }

    pub fn set_commands(&self, commands: Vec<ProbeCommand>) {
        let _ = self.adapted.set(commands);
    }

    pub fn set_targets(&self, targets: BTreeMap<String, String>) {
        let _ = self.targets.set(targets);
    }

    /// Id of the resource that was created for a command without side effects.
    pub fn shared_target(&self, command: &ProbeCommand) -> Option<&str> {
        let id = self.targets.get()?.get(&command.name);
        id.map(String::as_str)
    }

    /// Replaces the placeholders of a command line that changes nothing.
    pub fn fill_shared(&self, command: &ProbeCommand, words: &[String]) -> Vec<String> {
        let id = self.shared_target(command).map(|id| ("id", id));
        let names: Vec<(&str, &str)> = id.into_iter().collect();
        self.fill(words, &names, &self.shared_dirs)
    }

    pub fn is_selected(&self, check: u8) -> bool {
        let only = &self.options.only;
        only.is_empty() || only.contains(&CheckId::Number(check))
    }

    pub fn is_advisory_selected(&self) -> bool {
        let only = &self.options.only;
        only.is_empty() || only.contains(&CheckId::Advisory)
    }

    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Returns the first conclusive run: one that is not odd, or that was not slowed down by the
/// machine. The first try runs concurrently with others, further tries run alone.
async fn retry_if_delayed(
    run: impl AsyncFn(bool) -> Arc<Capture>,
    is_suspicious: impl Fn(&Capture) -> bool,
) -> Arc<Capture> {
    let mut last = run(false).await;
    for _ in 1..MAX_TRIES {
        if !(last.is_delayed() && is_suspicious(&last)) {
            break;
        }
        last = run(true).await;
    }
    last
}

fn not_started(spec: RunSpec, why: &str) -> Capture {
    Capture {
        command: spec.command,
        probe: spec.probe,
        argv: spec.argv,
        env: Vec::new(),
        output: spec.output,
        reader: spec.reader,
        stdout: Vec::new(),
        stderr: format!("the run could not be started: {why}").into_bytes(),
        terminal: None,
        flooded: false,
        end: ExitKind::Code(127),
        elapsed: Duration::ZERO,
        delay: Duration::ZERO,
        started: false,
        cpu: Duration::ZERO,
        arrivals: Vec::new(),
        action_done: false,
        alive_after_action: false,
        survivors: 0,
        stdout_held: false,
        network_attempts: 0,
        exit_delay: None,
        is_machine: false,
        version: spec.version,
        canaries: spec.canaries,
    }
}

/// Reports findings about one command.
#[derive(Clone, Copy)]
pub(crate) struct Reporter<'s> {
    pub session: &'s LintSession,
    pub command: &'s str,
}

impl Reporter<'_> {
    pub fn pass(self, rule: &Rule, message: impl Into<String>) {
        self.push(rule, Verdict::Pass, message, None);
    }

    pub fn not_verified(self, rule: &Rule, message: impl Into<String>) {
        self.push(rule, Verdict::NotVerified, message, None);
    }

    pub fn not_applicable(self, rule: &Rule, message: impl Into<String>) {
        self.push(rule, Verdict::NotApplicable, message, None);
    }

    pub fn skip(self, rule: &Rule, message: impl Into<String>) {
        self.push(rule, Verdict::Skip, message, None);
    }

    /// Reports a violation, which fails or warns depending on the rule. A run that the machine
    /// slowed down too much is reported as `not_verified`.
    pub fn violation(self, rule: &Rule, message: impl Into<String>, capture: &Capture) {
        let message = message.into();
        match inconclusive_reason(rule, capture) {
            Some(why) => {
                let message = format!("{why}; observed: {message}");
                self.push(rule, Verdict::NotVerified, message, Some(capture));
            }
            None => self.push(
                rule,
                self.session.violation_verdict(rule),
                message,
                Some(capture),
            ),
        }
    }

    /// Reports a violation if `violation` has a message, and a pass otherwise.
    pub fn decide(self, rule: &Rule, proof: &str, violation: Option<String>, capture: &Capture) {
        match violation {
            Some(message) => self.violation(rule, message, capture),
            None => self.pass(rule, proof),
        }
    }

    fn push(
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
        self.session.add_finding(finding);
    }
}

/// Why a run cannot decide a rule, whatever its output looks like.
fn inconclusive_reason(rule: &Rule, capture: &Capture) -> Option<String> {
    if !capture.started {
        return Some("the run could not be started".to_owned());
    }
    let is_timed = capture.end == ExitKind::TimedOut || rules::is_timed(rule);
    (is_timed && capture.is_delayed()).then(|| {
        let (waited, all) = (capture.delay.as_millis(), capture.elapsed.as_millis());
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
    let excerpt = |bytes: &[u8]| {
        let part = bytes.get(..2000).unwrap_or(bytes);
        crate::canary::masked(&String::from_utf8_lossy(part))
    };
    let value = json!({
        "probe": capture.probe,
        "env": capture.env,
        "end": match capture.flooded {
            true => "the tool printed more than the limit and was killed".to_owned(),
            false => capture.end.describe(),
        },
        "stdout": excerpt(&capture.stdout),
        "stdout_bytes": capture.stdout.len(),
        "stderr": excerpt(&capture.stderr),
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
    pub fn run(delay: u64, end: ExitKind) -> Capture {
        let spec = RunSpec {
            command: "watch".to_owned(),
            probe: "ok".to_owned(),
            argv: Vec::new(),
            env: Vec::new(),
            input: StdinSource::Null,
            output: StdoutTarget::Pipe,
            stderr_closed: false,
            reader: ReadMode::All,
            backend: None,
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
            delay: Duration::from_millis(delay),
            ..not_started(spec, "")
        }
    }

    #[tokio::test]
    async fn a_suspicious_run_on_a_busy_machine_is_repeated() {
        let killed = ExitKind::Signal(libc::SIGINT);
        let (busy, calm, good) = (1100, 900, ExitKind::Code(130));
        for (runs, tries, expected) in [
            (vec![(busy, killed), (calm, killed)], 2, killed),
            (vec![(busy, killed), (busy, good)], 2, good),
            (vec![(busy, killed); 9], MAX_TRIES, killed),
            // A good run and a run on an idle machine are not repeated.
            (vec![(busy, good), (calm, killed)], 1, good),
            (vec![(calm, killed), (calm, good)], 1, killed),
        ] {
            let begun = std::cell::RefCell::new(Vec::new());
            let next = async |alone| {
                let (delay, end) = runs[begun.borrow().len()];
                begun.borrow_mut().push(alone);
                Arc::new(run(delay, end))
            };
            let last = retry_if_delayed(next, |run| run.end == killed).await;
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
            inconclusive_reason(rule, capture).is_none()
        };
        let (silent, line) = ("AOI-10.unbounded-silent", "AOI-12.line-number");
        for (rule, delay, end, expected) in [
            (silent, 900, ExitKind::Code(0), true),
            (silent, 1100, ExitKind::Code(0), false),
            (line, 1100, ExitKind::Code(0), true),
            (line, 1100, ExitKind::TimedOut, false),
            (line, 900, ExitKind::TimedOut, true),
        ] {
            let run = run(delay, end);
            assert_eq!(says(rule, &run), expected, "{rule} {delay} {end:?}");
        }
        let refused = Capture {
            started: false,
            ..run(0, ExitKind::Code(127))
        };
        assert!(!says(line, &refused));
    }
}
