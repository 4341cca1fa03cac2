//! Errors of requests, in one shape for HTTP, MCP and the command line.

use std::time::Duration;

use serde_json::{Value, json};

use agentproto_runtime::{Code, Error};

/// An error response: `{"error":{"code","message","hint"?,"details"?}}` with its HTTP status.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// HTTP status.
    pub status: u16,
    /// Stable code in lower snake case.
    pub code: &'static str,
    /// What happened.
    pub message: String,
    /// What the client can do about it.
    pub hint: Option<String>,
    /// Data for programs. Boxed, because most errors have none.
    pub details: Box<Value>,
    /// How long to wait before retrying, if only time helps. Sent as `Retry-After` over HTTP.
    pub retry_after: Option<Duration>,
}

impl ApiError {
    /// Creates an error without hint and details.
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

    /// Adds a hint.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds data for programs.
    pub fn details(mut self, details: Value) -> Self {
        self.details = Box::new(details);
        self
    }

    /// Sets how long to wait before retrying, rounded up to whole seconds.
    pub fn retry_after(mut self, wait: Duration) -> Self {
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        let seconds = seconds.max(1);
        self.retry_after = Some(Duration::from_secs(seconds));
        self.details(json!({ "retryAfterSeconds": seconds }))
    }

    /// The JSON body of the response.
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

    /// The error `session_not_found`.
    pub fn unknown_session(id: &str) -> Self {
        // The id comes from the client, so its quoted length is limited.
        let id: String = id.chars().take(64).collect();
        ApiError::new(404, "session_not_found", format!("unknown session `{id}`"))
            .hint("GET /sessions lists all sessions; a forgotten session cannot be restored")
    }

    /// The error `bad_request`.
    pub fn bad_request(message: impl Into<String>) -> Self {
        ApiError::new(400, "bad_request", message)
    }
}

/// Converts errors of the runtime from before a process exists.
impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        let status = match error.code {
            Code::TargetUnknown | Code::SessionUnknown | Code::QuestionUnknown => 404,
            Code::ModeUnknown
            | Code::OptionUnknown
            | Code::OptionInvalid
            | Code::ModelUnknown
            | Code::McpServerInvalid
            | Code::AnswerInvalid
            | Code::ContinuationUnsupported
            | Code::CommandUnknown
            | Code::InputInvalid => 400,
            Code::SessionBusy | Code::TargetAmbiguous => 409,
            Code::SessionClosed | Code::TurnsSpent => 409,
            Code::StateUnwritable | Code::AuditBroken => 507,
            _ => 422,
        };
        ApiError {
            status,
            code: error.code.as_str(),
            message: error.message,
            hint: error.hint,
            details: error.details,
            retry_after: None,
        }
    }
}
