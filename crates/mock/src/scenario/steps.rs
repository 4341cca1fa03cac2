//! The steps of a turn. Each step is a mapping with one key, which is its name.

use super::{
    Elicitation, FileDiff, FsRead, Misbehavior, PermissionOption, PermissionRequest, PlanEntry,
    ScenarioStep, TerminalCommand, TokenCounts, ToolCall, ToolUpdate, Usage,
};
use agentproto_manifest::fields::FieldReader;
use agentproto_manifest::{Node, Value};
use agentproto_text::closest_of;

const STEPS: [&str; 37] = [
    "text",
    "thought",
    "echo",
    "tool_call",
    "tool_update",
    "plan",
    "permission",
    "fs_read",
    "fs_write",
    "terminal",
    "elicitation",
    "delay_ms",
    "env",
    "argv",
    "cwd",
    "error",
    "stop_reason",
    "model",
    "mode",
    "title",
    "usage",
    "compaction",
    "notice",
    "repeat",
    "exit",
    "signal",
    "garbage",
    "invalid_utf8",
    "half_line",
    "flood_events",
    "flood_bytes",
    "huge_line",
    "stderr_flood",
    "hang",
    "answer_twice",
    "ignore_sigterm",
    "daemon",
];

const KINDS: [&str; 10] = [
    "read",
    "edit",
    "delete",
    "move",
    "search",
    "execute",
    "think",
    "fetch",
    "switch_mode",
    "other",
];
const STATUSES: [&str; 4] = ["pending", "in_progress", "completed", "failed"];
const REASONS: [&str; 5] = [
    "end_turn",
    "max_tokens",
    "max_turn_requests",
    "refusal",
    "cancelled",
];
/// Limits that keep a typo in a scenario from filling the disk or the memory.
const MAX_BYTES: u64 = 4 << 30;
const MAX_EVENTS: u64 = 100_000_000;

pub fn steps(node: &Node, key: &str, reader: &mut FieldReader) -> Vec<ScenarioStep> {
    let items = reader.items(node, key);
    items.iter().filter_map(|item| step(item, reader)).collect()
}

