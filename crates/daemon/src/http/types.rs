//! What the routes take and give, besides sessions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::model::{Session, Status};

#[derive(Debug, Serialize, JsonSchema)]
pub struct Sessions {
    /// Oldest first.
    pub sessions: Vec<Session>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct PromptRequest {
    /// What the agent is told; not empty.
    pub prompt: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Done {
    /// Whether this request changed something: false for a session that had ended before.
    pub ok: bool,
    pub id: String,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Interrupted {
    pub ok: bool,
    pub id: String,
    /// Whether there was a turn to end.
    pub was_busy: bool,
}

/// One of both.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PermissionAnswer {
    /// One of the options that were offered.
    #[serde(default)]
    pub option_id: Option<String>,
    /// True: none of them.
    #[serde(default)]
    pub cancelled: Option<bool>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Events<'a> {
    pub events: Vec<Event<'a>>,
    /// Where the next page begins, as `after`; null at the end of what is there now.
    pub next: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Event<'a> {
    /// Opaque; the same as in the stream.
    pub id: String,
    /// line, status, event, permission or prompt.
    pub event: &'static str,
    /// What the stream has as `data`.
    #[schemars(with = "Value")]
    pub data: &'a serde_json::value::RawValue,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Output {
    pub session_id: String,
    pub status: Status,
    pub lines: Vec<String>,
    /// Older ones of the lines that were asked for are left out: an answer has about 1 MiB. They
    /// are in the event history.
    pub truncated: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ticket {
    /// For `?ticket=` of this session's stream, once.
    pub ticket: String,
    pub expires_in_ms: u64,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Login {
    /// From the link that `serve --open` prints.
    pub code: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Token {
    pub token: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Health {
    pub ok: bool,
    /// `degraded` while the disk takes no more history.
    pub status: &'static str,
    pub version: &'static str,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Adapters {
    /// Slugs that a spawn can name.
    pub adapters: Vec<String>,
}

/// How every refusal looks.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Error")]
pub struct ErrorBody {
    pub error: ErrorFields,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ErrorFields")]
pub struct ErrorFields {
    /// Stable.
    pub code: String,
    pub message: String,
    /// What to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
}
