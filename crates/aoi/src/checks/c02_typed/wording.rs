//! Human output inside events and beside the stream: stack traces and warnings in strings, and text
//! on the controlling terminal.

use serde_json::Value;

use super::prose;
use crate::capture::Capture;
use crate::model::CheckId;
use crate::rules::{Level, Rule, Topic};
use crate::stack_trace;

pub(super) static TRACE_IN_EVENT: Rule = Rule {
    id: "AOI-02.trace-in-event",
    check: CheckId::Number(2),
    level: Level::Must,
    section: "§2",
    requirement: "The strings of framework events contain no stack trace",
    why: "A stack trace describes the tool's internals, and its lines can contain paths and values. \
          Quoting it as JSON does not change that.",
    hint: "Say in `message` what is wrong, and send the trace to stderr with --debug.",
    topic: Topic::Errors,
    requirement_ids: &["AOI-2-09"],
};

pub(super) static WARNING_IN_EVENT: Rule = Rule {
    id: "AOI-02.warning-in-event",
    check: CheckId::Number(2),
    level: Level::Open,
    section: "§2",
    requirement: "A warning is an aoi:warning, not text in another event",
    why: "A caller that counts or forwards warnings does not look for them in the text of other \
          events.",
    hint: "Emit an aoi:warning with the text as `message`.",
    topic: Topic::Json,
    requirement_ids: &["AOI-2-10"],
};

pub(super) static TERMINAL: Rule = Rule {
    id: "AOI-02.terminal",
    check: CheckId::Number(2),
    level: Level::Must,
    section: "§1.2",
    requirement: "Machine mode writes nothing to the controlling terminal, such as a progress bar or \
                  a question",
    why: "The terminal belongs to the user of the program that reads the events.",
    hint: "Do not open /dev/tty in machine mode. Emit aoi:progress instead of drawing a spinner.",
    topic: Topic::Json,
    requirement_ids: &["AOI-1.2-02", "AOI-2-07"],
};

/// Fields that hold a message of the tool in any event.
const MESSAGE_FIELDS: [&str; 7] = [
    "diagnostic",
    "log",
    "message",
    "msg",
    "note",
    "notice",
    "warning",
];

/// Events in which a message may start with the word "warning".
const MAY_WARN: [&str; 3] = ["aoi:warning", "aoi:error", "aoi:check"];

/// The line of a stack trace in a string of a framework event.
pub(super) fn trace(kind: &str, event: &Value) -> Option<String> {
    match kind.starts_with("aoi:") {
        true => first_trace(event),
        // The data of a tool may be about stack traces.
        false => None,
    }
}

fn first_trace(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => {
            let trace = stack_trace::find(text.as_bytes())?;
            Some(format!(
                "stack trace ({}): {:?}",
                trace.language, trace.line
            ))
        }
        Value::Array(items) => items.iter().find_map(first_trace),
        Value::Object(fields) => fields.values().find_map(first_trace),
        _ => None,
    }
}

/// The field of an event with a warning as text.
pub(super) fn warning(kind: &str, event: &Value) -> Option<String> {
    if MAY_WARN.contains(&kind) {
        return None;
    }
    MESSAGE_FIELDS.into_iter().find_map(|name| {
        let text = event.get(name)?.as_str()?;
        let start = text.trim_start().to_ascii_lowercase();
        let rest = ["warning", "warn"]
            .iter()
            .find_map(|word| start.strip_prefix(word))?;
        rest.starts_with([':', '!', ']']).then(|| {
            let shown = prose::excerpt(text.as_bytes());
            format!("`{name}` of `{kind}` is a warning: {shown}")
        })
    })
}

/// What the tool wrote to its controlling terminal. `None` if it had none.
pub(super) fn terminal_output(run: &Capture) -> Option<Option<String>> {
    let shown = run.terminal.as_deref()?;
    let is_blank = shown.iter().all(u8::is_ascii_whitespace);
    Some((!is_blank).then(|| {
        format!(
            "`{}`: text on the controlling terminal: {}",
            run.probe,
            prose::excerpt(shown)
        )
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn traces_and_warnings_are_found_in_messages_but_not_in_data() {
        let python = "It failed.\nTraceback (most recent call last):\n  File \"a.py\"";
        let nested = json!({ "type": "aoi:error", "detail": { "cause": [python] } });
        assert!(trace("aoi:error", &nested).is_some());
        assert_eq!(trace("match", &json!({ "text": python })), None);
        assert_eq!(
            trace("aoi:error", &json!({ "message": "It failed." })),
            None
        );
        for (kind, field, text, found) in [
            ("hit", "note", "Warning: the cache is old.", true),
            ("log", "message", "WARN: slow", true),
            ("aoi:progress", "message", "warning! disk almost full", true),
            (
                "aoi:warning",
                "message",
                "Warning: the cache is old.",
                false,
            ),
            ("hit", "snippet", "Warning: wet paint", false),
            ("log", "message", "Warnings are counted.", false),
            ("log", "message", "Forewarned", false),
        ] {
            let event = json!({ "type": kind, field: text });
            assert_eq!(warning(kind, &event).is_some(), found, "{kind} {text}");
        }
    }
}