fn step(node: &Node, reader: &mut FieldReader) -> Option<ScenarioStep> {
    let [entry] = node.entries() else {
        reader.error(
            node.span,
            "a step must be a mapping with one key, such as `text: hello`",
        );
        return None;
    };
    let (name, value) = (entry.key.as_str(), &entry.value);
    if !STEPS.contains(&name) {
        let hint = match closest_of(name, STEPS) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => "`agentproto schema --name scenario` lists the steps".to_owned(),
        };
        reader.error(entry.key_span, format!("unknown step `{name}`; {hint}"));
        return None;
    }
    if let Some(fault) = fault(name, node, value, reader) {
        return Some(ScenarioStep::Misbehavior(fault));
    }
    Some(match name {
        "text" => ScenarioStep::Text(reader.strings_in(value, name)),
        "thought" => ScenarioStep::Thought(reader.strings_in(value, name)),
        "echo" => echo(value, reader),
        "tool_call" => ScenarioStep::ToolCall(tool_call(value, reader)),
        "tool_update" => ScenarioStep::ToolUpdate(tool_update(value, reader)),
        "plan" => plan(node, reader),
        "permission" => ScenarioStep::Permission(Box::new(permission(value, reader))),
        "fs_read" => fs_read(value, reader),
        "fs_write" => {
            reader.check_keys(value, "`fs_write`", &["path", "content"]);
            ScenarioStep::FsWrite {
                path: reader.required_string(value, "path", "`fs_write`"),
                content: reader.required_string(value, "content", "`fs_write`"),
            }
        }
        "terminal" => ScenarioStep::Terminal(terminal(value, reader)),
        "elicitation" => ScenarioStep::Elicitation(Box::new(elicitation(value, reader))),
        "delay_ms" => ScenarioStep::DelayMs(reader.number_in(value, name, 0, 3_600_000)?),
        "env" => ScenarioStep::Env(reader.string(node, name)?),
        "argv" => switch(node, name, reader).then_some(ScenarioStep::Argv)?,
        "cwd" => switch(node, name, reader).then_some(ScenarioStep::Cwd)?,
        "error" => {
            reader.check_keys(value, "`error`", &["code", "message"]);
            let code = value.get("code").map(Node::as_int);
            if code == Some(None) {
                reader.error(value.span, "`error.code` must be an integer");
            }
            ScenarioStep::Error {
                code: code.flatten().unwrap_or(-32603),
                message: reader.required_string(value, "message", "`error`"),
            }
        }
        "stop_reason" => ScenarioStep::Stop(reader.one_of(node, name, "end_turn", &REASONS)),
        "model" => switch(node, name, reader).then_some(ScenarioStep::Model)?,
        "mode" => ScenarioStep::Mode(reader.string(node, name)?),
        "title" => ScenarioStep::Title(reader.string(node, name)?),
        "usage" => {
            let keys = [
                "used",
                "size",
                "cost",
                "currency",
                "input",
                "output",
                "thought",
                "cached_read",
                "cached_write",
            ];
            reader.check_keys(value, "`usage`", &keys);
            let mut count = |name| reader.number(value, name, 0, MAX_BYTES);
            let tokens = TokenCounts {
                input: count("input"),
                output: count("output"),
                thought: count("thought"),
                cached_read: count("cached_read"),
                cached_write: count("cached_write"),
            };
            let cost = value.get("cost").map(|node| (node, amount(node)));
            if let Some((node, None)) = cost {
                reader.error(node.span, "`cost` must be a non-negative number");
            }
            ScenarioStep::Usage(Usage {
                used: reader.number(value, "used", 0, MAX_BYTES).unwrap_or(0),
                size: reader.number(value, "size", 0, MAX_BYTES).unwrap_or(0),
                cost: cost.and_then(|(_, amount)| amount),
                currency: reader
                    .string(value, "currency")
                    .unwrap_or_else(|| "USD".to_owned()),
                tokens,
            })
        }
        "compaction" => {
            reader.check_keys(value, "`compaction`", &["summary"]);
            ScenarioStep::Compaction(reader.required_string(value, "summary", "`compaction`"))
        }
        "notice" => {
            reader.check_keys(value, "`notice`", &["severity", "title"]);
            ScenarioStep::Notice {
                severity: reader.one_of(value, "severity", "info", &["info", "warning", "error"]),
                title: reader.required_string(value, "title", "`notice`"),
            }
        }
        "repeat" => {
            reader.check_keys(value, "`repeat`", &["times", "steps"]);
            ScenarioStep::Repeat {
                times: reader.number(value, "times", 0, MAX_EVENTS).unwrap_or(0),
                steps: steps(value, "steps", reader),
            }
        }
        _ => return None,
    })
}

/// Parses the steps that misbehave.
fn fault(name: &str, node: &Node, value: &Node, reader: &mut FieldReader) -> Option<Misbehavior> {
    Some(match name {
        "exit" => {
            let code = reader.number_in(value, name, 0, 255)?;
            Misbehavior::Exit(u8::try_from(code).ok()?)
        }
        "signal" => {
            let word = reader.one_of(node, name, "KILL", &["KILL", "SEGV", "ABRT", "TERM"]);
            Misbehavior::Signal(match word.as_str() {
                "SEGV" => libc::SIGSEGV,
                "ABRT" => libc::SIGABRT,
                "TERM" => libc::SIGTERM,
                _ => libc::SIGKILL,
            })
        }
        "garbage" => Misbehavior::Garbage(reader.string(node, name)?),
        "invalid_utf8" => switch(node, name, reader).then_some(Misbehavior::InvalidUtf8)?,
        "half_line" => switch(node, name, reader).then_some(Misbehavior::HalfLine)?,
        "flood_events" => Misbehavior::FloodEvents(reader.number_in(value, name, 1, MAX_EVENTS)?),
        "flood_bytes" => Misbehavior::FloodBytes(reader.number_in(value, name, 1, MAX_BYTES)?),
        "huge_line" => Misbehavior::HugeLine(reader.number_in(value, name, 1, MAX_BYTES)?),
        "stderr_flood" => Misbehavior::StderrFlood(reader.number_in(value, name, 1, MAX_BYTES)?),
        "hang" => switch(node, name, reader).then_some(Misbehavior::Hang)?,
        "answer_twice" => switch(node, name, reader).then_some(Misbehavior::AnswerTwice)?,
        "ignore_sigterm" => switch(node, name, reader).then_some(Misbehavior::IgnoreSigterm)?,
        "daemon" => {
            reader.check_keys(value, "`daemon`", &["seconds", "hold_output"]);
            let seconds = reader.number(value, "seconds", 1, 600).unwrap_or(60);
            Misbehavior::Daemon {
                seconds: u32::try_from(seconds).unwrap_or(60),
                hold_output: reader.bool_or(value, "hold_output", false),
            }
        }
        _ => return None,
    })
}

