//! The suites: their files, and each of them over agents and hosts that keep to it or do not.

mod acp_v2;
mod files;
mod lifecycle;
mod mcp;
mod sessions;
