//! The judges through the command line: `certify`, `aoi-lint`, the suites and their self-tests.
//! One binary, because most of these tests wait for processes and run well side by side.
#![cfg(target_os = "linux")]

mod aoi_agentproto;
mod aoi_checks;
mod aoi_discovery;
mod aoi_effects;
mod aoi_lint;
mod aoi_selftest;
mod certify;
mod certify_reports;
mod harness_monitors;
mod machine_mode;
mod oracle;
mod suites;

/// Whether the self-tests run over everything, as `tests/selftest/run` asks, or over a sample.
fn is_full_depth() -> bool {
    std::env::var("AGENTPROTO_SELFTEST").is_ok_and(|depth| depth == "all")
}
