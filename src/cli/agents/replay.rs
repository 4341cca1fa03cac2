//! `agentproto replay`: replays a recording as the agent or as the client, or checks it with
//! suites.

use std::ffi::OsString;
use std::io::{self, BufRead, Read, Write};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use crate::cli::agents::diff::{self, Side};
use crate::cli::agents::{certify, record};
use crate::cli::args::{Global, Output, values};
use crate::cli::{Failure, Outcome, io_failure, signals, terminal};
use crate::exit;
use agentproto_harness::model::{RECORDING, Target};
use agentproto_harness::render as reports;
use agentproto_harness::render::Format;
use agentproto_harness::run::process::Launcher;
use agentproto_harness::run::{RunSecrets, recording, rerun};
use agentproto_harness::suite::SuiteProtocol;
use agentproto_text::escape_line;
use agentproto_wire::replay::{AgentReplay, Reaction, ReplayAction};
use agentproto_wire::script::processes;
use agentproto_wire::{Transcript, file};

/// Maximum number of bytes that are read of one line of a client.
const MAX_LINE_BYTES: u64 = 64 << 20;

#[derive(Args, Debug)]
pub struct Replay {
    /// Transcript written by `record`, `replay` or `certify --report-dir`
    pub file: PathBuf,
    /// Wait before each message as long as the recorded agent did
    #[arg(long, conflicts_with_all = ["judge", "command"])]
    pub timing: bool,
    /// Replay the N-th process of the recording [default: 1]
    #[arg(long, value_name = "N", conflicts_with = "judge")]
    pub process: Option<usize>,
    /// Check the recording with the monitors of a suite: the checks that need only messages
    #[arg(long = "check", alias = "judge", conflicts_with = "command")]
    pub judge: bool,
    /// Check with these suites: names or files [default: chosen by the protocol of the recording]
    #[arg(long = "suite", value_name = "NAME|FILE", requires = "judge")]
    pub suites: Vec<String>,
    /// Write the report in every format to DIR
    #[arg(long, value_name = "DIR", requires = "judge")]
    pub report_dir: Option<PathBuf>,
    /// Exit with code 0 if all failures are already in this earlier report (JSON)
    #[arg(long, value_name = "FILE", requires = "judge")]
    pub baseline: Option<PathBuf>,
    /// Working directory for the sessions of a live agent [default: the recorded one if it exists,
    /// else the current directory]
    #[arg(long, value_name = "DIR", requires = "command")]
    pub cwd: Option<PathBuf>,
    /// Set an environment variable for the live agent
    #[arg(long = "env", value_name = "K=V", requires = "command")]
    pub env: Vec<String>,
    /// Maximum number of seconds to wait for a response of a live agent
    #[arg(long, value_name = "S", default_value_t = 30.0, value_parser = crate::cli::agents::seconds)]
    pub timeout: f64,
    /// Write the transcript of the new run to FILE
    #[arg(long, value_name = "FILE", requires = "command")]
    pub to: Option<PathBuf>,
    /// Output format; junit, sarif, html, markdown and badges need --check
    #[arg(long, short = 'o', alias = "format", default_value_t = Format::Human,
          value_parser = values(Format::ALL))]
    pub output: Format,
    /// Live agent that receives the recorded messages of the client
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

impl Replay {
    /// Whether stdout carries the agent's side of a conversation.
    pub fn is_agent(&self) -> bool {
        !self.judge && self.command.is_empty()
    }
}

pub fn run(args: &Replay, global: &Global, out: &mut dyn Write) -> Outcome {
    let (transcript, head) = diff::read(&args.file)?;
    if args.judge {
        return check_recording(args, &transcript, &head, global, out);
    }
    let output = Output::try_from(args.output).map_err(|format| {
        Failure::new(exit::USAGE, format!("`--output {format}` needs `--check`"))
            .hint("without it, use human, json or jsonl")
    })?;
    let lines = select_process(args, &transcript)?;
    match args.command.is_empty() {
        true => play(args, &transcript, lines, out),
        false => rerun(args, &transcript, lines, output, global, out),
    }
}

