//! The mock agents as real processes, driven by a raw client.
#![cfg(unix)]

mod acp;
mod acp_mutants;
mod bundles;
mod cancel;
mod client;
mod command_line;
mod faults;
mod mcp;
mod mcp_mutants;
mod mutants;
mod oracle;
mod repl;
mod scenarios;
mod servers;
