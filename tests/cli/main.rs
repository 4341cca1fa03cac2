//! Tests of the command line as users and scripts call it. Each test has its own directory.

mod bad_input;
mod commands;
mod config;
mod fixing;
mod git;
#[cfg(unix)]
mod git_programs;
#[cfg(unix)]
mod links;
mod outputs;
mod paths;
#[cfg(target_os = "linux")]
mod sandbox;
mod selection;
mod signals;
mod support;
