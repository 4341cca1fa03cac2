//! Plays the steps of a turn on a `Stage`, which sends them in the messages of one protocol.

use std::time::Duration;

use crate::faults;
use crate::scenario::{
    Elicitation, Fault, FsRead, Permission, PlanEntry, Step, Terminal, ToolCall, ToolUpdate, Usage,
    Words, fill,
};

/// Why a turn ends before its last step.
#[derive(Debug)]
pub enum End {
    Stop(String),
    Error {
        code: i64,
        message: String,
    },
    Cancelled,
    RequestCancelled,
    /// The turn is never answered.
    Silence,
}

pub type Played = Result<(), End>;

/// Decision of the client about a permission.
pub enum Decision {
    Allowed,
    Rejected,
    Failed,
}

/// Answer of the user to a question.
pub enum Reply {
    Accepted(Words),
    Declined,
    Dismissed,
    /// The client does not support questions.
    Unasked,
}

pub trait Stage {
    fn text(&mut self, text: &str) -> Played;
    fn thought(&mut self, text: &str) -> Played;
    fn tool_call(&mut self, call: &ToolCall) -> Played;
    fn tool_update(&mut self, update: &ToolUpdate) -> Played;
    fn plan(&mut self, entries: &[PlanEntry]) -> Played;
    fn permission(&mut self, permission: &Permission) -> Result<Decision, End>;
    /// Reads a file. Returns its content, or the reason for a failure.
    fn fs_read(&mut self, read: &FsRead) -> Result<Result<String, String>, End>;
    fn fs_write(&mut self, path: &str, content: &str) -> Result<Result<(), String>, End>;
    /// Runs a command. Returns its output, or the reason for a failure.
    fn terminal(&mut self, terminal: &Terminal) -> Result<Result<String, String>, End>;
    fn elicitation(&mut self, question: &Elicitation) -> Result<Reply, End>;
    fn pause(&mut self, time: Duration) -> Played;
    fn mode(&mut self, mode: &str) -> Played;
    fn title(&mut self, title: &str) -> Played;
    fn usage(&mut self, usage: &Usage) -> Played;
    fn compaction(&mut self, summary: &str) -> Played;
    fn notice(&mut self, severity: &str, title: &str) -> Played;
    /// Sends an extra response to the turn before the real one.
    fn answer_early(&mut self);
    /// Sends nothing more in this turn.
    fn hang(&mut self) -> End;
    fn raw(&mut self, bytes: &[u8]);
    /// Sends a message with a text of `bytes` bytes on one line.
    fn huge_line(&mut self, bytes: u64) -> Played;
    fn flood(&mut self, events: u64) -> Played;
    fn cwd(&self) -> String;
}

pub struct Player<'a, S: Stage> {
    pub stage: &'a mut S,
    pub words: Words,
    pub args: &'a [String],
}

/// Text bytes per event of a flood that is measured in bytes.
const FLOOD_CHUNK: u64 = 4096;

