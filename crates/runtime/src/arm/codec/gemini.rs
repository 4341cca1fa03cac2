//! Translates the lines of Gemini CLI with `--output-format stream-json`.

use serde_json::{Value, json};

use super::{Codec, LineMeaning};
use crate::error::{Code, Error};
use crate::event::{StopReason, StreamEvent};
use crate::usage::UsageReport;

#[derive(Default)]
pub struct Gemini {
    /// Number of bytes of the current message that were already sent as pieces.
    streamed: usize,
    /// The message of an `error` line, used if the result has none.
    error: Option<String>,
}

impl Codec for Gemini {
    fn line(&mut self, line: &Value, out: &mut Vec<StreamEvent>) -> LineMeaning {
        match word(line, "type") {
            "init" => match word(line, "session_id") {
                "" => LineMeaning::Known,
                id => LineMeaning::Session(id.to_owned()),
            },
            "message" => {
                self.message(line, out);
                LineMeaning::Known
            }
            "thought" => {
                let text = word(line, "content").to_owned();
                if !text.is_empty() {
                    out.push(StreamEvent::thought(text));
                }
                LineMeaning::Known
            }
            "tool_use" => {
                self.streamed = 0;
                out.push(StreamEvent::ToolCall {
                    id: word(line, "tool_id").to_owned(),
                    name: word(line, "tool_name").to_owned(),
                    kind: None,
                    args: line.get("parameters").cloned().unwrap_or(Value::Null),
                });
                LineMeaning::Known
            }
            "tool_result" => {
                let output = line.get("output").filter(|output| !output.is_null());
                let content = output.or_else(|| line.get("error")).cloned();
                out.push(StreamEvent::ToolResult {
                    id: word(line, "tool_id").to_owned(),
                    ok: word(line, "status") != "error",
                    content: content.unwrap_or(Value::Null),
                });
                LineMeaning::Known
            }
            "error" => {
                let message = word(line, "message").to_owned();
                match word(line, "severity") {
                    "warning" => LineMeaning::Warning(message),
                    _ => {
                        self.error = Some(message);
                        LineMeaning::Known
                    }
                }
            }
            "result" => LineMeaning::End {
                session: None,
                end: self.result(line),
                usage: UsageReport {
                    usage: line.get("stats").cloned(),
                    ..UsageReport::default()
                },
            },
            _ => LineMeaning::Unknown,
        }
    }
}

impl Gemini {
    fn message(&mut self, line: &Value, out: &mut Vec<StreamEvent>) {
        if word(line, "role") == "user" {
            return;
        }
        let content = word(line, "content");
        let piece = line.get("delta").and_then(Value::as_bool) == Some(true);
        let text = match piece {
            true => {
                self.streamed += content.len();
                content
            }
            // A whole message after its pieces: only the new part is sent.
            false => content
                .get(std::mem::take(&mut self.streamed)..)
                .unwrap_or_default(),
        };
        if !text.is_empty() {
            let text = text.to_owned();
            out.push(StreamEvent::TextDelta { text });
        }
    }

    fn result(&mut self, line: &Value) -> Result<StopReason, Error> {
        if word(line, "status") != "error" {
            return Ok(StopReason::EndTurn);
        }
        let error = line.get("error").unwrap_or(&Value::Null);
        let kind = word(error, "type");
        if kind.contains("TurnLimit") {
            return Ok(StopReason::MaxTurnRequests);
        }
        let reason = Some(word(error, "message")).filter(|reason| !reason.is_empty());
        let reason = reason
            .or(self.error.as_deref())
            .unwrap_or("no reason given");
        let what = format!("the agent could not complete the turn: {reason}");
        Err(Error::new(Code::TurnFailed, what).details(json!({ "type": kind })))
    }
}

fn word<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> StreamEvent {
        StreamEvent::TextDelta { text: text.into() }
    }

    #[test]
    fn messages_and_tools() {
        let mut codec = Gemini::default();
        let mut out = Vec::new();
        let message = |content: &str, delta: bool| json!({"type": "message", "role": "assistant", "content": content, "delta": delta});
        for line in [
            json!({"type": "message", "role": "user", "content": "the prompt"}),
            message("a", true),
            message("b", true),
            message("ab", false),
            message("whole", false),
            json!({"type": "tool_use", "tool_id": "t", "tool_name": "ls", "parameters": {"d": "."}}),
            json!({"type": "tool_result", "tool_id": "t", "status": "error", "error": {"message": "no"}}),
        ] {
            assert!(matches!(codec.line(&line, &mut out), LineMeaning::Known));
        }
        assert_eq!(out[..3], [text("a"), text("b"), text("whole")]);
        assert_eq!(
            out[3..],
            [
                StreamEvent::ToolCall {
                    id: "t".into(),
                    name: "ls".into(),
                    kind: None,
                    args: json!({"d": "."}),
                },
                StreamEvent::ToolResult {
                    id: "t".into(),
                    ok: false,
                    content: json!({"message": "no"}),
                },
            ]
        );
    }

    #[test]
    fn ends() {
        let end = |lines: &[Value]| {
            let mut codec = Gemini::default();
            let mut out = Vec::new();
            let ends = lines
                .iter()
                .find_map(|line| match codec.line(line, &mut out) {
                    LineMeaning::End { end, .. } => Some(end),
                    _ => None,
                });
            ends.expect("an end")
        };
        let ok = end(&[json!({"type": "result", "status": "success"})]);
        assert_eq!(ok.expect("fine"), StopReason::EndTurn);
        let limit = end(&[
            json!({"type": "result", "status": "error", "error": {"type": "FatalTurnLimitedError"}}),
        ]);
        assert_eq!(limit.expect("fine"), StopReason::MaxTurnRequests);
        let failed = end(&[
            json!({"type": "error", "severity": "error", "message": "no quota"}),
            json!({"type": "result", "status": "error"}),
        ]);
        let failed = failed.expect_err("failed");
        assert_eq!(failed.code, Code::TurnFailed);
        assert!(failed.message.ends_with("no quota"), "{failed}");
        let mut codec = Gemini::default();
        let warning = json!({"type": "error", "severity": "warning", "message": "slow"});
        assert!(
            matches!(codec.line(&warning, &mut Vec::new()), LineMeaning::Warning(text) if text == "slow")
        );
        assert!(matches!(
            codec.line(&json!(7), &mut Vec::new()),
            LineMeaning::Unknown
        ));
    }
}
