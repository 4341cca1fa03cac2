//! `agentproto certify`: runs conformance suites against an agent and reports the verdicts.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use crate::cli::agents::file_errors::{self, invalid_file, unreadable};
use crate::cli::agents::{host, progress, recipes};
use crate::cli::args::{Global, Output, values};
use crate::cli::{Failure, Outcome, io_failure, signals, terminal};
use crate::exit;
use agentproto_harness::lifecycle::{BundleOptions, BundleTarget};
use agentproto_harness::model::{self, Profile, Report, Target, Verdict};
use agentproto_harness::render as certify;
use agentproto_harness::render::Format;
use agentproto_harness::run::home::HomeTemplate;
use agentproto_harness::run::process::{Launcher, StartError};
use agentproto_harness::run::{
    self, LoginMethod, RunConfig, RunDirectory, RunOptions, RunSecrets, prompts,
};
use agentproto_harness::sessions::{DEFAULT_ADAPTER, HostTarget};
use agentproto_harness::suite::{self, LoadError, Selection, Suite};
use agentproto_mock::llm;
use agentproto_report::aoi::Emitter;
use agentproto_runtime as runtime;
use agentproto_runtime::bundle::{Bundle, TargetKind};
use agentproto_runtime::choices::{Choices, OptionValue};
use agentproto_runtime::context::Sandboxing;
use agentproto_text::closest_of;
use agentproto_text::escape_line;
use agentproto_wire as wire;

const EXAMPLES: &str = "\
Examples:
  agentproto certify --mock acp                        try it with a built-in mock agent
  agentproto certify -- my-agent acp                   certify your agent
  agentproto certify --mock-llm -- my-agent acp        use a scripted model
  agentproto certify --prompts prompts.yaml --report-dir report -- my-agent acp
  agentproto certify --only PT-11 -- my-agent acp      one requirement; see `explain PT-11`
  agentproto certify --recipe gemini-cli               a known agent, with the mock model
  agentproto certify ./bundle                          certify a bundle, started the way `run` does

Exit codes: 0 certified; with --only, --shard or --baseline: no (new) failures
            1 a requirement failed, or the agent is not certified for another reason
              (for example, because no turn was completed)
           64 usage · 65 invalid suite, prompts, script or baseline · 66 file not found
           69 the target cannot be started · 70 internal error · 73/74 I/O
          130/143 interrupted: the report so far is printed and marked as partial";

/// Heading of the options that only apply to a session host.
const HOST_OPTIONS: &str = "Options for a session host (--suite sessions)";

