//! One step of `setup`, read from the manifest (AIP-29 § Setup).

use std::time::Duration;

use sha2::{Digest, Sha256};

use super::template::is_variable;
use crate::bundle::Bundle;
use crate::fault::Fault;
use agentproto_manifest::to_json;
use agentproto_manifest::views::SetupStep;
use agentproto_manifest::{Node, Value};

#[derive(Clone, Debug)]
pub struct Step<'b> {
    pub id: &'b str,
    pub node: &'b Node,
    pub description: Option<&'b str>,
    pub what: What<'b>,
    pub skip_if: Option<Check<'b>>,
    pub persist: Option<Persist<'b>>,
    /// Hash of its definition. A changed definition makes it a new step.
    pub hash: String,
}

#[derive(Clone, Debug)]
pub enum What<'b> {
    Cmd {
        line: &'b str,
        interactive: bool,
        timeout: Option<Duration>,
    },
    Prompt {
        message: &'b str,
        kind: Asked<'b>,
        default: Option<String>,
    },
    Oauth {
        slug: &'b str,
    },
    External {
        url: &'b str,
        callback: Option<Callback<'b>>,
    },
}

impl What<'_> {
    pub fn kind(&self) -> &'static str {
        match self {
            What::Cmd { .. } => "cmd",
            What::Prompt { .. } => "prompt",
            What::Oauth { .. } => "oauth",
            What::External { .. } => "external",
        }
    }
}

/// The kind of value that a prompt accepts.
#[derive(Clone, Debug)]
pub enum Asked<'b> {
    Text,
    Secret,
    Boolean,
    Select(Vec<&'b str>),
    /// Choices that a command prints, one per line.
    SelectFrom(&'b str, Duration),
}

#[derive(Clone, Debug)]
pub struct Callback<'b> {
    pub param: Option<&'b str>,
    pub timeout: Duration,
}

/// A command, and the exit code that means yes.
#[derive(Clone, Debug)]
pub struct Check<'b> {
    pub line: &'b str,
    pub exit_code: i64,
    pub timeout: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Persist<'b> {
    Env(&'b str),
    Slug(&'b str),
    Cmd(&'b str),
}

/// All steps in order (A29-SETUP-22).
pub fn steps(bundle: &Bundle) -> Result<Vec<Step<'_>>, Fault> {
    let Some(node) = bundle.root().get("setup") else {
        return Ok(Vec::new());
    };
    if !node.is_seq() {
        return Err(bundle.invalid(node, "`setup` must be a list of steps (AIP-29 § Setup)"));
    }
    let mut out: Vec<Step> = Vec::new();
    for item in node.items() {
        let step = step(bundle, item)?;
        if out.iter().any(|s| s.id == step.id) {
            let what = format!("duplicate setup step id `{}` (AIP-29 § Setup)", step.id);
            return Err(bundle.invalid(item, &what));
        }
        out.push(step);
    }
    Ok(out)
}

fn step<'b>(bundle: &'b Bundle, node: &'b Node) -> Result<Step<'b>, Fault> {
    let view = SetupStep(node);
    let need = |value: Option<&'b str>, key: &str| {
        value.filter(|text| !text.trim().is_empty()).ok_or_else(|| {
            let what =
                format!("this setup step requires `{key}`, a non-empty string (AIP-29 § Setup)");
            bundle.invalid(node, &what)
        })
    };
    let id = need(view.id(), "id")?;
    let what = match need(view.kind(), "kind")? {
        "cmd" => {
            let interactive = view.interactive().unwrap_or(false);
            // Interactive commands have no default time limit, because they wait for the user.
            let default = if interactive { None } else { Some(60_000) };
            What::Cmd {
                line: need(view.cmd(), "cmd")?,
                interactive,
                timeout: view.timeout_ms().or(default).map(millis),
            }
        }
        "prompt" => What::Prompt {
            message: need(view.prompt(), "prompt")?,
            kind: asked(bundle, node)?,
            default: node.get("default").and_then(scalar),
        },
        "oauth" => What::Oauth {
            slug: need(view.secret_slug(), "secret_slug")?,
        },
        "external" => What::External {
            url: need(view.url(), "url")?,
            callback: view.callback().map(|node| Callback {
                param: node.str_at(&["param"]),
                timeout: wait(node, 600_000),
            }),
        },
        other => {
            let what = format!(
                "unknown setup step kind `{other}`: must be cmd, prompt, oauth or external (AIP-29 § Setup)"
            );
            return Err(bundle.invalid(node.get("kind").unwrap_or(node), &what));
        }
    };
    let persist = persist(bundle, node)?;
    let captures = matches!(
        &what,
        What::Cmd {
            interactive: true,
            ..
        } | What::Oauth { .. }
    );
    if let (true, Some(_)) = (captures, &persist) {
        let what = "this step has no value for `persist` to store (AIP-29 § Setup)";
        return Err(bundle.invalid(node.get("persist").unwrap_or(node), what));
    }
    Ok(Step {
        id,
        node,
        description: view.description(),
        what,
        skip_if: check(bundle, node.get("skip_if"), 5_000)?,
        persist,
        hash: definition(node),
    })
}

