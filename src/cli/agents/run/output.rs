//! Output of a run, for a person or for a program.

use std::collections::HashMap;
use std::io::Write;
use std::time::Instant;

use serde_json::{Map, Value, json};

use super::RunEnd;
use crate::cli::agents::exit_codes;
use crate::cli::agents::notes::{Note, stage_text};
use crate::cli::agents::preview;
use crate::cli::{Failure, Outcome, io_failure};
use crate::exit;
use agentproto_report::aoi::{self, Emitter, object};
use agentproto_report::event::EventType;
use agentproto_runtime::{Code, Error, StopReason, StreamEvent};
use agentproto_text::{escape_line, escape_output};

impl RunEnd {
    /// An interrupt takes precedence over any error that it causes.
    pub fn code(&self) -> u8 {
        self.interrupted.or(self.error_exit).unwrap_or(exit::CLEAN)
    }

    fn summary(&self) -> Map<String, Value> {
        let reason = if self.interrupted.is_some() {
            json!({ "reason": "interrupted", "interrupted": true, "turn_reason": self.reason })
        } else {
            json!({ "reason": self.reason })
        };
        let denied = (self.denied > 0).then_some(self.denied);
        let usage = (!self.usage.is_empty()).then_some(&self.usage);
        let mut fields = object(json!({
            "session_id": self.session, "denied": denied, "usage": usage, "cost": self.cost,
            "context": self.context,
        }));
        fields.extend(object(reason));
        // Unknown values are left out.
        fields.retain(|_, value| !value.is_null());
        fields
    }

    /// Tokens, context size and cost, for people.
    fn usage_text(&self) -> Option<String> {
        let tokens = [
            (self.usage.input_tokens, "in"),
            (self.usage.output_tokens, "out"),
            (self.usage.total_tokens, "in total"),
        ];
        let tokens = tokens
            .iter()
            .filter_map(|(count, name)| Some(format!("{} tokens {name}", (*count)?)));
        let context = self.context.iter();
        let context = context.map(|c| format!("context {} of {}", c.used, c.size));
        let cost = self.cost.iter();
        let cost = cost.map(|c| format!("cost {} {}", c.amount, escape_line(&c.currency)));
        let parts: Vec<String> = tokens.chain(context).chain(cost).collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

/// Output of a run, for a person or for a program.
pub trait RunOutput {
    fn note(&mut self, note: Option<Note>) -> Result<(), Error>;
    fn event(&mut self, event: &StreamEvent) -> Result<(), Error>;
    /// Called with the id of the agent's session before the end of the turn.
    fn opened(&mut self, _session: &str) {}
    fn sessions(&mut self, list: &Value) -> Result<(), Error>;
    /// Reports a record that only programs need.
    fn record(&mut self, _kind: EventType, _fields: &Map<String, Value>) -> std::io::Result<()> {
        Ok(())
    }
    /// Whether the user can be asked.
    fn can_ask(&self) -> bool;
    fn finish(self: Box<Self>, ended: Result<RunEnd, Failure>) -> Outcome;
}

fn write_error(error: std::io::Error) -> Error {
    Error::new(
        Code::StateUnwritable,
        format!("the output cannot be written: {error}"),
    )
}

pub struct Machine<'w> {
    pub emitter: Emitter<'w>,
    pub started: Instant,
    /// Id of the agent's session.
    pub session: Option<String>,
}

impl RunOutput for Machine<'_> {
    fn note(&mut self, note: Option<Note>) -> Result<(), Error> {
        let done = match note {
            Some(note) => note.emit(&mut self.emitter),
            None => Ok(()),
        };
        done.map_err(write_error)
    }

    fn event(&mut self, event: &StreamEvent) -> Result<(), Error> {
        if let StreamEvent::Error {
            code,
            message,
            hint,
            ..
        } = event
        {
            let known = code.parse::<Code>().ok();
            let failure = Failure::new(known.map_or(exit::FINDINGS, exit_codes::of), "");
            let category = Failure {
                slug: known.map(|c| c.as_str()),
                ..failure
            }
            .category();
            let failure = aoi::ErrorEvent {
                code,
                category,
                message,
                retryable: category.is_retryable(),
                hint: hint.as_deref(),
            };
            return self.emitter.error(&failure).map_err(write_error);
        }
        let kind = match event {
            StreamEvent::TextDelta { .. } => EventType::TextDelta,
            StreamEvent::Thought { .. } => EventType::Thought,
            StreamEvent::ToolCall { .. } => EventType::ToolCall,
            StreamEvent::ToolResult { .. } => EventType::ToolResult,
            StreamEvent::AgentPrompt { .. } => EventType::AgentPrompt,
            StreamEvent::TurnEnd { .. } => EventType::TurnEnd,
            StreamEvent::Error { .. } => return Ok(()),
        };
        let mut fields = object(serde_json::to_value(event).unwrap_or_default());
        if let (EventType::TurnEnd, Some(session)) = (kind, &self.session) {
            // AOI asks for a stable id of what was changed.
            for name in ["id", "sessionId"] {
                fields.insert(name.to_owned(), session.as_str().into());
            }
        }
        self.emitter.event(kind, &fields).map_err(write_error)
    }