#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Certify {
    /// Bundle directory, AGENT-CLI.md file, or name of an adapter
    #[arg(value_name = "BUNDLE", conflicts_with_all = ["mock", "command"])]
    pub target: Option<PathBuf>,
    /// Certify a built-in mock agent: acp, acp-v2 or mcp
    #[arg(long, value_name = "NAME", conflicts_with = "command")]
    pub mock: Option<String>,
    /// Certify a known agent that is installed: take its command, environment, home directory and
    /// prompts from this recipe. Most recipes use the mock model; see --list-recipes
    #[arg(long, value_name = "NAME|FILE", conflicts_with_all = ["target", "mock", "url"])]
    pub recipe: Option<String>,
    /// List the recipes, and how to install their agents
    #[arg(long, conflicts_with_all = ["target", "mock", "url", "command", "recipe"])]
    pub list_recipes: bool,
    /// Run these suites: acp, acp-v2-draft, mcp, open-design, lifecycle, sessions, or a file
    /// [default: chosen by the protocol of the target]
    #[arg(long = "suite", value_name = "NAME|FILE")]
    pub suites: Vec<String>,
    /// Certify the session host (AIP-46) at URL [default for the suite `sessions`: the local
    /// daemon, if it is running]
    #[arg(long, value_name = "URL", conflicts_with_all = ["target", "mock", "command"], help_heading = HOST_OPTIONS)]
    pub url: Option<String>,
    /// Read the bearer token of the host from FILE
    #[arg(long, value_name = "FILE", help_heading = HOST_OPTIONS)]
    pub token_file: Option<PathBuf>,
    /// Adapter that the host runs [default: mock-acp]
    #[arg(long, value_name = "SLUG", help_heading = HOST_OPTIONS)]
    pub adapter: Option<String>,
    /// Working directory on the host for sessions [default: an empty one, if the host is this
    /// machine]
    #[arg(long, value_name = "DIR", help_heading = HOST_OPTIONS)]
    pub cwd: Option<PathBuf>,
    /// Path of the host's session routes
    #[arg(long, value_name = "PATH", default_value = "/sessions", help_heading = HOST_OPTIONS)]
    pub prefix: String,
    /// Path of the host's MCP server
    #[arg(long, value_name = "PATH", default_value = "/mcp", help_heading = HOST_OPTIONS)]
    pub mcp: String,
    /// Start the host's MCP server with COMMAND, such as "agentproto mcp", and use it over stdio
    /// instead of the path of --mcp
    #[arg(long, value_name = "COMMAND", help_heading = HOST_OPTIONS)]
    pub mcp_command: Option<String>,
    /// Read prompts from FILE (YAML), each of which makes the agent do one thing, such as call a
    /// tool; cases without a prompt are skipped
    ///
    /// A mapping of keys to texts, each optional: text (answer with a short text), tool (call a
    /// tool), permission (ask before acting), fs_read and fs_write (read or write a file through
    /// the client), terminal (run a command in a terminal of the client), slow (work for some
    /// seconds), plan (make a plan), thought (think aloud), elicitation (ask with a form), recall
    /// (repeat what the user said), log (MCP: log something). For an MCP server, a key holds a
    /// call: `tool: {name: search, arguments: {q: x}}`. A run that skips cases prints a prompts
    /// file with the missing keys, ready to be filled in.
    #[arg(long, value_name = "FILE")]
    pub prompts: Option<PathBuf>,
    /// Set an environment variable for the agent
    #[arg(long = "env", value_name = "K=V")]
    pub env: Vec<String>,
    /// Start a mock model and point the agent to it (ANTHROPIC_BASE_URL, OPENAI_BASE_URL, …), so
    /// that nothing leaves this machine
    #[arg(long)]
    pub mock_llm: bool,
    /// Use this script for the mock model [default: a script for the built-in prompts]
    #[arg(long, value_name = "FILE", requires = "mock_llm")]
    pub llm_script: Option<PathBuf>,
    /// Use a fresh copy of DIR as the agent's home directory for each case; `{home}` and
    /// `{model_url}` in its files are replaced
    #[arg(long, value_name = "DIR")]
    pub home: Option<PathBuf>,
    /// Log in with this auth method if a session requires a login
    #[arg(long, value_name = "ID")]
    pub auth_method: Option<String>,
    /// Maximum number of seconds to wait for a response. Time that the agent needs to start, or has
    /// to wait for a processor, does not count
    #[arg(long, value_name = "S", default_value_t = 30.0, value_parser = crate::cli::agents::seconds)]
    pub timeout: f64,
    /// Maximum number of parallel cases [default: two per processor]
    #[arg(long, short = 'j', value_name = "N")]
    pub jobs: Option<usize>,
    /// Run the I-th of N parts; `agentproto report merge` merges their reports
    #[arg(long, value_name = "I/N")]
    pub shard: Option<String>,
    /// Run only these requirements (PT-11), prefixes of their ids (PT), sections ("prompt turn") or
    /// cases (comma-separated). With --selftest: ids of mutants, variants or requirements, or the name of
    /// a mock (`acp`) for all of its mutants
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Requirements that decide about the certificate: what the official kit of the protocol demands
    /// (core), every MUST (strict), or like core, with a table of the official kit (tck) [default:
    /// core; with --only: strict]
    #[arg(long, value_name = "NAME", value_parser = values(Profile::ALL))]
    pub profile: Option<Profile>,
    /// Output format
    #[arg(long, short = 'o', alias = "format", default_value_t = Format::Human,
          value_parser = values(Format::ALL.iter().filter(|f| **f != Format::BadgeJson)))]
    pub output: Format,
    /// Write the report in every format, and all transcripts, to DIR
    #[arg(long, value_name = "DIR")]
    pub report_dir: Option<PathBuf>,
    /// Exit with code 0 if all failures are already in this earlier report (JSON)
    #[arg(long, value_name = "FILE")]
    pub baseline: Option<PathBuf>,
    /// Self-test: run the suites against mock agents with one known defect each (*mutants*) and
    /// conforming ones (*variants*)
    #[arg(long, conflicts_with_all = ["target", "mock", "command", "suites", "baseline", "shard"])]
    pub selftest: bool,
    /// With --selftest: run each mutant first with the cases that should find its defect, and each
    /// variant with every second case
    #[arg(long, requires = "selftest")]
    pub quick: bool,
    /// Look up adapters in DIR first
    #[arg(long, value_name = "DIR")]
    pub adapters: Vec<PathBuf>,
    /// Use this mode of the manifest
    #[arg(long, value_name = "ID")]
    pub mode: Option<String>,
    /// Set an option of the manifest
    #[arg(long = "option", value_name = "ID=VALUE")]
    pub options: Vec<String>,
    /// Enforce the sandbox of a bundle or refuse to start it (auto), or run without it (off)
    #[arg(long, value_name = "WHEN", default_value_t = Sandboxing::Auto, value_parser = values(Sandboxing::ALL))]
    pub sandbox: Sandboxing,
    /// Confirm install, setup and login of a bundle in advance
    #[arg(long, short = 'y')]
    pub yes: bool,
    /// The agent's command line
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// Returns the format as the error if only reports have it.
impl TryFrom<Format> for Output {
    type Error = Format;

