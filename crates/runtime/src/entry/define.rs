//! The entry of a CLI bundle (AIP-29, `defineCli`): its definition and its hooks.

use std::pin::Pin;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
pub use tokio_util::sync::CancellationToken;

use super::context::CliContext;
use crate::tool::Format;

/// The future of a hook.
pub type HookFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;
/// Logs in.
pub type LoginHook = Arc<dyn Fn(LoginArgs) -> HookFuture<LoginResult> + Send + Sync>;
/// Renews a login.
pub type RefreshHook = Arc<dyn Fn(RefreshArgs) -> HookFuture<RefreshResult> + Send + Sync>;
/// Turns the output of a tool into a value or an error. It must not use the network or files. A
/// closure is code of the host, so this is a contract that nothing enforces. The hook of a module
/// runs in a sandbox that enforces it.
pub type ParseOutputHook = Arc<dyn Fn(&ParseOutputArgs) -> ParseOutputResult + Send + Sync>;
/// Whether the output of a tool means that the login has expired. Like [`ParseOutputHook`], it must
/// not use the network or files.
pub type DetectExpiryHook = Arc<dyn Fn(&DetectExpiryArgs) -> bool + Send + Sync>;

/// What `define_cli` takes: the identity of a bundle, fields of its manifest, and hooks
/// (A29-DEFCLI-02, A29-DEFCLI-03). If a field differs from the CLI.md, the CLI.md wins, with a
/// warning.
#[derive(Clone, Default)]
pub struct CliDefinition {
    /// `id` of the CLI.md.
    pub id: String,
    /// `name` of the CLI.md.
    pub name: String,
    /// `description` of the CLI.md.
    pub description: String,
    /// `bin` of the CLI.md.
    pub bin: String,
    /// `version` of the CLI.md.
    pub version: Option<String>,
    /// `install` of the CLI.md.
    pub install: Option<Vec<Value>>,
    /// `version_check` of the CLI.md.
    pub version_check: Option<Value>,
    /// `sandbox` of the CLI.md.
    pub sandbox: Option<Value>,
    /// `commands` of the CLI.md.
    pub commands: Option<Map<String, Value>>,
    /// `tags` of the CLI.md.
    pub tags: Option<Vec<String>>,
    /// `metadata` of the CLI.md. Only keys that both have are compared.
    pub metadata: Option<Map<String, Value>>,
    /// Replaces `auth.login.cmd`.
    pub login: Option<LoginHook>,
    /// Replaces `auth.refresh.cmd`.
    pub refresh: Option<RefreshHook>,
    /// Replaces the parser of the declared format.
    pub parse_output: Option<ParseOutputHook>,
    /// Detects an expired login in addition to `auth.expiry`.
    pub detect_expiry: Option<DetectExpiryHook>,
}

impl CliDefinition {
    /// A definition without hooks.
    pub fn new(
        id: impl Into<String>,
        name: impl Into<String>,
        description: impl Into<String>,
        bin: impl Into<String>,
    ) -> Self {
        CliDefinition {
            id: id.into(),
            name: name.into(),
            description: description.into(),
            bin: bin.into(),
            ..CliDefinition::default()
        }
    }

