//! A bundle as a target: prepared once by the runner, then started over and over.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OnceCell;

use agentproto_runtime::agent::{Agent, Wishlist};
use agentproto_runtime::arm::Spec;
use agentproto_runtime::bundle::Bundle;
use agentproto_runtime::choices::{self, Wanted};
use agentproto_runtime::command::Started;
use agentproto_runtime::context::{Context, Sandboxing, Setting};
use agentproto_runtime::fault::{Code, Fault};
use agentproto_runtime::home::{Home, make_dir};
use agentproto_runtime::interact::Headless;
use agentproto_runtime::observe::{Observer, Silent};
use agentproto_sandbox::spawn::Options;
use agentproto_text::redact::Masks;

/// What a caller says of a bundle beside its name.
pub struct Choices {
    pub wanted: Wanted,
    pub sandboxing: Sandboxing,
    /// Installing, setup and logins are confirmed beforehand.
    pub yes: bool,
    pub host_env: Vec<(OsString, OsString)>,
    /// `--env`.
    pub env: Vec<(String, String)>,
    /// Installed programs and logins of the user are used from there.
    pub home: Option<Home>,
}

impl Default for Choices {
    fn default() -> Self {
        Choices {
            wanted: Wanted::default(),
            sandboxing: Sandboxing::Auto,
            yes: false,
            host_env: std::env::vars_os().collect(),
            env: Vec::new(),
            home: None,
        }
    }
}

/// A bundle as a target.
pub struct BundleTarget {
    pub bundle: Bundle,
    pub choices: Choices,
    /// A directory of the run, in which the bundle is prepared.
    place: PathBuf,
    ready: OnceCell<Result<(Arc<Context>, Spec), Fault>>,
}

impl fmt::Debug for BundleTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BundleTarget({})", self.bundle.path().display())
    }
}

impl BundleTarget {
    pub fn new(bundle: Bundle, choices: Choices, run: &Path) -> BundleTarget {
        BundleTarget {
            bundle,
            choices,
            place: run.join("bundle"),
            ready: OnceCell::new(),
        }
    }

    /// `acp`, `mcp` or `proprietary`.
    pub fn protocol(&self) -> &str {
        self.bundle.text("protocol").unwrap_or_default()
    }

    pub fn name(&self) -> String {
        match self.bundle.text("id") {
            Ok(id) => id.to_owned(),
            Err(_) => self.bundle.path().display().to_string(),
        }
    }

    /// A context with a state directory of its own below `root`; the workspace is `cwd`.
    pub fn context(
        &self,
        root: &Path,
        cwd: &Path,
        observer: Arc<dyn Observer>,
    ) -> Result<Context, Fault> {
        let home = root.join("agentproto-home");
        let unwritable = |error: io::Error| {
            let what = format!("`{}` cannot be made: {error}", home.display());
            Fault::new(Code::StateUnwritable, what)
        };
        self.furnish(&home).map_err(unwritable)?;
        make_dir(cwd).map_err(unwritable)?;
        let setting = Setting {
            home: Home::new(home),
            cwd: cwd.to_owned(),
            host_env: Arc::new(self.choices.host_env.clone()),
            sandboxing: self.choices.sandboxing,
            yes: self.choices.yes,
            observer,
            interact: Arc::new(Headless),
        };
        Context::new(self.bundle.clone(), setting)
    }

    /// What was installed, and the user's secrets, are found from there; audit log, setup ledger
    /// and login states are the case's own.
    fn furnish(&self, home: &Path) -> io::Result<()> {
        if home.exists() {
            return Ok(());
        }
        make_dir(home)?;
        let Some(users) = &self.choices.home else {
            return Ok(());
        };
        for name in ["tools", "npm", "secrets"] {
            let there = users.path(name);
            if there.is_dir() {
                std::os::unix::fs::symlink(there, home.join(name))?;
            }
        }
        let Ok(logins) = std::fs::read_dir(users.path("auth")) else {
            return Ok(());
        };
        make_dir(&home.join("auth"))?;
        for login in logins.flatten().filter(|l| l.path().is_file()) {
            std::fs::copy(login.path(), home.join("auth").join(login.file_name()))?;
        }
        Ok(())
    }

    /// Choices that the manifest does not offer are the caller's mistake; all else is judged.
    pub fn check_choices(&self) -> Result<(), Fault> {
        let chosen = match self.bundle.agent() {
            Some(agent) => choices::choose(&self.bundle, agent, &self.choices.wanted),
            None => return Err(self.no_agent()),
        };
        match chosen {
            Err(fault) if fault.code.is_choice() => Err(fault),
            _ => Ok(()),
        }
    }

    fn no_agent(&self) -> Fault {
        let what = format!(
            "{}: a CLI.md describes a tool, not an agent that could be certified",
            self.bundle.path().display()
        );
        Fault::new(Code::ManifestInvalid, what).hint("name an AGENT-CLI.md")
    }

    /// Everything up to the spawn, once for all cases: how the agent is started.
    pub async fn ready(&self) -> Result<&(Arc<Context>, Spec), Fault> {
        let made = self.ready.get_or_init(|| async {
            let cwd = self.place.join("work");
            let context = self.context(&self.place, &cwd, Arc::new(Silent))?;
            let agent = Agent::load(context, self.wishes())?;
            let spec = agent.spec().await?;
            Ok((Arc::clone(&agent.context), spec))
        });
        made.await.as_ref().map_err(Clone::clone)
    }

    /// Secrets that were resolved for it.
    pub fn masks(&self) -> Option<&Masks> {
        let ready = self.ready.get()?.as_ref().ok();
        ready.map(|(context, _)| &context.masks)
    }

    /// How long the caller's patience is comes from the setting of the run.
    pub fn wishes(&self) -> Wishlist {
        Wishlist {
            wanted: self.choices.wanted.clone(),
            handshake_timeout: Duration::from_secs(30),
            ..Wishlist::default()
        }
    }

    /// Starts the agent for a case that speaks to it itself. The whole directory of the case is
    /// its workspace: sessions of the case work below it.
    pub async fn start(
        &self,
        cwd: &Path,
        more: &[(String, String)],
        options: Options,
    ) -> Result<Started, Fault> {
        let (context, spec) = self.ready().await?;
        let mut context = Context::clone(context);
        context.cwd = cwd.parent().unwrap_or(cwd).to_owned();
        let more = self.choices.env.iter().chain(more);
        let more = more.map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let env: Vec<_> = spec.env.iter().cloned().chain(more).collect();
        let mut launch = context.prepare(&spec.argv, &env)?;
        launch.without_timeout();
        context.launch(launch, options).await
    }
}
