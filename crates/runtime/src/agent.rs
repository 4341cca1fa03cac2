//! `load → start → send`: loads a manifest into a handle and opens sessions on it (A45-API-01).

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::sync::OnceCell;

use crate::arm::acp::{Acp, WireChoices};
use crate::arm::mcp::{self, Mcp};
use crate::arm::permissions::{PermissionBroker, Permissions};

use crate::arm::{Arm, LaunchSpec, Negotiated, OpenRequest, proprietary, redact_error};
use crate::auth;
use crate::bundle::Bundle;
use crate::capabilities;
use crate::choices::{self, Choices, ResolvedChoices, Strategy};
use crate::command::Launch;
use crate::context::{Context, Sandboxing};
use crate::error::{Code, Error};
use crate::install;
use crate::mcp_servers::{self, McpServer};
use crate::models;
use crate::observe::Stage;
use crate::session::{Session, SessionLimits};
use crate::setup;
use crate::validate;
use crate::version;
use agentproto_manifest::views::AgentCli;
use agentproto_sandbox::policy::SandboxManifest;

/// Default of `session.idle_timeout_ms` (A45-SESS-02).
const DEFAULT_IDLE_TIMEOUT: Duration = Duration::from_millis(600_000);

/// Options for running an agent.
#[derive(Clone, Debug)]
pub struct AgentOptions {
    /// Mode, options and continuation strategy.
    pub choices: Choices,
    /// How permission requests of the agent are decided.
    pub permissions: Permissions,
    /// Maximum time for the handshake, and for opening a session. 30 seconds by default.
    pub handshake_timeout: Duration,
    /// Maximum time for one turn, or `None` for no limit.
    pub turn_timeout: Option<Duration>,
    /// How a missing program is installed.
    pub install: install::InstallOptions,
    /// Idle limit instead of the manifest's, or `None` to use the manifest's.
    pub idle_limit: Option<Duration>,
    /// Maximum number of turns per session, if the manifest's limit is not lower.
    pub max_turns: Option<u64>,
    /// MCP servers that are offered to the agent, in addition to those of the manifest.
    pub mcp_servers: Vec<McpServer>,
    /// Runs a manifest that has errors. This is announced and audited.
    pub allow_invalid: bool,
    /// Further manifests that the run uses and that must be valid, such as an OPERATOR.md.
    pub also_validate: Vec<PathBuf>,
}

impl Default for AgentOptions {
    fn default() -> Self {
        AgentOptions {
            choices: Choices::default(),
            permissions: Permissions::default(),
            handshake_timeout: Duration::from_secs(30),
            turn_timeout: None,
            install: install::InstallOptions::default(),
            idle_limit: None,
            max_turns: None,
            mcp_servers: Vec::new(),
            allow_invalid: false,
            also_validate: Vec::new(),
        }
    }
}

/// The protocol that the agent speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Acp,
    Mcp,
    Proprietary,
}

/// A checked manifest with valid choices. Nothing has run yet.
pub struct Agent {
    /// The bundle and its environment.
    pub context: Arc<Context>,
    /// The caller's choices, checked against the manifest.
    pub choices: ResolvedChoices,
    protocol: Protocol,
    options: AgentOptions,
    /// The installed program, found and checked once per handle.
    installed: OnceCell<install::Installed>,
    /// The caller's own idle limit. The shorter of this and the manifest's limit applies.
    idle: Option<Duration>,
    runner: Runner,
}

/// What `runner` of the manifest declares beyond the sandbox (AIP-17).
#[derive(Default)]
pub(crate) struct Runner {
    /// Whether its engine is replaced by `subprocess`.
    is_downgraded: bool,
    /// `limits.timeout_ms`: the maximum time for one turn, or for one call of a tool.
    pub(crate) timeout: Option<Duration>,
}

