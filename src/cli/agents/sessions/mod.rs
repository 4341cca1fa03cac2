//! `agentproto sessions`: lists the sessions of a host, shows a live table, or follows one session.

mod attach;
mod table;

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};

use crate::cli::agents::client::{Client, HostOptions, StreamStart};
use crate::cli::args::{Global, Output};
use crate::cli::machine::page::Page;
use crate::cli::{Failure, Outcome, io_failure, signals, terminal};
use crate::exit;
use agentproto_report::aoi::{Emitter, object};
use agentproto_report::event::EventType;

/// Interval between two updates of `--watch`.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Args, Debug)]
pub struct Sessions {
    /// Show a live table until Ctrl-C
    #[arg(long, conflicts_with_all = ["attach", "json", "limit", "cursor"])]
    pub watch: bool,
    /// Follow a session (its id, or a unique prefix) and send prompts to it: Ctrl-C interrupts the
    /// turn, Ctrl-D detaches
    #[arg(long, value_name = "ID", conflicts_with_all = ["json", "limit", "cursor"])]
    pub attach: Option<String>,
    /// With `--attach`: start with the stored events (start), or print only new events (now)
    /// [default: start on a terminal, else now]
    #[arg(long, value_name = "WHEN", value_enum, requires = "attach")]
    pub from: Option<StreamStart>,
    /// List only live sessions
    #[arg(long)]
    pub alive: bool,
    /// Print the list as JSON (same as `--output json`)
    #[arg(long, conflicts_with = "output")]
    pub json: bool,
    #[command(flatten)]
    pub page: Page,
    #[command(flatten)]
    pub host: HostOptions,
    /// Output format
    #[arg(long, short = 'o', alias = "format", value_enum, default_value_t = Output::Human)]
    pub output: Output,
}

pub fn run(args: &Sessions, global: &Global, out: &mut dyn Write) -> Outcome {
    let client = Client::new(&args.host)?;
    if args.output == Output::Json && (args.watch || args.attach.is_some()) {
        return Err(Failure::new(
            exit::USAGE,
            "`--watch` and `--attach` cannot print one JSON document",
        )
        .hint("use `--output jsonl` for one event per line"));
    }
    match &args.attach {
        Some(id) => attach::run(args, id, &client, global, out),
        None if args.watch => watch(args, &client, global, out),
        None => list(args, &client, global, out),
    }
}

/// The sessions of the host, unless a signal arrives first.
fn list_sessions(client: &Client) -> Result<Value, Failure> {
    let client = client.clone();
    signals::run_until_signal(move || client.get("/sessions"))?
}

/// The records as the host sends them. Unknown fields are kept (A46-MODEL-12).
fn fetch(args: &Sessions, client: &Client) -> Result<Vec<Value>, Failure> {
    let answer = list_sessions(client)?;
    let Some(sessions) = answer["sessions"].as_array() else {
        let what = "invalid response of the host (AIP-46): the list `sessions` is missing";
        return Err(Failure::new(exit::UNAVAILABLE, what)
            .hint("check that the URL is that of a session host"));
    };
    let alive = |s: &&Value| matches!(s["status"].as_str(), Some("starting" | "running"));
    let sessions = sessions.iter().filter(|s| !args.alive || alive(s));
    Ok(sessions.cloned().collect())
}

fn list(args: &Sessions, client: &Client, global: &Global, out: &mut dyn Write) -> Outcome {
    let started = Instant::now();
    let mut sessions = fetch(args, client)?;
    let is_document = args.json || args.output == Output::Json;
    let is_table = !is_document && args.output != Output::Jsonl;
    if is_table {
        table::sort(&mut sessions);
    }
    let id = |session: &Value| session["id"].as_str().unwrap_or_default().to_owned();
    let name = format!("sessions table={is_table} alive={}", args.alive);
    let range = args.page.select_after(&name, &mut sessions, id)?;
    if is_document {
        let mut all = object(json!({ "sessions": sessions }));
        all.extend(args.page.document_fields(&range));
        let all = Value::Object(all);
        let text = agentproto_text::pretty(&all).map_err(io_failure)?;
        writeln!(out, "{text}").map_err(io_failure)?;
    } else if args.output == Output::Jsonl {
        let mut emitter = Emitter::new(out, env!("CARGO_PKG_VERSION"));
        emitter.meta("sessions").map_err(io_failure)?;
        for session in sessions {
            emitter
                .event(EventType::HostSession, &object(session))
                .map_err(io_failure)?;
        }
        emitter
            .summary(true, started.elapsed(), range.fields())
            .map_err(io_failure)?;
    } else {
        let color = terminal::color(global);
        let mut table = table::render(&sessions, color, terminal::width(), usize::MAX);
        if let Some(next) = range.next {
            table.push_str(&format!("more: --cursor {next}\n"));
        }
        out.write_all(table.as_bytes()).map_err(io_failure)?;
    }
    Ok(exit::CLEAN)
}

/// Polls the host, and prints changes.
fn watch(args: &Sessions, client: &Client, global: &Global, out: &mut dyn Write) -> Outcome {
    let started = Instant::now();
    signals::watch();
    if args.output == Output::Jsonl {
        let mut emitter = Emitter::new(out, env!("CARGO_PKG_VERSION"));
        emitter.meta("sessions").map_err(io_failure)?;
        let mut known: std::collections::HashMap<String, Value> = Default::default();
        let ended = poll(|| {
            for session in fetch(args, client)? {
                let id = session["id"].as_str().unwrap_or_default().to_owned();
                if known.get(&id) != Some(&session) {
                    emitter
                        .event(EventType::HostSession, &object(session.clone()))
                        .map_err(io_failure)?;
                    known.insert(id, session);
                }
            }
            Ok(emitter.is_closed())
        });
        return finish(emitter, ended, started);
    }
    let color = terminal::color(global);
    let is_screen = std::io::stdout().is_terminal();
    let mut shown = String::new();
    poll(|| {
        let rows = match terminal_size::terminal_size() {
            Some((_, height)) if is_screen => usize::from(height.0).saturating_sub(1),
            _ => usize::MAX,
        };
        let table = table::render(&fetch(args, client)?, color, terminal::width(), rows);
        if table != shown {
            // Move to the top left and clear the screen, so that nothing of the old table remains.
            let (before, after) = match is_screen {
                true => ("\x1b[H\x1b[2J", ""),
                false => ("", "\n"),
            };
            write!(out, "{before}{table}{after}")
                .and_then(|()| out.flush())
                .map_err(io_failure)?;
            shown = table;
        }
        Ok(false)
    })
}

/// Repeats `update` until a signal, an error, or the end of the reader.
fn poll(mut update: impl FnMut() -> Result<bool, Failure>) -> Outcome {
    loop {
        if update()? {
            return Ok(exit::CLEAN);
        }
        let next = Instant::now() + POLL_INTERVAL;
        while Instant::now() < next {
            if let Some(code) = signals::interrupted() {
                return Ok(code);
            }
            std::thread::sleep(signals::POLL_INTERVAL);
        }
    }
}

/// Ends a stream of events. The caller reports an interrupt.
fn finish(emitter: Emitter<'_>, ended: Outcome, started: Instant) -> Outcome {
    match ended? {
        exit::CLEAN => emitter
            .summary(true, started.elapsed(), object(json!({})))
            .map_err(io_failure)
            .map(|()| exit::CLEAN),
        code => Err(Failure::interrupted(code)),
    }
}
