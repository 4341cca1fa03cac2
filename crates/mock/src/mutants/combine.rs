//! Building blocks of mutants: a condition on messages, and a change.
//!
//! `mutant(…).describe(…).outgoing(updates("tool_call"), removes("/params/update/title"))` is a
//! complete mutant. `outgoing` edits outgoing messages, and `incoming` edits incoming ones.
//! `replace_outgoing` and `replace_incoming` replace them. Other mutants process the messages
//! themselves, with `tamper_out` and `tamper_in`.

use serde_json::Value;

use super::tools::{self, MessageFrames, Received};
use super::{AgentDefect, AgentMutant, MessageFrame, MessageSummary, TamperContext};

/// Condition on a message.
pub(super) trait MessageMatcher:
    Fn(&MessageSummary, &Value) -> bool + Send + Sync + 'static
{
}
impl<F: Fn(&MessageSummary, &Value) -> bool + Send + Sync + 'static> MessageMatcher for F {}

/// Change of a message.
pub(super) trait MessageEdit: Fn(&mut Value) + Send + Sync + 'static {}
impl<F: Fn(&mut Value) + Send + Sync + 'static> MessageEdit for F {}

/// Replacement of an outgoing message.
pub(super) trait MessageReplacement:
    Fn(&MessageSummary, Value) -> MessageFrames + Send + Sync + 'static
{
}
impl<F: Fn(&MessageSummary, Value) -> MessageFrames + Send + Sync + 'static> MessageReplacement
    for F
{
}

/// Creates a mutant of the default scenario that does nothing wrong yet.
pub(super) fn mutant(id: &'static str, requirement: &'static str) -> AgentMutant {
    let data = AgentDefect {
        scenario: "default",
        tamper: super::Tamper::default(),
    };
    AgentMutant::new(id, requirement, data)
}

impl AgentMutant {
    /// Sets the scenario in which the defect is visible.
    pub(super) fn scenario(mut self, scenario: &'static str) -> AgentMutant {
        self.data.scenario = scenario;
        self
    }

    /// Edits outgoing messages.
    pub(super) fn outgoing(self, when: impl MessageMatcher, edit: impl MessageEdit) -> AgentMutant {
        self.tamper_out(move |_, summary, message| {
            let matches = when(summary, &message);
            tools::change(message, matches, &edit)
        })
    }

    /// Replaces outgoing messages.
    pub(super) fn replace_outgoing(
        self,
        when: impl MessageMatcher,
        put: impl Fn(&MessageSummary, Value) -> MessageFrames + Send + Sync + 'static,
    ) -> AgentMutant {
        self.tamper_out(move |_, summary, message| match when(summary, &message) {
            true => put(summary, message),
            false => tools::send(message),
        })
    }

    /// Edits incoming messages.
    pub(super) fn incoming(self, when: impl MessageMatcher, edit: impl MessageEdit) -> AgentMutant {
        self.tamper_in(move |_, message| {
            let matches = when(&MessageSummary::of_incoming(&message), &message);
            tools::alter(message, matches, &edit)
        })
    }

    /// Replaces incoming messages.
    pub(super) fn replace_incoming(
        self,
        when: impl MessageMatcher,
        put: impl Fn(Value) -> Received + Send + Sync + 'static,
    ) -> AgentMutant {
        self.tamper_in(move |_, message| {
            match when(&MessageSummary::of_incoming(&message), &message) {
                true => put(message),
                false => tools::pass(message),
            }
        })
    }

    pub(super) fn tamper_out(
        mut self,
        put: impl Fn(&mut TamperContext, &MessageSummary, Value) -> MessageFrames
        + Send
        + Sync
        + 'static,
    ) -> AgentMutant {
        self.data.tamper.outgoing = Some(Box::new(put));
        self
    }

    pub(super) fn tamper_in(
        mut self,
        put: impl Fn(&mut TamperContext, Value) -> Received + Send + Sync + 'static,
    ) -> AgentMutant {
        self.data.tamper.incoming = Some(Box::new(put));
        self
    }

    /// Edits requests to the model.
    pub(super) fn model(
        mut self,
        edit: impl Fn(&mut TamperContext, &mut Value) + Send + Sync + 'static,
    ) -> AgentMutant {
        self.data.tamper.model = Some(Box::new(edit));
        self
    }

    /// Changes or drops input lines before they are parsed.
    pub(super) fn line(mut self, read: fn(Vec<u8>) -> Option<Vec<u8>>) -> AgentMutant {
        self.data.tamper.line = Some(read);
        self
    }

    /// Calls a function at the end of stdin.
    pub(super) fn end(mut self, end: fn()) -> AgentMutant {
        self.data.tamper.end = Some(end);
        self
    }
}

/// Matches all messages.
pub(super) fn any() -> impl MessageMatcher {
    |_: &MessageSummary, _: &Value| true
}

/// Matches the result of a request with this method.
pub(super) fn answers(method: &'static str) -> impl MessageMatcher {
    move |summary: &MessageSummary, _: &Value| summary.answers(method)
}

/// Matches session updates of this type.
pub(super) fn updates(kind: &'static str) -> impl MessageMatcher {
    move |summary: &MessageSummary, _: &Value| summary.update == kind
}

