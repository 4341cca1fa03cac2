//! The closed taxonomy of AIP-45: all that a host ever sees of an agent, whatever it speaks.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One event of a turn (A45-EVT-01). A turn ends with exactly one `TurnEnd` or one `Error`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum StreamEvent {
    TextDelta {
        text: String,
    },
    Thought {
        text: String,
    },
    ToolCall {
        id: String,
        name: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kind: Option<String>,
        args: Value,
    },
    ToolResult {
        id: String,
        ok: bool,
        content: Value,
    },
    AgentPrompt {
        id: String,
        message: String,
        options: Vec<Choice>,
    },
    TurnEnd {
        reason: StopReason,
    },
    Error {
        code: String,
        message: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hint: Option<String>,
        #[serde(default, skip_serializing_if = "Value::is_null")]
        details: Value,
    },
}

impl StreamEvent {
    /// Nothing of the turn comes after it.
    pub fn is_last(&self) -> bool {
        matches!(
            self,
            StreamEvent::TurnEnd { .. } | StreamEvent::Error { .. }
        )
    }
}

/// One of the answers that an agent offers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    pub id: String,
    pub label: String,
    /// For permissions: allow_once, allow_always, reject_once, reject_always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
}

/// Why a turn is over, for every protocol arm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    EndTurn,
    MaxTokens,
    MaxTurnRequests,
    Refusal,
    Cancelled,
}