    fn opened(&mut self, session: &str) {
        self.session = Some(session.to_owned());
    }

    fn sessions(&mut self, list: &Value) -> Result<(), Error> {
        for session in list.as_array().into_iter().flatten() {
            self.emitter
                .event(EventType::Session, &object(session.clone()))
                .map_err(write_error)?;
        }
        Ok(())
    }

    fn record(&mut self, kind: EventType, fields: &Map<String, Value>) -> std::io::Result<()> {
        self.emitter.event(kind, fields)
    }

    fn can_ask(&self) -> bool {
        false
    }

    fn finish(self: Box<Self>, ended: Result<RunEnd, Failure>) -> Outcome {
        let elapsed = self.started.elapsed();
        let ended = ended?;
        let code = ended.code();
        self.emitter
            .summary(code == exit::CLEAN, elapsed, ended.summary())
            .map_err(io_failure)?;
        Ok(code)
    }
}

pub struct Human<'w> {
    pub out: &'w mut dyn Write,
    pub verbose: bool,
    pub quiet: bool,
    /// Whether the agent's text has not ended its line.
    pub midline: bool,
    /// Whether to ask the user at the terminal.
    pub can_ask: bool,
    /// How the options of the command line answer permission requests, if they do.
    pub decision: Option<&'static str>,
    /// Names of the tools that the agent called, by the id of the call.
    pub tools: HashMap<String, String>,
}

impl Human<'_> {
    fn print_note(&mut self, text: &str) {
        if self.midline {
            let _ = writeln!(self.out);
            let _ = self.out.flush();
            self.midline = false;
        }
        eprintln!("{}", escape_output(text.trim_end()));
    }
}

