//! Translates notifications of an MCP server into events of the taxonomy. Servers use different
//! names. The model is codex, and similar shapes are also accepted.

use serde_json::{Map, Value};

use crate::event::StreamEvent;
use crate::usage::{ContextSize, UsageReport};

const IDS: [&str; 6] = [
    "call_id",
    "callId",
    "tool_call_id",
    "toolCallId",
    "tool_use_id",
    "id",
];
const ARGS: [&str; 5] = ["args", "arguments", "input", "rawInput", "params"];
const OUTPUTS: [&str; 7] = [
    "content",
    "result",
    "output",
    "rawOutput",
    "aggregated_output",
    "formatted_output",
    "stdout",
];

/// Whether pieces were streamed since the last whole message. If so, the next whole message would
/// repeat them and is ignored.
#[derive(Default)]
pub struct Translator {
    text_in_pieces: bool,
    thought_in_pieces: bool,
}

impl Translator {
    /// Translates the parameters of a notification that reports an event of a turn.
    pub fn event(&mut self, params: &Value) -> Option<StreamEvent> {
        let payload = ["msg", "event", "update", "data"]
            .iter()
            .find_map(|key| params.get(key).filter(|inner| inner.is_object()))
            .unwrap_or(params);
        if let Value::String(text) = payload {
            return text_delta(text);
        }
        let fields = payload.as_object()?;
        let Some(kind) = first_text(fields, &["type", "kind", "event", "sessionUpdate"]) else {
            return text_delta(first_text(fields, &["delta", "text"])?);
        };
        let kind = kind.replace(['-', '.', '/', ':'], "_").to_ascii_lowercase();
        self.typed_event(&kind, fields)
    }

    /// Translates `notifications/message`: a text, or an object with an event. Debug messages and
    /// warnings are ignored.
    pub fn log(&mut self, params: &Value) -> Option<StreamEvent> {
        let level = params.get("level").and_then(Value::as_str);
        if !matches!(level, Some("info" | "notice") | None) {
            return None;
        }
        match params.get("data")? {
            Value::String(text) => text_delta(text),
            data @ Value::Object(fields) => match first_text(fields, &["type", "kind"]) {
                Some(_) => self.event(data),
                None => text_delta(first_text(fields, &["delta", "text", "message"])?),
            },
            _ => None,
        }
    }

    fn typed_event(&mut self, kind: &str, fields: &Map<String, Value>) -> Option<StreamEvent> {
        let of = |start: &str| kind.starts_with(start);
        if of("user") || of("task") || of("turn") || of("session") || of("thread") {
            return None;
        }
        if kind.split('_').any(|word| word == "plan")
            || (kind == "thought" && fields.contains_key("plan"))
        {
            return plan(fields);
        }
        if kind.contains("reasoning") || kind.contains("thought") || kind.contains("thinking") {
            let text = new_text(&mut self.thought_in_pieces, kind, fields)?;
            return Some(StreamEvent::thought(text));
        }
        if kind == "tool_result"
            || ["_end", "_completed", "_finished"]
                .iter()
                .any(|e| kind.ends_with(e))
        {
            return tool_result(fields);
        }
        if matches!(kind, "tool_call" | "tool_use")
            || ["_begin", "_start", "_started"]
                .iter()
                .any(|e| kind.ends_with(e))
        {
            return tool_call(kind, fields);
        }
        if kind.contains("message") || kind.contains("text") {
            let text = new_text(&mut self.text_in_pieces, kind, fields)?;
            return Some(StreamEvent::TextDelta { text });
        }
        None
    }
}

/// A plan. The steps of codex have their text in `step`.
fn plan(fields: &Map<String, Value>) -> Option<StreamEvent> {
    let entries = fields.get("plan").or_else(|| fields.get("entries"))?;
    let entries = entries.as_array()?.iter().filter_map(|entry| {
        let mut entry = entry.as_object()?.clone();
        if let Some(step) = entry.remove("step") {
            entry.insert("content".to_owned(), step);
        }
        serde_json::from_value(Value::Object(entry)).ok()
    });
    StreamEvent::plan(entries.collect())
}

