//! The lines between the runner and an adapter: commands to it, events of the taxonomy from it.

use agentproto_text::strict_json::read_repaired;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::permissions::Answer;
use crate::event::{Choice, StopReason};
use crate::plan::PlanEntry;
use crate::usage::{ContextSize, Cost};

/// A line to the adapter.
#[derive(Debug, Serialize)]
#[serde(tag = "op", rename_all = "lowercase", rename_all_fields = "camelCase")]
pub enum AdapterCommand<'a> {
    Connect {
        /// The working directory, as the adapter sees it.
        cwd: &'a str,
        /// The agent's own command line: `bin`, `bin_args`, and the arguments of mode and options.
        command: &'a [String],
        #[serde(skip_serializing_if = "Option::is_none")]
        resume: Option<&'a str>,
        /// The frontmatter of the manifest.
        definition: &'a Value,
    },
    Send {
        turn_id: &'a str,
        message: &'a str,
    },
    Cancel {
        turn_id: &'a str,
    },
    Answer {
        id: &'a str,
        #[serde(flatten)]
        answer: AnswerBody<'a>,
    },
    Close,
}

/// The answer to an `agent-prompt`.
#[derive(Debug, Serialize)]
#[serde(tag = "answer", rename_all = "lowercase")]
pub enum AnswerBody<'a> {
    Choice { choice: &'a str },
    Content { content: &'a Value },
    Declined,
    Cancelled,
}

impl<'a> From<&'a Answer> for AnswerBody<'a> {
    fn from(answer: &'a Answer) -> Self {
        match answer {
            Answer::Choice(choice) => AnswerBody::Choice { choice },
            Answer::Content(content) => AnswerBody::Content { content },
            Answer::Declined => AnswerBody::Declined,
            Answer::Cancelled => AnswerBody::Cancelled,
        }
    }
}

/// A line from the adapter. Anything else is rejected.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(
    tag = "type",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase"
)]
pub enum AdapterEvent {
    Connected {
        #[serde(default)]
        session_id: Option<String>,
    },
    TextDelta {
        text: String,
    },
    Thought {
        text: String,
        /// The agent's plan. Its checklist replaces the text.
        #[serde(default)]
        plan: Option<Vec<PlanEntry>>,
    },
    ToolCall {
        id: String,
        name: String,
        #[serde(default)]
        kind: Option<String>,
        args: Value,
    },
    ToolResult {
        id: String,
        ok: bool,
        content: Value,
    },
    AgentPrompt {
        id: String,
        message: String,
        options: Vec<Choice>,
        /// JSON Schema of an answer with content.
        #[serde(default)]
        schema: Option<Value>,
    },
    TurnEnd {
        reason: StopReason,
        /// Set if the agent reports its id only now.
        #[serde(default)]
        session_id: Option<String>,
        #[serde(default)]
        usage: Option<Value>,
        #[serde(default)]
        cost: Option<Cost>,
        #[serde(default)]
        context: Option<ContextSize>,
    },
    Error {
        message: String,
        #[serde(default)]
        code: Option<String>,
        #[serde(default)]
        kind: Option<String>,
        #[serde(default)]
        hint: Option<String>,
        #[serde(default)]
        details: Value,
    },
}

