//! The words of the command line.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};

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
    /// Report what goes on inside, from this level on, on standard error
    #[cfg(agents)]
    #[arg(
        long,
        global = true,
        value_name = "LEVEL",
        env = "AGENTPROTO_LOG",
        hide_env = true,
        default_value = "warn",
        help_heading = "Global options"
    )]
    pub log: super::agents::log::LogLevel,
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
    Lint(Box<Lint>),
    /// Print the documentation of a rule
    Explain(Explain),
    /// List every rule with its source, level, severity and fix
    Rules(crate::cli::rules::Rules),
    #[cfg(agents)]
    #[command(flatten)]
    Agents(Box<super::agents::Command>),
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
    #[arg(long, value_name = "PROFILE", value_parser = values(Profile::ALL))]
    pub profile: Option<Profile>,
    /// Output format
    #[arg(long, short = 'o', value_name = "FORMAT", alias = "format", default_value_t = Format::Human, value_parser = values(Format::ALL))]
    pub output: Format,
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
    #[arg(long, value_name = "SEVERITY", value_parser = values(Severity::ALL))]
    pub fail_on: Option<Severity>,
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
    #[arg(long, short = 'o', alias = "format", value_enum, default_value_t = Output::Human)]
    pub output: Output,
}

#[derive(Args, Debug)]
pub struct Listing {
    /// Output format
    #[arg(long, short = 'o', alias = "format", value_enum, default_value_t = Output::Human)]
    pub output: Output,
}

#[derive(Args, Debug)]
pub struct Schema {
    /// Which schema [default: our event stream]; `list` names them all
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Output format
    #[arg(long, short = 'o', alias = "format", value_enum, default_value_t = DocumentOutput::Json)]
    pub output: DocumentOutput,
}

#[derive(Args, Debug)]
pub struct InputSchema {
    /// The command, for example `certify`; `list` names those that read something
    #[arg(long, value_name = "COMMAND", default_value = "list")]
    pub command: String,
    /// Output format
    #[arg(long, short = 'o', alias = "format", value_enum, default_value_t = DocumentOutput::Json)]
    pub output: DocumentOutput,
}

/// Values of `--output`, of commands that print a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    Human,
    Json,
    Jsonl,
}

/// Values of `--output`, of commands that print while they work.
#[cfg(agents)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LiveOutput {
    Human,
    Jsonl,
}

/// Values of `--output`, of commands whose result is a JSON document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DocumentOutput {
    Json,
    Jsonl,
}

/// Parses an option that takes these values of an enum, by their names. It is for enums of other
/// crates, which do not know clap; those of the command line derive `ValueEnum`.
pub fn values<'v, V>(values: impl IntoIterator<Item = &'v V>) -> impl TypedValueParser<Value = V>
where
    V: Copy + Into<&'static str> + Send + Sync + 'static,
{
    let values: Vec<(&'static str, V)> = values.into_iter().map(|v| ((*v).into(), *v)).collect();
    let names: Vec<&'static str> = values.iter().map(|(name, _)| *name).collect();
    PossibleValuesParser::new(names).try_map(move |name| {
        let named = values.iter().find(|(known, _)| *known == name);
        named.map(|(_, value)| *value).ok_or("unknown value")
    })
}