    fn try_from(format: Format) -> Result<Self, Format> {
        match format {
            Format::Human => Ok(Output::Human),
            Format::Json => Ok(Output::Json),
            Format::Jsonl => Ok(Output::Jsonl),
            other => Err(other),
        }
    }
}

pub fn run(args: &Certify, global: &Global, out: &mut dyn Write) -> Outcome {
    signals::watch();
    if args.selftest {
        return crate::cli::agents::selftest::run(args, global, out);
    }
    if args.list_recipes {
        return recipes::list(args.output, out);
    }
    // The run may take minutes, so a reader gets the first line at once.
    if args.output == Format::Jsonl {
        let mut emitter = Emitter::new(out, env!("CARGO_PKG_VERSION"));
        emitter.meta("certify").map_err(io_failure)?;
        // The files of a report are wanted anyway.
        if args.report_dir.is_none() {
            signals::stop_without_reader();
        }
    }
    let workspace = RunDirectory::new("certify").map_err(io_failure)?;
    let recipe = match &args.recipe {
        Some(name) => Some(recipes::load(name)?),
        None => None,
    };
    // The settings of a recipe are public, and those of the command line may be secret.
    let given = variables(args)?;
    let with_recipe;
    let args = match &recipe {
        Some(recipe) => {
            with_recipe = recipes::apply(recipe, args, workspace.path())?;
            &with_recipe
        }
        None => args,
    };
    let named = match &args.target {
        Some(named) => Some(bundle(args, named, &workspace)?),
        None => None,
    };
    let suites = suites(args, named.as_deref())?;
    let host = host::host_target(args, &suites)?;
    let prompts = match &recipe {
        Some(recipe) if args.prompts.is_none() => recipe.prompts.clone(),
        _ => read_prompts(args, named.as_deref(), host.as_ref().map(|(_, host)| host))?,
    };
    let script = read_script(args)?;
    let baseline = args.baseline.as_deref().map(baseline).transpose()?;
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let options = RunOptions {
        jobs: args.jobs.unwrap_or(2 * cores),
        shard: args.shard.as_deref().map(shard).transpose()?,
        stop: &signals::STOP,
        keep_transcripts: args.report_dir.is_some(),
        only: only(&args.only, &suites)?,
        // A requirement that was selected by name counts, whatever the official kit demands.
        profile: args.profile.unwrap_or(match args.only.is_empty() {
            true => Profile::Core,
            false => Profile::Strict,
        }),
    };
    let selection = options.only.clone();
    let progress = progress::for_terminal(global);
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cores.max(2))
        .enable_all()
        .build()
        .map_err(io_failure)?;
    let timeout = seconds(args.timeout)?;
    let done = tokio.block_on(async {
        // Without the confirmation of the user, nothing can be tested. Other refusals are part of
        // the report, because the suite `lifecycle` still gives verdicts.
        if let Some(bundle) = &named
            && let Err(error) = bundle.ready().await
            && error.is_unconfirmed()
        {
            return Err(Failure::from(error));
        }
        let model = match script {
            Some(script) => {
                let server = agentproto_mock::llm::ModelServer::start(script).await;
                Some(Arc::new(server.map_err(io_failure)?))
            }
            None => None,
        };
        let url = model.as_ref().map(|model| model.url());
        let queried_model = model.clone();
        let (target, launcher) = match (&named, host) {
            (_, Some((url, host))) => {
                let target = Target {
                    kind: model::URL.to_owned(),
                    name: url,
                    ..Target::default()
                };
                (target, Launcher::Host(Arc::new(host)))
            }
            (Some(bundle), None) => {
                let target = Target {
                    kind: "bundle".to_owned(),
                    name: bundle.name(),
                    ..Target::default()
                };
                (target, Launcher::Bundle(Arc::clone(bundle)))
            }
            (None, None) => launcher(args, url.as_deref())?,
        };
        let config = RunConfig {
            secrets: RunSecrets::new(&given, &launcher),
            prompts,
            timeout,
            login: match &args.auth_method {
                Some(method) => LoginMethod::With(method.clone()),
                None if args.mock.is_some() => LoginMethod::First,
                None => LoginMethod::No,
            },
            model: model.map(|model| Arc::new(MockModel(model)) as Arc<dyn run::Model>),
            home: home(args, url)?,
            state_variable: args.mock.as_ref().map(|_| "MOCK_STATE_DIR"),
            ..RunConfig::new(launcher, workspace)
        };
        let suites = Arc::new(suites);
        let ran = run::run(suites, target, config, options, progress).await;
        if let Some(model) = queried_model
            && model.log().all().is_empty()
        {
            let why = "check its variables (docs/mock-llm.md), or remove --mock-llm";
            tracing::warn!("the agent sent no request to the mock model: {why}");
        }
        Ok::<_, Failure>(ran)
    });
    let run::RunResult {
        mut report,
        transcripts,
        ..
    } = done?;
    if signals::is_reader_gone() {
        return Err(io_failure(std::io::ErrorKind::BrokenPipe.into()));
    }
    let mut render_options = certify::RenderOptions {
        color: terminal::color(global),
        unicode: terminal::unicode(),
        width: terminal::width(),
        report_dir: args.report_dir.clone(),
        prompts: args.prompts.clone(),
        has_meta: args.output == Format::Jsonl,
        ..certify::RenderOptions::default()
    };
    report.retain_selected(&selection);
    if let Some(baseline) = &baseline {
        if baseline.partial {
            let words = "the baseline is from an interrupted run: what it did not check is new";
            tracing::warn!("{words}");
        }
        render_options.fixed = certify::baseline::apply(&mut report, baseline);
    }
    if let Some(dir) = &args.report_dir {
        let written = certify::write_all(&report, dir, &render_options);
        written.map_err(|error| Failure::new(exit::CANT_CREATE, error.to_string()))?;
        for stored in &transcripts {
            write_transcript(dir, stored, &report.target.name)?;
        }
    }
    // Called before rendering: it marks the signal as handled, so that the report is not cut off. A
    // signal that arrived after the run was complete is ignored.
    let interrupted = signals::interrupted().filter(|_| report.partial);
    certify::render(args.output, &report, &render_options, out).map_err(io_failure)?;
    if let Some(code) = interrupted {
        return Ok(code);
    }
    // The report gives the reason for each requirement; the exit code tells scripts at once.
    if report.not_started.is_some() {
        return Ok(exit::UNAVAILABLE);
    }
    // An agent that says nothing cannot be tested, whatever the one row about it says.
    if report.never_answered.is_some() && !has_wrong_output(&report) {
        return Ok(exit::UNAVAILABLE);
    }
    Ok(match report.has_new_failures() {
        true => exit::FINDINGS,
        false if report.never_answered.is_some() => exit::UNAVAILABLE,
        // Nothing failed, but the agent is not certified: a script must not take this for success.
        false if certify::fails_without_failure(&report) => exit::FINDINGS,
        false => exit::CLEAN,
    })
}

