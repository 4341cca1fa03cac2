//! The mock agents as real processes, driven by a raw client.
#![cfg(unix)]

mod acp;
mod aoi;
mod bundles;
mod cancel;
mod client;
mod command_line;
mod faults;
mod llm;
mod mcp;
mod mcp_mutants;
mod mcp_mutants_more;
mod mutants;
mod mutants_more;
mod mutants_sessions;
mod mutants_turns;
mod mutants_wire;
mod oracle;
mod repl;
mod scenarios;
mod scripts;
mod servers;
mod turns;
mod variants;
