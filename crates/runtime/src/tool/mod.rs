//! Calls the tools of a CLI.md (AIP-29): load → requires → install → version → setup → auth → input
//! → argv → sandbox → run → exit code → expiry → output.
//!
//! ```no_run
//! # async fn example(context: agentproto_runtime::context::Context) -> Result<(), agentproto_runtime::Error> {
//! use agentproto_runtime::tool::{BundleOptions, CallOptions, ToolBundle};
//!
//! let bundle = ToolBundle::load(context, BundleOptions::default())?;
//! let command = bundle.command(&["pr", "list"])?;
//! let input = serde_json::json!({ "state": "open" });
//! let result = bundle.call(command, input, CallOptions::default()).await?;
//! println!("{}", result.json());
//! # Ok(())
//! # }
//! ```

mod canceled;
mod commands;
mod exit;
mod invoke;
mod judge;
mod mask;
mod output;
mod result;
pub mod schema;
mod target;
mod template;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::{Mutex, mpsc};

use self::canceled::CanceledRecord;
use self::invoke::RunOptions;
use self::output::Kept;
use self::template::Expanded;
use crate::agent::Runner;
use crate::context::{Context, Sandboxing};
use crate::entry::{self, Entry};
use crate::error::{Code, Error};
use crate::install::{self, InstallOptions, Installed};
use crate::observe::Stage;
use crate::secrets::random;
use crate::{auth, setup, validate, version};
use agentproto_manifest::views::Output;
use agentproto_manifest::{Disk, Doctype, Workspace};
use agentproto_text::redact::{self, is_secret_name};
use agentproto_text::{closest_of, truncate};

pub use self::commands::{Annotations, ToolCommand};
pub use self::invoke::OutputChunk;
pub use self::output::{Format, OutputStream};
pub use self::result::{CallResult, CallTarget, CallWarning, SCHEMA};
pub use self::target::Target;

/// Time limit of a tool whose TOOL.md has no `timeout_ms` (the default of AIP-14).
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
/// Default of [`CallOptions::keep`].
pub const DEFAULT_KEEP: usize = 8 << 20;

/// Options of a bundle.
#[derive(Clone, Copy, Debug, Default)]
pub struct BundleOptions {
    /// Whether to continue with an invalid manifest. This is announced and audited.
    pub allow_invalid: bool,
    /// How a missing program is installed.
    pub install: InstallOptions,
}

/// Options of a call.
#[derive(Debug)]
pub struct CallOptions {
    /// Time limit. It can only shorten the `timeout_ms` of the TOOL.md. Without that, it replaces
    /// [`DEFAULT_TIMEOUT`].
    pub timeout: Option<Duration>,
    /// Whether to ask the tool for JSON with `output.json_flag`, and to parse its output.
    pub structured: bool,
    /// Maximum number of bytes of output in the result. Longer text is cut, and longer JSON and
    /// YAML is an error.
    pub keep: usize,
    /// Receives the output while the tool runs. The tool waits for a slow receiver, and is killed
    /// if the receiver is gone.
    pub output: Option<mpsc::Sender<OutputChunk>>,
}

impl Default for CallOptions {
    fn default() -> Self {
        CallOptions {
            timeout: None,
            structured: true,
            keep: DEFAULT_KEEP,
            output: None,
        }
    }
}

/// A CLI.md and its tools.
pub struct ToolBundle {
    context: Arc<Context>,
    commands: Vec<ToolCommand>,
    options: BundleOptions,
    /// The installed program. The lock also makes sure that setup and login run once at a time.
    installed: Mutex<Option<Installed>>,
}

impl ToolBundle {
    /// Reads a CLI.md and its tools. Runs nothing. A tool that cannot be read is listed with its
    /// problem, so that the others can still be called.
    pub fn load(context: Context, options: BundleOptions) -> Result<ToolBundle, Error> {
        let bundle = &context.bundle;
        if bundle.manifest.doctype != Some(Doctype::Cli) {
            return Err(target::not_a_tool(bundle));
        }
        for key in ["id", "version", "bin"] {
            bundle.text(key)?;
        }
        validate::check(&context, &[], options.allow_invalid)?;
        let commands = commands::commands(bundle)?;
        Ok(ToolBundle {
            context: Arc::new(context),
            commands,
            options,
            installed: Mutex::new(None),
        })
    }

