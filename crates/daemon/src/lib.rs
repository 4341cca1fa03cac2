//! AIP-46: hosts many agents on one machine. There is one registry of sessions. HTTP, SSE, MCP and
//! the dashboard are interfaces to it.

#![deny(missing_docs)]

pub mod clock;
mod error;
pub mod http;
pub mod mcp;
pub mod model;
mod project;
mod rate_limit;
mod redact;
mod registry;
pub mod ring;
mod store;
pub mod workspaces;

pub use error::ApiError;
pub use model::{SessionRecord, SessionStatus, SpawnRequest};
pub use registry::{HostConfig, Registry};
