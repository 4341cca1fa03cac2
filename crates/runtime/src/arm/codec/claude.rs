//! Translates the lines of Claude Code with `--output-format stream-json`.

use serde_json::{Value, json};

use super::{Codec, LineMeaning};
use crate::error::{Code, Error};
use crate::event::{StopReason, StreamEvent};
use crate::usage::{ContextSize, Cost, UsageReport};

/// Partial messages come first, then the same message as a whole. The streamed bytes are counted,
/// so that only the rest of the whole message is sent.
#[derive(Default)]
pub struct Claude {
    text_streamed: usize,
    thought_streamed: usize,
    has_text: bool,
    stop_reason: Option<String>,
    /// The model of the newest message, and the tokens in its context.
    context: Option<(String, u64)>,
}

impl Codec for Claude {
    fn line(&mut self, line: &Value, out: &mut Vec<StreamEvent>) -> LineMeaning {
        // Text of a sub-agent is not part of the agent's message, but its tool calls are reported.
        let own = line.get("parent_tool_use_id").is_none_or(Value::is_null);
        match word(line, "type") {
            "system" => match (word(line, "subtype"), word(line, "session_id")) {
                ("init", id) if !id.is_empty() => LineMeaning::Session(id.to_owned()),
                _ => LineMeaning::Known,
            },
            "stream_event" => {
                if own {
                    self.piece(line.get("event").unwrap_or(&Value::Null), out);
                }
                LineMeaning::Known
            }
            "assistant" => {
                let message = line.get("message").unwrap_or(&Value::Null);
                for block in blocks(message) {
                    self.block(block, own, out);
                }
                if let (true, Some(reason)) = (own, message.get("stop_reason")) {
                    self.stop_reason = reason.as_str().map(str::to_owned);
                }
                if let (true, Some(usage)) = (own, message.get("usage")) {
                    self.context = Some((word(message, "model").to_owned(), all_tokens(usage)));
                }
                LineMeaning::Known
            }
            "user" => {
                let message = line.get("message").unwrap_or(&Value::Null);
                let results = blocks(message).iter().filter_map(tool_result);
                out.extend(results);
                LineMeaning::Known
            }
            "result" => self.result(line, out),
            "rate_limit_event" | "tool_progress" | "tool_use_summary" | "auth_status"
            | "keep_alive" | "control_response" | "control_request" => LineMeaning::Known,
            _ => LineMeaning::Unknown,
        }
    }
}

impl Claude {
    fn piece(&mut self, event: &Value, out: &mut Vec<StreamEvent>) {
        let delta = event.get("delta").unwrap_or(&Value::Null);
        match (word(event, "type"), word(delta, "type")) {
            ("content_block_delta", "text_delta") => {
                let text = word(delta, "text").to_owned();
                self.text_streamed += text.len();
                self.text(text, out);
            }
            ("content_block_delta", "thinking_delta") => {
                let text = word(delta, "thinking").to_owned();
                self.thought_streamed += text.len();
                thought(text, out);
            }
            ("message_delta", _) => {
                if let Some(reason) = delta.get("stop_reason").and_then(Value::as_str) {
                    self.stop_reason = Some(reason.to_owned());
                }
            }
            _ => {}
        }
    }

    fn block(&mut self, block: &Value, own: bool, out: &mut Vec<StreamEvent>) {
        match word(block, "type") {
            "text" if own => {
                let text = rest(word(block, "text"), &mut self.text_streamed);
                self.text(text, out);
            }
            "thinking" if own => {
                thought(
                    rest(word(block, "thinking"), &mut self.thought_streamed),
                    out,
                );
            }
            "tool_use" | "server_tool_use" | "mcp_tool_use" => {
                out.push(StreamEvent::ToolCall {
                    id: word(block, "id").to_owned(),
                    name: word(block, "name").to_owned(),
                    kind: None,
                    args: block.get("input").cloned().unwrap_or(Value::Null),
                });
            }
            _ => out.extend(tool_result(block)),
        }
    }

    fn text(&mut self, text: String, out: &mut Vec<StreamEvent>) {
        if !text.is_empty() {
            self.has_text = true;
            out.push(StreamEvent::TextDelta { text });
        }
    }

