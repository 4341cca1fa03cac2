//! Opens an agent with sensible defaults, for programs that embed the runtime.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::agent::{Agent, AgentOptions};
use crate::arm::permissions::Permissions;
use crate::bundle::{Bundle, TargetKind};
use crate::choices::OptionValue;
use crate::context::{Context, ContextOptions, SandboxSettings, Sandboxing};
use crate::error::{Code, Error};
use crate::home::Home;
use crate::interact::{Headless, Interact};
use crate::mcp_servers::McpServer;
use crate::observe::{Observer, Silent};
use agentproto_sandbox::policy::Protection;

/// Settings for opening an agent. Each has a default; see [`Agent::builder`].
pub struct AgentBuilder {
    target: String,
    adapters: Vec<PathBuf>,
    home: Option<PathBuf>,
    cwd: Option<PathBuf>,
    sandboxing: Sandboxing,
    yes: bool,
    observer: Arc<dyn Observer>,
    interact: Arc<dyn Interact>,
    options: AgentOptions,
}

impl Agent {
    /// Opens an agent with default settings: a slug (`mock-acp`), a manifest or a bundle directory.
    ///
    /// Nothing is installed or started yet.
    pub fn open(target: impl Into<String>) -> Result<Agent, Error> {
        Agent::builder(target).open()
    }

    /// Starts from the default settings: state in `$AGENTPROTO_HOME`, the current directory as the
    /// working directory, the declared sandbox enforced, permission requests denied, and no user to
    /// ask.
    pub fn builder(target: impl Into<String>) -> AgentBuilder {
        AgentBuilder {
            target: target.into(),
            adapters: Vec::new(),
            home: None,
            cwd: None,
            sandboxing: Sandboxing::Auto,
            yes: false,
            observer: Arc::new(Silent),
            interact: Arc::new(Headless),
            options: AgentOptions::default(),
        }
    }
}

impl AgentBuilder {
    /// Also looks for slugs in this directory, before those of `$AGENTPROTO_HOME`.
    #[must_use]
    pub fn adapters(mut self, dir: impl Into<PathBuf>) -> Self {
        self.adapters.push(dir.into());
        self
    }

    /// Keeps all state in this directory instead of `$AGENTPROTO_HOME`.
    #[must_use]
    pub fn home(mut self, dir: impl Into<PathBuf>) -> Self {
        self.home = Some(dir.into());
        self
    }

    /// Runs the agent in this directory instead of the current one.
    #[must_use]
    pub fn cwd(mut self, dir: impl Into<PathBuf>) -> Self {
        self.cwd = Some(dir.into());
        self
    }

    /// Sets whether the declared sandbox is enforced.
    #[must_use]
    pub fn sandbox(mut self, sandboxing: Sandboxing) -> Self {
        self.sandboxing = sandboxing;
        self
    }

    /// Confirms installation, setup and login steps in advance.
    #[must_use]
    pub fn confirm_all(mut self) -> Self {
        self.yes = true;
        self
    }

    /// Opens a manifest that has errors. The observer gets a warning, and the audit log an entry.
    #[must_use]
    pub fn allow_invalid(mut self) -> Self {
        self.options.allow_invalid = true;
        self
    }

    /// Chooses one of the manifest's modes.
    #[must_use]
    pub fn mode(mut self, id: impl Into<String>) -> Self {
        self.options.choices.mode = Some(id.into());
        self
    }

    /// Sets one of the manifest's options. The text is converted to the option's type.
    #[must_use]
    pub fn option(mut self, id: impl Into<String>, value: impl Into<String>) -> Self {
        let value = OptionValue::Text(value.into());
        self.options.choices.options.push((id.into(), value));
        self
    }

    /// Chooses one of the manifest's continuation strategies.
    #[must_use]
    pub fn continuation(mut self, id: impl Into<String>) -> Self {
        self.options.choices.continuation = Some(id.into());
        self
    }

    /// Chooses the agent's model, one of `models.allowed` if the manifest has that list.
    #[must_use]
    pub fn model(mut self, id: impl Into<String>) -> Self {
        self.options.choices.model = Some(id.into());
        self
    }

    /// Offers an MCP server to the agent.
    #[must_use]
    pub fn mcp_server(mut self, server: McpServer) -> Self {
        self.options.mcp_servers.push(server);
        self
    }

    /// Decides what the agent may do when it asks for permission.
    #[must_use]
    pub fn permissions(mut self, permissions: Permissions) -> Self {
        self.options.permissions = permissions;
        self
    }

    /// Cancels a turn that takes longer than this.
    #[must_use]
    pub fn turn_timeout(mut self, limit: Duration) -> Self {
        self.options.turn_timeout = Some(limit);
        self
    }

    /// Reports stages, warnings and stderr output to this observer.
    #[must_use]
    pub fn observer(mut self, observer: impl Observer + 'static) -> Self {
        self.observer = Arc::new(observer);
        self
    }

    /// Asks the user through this interface, for example for a login.
    #[must_use]
    pub fn interact(mut self, interact: impl Interact + 'static) -> Self {
        self.interact = Arc::new(interact);
        self
    }

    /// Reads the manifest and checks the choices. Nothing is installed or started yet.
    pub fn open(self) -> Result<Agent, Error> {
        let home = match self.home {
            Some(dir) => Home::new(dir),
            None => Home::from_env()?,
        };
        let cwd = match self.cwd {
            Some(dir) => dir,
            None => std::env::current_dir().map_err(|error| {
                let what = format!("the current directory cannot be read: {error}");
                Error::new(Code::TargetUnknown, what)
            })?,
        };
        let bundle = Bundle::discover_kind(&self.target, TargetKind::Agent, &self.adapters, &home)?;
        let context_options = ContextOptions {
            home,
            cwd,
            host_env: Arc::new(std::env::vars_os().collect()),
            sandboxing: self.sandboxing,
            sandbox: SandboxSettings {
                protection: Protection {
                    read_only: self.adapters,
                    ..Protection::default()
                },
                ..SandboxSettings::default()
            },
            yes: self.yes,
            observer: self.observer,
            interact: self.interact,
        };
        Agent::load(Context::new(bundle, context_options)?, self.options)
    }
}
