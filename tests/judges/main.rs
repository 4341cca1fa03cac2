//! Tests of the checking commands through the command line: `certify`, `aoi-lint`, the suites and
//! their self-tests. They share one binary, because most of them wait for processes and run well in
//! parallel.
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

/// Whether the self-tests run everything, as `tests/selftest/run` requests, or only a sample.
fn is_full_depth() -> bool {
    std::env::var("AGENTPROTO_SELFTEST").is_ok_and(|depth| depth == "all")
}
