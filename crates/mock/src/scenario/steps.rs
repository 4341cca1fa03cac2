//! The steps of a turn. Each step is a mapping with one key, which is its name.

use super::{
    Elicitation, Fault, FsRead, Permission, PermissionOption, PlanEntry, Step, Terminal, ToolCall,
    ToolUpdate, Usage,
};
use agentproto_manifest::fields::Notes;
use agentproto_manifest::{Node, Value};
use agentproto_text::closest_of;

const STEPS: [&str; 36] = [
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
const MOST_BYTES: u64 = 4 << 30;
const MOST_EVENTS: u64 = 100_000_000;

pub fn steps(node: &Node, key: &str, notes: &mut Notes) -> Vec<Step> {
    let items = notes.items(node, key);
    items.iter().filter_map(|item| step(item, notes)).collect()
}

fn step(node: &Node, notes: &mut Notes) -> Option<Step> {
    let [entry] = node.entries() else {
        notes.wrong(
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
        notes.wrong(entry.key_span, format!("unknown step `{name}`; {hint}"));
        return None;
    }
    if let Some(fault) = fault(name, node, value, notes) {
        return Some(Step::Fault(fault));
    }
    Some(match name {
        "text" => Step::Text(notes.texts(value, name)),
        "thought" => Step::Thought(notes.texts(value, name)),
        "echo" => echo(value, notes),
        "tool_call" => Step::ToolCall(tool_call(value, notes)),
        "tool_update" => Step::ToolUpdate(tool_update(value, notes)),
        "plan" => plan(node, notes),
        "permission" => Step::Permission(Box::new(permission(value, notes))),
        "fs_read" => fs_read(value, notes),
        "fs_write" => {
            notes.keys(value, "`fs_write`", &["path", "content"]);
            Step::FsWrite {
                path: notes.need(value, "path", "`fs_write`"),
                content: notes.need(value, "content", "`fs_write`"),
            }
        }
        "terminal" => Step::Terminal(terminal(value, notes)),
        "elicitation" => Step::Elicitation(Box::new(elicitation(value, notes))),
        "delay_ms" => Step::DelayMs(notes.number_in(value, name, 0, 3_600_000)?),
        "env" => Step::Env(notes.string(node, name)?),
        "argv" => switch(node, name, notes).then_some(Step::Argv)?,
        "cwd" => switch(node, name, notes).then_some(Step::Cwd)?,
        "error" => {
            notes.keys(value, "`error`", &["code", "message"]);
            let code = value.get("code").map(Node::as_int);
            if code == Some(None) {
                notes.wrong(value.span, "`error.code` must be an integer");
            }
            Step::Error {
                code: code.flatten().unwrap_or(-32603),
                message: notes.need(value, "message", "`error`"),
            }
        }
        "stop_reason" => Step::Stop(notes.word(node, name, "end_turn", &REASONS)),
        "mode" => Step::Mode(notes.string(node, name)?),
        "title" => Step::Title(notes.string(node, name)?),
        "usage" => {
            notes.keys(value, "`usage`", &["used", "size", "cost", "currency"]);
            let cost = value.get("cost").map(|node| (node, amount(node)));
            if let Some((node, None)) = cost {
                notes.wrong(node.span, "`cost` must be a non-negative number");
            }
            Step::Usage(Usage {
                used: notes.number(value, "used", 0, MOST_BYTES).unwrap_or(0),
                size: notes.number(value, "size", 0, MOST_BYTES).unwrap_or(0),
                cost: cost.and_then(|(_, amount)| amount),
                currency: notes
                    .string(value, "currency")
                    .unwrap_or_else(|| "USD".to_owned()),
            })
        }
        "compaction" => {
            notes.keys(value, "`compaction`", &["summary"]);
            Step::Compaction(notes.need(value, "summary", "`compaction`"))
        }
        "notice" => {
            notes.keys(value, "`notice`", &["severity", "title"]);
            Step::Notice {
                severity: notes.word(value, "severity", "info", &["info", "warning", "error"]),
                title: notes.need(value, "title", "`notice`"),
            }
        }
        "repeat" => {
            notes.keys(value, "`repeat`", &["times", "steps"]);
            Step::Repeat {
                times: notes.number(value, "times", 0, MOST_EVENTS).unwrap_or(0),
                steps: steps(value, "steps", notes),
            }
        }
        _ => return None,
    })
}

/// Parses the steps that misbehave.
fn fault(name: &str, node: &Node, value: &Node, notes: &mut Notes) -> Option<Fault> {
    Some(match name {
        "exit" => {
            let code = notes.number_in(value, name, 0, 255)?;
            Fault::Exit(u8::try_from(code).ok()?)
        }
        "signal" => {
            let word = notes.word(node, name, "KILL", &["KILL", "SEGV", "ABRT", "TERM"]);
            Fault::Signal(match word.as_str() {
                "SEGV" => libc::SIGSEGV,
                "ABRT" => libc::SIGABRT,
                "TERM" => libc::SIGTERM,
                _ => libc::SIGKILL,
            })
        }
        "garbage" => Fault::Garbage(notes.string(node, name)?),
        "invalid_utf8" => switch(node, name, notes).then_some(Fault::InvalidUtf8)?,
        "half_line" => switch(node, name, notes).then_some(Fault::HalfLine)?,
        "flood_events" => Fault::FloodEvents(notes.number_in(value, name, 1, MOST_EVENTS)?),
        "flood_bytes" => Fault::FloodBytes(notes.number_in(value, name, 1, MOST_BYTES)?),
        "huge_line" => Fault::HugeLine(notes.number_in(value, name, 1, MOST_BYTES)?),
        "stderr_flood" => Fault::StderrFlood(notes.number_in(value, name, 1, MOST_BYTES)?),
        "hang" => switch(node, name, notes).then_some(Fault::Hang)?,
        "answer_twice" => switch(node, name, notes).then_some(Fault::AnswerTwice)?,
        "ignore_sigterm" => switch(node, name, notes).then_some(Fault::IgnoreSigterm)?,
        "daemon" => {
            notes.keys(value, "`daemon`", &["seconds", "hold_output"]);
            let seconds = notes.number(value, "seconds", 1, 600).unwrap_or(60);
            Fault::Daemon {
                seconds: u32::try_from(seconds).unwrap_or(60),
                hold_output: notes.flag(value, "hold_output", false),
            }
        }
        _ => return None,
    })
}

/// Reads a step without an argument, which is written as `name: true`.
fn switch(node: &Node, name: &str, notes: &mut Notes) -> bool {
    let on = node.get(name).is_some_and(Node::is_true);
    if !on {
        notes.wrong(node.span, format!("write `{name}: true`"));
    }
    on
}

fn echo(value: &Node, notes: &mut Notes) -> Step {
    let simple = value.is_true();
    if !simple {
        notes.keys(value, "`echo`", &["prefix", "chunks"]);
    }
    let chunks = notes.number(value, "chunks", 1, 1000).unwrap_or(3);
    Step::Echo {
        prefix: notes.string(value, "prefix").unwrap_or_default(),
        chunks: usize::try_from(chunks).unwrap_or(3),
    }
}

fn tool_call(value: &Node, notes: &mut Notes) -> ToolCall {
    let what = "`tool_call`";
    notes.keys(
        value,
        what,
        &["id", "title", "kind", "status", "input", "path", "line"],
    );
    ToolCall {
        id: notes.need(value, "id", what),
        title: notes.need(value, "title", what),
        kind: notes.word(value, "kind", "other", &KINDS),
        status: notes.word(value, "status", "pending", &STATUSES),
        input: notes.json(value, "input"),
        path: notes.string(value, "path"),
        line: notes.number(value, "line", 1, u64::from(u32::MAX)),
    }
}

fn tool_update(value: &Node, notes: &mut Notes) -> ToolUpdate {
    let what = "`tool_update`";
    notes.keys(value, what, &["id", "status", "text", "output"]);
    ToolUpdate {
        id: notes.need(value, "id", what),
        status: notes.word(value, "status", "completed", &STATUSES),
        text: notes.string(value, "text"),
        output: notes.json(value, "output"),
    }
}

fn plan(node: &Node, notes: &mut Notes) -> Step {
    let entries = notes.items(node, "plan").iter().map(|item| {
        notes.keys(item, "a plan entry", &["content", "priority", "status"]);
        PlanEntry {
            content: notes.need(item, "content", "a plan entry"),
            priority: notes.word(item, "priority", "medium", &["high", "medium", "low"]),
            status: notes.word(
                item,
                "status",
                "pending",
                &["pending", "in_progress", "completed"],
            ),
        }
    });
    Step::Plan(entries.collect())
}

fn permission(value: &Node, notes: &mut Notes) -> Permission {
    let what = "`permission`";
    notes.keys(
        value,
        what,
        &[
            "id",
            "title",
            "options",
            "on_allow",
            "on_reject",
            "on_error",
        ],
    );
    let kinds = ["allow_once", "allow_always", "reject_once", "reject_always"];
    let mut options: Vec<PermissionOption> = Vec::new();
    for item in notes.items(value, "options") {
        notes.keys(item, "a permission option", &["id", "name", "kind"]);
        options.push(PermissionOption {
            id: notes.need(item, "id", "a permission option"),
            name: notes.need(item, "name", "a permission option"),
            kind: notes.word(item, "kind", "allow_once", &kinds),
        });
    }
    if options.is_empty() {
        let usual = [
            ("Allow", "allow_once"),
            ("Always allow", "allow_always"),
            ("Reject", "reject_once"),
            ("Always reject", "reject_always"),
        ];
        options.extend(usual.map(|(name, kind)| PermissionOption {
            id: kind.replace('_', "-"),
            name: name.to_owned(),
            kind: kind.to_owned(),
        }));
    }
    Permission {
        id: notes.need(value, "id", what),
        title: notes.need(value, "title", what),
        options,
        on_allow: steps(value, "on_allow", notes),
        on_reject: steps(value, "on_reject", notes),
        on_error: steps(value, "on_error", notes),
    }
}

fn amount(node: &Node) -> Option<f64> {
    let number = match node.value {
        Value::Float(number) => number,
        _ => node.as_int()? as f64,
    };
    (number.is_finite() && number >= 0.0).then_some(number)
}

fn fs_read(value: &Node, notes: &mut Notes) -> Step {
    notes.keys(value, "`fs_read`", &["path", "line", "limit"]);
    let most = u64::from(u32::MAX);
    Step::FsRead(FsRead {
        path: notes.need(value, "path", "`fs_read`"),
        line: notes.number(value, "line", 1, most),
        limit: notes.number(value, "limit", 0, most),
    })
}

fn terminal(value: &Node, notes: &mut Notes) -> Terminal {
    let what = "`terminal`";
    notes.keys(
        value,
        what,
        &["command", "args", "env", "output_byte_limit", "kill"],
    );
    Terminal {
        command: notes.need(value, "command", what),
        args: notes.list(value, "args"),
        env: notes.pairs(value, "env"),
        output_byte_limit: notes.number(value, "output_byte_limit", 0, MOST_BYTES),
        kill: notes.flag(value, "kill", false),
    }
}

fn elicitation(value: &Node, notes: &mut Notes) -> Elicitation {
    let what = "`elicitation`";
    notes.keys(
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
            notes.wrong(node.span, "`fields` must map field names to types");
        }
        for entry in node.entries() {
            let kind = notes.word(node, &entry.key, "string", &types);
            fields.push((entry.key.to_string(), kind));
        }
    }
    Elicitation {
        message: notes.need(value, "message", what),
        url: notes.string(value, "url"),
        fields,
        on_accept: steps(value, "on_accept", notes),
        on_decline: steps(value, "on_decline", notes),
        on_cancel: steps(value, "on_cancel", notes),
    }
}
