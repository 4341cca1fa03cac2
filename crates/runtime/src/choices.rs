//! The operator's choices (AIP-9): mode, options and continuation. They are checked against the
//! manifest and converted to arguments and variables, in the order bin_args → mode → options
//! (A45-MODE-04).

use std::path::Path;

use serde_json::Value as Json;

use crate::bundle::Bundle;
use crate::error::{Code, Error};
use crate::models::{self, ModelChoice};
use agentproto_manifest::views::{AgentCli, AgentOption, View};
use agentproto_manifest::{Disk, Node, Workspace, to_json};
use agentproto_sandbox::policy::ManifestPosition;

/// The choices of a caller, before they are checked against the manifest.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Choices {
    /// Id of a mode.
    pub mode: Option<String>,
    /// Ids and values of options. The last value of an id applies.
    pub options: Vec<(String, OptionValue)>,
    /// Id of a continuation strategy.
    pub continuation: Option<String>,
    /// Id of the operator, for the audit log.
    pub operator: Option<String>,
    /// Id of a model.
    pub model: Option<String>,
}

/// The value of an option.
#[derive(Clone, Debug, PartialEq)]
pub enum OptionValue {
    /// From a command line, parsed according to the option's type.
    Text(String),
    /// From JSON or YAML. Its type must be the option's type.
    Typed(Json),
}

impl Choices {
    /// The `runtime.config` of an OPERATOR.md.
    pub fn from_operator(path: &Path) -> Result<Self, Error> {
        let unreadable = |why: String| {
            Error::new(
                Code::ManifestUnreadable,
                format!("{}: {why}", path.display()),
            )
        };
        let path = std::path::absolute(path).map_err(|e| unreadable(e.to_string()))?;
        let doc = Workspace::new(&Disk, "/")
            .load(&path)
            .map_err(|e| unreadable(e.to_string()))?;
        let invalid = |node: &Node, what: &str| {
            let at = ManifestPosition::new(&doc, node.span);
            Error::new(Code::ManifestInvalid, format!("{at}: {what}"))
        };
        if let Some(problem) = doc.problems.first() {
            let at = ManifestPosition::new(&doc, problem.span);
            return Err(Error::new(
                Code::ManifestInvalid,
                format!("{at}: {}", problem.explained()),
            ));
        }
        let Some(View::Operator(operator)) = doc.view() else {
            return Err(Error::new(
                Code::ManifestInvalid,
                format!("{}: not an OPERATOR.md (AIP-9)", path.display()),
            ));
        };
        let root = doc.root.as_ref();
        let name = |key: &str| Some(root?.get(key)?.as_str()?.to_owned());
        let id = name("id").or_else(|| name("name"));
        let Some(config) = operator.runtime().and_then(|runtime| runtime.config()) else {
            return Ok(Choices {
                operator: id,
                ..Choices::default()
            });
        };
        let text = |key: &str| match config.node().get(key) {
            Some(node) => match node.as_str() {
                Some(text) => Ok(Some(text.to_owned())),
                None => Err(invalid(
                    node,
                    &format!("`runtime.config.{key}` must be a string"),
                )),
            },
            None => Ok(None),
        };
        let mut options = Vec::new();
        if let Some(node) = config.options() {
            if !node.is_map() {
                return Err(invalid(node, "`runtime.config.options` must be a mapping"));
            }
            for entry in node.entries() {
                options.push((
                    entry.key.to_string(),
                    OptionValue::Typed(to_json(&entry.value)),
                ));
            }
        }
        Ok(Choices {
            mode: text("mode")?,
            continuation: text("continuation")?,
            options,
            operator: id,
            model: None,
        })
    }

    /// Merges the choices of `other`, which take precedence: a command line overrides an
    /// OPERATOR.md.
    pub fn overridden_by(mut self, other: Choices) -> Choices {
        self.options
            .retain(|(id, _)| !other.options.iter().any(|(o, _)| o == id));
        self.options.extend(other.options);
        Choices {
            mode: other.mode.or(self.mode),
            continuation: other.continuation.or(self.continuation),
            options: self.options,
            operator: other.operator.or(self.operator),
            model: other.model.or(self.model),
        }
    }
}

/// How earlier turns reach the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Strategy {
    /// Each turn starts without context.
    None,
    /// One process stays alive between turns.
    PinnedSession,
    /// Earlier messages are sent again as text.
    Transcript,
    /// The agent resumes its own session.
    NativeResume,
}

