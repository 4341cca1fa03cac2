//! The bundles of the mock agents are complete and have no lint findings.

use std::path::Path;
use std::process::Command;

use agentproto_mock_agents::bundles;
use serde_json::Value;

fn written(root: &Path) {
    for bundle in bundles() {
        for (path, bytes, _) in bundle.files {
            let file = root.join(bundle.name).join(path);
            std::fs::create_dir_all(file.parent().expect("a parent")).expect("a directory");
            std::fs::write(file, bytes).expect("a file");
        }
    }
}

#[test]
fn the_bundles_have_no_lint_findings() {
    let dir = tempfile::tempdir().expect("a directory");
    written(dir.path());
    let run = Command::new(env!("CARGO_BIN_EXE_agentproto"))
        .args([
            "lint",
            "--profile",
            "spec",
            "--no-config",
            "--output",
            "json",
            ".",
        ])
        .current_dir(dir.path())
        .output()
        .expect("it runs");
    let report: Value = serde_json::from_slice(&run.stdout).expect("a report");
    let summary = &report["summary"];
    assert_eq!(
        (&summary["errors"], &summary["warnings"]),
        (&0.into(), &0.into()),
        "{report:#}"
    );
    assert!(summary["files"].as_u64().is_some_and(|files| files >= 10));
}

#[test]
fn the_embedded_bundles_match_the_repository() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("mock-agents");
    let mut names: Vec<String> = Vec::new();
    for bundle in bundles() {
        names.push(bundle.name.to_owned());
        let mut on_disk = Vec::new();
        below(&root.join(bundle.name), &mut on_disk);
        let mut embedded: Vec<_> = bundle
            .files
            .iter()
            .map(|(path, ..)| root.join(bundle.name).join(path))
            .collect();
        on_disk.sort();
        embedded.sort();
        assert_eq!(on_disk, embedded);
    }
    assert_eq!(names, ["mock-acp", "mock-mcp", "mock-repl", "mock-npm"]);
}

fn below(dir: &Path, files: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("a directory").flatten() {
        let path = entry.path();
        match path.is_dir() {
            true => below(&path, files),
            false => files.push(path),
        }
    }
}

/// The frontmatter of a bundle's manifest.
fn manifest(name: &str) -> serde_yaml::Value {
    let bundle = bundles().iter().find(|b| b.name == name).expect("a bundle");
    let (_, bytes, _) = bundle
        .files
        .iter()
        .find(|(p, ..)| *p == "AGENT-CLI.md")
        .expect("a manifest");
    let text = std::str::from_utf8(bytes).expect("text");
    let yaml = text
        .strip_prefix("---\n")
        .and_then(|t| t.split_once("\n---\n"))
        .expect("frontmatter")
        .0;
    serde_yaml::from_str(yaml).expect("YAML")
}

#[test]
fn the_manifest_command_lines_start_the_agents() {
    for name in ["mock-acp", "mock-mcp", "mock-repl"] {
        let manifest = manifest(name);
        let list = |value: &serde_yaml::Value| -> Vec<String> {
            let items = value.as_sequence().expect("a list").iter();
            items
                .map(|arg| arg.as_str().expect("a string").to_owned())
                .collect()
        };
        let args = list(&manifest["bin_args"]);
        if name == "mock-mcp" {
            assert_eq!(args, list(&manifest["mcp"]["args"]));
        }
        let dir = tempfile::tempdir().expect("a directory");
        let run = Command::new(env!("CARGO_BIN_EXE_agentproto"))
            .args(args)
            .current_dir(dir.path())
            .stdin(std::process::Stdio::null())
            .output()
            .expect("it runs");
        assert!(
            run.status.success(),
            "{name}: {}",
            String::from_utf8_lossy(&run.stderr)
        );
    }
}