/// Whether a failure is about something that the agent, or the host, sent.
fn has_wrong_output(report: &Report) -> bool {
    let mut failed = report
        .results
        .iter()
        .filter(|row| row.verdict == Verdict::Fail);
    let is_sent = |line: &model::Evidence| line.direction == "from-agent";
    report.target.kind == model::URL || failed.any(|row| row.evidence.iter().any(is_sent))
}

fn write_transcript(dir: &Path, stored: &run::CaseTranscript, target: &str) -> Result<(), Failure> {
    let path = dir.join(run::file_name(&stored.suite, &stored.case));
    let write = || -> std::io::Result<()> {
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        let mut file = std::io::BufWriter::new(std::fs::File::create(&path)?);
        wire::file::write(&stored.transcript, target, &mut file)
    };
    write().map_err(|error| {
        let message = format!("{} cannot be written: {error}", path.display());
        Failure::new(exit::CANT_CREATE, message)
    })
}

pub(super) fn baseline(path: &Path) -> Result<Report, Failure> {
    certify::load(path).map_err(|error| {
        let code = match path.exists() {
            true => exit::DATA,
            false => exit::NO_INPUT,
        };
        Failure::new(code, error.to_string())
            .hint("pass a report written by --output json, or report.json of --report-dir")
    })
}

