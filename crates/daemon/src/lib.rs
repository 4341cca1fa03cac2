//! AIP-46: hosts many agents on one machine. There is one registry of sessions. HTTP, SSE, MCP and
//! the dashboard are interfaces to it.

pub mod clock;
mod error;
pub mod http;
pub mod mcp;
pub mod model;
mod pace;
mod project;
mod redact;
mod registry;
pub mod ring;
mod store;
pub mod workspaces;

pub use error::ApiError;
pub use model::{Session, SpawnRequest, Status};
pub use registry::{Config, Registry};
