//! The arguments of the command line.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::cli::deferred::Deferred;
use crate::cli::machine::page::Page;
use agentproto_lint::render::{Format, Meta};
use agentproto_lint::{Profile, Severity};

const AFTER_HELP: &str = "\
Terms:
  bundle   directory with the manifest of an agent (AGENT-CLI.md) or of a tool (CLI.md)
  adapter  bundle that is started by its name (slug), built in or from $AGENTPROTO_HOME/adapters
           (default ~/.agentproto/adapters)
  host     program that starts agents, such as `agentproto run` or the daemon `agentproto serve`
  AIP      spec of the manifest formats, such as AIP-45 for AGENT-CLI.md
  AOI-CLI  spec for tools that agents call; in their machine mode they print JSON events

Exit codes: 0 clean · 1 findings or failures · 64 usage · 65 invalid input or agentproto.toml
            66 input not found · 69 unavailable · 70 internal error · 73/74 I/O · 75 temporary
            77 not logged in or not allowed · 78 unknown rule in agentproto.toml, or setup
            required · 130/143 interrupted";

#[derive(Parser, Debug)]
#[command(
    name = "agentproto",
    version,
    about = "Lint agent manifests, run the agents they describe, and certify what those agents do",
    after_help = AFTER_HELP
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
    #[command(flatten)]
    pub global: Global,
}

#[derive(Args, Debug, Clone)]
pub struct Global {
    /// When to use colors
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        help_heading = "Global options"
    )]
    pub color: ColorChoice,
    /// Never use colors (same as `--color never`)
    #[arg(long, global = true, help_heading = "Global options")]
    pub no_color: bool,
    /// Print no progress and no notes, only results, warnings and errors
    #[arg(
        short,
        long,
        global = true,
        conflicts_with = "verbose",
        help_heading = "Global options"
    )]
    pub quiet: bool,
    /// Print details: files read, number of suppressed findings, time taken
    #[arg(short, long, global = true, help_heading = "Global options")]
    pub verbose: bool,
    /// Print log messages of this level and above to stderr
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
    /// Read this configuration file [default: the nearest agentproto.toml above the current
    /// directory]
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        conflicts_with = "no_config",
        help_heading = "Global options"
    )]
    pub config: Option<PathBuf>,
    /// Do not read a configuration file
    #[arg(long, global = true, help_heading = "Global options")]
    pub no_config: bool,
    /// Event schema version of `--output jsonl` (only 1 exists)
    #[arg(
        long,
        global = true,
        value_name = "VERSION",
        help_heading = "Global options"
    )]
    pub schema_version: Option<String>,
    /// Fail unless `--output jsonl` uses one of these event schemas (comma-separated)
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
    /// Check manifests: files, directories or stdin
    Lint(Deferred<Lint>),
    /// Explain a rule or a requirement
    Explain(Deferred<Explain>),
    /// List all rules with their source, level, severity and fix
    Rules(Deferred<crate::cli::rules::Rules>),
    #[cfg(agents)]
    #[command(flatten)]
    Agents(Box<super::agents::Command>),
    /// Print the JSON Schema of agentproto's events, or of a manifest format
    Schema(Deferred<Schema>),
    /// Print the JSON Schema of a command's input file
    InputSchema(Deferred<InputSchema>),
    /// Print the capabilities of this binary as JSON
    Capabilities(Deferred<Capabilities>),
    /// Print a completion script for a shell
    Completions(Deferred<crate::cli::completions::Completions>),
    /// Print the manual page
    Man(Deferred<crate::cli::man::Man>),
}

