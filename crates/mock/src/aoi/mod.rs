//! A small command-line tool that conforms to AOI-CLI v0.2, unless a mutant or variant changes it.
//!
//! It has a source (`search`), a transformer (`rank`), a sink (`import`), an unbounded command
//! (`watch`), changes with keys and confirmations, a command that needs a login, and two schema
//! versions. It parses its arguments and writes its output itself, because it must not share code
//! with the linter that tests it.

mod args;
pub(crate) mod changes;
pub(crate) mod credentials;
mod discover;
mod effects;
pub(crate) mod habits;
mod input;
mod pages;
mod pipes;
mod schema;
mod signals;
mod source;
mod store;
mod stream;
mod surface;
mod text;
mod versions;

use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::faults;
use crate::mutants::aoi::AoiMutant;
use crate::variants::aoi::AoiVariant;
use args::ParsedArgs;
use changes::{Change, Quirk, RunInfo};
pub(crate) use schema::case as schema_case;
use store::ItemStore;
use stream::{EarlyExit, EventWriter, ToolError, eprint};
use surface::{TOOL, TOOL_VERSION};

/// Environment variable with the directory of the items.
const STATE: &str = "MOCK_AOI_STATE";

/// Everything that determines what the tool does.
pub struct ToolConfig {
    /// Arguments of the tool.
    pub args: Vec<String>,
    /// Directory of the items, if `--state` does not set it.
    pub state: Option<PathBuf>,
    /// Defect to show, if any.
    pub mutant: Option<&'static AoiMutant>,
    /// Conforming variation to show, if any.
    pub variant: Option<&'static AoiVariant>,
}

/// Runs the tool once. Returns the exit code.
pub fn run(config: ToolConfig) -> u8 {
    let of_mutant = config.mutant.into_iter().flat_map(|m| &m.data.changes);
    let of_variant = config.variant.into_iter().flat_map(|v| &v.data.changes);
    let changes: Vec<&'static Change> = of_mutant.chain(of_variant).collect();
    let quirks = changes.iter().filter_map(|change| match change {
        Change::Quirk(quirk) => Some(*quirk),
        _ => None,
    });
    let quirks: Vec<Quirk> = quirks.collect();
    let mut args = config.args;
    for change in &changes {
        if let Change::Args(change) = change {
            args = change(args);
        }
    }
    install_signal_handlers(&quirks);
    let mode = args::mode(&args, &quirks);
    let named = args.iter().find_map(|word| surface::command(word));
    let mut info = RunInfo {
        command: affected_command(named, &args).to_owned(),
        args,
        major: versions::newest(),
        ..RunInfo::default()
    };
    for change in &changes {
        if let Change::Start(start) = change
            && let Some(code) = start(&info)
        {
            return code;
        }
    }
    let words = args::read(&info.args, &quirks);
    if let Ok(Some(command)) = words.as_ref().map(|words| words.command) {
        info.command = affected_command(Some(command), &info.args).to_owned();
    }
    let Ok(mut stream) = EventWriter::new(info, mode, changes.clone(), quirks.clone()) else {
        return 74;
    };
    let result = match &words {
        Err(error) => Err(ToolError::new("usage", error.code, error.message.clone()).into()),
        Ok(words) => run_command(&mut stream, words, config.state, &quirks),
    };
    let code = finish(&mut stream, result, &changes);
    let exits = changes.iter().filter_map(|change| match change {
        Change::Exit(change) => Some(change),
        _ => None,
    });
    exits.fold(code, |code, change| change(&stream.info, code))
}

