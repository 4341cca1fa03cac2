//! What every stage of the lifecycle works with.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::json;

use crate::audit::Audit;
use crate::bundle::Bundle;
use crate::fault::{Code, Fault};
use crate::home::Home;
use crate::interact::Interact;
use crate::observe::{Observer, Stage};
use agentproto_sandbox::policy::Surroundings;
use agentproto_text::redact::Masks;

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
    /// Enforced or refused.
    #[default]
    Auto,
    /// Not enforced: said aloud and written to the audit log.
    Off,
}

impl Sandboxing {
    pub const ALL: &[Sandboxing] = <Sandboxing as strum::VariantArray>::VARIANTS;
}

/// One bundle on this machine for one user in one workspace.
#[derive(Clone)]
pub struct Context {
    pub bundle: Bundle,
    pub home: Home,
    /// The workspace: where the agent works.
    pub cwd: PathBuf,
    /// The caller's environment: one for all that one caller runs.
    pub host_env: Arc<Vec<(OsString, OsString)>>,
    pub sandboxing: Sandboxing,
    /// `--yes`: install, setup and permissions are confirmed beforehand.
    pub yes: bool,
    pub observer: Arc<dyn Observer>,
    pub interact: Arc<dyn Interact>,
    pub masks: Masks,
    pub audit: Arc<Audit>,
}

/// What a caller chooses; the rest is found.
pub struct Setting {
    pub home: Home,
    pub cwd: PathBuf,
    pub host_env: Arc<Vec<(OsString, OsString)>>,
    pub sandboxing: Sandboxing,
    pub yes: bool,
    pub observer: Arc<dyn Observer>,
    pub interact: Arc<dyn Interact>,
}

impl Context {
    pub fn new(bundle: Bundle, setting: Setting) -> Result<Self, Fault> {
        let masks = Masks::default();
        let entity = format!("local:{}", bundle.path().display());
        let audit = Arc::new(Audit::open(&setting.home, &entity, masks.clone())?);
        let cwd = setting.cwd.canonicalize().map_err(|e| {
            let what = format!("the working directory `{}`: {e}", setting.cwd.display());
            Fault::new(Code::TargetUnknown, what)
        })?;
        Ok(Context {
            bundle,
            home: setting.home,
            cwd,
            host_env: setting.host_env,
            sandboxing: setting.sandboxing,
            yes: setting.yes,
            observer: Arc::new(Masked {
                inner: setting.observer,
                masks: masks.clone(),
                audit: Arc::clone(&audit),
            }),
            interact: setting.interact,
            masks,
            audit,
        })
    }

    /// The value of a variable of the caller's environment.
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

    /// What a policy of this bundle is resolved against; `env` wins over everything else.
    pub fn surroundings(&self, env: &[(OsString, OsString)]) -> Surroundings {
        Surroundings {
            host_env: self.host_env.to_vec(),
            home: self.user_home(),
            cwd: self.cwd.clone(),
            bundle: self.bundle.dir.clone(),
            extra_env: env.to_vec(),
        }
    }
}

/// Secrets do not reach whoever watches; every transition reaches the audit log.
struct Masked {
    inner: Arc<dyn Observer>,
    masks: Masks,
    audit: Arc<Audit>,
}

impl Observer for Masked {
    fn stage(&self, stage: Stage, detail: &str) {
        // A log that cannot be written stops the run at its next step, which is told.
        // A turn has entries of its own, which stop it.
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
