//! `agentproto run`: runs one turn of an agent, from loading its manifest to closing the session.

mod face;
mod questions;

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use self::face::{Face, Human, Machine};
use self::questions::{Questions, ask};
use crate::cli::agents::effects::Keyed;
use crate::cli::agents::exit_codes;
use crate::cli::agents::input;
use crate::cli::agents::notes::{self, Note, Notes, Signals};
use crate::cli::args::{Global, values};
use crate::cli::{Outcome, io_failure, signals};
use crate::exit;
use agentproto_report::aoi::Emitter;
use agentproto_runtime::agent::{Agent, Wishlist};
use agentproto_runtime::arm::desk::{Answer, Decision, Permissions, Rule};
use agentproto_runtime::bundle::Bundle;
use agentproto_runtime::choices::{Given, Strategy, Wanted};
use agentproto_runtime::context::{Context, Sandboxing, Setting};
use agentproto_runtime::continuation::{Exchange, with_history};
use agentproto_runtime::home::Home;
use agentproto_runtime::install;
use agentproto_runtime::interact::{Headless, Interact};
use agentproto_runtime::observe::Observer;
use agentproto_runtime::session::Session;
use agentproto_runtime::{Code, Fault, StopReason, StreamEvent};

/// Maximum length of a prompt, in bytes.
pub const LONGEST_PROMPT: u64 = 64 << 20;

#[derive(Args, Debug)]
pub struct Run {
    /// Slug, manifest or bundle directory
    pub target: String,
    /// Send this prompt to the agent; `-` reads stdin
    #[arg(
        long,
        short = 'p',
        value_name = "TEXT",
        required_unless_present = "list_sessions"
    )]
    pub prompt: Option<String>,
    /// Run the agent in DIR [default: the current directory]
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// Use this mode of the manifest
    #[arg(long, value_name = "ID")]
    pub mode: Option<String>,
    /// Set an option of the manifest
    #[arg(long, value_name = "ID=VALUE", value_parser = pair)]
    pub option: Vec<(String, String)>,
    /// Pass prior turns to the agent with this strategy of the manifest
    #[arg(long, value_name = "ID")]
    pub continuation: Option<String>,
    /// Read prior turns for the transcript strategy from a JSONL file of {"role","text"}
    #[arg(long, value_name = "FILE")]
    pub transcript: Option<PathBuf>,
    /// Resume an earlier session
    #[arg(long, value_name = "ID")]
    pub resume: Option<String>,
    /// Read mode, options and continuation from an OPERATOR.md
    #[arg(long, value_name = "FILE")]
    pub operator: Option<PathBuf>,
    /// Whether to enforce the declared sandbox
    #[arg(long, value_name = "WHEN", default_value_t = Sandboxing::Auto, value_parser = values(Sandboxing::ALL))]
    pub sandbox: Sandboxing,
    /// How to answer permission requests of the agent [default: ask on a terminal, else deny]
    #[arg(long, value_name = "WHO", value_parser = values(Decision::ALL))]
    pub permissions: Option<Decision>,
    /// Allow tools whose name matches this glob, regardless of `--permissions`
    #[arg(long, value_name = "GLOB")]
    pub allow_tool: Vec<String>,
    /// Deny tools whose name matches this glob; takes precedence over `--allow-tool`
    #[arg(long, value_name = "GLOB")]
    pub deny_tool: Vec<String>,
    /// Confirm install, setup and permissions in advance
    #[arg(long, short = 'y')]
    pub yes: bool,
    /// Also install programs without a SHA-256
    #[arg(long)]
    pub allow_unverified: bool,
    /// Maximum number of seconds for the agent's handshake
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = crate::cli::agents::seconds)]
    pub handshake_timeout: f64,
    /// Cancel the turn after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = crate::cli::agents::seconds)]
    pub turn_timeout: Option<f64>,
    /// Also look up slugs in DIR
    #[arg(long, value_name = "DIR")]
    pub adapters: Vec<PathBuf>,
    /// List the agent's sessions, and send no prompt
    #[arg(long, conflicts_with_all = ["prompt", "resume"])]
    pub list_sessions: bool,
    #[command(flatten)]
    pub keyed: Keyed,
    /// Output format: the agent's text, or events
    #[arg(long, short = 'o', alias = "format", value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// Values of `--output`: only the agent's text, or events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    Text,
    Jsonl,
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((id, value)) if !id.is_empty() => Ok((id.to_owned(), value.to_owned())),
        _ => Err("expected ID=VALUE".to_owned()),
    }
}

