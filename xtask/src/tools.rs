//! Runs tools that may not be installed yet.

use std::process::{Command, Stdio};

use crate::{Outcome, cargo, root, run};

/// Checks everything except advisories. Their database needs the network, so the release workflow
/// checks them.
pub fn deny() -> Outcome {
    install("cargo-deny", "cargo-deny", "0.20.2")?;
    let mut command = cargo();
    run(command.args([
        "deny",
        "check",
        "--hide-inclusion-graph",
        "bans",
        "licenses",
        "sources",
    ]))
}

/// Checks the spelling of the tree; typos.toml has the settings.
pub fn typos() -> Outcome {
    install("typos", "typos-cli", "1.52.0")?;
    run(Command::new("typos").current_dir(root()))
}

/// Installs a version of a tool with cargo, unless it is already installed.
pub fn install(name: &str, package: &str, version: &str) -> Outcome {
    let mut command = Command::new(name);
    let query = command
        .arg("--version")
        .stderr(Stdio::null())
        .current_dir(root());
    let installed = query
        .output()
        .map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    if installed.is_ok_and(|output| output.contains(version)) {
        return Ok(());
    }
    eprintln!("xtask: installing {name} {version}");
    let mut install = cargo();
    install.args([
        "install",
        "--locked",
        "--quiet",
        "--force",
        "--version",
        version,
        package,
    ]);
    // Prefer a fast build to a fast tool.
    install.env("CARGO_PROFILE_RELEASE_LTO", "off");
    run(install.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1"))
}
