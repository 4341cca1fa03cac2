//! Model scripts: rules for the replies of the mock model, tried in order.
//!
//! The format is YAML. Its schema is `schemas/model-script.schema.json`, and `read` is its reader.

use regress::Regex;
use serde_json::Value;

use super::request::ModelRequest;

/// Maximum text length in bytes for regular expressions, because the regex engine backtracks.
const MAX_MATCHED_BYTES: usize = 8192;

/// A parsed model script.
#[derive(Debug, Default)]
pub struct Script {
    /// Name of the script.
    pub name: String,
    /// What the script is for, in one sentence.
    pub description: String,
    /// Rules for replies, in the order in which they are tried.
    pub rules: Vec<ScriptRule>,
}

#[derive(Debug)]
pub struct ScriptRule {
    pub when: RuleCondition,
    /// Maximum number of uses before the rule is skipped.
    pub times: Option<u32>,
    pub reply: Vec<ReplyStep>,
}

#[derive(Debug)]
pub struct RuleCondition {
    pub text: TextCondition,
    /// Whether the rule applies after a tool result, instead of after a new prompt.
    pub tool_result: bool,
}

#[derive(Debug)]
pub enum TextCondition {
    Any,
    Contains(String),
    Regex(Box<Regex>),
}

#[derive(Debug)]
pub enum ReplyStep {
    Text(Chunks),
    Thought(Chunks),
    /// One tool call, with the first candidate that the request offers.
    Call(Vec<Candidate>),
    Usage {
        input: u64,
        output: u64,
    },
    Stop(StopReason),
    Error(ModelError),
    DelayMs(u64),
    Break(Breakage),
}

/// How a reply breaks off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Breakage {
    /// Nothing more is sent, and the connection stays open.
    Hang,
    /// The connection is closed in the middle of the reply.
    Cut,
    /// This text is sent instead of the rest of the reply, and the reply ends.
    Garbage(String),
}

#[derive(Debug)]
pub struct Chunks {
    pub chunks: Vec<String>,
    pub every_ms: u64,
    pub repeat: u32,
}

#[derive(Debug)]
pub struct Candidate {
    pub names: Vec<Name>,
    pub args: Value,
}

#[derive(Debug)]
pub enum Name {
    Exact(String),
    Pattern(Box<Regex>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    EndTurn,
    MaxTokens,
    RpcError,
}

impl StopReason {
    pub const ALL: [(&str, StopReason); 3] = [
        ("end_turn", StopReason::EndTurn),
        ("max_tokens", StopReason::MaxTokens),
        ("refusal", StopReason::RpcError),
    ];
}

/// Error of the model, as the client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelError {
    pub status: u16,
    pub message: String,
}

const CERTIFY: &str = agentproto_mock_agents::CERTIFY_MODEL;

impl Script {
    /// The built-in script, which has replies to the prompts of a certification.
    pub fn certify() -> Script {
        super::read::parse(CERTIFY).unwrap_or_default()
    }

    /// Text of the built-in script.
    pub fn certify_text() -> &'static str {
        CERTIFY
    }

    /// Finds the rule for a request. The latest user text that matches a rule decides. If none
    /// matches, the first rule for any text is used. `used` is the number of uses of each rule.
    pub fn rule(&self, request: &ModelRequest, used: &[u32]) -> Option<usize> {
        let after_tool = request.after_tool();
        let open = |index: usize, rule: &ScriptRule| {
            let spent = used.get(index).copied().unwrap_or(0);
            rule.when.tool_result == after_tool && rule.times.is_none_or(|most| spent < most)
        };
        let rules = || {
            let all = self.rules.iter().enumerate();
            all.filter(|(index, rule)| open(*index, rule))
        };
        let named = request.prompt_texts().find_map(|text| {
            let mut rules = rules();
            rules.find(|(_, rule)| rule.when.text.names(text))
        });
        let any = || rules().find(|(_, rule)| matches!(rule.when.text, TextCondition::Any));
        named.or_else(any).map(|(index, _)| index)
    }
}

impl TextCondition {
    /// The text that `contains` looks for. Other conditions have none.
    pub fn wanted(&self) -> &str {
        match self {
            TextCondition::Contains(part) => part,
            TextCondition::Any | TextCondition::Regex(_) => "",
        }
    }

    /// Whether the condition matches this text explicitly. `any` does not.
    fn names(&self, text: &str) -> bool {
        match self {
            TextCondition::Any => false,
            TextCondition::Contains(part) => text.to_lowercase().contains(&part.to_lowercase()),
            TextCondition::Regex(_) if text.len() > MAX_MATCHED_BYTES => false,
            TextCondition::Regex(regex) => regex.find(text).is_some(),
        }
    }
}

impl Name {
    pub fn matches(&self, tool: &str) -> bool {
        match self {
            Name::Exact(name) => name == tool,
            Name::Pattern(_) if tool.len() > MAX_MATCHED_BYTES => false,
            Name::Pattern(regex) => regex.find(tool).is_some(),
        }
    }
}
