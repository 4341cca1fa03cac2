//! `agentproto run`: runs one turn of an agent, from loading its manifest to closing the session.

mod chosen;
pub mod conversation;
pub mod output;
pub mod questions;

use std::collections::HashMap;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use self::chosen::{choices, mcp_servers};
use self::output::{Human, Machine, RunOutput};
use self::questions::{Questions, ask};
use crate::cli::agents::effects::IdempotencyArgs;
use crate::cli::agents::exit_codes;
use crate::cli::agents::notes::{self, Note, Notes, Signals};
use crate::cli::agents::sandbox_settings;
use crate::cli::agents::stdin;
use crate::cli::args::{Global, values};
use crate::cli::{Outcome, io_failure, signals};
use crate::exit;
use agentproto_report::aoi::Emitter;
use agentproto_runtime::agent::{Agent, AgentOptions};
use agentproto_runtime::arm::permissions::{
    ALL_OTHER_TOOLS, Answer, Decision, PermissionRule, Permissions,
};
use agentproto_runtime::bundle::{Bundle, TargetKind};
use agentproto_runtime::choices::Strategy;
use agentproto_runtime::context::{Context, ContextOptions, SandboxSettings, Sandboxing};
use agentproto_runtime::continuation::{Exchange, with_history};
use agentproto_runtime::home::Home;
use agentproto_runtime::install;
use agentproto_runtime::interact::{Headless, Interact};
use agentproto_runtime::observe::Observer;
use agentproto_runtime::session::Session;
use agentproto_runtime::{Code, ContextSize, Cost, Error, StopReason, StreamEvent, TokenTotals};

/// Maximum length of a prompt, in bytes.
pub const MAX_PROMPT_BYTES: u64 = 64 << 20;

#[derive(Args, Debug)]
#[command(
    override_usage = "agentproto run [OPTIONS] --prompt <TEXT> <TARGET>\n       agentproto run [OPTIONS] --list-sessions <TARGET>"
)]
pub struct Run {
    /// Agent to run: an adapter's name, an AGENT-CLI.md, or a directory that contains one
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
    /// Use this model, one of `models.allowed` if the manifest has that list
    #[arg(long, value_name = "ID")]
    pub model: Option<String>,
    /// Offer this MCP server to the agent: a JSON descriptor, or a file with descriptors
    #[arg(long, value_name = "JSON|FILE")]
    pub mcp_server: Vec<String>,
    /// Continue a conversation with this strategy, one of `continuation.supported` in the manifest
    #[arg(long, value_name = "ID")]
    pub continuation: Option<String>,
    /// Read earlier turns from FILE, one JSON object with `role` and `text` per line; needs the
    /// strategy `transcript`
    #[arg(long, value_name = "FILE")]
    pub transcript: Option<PathBuf>,
    /// Resume an earlier session (continuation `native-resume`)
    #[arg(long, value_name = "ID")]
    pub resume: Option<String>,
    /// Continue this conversation in the process that the daemon keeps for it (continuation
    /// `pinned-session`)
    #[arg(
        long,
        value_name = "ID",
        conflicts_with_all = ["resume", "transcript", "list_sessions", "sandbox", "turn_timeout", "handshake_timeout", "allow_unverified", "adapters", "allow_tool", "deny_tool"]
    )]
    pub conversation: Option<String>,
    /// Read mode, options and continuation from an OPERATOR.md
    #[arg(long, value_name = "FILE")]
    pub operator: Option<PathBuf>,
    /// Enforce the declared sandbox or refuse to start (auto), or run without it (off)
    #[arg(long, value_name = "WHEN", default_value_t = Sandboxing::Auto, value_parser = values(Sandboxing::ALL))]
    pub sandbox: Sandboxing,
    /// How to answer permission requests of the agent [default: ask on a terminal, else deny]
    #[arg(long, value_name = "POLICY", value_parser = values(Decision::ALL))]
    pub permissions: Option<Decision>,
    /// Allow tools whose name matches this glob, regardless of `--permissions`
    #[arg(long, value_name = "GLOB")]
    pub allow_tool: Vec<String>,
    /// Deny tools whose name matches this glob; takes precedence over `--allow-tool`
    #[arg(long, value_name = "GLOB")]
    pub deny_tool: Vec<String>,
    /// Install and set up without asking, and allow every permission request of the agent
    #[arg(long, short = 'y')]
    pub yes: bool,
    /// Also install programs without a SHA-256
    #[arg(long)]
    pub allow_unverified: bool,
    /// Use a manifest that has errors
    #[arg(long)]
    pub allow_invalid: bool,
    /// Maximum number of seconds for the agent's handshake
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = crate::cli::agents::seconds)]
    pub handshake_timeout: f64,
    /// Cancel the turn after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = crate::cli::agents::seconds)]
    pub turn_timeout: Option<f64>,
    /// Look up adapters in DIR first
    #[arg(long, value_name = "DIR")]
    pub adapters: Vec<PathBuf>,
    /// List the agent's sessions, and send no prompt
    #[arg(
        long,
        conflicts_with_all = ["prompt", "resume", "transcript", "turn_timeout", "permissions", "allow_tool", "deny_tool"]
    )]
    pub list_sessions: bool,
    #[command(flatten)]
    pub idempotency: IdempotencyArgs,
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

