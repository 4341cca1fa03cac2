//! `agentproto call`: calls a tool of a CLI.md, or lists the commands of the bundle.

mod help;
mod options;
mod output;

use std::io::Write;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use self::output::CallOutput;
use crate::cli::agents::ask;
use crate::cli::agents::effects::IdempotencyArgs;
use crate::cli::agents::notes::{self, Note, Notes, Signals};
use crate::cli::agents::{sandbox_settings, stdin};
use crate::cli::args::{Global, values};
use crate::cli::{Failure, Outcome, io_failure, signals, terminal};
use crate::exit;
use agentproto_report::aoi::{Emitter, Fields, object};
use agentproto_report::event::EventType;
use agentproto_runtime::context::{Context, ContextOptions, SandboxSettings, Sandboxing};
use agentproto_runtime::home::Home;
use agentproto_runtime::install::InstallOptions;
use agentproto_runtime::interact::{Headless, Interact};
use agentproto_runtime::tool::{
    BundleOptions, CallOptions, CallResult, Target, ToolBundle, ToolCommand,
};
use agentproto_runtime::{Code, Error};
use agentproto_text::{closest_of, pretty, strict_json};

/// Maximum length of `--input -`, in bytes.
pub const MAX_INPUT_BYTES: u64 = 4 << 20;
/// Number of pieces of output that wait for the reader.
const WAITING_CHUNKS: usize = 8;
/// Bytes of output that are kept for error messages if the output is passed on as it is.
const KEPT_FOR_ERRORS: usize = 64 << 10;

#[derive(Args, Debug)]
#[command(
    override_usage = "agentproto call [OPTIONS] TARGET [COMMAND]... [--NAME VALUE]...",
    after_help = "TARGET is an adapter's name, a CLI.md, a directory that contains one, or a TOOL.md. Without COMMAND, the commands of the bundle are listed. `agentproto call TARGET COMMAND --help` lists the inputs of a command. NAME is an input of the command. Options of `call` itself precede TARGET.\n\nExit codes: 0 the tool succeeded · 1 the tool failed · 64 unknown command or invalid input · 65 invalid manifest · 66 unknown tool · 69 the tool cannot be installed or its sandbox cannot be enforced · 75 the time limit was exceeded · 77 login required · 130/143 interrupted"
)]
pub struct CallTool {
    /// Take the whole input from this JSON object; `-` reads stdin
    #[arg(long, value_name = "JSON")]
    pub input: Option<String>,
    /// Kill the tool after this many seconds [default: `timeout_ms` of the TOOL.md, or 30]
    #[arg(long, value_name = "SECONDS", value_parser = crate::cli::agents::seconds)]
    pub timeout: Option<f64>,
    /// Run the tool in DIR [default: the current directory]
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// Enforce the declared sandbox or refuse to start (auto), or run without it (off)
    #[arg(long, value_name = "WHEN", default_value_t = Sandboxing::Auto, value_parser = values(Sandboxing::ALL))]
    pub sandbox: Sandboxing,
    /// Install, set up and log in without asking
    #[arg(long, short = 'y')]
    pub yes: bool,
    /// Look up adapters in DIR first
    #[arg(long, value_name = "DIR")]
    pub adapters: Vec<PathBuf>,
    /// Use a manifest that has errors
    #[arg(long)]
    pub allow_invalid: bool,
    /// Also install programs without a SHA-256
    #[arg(long)]
    pub allow_unverified: bool,
    #[command(flatten)]
    pub idempotency: IdempotencyArgs,
    /// Output format: the tool's own output, the result as JSON, or events
    #[arg(long, short = 'o', alias = "format", value_enum, default_value_t = Output::Text)]
    pub output: Output,
    /// Name, directory, CLI.md or TOOL.md of the tool; then the words of a command, and its inputs
    /// as options
    #[arg(
        required = true,
        num_args = 1..,
        value_name = "TARGET",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub words: Vec<String>,
}

/// Values of `--output`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    Text,
    Json,
    Jsonl,
}

