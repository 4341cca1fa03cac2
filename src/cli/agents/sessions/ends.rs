//! `agentproto sessions interrupt`, `kill` and `forget`: end a turn, end sessions, delete them.

use std::io::{BufRead, IsTerminal, Write};

use clap::Args;
use serde_json::{Value, json};

use super::changes::{Change, Changes};
use super::find::{self, id_of, is_alive};
use crate::cli::agents::client::{Client, HostOptions};
use crate::cli::agents::effects::{Destructive, Effects};
use crate::cli::args::Output;
use crate::cli::{Failure, Outcome};
use crate::exit;
use agentproto_text::{count, escape_line};

#[derive(Args, Debug)]
pub struct Interrupt {
    /// Id of the session, or a unique prefix
    #[arg(value_name = "ID")]
    pub session: String,
    #[command(flatten)]
    pub effects: Effects,
    #[command(flatten)]
    pub host: HostOptions,
    /// Output format
    #[arg(long, short = 'o', alias = "format", value_enum, default_value_t = Output::Human)]
    pub output: Output,
}

#[derive(Args, Debug)]
pub struct Kill {
    /// Ids of the sessions, or unique prefixes
    #[arg(value_name = "ID", required = true)]
    pub sessions: Vec<String>,
    #[command(flatten)]
    pub effects: Effects,
    #[command(flatten)]
    pub host: HostOptions,
    /// Output format
    #[arg(long, short = 'o', alias = "format", value_enum, default_value_t = Output::Human)]
    pub output: Output,
}

#[derive(Args, Debug)]
pub struct Forget {
    /// Ids of the sessions, or unique prefixes
    #[arg(value_name = "ID", required = true)]
    pub sessions: Vec<String>,
    /// Same as `--confirm`
    #[arg(long, short = 'y')]
    pub yes: bool,
    #[command(flatten)]
    pub destructive: Destructive,
    #[command(flatten)]
    pub host: HostOptions,
    /// Output format
    #[arg(long, short = 'o', alias = "format", value_enum, default_value_t = Output::Human)]
    pub output: Output,
}

pub fn interrupt(args: &Interrupt, out: &mut dyn Write) -> Outcome {
    let client = Client::new(&args.host)?;
    let session = find::one(&client, &args.session)?;
    let id = id_of(&session);
    let dry_run = args.effects.dry_run;
    let change = match dry_run {
        true => Change {
            changed: false,
            action: "interrupt",
            text: match session["busy"] == true {
                true => format!("would end the turn of {id}"),
                false => format!("{id}: no turn is running"),
            },
            session,
        },
        false => {
            let path = find::path(&id, "/interrupt");
            let done = find::request(&client, move |client| client.post(&path, &json!({})))?;
            let was_busy = done["wasBusy"] == true;
            Change {
                session: find::record(&client, &id)?,
                action: "interrupted",
                changed: was_busy,
                text: match was_busy {
                    true => format!("interrupted the turn of {id}"),
                    false => format!("{id}: no turn was running"),
                },
            }
        }
    };
    let mut changes = Changes::new("sessions interrupt", args.output, false, dry_run, out)?;
    changes.add(change)?;
    changes.end()
}

pub fn kill(args: &Kill, out: &mut dyn Write) -> Outcome {
    let client = Client::new(&args.host)?;
    let sessions = find::several(&client, &args.sessions)?;
    let dry_run = args.effects.dry_run;
    let mut changes = Changes::new("sessions kill", args.output, true, dry_run, out)?;
    for session in sessions {
        let id = id_of(&session);
        if dry_run {
            changes.add(Change {
                action: "kill",
                changed: false,
                text: match is_alive(&session) {
                    true => format!("would kill {}", describe(&session)),
                    false => already_ended(&session),
                },
                session,
            })?;
            continue;
        }
        let path = find::path(&id, "/kill");
        let done = find::request(&client, move |client| client.post(&path, &json!({})))?;
        let killed = done["ok"] == true;
        let session = find::record(&client, &id)?;
        changes.add(Change {
            action: "killed",
            changed: killed,
            text: match killed {
                true => format!("killed {}", describe(&session)),
                false => already_ended(&session),
            },
            session,
        })?;
    }
    changes.end()
}

pub fn forget(args: &Forget, out: &mut dyn Write) -> Outcome {
    let client = Client::new(&args.host)?;
    let sessions = find::several(&client, &args.sessions)?;
    let dry_run = args.destructive.effects.dry_run;
    if !dry_run {
        confirm(args, &sessions)?;
    }
    let mut changes = Changes::new("sessions forget", args.output, true, dry_run, out)?;
    for session in sessions {
        let text = describe(&session);
        if dry_run {
            changes.add(Change {
                session,
                action: "forget",
                changed: false,
                text: format!("would forget {text}"),
            })?;
            continue;
        }
        let path = find::path(&id_of(&session), "");
        let done = find::request(&client, move |client| client.delete(&path))?;
        changes.add(Change {
            session,
            action: "forgotten",
            changed: done["ok"] == true,
            text: format!("forgot {text}"),
        })?;
    }
    changes.end()
}

/// Requires a confirmation. At a terminal, the user is asked if a session is alive: its agent works
/// on something.
fn confirm(args: &Forget, sessions: &[Value]) -> Result<(), Failure> {
    let mut options = args.destructive.clone();
    options.confirm |= args.yes;
    let can_ask = args.output == Output::Human
        && std::io::stdin().is_terminal()
        && std::io::stderr().is_terminal();
    if can_ask && !options.confirm {
        let alive: Vec<&Value> = sessions.iter().filter(|s| is_alive(s)).collect();
        options.confirm = alive.is_empty() || ask(&alive)?;
        if !options.confirm {
            return Err(Failure::new(exit::FINDINGS, "nothing was changed").typed("declined"));
        }
    }
    let what = format!(
        "this deletes {} with all output",
        count(sessions.len(), "session", "sessions")
    );
    options.check(&what, sessions.len())
}

fn ask(alive: &[&Value]) -> Result<bool, Failure> {
    for session in alive {
        eprintln!("{} is alive", describe(session));
    }
    let unreadable = |e| Failure::new(exit::IO, format!("cannot read the answer: {e}"));
    loop {
        eprint!("Kill and forget? [y/N]: ");
        let _ = std::io::stderr().flush();
        let mut line = String::new();
        let read = std::io::stdin().lock().read_line(&mut line);
        if read.map_err(unreadable)? == 0 {
            return Ok(false);
        }
        match line.trim().to_ascii_lowercase().as_str() {
            "y" | "yes" => return Ok(true),
            "n" | "no" | "" => return Ok(false),
            _ => eprintln!("Answer y or n."),
        }
    }
}

/// The id of a session, with its label.
fn describe(session: &Value) -> String {
    let id = escape_line(&id_of(session)).into_owned();
    match session["label"].as_str() {
        Some(label) => format!("{id} ({})", escape_line(label)),
        None => id,
    }
}

fn already_ended(session: &Value) -> String {
    let status = session["status"].as_str().unwrap_or("ended");
    format!("{}: it has already ended ({status})", describe(session))
}
