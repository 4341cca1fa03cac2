//! `agentproto sessions prompt`: sends a prompt to a session, and prints the answer.

use std::collections::HashMap;
use std::io::{IsTerminal, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use clap::Args;
use serde_json::json;

use super::changes::{Change, Changes};
use super::find::{self, for_command_line, id_of};
use super::stream::{ClientEvent, exit_code, follow, forward_signals};
use super::turn::{Document, Turn};
use crate::cli::agents::client::{Client, HostOptions, StreamStart};
use crate::cli::agents::effects::IdempotencyArgs;
use crate::cli::agents::run::MAX_PROMPT_BYTES;
use crate::cli::agents::run::output::{Human, Machine, RunOutput};
use crate::cli::agents::stdin;
use crate::cli::args::{Global, Output};
use crate::cli::{Failure, Outcome, io_failure, signals};
use crate::exit;
use agentproto_report::aoi::Emitter;

#[derive(Args, Debug)]
pub struct Prompt {
    /// Id of the session, or a unique prefix
    #[arg(value_name = "ID")]
    pub session: String,
    /// Prompt to send; `-` reads stdin
    #[arg(value_name = "TEXT")]
    pub text: String,
    /// Print the answer while it arrives, until the turn ends (default)
    #[arg(long, conflicts_with = "no_wait")]
    pub wait: bool,
    /// Only send the prompt
    #[arg(long)]
    pub no_wait: bool,
    /// If a turn is running, wait for its end first
    #[arg(long)]
    pub queue: bool,
    #[command(flatten)]
    pub idempotency: IdempotencyArgs,
    #[command(flatten)]
    pub host: HostOptions,
    /// Output format
    #[arg(long, short = 'o', alias = "format", value_enum, default_value_t = Output::Human)]
    pub output: Output,
}

/// The text of a prompt: the argument, or stdin if it is `-`.
pub fn text(given: &str) -> Result<String, Failure> {
    if given != "-" {
        return Ok(given.to_owned());
    }
    let unreadable = |why: String| {
        Failure::new(
            exit::IO,
            format!("cannot read the prompt from stdin: {why}"),
        )
    };
    let read = signals::run_until_signal(|| stdin::read_all(MAX_PROMPT_BYTES))?;
    let bytes = read.map_err(|error| unreadable(error.to_string()))?;
    String::from_utf8(bytes.to_vec()).map_err(|error| unreadable(error.to_string()))
}

pub fn run(args: &Prompt, global: &Global, out: &mut dyn Write) -> Outcome {
    let text = text(&args.text)?;
    let client = Client::new(&args.host)?;
    let id = id_of(&find::one(&client, &args.session)?);
    if args.no_wait && !args.queue {
        let (path, body) = (find::path(&id, "/prompt"), json!({ "prompt": text }));
        let sent = find::request(&client, move |client| client.post(&path, &body));
        sent.map_err(|failure| busy_hint(failure, &id))?;
        return sent_change(args, &client, &id, out);
    }
    let (sender, receiver) = channel();
    forward_signals(sender.clone())?;
    follow(client.clone(), id.clone(), StreamStart::Now, sender.clone());
    let sent = send(args, &client, &id, &text, &receiver);
    if args.no_wait || sent.is_err() {
        signals::watch();
        sent?;
        return sent_change(args, &client, &id, out);
    }
    let output = output("sessions prompt", args.output, global, out)?;
    wait(&client, &id, sender, &receiver, output)
}

/// Sends the prompt, with `--queue` after the running turn.
fn send(
    args: &Prompt,
    client: &Client,
    id: &str,
    text: &str,
    receiver: &Receiver<ClientEvent>,
) -> Result<(), Failure> {
    let path = find::path(id, "/prompt");
    let mut is_open = false;
    loop {
        match receiver.recv() {
            Ok(ClientEvent::Open) => is_open = true,
            Ok(ClientEvent::Frame(frame)) if frame.event == "end" => {
                let what = format!("session `{id}` ended, and the prompt was not sent");
                return Err(for_command_line(
                    Failure::new(exit::UNAVAILABLE, what).typed("session_ended"),
                ));
            }
            // The turn has ended.
            Ok(ClientEvent::Frame(frame)) if frame.event == "status" => {}
            Ok(ClientEvent::Lost(failure)) => return Err(for_command_line(failure)),
            Ok(ClientEvent::Signal(signal)) => {
                return Err(Failure::interrupted(exit_code(signal)));
            }
            Ok(_) => continue,
            Err(_) => return Err(Failure::new(exit::INTERNAL, "the stream ended early")),
        }
        if !is_open {
            continue;
        }
        match client.post(&path, &json!({ "prompt": text })) {
            Ok(_) => return Ok(()),
            Err(failure) if args.queue && failure.slug == Some("session_busy") => {}
            Err(failure) => return Err(busy_hint(for_command_line(failure), id)),
        }
    }
}

fn busy_hint(failure: Failure, id: &str) -> Failure {
    match failure.slug {
        Some("session_busy") => failure.hint(format!(
            "end the turn with `agentproto sessions interrupt {id}`, or add `--queue` to wait for its end"
        )),
        _ => failure,
    }
}

fn sent_change(args: &Prompt, client: &Client, id: &str, out: &mut dyn Write) -> Outcome {
    let mut changes = Changes::new("sessions prompt", args.output, false, false, out)?;
    changes.add(Change {
        session: find::record(client, id)?,
        action: "prompted",
        changed: true,
        text: format!("{id}: the prompt was sent"),
    })?;
    changes.end()
}

/// Output for the answer. In machine mode, the stream is opened.
pub fn output<'w>(
    command: &str,
    output: Output,
    global: &Global,
    out: &'w mut dyn Write,
) -> Result<Box<dyn RunOutput + 'w>, Failure> {
    Ok(match output {
        Output::Human => Box::new(Human {
            out,
            verbose: global.verbose,
            quiet: global.quiet,
            midline: false,
            can_ask: std::io::stdin().is_terminal() && std::io::stderr().is_terminal(),
            decision: None,
            tools: HashMap::new(),
        }),
        Output::Json => Box::new(Document::new(out)),
        Output::Jsonl => {
            let mut emitter = Emitter::new(out, env!("CARGO_PKG_VERSION"));
            emitter.meta(command).map_err(io_failure)?;
            Box::new(Machine {
                emitter,
                started: Instant::now(),
                session: None,
            })
        }
    })
}

/// Prints the answer to the prompt that was just sent, until the end of its turn.
pub fn wait(
    client: &Client,
    id: &str,
    sender: Sender<ClientEvent>,
    receiver: &Receiver<ClientEvent>,
    mut output: Box<dyn RunOutput + '_>,
) -> Outcome {
    let turn = Turn {
        client,
        id,
        sender,
        receiver,
    };
    let ended = turn.follow(&mut *output);
    // The reader may be slow: from here on, the stream handles signals itself.
    signals::watch();
    output.finish(ended)
}
