//! Parses the steps of a case: each is a mapping with one key, the name of the step.

use std::time::Duration;

use serde_json::{Value as Json, json};

use super::read::{SuiteReader, answer};
use super::{
    AwaitedMessage, CaseStep, PromptStep, PromptText, RequestStep, StartState, StepKind, WaitFor,
    WorkState,
};
use crate::{lifecycle, sessions};
use agentproto_manifest::fields::FieldReader;
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
pub(super) struct StepContext<'a, 't> {
    pub(super) decides: &'a [String],
    pub(super) reader: &'a SuiteReader<'t>,
}

pub fn steps(
    node: &Node,
    key: &str,
    decides: &[String],
    reader: &SuiteReader<'_>,
    notes: &mut FieldReader,
) -> Vec<CaseStep> {
    let items = notes.items(node, key);
    let at = StepContext { decides, reader };
    items.iter().filter_map(|n| at.step(n, notes)).collect()
}

impl StepContext<'_, '_> {
    fn steps(&self, node: &Node, key: &str, notes: &mut FieldReader) -> Vec<CaseStep> {
        steps(node, key, self.decides, self.reader, notes)
    }

    fn step(&self, node: &Node, notes: &mut FieldReader) -> Option<CaseStep> {
        let [entry] = node.entries() else {
            notes.error(
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
            notes.error(entry.key_span, format!("unknown step `{name}`; {hint}"));
            return None;
        }
        Some(CaseStep {
            line: self.reader.line(node),
            kind: self.kind(name, node, value, notes)?,
        })
    }

    fn kind(
        &self,
        name: &str,
        node: &Node,
        value: &Node,
        notes: &mut FieldReader,
    ) -> Option<StepKind> {
        Some(match name {
            "call" => {
                let expect = self.expects(value, "expect", notes);
                StepKind::Call(request(value, name, notes), expect)
            }
            "send" => StepKind::Send(request(value, name, notes)),
            "receive" => {
                notes.check_keys(value, "`receive`", &["of", "within", "expect"]);
                StepKind::Receive {
                    of: notes.required_string(value, "of", "`receive`"),
                    within: seconds(value, "within", notes),
                    expect: self.expects(value, "expect", notes),
                }
            }
            "notify" => {
                notes.check_keys(value, "`notify`", &["method", "params"]);
                StepKind::Notify {
                    method: notes.required_string(value, "method", "`notify`"),
                    params: notes.json(value, "params").unwrap_or_else(|| json!({})),
                }
            }
            "raw" => StepKind::Raw(raw(value, notes)),
            "message" => StepKind::Message(to_json(value)),
            "answer" => {
                notes.check_keys(value, "`answer`", &["of", "with", "then"]);
                StepKind::Answer {
                    of: notes.required_string(value, "of", "`answer`"),
                    with: notes.json(value, "with").unwrap_or(Json::Null),
                    then: value.has("then").then(|| answer(value, "then", notes)),
                }
            }
            "wait_for" => StepKind::WaitFor(self.wait_for(value, notes)),
            "quiet" => {
                notes.check_keys(value, "`quiet`", &["seconds", "as"]);
                StepKind::Quiet {
                    time: seconds(value, "seconds", notes),
                    name: notes.string(value, "as"),
                }
            }
            "expect" => StepKind::Expect(self.expects(node, "expect", notes)),
            "turn" => {
                let expect = self.expects(value, "expect", notes);
                StepKind::Turn(prompt(value, name, notes), expect)
            }
            "prompt" => StepKind::Prompt(prompt(value, name, notes)),
            "cancel" => {
                notes.check_keys(value, "`cancel`", &[]);
                StepKind::Cancel
            }
            "updates" => {
                notes.check_keys(value, "`updates`", &["session", "since", "as"]);
                StepKind::Updates {
                    session: notes
                        .json(value, "session")
                        .unwrap_or_else(|| json!("$session")),
                    since: notes.string(value, "since"),
                    name: notes.required_string(value, "as", "`updates`"),
                }
            }
            "bind" => {
                notes.check_keys(value, "`bind`", &["as", "value", "times"]);
                StepKind::Bind {
                    name: notes.required_string(value, "as", "`bind`"),
                    times: notes.number(value, "times", 1, 1 << 24).unwrap_or(1),
                    value: notes.json(value, "value").unwrap_or(Json::Null),
                }
            }
            "collect" => {
                notes.check_keys(value, "`collect`", &["value", "into"]);
                StepKind::Collect {
                    value: notes.json(value, "value").unwrap_or(Json::Null),
                    into: notes.required_string(value, "into", "`collect`"),
                }
            }
            "new_session" => {
                notes.check_keys(value, "`new_session`", &["params", "as"]);
                StepKind::NewSession {
                    params: notes.json(value, "params").unwrap_or_else(|| json!({})),
                    name: notes.required_string(value, "as", "`new_session`"),
                }
            }
            "restart" => {
                let to = match value.is_map() {
                    true => {
                        notes.check_keys(value, "`restart`", &["to", "client"]);
                        notes.one_of(value, "to", "initialized", &RESTARTS)
                    }
                    false => notes.one_of(node, name, "initialized", &RESTARTS),
                };
                StepKind::Restart {
                    begin: match to.as_str() {
                        "process" => StartState::Process,
                        _ => StartState::Initialized,
                    },
                    client: notes.json(value, "client"),
                }
            }
            "end_input" => {
                notes.check_keys(value, "`end_input`", &[]);
                StepKind::EndInput
            }
            "signal" => {
                let signals = ["TERM", "INT", "HUP", "KILL"];
                match notes.one_of(node, name, "TERM", &signals).as_str() {
                    "INT" => StepKind::Signal(libc::SIGINT),
                    "HUP" => StepKind::Signal(libc::SIGHUP),
                    "KILL" => StepKind::Signal(libc::SIGKILL),
                    _ => StepKind::Signal(libc::SIGTERM),
                }
            }
            "exit" => {
                notes.check_keys(value, "`exit`", &["within", "expect"]);
                StepKind::Exit {
                    within: seconds(value, "within", notes),
                    expect: self.expects(value, "expect", notes),
                }
            }
            "alive" => {
                notes.check_keys(value, "`alive`", &[]);
                StepKind::Alive
            }
            "for_each" => {
                notes.check_keys(value, "`for_each`", &["in", "as", "do"]);
                StepKind::ForEach {
                    list: notes.json(value, "in").unwrap_or(Json::Null),
                    name: notes.required_string(value, "as", "`for_each`"),
                    steps: self.steps(value, "do", notes),
                }
            }
            "repeat" => {
                notes.check_keys(value, "`repeat`", &["times", "do"]);
                StepKind::Repeat {
                    times: notes.number(value, "times", 1, 1000).unwrap_or(1),
                    steps: self.steps(value, "do", notes),
                }
            }
            "when" => {
                notes.check_keys(value, "`when`", &["that", "do"]);
                StepKind::When {
                    that: self.expects(value, "that", notes),
                    steps: self.steps(value, "do", notes),
                }
            }
            "directory" => StepKind::Directory(notes.string(node, name)?),
            "write_file" => {
                notes.check_keys(value, "`write_file`", &["path", "text"]);
                StepKind::WriteFile {
                    path: json!(notes.required_string(value, "path", "`write_file`")),
                    text: json!(notes.required_string(value, "text", "`write_file`")),
                }
            }
            "read_file" => {
                notes.check_keys(value, "`read_file`", &["path", "as"]);
                StepKind::ReadFile {
                    path: json!(notes.required_string(value, "path", "`read_file`")),
                    name: notes.required_string(value, "as", "`read_file`"),
                }
            }
            "recorder" => {
                notes.check_keys(value, "`recorder`", &["as", "transport", "env", "args"]);
                StepKind::Recorder {
                    name: notes.required_string(value, "as", "`recorder`"),
                    transport: notes.one_of(value, "transport", "stdio", &["stdio", "http"]),
                    env: notes.json(value, "env").unwrap_or_else(|| json!({})),
                    args: notes.json(value, "args").unwrap_or_else(|| json!([])),
                }
            }
            "recorded" => {
                notes.check_keys(value, "`recorded`", &["of", "as", "within"]);
                StepKind::Recorded {
                    of: notes.required_string(value, "of", "`recorded`"),
                    name: notes.required_string(value, "as", "`recorded`"),
                    within: seconds(value, "within", notes),
                }
            }
            "model" => {
                notes.check_keys(value, "`model`", &["as"]);
                StepKind::Model {
                    name: notes.required_string(value, "as", "`model`"),
                }
            }
            "messages" => {
                notes.check_keys(value, "`messages`", &["method", "since", "as"]);
                StepKind::Messages {
                    method: notes.string(value, "method"),
                    since: notes.string(value, "since"),
                    name: notes.required_string(value, "as", "`messages`"),
                }
            }
            "said" => {
                notes.check_keys(value, "`said`", &["session", "since", "as"]);
                StepKind::AgentText {
                    session: notes
                        .json(value, "session")
                        .unwrap_or_else(|| json!("$session")),
                    since: notes.string(value, "since"),
                    name: notes.required_string(value, "as", "`said`"),
                }
            }
            "stderr" => {
                notes.check_keys(value, "`stderr`", &["as"]);
                StepKind::Stderr {
                    name: notes.required_string(value, "as", "`stderr`"),
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
                    notes.error(
                        value.span,
                        format!("unknown probe `{probe}`; expected one of {known}"),
                    );
                }
                StepKind::Probe(probe)
            }
            "log_in" => {
                notes.check_keys(value, "`log_in`", &[]);
                StepKind::LogIn
            }
            "not_applicable" => StepKind::NotApplicable(notes.string(node, name)?),
            _ => StepKind::NotVerified(notes.string(node, name)?),
        })
    }

    fn wait_for(&self, node: &Node, notes: &mut FieldReader) -> WaitFor {
        let known = [
            "update",
            "request",
            "notification",
            "answer",
            "work",
            "where",
            "unless",
            "as",
            "within",
            "demand",
            "optional",
            "say",
            "expect",
        ];
        notes.check_keys(node, "`wait_for`", &known);
        let message = if node.has("answer") {
            let ids = node.get("answer").map(Node::items).unwrap_or_default();
            AwaitedMessage::Answer(ids.iter().map(to_json).collect())
        } else if node.has("update") {
            AwaitedMessage::Update(notes.strings(node, "update"))
        } else if let Some(method) = notes.string(node, "request") {
            AwaitedMessage::Request(method)
        } else if let Some(method) = notes.string(node, "notification") {
            AwaitedMessage::Notification(method)
        } else if node.has("work") {
            let state = notes.one_of(node, "work", "idle", &["running", "idle"]);
            AwaitedMessage::Work(match state.as_str() {
                "running" => WorkState::Running,
                _ => WorkState::Idle,
            })
        } else {
            notes.error(
                node.span,
                "`wait_for` needs `update`, `request`, `notification`, `answer` or `work`",
            );
            AwaitedMessage::Update(Vec::new())
        };
        WaitFor {
            message,
            which: self.expects(node, "where", notes),
            name: notes.string(node, "as"),
            within: seconds(node, "within", notes),
            is_expected: notes.bool_or(node, "demand", false),
            is_optional: notes.bool_or(node, "optional", false),
            unless: notes.string(node, "unless"),
            failure_message: notes.string(node, "say"),
            expect: self.expects(node, "expect", notes),
        }
    }
}

fn request(node: &Node, name: &str, notes: &mut FieldReader) -> RequestStep {
    let what = format!("`{name}`");
    let mut known = vec!["method", "params", "id", "as", "within"];
    if name == "call" {
        known.extend(["expect", "accept"]);
    }
    notes.check_keys(node, &what, &known);
    RequestStep {
        takes_errors: notes.one_of(node, "accept", "result", &["result", "any"]) == "any",
        method: notes.required_string(node, "method", &what),
        params: notes.json(node, "params"),
        id: notes.json(node, "id"),
        name: notes.string(node, "as"),
        within: seconds(node, "within", notes),
    }
}

fn prompt(node: &Node, name: &str, notes: &mut FieldReader) -> PromptStep {
    let what = format!("`{name}`");
    let mut known = vec!["key", "blocks", "session", "as", "within"];
    if name == "turn" {
        known.push("expect");
    }
    notes.check_keys(node, &what, &known);
    let text = match (notes.string(node, "key"), notes.json(node, "blocks")) {
        (None, Some(blocks)) => PromptText::Blocks(blocks),
        (Some(key), None) => PromptText::Key(key),
        _ => {
            let wanted = format!("{what} needs either `key` (of the prompts file) or `blocks`");
            notes.error(node.span, wanted);
            PromptText::Key(String::new())
        }
    };
    PromptStep {
        text,
        session: notes.json(node, "session"),
        name: notes
            .string(node, "as")
            .unwrap_or_else(|| "turn".to_owned()),
        within: seconds(node, "within", notes),
    }
}

/// Parses `raw`: `text` is sent with a line feed after it, `bytes` is base64, and `pieces` are
/// written one by one.
fn raw(node: &Node, notes: &mut FieldReader) -> Vec<Vec<u8>> {
    use base64::Engine;
    notes.check_keys(node, "`raw`", &["text", "bytes", "pieces"]);
    if node.is_map() && node.entries().len() != 1 {
        let wanted = "`raw` needs exactly one of `text`, `bytes` and `pieces`";
        notes.error(node.span, wanted);
    }
    if let Some(text) = notes.string(node, "text") {
        return vec![format!("{text}\n").into_bytes()];
    }
    if let Some(text) = notes.string(node, "bytes") {
        return match base64::engine::general_purpose::STANDARD.decode(&text) {
            Ok(bytes) => vec![bytes],
            Err(error) => {
                notes.error(node.span, format!("`bytes` is not valid base64: {error}"));
                Vec::new()
            }
        };
    }
    let pieces = notes.strings(node, "pieces");
    pieces.into_iter().map(String::into_bytes).collect()
}

fn seconds(node: &Node, key: &str, notes: &mut FieldReader) -> Option<Duration> {
    let value = node.get(key)?;
    match to_json(value).as_f64() {
        Some(seconds) if (0.0..=600.0).contains(&seconds) => Some(Duration::from_secs_f64(seconds)),
        _ => {
            notes.error(
                value.span,
                format!("`{key}` must be a number of seconds between 0 and 600"),
            );
            None
        }
    }
}
