//! When run as root, starts the same tests again as an unprivileged user. Tests start in the order
//! of their names: this module comes first, so that both runs overlap.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::world::{is_root, probe};

/// A user id that owns no files.
pub const ORDINARY: u32 = 65534;

/// Environment variables with the paths of copies for the second run, which cannot read the build
/// directory.
pub const PROBE: &str = "ESCAPE_PROBE";
pub const HELPER: &str = "ESCAPE_HELPER";
/// A copy of the probe that root owns, with the set-user-id bit.
pub const SETUID: &str = "ESCAPE_SETUID";

#[test]
fn as_an_ordinary_user() {
    if !is_root() {
        println!(
            "these tests run as an unprivileged user; run them as root to test as root as well"
        );
        return;
    }
    let stage = tempfile::Builder::new()
        .prefix("escape-stage-")
        .tempdir()
        .expect("temporary directory");
    let root = fs::canonicalize(stage.path()).expect("real path");
    let put = |name: &str, from: &Path, mode: u32| {
        let to = root.join(name);
        fs::copy(from, &to).expect("copy");
        fs::set_permissions(&to, fs::Permissions::from_mode(mode)).expect("mode");
        to
    };
    let tests = put("tests", &std::env::current_exe().expect("own path"), 0o755);
    let staged = put("escape_probe", &probe(), 0o755);
    chown(&staged, Some(ORDINARY), Some(ORDINARY)).expect("chown");
    let helper = put(
        "agentproto",
        Path::new(env!("CARGO_BIN_EXE_agentproto")),
        0o755,
    );
    let setuid = put("setuid", &probe(), 0o4755);
    let temporary = root.join("tmp");
    fs::create_dir(&temporary).expect("directory");
    chown(&temporary, Some(ORDINARY), Some(ORDINARY)).expect("chown");
    fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).expect("mode");
    let output = Command::new(tests)
        .args(["--nocapture", "--skip", "as_an_ordinary_user"])
        .env(PROBE, staged)
        .env(HELPER, helper)
        .env(SETUID, setuid)
        .env("TMPDIR", &temporary)
        .current_dir(&root)
        .uid(ORDINARY)
        .gid(ORDINARY)
        .output()
        .expect("second half");
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "the run as an unprivileged user failed:\n{text}\n{errors}"
    );
}