fn select_process(args: &Replay, transcript: &Transcript) -> Result<RangeInclusive<u64>, Failure> {
    let all = processes(transcript);
    let number = args.process.unwrap_or(1);
    let found = number.checked_sub(1).and_then(|at| all.get(at).cloned());
    if args.process.is_none() && all.len() > 1 {
        eprintln!(
            "agentproto: the recording has {} processes; replaying the first (choose with --process N)",
            all.len()
        );
    }
    found.ok_or_else(|| {
        let message = format!("the recording has no process {number}");
        Failure::new(exit::USAGE, message)
            .hint(format!("number of recorded processes: {}", all.len()))
    })
}

// --- the recorded agent -------------------------------------------------------------------

fn play(
    args: &Replay,
    transcript: &Transcript,
    lines: RangeInclusive<u64>,
    out: &mut dyn Write,
) -> Outcome {
    let mut replay = AgentReplay::new(transcript, lines);
    let mut input = io::stdin().lock();
    loop {
        match replay.next_action() {
            ReplayAction::Stdout { bytes, pause } => {
                wait(args, pause);
                let written = out.write_all(&bytes).and_then(|()| out.flush());
                if written.is_err() {
                    return Ok(exit::FINDINGS);
                }
            }
            ReplayAction::Stderr { bytes, pause } => {
                wait(args, pause);
                let _ = io::stderr().lock().write_all(&bytes);
            }
            ReplayAction::Exit(code) => return Ok(verdict(&replay, Some(code))),
            ReplayAction::Wait | ReplayAction::Done => {
                let mut line = Vec::new();
                let read = (&mut input)
                    .take(MAX_LINE_BYTES)
                    .read_until(b'\n', &mut line);
                if !matches!(read, Ok(1..)) {
                    break;
                }
                if line.last() == Some(&b'\n') {
                    line.pop();
                }
                let reaction = replay.on_line(&line);
                if answer(&reaction, out).is_err() {
                    return Ok(exit::FINDINGS);
                }
            }
        }
    }
    if let Some(warning) = replay.ended() {
        print_error(&warning);
    }
    let code = replay.exit_code();
    Ok(verdict(&replay, code))
}

fn wait(args: &Replay, pause: Duration) {
    if args.timing {
        std::thread::sleep(pause);
    }
}

fn answer(reaction: &Reaction, out: &mut dyn Write) -> io::Result<()> {
    if let Some(warning) = &reaction.warning {
        print_error(warning);
    }
    match &reaction.reply {
        Some(reply) => writeln!(out, "{reply}").and_then(|()| out.flush()),
        None => Ok(()),
    }
}

fn print_error(text: &str) {
    eprintln!("agentproto: {}", escape_line(text));
}

/// A client that behaves as recorded gets the recorded exit code.
fn verdict(replay: &AgentReplay<'_>, code: Option<i32>) -> u8 {
    match replay.deviations {
        0 => code
            .and_then(|code| u8::try_from(code).ok())
            .unwrap_or(exit::CLEAN),
        _ => exit::FINDINGS,
    }
}

// --- the recorded client ------------------------------------------------------------------

