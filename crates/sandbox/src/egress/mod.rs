//! The only way out of a sandbox: a proxy in the runner that knows which hosts are listed.
//!
//! The child has an empty network namespace and one listening socket in it, which the runner
//! accepts on. What is asked for by name is matched by name (`hosts`), resolved here and only
//! here (`resolve`), and connected to the very address that was checked, so that no second
//! answer of the name service counts. Every decision is told to an `AuditSink`.
//!
//! Invariants: a name that is not listed is never looked up; an address is reached only if it
//! is public or itself listed; headers, paths and credentials never reach the audit log.

mod address;
mod answer;
pub mod audit;
mod body;
pub mod env;
pub mod hosts;
mod http;
pub mod proxy;
mod relay;
mod request;
pub mod resolve;
mod session;
mod socks;

pub use audit::{AuditSink, JsonLines};
pub use hosts::{HostRules, RuleError};
pub use proxy::{Limits, Proxy, Stats};
pub use resolve::{Resolve, SystemResolver};