fn read_script(args: &Certify) -> Result<Option<llm::Script>, Failure> {
    if !args.mock_llm {
        return Ok(None);
    }
    let (name, text) = match &args.llm_script {
        Some(path) => {
            let name = path.to_string_lossy().into_owned();
            (name, read(path)?)
        }
        None => ("certify".to_owned(), llm::Script::certify_text().to_owned()),
    };
    let script = llm::parse(&text);
    let script = script.map_err(|errors| invalid_file("model-script", &name, &errors))?;
    Ok(Some(script))
}

/// A private home directory, if one is requested or if a mock model replaces real accounts.
fn home(args: &Certify, url: Option<String>) -> Result<Option<HomeTemplate>, Failure> {
    if args.home.is_none() && url.is_none() {
        return Ok(None);
    }
    if let Some(dir) = args.home.as_ref().filter(|dir| !dir.is_dir()) {
        let message = format!("{} is not a directory", dir.display());
        return Err(Failure::new(exit::NO_INPUT, message));
    }
    let mut env = Vec::new();
    if let Some(url) = &url {
        for (name, path) in [
            ("ANTHROPIC_BASE_URL", ""),
            ("OPENAI_BASE_URL", "/v1"),
            ("GOOGLE_GEMINI_BASE_URL", ""),
        ] {
            env.push((name.to_owned(), format!("{url}{path}")));
        }
        for name in ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"] {
            env.push((name.to_owned(), "mock".to_owned()));
        }
    }
    // Variables from the command line take precedence. `{home}` is known only per case.
    env.extend(variables(args)?);
    Ok(Some(HomeTemplate {
        template: args.home.clone(),
        env,
        model_url: url,
    }))
}

pub(super) fn seconds(number: f64) -> Result<Duration, Failure> {
    match number.is_finite() && number > 0.0 && number <= 3600.0 {
        true => Ok(Duration::from_secs_f64(number)),
        false => Err(Failure::new(
            exit::USAGE,
            "--timeout must be more than 0 and at most 3600 seconds",
        )),
    }
}

