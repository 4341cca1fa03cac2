//! What all checks share: the target, its runs, and what was found.

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

/// All runs together keep so much of what was printed; of later ones only the beginning is kept.
const KEPT_IN_ALL: usize = 256 << 20;
const KEPT_THEN: usize = 64 << 10;
/// What a line costs beside its bytes, once it is read as an event.
const COST_OF_LINE: usize = 128;
/// A run that the machine had no time for is tried so often in all.
const FAIR_TRIES: usize = 3;

/// What the caller wants beside the defaults.
#[derive(Clone, Debug)]
pub struct Options {
    /// A SHOULD that is broken fails.
    pub strict: bool,
    /// Runs at a time.
    pub jobs: usize,
    pub limit: Duration,
    pub discovery_limit: Duration,
    /// Only these checks; none named means all of them.
    pub only: Vec<Check>,
    /// Rules whose weight the caller has changed.
    pub severities: BTreeMap<String, Verdict>,
    /// The reference's seven assertions, too.
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

/// What the tool says of itself: `capabilities --output json`, if it could be read.
#[derive(Clone, Debug, Default)]
pub struct Declared {
    pub capabilities: Option<Value>,
    /// Schema by version asked for; "" is what comes without asking.
    pub schemas: BTreeMap<String, Value>,
}

impl Declared {
    /// The entry of a command in `capabilities.commands`.
    pub fn command(&self, name: &str) -> Option<&Value> {
        let commands = self.capabilities.as_ref()?.get("commands")?.as_array()?;
        commands
            .iter()
            .find(|entry| entry.get("name").and_then(Value::as_str) == Some(name))
    }

    pub fn flag(&self, command: &str, key: &str) -> Option<bool> {
        self.command(command)?.get(key)?.as_bool()
    }
}

pub struct Session {
    pub probe: Probe,
    pub options: Options,
    pub declared: OnceCell<Declared>,
    pub isolation: Isolation,
    /// The tool's words, the program by its path.
    pub argv: Vec<OsString>,
    pub costs: Costs,
    pub stop: &'static std::sync::atomic::AtomicBool,
    root: PathBuf,
    worlds: AtomicU64,
    sweeper: Sweeper,
    /// For everything that changes nothing.
    common: World,
    lanes: Arc<Lanes>,
    /// Mutating probes one after another: they share what they change.
    pub mutations: tokio::sync::Mutex<()>,
    captures: Mutex<Vec<Arc<Capture>>>,
    findings: Mutex<Vec<Finding>>,
    /// Why a run could not be started.
    unstarted: Mutex<Option<String>>,
    kept: AtomicUsize,
    uniq: AtomicU64,
}

/// How a run differs from the usual one.
#[derive(Clone, Debug, Default)]
pub struct How {
    pub input: Input,
    pub output: Output,
    pub reader: Reader,
    pub stderr_closed: bool,
    /// Behind the walls of discovery.
    pub isolated: bool,
    /// Other walls than those.
    pub walls: Option<Walls>,
    pub env: Vec<(String, String)>,
    pub limit: Option<Duration>,
    /// Without the words for machine mode, and not judged as such.
    pub human: bool,
    pub version: Option<String>,
    pub canaries: bool,
    /// Words that make it take its time.
    pub slow: bool,
    /// Without others of ours that keep the machine busy.
    pub alone: bool,
    /// Where it happens; the common world where this is not said.
    pub world: Option<World>,
}

/// A command line with options more. They stand before `--`: what follows it is no option.
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

    /// A world of its own, for a probe that changes something.
    pub fn world(&self) -> std::io::Result<World> {
        let number = self.worlds.fetch_add(1, Ordering::Relaxed);
        let world = World::new(self.root.join(format!("world-{number}")))?;
        Ok(world.swept_by(&self.sweeper))
    }

    /// A text that no other probe uses.
    pub fn uniq(&self) -> String {
        let number = self.uniq.fetch_add(1, Ordering::Relaxed);
        format!("{}-{number}", std::process::id())
    }

