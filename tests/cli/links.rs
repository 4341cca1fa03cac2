//! Symbolic links that leave the workspace are reported. What they point to is never read, printed
//! or changed. Links that stay inside still work.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use super::git::{MANIFEST, commit, git, repository};
use super::support::{Dir, FLAWS};

const SECRET: &str = "do-not-show";
const FORMATS: [&str; 9] = [
    "human", "concise", "json", "jsonl", "sarif", "github", "gitlab", "junit", "agent",
];

/// A file outside the workspace that the linter would quote and fix.
fn outside() -> Dir {
    let outside = Dir::flawed();
    let text = outside.read(MANIFEST);
    let text = text
        .replace("bin: heron\n", &format!("bin: heron\n{SECRET}: 1\n"))
        .replace(
            "tags: [coding, coding,",
            &format!("tags: [coding, coding, {SECRET},"),
        );
    outside.write("AGENT-CLI.md", &text);
    outside
}

fn link(target: impl AsRef<Path>, at: &Path) {
    std::fs::create_dir_all(at.parent().expect("a parent")).expect("created");
    let _ = std::fs::remove_file(at);
    symlink(target, at).expect("linked");
}

/// Runs the linter and returns everything that it prints.
fn printed(dir: &Dir, args: &[&str]) -> String {
    let ran = dir.lint(args);
    ran.out + &ran.err
}

#[test]
fn no_format_prints_what_a_link_points_to() {
    let outside = outside();
    let secret = outside.at("AGENT-CLI.md");
    let text = outside.read("AGENT-CLI.md");
    let dir = Dir::new();
    dir.write("x/README.md", "a bundle\n");
    // Control: the same text as a file is printed.
    dir.write("x/AGENT-CLI.md", &text);
    for format in FORMATS {
        assert!(printed(&dir, &["-o", format]).contains(SECRET), "{format}");
    }
    assert!(printed(&dir, &["--diff"]).contains(SECRET));
    link(&secret, &dir.at("x/AGENT-CLI.md"));
    for place in [".", "x", "x/AGENT-CLI.md", "./x/../x/AGENT-CLI.md"] {
        for format in FORMATS {
            let out = printed(&dir, &[place, "-o", format, "--verbose"]);
            assert!(!out.contains(SECRET), "{place} {format}: {out}");
            assert!(out.contains("manifest-link-escapes"), "{format}: {out}");
            assert!(out.contains(secret.to_str().expect("UTF-8")), "{out}");
        }
        for option in [
            "--diff",
            "--fix",
            "--unsafe-fixes",
            "--write-baseline=b.json",
        ] {
            let out = printed(&dir, &[place, option]);
            assert!(!out.contains(SECRET), "{place} {option}: {out}");
        }
    }
    assert!(!dir.read("b.json").contains(SECRET));
    assert_eq!(outside.read("AGENT-CLI.md"), text, "the file is unchanged");
}

const ESCAPES: [&str; 1] = ["manifest-link-escapes@x/AGENT-CLI.md"];

#[test]
fn every_kind_of_link_that_leaves_is_reported() {
    let outside = outside();
    let dir = Dir::new();
    let manifest = dir.at("x/AGENT-CLI.md");
    let up = format!(
        "{}{}",
        "../".repeat(30),
        outside.at("AGENT-CLI.md").display()
    );
    for target in [
        outside.at("AGENT-CLI.md").as_path(),
        // Relative, to a directory, and to files that do not exist or cannot be read.
        Path::new(&up),
        outside.path(),
        &outside.at("missing.md"),
        Path::new("../../missing/AGENT-CLI.md"),
        Path::new("/proc/self/environ"),
        Path::new("/proc/self/fd/0"),
        Path::new("/dev/zero"),
        Path::new("/dev/stdin"),
        Path::new("/etc/shadow"),
    ] {
        link(target, &manifest);
        assert_eq!(dir.found(&[]), ESCAPES, "{}", target.display());
        assert_eq!(dir.found(&["x/AGENT-CLI.md"]), ESCAPES);
    }
    // A chain: the finding names the last link inside the workspace.
    link(outside.at("AGENT-CLI.md"), &dir.at("x/y/last"));
    link("y/last", &manifest);
    let out = printed(&dir, &["-o", "concise"]);
    assert!(out.contains("`x/y/last` is a symbolic link to"), "{out}");
}