fn shard(text: &str) -> Result<(usize, usize), Failure> {
    let parts = text.split_once('/');
    let parsed = parts.and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
    match parsed {
        Some((i, n)) if (1..=n).contains(&i) => Ok((i, n)),
        _ => Err(Failure::new(exit::USAGE, format!("invalid shard `{text}`"))
            .hint("use for example --shard 1/4, the first of four parts")),
    }
}

/// Rejects unknown words: a run that selects nothing would look like a run without failures.
fn only(words: &[String], suites: &[Suite]) -> Result<Selection, Failure> {
    Selection::new(words, suites).map_err(|unknown| {
        let word = escape_line(&unknown.word);
        let names: Vec<&str> = suites.iter().map(|suite| suite.name.as_str()).collect();
        let names = match names.as_slice() {
            [one] => format!("the suite {one}"),
            several => format!("the suites {}", several.join(", ")),
        };
        let what = format!("no requirement, section or case of {names} matches `{word}`");
        Failure::new(exit::USAGE, what).hint(match unknown.closest {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => "`agentproto coverage` lists every requirement; `--only PT-11` selects one, \
                     `--only PT` all whose id starts with PT"
                .to_owned(),
        })
    })
}

fn suites(args: &Certify, bundle: Option<&BundleTarget>) -> Result<Vec<Suite>, Failure> {
    let protocol = match (bundle, args.mock.as_deref()) {
        _ if args.url.is_some() => "sessions",
        (Some(bundle), _) => bundle.protocol(),
        (None, Some(mock)) => run::command::mock_named(mock).map_err(start_failure)?.1,
        (None, None) => run::command::DEFAULT_SUITE,
    };
    let mut default: Vec<String> = Vec::new();
    if suite::names().any(|name| name == protocol) {
        default.push(protocol.to_owned());
    }
    if bundle.is_some() {
        default.push("lifecycle".to_owned());
    }
    let names = match args.suites.as_slice() {
        [] => default,
        names => names.to_vec(),
    };
    names.iter().map(|name| suite(name)).collect()
}

pub(super) fn suite(name: &str) -> Result<Suite, Failure> {
    suite::load(name).map_err(|error| match error {
        LoadError::Unknown(name) => {
            let failure = Failure::new(exit::USAGE, format!("unknown suite `{name}`"));
            match closest_of(&name, suite::names()) {
                Some(meant) => failure.hint(format!("did you mean `{meant}`?")),
                None => {
                    let names: Vec<&str> = suite::names().collect();
                    failure.hint(format!(
                        "known suites: {}; to use a file, give a path that ends in .yaml",
                        names.join(", ")
                    ))
                }
            }
        }
        LoadError::Unreadable { path, error } => unreadable(path, &error),
        LoadError::Invalid { path, errors } => invalid_file("suite", &path, &errors),
    })
}

fn read(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|error| unreadable(path, &error))
}

fn read_prompts(
    args: &Certify,
    bundle: Option<&BundleTarget>,
    host: Option<&HostTarget>,
) -> Result<BTreeMap<String, String>, Failure> {
    let Some(path) = &args.prompts else {
        let is_mock = args.mock.is_some()
            || bundle.is_some_and(|b| b.bundle.built_in)
            || host.is_some_and(|host| host.adapter() == DEFAULT_ADAPTER);
        return Ok(match is_mock {
            _ if args.mock_llm => prompts::mock_model_prompts(),
            true => prompts::mock_prompts(),
            false => prompts::default_prompts(),
        });
    };
    let text = read(path)?;
    let configured = prompts::parse(&text).map_err(|errors| {
        let message = file_errors::error_lines(&path.to_string_lossy(), &errors);
        let keys = prompts::names().join(", ");
        let failure = Failure::new(exit::DATA, message);
        match file_errors::is_yaml(&text) {
            true => failure.hint(format!("allowed keys: {keys}")),
            false => failure,
        }
    })?;
    // A file without the key `text` still gets the default prompt for an ordinary turn.
    let mut all = match args.mock_llm && args.llm_script.is_none() {
        true => prompts::mock_model_prompts(),
        false => prompts::default_prompts(),
    };
    all.retain(|key, _| key == "text");
    all.extend(configured);
    Ok(all)
}

