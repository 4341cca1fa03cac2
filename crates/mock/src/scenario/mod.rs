//! What a mock does: a scenario file read into types that any protocol can act out.
//!
//! The text is YAML; `schemas/scenario.schema.json` is its schema, and `read` its reader, which
//! names line and column of every mistake. The two are held together by a test.

mod names;
mod read;
mod steps;

pub use agentproto_manifest::fields::Mistake;
pub use names::{Embedded, default_of, embedded};
pub use read::parse;

use serde_json::Value;

/// Longer prompts are not given to a pattern: its engine may go back over the text.
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

/// What the agent says that it can do; what it does not say, it does not do.
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
    /// MCP servers over HTTP.
    pub mcp_http: bool,
    /// Sessions on one page of `session/list`.
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
    /// A session needs an authenticated client.
    pub required: bool,
    pub logout: bool,
    pub methods: Vec<AuthMethod>,
}

#[derive(Debug)]
pub struct AuthMethod {
    pub id: String,
    pub name: String,
    pub description: Option<String>,
    /// Only for clients that can show a terminal.
    pub terminal: bool,
    pub args: Vec<String>,
    pub env: Vec<(String, String)>,
}

#[derive(Debug)]
pub struct Modes {
    pub current: String,
    pub available: Vec<Named>,
}

/// An id that people see under a name.
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

/// How the process behaves before and beside the protocol.
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
    /// What came before is put in short, for clients that take it.
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
    /// A place in the workspace, made absolute.
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
    /// Id of the tool call that is asked about, announced before.
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
    /// Stop the command instead of waiting for its end.
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
    /// A page to send the user to, instead of a form.
    pub url: Option<String>,
    /// Name and type of each field of the form.
    pub fields: Vec<(String, String)>,
    pub on_accept: Vec<Step>,
    pub on_decline: Vec<Step>,
    pub on_cancel: Vec<Step>,
}

/// What no agent should do.
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

/// Words that a scenario may use in its texts.
pub type Words = Vec<(String, String)>;

impl Scenario {
    /// The first turn that a prompt fits, with the named groups of its pattern.
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

/// Replaces `{word}` by its value; a word that nobody knows stays as it is.
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
    fn the_first_fitting_turn_is_taken() {
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