    /// Sets the hook that logs in.
    pub fn on_login<F>(mut self, hook: impl Fn(LoginArgs) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = LoginResult> + Send + 'static,
    {
        self.login = Some(Arc::new(move |args| Box::pin(hook(args))));
        self
    }

    /// Sets the hook that renews the login.
    pub fn on_refresh<F>(mut self, hook: impl Fn(RefreshArgs) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = RefreshResult> + Send + 'static,
    {
        self.refresh = Some(Arc::new(move |args| Box::pin(hook(args))));
        self
    }

    /// Sets the hook that reads the output of a tool.
    pub fn on_parse_output(
        mut self,
        hook: impl Fn(&ParseOutputArgs) -> ParseOutputResult + Send + Sync + 'static,
    ) -> Self {
        self.parse_output = Some(Arc::new(hook));
        self
    }

    /// Sets the hook that detects an expired login.
    pub fn on_detect_expiry(
        mut self,
        hook: impl Fn(&DetectExpiryArgs) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.detect_expiry = Some(Arc::new(hook));
        self
    }
}

/// A defined entry. A host attaches it to a bundle with
/// [`Context::attach`](crate::context::Context::attach).
#[derive(Clone)]
pub struct CliHandle(Arc<CliDefinition>);

impl CliHandle {
    /// The definition.
    pub fn definition(&self) -> &CliDefinition {
        &self.0
    }
}

/// Defines the entry of a CLI bundle: `defineCli` of AIP-29 (A29-DEFCLI-01). It only stores the
/// definition. Hooks run when a host that attached the handle calls a tool, logs in or refreshes.
pub fn define_cli(definition: CliDefinition) -> CliHandle {
    CliHandle(Arc::new(definition))
}

/// What a login hook gets.
#[derive(Clone)]
pub struct LoginArgs {
    /// The user, the host and its capabilities.
    pub context: CliContext,
    /// Canceled when the caller gives up. The hook must then end. If it does not, it is dropped.
    pub signal: CancellationToken,
}

/// What a refresh hook gets: the same as a login hook (A29-DEFCLI-07).
pub type RefreshArgs = LoginArgs;

/// Why a login failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum LoginFailure {
    /// The user ended the login.
    UserCancelled,
    /// The callback of the browser did not arrive, or was refused.
    CallbackFailed,
    /// The service reported an error.
    UpstreamError,
}

/// Result of a login (A29-DEFCLI-06).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoginResult {
    /// The user is logged in. `completes_when` of the CLI.md must confirm it.
    Ok,
    /// The user is not logged in.
    Failed {
        /// Why.
        reason: LoginFailure,
        /// What happened.
        message: Option<String>,
    },
}

impl LoginResult {
    /// A failure with a message.
    pub fn failed(reason: LoginFailure, message: impl Into<String>) -> Self {
        LoginResult::Failed {
            reason,
            message: Some(message.into()),
        }
    }
}

/// Why a refresh failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum RefreshFailure {
    /// The login has ended. The user must log in again.
    AuthExpired,
    /// The service reported an error. The login stays as it is.
    UpstreamError,
}

/// Result of a refresh (A29-DEFCLI-08).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefreshResult {
    /// The login was renewed.
    Ok {
        /// Time of the next refresh, as an ISO-8601 date and time. Without it, `auth.refresh.every`
        /// of the CLI.md applies.
        next_refresh_at: Option<String>,
    },
    /// The login was not renewed.
    Failed {
        /// Why.
        reason: RefreshFailure,
        /// What happened.
        message: Option<String>,
    },
}

impl RefreshResult {
    /// A failure with a message.
    pub fn failed(reason: RefreshFailure, message: impl Into<String>) -> Self {
        RefreshResult::Failed {
            reason,
            message: Some(message.into()),
        }
    }
}

/// What the hook that reads the output gets (A29-DEFCLI-09). The texts are without known secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseOutputArgs {
    /// Exit code of the tool.
    pub exit_code: i32,
    /// Standard output.
    pub stdout: String,
    /// The start of standard error.
    pub stderr: String,
    /// What the manifest declares.
    pub expected: ExpectedOutput,
}

/// What the manifest declares about the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpectedOutput {
    /// Format of the output.
    pub format: Format,
}

/// What the hook that detects an expired login gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DetectExpiryArgs {
    /// Exit code of the tool.
    pub exit_code: i32,
    /// The start of standard output.
    pub stdout: String,
    /// The start of standard error.
    pub stderr: String,
}

/// Result of the hook that reads the output (A29-DEFCLI-10).
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct ParseOutputResult {
    /// Whether the call succeeded.
    pub ok: bool,
    /// The output as a value.
    #[serde(default)]
    pub value: Option<Value>,
    /// Why the call failed.
    #[serde(default)]
    pub error: Option<OutputError>,
}

impl ParseOutputResult {
    /// A success with a value.
    pub fn ok(value: Value) -> Self {
        ParseOutputResult {
            ok: true,
            value: Some(value),
            error: None,
        }
    }

    /// A failure.
    pub fn failed(error: OutputError) -> Self {
        ParseOutputResult {
            ok: false,
            value: None,
            error: Some(error),
        }
    }
}

/// Why a call failed, as the output says.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct OutputError {
    /// Code of the tool, for example `not_found`.
    pub code: String,
    /// What happened.
    pub message: String,
    /// Whether the same call may succeed later.
    #[serde(default)]
    pub retryable: Option<bool>,
}
