//! The only network access of a sandbox: a proxy in the runner that knows which hosts are listed.
//!
//! The child has an empty network namespace with one listening socket, which the runner accepts on.
//! A requested name is matched by name (`hosts`) and resolved only here (`resolve`). The proxy
//! connects to exactly the address that was checked, so a second response of the name service has
//! no effect. Every decision is recorded in an `AuditSink`.
//!
//! Invariants: a name that is not listed is never looked up. An address is reached only if it is
//! public or itself listed. Headers, paths and credentials never reach the audit log.

mod address;
pub mod audit;
mod body;
mod connection;
pub(crate) mod env;
mod hosts;
mod http;
mod proxy;
mod relay;
mod request;
pub mod resolve;
mod response;
mod socks;

pub use audit::{AuditSink, Decisions, JsonLines};
pub use hosts::{HostRules, RuleError, RuleProblem};
pub use proxy::{Proxy, ProxyLimits, Stats};
pub use resolve::{Resolve, SystemResolver};
