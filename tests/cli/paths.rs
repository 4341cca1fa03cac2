//! Tests of which files are linted and how references are resolved.

use super::support::{Dir, FLAWS};

#[test]
fn the_current_directory_is_the_default() {
    let dir = Dir::heron();
    let ran = dir.lint(&[]).exits(0);
    assert!(
        ran.out.contains("5 files checked, no findings"),
        "{}",
        ran.out
    );
    assert!(ran.err.is_empty(), "{}", ran.err);
    assert_eq!(dir.lint(&["."]).exits(0).out, ran.out);
    assert_eq!(Dir::flawed().found(&[]), FLAWS);
    let none = Dir::new().lint(&[]).exits(0);
    assert_eq!(
        none.out,
        "No manifests to check (AGENT-CLI.md, CLI.md, …).\n"
    );
}

#[test]
fn a_missing_path_is_an_error() {
    let ran = Dir::heron().lint(&["heron", "heorn"]).exits(66);
    assert!(ran.err.contains("`heorn` does not exist"), "{}", ran.err);
    assert!(ran.out.is_empty());
}

#[test]
fn directories_are_walked_like_git_does() {
    let dir = Dir::flawed();
    for place in [
        "ignored",
        "kept/.cli/heron",
        "node_modules/heron",
        ".git/heron",
    ] {
        dir.bundle(place);
        dir.replace(
            &format!("{place}/AGENT-CLI.md"),
            "bin: heron\n",
            "bin: heron\nodd: 1\n",
        );
    }
    dir.write(".gitignore", "/ignored/\n");
    dir.write("README.md", "# Herons\n\nNo manifest.\n");
    dir.write("kept/CHANGELOG.md", "---\ntitle: Changes\n---\n");
    let odd = "fm-unknown-field@kept/.cli/heron/AGENT-CLI.md".to_owned();
    let mut all: Vec<String> = FLAWS.map(str::to_owned).to_vec();
    all.push(odd.clone());
    let rules = ["--select", "fm-unknown-field,requires-os-enum,tags-unique"];
    assert_eq!(dir.found(&[&rules, &["."] as &[&str]].concat()), all);
    assert_eq!(dir.found(&["kept"]), [odd]);
    // An ignored file is linted when it is named on the command line.
    let ignored = dir.found(&["ignored/AGENT-CLI.md"]);
    assert!(
        ignored.contains(&"fm-unknown-field@ignored/AGENT-CLI.md".to_owned()),
        "{ignored:?}"
    );
}

#[test]
fn adapters_are_detected_by_their_content() {
    let dir = Dir::heron();
    let text = dir.read("heron/AGENT-CLI.md");
    dir.write(
        "heron/HERMES.md",
        &text.replace("bin: heron\n", "bin: heron\nodd: 1\n"),
    );
    dir.write("heron/NOTES.md", "---\nodd: 1\n---\n");
    let found = dir.found(&[]);
    assert!(
        found.contains(&"fm-unknown-field@heron/HERMES.md".to_owned()),
        "{found:?}"
    );
    assert!(!found.iter().any(|f| f.contains("NOTES")), "{found:?}");
}

#[test]
fn a_named_file_is_always_linted() {
    let dir = Dir::heron();
    dir.write("README.md", "# Nothing here\n");
    assert!(dir.found(&[]).is_empty());
    assert_eq!(dir.found(&["README.md"]), ["fm-missing@README.md"]);
    assert_eq!(
        dir.found(&["README.md", "./README.md", "heron/../README.md"]),
        ["fm-missing@README.md"]
    );
    let absolute = dir.at("README.md");
    let absolute = absolute.to_str().expect("UTF-8");
    assert_eq!(
        dir.found(&[absolute, "README.md"]),
        ["fm-missing@README.md"]
    );
}

