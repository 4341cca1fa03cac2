//! Records the end of a call whose future was dropped.

use std::sync::Arc;

use serde_json::json;

use super::ToolCommand;
use crate::context::Context;

/// Adds `tool.exit` to the audit log when it is dropped before [`CanceledRecord::disarm`], so that
/// every `tool.invoke` has its end.
pub struct CanceledRecord {
    context: Arc<Context>,
    id: String,
    command: String,
    is_armed: bool,
}

impl CanceledRecord {
    pub fn new(context: &Arc<Context>, id: &str, command: &ToolCommand) -> CanceledRecord {
        CanceledRecord {
            context: Arc::clone(context),
            id: id.to_owned(),
            command: command.title(),
            is_armed: true,
        }
    }

    /// The call has ended, and its end is recorded elsewhere.
    pub fn disarm(mut self) {
        self.is_armed = false;
    }
}

impl Drop for CanceledRecord {
    fn drop(&mut self) {
        if !self.is_armed {
            return;
        }
        let details = json!({
            "id": self.id,
            "command": self.command,
            "meaning": "canceled",
            "ok": false,
        });
        // The caller is gone, so the error is only a warning.
        if let Err(error) = self.context.audit.record("tool.exit", details) {
            self.context
                .observer
                .warning(error.code.as_str(), &error.message);
        }
    }
}
