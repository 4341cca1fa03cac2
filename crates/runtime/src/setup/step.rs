//! One step of `setup`, read from the manifest (AIP-29 § Setup).

use std::time::Duration;

use sha2::{Digest, Sha256};

use super::template::is_variable;
use crate::bundle::Bundle;
use crate::error::Error;
use agentproto_manifest::to_json;
use agentproto_manifest::views::SetupStep;
use agentproto_manifest::{Node, Value};

/// A checked setup step.
#[derive(Clone, Debug)]
pub struct StepDefinition<'b> {
    /// Id of the step, unique in the manifest.
    pub id: &'b str,
    /// The step in the manifest.
    pub node: &'b Node,
    /// Text for the user.
    pub description: Option<&'b str>,
    /// What the step does.
    pub action: StepAction<'b>,
    /// Check that says whether the step is already done.
    pub skip_if: Option<ExitCheck<'b>>,
    /// Where the step's value is stored.
    pub persist: Option<PersistTarget<'b>>,
    /// Hash of its definition. A changed definition makes it a new step.
    pub hash: String,
}

/// What a step does.
#[derive(Clone, Debug)]
pub enum StepAction<'b> {
    /// Runs a command.
    Cmd {
        /// The command line.
        line: &'b str,
        /// Whether the command needs a terminal.
        interactive: bool,
        /// Maximum run time, or `None` for no limit.
        timeout: Option<Duration>,
    },
    /// Asks the user for a value.
    Prompt {
        /// The question.
        message: &'b str,
        /// The kind of value.
        kind: PromptKind<'b>,
        /// The value if the user enters nothing.
        default: Option<String>,
    },
    /// Logs in with OAuth.
    Oauth {
        /// Slug of the secret that receives the tokens.
        slug: &'b str,
    },
    /// Sends the user to a page.
    External {
        /// URL of the page.
        url: &'b str,
        /// The callback that the page calls when the user is done.
        callback: Option<CallbackOptions<'b>>,
    },
}

impl StepAction<'_> {
    /// The step's kind as in the manifest, for example `cmd`.
    pub fn kind(&self) -> &'static str {
        match self {
            StepAction::Cmd { .. } => "cmd",
            StepAction::Prompt { .. } => "prompt",
            StepAction::Oauth { .. } => "oauth",
            StepAction::External { .. } => "external",
        }
    }
}

/// The kind of value that a prompt accepts.
#[derive(Clone, Debug)]
pub enum PromptKind<'b> {
    /// Any text.
    Text,
    /// A text that is not shown.
    Secret,
    /// `true` or `false`.
    Boolean,
    /// One of these values.
    Select(Vec<&'b str>),
    /// Choices that a command prints, one per line.
    SelectFrom(&'b str, Duration),
}

/// How the callback of a page is awaited.
#[derive(Clone, Debug)]
pub struct CallbackOptions<'b> {
    /// Query parameter that contains the value.
    pub param: Option<&'b str>,
    /// Maximum time to wait.
    pub timeout: Duration,
}

/// A command, and the exit code that means yes.
#[derive(Clone, Debug)]
pub struct ExitCheck<'b> {
    /// The command line.
    pub line: &'b str,
    /// The exit code that means yes.
    pub exit_code: i64,
    /// Maximum run time.
    pub timeout: Duration,
}

