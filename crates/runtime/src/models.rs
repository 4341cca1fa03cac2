//! The model of a session: which one the caller or the manifest chooses, and the variable that it
//! needs (A45-FM-17).

use std::ffi::OsString;

use crate::choices::{Choices, OptionValue, unknown};
use crate::context::Context;
use crate::error::{Code, Error};
use crate::secrets::inventory::Inventory;
use crate::secrets::keyring;
use crate::secrets::resolve::resolve;
use crate::setup::template::is_variable;
use agentproto_manifest::Node;
use agentproto_manifest::views::AgentCli;

/// Id of the option that sets the model by arguments or variables, if the manifest has it.
pub(crate) const OPTION: &str = "model";

/// A model to use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelChoice {
    /// The id of the model.
    pub id: String,
    /// Whether the caller chose it. Otherwise it is `models.default` of the manifest.
    pub requested: bool,
}

/// The model that the choices or the manifest name. A model that is not in `models.allowed` is an
/// error.
pub(crate) fn select(agent: AgentCli, choices: &Choices) -> Result<Option<ModelChoice>, Error> {
    let given = choices.options.iter().rev().find(|(id, _)| id == OPTION);
    let given = given.and_then(|(_, value)| match value {
        OptionValue::Text(text) => Some(text.as_str()),
        OptionValue::Typed(value) => value.as_str(),
    });
    let requested = match (choices.model.as_deref(), given) {
        (Some(model), Some(option)) if model != option => {
            let what = format!("the model is `{model}`, but the option `{OPTION}` is `{option}`");
            return Err(Error::new(Code::OptionInvalid, what).hint("set only one of them"));
        }
        (model, option) => model.or(option),
    };
    let models = agent.models();
    let Some(requested) = requested else {
        let default = models.and_then(|models| models.default());
        return Ok(default.map(|id| ModelChoice {
            id: id.to_owned(),
            requested: false,
        }));
    };
    if requested.is_empty() || requested.contains('\0') {
        let what = "the model must be a name without NUL bytes";
        return Err(Error::new(Code::ModelUnknown, what));
    }
    let mut allowed = models.into_iter().flat_map(|models| models.allowed());
    let is_restricted = models.is_some_and(|models| models.allowed().next().is_some());
    if is_restricted && !allowed.any(|id| id == requested) {
        let allowed = models.into_iter().flat_map(|models| models.allowed());
        let error = unknown(Code::ModelUnknown, "model", requested, allowed);
        let message = format!("the manifest does not allow the model `{requested}`");
        return Err(Error { message, ..error });
    }
    Ok(Some(ModelChoice {
        id: requested.to_owned(),
        requested: true,
    }))
}

/// The variable that a model needs: `models.env` maps models, or the first part of their names, to
/// variables. The longest matching key applies.
fn variable<'d>(agent: AgentCli<'d>, model: &str) -> Option<&'d str> {
    let entries = agent.models()?.env().map_or(&[][..], Node::entries);
    let fits = |key: &str| match model.strip_prefix(key) {
        Some(rest) => !rest.starts_with(|c: char| c.is_ascii_alphanumeric()),
        None => false,
    };
    let fitting = entries.iter().filter(|entry| fits(&entry.key));
    let entry = fitting.max_by_key(|entry| entry.key.len())?;
    entry.value.as_str().filter(|name| is_variable(name))
}

/// The variable of the chosen model with its value, unless `env` already has it. If it has no
/// value, the agent's own login may be enough. Without one, the model cannot be used.
pub(crate) async fn environment(
    ctx: &Context,
    model: &ModelChoice,
    env: &[(OsString, OsString)],
) -> Result<Option<(OsString, OsString)>, Error> {
    let agent = ctx.bundle.agent();
    let Some(name) = agent.and_then(|agent| variable(agent, &model.id)) else {
        return Ok(None);
    };
    if env.iter().any(|(known, _)| known == name) {
        return Ok(None);
    }
    if ctx.variable(name).is_none_or(|value| value.is_empty()) {
        keyring::unlock(ctx).await?;
    }
    let inventory = Inventory::from_bundle(&ctx.bundle)?;
    if let Some(resolved) = resolve(ctx, &inventory, name, "agent").await? {
        return Ok(Some((resolved.name.into(), resolved.value)));
    }
    let what = format!(
        "the model `{}` needs the variable `{name}` (`models.env`), which is not set",
        model.id
    );
    let auth = ctx.bundle.common().auth();
    let has_login = auth.is_some_and(|auth| {
        auth.login().is_some() || auth.state().is_some_and(|s| s.paths().next().is_some())
    });
    if has_login || !model.requested {
        ctx.observer.warning("model_variable_missing", &what);
        return Ok(None);
    }
    Err(Error::new(Code::AuthRequired, what).hint(format!(
        "set `{name}`, or store it with `agentproto auth set`, or choose another model"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use agentproto_manifest::views::View;
    use agentproto_manifest::{Disk, Workspace};

    fn with_agent<T>(models: &str, test: impl FnOnce(AgentCli) -> T) -> T {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("AGENT-CLI.md");
        std::fs::write(
            &path,
            format!("---\nprotocol: acp\nmodels:\n{models}\n---\n"),
        )
        .expect("written");
        let workspace = Workspace::new(&Disk, "/");
        let doc = workspace.load(&path).expect("loaded");
        match doc.view() {
            Some(View::AgentCli(agent)) => test(agent),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn only_allowed_models_can_be_chosen() {
        agentproto_suites::proves!("A45-FM-17");
        with_agent("  default: b\n  allowed: [a, b]", |agent| {
            let choose = |model: Option<&str>| {
                let model = model.map(str::to_owned);
                let choices = Choices {
                    model,
                    ..Choices::default()
                };
                select(agent, &choices)
            };
            let chosen = |id: &str, requested| {
                let id = id.to_owned();
                Some(ModelChoice { id, requested })
            };
            assert_eq!(choose(None).expect("the default"), chosen("b", false));
            assert_eq!(choose(Some("a")).expect("allowed"), chosen("a", true));
            let error = choose(Some("c")).expect_err("not allowed");
            assert_eq!(error.code, Code::ModelUnknown);
            assert!(error.hint.is_some_and(|hint| hint.contains("a, b")));
        });
        with_agent("  default: b", |agent| {
            let choices = Choices {
                model: Some("anything".to_owned()),
                ..Choices::default()
            };
            assert!(select(agent, &choices).expect("unrestricted").is_some());
        });
    }

    #[test]
    fn a_model_maps_to_the_variable_of_its_provider() {
        let env =
            "  env: { anthropic: A_KEY, anthropic/opus: OPUS_KEY, gpt: G_KEY, bad: 'no name' }";
        with_agent(env, |agent| {
            for (model, expected) in [
                ("anthropic/sonnet", Some("A_KEY")),
                ("anthropic/opus", Some("OPUS_KEY")),
                ("anthropic/opus-2", Some("OPUS_KEY")),
                ("anthropic", Some("A_KEY")),
                ("anthropics/x", None),
                ("gpt-4", Some("G_KEY")),
                ("bad", None),
                ("other", None),
            ] {
                assert_eq!(variable(agent, model), expected, "{model}");
            }
        });
    }
}