impl Runner {
    /// Reads the block. What this host cannot provide is an error before anything is installed.
    pub(crate) fn load(bundle: &Bundle) -> Result<Runner, Error> {
        let Some(node) = bundle.root().get("runner") else {
            return Ok(Runner::default());
        };
        let manifest = SandboxManifest::load(bundle.path())?;
        if let Some((clause, why)) = manifest.unsupported_runner()?.first() {
            let what = format!("`{}`: {why} (AIP-17)", clause.text);
            return Err(bundle
                .error_at(Code::SandboxUnenforceable, node, &what)
                .hint("nothing was started; change `runner`, or use a host that supports it")
                .details(json!({ "pointer": clause.pointer })));
        }
        Ok(Runner {
            is_downgraded: manifest.runner_engine()?.as_deref() == Some("in-process"),
            timeout: manifest.runner_timeout()?,
        })
    }
}

impl Agent {
    /// Checks a manifest and the caller's choices before anything runs. These are hard errors: an
    /// unknown protocol (A45-PROTO-04), a capability that is not in the bound ACP.md (A45-CAP-10,
    /// A45-SESS-08), unknown choices, and an invalid manifest (A45-CONF-01, A45-API-01).
    pub fn load(context: Context, mut options: AgentOptions) -> Result<Agent, Error> {
        let bundle = &context.bundle;
        let Some(agent) = bundle.agent() else {
            return Err(Error::new(
                Code::ManifestInvalid,
                format!(
                    "{}: this CLI.md describes a tool, not an agent (AIP-29, AIP-45)",
                    bundle.path().display()
                ),
            )
            .hint("pass an AGENT-CLI.md"));
        };
        let protocol = protocol(bundle, agent)?;
        bundle.text("id")?;
        bundle.text("version")?;
        bundle.text("bin")?;
        if protocol == Protocol::Acp {
            capabilities::check_declared(bundle, agent)?;
        }
        let choices = choices::choose(bundle, agent, &options.choices)?;
        let operator = options.choices.operator.clone();
        context.audit.set_scope(|scope| scope.operator = operator);
        let servers = all_servers(bundle, std::mem::take(&mut options.mcp_servers))?;
        check_protocol_features(protocol, &choices, &servers)?;
        servers
            .iter()
            .for_each(|server| server.mask(&context.masks));
        options.mcp_servers = servers;
        validate::check(&context, &options.also_validate, options.allow_invalid)?;
        let runner = Runner::load(bundle)?;
        Ok(Agent {
            runner,
            protocol,
            choices,
            options,
            installed: OnceCell::new(),
            idle: None,
            context: Arc::new(context),
        })
    }

    /// Closes idle sessions after `limit` if the manifest's own limit is longer.
    pub fn set_idle_limit(&mut self, limit: Duration) {
        self.idle = Some(limit);
    }

    /// Runs all stages before the spawn, and returns how to start the agent, for callers that talk
    /// to it themselves.
    pub async fn spec(&self) -> Result<LaunchSpec, Error> {
        let ready = self.ready().await?;
        Ok(self.spec_of(&ready))
    }

    /// Runs all stages and opens a session: install, version check, setup, auth, spawn, handshake,
    /// session (A45-SETUP-05).
    pub async fn start(&self) -> Result<Session, Error> {
        self.start_or_resume(None).await
    }

    /// Like [`Agent::start`], but continues an earlier session by its id.
    pub async fn resume(&self, id: &str) -> Result<Session, Error> {
        self.start_or_resume(Some(id)).await
    }

    /// Resumes the session if an id is given, and starts a new one otherwise.
    pub async fn start_or_resume(&self, resume: Option<&str>) -> Result<Session, Error> {
        let ready = self.prepare().await?;
        self.start_prepared(ready, resume, std::future::pending())
            .await
    }