/// What the words after the target ask for.
enum Request<'b> {
    List(Vec<&'b ToolCommand>),
    Help(&'b ToolCommand),
    Call(&'b ToolCommand, Value),
}

pub fn run(args: &CallTool, global: &Global, out: &mut dyn Write) -> Outcome {
    let started = Instant::now();
    let (target, words) = target(args)?;
    let sandbox = sandbox_settings::load(global, &args.adapters)?;
    let (sender, mut notes) = mpsc::unbounded_channel();
    let (bundle, tool) = load(args, target, sandbox, Notes(sender))?;
    let request = request(args, &bundle, tool, words)?;
    let (command, input) = match request {
        Request::Call(command, input) => (command, input),
        Request::List(commands) => return list(args, &bundle, target, &commands, out),
        Request::Help(command) if args.output != Output::Text => {
            return list(args, &bundle, target, &[command], out);
        }
        Request::Help(command) => {
            help::command(target, command, terminal::width(), out).map_err(io_failure)?;
            return Ok(exit::CLEAN);
        }
    };
    let mut output = CallOutput::new(args.output, global, out)?;
    let runtime = notes::runtime()?;
    let called = runtime.block_on(call(args, &bundle, command, input, &mut notes, &mut output));
    // Also kills what still runs.
    runtime.shutdown_timeout(Duration::from_millis(500));
    // The reader may be slow: from here on, the stream handles signals itself.
    signals::watch();
    match called? {
        Some(result) => output.finish(&result, started.elapsed()),
        // The reader of the output is gone.
        None => Ok(exit::CLEAN),
    }
}

/// The target and the words after it.
fn target(args: &CallTool) -> Result<(&str, &[String]), Failure> {
    match args.words.split_first() {
        Some((target, words)) if !target.starts_with('-') => Ok((target, words)),
        first => {
            let option = first.map_or("", |(first, _)| first.as_str());
            let failure = Failure::new(exit::USAGE, format!("unknown option `{option}`"));
            let tree = crate::cli::machine::catalogue::tree();
            let own = tree.find_subcommand("call");
            let known: Vec<String> = own
                .into_iter()
                .flat_map(|command| command.get_arguments())
                .filter_map(|argument| Some(format!("--{}", argument.get_long()?)))
                .collect();
            let hint = match closest_of(option, known.iter().map(String::as_str)) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => "`agentproto call --help` lists the options".to_owned(),
            };
            Err(failure.typed("usage").hint(hint))
        }
    }
}

fn load(
    args: &CallTool,
    target: &str,
    sandbox: SandboxSettings,
    notes: Notes,
) -> Result<(ToolBundle, Option<PathBuf>), Error> {
    let home = Home::from_env()?;
    let found = Target::discover(target, &args.adapters, &home)?;
    let can_ask = args.output == Output::Text && ask::is_interactive();
    let interact: Arc<dyn Interact> = match can_ask {
        true => Arc::new(ask::TerminalPrompt),
        false => Arc::new(Headless),
    };
    let context = Context::new(
        found.bundle,
        ContextOptions {
            home,
            cwd: args.cwd.clone().unwrap_or_else(|| PathBuf::from(".")),
            host_env: Arc::new(std::env::vars_os().collect()),
            sandboxing: args.sandbox,
            sandbox,
            yes: args.yes,
            observer: Arc::new(notes),
            interact,
        },
    )?;
    let options = BundleOptions {
        allow_invalid: args.allow_invalid,
        install: InstallOptions {
            allow_unverified: args.allow_unverified,
            reinstall: false,
        },
    };
    Ok((ToolBundle::load(context, options)?, found.tool))
}

fn request<'b>(
    args: &CallTool,
    bundle: &'b ToolBundle,
    tool: Option<PathBuf>,
    words: &[String],
) -> Result<Request<'b>, Error> {
    let first_option = words.iter().position(|word| word.starts_with('-'));
    let (path, rest) = words.split_at(first_option.unwrap_or(words.len()));
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    let command = match &tool {
        Some(tool) if path.is_empty() => bundle.command_of(tool)?,
        _ => {
            let below = bundle.below(&path);
            let is_group = !below.iter().any(|command| command.path.len() == path.len());
            let is_plain = args.input.is_none() && rest.is_empty();
            if is_group && !below.is_empty() && (is_plain || options::asks_for_help(rest, None)) {
                return Ok(Request::List(below));
            }
            bundle.command(&path)?
        }
    };
    if options::asks_for_help(rest, Some(&command.inputs)) {
        return Ok(Request::Help(command));
    }
    if let Some(problem) = command.problem() {
        return Err(problem.clone());
    }
    let input = match (&args.input, rest) {
        (None, options) => options::input(command, options)?,
        (Some(json), []) => read_input(json)?,
        (Some(_), [option, ..]) => {
            let what = format!("`--input` is the whole input, so `{option}` cannot be added");
            return Err(Error::new(Code::InputInvalid, what)
                .hint("use either `--input` or one option for each input"));
        }
    };
    Ok(Request::Call(command, input))
}

