//! Runs the agent that a manifest describes: installs it, starts it in its sandbox, records what it
//! does, and ends every process with its session. Calls the tools of a CLI.md in the same way.

#![deny(missing_docs)]

pub mod agent;
pub mod arm;
pub mod audit;
pub mod auth;
mod builder;
pub mod built_in;
pub mod bundle;
pub mod capabilities;
pub mod choices;
pub mod command;
pub mod context;
pub mod continuation;
pub mod discover;
pub mod entry;
pub mod error;
pub mod event;
pub mod forms;
pub mod home;
pub mod install;
pub mod interact;
pub mod mcp_servers;
pub mod models;
pub mod observe;
pub mod plan;
pub mod secrets;
pub mod session;
pub mod setup;
pub mod tls;
pub mod tool;
pub mod usage;
pub mod validate;
pub mod version;

pub use agent::Agent;
pub use arm::permissions::{Answer, Decision, Permissions};
pub use builder::AgentBuilder;
pub use context::Sandboxing;
pub use entry::{CliDefinition, CliHandle, define_cli};
pub use error::{Code, Error};
pub use event::{Choice, StopReason, StreamEvent};
pub use interact::{Headless, Interact};
pub use observe::{Observer, Silent, Stage};
pub use plan::PlanEntry;
pub use session::{Session, Turn};
pub use tool::{CallOptions, CallResult, ToolBundle, ToolCommand};
pub use usage::{ContextSize, Cost, TokenTotals};
