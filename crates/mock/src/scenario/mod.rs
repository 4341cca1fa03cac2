//! Scenario files: what a mock agent does, in types that every protocol can play.
//!
//! The format is YAML. Its schema is `schemas/scenario.schema.json`. The reader in `read` reports
//! the line and column of every mistake. A test checks that schema and reader agree.

mod names;
mod read;
mod steps;

pub use agentproto_manifest::fields::Mistake;
pub use names::{Embedded, default_of, embedded};
pub use read::parse;

use serde_json::Value;

/// Maximum prompt length in bytes for regular expressions, because the regex engine backtracks.
const LONGEST_MATCHED: usize = 8192;

#[derive(Debug, Default)]
pub struct Scenario {
    pub name: String,
    pub description: String,
    pub agent: AgentInfo,
    pub capabilities: Capabilities,
    pub auth: Auth,
    pub modes: Option<Modes>,
    pub config_options: Vec<ConfigOption>,
    pub commands: Vec<Command>,
    pub process: Process,
    pub turns: Vec<Turn>,
}

#[derive(Debug)]
pub struct AgentInfo {
    pub name: String,
    pub title: String,
    pub version: String,
}

impl Default for AgentInfo {
    fn default() -> Self {
        AgentInfo {
            name: "agentproto-mock".to_owned(),
            title: "Mock agent".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

/// Advertised capabilities. The agent rejects methods that it does not advertise.
#[derive(Debug)]
pub struct Capabilities {
    pub load: bool,
    pub resume: bool,
    pub list: bool,
    pub close: bool,
    pub delete: bool,
    pub additional_directories: bool,
    pub image: bool,
    pub audio: bool,
    pub embedded_context: bool,
    /// Supports MCP servers over HTTP.
    pub mcp_http: bool,
    /// Maximum number of sessions on one page of `session/list`.
    pub list_page: usize,
}

impl Default for Capabilities {
    fn default() -> Self {
        Capabilities {
            load: true,
            resume: true,
            list: true,
            close: true,
            delete: true,
            additional_directories: true,
            image: false,
            audio: false,
            embedded_context: true,
            mcp_http: false,
            list_page: 20,
        }
    }
}

#[derive(Debug, Default)]
pub struct Auth {
    /// Whether a session requires an authenticated client.
    pub required: bool,
    pub logout: bool,
    pub methods: Vec<AuthMethod>,
}

#[derive(Debug)]
pub struct AuthMethod {
    pub id: String,
    pub name: String,
    pub description: Option<String>,
    /// Whether the login runs in a terminal of the client.
    pub terminal: bool,
    pub args: Vec<String>,
    pub env: Vec<(String, String)>,
}

#[derive(Debug)]
pub struct Modes {
    pub current: String,
    pub available: Vec<Named>,
}

/// Id with a display name.
#[derive(Clone, Debug)]
pub struct Named {
    pub id: String,
    pub name: String,
    pub description: Option<String>,
}

#[derive(Debug)]
pub struct ConfigOption {
    pub id: String,
    pub name: String,
    pub description: Option<String>,
    pub category: Option<String>,
    pub kind: ConfigKind,
}

#[derive(Debug)]
pub enum ConfigKind {
    Select {
        current: String,
        options: Vec<Named>,
    },
    Boolean {
        current: bool,
    },
}

#[derive(Debug)]
pub struct Command {
    pub name: String,
    pub description: String,
    pub hint: Option<String>,
}

/// Behavior of the process outside the protocol.
#[derive(Debug, Default)]
pub struct Process {
    pub start_delay_ms: u64,
    pub banner: Option<String>,
    pub stderr: Option<String>,
    pub exit_at_start: Option<u8>,
    pub ignore_sigterm: bool,
    pub ignore_eof: bool,
}

#[derive(Debug)]
pub struct Turn {
    pub when: When,
    pub steps: Vec<Step>,
}

#[derive(Debug)]
pub enum When {
    Any,
    Exact(String),
    Contains(String),
    Regex(Box<regress::Regex>),
}

#[derive(Debug)]
pub enum Step {
    Text(Vec<String>),
    Thought(Vec<String>),
    Echo {
        prefix: String,
        chunks: usize,
    },
    ToolCall(ToolCall),
    ToolUpdate(ToolUpdate),
    Plan(Vec<PlanEntry>),
    Permission(Box<Permission>),
    FsRead(FsRead),
    FsWrite {
        path: String,
        content: String,
    },
    Terminal(Terminal),
    Elicitation(Box<Elicitation>),
    DelayMs(u64),
    Env(String),
    Argv,
    Cwd,
    Error {
        code: i64,
        message: String,
    },
    Stop(String),
    Mode(String),
    Title(String),
    Usage(Usage),
    /// Sends a compaction with a summary to clients that support it.
    Compaction(String),
    Notice {
        severity: String,
        title: String,
    },
    Repeat {
        times: u64,
        steps: Vec<Step>,
    },
    Fault(Fault),
}

#[derive(Debug)]
pub struct ToolCall {
    pub id: String,
    pub title: String,
    pub kind: String,
    pub status: String,
    pub input: Option<Value>,
    /// Path in the workspace. It is made absolute before it is sent.
    pub path: Option<String>,
    pub line: Option<u64>,
}

#[derive(Debug)]
pub struct ToolUpdate {
    pub id: String,
    pub status: String,
    pub text: Option<String>,
    pub output: Option<Value>,
}

#[derive(Debug)]
pub struct PlanEntry {
    pub content: String,
    pub priority: String,
    pub status: String,
}

#[derive(Debug)]
pub struct Permission {
    /// Id of the tool call that needs the permission. The tool call is reported before.
    pub id: String,
    pub title: String,
    pub options: Vec<PermissionOption>,
    pub on_allow: Vec<Step>,
    pub on_reject: Vec<Step>,
    pub on_error: Vec<Step>,
}

#[derive(Clone, Debug)]
pub struct PermissionOption {
    pub id: String,
    pub name: String,
    pub kind: String,
}

#[derive(Debug)]
pub struct FsRead {
    pub path: String,
    pub line: Option<u64>,
    pub limit: Option<u64>,
}

#[derive(Debug)]
pub struct Terminal {
    pub command: String,
    pub args: Vec<String>,
    pub env: Vec<(String, String)>,
    pub output_byte_limit: Option<u64>,
    /// Kill the command instead of waiting for its exit.
    pub kill: bool,
}

#[derive(Debug)]
pub struct Usage {
    pub used: u64,
    pub size: u64,
    pub cost: Option<f64>,
    pub currency: String,
}

#[derive(Debug)]
pub struct Elicitation {
    pub message: String,
    /// URL to open for the user, instead of a form.
    pub url: Option<String>,
    /// Name and type of each form field.
    pub fields: Vec<(String, String)>,
    pub on_accept: Vec<Step>,
    pub on_decline: Vec<Step>,
    pub on_cancel: Vec<Step>,
}

/// Misbehavior that no real agent should show.
#[derive(Debug)]
pub enum Fault {
    Exit(u8),
    Signal(i32),
    Garbage(String),
    InvalidUtf8,
    HalfLine,
    FloodEvents(u64),
    FloodBytes(u64),
    HugeLine(u64),
    StderrFlood(u64),
    Hang,
    AnswerTwice,
    IgnoreSigterm,
    Daemon { seconds: u32, hold_output: bool },
}

/// Names and values that replace `{name}` in the texts of a scenario.
pub type Words = Vec<(String, String)>;

impl Scenario {
    /// Finds the first turn that matches a prompt, with the named groups of its pattern.
    pub fn turn(&self, prompt: &str) -> Option<(&Turn, Words)> {
        self.turns
            .iter()
            .find_map(|turn| Some((turn, turn.when.fits(prompt)?)))
    }
}

impl When {
    fn fits(&self, prompt: &str) -> Option<Words> {
        let fits = match self {
            When::Any => true,
            When::Exact(text) => prompt.trim() == text.trim(),
            When::Contains(text) => prompt.to_lowercase().contains(&text.to_lowercase()),
            When::Regex(_) if prompt.len() > LONGEST_MATCHED => false,
            When::Regex(regex) => {
                let found = regex.find(prompt)?;
                let words = found.named_groups().filter_map(|(name, range)| {
                    let text = prompt.get(range?)?;
                    Some((name.to_owned(), text.to_owned()))
                });
                return Some(words.collect());
            }
        };
        fits.then(Words::new)
    }
}

/// Replaces `{word}` with its value. Unknown words are left unchanged.
pub fn fill(text: &str, words: &Words) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        filled.push_str(before);
        let value = after.split_once('}').and_then(|(name, tail)| {
            let (_, value) = words.iter().rev().find(|(known, _)| known == name)?;
            Some((value, tail))
        });
        match value {
            Some((value, tail)) => {
                filled.push_str(value);
                rest = tail;
            }
            None => {
                filled.push('{');
                rest = after;
            }
        }
    }
    filled.push_str(rest);
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_words_are_filled_in() {
        let words = vec![("a".to_owned(), "1".to_owned())];
        assert_eq!(fill("{a}{b}{a", &words), "1{b}{a");
        assert_eq!(fill("{{a}}", &words), "{1}");
    }

    #[test]
    fn the_first_matching_turn_is_used() {
        let text = "scenario: agentproto.scenario/v1\nname: x\nturns:\n\
            - when: {regex: '^show env (?<name>\\w+)$'}\n  steps: [{env: '{name}'}]\n\
            - when: {contains: TOOL}\n  steps: [{text: t}]\n\
            - when: any\n  steps: [{text: other}]\n";
        let scenario = parse(text).unwrap();
        let words = |prompt: &str| scenario.turn(prompt).map(|(_, words)| words);
        assert_eq!(
            words("show env HOME"),
            Some(vec![("name".to_owned(), "HOME".to_owned())])
        );
        let (turn, _) = scenario.turn("use a tool").unwrap();
        assert!(matches!(turn.when, When::Contains(_)));
        let (turn, _) = scenario.turn("show env A B").unwrap();
        assert!(matches!(turn.when, When::Any));
    }
}