fn rerun(
    args: &Replay,
    recorded: &Transcript,
    lines: RangeInclusive<u64>,
    output: Output,
    global: &Global,
    out: &mut dyn Write,
) -> Outcome {
    let env = pairs(&args.env)?;
    let launcher = Launcher::Program(record::program(args.command.clone(), &env)?);
    let secrets = RunSecrets::new(&env, &launcher);
    let here = std::env::current_dir().map_err(io_failure)?;
    let directory = directory(args, recorded, &lines, &here)?;
    let time_limit = certify::seconds(args.timeout)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(io_failure)?;
    let directory = directory.as_deref();
    let rerunning = rerun::rerun(
        recorded,
        lines.clone(),
        &launcher,
        &here,
        directory,
        time_limit,
    );
    let mut new = runtime
        .block_on(rerunning)
        .map_err(|error| Failure::new(exit::UNAVAILABLE, error.to_string()))?;
    new.transcript = secrets.transcript(new.transcript);
    for note in &mut new.notes {
        *note = secrets.text(note).into_owned();
    }
    let command = args.command.iter().map(|word| word.to_string_lossy());
    let command = command.collect::<Vec<_>>().join(" ");
    if let Some(path) = &args.to {
        let written = record::create(path).and_then(|file| {
            let mut file = io::BufWriter::new(file);
            file::write(&new.transcript, &command, &mut file)
        });
        written.map_err(|error| {
            let message = format!("{} cannot be written: {error}", path.display());
            Failure::new(exit::CANT_CREATE, message)
        })?;
    }
    let sides = [
        Side::new(&args.file.to_string_lossy(), recorded, lines),
        Side::new(&command, &new.transcript, new.transcript.numbers()),
    ];
    diff::show(&sides, &new.notes, output, "replay", global, out)
}

fn pairs(env: &[String]) -> Result<Vec<(String, String)>, Failure> {
    let pair = |pair: &String| match pair.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(Failure::new(exit::USAGE, "--env takes NAME=VALUE")),
    };
    env.iter().map(pair).collect()
}

/// The directory that replaces the recorded working directories.
fn directory(
    args: &Replay,
    recorded: &Transcript,
    lines: &RangeInclusive<u64>,
    here: &Path,
) -> Result<Option<String>, Failure> {
    if let Some(cwd) = &args.cwd {
        let cwd = cwd.canonicalize().map_err(|error| {
            let message = format!("{} is not a directory: {error}", cwd.display());
            Failure::new(exit::NO_INPUT, message)
        })?;
        return Ok(Some(cwd.to_string_lossy().into_owned()));
    }
    let script = agentproto_wire::rerun::ClientReplay::new(recorded, lines.clone());
    let is_there = |dir: &String| Path::new(dir).is_dir();
    Ok(match script.directories().iter().all(is_there) {
        true => None,
        false => Some(here.to_string_lossy().into_owned()),
    })
}

// --- checks of a recording ----------------------------------------------------------------

fn check_recording(
    args: &Replay,
    transcript: &Transcript,
    head: &Value,
    global: &Global,
    out: &mut dyn Write,
) -> Outcome {
    signals::watch();
    let of_protocol = match recording::protocol(transcript) {
        SuiteProtocol::Mcp => "mcp".to_owned(),
        _ => "acp".to_owned(),
    };
    let names = match args.suites.is_empty() {
        true => vec![of_protocol],
        false => args.suites.clone(),
    };
    let suites = names.iter().map(|name| certify::suite(name));
    let suites = suites.collect::<Result<Vec<_>, Failure>>()?;
    let target = Target {
        kind: RECORDING.to_owned(),
        name: match head.get("target").and_then(Value::as_str) {
            Some(name) => name.to_owned(),
            None => args.file.to_string_lossy().into_owned(),
        },
        ..Target::default()
    };
    let mut report = recording::check(&suites, target, transcript);
    let mut options = reports::RenderOptions {
        command: "replay".to_owned(),
        color: terminal::color(global),
        unicode: terminal::unicode(),
        width: terminal::width(),
        report_dir: args.report_dir.clone(),
        ..reports::RenderOptions::default()
    };
    if let Some(path) = &args.baseline {
        let baseline = certify::baseline(path)?;
        options.fixed = reports::baseline::apply(&mut report, &baseline);
    }
    if let Some(dir) = &args.report_dir {
        let written = reports::write_all(&report, dir, &options);
        written.map_err(|error| Failure::new(exit::CANT_CREATE, error.to_string()))?;
    }
    reports::render(args.output, &report, &options, out).map_err(io_failure)?;
    Ok(match report.has_new_failures() {
        true => exit::FINDINGS,
        false => exit::CLEAN,
    })
}
