//! Events of a turn: the closed taxonomy of AIP-45. Hosts see nothing else of an agent, whichever
//! protocol it speaks.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::plan::PlanEntry;
use crate::usage::{ContextSize, Cost};

/// One event of a turn (A45-EVT-01). A turn ends with exactly one `TurnEnd` or one `Error`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum StreamEvent {
    /// A piece of the agent's answer.
    TextDelta {
        /// The text to append.
        text: String,
    },
    /// A piece of the agent's reasoning.
    Thought {
        /// The text to append.
        text: String,
        /// The agent's plan, if this is one. The text then is its checklist.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        plan: Option<Vec<PlanEntry>>,
    },
    /// The agent calls a tool.
    ToolCall {
        /// Identifies the call within the session.
        id: String,
        /// The tool's name or title.
        name: String,
        /// The protocol's category of the tool, such as `read` or `execute`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kind: Option<String>,
        /// The tool's input.
        args: Value,
    },
    /// A tool call ended.
    ToolResult {
        /// The id of the call.
        id: String,
        /// Whether the tool succeeded.
        ok: bool,
        /// The tool's output.
        content: Value,
    },
    /// The agent asks the user a question.
    AgentPrompt {
        /// Identifies the question, for the answer.
        id: String,
        /// The question.
        message: String,
        /// The answers to choose from.
        options: Vec<Choice>,
        /// JSON Schema of an answer with content. Without it, the answer is one of the options.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        schema: Option<Value>,
        /// The tool call that the agent asks permission for: `id`, `name`, `kind`, `input`, `content`
        /// (with the changes of files) and `locations`, as far as the agent names them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool: Option<Value>,
        /// The decision of a rule or policy: `allow` or `deny`. Without it, the user is asked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        decision: Option<String>,
    },
    /// The turn ended normally.
    TurnEnd {
        /// Why it ended.
        reason: StopReason,
        /// Tokens of the turn, as the agent reports them (OD-30). The known counts have the names
        /// of ACP.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Value>,
        /// Cost of the session so far.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost: Option<Cost>,
        /// Size of the context after the turn.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        context: Option<ContextSize>,
    },
    /// The turn ended with an error.
    Error {
        /// A stable error code (`Code::as_str`).
        code: String,
        /// What happened.
        message: String,
        /// What the user can do about it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hint: Option<String>,
        /// Data for programs.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        details: Value,
    },
}

impl StreamEvent {
    /// The normal end of a turn whose agent reports no usage.
    pub fn turn_end(reason: StopReason) -> StreamEvent {
        StreamEvent::TurnEnd {
            reason,
            usage: None,
            cost: None,
            context: None,
        }
    }

    /// Whether this is the last event of its turn.
    pub fn is_last(&self) -> bool {
        matches!(
            self,
            StreamEvent::TurnEnd { .. } | StreamEvent::Error { .. }
        )
    }
}

/// One of the answers that an agent offers for a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// Identifies the answer.
    pub id: String,
    /// The text to show.
    pub label: String,
    /// The effect of a permission: allow_once, allow_always, reject_once or reject_always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
}

/// Why a turn ended, for every protocol arm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The agent finished its answer.
    EndTurn,
    /// The model's token limit was reached.
    MaxTokens,
    /// The limit on model requests per turn was reached.
    MaxTurnRequests,
    /// The agent or its model refused.
    Refusal,
    /// The client canceled the turn.
    Cancelled,
}
