//! A confined child with its way out: spawn, proxy and relays as one thing.

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;
use tokio::sync::Mutex;

use super::assess::assess;
use super::backend::Backend;
use super::build;
use super::bwrap::{self, BwrapError};
use super::clause::{Assessment, Standing};
use super::egress::{self, AuditSink, HostRules, Proxy, Resolve, RuleError};
use super::ingress::{self, Relay};
use super::limits::{self, LimitError, Limiter, Within};
use super::plan::{PROXY_PORT, Plan, Raw};
use super::policy::Policy;
use super::probe;
use crate::spawn::{self, Child, Exit, SpawnError};

#[derive(Debug, Error)]
pub enum StartError {
    /// Nothing was executed (A29-SEC-05).
    #[error("{}", refusal(.0))]
    Unenforceable(Vec<Assessment>),
    #[error(transparent)]
    Bubblewrap(#[from] BwrapError),
    #[error("cannot make the writable directory `{}`: {error}", path.display())]
    Directory {
        path: PathBuf,
        error: std::io::Error,
    },
    #[error(transparent)]
    Limits(#[from] LimitError),
    #[error(transparent)]
    Egress(#[from] RuleError),
    #[error("cannot expose `{url}`: {error}")]
    Ingress { url: String, error: std::io::Error },
    #[error(transparent)]
    Spawn(#[from] SpawnError),
}

fn refusal(clauses: &[Assessment]) -> String {
    let lines = clauses.iter().filter_map(|a| match &a.standing {
        Standing::Unenforceable { why } => Some(format!("`{}`: {why}", a.clause.text)),
        Standing::Enforced { .. } => None,
    });
    let lines: Vec<String> = lines.collect();
    format!(
        "the sandbox cannot be enforced on this machine, so nothing was executed: {}",
        lines.join("; ")
    )
}

/// What stands ready: every clause has somebody who enforces it.
pub struct Prepared {
    pub plan: Plan,
    pub assessments: Vec<Assessment>,
    rules: HostRules,
    ingress: Vec<(u16, String)>,
    limiter: Limiter,
}

impl Prepared {
    /// It may run as long as it likes, whatever `limits.timeout_ms` says.
    pub fn without_timeout(&mut self) {
        self.limiter.timeout = None;
    }
}

/// Every clause with its standing, limits included.
pub fn assess_all(policy: &Policy, backend: &Result<Backend, String>) -> Vec<Assessment> {
    let mut all = assess(policy, backend);
    all.extend(limits::assess(&policy.limits, within(backend)));
    all
}

fn within(backend: &Result<Backend, String>) -> Within {
    match backend {
        Ok(Backend::Bubblewrap) => Within::Bubblewrap,
        _ => Within::Native,
    }
}

/// Judges a policy on this machine; refuses it where a clause would only be pretended.
pub fn prepare(
    policy: &Policy,
    command: &[OsString],
    backend: &Result<Backend, String>,
) -> Result<Prepared, StartError> {
    let assessments = assess_all(policy, backend);
    let open = |a: &Assessment| matches!(a.standing, Standing::Unenforceable { .. });
    if assessments.iter().any(open) {
        return Err(StartError::Unenforceable(assessments));
    }
    for grant in policy.grants.iter().filter(|grant| grant.create) {
        make_directory(&grant.source).map_err(|error| StartError::Directory {
            path: grant.source.clone(),
            error,
        })?;
    }
    let rules = HostRules::parse(policy.egress.iter().map(|(_, host)| host))?;
    let mut plan = build::plan(policy, command);
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
    let limiter = limits::prepare(&policy.limits, within(backend))?;
    limiter.apply(&mut plan);
    if *backend == Ok(Backend::Bubblewrap)
        && let Ok(found) = probe::bubblewrap()
    {
        plan = bwrap::plan(plan, found)?;
    }
    Ok(Prepared {
        plan,
        assessments,
        rules,
        ingress: ingress.collect(),
        limiter,
    })
}

/// What is to be written has to be there; only its owner looks into it.
fn make_directory(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
}

/// A running child in its sandbox.
pub struct Confined {
    pub child: Child,
    pub proxy: Option<Proxy>,
    relays: Vec<Relay>,
    /// Its groups go when the child has gone.
    _limiter: Limiter,
}

/// Starts what was prepared. `sink` hears every decision of the proxy.
pub async fn start(
    prepared: Prepared,
    mut options: spawn::Options,
    resolver: Arc<dyn Resolve>,
    sink: Arc<dyn AuditSink>,
) -> Result<Confined, StartError> {
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
            relays.push(relay.map_err(|error| StartError::Ingress { url, error })?);
        }
    }
    Ok(Confined {
        child,
        proxy,
        relays,
        _limiter: prepared.limiter,
    })
}

impl Confined {
    /// Waits for the child, then closes its way out.
    pub async fn wait(&mut self) -> Exit {
        let exit = self.child.wait().await;
        self.close().await;
        exit
    }

    /// Ends the child by the ladder, then closes its way out.
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
    }
}
