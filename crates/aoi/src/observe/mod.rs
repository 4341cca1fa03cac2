//! Probes that change something. They run one at a time, each in its own directories, between the
//! `setup` and `teardown` of the probe file. The state is observed before and after.

mod files;
mod state;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;

pub use files::FileSnapshot;
pub use state::{Effect, Observation, ObservedState, without_volatile_fields};

use crate::capture::{Capture, ExitKind};
use crate::model::{Finding, TOOL, Verdict};
use crate::probe::{Observe, ProbeCommand, placeholders};
use crate::rules::Rule;
use crate::run::{self, ReadMode, RunDirs, RunSpec, StdinSource, StdoutTarget};
use crate::session::{Declarations, LintSession, RunOptions, with_options};
use crate::stream::{self, EventStream};
use crate::verdicts::Verdicts;
use agentproto_manifest::fields::FieldError;

/// Maximum length of a chain of `target.from`.
const MAX_TARGETS: usize = 4;
/// Maximum number of pages that `observe` reads.
const MAX_PAGES: usize = 100;

/// Why a mutating probe was not done.
#[derive(Clone, Debug)]
pub enum ProbeBlocked {
    /// The probe file does not allow it.
    Skip(String),
    /// It was allowed, but could not be done.
    NotVerified(String),
}

impl ProbeBlocked {
    pub fn report(&self, verdicts: &mut Verdicts, rules: &[&'static Rule]) {
        for rule in rules {
            match self {
                ProbeBlocked::Skip(why) => verdicts.skip(rule, why.clone()),
                ProbeBlocked::NotVerified(why) => verdicts.not_verified(rule, why.clone()),
            }
        }
    }
}

/// One mutating probe with its own directories. Created by `run_mutation`.
pub struct Mutation<'s> {
    pub session: &'s LintSession,
    pub command: &'s ProbeCommand,
    pub dirs: RunDirs,
}

/// Runs `body` in its own directories, one probe at a time. `teardown` always follows. If it fails,
/// the error is reported for `rule`.
pub async fn run_mutation<'s, T>(
    session: &'s LintSession,
    command: &'s ProbeCommand,
    rule: &Rule,
    body: impl AsyncFnOnce(&Mutation<'s>) -> T,
) -> Result<T, ProbeBlocked> {
    if !session.probe.sandbox {
        let why = "the probe file does not have `sandbox: true`, so commands that change \
                   something are not run";
        return Err(ProbeBlocked::Skip(why.to_owned()));
    }
    let _turn = session.mutations.lock().await;
    if session.is_stopped() {
        return Err(ProbeBlocked::NotVerified(
            "the run was interrupted".to_owned(),
        ));
    }
    let dirs = session.new_dirs().map_err(|error| {
        ProbeBlocked::NotVerified(format!("cannot create a directory for the run: {error}"))
    })?;
    let mutation = Mutation {
        session,
        command,
        dirs,
    };
    let done = match mutation.programs("setup", &session.probe.setup).await {
        Ok(()) => Ok(body(&mutation).await),
        Err((_, why)) => Err(ProbeBlocked::NotVerified(why)),
    };
    let after = mutation.programs("teardown", &session.probe.teardown).await;
    if let Err((_, why)) = after {
        let is_reported = |f: &Finding| f.rule == rule.id && f.command == TOOL;
        if !session.findings().iter().any(is_reported) {
            session.add_finding(Finding::new(rule, TOOL, Verdict::Error, why));
        }
    }
    done
}

/// Runs the `setup` of the probe file once for all probes that change nothing, so that commands
/// such as `list` have something to list. If it fails, nothing can be checked.
pub async fn prepare(session: &LintSession) -> Result<(), FieldError> {
    if !session.probe.sandbox || session.probe.setup.is_empty() {
        return Ok(());
    }
    let no_command = ProbeCommand::default();
    let mutation = Mutation {
        session,
        command: &no_command,
        dirs: session.shared_dirs().clone(),
    };
    let done = mutation.programs("setup", &session.probe.setup).await;
    done.map_err(|(line, why)| {
        let place = session.probe.setup_positions.get(line);
        place.copied().unwrap_or_default().error(why)
    })
}

/// One command line of the tool, with its input.
#[derive(Clone, Debug)]
pub struct Invocation {
    pub words: Vec<String>,
    pub input: StdinSource,
}

