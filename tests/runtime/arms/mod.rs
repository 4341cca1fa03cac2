//! The protocol arms other than ACP, each against real processes: MCP servers, executable adapters,
//! and agents that print JSON lines (A45-EVT-09, A45-CONF-04, A45-CONF-05).

mod adapter;
mod codec;
mod fixture;
mod mcp;
mod mocks;
mod npm;