#[test]
fn stdin_with_a_file_name_resolves_references() {
    let dir = Dir::heron();
    let text = dir.read("heron/AGENT-CLI.md");
    let lint = |text: &str, args: &[&str]| {
        let mut command = dir.command(&[&["lint", "-"], args].concat());
        super::support::Ran::from(command.write_stdin(text).output().expect("it runs"))
    };
    let name = ["--stdin-filename", "heron/AGENT-CLI.md", "-o", "concise"];
    assert_eq!(lint(&text, &name).exits(0).out, "");
    // The text on stdin is linted, not the saved file.
    let odd = text.replace("bin: heron\n", "bin: heron\nodd: 1\n");
    let ran = lint(&odd, &name).exits(1);
    assert!(
        ran.out
            .starts_with("heron/AGENT-CLI.md:7:1: error[fm-unknown-field]"),
        "{}",
        ran.out
    );
    let gone = text.replace("./ACP.md", "./NONE.md");
    assert!(
        lint(&gone, &name)
            .exits(1)
            .out
            .contains("[ref-missing-file]")
    );
    // The file name can be absolute, from any working directory.
    let absolute = dir.at("heron/AGENT-CLI.md");
    let elsewhere = Dir::new();
    let mut command = elsewhere.command(&["lint", "-", "--stdin-filename"]);
    command.arg(absolute).write_stdin(text.as_str());
    super::support::Ran::from(command.output().expect("it runs")).exits(0);
    // Without a file name, the kind of manifest is detected from the content.
    assert!(
        lint(&odd, &["-o", "concise"])
            .exits(1)
            .out
            .contains("stdin.md:7:1: error[fm-unknown-field]")
    );
    let ran = lint(&text, &["--fix"]).exits(64);
    assert!(ran.err.contains("cannot be fixed in place"), "{}", ran.err);
}

#[test]
fn references_resolve_from_any_working_directory() {
    let dir = Dir::heron();
    dir.write(
        "shared/SANDBOX.md",
        &dir.read("heron/SANDBOX.md")
            .replace("./SECRETS", "../heron/SECRETS"),
    );
    dir.replace(
        "heron/AGENT-CLI.md",
        "sandbox: ./SANDBOX.md",
        "sandbox: ../shared/SANDBOX.md",
    );
    assert!(dir.found(&[]).is_empty());
    assert!(dir.found(&["heron/AGENT-CLI.md"]).is_empty());
    let elsewhere = Dir::new();
    let (heron, shared) = (dir.at("heron"), dir.at("shared"));
    let (top, heron, shared) = (
        dir.path().to_str().expect("UTF-8"),
        heron.to_str().expect("UTF-8"),
        shared.to_str().expect("UTF-8"),
    );
    assert!(elsewhere.found(&[top]).is_empty());
    // With both directories named, the workspace is their common parent.
    assert!(elsewhere.found(&[heron, shared]).is_empty());
    // With one directory named, that directory is the workspace, and the reference escapes it …
    let escapes = elsewhere.found(&[heron]);
    assert_eq!(escapes.len(), 1, "{escapes:?}");
    assert!(escapes[0].starts_with("ref-escapes-"), "{escapes:?}");
    // … unless a configuration file marks the root of the workspace.
    dir.write("agentproto.toml", "");
    assert!(elsewhere.found(&[heron]).is_empty());
    std::fs::remove_file(dir.at("agentproto.toml")).expect("removed");
    std::fs::create_dir(dir.at(".git")).expect("created");
    assert!(elsewhere.found(&[heron]).is_empty());
}

#[test]
fn the_report_does_not_depend_on_threads() {
    let dir = Dir::flawed();
    for i in 0..80 {
        dir.write(&format!("many/m{i}/CLI.md"), "---\nodd: 1\n---\n");
    }
    let one = dir.lint(&["-o", "json", "--threads", "1"]).exits(1).out;
    assert_eq!(
        dir.lint(&["-o", "json", "--threads", "4"]).exits(1).out,
        one
    );
    assert_eq!(
        dir.lint(&["-o", "json", "--threads", "0"]).exits(1).out,
        one
    );
    dir.lint(&["--threads", "many"]).exits(64);
}

#[test]
fn control_characters_in_paths_are_escaped() {
    let dir = Dir::heron();
    dir.write("a\u{1b}[31m\nb/AGENT-CLI.md", "---\nname: x\n---\n");
    for format in ["human", "concise", "github", "agent"] {
        let ran = dir.lint(&["-o", format]).exits(1);
        assert!(!ran.out.contains('\u{1b}'), "{format}: {}", ran.out);
        assert!(!ran.out.contains("\nb/AGENT"), "{format}: {}", ran.out);
    }
}
