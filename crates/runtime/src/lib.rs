//! From a manifest to a running agent: installed, confined, watched, and gone when it should
//! be.

pub mod agent;
pub mod arm;
pub mod audit;
pub mod auth;
pub mod built_in;
pub mod bundle;
pub mod choices;
pub mod command;
pub mod context;
pub mod continuation;
pub mod event;
pub mod fault;
pub mod home;
pub mod install;
pub mod interact;
pub mod observe;
pub mod secrets;
pub mod session;
pub mod setup;
pub mod version;

pub use event::{Choice, StopReason, StreamEvent};
pub use fault::{Code, Fault};
