//! `--changed` and `--staged`, in real repositories.

use std::process::Command;

use super::support::{Dir, FLAWS};

pub const MANIFEST: &str = "heron/AGENT-CLI.md";

pub fn git(dir: &Dir, args: &[&str]) {
    let output = Command::new("git")
        .current_dir(dir.path())
        .args([
            "-c",
            "user.name=Heron",
            "-c",
            "user.email=heron@heron.example",
        ])
        .args([
            "-c",
            "commit.gpgsign=false",
            "-c",
            "init.defaultBranch=main",
        ])
        .args(args)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .expect("git runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {args:?}: {said}");
}

pub fn commit(dir: &Dir, message: &str) {
    git(dir, &["add", "-A"]);
    git(dir, &["commit", "-qm", message]);
}

/// A repository with two committed bundles. The second one has a mistake from the start.
pub fn repository() -> Dir {
    let dir = Dir::heron();
    dir.bundle("old");
    dir.replace("old/AGENT-CLI.md", "bin: heron\n", "bin: heron\nodd: 1\n");
    git(&dir, &["init", "-q"]);
    commit(&dir, "herons");
    dir
}

pub fn flaw(dir: &Dir) {
    dir.replace(MANIFEST, "tags: [coding,", "tags: [coding, coding,");
}

#[test]
fn only_changed_files_are_linted() {
    let dir = repository();
    assert!(dir.found(&["--changed"]).is_empty());
    flaw(&dir);
    assert_eq!(dir.found(&["--changed"]), FLAWS[1..]);
    assert_eq!(dir.found(&["--changed=HEAD"]), FLAWS[1..]);
    // New files are linted, ignored files are not.
    dir.write("new/CLI.md", "# Nothing\n");
    dir.write("tmp/CLI.md", "# Nothing\n");
    dir.write(".gitignore", "/tmp/\n");
    assert_eq!(
        dir.found(&["--changed"]),
        [FLAWS[1], "fm-missing@new/CLI.md"]
    );
    assert_eq!(dir.found(&["--changed", "new"]), ["fm-missing@new/CLI.md"]);
    let absolute = dir.at("new");
    let absolute = absolute.to_str().expect("UTF-8");
    assert_eq!(
        dir.found(&["--changed", absolute]),
        ["fm-missing@new/CLI.md"]
    );
    dir.lint(&["--changed", ".."]).exits(64);
    commit(&dir, "more");
    assert!(dir.found(&["--changed"]).is_empty());
    assert_eq!(
        dir.found(&["--changed=HEAD~1"]),
        [FLAWS[1], "fm-missing@new/CLI.md"]
    );
    // Deleted files are not linted.
    std::fs::remove_file(dir.at("new/CLI.md")).expect("removed");
    assert_eq!(dir.found(&["--changed=HEAD~1"]), FLAWS[1..]);
}

#[test]
fn a_path_that_does_not_exist_is_not_an_empty_list() {
    let dir = repository();
    flaw(&dir);
    for args in [
        &["--changed", "HEAD"] as &[&str],
        &["--changed", "heron", "nowhere"],
        &["--staged", "nowhere"],
    ] {
        let ran = dir.lint(args).exits(66);
        let path = args[args.len() - 1];
        let missing = format!("`{path}` does not exist");
        assert!(ran.err.contains(&missing), "{}", ran.err);
        let hint = format!("write `--changed={path}`");
        assert!(ran.err.contains(&hint), "{}", ran.err);
    }
    // Hook runners also name files that were deleted.
    std::fs::remove_file(dir.at("old/AGENT-CLI.md")).expect("removed");
    assert!(dir.found(&["--changed", "old/AGENT-CLI.md"]).is_empty());
    git(&dir, &["add", MANIFEST]);
    std::fs::remove_file(dir.at(MANIFEST)).expect("removed");
    assert_eq!(dir.found(&["--staged", MANIFEST]), FLAWS[1..]);
}

#[test]
fn revisions_are_checked() {
    let dir = repository();
    let ran = dir.lint(&["--changed=nowhere"]).exits(64);
    assert!(
        ran.err.contains("unknown git revision `nowhere`"),
        "{}",
        ran.err
    );
    dir.lint(&["--changed=--output=x"]).exits(64);
    assert!(!dir.at("x").exists());
    dir.lint(&["--changed", "--staged"]).exits(64);
    for option in ["--changed", "--staged"] {
        let ran = Dir::heron().lint(&[option]).exits(69);
        let expected = format!("agentproto: `{option}` needs a git repository, but `");
        assert!(ran.err.starts_with(&expected), "{}", ran.err);
    }
}

