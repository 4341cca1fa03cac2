//! The public session record (AIP-46, Session data model).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use agentproto_runtime::arm::permissions::Permissions;
use agentproto_runtime::{Choice, ContextSize, Cost, TokenTotals};

/// Lifecycle phase of a session (A46-STATUS-01 to 09).
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    JsonSchema,
    strum::IntoStaticStr,
    strum::VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
#[schemars(rename = "Status")]
pub enum SessionStatus {
    /// The agent is being started.
    Starting,
    /// The agent is ready or works on a turn.
    Running,
    /// The agent exited on its own.
    Exited,
    /// A client or the host ended the session.
    Killed,
    /// The session could not start, or ended with an error.
    Error,
}

impl SessionStatus {
    /// The status as text, for example `running`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Whether the session is starting or running.
    pub fn is_alive(self) -> bool {
        matches!(self, SessionStatus::Starting | SessionStatus::Running)
    }

    /// Whether the state machine allows this transition (A46-STATUS-09). AIP-46 draws no edge for a
    /// kill before the agent is ready. Such a session also ends as `killed`.
    pub fn can_become(self, next: SessionStatus) -> bool {
        match self {
            SessionStatus::Starting => {
                !matches!(next, SessionStatus::Starting | SessionStatus::Exited)
            }
            SessionStatus::Running => matches!(
                next,
                SessionStatus::Exited | SessionStatus::Killed | SessionStatus::Error
            ),
            SessionStatus::Exited | SessionStatus::Killed | SessionStatus::Error => false,
        }
    }
}

/// The host's record of a running or ended agent (A46-MODEL-01 to 11). Fields after `label` are
/// extensions, which other clients ignore.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Session")]
pub struct SessionRecord {
    /// Opaque id, stable for the session's lifetime.
    pub id: String,
    /// Slug of the wrapped AIP-45 manifest.
    pub adapter_slug: String,
    /// Slug of the workspace, or `default`.
    pub workspace_slug: String,
    /// Absolute path of the agent's working directory.
    pub cwd: String,
    /// Lifecycle phase.
    pub status: SessionStatus,
    /// ISO-8601 time of the spawn call.
    pub started_at: String,
    /// ISO-8601 time at which the session exited, was killed or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    /// ISO-8601 time of the last output or projected line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_output_at: Option<String>,
    /// Exit code of the process, once it has exited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Free text of the client that started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Whether a turn is running.
    #[serde(default)]
    pub busy: bool,
    /// Number of turns started so far.
    #[serde(default)]
    pub turns: u64,
    /// Why the session ended, if it did not exit on its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The agent's own id of the session, which can be resumed later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_session_id: Option<String>,
    /// Whether the agent can resume this session after its end.
    #[serde(default)]
    pub resumable: bool,
    /// The ended session that this one continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumed_from: Option<String>,
    /// Name of the conversation that the session belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<String>,
    /// The continuation strategy that the client chose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continuation: Option<String>,
    /// How permission requests are answered, if not by a client.
    #[serde(default, skip_serializing_if = "PermissionPolicy::is_ask")]
    pub permissions: PermissionPolicy,
    /// Tokens of all turns so far, if the agent reports them.
    #[serde(default, skip_serializing_if = "TokenTotals::is_empty")]
    pub usage: TokenTotals,
    /// Cost of the session so far, if the agent reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// Size of the agent's context after the last turn that reported it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<ContextSize>,
    /// Open questions of the agent. A question is open until it is answered or the turn ends.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending_permissions: Vec<PendingPermission>,
    /// Problems of the spawn that did not prevent it, such as an unknown workspace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
}

/// Who answers the permission requests of a session.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    JsonSchema,
    strum::IntoStaticStr,
    strum::EnumString,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
#[schemars(inline)]
pub enum PermissionPolicy {
    /// A client.
    #[default]
    Ask,
    /// The host allows every request.
    Allow,
    /// The host denies every request.
    Deny,
}

impl PermissionPolicy {
    fn is_ask(&self) -> bool {
        *self == PermissionPolicy::Ask
    }
}

impl From<PermissionPolicy> for Permissions {
    fn from(policy: PermissionPolicy) -> Self {
        match policy {
            PermissionPolicy::Ask => Permissions::Ask,
            PermissionPolicy::Allow => Permissions::Allow,
            PermissionPolicy::Deny => Permissions::Deny,
        }
    }
}

/// A problem that did not prevent the spawn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Warning {
    /// Stable code.
    pub code: String,
    /// What happened.
    pub message: String,
}

