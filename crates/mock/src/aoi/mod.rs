//! A small command-line tool that conforms to AOI-CLI v0.2, unless a mutant or variant changes it.
//!
//! It has a source (`search`), a transformer (`rank`), a sink (`import`), an unbounded command
//! (`watch`), changes with keys and confirmations, a command that needs a login, and two schema
//! versions. It parses its arguments and writes its output itself, because it must not share code
//! with the linter that tests it.

mod credentials;
mod discover;
mod effects;
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
pub mod twist;
mod versions;
mod words;

use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::faults;
use crate::mutants::aoi::Mutant;
use crate::variants::aoi::Variant;
pub(crate) use schema::case as schema_case;
use store::Store;
use stream::{Failure, Stop, Stream, complain};
pub use surface::SCHEMA_NAME;
use surface::{TOOL, TOOL_VERSION};
use twist::{Facts, Quirk, Twist};
use words::{Mode, Words};

/// Environment variable with the directory of the items.
const STATE: &str = "MOCK_AOI_STATE";

/// Everything that determines what the tool does.
pub struct Play {
    /// Arguments of the tool.
    pub args: Vec<String>,
    /// Directory of the items, if `--state` does not set it.
    pub state: Option<PathBuf>,
    /// Defect to show, if any.
    pub mutant: Option<&'static Mutant>,
    /// Conforming variation to show, if any.
    pub variant: Option<&'static Variant>,
}

/// Runs the tool once. Returns the exit code.
pub fn run(play: Play) -> u8 {
    let of_mutant = play.mutant.into_iter().flat_map(|m| &m.made.twists);
    let of_variant = play.variant.into_iter().flat_map(|v| &v.made.twists);
    let twists: Vec<&'static Twist> = of_mutant.chain(of_variant).collect();
    let quirks = twists.iter().filter_map(|twist| match twist {
        Twist::Quirk(quirk) => Some(*quirk),
        _ => None,
    });
    let quirks: Vec<Quirk> = quirks.collect();
    let mut args = play.args;
    for twist in &twists {
        if let Twist::Args(change) = twist {
            args = change(args);
        }
    }
    take_signals(&quirks);
    let mode = words::mode(&args, &quirks);
    let named = args.iter().find_map(|word| surface::command(word));
    let mut facts = Facts {
        command: meant(named, &args).to_owned(),
        args,
        major: versions::newest(),
        is_machine: mode == Mode::Jsonl,
        ..Facts::default()
    };
    for twist in &twists {
        if let Twist::Start(start) = twist
            && let Some(code) = start(&facts)
        {
            return code;
        }
    }
    let words = words::read(&facts.args, &quirks);
    if let Ok(Some(command)) = words.as_ref().map(|words| words.command) {
        facts.command = meant(Some(command), &facts.args).to_owned();
    }
    let Ok(mut stream) = Stream::new(facts, mode, twists.clone(), quirks.clone()) else {
        return 74;
    };
    let result = match &words {
        Err(mistake) => Err(Failure::new("usage", mistake.code, mistake.message.clone()).into()),
        Ok(words) => perform(&mut stream, words, play.state, &quirks),
    };
    let code = finish(&mut stream, result, &twists);
    let exits = twists.iter().filter_map(|twist| match twist {
        Twist::Exit(change) => Some(change),
        _ => None,
    });
    exits.fold(code, |code, change| change(&stream.facts, code))
}

