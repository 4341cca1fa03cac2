//! The data that every stage of the lifecycle works with.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::audit::Audit;
use crate::auth::callback::CallbackSettings;
use crate::bundle::Bundle;
use crate::entry::CliHandle;
use crate::error::{Code, Error};
use crate::home::Home;
use crate::interact::Interact;
use crate::observe::{Observer, Stage};
use agentproto_sandbox::policy::{HostContext, Protection, ResourceDefaults, StateCreation};
use agentproto_text::redact::SecretRedactor;

/// Whether the declared sandbox is enforced.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    strum::Display,
    strum::IntoStaticStr,
    strum::VariantArray,
)]
#[strum(serialize_all = "lowercase")]
pub enum Sandboxing {
    /// Enforced. If a clause cannot be enforced, nothing runs.
    #[default]
    Auto,
    /// Not enforced. A warning is printed and an entry is written to the audit log.
    Off,
}

impl Sandboxing {
    /// All values.
    pub const ALL: &[Sandboxing] = <Sandboxing as strum::VariantArray>::VARIANTS;
}

/// What a caller adds to every sandbox.
#[derive(Clone, Debug, Default)]
pub struct SandboxSettings {
    /// What the agent must not change or see. The bundle and the state directory are always
    /// protected.
    pub protection: Protection,
    /// Limits that apply where the manifest sets none.
    pub defaults: ResourceDefaults,
}

/// A bundle on this machine, for one user in one workspace.
#[derive(Clone)]
pub struct Context {
    /// The bundle.
    pub bundle: Bundle,
    /// The directory for state.
    pub home: Home,
    /// The workspace: the working directory of the agent.
    pub cwd: PathBuf,
    /// The caller's environment, shared by everything that one caller runs.
    pub host_env: Arc<Vec<(OsString, OsString)>>,
    /// Whether the declared sandbox is enforced.
    pub sandboxing: Sandboxing,
    /// What the caller adds to the sandbox.
    pub sandbox: SandboxSettings,
    /// `--yes`: install, setup and permissions are confirmed in advance.
    pub yes: bool,
    /// Receives stages and warnings, without secrets.
    pub observer: Arc<dyn Observer>,
    /// Asks the user.
    pub interact: Arc<dyn Interact>,
    /// Redacts the secrets that were read so far.
    pub masks: SecretRedactor,
    /// The audit log.
    pub audit: Arc<Audit>,
    /// Which missing paths of `auth.state` the commands of this context create.
    pub state_creation: StateCreation,
    /// How the callbacks of logins are reached.
    pub callback: CallbackSettings,
    /// Hooks of the host for this bundle. They replace the bundle's own entry module.
    pub cli: Option<CliHandle>,
    /// Ends the logins and refreshes of this context.
    pub cancel: CancellationToken,
    /// Number of running hooks.
    hooks: Arc<AtomicUsize>,
    /// The caller's own observer.
    unmasked: Arc<dyn Observer>,
}

/// The options that a caller sets. The rest of a `Context` is derived.
pub struct ContextOptions {
    /// The directory for state.
    pub home: Home,
    /// The working directory of the agent.
    pub cwd: PathBuf,
    /// The caller's environment.
    pub host_env: Arc<Vec<(OsString, OsString)>>,
    /// Whether the declared sandbox is enforced.
    pub sandboxing: Sandboxing,
    /// What the caller adds to the sandbox.
    pub sandbox: SandboxSettings,
    /// Whether install, setup and permissions are confirmed in advance.
    pub yes: bool,
    /// Receives stages and warnings.
    pub observer: Arc<dyn Observer>,
    /// Asks the user.
    pub interact: Arc<dyn Interact>,
}

impl Context {
    /// Creates a context. Returns an error if the working directory does not exist.
    pub fn new(bundle: Bundle, options: ContextOptions) -> Result<Self, Error> {
        let masks = SecretRedactor::default();
        let entity = format!("local:{}", bundle.path().display());
        let audit = Arc::new(Audit::open(&options.home, &entity, masks.clone())?);
        let identity = bundle.identity().ok();
        audit.set_scope(|scope| scope.bundle = identity);
        let cwd = options.cwd.canonicalize().map_err(|e| {
            let dir = options.cwd.display();
            let what = match e.kind() {
                std::io::ErrorKind::NotFound => {
                    format!("the working directory `{dir}` does not exist")
                }
                _ => format!("cannot use the working directory `{dir}`: {e}"),
            };
            Error::new(Code::TargetUnknown, what).hint("pass an existing directory with `--cwd`")
        })?;
        Ok(Context {
            bundle,
            home: options.home,
            cwd,
            host_env: options.host_env,
            sandboxing: options.sandboxing,
            sandbox: options.sandbox,
            yes: options.yes,
            unmasked: Arc::clone(&options.observer),
            observer: Arc::new(MaskingObserver {
                inner: options.observer,
                masks: masks.clone(),
                audit: Arc::clone(&audit),
            }),
            interact: options.interact,
            masks,
            audit,
            state_creation: StateCreation::default(),
            callback: CallbackSettings::default(),
            cli: None,
            cancel: CancellationToken::new(),
            hooks: Arc::default(),
        })
    }

