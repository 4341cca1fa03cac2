//! The REPL mock: imitates command-line agents that print their turns as JSON lines.
//!
//! It supports two dialects, based on the public documentation and the tools themselves:
//! - `claude`: the output of Claude Code 2.1 with `-p --output-format stream-json --verbose`:
//!   `system`/`init`, `assistant` with content blocks, `user` with tool results, `result`. With
//!   `--include-partial-messages` also `stream_event`. Prompts are an argument, plain stdin, or
//!   `user` lines with `--input-format stream-json`. There, a `control_request` with the subtype
//!   `interrupt` ends the turn.
//! - `gemini`: the output of Gemini CLI 0.6x with `-p TEXT --output-format stream-json`: `init`,
//!   `message` with `delta`, `tool_use`, `tool_result`, `error`, `result`.
//!
//! `--resume ID` continues a conversation that an earlier process saved.

mod output;

use std::collections::VecDeque;
use std::io::{self, BufRead, Read};
use std::sync::mpsc::{Sender, channel};

use serde_json::{Value, json};

use crate::AgentConfig;
use crate::mailbox::Mailbox;
use crate::rpc::{RpcPeer, TurnSignal};
use crate::scenario::Scenario;
use crate::store::{SessionStore, StoredSession, now};
use crate::turn::TurnRunner;
use output::{OutputFormat, ReplOutput};

/// Maximum length of a prompt in bytes. The rest is cut off.
const MAX_PROMPT_BYTES: u64 = 64 << 20;

/// Arguments that the mock interprets. All others are kept only for `show argv`.
#[derive(Debug, Default)]
struct Arguments {
    prompt: Option<String>,
    resume: Option<String>,
    gemini: bool,
    lines_in: bool,
    text_out: bool,
    partial: bool,
}

impl Arguments {
    fn read(args: &[String]) -> Arguments {
        let mut read = Arguments::default();
        let mut words = args.iter().map(String::as_str).peekable();
        while let Some(word) = words.next() {
            let (name, inline) = match word.split_once('=') {
                Some((name, value)) if name.starts_with("--") => (name, Some(value.to_owned())),
                _ => (word, None),
            };
            let mut value = || {
                inline.clone().or_else(|| {
                    let next = words.next_if(|next| !next.starts_with('-'));
                    next.map(str::to_owned)
                })
            };
            match name {
                "-p" | "--print" | "--prompt" => {
                    read.prompt = value().or_else(|| read.prompt.take())
                }
                "-r" | "--resume" => read.resume = value(),
                "--style" => read.gemini = value().as_deref() == Some("gemini"),
                "--input-format" => read.lines_in = value().as_deref() == Some("stream-json"),
                "-o" | "--output-format" => read.text_out = value().as_deref() == Some("text"),
                "--include-partial-messages" => read.partial = true,
                _ => {}
            }
        }
        read
    }
}

struct Repl {
    scenario: Scenario,
    args: Vec<String>,
    peer: RpcPeer,
    store: SessionStore,
    format: OutputFormat,
}

/// Runs the mock, and returns the exit code.
pub fn run(config: AgentConfig, peer: RpcPeer) -> io::Result<u8> {
    let arguments = Arguments::read(&config.args);
    let store = SessionStore::new(config.state);
    let cwd = std::env::current_dir().unwrap_or_default();
    let mut saved = match &arguments.resume {
        None => StoredSession {
            id: uuid(),
            cwd: cwd.to_string_lossy().into_owned(),
            ..StoredSession::default()
        },
        Some(id) => match store.load(id) {
            Some(saved) => saved,
            None => {
                eprintln!("No conversation found with session ID: {id}");
                return Ok(1);
            }
        },
    };
    let format = match (arguments.text_out, arguments.gemini) {
        (true, _) => OutputFormat::Text,
        (_, true) => OutputFormat::Gemini,
        _ => OutputFormat::Claude {
            partial: arguments.partial,
        },
    };
    let repl = Repl {
        scenario: config.scenario,
        args: config.args,
        peer,
        store,
        format,
    };
    if arguments.lines_in {
        return Ok(repl.converse(&mut saved));
    }
    let prompt = match arguments.prompt {
        Some(prompt) => prompt,
        None => {
            let mut text = Vec::new();
            let input = io::stdin().lock();
            input.take(MAX_PROMPT_BYTES).read_to_end(&mut text)?;
            String::from_utf8_lossy(&text).trim_end().to_owned()
        }
    };
    Ok(repl.turn(&prompt, &mut saved, Mailbox::new()))
}

/// Creates an id in the UUID format of both tools.
fn uuid() -> String {
    let random = crate::store::fresh_id("x");
    let part = |from: usize, to: usize| random.get(from + 2..to + 2).unwrap_or_default();
    format!(
        "{}-{}-4{}-8{}-{}",
        part(0, 8),
        part(8, 12),
        part(13, 16),
        part(17, 20),
        part(20, 32)
    )
}

/// Event for the loop that runs the turns.
enum LoopEvent {
    Prompt(String),
    Interrupt(Value),
    /// The turn has ended with this exit code.
    TurnEnded(u8),
    /// The input has ended.
    InputEnded,
}