    /// The first half of `start`: every check that can fail before an agent process exists, except
    /// for the sandbox.
    pub async fn prepare(&self) -> Result<PreparedAgent, Error> {
        let context = &self.context;
        let stage = |stage, detail: &str| context.observer.stage(stage, detail);
        stage(
            Stage::Discover,
            &context.bundle.path().display().to_string(),
        );
        if context.sandboxing == Sandboxing::Off {
            let what = match context.bundle.common().auth().is_some() {
                true => {
                    "the declared sandbox is not enforced: the agent can do whatever you can, and other processes of yours can read its secrets"
                }
                false => "the declared sandbox is not enforced: the agent can do whatever you can",
            };
            context.observer.warning("sandbox_off", what);
            context.audit.record("sandbox.off", json!({}))?;
        }
        if self.runner.is_downgraded {
            let what = "`runner.engine: in-process` is only for code of the host: the agent runs in its own process (AIP-17)";
            context.observer.warning("runner_downgraded", what);
        }
        self.ready().await
    }

    /// Checks whether the sandbox can be enforced, before anything starts. `start_prepared` uses the
    /// sandbox that was checked. A proprietary adapter runs in another program, which checks this
    /// itself.
    pub fn check_sandbox(&self, prepared: &mut PreparedAgent) -> Result<(), Error> {
        if self.protocol == Protocol::Proprietary {
            return Ok(());
        }
        let spec = self.spec_of(prepared);
        prepared.launch = Some(self.context.prepare(&spec.argv, &spec.env)?);
        Ok(())
    }

    /// The second half of `start`. If it is canceled, the agent is stopped like after a session, and
    /// the error is `session_closed`.
    pub async fn start_prepared(
        &self,
        prepared: PreparedAgent,
        resume: Option<&str>,
        canceled: impl Future<Output = ()>,
    ) -> Result<Session, Error> {
        let context = &Arc::new(self.context.for_session());
        let stage = |stage, detail: &str| context.observer.stage(stage, detail);
        stage(Stage::Spawn, &prepared.bin.display().to_string());
        let broker = PermissionBroker::new(self.options.permissions.clone());
        let arm = self.arm(context, prepared, &broker)?;
        let opened = tokio::select! {
            biased;
            () = canceled => {
                let what = "the session was closed before the agent was ready";
                Err(Error::new(Code::SessionClosed, what))
            }
            opened = self.open_session(&*arm, resume, &stage) => opened,
        };
        match opened {
            Ok((id, negotiated)) => {
                let agent_session = Some(id.clone());
                context
                    .audit
                    .set_scope(|scope| scope.agent_session = agent_session);
                let details = json!({
                    "session": id,
                    "agent": negotiated.name,
                    "version": negotiated.version,
                    "state": "invoked",
                });
                context.audit.record("session.open", details)?;
                Ok(Session::new(
                    Arc::clone(context),
                    arm,
                    broker,
                    id,
                    self.limits(),
                ))
            }
            Err(error) => {
                arm.stop().await;
                // The agent's own text may contain secrets that it was given.
                let error = redact_error(context, error);
                let details = json!({ "code": error.code.as_str(), "message": error.message });
                context.audit.record("session.failed", details)?;
                Err(error)
            }
        }
    }

    async fn open_session(
        &self,
        arm: &dyn Arm,
        resume: Option<&str>,
        stage: &impl Fn(Stage, &str),
    ) -> Result<(String, Negotiated), Error> {
        let limit = self.options.handshake_timeout;
        let late = async |what: &str| {
            let output = arm.output_excerpt().await;
            let suffix = output.unwrap_or_default();
            Error::new(
                Code::HandshakeTimeout,
                format!("the agent did not answer {what} within {} s{suffix}", limit.as_secs_f64()),
            )
            .hint("check `bin_args`: a wrong subcommand may start another program; `--handshake-timeout` sets a longer limit")
        };
        arm.prepare().await?;
        stage(Stage::Handshake, self.context.bundle.text("protocol")?);
        let negotiated = match tokio::time::timeout(limit, arm.handshake()).await {
            Ok(negotiated) => negotiated?,
            Err(_) => return Err(late("the handshake").await),
        };
        capabilities::check_negotiated(&self.context.bundle, &negotiated)?;
        let open = OpenRequest {
            resume: resume.map(str::to_owned),
        };
        stage(Stage::Session, resume.unwrap_or("new"));
        match tokio::time::timeout(limit, arm.open(&open)).await {
            Ok(id) => Ok((id?, negotiated)),
            Err(_) => Err(late("the request to open a session").await),
        }
    }

