//! Request and response types of the routes, besides sessions.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::ApiError;
use crate::model::{AdapterDetails, SessionRecord};
use agentproto_runtime::arm::permissions::Answer;

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Sessions")]
pub struct SessionList {
    /// All sessions, oldest first, or one page of them.
    pub sessions: Vec<SessionRecord>,
    /// Value of `after` for the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct PromptRequest {
    /// Text for the agent. Must not be empty.
    pub prompt: String,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Done")]
pub struct ActionResult {
    /// Whether this request changed something. False for a session that had already ended.
    pub ok: bool,
    pub id: String,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Interrupted")]
pub struct InterruptResult {
    pub ok: bool,
    pub id: String,
    /// Whether a turn was running.
    pub was_busy: bool,
}

/// The answer to a question. Exactly one field must be set.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PermissionAnswer {
    /// Id of one of the offered options.
    #[serde(default)]
    pub option_id: Option<String>,
    /// Content that matches the question's `schema`.
    #[serde(default)]
    pub content: Option<Value>,
    /// True to cancel the question.
    #[serde(default)]
    pub cancelled: Option<bool>,
}

impl PermissionAnswer {
    /// The answer, if exactly one field is set.
    pub fn into_answer(self) -> Result<Answer, ApiError> {
        match (
            self.option_id,
            self.content,
            self.cancelled.unwrap_or(false),
        ) {
            (Some(option), None, false) => Ok(Answer::Choice(option)),
            (None, Some(content), false) => Ok(Answer::Content(content)),
            (None, None, true) => Ok(Answer::Cancelled),
            _ => Err(ApiError::bad_request(
                "exactly one of `optionId`, `content` and `\"cancelled\": true` is required",
            )
            .hint("the options and the schema are in `pendingPermissions` of the session")),
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Events<'a> {
    pub events: Vec<Event<'a>>,
    /// Value of `after` for the next page, or null at the current end.
    pub next: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Event<'a> {
    /// Opaque id, the same as in the stream.
    pub id: String,
    /// line, status, event, permission or prompt.
    pub event: &'static str,
    /// The same as `data` in the stream.
    #[schemars(with = "Value")]
    pub data: &'a serde_json::value::RawValue,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ticket {
    /// Value for `?ticket=` of this session's stream. Valid once.
    pub ticket: String,
    pub expires_in_ms: u64,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Login {
    /// Code from the link that `serve --open` or `sessions --open` prints.
    pub code: String,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoginCode {
    /// Code for a link to the dashboard: `URL/#code=CODE`. Valid for one login.
    pub code: String,
    pub expires_in_ms: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Token {
    pub token: String,
}

/// The new token is not in the response, because a thief of the old token must not get it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Rotation {
    pub ok: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Health {
    pub ok: bool,
    /// `ok`, or `degraded` while the disk rejects new history.
    pub status: &'static str,
    pub version: &'static str,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Adapters {
    /// Slugs of all adapters that can be spawned.
    pub adapters: Vec<String>,
    /// What each of them offers, by slug. An adapter whose manifest cannot be read is missing.
    pub details: BTreeMap<String, AdapterDetails>,
}

/// A change of a session record.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct SessionChange {
    /// The new label, at most 1024 bytes, or null to remove it.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Option<String>")]
    pub label: Option<Option<String>>,
}

/// Distinguishes null from a missing field.
fn present<'de, D: serde::Deserializer<'de>>(value: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(value).map(Some)
}

/// The body of every error response.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Error")]
pub struct ErrorBody {
    pub error: ErrorFields,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ErrorFields")]
pub struct ErrorFields {
    /// Stable code.
    pub code: String,
    pub message: String,
    /// What the client can do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
}
