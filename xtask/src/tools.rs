//! Tools that the checks need and a machine may not have.

use std::path::PathBuf;
use std::process::Command;

use crate::{Outcome, cargo, root, run};

/// `cargo deny` needs the advisory database from the network; CI workflows check advisories, this
/// checks what can be checked anywhere.
pub fn deny() -> Outcome {
    let tool = installed("cargo-deny", "0.20.2")?;
    run(Command::new(tool)
        .args(["check", "bans", "licenses", "sources"])
        .current_dir(root()))
}

/// The tool of this version below target/tools, built when it is missing.
fn installed(name: &str, version: &str) -> Result<PathBuf, String> {
    let place = root()
        .join("target/tools")
        .join(format!("{name}-{version}"));
    let program = place.join("bin").join(name);
    if !program.exists() {
        let mut install = cargo();
        install.args([
            "install",
            "--locked",
            "--quiet",
            "--version",
            version,
            name,
            "--root",
        ]);
        run(install.arg(&place))?;
    }
    Ok(program)
}
