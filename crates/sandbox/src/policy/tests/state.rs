//! Tests for `auth.state.paths`, whose missing paths are created.

use super::Machine;
use super::machine::unenforceable;
use crate::policy::{NewPath, Policy, SandboxManifest, StateCreation, resolve};
use agentproto_suites::proves;

/// The policy of a bundle `gh` with one state path.
fn policy(machine: &Machine, path: &str, creation: StateCreation) -> Policy {
    machine.file(
        "bundle/CLI.md",
        &format!(
            "---\nname: gh\nid: gh\nbin: gh\nauth: {{state: {{paths: ['{path}']}}}}\n\
             sandbox: {{network: {{}}, fs: {{}}, exec: {{allow: false}}}}\n---\n"
        ),
    );
    let manifest = SandboxManifest::load(&machine.root.join("bundle/CLI.md")).expect("a manifest");
    let mut context = machine.host_context();
    context.state_creation = creation;
    resolve(&manifest, &context, &["tool".into()]).expect("a policy")
}

/// What is created, relative to the machine.
fn created(machine: &Machine, policy: &Policy) -> Vec<(String, NewPath)> {
    let grants = policy.grants.iter();
    let new = grants.filter_map(|g| Some((g.source.clone(), g.create?)));
    new.map(|(path, kind)| {
        let path = path.strip_prefix(&machine.root).expect("inside");
        (path.to_string_lossy().into_owned(), kind)
    })
    .collect()
}

#[test]
fn missing_state_paths_are_created_and_granted() {
    proves!("A29-AUTH-03");
    use StateCreation::{Directories, Login, Nothing};
    let dir = |path: &str| vec![(path.to_owned(), NewPath::Directory)];
    let file = |path: &str| vec![(path.to_owned(), NewPath::File)];
    for (path, creation, expected) in [
        ("~/.config/gh", Login, dir("home/.config/gh")),
        ("~/.config/gh", Directories, dir("home/.config/gh")),
        ("~/.config/gh", Nothing, vec![]),
        ("~/.config/gh/", Nothing, vec![]),
        ("~/.config/gh/**", Directories, dir("home/.config/gh")),
        // The program's own directory, which is new: the login may rename files in it.
        ("~/.config/gh/hosts.yml", Login, dir("home/.config/gh")),
        ("~/.config/gh/hosts.yml", Directories, vec![]),
        ("~/.config/gh/hosts.yml", Nothing, vec![]),
        // Directories of others, and the home, are never opened.
        ("~/.config/gh.json", Login, file("home/.config/gh.json")),
        ("~/.ssh/config", Login, file("home/.ssh/config")),
        ("~/.netrc", Login, file("home/.netrc")),
        ("./gh/token", Login, file("work/gh/token")),
        ("~/none/*.json", Login, vec![]),
    ] {
        let machine = Machine::new();
        machine.dir("home");
        let policy = policy(&machine, path, creation);
        assert_eq!(unenforceable(&policy), [""; 0], "{path}");
        assert_eq!(created(&machine, &policy), expected, "{path} {creation:?}");
        assert!(!machine.root.join("home/.config").exists(), "{path}");
    }
}

#[test]
fn an_existing_directory_is_not_opened_for_a_file_in_it() {
    let machine = Machine::new();
    machine.file("home/.config/gh/config.yml", "");
    let policy = policy(&machine, "~/.config/gh/hosts.yml", StateCreation::Login);
    let new = created(&machine, &policy);
    assert_eq!(
        new,
        [("home/.config/gh/hosts.yml".to_owned(), NewPath::File)]
    );
    assert_eq!(machine.sees(&policy, "home/.config/gh/hosts.yml"), "w");
    assert_eq!(machine.sees(&policy, "home/.config/gh/config.yml"), "-");
}

#[test]
fn links_that_a_login_could_have_created_are_refused() {
    for (link, path) in [
        // In a writable workspace, also if nothing is at its end.
        ("work/state", "./state"),
        ("work/state", "./state/"),
        // In the directory that a login may write.
        ("home/.config/gh/hosts.yml", "~/.config/gh/hosts.yml"),
    ] {
        for target in ["victim", "victim/missing"] {
            let machine = Machine::new();
            machine.dir("home/.config/gh");
            machine.dir("victim");
            machine.link(link, machine.root.join(target));
            machine.file(
                "bundle/AGENT-CLI.md",
                &format!(
                    "---\nprotocol: acp\nid: gh\nbin: gh\nsandbox: {{inline: {{provider: local}}}}\n\
                     auth: {{state: {{paths: ['{path}']}}}}\n---\n"
                ),
            );
            let file = machine.root.join("bundle/AGENT-CLI.md");
            let manifest = SandboxManifest::load(&file).expect("a manifest");
            let mut context = machine.host_context();
            context.state_creation = StateCreation::Login;
            let policy = resolve(&manifest, &context, &["tool".into()]).expect("a policy");
            let why = unenforceable(&policy).join("\n");
            assert!(why.contains("is a symbolic link"), "{path} {target}: {why}");
        }
    }
    // A link that only the user could have created is followed.
    let machine = Machine::new();
    machine.dir("home/.config");
    machine.dir("dotfiles/gh");
    machine.link("home/.config/gh", machine.root.join("dotfiles/gh"));
    let policy = policy(&machine, "~/.config/gh", StateCreation::Login);
    assert_eq!(unenforceable(&policy), [""; 0]);
    assert_eq!(machine.sees(&policy, "dotfiles/gh/hosts.yml"), "w");
}

#[test]
fn nothing_is_created_without_a_home() {
    let machine = Machine::new();
    std::fs::remove_dir_all(machine.root.join("home")).ok();
    let policy = policy(&machine, "~/.config/gh", StateCreation::Login);
    assert_eq!(created(&machine, &policy), []);
    let (_, why) = &policy.ineffective[0];
    assert!(why.contains("home directory does not exist"), "{why}");
}