    /// The bundle and its environment.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// All commands, in the order of the CLI.md.
    pub fn commands(&self) -> &[ToolCommand] {
        &self.commands
    }

    /// The commands that begin with these words. Without words these are all.
    pub fn below(&self, words: &[&str]) -> Vec<&ToolCommand> {
        let starts = |command: &&ToolCommand| {
            let path = command.path.iter().map(String::as_str);
            command.path.len() >= words.len() && path.zip(words).all(|(a, b)| a == *b)
        };
        self.commands.iter().filter(starts).collect()
    }

    /// The command with exactly these words.
    pub fn command(&self, words: &[&str]) -> Result<&ToolCommand, Error> {
        let mut below = self.below(words).into_iter();
        let found = below.find(|c| c.path.len() == words.len());
        found.ok_or_else(|| self.unknown(words))
    }

    /// The command of a TOOL.md.
    pub fn command_of(&self, tool: &std::path::Path) -> Result<&ToolCommand, Error> {
        commands::by_file(&self.commands, tool).ok_or_else(|| {
            let what = format!(
                "{}: `commands` does not list the tool `{}`",
                self.context.bundle.path().display(),
                tool.display()
            );
            Error::new(Code::ManifestInvalid, what).hint("add it to `commands` in the CLI.md")
        })
    }

    /// Whether the output of a structured call is a value: the CLI.md has a JSON flag, or its format
    /// is JSON or YAML, or the host attached a hook that reads it.
    pub fn is_structured(&self) -> bool {
        let hooks = self.context.cli.as_ref();
        let has_parser = hooks.is_some_and(|cli| cli.definition().parse_output.is_some());
        let output = self.output();
        has_parser
            || output.is_some_and(|output| {
                output.json_flag().is_some()
                    || matches!(output.default_format(), Some("json" | "yaml"))
            })
    }

    /// Whether the login command or hook needs no terminal.
    pub fn can_log_in_unattended(&self) -> bool {
        let auth = self.context.bundle.common().auth();
        let hooks = self.context.cli.as_ref();
        let has_hook = hooks.is_some_and(|cli| cli.definition().login.is_some());
        let login = auth.and_then(|auth| auth.login());
        let has_command = login.is_some_and(|login| login.cmd().is_some());
        let is_interactive = login.and_then(|login| login.interactive()) == Some(true);
        auth.is_some() && (has_hook || has_command) && !is_interactive
    }

    /// Runs the login hook or command of the bundle.
    pub async fn log_in(&self) -> Result<(), Error> {
        let mut installed = self.installed.lock().await;
        let bin = self.program(&mut installed).await?;
        auth::login(&self.context, &bin, &auth::LoginOptions::default()).await
    }

    fn unknown(&self, words: &[&str]) -> Error {
        let id = self.context.bundle.common().id().unwrap_or_default();
        let asked = words.join(" ");
        let titles: Vec<String> = self.commands.iter().map(ToolCommand::title).collect();
        let what = match self.below(words).first() {
            Some(_) => format!("`{asked}` is a group of commands of `{id}`"),
            None => format!("`{id}` has no command `{}`", truncate(&asked, 80)),
        };
        let error = Error::new(Code::CommandUnknown, what);
        let error = error.details(json!({ "commands": titles }));
        match closest_of(&asked, titles.iter().map(String::as_str)) {
            Some(meant) => error.hint(format!("did you mean `{meant}`?")),
            None => error.hint(format!(
                "`agentproto call {}` lists the commands",
                self.context.bundle.dir.display()
            )),
        }
    }

    /// Calls a tool. An error means that the tool did not run. If it ran and failed, the result has
    /// an error. Dropping the future kills the tool and everything that it started.
    pub async fn call(
        &self,
        command: &ToolCommand,
        input: Value,
        options: CallOptions,
    ) -> Result<CallResult, Error> {
        let id: String = random::token()?.chars().take(16).collect();
        let called = self.call_with_id(&id, command, input, options).await;
        if let Err(error) = &called {
            let details = json!({
                "id": id,
                "command": command.title(),
                "code": error.code.as_str(),
                "message": error.message,
            });
            self.context.audit.record("tool.refused", details)?;
        }
        called
    }

