//! What a request is refused with: one shape for HTTP, MCP and the command line.

use std::time::Duration;

use serde_json::{Value, json};

use agentproto_runtime::{Code, Fault};

/// `{"error":{"code","message","hint"?,"details"?}}` with its HTTP status.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    pub status: u16,
    /// Stable, lower snake case.
    pub code: &'static str,
    pub message: String,
    pub hint: Option<String>,
    /// Boxed: most errors have none.
    pub details: Box<Value>,
    /// For what time alone puts right: `Retry-After` over HTTP.
    pub retry_after: Option<Duration>,
}

impl ApiError {
    pub fn new(status: u16, code: &'static str, message: impl Into<String>) -> Self {
        ApiError {
            status,
            code,
            message: message.into(),
            hint: None,
            details: Box::default(),
            retry_after: None,
        }
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub fn details(mut self, details: Value) -> Self {
        self.details = Box::new(details);
        self
    }

    /// Refused for so long. Whole seconds, upwards: who waits that long is not too early.
    pub fn retry_after(mut self, wait: Duration) -> Self {
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        let seconds = seconds.max(1);
        self.retry_after = Some(Duration::from_secs(seconds));
        self.details(json!({ "retryAfterSeconds": seconds }))
    }

    pub fn to_json(&self) -> Value {
        let mut error = json!({ "code": self.code, "message": self.message });
        if let Some(hint) = &self.hint {
            error["hint"] = json!(hint);
        }
        if !self.details.is_null() {
            error["details"] = (*self.details).clone();
        }
        json!({ "error": error })
    }

    pub fn unknown_session(id: &str) -> Self {
        // What a caller sends is quoted, but not without bound.
        let id: String = id.chars().take(64).collect();
        ApiError::new(
            404,
            "session_not_found",
            format!("there is no session `{id}`"),
        )
        .hint("GET /sessions lists them; a forgotten session does not come back")
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        ApiError::new(400, "bad_request", message)
    }
}

/// Refusals of the runtime, before a process exists.
impl From<Fault> for ApiError {
    fn from(fault: Fault) -> Self {
        let status = match fault.code {
            Code::TargetUnknown | Code::SessionUnknown => 404,
            Code::ModeUnknown
            | Code::OptionUnknown
            | Code::OptionInvalid
            | Code::ContinuationUnsupported => 400,
            Code::SessionBusy => 409,
            Code::SessionClosed | Code::TurnsSpent => 409,
            Code::StateUnwritable | Code::AuditBroken => 507,
            _ => 422,
        };
        ApiError {
            status,
            code: fault.code.as_str(),
            message: fault.message,
            hint: fault.hint,
            details: fault.details,
            retry_after: None,
        }
    }
}