fn pairs(list: &[String], usage: &str) -> Result<Vec<(String, String)>, Failure> {
    let pair = |text: &String| match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(Failure::new(exit::USAGE, usage)),
    };
    list.iter().map(pair).collect()
}

fn variables(args: &Certify) -> Result<Vec<(String, String)>, Failure> {
    pairs(&args.env, "--env takes NAME=VALUE")
}

/// Finds a bundle as `run` does, with the same options.
fn bundle(
    args: &Certify,
    named: &Path,
    workspace: &RunDirectory,
) -> Result<Arc<BundleTarget>, Failure> {
    let home = runtime::home::Home::from_env()?;
    let bundle = Bundle::discover_kind(
        &named.to_string_lossy(),
        TargetKind::Agent,
        &args.adapters,
        &home,
    )
    .map_err(|error| {
        let unknown = error.code == runtime::Code::TargetUnknown;
        let hint = error.hint.clone().filter(|_| unknown);
        match hint {
            Some(hint) => {
                let program = agentproto_text::shell(&[named.to_string_lossy()]);
                error.hint(format!(
                    "{hint}; to certify a program, write `agentproto certify -- {program}`"
                ))
            }
            None => error,
        }
    })?;
    let options = pairs(&args.options, "--option takes ID=VALUE")?;
    let options = options
        .into_iter()
        .map(|(id, text)| (id, OptionValue::Text(text)));
    let choices = BundleOptions {
        choices: Choices {
            mode: args.mode.clone(),
            options: options.collect(),
            ..Choices::default()
        },
        sandboxing: args.sandbox,
        yes: args.yes,
        env: variables(args)?,
        home: Some(home),
        ..BundleOptions::default()
    };
    let target = BundleTarget::new(bundle, choices, workspace.path());
    target.check_choices()?;
    Ok(Arc::new(target))
}

fn launcher(args: &Certify, url: Option<&str>) -> Result<(Target, Launcher), Failure> {
    let env = variables(args)?;
    let started = match (&args.mock, args.command.as_slice()) {
        (Some(mock), _) => run::command::mock(mock, &env),
        (None, []) => {
            return Err(Failure::new(exit::USAGE, "no agent was given").hint(
                "run `agentproto certify -- my-agent acp`, name a bundle, or try --mock acp",
            ));
        }
        (None, command) => {
            // An agent may take the model's address as an argument. The report does not name it.
            let put = |word: &OsString| match (word.to_str(), url) {
                (Some(text), Some(url)) => text.replace("{model_url}", url).into(),
                _ => word.clone(),
            };
            let words = command.iter().map(|word| word.to_string_lossy());
            let name = words.collect::<Vec<_>>().join(" ");
            let started = run::command::command(command.iter().map(put).collect(), &env);
            started.map(|(target, program)| (Target { name, ..target }, program))
        }
    };
    let (target, program) = started.map_err(start_failure)?;
    Ok((target, Launcher::Program(program)))
}

fn start_failure(error: StartError) -> Failure {
    let message = error.to_string();
    match error {
        StartError::NoMock(_) => {
            Failure::new(exit::USAGE, message).hint("use --mock acp, --mock acp-v2 or --mock mcp")
        }
        StartError::NoProgram(_) => Failure::new(exit::UNAVAILABLE, message)
            .hint("the command after `--` must be a program on PATH, or a path"),
        _ => Failure::new(exit::UNAVAILABLE, message),
    }
}

/// The mock model, as the harness queries it.
struct MockModel(Arc<agentproto_mock::llm::ModelServer>);

impl run::Model for MockModel {
    fn requests(&self, tag: &str) -> Value {
        self.0.log().containing(tag)
    }
}
