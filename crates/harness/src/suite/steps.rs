//! Parses the steps of a case: each is a mapping with one key, the name of the step.

use std::time::Duration;

use serde_json::{Value as Json, json};

use super::read::Reader;
use super::{Awaited, Begin, Prompt, PromptText, Request, Step, WaitFor, What};
use crate::{lifecycle, sessions};
use agentproto_manifest::fields::Notes;
use agentproto_manifest::{Node, to_json};
use agentproto_text::closest_of;

const STEPS: [&str; 29] = [
    "call",
    "send",
    "receive",
    "notify",
    "raw",
    "message",
    "answer",
    "wait_for",
    "quiet",
    "expect",
    "turn",
    "prompt",
    "cancel",
    "updates",
    "bind",
    "collect",
    "new_session",
    "restart",
    "end_input",
    "signal",
    "exit",
    "alive",
    "for_each",
    "repeat",
    "when",
    "directory",
    "write_file",
    "read_file",
    "recorder",
];
const RESTARTS: [&str; 2] = ["process", "initialized"];
const MORE_STEPS: [&str; 9] = [
    "recorded",
    "model",
    "messages",
    "said",
    "stderr",
    "log_in",
    "probe",
    "not_verified",
    "not_applicable",
];

/// Names of all steps.
pub fn step_names() -> impl Iterator<Item = &'static str> {
    STEPS.into_iter().chain(MORE_STEPS)
}

/// Context of a step: the suite file, and the requirements that its expectations may name.
pub(super) struct At<'a, 't> {
    pub(super) decides: &'a [String],
    pub(super) reader: &'a Reader<'t>,
}

pub fn steps(
    node: &Node,
    key: &str,
    decides: &[String],
    reader: &Reader<'_>,
    notes: &mut Notes,
) -> Vec<Step> {
    let items = notes.items(node, key);
    let at = At { decides, reader };
    items.iter().filter_map(|n| at.step(n, notes)).collect()
}

impl At<'_, '_> {
    fn steps(&self, node: &Node, key: &str, notes: &mut Notes) -> Vec<Step> {
        steps(node, key, self.decides, self.reader, notes)
    }

