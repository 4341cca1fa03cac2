//! `--changed` and `--staged` run no program that a repository names. Each test sets one trap, runs
//! the linter, and then shows that plain git springs the same trap.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::git::{MANIFEST, commit, flaw, git, repository};
use super::support::{Dir, FLAWS};

/// A repository with a staged mistake, and a program that leaves a marker when it runs.
struct Trap {
    dir: Dir,
    /// Holds the program and the marker, outside the repository.
    outside: Dir,
}

impl Trap {
    /// `prepare` changes the repository before the mistake is staged.
    fn new(prepare: impl FnOnce(&Dir)) -> Self {
        let dir = repository();
        prepare(&dir);
        flaw(&dir);
        git(&dir, &["add", MANIFEST]);
        let outside = Dir::new();
        Trap { dir, outside }
    }

    fn marker(&self) -> PathBuf {
        self.outside.at("marker")
    }

    /// A program that leaves the marker and then runs `rest`.
    fn program(&self, rest: &str) -> String {
        let marker = self.marker();
        let text = format!("#!/bin/sh\n: > '{}'\n{rest}\n", marker.display());
        self.outside.write("program", &text);
        let path = self.outside.at("program");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).expect("set");
        path.to_str().expect("UTF-8").to_owned()
    }

    fn config(&self, key: &str, value: &str) {
        git(&self.dir, &["config", key, value]);
    }

    fn attributes(&self, text: &str) {
        self.dir.write(".git/info/attributes", text);
    }

    /// Makes git compare the contents of every file, because their times do not match the index.
    fn touch(&self) {
        for file in ["heron/ACP.md", "old/ACP.md", MANIFEST] {
            self.dir.write(file, &self.dir.read(file));
            let file = std::fs::File::options().write(true).open(self.dir.at(file));
            let time = std::time::SystemTime::UNIX_EPOCH;
            file.expect("opened").set_modified(time).expect("set");
        }
    }

    #[track_caller]
    fn assert_quiet(&self) {
        self.assert_quiet_with(&[]);
    }

    /// The linter finds the mistake and does not spring the trap.
    #[track_caller]
    fn assert_quiet_with(&self, env: &[(&str, &str)]) {
        assert!(!self.marker().exists(), "the setup sprang the trap");
        for args in [["--changed"], ["--changed=HEAD"], ["--staged"]] {
            self.touch();
            let mut command = self.dir.command(&["lint", "-o", "json"]);
            let ran = command.args(args).envs(env.iter().copied()).output();
            let ran = super::support::Ran::from(ran.expect("it runs")).exits(1);
            let report = ran.json();
            let findings = report["findings"].as_array().expect("findings");
            let rules: Vec<_> = findings.iter().map(|f| &f["rule"]).collect();
            assert_eq!(rules, ["tags-unique"], "{args:?}");
            assert!(!self.marker().exists(), "{args:?} ran the program");
        }
        assert_eq!(self.dir.found(&["--staged"]), FLAWS[1..]);
    }

    /// Plain git springs the trap.
    #[track_caller]
    fn assert_sprung_by(&self, args: &[&str]) {
        self.assert_sprung_with(args, &[], "");
    }

    #[track_caller]
    fn assert_sprung_with(&self, args: &[&str], env: &[(&str, &str)], input: &str) {
        use std::io::Write;
        self.touch();
        let mut child = Command::new("git")
            .current_dir(self.dir.path())
            .args(args)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .envs(env.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("git runs");
        let mut stdin = child.stdin.take().expect("a pipe");
        // Git may exit before it reads the input.
        let _ = stdin.write_all(input.as_bytes());
        drop(stdin);
        child.wait().expect("git ends");
        assert!(self.marker().exists(), "the trap of git {args:?} is broken");
    }
}

#[test]
fn fsmonitor_does_not_run() {
    let trap = Trap::new(|_| {});
    trap.config("core.fsmonitor", &trap.program("exit 1"));
    trap.assert_quiet();
    trap.assert_sprung_by(&["status"]);
}