pub fn run(args: &Run, global: &Global, out: &mut dyn Write) -> Outcome {
    let runtime = notes::runtime()?;
    let began = Instant::now();
    let mut face: Box<dyn Face + '_> = match args.output {
        Output::Jsonl => {
            let mut emitter = Emitter::new(out, env!("CARGO_PKG_VERSION"));
            emitter.meta("run").map_err(io_failure)?;
            Box::new(Machine { emitter, began })
        }
        Output::Text => Box::new(Human {
            out,
            verbose: global.verbose,
            quiet: global.quiet,
            midline: false,
            asks: at_terminal(args),
        }),
    };
    let ended = runtime.block_on(converse(args, &mut *face));
    // Also kills what still runs.
    runtime.shutdown_timeout(Duration::from_millis(500));
    // The reader may be slow: from here on, the stream handles signals itself.
    signals::watch();
    face.finish(ended)
}

/// The outcome of a run.
#[derive(Default)]
pub struct Ended {
    session: Option<String>,
    reason: Option<StopReason>,
    interrupted: Option<u8>,
    /// Exit code for the turn's own error, which was already reported as an event.
    told: Option<u8>,
}

async fn converse(args: &Run, face: &mut dyn Face) -> Result<Ended, Fault> {
    let (sender, mut notes) = mpsc::unbounded_channel();
    let mut signals = Signals::new();
    let reading = message(args);
    let message = tokio::select! {
        biased;
        code = signals.next() => return Ok(Ended { interrupted: Some(code), ..Ended::default() }),
        message = reading => message?,
    };
    let agent = load(args, Arc::new(Notes(sender)))?;
    let strategy = agent.chosen.strategy;
    if args.resume.is_some() && strategy != Strategy::NativeResume {
        let what = format!(
            "`--resume` needs the continuation native-resume, but `{}` is selected (AIP-45, Continuation)",
            strategy.as_str()
        );
        return Err(Fault::new(Code::ContinuationUnsupported, what)
            .hint("add `--continuation native-resume` if the manifest supports it"));
    }
    let message = match strategy {
        Strategy::Transcript => with_history(&history(args)?, &message),
        _ => message,
    };
    let starting = agent.start_or_resume(args.resume.as_deref());
    tokio::pin!(starting);
    let session = loop {
        tokio::select! {
            biased;
            code = signals.next() => return Ok(Ended { interrupted: Some(code), ..Ended::default() }),
            note = notes.recv() => face.note(note)?,
            started = &mut starting => break started,
        }
    };
    drain(&mut notes, face)?;
    let session = session?;
    let mut ended = Ended::default();
    let turned = match args.list_sessions {
        true => {
            let limit = Duration::from_secs_f64(args.handshake_timeout);
            list(&session, limit, face, &mut notes, &mut signals, &mut ended).await
        }
        false => {
            turn(
                &session,
                message,
                face,
                &mut notes,
                &mut signals,
                &mut ended,
            )
            .await
        }
    };
    ended.session = Some(session.id());
    let closing = session.close();
    tokio::pin!(closing);
    loop {
        tokio::select! {
            biased;
            code = signals.next() => {
                ended.interrupted = Some(code);
                break;
            }
            note = notes.recv() => face.note(note)?,
            closed = &mut closing => {
                let known = turned.is_err() || ended.told.is_some() || ended.interrupted.is_some();
                match closed {
                    // The run already has an error or was interrupted, so this is only a warning.
                    Err(fault) if known => {
                        let code = fault.code.as_str().to_owned();
                        face.note(Some(Note::Warning(code, fault.message)))?;
                    }
                    closed => {
                        closed?;
                    }
                }
                break;
            }
        }
    }
    drain(&mut notes, face)?;
    turned.map(|()| ended)
}

