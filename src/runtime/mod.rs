//! From a manifest to a running process: confined, watched, and gone when it should be.

#[cfg(target_os = "linux")]
pub mod helper;
pub mod sandbox;
#[cfg(target_os = "linux")]
pub mod spawn;