/// Parses `ID=VALUE`.
pub fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((id, value)) if !id.is_empty() => Ok((id.to_owned(), value.to_owned())),
        _ => Err("expected ID=VALUE".to_owned()),
    }
}

pub fn run(args: &Run, global: &Global, out: &mut dyn Write) -> Outcome {
    let sandbox = sandbox_settings::load(global, args.adapters.iter().chain(&args.operator))?;
    let runtime = notes::runtime()?;
    let started = Instant::now();
    let mut output: Box<dyn RunOutput + '_> = match args.output {
        Output::Jsonl => {
            let mut emitter = Emitter::new(out, env!("CARGO_PKG_VERSION"));
            emitter.meta("run").map_err(io_failure)?;
            Box::new(Machine {
                emitter,
                started,
                session: None,
            })
        }
        Output::Text => Box::new(Human {
            out,
            verbose: global.verbose,
            quiet: global.quiet,
            midline: false,
            can_ask: at_terminal(args),
            decision: decision(args),
            tools: HashMap::new(),
        }),
    };
    let ended = runtime.block_on(async {
        match &args.conversation {
            Some(name) => conversation::run(args, name, &mut *output).await,
            None => Ok(run_with_signals(args, sandbox, &mut *output).await?),
        }
    });
    // Also kills what still runs.
    runtime.shutdown_timeout(Duration::from_millis(500));
    // The reader may be slow: from here on, the stream handles signals itself.
    signals::watch();
    output.finish(ended)
}

/// The outcome of a run.
#[derive(Default)]
pub struct RunEnd {
    pub session: Option<String>,
    pub reason: Option<StopReason>,
    pub interrupted: Option<u8>,
    /// Exit code for the turn's own error, which was already reported as an event.
    pub error_exit: Option<u8>,
    /// Number of permission requests that a policy denied without asking.
    pub denied: u32,
    pub usage: TokenTotals,
    pub cost: Option<Cost>,
    pub context: Option<ContextSize>,
}

impl RunEnd {
    /// Keeps what the end of a turn says.
    pub fn note_end(&mut self, end: &StreamEvent) {
        if let StreamEvent::TurnEnd {
            reason,
            usage,
            cost,
            context,
        } = end
        {
            self.reason = Some(*reason);
            if let Some(usage) = usage {
                self.usage.add(usage);
            }
            self.cost.clone_from(cost);
            self.context = *context;
        }
    }
}