/// The command that a change applies to. It also applies to the alias and the flag of a command.
fn affected_command(named: Option<&'static surface::CommandSpec>, args: &[String]) -> &'static str {
    let has = |flag: &str| args.iter().any(|word| word == flag);
    match named.map(|command| command.name) {
        Some("aoi-schema") => "schema",
        Some(name) => name,
        None if has("--schema") => "schema",
        None if has("--capabilities") => "capabilities",
        None => TOOL,
    }
}

fn install_signal_handlers(quirks: &[Quirk]) {
    let handlers = [
        (SIGINT, Quirk::IgnoresInterrupt),
        (SIGTERM, Quirk::IgnoresTerminate),
    ];
    for (signal, ignores) in handlers {
        match quirks.contains(&ignores) {
            true => signals::ignore(signal),
            false if quirks.contains(&Quirk::DiesBySignal) => {}
            false => signals::record(signal),
        }
    }
}

fn run_command(
    stream: &mut EventWriter,
    words: &ParsedArgs,
    state: Option<PathBuf>,
    quirks: &[Quirk],
) -> Result<(), EarlyExit> {
    if words.has("--help") || words.has("-h") {
        return stream.print(&surface::help(words.command));
    }
    if words.has("--version") {
        return stream.print(&format!("{TOOL} {TOOL_VERSION}\n"));
    }
    let requested = versions::requested(words, quirks);
    if requested.is_err() && quirks.contains(&Quirk::UnknownVersionAfterData) {
        stream.meta(json!({}))?;
        stream.domain(json!({ "type": "entry", "id": "doc-001", "name": "too early" }))?;
    }
    stream.info.major = requested?;
    if let Some(text) = words.value("--timeout") {
        let time: Option<f64> = text.parse().ok();
        let time = time.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let Some(time) = time else {
            let message = "`--timeout` must be a number of seconds.";
            return Err(ToolError::new("usage", "TIMEOUT_INVALID", message).into());
        };
        stream.set_timeout(time);
    }
    let delay = words.number("--delay-ms")?.unwrap_or(0);
    stream.set_delay(Duration::from_millis(delay));
    let named = words.command.map(|command| command.name);
    let name = match named {
        Some(name) => name,
        None if words.has("--schema") => "schema",
        None if words.has("--capabilities") => "capabilities",
        None => {
            let message = "No command given. `--help` lists the commands.";
            return Err(ToolError::new("usage", "COMMAND_MISSING", message).into());
        }
    };
    let is_loud = words.has("--debug") && !words.has("--quiet");
    if is_loud {
        eprint(&format!(
            "{TOOL}: debug: `{name}`, schema {}\n",
            stream.info.major
        ));
    }
    let state = words.value("--state").map(PathBuf::from).or(state);
    let state = state.or_else(|| std::env::var_os(STATE).map(PathBuf::from));
    let store = state.map(|dir| ItemStore::new(&dir));
    let required_store = || store.as_ref().ok_or_else(effects::no_store);
    match name {
        "schema" | "aoi-schema" => {
            let schema = schema::events(stream.info.major);
            discover::print(stream, words, "schema", schema)
        }
        "capabilities" => discover::print(
            stream,
            words,
            "capabilities",
            discover::capabilities(quirks),
        ),
        "input-schema" => discover::input_schema(stream, words),
        "doctor" => discover::doctor(stream, words, store.is_some()),
        "search" => source::search(stream, words),
        "list" => source::list(stream, words, store.as_ref()),
        "get" => source::get(stream, words, store.as_ref()),
        "fetch" => source::fetch(stream, words),
        "watch" => source::watch(stream, words),
        "create" => effects::create(stream, words, required_store()?),
        "update" => effects::update(stream, words, required_store()?),
        "delete" => effects::delete(stream, words, required_store()?),
        "purge" => effects::purge(stream, words, required_store()?),
        "rank" => input::rank(stream, words),
        "import" => input::import(stream, words, required_store()?),
        _ => Err(ToolError::new("internal", "NOT_MADE", "The command is not implemented.").into()),
    }
}

/// Ends the stream after any result. Returns the exit code.
fn finish(
    stream: &mut EventWriter,
    result: Result<(), EarlyExit>,
    changes: &[&'static Change],
) -> u8 {
    let ended = match result {
        Ok(()) => match stream.info.failure {
            None => return 0,
            Some(_) => return 65,
        },
        Err(EarlyExit::Failed(failure)) => {
            stream.info.failure = Some(failure.category);
            let reason = match failure.category {
                "timeout" => json!({ "reason": "timeout", "partial": true }),
                _ => json!({}),
            };
            let code = failure.exit();
            let written = stream
                .meta(json!({}))
                .and_then(|()| stream.error(&failure))
                .and_then(|()| stream.summary(false, reason));
            written.map(|()| code)
        }
        Err(EarlyExit::Interrupted(signal)) => {
            stream.info.signal = Some(signal);
            let reason = json!({ "reason": "interrupted", "partial": true });
            let written = stream
                .meta(json!({}))
                .and_then(|()| stream.summary(false, reason));
            written.map(|()| u8::try_from(128 + signal).unwrap_or(u8::MAX))
        }
        Err(stop) => Err(stop),
    };
    match ended {
        Ok(code) => code,
        Err(EarlyExit::Exit(code)) => code,
        Err(EarlyExit::PipeClosed) => {
            let on_pipe_closed = changes.iter().find_map(|change| match change {
                Change::Pipe(on_pipe_closed) => Some(on_pipe_closed),
                _ => None,
            });
            on_pipe_closed.map_or(141, |on_pipe_closed| on_pipe_closed(&stream.info))
        }
        Err(EarlyExit::WriteFailed) => {
            eprint(&format!("{TOOL}: cannot write to stdout\n"));
            74
        }
        Err(EarlyExit::Failed(_) | EarlyExit::Interrupted(_)) => 70,
    }
}

/// Kills the process with a signal, as some mutants do.
pub(crate) fn kill_self(signal: i32) -> ! {
    faults::kill_self(signal)
}
