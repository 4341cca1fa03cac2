//! Scenario files: what a mock agent does, in types that every protocol can play.
//!
//! The format is YAML. Its schema is `schemas/scenario.schema.json`. The reader in `read` reports
//! the line and column of every mistake. A test checks that schema and reader agree.

mod names;
mod read;
mod steps;

pub use agentproto_manifest::fields::FieldError;
pub use names::{Embedded, default_of, embedded};
pub use read::parse;
pub(crate) use steps::usual_options;

use serde_json::Value;

/// Maximum prompt length in bytes for regular expressions, because the regex engine backtracks.
const MAX_MATCHED_BYTES: usize = 8192;

/// A parsed scenario.
#[derive(Debug, Default)]
pub struct Scenario {
    /// Name, as used on the command line.
    pub name: String,
    /// What the scenario is for, in one sentence.
    pub description: String,
    pub(crate) agent: AgentInfo,
    pub(crate) capabilities: Capabilities,
    pub(crate) auth: Auth,
    pub(crate) modes: Option<SessionModes>,
    pub(crate) config_options: Vec<ConfigOption>,
    pub(crate) commands: Vec<SlashCommand>,
    pub(crate) process: ProcessBehavior,
    pub(crate) turns: Vec<ScenarioTurn>,
}

#[derive(Debug)]
pub(crate) struct AgentInfo {
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
pub(crate) struct Capabilities {
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
pub(crate) struct Auth {
    /// Whether a session requires an authenticated client.
    pub required: bool,
    pub logout: bool,
    pub methods: Vec<AuthMethod>,
}

#[derive(Debug)]
pub(crate) struct AuthMethod {
    pub id: String,
    pub name: String,
    pub description: Option<String>,
    /// Whether the login runs in a terminal of the client.
    pub terminal: bool,
    pub args: Vec<String>,
    pub env: Vec<(String, String)>,
}

#[derive(Debug)]
pub(crate) struct SessionModes {
    pub current: String,
    pub available: Vec<NamedOption>,
}

/// Id with a display name.
#[derive(Clone, Debug)]
pub(crate) struct NamedOption {
    pub id: String,
    pub name: String,
    pub description: Option<String>,
}

#[derive(Debug)]
pub(crate) struct ConfigOption {
    pub id: String,
    pub name: String,
    pub description: Option<String>,
    pub category: Option<String>,
    pub kind: ConfigKind,
}

#[derive(Debug)]
pub(crate) enum ConfigKind {
    Select {
        current: String,
        options: Vec<NamedOption>,
    },
    Boolean {
        current: bool,
    },
}

#[derive(Debug)]
pub(crate) struct SlashCommand {
    pub name: String,
    pub description: String,
    pub hint: Option<String>,
}

/// Behavior of the process outside the protocol.
#[derive(Debug, Default)]
pub(crate) struct ProcessBehavior {
    pub start_delay_ms: u64,
    pub banner: Option<String>,
    pub stderr: Option<String>,
    pub exit_at_start: Option<u8>,
    pub ignore_sigterm: bool,
    pub ignore_eof: bool,
}

#[derive(Debug)]
pub(crate) struct ScenarioTurn {
    pub when: PromptMatcher,
    pub steps: Vec<ScenarioStep>,
}

#[derive(Debug)]
pub(crate) enum PromptMatcher {
    Any,
    Exact(String),
    Contains(String),
    Regex(Box<regress::Regex>),
}

#[derive(Debug)]
pub(crate) enum ScenarioStep {
    Text(Vec<String>),
    Thought(Vec<String>),
    Echo {
        prefix: String,
        chunks: usize,
    },
    ToolCall(ToolCall),
    ToolUpdate(ToolUpdate),
    Plan(Vec<PlanEntry>),
    Permission(Box<PermissionRequest>),
    FsRead(FsRead),
    FsWrite {
        path: String,
        content: String,
    },
    Terminal(TerminalCommand),
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
    /// Asks a model, and runs the tools that it calls.
    Model,
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
        steps: Vec<ScenarioStep>,
    },
    Misbehavior(Misbehavior),
}

#[derive(Debug)]
pub(crate) struct ToolCall {
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
pub(crate) struct ToolUpdate {
    pub id: String,
    pub status: String,
    pub text: Option<String>,
    pub output: Option<Value>,
}

#[derive(Debug)]
pub(crate) struct PlanEntry {
    pub content: String,
    pub priority: String,
    pub status: String,
}

#[derive(Debug)]
pub(crate) struct PermissionRequest {
    /// Id of the tool call that needs the permission. The tool call is reported before.
    pub id: String,
    pub title: String,
    /// Change of a file that the tool call would make.
    pub diff: Option<FileDiff>,
    pub options: Vec<PermissionOption>,
    pub on_allow: Vec<ScenarioStep>,
    pub on_reject: Vec<ScenarioStep>,
    pub on_error: Vec<ScenarioStep>,
}

#[derive(Clone, Debug)]
pub(crate) struct FileDiff {
    /// Path in the workspace. It is made absolute before it is sent.
    pub path: String,
    pub old: Option<String>,
    pub new: String,
}

#[derive(Clone, Debug)]
pub(crate) struct PermissionOption {
    pub id: String,
    pub name: String,
    pub kind: String,
}

#[derive(Debug)]
pub(crate) struct FsRead {
    pub path: String,
    pub line: Option<u64>,
    pub limit: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct TerminalCommand {
    pub command: String,
    pub args: Vec<String>,
    /// Split each argument at spaces, after its placeholders are filled.
    pub split_args: bool,
    pub env: Vec<(String, String)>,
    pub output_byte_limit: Option<u64>,
    /// Kill the command instead of waiting for its exit.
    pub kill: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Usage {
    pub used: u64,
    pub size: u64,
    pub cost: Option<f64>,
    pub currency: String,
    pub tokens: TokenCounts,
}

/// Tokens of a turn. Counts that are `None` are not reported.
#[derive(Clone, Debug, Default)]
pub(crate) struct TokenCounts {
    pub input: Option<u64>,
    pub output: Option<u64>,
    pub thought: Option<u64>,
    pub cached_read: Option<u64>,
    pub cached_write: Option<u64>,
}

impl TokenCounts {
    /// The reported counts, with the names of a protocol, in the order of the fields.
    pub fn named(&self, names: [&str; 5]) -> serde_json::Map<String, Value> {
        let counts = [
            self.input,
            self.output,
            self.thought,
            self.cached_read,
            self.cached_write,
        ];
        let known = names.into_iter().zip(counts);
        let known = known.filter_map(|(name, count)| Some((name.to_owned(), count?.into())));
        known.collect()
    }

    /// All reported tokens.
    pub fn total(&self) -> u64 {
        let counts = self.named(["input", "output", "thought", "read", "write"]);
        let counts = counts.values().filter_map(Value::as_u64);
        counts.fold(0, u64::saturating_add)
    }
}

#[derive(Debug)]
pub(crate) struct Elicitation {
    pub message: String,
    /// URL to open for the user, instead of a form.
    pub url: Option<String>,
    /// Name and type of each form field.
    pub fields: Vec<(String, String)>,
    pub on_accept: Vec<ScenarioStep>,
    pub on_decline: Vec<ScenarioStep>,
    pub on_cancel: Vec<ScenarioStep>,
}

/// Misbehavior that no real agent should show.
#[derive(Debug)]
pub(crate) enum Misbehavior {
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
pub(crate) type Placeholders = Vec<(String, String)>;

impl Scenario {
    /// Finds the first turn that matches a prompt, with the named groups of its pattern.
    pub(crate) fn turn(&self, prompt: &str) -> Option<(&ScenarioTurn, Placeholders)> {
        self.turns
            .iter()
            .find_map(|turn| Some((turn, turn.when.matches(prompt)?)))
    }
}

impl PromptMatcher {
    fn matches(&self, prompt: &str) -> Option<Placeholders> {
        let matches = match self {
            PromptMatcher::Any => true,
            PromptMatcher::Exact(text) => prompt.trim() == text.trim(),
            PromptMatcher::Contains(text) => prompt.to_lowercase().contains(&text.to_lowercase()),
            PromptMatcher::Regex(_) if prompt.len() > MAX_MATCHED_BYTES => false,
            PromptMatcher::Regex(regex) => {
                let found = regex.find(prompt)?;
                let words = found.named_groups().filter_map(|(name, range)| {
                    let text = prompt.get(range?)?;
                    Some((name.to_owned(), text.to_owned()))
                });
                return Some(words.collect());
            }
        };
        matches.then(Placeholders::new)
    }
}

/// Replaces `{word}` with its value. Unknown words are left unchanged.
pub(crate) fn fill_placeholders(text: &str, words: &Placeholders) -> String {
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
        assert_eq!(fill_placeholders("{a}{b}{a", &words), "1{b}{a");
        assert_eq!(fill_placeholders("{{a}}", &words), "{1}");
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
        assert!(matches!(turn.when, PromptMatcher::Contains(_)));
        let (turn, _) = scenario.turn("show env A B").unwrap();
        assert!(matches!(turn.when, PromptMatcher::Any));
    }
}