/// Reads a step without an argument, which is written as `name: true`.
fn switch(node: &Node, name: &str, reader: &mut FieldReader) -> bool {
    let on = node.get(name).is_some_and(Node::is_true);
    if !on {
        reader.error(node.span, format!("write `{name}: true`"));
    }
    on
}

fn echo(value: &Node, reader: &mut FieldReader) -> ScenarioStep {
    let simple = value.is_true();
    if !simple {
        reader.check_keys(value, "`echo`", &["prefix", "chunks"]);
    }
    let chunks = reader.number(value, "chunks", 1, 1000).unwrap_or(3);
    ScenarioStep::Echo {
        prefix: reader.string(value, "prefix").unwrap_or_default(),
        chunks: usize::try_from(chunks).unwrap_or(3),
    }
}

fn tool_call(value: &Node, reader: &mut FieldReader) -> ToolCall {
    let what = "`tool_call`";
    reader.check_keys(
        value,
        what,
        &["id", "title", "kind", "status", "input", "path", "line"],
    );
    ToolCall {
        id: reader.required_string(value, "id", what),
        title: reader.required_string(value, "title", what),
        kind: reader.one_of(value, "kind", "other", &KINDS),
        status: reader.one_of(value, "status", "pending", &STATUSES),
        input: reader.json(value, "input"),
        path: reader.string(value, "path"),
        line: reader.number(value, "line", 1, u64::from(u32::MAX)),
    }
}

fn tool_update(value: &Node, reader: &mut FieldReader) -> ToolUpdate {
    let what = "`tool_update`";
    reader.check_keys(value, what, &["id", "status", "text", "output"]);
    ToolUpdate {
        id: reader.required_string(value, "id", what),
        status: reader.one_of(value, "status", "completed", &STATUSES),
        text: reader.string(value, "text"),
        output: reader.json(value, "output"),
    }
}

fn plan(node: &Node, reader: &mut FieldReader) -> ScenarioStep {
    let entries = reader.items(node, "plan").iter().map(|item| {
        reader.check_keys(item, "a plan entry", &["content", "priority", "status"]);
        PlanEntry {
            content: reader.required_string(item, "content", "a plan entry"),
            priority: reader.one_of(item, "priority", "medium", &["high", "medium", "low"]),
            status: reader.one_of(
                item,
                "status",
                "pending",
                &["pending", "in_progress", "completed"],
            ),
        }
    });
    ScenarioStep::Plan(entries.collect())
}