#[test]
fn programs_of_an_included_configuration_do_not_run() {
    let trap = Trap::new(|_| {});
    let program = trap.program("exit 1");
    let text = format!("[core]\n\tfsmonitor = {program}\n");
    trap.dir.write(".git/more", &text);
    trap.config("include.path", "more");
    trap.assert_quiet();
    trap.assert_sprung_by(&["status"]);
}

#[test]
fn hooks_do_not_run() {
    let trap = Trap::new(|_| {});
    let program = trap.program("");
    std::fs::create_dir_all(trap.dir.at(".git/hooks")).expect("created");
    for hook in ["post-index-change", "reference-transaction", "pre-auto-gc"] {
        let to = trap.dir.at(&format!(".git/hooks/{hook}"));
        std::fs::copy(&program, to).expect("copied");
    }
    trap.assert_quiet();
    trap.assert_sprung_by(&["status"]);
}

#[test]
fn hooks_of_a_configured_directory_do_not_run() {
    let trap = Trap::new(|_| {});
    let program = trap.program("");
    std::fs::copy(&program, trap.outside.at("post-index-change")).expect("copied");
    trap.config(
        "core.hooksPath",
        trap.outside.path().to_str().expect("UTF-8"),
    );
    trap.assert_quiet();
    trap.assert_sprung_by(&["status"]);
}

#[test]
fn an_external_diff_does_not_run() {
    let trap = Trap::new(|_| {});
    trap.config("diff.external", &trap.program(""));
    trap.assert_quiet();
    trap.assert_sprung_by(&["diff", "HEAD"]);
}

#[test]
fn an_external_diff_of_the_environment_does_not_run() {
    let trap = Trap::new(|_| {});
    let program = trap.program("");
    let env = [("GIT_EXTERNAL_DIFF", program.as_str())];
    trap.assert_quiet_with(&env);
    trap.assert_sprung_with(&["diff", "HEAD"], &env, "");
}

#[test]
fn a_diff_driver_does_not_run() {
    let trap = Trap::new(|_| {});
    trap.attributes("*.md diff=trap\n");
    trap.config("diff.trap.command", &trap.program(""));
    trap.assert_quiet();
    trap.assert_sprung_by(&["diff", "HEAD"]);
}

#[test]
fn a_text_conversion_does_not_run() {
    let trap = Trap::new(|_| {});
    trap.attributes("*.md diff=trap\n");
    trap.config("diff.trap.textconv", &trap.program("cat \"$1\""));
    trap.assert_quiet();
    trap.assert_sprung_by(&["diff", "HEAD"]);
}

/// Plain git starts a pager only on a terminal, so the control is a terminal.
#[test]
fn a_pager_does_not_run() {
    let trap = Trap::new(|_| {});
    let program = trap.program("cat");
    for key in ["core.pager", "pager.diff-index", "pager.ls-files"] {
        trap.config(key, &program);
    }
    trap.assert_quiet_with(&[("GIT_PAGER", &program), ("PAGER", &program)]);
    let ran = Command::new("script")
        .args(["-qec", "git --paginate ls-files", "/dev/null"])
        .current_dir(trap.dir.path())
        .stdin(Stdio::null())
        .output();
    ran.expect("`script` of util-linux runs");
    assert!(trap.marker().exists(), "the trap is broken");
}

#[test]
fn clean_filters_do_not_run() {
    // A name with `=` cannot be overridden with `git -c`.
    for name in ["trap", "a=b"] {
        let trap = Trap::new(|_| {});
        trap.attributes(&format!("*.md filter={name}\n"));
        trap.config(&format!("filter.{name}.clean"), &trap.program("cat"));
        trap.assert_quiet();
        trap.assert_sprung_by(&["diff", "--name-only", "HEAD"]);
    }
}

