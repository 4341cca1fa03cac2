//! Runs the steps of a turn. A `TurnOutput` sends them as messages of one protocol.

use std::time::Duration;

use crate::faults;
use crate::scenario::{
    Elicitation, FsRead, Misbehavior, PermissionRequest, Placeholders, PlanEntry, ScenarioStep,
    TerminalCommand, ToolCall, ToolUpdate, Usage, fill_placeholders,
};

/// Why a turn ends before its last step.
#[derive(Debug)]
pub enum TurnEnd {
    Stop(String),
    Error {
        code: i64,
        message: String,
    },
    Cancelled,
    RequestCancelled,
    /// The turn is never answered.
    NoResponse,
}

pub type TurnResult = Result<(), TurnEnd>;

/// Decision of the client about a permission.
pub enum PermissionDecision {
    Allowed,
    Rejected,
    Failed,
}

/// Answer of the user to a question.
pub enum UserAnswer {
    Accepted(Placeholders),
    Declined,
    Dismissed,
    /// The client does not support questions.
    Unsupported,
}

pub trait TurnOutput {
    fn text(&mut self, text: &str) -> TurnResult;
    fn thought(&mut self, text: &str) -> TurnResult;
    fn tool_call(&mut self, call: &ToolCall) -> TurnResult;
    fn tool_update(&mut self, update: &ToolUpdate) -> TurnResult;
    fn plan(&mut self, entries: &[PlanEntry]) -> TurnResult;
    fn permission(&mut self, permission: &PermissionRequest)
    -> Result<PermissionDecision, TurnEnd>;
    /// Reads a file. Returns its content, or the reason for a failure.
    fn fs_read(&mut self, read: &FsRead) -> Result<Result<String, String>, TurnEnd>;
    fn fs_write(&mut self, path: &str, content: &str) -> Result<Result<(), String>, TurnEnd>;
    /// Runs a command. Returns its output, or the reason for a failure.
    fn terminal(&mut self, terminal: &TerminalCommand) -> Result<Result<String, String>, TurnEnd>;
    fn elicitation(&mut self, question: &Elicitation) -> Result<UserAnswer, TurnEnd>;
    fn pause(&mut self, time: Duration) -> TurnResult;
    /// Asks a model, if this protocol's mock can do that.
    fn model(&mut self) -> TurnResult {
        self.text("This mock agent does not ask models.")
    }
    fn mode(&mut self, mode: &str) -> TurnResult;
    fn title(&mut self, title: &str) -> TurnResult;
    fn usage(&mut self, usage: &Usage) -> TurnResult;
    fn compaction(&mut self, summary: &str) -> TurnResult;
    fn notice(&mut self, severity: &str, title: &str) -> TurnResult;
    /// Sends an extra response to the turn before the real one.
    fn answer_early(&mut self);
    /// Sends nothing more in this turn.
    fn hang(&mut self) -> TurnEnd;
    fn raw(&mut self, bytes: &[u8]);
    /// Sends a message with a text of `bytes` bytes on one line.
    fn huge_line(&mut self, bytes: u64) -> TurnResult;
    fn flood(&mut self, events: u64) -> TurnResult;
    fn cwd(&self) -> String;
}

pub struct TurnRunner<'a, S: TurnOutput> {
    pub output: &'a mut S,
    pub words: Placeholders,
    pub args: &'a [String],
}

/// Text bytes per event of a flood that is measured in bytes.
const FLOOD_CHUNK: u64 = 4096;