/// Where the value of a step is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PersistTarget<'b> {
    /// In the variable of this name.
    Env(&'b str),
    /// In the secret of this slug.
    Slug(&'b str),
    /// By running this command.
    Cmd(&'b str),
}

/// All steps in order (A29-SETUP-22).
pub fn steps(bundle: &Bundle) -> Result<Vec<StepDefinition<'_>>, Error> {
    let Some(node) = bundle.root().get("setup") else {
        return Ok(Vec::new());
    };
    if !node.is_seq() {
        return Err(bundle.invalid(node, "`setup` must be a list of steps (AIP-29 § Setup)"));
    }
    let mut out: Vec<StepDefinition> = Vec::new();
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

fn step<'b>(bundle: &'b Bundle, node: &'b Node) -> Result<StepDefinition<'b>, Error> {
    let view = SetupStep(node);
    let need = |value: Option<&'b str>, key: &str| {
        value.filter(|text| !text.trim().is_empty()).ok_or_else(|| {
            let what =
                format!("this setup step requires `{key}`, a non-empty string (AIP-29 § Setup)");
            bundle.invalid(node, &what)
        })
    };
    let id = need(view.id(), "id")?;
    let action = match need(view.kind(), "kind")? {
        "cmd" => {
            let interactive = view.interactive().unwrap_or(false);
            // Interactive commands have no default time limit, because they wait for the user.
            let default = if interactive { None } else { Some(60_000) };
            StepAction::Cmd {
                line: need(view.cmd(), "cmd")?,
                interactive,
                timeout: view.timeout_ms().or(default).map(millis),
            }
        }
        "prompt" => StepAction::Prompt {
            message: need(view.prompt(), "prompt")?,
            kind: prompt_kind(bundle, node)?,
            default: node.get("default").and_then(scalar),
        },
        "oauth" => StepAction::Oauth {
            slug: need(view.secret_slug(), "secret_slug")?,
        },
        "external" => StepAction::External {
            url: need(view.url(), "url")?,
            callback: view.callback().map(|node| CallbackOptions {
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
        &action,
        StepAction::Cmd {
            interactive: true,
            ..
        } | StepAction::Oauth { .. }
    );
    if let (true, Some(_)) = (captures, &persist) {
        let what = "this step has no value for `persist` to store (AIP-29 § Setup)";
        return Err(bundle.invalid(node.get("persist").unwrap_or(node), what));
    }
    Ok(StepDefinition {
        id,
        node,
        description: view.description(),
        action,
        skip_if: check(bundle, node.get("skip_if"), 5_000)?,
        persist,
        hash: definition(node),
    })
}

fn prompt_kind<'b>(bundle: &Bundle, node: &'b Node) -> Result<PromptKind<'b>, Error> {
    Ok(match node.str_at(&["type"]).unwrap_or("text") {
        "text" => PromptKind::Text,
        "secret" => PromptKind::Secret,
        "boolean" => PromptKind::Boolean,
        "select" => {
            let options = node.get("options");
            let items = options.map_or(&[][..], Node::items);
            let list: Vec<&str> = items.iter().filter_map(Node::as_str).collect();
            match options.and_then(|o| Some((o.str_at(&["cmd"])?, o))) {
                Some((line, options)) => PromptKind::SelectFrom(line, wait(options, 30_000)),
                None if list.is_empty() || list.len() != items.len() => {
                    let what = "a `select` requires `options`, a list of strings (AIP-29 § Setup)";
                    return Err(bundle.invalid(options.unwrap_or(node), what));
                }
                None => PromptKind::Select(list),
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
) -> Result<Option<ExitCheck<'b>>, Error> {
    let Some(node) = node.filter(|node| !node.is_null()) else {
        return Ok(None);
    };
    let Some(line) = node.str_at(&["cmd"]) else {
        return Err(bundle.invalid(node, "this check requires `cmd`, a string (AIP-29)"));
    };
    Ok(Some(ExitCheck {
        line,
        exit_code: node.get("exit_code").and_then(Node::as_int).unwrap_or(0),
        timeout: wait(node, timeout),
    }))
}

fn persist<'b>(bundle: &Bundle, step: &'b Node) -> Result<Option<PersistTarget<'b>>, Error> {
    let Some(node) = step.get("persist").filter(|node| !node.is_null()) else {
        return Ok(None);
    };
    let texts = ["env", "secret_slug", "cmd"].map(|key| node.str_at(&[key]));
    match texts {
        [Some(name), None, None] if is_variable(name) => Ok(Some(PersistTarget::Env(name))),
        [Some(name), None, None] => {
            let what = format!("`{name}` is not a valid environment variable name");
            Err(bundle.invalid(node, &what))
        }
        [None, Some(slug), None] => Ok(Some(PersistTarget::Slug(slug))),
        [None, None, Some(line)] => Ok(Some(PersistTarget::Cmd(line))),
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