    fn result(&mut self, line: &Value, out: &mut Vec<StreamEvent>) -> LineMeaning {
        let session = Some(word(line, "session_id").to_owned()).filter(|id| !id.is_empty());
        let subtype = word(line, "subtype");
        let text = word(line, "result");
        let failed = line.get("is_error").and_then(Value::as_bool) == Some(true);
        let end = if subtype == "error_max_turns" {
            Ok(StopReason::MaxTurnRequests)
        } else if failed || subtype.starts_with("error") {
            let errors = line.get("errors").and_then(Value::as_array);
            let errors = errors.into_iter().flatten().filter_map(Value::as_str);
            let why = [text].into_iter().chain(errors).find(|why| !why.is_empty());
            let why = why.unwrap_or(subtype);
            let what = format!("the agent could not complete the turn: {why}");
            Err(Error::new(Code::TurnFailed, what).details(json!({ "subtype": subtype })))
        } else {
            // A built-in command of the program responds with only a result.
            if !self.has_text {
                self.text(text.to_owned(), out);
            }
            let reason = line.get("stop_reason").and_then(Value::as_str);
            let reason = reason.or(self.stop_reason.as_deref());
            Ok(match reason {
                Some("max_tokens" | "model_context_window_exceeded") => StopReason::MaxTokens,
                Some("refusal") => StopReason::Refusal,
                Some("max_turn_requests") => StopReason::MaxTurnRequests,
                _ => StopReason::EndTurn,
            })
        };
        LineMeaning::End {
            session,
            end,
            usage: self.usage(line),
        }
    }

    fn usage(&self, line: &Value) -> UsageReport {
        let mut usage = line.get("usage").cloned();
        if let Some(Value::Object(counts)) = &mut usage {
            // The program does not count them together.
            let total = all_tokens(&Value::Object(counts.clone()));
            counts.insert("totalTokens".to_owned(), total.into());
        }
        let cost = line.get("total_cost_usd").and_then(Value::as_f64);
        let size = |model: &str| {
            let models = line.get("modelUsage")?.as_object()?;
            let only = models.values().next().filter(|_| models.len() == 1);
            let used = models.get(model).or(only)?;
            used.get("contextWindow")?.as_u64()
        };
        let context = self.context.as_ref().and_then(|(model, used)| {
            Some(ContextSize {
                used: *used,
                size: size(model)?,
            })
        });
        UsageReport {
            usage,
            cost: cost.map(|amount| Cost {
                amount,
                currency: "USD".to_owned(),
            }),
            context,
        }
    }
}

/// All tokens of a request to the model. Those from and to the cache are counted apart.
fn all_tokens(usage: &Value) -> u64 {
    let counts = [
        "input_tokens",
        "cache_read_input_tokens",
        "cache_creation_input_tokens",
        "output_tokens",
    ];
    let counts = counts.iter().filter_map(|name| usage.get(name)?.as_u64());
    counts.fold(0, u64::saturating_add)
}

/// The part that was not streamed yet. Several whole blocks may follow after all of their pieces.
fn rest(whole: &str, streamed: &mut usize) -> String {
    let known = (*streamed).min(whole.len());
    *streamed -= known;
    whole.get(known..).unwrap_or_default().to_owned()
}

fn thought(text: String, out: &mut Vec<StreamEvent>) {
    if !text.is_empty() {
        out.push(StreamEvent::thought(text));
    }
}

fn tool_result(block: &Value) -> Option<StreamEvent> {
    if !word(block, "type").ends_with("tool_result") {
        return None;
    }
    let failed = block.get("is_error").and_then(Value::as_bool) == Some(true);
    Some(StreamEvent::ToolResult {
        id: word(block, "tool_use_id").to_owned(),
        ok: !failed,
        content: block.get("content").cloned().unwrap_or(Value::Null),
    })
}

fn blocks(message: &Value) -> &[Value] {
    let blocks = message.get("content").and_then(Value::as_array);
    blocks.map_or(&[], Vec::as_slice)
}

