//! Sets `cfg(agents)` if the commands that run agents are part of this build.
//!
//! It also links the binary without PIE, as Go does by default: 80,000 relocations take longer than
//! linting one file. The heap, the stack and the libraries still have random addresses.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(agents)");
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|found| found == value);
    let is_linux = is("CARGO_CFG_TARGET_OS", "linux");
    if is_linux && std::env::var_os("CARGO_FEATURE_FULL").is_some() {
        println!("cargo::rustc-cfg=agents");
    }
    if is_linux && is("CARGO_CFG_TARGET_ENV", "gnu") {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}