impl RunOutput for Human<'_> {
    fn note(&mut self, note: Option<Note>) -> Result<(), Error> {
        match note {
            Some(Note::Stage(stage, detail)) if self.verbose => {
                self.print_note(&stage_text(stage, &detail));
            }
            Some(Note::Progress(_, text)) if !self.quiet => self.print_note(&text),
            Some(Note::Warning(_, message)) => self.print_note(&format!("warning: {message}")),
            _ => {}
        }
        Ok(())
    }

    fn event(&mut self, event: &StreamEvent) -> Result<(), Error> {
        match event {
            StreamEvent::TextDelta { text } => {
                // The agent is not trusted, so control characters are escaped.
                let text = escape_output(text);
                self.midline = !text.ends_with('\n');
                let written = write!(self.out, "{text}").and_then(|()| self.out.flush());
                match written {
                    Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => {}
                    written => written.map_err(write_error)?,
                }
            }
            StreamEvent::Thought {
                plan: Some(plan), ..
            } if self.verbose => {
                self.print_note("plan:");
                for entry in plan {
                    self.print_note(&format!("  {}", entry.line()));
                }
            }
            StreamEvent::Thought { text, .. } if self.verbose => {
                self.print_note(&format!("thought: {text}"))
            }
            StreamEvent::ToolCall { id, name, .. } if !self.quiet => {
                self.print_note(&format!("tool: {name}"));
                self.tools.insert(id.clone(), name.clone());
            }
            StreamEvent::ToolResult { id, ok: false, .. } if !self.quiet => {
                let name = self.tools.get(id).unwrap_or(id).clone();
                self.print_note(&format!("tool failed: {name}"));
            }
            StreamEvent::AgentPrompt {
                message,
                tool,
                decision,
                ..
            } => {
                self.print_note(message);
                for line in tool.iter().flat_map(preview::lines) {
                    self.print_note(&format!("  {line}"));
                }
                let by_rule = decision.as_deref().map(|decision| match decision {
                    "deny" => "denied by a rule",
                    _ => "allowed by a rule",
                });
                if let Some(decision) = self.decision.or(by_rule) {
                    self.print_note(&format!("  {decision}"));
                }
            }
            StreamEvent::TurnEnd { reason, .. } if *reason != StopReason::EndTurn => {
                let reason = serde_json::to_value(reason).unwrap_or_default();
                self.print_note(&format!(
                    "the turn ended: {}",
                    reason.as_str().unwrap_or_default()
                ));
            }
            StreamEvent::Error {
                code,
                message,
                hint,
                ..
            } => {
                self.print_note(&format!("agentproto: {code}: {message}"));
                if let Some(hint) = hint {
                    self.print_note(&format!("  {hint}"));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn sessions(&mut self, list: &Value) -> Result<(), Error> {
        let sessions = list.as_array().map_or(&[][..], Vec::as_slice);
        let mut rows = vec![["SESSION", "UPDATED", "TITLE"].map(str::to_owned)];
        rows.extend(sessions.iter().map(|session| {
            ["sessionId", "updatedAt", "title"].map(|key| {
                escape_line(session.get(key).and_then(Value::as_str).unwrap_or("-")).into_owned()
            })
        }));
        if sessions.is_empty() {
            return writeln!(self.out, "no sessions").map_err(write_error);
        }
        let width = |column: fn(&[String; 3]) -> &String| {
            let widths = rows.iter().map(|row| column(row).chars().count());
            widths.max().unwrap_or(0)
        };
        let (id, updated) = (width(|[id, _, _]| id), width(|[_, updated, _]| updated));
        for [session, time, title] in &rows {
            writeln!(self.out, "{session:<id$}  {time:<updated$}  {title}").map_err(write_error)?;
        }
        Ok(())
    }

    fn can_ask(&self) -> bool {
        self.can_ask
    }

    fn finish(self: Box<Self>, ended: Result<RunEnd, Failure>) -> Outcome {
        if self.midline {
            writeln!(self.out).map_err(io_failure)?;
        }
        let ended = ended?;
        if self.verbose {
            if let Some(usage) = ended.usage_text() {
                eprintln!("usage: {usage}");
            }
            if let Some(session) = &ended.session {
                eprintln!("session: {}", escape_line(session));
            }
        }
        Ok(ended.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupt_takes_precedence_over_errors() {
        let ended = |interrupted, error_exit| RunEnd {
            session: Some("s".to_owned()),
            reason: Some(StopReason::Cancelled),
            interrupted,
            error_exit,
            ..RunEnd::default()
        };
        let summary = |ended: &RunEnd| Value::Object(ended.summary());
        for code in [exit::INTERRUPTED, exit::TERMINATED] {
            let ended = ended(Some(code), Some(exit::UNAVAILABLE));
            assert_eq!(ended.code(), code);
            assert_eq!(
                summary(&ended),
                json!({ "session_id": "s", "reason": "interrupted", "interrupted": true, "turn_reason": "cancelled" })
            );
        }
        let failed = ended(None, Some(exit::UNAVAILABLE));
        assert_eq!(failed.code(), exit::UNAVAILABLE);
        assert_eq!(
            summary(&failed),
            json!({ "session_id": "s", "reason": "cancelled" })
        );
        let early = RunEnd {
            interrupted: Some(exit::INTERRUPTED),
            ..RunEnd::default()
        };
        assert_eq!(
            summary(&early),
            json!({ "reason": "interrupted", "interrupted": true })
        );
    }

    #[test]
    fn usage_is_in_the_summary_and_in_one_line() {
        let mut ended = RunEnd::default();
        assert_eq!(ended.usage_text(), None);
        let end = json!({
            "type": "turn-end", "reason": "end_turn",
            "usage": { "inputTokens": 40, "outputTokens": 2, "other": 1 },
            "cost": { "amount": 0.25, "currency": "EUR" },
            "context": { "used": 500, "size": 1000 },
        });
        ended.note_end(&serde_json::from_value(end.clone()).expect("an event"));
        assert_eq!(
            ended.usage_text().as_deref(),
            Some("40 tokens in, 2 tokens out, context 500 of 1000, cost 0.25 EUR")
        );
        assert_eq!(
            Value::Object(ended.summary()),
            json!({
                "reason": "end_turn", "usage": { "inputTokens": 40, "outputTokens": 2 },
                "cost": end["cost"], "context": end["context"],
            })
        );
    }
}
