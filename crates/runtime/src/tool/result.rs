//! The result of a call.

use std::time::Duration;

use base64::Engine;
use serde_json::{Value, json};

use super::output::{Format, Kept};
use crate::error::Error;

/// Name of the result's JSON format.
pub const SCHEMA: &str = "agentproto.call/v1";

/// A problem that does not make the call fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallWarning {
    /// Stable code.
    pub code: &'static str,
    /// What is wrong.
    pub message: String,
}

/// The bundle that was called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallTarget {
    /// `id` of the CLI.md.
    pub id: String,
    /// `version` of the CLI.md.
    pub version: String,
    /// Path of the CLI.md.
    pub path: String,
}

/// What a tool did. All texts are without secrets.
#[derive(Debug)]
pub struct CallResult {
    /// Random id, which the audit log also contains.
    pub id: String,
    /// The bundle.
    pub target: CallTarget,
    /// The command, for example `pr list`.
    pub command: String,
    /// Exit code. 124 if the time limit was exceeded, and 128 plus the number of a signal.
    pub exit_code: i32,
    /// Meaning of the exit code: declared, reserved, or `error`.
    pub meaning: String,
    /// Format of the output.
    pub format: Format,
    /// The output as a value, for JSON and YAML.
    pub value: Option<Value>,
    /// The output as it is, at most [`super::CallOptions::keep`] bytes.
    pub output: Kept,
    /// The start of stderr.
    pub stderr: String,
    /// Problems that did not make the call fail.
    pub warnings: Vec<CallWarning>,
    /// Run time of the tool.
    pub duration: Duration,
    /// Why the call failed, if it did.
    pub error: Option<Error>,
    /// Whether the receiver of the output is gone, so that the tool was killed.
    pub is_abandoned: bool,
}

impl CallResult {
    /// Whether the call succeeded.
    pub fn is_ok(&self) -> bool {
        self.error.is_none()
    }

    /// The output as text, or `None` if it is binary.
    pub fn text(&self) -> Option<String> {
        (self.format != Format::Binary).then(|| self.output.text())
    }

    /// The result in the format [`SCHEMA`].
    pub fn json(&self) -> Value {
        let warnings = self.warnings.iter();
        let warnings = warnings.map(|w| json!({ "code": w.code, "message": w.message }));
        let format: &str = self.format.into();
        let mut result = json!({
            "schema": SCHEMA,
            "id": self.id,
            "target": {
                "id": self.target.id,
                "version": self.target.version,
                "path": self.target.path,
            },
            "command": self.command,
            "ok": self.is_ok(),
            "exit_code": self.exit_code,
            "meaning": self.meaning,
            "format": format,
            "value": self.value,
            // The value is the output, so the text is not repeated.
            "text": self.text().filter(|_| self.value.is_none()),
            "stderr": self.stderr,
            "truncated": self.output.is_cut(),
            "warnings": warnings.collect::<Vec<_>>(),
            "duration_ms": u64::try_from(self.duration.as_millis()).unwrap_or(u64::MAX),
        });
        if self.format == Format::Binary {
            let bytes = base64::engine::general_purpose::STANDARD.encode(&self.output.bytes);
            result["base64"] = json!(bytes);
        }
        if let Some(error) = &self.error {
            let mut fields = json!({ "code": error.code.as_str(), "message": error.message });
            if let Some(hint) = &error.hint {
                fields["hint"] = json!(hint);
            }
            if !error.details.is_null() {
                fields["details"] = (*error.details).clone();
            }
            result["error"] = fields;
        }
        result
    }
}
