//! `agentproto sessions`: lists the sessions of a host, shows a live table, follows one session, and
//! starts, prompts, answers, ends and exports sessions.

mod answer;
mod attach;
mod changes;
mod ends;
mod export;
mod find;
mod markdown;
mod markdown_text;
mod prompt;
mod question;
mod start;
mod stream;
mod table;
mod turn;
mod watch;

use std::cmp::Reverse;
use std::io::Write;
use std::time::Instant;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::cli::agents::client::{Client, HostOptions, StreamStart};
use crate::cli::args::{Global, Output};
use crate::cli::machine::page::Page;
use crate::cli::{Failure, Outcome, io_failure, terminal};
use crate::exit;
use agentproto_report::aoi::{Emitter, object};
use agentproto_report::event::EventType;
use agentproto_text::escape_line;

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Sessions {
    #[command(subcommand)]
    pub verb: Option<Verb>,
    /// Show a live table until `q` or Ctrl-C
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
    /// Print a one-time link that opens the dashboard of the running daemon
    #[arg(long, conflicts_with_all = ["watch", "attach", "alive", "json", "limit", "cursor"])]
    pub open: bool,
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

#[derive(Subcommand, Debug)]
pub enum Verb {
    /// Start a session of an adapter, and print its id
    Start(start::Start),
    /// Send a prompt to a session, and print the answer
    Prompt(prompt::Prompt),
    /// Answer a question of the agent, or list its open questions
    Answer(answer::AnswerQuestion),
    /// End the turn of a session, not the session
    Interrupt(ends::Interrupt),
    /// End sessions; their history is kept
    Kill(ends::Kill),
    /// End sessions, and delete them with their history
    Forget(ends::Forget),
    /// Print the history of a session
    Export(export::Export),
}

impl Sessions {
    /// Whether stdin is the prompt.
    pub fn reads_input(&self) -> bool {
        match &self.verb {
            Some(Verb::Start(args)) => args.prompt.as_deref() == Some("-"),
            Some(Verb::Prompt(args)) => args.text == "-",
            _ => false,
        }
    }
}

pub fn run(args: &Sessions, global: &Global, out: &mut dyn Write) -> Outcome {
    if let Some(verb) = &args.verb {
        return match verb {
            Verb::Start(args) => start::run(args, global, out),
            Verb::Prompt(args) => prompt::run(args, global, out),
            Verb::Answer(args) => answer::run(args, out),
            Verb::Interrupt(args) => ends::interrupt(args, out),
            Verb::Kill(args) => ends::kill(args, out),
            Verb::Forget(args) => ends::forget(args, out),
            Verb::Export(args) => export::run(args, out),
        };
    }
    let client = Client::new(&args.host)?;
    if args.output == Output::Json && (args.watch || args.attach.is_some()) {
        return Err(Failure::new(
            exit::USAGE,
            "`--watch` and `--attach` cannot print one JSON document",
        )
        .hint("use `--output jsonl` for one event per line"));
    }
    match &args.attach {
        Some(id) => {
            let attach = attach::Attach {
                from: args.from,
                output: args.output,
            };
            attach::run(&attach, find::one(&client, id)?, &client, global, out)
        }
        None if args.open => link(args, &client, out),
        None if args.watch => watch::watch(args, &client, global, out),
        None => list(args, &client, global, out),
    }
}

/// Prints a link that opens the dashboard once.
fn link(args: &Sessions, client: &Client, out: &mut dyn Write) -> Outcome {
    let started = Instant::now();
    let issued = find::request(client, |client| client.post("/login/codes", &json!({})))?;
    let Some(code) = issued["code"].as_str() else {
        let what = "invalid response of the host: `code` is missing";
        return Err(Failure::new(exit::UNAVAILABLE, what)
            .hint("check that the URL is that of an agentproto daemon"));
    };
    let link = format!("{}/#code={code}", client.base());
    let fields = json!({ "link": link, "expiresInMs": issued["expiresInMs"] });
    match args.output {
        Output::Human => {
            writeln!(out, "{}", escape_line(&link)).map_err(io_failure)?;
            out.flush().map_err(io_failure)?;
            let minutes = issued["expiresInMs"].as_u64().unwrap_or(0) / 60_000;
            eprintln!("valid once, for {minutes} minutes");
        }
        Output::Json => {
            let text = agentproto_text::pretty(&fields).map_err(io_failure)?;
            writeln!(out, "{text}").map_err(io_failure)?;
        }
        Output::Jsonl => {
            let mut emitter = Emitter::new(out, env!("CARGO_PKG_VERSION"));
            emitter.meta("sessions").map_err(io_failure)?;
            emitter
                .event(EventType::SignInLink, &object(fields))
                .map_err(io_failure)?;
            emitter
                .summary(true, started.elapsed(), object(json!({})))
                .map_err(io_failure)?;
        }
    }
    Ok(exit::CLEAN)
}

/// The records as the host sends them. Unknown fields are kept (A46-MODEL-12).
fn fetch(args: &Sessions, client: &Client) -> Result<Vec<Value>, Failure> {
    let answer = find::list(client)?;
    let Some(sessions) = answer["sessions"].as_array() else {
        let what = "invalid response of the host (AIP-46): the list `sessions` is missing";
        return Err(Failure::new(exit::UNAVAILABLE, what)
            .hint("check that the URL is that of a session host"));
    };
    let sessions = sessions.iter();
    let sessions = sessions.filter(|session| !args.alive || find::is_alive(session));
    Ok(sessions.cloned().collect())
}

fn list(args: &Sessions, client: &Client, global: &Global, out: &mut dyn Write) -> Outcome {
    let started = Instant::now();
    let mut sessions = fetch(args, client)?;
    let is_document = args.json || args.output == Output::Json;
    // The same order in every format. It does not depend on the state, which can change between
    // two pages.
    sessions.sort_by_cached_key(|session| Reverse(table::age(session)));
    // Of all sessions: a prefix must not name one on another page.
    let prefix = table::prefix_len(&sessions);
    let name = format!("sessions alive={}", args.alive);
    let range = args.page.select_after(&name, &mut sessions, find::id_of)?;
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
        let layout = table::Layout {
            color: terminal::color(global),
            width: table_width(),
            rows: usize::MAX,
            prefix,
        };
        let mut table = table::render(&sessions, &layout);
        if let Some(next) = range.next {
            table.push_str(&format!("more: --cursor {next}\n"));
        }
        out.write_all(table.as_bytes()).map_err(io_failure)?;
    }
    Ok(exit::CLEAN)
}

/// Width of a table. What is not a terminal gets whole rows.
fn table_width() -> usize {
    match terminal::is_terminal() {
        true => terminal::width(),
        false => usize::MAX,
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