    fn step(&self, node: &Node, notes: &mut Notes) -> Option<Step> {
        let [entry] = node.entries() else {
            notes.wrong(
                node.span,
                "a step must be a mapping with one key, such as `call: {method: session/list}`",
            );
            return None;
        };
        let (name, value) = (entry.key.as_str(), &entry.value);
        let known = step_names;
        if !known().any(|step| step == name) {
            let hint = match closest_of(name, known()) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => "`agentproto schema --name suite` lists the steps".to_owned(),
            };
            notes.wrong(entry.key_span, format!("unknown step `{name}`; {hint}"));
            return None;
        }
        Some(Step {
            line: self.reader.line(node),
            what: self.what(name, node, value, notes)?,
        })
    }

    fn what(&self, name: &str, node: &Node, value: &Node, notes: &mut Notes) -> Option<What> {
        Some(match name {
            "call" => {
                let expect = self.expects(value, "expect", notes);
                What::Call(request(value, name, notes), expect)
            }
            "send" => What::Send(request(value, name, notes)),
            "receive" => {
                notes.keys(value, "`receive`", &["of", "within", "expect"]);
                What::Receive {
                    of: notes.need(value, "of", "`receive`"),
                    within: seconds(value, "within", notes),
                    expect: self.expects(value, "expect", notes),
                }
            }
            "notify" => {
                notes.keys(value, "`notify`", &["method", "params"]);
                What::Notify {
                    method: notes.need(value, "method", "`notify`"),
                    params: notes.json(value, "params").unwrap_or_else(|| json!({})),
                }
            }
            "raw" => What::Raw(raw(value, notes)),
            "message" => What::Message(to_json(value)),
            "answer" => {
                notes.keys(value, "`answer`", &["of", "with"]);
                What::Answer {
                    of: notes.need(value, "of", "`answer`"),
                    with: notes.json(value, "with").unwrap_or(Json::Null),
                }
            }
            "wait_for" => What::WaitFor(self.wait_for(value, notes)),
            "quiet" => {
                notes.keys(value, "`quiet`", &["seconds", "as"]);
                What::Quiet {
                    time: seconds(value, "seconds", notes),
                    name: notes.string(value, "as"),
                }
            }
            "expect" => What::Expect(self.expects(node, "expect", notes)),
            "turn" => {
                let expect = self.expects(value, "expect", notes);
                What::Turn(prompt(value, name, notes), expect)
            }
            "prompt" => What::Prompt(prompt(value, name, notes)),
            "cancel" => {
                notes.keys(value, "`cancel`", &[]);
                What::Cancel
            }
            "updates" => {
                notes.keys(value, "`updates`", &["session", "since", "as"]);
                What::Updates {
                    session: notes
                        .json(value, "session")
                        .unwrap_or_else(|| json!("$session")),
                    since: notes.string(value, "since"),
                    name: notes.need(value, "as", "`updates`"),
                }
            }
            "bind" => {
                notes.keys(value, "`bind`", &["as", "value", "times"]);
                What::Bind {
                    name: notes.need(value, "as", "`bind`"),
                    times: notes.number(value, "times", 1, 1 << 24).unwrap_or(1),
                    value: notes.json(value, "value").unwrap_or(Json::Null),
                }
            }
            "collect" => {
                notes.keys(value, "`collect`", &["value", "into"]);
                What::Collect {
                    value: notes.json(value, "value").unwrap_or(Json::Null),
                    into: notes.need(value, "into", "`collect`"),
                }
            }
            "new_session" => {
                notes.keys(value, "`new_session`", &["params", "as"]);
                What::NewSession {
                    params: notes.json(value, "params").unwrap_or_else(|| json!({})),
                    name: notes.need(value, "as", "`new_session`"),
                }
            }
            "restart" => {
                let to = match value.is_map() {
                    true => {
                        notes.keys(value, "`restart`", &["to", "client"]);
                        notes.word(value, "to", "initialized", &RESTARTS)
                    }
                    false => notes.word(node, name, "initialized", &RESTARTS),
                };
                What::Restart {
                    begin: match to.as_str() {
                        "process" => Begin::Process,
                        _ => Begin::Initialized,
                    },
                    client: notes.json(value, "client"),
                }
            }
            "end_input" => {
                notes.keys(value, "`end_input`", &[]);
                What::EndInput
            }
            "signal" => {
                let signals = ["TERM", "INT", "HUP", "KILL"];
                match notes.word(node, name, "TERM", &signals).as_str() {
                    "INT" => What::Signal(libc::SIGINT),
                    "HUP" => What::Signal(libc::SIGHUP),
                    "KILL" => What::Signal(libc::SIGKILL),
                    _ => What::Signal(libc::SIGTERM),
                }
            }
            "exit" => {
                notes.keys(value, "`exit`", &["within", "expect"]);
                What::Exit {
                    within: seconds(value, "within", notes),
                    expect: self.expects(value, "expect", notes),
                }
            }
            "alive" => {
                notes.keys(value, "`alive`", &[]);
                What::Alive
            }
            "for_each" => {
                notes.keys(value, "`for_each`", &["in", "as", "do"]);
                What::ForEach {
                    list: notes.json(value, "in").unwrap_or(Json::Null),
                    name: notes.need(value, "as", "`for_each`"),
                    steps: self.steps(value, "do", notes),
                }
            }
            "repeat" => {
                notes.keys(value, "`repeat`", &["times", "do"]);
                What::Repeat {
                    times: notes.number(value, "times", 1, 1000).unwrap_or(1),
                    steps: self.steps(value, "do", notes),
                }
            }
            "when" => {
                notes.keys(value, "`when`", &["that", "do"]);
                What::When {
                    that: self.expects(value, "that", notes),
                    steps: self.steps(value, "do", notes),
                }
            }
            "directory" => What::Directory(notes.string(node, name)?),
            "write_file" => {
                notes.keys(value, "`write_file`", &["path", "text"]);
                What::WriteFile {
                    path: json!(notes.need(value, "path", "`write_file`")),
                    text: json!(notes.need(value, "text", "`write_file`")),
                }
            }
            "read_file" => {
                notes.keys(value, "`read_file`", &["path", "as"]);
                What::ReadFile {
                    path: json!(notes.need(value, "path", "`read_file`")),
                    name: notes.need(value, "as", "`read_file`"),
                }
            }
            "recorder" => {
                notes.keys(value, "`recorder`", &["as", "transport", "env", "args"]);
                What::Recorder {
                    name: notes.need(value, "as", "`recorder`"),
                    transport: notes.word(value, "transport", "stdio", &["stdio", "http"]),
                    env: notes.json(value, "env").unwrap_or_else(|| json!({})),
                    args: notes.json(value, "args").unwrap_or_else(|| json!([])),
                }
            }
            "recorded" => {
                notes.keys(value, "`recorded`", &["of", "as", "within"]);
                What::Recorded {
                    of: notes.need(value, "of", "`recorded`"),
                    name: notes.need(value, "as", "`recorded`"),
                    within: seconds(value, "within", notes),
                }
            }
            "model" => {
                notes.keys(value, "`model`", &["as"]);
                What::Model {
                    name: notes.need(value, "as", "`model`"),
                }
            }
            "messages" => {
                notes.keys(value, "`messages`", &["method", "since", "as"]);
                What::Messages {
                    method: notes.string(value, "method"),
                    since: notes.string(value, "since"),
                    name: notes.need(value, "as", "`messages`"),
                }
            }
            "said" => {
                notes.keys(value, "`said`", &["session", "since", "as"]);
                What::Said {
                    session: notes
                        .json(value, "session")
                        .unwrap_or_else(|| json!("$session")),
                    since: notes.string(value, "since"),
                    name: notes.need(value, "as", "`said`"),
                }
            }
            "stderr" => {
                notes.keys(value, "`stderr`", &["as"]);
                What::Stderr {
                    name: notes.need(value, "as", "`stderr`"),
                }
            }
            "probe" => {
                let probe = notes.string(node, name)?;
                let mut known = lifecycle::PROBES.names().chain(sessions::PROBES.names());
                if !known.any(|known| known == probe) {
                    let known: Vec<&str> = lifecycle::PROBES
                        .names()
                        .chain(sessions::PROBES.names())
                        .collect();
                    let known = known.join(", ");
                    notes.wrong(
                        value.span,
                        format!("unknown probe `{probe}`; expected one of {known}"),
                    );
                }
                What::Probe(probe)
            }
            "log_in" => {
                notes.keys(value, "`log_in`", &[]);
                What::LogIn
            }
            "not_applicable" => What::NotApplicable(notes.string(node, name)?),
            _ => What::NotVerified(notes.string(node, name)?),
        })
    }

    fn wait_for(&self, node: &Node, notes: &mut Notes) -> WaitFor {
        let known = [
            "update",
            "request",
            "notification",
            "answer",
            "where",
            "unless",
            "as",
            "within",
            "demand",
            "say",
            "expect",
        ];
        notes.keys(node, "`wait_for`", &known);
        let what = if node.has("answer") {
            let ids = node.get("answer").map(Node::items).unwrap_or_default();
            Awaited::Answer(ids.iter().map(to_json).collect())
        } else if node.has("update") {
            Awaited::Update(notes.list(node, "update"))
        } else if let Some(method) = notes.string(node, "request") {
            Awaited::Request(method)
        } else if let Some(method) = notes.string(node, "notification") {
            Awaited::Notification(method)
        } else {
            notes.wrong(
                node.span,
                "`wait_for` needs `update`, `request`, `notification` or `answer`",
            );
            Awaited::Update(Vec::new())
        };
        WaitFor {
            what,
            which: self.expects(node, "where", notes),
            name: notes.string(node, "as"),
            within: seconds(node, "within", notes),
            is_expected: notes.flag(node, "demand", false),
            unless: notes.string(node, "unless"),
            say: notes.string(node, "say"),
            expect: self.expects(node, "expect", notes),
        }
    }
}