fn drain(notes: &mut mpsc::UnboundedReceiver<Note>, face: &mut dyn Face) -> Result<(), Fault> {
    while let Ok(note) = notes.try_recv() {
        face.note(Some(note))?;
    }
    Ok(())
}

async fn list(
    session: &Session,
    limit: Duration,
    face: &mut dyn Face,
    notes: &mut mpsc::UnboundedReceiver<Note>,
    signals: &mut Signals,
    ended: &mut Ended,
) -> Result<(), Fault> {
    let listing = tokio::time::timeout(limit, session.list());
    tokio::pin!(listing);
    loop {
        tokio::select! {
            biased;
            code = signals.next() => {
                ended.interrupted = Some(code);
                return Ok(());
            }
            note = notes.recv() => face.note(note)?,
            listed = &mut listing => {
                let late = |_| {
                    let what = format!(
                        "the agent did not list its sessions within {} s",
                        limit.as_secs_f64()
                    );
                    Fault::new(Code::HandshakeTimeout, what)
                        .hint("increase `--handshake-timeout`")
                };
                return face.sessions(&listed.map_err(late)??);
            }
        }
    }
}

async fn turn(
    session: &Session,
    message: String,
    face: &mut dyn Face,
    notes: &mut mpsc::UnboundedReceiver<Note>,
    signals: &mut Signals,
    ended: &mut Ended,
) -> Result<(), Fault> {
    let mut turn = session.send(message)?;
    let (answers, mut answered) = mpsc::unbounded_channel::<(String, Answer)>();
    let mut questions = Questions::default();
    loop {
        if let Some(question) = questions.next(|id| session.is_asked(id)) {
            face.event(&question)?;
            if let StreamEvent::AgentPrompt { id, options, .. } = question {
                ask(id, options, answers.clone());
            }
        }
        tokio::select! {
            biased;
            code = signals.next() => {
                if ended.interrupted.replace(code).is_some() {
                    return Ok(());
                }
                // An agent that does not respond must not delay the second signal.
                tokio::select! {
                    biased;
                    code = signals.next() => {
                        ended.interrupted = Some(code);
                        return Ok(());
                    }
                    cancelled = session.cancel() => cancelled?,
                };
            }
            note = notes.recv() => face.note(note)?,
            Some((id, answer)) = answered.recv() => {
                questions.answered();
                if !session.answer(&id, answer) {
                    let late = "the question was no longer open; the answer was not used";
                    face.note(Some(Note::Warning("question_closed".to_owned(), late.to_owned())))?;
                }
            }
            event = turn.next() => {
                let Some(event) = event else { return Ok(()) };
                match &event {
                    StreamEvent::TurnEnd { reason } => ended.reason = Some(*reason),
                    StreamEvent::Error { code, .. } => {
                        let known = code.parse::<Code>();
                        ended.told = Some(known.map_or(exit::FINDINGS, exit_codes::of));
                    }
                    _ => {}
                }
                match &event {
                    StreamEvent::AgentPrompt { id, .. } if face.asks() && session.is_asked(id) => {
                        questions.add(event);
                    }
                    _ => face.event(&event)?,
                }
            }
        }
    }
}

/// The prompt. Stdin is read on its own thread, so that the caller can be interrupted.
async fn message(args: &Run) -> Result<String, Fault> {
    match args.prompt.as_deref() {
        Some("-") => {}
        text => return Ok(text.unwrap_or_default().to_owned()),
    }
    let (give, take) = oneshot::channel();
    std::thread::spawn(move || {
        let read = input::all(LONGEST_PROMPT);
        let _ = give.send(read.map(|bytes| String::from_utf8(bytes.to_vec())));
    });
    let unread = |why: String| {
        let what = format!("cannot read the prompt from stdin: {why}");
        Fault::new(Code::ManifestUnreadable, what)
    };
    let read = take.await.map_err(|e| unread(e.to_string()))?;
    let text = read.map_err(|e| unread(e.to_string()))?;
    text.map_err(|e| unread(e.to_string()))
}

