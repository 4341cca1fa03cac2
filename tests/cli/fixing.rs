//! `--fix`, `--unsafe-fixes`, `--diff`.

use super::support::{Dir, FLAWS};

const MANIFEST: &str = "heron/AGENT-CLI.md";

#[test]
fn safe_fixes_are_applied_once() {
    let dir = Dir::flawed();
    let before = dir.read(MANIFEST);
    let ran = dir.lint(&["--fix", "-o", "concise"]).exits(1);
    assert!(ran.err.contains("fixed 1 file"), "{}", ran.err);
    assert_eq!(ran.out.lines().count(), 1);
    let after = dir.read(MANIFEST);
    assert_eq!(after, before.replace("coding, coding", "coding"));
    assert_eq!(dir.found(&[]), FLAWS[..1]);
    let ran = dir.lint(&["--fix"]).exits(1);
    assert!(ran.err.is_empty(), "{}", ran.err);
    assert_eq!(dir.read(MANIFEST), after);
}

#[test]
fn unsafe_fixes_need_their_flag() {
    let dir = Dir::flawed();
    dir.lint(&["--unsafe-fixes"]).exits(0);
    assert!(dir.read(MANIFEST).contains("os: [darwin, linux]"));
    assert!(dir.found(&[]).is_empty());
    let text = dir.read(MANIFEST);
    dir.lint(&["--unsafe-fixes"]).exits(0);
    assert_eq!(dir.read(MANIFEST), text);
}

#[test]
fn only_selected_rules_are_fixed() {
    let dir = Dir::flawed();
    dir.lint(&["--unsafe-fixes", "--select", "requires-*"])
        .exits(0);
    assert_eq!(dir.found(&[]), FLAWS[1..]);
}

#[test]
fn a_diff_changes_nothing() {
    let dir = Dir::flawed();
    let before = dir.read(MANIFEST);
    let ran = dir.lint(&["--diff"]).exits(1);
    assert!(
        ran.out
            .starts_with("--- a/heron/AGENT-CLI.md\n+++ b/heron/AGENT-CLI.md\n@@ "),
        "{}",
        ran.out
    );
    assert!(
        ran.out
            .contains("\n-tags: [coding, coding, repair]\n+tags: [coding, repair]\n"),
        "{}",
        ran.out
    );
    assert!(!ran.out.contains("macos, linux]\n+"));
    let ran = dir.lint(&["--diff", "--unsafe-fixes"]).exits(1);
    assert!(
        ran.out
            .contains("\n-  os: [macos, linux]\n+  os: [darwin, linux]\n"),
        "{}",
        ran.out
    );
    dir.lint(&["--diff", "--fix", "--exit-zero"]).exits(0);
    assert_eq!(dir.read(MANIFEST), before);
    let ran = dir.lint(&["--diff", "--color", "always"]).exits(1);
    assert!(ran.out.contains("\u{1b}[32m+tags"), "{}", ran.out);
    assert_eq!(Dir::heron().lint(&["--diff"]).exits(0).out, "");
    let ran = dir.lint(&["--diff", "-o", "jsonl"]).exits(64);
    assert_eq!(ran.lines().len(), 3);
    let mut command = dir.command(&["lint", "-", "--diff", "--stdin-filename", MANIFEST]);
    let output = command.write_stdin(before).output().expect("it runs");
    assert!(
        super::support::Ran::from(output)
            .exits(1)
            .out
            .contains("+tags: [coding, repair]")
    );
}

#[cfg(unix)]
#[test]
fn an_unwritable_file_is_reported() {
    use std::os::unix::fs::PermissionsExt;
    let dir = Dir::flawed();
    // Root can write to read-only directories, so both outcomes are accepted.
    let folder = dir.at("heron");
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o555)).expect("set");
    let writable = std::fs::write(folder.join("probe"), "").is_ok();
    let ran = dir.lint(&["--fix"]);
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o755)).expect("set");
    if writable {
        ran.exits(1);
    } else {
        assert!(ran.exits(73).err.contains("cannot be written"));
        assert_eq!(dir.found(&[]), FLAWS);
    }
}

#[cfg(unix)]
#[test]
fn fixing_keeps_permissions() {
    use std::os::unix::fs::PermissionsExt;
    let dir = Dir::flawed();
    let mode = PermissionsExt::from_mode(0o640);
    std::fs::set_permissions(dir.at(MANIFEST), mode).expect("set");
    dir.lint(&["--fix"]).exits(1);
    let fixed = std::fs::metadata(dir.at(MANIFEST)).expect("there");
    assert_eq!(fixed.permissions().mode() & 0o777, 0o640);
    assert_eq!(dir.found(&[]), FLAWS[..1]);
    let names = std::fs::read_dir(dir.at("heron"))
        .expect("a directory")
        .count();
    assert_eq!(names, 5, "no temporary file is left behind");
}
