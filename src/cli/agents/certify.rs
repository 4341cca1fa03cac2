//! `agentproto certify`: drives an agent through suites, and says what it proved.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use crate::cli::agents::exit_codes;
use crate::cli::agents::mistakes::{self, misread};
use crate::cli::agents::{host, progress};
use crate::cli::args::{Global, Output, values};
use crate::cli::{Failure, Outcome, io_failure, signals, terminal};
use crate::exit;
use agentproto_harness::lifecycle::{BundleTarget, Choices};
use agentproto_harness::model::{self, CaseResult, Report, Target, Verdict};
use agentproto_harness::render as certify;
use agentproto_harness::render::Format;
use agentproto_harness::run::home::Home;
use agentproto_harness::run::process::{Launcher, Program, StartError};
use agentproto_harness::run::{
    self, Login, Options, Patience, Secrets, Setting, Workspace, prompts,
};
use agentproto_harness::sessions::{HostTarget, USUAL_ADAPTER};
use agentproto_harness::suite::{self, Selection, Suite};
use agentproto_mock::llm;
use agentproto_runtime as runtime;
use agentproto_runtime::bundle::Bundle;
use agentproto_runtime::choices::{Given, Wanted};
use agentproto_runtime::context::Sandboxing;
use agentproto_runtime::fault::Fault;
use agentproto_text::closest_of;
use agentproto_text::plain;
use agentproto_wire as wire;

const EXAMPLES: &str = "\
Examples:
  agentproto certify --mock acp                        see how it goes, with our own agent
  agentproto certify -- my-agent acp                   your agent
  agentproto certify --mock-llm -- my-agent acp        with a scripted model behind it
  agentproto certify --prompts prompts.yaml --report-dir report -- my-agent acp
  agentproto certify --only PT-11 -- my-agent acp      one statement; `explain PT-11` says more
  agentproto certify ./bundle                          a bundle through the whole runner