impl Invocation {
    /// Adds options.
    pub fn with(&self, more: &[String]) -> Invocation {
        Invocation {
            words: with_options(&self.words, more),
            input: self.input.clone(),
        }
    }
}

impl<'s> Mutation<'s> {
    /// Runs the programs in order. Returns the index of the first one that fails, and why.
    async fn programs(&self, what: &str, lines: &[Vec<String>]) -> Result<(), (usize, String)> {
        for (number, line) in lines.iter().enumerate() {
            let run = self
                .program(what, line)
                .await
                .map_err(|why| (number, why))?;
            if !run.end.is_success() {
                let stderr_line = last_stderr_line(&run.stderr);
                let line = line.join(" ");
                let why = format!(
                    "{what} `{line}` failed: {}{stderr_line}",
                    run.end.describe()
                );
                return Err((number, why));
            }
        }
        Ok(())
    }

    /// Runs a program of the probe file in the directories of the tool.
    async fn program(&self, what: &str, line: &[String]) -> Result<Capture, String> {
        let session = self.session;
        let line = session.fill(line, &[], &self.dirs);
        let (first, rest) = line
            .split_first()
            .ok_or_else(|| format!("`{what}` has an empty command line"))?;
        let program = run::program(first, &session.probe.base)
            .ok_or_else(|| format!("{what}: program not found: `{first}`"))?;
        let root = self.dirs.root.to_string_lossy().into_owned();
        let mut env: Vec<(String, String)> = session.probe.env.clone();
        for (_, value) in &mut env {
            *value = placeholders::unprotect(&value.replace("{world}", &root)).into_owned();
        }
        env.push(("AOI_WORLD".to_owned(), root));
        let rest = rest
            .iter()
            .map(|word| OsString::from(&*placeholders::unprotect(word)));
        let spec = RunSpec {
            command: self.command.name.clone(),
            probe: what.to_owned(),
            argv: [program.into_os_string()].into_iter().chain(rest).collect(),
            env,
            input: StdinSource::Null,
            output: StdoutTarget::Pipe,
            stderr_closed: false,
            reader: ReadMode::All,
            backend: None,
            limit: session.options.discovery_limit,
            is_slow: false,
            is_machine: false,
            version: None,
            canaries: false,
        };
        let ran = run::run(&spec, &self.dirs, &session.stats).await;
        ran.map_err(|error| format!("{what} `{first}`: {error}"))
    }

    /// Runs the tool in these directories.
    pub async fn run(&self, probe: &str, call: &Invocation, how: RunOptions) -> Arc<Capture> {
        self.run_as(&self.command.name, probe, call, how).await
    }

    /// Runs a command other than the probed one.
    async fn run_as(
        &self,
        name: &str,
        probe: &str,
        call: &Invocation,
        how: RunOptions,
    ) -> Arc<Capture> {
        let how = RunOptions {
            input: call.input.clone(),
            dirs: Some(self.dirs.clone()),
            ..how
        };
        self.session.run(name, probe, &call.words, how).await
    }

    /// Observes the current state.
    pub async fn observe(&self) -> Result<ObservedState, String> {
        let observation = match &self.session.probe.observe {
            None => None,
            Some(Observe::Command { args, id }) => Some(self.items(args, id).await?),
            Some(Observe::Dir(dir)) => {
                let dir = dir.replace("{world}", &self.dirs.root.to_string_lossy());
                let dir = self
                    .session
                    .probe
                    .base
                    .join(&*placeholders::unprotect(&dir));
                let files = FileSnapshot::of(&dir, &self.caches());
                let text = files.text(&dir);
                Some(Observation::Directory(files, text))
            }
            Some(Observe::Exec(line)) => {
                let run = self.program("observe", line).await?;
                if !run.end.is_success() {
                    let stderr_line = last_stderr_line(&run.stderr);
                    return Err(format!(
                        "`observe` failed: {}{stderr_line}",
                        run.end.describe()
                    ));
                }
                Some(Observation::Text(run.stdout))
            }
        };
        let files = self.files();
        Ok(ObservedState { observation, files })
    }

    /// Snapshot of the run's directories.
    pub fn files(&self) -> FileSnapshot {
        FileSnapshot::of(&self.dirs.root, &self.caches())
    }