/// What an event reports about usage: its members, or the token counts of codex.
pub fn usage(params: &Value) -> UsageReport {
    let payload = params.get("msg").unwrap_or(params);
    let kind = payload.get("type").and_then(Value::as_str);
    let is_report = |kind: &str| ["usage", "token", "turn"].iter().any(|w| kind.contains(w));
    if !kind.is_some_and(is_report) {
        return UsageReport::default();
    }
    let Some(info) = payload.get("info").filter(|info| info.is_object()) else {
        return UsageReport::from_members(payload);
    };
    let count = |pointer: &str| info.pointer(pointer).and_then(Value::as_u64);
    let context = count("/last_token_usage/total_tokens").zip(count("/model_context_window"));
    UsageReport {
        context: context.map(|(used, size)| ContextSize { used, size }),
        ..UsageReport::default()
    }
}

/// A piece, or a whole message that was not streamed in pieces before.
fn new_text(in_pieces: &mut bool, kind: &str, fields: &Map<String, Value>) -> Option<String> {
    let piece = fields.get("delta").and_then(Value::as_str);
    let text = piece.or_else(|| first_text(fields, &["text", "message", "content", "chunk"]))?;
    let whole = piece.is_none()
        && !kind.ends_with("_delta")
        && !kind.ends_with("_chunk")
        && !matches!(kind, "text" | "thought" | "thinking");
    if !whole {
        *in_pieces = true;
    } else if std::mem::take(in_pieces) {
        return None;
    }
    (!text.is_empty()).then(|| text.to_owned())
}

fn tool_call(kind: &str, fields: &Map<String, Value>) -> Option<StreamEvent> {
    let id = first_text(fields, &IDS)?.to_owned();
    let inner = fields.get("invocation").and_then(Value::as_object);
    let call = inner.unwrap_or(fields);
    let stem = ["_begin", "_started", "_start"]
        .iter()
        .find_map(|end| kind.strip_suffix(end))
        .unwrap_or(kind);
    let name = first_text(call, &["name", "tool", "tool_name", "toolName", "title"]);
    let args = ARGS.iter().find_map(|key| call.get(*key)).cloned();
    let rest = || {
        let hidden = |key: &str| {
            IDS.contains(&key)
                || matches!(key, "type" | "kind" | "event" | "name" | "tool" | "title")
        };
        let rest = call.iter().filter(|(key, _)| !hidden(key));
        Value::Object(rest.map(|(k, v)| (k.clone(), v.clone())).collect())
    };
    let known = |start: &str| stem.starts_with(start);
    let tool_kind = if known("exec") {
        Some("execute")
    } else if known("patch") {
        Some("edit")
    } else if known("web_search") {
        Some("search")
    } else {
        first_text(fields, &["kind"]).filter(|_| fields.contains_key("type"))
    };
    Some(StreamEvent::ToolCall {
        id,
        name: name.unwrap_or(stem).to_owned(),
        kind: tool_kind.map(str::to_owned),
        args: args.unwrap_or_else(rest),
    })
}

fn tool_result(fields: &Map<String, Value>) -> Option<StreamEvent> {
    let id = first_text(fields, &IDS)?.to_owned();
    let flag = |key: &str| fields.get(key).and_then(Value::as_bool);
    let failed_word = |word: &str| matches!(word, "failed" | "error" | "declined" | "cancelled");
    let ok = flag("ok")
        .or_else(|| flag("success"))
        .or_else(|| flag("is_error").or_else(|| flag("isError")).map(|bad| !bad))
        .or_else(|| Some(fields.get("exit_code")?.as_i64()? == 0))
        .or_else(|| Some(!failed_word(first_text(fields, &["status"])?)))
        .or_else(|| Some(!fields.get("result")?.as_object()?.contains_key("Err")))
        .or_else(|| fields.get("error").map(Value::is_null))
        .unwrap_or(true);
    let content = OUTPUTS.iter().find_map(|key| fields.get(*key));
    let content = content.or_else(|| fields.get("error")).cloned();
    Some(StreamEvent::ToolResult {
        id,
        ok,
        content: content.unwrap_or(Value::Null),
    })
}

