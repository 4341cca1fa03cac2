//! The escape matrix: for each clause of a sandbox, the ways that could bypass it.
//! `examples/escape_probe` tries each one inside the sandbox, where it must be blocked, and outside
//! as a control, where it must succeed. Attempts that cannot succeed anywhere have no control and
//! are listed. For each clause there is also a counterpart that must work.
//!
//! As root, everything runs twice: as root and as an unprivileged user. Otherwise only the second
//! run takes place. `cargo test --test escape -- --nocapture` prints the table.
#![cfg(target_os = "linux")]

mod accounts;
mod egress;
mod environment;
mod exec;
mod files;
mod kernel;
mod limits;
mod matrix;
mod network;
mod policies;
mod privileges;
mod process;
mod twice;
mod world;
