//! Probes that change something. They run one at a time, each in its own directories, between the
//! `setup` and `teardown` of the probe file. The state is observed before and after.

mod files;
mod state;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;

pub use files::Files;
pub use state::{Effect, Seen, State, plain};

use crate::capture::{Capture, End};
use crate::model::{Finding, TOOL, Verdict};
use crate::probe::{Command, Observe, braces};
use crate::rules::Rule;
use crate::run::{self, Input, Launch, Output, Reader, World};
use crate::session::{Declared, How, Session, with_options};
use crate::sheet::Sheet;
use crate::stream::{self, Stream};
use agentproto_manifest::fields::Mistake;

/// Maximum length of a chain of `target.from`.
const MOST_TARGETS: usize = 4;
/// Maximum number of pages that `observe` reads.
const MOST_PAGES: usize = 100;

/// Why a mutating probe was not done.
#[derive(Clone, Debug)]
pub enum Blocked {
    /// The probe file does not allow it.
    Skip(String),
    /// It was allowed, but could not be done.
    NotVerified(String),
}

impl Blocked {
    pub fn tell(&self, sheet: &mut Sheet, rules: &[&'static Rule]) {
        for rule in rules {
            match self {
                Blocked::Skip(why) => sheet.skip(rule, why.clone()),
                Blocked::NotVerified(why) => sheet.not_verified(rule, why.clone()),
            }
        }
    }
}

/// One mutating probe with its own directories. Created by `within`.
pub struct Sequence<'s> {
    pub session: &'s Session,
    pub command: &'s Command,
    pub world: World,
}

/// Runs `body` in its own directories, one probe at a time. `teardown` always follows. If it fails,
/// the error is reported for `rule`.
pub async fn within<'s, T>(
    session: &'s Session,
    command: &'s Command,
    rule: &Rule,
    body: impl AsyncFnOnce(&Sequence<'s>) -> T,
) -> Result<T, Blocked> {
    if !session.probe.sandbox {
        let why = "the probe file does not have `sandbox: true`, so commands that change \
                   something are not run";
        return Err(Blocked::Skip(why.to_owned()));
    }
    let _turn = session.mutations.lock().await;
    if session.is_stopped() {
        return Err(Blocked::NotVerified("the run was interrupted".to_owned()));
    }
    let world = session.world().map_err(|error| {
        Blocked::NotVerified(format!("cannot create a directory for the run: {error}"))
    })?;
    let sequence = Sequence {
        session,
        command,
        world,
    };
    let done = match sequence.programs("setup", &session.probe.setup).await {
        Ok(()) => Ok(body(&sequence).await),
        Err((_, why)) => Err(Blocked::NotVerified(why)),
    };
    let after = sequence.programs("teardown", &session.probe.teardown).await;
    if let Err((_, why)) = after {
        let is_told = |f: &Finding| f.rule == rule.id && f.command == TOOL;
        if !session.findings().iter().any(is_told) {
            session.find(Finding::new(rule, TOOL, Verdict::Error, why));
        }
    }
    done
}

/// Runs the `setup` of the probe file once for all probes that change nothing, so that commands
/// such as `list` have something to list. If it fails, nothing can be checked.
pub async fn prepare(session: &Session) -> Result<(), Mistake> {
    if !session.probe.sandbox || session.probe.setup.is_empty() {
        return Ok(());
    }
    let nobody = Command::default();
    let sequence = Sequence {
        session,
        command: &nobody,
        world: session.common().clone(),
    };
    let done = sequence.programs("setup", &session.probe.setup).await;
    done.map_err(|(line, why)| {
        let place = session.probe.setup_at.get(line);
        place.copied().unwrap_or_default().mistake(why)
    })
}

/// One command line of the tool, with its input.
#[derive(Clone, Debug)]
pub struct Call {
    pub words: Vec<String>,
    pub input: Input,
}

impl Call {
    /// Adds options.
    pub fn with(&self, more: &[String]) -> Call {
        Call {
            words: with_options(&self.words, more),
            input: self.input.clone(),
        }
    }
}

