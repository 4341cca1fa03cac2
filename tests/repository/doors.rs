//! Dependencies between the crates: compares the table in ARCHITECTURE.md with `cargo tree`, and
//! keeps the linter's crates free of dependencies that only agents need.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Names of the packages that a package depends on, from `cargo tree`.
fn tree(args: &[&str]) -> BTreeSet<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let shown = Command::new(cargo)
        .args(["tree", "--locked", "--prefix", "none", "--edges", "normal"])
        .args(["--format", "{p}"])
        .args(args)
        .current_dir(repository())
        .output()
        .expect("cargo tree");
    let errors = String::from_utf8_lossy(&shown.stderr);
    assert!(shown.status.success(), "{args:?}: {errors}");
    let names = String::from_utf8(shown.stdout).expect("UTF-8");
    let names = names.lines().filter_map(|line| line.split(' ').next());
    names
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Each crate with the crates that it may use, from the table in ARCHITECTURE.md.
fn written() -> BTreeMap<String, BTreeSet<String>> {
    let text = std::fs::read_to_string(repository().join("ARCHITECTURE.md")).expect("a file");
    let rows = text.lines().filter_map(|line| {
        let cells: Vec<&str> = line
            .strip_prefix("| `")?
            .split('|')
            .map(str::trim)
            .collect();
        let [name, _, uses, _] = cells.as_slice() else {
            return None;
        };
        let uses = uses.split(", ").filter(|name| *name != "–");
        Some((
            name.trim_matches('`').to_owned(),
            uses.map(str::to_owned).collect(),
        ))
    });
    rows.collect()
}

#[test]
fn the_dependency_table_is_correct() {
    let mut written = written();
    assert!(
        written.remove("agentproto").is_some(),
        "the binary has no row"
    );
    let mut packages = BTreeSet::new();
    for dir in std::fs::read_dir(repository().join("crates")).expect("crates") {
        let name = dir.expect("an entry").file_name();
        packages.insert(name.to_string_lossy().into_owned());
    }
    packages.extend(["schemas", "suites", "mock-agents"].map(str::to_owned));
    let rows: BTreeSet<String> = written.keys().cloned().collect();
    assert_eq!(
        rows, packages,
        "ARCHITECTURE.md must have one row per crate"
    );
    for (name, uses) in &written {
        let package = format!("agentproto-{name}");
        let below = tree(&["--package", &package, "--depth", "1"]);
        let below: BTreeSet<String> = below
            .iter()
            .filter(|found| **found != package)
            .filter_map(|found| found.strip_prefix("agentproto-"))
            .map(str::to_owned)
            .collect();
        assert_eq!(
            &below, uses,
            "crates that `{name}` uses: in `cargo tree` (left), in ARCHITECTURE.md (right)"
        );
    }
}

#[test]
fn the_linter_has_no_runtime_database_or_network() {
    let linter = ["--package", "agentproto", "--no-default-features"];
    let heavy = [
        "tokio",
        "rusqlite",
        "rustls",
        "axum",
        "hyper",
        "rmcp",
        "ureq",
        "landlock",
        "seccompiler",
    ];
    for target in [
        "x86_64-unknown-linux-gnu",
        "aarch64-apple-darwin",
        "x86_64-pc-windows-msvc",
    ] {
        let below = tree(&[&linter[..], &["--target", target]].concat());
        let found: Vec<&str> = heavy
            .into_iter()
            .filter(|name| below.contains(*name))
            .collect();
        assert!(found.is_empty(), "{target}: {found:?}");
    }
    // The full build must have them, otherwise the check above is meaningless.
    let full = tree(&[
        "--package",
        "agentproto",
        "--target",
        "x86_64-unknown-linux-gnu",
    ]);
    for name in heavy {
        assert!(full.contains(name), "{name} is not in the full build");
    }
    // On systems other than Linux, the default build is the linter.
    let mac = tree(&[
        "--package",
        "agentproto",
        "--target",
        "aarch64-apple-darwin",
    ]);
    assert!(!mac.contains("agentproto-sandbox"), "{mac:?}");
}

/// Files of the linter that may contain platform-specific code, with the reason.
const PLATFORM_CODE: &[(&str, &str)] = &[
    (
        "crates/manifest/src/confined/unix.rs",
        "opening files relative to a directory",
    ),
    (
        "crates/manifest/src/files.rs",
        "opening a pipe must not block",
    ),
    (
        "crates/text/src/files.rs",
        "other users must not open a temporary file",
    ),
    ("src/main.rs", "exiting without freeing memory"),
    ("src/cli/git.rs", "paths in git are bytes"),
    ("src/cli/signals.rs", "SIGINT and SIGTERM"),
];

#[test]
fn the_linter_has_no_platform_code() {
    let mut files = Vec::new();
    for name in ["text", "manifest", "report", "lint"] {
        sources(
            &repository().join("crates").join(name).join("src"),
            &mut files,
        );
    }
    sources(&repository().join("src"), &mut files);
    let words = [
        "libc::",
        "std::os::",
        "target_os",
        "cfg(unix)",
        "cfg(windows)",
    ];
    let mut used = BTreeSet::new();
    for file in &files {
        let path = file
            .strip_prefix(repository())
            .expect("below the repository");
        let path = path.to_string_lossy().replace('\\', "/");
        if path.starts_with("src/cli/agents/") {
            continue;
        }
        let text = std::fs::read_to_string(file).expect("readable");
        let found: Vec<&str> = words
            .into_iter()
            .filter(|word| text.contains(word))
            .collect();
        if found.is_empty() {
            continue;
        }
        let allowed = PLATFORM_CODE.iter().any(|(allowed, _)| *allowed == path);
        assert!(
            allowed,
            "{path} uses {found:?}, but the linter must build on every platform"
        );
        used.insert(path);
    }
    for (allowed, why) in PLATFORM_CODE {
        assert!(
            used.contains(*allowed),
            "{allowed} ({why}) no longer needs to be listed"
        );
    }
}

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

/// A dependency that needs a newer Rust than `rust-version` would make the declaration wrong.
#[test]
fn the_declared_rust_version_is_enough_for_every_dependency() {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let shown = Command::new(cargo)
        .args(["metadata", "--locked", "--format-version", "1"])
        .current_dir(repository())
        .output()
        .expect("cargo metadata");
    let metadata: serde_json::Value = serde_json::from_slice(&shown.stdout).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let version = |package: &serde_json::Value| -> Vec<u64> {
        let text = package["rust_version"].as_str().unwrap_or("0");
        let mut parts: Vec<u64> = text.split('.').filter_map(|n| n.parse().ok()).collect();
        parts.resize(3, 0);
        parts
    };
    let own = packages
        .iter()
        .find(|package| package["name"] == "agentproto");
    let own = version(own.expect("the root package"));
    assert!(own > vec![1, 80, 0], "no Rust version is declared: {own:?}");
    let newer: Vec<&serde_json::Value> = packages
        .iter()
        .filter(|package| version(package) > own)
        .map(|package| &package["name"])
        .collect();
    assert!(
        newer.is_empty(),
        "these need a newer Rust than {own:?}: {newer:?}"
    );
}
