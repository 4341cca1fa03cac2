//! The words of the command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::cli::machine::effects::Keyed;
use crate::cli::machine::page::Page;
use agentproto_lint::render::Format;
use agentproto_lint::{Profile, Severity};

#[derive(Parser, Debug)]
#[command(
    name = "agentproto",
    version,
    about = "Lint agent manifests, run the agents they describe, certify what they do",
    after_help = "Exit codes: 0 clean · 1 findings · 64 usage · 65 malformed data or config · 66 no input · 70 internal fault · 73/74 I/O · 78 configuration"
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
    #[command(flatten)]
    pub global: Global,
}

#[derive(Args, Debug, Clone)]
pub struct Global {
    /// When to colour
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        help_heading = "Global options"
    )]
    pub color: ColorChoice,
    /// Never colour; the same as `--color never`
    #[arg(long, global = true, help_heading = "Global options")]
    pub no_color: bool,
    /// Say less: results only
    #[arg(
        short,
        long,
        global = true,
        conflicts_with = "verbose",
        help_heading = "Global options"
    )]
    pub quiet: bool,
    /// Say more: what was read, what was suppressed, how long it took
    #[arg(short, long, global = true, help_heading = "Global options")]
    pub verbose: bool,
    /// Configuration file (default: the nearest agentproto.toml above the current directory)
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        conflicts_with = "no_config",
        help_heading = "Global options"
    )]
    pub config: Option<PathBuf>,
    /// Read no configuration file
    #[arg(long, global = true, help_heading = "Global options")]
    pub no_config: bool,
    /// Version of the events of `--output jsonl`; there is one, 1
    #[arg(
        long,
        global = true,
        value_name = "VERSION",
        help_heading = "Global options"
    )]
    pub schema_version: Option<String>,
    /// Schemas of events that the caller reads, as NAME@VERSION; one must be ours
    #[arg(
        long,
        global = true,
        value_name = "NAME@VERSION",
        value_delimiter = ',',
        help_heading = "Global options"
    )]
    pub accept_schema: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ColorChoice {
    Auto,
    Always,
    Never,
}

#[derive(Subcommand, Debug)]
pub enum Command {
    /// Judge manifests: files, directories, or standard input
    Lint(Lint),
    /// Print the documentation of a rule
    Explain(Explain),
    /// List every rule with its source, level, severity and fix
    Rules(crate::cli::rules::Rules),
    /// Print what decides each statement of the specs: rules, cases, monitors
    Coverage(Coverage),
    /// Say what this machine can do: what its kernel can enforce, and what is missing
    #[cfg(target_os = "linux")]
    Doctor(crate::cli::doctor::Doctor),
    /// Install the program of a bundle where it is missing, and check its version
    #[cfg(target_os = "linux")]
    Install(crate::cli::install::Install),
    /// Look at a declared sandbox, or run a command in one
    #[cfg(target_os = "linux")]
    Sandbox {
        #[command(subcommand)]
        action: SandboxAction,
    },
    /// Run an agent: one turn, from its manifest to its end
    #[cfg(target_os = "linux")]
    Run(crate::cli::run::Run),
    /// Serve many agents on this host: HTTP, server-sent events, MCP, a dashboard
    #[cfg(target_os = "linux")]
    Serve(crate::cli::serve::Serve),
    /// List the sessions of a running host, watch them, or attach to one
    #[cfg(target_os = "linux")]
    Sessions(crate::cli::sessions::Sessions),
    /// Manage the named directories that sessions run in
    #[cfg(target_os = "linux")]
    Workspace {
        #[command(subcommand)]
        action: crate::cli::workspace::WorkspaceAction,
    },
    /// Do what a bundle needs once before it is ready
    #[cfg(target_os = "linux")]
    Setup(crate::cli::setup::Setup),
    /// Log in to what a bundle needs, and keep its secrets
    #[cfg(target_os = "linux")]
    Auth {
        #[command(subcommand)]
        action: crate::cli::auth::AuthAction,
    },
    /// Look at the audit log
    #[cfg(target_os = "linux")]
    Audit {
        #[command(subcommand)]
        action: crate::cli::audit::AuditAction,
    },
    /// Prove what an agent really does: suites of cases over its raw wire
    #[cfg(target_os = "linux")]
    Certify(Box<crate::cli::certify::Certify>),
    /// Prove what a command-line tool does in machine mode: the 13 checks of AOI-CLI
    #[cfg(target_os = "linux")]
    AoiLint(crate::cli::aoi_lint::AoiLint),
    /// Stand between a client and its agent, and write down every line
    #[cfg(target_os = "linux")]
    Record(crate::cli::record::Record),
    /// Play a recording: as the agent, as the client of a live agent, or before the judge
    #[cfg(target_os = "linux")]
    Replay(crate::cli::replay::Replay),
    /// Say what differs between two recordings
    #[cfg(target_os = "linux")]
    Diff(crate::cli::diff::Diff),
    /// Merge, render and list saved certification reports
    #[cfg(target_os = "linux")]
    Report {
        #[command(subcommand)]
        action: crate::cli::report::ReportAction,
    },
    /// Run a mock agent on stdio, correct or wrong in one way
    #[cfg(unix)]
    Mock(Mock),
    /// Serve agent sessions to an MCP client on standard input and output
    #[cfg(target_os = "linux")]
    Mcp(crate::cli::mcp::Mcp),
    /// Print the JSON Schemas: of our events, or of a manifest format
    Schema(Schema),
    /// Print the JSON Schema of what a command reads
    InputSchema(InputSchema),
    /// Print what this binary can do, as JSON
    Capabilities(Listing),
    /// Print a completion script for a shell
    Completions {
        /// Shell to complete for
        shell: clap_complete::Shell,
    },
    /// Print the manual page
    Man,
}

