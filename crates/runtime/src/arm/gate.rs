//! Checks that tool calls that change something passed the permission policy (A45-SEC-03).
//!
//! An agent asks for permission before such a call. One that does not ask, or that continues after a
//! denial, is noticed when it reports the result. What the call could do was limited by the sandbox.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use super::permissions::PermissionBroker;
use super::tool_calls::CallState;
use crate::audit::Audit;
use crate::error::{Code, Error};
use crate::observe::Observer;
use agentproto_text::truncate;

/// Kinds of tool calls that change something, and so need permission.
const CHANGING: [&str; 4] = ["edit", "delete", "move", "execute"];
/// Maximum number of characters of a tool's name in a message.
const MAX_NAME: usize = 80;

/// The gate of one session.
pub struct ToolGate {
    broker: PermissionBroker,
    observer: Arc<dyn Observer>,
    has_warned: AtomicBool,
}

impl ToolGate {
    pub(crate) fn new(broker: PermissionBroker, observer: Arc<dyn Observer>) -> Arc<Self> {
        Arc::new(ToolGate {
            broker,
            observer,
            has_warned: AtomicBool::new(false),
        })
    }

    /// Checks a call that succeeded. A call that a rule or the user denied is an error. Any other
    /// call without a request for permission is in the audit log, and the first of a session is a
    /// warning.
    pub(super) fn check(&self, audit: &Audit, id: &str, call: &CallState) -> Result<(), Error> {
        let changes = call.kind.as_deref().is_some_and(|k| CHANGING.contains(&k));
        let kind = call.kind.as_deref();
        let was_asked = call.approved.is_some();
        let is_allowed =
            call.approved == Some(true) || !was_asked && self.broker.allows(&call.name, kind);
        if !changes || is_allowed {
            return Ok(());
        }
        let is_denied = was_asked || self.broker.denies(&call.name, kind);
        let details = json!({
            "id": id, "name": call.name, "kind": call.kind, "asked": was_asked, "denied": is_denied,
        });
        audit.record("tool.ungated", details)?;
        let name = truncate(&call.name, MAX_NAME);
        if is_denied {
            let how = match was_asked {
                true => "although it was denied",
                false => "without asking, and a rule denies it",
            };
            let what = format!("the agent ran the tool `{name}` {how}");
            return Err(Error::new(Code::ToolCallDenied, what).hint(
                "the session was ended; check what the tool changed, and configure the agent to ask for permission",
            ));
        }
        if !self.has_warned.swap(true, Ordering::Relaxed) {
            let what = format!(
                "the agent ran the tool `{name}` without asking for permission: only the sandbox limits such calls (AIP-45, Security); `--deny-tool` ends a session that runs a tool"
            );
            self.observer.warning("tool_call_not_asked", &what);
        }
        Ok(())
    }
}