impl<'s> Sequence<'s> {
    /// Runs the programs in order. Returns the index of the first one that fails, and why.
    async fn programs(&self, what: &str, lines: &[Vec<String>]) -> Result<(), (usize, String)> {
        for (number, line) in lines.iter().enumerate() {
            let run = self
                .program(what, line)
                .await
                .map_err(|why| (number, why))?;
            if !run.end.is_success() {
                let said = told(&run.stderr);
                let line = line.join(" ");
                let why = format!("{what} `{line}` failed: {}{said}", run.end.told());
                return Err((number, why));
            }
        }
        Ok(())
    }

    /// Runs a program of the probe file in the directories of the tool.
    async fn program(&self, what: &str, line: &[String]) -> Result<Capture, String> {
        let session = self.session;
        let line = session.fill(line, &[], &self.world);
        let (first, rest) = line
            .split_first()
            .ok_or_else(|| format!("`{what}` has an empty command line"))?;
        let program = run::program(first, &session.probe.base)
            .ok_or_else(|| format!("{what}: program not found: `{first}`"))?;
        let root = self.world.root.to_string_lossy().into_owned();
        let mut env: Vec<(String, String)> = session.probe.env.clone();
        for (_, value) in &mut env {
            *value = braces::shown(&value.replace("{world}", &root)).into_owned();
        }
        env.push(("AOI_WORLD".to_owned(), root));
        let rest = rest
            .iter()
            .map(|word| OsString::from(&*braces::shown(word)));
        let launch = Launch {
            command: self.command.name.clone(),
            probe: what.to_owned(),
            argv: [program.into_os_string()].into_iter().chain(rest).collect(),
            env,
            input: Input::Null,
            output: Output::Pipe,
            stderr_closed: false,
            reader: Reader::All,
            walls: None,
            limit: session.options.discovery_limit,
            is_slow: false,
            is_machine: false,
            version: None,
            canaries: false,
        };
        let ran = run::run(&launch, &self.world, &session.costs).await;
        ran.map_err(|error| format!("{what} `{first}`: {error}"))
    }

    /// Runs the tool in these directories.
    pub async fn run(&self, probe: &str, call: &Call, how: How) -> Arc<Capture> {
        self.run_as(&self.command.name, probe, call, how).await
    }

    /// Runs a command other than the probed one.
    async fn run_as(&self, name: &str, probe: &str, call: &Call, how: How) -> Arc<Capture> {
        let how = How {
            input: call.input.clone(),
            world: Some(self.world.clone()),
            ..how
        };
        self.session.run(name, probe, &call.words, how).await
    }

    /// Observes the current state.
    pub async fn observe(&self) -> Result<State, String> {
        let seen = match &self.session.probe.observe {
            None => None,
            Some(Observe::Command { args, id }) => Some(self.items(args, id).await?),
            Some(Observe::Dir(dir)) => {
                let dir = dir.replace("{world}", &self.world.root.to_string_lossy());
                let dir = self.session.probe.base.join(&*braces::shown(&dir));
                let files = Files::of(&dir, &self.caches());
                let text = files.text(&dir);
                Some(Seen::Files(files, text))
            }
            Some(Observe::Exec(line)) => {
                let run = self.program("observe", line).await?;
                if !run.end.is_success() {
                    let said = told(&run.stderr);
                    return Err(format!("`observe` failed: {}{said}", run.end.told()));
                }
                Some(Seen::Text(run.stdout))
            }
        };
        let files = self.files();
        Ok(State { seen, files })
    }

    /// Snapshot of the run's directories.
    pub fn files(&self) -> Files {
        Files::of(&self.world.root, &self.caches())
    }

