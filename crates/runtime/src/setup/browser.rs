//! Setup steps that the user does in a browser: `oauth` and `external`.

use zeroize::Zeroizing;

use super::perform::{Captured, SetupRun};
use super::step::{CallbackOptions, PersistTarget, StepDefinition};
use super::template::{self, PlaceholderValue};
use crate::auth::callback::{Callback, origin};
use crate::error::Error;
use crate::interact::{Question, QuestionKind};
use crate::secrets::inventory::{self, Inventory};
use crate::secrets::{self, oauth};

/// Query parameters to try if the callback does not name one.
const USUAL_PARAMETERS: [&str; 3] = ["value", "token", "code"];

impl SetupRun<'_> {
    /// Logs in with OAuth (A29-SETUP-07, A29-SETUP-08).
    pub async fn oauth(&mut self, step: &StepDefinition<'_>, slug: &str) -> Result<(), Error> {
        let inventory = Inventory::from_bundle(&self.ctx.bundle)?;
        let Some(entry) = inventory.slug(slug) else {
            let why = format!("its secret `{slug}` is not declared in a SECRETS.md (`auth.ref`)");
            return Err(self.failed(step, &why));
        };
        if entry.kind != inventory::SecretKind::Oauth {
            let why = format!("`{slug}` is not `kind: oauth` in the SECRETS.md (AIP-19)");
            return Err(self.failed(step, &why));
        }
        let Some(endpoints) = &entry.oauth else {
            let why = format!(
                "the SECRETS.md declares no endpoints for `{slug}`: add `authorize_url`, \
                 `token_url` and `client_id` to its `metadata.agentproto.oauth`"
            );
            return Err(self.failed(step, &why));
        };
        let tokens = oauth::login(self.ctx, endpoints).await;
        let tokens = tokens.map_err(|why| self.failed(step, &why))?;
        self.invalidate_environment();
        secrets::store_slug(self.ctx, slug, tokens, false)
    }

    /// Opens a page and waits for its callback or for the user (A29-SETUP-09, A29-SETUP-10,
    /// A29-SETUP-29).
    pub async fn external(
        &mut self,
        step: &StepDefinition<'_>,
        url: &str,
        declared: Option<&CallbackOptions<'_>>,
    ) -> Result<Option<Captured>, Error> {
        if self.answer(step)?.is_some() {
            return self.ask_user(step).await;
        }
        self.load_earlier_values(url)?;
        let mut values = self.values.clone();
        let callback = match declared {
            Some(_) => {
                let origins: Vec<String> = origin(url).into_iter().collect();
                let callback = Callback::open(&self.ctx.callback, None, None, &origins).await?;
                values.push(PlaceholderValue::new(
                    "callback_url",
                    &callback.url(),
                    false,
                ));
                Some(callback)
            }
            None => None,
        };
        let url = template::url(url, &values).map_err(|why| self.failed(step, &why))?;
        if !(url.starts_with("https://") || url.starts_with("http://")) {
            return Err(self.failed(step, "its `url` must start with http:// or https://"));
        }
        let about = step
            .description
            .map(|d| format!("{d}\n"))
            .unwrap_or_default();
        let redirect_note = match &callback {
            Some(callback) if !url.contains(&template::percent(&callback.url())) => {
                format!("\nIt must redirect to {}", callback.url())
            }
            _ => String::new(),
        };
        self.ctx
            .interact
            .show(&format!("{about}Open this page:\n{url}{redirect_note}"));
        match (callback, declared) {
            (Some(callback), Some(declared)) => {
                let query = callback.wait(declared.timeout).await;
                let query = query.map_err(|error| self.failed(step, &error.to_string()))?;
                let get = |name: &str| query.iter().find(|(n, _)| n == name);
                let pair = match declared.param {
                    Some(param) => get(param),
                    None => USUAL_PARAMETERS.iter().find_map(|name| get(name)),
                };
                match (pair, &step.persist) {
                    (Some((_, value)), _) if !value.is_empty() => Ok(Some(secret(value))),
                    (_, None) => Ok(None),
                    _ => Err(self.failed(
                        step,
                        &format!(
                            "the callback has no parameter `{}`",
                            declared.param.unwrap_or("value")
                        ),
                    )),
                }
            }
            _ => self.ask_user(step).await,
        }
    }

    /// Without a callback, the user confirms that it is done or enters the value.
    async fn ask_user(&mut self, step: &StepDefinition<'_>) -> Result<Option<Captured>, Error> {
        if step.persist.is_some() {
            let hidden = !matches!(step.persist, Some(PersistTarget::Cmd(_)));
            let question = Question {
                message: format!("Paste what the page gave you ({})", step.id),
                kind: if hidden {
                    QuestionKind::Secret
                } else {
                    QuestionKind::Text
                },
                default: None,
            };
            let value = match self.answer(step)? {
                Some(value) => value,
                None => Zeroizing::new(self.ctx.interact.ask(&question).await?),
            };
            return match value.trim() {
                "" => Err(self.failed(step, "no value was given")),
                value => Ok(Some(secret(value))),
            };
        }
        let question = Question {
            message: format!("Is it done ({})?", step.id),
            kind: QuestionKind::Boolean,
            default: Some("true".to_owned()),
        };
        let done = match self.answer(step)? {
            Some(value) => value.as_str() == "true",
            None => self.ctx.interact.ask(&question).await? == "true",
        };
        match done {
            true => Ok(None),
            false => Err(self.failed(step, "the user did not confirm it")),
        }
    }
}

/// A value from a page is treated as a secret, because it usually is a credential.
fn secret(value: &str) -> Captured {
    Captured {
        value: Zeroizing::new(value.to_owned()),
        secret: true,
    }
}
