//! Waits for the end of a turn, and prints the answer while it arrives.

use std::io::Write;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use serde_json::{Value, json};

use super::find;
use super::stream::{ClientEvent, exit_code};
use crate::cli::agents::client::{Client, Frame, percent_encode};
use crate::cli::agents::exit_codes;
use crate::cli::agents::notes::Note;
use crate::cli::agents::run::RunEnd;
use crate::cli::agents::run::conversation::question;
use crate::cli::agents::run::output::RunOutput;
use crate::cli::agents::run::questions::{Questions, ask};
use crate::cli::{Failure, Outcome, io_failure};
use crate::exit;
use agentproto_runtime::arm::permissions::Answer;
use agentproto_runtime::{Code, Error, StopReason, StreamEvent};

/// Pause in the stream after which a session without a turn is asked for its state.
const IDLE_LIMIT: Duration = Duration::from_secs(1);

/// Maximum length of an answer in a JSON document, in bytes.
const MAX_ANSWER_BYTES: usize = 64 << 20;

/// One turn of a session.
pub struct Turn<'a> {
    pub client: &'a Client,
    pub id: &'a str,
    /// For the answers of the user.
    pub sender: Sender<ClientEvent>,
    pub receiver: &'a Receiver<ClientEvent>,
}

impl Turn<'_> {
    /// Follows the turn of the next prompt on the stream to its end.
    pub fn follow(&self, output: &mut dyn RunOutput) -> Result<RunEnd, Failure> {
        let mut ended = RunEnd {
            session: Some(self.id.to_owned()),
            ..RunEnd::default()
        };
        output.opened(self.id);
        let mut questions = Questions::default();
        let mut open: Vec<String> = Vec::new();
        let mut is_started = false;
        // The session had no turn before ours, or ours was canceled before the agent was ready.
        let mut is_idle = false;
        loop {
            let event = match is_idle {
                false => self.receiver.recv().map_err(RecvTimeoutError::from),
                true => self.receiver.recv_timeout(IDLE_LIMIT),
            };
            let event = match event {
                Ok(event) => event,
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    is_idle = false;
                    if self.client.get(&find::path(self.id, ""))?["busy"] == true {
                        continue;
                    }
                    ended.reason = Some(StopReason::Cancelled);
                    output.event(&StreamEvent::turn_end(StopReason::Cancelled))?;
                    return Ok(ended);
                }
            };
            match event {
                ClientEvent::Frame(frame) => match frame.event.as_str() {
                    "prompt" => (is_started, is_idle) = (true, false),
                    "permission" if frame.data["closed"] == true => {
                        open.retain(|id| frame.data["id"] != **id);
                    }
                    "permission" if is_started => {
                        open.push(find::id_of(&frame.data));
                        match output.can_ask() {
                            true => questions.add(question(&frame.data)),
                            false => self.announce(&frame.data, output)?,
                        }
                    }
                    "event" if is_started => {
                        let is_last = self.event(frame, output, &mut ended)?;
                        if is_last {
                            return Ok(ended);
                        }
                    }
                    // The event of the end comes before this one.
                    "status" if is_started && frame.data["busy"] == false => {
                        return Err(end_missing());
                    }
                    "status" if !is_started => is_idle = frame.data["busy"] == false,
                    "gap" if is_started => {
                        let what = match frame.data["reason"] == "not_stored" {
                            true => {
                                "the daemon could not store the output so far (is its disk full?)"
                            }
                            false => {
                                "some output is missing: the daemon sent it faster than it was read"
                            }
                        };
                        output.note(Some(Note::Warning("gap".to_owned(), what.to_owned())))?;
                    }
                    "end" => return Err(self.ended_early()),
                    _ => {}
                },
                ClientEvent::Answered(id, answer) => {
                    questions.answered();
                    self.answer(&id, answer, output)?;
                }
                ClientEvent::Lost(failure) => return Err(failure),
                ClientEvent::Signal(signal) => {
                    if ended.interrupted.replace(exit_code(signal)).is_some() {
                        return Ok(ended);
                    }
                    // On a thread: a host that does not respond must not delay the second signal.
                    // If the host is gone, the stream reports it.
                    let (client, path) = (self.client.clone(), find::path(self.id, "/interrupt"));
                    std::thread::spawn(move || client.post(&path, &json!({})));
                }
                ClientEvent::Open | ClientEvent::Typed(_) | ClientEvent::Closed => {}
            }
            if let Some(question) = questions.next(|id| open.iter().any(|known| known == id)) {
                self.ask(question, output)?;
            }
        }
        Err(Failure::new(
            exit::INTERNAL,
            "the stream of the session ended early",
        ))
    }

    /// Handles one event. Returns whether it is the last one of the turn.
    fn event(
        &self,
        frame: Frame,
        output: &mut dyn RunOutput,
        ended: &mut RunEnd,
    ) -> Result<bool, Failure> {
        // Later versions may add events.
        let Ok(event) = serde_json::from_value::<StreamEvent>(frame.data) else {
            return Ok(false);
        };
        match &event {
            StreamEvent::TurnEnd { .. } => ended.note_end(&event),
            StreamEvent::Error { code, .. } => {
                let known = code.parse::<Code>();
                ended.error_exit = Some(known.map_or(exit::FINDINGS, exit_codes::of));
            }
            StreamEvent::AgentPrompt { decision, .. } => match decision.as_deref() {
                Some("deny") => ended.denied += 1,
                Some(_) => {}
                // The same question follows as `permission`, if it is open.
                None => return Ok(false),
            },
            _ => {}
        }
        output.event(&event)?;
        Ok(event.is_last())
    }

    /// Reports a question that somebody else has to answer.
    fn announce(&self, data: &Value, output: &mut dyn RunOutput) -> Result<(), Failure> {
        output.event(&question(data))?;
        let what = format!(
            "the agent waits for an answer: `agentproto sessions answer {}`",
            self.id
        );
        output.note(Some(Note::Warning("answer_required".to_owned(), what)))?;
        Ok(())
    }

    fn ask(&self, question: StreamEvent, output: &mut dyn RunOutput) -> Result<(), Failure> {
        output.event(&question)?;
        if let StreamEvent::AgentPrompt {
            id,
            options,
            schema,
            ..
        } = question
        {
            let sender = self.sender.clone();
            ask(id, options, schema, move |(id, answer)| {
                let _ = sender.send(ClientEvent::Answered(id, answer));
            });
        }
        Ok(())
    }

    fn answer(&self, id: &str, answer: Answer, output: &mut dyn RunOutput) -> Result<(), Failure> {
        let body = match answer {
            Answer::Choice(id) => json!({ "optionId": id }),
            Answer::Content(content) => json!({ "content": content }),
            Answer::Declined | Answer::Cancelled => json!({ "cancelled": true }),
        };
        let path = find::path(self.id, &format!("/permissions/{}", percent_encode(id)));
        match self.client.post(&path, &body) {
            // Somebody else was faster, or the turn has ended.
            Err(failure) if failure.code == exit::NO_INPUT => {
                let late = "the question was no longer open; the answer was not used";
                let code = "question_closed".to_owned();
                output.note(Some(Note::Warning(code, late.to_owned())))?;
                Ok(())
            }
            answered => answered.map(drop),
        }
    }

    /// The session ended before the turn did. The record says why.
    fn ended_early(&self) -> Failure {
        let record = self
            .client
            .get(&find::path(self.id, ""))
            .unwrap_or_default();
        let why = match (record["status"].as_str(), record["reason"].as_str()) {
            (_, Some(reason)) => format!(": {reason}"),
            (Some(status), None) => format!(": it is `{status}`"),
            (None, None) => String::new(),
        };
        Failure::new(
            exit::UNAVAILABLE,
            format!("session `{}` ended before its turn{why}", self.id),
        )
        .typed(Code::AgentExited.as_str())
        .hint("`agentproto sessions export ID` prints what happened")
    }
}