impl<S: TurnOutput> TurnRunner<'_, S> {
    fn fill_placeholders(&self, text: &str) -> String {
        fill_placeholders(text, &self.words)
    }

    /// Sets the value of a word, and replaces an earlier value.
    fn set_word(&mut self, word: &str, value: String) {
        self.words.retain(|(known, _)| known != word);
        self.words.push((word.to_owned(), value));
    }

    pub fn run(&mut self, steps: &[ScenarioStep]) -> TurnResult {
        steps.iter().try_for_each(|step| self.step(step))
    }

    fn step(&mut self, step: &ScenarioStep) -> TurnResult {
        match step {
            ScenarioStep::Text(texts) => {
                let texts: Vec<String> = texts
                    .iter()
                    .map(|text| self.fill_placeholders(text))
                    .collect();
                texts.iter().try_for_each(|text| self.output.text(text))
            }
            ScenarioStep::Thought(texts) => {
                let texts: Vec<String> = texts
                    .iter()
                    .map(|text| self.fill_placeholders(text))
                    .collect();
                texts.iter().try_for_each(|text| self.output.thought(text))
            }
            ScenarioStep::Echo { prefix, chunks } => {
                let text = format!(
                    "{}{}",
                    self.fill_placeholders(prefix),
                    self.fill_placeholders("{prompt}")
                );
                let parts = split(&text, *chunks);
                parts.iter().try_for_each(|part| self.output.text(part))
            }
            ScenarioStep::ToolCall(call) => {
                let call = ToolCall {
                    id: call.id.clone(),
                    title: self.fill_placeholders(&call.title),
                    kind: call.kind.clone(),
                    status: call.status.clone(),
                    input: call.input.clone(),
                    path: call
                        .path
                        .as_deref()
                        .map(|path| self.fill_placeholders(path)),
                    line: call.line,
                };
                self.output.tool_call(&call)
            }
            ScenarioStep::ToolUpdate(update) => {
                let update = ToolUpdate {
                    id: update.id.clone(),
                    status: update.status.clone(),
                    text: update
                        .text
                        .as_deref()
                        .map(|text| self.fill_placeholders(text)),
                    output: update.output.clone(),
                };
                self.output.tool_update(&update)
            }
            ScenarioStep::Plan(entries) => self.output.plan(entries),
            ScenarioStep::Permission(permission) => match self.output.permission(permission)? {
                PermissionDecision::Allowed => self.run(&permission.on_allow),
                PermissionDecision::Rejected => self.run(&permission.on_reject),
                PermissionDecision::Failed => self.run(&permission.on_error),
            },
            ScenarioStep::FsRead(read) => {
                let read = FsRead {
                    path: self.fill_placeholders(&read.path),
                    line: read.line,
                    limit: read.limit,
                };
                let outcome = self.output.fs_read(&read)?;
                self.set_word("result", outcome.unwrap_or_else(|reason| reason));
                Ok(())
            }
            ScenarioStep::FsWrite { path, content } => {
                let (path, content) = (
                    self.fill_placeholders(path),
                    self.fill_placeholders(content),
                );
                let outcome = self.output.fs_write(&path, &content)?;
                let result = outcome.map_or_else(|reason| reason, |()| format!("wrote {path}"));
                self.set_word("result", result);
                Ok(())
            }
            ScenarioStep::Terminal(terminal) => {
                let mut args: Vec<String> = terminal
                    .args
                    .iter()
                    .map(|arg| self.fill_placeholders(arg))
                    .collect();
                if terminal.split_args {
                    let words = args.iter().flat_map(|arg| arg.split_whitespace());
                    args = words.map(str::to_owned).collect();
                }
                let terminal = TerminalCommand {
                    command: self.fill_placeholders(&terminal.command),
                    args,
                    split_args: false,
                    env: terminal.env.clone(),
                    output_byte_limit: terminal.output_byte_limit,
                    kill: terminal.kill,
                };
                let outcome = self.output.terminal(&terminal)?;
                self.set_word("result", outcome.unwrap_or_else(|reason| reason));
                Ok(())
            }
            ScenarioStep::Elicitation(question) => match self.output.elicitation(question)? {
                UserAnswer::Accepted(words) => {
                    for (word, value) in words {
                        self.set_word(&word, value);
                    }
                    self.run(&question.on_accept)
                }
                UserAnswer::Declined => self.run(&question.on_decline),
                UserAnswer::Dismissed => self.run(&question.on_cancel),
                UserAnswer::Unsupported => self.output.text("The client takes no questions."),
            },
            ScenarioStep::DelayMs(ms) => self.output.pause(Duration::from_millis(*ms)),
            ScenarioStep::Env(name) => {
                let name = self.fill_placeholders(name);
                let text = match std::env::var_os(&name) {
                    Some(value) => format!("{name}={}", value.to_string_lossy()),
                    None => format!("{name} is not set"),
                };
                self.output.text(&text)
            }
            ScenarioStep::Argv => {
                let text = serde_json::to_string(self.args).unwrap_or_default();
                self.output.text(&text)
            }
            ScenarioStep::Cwd => {
                let cwd = self.output.cwd();
                self.output.text(&cwd)
            }
            ScenarioStep::Error { code, message } => Err(TurnEnd::Error {
                code: *code,
                message: self.fill_placeholders(message),
            }),
            ScenarioStep::Stop(reason) => Err(TurnEnd::Stop(reason.clone())),
            ScenarioStep::Model => self.output.model(),
            ScenarioStep::Mode(mode) => {
                let mode = self.fill_placeholders(mode);
                self.output.mode(&mode)
            }
            ScenarioStep::Title(title) => {
                let title = self.fill_placeholders(title);
                self.output.title(&title)
            }
            ScenarioStep::Usage(usage) => self.output.usage(usage),
            ScenarioStep::Compaction(summary) => {
                let summary = self.fill_placeholders(summary);
                self.output.compaction(&summary)
            }
            ScenarioStep::Notice { severity, title } => {
                let title = self.fill_placeholders(title);
                self.output.notice(severity, &title)
            }
            ScenarioStep::Repeat { times, steps } => {
                for round in 1..=*times {
                    self.set_word("round", round.to_string());
                    self.run(steps)?;
                }
                Ok(())
            }
            ScenarioStep::Misbehavior(misbehave) => self.misbehave(misbehave),
        }
    }

    fn misbehave(&mut self, misbehave: &Misbehavior) -> TurnResult {
        match misbehave {
            Misbehavior::Exit(code) => faults::exit(*code),
            Misbehavior::Signal(signal) => faults::kill_self(*signal),
            Misbehavior::Garbage(text) => self.output.raw(format!("{text}\n").as_bytes()),
            Misbehavior::InvalidUtf8 => self
                .output
                .raw(b"{\"jsonrpc\":\"2.0\",\"method\":\"\xff\xfe\"}\n"),
            Misbehavior::HalfLine => self.output.raw(b"{\"jsonrpc\":\"2.0\",\"meth"),
            Misbehavior::FloodEvents(events) => self.output.flood(*events)?,
            Misbehavior::FloodBytes(bytes) => {
                for _ in 0..bytes.div_ceil(FLOOD_CHUNK) {
                    self.output.huge_line(FLOOD_CHUNK)?;
                }
            }
            Misbehavior::HugeLine(bytes) => self.output.huge_line(*bytes)?,
            Misbehavior::StderrFlood(bytes) => faults::stderr_flood(*bytes),
            Misbehavior::Hang => return Err(self.output.hang()),
            Misbehavior::AnswerTwice => self.output.answer_early(),
            Misbehavior::IgnoreSigterm => faults::ignore_sigterm(),
            Misbehavior::Daemon {
                seconds,
                hold_output,
            } => faults::daemon(*seconds, *hold_output),
        }
        Ok(())
    }
}

