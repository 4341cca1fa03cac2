//! Wire formats of the vendors: a reply as stream events, as one JSON value, and as an error.

mod anthropic;
mod chat;
mod gemini;
mod responses;

use std::time::Duration;

use serde_json::{Value, json};

use super::plan::ReplyPlan;
use super::request::{Dialect, ModelRequest};
use super::script::{Breakage, ModelError};

/// Creation time in all responses. It is fixed, so that responses are reproducible.
const CREATED: u64 = 1_700_000_000;

/// One item of a stream.
#[derive(Debug)]
pub enum StreamItem {
    /// Server-sent event.
    Event(Option<&'static str>, Value),
    /// Line that ends an OpenAI stream.
    Done,
    Wait(Duration),
    /// How the stream ends without an end.
    Break(Breakage),
}

/// Data for building a response.
pub struct ResponseContext<'a> {
    pub plan: &'a ReplyPlan,
    pub request: &'a ModelRequest,
    /// Request number, so that clients can distinguish responses.
    pub number: u64,
}

impl ResponseContext<'_> {
    fn id(&self, prefix: &str) -> String {
        format!("{prefix}{:08}", self.number)
    }

    fn call_id(&self, prefix: &str, index: usize) -> String {
        format!("{prefix}{:08}{index:02}", self.number)
    }

    fn model(&self) -> &str {
        &self.request.model
    }

    pub fn stream(&self) -> Vec<StreamItem> {
        match self.request.dialect {
            Dialect::Anthropic => anthropic::stream(self),
            Dialect::Responses => responses::stream(self),
            Dialect::Chat => chat::stream(self),
            Dialect::Gemini => gemini::stream(self),
        }
    }

    pub fn json_body(&self) -> Value {
        match self.request.dialect {
            Dialect::Anthropic => anthropic::json_body(self),
            Dialect::Responses => responses::json_body(self),
            Dialect::Chat => chat::json_body(self),
            Dialect::Gemini => gemini::json_body(self),
        }
    }
}

/// Error in the format of the vendor.
pub fn error(dialect: Dialect, error: &ModelError) -> Value {
    let (status, message) = (error.status, &error.message);
    match dialect {
        Dialect::Anthropic => anthropic::error(status, message),
        Dialect::Responses | Dialect::Chat => openai_error(status, message),
        Dialect::Gemini => gemini::error(status, message),
    }
}

fn openai_error(status: u16, message: &str) -> Value {
    let kind = match status {
        401 | 403 => "authentication_error",
        404 => "not_found_error",
        429 => "rate_limit_exceeded",
        400..=499 => "invalid_request_error",
        _ => "server_error",
    };
    json!({"error": {"message": message, "type": kind, "param": null, "code": kind}})
}

/// Arguments of a call in OpenAI's text format.
fn argument_text(args: &Value) -> String {
    match args {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Input of a free-form tool: the text itself, or the `input` of a mapping.
fn free_text(args: &Value) -> String {
    let input = args.get("input").and_then(Value::as_str);
    input.map_or_else(|| argument_text(args), str::to_owned)
}