    /// Attaches hooks to the bundle. They are used when its tools are called, when a user logs in,
    /// and when a login is refreshed.
    pub fn attach(mut self, cli: CliHandle) -> Context {
        self.cli = Some(cli);
        self
    }

    /// Whether a login or refresh hook is running. It ends soon after `cancel`.
    pub fn runs_hook(&self) -> bool {
        self.hooks.load(Relaxed) > 0
    }

    /// Counts a hook as running until the guard is dropped.
    pub(crate) fn count_hook(&self) -> HookGuard {
        self.hooks.fetch_add(1, Relaxed);
        HookGuard(Arc::clone(&self.hooks))
    }

    /// The same context for commands that create other paths of `auth.state`.
    pub fn creating(&self, state_creation: StateCreation) -> Context {
        Context {
            state_creation,
            ..self.clone()
        }
    }

    /// The same context for one session, whose audit events name it.
    pub(crate) fn for_session(&self) -> Context {
        let audit = Arc::new(self.audit.fork());
        Context {
            observer: Arc::new(MaskingObserver {
                inner: Arc::clone(&self.unmasked),
                masks: self.masks.clone(),
                audit: Arc::clone(&audit),
            }),
            audit,
            ..self.clone()
        }
    }

    /// The value of a variable in the caller's environment.
    pub fn variable(&self, name: &str) -> Option<&std::ffi::OsStr> {
        let (_, value) = self.host_env.iter().rev().find(|(n, _)| n == name)?;
        Some(value)
    }

    /// The user's home directory.
    pub fn user_home(&self) -> PathBuf {
        let home = self.variable("HOME").map(PathBuf::from);
        home.filter(|home| home.is_absolute())
            .unwrap_or_else(|| PathBuf::from("/nonexistent"))
    }

    /// The host environment to resolve the bundle's policy against. `env` overrides everything
    /// else.
    pub fn host_context(&self, env: &[(OsString, OsString)]) -> HostContext {
        let mut protection = self.sandbox.protection.clone();
        protection.state.push(self.home.root().to_owned());
        protection.read_only.extend(self.bundle.own_programs());
        HostContext {
            protection,
            defaults: self.sandbox.defaults,
            state_creation: self.state_creation,
            host_env: self.host_env.to_vec(),
            home: self.user_home(),
            cwd: self.cwd.clone(),
            bundle: self.bundle.dir.clone(),
            extra_env: self.built_in_marker().chain(env.iter().cloned()).collect(),
        }
    }

    /// Tells an embedding program that it is started as a mock agent; see [`crate::built_in`].
    fn built_in_marker(&self) -> impl Iterator<Item = (OsString, OsString)> {
        let applies = self.bundle.built_in && crate::built_in::is_embedded();
        applies
            .then(|| (crate::built_in::MARKER.into(), "1".into()))
            .into_iter()
    }
}

/// A running hook.
pub(crate) struct HookGuard(Arc<AtomicUsize>);

impl Drop for HookGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// Masks secrets before they reach the observer, and writes each stage to the audit log.
struct MaskingObserver {
    inner: Arc<dyn Observer>,
    masks: SecretRedactor,
    audit: Arc<Audit>,
}

impl Observer for MaskingObserver {
    fn stage(&self, stage: Stage, detail: &str) {
        // If the log cannot be written, the next step of the run fails and reports it. A turn has
        // its own audit entries, which stop it.
        if stage != Stage::Turn {
            let event = format!("stage.{}", stage.as_str());
            let _ = self.audit.record(&event, json!({ "detail": detail }));
        }
        self.inner.stage(stage, &self.masks.mask(detail));
    }

    fn progress(&self, stage: Stage, text: &str) {
        self.inner.progress(stage, &self.masks.mask(text));
    }

    fn warning(&self, code: &str, message: &str) {
        self.inner.warning(code, &self.masks.mask(message));
    }

    fn stderr(&self, line: &str) {
        self.inner.stderr(&self.masks.mask_cut(line));
    }
}