/// Matches messages with this method, and the responses to them.
pub(super) fn method(method: &'static str) -> impl MessageMatcher {
    move |summary: &MessageSummary, _: &Value| summary.method == method
}

pub(super) fn methods(start: &'static str) -> impl MessageMatcher {
    move |summary: &MessageSummary, _: &Value| summary.method.starts_with(start)
}

pub(super) fn results() -> impl MessageMatcher {
    |summary: &MessageSummary, _: &Value| summary.is_result
}

pub(super) fn errors() -> impl MessageMatcher {
    |summary: &MessageSummary, _: &Value| summary.is_error
}

pub(super) fn code(code: i64) -> impl MessageMatcher {
    is("/error/code", code)
}

pub(super) fn requests() -> impl MessageMatcher {
    |_: &MessageSummary, message: &Value| tools::is_request(message)
}

pub(super) fn has(path: &'static str) -> impl MessageMatcher {
    move |_: &MessageSummary, message: &Value| message.pointer(path).is_some()
}

pub(super) fn lacks(path: &'static str) -> impl MessageMatcher {
    move |_: &MessageSummary, message: &Value| message.pointer(path).is_none()
}

pub(super) fn is(path: &'static str, value: impl Into<Value>) -> impl MessageMatcher {
    let value = value.into();
    move |_: &MessageSummary, message: &Value| message.pointer(path) == Some(&value)
}

pub(super) fn starts_with(path: &'static str, start: &'static str) -> impl MessageMatcher {
    move |_: &MessageSummary, message: &Value| tools::text(message, path).starts_with(start)
}

pub(super) fn not(when: impl MessageMatcher) -> impl MessageMatcher {
    move |summary: &MessageSummary, message: &Value| !when(summary, message)
}

pub(super) fn both(one: impl MessageMatcher, other: impl MessageMatcher) -> impl MessageMatcher {
    move |summary: &MessageSummary, message: &Value| {
        one(summary, message) && other(summary, message)
    }
}

pub(super) fn sets(path: &'static str, value: impl Into<Value>) -> impl MessageEdit {
    let value = value.into();
    move |message: &mut Value| tools::set(message, path, value.clone())
}

pub(super) fn removes(path: &'static str) -> impl MessageEdit {
    move |message: &mut Value| tools::remove(message, path)
}

/// Edits every item of a list.
pub(super) fn edits_each(path: &'static str, edit: impl MessageEdit) -> impl MessageEdit {
    move |message: &mut Value| tools::each(message, path, &edit)
}

/// Keeps only the items of a list that match.
pub(super) fn keeps(
    path: &'static str,
    keep: impl Fn(&Value) -> bool + Send + Sync + 'static,
) -> impl MessageEdit {
    move |message: &mut Value| {
        if let Some(Value::Array(list)) = message.pointer_mut(path) {
            list.retain(&keep);
        }
    }
}

pub(super) fn renames(
    parent: &'static str,
    from: &'static str,
    to: &'static str,
) -> impl MessageEdit {
    move |message: &mut Value| tools::rename(message, parent, from, to)
}

/// Keeps only the first item of a list.
pub(super) fn keeps_first(path: &'static str) -> impl MessageEdit {
    move |message: &mut Value| {
        if let Some(Value::Array(list)) = message.pointer_mut(path) {
            list.truncate(1);
        }
    }
}

pub(super) fn drops() -> impl MessageReplacement {
    |_: &MessageSummary, _: Value| Vec::new()
}

pub(super) fn twice() -> impl MessageReplacement {
    |_: &MessageSummary, message: Value| {
        vec![
            MessageFrame::Json(message.clone()),
            MessageFrame::Json(message),
        ]
    }
}

/// Sends one more message after it.
pub(super) fn then(more: Value) -> impl MessageReplacement {
    move |_: &MessageSummary, message: Value| {
        vec![
            MessageFrame::Json(message),
            MessageFrame::Json(more.clone()),
        ]
    }
}

/// Sends one more message before it.
pub(super) fn first(more: Value) -> impl MessageReplacement {
    move |_: &MessageSummary, message: Value| {
        vec![
            MessageFrame::Json(more.clone()),
            MessageFrame::Json(message),
        ]
    }
}

/// Sends one more chunk of the session after it.
pub(super) fn then_chunk() -> impl MessageReplacement {
    |summary: &MessageSummary, message: Value| {
        let late = tools::chunk(
            tools::text(&summary.request_params, "/sessionId"),
            "and another thing",
        );
        vec![MessageFrame::Json(message), MessageFrame::Json(late)]
    }
}

/// Writes text that is not a message before it.
pub(super) fn noise(words: &'static str) -> impl MessageReplacement {
    move |_: &MessageSummary, message: Value| vec![tools::raw(words), MessageFrame::Json(message)]
}

/// Drops the message without an answer.
pub(super) fn ignores() -> impl Fn(Value) -> Received + Send + Sync + 'static {
    |_| tools::drop_message()
}

/// Answers instead of the mock.
pub(super) fn replies(result: Value) -> impl Fn(Value) -> Received + Send + Sync + 'static {
    move |message| tools::answer(&message, result.clone())
}

pub(super) fn rejects(code: i64) -> impl Fn(Value) -> Received + Send + Sync + 'static {
    move |message| tools::reject(&message, code)
}