fn read_input(text: &str) -> Result<Value, Error> {
    let invalid = |what: String| {
        let what = format!("the value of `--input` {what}");
        Error::new(Code::InputInvalid, what).details(json!({ "pointer": "" }))
    };
    let bytes = match text {
        "-" => stdin::read_all(MAX_INPUT_BYTES + 1)
            .map_err(|e| invalid(format!("cannot be read from stdin: {e}")))?,
        text => text.as_bytes(),
    };
    if bytes.len() as u64 > MAX_INPUT_BYTES {
        return Err(invalid(format!("is longer than {MAX_INPUT_BYTES} bytes")));
    }
    let parsed = strict_json::read(bytes).map_err(|e| invalid(format!("is not JSON: {e}")))?;
    Ok(parsed.value)
}

/// Runs the call. `None` means that the reader of the output is gone.
async fn call(
    args: &CallTool,
    bundle: &ToolBundle,
    command: &ToolCommand,
    input: Value,
    notes: &mut mpsc::UnboundedReceiver<Note>,
    output: &mut CallOutput<'_>,
) -> Result<Option<CallResult>, Failure> {
    let (sender, mut chunks) = mpsc::channel(WAITING_CHUNKS);
    let is_text = args.output == Output::Text;
    let options = CallOptions {
        timeout: args.timeout.map(Duration::from_secs_f64),
        structured: !is_text,
        keep: match is_text {
            true => KEPT_FOR_ERRORS,
            false => agentproto_runtime::tool::DEFAULT_KEEP,
        },
        output: (args.output != Output::Json).then_some(sender),
    };
    let mut signals = Signals::new();
    let mut calling = pin!(bundle.call(command, input, options));
    let called = loop {
        tokio::select! {
            biased;
            code = signals.next() => return Err(Failure::interrupted(code)),
            Some(note) = notes.recv() => output.note(&note)?,
            Some(chunk) = chunks.recv() => output.chunk(&chunk)?,
            called = &mut calling => break called,
        }
        if output.is_closed() {
            return Ok(None);
        }
    };
    while let Ok(chunk) = chunks.try_recv() {
        output.chunk(&chunk)?;
    }
    while let Ok(note) = notes.try_recv() {
        output.note(&note)?;
    }
    Ok(Some(called?))
}

fn list(
    args: &CallTool,
    bundle: &ToolBundle,
    target: &str,
    commands: &[&ToolCommand],
    out: &mut dyn Write,
) -> Outcome {
    let json = || commands.iter().map(|command| command.json());
    match args.output {
        Output::Text => help::list(bundle, target, commands, terminal::width(), out),
        Output::Json => {
            let list = json!({ "commands": json().collect::<Vec<_>>() });
            pretty(&list).and_then(|text| writeln!(out, "{text}"))
        }
        Output::Jsonl => {
            let events = json().map(|command| Ok((EventType::ToolCommand, object(command))));
            let end = (true, Duration::ZERO, Fields::new());
            Emitter::new(out, env!("CARGO_PKG_VERSION")).stream("call", events, end)
        }
    }
    .map_err(io_failure)?;
    Ok(exit::CLEAN)
}
