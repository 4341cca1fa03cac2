//! The runner with real processes: the bundled mock agents in their sandbox, driven through the
//! command line and the library.
#![cfg(target_os = "linux")]

mod arms;
mod auth;
mod bench_bundle;
mod call;
mod choices;
mod declared;
mod duties;
mod egress;
mod events;
mod faults;
mod gate;
mod install;
mod login;
mod login_secrets;
mod open_design;
mod orphans;
mod place;
mod questions;
mod secrets;
mod services;
mod sessions;
mod setup;
mod validation;
mod wire_cli;
