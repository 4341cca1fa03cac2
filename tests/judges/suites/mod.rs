//! The suites: their files, and each suite against conforming and defective agents and hosts.

mod acp_v2;
mod defects;
mod files;
mod lifecycle;
mod mcp;
mod sessions;