#[test]
fn a_variable_of_the_environment_is_not_printed() {
    let dir = Dir::new();
    link("/proc/self/environ", &dir.at("x/AGENT-CLI.md"));
    for format in FORMATS {
        let mut command = dir.command(&["lint", "-o", format]);
        command.env_clear().env("TOKEN", SECRET);
        let output = command.output().expect("it runs");
        let out = String::from_utf8_lossy(&output.stdout);
        assert!(!out.contains(SECRET), "{out}");
        assert_eq!(output.status.code(), Some(1));
    }
}

#[test]
fn a_linked_directory_that_leaves_is_reported() {
    let outside = outside();
    let dir = Dir::new();
    link(outside.path(), &dir.at("x"));
    // A walk does not follow it.
    assert_eq!(dir.found(&[]), [""; 0]);
    assert_eq!(dir.found(&["x"]), ["manifest-link-escapes@x"]);
    assert_eq!(dir.found(&["x/AGENT-CLI.md"]), ESCAPES);
    // The target cannot declare itself to be the workspace.
    std::fs::create_dir(outside.at(".git")).expect("created");
    outside.write("agentproto.toml", "");
    assert_eq!(dir.found(&["x"]), ["manifest-link-escapes@x"]);
    assert_eq!(dir.found(&["x/AGENT-CLI.md"]), ESCAPES);
    let before = outside.read("AGENT-CLI.md");
    dir.lint(&["--fix", "x/AGENT-CLI.md", "x"]).exits(1);
    assert_eq!(outside.read("AGENT-CLI.md"), before);
    // Control: by its own path it is linted.
    let path = outside.path().to_str().expect("UTF-8");
    assert!(printed(&dir, &[path]).contains(SECRET));
}

#[test]
fn links_that_stay_inside_are_followed() {
    let dir = Dir::flawed();
    let name = dir.path().file_name().expect("a name").to_owned();
    let flaws = [
        "requires-os-enum@y/AGENT-CLI.md",
        "tags-unique@y/AGENT-CLI.md",
    ];
    let real = dir.at(MANIFEST);
    for file in ["ACP.md", "SANDBOX.md", "SECRETS.md"] {
        dir.write(&format!("y/{file}"), &dir.read(&format!("heron/{file}")));
    }
    link(&name, &dir.at("y/unused"));
    let around = Path::new("../..").join(&name).join(MANIFEST);
    for target in [Path::new("../heron/AGENT-CLI.md"), &real, &around] {
        link(target, &dir.at("y/AGENT-CLI.md"));
        let found = dir.found(&["y/AGENT-CLI.md"]);
        let own: Vec<_> = found.iter().filter(|f| !f.starts_with("name-")).collect();
        assert_eq!(
            own,
            flaws.iter().collect::<Vec<_>>(),
            "{}",
            target.display()
        );
    }
    std::fs::remove_dir_all(dir.at("y")).expect("removed");
    link("heron", &dir.at("z"));
    assert!(
        dir.found(&["z/AGENT-CLI.md"])
            .contains(&"tags-unique@z/AGENT-CLI.md".into())
    );
    // A workspace that is itself reached through a link.
    let other = Dir::new();
    link(dir.path(), &other.at("w"));
    let mut command = dir.command(&["lint", "-o", "concise"]);
    let output = command
        .current_dir(other.at("w"))
        .output()
        .expect("it runs");
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(
        out.contains("tags-unique") && !out.contains("escapes"),
        "{out}"
    );
    let path = other.at("w");
    let out = printed(
        &Dir::new(),
        &[path.to_str().expect("UTF-8"), "-o", "concise"],
    );
    assert!(
        out.contains("tags-unique") && !out.contains("escapes"),
        "{out}"
    );
}