    /// Runs install, version check, setup and auth. Each of them reports its own stage.
    async fn ready(&self) -> Result<PreparedAgent, Error> {
        let context = &self.context;
        let found = self.installed.get_or_try_init(async || {
            let installed = install::ensure(context, self.options.install).await?;
            let (_, installed) = version::ensure(context, &installed).await?;
            Ok::<_, Error>(installed)
        });
        let installed = found.await?;
        let mut env = setup::ensure(context, &installed.bin).await?;
        env.extend(auth::ensure(context, &installed.bin).await?);
        if let Some(model) = &self.choices.model {
            env.extend(models::environment(context, model, &env).await?);
        }
        Ok(PreparedAgent {
            bin: installed.bin.clone(),
            env,
            launch: None,
        })
    }

    fn spec_of(&self, prepared: &PreparedAgent) -> LaunchSpec {
        let own = self.choices.env.iter();
        let own = own.map(|(name, value)| (OsString::from(name), OsString::from(value)));
        LaunchSpec {
            argv: self.argv(prepared),
            env: prepared.env.iter().cloned().chain(own).collect(),
        }
    }

    fn arm(
        &self,
        context: &Arc<Context>,
        prepared: PreparedAgent,
        broker: &PermissionBroker,
    ) -> Result<Box<dyn Arm>, Error> {
        let context = Arc::clone(context);
        let spec = self.spec_of(&prepared);
        let launch = prepared.launch;
        match self.protocol {
            Protocol::Acp => {
                let choices = WireChoices {
                    mode: self.choices.wire_mode.clone(),
                    options: self.choices.wire_options.clone(),
                    model: self.choices.wire_model.clone(),
                    mcp_servers: self.options.mcp_servers.clone(),
                };
                let acp = Acp::new(context, spec, broker.clone(), choices);
                Ok(Box::new(acp.with_launch(launch)))
            }
            Protocol::Mcp => {
                let turn = mcp::McpTurnConfig::from_manifest(&context.bundle)?;
                let mcp = Mcp::new(context, spec, broker.clone(), turn);
                Ok(Box::new(mcp.with_launch(launch)))
            }
            Protocol::Proprietary => proprietary(context, spec, broker.clone()),
        }
    }

    /// The program with `bin_args`, then the arguments of mode and options (A45-MODE-04). An MCP
    /// server may be another program than `bin`, with its own arguments.
    fn argv(&self, prepared: &PreparedAgent) -> Vec<OsString> {
        let agent = self.context.bundle.agent();
        let server = agent.and_then(|agent| agent.mcp());
        let (program, base): (OsString, Vec<&str>) = match (self.protocol, server) {
            (Protocol::Mcp, Some(server)) => {
                let own = |name: &&str| agent.and_then(|a| a.bin()) != Some(*name);
                let program = server.command().filter(own).map(OsString::from);
                (
                    program.unwrap_or_else(|| prepared.bin.clone().into()),
                    server.args().collect(),
                )
            }
            _ => {
                let args = agent.into_iter().flat_map(|agent| agent.bin_args());
                (prepared.bin.clone().into(), args.collect())
            }
        };
        let patched = self.choices.args.iter().map(String::as_str);
        let args = base.into_iter().chain(patched).map(OsString::from);
        [program].into_iter().chain(args).collect()
    }