fn word<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events_of(codec: &mut Claude, lines: &[Value]) -> Vec<StreamEvent> {
        let mut out = Vec::new();
        for line in lines {
            codec.line(line, &mut out);
        }
        out
    }

    fn text(text: &str) -> StreamEvent {
        StreamEvent::TextDelta { text: text.into() }
    }

    fn delta(kind: &str, key: &str, text: &str) -> Value {
        json!({"type": "stream_event", "event": {
            "type": "content_block_delta", "delta": {"type": kind, key: text},
        }})
    }

    fn whole(block: Value) -> Value {
        json!({"type": "assistant", "message": {"content": [block]}, "parent_tool_use_id": null})
    }

    #[test]
    fn partial_messages_are_not_repeated() {
        let mut codec = Claude::default();
        let out = events_of(
            &mut codec,
            &[
                delta("thinking_delta", "thinking", "hm"),
                whole(json!({"type": "thinking", "thinking": "hm"})),
                delta("text_delta", "text", "one "),
                delta("text_delta", "text", "two"),
                whole(json!({"type": "text", "text": "one two three"})),
                whole(json!({"type": "text", "text": "four"})),
                delta("text_delta", "text", "five"),
                delta("text_delta", "text", "six"),
                whole(json!({"type": "text", "text": "five"})),
                whole(json!({"type": "text", "text": "six"})),
            ],
        );
        let thought = StreamEvent::thought("hm");
        assert_eq!(
            out,
            [
                thought,
                text("one "),
                text("two"),
                text(" three"),
                text("four"),
                text("five"),
                text("six")
            ]
        );
    }

    #[test]
    fn tools_and_sub_agents() {
        let mut codec = Claude::default();
        let mut nested = whole(json!({"type": "text", "text": "inner"}));
        nested["parent_tool_use_id"] = json!("t1");
        let mut inner_tool =
            whole(json!({"type": "tool_use", "id": "t2", "name": "Read", "input": {"p": 1}}));
        inner_tool["parent_tool_use_id"] = json!("t1");
        let result = json!({"type": "user", "message": {"content": [
            {"type": "tool_result", "tool_use_id": "t2", "content": "c", "is_error": true},
            {"type": "text", "text": "not shown"},
        ]}});
        let echo = json!({"type": "user", "message": {"content": "as text"}});
        let out = events_of(&mut codec, &[nested, inner_tool, result, echo]);
        assert_eq!(
            out,
            [
                StreamEvent::ToolCall {
                    id: "t2".into(),
                    name: "Read".into(),
                    kind: None,
                    args: json!({"p": 1}),
                },
                StreamEvent::ToolResult {
                    id: "t2".into(),
                    ok: false,
                    content: json!("c"),
                },
            ]
        );
    }

    #[test]
    fn results() {
        let end = |line: Value| {
            let mut codec = Claude::default();
            let mut out = Vec::new();
            match codec.line(&line, &mut out) {
                LineMeaning::End { end, .. } => (end, out),
                _ => panic!("no end: {line}"),
            }
        };
        let of = |reason: &str| {
            end(json!({"type": "result", "subtype": "success", "stop_reason": reason})).0
        };
        assert_eq!(of("end_turn").expect("fine"), StopReason::EndTurn);
        assert_eq!(of("max_tokens").expect("fine"), StopReason::MaxTokens);
        assert_eq!(of("refusal").expect("fine"), StopReason::Refusal);
        let (turns, _) =
            end(json!({"type": "result", "subtype": "error_max_turns", "is_error": true}));
        assert_eq!(turns.expect("fine"), StopReason::MaxTurnRequests);
        let (failed, _) = end(
            json!({"type": "result", "subtype": "success", "is_error": true, "result": "no credit"}),
        );
        let failed = failed.expect_err("failed");
        assert_eq!(failed.code, Code::TurnFailed);
        assert!(failed.message.ends_with("no credit"), "{failed}");
        let (failed, _) =
            end(json!({"type": "result", "subtype": "error_during_execution", "errors": ["e1"]}));
        assert!(failed.expect_err("failed").message.ends_with("e1"));
        let (_, out) =
            end(json!({"type": "result", "subtype": "success", "result": "of a command"}));
        assert_eq!(out, [text("of a command")]);
    }

    #[test]
    fn usage_cost_and_context() {
        let usage = |lines: &[Value]| {
            let mut codec = Claude::default();
            let mut out = Vec::new();
            let ends = lines
                .iter()
                .find_map(|line| match codec.line(line, &mut out) {
                    LineMeaning::End { usage, .. } => Some(usage),
                    _ => None,
                });
            ends.expect("an end")
        };
        let message = |parent: Value, input: u64| {
            json!({"type": "assistant", "parent_tool_use_id": parent, "message": {
                "model": "m-1", "content": [],
                "usage": {"input_tokens": input, "cache_read_input_tokens": 100, "output_tokens": 5},
            }})
        };
        let result = json!({
            "type": "result", "subtype": "success", "total_cost_usd": 0.25,
            "usage": {"input_tokens": 3, "cache_creation_input_tokens": 10, "cache_read_input_tokens": 100, "output_tokens": 7},
            "modelUsage": {"m-1": {"contextWindow": 200_000}, "small": {"contextWindow": 1}},
        });
        let report = usage(&[
            message(Value::Null, 20),
            message(json!("sub-agent"), 9999),
            result,
        ]);
        assert_eq!(
            report.context,
            Some(ContextSize {
                used: 125,
                size: 200_000
            })
        );
        assert_eq!(report.cost.as_ref().map(|cost| cost.amount), Some(0.25));
        let mut merged = UsageReport::default();
        merged.merge(report);
        assert_eq!(
            merged.usage,
            Some(json!({
                "inputTokens": 3, "outputTokens": 7, "cachedReadTokens": 100,
                "cachedWriteTokens": 10, "totalTokens": 120,
            }))
        );
        let nothing = usage(&[json!({"type": "result", "subtype": "success"})]);
        assert_eq!(nothing, UsageReport::default());
    }

    #[test]
    fn no_json_causes_a_panic() {
        let mut codec = Claude::default();
        for line in [
            json!(null),
            json!([]),
            json!({"type": 3}),
            json!({"type": "assistant"}),
            json!({"type": "assistant", "message": {"content": {"a": 1}}}),
            json!({"type": "stream_event", "event": "x"}),
            whole(json!("text")),
        ] {
            assert_eq!(events_of(&mut codec, &[line]), []);
        }
        codec.text_streamed = 1;
        assert_eq!(
            events_of(&mut codec, &[whole(json!({"type": "text", "text": "é"}))]),
            []
        );
    }
}