#[test]
fn clean_filters_of_committed_attributes_do_not_run() {
    let trap = Trap::new(|dir| {
        dir.write(".gitattributes", "*.md filter=trap\n");
        commit(dir, "attributes");
    });
    trap.config("filter.trap.clean", &trap.program("cat"));
    trap.config("filter.trap.required", "true");
    trap.assert_quiet();
    trap.assert_sprung_by(&["diff", "--name-only", "HEAD"]);
}

#[test]
fn filter_processes_do_not_run() {
    let trap = Trap::new(|_| {});
    trap.attributes("*.md filter=trap\n");
    trap.config("filter.trap.process", &trap.program(""));
    trap.assert_quiet();
    trap.assert_sprung_by(&["diff", "--name-only", "HEAD"]);
}

#[test]
fn smudge_filters_do_not_run() {
    let trap = Trap::new(|_| {});
    trap.attributes("*.md filter=trap\n");
    trap.config("filter.trap.smudge", &trap.program("cat"));
    trap.assert_quiet();
    trap.assert_sprung_by(&["checkout", "-f", "HEAD", "--", "."]);
}

/// Aliases cannot replace the commands of git. The control runs a new one.
#[test]
fn aliases_do_not_run() {
    let trap = Trap::new(|_| {});
    let alias = format!("!{}", trap.program(""));
    for name in [
        "cat-file",
        "diff",
        "diff-index",
        "hash-object",
        "ls-files",
        "ls-tree",
        "new",
        "rev-parse",
        "show",
    ] {
        trap.config(&format!("alias.{name}"), &alias);
    }
    trap.assert_quiet();
    trap.assert_sprung_by(&["new"]);
}

#[test]
fn signatures_are_not_verified() {
    let trap = Trap::new(|_| {});
    let program = trap.program(
        "cat > /dev/null; echo '[GNUPG:] SIG_CREATED ' >&2\n\
         printf -- '-----BEGIN PGP SIGNATURE-----\\n\\nx\\n-----END PGP SIGNATURE-----\\n'",
    );
    let gpg = format!("gpg.program={program}");
    // An empty commit, so that the mistake stays staged.
    let tree = "HEAD^{tree}";
    let signed = Command::new("git")
        .current_dir(trap.dir.path())
        .args([
            "-c",
            &gpg,
            "-c",
            "user.name=H",
            "-c",
            "user.email=h@h.example",
        ])
        .args(["commit-tree", "-S", "-p", "HEAD", "-m", "signed", tree])
        .output()
        .expect("git runs");
    let signed = String::from_utf8(signed.stdout).expect("UTF-8");
    git(&trap.dir, &["update-ref", "HEAD", signed.trim()]);
    trap.config("gpg.program", &program);
    trap.config("log.showSignature", "true");
    std::fs::remove_file(trap.marker()).expect("signing ran the program");
    trap.assert_quiet();
    trap.assert_sprung_by(&["log", "-1"]);
}

/// A partial clone whose last commit lacks the contents of the manifest. Plain git fetches them.
fn partial_clone(url: &str) -> Trap {
    let trap = Trap::new(|_| {});
    trap.config("core.repositoryFormatVersion", "1");
    trap.config("extensions.partialClone", "origin");
    trap.config("remote.origin.promisor", "true");
    trap.config("remote.origin.url", url);
    let object = Command::new("git")
        .current_dir(trap.dir.path())
        .args(["rev-parse", &format!("HEAD:{MANIFEST}")])
        .output()
        .expect("git runs");
    let object = String::from_utf8(object.stdout).expect("UTF-8");
    let (start, rest) = object.trim().split_at(2);
    let path = trap.dir.at(&format!(".git/objects/{start}/{rest}"));
    std::fs::remove_file(path).expect("a loose object");
    trap
}

const FETCHING: [&str; 3] = ["cat-file", "blob", "HEAD:heron/AGENT-CLI.md"];

#[test]
fn a_missing_object_is_not_fetched_with_ssh() {
    let trap = partial_clone("ssh://heron.example/heron");
    trap.config("core.sshCommand", &trap.program("exit 1"));
    trap.assert_quiet();
    trap.assert_sprung_by(&FETCHING);
}

