//! A bundle as a target: the runtime prepares it once, then it is started for each case.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OnceCell;

use crate::run::case::NoVerdict;
use agentproto_runtime::agent::{Agent, AgentOptions};
use agentproto_runtime::arm::LaunchSpec;
use agentproto_runtime::bundle::Bundle;
use agentproto_runtime::choices::{self, Choices};
use agentproto_runtime::command::Started;
use agentproto_runtime::context::{Context, ContextOptions, Sandboxing};
use agentproto_runtime::error::{Code, Error};
use agentproto_runtime::home::{Home, make_dir};
use agentproto_runtime::interact::Headless;
use agentproto_runtime::observe::{Observer, Silent};
use agentproto_sandbox::spawn::SpawnOptions;
use agentproto_text::redact::SecretRedactor;

/// What a caller chooses for a bundle.
pub struct BundleOptions {
    /// Mode, options and continuation.
    pub choices: Choices,
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

impl Default for BundleOptions {
    fn default() -> Self {
        BundleOptions {
            choices: Choices::default(),
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
    pub options: BundleOptions,
    /// Directory of the run in which the bundle is prepared.
    directory: PathBuf,
    ready: OnceCell<Result<(Arc<Context>, LaunchSpec), Error>>,
}

impl fmt::Debug for BundleTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BundleTarget({})", self.bundle.path().display())
    }
}

impl BundleTarget {
    /// A target that is prepared below the directory `run`.
    pub fn new(bundle: Bundle, options: BundleOptions, run: &Path) -> BundleTarget {
        BundleTarget {
            bundle,
            options,
            directory: run.join("bundle"),
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
    ) -> Result<Context, Error> {
        let home = root.join("agentproto-home");
        let unwritable = |error: io::Error| {
            let what = format!("cannot create `{}`: {error}", home.display());
            Error::new(Code::StateUnwritable, what)
        };
        self.fill_home(&home).map_err(unwritable)?;
        make_dir(cwd).map_err(unwritable)?;
        let config = ContextOptions {
            home: Home::new(home),
            cwd: cwd.to_owned(),
            host_env: Arc::new(self.options.host_env.clone()),
            sandboxing: self.options.sandboxing,
            sandbox: Default::default(),
            yes: self.options.yes,
            observer,
            interact: Arc::new(Headless),
        };
        Context::new(self.bundle.clone(), config)
    }

    /// Fills the state directory of a case. Installed programs and the user's secrets are linked,
    /// and logins are copied. The audit log, the setup ledger and the login states belong to the
    /// case.
    fn fill_home(&self, home: &Path) -> io::Result<()> {
        if home.exists() {
            return Ok(());
        }
        make_dir(home)?;
        let Some(users) = &self.options.home else {
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
    pub fn check_choices(&self) -> Result<(), Error> {
        let chosen = match self.bundle.agent() {
            Some(agent) => choices::choose(&self.bundle, agent, &self.options.choices),
            None => return Err(self.no_agent()),
        };
        match chosen {
            Err(error) if error.code.is_choice() => Err(error),
            _ => Ok(()),
        }
    }

    fn no_agent(&self) -> Error {
        let what = format!(
            "{}: a CLI.md describes a tool, not an agent that could be certified",
            self.bundle.path().display()
        );
        Error::new(Code::ManifestInvalid, what).hint("pass an AGENT-CLI.md")
    }

    /// Runs everything before the spawn, once for all cases, and returns how to start the agent.
    pub async fn ready(&self) -> Result<&(Arc<Context>, LaunchSpec), Error> {
        let made = self.ready.get_or_init(|| async {
            let cwd = self.directory.join("work");
            let context = self.context(&self.directory, &cwd, Arc::new(Silent))?;
            let agent = Agent::load(context, self.agent_options())?;
            let spec = agent.spec().await?;
            Ok((Arc::clone(&agent.context), spec))
        });
        made.await.as_ref().map_err(Clone::clone)
    }

    /// Why the bundle could not be prepared, if [`BundleTarget::ready`] failed.
    pub fn refusal(&self) -> Option<&Error> {
        self.ready.get()?.as_ref().err()
    }

    /// Masks for the secrets that were resolved for the bundle.
    pub fn masks(&self) -> Option<&SecretRedactor> {
        let ready = self.ready.get()?.as_ref().ok();
        ready.map(|(context, _)| &context.masks)
    }

    /// Options for loading the agent. Probes replace the handshake timeout with that of the run.
    pub fn agent_options(&self) -> AgentOptions {
        AgentOptions {
            choices: self.options.choices.clone(),
            handshake_timeout: Duration::from_secs(30),
            // The suite tests the bundle itself, and reports each violation as a verdict.
            allow_invalid: true,
            ..AgentOptions::default()
        }
    }

    /// Starts the agent for a case that talks to it directly. Its workspace is the whole directory
    /// of the case, because the sessions of the case work below it.
    pub async fn start(
        &self,
        cwd: &Path,
        more: &[(String, String)],
        options: SpawnOptions,
    ) -> Result<Started, Error> {
        let (context, spec) = self.ready().await?;
        let mut context = Context::clone(context);
        context.cwd = cwd.parent().unwrap_or(cwd).to_owned();
        let more = self.options.env.iter().chain(more);
        let more = more.map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let env: Vec<_> = spec.env.iter().cloned().chain(more).collect();
        let mut launch = context.prepare(&spec.argv, &env)?;
        launch.without_timeout();
        context.launch(launch, options).await
    }
}

impl NoVerdict {
    /// The runtime refused to start the bundle. If only the user can change that, the case is
    /// skipped.
    pub fn of_refusal(error: &Error) -> NoVerdict {
        let (code, message) = (error.code.as_str(), &error.message);
        let why = match &error.hint {
            Some(hint) => format!("{code}: {message} ({hint})"),
            None => format!("{code}: {message}"),
        };
        match error.code {
            Code::AuthRequired | Code::SetupRequired | Code::Declined => NoVerdict::Skip(why),
            Code::StateUnwritable => NoVerdict::Error(why),
            _ => NoVerdict::NotVerified(why),
        }
    }
}