async fn run_with_signals(
    args: &Run,
    sandbox: SandboxSettings,
    output: &mut dyn RunOutput,
) -> Result<RunEnd, Error> {
    let (sender, mut notes) = mpsc::unbounded_channel();
    let mut signals = Signals::new();
    let reading = message(args);
    let message = tokio::select! {
        biased;
        code = signals.next() => return Ok(RunEnd { interrupted: Some(code), ..RunEnd::default() }),
        message = reading => message?,
    };
    let agent = load(args, sandbox, Arc::new(Notes(sender)))?;
    let strategy = agent.choices.strategy;
    if args.transcript.is_some() && strategy != Strategy::Transcript {
        let what = format!(
            "`--transcript` is only used with `--continuation transcript`, but `{}` is selected",
            strategy.as_str()
        );
        return Err(Error::new(Code::ContinuationUnsupported, what).hint(
            "add `--continuation transcript` if the manifest supports it, or remove `--transcript`",
        ));
    }
    if args.continuation.as_deref() == Some(Strategy::PinnedSession.as_str()) {
        let what = "`pinned-session` keeps the agent's process for later turns, but `run` ends it";
        return Err(Error::new(Code::ContinuationUnsupported, what)
            .hint("start `agentproto serve`, then add `--conversation ID`"));
    }
    if strategy == Strategy::PinnedSession {
        // The manifest or the operator selected it.
        let what = "the continuation `pinned-session` (from the manifest or the operator) needs a process that stays alive, \
                    but `run` ends it after this prompt: start `agentproto serve`, then add \
                    `--conversation ID` to continue later";
        let code = "continuation_not_applied".to_owned();
        output.note(Some(Note::Warning(code, what.to_owned())))?;
    }
    if args.resume.is_some() && strategy != Strategy::NativeResume {
        let what = format!(
            "`--resume` needs `--continuation native-resume`, but `{}` is selected",
            strategy.as_str()
        );
        return Err(Error::new(Code::ContinuationUnsupported, what)
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
            code = signals.next() => return Ok(RunEnd { interrupted: Some(code), ..RunEnd::default() }),
            note = notes.recv() => output.note(note)?,
            started = &mut starting => break started,
        }
    };
    drain(&mut notes, output)?;
    let session = session?;
    let mut ended = RunEnd::default();
    let turn_result = match args.list_sessions {
        true => {
            let limit = Duration::from_secs_f64(args.handshake_timeout);
            list(
                &session,
                limit,
                output,
                &mut notes,
                &mut signals,
                &mut ended,
            )
            .await
        }
        false => {
            turn(
                &session,
                message,
                output,
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
            note = notes.recv() => output.note(note)?,
            closed = &mut closing => {
                let known = turn_result.is_err() || ended.error_exit.is_some() || ended.interrupted.is_some();
                match closed {
                    // The run already has an error or was interrupted, so this is only a warning.
                    Err(error) if known => {
                        let code = error.code.as_str().to_owned();
                        output.note(Some(Note::Warning(code, error.message)))?;
                    }
                    closed => {
                        closed?;
                    }
                }
                break;
            }
        }
    }
    drain(&mut notes, output)?;
    turn_result.map(|()| ended)
}

fn drain(
    notes: &mut mpsc::UnboundedReceiver<Note>,
    output: &mut dyn RunOutput,
) -> Result<(), Error> {
    while let Ok(note) = notes.try_recv() {
        output.note(Some(note))?;
    }
    Ok(())
}

async fn list(
    session: &Session,
    limit: Duration,
    output: &mut dyn RunOutput,
    notes: &mut mpsc::UnboundedReceiver<Note>,
    signals: &mut Signals,
    ended: &mut RunEnd,
) -> Result<(), Error> {
    let listing = tokio::time::timeout(limit, session.list());
    tokio::pin!(listing);
    loop {
        tokio::select! {
            biased;
            code = signals.next() => {
                ended.interrupted = Some(code);
                return Ok(());
            }
            note = notes.recv() => output.note(note)?,
            listed = &mut listing => {
                let late = |_| {
                    let what = format!(
                        "the agent did not list its sessions within {} s",
                        limit.as_secs_f64()
                    );
                    Error::new(Code::HandshakeTimeout, what)
                        .hint("increase `--handshake-timeout`")
                };
                return output.sessions(&listed.map_err(late)??);
            }
        }
    }
}

async fn turn(
    session: &Session,
    message: String,
    output: &mut dyn RunOutput,
    notes: &mut mpsc::UnboundedReceiver<Note>,
    signals: &mut Signals,
    ended: &mut RunEnd,
) -> Result<(), Error> {
    let mut turn = session.send(message)?;
    let (answers, mut answered) = mpsc::unbounded_channel::<(String, Answer)>();
    let mut questions = Questions::default();
    loop {
        if let Some(question) = questions.next(|id| session.has_open_question(id)) {
            output.event(&question)?;
            if let StreamEvent::AgentPrompt {
                id,
                options,
                schema,
                ..
            } = question
            {
                let answers = answers.clone();
                ask(id, options, schema, move |answer| {
                    let _ = answers.send(answer);
                });
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
            note = notes.recv() => output.note(note)?,
            Some((id, answer)) = answered.recv() => {
                questions.answered();
                match session.respond(&id, answer) {
                    Ok(()) => {}
                    Err(error) if error.code == Code::QuestionUnknown => {
                        let late = "the question was no longer open; the answer was not used";
                        output.note(Some(Note::Warning("question_closed".to_owned(), late.to_owned())))?;
                    }
                    Err(error) => {
                        output.note(Some(Note::Warning(error.code.as_str().to_owned(), error.message)))?;
                        session.answer(&id, Answer::Declined);
                    }
                }
            }
            event = turn.next() => {
                let Some(event) = event else { return Ok(()) };
                match &event {
                    StreamEvent::TurnEnd { .. } => {
                        ended.note_end(&event);
                        output.opened(&session.id());
                    }
                    StreamEvent::AgentPrompt { decision: Some(decision), .. } if decision == "deny" => {
                        ended.denied += 1;
                    }
                    StreamEvent::Error { code, .. } => {
                        let known = code.parse::<Code>();
                        ended.error_exit = Some(known.map_or(exit::FINDINGS, exit_codes::of));
                    }
                    _ => {}
                }
                match &event {
                    StreamEvent::AgentPrompt { id, .. } if output.can_ask() && session.has_open_question(id) => {
                        questions.add(event);
                    }
                    _ => output.event(&event)?,
                }
            }
        }
    }
}

/// The prompt. Stdin is read on its own thread, so that the caller can be interrupted.
async fn message(args: &Run) -> Result<String, Error> {
    match args.prompt.as_deref() {
        Some("-") => {}
        text => return Ok(text.unwrap_or_default().to_owned()),
    }
    let (sender, receiver) = oneshot::channel();
    std::thread::spawn(move || {
        let read = stdin::read_all(MAX_PROMPT_BYTES);
        let _ = sender.send(read.map(|bytes| String::from_utf8(bytes.to_vec())));
    });
    let read_error = |why: String| {
        let what = format!("cannot read the prompt from stdin: {why}");
        Error::new(Code::ManifestUnreadable, what)
    };
    let read = receiver.await.map_err(|e| read_error(e.to_string()))?;
    let text = read.map_err(|e| read_error(e.to_string()))?;
    text.map_err(|e| read_error(e.to_string()))
}

/// Prior turns from the `--transcript` file.
fn history(args: &Run) -> Result<Vec<Exchange>, Error> {
    let Some(path) = &args.transcript else {
        return Ok(Vec::new());
    };
    let invalid =
        |what: String| Error::new(Code::ManifestInvalid, format!("{}{what}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => {
            let what = format!("the transcript `{}` does not exist", path.display());
            Error::new(Code::ManifestUnreadable, what)
        }
        _ => invalid(format!(": {e}")),
    })?;
    let mut exchanges = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let value: Value =
            serde_json::from_str(line).map_err(|e| invalid(format!(":{}: {e}", number + 1)))?;
        let field = |key: &str| value.get(key).and_then(Value::as_str);
        match (field("role"), field("text")) {
            (Some(role @ ("user" | "agent")), Some(text)) => exchanges.push(Exchange {
                by_user: role == "user",
                text: text.to_owned(),
            }),
            _ => {
                let what = format!(
                    ":{}: expected {{\"role\":\"user\"|\"agent\",\"text\":…}}",
                    number + 1
                );
                return Err(invalid(what));
            }
        }
    }
    Ok(exchanges)
}

