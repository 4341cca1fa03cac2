//! From a manifest to a running agent: installed, confined, watched, and gone when it should
//! be.

#[cfg(target_os = "linux")]
pub mod agent;
#[cfg(target_os = "linux")]
pub mod arm;
#[cfg(target_os = "linux")]
pub mod audit;
#[cfg(target_os = "linux")]
pub mod auth;
#[cfg(target_os = "linux")]
pub mod built_in;
#[cfg(target_os = "linux")]
pub mod bundle;
#[cfg(target_os = "linux")]
pub mod choices;
#[cfg(target_os = "linux")]
pub mod command;
#[cfg(target_os = "linux")]
pub mod context;
#[cfg(target_os = "linux")]
pub mod continuation;
pub mod event;
pub mod fault;
#[cfg(target_os = "linux")]
pub mod helper;
pub mod home;
#[cfg(target_os = "linux")]
pub mod host_rules;
#[cfg(target_os = "linux")]
pub mod install;
pub mod interact;
pub mod mask;
pub mod observe;
pub mod sandbox;
#[cfg(target_os = "linux")]
pub mod secrets;
#[cfg(target_os = "linux")]
pub mod session;
#[cfg(target_os = "linux")]
pub mod setup;
#[cfg(target_os = "linux")]
pub mod spawn;
#[cfg(target_os = "linux")]
pub mod version;
#[cfg(target_os = "linux")]
pub mod workplace;

pub use event::{Choice, StopReason, StreamEvent};
pub use fault::{Code, Fault};