#[test]
fn staged_linting_reads_the_index() {
    let dir = repository();
    assert!(dir.found(&["--staged"]).is_empty());
    let good = dir.read(MANIFEST);
    flaw(&dir);
    assert!(dir.found(&["--staged"]).is_empty(), "nothing is staged yet");
    git(&dir, &["add", MANIFEST]);
    dir.write(MANIFEST, &good);
    assert_eq!(
        dir.found(&["--staged"]),
        FLAWS[1..],
        "the index has the mistake"
    );
    flaw(&dir);
    dir.write(
        MANIFEST,
        &good.replace("bin: heron\n", "bin: heron\n# note\n"),
    );
    git(&dir, &["add", MANIFEST]);
    flaw(&dir);
    assert!(
        dir.found(&["--staged"]).is_empty(),
        "only the file on disk has the mistake"
    );
    dir.lint(&["--staged", "--fix"]).exits(64);
}

#[test]
fn staged_references_resolve_in_the_index() {
    let dir = repository();
    dir.replace(MANIFEST, "bin: heron\n", "bin: heron\n# note\n");
    git(&dir, &["add", MANIFEST]);
    // A change to `ACP.md` that is only on disk does not affect the staged files.
    dir.replace("heron/ACP.md", "kind: server", "kind: gardener");
    std::fs::remove_file(dir.at("heron/SANDBOX.md")).expect("removed");
    assert!(dir.found(&["--staged"]).is_empty());
    // A file that exists only on disk would not be part of the commit.
    dir.write("heron/NEW.SANDBOX.md", &dir.read("old/SANDBOX.md"));
    dir.replace(MANIFEST, "./SANDBOX.md", "./NEW.SANDBOX.md");
    git(&dir, &["add", MANIFEST]);
    assert_eq!(
        dir.found(&["--staged"]),
        ["ref-missing-file@heron/AGENT-CLI.md"]
    );
    git(&dir, &["add", "heron/NEW.SANDBOX.md"]);
    assert!(dir.found(&["--staged"]).is_empty());
}

#[test]
fn revisions_are_compared() {
    let dir = repository();
    dir.replace(
        MANIFEST,
        "range: \">=1.3.0 <2.0.0\"",
        "range: \">=2.0.0 <3.0.0\"",
    );
    let bump = ["range-major-bump@heron/AGENT-CLI.md"];
    assert!(
        dir.found(&[MANIFEST]).is_empty(),
        "without a second revision there is nothing to compare"
    );
    assert_eq!(dir.found(&["--changed"]), bump);
    assert_eq!(
        dir.found(&["--changed", "--ignore", "range-major-bump"]),
        [""; 0]
    );
    git(&dir, &["add", MANIFEST]);
    assert_eq!(dir.found(&["--staged"]), bump);
    let all = dir.read(MANIFEST).replace("\">=2.0.0 <3.0.0\"", "~x");
    dir.write(MANIFEST, &all);
    assert!(dir.found(&["--changed"]).contains(&bump[0].to_owned()));
    dir.replace(MANIFEST, "range: ~x", "range: \">=2.0.0 <3.0.0\"");
    dir.replace(MANIFEST, "version: 1.0.0", "version: 2.0.0");
    assert!(dir.found(&["--changed"]).is_empty());
    commit(&dir, "major");
    assert!(dir.found(&["--changed=HEAD~1"]).is_empty());
}

#[test]
fn a_changed_shape_requires_a_new_version() {
    let dir = Dir::new();
    let from = super::support::fixtures().join("base/forge");
    copy(&from, &dir.at("forge"));
    git(&dir, &["init", "-q"]);
    commit(&dir, "forge");
    let pip = "  - method: pip\n    package: forge-wheel\n    user: true\n";
    dir.replace("forge/CLI.md", pip, "");
    let found = dir.found(&["--changed"]);
    assert!(
        found.contains(&"shape-version-bump@forge/CLI.md".to_owned()),
        "{found:?}"
    );
    dir.replace("forge/CLI.md", "version: 1.4.0", "version: 1.5.0");
    let found = dir.found(&["--changed"]);
    assert!(!found.iter().any(|f| f.starts_with("shape-")), "{found:?}");
}

fn copy(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).expect("created");
    for entry in std::fs::read_dir(from).expect("a directory") {
        let path = entry.expect("an entry").path();
        let target = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy(&path, &target);
        } else {
            std::fs::copy(&path, &target).expect("copied");
        }
    }
}

#[test]
fn changed_files_are_found_from_a_subdirectory() {
    let dir = repository();
    flaw(&dir);
    dir.replace("old/AGENT-CLI.md", "odd: 1", "odd: 2");
    let mut command = dir.command(&["lint", "--changed", "-o", "concise"]);
    let output = command
        .current_dir(dir.at("heron"))
        .output()
        .expect("it runs");
    let ran = super::support::Ran::from(output).exits(1);
    assert!(ran.out.starts_with("AGENT-CLI.md:"), "{}", ran.out);
    assert_eq!(ran.out.lines().count(), 1);
}