#[test]
fn a_missing_object_is_not_fetched_with_ssh_of_the_environment() {
    let trap = partial_clone("ssh://heron.example/heron");
    let program = trap.program("exit 1");
    let env = [("GIT_SSH_COMMAND", program.as_str())];
    trap.assert_quiet_with(&env);
    trap.assert_sprung_with(&FETCHING, &env, "");
}

#[test]
fn a_missing_object_is_not_fetched_with_a_configured_program() {
    let trap = partial_clone("/nowhere");
    trap.config("remote.origin.uploadpack", &trap.program("exit 1"));
    trap.assert_quiet();
    trap.assert_sprung_by(&FETCHING);
}

#[test]
fn a_missing_object_is_not_fetched_with_a_remote_helper() {
    let trap = partial_clone("ext::nothing");
    trap.config("protocol.ext.allow", "always");
    let url = format!("ext::{}", trap.program("exit 1"));
    trap.config("remote.origin.url", &url);
    trap.assert_quiet();
    trap.assert_sprung_by(&FETCHING);
}

/// Git asks a credential helper only when it uses the network. The control asks for it directly.
#[test]
fn credential_helpers_do_not_run() {
    let trap = partial_clone("https://localhost:1/heron");
    trap.config("credential.helper", &format!("!{}", trap.program("")));
    trap.config("core.askPass", &trap.program(""));
    trap.assert_quiet();
    let input = "protocol=https\nhost=localhost:1\n\n";
    trap.assert_sprung_with(&["credential", "fill"], &[], input);
}

#[test]
fn programs_of_a_submodule_do_not_run() {
    let inner = repository();
    let from = inner.path().to_str().expect("UTF-8").to_owned();
    let trap = Trap::new(|dir| {
        let file = ["-c", "protocol.file.allow=always"];
        let add = ["submodule", "--quiet", "add", &from, "inner"];
        git(dir, &[&file[..], &add].concat());
        commit(dir, "inner");
    });
    let program = trap.program("exit 1");
    let config = trap.dir.at(".git/modules/inner/config");
    let text = std::fs::read_to_string(&config).expect("a configuration");
    let text = format!("{text}[core]\n\tfsmonitor = {program}\n");
    std::fs::write(config, text).expect("written");
    trap.config("diff.submodule", "diff");
    trap.config("submodule.recurse", "true");
    trap.dir.write("inner/heron/ACP.md", "changed\n");
    trap.assert_quiet();
    trap.assert_sprung_by(&["status"]);
}

/// A directory of a repository can contain the files of another repository.
#[test]
fn programs_of_an_embedded_repository_do_not_run() {
    let trap = Trap::new(|_| {});
    let program = trap.program("exit 1");
    git(&trap.dir, &["init", "-q", "--bare", "embedded"]);
    let config = format!(
        "[core]\n\trepositoryFormatVersion = 0\n\tbare = false\n\tworktree = ..\n\t\
         fsmonitor = {program}\n"
    );
    trap.dir.write("embedded/config", &config);
    trap.dir.write("embedded/AGENT-CLI.md", "# Nothing\n");
    for option in ["--changed", "--staged"] {
        let mut command = trap.dir.command(&["lint", option]);
        let ran = command.current_dir(trap.dir.at("embedded")).output();
        let ran = super::support::Ran::from(ran.expect("it runs")).exits(69);
        assert!(ran.err.contains("bare repository"), "{}", ran.err);
    }
    assert!(!trap.marker().exists());
    trap.assert_sprung_by(&["-C", "embedded", "status"]);
}

#[test]
fn the_index_is_not_written() {
    let trap = Trap::new(|_| {});
    let index = || std::fs::read(trap.dir.at(".git/index")).expect("an index");
    let before = index();
    trap.assert_quiet();
    assert!(before == index(), "the linter wrote the index");
    git(&trap.dir, &["status"]);
    assert!(before != index(), "plain git does not write the index");
}