/// The command that a change applies to. It also applies to the alias and the flag of a command.
fn meant(named: Option<&'static surface::Command>, args: &[String]) -> &'static str {
    let has = |flag: &str| args.iter().any(|word| word == flag);
    match named.map(|command| command.name) {
        Some("aoi-schema") => "schema",
        Some(name) => name,
        None if has("--schema") => "schema",
        None if has("--capabilities") => "capabilities",
        None => TOOL,
    }
}

fn take_signals(quirks: &[Quirk]) {
    let habits = [
        (SIGINT, Quirk::IgnoresInterrupt),
        (SIGTERM, Quirk::IgnoresTerminate),
    ];
    for (signal, ignores) in habits {
        match quirks.contains(&ignores) {
            true => signals::ignore(signal),
            false if quirks.contains(&Quirk::DiesBySignal) => {}
            false => signals::watch(signal),
        }
    }
}

fn perform(
    stream: &mut Stream,
    words: &Words,
    state: Option<PathBuf>,
    quirks: &[Quirk],
) -> Result<(), Stop> {
    if words.has("--help") || words.has("-h") {
        return stream.say(&surface::help(words.command));
    }
    if words.has("--version") {
        return stream.say(&format!("{TOOL} {TOOL_VERSION}\n"));
    }
    let asked = versions::asked(words, quirks);
    if asked.is_err() && quirks.contains(&Quirk::UnknownVersionAfterData) {
        stream.meta(json!({}))?;
        stream.domain(json!({ "type": "entry", "id": "doc-001", "name": "too early" }))?;
    }
    stream.facts.major = asked?;
    if let Some(text) = words.value("--timeout") {
        let time: Option<f64> = text.parse().ok();
        let time = time.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let Some(time) = time else {
            let message = "`--timeout` must be a number of seconds.";
            return Err(Failure::new("usage", "TIMEOUT_INVALID", message).into());
        };
        stream.ends_after(time);
    }
    let delay = words.number("--delay-ms")?.unwrap_or(0);
    stream.waits(Duration::from_millis(delay));
    let named = words.command.map(|command| command.name);
    let name = match named {
        Some(name) => name,
        None if words.has("--schema") => "schema",
        None if words.has("--capabilities") => "capabilities",
        None => {
            let message = "No command given. `--help` lists the commands.";
            return Err(Failure::new("usage", "COMMAND_MISSING", message).into());
        }
    };
    let is_loud = words.has("--debug") && !words.has("--quiet");
    if is_loud {
        complain(&format!(
            "{TOOL}: debug: `{name}`, schema {}\n",
            stream.facts.major
        ));
    }
    let state = words.value("--state").map(PathBuf::from).or(state);
    let state = state.or_else(|| std::env::var_os(STATE).map(PathBuf::from));
    let store = state.map(|dir| Store::new(&dir));
    let kept = || store.as_ref().ok_or_else(effects::no_store);
    match name {
        "schema" | "aoi-schema" => {
            let schema = schema::events(stream.facts.major);
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
        "create" => effects::create(stream, words, kept()?),
        "update" => effects::update(stream, words, kept()?),
        "delete" => effects::delete(stream, words, kept()?),
        "purge" => effects::purge(stream, words, kept()?),
        "rank" => input::rank(stream, words),
        "import" => input::import(stream, words, kept()?),
        _ => Err(Failure::new("internal", "NOT_MADE", "The command is not implemented.").into()),
    }
}

/// Ends the stream after any result. Returns the exit code.
fn finish(stream: &mut Stream, result: Result<(), Stop>, twists: &[&'static Twist]) -> u8 {
    let ended = match result {
        Ok(()) => match stream.facts.failure {
            None => return 0,
            Some(_) => return 65,
        },
        Err(Stop::Failed(failure)) => {
            stream.facts.failure = Some(failure.category);
            let reason = match failure.category {
                "timeout" => json!({ "reason": "timeout", "partial": true }),
                _ => json!({}),
            };
            let code = failure.exit();
            let told = stream
                .meta(json!({}))
                .and_then(|()| stream.error(&failure))
                .and_then(|()| stream.summary(false, reason));
            told.map(|()| code)
        }
        Err(Stop::Interrupted(signal)) => {
            stream.facts.signal = Some(signal);
            let reason = json!({ "reason": "interrupted", "partial": true });
            let told = stream
                .meta(json!({}))
                .and_then(|()| stream.summary(false, reason));
            told.map(|()| u8::try_from(128 + signal).unwrap_or(u8::MAX))
        }
        Err(stop) => Err(stop),
    };
    match ended {
        Ok(code) => code,
        Err(Stop::Exit(code)) => code,
        Err(Stop::Gone) => {
            let manner = twists.iter().find_map(|twist| match twist {
                Twist::Pipe(manner) => Some(manner),
                _ => None,
            });
            manner.map_or(141, |manner| manner(&stream.facts))
        }
        Err(Stop::Unwritten) => {
            complain(&format!("{TOOL}: cannot write to stdout\n"));
            74
        }
        Err(Stop::Failed(_) | Stop::Interrupted(_)) => 70,
    }
}

/// Kills the process with a signal, as some mutants do.
pub(crate) fn die_by(signal: i32) -> ! {
    faults::die_by(signal)
}