fn permission(value: &Node, reader: &mut FieldReader) -> PermissionRequest {
    let what = "`permission`";
    reader.check_keys(
        value,
        what,
        &[
            "id",
            "title",
            "diff",
            "options",
            "on_allow",
            "on_reject",
            "on_error",
        ],
    );
    let kinds = ["allow_once", "allow_always", "reject_once", "reject_always"];
    let mut options: Vec<PermissionOption> = Vec::new();
    for item in reader.items(value, "options") {
        reader.check_keys(item, "a permission option", &["id", "name", "kind"]);
        options.push(PermissionOption {
            id: reader.required_string(item, "id", "a permission option"),
            name: reader.required_string(item, "name", "a permission option"),
            kind: reader.one_of(item, "kind", "allow_once", &kinds),
        });
    }
    if options.is_empty() {
        options = usual_options();
    }
    PermissionRequest {
        id: reader.required_string(value, "id", what),
        title: reader.required_string(value, "title", what),
        diff: value.get("diff").map(|node| diff(node, reader)),
        options,
        on_allow: steps(value, "on_allow", reader),
        on_reject: steps(value, "on_reject", reader),
        on_error: steps(value, "on_error", reader),
    }
}

/// One option of each kind.
pub fn usual_options() -> Vec<PermissionOption> {
    let usual = [
        ("Allow", "allow_once"),
        ("Always allow", "allow_always"),
        ("Reject", "reject_once"),
        ("Always reject", "reject_always"),
    ];
    let options = usual.map(|(name, kind)| PermissionOption {
        id: kind.replace('_', "-"),
        name: name.to_owned(),
        kind: kind.to_owned(),
    });
    options.to_vec()
}

fn diff(node: &Node, reader: &mut FieldReader) -> FileDiff {
    reader.check_keys(node, "`diff`", &["path", "old", "new"]);
    FileDiff {
        path: reader.required_string(node, "path", "`diff`"),
        old: reader.string(node, "old"),
        new: reader.required_string(node, "new", "`diff`"),
    }
}

fn amount(node: &Node) -> Option<f64> {
    let number = match node.value {
        Value::Float(number) => number,
        _ => node.as_int()? as f64,
    };
    (number.is_finite() && number >= 0.0).then_some(number)
}

fn fs_read(value: &Node, reader: &mut FieldReader) -> ScenarioStep {
    reader.check_keys(value, "`fs_read`", &["path", "line", "limit"]);
    let most = u64::from(u32::MAX);
    ScenarioStep::FsRead(FsRead {
        path: reader.required_string(value, "path", "`fs_read`"),
        line: reader.number(value, "line", 1, most),
        limit: reader.number(value, "limit", 0, most),
    })
}

fn terminal(value: &Node, reader: &mut FieldReader) -> TerminalCommand {
    let what = "`terminal`";
    reader.check_keys(
        value,
        what,
        &[
            "command",
            "args",
            "split_args",
            "env",
            "output_byte_limit",
            "kill",
        ],
    );
    TerminalCommand {
        command: reader.required_string(value, "command", what),
        args: reader.strings(value, "args"),
        split_args: reader.bool_or(value, "split_args", false),
        env: reader.pairs(value, "env"),
        output_byte_limit: reader.number(value, "output_byte_limit", 0, MAX_BYTES),
        kill: reader.bool_or(value, "kill", false),
    }
}

fn elicitation(value: &Node, reader: &mut FieldReader) -> Elicitation {
    let what = "`elicitation`";
    reader.check_keys(
        value,
        what,
        &[
            "message",
            "fields",
            "url",
            "on_accept",
            "on_decline",
            "on_cancel",
        ],
    );
    let types = ["string", "number", "integer", "boolean"];
    let mut fields = Vec::new();
    if let Some(node) = value.get("fields") {
        if !matches!(node.value, Value::Map(_)) {
            reader.error(node.span, "`fields` must map field names to types");
        }
        for entry in node.entries() {
            let kind = reader.one_of(node, &entry.key, "string", &types);
            fields.push((entry.key.to_string(), kind));
        }
    }
    Elicitation {
        message: reader.required_string(value, "message", what),
        url: reader.string(value, "url"),
        fields,
        on_accept: steps(value, "on_accept", reader),
        on_decline: steps(value, "on_decline", reader),
        on_cancel: steps(value, "on_cancel", reader),
    }
}
