//! Building blocks of mutants: a condition on messages, and a change.
//!
//! `wrong(…).says(…).out(updates("tool_call"), removes("/params/update/title"))` is a complete
//! mutant. `out` edits outgoing messages, and `heard` edits incoming ones. `out_as` and `heard_as`
//! replace them. Other mutants process the messages themselves, with `tamper_out` and `tamper_in`.

use serde_json::Value;

use super::tools::{self, Frames, Heard};
use super::{Context, Frame, Mutant, Sent, Speech};

/// Condition on a message.
pub(super) trait When: Fn(&Sent, &Value) -> bool + Send + Sync + 'static {}
impl<F: Fn(&Sent, &Value) -> bool + Send + Sync + 'static> When for F {}

/// Change of a message.
pub(super) trait Edit: Fn(&mut Value) + Send + Sync + 'static {}
impl<F: Fn(&mut Value) + Send + Sync + 'static> Edit for F {}

/// Replacement of an outgoing message.
pub(super) trait Put: Fn(&Sent, Value) -> Frames + Send + Sync + 'static {}
impl<F: Fn(&Sent, Value) -> Frames + Send + Sync + 'static> Put for F {}

/// Creates a mutant of the default scenario that does nothing wrong yet.
pub(super) fn wrong(id: &'static str, requirement: &'static str) -> Mutant {
    let made = Speech {
        scenario: "default",
        tamper: super::Tamper::default(),
    };
    Mutant::new(id, requirement, made)
}

impl Mutant {
    /// Sets the scenario in which the defect is visible.
    pub(super) fn scenario(mut self, scenario: &'static str) -> Mutant {
        self.made.scenario = scenario;
        self
    }

    /// Edits outgoing messages.
    pub(super) fn out(self, when: impl When, edit: impl Edit) -> Mutant {
        self.tamper_out(move |_, sent, message| {
            let is_meant = when(sent, &message);
            tools::change(message, is_meant, &edit)
        })
    }

    /// Replaces outgoing messages.
    pub(super) fn out_as(
        self,
        when: impl When,
        put: impl Fn(&Sent, Value) -> Frames + Send + Sync + 'static,
    ) -> Mutant {
        self.tamper_out(move |_, sent, message| match when(sent, &message) {
            true => put(sent, message),
            false => tools::send(message),
        })
    }

    /// Edits incoming messages.
    pub(super) fn heard(self, when: impl When, edit: impl Edit) -> Mutant {
        self.tamper_in(move |_, message| {
            let is_meant = when(&Sent::heard(&message), &message);
            tools::alter(message, is_meant, &edit)
        })
    }

    /// Replaces incoming messages.
    pub(super) fn heard_as(
        self,
        when: impl When,
        put: impl Fn(Value) -> Heard + Send + Sync + 'static,
    ) -> Mutant {
        self.tamper_in(
            move |_, message| match when(&Sent::heard(&message), &message) {
                true => put(message),
                false => tools::pass(message),
            },
        )
    }

    pub(super) fn tamper_out(
        mut self,
        put: impl Fn(&mut Context, &Sent, Value) -> Frames + Send + Sync + 'static,
    ) -> Mutant {
        self.made.tamper.out = Some(Box::new(put));
        self
    }

    pub(super) fn tamper_in(
        mut self,
        put: impl Fn(&mut Context, Value) -> Heard + Send + Sync + 'static,
    ) -> Mutant {
        self.made.tamper.heard = Some(Box::new(put));
        self
    }

    /// Changes or drops input lines before they are parsed.
    pub(super) fn line(mut self, read: fn(Vec<u8>) -> Option<Vec<u8>>) -> Mutant {
        self.made.tamper.line = Some(read);
        self
    }

    /// Calls a function at the end of stdin.
    pub(super) fn end(mut self, end: fn()) -> Mutant {
        self.made.tamper.end = Some(end);
        self
    }
}

/// Matches all messages.
pub(super) fn any() -> impl When {
    |_: &Sent, _: &Value| true
}

/// Matches the result of a request with this method.
pub(super) fn answers(method: &'static str) -> impl When {
    move |sent: &Sent, _: &Value| sent.answers(method)
}

/// Matches session updates of this type.
pub(super) fn updates(kind: &'static str) -> impl When {
    move |sent: &Sent, _: &Value| sent.update == kind
}

/// Matches messages with this method, and the responses to them.
pub(super) fn method(method: &'static str) -> impl When {
    move |sent: &Sent, _: &Value| sent.method == method
}

