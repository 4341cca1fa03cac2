//! The runner through real processes: the bundled mock agents under their sandbox, driven by
//! the command line and by the library.
#![cfg(target_os = "linux")]

mod choices;
mod events;
mod faults;
mod orphans;
mod place;
mod secrets;
mod services;
mod sessions;