    /// Fills `{uniq}`, `{world}` and other names in.
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

    /// The common world.
    pub fn common(&self) -> &World {
        &self.common
    }

    /// Runs the tool with some words; machine mode's own are added to the options. What did not
    /// end in time because the machine was busy has a second chance where that changes nothing.
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
        // What goes on until it is stopped may want its place for itself.
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

    /// A run of a command that may be run again. Where the machine had no time for it and that
    /// may be why it is `odd`, it is tried again.
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

    /// A target that prints much in every run is kept in part.
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

    /// Why, where not one run could be started.
    pub fn never_started(&self) -> Option<String> {
        let why = self.unstarted.lock();
        why.clone().filter(|_| self.costs.runs() == 0)
    }

    fn keep(&self, capture: Arc<Capture>) {
        self.captures.lock().push(capture);
    }

    /// Every run so far, for the checks that look at all of them.
    pub fn captures(&self) -> Vec<Arc<Capture>> {
        self.captures.lock().clone()
    }

    pub fn find(&self, finding: Finding) {
        self.findings.lock().push(finding);
    }

    pub fn findings(&self) -> Vec<Finding> {
        self.findings.lock().clone()
    }

    /// The verdict on a rule that is broken.
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

/// The first run that says something: it is not odd, or it is so without the machine's help. The
/// first try goes beside others, further ones alone.
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
        stderr: format!("it was not started: {why}").into_bytes(),
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

/// Says what was found of one command.
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

    /// The rule is broken: it fails or warns by its weight. A run that the machine had no time for
    /// blames nobody.
    pub fn broken(self, rule: &Rule, message: impl Into<String>, capture: &Capture) {
        let message = message.into();
        match no_evidence(rule, capture) {
            Some(why) => {
                let message = format!("{why}; what was seen: {message}");
                self.say(rule, Verdict::NotVerified, message, Some(capture));
            }
            None => self.say(rule, self.session.weight(rule), message, Some(capture)),
        }
    }

    /// Broken where `wrong` has a message, and held otherwise.
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

/// Why a run says nothing about a rule, whatever it looks like.
fn no_evidence(rule: &Rule, capture: &Capture) -> Option<String> {
    if !capture.started {
        return Some("the run could not be started".to_owned());
    }
    let is_timed = capture.end == End::TimedOut || rules::is_timed(rule);
    (is_timed && capture.is_starved()).then(|| {
        let (waited, all) = (capture.starved.as_millis(), capture.elapsed.as_millis());
        format!("the machine was busy: {waited} of {all} ms went by in waiting for a processor")
    })
}

/// The command line to type, without what was secret in it.
fn repro(capture: &Capture) -> Vec<String> {
    let words = capture.argv.iter().map(|word| word.to_string_lossy());
    words.map(|word| crate::canary::masked(&word)).collect()
}

/// How a run went, for the report: the first bytes of what it said, with canaries masked.
fn evidence(capture: &Capture) -> serde_json::Map<String, Value> {
    let shown = |bytes: &[u8]| {
        let part = bytes.get(..2000).unwrap_or(bytes);
        crate::canary::masked(&String::from_utf8_lossy(part))
    };
    let value = json!({
        "probe": capture.probe,
        "env": capture.env,
        "end": match capture.flooded {
            true => "it printed more than is kept, and was ended".to_owned(),
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

    /// A run that ended so, in a world that had no processor for it for some milliseconds.
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
    async fn a_run_that_the_machine_had_no_time_for_is_tried_again() {
        let killed = End::Signal(libc::SIGINT);
        let (busy, calm, good) = (1100, 900, End::Code(130));
        for (runs, tries, expected) in [
            (vec![(busy, killed), (calm, killed)], 2, killed),
            (vec![(busy, killed), (busy, good)], 2, good),
            (vec![(busy, killed); 9], FAIR_TRIES, killed),
            // Neither a good run nor a calm one needs another.
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
    fn a_run_that_the_machine_had_no_time_for_blames_nobody() {
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