#[test]
fn references_and_siblings_are_not_read_through_links() {
    let outside = outside();
    let acp = outside
        .read("heron/ACP.md")
        .replace("kind: server", &format!("kind: {SECRET}"));
    outside.write("ACP.md", &acp);
    let dir = Dir::heron();
    dir.write("heron/ACP.md", &acp);
    assert!(
        printed(&dir, &[]).contains(SECRET),
        "the control is printed"
    );
    link(outside.at("ACP.md"), &dir.at("heron/ACP.md"));
    for args in [&[][..], &[MANIFEST], &["heron"]] {
        let out = printed(&dir, args);
        assert!(!out.contains(SECRET), "{args:?}: {out}");
        assert!(out.contains("escapes"), "{args:?}: {out}");
    }
    assert_eq!(dir.found(&[]), ["manifest-link-escapes@heron/ACP.md"]);
    assert_eq!(
        dir.found(&[MANIFEST]),
        ["ref-escapes-bundle@heron/AGENT-CLI.md"]
    );
}

#[test]
fn changed_and_staged_links_are_not_followed_out_of_the_workspace() {
    let outside = outside();
    let dir = repository();
    link(outside.at("AGENT-CLI.md"), &dir.at("x/AGENT-CLI.md"));
    assert_eq!(dir.found(&["--changed"]), ESCAPES);
    assert_eq!(dir.found(&["--staged"]), [""; 0]);
    git(&dir, &["add", "x"]);
    assert_eq!(dir.found(&["--staged"]), ESCAPES);
    // The file on disk is not what is staged.
    dir.write("x/other", "");
    link("other", &dir.at("x/AGENT-CLI.md"));
    assert_eq!(dir.found(&["--staged"]), ESCAPES);
    for option in ["--changed", "--staged"] {
        for format in FORMATS {
            let out = printed(&dir, &[option, "-o", format]);
            assert!(!out.contains(SECRET), "{option} {format}: {out}");
        }
        assert!(!printed(&dir, &[option, "--diff"]).contains(SECRET));
    }
    // A committed file whose directory becomes a link.
    commit(&dir, "link");
    std::fs::rename(dir.at("heron"), dir.at("moved")).expect("renamed");
    link(outside.path(), &dir.at("heron"));
    let found = dir.found(&["--changed"]);
    assert!(
        found.contains(&"manifest-link-escapes@heron/AGENT-CLI.md".into()),
        "{found:?}"
    );
    assert!(!printed(&dir, &["--changed"]).contains(SECRET));
}

#[test]
fn staged_links_inside_the_workspace_resolve_in_the_index() {
    let dir = repository();
    // The staged text has the mistake, the file on disk does not.
    let good = dir.read("heron/ACP.md");
    dir.write(
        "shared/ACP.md",
        &good.replace("kind: server", "kind: gardener"),
    );
    link("../shared/ACP.md", &dir.at("heron/ACP.md"));
    git(&dir, &["add", "-A"]);
    dir.write("shared/ACP.md", &good);
    let found = dir.found(&["--staged"]);
    assert!(
        found.contains(&"acp-kind-enum@heron/ACP.md".into()),
        "{found:?}"
    );
    git(&dir, &["add", "-A"]);
    let found = dir.found(&["--staged"]);
    assert!(
        !found.iter().any(|f| f.starts_with("acp-kind")),
        "{found:?}"
    );
    // An unchanged link is not a change.
    commit(&dir, "link");
    assert_eq!(dir.found(&["--changed"]), [""; 0]);
}