    async fn call_with_id(
        &self,
        id: &str,
        command: &ToolCommand,
        input: Value,
        options: CallOptions,
    ) -> Result<CallResult, Error> {
        let context = &self.context;
        self.validate(command)?;
        let template = command.argv.as_ref().map_err(Error::clone)?;
        // Every tool has the process boundary of its bundle (A29-COMPAT-03).
        let runner = Runner::load(&context.bundle)?;
        if context.sandboxing == Sandboxing::Off {
            context.observer.warning(
                "sandbox_off",
                "the declared sandbox is not enforced: the tool can do whatever you can",
            );
            context.audit.record("sandbox.off", json!({}))?;
        }
        let mut entry = entry::load(context).await?;
        let (bin, env) = match self.ready(entry.as_ref()).await {
            Ok(ready) => ready,
            Err(error) => {
                entry.iter().for_each(|entry| entry.announce(context));
                return Err(error);
            }
        };
        let mut audited = input.clone();
        let input = schema::check_input(&command.inputs, input).map_err(|error| {
            let usage = format!(
                "`agentproto call {} {} --help` lists the inputs",
                self.context.bundle.dir.display(),
                command.title()
            );
            match error.hint {
                Some(_) => error,
                None if error.code == Code::InputInvalid => error.hint(usage),
                None => error,
            }
        })?;
        let listed = |reference: &template::Reference, text: &str| {
            schema::is_listed(&command.inputs, reference, text)
        };
        let expanded = template.expand(&input, &listed)?;
        let (argv, format) = self.argv(&bin, expanded, options.structured);
        let mut launch = context.prepare_tool(&command.file, &argv, &env)?;
        let policy = launch.policy.take();
        redact_input(&mut audited);
        let details = json!({
            "id": id,
            "command": command.title(),
            "tool": command.id,
            "input": audited,
        });
        context.audit.record("tool.invoke", details)?;
        let canceled = CanceledRecord::new(context, id, command);
        context.observer.stage(Stage::Spawn, &command.title());
        let announced = entry.iter().flat_map(|entry| entry.warnings.clone());
        let mut warnings: Vec<CallWarning> = announced
            .map(|(code, message)| CallWarning { code, message })
            .collect();
        let declared = self.output();
        let run = RunOptions {
            timeout: time_limit(command, options.timeout, &mut warnings)
                .min(runner.timeout.unwrap_or(Duration::MAX)),
            keep: options.keep,
            keep_mixed: declared.and_then(|output| output.stream()) == Some("mixed"),
            output: options.output,
        };
        let limit = run.timeout;
        let has_terminal = launch.needs_terminal;
        let started = Instant::now();
        let ran = invoke::run(context, launch, run).await;
        canceled.disarm();
        let mut ran = ran?;
        let duration = started.elapsed();
        if has_terminal {
            // A terminal ends lines with a carriage return.
            let text = std::mem::take(&mut ran.stdout.bytes);
            ran.stdout.bytes = without_carriage_returns(text);
        }
        let (exit_code, meaning) = self.exit(&ran);
        let mut result = CallResult {
            id: id.to_owned(),
            target: self.call_target(),
            command: command.title(),
            exit_code,
            meaning,
            format,
            value: None,
            stderr: ran.stderr.text(),
            warnings,
            duration,
            error: None,
            is_abandoned: ran.is_abandoned,
            output: Kept::default(),
        };
        let detected = self.detect_expiry(&mut entry, &result, &ran).await;
        self.judge(&mut result, &mut ran, limit, policy.as_ref(), detected);
        self.read_output(&mut result, ran, command, options.structured, &mut entry)
            .await;
        let details = json!({
            "id": id,
            "command": result.command,
            "exit_code": result.exit_code,
            "meaning": result.meaning,
            "ok": result.is_ok(),
            "code": result.error.as_ref().map(|error| error.code.as_str()),
            "duration_ms": u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
        });
        context.audit.record("tool.exit", details)?;
        Ok(result)
    }

    /// Requires, install, version check, setup and auth: the path of the program, and the
    /// environment of a call.
    async fn ready(
        &self,
        entry: Option<&Entry>,
    ) -> Result<(PathBuf, Vec<(OsString, OsString)>), Error> {
        let context = &self.context;
        let mut installed = self.installed.lock().await;
        let bin = self.program(&mut installed).await?;
        let mut env = setup::ensure(context, &bin).await?;
        env.extend(auth::ensure_with(context, &bin, entry).await?);
        Ok((bin, env))
    }