fn load(args: &Run, sandbox: SandboxSettings, observer: Arc<dyn Observer>) -> Result<Agent, Error> {
    let home = Home::from_env()?;
    let bundle = Bundle::discover_kind(&args.target, TargetKind::Agent, &args.adapters, &home)?;
    let context = Context::new(
        bundle,
        ContextOptions {
            home,
            cwd: args.cwd.clone().unwrap_or_else(|| PathBuf::from(".")),
            host_env: std::sync::Arc::new(std::env::vars_os().collect()),
            sandboxing: args.sandbox,
            sandbox,
            yes: args.yes,
            observer,
            interact: interact(args),
        },
    )?;
    let choices = choices(args)?;
    let options = AgentOptions {
        choices,
        permissions: permissions(args),
        handshake_timeout: Duration::from_secs_f64(args.handshake_timeout),
        turn_timeout: args.turn_timeout.map(Duration::from_secs_f64),
        install: install::InstallOptions {
            allow_unverified: args.allow_unverified,
            reinstall: false,
        },
        mcp_servers: mcp_servers(args)?,
        allow_invalid: args.allow_invalid,
        also_validate: args.operator.iter().cloned().collect(),
        ..AgentOptions::default()
    };
    Agent::load(context, options)
}

/// Whether the user can be asked at the terminal.
fn at_terminal(args: &Run) -> bool {
    args.output == Output::Text && std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

fn interact(args: &Run) -> Arc<dyn Interact> {
    match at_terminal(args) {
        true => Arc::new(crate::cli::agents::ask::TerminalPrompt),
        false => Arc::new(Headless),
    }
}

/// How the options answer permission requests, for people. `None` if the user is asked, or if the
/// answer depends on the tool.
fn decision(args: &Run) -> Option<&'static str> {
    match permissions(args) {
        Permissions::Allow => Some("allowed"),
        Permissions::Deny if args.permissions == Some(Decision::Deny) => Some("denied"),
        Permissions::Deny => {
            Some("denied: agentproto cannot ask without a terminal (see `--permissions`)")
        }
        Permissions::Ask | Permissions::Rules(_) => None,
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
        move |tool: &String| PermissionRule {
            tool: tool.clone(),
            kind: None,
            decision,
        }
    };
    let denied = args.deny_tool.iter().map(rule(Decision::Deny));
    let allowed = args.allow_tool.iter().map(rule(Decision::Allow));
    let rest = [PermissionRule {
        tool: ALL_OTHER_TOOLS.to_owned(),
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