impl Strategy {
    /// The strategy's id, for example `pinned-session`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Valid choices, as arguments and variables.
#[derive(Clone, Debug, PartialEq)]
pub struct ResolvedChoices {
    /// Appended to `bin_args`, in order.
    pub args: Vec<String>,
    /// Variables for the agent.
    pub env: Vec<(String, String)>,
    /// The continuation strategy.
    pub strategy: Strategy,
    /// A mode and options without arguments or variables of their own. They are set over the
    /// agent's protocol.
    pub wire_mode: Option<String>,
    /// Options that are set over the agent's protocol, with their values.
    pub wire_options: Vec<(String, Json)>,
    /// The model of the session, if the caller or the manifest names one.
    pub model: Option<ModelChoice>,
    /// The model, if no option sets it by arguments or variables. It is set over the agent's
    /// protocol.
    pub wire_model: Option<ModelChoice>,
}

impl ResolvedChoices {
    /// A text that is equal for equal choices. Turns with the same text may share a process.
    pub fn patch(&self) -> String {
        format!(
            "{:?}",
            (
                &self.args,
                &self.env,
                &self.wire_mode,
                &self.wire_options,
                &self.wire_model
            )
        )
    }
}

/// Checks choices against the manifest. Unknown names are hard errors (A45-MODE-06, A45-OPT-09,
/// A45-OPT-10, A45-CONT-10).
pub fn choose(
    bundle: &Bundle,
    agent: AgentCli,
    choices: &Choices,
) -> Result<ResolvedChoices, Error> {
    let mut resolved = ResolvedChoices {
        args: Vec::new(),
        env: Vec::new(),
        strategy: strategy(bundle, agent, choices.continuation.as_deref())?,
        wire_mode: None,
        wire_options: Vec::new(),
        model: models::select(agent, choices)?,
        wire_model: None,
    };
    resolved.wire_model.clone_from(&resolved.model);
    if let Some(id) = &choices.mode {
        let Some(mode) = agent.modes().find(|mode| mode.id() == Some(id)) else {
            return Err(unknown(
                Code::ModeUnknown,
                "mode",
                id,
                agent.modes().filter_map(|m| m.id()),
            ));
        };
        resolved
            .args
            .extend(mode.bin_args_append().map(str::to_owned));
        resolved.env.extend(variables(mode.env(), None));
        if mode.node().get("bin_args_append").is_none() && mode.env().is_none() {
            resolved.wire_mode = Some(id.clone());
        }
    }
    for (id, _) in &choices.options {
        if !agent.options().any(|option| option.id() == Some(id)) {
            return Err(unknown(
                Code::OptionUnknown,
                "option",
                id,
                agent.options().filter_map(|o| o.id()),
            ));
        }
    }
    // In manifest order, so that the same choices always give the same command line.
    for option in agent.options() {
        let Some(id) = option.id() else { continue };
        let value = choices.options.iter().rev().find(|(known, _)| known == id);
        let value = match (value, &resolved.model) {
            (Some((_, value)), _) => checked(option, id, value)?,
            (None, Some(model)) if id == models::OPTION => {
                let value = checked(option, id, &OptionValue::Text(model.id.clone()));
                match (value, model.requested) {
                    // The option cannot have the manifest's own default, which the linter reports.
                    (Err(_), false) => continue,
                    (value, _) => value?,
                }
            }
            _ => continue,
        };
        if id == models::OPTION && is_patch(option) {
            resolved.wire_model = None;
        }
        if option
            .default()
            .is_some_and(|default| to_json(default) == value)
        {
            continue;
        }
        patch(option, id, value, &mut resolved);
    }
    Ok(resolved)
}

fn patch(option: AgentOption, id: &str, value: Json, resolved: &mut ResolvedChoices) {
    let text = match &value {
        Json::String(text) => text.clone(),
        other => other.to_string(),
    };
    let filled = option
        .bin_args_template()
        .map(|word| word.replace("{value}", &text));
    resolved.args.extend(filled);
    if value == Json::Bool(true) {
        resolved
            .args
            .extend(option.bin_args_append_when_true().map(str::to_owned));
    }
    resolved.env.extend(variables(option.env(), Some(&text)));
    // The model has its own requests.
    if !is_patch(option) && (id != models::OPTION || resolved.wire_model.is_none()) {
        resolved.wire_options.push((id.to_owned(), value));
    }
}

/// Whether an option adds arguments or variables.
fn is_patch(option: AgentOption) -> bool {
    let has = |key: &str| option.node().has(key);
    has("bin_args_template") || has("bin_args_append_when_true") || has("env")
}

fn variables(env: Option<&Node>, value: Option<&str>) -> Vec<(String, String)> {
    let entries = env.map_or(&[][..], Node::entries);
    let pair = |entry: &agentproto_manifest::Entry| {
        let text = match to_json(&entry.value) {
            Json::String(text) => text,
            other => other.to_string(),
        };
        let text = match value {
            Some(value) => text.replace("{value}", value),
            None => text,
        };
        (entry.key.to_string(), text)
    };
    entries.iter().map(pair).collect()
}

/// The value in the option's own type, checked against its range.
fn checked(option: AgentOption, id: &str, value: &OptionValue) -> Result<Json, Error> {
    let wrong = |what: String| {
        let error = Error::new(Code::OptionInvalid, format!("option `{id}` {what}"));
        match option.description() {
            Some(text) => error.hint(text.to_owned()),
            None => error,
        }
    };
    let kind = option.kind().unwrap_or("string");
    let value = match (value, kind) {
        (OptionValue::Text(text), "boolean") => match text.as_str() {
            "true" => Json::Bool(true),
            "false" => Json::Bool(false),
            _ => return Err(wrong(format!("must be true or false, not `{text}`"))),
        },
        (OptionValue::Text(text), "integer") => match text.parse::<i64>() {
            Ok(number) => number.into(),
            Err(_) => return Err(wrong(format!("must be an integer, not `{text}`"))),
        },
        (OptionValue::Text(text), _) => text.as_str().into(),
        (OptionValue::Typed(value), _) => value.clone(),
    };
    match (kind, &value) {
        ("boolean", Json::Bool(_)) => {}
        ("integer", Json::Number(number)) => {
            let Some(number) = number.as_i64() else {
                return Err(wrong(format!("must be an integer, not {value}")));
            };
            if option.min().is_some_and(|min| number < min)
                || option.max().is_some_and(|max| number > max)
            {
                let range = match (option.min(), option.max()) {
                    (Some(min), Some(max)) => format!("between {min} and {max}"),
                    (Some(min), None) => format!("at least {min}"),
                    (None, Some(max)) => format!("at most {max}"),
                    (None, None) => "an integer".to_owned(),
                };
                return Err(wrong(format!("must be {range}, not {number}")));
            }
        }
        ("enum", Json::String(text)) => {
            if !option.values().any(|known| known == text) {
                let known: Vec<&str> = option.values().collect();
                return Err(wrong(format!(
                    "must be one of {}, not `{text}`",
                    known.join(", ")
                )));
            }
        }
        ("string", Json::String(_)) => {}
        _ => return Err(wrong(format!("must be of type {kind}, not {value}"))),
    }
    if value.as_str().is_some_and(|text| text.contains('\0')) {
        return Err(wrong("must not contain a NUL byte".to_owned()));
    }
    Ok(value)
}

fn strategy(bundle: &Bundle, agent: AgentCli, requested: Option<&str>) -> Result<Strategy, Error> {
    let declared = agent.continuation();
    // Without `continuation`, a resumable agent can still be resumed (A45-SESS-07).
    let resumable = agent.capabilities().and_then(|c| c.resumable()) == Some(true);
    let is_durable = agent.session().and_then(|s| s.mode()) == Some("resumable");
    let supported: Vec<&str> = match declared {
        Some(declared) => declared.supported().collect(),
        None if resumable || is_durable => vec!["none", "native-resume"],
        None => vec!["none"],
    };
    let id = requested.or_else(|| declared?.default()).unwrap_or("none");
    if !supported.contains(&id) {
        return Err(Error::new(
            Code::ContinuationUnsupported,
            format!("the agent does not support the continuation `{id}`"),
        )
        .hint(format!("supported continuations: {}", supported.join(", "))));
    }
    let Ok(strategy) = id.parse::<Strategy>() else {
        return Err(Error::new(
            Code::ContinuationUnsupported,
            format!("unknown continuation `{id}`"),
        ));
    };
    if strategy == Strategy::NativeResume && !resumable && declared.is_some() {
        let node = declared.map_or(bundle.root(), |c| c.node());
        return Err(bundle.error_at(
            Code::CapabilityMismatch,
            node,
            "native-resume needs `capabilities.resumable: true` (AIP-45, Continuation)",
        ));
    }
    Ok(strategy)
}

pub(crate) fn unknown<'k>(
    code: Code,
    what: &str,
    id: &str,
    known: impl Iterator<Item = &'k str>,
) -> Error {
    let known: Vec<&str> = known.collect();
    let near = known
        .iter()
        .filter(|k| strsim::jaro_winkler(k, id) > 0.8)
        .max_by(|a, b| strsim::jaro_winkler(a, id).total_cmp(&strsim::jaro_winkler(b, id)));
    let error = Error::new(code, format!("unknown {what} `{id}`"));
    match (near, known.is_empty()) {
        (Some(near), _) => error.hint(format!("did you mean `{near}`?")),
        (None, false) => error.hint(format!("available {what}s: {}", known.join(", "))),
        (None, true) => error.hint(format!("the manifest declares no {what}s")),
    }
}