Exit codes: 0 certified; with --only, --shard or --baseline: nothing (new) failed
            1 a requirement failed, or nothing failed and it is no certificate either
           64 usage · 65 malformed suite, prompts, script or baseline · 66 no such file
           69 the target cannot be started · 70 internal fault · 73/74 I/O
          130/143 interrupted: the report so far is printed, and says that it is partial";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Certify {
    /// A bundle, its AGENT-CLI.md, or the slug of an adapter
    #[arg(value_name = "BUNDLE", conflicts_with_all = ["mock", "command"])]
    pub target: Option<PathBuf>,
    /// One of our mock agents: acp, mcp
    #[arg(long, value_name = "NAME", conflicts_with = "command")]
    pub mock: Option<String>,
    /// Suites to run: acp, acp-v2-draft, mcp, open-design, lifecycle, sessions, or a file
    /// [default: by the protocol of the target]
    #[arg(long = "suite", value_name = "NAME|FILE")]
    pub suites: Vec<String>,
    /// A host of sessions (AIP-46) [default for the suite `sessions`: our daemon, where it runs]
    #[arg(long, value_name = "URL", conflicts_with_all = ["target", "mock", "command"])]
    pub url: Option<String>,
    /// The bearer token of the host, in a file
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// The adapter that the host shall run [default: mock-acp]
    #[arg(long, value_name = "SLUG")]
    pub adapter: Option<String>,
    /// A directory of the host for sessions [default: an empty one, where it is this machine]
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// Where the host has its routes
    #[arg(long, value_name = "PATH", default_value = "/sessions")]
    pub prefix: String,
    /// Where the host has its MCP server
    #[arg(long, value_name = "PATH", default_value = "/mcp")]
    pub mcp: String,
    /// Which prompt makes this agent do what (YAML); cases without their prompt are skipped
    ///
    /// A mapping of keys to texts, each optional: text (answer with a little text), tool (call a
    /// tool), permission (ask before acting), fs_read and fs_write (read, write a file through
    /// the client), terminal (run a command in a terminal of the client), slow (work for some
    /// seconds), plan (make a plan), thought (think aloud), elicitation (ask with a form), recall
    /// (say again what the user said), log (MCP: log something). For an MCP server a key holds a
    /// call: `tool: {name: search, arguments: {q: x}}`. A run that skips cases prints the file
    /// that it lacks, ready to be filled in.
    #[arg(long, value_name = "FILE")]
    pub prompts: Option<PathBuf>,
    /// A variable for the agent's environment
    #[arg(long = "env", value_name = "K=V")]
    pub env: Vec<String>,
    /// Put a mock model behind the agent: its variables lead there, and nothing leaves this machine
    #[arg(long)]
    pub mock_llm: bool,
    /// Script of the mock model [default: one that knows the prompts `certify:KEY`]
    #[arg(long, value_name = "FILE", requires = "mock_llm")]
    pub llm_script: Option<PathBuf>,
    /// Directory that becomes the agent's home, anew for every case; in its files `{home}` and
    /// `{model_url}` are put in
    #[arg(long, value_name = "DIR")]
    pub home: Option<PathBuf>,
    /// The auth method to log in with where a session needs a login
    #[arg(long, value_name = "ID")]
    pub auth_method: Option<String>,
    /// Seconds to wait for any answer
    #[arg(long, value_name = "S", default_value_t = 30.0)]
    pub timeout: f64,
    /// Cases at a time [default: two per processor]
    #[arg(long, short = 'j', value_name = "N")]
    pub jobs: Option<usize>,
    /// Run the I-th of N parts; `agentproto report merge` puts them together
    #[arg(long, value_name = "I/N")]
    pub shard: Option<String>,
    /// Only these: a statement (PT-11), a chapter (PT), a section ("prompt turn") or a case;
    /// several with commas. With --selftest: mutants, their statements, variants,
    /// or all of one mock
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Output format
    #[arg(long, short = 'o', alias = "format", default_value_t = Format::Human,
          value_parser = values(Format::ALL.iter().filter(|f| **f != Format::BadgeJson)))]
    pub output: Format,
    /// Write every format and all transcripts into a directory
    #[arg(long, value_name = "DIR")]
    pub report_dir: Option<PathBuf>,
    /// A report of before: what failed there already is no news
    #[arg(long, value_name = "FILE")]
    pub baseline: Option<PathBuf>,
    /// Judge the judge: every mutant must be caught, no conforming variant blamed
    #[arg(long, conflicts_with_all = ["target", "mock", "command", "suites", "baseline", "shard"])]
    pub selftest: bool,
    /// With --selftest: for each mutant first the cases of its statement, all only if it survives;
    /// of each variant every second case
    #[arg(long, requires = "selftest")]
    pub quick: bool,
    /// Look for slugs here, too
    #[arg(long, value_name = "DIR")]
    pub adapters: Vec<PathBuf>,
    /// The mode of the manifest to certify in
    #[arg(long, value_name = "ID")]
    pub mode: Option<String>,
    /// An option of the manifest
    #[arg(long = "option", value_name = "ID=VALUE")]
    pub options: Vec<String>,
    /// Whether the sandbox of a bundle is enforced
    #[arg(long, default_value_t = Sandboxing::Auto, value_parser = values(Sandboxing::ALL))]
    pub sandbox: Sandboxing,
    /// Confirms installing, setup and logins of a bundle beforehand
    #[arg(long)]
    pub yes: bool,
    /// The agent's command line
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// Gives back a format that only reports have.
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
    let workspace = Workspace::new("certify").map_err(io_failure)?;
    let named = match &args.target {
        Some(named) => Some(bundle(args, named, &workspace)?),
        None => None,
    };
    let suites = suites(args, named.as_deref())?;
    let host = host::named(args, &suites)?;
    let prompts = read_prompts(args, named.as_deref(), host.as_ref().map(|(_, host)| host))?;
    let script = read_script(args)?;
    let baseline = args.baseline.as_deref().map(baseline).transpose()?;
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let options = Options {
        jobs: args.jobs.unwrap_or(2 * cores),
        shard: args.shard.as_deref().map(shard).transpose()?,
        stop: &signals::STOP,
        keep_transcripts: args.report_dir.is_some(),
        only: only(&args.only, &suites)?,
    };
    let asked = options.only.clone();
    let progress = progress::shown(global);
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cores.max(2))
        .enable_all()
        .build()
        .map_err(io_failure)?;
    let timeout = seconds(args.timeout)?;
    let done = tokio.block_on(async {
        let model = match script {
            Some(script) => {
                let server = agentproto_mock::llm::Server::start(script).await;
                Some(Arc::new(server.map_err(io_failure)?))
            }
            None => None,
        };
        let url = model.as_ref().map(|model| model.url());
        let asked_model = model.clone();
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
        let setting = Setting {
            secrets: Secrets::of(&variables(args)?, &launcher),
            launcher,
            prompts,
            timeout,
            quiet: Duration::from_millis(300),
            grace: Duration::from_millis(1000),
            login: match &args.auth_method {
                Some(method) => Login::With(method.clone()),
                None if args.mock.is_some() => Login::First,
                None => Login::No,
            },
            model: model.map(|model| Arc::new(MockModel(model)) as Arc<dyn run::Model>),
            workspace,
            home: home(args, url)?,
            state_variable: args.mock.as_ref().map(|_| "MOCK_STATE_DIR"),
            starts: Patience::default(),
            sessions: Patience::default(),
            turns: Patience::default(),
        };
        let suites = Arc::new(suites);
        let ran = run::run(suites, target, setting, options, progress).await;
        if let Some(model) = asked_model
            && model.log().all().is_empty()
        {
            let why = "look at its variables (docs/mock-llm.md), or leave out --mock-llm";
            tracing::warn!("the agent never asked the mock model: {why}");
        }
        Ok::<_, Failure>(ran)
    });
    let run::Ran {
        mut report,
        transcripts,
        ..
    } = done?;
    let mut shown = certify::Options {
        color: terminal::color(global),
        unicode: terminal::unicode(),
        width: terminal::width(),
        report_dir: args.report_dir.clone(),
        prompts: args.prompts.clone(),
        ..certify::Options::default()
    };
    // What else a monitor saw on the way is the business of a whole run.
    if !asked.is_everything() && !asked.names_cases {
        let is_asked = |r: &CaseResult| asked.statements.contains(&r.requirement);
        report
            .results
            .retain(|r| is_asked(r) || r.verdict == Verdict::Error);
        report.sum_up();
    }
    if let Some(baseline) = &baseline {
        if baseline.partial {
            let words = "the baseline is of a run that was stopped: what it did not look at is new";
            tracing::warn!("{words}");
        }
        shown.fixed = certify::baseline::apply(&mut report, baseline);
    }
    if let Some(dir) = &args.report_dir {
        let written = certify::write_all(&report, dir, &shown);
        written.map_err(|error| Failure::new(exit::CANT_CREATE, error.to_string()))?;
        for kept in &transcripts {
            write_transcript(dir, kept, &report.target.name)?;
        }
    }
    // Asked before: a report that tells of the signal is not cut by it. One that came when the
    // run was whole cuts nothing.
    let interrupted = signals::interrupted().filter(|_| report.partial);
    certify::render(args.output, &report, &shown, out).map_err(io_failure)?;
    if let Some(code) = interrupted {
        return Ok(code);
    }
    // The report tells why, statement by statement; a script hears it at once.
    if let Some(bundle) = named
        && tokio.block_on(bundle.ready()).is_err()
    {
        return Ok(exit::UNAVAILABLE);
    }
    let whole = !report.selection && report.shard.is_none();
    let nothing_failed = report.summary.fail == 0;
    Ok(match report.has_new_failures() {
        true => exit::FINDINGS,
        false if report.never_answered.is_some() => exit::UNAVAILABLE,
        // No failure, and no certificate either: a script must not take it for one.
        false if whole && nothing_failed && !report.summary.certified => exit::FINDINGS,
        false => exit::CLEAN,
    })
}

