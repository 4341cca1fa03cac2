//! Output of a run, for a person or for a program.

use std::io::Write;
use std::time::Instant;

use serde_json::{Map, Value, json};

use super::Ended;
use crate::cli::agents::exit_codes;
use crate::cli::agents::notes::Note;
use crate::cli::{Failure, Outcome, io_failure};
use crate::exit;
use agentproto_report::aoi::{self, Emitter, object};
use agentproto_report::event::Event;
use agentproto_runtime::{Code, Fault, StopReason, StreamEvent};
use agentproto_text::{plain, speech};

impl Ended {
    /// An interrupt takes precedence over any error that it causes.
    fn code(&self) -> u8 {
        self.interrupted.or(self.told).unwrap_or(exit::CLEAN)
    }

    fn summary(&self) -> Map<String, Value> {
        let reason = if self.interrupted.is_some() {
            json!({ "reason": "interrupted", "interrupted": true, "turn_reason": self.reason })
        } else {
            json!({ "reason": self.reason })
        };
        let mut fields = object(json!({ "session_id": self.session }));
        fields.extend(object(reason));
        // Unknown values are left out.
        fields.retain(|_, value| !value.is_null());
        fields
    }
}

/// Output of a run, for a person or for a program.
pub trait Face {
    fn note(&mut self, note: Option<Note>) -> Result<(), Fault>;
    fn event(&mut self, event: &StreamEvent) -> Result<(), Fault>;
    fn sessions(&mut self, list: &Value) -> Result<(), Fault>;
    /// Whether the user can be asked.
    fn asks(&self) -> bool;
    fn finish(self: Box<Self>, ended: Result<Ended, Fault>) -> Outcome;
}

fn unwritten(error: std::io::Error) -> Fault {
    Fault::new(
        Code::StateUnwritable,
        format!("the output cannot be written: {error}"),
    )
}

pub struct Machine<'w> {
    pub emitter: Emitter<'w>,
    pub began: Instant,
}

impl Face for Machine<'_> {
    fn note(&mut self, note: Option<Note>) -> Result<(), Fault> {
        let done = match note {
            Some(note) => note.emit(&mut self.emitter),
            None => Ok(()),
        };
        done.map_err(unwritten)
    }

    fn event(&mut self, event: &StreamEvent) -> Result<(), Fault> {
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
            let failure = aoi::Failure {
                code,
                category,
                message,
                retryable: category.is_retryable(),
                hint: hint.as_deref(),
            };
            return self.emitter.error(&failure).map_err(unwritten);
        }
        let kind = match event {
            StreamEvent::TextDelta { .. } => Event::TextDelta,
            StreamEvent::Thought { .. } => Event::Thought,
            StreamEvent::ToolCall { .. } => Event::ToolCall,
            StreamEvent::ToolResult { .. } => Event::ToolResult,
            StreamEvent::AgentPrompt { .. } => Event::AgentPrompt,
            StreamEvent::TurnEnd { .. } => Event::TurnEnd,
            StreamEvent::Error { .. } => return Ok(()),
        };
        let fields = object(serde_json::to_value(event).unwrap_or_default());
        self.emitter.event(kind, &fields).map_err(unwritten)
    }

    fn sessions(&mut self, list: &Value) -> Result<(), Fault> {
        for session in list.as_array().into_iter().flatten() {
            self.emitter
                .event(Event::Session, &object(session.clone()))
                .map_err(unwritten)?;
        }
        Ok(())
    }

    fn asks(&self) -> bool {
        false
    }

    fn finish(mut self: Box<Self>, ended: Result<Ended, Fault>) -> Outcome {
        let elapsed = self.began.elapsed();
        let ended = ended?;
        let code = ended.code();
        // `--list-sessions` has already printed the sessions.
        if let (Some(id), Some(_)) = (&ended.session, ended.reason) {
            let fields = object(json!({ "id": id, "sessionId": id }));
            self.emitter
                .event(Event::Session, &fields)
                .map_err(io_failure)?;
        }
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
    pub asks: bool,
}

impl Human<'_> {
    fn aside(&mut self, text: &str) {
        if self.midline {
            let _ = writeln!(self.out);
            let _ = self.out.flush();
            self.midline = false;
        }
        eprintln!("{}", speech(text.trim_end()));
    }
}

impl Face for Human<'_> {
    fn note(&mut self, note: Option<Note>) -> Result<(), Fault> {
        match note {
            Some(Note::Stage(stage, detail)) if self.verbose => {
                self.aside(&format!("[{}] {detail}", stage.as_str()));
            }
            Some(Note::Progress(_, text)) if !self.quiet => self.aside(&text),
            Some(Note::Warning(_, message)) => self.aside(&format!("warning: {message}")),
            _ => {}
        }
        Ok(())
    }

    fn event(&mut self, event: &StreamEvent) -> Result<(), Fault> {
        match event {
            StreamEvent::TextDelta { text } => {
                // The agent is not trusted, so control characters are escaped.
                let text = speech(text);
                self.midline = !text.ends_with('\n');
                let written = write!(self.out, "{text}").and_then(|()| self.out.flush());
                match written {
                    Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => {}
                    written => written.map_err(unwritten)?,
                }
            }
            StreamEvent::Thought { text } if self.verbose => {
                self.aside(&format!("thought: {text}"))
            }
            StreamEvent::ToolCall { name, .. } if !self.quiet => {
                self.aside(&format!("tool: {name}"))
            }
            StreamEvent::ToolResult { id, ok: false, .. } if !self.quiet => {
                self.aside(&format!("tool {id} failed"));
            }
            StreamEvent::AgentPrompt { message, .. } => self.aside(message),
            StreamEvent::TurnEnd { reason } if *reason != StopReason::EndTurn => {
                let reason = serde_json::to_value(reason).unwrap_or_default();
                self.aside(&format!(
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
                self.aside(&format!("agentproto: {code}: {message}"));
                if let Some(hint) = hint {
                    self.aside(&format!("  {hint}"));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn sessions(&mut self, list: &Value) -> Result<(), Fault> {
        for session in list.as_array().into_iter().flatten() {
            let text = |key: &str| {
                plain(session.get(key).and_then(Value::as_str).unwrap_or("-")).into_owned()
            };
            writeln!(
                self.out,
                "{}  {}  {}",
                text("sessionId"),
                text("updatedAt"),
                text("title")
            )
            .map_err(unwritten)?;
        }
        Ok(())
    }

    fn asks(&self) -> bool {
        self.asks
    }

    fn finish(self: Box<Self>, ended: Result<Ended, Fault>) -> Outcome {
        if self.midline {
            writeln!(self.out).map_err(io_failure)?;
        }
        let ended = ended?;
        if self.verbose
            && let Some(session) = &ended.session
        {
            eprintln!("session: {}", plain(session));
        }
        Ok(ended.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupt_takes_precedence_over_errors() {
        let ended = |interrupted, told| Ended {
            session: Some("s".to_owned()),
            reason: Some(StopReason::Cancelled),
            interrupted,
            told,
        };
        let summary = |ended: &Ended| Value::Object(ended.summary());
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
        let early = Ended {
            interrupted: Some(exit::INTERRUPTED),
            ..Ended::default()
        };
        assert_eq!(
            summary(&early),
            json!({ "reason": "interrupted", "interrupted": true })
        );
    }
}
