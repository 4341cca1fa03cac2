//! Mocks that are wrong in exactly one way.
//!
//! A mutant is a function over the messages of the correct mock, on their way out or in. It
//! names the requirement that it breaks, so that a judge can be measured: does it notice, and
//! does it blame the right statement?

mod acp;
mod acp_v2;
pub mod aoi;
mod combine;
mod mcp;
pub(super) mod tools;

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::Value;

use crate::Kind;

/// A mock that speaks: the scenario in which it is wrong, and how.
pub struct Speech {
    pub scenario: &'static str,
    pub(super) tamper: Tamper,
}

pub type Mutant = crate::model::Mutant<Speech>;

/// Sees what the mock sends; gives what is written instead.
type Outwards = Box<dyn Fn(&mut Context, &Sent, Value) -> tools::Frames + Send + Sync>;
/// Sees what the mock would hear; gives what it hears instead, and what is written before.
type Inwards = Box<dyn Fn(&mut Context, Value) -> tools::Heard + Send + Sync>;

/// Sees a line as it came; gives the line that is read instead, or none.
type ReadLine = fn(Vec<u8>) -> Option<Vec<u8>>;

/// Where messages are tampered with. Both ways where a wrong message would go unanswered unless
/// the reply is put right.
#[derive(Default)]
pub(super) struct Tamper {
    pub out: Option<Outwards>,
    pub heard: Option<Inwards>,
    pub line: Option<ReadLine>,
    /// At the end of stdin.
    pub end: Option<fn()>,
}

impl Tamper {
    pub fn out(
        out: impl Fn(&mut Context, &Sent, Value) -> tools::Frames + Send + Sync + 'static,
    ) -> Tamper {
        Tamper {
            out: Some(Box::new(out)),
            ..Tamper::default()
        }
    }

    pub fn both(
        out: impl Fn(&mut Context, &Sent, Value) -> tools::Frames + Send + Sync + 'static,
        heard: impl Fn(&mut Context, Value) -> tools::Heard + Send + Sync + 'static,
    ) -> Tamper {
        Tamper {
            heard: Some(Box::new(heard)),
            ..Tamper::out(out)
        }
    }
}

pub enum Frame {
    Json(Value),
    Raw(Vec<u8>),
    /// The process ends when everything before is written.
    Exit(u8),
}

/// A message, in short.
#[derive(Default)]
pub(super) struct Sent {
    /// Its own method, or that of the request which it answers.
    pub method: String,
    /// The kind of a `session/update`.
    pub update: String,
    /// Parameters of the request which it answers.
    pub asked: Value,
    pub is_result: bool,
    pub is_error: bool,
}

/// What a mutant may remember and look up.
#[derive(Default)]
pub(super) struct Context {
    /// Requests of the client that are not answered yet.
    open: HashMap<String, (String, Value)>,
    /// Room for a mutant's own memory.
    pub notes: HashMap<&'static str, Value>,
    /// Whether another line was read together with this one.
    pub more: bool,
}

impl Context {
    /// Remembers a request until it is answered.
    pub fn hear(&mut self, message: &Value) {
        let method = message.get("method").and_then(Value::as_str);
        if let (Some(id), Some(method)) = (message.get("id"), method) {
            let params = message.get("params").cloned().unwrap_or_default();
            self.open
                .insert(id.to_string(), (method.to_owned(), params));
        }
    }
    pub fn answered(&mut self, id: &Value) {
        self.open.remove(&id.to_string());
    }
    pub fn is_open(&self, method: &str) -> bool {
        self.open.values().any(|(open, _)| open == method)
    }
    /// Whether this is the first time that `what` is asked for.
    pub fn first(&mut self, what: &'static str) -> bool {
        self.notes.insert(what, Value::Bool(true)).is_none()
    }
}

impl Sent {
    pub fn of(message: &Value, context: &Context) -> Sent {
        let text = |value: Option<&Value>| {
            let text = value.and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        let id = message.get("id").cloned().unwrap_or(Value::Null);
        let open = context.open.get(&id.to_string());
        let (method, asked) = match (message.get("method"), open) {
            (None, Some((method, params))) => (method.clone(), params.clone()),
            (method, _) => (text(method), Value::Null),
        };
        Sent {
            method,
            update: text(message.pointer("/params/update/sessionUpdate")),
            asked,
            is_result: message.get("result").is_some(),
            is_error: message.get("error").is_some(),
        }
    }

    /// A message that comes in: nothing but its method.
    pub fn heard(message: &Value) -> Sent {
        let method = message.get("method").and_then(Value::as_str);
        Sent {
            method: method.unwrap_or_default().to_owned(),
            ..Sent::default()
        }
    }

    /// Whether this is the result of a request with this method.
    pub fn answers(&self, method: &str) -> bool {
        self.is_result && self.method == method
    }
}

static ACP: LazyLock<Vec<Mutant>> = LazyLock::new(acp::mutants);
static ACP_V2: LazyLock<Vec<Mutant>> = LazyLock::new(acp_v2::mutants);
static MCP: LazyLock<Vec<Mutant>> = LazyLock::new(mcp::mutants);

/// The mutants of a mock; the REPL speaks no protocol that one could break.
pub fn of(kind: Kind) -> impl Iterator<Item = &'static Mutant> {
    let all: &'static [Mutant] = match kind {
        Kind::Acp => &ACP,
        Kind::AcpV2 => &ACP_V2,
        Kind::Mcp => &MCP,
        Kind::Repl => &[],
    };
    all.iter()
}
