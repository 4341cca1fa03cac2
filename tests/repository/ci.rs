//! Behavior of the binary that hooks, pipelines and packages rely on.

use std::path::{Path, PathBuf};

use assert_cmd::Command;
use serde_json::Value;

fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn agentproto(dir: &Path, args: &[&str]) -> (i32, String) {
    let mut command = Command::cargo_bin("agentproto").expect("the binary");
    let output = command
        .current_dir(dir)
        .args(args)
        .output()
        .expect("it runs");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    (output.status.code().expect("an exit code"), text)
}

/// The bad demo in its own directory, which is the root of a repository.
fn bad_demo() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    let from = repository().join("fixtures/demo/bad/heron");
    let to = dir.path().join("heron");
    std::fs::create_dir_all(&to).expect("created");
    std::fs::create_dir(dir.path().join(".git")).expect("created");
    for entry in std::fs::read_dir(from).expect("a directory") {
        let entry = entry.expect("an entry");
        std::fs::copy(entry.path(), to.join(entry.file_name())).expect("copied");
    }
    dir
}

const MANIFEST: &str = "heron/AGENT-CLI.md";

#[test]
fn a_named_file_is_excluded_only_on_request() {
    let demo = bad_demo();
    let config = demo.path().join("agentproto.toml");
    std::fs::write(config, "[lint]\nexclude = [\"heron/\"]\n").expect("written");
    let lint = |args: &[&str]| agentproto(demo.path(), &[&["lint", MANIFEST], args].concat()).0;
    assert_eq!(lint(&[]), 1);
    assert_eq!(lint(&["--force-exclude"]), 0);
    assert_eq!(lint(&["--force-exclude", "--no-config"]), 1);
}

#[test]
fn suppressed_findings_can_be_omitted() {
    let demo = bad_demo();
    let (code, _) = agentproto(demo.path(), &["lint", "--write-baseline", "known.json"]);
    assert_eq!(code, 0);
    let results = |args: &[&str]| {
        let all = [
            &["lint", "--baseline", "known.json", "-o", "sarif"] as &[_],
            args,
        ];
        let (code, sarif) = agentproto(demo.path(), &all.concat());
        assert_eq!(code, 0);
        let log: Value = serde_json::from_str(&sarif).expect("JSON");
        log["runs"][0]["results"]
            .as_array()
            .expect("results")
            .to_vec()
    };
    let all = results(&[]);
    assert!(!all.is_empty() && all.iter().all(|r| r["suppressions"].is_array()));
    assert!(results(&["--hide-suppressed"]).is_empty());
}

#[test]
fn paths_are_relative_to_the_working_directory() {
    let demo = bad_demo();
    let top = demo.path().canonicalize().expect("a path");
    let absolute = top.join(MANIFEST);
    for format in [
        "concise", "json", "sarif", "github", "gitlab", "junit", "agent",
    ] {
        let output = |path: &str| agentproto(&top, &["lint", "-o", format, path]).1;
        let (named, told) = (output(absolute.to_str().expect("UTF-8")), output(MANIFEST));
        let without_time = |text: &str| text.replace(|c: char| c.is_ascii_digit(), "");
        assert!(told.contains(MANIFEST), "{format}");
        assert_eq!(without_time(&named), without_time(&told), "{format}");
    }
}

#[test]
fn the_manual_names_every_subcommand_once() {
    let (code, page) = agentproto(&repository(), &["man"]);
    assert_eq!(code, 0);
    for section in ["LINT", "EXPLAIN", "RULES", "SCHEMA", "COMPLETIONS"] {
        assert_eq!(page.matches(&format!(".SH \"{section}\"\n")).count(), 1);
    }
    assert_eq!(page.matches(".SH OPTIONS").count(), 1);
    assert!(page.contains(".SH \"EXIT STATUS\""));
    assert!(page.contains(".TH agentproto 1 \"\" \"agentproto "));
    assert!(
        !page.contains("(1)"),
        "the manual names a page that is not installed"
    );
    assert!(!page.contains(".br\n\n.br"));
}
