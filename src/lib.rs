//! agentproto: lint agent manifests, run the agents they describe, certify what they do.
//!
//! Rooms and their doors: `manifest` depends on nothing; `lint` on `manifest`;
//! `runtime` on `manifest`; `mock` on `manifest`, and on nothing that it proves; `wire` on
//! nothing; `harness` on `runtime` and `wire`; `daemon` on
//! `runtime`; `report` renders what was found; `cli` calls the
//! rooms. `fields` reads the YAML files of our own making.

#[cfg(target_os = "linux")]
pub mod aoi;
pub mod cli;
#[cfg(target_os = "linux")]
pub mod daemon;
pub mod exit;
pub mod fields;
#[cfg(target_os = "linux")]
pub mod harness;
pub mod lint;
pub mod manifest;
#[cfg(unix)]
pub mod mock;
pub mod report;
#[cfg(unix)]
pub mod runtime;
pub mod verdict;
pub mod wire;

/// The files that `lint DIR` would look at, for the benchmark's floor.
#[doc(hidden)]
pub fn bench_walk(dir: &std::path::Path) -> Vec<std::path::PathBuf> {
    cli::walk_for_bench(dir)
}
