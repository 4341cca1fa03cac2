//! Mutants: mock agents that are wrong in exactly one way.
//!
//! A mutant is a function on the outgoing or incoming messages of the conforming mock. It names the
//! requirement that it violates. This makes it possible to test the checks: do they find the
//! defect, and do they report the right requirement?

mod acp;
mod acp_v2;
pub mod aoi;
mod combine;
mod mcp;
pub(super) mod tools;

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::Value;

use crate::AgentKind;

/// How a mutant differs from the conforming mock.
pub struct AgentDefect {
    /// Scenario in which the defect is visible.
    pub scenario: &'static str,
    pub(super) tamper: Tamper,
}

/// Mutant of a mock agent.
pub type AgentMutant = crate::model::Mutant<AgentDefect>;

/// Function on an outgoing message. Returns what is written instead.
type OnOutgoing =
    Box<dyn Fn(&mut TamperContext, &MessageSummary, Value) -> tools::MessageFrames + Send + Sync>;
/// Function on an incoming message. Returns what the mock receives instead, and what is written
/// before that.
type OnIncoming = Box<dyn Fn(&mut TamperContext, Value) -> tools::Received + Send + Sync>;

/// Function on a request to the model.
type OnModelRequest = Box<dyn Fn(&mut TamperContext, &mut Value) + Send + Sync>;

/// Function on an input line. Returns the line that is read instead, if any.
type ReadLine = fn(Vec<u8>) -> Option<Vec<u8>>;

/// The functions of a mutant or a variant. Both directions are needed if the reply to a changed
/// message would otherwise not reach the mock.
#[derive(Default)]
pub(super) struct Tamper {
    pub outgoing: Option<OnOutgoing>,
    pub incoming: Option<OnIncoming>,
    pub line: Option<ReadLine>,
    /// Called at the end of stdin.
    pub end: Option<fn()>,
    /// Changes a request to the model.
    pub model: Option<OnModelRequest>,
}

impl Tamper {
    pub fn outgoing(
        outgoing: impl Fn(&mut TamperContext, &MessageSummary, Value) -> tools::MessageFrames
        + Send
        + Sync
        + 'static,
    ) -> Tamper {
        Tamper {
            outgoing: Some(Box::new(outgoing)),
            ..Tamper::default()
        }
    }

    pub fn both(
        outgoing: impl Fn(&mut TamperContext, &MessageSummary, Value) -> tools::MessageFrames
        + Send
        + Sync
        + 'static,
        incoming: impl Fn(&mut TamperContext, Value) -> tools::Received + Send + Sync + 'static,
    ) -> Tamper {
        Tamper {
            incoming: Some(Box::new(incoming)),
            ..Tamper::outgoing(outgoing)
        }
    }
}

/// What is written in place of a message.
pub(crate) enum MessageFrame {
    Json(Value),
    Raw(Vec<u8>),
    /// Exits the process after everything before it is written.
    Exit(u8),
}

/// Summary of a message.
#[derive(Default)]
pub(super) struct MessageSummary {
    /// Method of the message, or of the request that it answers.
    pub method: String,
    /// Type of a `session/update`.
    pub update: String,
    /// Parameters of the request that it answers.
    pub request_params: Value,
    pub is_result: bool,
    pub is_error: bool,
}

/// State that a mutant can read and store.
#[derive(Default)]
pub(super) struct TamperContext {
    /// Unanswered requests of the client.
    open: HashMap<String, (String, Value)>,
    /// Storage for the mutant itself.
    pub notes: HashMap<&'static str, Value>,
    /// Whether another line was read together with this one.
    pub more: bool,
}

impl TamperContext {
    /// Stores a request until it is answered.
    pub fn remember_request(&mut self, message: &Value) {
        let method = message.get("method").and_then(Value::as_str);
        if let (Some(id), Some(method)) = (message.get("id"), method) {
            let params = message.get("params").cloned().unwrap_or_default();
            self.open
                .insert(id.to_string(), (method.to_owned(), params));
        }
    }
    pub fn forget_request(&mut self, id: &Value) {
        self.open.remove(&id.to_string());
    }
    pub fn is_open(&self, method: &str) -> bool {
        self.open.values().any(|(open, _)| open == method)
    }
    /// Whether this is the first call with `what`.
    pub fn first(&mut self, what: &'static str) -> bool {
        self.notes.insert(what, Value::Bool(true)).is_none()
    }
}

impl MessageSummary {
    pub fn of(message: &Value, context: &TamperContext) -> MessageSummary {
        let text = |value: Option<&Value>| {
            let text = value.and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        let id = message.get("id").cloned().unwrap_or(Value::Null);
        let open = context.open.get(&id.to_string());
        let (method, request_params) = match (message.get("method"), open) {
            (None, Some((method, params))) => (method.clone(), params.clone()),
            (method, _) => (text(method), Value::Null),
        };
        MessageSummary {
            method,
            update: text(message.pointer("/params/update/sessionUpdate")),
            request_params,
            is_result: message.get("result").is_some(),
            is_error: message.get("error").is_some(),
        }
    }

    /// Summary of an incoming message, which has only its method.
    pub fn of_incoming(message: &Value) -> MessageSummary {
        let method = message.get("method").and_then(Value::as_str);
        MessageSummary {
            method: method.unwrap_or_default().to_owned(),
            ..MessageSummary::default()
        }
    }

    /// Whether this is the result of a request with this method.
    pub fn answers(&self, method: &str) -> bool {
        self.is_result && self.method == method
    }
}

static ACP: LazyLock<Vec<AgentMutant>> = LazyLock::new(acp::mutants);
static ACP_V2: LazyLock<Vec<AgentMutant>> = LazyLock::new(acp_v2::mutants);
static MCP: LazyLock<Vec<AgentMutant>> = LazyLock::new(mcp::mutants);

/// Mutants of a mock agent. The REPL has none, because its protocol has no requirements to violate.
pub fn of(kind: AgentKind) -> impl Iterator<Item = &'static AgentMutant> {
    let all: &'static [AgentMutant] = match kind {
        AgentKind::Acp => &ACP,
        AgentKind::AcpV2 => &ACP_V2,
        AgentKind::Mcp => &MCP,
        AgentKind::Repl => &[],
    };
    all.iter()
}
