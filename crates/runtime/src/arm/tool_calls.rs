//! The tool calls of a turn. Each gets one audit event of kind `tool-call` with everything about it:
//! name, arguments, result and approver (A44-AUDIT-02 to A44-AUDIT-06).

use std::collections::HashMap;

use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use crate::audit::{Audit, limit_size};
use crate::error::Error;

/// Maximum number of calls without a result. Further calls are audited without their arguments at
/// the end.
const MAX_OPEN_CALLS: usize = 1024;
/// Approver of a call without a question, or that a rule decided.
pub const AUTOMATIC: &str = "automatic";
/// The kind of a complete event about a tool call.
const KIND: &str = "tool-call";

/// Calls that have started, and what is known about them.
#[derive(Default)]
pub struct ToolCalls(Mutex<Open>);

#[derive(Default)]
struct Open {
    calls: HashMap<String, Map<String, Value>>,
    /// The call that each open question is about.
    questions: HashMap<String, String>,
    /// Decisions about calls. A question may come before its call is announced.
    decisions: HashMap<String, Map<String, Value>>,
}

/// A call, as far as the permission policy is concerned.
pub struct CallState {
    /// The tool's name.
    pub name: String,
    /// The tool's kind.
    pub kind: Option<String>,
    /// The decision about it, if the agent asked.
    pub approved: Option<bool>,
}

impl ToolCalls {
    /// Records the start of a call.
    pub fn begin(&self, audit: &Audit, id: &str, mut call: Value) -> Result<(), Error> {
        audit.record("tool.call", with_id(id, call.clone()))?;
        limit_size(&mut call);
        let mut open = self.0.lock();
        if open.calls.len() < MAX_OPEN_CALLS
            && let Value::Object(call) = call
        {
            open.calls.insert(id.to_owned(), call);
        }
        Ok(())
    }

    /// Remembers that a question is about a call.
    pub fn asked(&self, question: &str, call: &str) {
        let mut open = self.0.lock();
        if open.questions.len() < MAX_OPEN_CALLS {
            open.questions.insert(question.to_owned(), call.to_owned());
        }
    }

    /// Remembers who answered a question, and whether the call was allowed.
    pub fn decided(&self, question: &str, approver: &str, allowed: bool) {
        let mut open = self.0.lock();
        let Some(call) = open.questions.remove(question) else {
            return;
        };
        let decision = json!({ "approver": approver, "approved": allowed });
        if let Value::Object(decision) = decision
            && open.decisions.len() < MAX_OPEN_CALLS
        {
            open.decisions.insert(call, decision);
        }
    }

    /// What is known about a call that has no result yet.
    pub fn state(&self, id: &str) -> CallState {
        let open = self.0.lock();
        let text = |key: &str| Some(open.calls.get(id)?.get(key)?.as_str()?.to_owned());
        let decision = open.decisions.get(id);
        CallState {
            name: text("name").unwrap_or_default(),
            kind: text("kind"),
            approved: decision.and_then(|d| d.get("approved")?.as_bool()),
        }
    }

    /// Records the end of a call.
    pub fn end(&self, audit: &Audit, id: &str, ok: bool, content: &Value) -> Result<(), Error> {
        let known = self.take(id);
        record(audit, id, known, ok, content.clone())
    }

    /// Records all calls that have no result when their turn ends.
    pub fn finish(&self, audit: &Audit) -> Result<(), Error> {
        let ids: Vec<String> = self.0.lock().calls.keys().cloned().collect();
        ids.iter().try_for_each(|id| {
            let known = self.take(id);
            record(
                audit,
                id,
                known,
                false,
                "the turn ended before the call".into(),
            )
        })
    }

    fn take(&self, id: &str) -> Map<String, Value> {
        let mut open = self.0.lock();
        let mut known = open.calls.remove(id).unwrap_or_default();
        match open.decisions.remove(id) {
            Some(decision) => known.extend(decision),
            None => drop(known.insert("approver".to_owned(), AUTOMATIC.into())),
        }
        known
    }
}

fn record(
    audit: &Audit,
    id: &str,
    mut known: Map<String, Value>,
    ok: bool,
    content: Value,
) -> Result<(), Error> {
    known.insert("ok".to_owned(), ok.into());
    let name = if ok { "result" } else { "error" };
    known.insert(name.to_owned(), content);
    audit.record_kind(KIND, "tool.result", with_id(id, known.into()))
}

fn with_id(id: &str, data: Value) -> Value {
    let mut all = Map::new();
    all.insert("id".to_owned(), id.into());
    if let Value::Object(data) = data {
        all.extend(data);
    }
    all.into()
}