fn write_transcript(dir: &Path, kept: &run::Transcribed, target: &str) -> Result<(), Failure> {
    let path = dir.join(run::file_name(&kept.suite, &kept.case));
    let write = || -> std::io::Result<()> {
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        let mut file = std::io::BufWriter::new(std::fs::File::create(&path)?);
        wire::file::write(&kept.transcript, target, &mut file)
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
            .hint("--baseline takes a report of --output json, or report.json of --report-dir")
    })
}

fn read_script(args: &Certify) -> Result<Option<llm::Script>, Failure> {
    if !args.mock_llm {
        return Ok(None);
    }
    let (name, text) = match &args.llm_script {
        Some(path) => {
            let name = path.to_string_lossy().into_owned();
            let text = read(&name)?;
            (name, text)
        }
        None => ("certify".to_owned(), llm::Script::certify_text().to_owned()),
    };
    let script = llm::parse(&text);
    let script = script.map_err(|mistakes| misread("model-script", &name, &mistakes))?;
    Ok(Some(script))
}

/// A private home where one is asked for, or where a mock model takes the place of real
/// accounts.
fn home(args: &Certify, url: Option<String>) -> Result<Option<Home>, Failure> {
    if args.home.is_none() && url.is_none() {
        return Ok(None);
    }
    if let Some(dir) = args.home.as_ref().filter(|dir| !dir.is_dir()) {
        let message = format!("{} is no directory", dir.display());
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
    // What the caller says wins; `{home}` is only known case by case.
    env.extend(variables(args)?);
    Ok(Some(Home {
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
            "--timeout is a number of seconds, more than 0 and at most 3600",
        )),
    }
}

fn shard(text: &str) -> Result<(usize, usize), Failure> {
    let parts = text.split_once('/');
    let parsed = parts.and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
    match parsed {
        Some((i, n)) if (1..=n).contains(&i) => Ok((i, n)),
        _ => Err(Failure::new(exit::USAGE, format!("`{text}` is no shard"))
            .hint("--shard 1/4 is the first of four parts")),
    }
}

/// A selection of nothing would look like a run without failures.
fn only(words: &[String], suites: &[Suite]) -> Result<Selection, Failure> {
    Selection::of(words, suites).map_err(|unknown| {
        let word = plain(&unknown.word);
        let what = format!("no statement, section or case of these suites is `{word}`");
        Failure::new(exit::USAGE, what).hint(match unknown.meant {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => "`agentproto coverage` lists every statement; `--only PT` takes a chapter, \
                     `--only PT-11` a statement"
                .to_owned(),
        })
    })
}

fn suites(args: &Certify, bundle: Option<&BundleTarget>) -> Result<Vec<Suite>, Failure> {
    let protocol = match (bundle, args.mock.as_deref()) {
        _ if args.url.is_some() => "sessions",
        (Some(bundle), _) => bundle.protocol(),
        (None, Some("mcp" | "mock-mcp")) => "mcp",
        (None, Some("acp-v2" | "mock-acp-v2")) => "acp-v2-draft",
        _ => "acp",
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
    if let Some(suite) = suite::built_in(name) {
        return suite.map_err(|mistakes| {
            let message = format!("not a suite: {}", mistakes::places(name, &mistakes));
            Failure::new(exit::INTERNAL, message)
        });
    }
    let is_path = name.contains(std::path::MAIN_SEPARATOR) || name.contains('.');
    if !is_path {
        let failure = Failure::new(exit::USAGE, format!("there is no suite `{name}`"));
        return Err(match closest_of(name, suite::names()) {
            Some(meant) => failure.hint(format!("did you mean `{meant}`?")),
            None => {
                let names: Vec<&str> = suite::names().collect();
                failure.hint(format!(
                    "there are {}; a file ends in .yaml",
                    names.join(", ")
                ))
            }
        });
    }
    let text = read(name)?;
    suite::parse(&text).map_err(|mistakes| misread("suite", name, &mistakes))
}

fn read(name: &str) -> Result<String, Failure> {
    std::fs::read_to_string(name)
        .map_err(|error| Failure::new(exit::NO_INPUT, format!("{name} cannot be read: {error}")))
}

fn read_prompts(
    args: &Certify,
    bundle: Option<&BundleTarget>,
    host: Option<&HostTarget>,
) -> Result<BTreeMap<String, String>, Failure> {
    let Some(path) = &args.prompts else {
        let is_mock = args.mock.is_some()
            || bundle.is_some_and(|b| b.bundle.built_in)
            || host.is_some_and(|host| host.adapter() == USUAL_ADAPTER);
        return Ok(match is_mock {
            true => prompts::of_mock(),
            false if args.mock_llm => prompts::of_mock_model(),
            false => prompts::of_anybody(),
        });
    };
    let name = path.to_string_lossy();
    let text = read(&name)?;
    let given = prompts::parse(&text).map_err(|mistakes| {
        let places = mistakes::places(&name, &mistakes);
        let message = format!("not a prompts file: {places}");
        let keys = prompts::names().join(", ");
        Failure::new(exit::DATA, message).hint(format!("its keys are {keys}"))
    })?;
    // Who names other keys only is still asked for an ordinary turn.
    let mut all = match args.mock_llm && args.llm_script.is_none() {
        true => prompts::of_mock_model(),
        false => prompts::of_anybody(),
    };
    all.retain(|key, _| key == "text");
    all.extend(given);
    Ok(all)
}

fn pairs(list: &[String], wanted: &str) -> Result<Vec<(String, String)>, Failure> {
    let pair = |text: &String| match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(Failure::new(exit::USAGE, wanted)),
    };
    list.iter().map(pair).collect()
}

fn variables(args: &Certify) -> Result<Vec<(String, String)>, Failure> {
    pairs(&args.env, "--env takes NAME=VALUE")
}

/// A bundle as `run` finds it, with the choices that `run` takes.
fn bundle(
    args: &Certify,
    named: &Path,
    workspace: &Workspace,
) -> Result<Arc<BundleTarget>, Failure> {
    let unfound = |fault: Fault| {
        let failure = Failure::new(exit_codes::of(fault.code), fault.message);
        match fault.hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    };
    let home = runtime::home::Home::from_env().map_err(unfound)?;
    let bundle = Bundle::discover(&named.to_string_lossy(), &args.adapters, &home);
    let bundle = bundle.map_err(unfound)?;
    let options = pairs(&args.options, "--option takes ID=VALUE")?;
    let options = options
        .into_iter()
        .map(|(id, text)| (id, Given::Text(text)));
    let choices = Choices {
        wanted: Wanted {
            mode: args.mode.clone(),
            options: options.collect(),
            continuation: None,
        },
        sandboxing: args.sandbox,
        yes: args.yes,
        env: variables(args)?,
        home: Some(home),
        ..Choices::default()
    };
    let target = BundleTarget::new(bundle, choices, workspace.path());
    target.check_choices().map_err(unfound)?;
    Ok(Arc::new(target))
}

fn launcher(args: &Certify, url: Option<&str>) -> Result<(Target, Launcher), Failure> {
    let env = variables(args)?;
    let (kind, name, argv) = match (&args.mock, args.command.as_slice()) {
        (Some(mock), _) => {
            let own = agentproto_sandbox::helper::own_path().map_err(io_failure)?;
            let kind = mock.strip_prefix("mock-").unwrap_or(mock);
            if !["acp", "acp-v2", "mcp"].contains(&kind) {
                return Err(Failure::new(
                    exit::USAGE,
                    format!("there is no mock `{mock}` to certify"),
                )
                .hint("--mock acp, --mock acp-v2 or --mock mcp"));
            }
            let argv = vec![own.into_os_string(), "mock".into(), kind.into()];
            ("mock", format!("mock {kind}"), argv)
        }
        (None, []) => {
            return Err(Failure::new(exit::USAGE, "which agent?").hint(
                "agentproto certify -- my-agent acp, a bundle, or --mock acp to see how it goes",
            ));
        }
        (None, command) => {
            let words = command.iter().map(|word| word.to_string_lossy());
            let words: Vec<_> = words.collect();
            let name = words.join(" ");
            // An agent may want the model's address among its arguments.
            let put = |word: &OsString| match (word.to_str(), url) {
                (Some(text), Some(url)) => text.replace("{model_url}", url).into(),
                _ => word.clone(),
            };
            ("command", name, command.iter().map(put).collect())
        }
    };
    let words = argv.iter().map(|w| w.to_string_lossy().into_owned());
    let target = Target {
        kind: kind.to_owned(),
        name,
        command: match kind {
            "mock" => Vec::new(),
            _ => words.collect(),
        },
        ..Target::default()
    };
    let mut program = Program::new(argv, &env).map_err(|error| match error {
        StartError::NoProgram(name) => {
            Failure::new(exit::UNAVAILABLE, format!("there is no program `{name}`"))
                .hint("the command after `--` is looked for in PATH, or by its path")
        }
        error => Failure::new(exit::UNAVAILABLE, error.to_string()),
    })?;
    // As if it were typed here: relative arguments mean what they say. Sessions have directories
    // of their own all the same.
    if kind == "command" {
        program.cwd = std::env::current_dir().ok();
    }
    Ok((target, Launcher::Program(program)))
}

/// The mock model as the harness asks it.
struct MockModel(Arc<agentproto_mock::llm::Server>);

impl run::Model for MockModel {
    fn asked(&self, tag: &str) -> Value {
        let asked = self.0.log().all().into_iter().filter(|asked| {
            let mut said = asked.messages.iter();
            said.any(|said| said.text.contains(tag))
        });
        let asked = asked.map(|asked| {
            let said = asked.messages.iter();
            let said = said.map(|said| json!({"role": said.role.as_str(), "text": said.text}));
            json!({
                "model": asked.model,
                "messages": said.collect::<Vec<Value>>(),
                "tools": *asked.tools,
                "dropped": asked.dropped,
                "finished": asked.finished,
            })
        });
        Value::Array(asked.collect())
    }
}