pub(super) fn methods(start: &'static str) -> impl When {
    move |sent: &Sent, _: &Value| sent.method.starts_with(start)
}

pub(super) fn results() -> impl When {
    |sent: &Sent, _: &Value| sent.is_result
}

pub(super) fn errors() -> impl When {
    |sent: &Sent, _: &Value| sent.is_error
}

pub(super) fn code(code: i64) -> impl When {
    is("/error/code", code)
}

pub(super) fn requests() -> impl When {
    |_: &Sent, message: &Value| tools::is_request(message)
}

pub(super) fn has(path: &'static str) -> impl When {
    move |_: &Sent, message: &Value| message.pointer(path).is_some()
}

pub(super) fn lacks(path: &'static str) -> impl When {
    move |_: &Sent, message: &Value| message.pointer(path).is_none()
}

pub(super) fn is(path: &'static str, value: impl Into<Value>) -> impl When {
    let value = value.into();
    move |_: &Sent, message: &Value| message.pointer(path) == Some(&value)
}

pub(super) fn begins(path: &'static str, start: &'static str) -> impl When {
    move |_: &Sent, message: &Value| tools::text(message, path).starts_with(start)
}

pub(super) fn not(when: impl When) -> impl When {
    move |sent: &Sent, message: &Value| !when(sent, message)
}

pub(super) fn both(one: impl When, other: impl When) -> impl When {
    move |sent: &Sent, message: &Value| one(sent, message) && other(sent, message)
}

pub(super) fn sets(path: &'static str, value: impl Into<Value>) -> impl Edit {
    let value = value.into();
    move |message: &mut Value| tools::set(message, path, value.clone())
}

pub(super) fn removes(path: &'static str) -> impl Edit {
    move |message: &mut Value| tools::remove(message, path)
}

/// Edits every item of a list.
pub(super) fn edits_each(path: &'static str, edit: impl Edit) -> impl Edit {
    move |message: &mut Value| tools::each(message, path, &edit)
}

/// Keeps only the items of a list that match.
pub(super) fn keeps(
    path: &'static str,
    keep: impl Fn(&Value) -> bool + Send + Sync + 'static,
) -> impl Edit {
    move |message: &mut Value| {
        if let Some(Value::Array(list)) = message.pointer_mut(path) {
            list.retain(&keep);
        }
    }
}

pub(super) fn renames(parent: &'static str, from: &'static str, to: &'static str) -> impl Edit {
    move |message: &mut Value| tools::rename(message, parent, from, to)
}

/// Keeps only the first item of a list.
pub(super) fn keeps_first(path: &'static str) -> impl Edit {
    move |message: &mut Value| {
        if let Some(Value::Array(list)) = message.pointer_mut(path) {
            list.truncate(1);
        }
    }
}

pub(super) fn drops() -> impl Put {
    |_: &Sent, _: Value| Vec::new()
}

pub(super) fn twice() -> impl Put {
    |_: &Sent, message: Value| vec![Frame::Json(message.clone()), Frame::Json(message)]
}

/// Sends one more message after it.
pub(super) fn then(more: Value) -> impl Put {
    move |_: &Sent, message: Value| vec![Frame::Json(message), Frame::Json(more.clone())]
}

/// Sends one more message before it.
pub(super) fn first(more: Value) -> impl Put {
    move |_: &Sent, message: Value| vec![Frame::Json(more.clone()), Frame::Json(message)]
}

/// Sends one more chunk of the session after it.
pub(super) fn then_talks() -> impl Put {
    |sent: &Sent, message: Value| {
        let late = tools::chunk(tools::text(&sent.asked, "/sessionId"), "and another thing");
        vec![Frame::Json(message), Frame::Json(late)]
    }
}

/// Writes text that is not a message before it.
pub(super) fn noise(words: &'static str) -> impl Put {
    move |_: &Sent, message: Value| vec![tools::raw(words), Frame::Json(message)]
}

/// Drops the message without an answer.
pub(super) fn ignores() -> impl Fn(Value) -> Heard + Send + Sync + 'static {
    |_| tools::swallow()
}

/// Answers instead of the mock.
pub(super) fn replies(result: Value) -> impl Fn(Value) -> Heard + Send + Sync + 'static {
    move |message| tools::answer(&message, result.clone())
}

pub(super) fn refuses(code: i64) -> impl Fn(Value) -> Heard + Send + Sync + 'static {
    move |message| tools::refuse(&message, code)
}