    async fn items(&self, args: &[String], id: &str) -> Result<Observation, String> {
        let all = Invocation {
            words: self.session.fill(args, &[], &self.dirs),
            input: StdinSource::Null,
        };
        let observed_command = observed_command(self.session, args);
        let name = observed_command.map_or(TOOL, |command| command.name.as_str());
        let flag = cursor_flag(observed_command);
        let mut items = Vec::new();
        let mut is_whole = false;
        let mut known: Vec<String> = Vec::new();
        let mut call = all.clone();
        while known.len() < MAX_PAGES {
            let run = self
                .run_as(name, "observe", &call, RunOptions::default())
                .await;
            if !run.end.is_success() {
                let stderr_line = last_stderr_line(&run.stderr);
                return Err(format!(
                    "`observe` failed: {}{stderr_line}",
                    run.end.describe()
                ));
            }
            let stream = EventStream::parse(&run.stdout);
            for line in stream.domain() {
                let Some(event) = &line.json else {
                    continue;
                };
                if let Some(id) = stream::id(event, id) {
                    items.push((id, without_volatile_fields(event)));
                }
            }
            is_whole = !stream.is_truncated();
            match (stream.next_cursor(), flag) {
                (Some(next), Some(flag)) if !is_whole && !known.contains(&next) => {
                    call = all.with(&[flag.to_owned(), next.clone()]);
                    known.push(next);
                }
                _ => break,
            }
        }
        items.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(match is_whole {
            true => Observation::Items(items),
            false => Observation::Partial(items),
        })
    }

    /// Directories of the run in which writing is not a side effect.
    fn caches(&self) -> Vec<PathBuf> {
        let home = self.dirs.home();
        let usual = [".cache", ".local/state"].map(|name| home.join(name));
        let root = self.dirs.root.to_string_lossy();
        let named = self.session.probe.caches.iter().map(|text| {
            let text = text.replace("{world}", &root);
            let text = placeholders::unprotect(&text);
            match text.strip_prefix("~/") {
                Some(rest) => home.join(rest),
                None => self.dirs.cwd().join(&*text),
            }
        });
        usual.into_iter().chain(named).collect()
    }

    /// Creates the resource that the command needs, and returns its id.
    pub async fn target(&self) -> Result<Option<String>, String> {
        self.create_target(self.command, MAX_TARGETS).await
    }

    async fn create_target(
        &self,
        command: &ProbeCommand,
        left: usize,
    ) -> Result<Option<String>, String> {
        let Some(from) = &command.target_from else {
            let is_named = command.ok.iter().any(|word| word.contains("{id}"));
            return match is_named {
                true => Err("`ok` contains {id}, but `target.from` is missing".to_owned()),
                false => Ok(None),
            };
        };
        let mut commands = self.session.commands().iter();
        let maker = commands
            .find(|other| other.name == *from)
            .filter(|_| left > 0)
            .ok_or_else(|| format!("`target.from` names `{from}`, which cannot create a target"))?;
        let below = Box::pin(self.create_target(maker, left - 1)).await?;
        let call = confirmed(self.session, maker, &self.dirs, below.as_deref());
        let run = self
            .run_as(&maker.name, "target", &call, RunOptions::default())
            .await;
        if !succeeded(&run) {
            let end = run.end.describe();
            return Err(format!("`{from}`, which creates the target, failed: {end}"));
        }
        let stream = EventStream::parse(&run.stdout);
        let id = ids(maker, &stream).into_iter().flatten().next();
        id.map(Some)
            .ok_or_else(|| format!("`{from}`, which creates the target, reports no id"))
    }

    /// The command without confirmation.
    pub fn unconfirmed(&self, id: Option<&str>) -> Invocation {
        unconfirmed(self.session, self.command, &self.dirs, id)
    }

    /// The command for another resource, if the probe file has `other`.
    pub fn other(&self) -> Option<Invocation> {
        let words = without(self.command.other.as_ref()?, &self.command.confirm);
        let call = Invocation {
            words: self.session.fill(&words, &[], &self.dirs),
            input: text_input(self.command),
        };
        Some(call.with(&confirmation(self.session, self.command)))
    }

    /// The `slow` run of the command, as it should succeed.
    pub fn slow(&self, id: Option<&str>) -> Invocation {
        let command = ProbeCommand {
            ok: self.command.slow.clone().unwrap_or_default(),
            ..self.command.clone()
        };
        confirmed(self.session, &command, &self.dirs, id)
    }