/// A line and the id of its turn.
#[derive(Debug, PartialEq)]
pub struct AdapterLine {
    pub event: AdapterEvent,
    pub turn: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TurnRef {
    #[serde(default)]
    turn_id: Option<String>,
}

impl AdapterLine {
    pub fn parse(line: &[u8]) -> Result<AdapterLine, String> {
        let event = read_repaired(line).map_err(|e| why(&e))?;
        let reference: TurnRef = read_repaired(line).map_err(|e| why(&e))?;
        Ok(AdapterLine {
            event,
            turn: reference.turn_id,
        })
    }
}

/// The error without its position, which is of no use within one line.
fn why(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.find(" at line ") {
        Some(at) => text.get(..at).unwrap_or_default().to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parse_error(line: Value) -> String {
        AdapterLine::parse(line.to_string().as_bytes()).expect_err("refused")
    }

    #[test]
    fn complete_events_are_accepted() {
        for line in [
            json!({"type": "connected"}),
            json!({"type": "text-delta", "text": ""}),
            json!({"type": "tool-call", "id": "1", "name": "n", "args": null}),
            json!({"type": "tool-result", "id": "1", "ok": true, "content": []}),
            json!({"type": "agent-prompt", "id": "1", "message": "m", "options": [{"id": "a", "label": "A"}]}),
            json!({"type": "turn-end", "reason": "max_tokens", "turnId": "t"}),
            json!({"type": "turn-end", "reason": "end_turn", "usage": {}, "cost": {"amount": 1, "currency": "EUR"}, "context": {"used": 1, "size": 2}}),
            json!({"type": "thought", "text": "", "plan": [{"content": "a"}]}),
            json!({"type": "error", "message": "m", "kind": "cancelled", "more": 1}),
        ] {
            AdapterLine::parse(line.to_string().as_bytes()).expect("taken");
        }
    }

    #[test]
    fn other_lines_are_rejected_with_the_reason() {
        for (line, expected) in [
            (
                json!({"type": "usage", "tokens": 3}),
                "unknown variant `usage`",
            ),
            (json!({"text": "a"}), "missing field `type`"),
            (json!({"type": "text-delta"}), "missing field `text`"),
            (json!({"type": "text-delta", "text": 3}), "invalid type"),
            (
                json!({"type": "tool-call", "id": "1", "name": "n"}),
                "missing field `args`",
            ),
            (
                json!({"type": "tool-result", "id": "1", "ok": "yes", "content": 1}),
                "invalid type",
            ),
            (
                json!({"type": "turn-end", "reason": "done"}),
                "unknown variant `done`",
            ),
            (
                json!({"type": "turn-end", "reason": "end_turn", "cost": 3}),
                "invalid type",
            ),
            (
                json!({"type": "thought", "text": "", "plan": [{"status": "pending"}]}),
                "missing field `content`",
            ),
            (
                json!({"type": "text-delta", "text": "a", "turnId": 3}),
                "invalid type",
            ),
            (json!(["text-delta"]), ""),
        ] {
            let why = parse_error(line.clone());
            assert!(why.contains(expected), "{line}: {why}");
        }
        assert!(AdapterLine::parse(b"\xff").is_err() && AdapterLine::parse(b"").is_err());
    }

    #[test]
    fn a_lone_surrogate_does_not_end_a_turn() {
        let line = AdapterLine::parse(br#"{"type":"text-delta","text":"\ud83d"}"#).expect("taken");
        let text = "\u{fffd}".to_owned();
        assert_eq!(line.event, AdapterEvent::TextDelta { text });
    }

    #[test]
    fn commands_on_the_wire() {
        let text = |command: &AdapterCommand| serde_json::to_value(command).expect("JSON");
        let command = ["a".to_owned()];
        let connect = AdapterCommand::Connect {
            cwd: "/w",
            command: &command,
            resume: None,
            definition: &json!({"id": "x"}),
        };
        assert_eq!(
            text(&connect),
            json!({"op": "connect", "cwd": "/w", "command": ["a"], "definition": {"id": "x"}})
        );
        let send = AdapterCommand::Send {
            turn_id: "t",
            message: "m",
        };
        assert_eq!(
            text(&send),
            json!({"op": "send", "turnId": "t", "message": "m"})
        );
        let answer = AdapterCommand::Answer {
            id: "q",
            answer: AnswerBody::Choice { choice: "yes" },
        };
        assert_eq!(
            text(&answer),
            json!({"op": "answer", "id": "q", "answer": "choice", "choice": "yes"})
        );
        assert_eq!(text(&AdapterCommand::Close), json!({"op": "close"}));
    }
}
