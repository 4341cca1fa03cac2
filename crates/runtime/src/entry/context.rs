//! What login and refresh hooks know about their user and host.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;

use crate::auth::callback::{Callback, CallbackError, Query};
use crate::context::Context;
use crate::error::Error;
use crate::setup::tool::OutputView;

/// The user, the host and its capabilities (A29-DEFCLI-05).
#[derive(Clone)]
pub struct CliContext {
    /// The bundle as `id@major`.
    pub bundle: String,
    /// `terminal` if a user can be asked, otherwise `headless`.
    pub surface: &'static str,
    /// Name of the user, if the environment contains it.
    pub user: Option<String>,
    /// Working directory of the bundle's commands.
    pub cwd: PathBuf,
    /// Path of the bundle's program.
    pub bin: PathBuf,
    /// Variables of setup and secrets. They are also in the environment of the bundle's commands.
    pub env: Vec<(OsString, OsString)>,
    /// URL that the browser must call at the end, with `auth.login.requires_callback_url`.
    pub callback_url: Option<String>,
    /// Time limit of the hook.
    pub time_limit: Duration,
    callback: Arc<Mutex<Option<Callback>>>,
    view: OutputView,
    masks: agentproto_text::redact::SecretRedactor,
}

impl CliContext {
    pub(crate) fn new(
        ctx: &Context,
        bin: &Path,
        env: &[(OsString, OsString)],
        callback: Option<Callback>,
        time_limit: Duration,
    ) -> Result<CliContext, Error> {
        let user = ["USER", "LOGNAME"].into_iter();
        let user = user.filter_map(|name| ctx.variable(name)).next();
        Ok(CliContext {
            bundle: ctx.bundle.identity()?,
            surface: match ctx.interact.is_headless() {
                true => "headless",
                false => "terminal",
            },
            user: user.map(|user| user.to_string_lossy().into_owned()),
            cwd: ctx.cwd.clone(),
            bin: bin.to_owned(),
            env: env.to_vec(),
            callback_url: callback.as_ref().map(Callback::url),
            time_limit,
            callback: Arc::new(Mutex::new(callback)),
            view: OutputView::new(ctx),
            masks: ctx.masks.clone(),
        })
    }

    /// Shows a line to the user, for example the page to open. Known secrets in it are masked.
    pub fn show(&self, line: &str) {
        line.lines()
            .for_each(|line| self.view.line(line.as_bytes()));
    }

    /// Waits for the callback of the browser, and returns its query. Its values count as secrets
    /// from then on. Without a callback URL, or a second time, it is an error.
    pub async fn callback(&self) -> Result<Query, CallbackError> {
        let Some(callback) = self.callback.lock().await.take() else {
            let why = "no callback is expected (`auth.login.requires_callback_url`)";
            return Err(CallbackError::Io(why.to_owned()));
        };
        let query = callback.wait(self.time_limit).await?;
        query.iter().for_each(|(_, value)| self.masks.add(value));
        Ok(query)
    }
}