#[derive(Args, Debug)]
pub struct Lint {
    /// Files or directories; `-` reads stdin [default: the current directory]
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Choose the rules: default (all), spec (only those that a spec states), reference
    /// (all; a field that only the reference implementation accepts is a warning, not an error)
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
    /// Check only these rules (a slug, or a prefix with `*`)
    #[arg(long, value_name = "RULE", value_delimiter = ',')]
    pub select: Vec<String>,
    /// Skip these rules
    #[arg(long, value_name = "RULE", value_delimiter = ',')]
    pub ignore: Vec<String>,
    /// Exit with code 1 on findings of this severity or above [default: error]
    #[arg(long, value_name = "SEVERITY", value_parser = values(Severity::ALL))]
    pub fail_on: Option<Severity>,
    /// Ignore findings that are recorded in this file
    #[arg(long, value_name = "FILE", conflicts_with = "write_baseline")]
    pub baseline: Option<PathBuf>,
    /// Record the current findings in this file
    #[arg(long, value_name = "FILE")]
    pub write_baseline: Option<PathBuf>,
    /// Do not use the baseline from agentproto.toml
    #[arg(long, conflicts_with_all = ["baseline", "write_baseline"])]
    pub no_baseline: bool,
    /// Check only manifests that differ from a git revision [default: HEAD]. Write the revision
    /// with `=`: `--changed=main`
    #[arg(long, value_name = "REF", num_args = 0..=1, default_missing_value = "HEAD", require_equals = true)]
    pub changed: Option<String>,
    /// Check only what is staged in git, with the staged contents
    #[arg(long, conflicts_with = "changed")]
    pub staged: bool,
    /// Also apply `exclude` from agentproto.toml to files given on the command line
    #[arg(long)]
    pub force_exclude: bool,
    /// Leave out suppressed findings in json, jsonl, sarif and junit
    #[arg(long)]
    pub hide_suppressed: bool,
    /// Use this name for the manifest on stdin, to detect its format and resolve its references
    #[arg(long, value_name = "NAME")]
    pub stdin_filename: Option<PathBuf>,
    /// Exit with code 0 even if there are findings
    #[arg(long)]
    pub exit_zero: bool,
    #[command(flatten)]
    pub page: Page,
    /// Number of worker threads [default: one per core]
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
}

impl Lint {
    /// The options that choose files and rules, and the paths, as words for a shell.
    pub fn repeated(&self, global: &Global, meta: &Meta) -> String {
        let mut words: Vec<String> = Vec::new();
        let mut option = |name: &str, value: Option<String>| {
            words.extend(value.map(|value| format!("--{name}={value}")));
        };
        let path = |path: &PathBuf| meta.path(path);
        let list = |names: &[String]| (!names.is_empty()).then(|| names.join(","));
        option("config", global.config.as_ref().map(path));
        option(
            "profile",
            self.profile.map(|profile| profile.as_str().to_owned()),
        );
        option("select", list(&self.select));
        option("ignore", list(&self.ignore));
        option(
            "fail-on",
            self.fail_on.map(|severity| severity.as_str().to_owned()),
        );
        option("baseline", self.baseline.as_ref().map(path));
        option("changed", self.changed.clone());
        option("stdin-filename", self.stdin_filename.as_ref().map(path));
        option("limit", self.page.limit.map(|limit| limit.to_string()));
        option("output", Some(self.output.to_string()));
        let flags = [
            (global.no_config, "--no-config"),
            (self.no_baseline, "--no-baseline"),
            (self.staged, "--staged"),
            (self.force_exclude, "--force-exclude"),
        ];
        words.extend(
            flags
                .iter()
                .filter(|(on, _)| *on)
                .map(|(_, name)| (*name).to_owned()),
        );
        let paths = self.paths.iter().map(|named| match path(named) {
            // A path must not become an option.
            dashed if dashed.starts_with('-') && dashed != "-" => format!("./{dashed}"),
            plain => plain,
        });
        words.extend(paths);
        agentproto_text::shell(&words)
    }
}

#[derive(Args, Debug)]
pub struct Explain {
    /// Rule, for example `cont-default-in-supported` or `AOI-03.count`; or requirement, for example
    /// `TR-13` or `A45-CAP-02`
    pub rule: String,
    /// Output format
    #[arg(long, short = 'o', alias = "format", value_enum, default_value_t = Output::Human)]
    pub output: Output,
}

#[derive(Args, Debug)]
pub struct Capabilities {
    /// Output format
    #[arg(long, short = 'o', alias = "format", value_enum, default_value_t = DocumentOutput::Json)]
    pub output: DocumentOutput,
}

#[derive(Args, Debug)]
pub struct Schema {
    /// Print this schema [default: the event stream of agentproto]; `list` prints all names
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Output format
    #[arg(long, short = 'o', alias = "format", value_enum, default_value_t = DocumentOutput::Json)]
    pub output: DocumentOutput,
}

#[derive(Args, Debug)]
pub struct InputSchema {
    /// Command whose input is described, for example `certify`; `list` prints all such commands
    #[arg(long, value_name = "COMMAND", default_value = "list")]
    pub command: String,
    /// Output format
    #[arg(long, short = 'o', alias = "format", value_enum, default_value_t = DocumentOutput::Json)]
    pub output: DocumentOutput,
}

/// Values of `--output` for commands that print a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    Human,
    Json,
    Jsonl,
}

/// Values of `--output` for commands that print while they work.
#[cfg(agents)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LiveOutput {
    Human,
    Jsonl,
}

/// Values of `--output` for commands whose result is a JSON document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DocumentOutput {
    Json,
    Jsonl,
}

/// Parses an option by the names of an enum's values. This is for enums of other crates, which do
/// not depend on clap. Enums of the command line derive `ValueEnum`.
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
