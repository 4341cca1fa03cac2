//! Tools that the checks need and a machine may not have.

use std::process::{Command, Stdio};

use crate::{Outcome, cargo, root, run};

/// Checks everything but advisories, whose database comes from the network: the release workflow
/// does that.
pub fn deny() -> Outcome {
    install("cargo-deny", "0.20.2")?;
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

/// Installs a tool of this version where cargo finds it, unless it is there.
fn install(name: &str, version: &str) -> Outcome {
    let mut ask = Command::new(name);
    let asked = ask
        .arg("--version")
        .stderr(Stdio::null())
        .current_dir(root());
    let there = asked
        .output()
        .map(|said| String::from_utf8_lossy(&said.stdout).into_owned());
    if there.is_ok_and(|said| said.contains(version)) {
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
        name,
    ]);
    // Quick to build matters more than quick to run.
    install.env("CARGO_PROFILE_RELEASE_LTO", "off");
    run(install.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1"))
}