/// Reads the answer to a form. The field values become words for later texts.
pub fn reply(result: &serde_json::Value) -> UserAnswer {
    match result.get("action").and_then(serde_json::Value::as_str) {
        Some("accept") => {
            let content = result.get("content").and_then(serde_json::Value::as_object);
            let words = content.into_iter().flatten().map(|(name, value)| {
                let text = value
                    .as_str()
                    .map_or_else(|| value.to_string(), str::to_owned);
                (name.clone(), text)
            });
            UserAnswer::Accepted(words.collect())
        }
        Some("decline") => UserAnswer::Declined,
        _ => UserAnswer::Dismissed,
    }
}

/// Maximum size in bytes of a file that the mock reads.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// Reads a file directly, without the client.
pub fn small_file(path: &std::path::Path) -> std::io::Result<String> {
    if std::fs::metadata(path)?.len() > MAX_FILE_BYTES {
        return Err(std::io::Error::other("the file is too large"));
    }
    std::fs::read_to_string(path)
}

/// Splits a text into at most `parts` parts of nearly the same length, and never within a
/// character.
pub fn split(text: &str, parts: usize) -> Vec<&str> {
    let length = text.chars().count().max(1);
    let size = length.div_ceil(parts.max(1));
    let mut cut = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.char_indices().nth(size).map_or(rest.len(), |(i, _)| i);
        let (head, tail) = rest.split_at(end);
        cut.push(head);
        rest = tail;
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn texts_are_split_between_characters() {
        assert_eq!(split("äöüß", 2), ["äö", "üß"]);
        assert_eq!(split("abcd", 3), ["ab", "cd"]);
        assert_eq!(split("a", 3), ["a"]);
        assert!(split("", 3).is_empty());
    }
}