impl Repl {
    /// Runs one turn per input line, until the input ends.
    fn converse(&self, saved: &mut StoredSession) -> u8 {
        let (sender, events) = channel();
        let reader = sender.clone();
        std::thread::spawn(move || read_input(&reader));
        let mut code = 0;
        let mut queued = VecDeque::new();
        let mut input_ended = false;
        loop {
            let Some(prompt) = queued.pop_front() else {
                match events.recv() {
                    Ok(LoopEvent::Prompt(prompt)) => queued.push_back(prompt),
                    Ok(LoopEvent::InputEnded) | Err(_) => return code,
                    // An interruption between turns has no effect.
                    Ok(LoopEvent::Interrupt(_) | LoopEvent::TurnEnded(_)) => {}
                }
                continue;
            };
            let mailbox = Mailbox::new();
            let turn = mailbox.sender();
            std::thread::scope(|scope| {
                let done = sender.clone();
                let saved = &mut *saved;
                scope.spawn(move || {
                    let code = self.turn(&prompt, saved, mailbox);
                    let _ = done.send(LoopEvent::TurnEnded(code));
                });
                loop {
                    match events.recv() {
                        Ok(LoopEvent::Prompt(next)) => queued.push_back(next),
                        Ok(LoopEvent::Interrupt(id)) => {
                            self.print_line(&json!({
                                "type": "control_response",
                                "response": { "subtype": "success", "request_id": id },
                            }));
                            let _ = turn.send(TurnSignal::Cancel);
                        }
                        Ok(LoopEvent::InputEnded) => input_ended = true,
                        Ok(LoopEvent::TurnEnded(ended)) => {
                            code = ended;
                            return;
                        }
                        Err(_) => return,
                    }
                }
            });
            if input_ended && queued.is_empty() {
                return code;
            }
        }
    }

    fn print_line(&self, line: &Value) {
        self.peer.raw(|out| writeln!(out, "{line}"));
    }

    fn turn(&self, prompt: &str, saved: &mut StoredSession, mailbox: Mailbox) -> u8 {
        saved.turns += 1;
        let mut words = vec![
            ("prompt".to_owned(), prompt.to_owned()),
            ("session".to_owned(), saved.id.clone()),
            ("cwd".to_owned(), saved.cwd.clone()),
            ("turn".to_owned(), saved.turns.to_string()),
            ("previous".to_owned(), saved.prompts.join(" | ")),
        ];
        saved.prompts.push(prompt.to_owned());
        let mut output = ReplOutput::new(self, mailbox, saved);
        output.open(prompt);
        let end = match self.scenario.turn(prompt) {
            None => Ok(()),
            Some((turn, groups)) => {
                words.extend(groups);
                let mut runner = TurnRunner {
                    output: &mut output,
                    words,
                    args: &self.args,
                };
                runner.run(&turn.steps)
            }
        };
        let code = output.close(end);
        saved.updated_at = now();
        self.store.save(saved);
        code
    }
}

/// Reads `stream-json` input. Ignores lines that are neither prompts nor interruptions.
fn read_input(sender: &Sender<LoopEvent>) {
    for line in io::stdin().lock().split(b'\n') {
        let Ok(line) = line else { break };
        let Ok(line) = serde_json::from_slice::<Value>(&line) else {
            continue;
        };
        let events = match line.get("type").and_then(Value::as_str) {
            Some("user") => LoopEvent::Prompt(prompt_of(&line)),
            Some("control_request")
                if line.pointer("/request/subtype") == Some(&json!("interrupt")) =>
            {
                let id = line.get("request_id").cloned();
                LoopEvent::Interrupt(id.unwrap_or(Value::Null))
            }
            _ => continue,
        };
        if sender.send(events).is_err() {
            return;
        }
    }
    let _ = sender.send(LoopEvent::InputEnded);
}

/// Text of a user line: a string, or the text blocks of a list.
fn prompt_of(line: &Value) -> String {
    let content = line.pointer("/message/content");
    match content {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(blocks)) => {
            let texts = blocks
                .iter()
                .filter_map(|block| block.get("text")?.as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(args: &[&str]) -> Arguments {
        let args: Vec<String> = args.iter().map(|a| (*a).to_owned()).collect();
        Arguments::read(&args)
    }

    #[test]
    fn arguments_of_both_dialects_are_parsed() {
        let claude = read(&["-p", "hi there", "--verbose", "--resume=abc"]);
        assert_eq!(claude.prompt.as_deref(), Some("hi there"));
        assert_eq!(claude.resume.as_deref(), Some("abc"));
        let flag = read(&["-p", "--input-format", "stream-json"]);
        assert_eq!(flag.prompt, None);
        assert!(flag.lines_in);
        let gemini = read(&["--style", "gemini", "--prompt", "x", "-o", "stream-json"]);
        assert!(gemini.gemini && !gemini.text_out);
    }

    #[test]
    fn ids_look_like_uuids() {
        let id = uuid();
        let lengths: Vec<usize> = id.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12], "{id}");
    }
}