#[derive(Args, Debug)]
pub struct Lint {
    /// Files or directories; `-` reads standard input [default: the current directory]
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Which statements count: all that is sensible, the specs' text alone, or the specs
    /// with the reference implementation's own fields as warnings
    #[arg(long, value_name = "PROFILE", value_parser = ["default", "spec", "reference"])]
    pub profile: Option<String>,
    /// Output format
    #[arg(long, short = 'o', value_name = "FORMAT", alias = "format", default_value = "human", value_parser = ["human", "concise", "json", "jsonl", "sarif", "github", "gitlab", "junit", "agent"])]
    pub output: String,
    /// Apply safe fixes
    #[arg(long)]
    pub fix: bool,
    /// Apply safe and unsafe fixes
    #[arg(long)]
    pub unsafe_fixes: bool,
    /// Show what the fixes would change, and change nothing
    #[arg(long)]
    pub diff: bool,
    /// Only these rules (a slug, or a prefix with `*`)
    #[arg(long, value_name = "RULE", value_delimiter = ',')]
    pub select: Vec<String>,
    /// Not these rules
    #[arg(long, value_name = "RULE", value_delimiter = ',')]
    pub ignore: Vec<String>,
    /// Exit 1 from this severity on [default: error]
    #[arg(long, value_name = "SEVERITY", value_parser = ["error", "warning", "info"])]
    pub fail_on: Option<String>,
    /// Findings recorded in this file do not count
    #[arg(long, value_name = "FILE", conflicts_with = "write_baseline")]
    pub baseline: Option<PathBuf>,
    /// Record the present findings in this file
    #[arg(long, value_name = "FILE")]
    pub write_baseline: Option<PathBuf>,
    /// Use no baseline, whatever the configuration says
    #[arg(long, conflicts_with_all = ["baseline", "write_baseline"])]
    pub no_baseline: bool,
    /// Only manifests that differ from a git revision [default: HEAD]
    #[arg(long, value_name = "REF", num_args = 0..=1, default_missing_value = "HEAD", require_equals = true)]
    pub changed: Option<String>,
    /// Only what is staged in git, as staged
    #[arg(long, conflicts_with = "changed")]
    pub staged: bool,
    /// Apply the configuration's `exclude` to files named here, too
    #[arg(long)]
    pub force_exclude: bool,
    /// Leave findings that an ignore or the baseline covers out of the output
    #[arg(long)]
    pub hide_suppressed: bool,
    /// Name of the manifest on standard input, for its doctype and references
    #[arg(long, value_name = "NAME")]
    pub stdin_filename: Option<PathBuf>,
    /// Exit 0 even with findings
    #[arg(long)]
    pub exit_zero: bool,
    #[command(flatten)]
    pub page: Page,
    /// Worker threads [default: one per core]
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
}

#[derive(Args, Debug)]
pub struct Explain {
    /// Rule, for example `cont-default-in-supported` or `AOI-03.count`; or a statement of a suite
    /// or of the register, for example `TR-13` or `A45-CAP-02`
    pub rule: String,
    /// Output format
    #[arg(long, short = 'o', alias = "format", default_value = "human", value_parser = ["human", "json", "jsonl"])]
    pub output: String,
}

#[derive(Args, Debug)]
pub struct Listing {
    /// Output format
    #[arg(long, short = 'o', alias = "format", default_value = "human", value_parser = ["human", "json", "jsonl"])]
    pub output: String,
}

#[derive(Args, Debug)]
pub struct Coverage {
    /// Only statements of this text or suite, for example `AIP-45` or `acp`
    #[arg(long, value_name = "SPEC")]
    pub spec: Option<String>,
    /// Only statements that nothing decides yet
    #[arg(long)]
    pub gaps: bool,
    #[command(flatten)]
    pub page: Page,
    /// Output format
    #[arg(long, short = 'o', alias = "format", default_value = "human", value_parser = ["human", "json", "jsonl"])]
    pub output: String,
}

#[derive(Subcommand, Debug)]
pub enum SandboxAction {
    /// Show what enforces each clause on this machine, or why nothing does
    Explain(SandboxExplain),
    /// Run any command under the sandbox of a manifest
    Run(SandboxRun),
}

