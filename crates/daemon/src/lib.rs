//! AIP-46: many agents on one host. One registry of sessions; HTTP, SSE, MCP and the dashboard
//! are doors to it.

pub mod clock;
pub mod error;
pub mod http;
pub mod mcp;
pub mod model;
pub mod pace;
pub mod project;
pub mod redact;
pub mod registry;
pub mod ring;
pub mod store;
pub mod workspaces;

pub use error::ApiError;
pub use model::{Session, SpawnRequest, Status};
pub use registry::{Config, Registry};
