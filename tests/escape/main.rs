//! The escape matrix: for each clause of a sandbox the ways that could lead round it, tried by
//! `examples/escape_probe` inside, where each must be blocked, and outside, where the same
//! attempt must succeed: what cannot succeed anywhere proves nothing and is listed by name.
//! Beside each wall stands a twin: what the clause allows works.
//!
//! As root everything runs twice, the second time as an ordinary user; otherwise only that
//! half runs. `cargo test --test escape -- --nocapture` shows the table.
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
mod world;