#[derive(Args, Debug)]
pub struct SandboxExplain {
    /// A bundle, CLI.md, AGENT-CLI.md, SANDBOX.md, TOOL.md, or a YAML file with the block
    pub target: PathBuf,
    /// Working directory of the session [default: the current directory]
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// Who confines [default: the first that this machine can]
    #[arg(long, value_name = "NAME", value_parser = ["native", "bubblewrap"])]
    pub backend: Option<String>,
    /// Output format
    #[arg(long, short = 'o', alias = "format", default_value = "human", value_parser = ["human", "json", "jsonl"])]
    pub output: String,
}

#[derive(Args, Debug)]
pub struct SandboxRun {
    /// A bundle, CLI.md, AGENT-CLI.md, SANDBOX.md, TOOL.md, or a YAML file with the block
    pub policy: PathBuf,
    /// Working directory of the command [default: the current directory]
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// Who confines [default: the first that this machine can]
    #[arg(long, value_name = "NAME", value_parser = ["native", "bubblewrap"])]
    pub backend: Option<String>,
    /// Kill the command after so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub timeout: Option<f64>,
    /// Append every decision of the egress proxy to this file, one JSON object per line
    #[arg(long, value_name = "FILE")]
    pub audit: Option<PathBuf>,
    #[command(flatten)]
    pub keyed: Keyed,
    /// Output format: the command's own streams, or events
    #[arg(long, short = 'o', alias = "format", default_value = "human", value_parser = ["human", "jsonl"])]
    pub output: String,
    /// The command and its arguments, after `--`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<std::ffi::OsString>,
}

pub fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && value > 0.0 && value < 1e9 => Ok(value),
        _ => Err("a number of seconds above 0".to_owned()),
    }
}

#[cfg(unix)]
#[derive(Args, Debug)]
pub struct Mock {
    /// Which protocol it speaks; `llm` is the model behind an agent, on a loopback address
    #[arg(value_parser = ["acp", "acp-v2", "mcp", "repl", "llm", "aoi"], required_unless_present = "list")]
    pub kind: Option<String>,
    /// What it does: a name of `--list`, or a YAML file [default: default]
    #[arg(long, value_name = "FILE|NAME")]
    pub scenario: Option<String>,
    /// The one thing that is wrong
    #[arg(long, value_name = "ID")]
    pub mutant: Option<String>,
    /// Another look, as correct as the usual one
    #[arg(long, value_name = "NAME")]
    pub variant: Option<String>,
    /// Directory in which sessions outlive the process [default: $MOCK_STATE_DIR, or none]
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    #[command(flatten)]
    pub model: crate::cli::model::Model,
    /// List scenarios, variants and mutants
    #[arg(long)]
    pub list: bool,
    #[command(flatten)]
    pub page: Page,
    /// With `aoi`: judge the judge, as `aoi-lint --selftest` does
    #[arg(long, conflicts_with_all = ["list", "mutant", "variant", "state", "scenario"])]
    pub selftest: bool,
    /// With --selftest: of a mutant its own check, everything only where that finds nothing
    #[arg(long, requires = "selftest")]
    pub quick: bool,
    /// With --selftest: only this mutant or variant; several with commas
    #[arg(long, value_name = "ID", value_delimiter = ',', requires = "selftest")]
    pub only: Vec<String>,
    /// Output format of the list, and of the selftest
    #[arg(long, short = 'o', alias = "format", default_value = "human", value_parser = ["human", "json", "jsonl"])]
    pub output: String,
    /// Arguments of the agent itself, which the scenario can show
    #[arg(last = true, value_name = "ARG")]
    pub args: Vec<std::ffi::OsString>,
}

#[cfg(unix)]
impl Mock {
    /// It speaks its own protocol.
    pub fn is_agent(&self) -> bool {
        let speaks = matches!(self.kind.as_deref(), Some(kind) if !["llm", "aoi"].contains(&kind));
        speaks && !self.list
    }
}

#[derive(Args, Debug)]
pub struct Schema {
    /// Which schema [default: our event stream]; `list` names them all
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Output format
    #[arg(long, short = 'o', alias = "format", default_value = "json", value_parser = ["json", "jsonl"])]
    pub output: String,
}

#[derive(Args, Debug)]
pub struct InputSchema {
    /// The command, for example `certify`; `list` names those that read something
    #[arg(long, value_name = "COMMAND", default_value = "list")]
    pub command: String,
    /// Output format
    #[arg(long, short = 'o', alias = "format", default_value = "json", value_parser = ["json", "jsonl"])]
    pub output: String,
}

pub fn profile(name: &str) -> Option<Profile> {
    [Profile::Default, Profile::Spec, Profile::Reference]
        .into_iter()
        .find(|p| p.as_str() == name)
}

pub fn severity(name: &str) -> Option<Severity> {
    [Severity::Error, Severity::Warning, Severity::Info]
        .into_iter()
        .find(|s| s.as_str() == name)
}

pub fn format(name: &str) -> Format {
    name.parse().unwrap_or(Format::Human)
}