#[test]
fn a_file_that_git_writes_with_other_line_ends_is_unchanged() {
    let dir = repository();
    let text = dir.read("old/AGENT-CLI.md").replace('\n', "\r\n");
    dir.write("old/AGENT-CLI.md", &text);
    assert_eq!(dir.found(&["--changed"]), [""; 0]);
    dir.write("old/AGENT-CLI.md", &text.replace("odd: 1", "odd: 2"));
    assert_eq!(
        dir.found(&["--changed"]),
        [
            "name-kebab-equals-dir@old/AGENT-CLI.md",
            "fm-unknown-field@old/AGENT-CLI.md"
        ]
    );
}

#[test]
fn fixes_are_not_written_through_links() {
    let dir = Dir::flawed();
    std::fs::rename(dir.at(MANIFEST), dir.at("heron/real.txt")).expect("renamed");
    link("real.txt", &dir.at(MANIFEST));
    let before = dir.read("heron/real.txt");
    for option in ["--fix", "--unsafe-fixes"] {
        let ran = dir.lint(&[option]).exits(1);
        assert!(
            ran.err.contains("is a symbolic link and is not fixed"),
            "{}",
            ran.err
        );
        assert!(ran.err.contains("real.txt"), "{}", ran.err);
    }
    assert_eq!(printed(&dir, &["--diff", "--quiet"]), "");
    assert_eq!(dir.read("heron/real.txt"), before);
    assert!(dir.at(MANIFEST).is_symlink());
    assert_eq!(dir.found(&[]), FLAWS);
    // Control: the file that the link points to is fixed.
    dir.lint(&["--fix", "heron/real.txt"]).exits(1);
    assert_ne!(dir.read("heron/real.txt"), before);
}

#[test]
fn a_linked_configuration_must_stay_in_the_repository() {
    let outside = Dir::new();
    outside.write("secret", &format!("{SECRET} = 1\n"));
    let dir = Dir::heron();
    dir.write("agentproto.toml", &format!("{SECRET} = 1\n"));
    assert!(
        printed(&dir, &[]).contains(SECRET),
        "the control is printed"
    );
    for target in [
        outside.at("secret"),
        outside.at("missing"),
        "/proc/self/environ".into(),
    ] {
        link(target, &dir.at("agentproto.toml"));
        let ran = dir.lint(&[]).exits(74);
        assert!(!ran.err.contains(SECRET), "{}", ran.err);
        assert!(ran.err.contains("outside the workspace"), "{}", ran.err);
    }
    // A link that stays inside is read.
    dir.write("settings/lint.toml", "[lint]\nignore = [\"tags-unique\"]\n");
    link("settings/lint.toml", &dir.at("agentproto.toml"));
    dir.replace(MANIFEST, "tags: [coding,", "tags: [coding, coding,");
    assert_eq!(dir.found(&[]), [""; 0]);
}

#[test]
fn a_configured_baseline_must_stay_in_the_repository() {
    let outside = Dir::new();
    outside.write("secret.json", &format!("\"{SECRET}\""));
    let secret = outside.at("secret.json");
    let dir = Dir::flawed();
    dir.write("known.json", &format!("\"{SECRET}\""));
    dir.write("agentproto.toml", "[lint]\nbaseline = \"known.json\"\n");
    assert!(
        printed(&dir, &[]).contains(SECRET),
        "the control is printed"
    );
    link(&secret, &dir.at("known.json"));
    assert!(!printed(&dir, &[]).contains(SECRET));
    dir.write(
        "agentproto.toml",
        &format!("[lint]\nbaseline = {secret:?}\n"),
    );
    let ran = dir.lint(&[]).exits(74);
    assert!(!ran.err.contains(SECRET), "{}", ran.err);
    assert!(ran.err.contains("outside the repository"), "{}", ran.err);
    // A baseline inside still works.
    std::fs::remove_file(dir.at("known.json")).expect("removed");
    dir.write("agentproto.toml", "[lint]\nbaseline = \"known.json\"\n");
    dir.lint(&["--write-baseline", "known.json"]).exits(0);
    assert_eq!(dir.found(&[]), [""; 0]);
}