/// A question of the agent that waits for an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Permission")]
pub struct PendingPermission {
    /// Identifies the question.
    pub id: String,
    /// The question.
    pub message: String,
    /// The answers to choose from.
    #[schemars(with = "Vec<AnswerOption>")]
    pub options: Vec<Choice>,
    /// JSON Schema of an answer with content. Without it, the answer is one of the options.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<serde_json::Value>,
    /// The tool call that the agent asks permission for: `id`, `name`, `kind`, `input`, `content`
    /// and `locations`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<serde_json::Value>,
}

/// The shape of `Choice` in the API document.
#[derive(JsonSchema)]
#[allow(dead_code, reason = "only its shape is used")]
#[schemars(rename = "Offered")]
struct AnswerOption {
    /// Identifies the answer.
    id: String,
    /// The text to show.
    label: String,
    /// allow_once, allow_always, reject_once or reject_always.
    kind: Option<String>,
}

/// A request to start a session (A46-SPAWN-01 to 05). Unknown members are ignored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpawnRequest {
    /// AIP-45 adapter slug.
    pub adapter: String,
    /// Slug of the workspace to run in. Defaults to the active workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_slug: Option<String>,
    /// Absolute path to run in. Takes precedence over `workspaceSlug`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// First prompt. Has the same effect as a prompt sent after the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// One of the manifest's modes. This and the following fields are extensions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Values for the manifest's options.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<std::collections::BTreeMap<String, serde_json::Value>>,
    /// One of the agent's models, in `models.allowed` if the manifest has that list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// MCP servers to offer to the agent, as in ACP. Their secrets are not stored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mcp_servers: Vec<serde_json::Value>,
    /// Who answers permission requests: `ask` for clients (the default), `allow` or `deny` for the
    /// host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permissions: Option<PermissionPolicy>,
    /// An ended session of this host to continue. Its agent must be resumable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<String>,
    /// One of the manifest's continuation strategies. `none` and `transcript` allow one turn per
    /// session. Without it, the session stays open for further turns (AIP-46).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continuation: Option<String>,
    /// Name of a conversation. A live session of the same conversation is used again. Needs
    /// `pinned-session`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<String>,
    /// The operator that the conversation belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator: Option<String>,
    /// Earlier messages, oldest first, that are put before the first prompt. Needs `transcript`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<HistoryMessage>,
}

/// What an adapter offers to a client that starts it, from its manifest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AdapterDetails {
    /// Values for `mode`.
    pub modes: Vec<AdapterMode>,
    /// The mode that an agent starts in if the request has none: the mode `default`, if there is
    /// one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_mode: Option<String>,
    /// Values for `options`.
    pub options: Vec<AdapterOption>,
    /// Values for `model`.
    pub models: AdapterModels,
}

/// A mode of an adapter.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct AdapterMode {
    /// Value for `mode`.
    pub id: String,
    /// What the mode does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// An option of an adapter.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct AdapterOption {
    /// Name in `options`.
    pub id: String,
    /// boolean, integer, enum or string.
    #[serde(rename = "type")]
    pub kind: String,
    /// The allowed values of an enum.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
    /// The value of a session whose request has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<serde_json::Value>,
    /// Smallest integer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<i64>,
    /// Largest integer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<i64>,
    /// What the option does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// The models of an adapter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct AdapterModels {
    /// The model of a session whose request has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// The allowed models. Missing if every model is allowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<String>,
}

/// An earlier message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryMessage {
    /// Who wrote it.
    pub role: HistoryRole,
    /// The message.
    pub text: String,
}

/// Who wrote a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HistoryRole {
    /// The user.
    User,
    /// The agent.
    Agent,
}

/// Who sends a request (A46-SEC-06).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Principal {
    /// The user who runs the daemon: over loopback with the token, or in the same process.
    Local,
    /// A client on the network. Limited to registered workspaces.
    Remote,
}

#[cfg(test)]
mod tests {
    use super::*;
    use strum::VariantArray;

    #[test]
    fn only_the_specified_transitions_are_allowed() {
        for from in SessionStatus::VARIANTS {
            for to in SessionStatus::VARIANTS {
                let expected = matches!(
                    (from.as_str(), to.as_str()),
                    ("starting", "running" | "killed" | "error")
                        | ("running", "exited" | "killed" | "error")
                );
                assert_eq!(from.can_become(*to), expected, "{from:?} to {to:?}");
            }
        }
    }
}