/// The turn has ended, but its last event is in a gap of the stream.
fn end_missing() -> Failure {
    Failure::new(
        exit::UNAVAILABLE,
        "the turn has ended, but its end is missing in the stream",
    )
    .typed("host_unavailable")
    .hint("`agentproto sessions export ID` prints the stored history")
}

/// The answer as one JSON document.
pub struct Document<'w> {
    pub out: &'w mut dyn Write,
    pub text: String,
    pub truncated: bool,
    pub end: Value,
}

impl<'w> Document<'w> {
    pub fn new(out: &'w mut dyn Write) -> Self {
        Document {
            out,
            text: String::new(),
            truncated: false,
            end: Value::Null,
        }
    }
}

impl RunOutput for Document<'_> {
    fn note(&mut self, note: Option<Note>) -> Result<(), Error> {
        if let Some(Note::Warning(_, message)) = note {
            eprintln!("warning: {}", agentproto_text::escape_line(&message));
        }
        Ok(())
    }

    fn event(&mut self, event: &StreamEvent) -> Result<(), Error> {
        match event {
            StreamEvent::TextDelta { text } => {
                match self.text.len() + text.len() <= MAX_ANSWER_BYTES {
                    true => self.text.push_str(text),
                    false => self.truncated = true,
                }
            }
            event if event.is_last() => self.end = serde_json::to_value(event).unwrap_or_default(),
            _ => {}
        }
        Ok(())
    }

    fn sessions(&mut self, _: &Value) -> Result<(), Error> {
        Ok(())
    }

    fn can_ask(&self) -> bool {
        false
    }

    fn finish(self: Box<Self>, ended: Result<RunEnd, Failure>) -> Outcome {
        let ended = ended?;
        let mut document = json!({
            "id": ended.session, "text": self.text, "truncated": self.truncated,
        });
        for name in ["reason", "usage", "code", "message", "hint"] {
            if let Some(value) = self.end.get(name) {
                document[name] = value.clone();
            }
        }
        let text = agentproto_text::pretty(&document).map_err(io_failure)?;
        writeln!(self.out, "{text}").map_err(io_failure)?;
        Ok(ended.code())
    }
}