    /// The command as it should succeed.
    pub fn confirmed(&self, id: Option<&str>) -> Invocation {
        confirmed(self.session, self.command, &self.dirs, id)
    }
}

/// The command of the probe file that `observe` runs.
fn observed_command<'s>(session: &'s LintSession, args: &[String]) -> Option<&'s ProbeCommand> {
    let commands = || session.commands().iter();
    let begins = |command: &&ProbeCommand| {
        let mut words = args.iter();
        let mut name = command.name.split_whitespace();
        name.all(|part| words.next().is_some_and(|word| word == part))
    };
    let named = commands().filter(begins);
    named
        .max_by_key(|command| command.name.split_whitespace().count())
        .or_else(|| commands().find(|command| command.ok.first() == args.first()))
}

fn cursor_flag(command: Option<&ProbeCommand>) -> Option<&str> {
    command?.limit.as_ref()?.cursor_flag.as_deref()
}

/// Why an effect could not be observed: `observe` is missing, or its output is truncated.
pub fn why_unobserved(session: &LintSession, without: &str) -> String {
    let Some(Observe::Command { args, .. }) = &session.probe.observe else {
        return without.to_owned();
    };
    let command = observed_command(session, args);
    let limit = command.and_then(|command| command.limit.as_ref());
    let flag = limit.map_or("--limit", |limit| limit.flag.as_str());
    let mut line = args.join(", ");
    let what = match args.iter().any(|word| word == flag) {
        true => format!("request more than [{line}] does"),
        false => {
            line.push_str(&format!(", {flag}, \"1000\""));
            format!("request everything, for example `observe: {{command: [{line}], …}}`")
        }
    };
    let cursors = match (cursor_flag(command), command) {
        (None, Some(command)) => {
            format!(
                ", or add `cursor_flag` to the `limit` of `{}`",
                command.name
            )
        }
        _ => String::new(),
    };
    format!("`observe` is truncated according to its summary: {what}{cursors}")
}

/// The last line that a program wrote to stderr, in parentheses, for a message.
fn last_stderr_line(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    match text.lines().rfind(|line| !line.trim().is_empty()) {
        Some(line) => {
            let line: String = line.trim().chars().take(200).collect();
            format!(" ({})", crate::canary::masked(&line))
        }
        None => String::new(),
    }
}

/// The arguments of a command without confirmation, and the good lines as its input.
pub fn unconfirmed(
    session: &LintSession,
    command: &ProbeCommand,
    dirs: &RunDirs,
    id: Option<&str>,
) -> Invocation {
    let lines = command.input.as_ref().map(|input| input.good.as_slice());
    call(session, command, dirs, id, lines.unwrap_or_default())
}

/// Like `unconfirmed`, with other input lines.
pub fn call(
    session: &LintSession,
    command: &ProbeCommand,
    dirs: &RunDirs,
    id: Option<&str>,
    lines: &[String],
) -> Invocation {
    let mut words = match command.ok.is_empty() {
        true => vec![command.name.clone()],
        false => without(&command.ok, &command.confirm),
    };
    if let Some(input) = &command.input
        && !input.flag.iter().all(|word| words.contains(word))
    {
        words.extend(input.flag.iter().cloned());
    }
    let count = words.len();
    // Fills arguments and lines together, so that they share one {uniq}.
    words.extend(lines.iter().cloned());
    let names: Vec<(&str, &str)> = id.map(|id| ("id", id)).into_iter().collect();
    let mut words = session.fill(&words, &names, dirs);
    let lines = words.split_off(count.min(words.len()));
    let input = match command.input {
        None => text_input(command),
        Some(_) => StdinSource::Bytes(join_lines(&lines)),
    };
    Invocation { words, input }
}

/// The input of a command that does not read JSONL.
pub fn text_input(command: &ProbeCommand) -> StdinSource {
    match &command.stdin {
        Some(text) => StdinSource::Bytes(text.clone().into_bytes()),
        None => StdinSource::Null,
    }
}

/// Joins lines into JSONL.
pub fn join_lines(lines: &[String]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in lines {
        bytes.extend_from_slice(line.as_bytes());
        bytes.push(b'\n');
    }
    bytes
}

