//! Sets `cfg(agents)`: whether the commands that run agents are part of this build.
//!
//! The tests start a debug build tens of thousands of times. Linked to a fixed place, a start has
//! no relocations to do, and half the page faults.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(agents)");
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|found| found == value);
    let is_linux = is("CARGO_CFG_TARGET_OS", "linux");
    if is_linux && std::env::var_os("CARGO_FEATURE_FULL").is_some() {
        println!("cargo::rustc-cfg=agents");
    }
    if is("PROFILE", "debug") && is_linux && is("CARGO_CFG_TARGET_ENV", "gnu") {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}