    fn limits(&self) -> SessionLimits {
        let agent = self.context.bundle.agent();
        let session = agent.and_then(|agent| agent.session());
        let millis = |ms: Option<i64>| {
            ms.and_then(|ms| u64::try_from(ms).ok())
                .map(Duration::from_millis)
        };
        // An ephemeral session ends with its client, so its own limit has no effect.
        let declared = session.filter(|s| s.mode() != Some("ephemeral"));
        let declared = millis(declared.and_then(|s| s.idle_timeout_ms()));
        let mut idle = declared.unwrap_or(DEFAULT_IDLE_TIMEOUT);
        let pinned = || agent?.continuation()?.pinned_session()?.idle_timeout_ms();
        if self.choices.strategy == Strategy::PinnedSession
            && let Some(other) = millis(pinned())
        {
            // One process has two idle limits: the shorter one applies (A45-SESS-02, A45-CONT-12).
            idle = idle.min(other);
        }
        if let Some(own) = self.options.idle_limit {
            idle = own;
        }
        if let Some(other) = self.idle {
            idle = idle.min(other);
        }
        let turns = session.and_then(|s| s.max_turns());
        let turns = turns.and_then(|n| u64::try_from(n).ok());
        SessionLimits {
            idle,
            max_turns: turns.into_iter().chain(self.options.max_turns).min(),
            // The shorter limit applies.
            turn_timeout: [self.options.turn_timeout, self.runner.timeout]
                .into_iter()
                .flatten()
                .min(),
        }
    }
}

/// An installed program and the environment to start it with.
pub struct PreparedAgent {
    bin: PathBuf,
    env: Vec<(OsString, OsString)>,
    /// The agent in its sandbox, once `check_sandbox` has prepared it.
    launch: Option<Launch>,
}

/// The servers of the manifest and of the caller. The caller's server replaces one of the manifest
/// with the same name.
fn all_servers(bundle: &Bundle, own: Vec<McpServer>) -> Result<Vec<McpServer>, Error> {
    let mut servers = McpServer::from_manifest(bundle)?;
    servers.retain(|server| own.iter().all(|other| other.name() != server.name()));
    servers.extend(own);
    mcp_servers::check_names(&servers)?;
    Ok(servers)
}

/// Refuses what only ACP can pass to the agent.
fn check_protocol_features(
    protocol: Protocol,
    choices: &ResolvedChoices,
    servers: &[McpServer],
) -> Result<(), Error> {
    if protocol == Protocol::Acp {
        return Ok(());
    }
    if let Some(server) = servers.first() {
        let what = format!(
            "cannot offer the MCP server `{}`: only ACP agents accept MCP servers",
            server.name()
        );
        return Err(Error::new(Code::CapabilityMismatch, what)
            .hint("configure the server in the agent's own configuration"));
    }
    match &choices.wire_model {
        Some(model) if model.requested => {
            let what = format!(
                "cannot use the model `{}`: the manifest has no option `model`, and only ACP agents have a request for it",
                model.id
            );
            Err(Error::new(Code::ModelUnknown, what)
                .hint("add an option `model` with `bin_args_template` or `env` to the manifest"))
        }
        _ => Ok(()),
    }
}

fn protocol(bundle: &Bundle, agent: AgentCli) -> Result<Protocol, Error> {
    let node = bundle.root().get("protocol").unwrap_or(bundle.root());
    let arm = |key: &str, present: bool, protocol| match present {
        true => Ok(protocol),
        false => Err(bundle.invalid(
            node,
            &format!("this protocol needs `{key}` (AIP-45, protocol discriminator)"),
        )),
    };
    match bundle.text("protocol")? {
        "acp" => arm("acp", agent.acp().is_some(), Protocol::Acp),
        "mcp" => arm("mcp", agent.mcp().is_some(), Protocol::Mcp),
        "proprietary" => arm("adapter", agent.adapter().is_some(), Protocol::Proprietary),
        other => Err(bundle
            .error_at(
                Code::ProtocolUnknown,
                node,
                &format!("unknown protocol `{other}`: this runner supports acp, mcp and proprietary (AIP-45, protocol discriminator)"),
            )
            .hint("nothing was started; update agentproto or fix the manifest")),
    }
}
