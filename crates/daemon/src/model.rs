//! A session as the outside sees it (AIP-46, Session data model).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use agentproto_runtime::Choice;

/// Lifecycle phase (A46-STATUS-01 to 09).
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
pub enum Status {
    Starting,
    Running,
    Exited,
    Killed,
    Error,
}

impl Status {
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    pub fn is_alive(self) -> bool {
        matches!(self, Status::Starting | Status::Running)
    }

    /// The edges of the state machine; there are no others (A46-STATUS-09). The seed draws
    /// none for a kill before the agent was ready: it ends as `killed`, too.
    pub fn can_become(self, next: Status) -> bool {
        match self {
            Status::Starting => !matches!(next, Status::Starting | Status::Exited),
            Status::Running => matches!(next, Status::Exited | Status::Killed | Status::Error),
            Status::Exited | Status::Killed | Status::Error => false,
        }
    }
}

/// The host's record of one running or ended agent (A46-MODEL-01 to 11). What stands below
/// `label` is ours; clients that do not know it ignore it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    /// Stable for the session's life; opaque.
    pub id: String,
    /// Slug of the AIP-45 manifest that is wrapped.
    pub adapter_slug: String,
    /// The bound workspace, or `default`.
    pub workspace_slug: String,
    /// Absolute path that the agent runs in.
    pub cwd: String,
    pub status: Status,
    /// ISO-8601 time of the spawn call.
    pub started_at: String,
    /// ISO-8601, once the session is exited, killed or in error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    /// ISO-8601 time of the last output or projected line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_output_at: Option<String>,
    /// The process's exit code, once it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Free text of whoever started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// A turn is going on.
    #[serde(default)]
    pub busy: bool,
    /// Turns begun so far.
    #[serde(default)]
    pub turns: u64,
    /// Why the session ended, where it did not end by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The agent's own id of the session: what a later one resumes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_session_id: Option<String>,
    /// The agent can take this session up again after its end.
    #[serde(default)]
    pub resumable: bool,
    /// The ended session that this one goes on with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumed_from: Option<String>,
    /// What the agent waits for; open until it is answered or the turn ends.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending_permissions: Vec<Permission>,
    /// What was odd about the spawn: an unknown workspace, a missing one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Warning {
    /// Stable.
    pub code: String,
    pub message: String,
}

/// A question of the agent that waits for an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Permission {
    pub id: String,
    pub message: String,
    #[schemars(with = "Vec<Offered>")]
    pub options: Vec<Choice>,
}

/// How `Choice` stands in the API's document.
#[derive(JsonSchema)]
#[allow(dead_code, reason = "only its shape is used")]
struct Offered {
    id: String,
    label: String,
    /// allow_once, allow_always, reject_once or reject_always.
    kind: Option<String>,
}

/// What starts a session (A46-SPAWN-01 to 05). Unknown members are ignored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpawnRequest {
    /// AIP-45 adapter slug.
    pub adapter: String,
    /// Workspace handle; without it the active one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_slug: Option<String>,
    /// Absolute path; wins over `workspaceSlug`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The first prompt: the same as a start followed by a prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// One of the manifest's modes. Ours, as are all below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Values for the manifest's options.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<std::collections::BTreeMap<String, serde_json::Value>>,
    /// An ended session of this host to go on with; its agent has to be resumable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<String>,
}

/// Who asks (A46-SEC-06).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Principal {
    /// The user whose daemon it is: over loopback with the token, or in the same process.
    Local,
    /// Whoever came over the network; bound to registered workspaces.
    Remote,
}

#[cfg(test)]
mod tests {
    use super::*;
    use strum::VariantArray;

    #[test]
    fn ends_are_final_and_there_are_no_other_edges() {
        for from in Status::VARIANTS {
            for to in Status::VARIANTS {
                let wanted = matches!(
                    (from.as_str(), to.as_str()),
                    ("starting", "running" | "killed" | "error")
                        | ("running", "exited" | "killed" | "error")
                );
                assert_eq!(from.can_become(*to), wanted, "{from:?} to {to:?}");
            }
        }
    }
}
