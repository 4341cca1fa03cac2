//! The daemon: its registry with the bundled mock agents in their sandbox, and the whole daemon
//! over a socket (A46-SCOPE, A46-MODEL, A46-STATUS, A46-WS, A46-HTTP, A46-SSE, A46-TURN, A46-REF,
//! A46-SEC).
#![cfg(target_os = "linux")]

mod clients;
mod conversations;
mod crowd;
mod dashboard;
mod dashboard_routes;
mod full_disk;
mod host;
mod http;
mod http_faults;
mod http_guard;
mod http_streams;
mod jumps;
mod life;
mod limits;
mod mcp_client;
mod mcp_http;
mod mcp_refusals;
mod mcp_scenes;
mod mcp_stdio;
mod memory;
mod near;
mod network;
mod served;
mod stopping;
mod streams;
mod terminal;
mod token;
mod vanished;
mod verbs;
mod verbs_history;
mod verbs_terminal;
mod workspaces;