/// Prior turns from the `--transcript` file.
fn history(args: &Run) -> Result<Vec<Exchange>, Fault> {
    let Some(path) = &args.transcript else {
        return Ok(Vec::new());
    };
    let bad = |what: String| Fault::new(Code::ManifestInvalid, format!("{}{what}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|e| bad(format!(": {e}")))?;
    let mut said = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let value: Value =
            serde_json::from_str(line).map_err(|e| bad(format!(":{}: {e}", number + 1)))?;
        let field = |key: &str| value.get(key).and_then(Value::as_str);
        match (field("role"), field("text")) {
            (Some(role @ ("user" | "agent")), Some(text)) => said.push(Exchange {
                by_user: role == "user",
                text: text.to_owned(),
            }),
            _ => {
                let what = format!(
                    ":{}: expected {{\"role\":\"user\"|\"agent\",\"text\":…}}",
                    number + 1
                );
                return Err(bad(what));
            }
        }
    }
    Ok(said)
}

fn load(args: &Run, observer: Arc<dyn Observer>) -> Result<Agent, Fault> {
    let home = Home::from_env()?;
    let bundle = Bundle::discover(&args.target, &args.adapters, &home)?;
    let context = Context::new(
        bundle,
        Setting {
            home,
            cwd: args.cwd.clone().unwrap_or_else(|| PathBuf::from(".")),
            host_env: std::sync::Arc::new(std::env::vars_os().collect()),
            sandboxing: args.sandbox,
            yes: args.yes,
            observer,
            interact: interact(args),
        },
    )?;
    let given = args.option.iter();
    let from_line = Wanted {
        mode: args.mode.clone(),
        continuation: args.continuation.clone(),
        options: given
            .map(|(id, text)| (id.clone(), Given::Text(text.clone())))
            .collect(),
    };
    let wanted = match &args.operator {
        Some(path) => Wanted::from_operator(path)?.beaten_by(from_line),
        None => from_line,
    };
    let wishes = Wishlist {
        wanted,
        permissions: permissions(args),
        handshake_timeout: Duration::from_secs_f64(args.handshake_timeout),
        turn_timeout: args.turn_timeout.map(Duration::from_secs_f64),
        install: install::Options {
            allow_unverified: args.allow_unverified,
            reinstall: false,
        },
    };
    Agent::load(context, wishes)
}

/// Whether the user can be asked at the terminal.
fn at_terminal(args: &Run) -> bool {
    args.output == Output::Text && std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

fn interact(args: &Run) -> Arc<dyn Interact> {
    match at_terminal(args) {
        true => Arc::new(crate::cli::agents::ask::Terminal),
        false => Arc::new(Headless),
    }
}

fn permissions(args: &Run) -> Permissions {
    let default = match args.permissions {
        // No user can answer, and the turn must not hang.
        Some(Decision::Ask) if !at_terminal(args) => Decision::Deny,
        Some(decision) => decision,
        None if args.yes => Decision::Allow,
        None if at_terminal(args) => Decision::Ask,
        None => Decision::Deny,
    };
    let rule = |decision| {
        move |tool: &String| Rule {
            tool: tool.clone(),
            kind: None,
            decision,
        }
    };
    let denied = args.deny_tool.iter().map(rule(Decision::Deny));
    let allowed = args.allow_tool.iter().map(rule(Decision::Allow));
    let rest = [Rule {
        tool: "**".to_owned(),
        kind: None,
        decision: default,
    }];
    match args.deny_tool.is_empty() && args.allow_tool.is_empty() {
        true => match default {
            Decision::Ask => Permissions::Ask,
            Decision::Allow => Permissions::Allow,
            Decision::Deny => Permissions::Deny,
        },
        false => Permissions::Rules(denied.chain(allowed).chain(rest).collect()),
    }
}
