//! The registry behind the daemon, with the bundled mock agents under their sandbox
//! (A46-SCOPE, A46-MODEL, A46-STATUS, A46-TURN, A46-REF).
#![cfg(target_os = "linux")]

mod host;
mod life;
mod mcp_client;
mod mcp_http;
mod mcp_scenes;
mod mcp_stdio;
mod memory;
mod streams;