    async fn items(&self, args: &[String], id: &str) -> Result<Seen, String> {
        let all = Call {
            words: self.session.fill(args, &[], &self.world),
            input: Input::Null,
        };
        let looked = looked(self.session, args);
        let name = looked.map_or(TOOL, |command| command.name.as_str());
        let flag = cursor_flag(looked);
        let mut items = Vec::new();
        let mut is_whole = false;
        let mut known: Vec<String> = Vec::new();
        let mut call = all.clone();
        while known.len() < MOST_PAGES {
            let run = self.run_as(name, "observe", &call, How::default()).await;
            if !run.end.is_success() {
                let said = told(&run.stderr);
                return Err(format!("`observe` failed: {}{said}", run.end.told()));
            }
            let stream = Stream::read(&run.stdout);
            for line in stream.domain() {
                let Some(event) = &line.json else {
                    continue;
                };
                if let Some(id) = stream::id(event, id) {
                    items.push((id, plain(event)));
                }
            }
            is_whole = !stream.is_cut();
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
            true => Seen::Items(items),
            false => Seen::Part(items),
        })
    }

    /// Directories of the run in which writing is not a side effect.
    fn caches(&self) -> Vec<PathBuf> {
        let home = self.world.home();
        let usual = [".cache", ".local/state"].map(|name| home.join(name));
        let root = self.world.root.to_string_lossy();
        let named = self.session.probe.caches.iter().map(|text| {
            let text = text.replace("{world}", &root);
            let text = braces::shown(&text);
            match text.strip_prefix("~/") {
                Some(rest) => home.join(rest),
                None => self.world.cwd().join(&*text),
            }
        });
        usual.into_iter().chain(named).collect()
    }

    /// Creates the resource that the command needs, and returns its id.
    pub async fn target(&self) -> Result<Option<String>, String> {
        self.made_for(self.command, MOST_TARGETS).await
    }

    async fn made_for(&self, command: &Command, left: usize) -> Result<Option<String>, String> {
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
        let below = Box::pin(self.made_for(maker, left - 1)).await?;
        let call = confirmed(self.session, maker, &self.world, below.as_deref());
        let run = self
            .run_as(&maker.name, "target", &call, How::default())
            .await;
        if !succeeded(&run) {
            let end = run.end.told();
            return Err(format!("`{from}`, which creates the target, failed: {end}"));
        }
        let stream = Stream::read(&run.stdout);
        let id = ids(maker, &stream).into_iter().flatten().next();
        id.map(Some)
            .ok_or_else(|| format!("`{from}`, which creates the target, reports no id"))
    }

    /// The command without confirmation.
    pub fn bare(&self, id: Option<&str>) -> Call {
        bare(self.session, self.command, &self.world, id)
    }

    /// The command for another resource, if the probe file has `other`.
    pub fn other(&self) -> Option<Call> {
        let words = without(self.command.other.as_ref()?, &self.command.confirm);
        let call = Call {
            words: self.session.fill(&words, &[], &self.world),
            input: text(self.command),
        };
        Some(call.with(&confirmation(self.session, self.command)))
    }

    /// The command as it should succeed.
    pub fn confirmed(&self, id: Option<&str>) -> Call {
        confirmed(self.session, self.command, &self.world, id)
    }
}

/// The command of the probe file that `observe` runs.
fn looked<'s>(session: &'s Session, args: &[String]) -> Option<&'s Command> {
    let commands = || session.commands().iter();
    let begins = |command: &&Command| {
        let mut words = args.iter();
        let mut name = command.name.split_whitespace();
        name.all(|part| words.next().is_some_and(|word| word == part))
    };
    let named = commands().filter(begins);
    named
        .max_by_key(|command| command.name.split_whitespace().count())
        .or_else(|| commands().find(|command| command.ok.first() == args.first()))
}

fn cursor_flag(command: Option<&Command>) -> Option<&str> {
    command?.limit.as_ref()?.cursor_flag.as_deref()
}

