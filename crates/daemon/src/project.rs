//! Projects events to lines of text (AIP-46, Output projection). Lines have no colors: terminals
//! add them by prefix. A line of the agent that starts like a line of the host gets a backslash, so
//! that an agent cannot pretend that its turn ended or that it asks a question.

use agentproto_runtime::StreamEvent;
use agentproto_runtime::error::STDERR_LABEL;

/// Maximum length of a line in bytes. Longer lines are split.
const MAX_LINE: usize = 64 << 10;

/// Starts of the lines that the host writes.
const MARKERS: [&str; 7] = [
    "── turn-end",
    "[awaiting input]",
    "[error]",
    "[thought]",
    "[tool-error]",
    "[tool]",
    "[warning]",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum OutputStream {
    Stdout,
    Stderr,
}

impl OutputStream {
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputLine {
    pub text: String,
    pub stream: OutputStream,
}

/// Joins pieces of text to lines. Each session has its own.
#[derive(Default)]
pub struct Projector {
    text: String,
    thought: String,
}

impl Projector {
    /// The lines that an event completes, in order.
    pub fn event(&mut self, event: &StreamEvent) -> Vec<OutputLine> {
        let mut lines = Vec::new();
        match event {
            StreamEvent::TextDelta { text } => {
                self.flush_thought(&mut lines);
                join(&mut self.text, text, text_line, &mut lines);
            }
            StreamEvent::Thought { text, plan: None } => {
                self.flush_text(&mut lines);
                join(&mut self.thought, text, thought_line, &mut lines);
            }
            StreamEvent::Thought {
                plan: Some(entries),
                ..
            } => {
                self.flush(&mut lines);
                for entry in entries {
                    // Split like other lines.
                    let line = format!("{}\n", entry.line());
                    join(&mut self.thought, &line, thought_line, &mut lines);
                }
            }
            StreamEvent::ToolCall { name, .. } => {
                self.flush(&mut lines);
                lines.push(out(format!("[tool] {}", one_line(name))));
            }
            StreamEvent::ToolResult { ok, .. } => {
                self.flush(&mut lines);
                if !ok {
                    lines.push(out("[tool-error]".to_owned()));
                }
            }
            StreamEvent::AgentPrompt {
                message, decision, ..
            } => {
                self.flush(&mut lines);
                let message = one_line(message);
                // The prefix is that of AIP-46, although nothing waits after a decision.
                lines.push(out(match decision.as_deref() {
                    None => format!("[awaiting input] {message}"),
                    Some(decision) => {
                        format!("[awaiting input] {message} (decided by the host: {decision})")
                    }
                }));
            }
            StreamEvent::TurnEnd { reason, .. } => {
                self.flush(&mut lines);
                let reason = serde_json::to_value(reason).unwrap_or_default();
                lines.push(turn_end(reason.as_str().unwrap_or_default()));
            }
            StreamEvent::Error {
                message, details, ..
            } => {
                self.flush(&mut lines);
                lines.extend(error(message, details["stderr"].as_str()));
                lines.push(turn_end("error"));
            }
        }
        lines
    }

    /// Emits the incomplete lines of a turn that has no end.
    pub fn flush(&mut self, lines: &mut Vec<OutputLine>) {
        self.flush_thought(lines);
        self.flush_text(lines);
    }

    fn flush_text(&mut self, lines: &mut Vec<OutputLine>) {
        if !self.text.is_empty() {
            lines.push(text_line(&std::mem::take(&mut self.text)));
        }
    }

    fn flush_thought(&mut self, lines: &mut Vec<OutputLine>) {
        if !self.thought.is_empty() {
            lines.push(thought_line(&std::mem::take(&mut self.thought)));
        }
    }
}

/// The line by which clients recognize the end of a turn (A46-TURN-06).
pub fn turn_end(reason: &str) -> OutputLine {
    out(format!("── turn-end ({reason}) ──"))
}

/// `[error] message`, followed by the end of the child's stderr.
pub fn error(message: &str, stderr: Option<&str>) -> Vec<OutputLine> {
    // The message may end with the stderr tail. It is removed here, because the tail gets its own
    // lines.
    let message = match stderr.filter(|tail| !tail.is_empty()) {
        Some(tail) => message
            .split_once(STDERR_LABEL)
            .map(|(what, _)| what)
            .filter(|_| tail.lines().all(|line| message.contains(line))),
        None => None,
    }
    .unwrap_or(message);
    let first = std::iter::once(out(format!("[error] {}", one_line(message))));
    let tail = stderr.unwrap_or_default().lines().map(stderr_line);
    first.chain(tail).collect()
}

/// A warning of the host.
pub fn warning(message: &str) -> OutputLine {
    OutputLine {
        text: format!("[warning] {}", one_line(message)),
        stream: OutputStream::Stderr,
    }
}

/// A line that the agent wrote to stderr.
pub fn stderr_line(text: &str) -> OutputLine {
    OutputLine {
        text: escape_marker(text),
        stream: OutputStream::Stderr,
    }
}

fn text_line(text: &str) -> OutputLine {
    out(escape_marker(text))
}

fn thought_line(text: &str) -> OutputLine {
    out(format!("[thought] {text}"))
}

/// Puts a backslash in front of a line that starts with a marker, or with backslashes and a marker.
/// Removing one backslash from such a line gives the original.
fn escape_marker(text: &str) -> String {
    let plain = text.trim_start_matches('\\');
    let is_marker = MARKERS.iter().any(|marker| plain.starts_with(marker));
    format!("{}{text}", if is_marker { "\\" } else { "" })
}

fn out(text: String) -> OutputLine {
    OutputLine {
        text,
        stream: OutputStream::Stdout,
    }
}

fn one_line(text: &str) -> String {
    text.split(['\r', '\n'])
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

fn join(
    partial: &mut String,
    piece: &str,
    line_of: fn(&str) -> OutputLine,
    lines: &mut Vec<OutputLine>,
) {
    let mut rest = piece;
    while let Some((line, after)) = rest.split_once('\n') {
        partial.push_str(line);
        let whole = std::mem::take(partial);
        let whole = whole.strip_suffix('\r').unwrap_or(&whole);
        lines.push(line_of(whole));
        rest = after;
    }
    partial.push_str(rest);
    while partial.len() > MAX_LINE {
        let mut at = MAX_LINE;
        while !partial.is_char_boundary(at) {
            at -= 1;
        }
        let tail = partial.split_off(at);
        lines.push(line_of(partial));
        *partial = tail;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use agentproto_runtime::StopReason;
    use serde_json::{Value, json};

    fn texts(events: &[StreamEvent]) -> Vec<String> {
        let mut projector = Projector::default();
        let lines = events.iter().flat_map(|event| projector.event(event));
        lines.map(|line| line.text).collect()
    }

    fn delta(text: &str) -> StreamEvent {
        StreamEvent::TextDelta { text: text.into() }
    }

    fn question(decision: Option<&str>) -> StreamEvent {
        StreamEvent::AgentPrompt {
            id: "2".into(),
            message: "may I?".into(),
            options: vec![],
            schema: None,
            tool: None,
            decision: decision.map(str::to_owned),
        }
    }

    // A46-PROJ-02 to 08.
    #[test]
    fn events_are_projected_like_in_aip_46() {
        let thought = |text: &str| StreamEvent::thought(text);
        let plan = serde_json::json!([
            { "content": "look", "status": "completed" }, { "content": "do\nit" },
        ]);
        let plan = serde_json::from_value(plan).expect("a plan");
        let events = [
            delta("hel"),
            delta("lo\nwor"),
            thought("hm"),
            thought("m\nso"),
            StreamEvent::plan(plan).expect("an event"),
            thought("then"),
            StreamEvent::ToolCall {
                id: "1".into(),
                name: "read\nfile".into(),
                kind: None,
                args: Value::Null,
            },
            StreamEvent::ToolResult {
                id: "1".into(),
                ok: true,
                content: Value::Null,
            },
            StreamEvent::ToolResult {
                id: "1".into(),
                ok: false,
                content: Value::Null,
            },
            question(None),
            question(Some("deny")),
            delta("end"),
            StreamEvent::turn_end(StopReason::EndTurn),
        ];
        let expected = [
            "hello",
            "wor",
            "[thought] hmm",
            "[thought] so",
            "[thought] [x] look",
            "[thought] [ ] do it",
            "[thought] then",
            "[tool] read file",
            "[tool-error]",
            "[awaiting input] may I?",
            "[awaiting input] may I? (decided by the host: deny)",
            "end",
            "── turn-end (end_turn) ──",
        ];
        assert_eq!(texts(&events), expected);
    }

    #[test]
    fn an_error_has_its_tail_and_ends_the_turn() {
        let event = StreamEvent::Error {
            code: "agent_exited".into(),
            message:
                "the agent exited with status 3 during a turn; stderr of the agent:\n    a\n    b"
                    .into(),
            hint: None,
            details: json!({ "stderr": "a\nb" }),
        };
        let expected = [
            "x",
            "[error] the agent exited with status 3 during a turn",
            "a",
            "b",
            "── turn-end (error) ──",
        ];
        assert_eq!(texts(&[delta("x"), event]), expected);
    }

    #[test]
    fn an_agent_cannot_write_the_lines_of_the_host() {
        let end = "── turn-end (end_turn) ──";
        let long = "x".repeat(MAX_LINE);
        let lines = texts(&[
            delta(&format!("{end}\n[awaiting input] password?\n\\[tool] x\n")),
            delta("say [error] or "),
            delta("── turn-end\n"),
            delta(&format!("{long}{end}")),
            delta("\n[tool] rm"),
            StreamEvent::turn_end(StopReason::EndTurn),
        ]);
        let expected = [
            "\\── turn-end (end_turn) ──",
            "\\[awaiting input] password?",
            "\\\\[tool] x",
            "say [error] or ── turn-end",
            &long,
            "\\── turn-end (end_turn) ──",
            "\\[tool] rm",
            end,
        ];
        assert_eq!(lines, expected);
        assert_eq!(stderr_line(end).text, format!("\\{end}"));
        assert_eq!(stderr_line("plain").text, "plain");
    }

    #[test]
    fn an_overlong_line_is_split() {
        let lines = texts(&[
            delta(&"ä".repeat(MAX_LINE)),
            StreamEvent::turn_end(StopReason::Refusal),
        ]);
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[0].len(), MAX_LINE);
        assert_eq!(lines[2], "── turn-end (refusal) ──");
    }
}
