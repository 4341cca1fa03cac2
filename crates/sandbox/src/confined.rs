//! A confined child with its network access: spawn, proxy and relays together.

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::sync::Mutex;

use super::assess::assess;
use super::backend::Backend;
use super::build;
use super::bwrap::{self, BwrapError};
use super::clause::{Assessment, Enforcement};
use super::egress::{self, AuditSink, HostRules, Proxy, Resolve, RuleError};
use super::ingress::{self, Relay};
use super::limits::{self, LimitContext, LimitError, Limiter};
use super::plan::{PROXY_PORT, Raw, SpawnPlan};
use super::policy::{NewPath, Policy};
use super::probe;
use crate::helper::sys;
use crate::spawn::{self, Child, Exit, SpawnError};

/// How often, and at which interval, placeholders are tried to be removed.
const CLEANUP_ATTEMPTS: usize = 25;
const CLEANUP_INTERVAL: Duration = Duration::from_millis(2);

/// Why a confined child was not started.
#[derive(Debug, Error)]
pub enum ConfinementError {
    /// A clause cannot be enforced, so nothing was executed (A29-SEC-05).
    #[error("{}", refusal(.0))]
    Unenforceable(Vec<Assessment>),
    /// Bubblewrap cannot run the plan.
    #[error(transparent)]
    Bubblewrap(#[from] BwrapError),
    /// A writable directory or file could not be created.
    #[error("cannot create `{}`: {error}", path.display())]
    Create {
        /// The directory or file.
        path: PathBuf,
        /// The error of the operating system.
        error: std::io::Error,
    },
    /// A limit could not be set.
    #[error(transparent)]
    Limits(#[from] LimitError),
    /// An entry of `network.egress` is invalid.
    #[error(transparent)]
    Egress(#[from] RuleError),
    /// A port of the host could not be exposed.
    #[error("cannot expose `{url}`: {error}")]
    Ingress {
        /// The entry of `network.ingress`.
        url: String,
        /// The error of the operating system.
        error: std::io::Error,
    },
    /// The child could not be spawned.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
}

fn refusal(clauses: &[Assessment]) -> String {
    let lines = clauses.iter().filter_map(|a| match &a.enforcement {
        Enforcement::Unenforceable { why } => Some(format!("`{}`: {why}", a.clause.text)),
        Enforcement::Enforced { .. } => None,
    });
    let lines: Vec<String> = lines.collect();
    format!(
        "the sandbox cannot be enforced on this machine, so nothing was executed: {}",
        lines.join("; ")
    )
}

/// The clauses that cannot be enforced and why, as details of an error: `{"clauses": [{"clause":
/// "limits", "why": "…"}]}`.
pub fn refused_clauses(clauses: &[Assessment]) -> serde_json::Value {
    let refused = clauses.iter().filter_map(|a| match &a.enforcement {
        Enforcement::Unenforceable { why } => {
            Some(serde_json::json!({ "clause": a.clause.text, "why": why }))
        }
        Enforcement::Enforced { .. } => None,
    });
    serde_json::json!({ "clauses": refused.collect::<Vec<_>>() })
}

/// A plan that is ready to start: every clause can be enforced.
pub struct PreparedChild {
    /// How the child will be started.
    pub plan: SpawnPlan,
    /// How each clause of the policy is enforced.
    pub assessments: Vec<Assessment>,
    rules: HostRules,
    ingress: Vec<(u16, String)>,
    limiter: Limiter,
    placeholders: Vec<Raw>,
    created: CreatedPaths,
}

/// Granted paths that were created for a child because they were missing, parents first.
#[derive(Debug, Default)]
pub struct CreatedPaths(Vec<PathBuf>);

impl CreatedPaths {
    /// Removes those that are still empty.
    pub fn remove_empty(&self) {
        for path in self.0.iter().rev() {
            // What cannot be removed is in use, or was moved.
            let _ = sys::remove_empty(path);
        }
    }
}

impl PreparedChild {
    /// What was created on the host for this child.
    pub fn take_created(&mut self) -> CreatedPaths {
        std::mem::take(&mut self.created)
    }

    /// Ignores `limits.timeout_ms`, so that the child may run without a time limit.
    pub fn without_timeout(&mut self) {
        self.limiter.timeout = None;
    }
}

/// Assesses every clause of a policy, including the limits.
pub fn assess_all(policy: &Policy, backend: &Result<Backend, String>) -> Vec<Assessment> {
    let mut all = assess(policy, backend);
    all.extend(limits::assess(&policy.limits, limit_context(backend)));
    all
}

fn limit_context(backend: &Result<Backend, String>) -> LimitContext {
    match backend {
        Ok(Backend::Bubblewrap) => LimitContext::Bubblewrap,
        _ => LimitContext::Native,
    }
}

/// Assesses a policy on this machine, and refuses it if a clause cannot be enforced.
pub fn prepare(
    policy: &Policy,
    command: &[OsString],
    backend: &Result<Backend, String>,
) -> Result<PreparedChild, ConfinementError> {
    let assessments = assess_all(policy, backend);
    let is_unenforceable =
        |a: &Assessment| matches!(a.enforcement, Enforcement::Unenforceable { .. });
    if assessments.iter().any(is_unenforceable) {
        return Err(ConfinementError::Unenforceable(assessments));
    }
    let mut created = CreatedPaths::default();
    let failed = |path: &PathBuf, error| ConfinementError::Create {
        path: path.clone(),
        error,
    };
    for grant in &policy.grants {
        let path = &grant.source;
        match grant.create {
            Some(NewPath::Directory) => sys::make_directories(path, &mut created.0),
            Some(NewPath::File) => sys::make_empty_file(path, &mut created.0),
            None => Ok(()),
        }
        .map_err(|error| failed(path, error))?;
    }
    for path in &policy.create {
        sys::make_directories(path, &mut Vec::new()).map_err(|error| failed(path, error))?;
    }
    let rules = HostRules::parse(policy.egress.iter().map(|(_, host)| host))?;
    let mut plan = build::plan(policy, command);
    let placeholders = plan.leftovers.clone();
    if !rules.is_empty() {
        let proxy = SocketAddr::from((Ipv4Addr::LOCALHOST, PROXY_PORT));
        for (name, value) in egress::env::variables(proxy, &rules, egress::env::AllProxy::Http) {
            plan.env
                .retain(|(known, _)| known.bytes() != name.as_bytes());
            plan.env.push((Raw::from(&name), Raw::from(&value)));
        }
    }
    let ingress = policy.ingress.iter();
    let ingress = ingress.filter_map(|(_, url)| Some((ingress::port(url).ok()?, url.clone())));
    let limiter = limits::prepare(&policy.limits, limit_context(backend))?;
    limiter.apply(&mut plan);
    if *backend == Ok(Backend::Bubblewrap)
        && let Ok(found) = probe::bubblewrap()
    {
        plan = bwrap::plan(plan, found)?;
    }
    Ok(PreparedChild {
        plan,
        assessments,
        rules,
        ingress: ingress.collect(),
        limiter,
        placeholders,
        created,
    })
}

/// A running child in its sandbox.
pub struct ConfinedChild {
    /// The child process.
    pub child: Child,
    /// The egress proxy, or `None` if no host is allowed.
    pub proxy: Option<Proxy>,
    relays: Vec<Relay>,
    /// Directories of the host at names that the child must not create.
    placeholders: Vec<Raw>,
    /// Its control groups are removed after the child has exited.
    _limiter: Limiter,
}

/// Starts what was prepared. `sink` receives every decision of the proxy.
pub async fn start(
    prepared: PreparedChild,
    mut options: spawn::SpawnOptions,
    resolver: Arc<dyn Resolve>,
    sink: Arc<dyn AuditSink>,
) -> Result<ConfinedChild, ConfinementError> {
    options.timeout = options.timeout.or(prepared.limiter.timeout);
    options.cpu = prepared.limiter.cpu.clone();
    let mut child = spawn::spawn(&prepared.plan, options).await?;
    let proxy = match child.listener.take() {
        Some(listener) => {
            let proxy = Proxy::start(listener, prepared.rules, resolver, sink);
            Some(proxy.map_err(SpawnError::Helper)?)
        }
        None => None,
    };
    let mut relays = Vec::new();
    if !prepared.ingress.is_empty()
        && let Some(sockets) = child.sockets.take()
    {
        let sockets = Arc::new(Mutex::new(sockets));
        for (port, url) in prepared.ingress {
            let relay = ingress::relay(port, Arc::clone(&sockets)).await;
            relays.push(relay.map_err(|error| ConfinementError::Ingress { url, error })?);
        }
    }
    Ok(ConfinedChild {
        child,
        proxy,
        relays,
        placeholders: prepared.placeholders,
        _limiter: prepared.limiter,
    })
}

impl ConfinedChild {
    /// Waits for the child, then closes its network access.
    pub async fn wait(&mut self) -> Exit {
        let exit = self.child.wait().await;
        self.close().await;
        exit
    }

    /// Stops the child, first gracefully and then by force, and closes its network access.
    pub async fn stop(&mut self) -> Exit {
        let exit = self.child.stop().await;
        self.close().await;
        exit
    }

    async fn close(&mut self) {
        if let Some(proxy) = self.proxy.take() {
            proxy.shutdown().await;
        }
        self.relays.clear();
        self.remove_placeholders().await;
    }

    /// Removes the placeholders before the caller sees the end. The helper also removes them, a
    /// little later, because this process may be killed. Those that another child still needs stay.
    async fn remove_placeholders(&mut self) {
        for _ in 0..CLEANUP_ATTEMPTS {
            self.placeholders
                .retain(|path| matches!(sys::remove_unlocked(path.path()), Ok(false)));
            if self.placeholders.is_empty() {
                return;
            }
            tokio::time::sleep(CLEANUP_INTERVAL).await;
        }
    }
}
