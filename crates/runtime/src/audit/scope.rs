//! What all events of one run have in common: the bundle, the session and the operator.

use serde_json::{Map, Value};

use agentproto_text::redact::SecretRedactor;

/// Fields that are added to every event, as far as they are known.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// The bundle as `id@major` (A29-ID-03).
    pub bundle: Option<String>,
    /// The session's id at its host. Without a host, the agent's own id is used.
    pub host_session: Option<String>,
    /// The agent's own id of the session.
    pub agent_session: Option<String>,
    /// The id of the OPERATOR.md (AIP-9). Without one, the user is the operator.
    pub operator: Option<String>,
}

impl Scope {
    /// Adds the fields to an event.
    pub fn add_to(&self, entry: &mut Map<String, Value>, actor: &str, masks: &SecretRedactor) {
        let mut add = |name: &str, value: &str| {
            entry.insert(name.to_owned(), masks.mask(value).into());
        };
        if let Some(bundle) = &self.bundle {
            add("bundle", bundle);
        }
        let session = self.host_session.as_ref().or(self.agent_session.as_ref());
        if let Some(session) = session {
            add("session", session);
        }
        if let (Some(_), Some(agent)) = (&self.host_session, &self.agent_session) {
            add("agent_session", agent);
        }
        add("operator", self.operator.as_deref().unwrap_or(actor));
    }
}
