//! The probe file: what the engine may do with a tool, and how to make its commands do what the
//! checks are about. `schemas/aoi-probe.schema.json` is its schema, `read` its reader.

pub mod braces;
mod read;

use std::path::PathBuf;

use agentproto_manifest::fields::Mistake;
pub use read::{KNOWN, parse, unfinished};

/// Everything that is known of the target before it is started.
#[derive(Clone, Debug, Default)]
pub struct Probe {
    /// The words that start the tool.
    pub tool: Vec<String>,
    /// What puts it into machine mode.
    pub machine_args: Vec<String>,
    /// Set for every run; `{world}` stands for the directory of the run.
    pub env: Vec<(String, String)>,
    pub credentials: Credentials,
    /// Real side effects are accepted.
    pub sandbox: bool,
    /// Before and after each probe that changes something, and the former once for all others.
    pub setup: Vec<Vec<String>>,
    /// Where each line of `setup` stands.
    pub setup_at: Vec<Place>,
    pub teardown: Vec<Vec<String>>,
    pub observe: Option<Observe>,
    pub commands: Vec<Command>,
    /// Commands that the tool has and that are not to be looked at.
    pub leave_out: Vec<(String, Place)>,
    pub schema: SchemaVersions,
    /// A `$id` with `file:` is what its author wants.
    pub local_only_schema: bool,
    /// Directories that are caches or logs: writing there is no side effect.
    pub caches: Vec<String>,
    /// Where relative paths in it begin.
    pub base: PathBuf,
    /// The file itself, and lines in it, for reports.
    pub file: Option<PathBuf>,
}

/// A place in the probe file, from 1; 0 where there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    pub line: u32,
    pub column: u32,
}

impl Place {
    pub fn mistake(self, message: impl Into<String>) -> Mistake {
        Mistake {
            line: self.line,
            column: self.column,
            message: message.into(),
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Credentials {
    pub env: Vec<String>,
    pub files: Vec<String>,
}

/// How to see what a mutation did.
#[derive(Clone, Debug)]
pub enum Observe {
    /// A command of the tool, and where the id stands in its events.
    Command { args: Vec<String>, id: String },
    /// What is in a directory.
    Dir(String),
    /// A program of the author's; what it prints is the state.
    Exec(Vec<String>),
}

#[derive(Clone, Debug, Default)]
pub struct Command {
    pub name: String,
    /// Where its name stands.
    pub place: Place,
    /// Line of the probe file, from 1; 0 where there is none.
    pub line: u32,
    /// A finite success.
    pub ok: Vec<String>,
    /// Another one, about another resource, where no `{uniq}` in `ok` can name it.
    pub other: Option<Vec<String>>,
    /// What `ok` and `other` read, where it is no JSONL.
    pub stdin: Option<String>,
    pub malformed: Vec<Vec<String>>,
    pub limit: Option<Limit>,
    /// A run that takes its time.
    pub slow: Option<Vec<String>>,
    /// Words to add, each with a `{canary}`.
    pub secrets: Vec<Vec<String>>,
    pub mutating: bool,
    pub destructive: bool,
    pub unbounded: bool,
    pub needs_auth: bool,
    pub idempotency: Option<String>,
    /// Types of the events that tell what was changed, and where the id stands in them.
    pub events: Vec<String>,
    pub id: Option<String>,
    pub dry_run: Option<String>,
    pub confirm: Vec<String>,
    /// The command that makes what this one needs.
    pub target_from: Option<String>,
    pub input: Option<Input>,
    /// Said by the author; `capabilities` may say it, too.
    pub read_only: Option<bool>,
}

#[derive(Clone, Debug)]
pub struct Limit {
    pub flag: String,
    pub total: u64,
    pub page: u64,
    pub cursor_flag: Option<String>,
    pub id: String,
    /// How many come where no limit is given, as the tool documents it.
    pub default: Option<u64>,
    /// What the limit counts; `events` where it is not said.
    pub unit: String,
}

#[derive(Clone, Debug, Default)]
pub struct Input {
    pub flag: Vec<String>,
    pub good: Vec<String>,
    pub bad: Vec<String>,
    /// Words for each mode, where the tool has it.
    pub fail_fast: Option<Vec<String>>,
    pub tolerant: Option<Vec<String>>,
    /// Which one it is without words.
    pub default: Option<Mode>,
    /// It reads AOI streams of others.
    pub upstream: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    FailFast,
    Tolerant,
}

#[derive(Clone, Debug, Default)]
pub struct SchemaVersions {
    pub flag: Option<String>,
    pub accept_flag: Option<String>,
    pub ok: Vec<String>,
    pub unsupported: Option<String>,
}