fn asked<'b>(bundle: &Bundle, node: &'b Node) -> Result<Asked<'b>, Fault> {
    Ok(match node.str_at(&["type"]).unwrap_or("text") {
        "text" => Asked::Text,
        "secret" => Asked::Secret,
        "boolean" => Asked::Boolean,
        "select" => {
            let options = node.get("options");
            let given = options.map_or(&[][..], Node::items);
            let list: Vec<&str> = given.iter().filter_map(Node::as_str).collect();
            match options.and_then(|o| Some((o.str_at(&["cmd"])?, o))) {
                Some((line, options)) => Asked::SelectFrom(line, wait(options, 30_000)),
                None if list.is_empty() || list.len() != given.len() => {
                    let what = "a `select` requires `options`, a list of strings (AIP-29 § Setup)";
                    return Err(bundle.invalid(options.unwrap_or(node), what));
                }
                None => Asked::Select(list),
            }
        }
        other => {
            let what =
                format!("unknown prompt type `{other}`: must be text, select, boolean or secret");
            return Err(bundle.invalid(node.get("type").unwrap_or(node), &what));
        }
    })
}

/// Reads `skip_if` or `completes_when`, which have the same shape.
pub fn check<'b>(
    bundle: &Bundle,
    node: Option<&'b Node>,
    timeout: i64,
) -> Result<Option<Check<'b>>, Fault> {
    let Some(node) = node.filter(|node| !node.is_null()) else {
        return Ok(None);
    };
    let Some(line) = node.str_at(&["cmd"]) else {
        return Err(bundle.invalid(node, "this check requires `cmd`, a string (AIP-29)"));
    };
    Ok(Some(Check {
        line,
        exit_code: node.get("exit_code").and_then(Node::as_int).unwrap_or(0),
        timeout: wait(node, timeout),
    }))
}

fn persist<'b>(bundle: &Bundle, step: &'b Node) -> Result<Option<Persist<'b>>, Fault> {
    let Some(node) = step.get("persist").filter(|node| !node.is_null()) else {
        return Ok(None);
    };
    let texts = ["env", "secret_slug", "cmd"].map(|key| node.str_at(&[key]));
    match texts {
        [Some(name), None, None] if is_variable(name) => Ok(Some(Persist::Env(name))),
        [Some(name), None, None] => {
            let what = format!("`{name}` is not a valid environment variable name");
            Err(bundle.invalid(node, &what))
        }
        [None, Some(slug), None] => Ok(Some(Persist::Slug(slug))),
        [None, None, Some(line)] => Ok(Some(Persist::Cmd(line))),
        // Exactly one target is allowed (A29-SETUP-16).
        _ => Err(bundle.invalid(
            node,
            "`persist` needs exactly one of `env`, `secret_slug` and `cmd` (AIP-29 § Setup)",
        )),
    }
}

fn wait(node: &Node, default: i64) -> Duration {
    millis(
        node.get("timeout_ms")
            .and_then(Node::as_int)
            .unwrap_or(default),
    )
}

/// A time limit, at most one day.
fn millis(number: i64) -> Duration {
    Duration::from_millis(number.clamp(1, 86_400_000).unsigned_abs())
}

fn scalar(node: &Node) -> Option<String> {
    match &node.value {
        Value::Str(text) => Some(text.to_string()),
        Value::Bool(_) | Value::Int(_) => Some(to_json(node).to_string()),
        _ => None,
    }
}

/// Hash of a step without its description.
fn definition(node: &Node) -> String {
    let mut json = to_json(node);
    if let Some(map) = json.as_object_mut() {
        map.remove("description");
        map.sort_keys();
    }
    agentproto_text::hex(&Sha256::digest(json.to_string()))
}