    /// Requires, install and version check: the path of the program.
    async fn program(&self, known: &mut Option<Installed>) -> Result<PathBuf, Error> {
        // The program may have been removed since the last call.
        if let Some(installed) = known.as_ref().filter(|known| known.bin.exists()) {
            return Ok(installed.bin.clone());
        }
        let context = &self.context;
        install::check_requirements(context)?;
        let found = install::ensure(context, self.options.install).await?;
        let (_, found) = version::ensure(context, &found).await?;
        let bin = found.bin.clone();
        *known = Some(found);
        Ok(bin)
    }

    /// Refuses an invalid TOOL.md before anything of it is used.
    fn validate(&self, command: &ToolCommand) -> Result<(), Error> {
        let tool = &command.file;
        if let Err(why) = Workspace::new(&Disk, "/").load(tool) {
            let what = format!("{}: {why}", tool.display());
            let bundle = self.context.bundle.path().display();
            return Err(Error::new(Code::ManifestUnreadable, what)
                .hint(format!("see `commands` in {bundle}")));
        }
        let tools = std::slice::from_ref(tool);
        validate::check(&self.context, tools, self.options.allow_invalid)
    }

    fn output(&self) -> Option<Output<'_>> {
        self.context.bundle.common().output()
    }

    fn call_target(&self) -> CallTarget {
        let common = self.context.bundle.common();
        CallTarget {
            id: common.id().unwrap_or_default().to_owned(),
            version: common.version().unwrap_or_default().to_owned(),
            path: self.context.bundle.path().to_string_lossy().into_owned(),
        }
    }

    /// `bin`, `bin_args`, the arguments of the tool, and the JSON flag if it is wanted; with the
    /// format of the output.
    fn argv(
        &self,
        bin: &std::path::Path,
        expanded: Expanded,
        structured: bool,
    ) -> (Vec<OsString>, Format) {
        let common = self.context.bundle.common();
        let output = self.output();
        let format = output.and_then(|output| output.default_format()?.parse().ok());
        let mut format = format.unwrap_or(Format::Text);
        let flag = output.and_then(|output| output.json_flag());
        let mut words = expanded.words;
        if let (true, Some(output), Some(flag)) = (structured, output, flag) {
            let flag = flag.split_whitespace();
            let flag: Vec<String> = flag.map(str::to_owned).collect();
            let is_given = !flag.is_empty() && words.windows(flag.len()).any(|w| w == flag);
            if !is_given {
                // After `--` it would be an operand.
                let at = expanded.end_of_options.unwrap_or(words.len());
                let arguments = output.json_flag_args().map(str::to_owned);
                words.splice(at..at, flag.into_iter().chain(arguments));
            }
            format = Format::Json;
        }
        let fixed = common.bin_args().map(OsString::from);
        let argv = [bin.into()].into_iter().chain(fixed);
        (
            argv.chain(words.into_iter().map(OsString::from)).collect(),
            format,
        )
    }
}

/// The time limit of a call. The caller can only shorten the declared one.
fn time_limit(
    command: &ToolCommand,
    requested: Option<Duration>,
    warnings: &mut Vec<CallWarning>,
) -> Duration {
    match (command.timeout, requested) {
        (None, None) => DEFAULT_TIMEOUT,
        (None, Some(requested)) => requested,
        (Some(declared), None) => declared,
        (Some(declared), Some(requested)) => {
            if requested > declared {
                warnings.push(CallWarning {
                    code: "timeout_not_extended",
                    message: format!(
                        "the time limit stays {} s: the TOOL.md declares it, and a caller can only shorten it",
                        declared.as_secs_f64()
                    ),
                });
            }
            declared.min(requested)
        }
    }
}

fn without_carriage_returns(text: Vec<u8>) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.into_iter().peekable();
    while let Some(byte) = bytes.next() {
        if byte != b'\r' || bytes.peek() != Some(&b'\n') {
            out.push(byte);
        }
    }
    out
}

/// Removes values that look like secrets from an input for the audit log.
fn redact_input(input: &mut Value) {
    if let Value::Object(fields) = input {
        for (name, value) in fields.iter_mut() {
            match is_secret_name(name) && !value.is_null() {
                true => *value = json!("[redacted]"),
                false => redact_input(value),
            }
        }
    }
    redact::value(input);
}
