//! The command line as people and scripts call it, in directories of its own.

mod bad_input;
mod commands;
mod config;
mod fixing;
mod git;
mod outputs;
mod paths;
#[cfg(target_os = "linux")]
mod sandbox;
mod selection;
mod signals;
mod support;