/// Why an effect could not be observed: `observe` is missing, or its output is truncated.
pub fn unseen(session: &Session, without: &str) -> String {
    let Some(Observe::Command { args, .. }) = &session.probe.observe else {
        return without.to_owned();
    };
    let command = looked(session, args);
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
fn told(stderr: &[u8]) -> String {
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
pub fn bare(session: &Session, command: &Command, world: &World, id: Option<&str>) -> Call {
    let lines = command.input.as_ref().map(|input| input.good.as_slice());
    call(session, command, world, id, lines.unwrap_or_default())
}

/// Like `bare`, with other input lines.
pub fn call(
    session: &Session,
    command: &Command,
    world: &World,
    id: Option<&str>,
    lines: &[String],
) -> Call {
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
    let mut words = session.fill(&words, &names, world);
    let lines = words.split_off(count.min(words.len()));
    let input = match command.input {
        None => text(command),
        Some(_) => Input::Bytes(joined(&lines)),
    };
    Call { words, input }
}

/// The input of a command that does not read JSONL.
pub fn text(command: &Command) -> Input {
    match &command.stdin {
        Some(text) => Input::Bytes(text.clone().into_bytes()),
        None => Input::Null,
    }
}

/// Joins lines into JSONL.
pub fn joined(lines: &[String]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in lines {
        bytes.extend_from_slice(line.as_bytes());
        bytes.push(b'\n');
    }
    bytes
}

fn confirmed(session: &Session, command: &Command, world: &World, id: Option<&str>) -> Call {
    let call = bare(session, command, world, id);
    call.with(&confirmation(session, command))
}

/// The confirmation of a destructive command. The default is `--confirm`, as in the spec.
pub fn confirmation(session: &Session, command: &Command) -> Vec<String> {
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
    run.end.is_success() && Stream::read(&run.stdout).ok() == Some(true)
}

/// Whether the run exited with a non-zero code and no summary has ok: true. A signal or a timeout
/// does not count.
pub fn refused(run: &Capture) -> bool {
    let said = Stream::read(&run.stdout);
    let claims = said
        .of("aoi:summary")
        .any(|line| line.get("ok") == Some(&Value::Bool(true)));
    matches!(run.end, End::Code(code) if code != 0) && !claims
}

/// The ids in the events that report a change. `None` for an event without an id.
pub fn ids(command: &Command, stream: &Stream) -> Vec<Option<String>> {
    let events = changes(command, stream);
    events.iter().map(|event| id(command, event)).collect()
}

/// The events that report a change.
pub fn changes<'c>(command: &Command, stream: &'c Stream) -> Vec<&'c Value> {
    let is_one = |kind: &str| match command.events.is_empty() {
        true => !kind.starts_with("aoi:"),
        false => command.events.iter().any(|name| name == kind),
    };
    let lines = stream.lines.iter();
    let lines = lines.filter(|line| line.kind().is_some_and(is_one));
    lines.filter_map(|line| line.json.as_ref()).collect()
}

/// The id of the resource in an event: at the pointer in the probe file, or `id`, `path` or `url`.
fn id(command: &Command, event: &Value) -> Option<String> {
    match &command.id {
        Some(pointer) => stream::id(event, pointer),
        None => ["/id", "/path", "/url"]
            .iter()
            .find_map(|pointer| stream::id(event, pointer)),
    }
}

fn flag(session: &Session, command: &Command, key: &str) -> Option<bool> {
    let declared: &Declared = session.declared.get()?;
    declared.flag(&command.name, key)
}

/// Whether `capabilities` declares the field as true for the command.
pub fn declares(session: &Session, command: &Command, key: &str) -> bool {
    flag(session, command, key) == Some(true)
}

pub fn is_destructive(session: &Session, command: &Command) -> bool {
    command.destructive || declares(session, command, "destructive")
}

/// Whether the command changes something, according to the probe file or `capabilities`. A command
/// with `input` is assumed to, unless one of them says read_only.
pub fn is_mutating(session: &Session, command: &Command) -> bool {
    if command.mutating || is_destructive(session, command) {
        return true;
    }
    match (command.read_only, flag(session, command, "read_only")) {
        (Some(said), _) => !said,
        (None, Some(declared)) => !declared,
        (None, None) => command.input.is_some(),
    }
}

/// The run that `capabilities` were read from.
pub fn manifest_run(session: &Session) -> Option<Arc<Capture>> {
    let is_one = |run: &&Arc<Capture>| {
        let mut words = run.argv.iter().skip(1).filter_map(|word| word.to_str());
        let is_asked = words.any(|word| matches!(word, "capabilities" | "--capabilities"));
        is_asked && run.end.is_success()
    };
    session.captures().iter().find(is_one).cloned()
}