/// Reading a device or a pipe might never end.
#[test]
fn ignore_files_are_not_read_through_links() {
    let outside = Dir::new();
    outside.write("rules", "heron\n");
    let dir = Dir::flawed();
    for name in [".gitignore", ".ignore"] {
        let escapes = [format!("manifest-link-escapes@{name}")];
        for target in [Path::new("/dev/zero"), &outside.at("rules")] {
            link(target, &dir.at(name));
            assert_eq!(dir.found(&[]), escapes);
            assert_eq!(dir.found(&["heron"]), escapes);
        }
        std::fs::remove_file(dir.at(name)).expect("removed");
        let made = Command::new("mkfifo").arg(dir.at(name)).status();
        assert!(made.expect("mkfifo runs").success());
        assert_eq!(dir.found(&[]), [format!("file-unreadable@{name}")]);
        std::fs::remove_file(dir.at(name)).expect("removed");
        // In a subdirectory, the other directories are still linted.
        link("/dev/zero", &dir.at("sub/.gitignore"));
        dir.write("sub/AGENT-CLI.md", "");
        let found = dir.found(&[]);
        assert_eq!(found[..2], FLAWS);
        assert_eq!(found[2..], ["manifest-link-escapes@sub/.gitignore"]);
        std::fs::remove_dir_all(dir.at("sub")).expect("removed");
        // A link that stays inside is read.
        dir.write("rules", "heron\n");
        link("rules", &dir.at(name));
        assert_eq!(dir.found(&[]), [""; 0]);
        std::fs::remove_file(dir.at(name)).expect("removed");
        assert_eq!(dir.found(&[]), FLAWS);
    }
}

/// `.git/info/exclude` is not read, neither of the repository nor of one inside it. A `.git` file can
/// name another directory.
#[test]
fn exclude_files_of_git_are_not_read() {
    let fifo = |path: &Path| {
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("created");
        let made = Command::new("mkfifo").arg(path).status();
        assert!(made.expect("mkfifo runs").success());
    };
    let dir = Dir::flawed();
    fifo(&dir.at(".git/info/exclude"));
    fifo(&dir.at("sub/.git/info/exclude"));
    assert_eq!(dir.found(&[]), FLAWS);
    assert_eq!(dir.found(&["heron"]), FLAWS);
    let outside = Dir::new();
    fifo(&outside.at("commondir"));
    std::fs::remove_dir_all(dir.at("sub/.git")).expect("removed");
    let gitdir = format!("gitdir: {}\n", outside.at("").display());
    dir.write("sub/.git", &gitdir);
    assert_eq!(dir.found(&[]), FLAWS);
    // The patterns of the repository are used.
    dir.write(".gitignore", "heron\n");
    assert_eq!(dir.found(&[]), [""; 0]);
}

/// A repository can contain a link in the place of the baseline.
#[test]
fn a_baseline_is_not_written_through_a_link() {
    let outside = Dir::new();
    outside.write("kept", "x");
    let dir = Dir::flawed();
    for target in [outside.at("kept"), outside.at("new")] {
        link(&target, &dir.at("known.json"));
        let ran = dir.lint(&["--write-baseline", "known.json"]).exits(73);
        assert!(ran.err.contains("symbolic link"), "{}", ran.err);
    }
    assert_eq!(outside.read("kept"), "x");
    assert!(!outside.at("new").exists());
    std::fs::remove_file(dir.at("known.json")).expect("removed");
    for _ in 0..2 {
        dir.lint(&["--write-baseline", "known.json"]).exits(0);
    }
}

#[test]
fn control_characters_in_a_target_are_escaped() {
    let dir = Dir::new();
    link("/tmp/\u{1b}[2J\nx::error::y", &dir.at("x/AGENT-CLI.md"));
    for format in FORMATS {
        let out = printed(&dir, &["-o", format]);
        assert!(!out.contains('\u{1b}'), "{format}: {out:?}");
        assert!(!out.contains("\nx::error"), "{format}: {out:?}");
    }
}