fn first_text<'m>(fields: &'m Map<String, Value>, keys: &[&str]) -> Option<&'m str> {
    keys.iter().find_map(|key| fields.get(*key)?.as_str())
}

fn text_delta(text: &str) -> Option<StreamEvent> {
    let text = text.to_owned();
    (!text.is_empty()).then_some(StreamEvent::TextDelta { text })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arm::json::any_value as any_json;
    use crate::plan::PlanEntry;
    use serde_json::json;

    fn text(text: &str) -> Option<StreamEvent> {
        text_delta(text)
    }

    fn thought(text: &str) -> Option<StreamEvent> {
        Some(StreamEvent::thought(text))
    }

    #[test]
    fn messages_and_reasoning_are_not_repeated() {
        let mut t = Translator::default();
        let mut msg =
            |msg: Value| t.event(&json!({"_meta": {"requestId": 2}, "id": "7", "msg": msg}));
        assert_eq!(
            msg(json!({"type": "agent_message_delta", "delta": "a"})),
            text("a")
        );
        assert_eq!(
            msg(json!({"type": "agent_message_delta", "delta": "b"})),
            text("b")
        );
        assert_eq!(msg(json!({"type": "agent_message", "message": "ab"})), None);
        assert_eq!(
            msg(json!({"type": "agent_message", "message": "next"})),
            text("next")
        );
        assert_eq!(
            msg(json!({"type": "agent_reasoning_delta", "delta": "h"})),
            thought("h")
        );
        assert_eq!(msg(json!({"type": "agent_reasoning", "text": "h"})), None);
        assert_eq!(
            msg(json!({"type": "agent_reasoning", "text": "m"})),
            thought("m")
        );
        for quiet in [
            json!({"type": "user_message", "message": "x"}),
            json!({"type": "task_started"}),
            json!({"type": "task_complete", "last_agent_message": "x"}),
            json!({"type": "token_count", "info": null}),
            json!({"type": 7}),
            json!({"type": "agent_message_delta", "delta": 1}),
            json!({"type": "tool_call", "name": "no id"}),
        ] {
            assert_eq!(msg(quiet.clone()), None, "{quiet}");
        }
    }

    #[test]
    fn tools_begin_and_end() {
        let mut t = Translator::default();
        let mut msg = |msg: Value| t.event(&json!({ "msg": msg }));
        assert_eq!(
            msg(
                json!({"type": "exec_command_begin", "call_id": "c1", "command": ["ls"], "cwd": "/w"})
            ),
            Some(StreamEvent::ToolCall {
                id: "c1".into(),
                name: "exec_command".into(),
                kind: Some("execute".into()),
                args: json!({"command": ["ls"], "cwd": "/w"}),
            })
        );
        let result = |ok, content| {
            Some(StreamEvent::ToolResult {
                id: "c1".into(),
                ok,
                content,
            })
        };
        for (end, expected) in [
            (
                json!({"exit_code": 0, "stdout": "x"}),
                result(true, json!("x")),
            ),
            (
                json!({"exit_code": 2, "aggregated_output": "y"}),
                result(false, json!("y")),
            ),
            (json!({"success": false}), result(false, Value::Null)),
            (
                json!({"result": {"Err": "no"}}),
                result(false, json!({"Err": "no"})),
            ),
            (json!({"result": {"Ok": 1}}), result(true, json!({"Ok": 1}))),
            (
                json!({"isError": true, "content": []}),
                result(false, json!([])),
            ),
            (
                json!({"status": "failed", "error": "e"}),
                result(false, json!("e")),
            ),
        ] {
            let mut end = end;
            end["type"] = json!("exec_command_end");
            end["call_id"] = json!("c1");
            assert_eq!(msg(end), expected);
        }
        assert_eq!(
            msg(json!({
                "type": "mcp_tool_call_begin", "call_id": "c2",
                "invocation": {"server": "s", "tool": "read", "arguments": {"p": 1}},
            })),
            Some(StreamEvent::ToolCall {
                id: "c2".into(),
                name: "read".into(),
                kind: None,
                args: json!({"p": 1}),
            })
        );
    }

    #[test]
    fn events_of_the_taxonomy_are_accepted() {
        let mut t = Translator::default();
        assert_eq!(
            t.event(&json!({"type": "text-delta", "text": "a"})),
            text("a")
        );
        assert_eq!(
            t.event(&json!({"type": "thought", "text": "b"})),
            thought("b")
        );
        assert_eq!(
            t.event(
                &json!({"type": "tool-call", "id": "1", "name": "n", "kind": "read", "args": 3})
            ),
            Some(StreamEvent::ToolCall {
                id: "1".into(),
                name: "n".into(),
                kind: Some("read".into()),
                args: json!(3),
            })
        );
        assert_eq!(
            t.event(&json!({"type": "tool-result", "id": "1", "ok": false, "content": "c"})),
            Some(StreamEvent::ToolResult {
                id: "1".into(),
                ok: false,
                content: json!("c")
            })
        );
        assert_eq!(t.event(&json!({"delta": "c"})), text("c"));
        assert_eq!(t.event(&json!("d")), text("d"));
        assert_eq!(t.event(&json!(["e"])), None);
    }

    #[test]
    fn plans_and_usage() {
        let mut t = Translator::default();
        let plan = StreamEvent::plan(vec![PlanEntry {
            content: "a".into(),
            status: "completed".into(),
            priority: None,
        }]);
        for event in [
            json!({"msg": {"type": "plan_update", "plan": [{"step": "a", "status": "completed"}, 3]}}),
            json!({"type": "thought", "text": "", "plan": [{"content": "a", "status": "completed"}]}),
            json!({"sessionUpdate": "plan", "entries": [{"content": "a", "status": "completed"}]}),
        ] {
            assert_eq!(t.event(&event), plan, "{event}");
        }
        let count = json!({"msg": {"type": "token_count", "info": {
            "last_token_usage": {"total_tokens": 30}, "model_context_window": 400,
        }}});
        assert_eq!(
            usage(&count).context,
            Some(ContextSize {
                used: 30,
                size: 400
            })
        );
        let members = json!({"type": "usage", "usage": {"total_tokens": 1}});
        assert_eq!(usage(&members).usage, Some(json!({"total_tokens": 1})));
        for other in [
            json!("text"),
            json!({"type": "tool_result", "usage": {"disk": 1}}),
        ] {
            assert_eq!(usage(&other), UsageReport::default());
        }
        assert_eq!(
            t.event(&json!({"type": "agent_explanation_text", "text": "a"})),
            text("a")
        );
    }

    proptest::proptest! {
        #[test]
        fn no_json_causes_a_panic(values in proptest::collection::vec(any_json(), 1..6)) {
            let mut t = Translator::default();
            for value in &values {
                usage(value);
                t.event(value);
                t.log(value);
            }
        }
    }

    #[test]
    fn log_messages() {
        let mut t = Translator::default();
        let mut log = |level: &str, data: Value| t.log(&json!({"level": level, "data": data}));
        assert_eq!(log("info", json!("a")), text("a"));
        assert_eq!(log("notice", json!({"text": "b"})), text("b"));
        assert_eq!(
            log("info", json!({"type": "reasoning", "delta": "c"})),
            thought("c")
        );
        assert_eq!(log("debug", json!("a")), None);
        assert_eq!(log("error", json!("a")), None);
        assert_eq!(log("info", json!(3)), None);
    }
}