fn request(node: &Node, name: &str, notes: &mut Notes) -> Request {
    let what = format!("`{name}`");
    let mut known = vec!["method", "params", "id", "as", "within"];
    if name == "call" {
        known.extend(["expect", "accept"]);
    }
    notes.keys(node, &what, &known);
    Request {
        takes_errors: notes.word(node, "accept", "result", &["result", "any"]) == "any",
        method: notes.need(node, "method", &what),
        params: notes.json(node, "params"),
        id: notes.json(node, "id"),
        name: notes.string(node, "as"),
        within: seconds(node, "within", notes),
    }
}

fn prompt(node: &Node, name: &str, notes: &mut Notes) -> Prompt {
    let what = format!("`{name}`");
    let mut known = vec!["key", "blocks", "session", "as", "within"];
    if name == "turn" {
        known.push("expect");
    }
    notes.keys(node, &what, &known);
    let text = match (notes.string(node, "key"), notes.json(node, "blocks")) {
        (None, Some(blocks)) => PromptText::Blocks(blocks),
        (Some(key), None) => PromptText::Key(key),
        _ => {
            let wanted = format!("{what} needs either `key` (of the prompts file) or `blocks`");
            notes.wrong(node.span, wanted);
            PromptText::Key(String::new())
        }
    };
    Prompt {
        what: text,
        session: notes.json(node, "session"),
        name: notes
            .string(node, "as")
            .unwrap_or_else(|| "turn".to_owned()),
        within: seconds(node, "within", notes),
    }
}

/// Parses `raw`: `text` is sent with a line feed after it, `bytes` is base64, and `pieces` are
/// written one by one.
fn raw(node: &Node, notes: &mut Notes) -> Vec<Vec<u8>> {
    use base64::Engine;
    notes.keys(node, "`raw`", &["text", "bytes", "pieces"]);
    if node.is_map() && node.entries().len() != 1 {
        let wanted = "`raw` needs exactly one of `text`, `bytes` and `pieces`";
        notes.wrong(node.span, wanted);
    }
    if let Some(text) = notes.string(node, "text") {
        return vec![format!("{text}\n").into_bytes()];
    }
    if let Some(text) = notes.string(node, "bytes") {
        return match base64::engine::general_purpose::STANDARD.decode(&text) {
            Ok(bytes) => vec![bytes],
            Err(error) => {
                notes.wrong(node.span, format!("`bytes` is not valid base64: {error}"));
                Vec::new()
            }
        };
    }
    let pieces = notes.list(node, "pieces");
    pieces.into_iter().map(String::into_bytes).collect()
}

fn seconds(node: &Node, key: &str, notes: &mut Notes) -> Option<Duration> {
    let value = node.get(key)?;
    match to_json(value).as_f64() {
        Some(seconds) if (0.0..=600.0).contains(&seconds) => Some(Duration::from_secs_f64(seconds)),
        _ => {
            notes.wrong(
                value.span,
                format!("`{key}` must be a number of seconds between 0 and 600"),
            );
            None
        }
    }
}