fn confirmed(
    session: &LintSession,
    command: &ProbeCommand,
    dirs: &RunDirs,
    id: Option<&str>,
) -> Invocation {
    let call = unconfirmed(session, command, dirs, id);
    call.with(&confirmation(session, command))
}

/// The confirmation of a destructive command. The default is `--confirm`, as in the spec.
pub fn confirmation(session: &LintSession, command: &ProbeCommand) -> Vec<String> {
    match is_destructive(session, command) && command.confirm.is_empty() {
        true => vec!["--confirm".to_owned()],
        false => command.confirm.clone(),
    }
}

/// The words without the first occurrence of `part`.
fn without(words: &[String], part: &[String]) -> Vec<String> {
    let at = match part.is_empty() {
        true => None,
        false => words.windows(part.len()).position(|window| window == part),
    };
    let Some(at) = at else {
        return words.to_vec();
    };
    let is_kept = |index: &usize| *index < at || *index >= at + part.len();
    let kept = words.iter().enumerate().filter(|(i, _)| is_kept(i));
    kept.map(|(_, word)| word.clone()).collect()
}

/// Whether the run exited 0 with a summary that has ok: true.
pub fn succeeded(run: &Capture) -> bool {
    run.end.is_success() && EventStream::parse(&run.stdout).ok() == Some(true)
}

/// Whether the run exited with a non-zero code and no summary has ok: true. A signal or a timeout
/// does not count.
pub fn was_rejected(run: &Capture) -> bool {
    let stderr_line = EventStream::parse(&run.stdout);
    let claims = stderr_line
        .of_type("aoi:summary")
        .any(|line| line.get("ok") == Some(&Value::Bool(true)));
    matches!(run.end, ExitKind::Code(code) if code != 0) && !claims
}

/// The ids in the events that report a change. `None` for an event without an id.
pub fn ids(command: &ProbeCommand, stream: &EventStream) -> Vec<Option<String>> {
    let events = changes(command, stream);
    events.iter().map(|event| id(command, event)).collect()
}

/// The events that report a change.
pub fn changes<'c>(command: &ProbeCommand, stream: &'c EventStream) -> Vec<&'c Value> {
    let is_one = |kind: &str| match command.events.is_empty() {
        true => !kind.starts_with("aoi:"),
        false => command.events.iter().any(|name| name == kind),
    };
    let lines = stream.lines.iter();
    let lines = lines.filter(|line| line.kind().is_some_and(is_one));
    lines.filter_map(|line| line.json.as_ref()).collect()
}

/// The id of the resource in an event: at the pointer in the probe file, or `id`, `path` or `url`.
fn id(command: &ProbeCommand, event: &Value) -> Option<String> {
    match &command.id {
        Some(pointer) => stream::id(event, pointer),
        None => ["/id", "/path", "/url"]
            .iter()
            .find_map(|pointer| stream::id(event, pointer)),
    }
}

fn flag(session: &LintSession, command: &ProbeCommand, key: &str) -> Option<bool> {
    let declared: &Declarations = session.declared.get()?;
    declared.flag(&command.name, key)
}

/// Whether `capabilities` declares the field as true for the command.
pub fn declares(session: &LintSession, command: &ProbeCommand, key: &str) -> bool {
    flag(session, command, key) == Some(true)
}

pub fn is_destructive(session: &LintSession, command: &ProbeCommand) -> bool {
    command.destructive || declares(session, command, "destructive")
}

/// Whether the command changes something, according to the probe file or `capabilities`. A command
/// with `input` is assumed to, unless one of them says read_only.
pub fn is_mutating(session: &LintSession, command: &ProbeCommand) -> bool {
    if command.mutating || is_destructive(session, command) {
        return true;
    }
    match (command.read_only, flag(session, command, "read_only")) {
        (Some(stderr_line), _) => !stderr_line,
        (None, Some(declared)) => !declared,
        (None, None) => command.input.is_some(),
    }
}

/// The run that `capabilities` were read from.
pub fn capabilities_run(session: &LintSession) -> Option<Arc<Capture>> {
    let is_one = |run: &&Arc<Capture>| {
        let mut words = run.argv.iter().skip(1).filter_map(|word| word.to_str());
        let is_capabilities = words.any(|word| matches!(word, "capabilities" | "--capabilities"));
        is_capabilities && run.end.is_success()
    };
    session.captures().iter().find(is_one).cloned()
}
