//! The probe file: what the engine may do with a tool, and how to run its commands for the checks.
//! Its schema is `schemas/aoi-probe.schema.json`; `read` parses it.

pub mod placeholders;
mod read;

use std::path::PathBuf;

use agentproto_manifest::fields::FieldError;
pub use read::{KEYS_BY_MAPPING, parse, template_leftovers};

/// Everything known about the tool before it is started.
#[derive(Clone, Debug, Default)]
pub struct ProbeSpec {
    /// Command line that starts the tool.
    pub tool: Vec<String>,
    /// Options that select machine mode.
    pub machine_args: Vec<String>,
    /// Environment variables of every run. `{world}`, the older name of `{dir}`, is
    /// replaced by the directory of the run.
    pub env: Vec<(String, String)>,
    /// Credentials that discovery must not need.
    pub credentials: Credentials,
    /// Whether real side effects are acceptable.
    pub sandbox: bool,
    /// Programs to run before each probe that changes something, and once before all other probes.
    pub setup: Vec<Vec<String>>,
    /// Position of each line of `setup`.
    pub setup_positions: Vec<ProbePosition>,
    /// Programs to run after each probe that changes something.
    pub teardown: Vec<Vec<String>>,
    /// How to observe the state that commands change.
    pub observe: Option<Observe>,
    /// Commands to probe.
    pub commands: Vec<ProbeCommand>,
    /// Commands of the tool that are left out on purpose.
    pub leave_out: Vec<(String, ProbePosition)>,
    /// How to request a schema version.
    pub schema: SchemaVersions,
    /// Whether a `$id` with a `file:` URL is intended.
    pub local_only_schema: bool,
    /// Directories with caches or logs. Writing there is not a side effect.
    pub caches: Vec<String>,
    /// Directory that relative paths refer to.
    pub base: PathBuf,
    /// Path of the probe file, for reports.
    pub file: Option<PathBuf>,
}

/// A position in the probe file, from 1. Zero without a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProbePosition {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
}

impl ProbePosition {
    /// An error at this position.
    pub fn error(self, message: impl Into<String>) -> FieldError {
        FieldError {
            line: self.line,
            column: self.column,
            message: message.into(),
        }
    }
}

/// Where the tool finds credentials.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    /// Names of environment variables.
    pub env: Vec<String>,
    /// Paths of files.
    pub files: Vec<String>,
}

/// How to observe what a mutation did.
#[derive(Clone, Debug)]
pub enum Observe {
    /// A command of the tool, and the JSON pointer of the id in its events.
    Command {
        /// Arguments of the command.
        args: Vec<String>,
        /// JSON pointer of the id.
        id: String,
    },
    /// The content of a directory.
    Dir(String),
    /// A program of the probe's author. Its output is the state.
    Exec(Vec<String>),
}

/// One command of the probe file.
#[derive(Clone, Debug, Default)]
pub struct ProbeCommand {
    /// Name, as in `capabilities`.
    pub name: String,
    /// Position of its name.
    pub position: ProbePosition,
    /// Line of its entry, from 1. Zero without a file.
    pub line: u32,
    /// Arguments of a run that succeeds and ends.
    pub ok: Vec<String>,
    /// Arguments of a successful run on another resource, if `{uniq}` in `ok` cannot name one.
    pub other: Option<Vec<String>>,
    /// What `ok` and `other` read from stdin, if it is not JSONL.
    pub stdin: Option<String>,
    /// Arguments of further invalid invocations.
    pub malformed: Vec<Vec<String>>,
    /// How the command limits its results.
    pub limit: Option<ResultLimit>,
    /// Arguments of a run that takes long.
    pub slow: Option<Vec<String>>,
    /// Arguments to add, each list with a `{canary}` in place of a secret.
    pub secrets: Vec<Vec<String>>,
    /// Whether the command changes something.
    pub mutating: bool,
    /// Whether the command deletes something.
    pub destructive: bool,
    /// Whether the command runs until it is stopped.
    pub unbounded: bool,
    /// Whether the command fails without credentials.
    pub needs_auth: bool,
    /// Flag for the idempotency key.
    pub idempotency: Option<String>,
    /// Types of the events that report a change.
    pub events: Vec<String>,
    /// JSON pointer of the id in these events.
    pub id: Option<String>,
    /// Flag for a dry run.
    pub dry_run: Option<String>,
    /// Arguments that confirm a destructive command.
    pub confirm: Vec<String>,
    /// Command that creates the resource that this one needs.
    pub target_from: Option<String>,
    /// JSONL that the command reads.
    pub input: Option<JsonlInput>,
    /// Whether the command changes nothing, if the probe file says so. `capabilities` may also say
    /// it.
    pub read_only: Option<bool>,
}

/// How a command limits its results.
#[derive(Clone, Debug)]
pub struct ResultLimit {
    /// Flag that takes the limit.
    pub flag: String,
    /// Number of results of `ok` without a limit.
    pub total: u64,
    /// A limit to test, at most `total`.
    pub page: u64,
    /// Flag that takes a cursor.
    pub cursor_flag: Option<String>,
    /// JSON pointer of the id in a result.
    pub id: String,
    /// Documented number of results without the flag.
    pub default: Option<u64>,
    /// What the limit counts: `events` (default), `lines` or `bytes`.
    pub unit: String,
}

/// JSONL input of a command.
#[derive(Clone, Debug, Default)]
pub struct JsonlInput {
    /// Arguments that make the command read JSONL from stdin.
    pub flag: Vec<String>,
    /// Lines that the command accepts.
    pub good: Vec<String>,
    /// Lines that the command must reject.
    pub bad: Vec<String>,
    /// Arguments that select the fail-fast mode, if the tool has it.
    pub fail_fast: Option<Vec<String>>,
    /// Arguments that select the tolerant mode, if the tool has it.
    pub tolerant: Option<Vec<String>>,
    /// Mode without such arguments.
    pub default: Option<InputMode>,
    /// Whether the command reads the AOI streams of other tools.
    pub upstream: bool,
}

/// How a command handles invalid input lines (§12.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputMode {
    /// The first invalid line ends the command.
    FailFast,
    /// Invalid lines are reported, and processing continues.
    Tolerant,
}

/// How to request a schema version.
#[derive(Clone, Debug, Default)]
pub struct SchemaVersions {
    /// Flag that takes a version.
    pub flag: Option<String>,
    /// Flag that takes a name and a version.
    pub accept_flag: Option<String>,
    /// Supported versions.
    pub ok: Vec<String>,
    /// A version that the tool does not support.
    pub unsupported: Option<String>,
}