impl<S: Stage> Player<'_, S> {
    fn fill(&self, text: &str) -> String {
        fill(text, &self.words)
    }

    /// Sets the value of a word, and replaces an earlier value.
    fn learn(&mut self, word: &str, value: String) {
        self.words.retain(|(known, _)| known != word);
        self.words.push((word.to_owned(), value));
    }

    pub fn play(&mut self, steps: &[Step]) -> Played {
        steps.iter().try_for_each(|step| self.step(step))
    }

    fn step(&mut self, step: &Step) -> Played {
        match step {
            Step::Text(texts) => {
                let texts: Vec<String> = texts.iter().map(|text| self.fill(text)).collect();
                texts.iter().try_for_each(|text| self.stage.text(text))
            }
            Step::Thought(texts) => {
                let texts: Vec<String> = texts.iter().map(|text| self.fill(text)).collect();
                texts.iter().try_for_each(|text| self.stage.thought(text))
            }
            Step::Echo { prefix, chunks } => {
                let text = format!("{}{}", self.fill(prefix), self.fill("{prompt}"));
                let parts = split(&text, *chunks);
                parts.iter().try_for_each(|part| self.stage.text(part))
            }
            Step::ToolCall(call) => {
                let call = ToolCall {
                    id: call.id.clone(),
                    title: self.fill(&call.title),
                    kind: call.kind.clone(),
                    status: call.status.clone(),
                    input: call.input.clone(),
                    path: call.path.as_deref().map(|path| self.fill(path)),
                    line: call.line,
                };
                self.stage.tool_call(&call)
            }
            Step::ToolUpdate(update) => {
                let update = ToolUpdate {
                    id: update.id.clone(),
                    status: update.status.clone(),
                    text: update.text.as_deref().map(|text| self.fill(text)),
                    output: update.output.clone(),
                };
                self.stage.tool_update(&update)
            }
            Step::Plan(entries) => self.stage.plan(entries),
            Step::Permission(permission) => match self.stage.permission(permission)? {
                Decision::Allowed => self.play(&permission.on_allow),
                Decision::Rejected => self.play(&permission.on_reject),
                Decision::Failed => self.play(&permission.on_error),
            },
            Step::FsRead(read) => {
                let read = FsRead {
                    path: self.fill(&read.path),
                    line: read.line,
                    limit: read.limit,
                };
                let outcome = self.stage.fs_read(&read)?;
                self.learn("result", outcome.unwrap_or_else(|reason| reason));
                Ok(())
            }
            Step::FsWrite { path, content } => {
                let (path, content) = (self.fill(path), self.fill(content));
                let outcome = self.stage.fs_write(&path, &content)?;
                let result = outcome.map_or_else(|reason| reason, |()| format!("wrote {path}"));
                self.learn("result", result);
                Ok(())
            }
            Step::Terminal(terminal) => {
                let terminal = Terminal {
                    command: self.fill(&terminal.command),
                    args: terminal.args.iter().map(|arg| self.fill(arg)).collect(),
                    env: terminal.env.clone(),
                    output_byte_limit: terminal.output_byte_limit,
                    kill: terminal.kill,
                };
                let outcome = self.stage.terminal(&terminal)?;
                self.learn("result", outcome.unwrap_or_else(|reason| reason));
                Ok(())
            }
            Step::Elicitation(question) => match self.stage.elicitation(question)? {
                Reply::Accepted(words) => {
                    for (word, value) in words {
                        self.learn(&word, value);
                    }
                    self.play(&question.on_accept)
                }
                Reply::Declined => self.play(&question.on_decline),
                Reply::Dismissed => self.play(&question.on_cancel),
                Reply::Unasked => self.stage.text("The client takes no questions."),
            },
            Step::DelayMs(ms) => self.stage.pause(Duration::from_millis(*ms)),
            Step::Env(name) => {
                let name = self.fill(name);
                let text = match std::env::var_os(&name) {
                    Some(value) => format!("{name}={}", value.to_string_lossy()),
                    None => format!("{name} is not set"),
                };
                self.stage.text(&text)
            }
            Step::Argv => {
                let text = serde_json::to_string(self.args).unwrap_or_default();
                self.stage.text(&text)
            }
            Step::Cwd => {
                let cwd = self.stage.cwd();
                self.stage.text(&cwd)
            }
            Step::Error { code, message } => Err(End::Error {
                code: *code,
                message: self.fill(message),
            }),
            Step::Stop(reason) => Err(End::Stop(reason.clone())),
            Step::Mode(mode) => {
                let mode = self.fill(mode);
                self.stage.mode(&mode)
            }
            Step::Title(title) => {
                let title = self.fill(title);
                self.stage.title(&title)
            }
            Step::Usage(usage) => self.stage.usage(usage),
            Step::Compaction(summary) => {
                let summary = self.fill(summary);
                self.stage.compaction(&summary)
            }
            Step::Notice { severity, title } => {
                let title = self.fill(title);
                self.stage.notice(severity, &title)
            }
            Step::Repeat { times, steps } => {
                for round in 1..=*times {
                    self.learn("round", round.to_string());
                    self.play(steps)?;
                }
                Ok(())
            }
            Step::Fault(fault) => self.fault(fault),
        }
    }

    fn fault(&mut self, fault: &Fault) -> Played {
        match fault {
            Fault::Exit(code) => faults::exit(*code),
            Fault::Signal(signal) => faults::die_by(*signal),
            Fault::Garbage(text) => self.stage.raw(format!("{text}\n").as_bytes()),
            Fault::InvalidUtf8 => self
                .stage
                .raw(b"{\"jsonrpc\":\"2.0\",\"method\":\"\xff\xfe\"}\n"),
            Fault::HalfLine => self.stage.raw(b"{\"jsonrpc\":\"2.0\",\"meth"),
            Fault::FloodEvents(events) => self.stage.flood(*events)?,
            Fault::FloodBytes(bytes) => {
                for _ in 0..bytes.div_ceil(FLOOD_CHUNK) {
                    self.stage.huge_line(FLOOD_CHUNK)?;
                }
            }
            Fault::HugeLine(bytes) => self.stage.huge_line(*bytes)?,
            Fault::StderrFlood(bytes) => faults::stderr_flood(*bytes),
            Fault::Hang => return Err(self.stage.hang()),
            Fault::AnswerTwice => self.stage.answer_early(),
            Fault::IgnoreSigterm => faults::ignore_sigterm(),
            Fault::Daemon {
                seconds,
                hold_output,
            } => faults::daemon(*seconds, *hold_output),
        }
        Ok(())
    }
}

/// Reads the answer to a form. The field values become words for later texts.
pub fn reply(result: &serde_json::Value) -> Reply {
    match result.get("action").and_then(serde_json::Value::as_str) {
        Some("accept") => {
            let content = result.get("content").and_then(serde_json::Value::as_object);
            let words = content.into_iter().flatten().map(|(name, value)| {
                let text = value
                    .as_str()
                    .map_or_else(|| value.to_string(), str::to_owned);
                (name.clone(), text)
            });
            Reply::Accepted(words.collect())
        }
        Some("decline") => Reply::Declined,
        _ => Reply::Dismissed,
    }
}

/// Maximum size in bytes of a file that the mock reads.
const LARGEST_FILE: u64 = 16 << 20;

/// Reads a file directly, without the client.
pub fn small_file(path: &std::path::Path) -> std::io::Result<String> {
    if std::fs::metadata(path)?.len() > LARGEST_FILE {
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
