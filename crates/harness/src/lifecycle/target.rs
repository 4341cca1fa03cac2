//! A bundle as a target: the runtime prepares it once, then it is started for each case.

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

/// What a caller chooses for a bundle.
pub struct Choices {
    /// Mode, options and continuation.
    pub wanted: Wanted,
    /// Whether and how the sandbox is used.
    pub sandboxing: Sandboxing,
    /// Whether installs, setup and logins are confirmed in advance.
    pub yes: bool,
    /// The environment of the host.
    pub host_env: Vec<(OsString, OsString)>,
    /// Additional environment variables (`--env`).
    pub env: Vec<(String, String)>,
    /// The user's home of agentproto, for installed programs and logins.
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
    /// The bundle.
    pub bundle: Bundle,
    /// What the caller chose.
    pub choices: Choices,
    /// Directory of the run in which the bundle is prepared.
    place: PathBuf,
    ready: OnceCell<Result<(Arc<Context>, Spec), Fault>>,
}

impl fmt::Debug for BundleTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BundleTarget({})", self.bundle.path().display())
    }
}

impl BundleTarget {
    /// A target that is prepared below the directory `run`.
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

    /// The id of the bundle, or else its path.
    pub fn name(&self) -> String {
        match self.bundle.text("id") {
            Ok(id) => id.to_owned(),
            Err(_) => self.bundle.path().display().to_string(),
        }
    }

    /// A context with its own state directory below `root`. The workspace is `cwd`.
    pub fn context(
        &self,
        root: &Path,
        cwd: &Path,
        observer: Arc<dyn Observer>,
    ) -> Result<Context, Fault> {
        let home = root.join("agentproto-home");
        let unwritable = |error: io::Error| {
            let what = format!("cannot create `{}`: {error}", home.display());
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

    /// Fills the state directory of a case. Installed programs and the user's secrets are linked,
    /// and logins are copied. The audit log, the setup ledger and the login states belong to the
    /// case.
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

    /// Rejects choices that the manifest does not offer, because they are a mistake of the caller.
    /// Other errors are left to the checks.
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

    /// Runs everything before the spawn, once for all cases, and returns how to start the agent.
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

    /// Masks for the secrets that were resolved for the bundle.
    pub fn masks(&self) -> Option<&Masks> {
        let ready = self.ready.get()?.as_ref().ok();
        ready.map(|(context, _)| &context.masks)
    }

    /// Options for loading the agent. Probes replace the handshake timeout with that of the run.
    pub fn wishes(&self) -> Wishlist {
        Wishlist {
            wanted: self.choices.wanted.clone(),
            handshake_timeout: Duration::from_secs(30),
            ..Wishlist::default()
        }
    }

    /// Starts the agent for a case that talks to it directly. Its workspace is the whole directory
    /// of the case, because the sessions of the case work below it.
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
