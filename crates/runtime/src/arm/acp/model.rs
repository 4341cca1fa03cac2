//! Sets the model of a session (OD-12 to OD-14): by the config option for models if the agent has
//! one, otherwise with `session/set_model`. Nothing is sent if the model is already in use.

use agent_client_protocol::UntypedMessage;
use agent_client_protocol::v1::schema::{
    SessionConfigKind, SessionConfigOption, SessionConfigOptionCategory, SessionConfigSelect,
    SessionConfigSelectOptions, SetSessionConfigOptionRequest,
};
use serde_json::{Value, json};

use super::connection::{Connection, Opened};
use crate::error::{Code, Error};
use crate::models::{ModelChoice, OPTION};
use crate::observe::Observer;

/// The protocol's error code for an unknown method.
const METHOD_NOT_FOUND: i64 = -32601;

pub async fn set(
    connection: &Connection,
    opened: &Opened,
    model: &ModelChoice,
    observer: &dyn Observer,
) -> Result<(), Error> {
    let option = model_option(&opened.options);
    let offered = match (&option, &opened.models) {
        (Some((_, select)), _) => Offered::from_option(select),
        (None, Some(models)) => Offered::from_models(models),
        // The agent does not report its models. The manifest's default is its own then.
        (None, None) if !model.requested => return Ok(()),
        (None, None) => Offered::default(),
    };
    if offered.current.as_deref() == Some(&*model.id) {
        return Ok(());
    }
    if !offered.ids.is_empty() && !offered.ids.contains(&model.id) {
        let what = format!("the agent does not offer the model `{}`", model.id);
        let known = format!("the agent offers {}", offered.ids.join(", "));
        if !model.requested {
            let what = format!("{what} (`models.default` of the manifest); {known}");
            observer.warning("model_not_offered", &what);
            return Ok(());
        }
        return Err(Error::new(Code::ModelUnknown, what).hint(known));
    }
    let during = "while setting the model";
    if let Some((option, _)) = option {
        let request = SetSessionConfigOptionRequest::new(
            opened.id.clone(),
            option.id.clone(),
            model.id.as_str(),
        );
        return connection.ask(request, during).await.map(drop);
    }
    let params = json!({ "sessionId": opened.id, "modelId": model.id });
    let request = UntypedMessage::new("session/set_model", params)
        .map_err(|error| Error::new(Code::ModelUnknown, error.message))?;
    match connection.ask(request, during).await {
        Ok(_) => Ok(()),
        Err(error) if error.details["code"] == METHOD_NOT_FOUND => {
            let what = format!(
                "cannot use the model `{}`: the agent has no model option and does not support session/set_model",
                model.id
            );
            let hint = "choose the model in the agent's own configuration";
            Err(Error::new(Code::ModelUnknown, what).hint(hint))
        }
        Err(error) if error.code == Code::TurnFailed => {
            let message = format!("cannot use the model `{}`: {}", model.id, error.message);
            Err(Error {
                code: Code::ModelUnknown,
                message,
                ..error
            })
        }
        Err(error) => Err(error),
    }
}

/// The config option for the model: by its category, otherwise by its id.
fn model_option(
    options: &[SessionConfigOption],
) -> Option<(&SessionConfigOption, &SessionConfigSelect)> {
    let select =
        |option: &&SessionConfigOption| matches!(option.kind, SessionConfigKind::Select(_));
    let by_category =
        |option: &&SessionConfigOption| option.category == Some(SessionConfigOptionCategory::Model);
    let mut options = options.iter().filter(select);
    let found = options.clone().find(by_category);
    let found = found.or_else(|| options.find(|option| *option.id.0 == *OPTION))?;
    match &found.kind {
        SessionConfigKind::Select(select) => Some((found, select)),
        _ => None,
    }
}

/// The models that the agent reports.
#[derive(Default)]
struct Offered {
    current: Option<String>,
    /// Empty if the agent does not report them.
    ids: Vec<String>,
}

impl Offered {
    fn from_option(select: &SessionConfigSelect) -> Offered {
        let ids = match &select.options {
            SessionConfigSelectOptions::Ungrouped(options) => {
                options.iter().map(|one| one.value.to_string()).collect()
            }
            SessionConfigSelectOptions::Grouped(groups) => {
                let options = groups.iter().flat_map(|group| &group.options);
                options.map(|one| one.value.to_string()).collect()
            }
            _ => Vec::new(),
        };
        Offered {
            current: Some(select.current_value.to_string()),
            ids,
        }
    }

    /// The `models` of a `session/new` response, which `session/set_model` refers to.
    fn from_models(models: &Value) -> Offered {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        let list = models.get("availableModels").and_then(Value::as_array);
        let ids = list.into_iter().flatten();
        Offered {
            current: text(models.get("currentModelId")),
            ids: ids.filter_map(|one| text(one.get("modelId"))).collect(),
        }
    }
}
