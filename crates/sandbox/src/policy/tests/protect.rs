//! What a program must not change or see, whatever its policy grants.

use super::Machine;
use super::machine::unenforceable;
use crate::policy::{HiddenKind, Policy, SandboxManifest, resolve};

const WRITE: &str = "fs: {write: ['./**']}\nexec: {allow: true}\n";
const AGENT: &str = "provider: local\n";

/// Resolves a policy that is itself in the working directory.
fn in_workspace(machine: &Machine, yaml: &str) -> Policy {
    machine.file("work/policy.yaml", yaml);
    machine.resolve("work/policy.yaml").expect("a policy")
}

fn reserved(machine: &Machine, policy: &Policy) -> Vec<String> {
    let is_reserved = |kind| matches!(kind, HiddenKind::Reserved | HiddenKind::ReservedFile(_));
    let found = policy.denials.iter().filter(|d| is_reserved(d.kind));
    let mut found: Vec<String> = found
        .map(|d| d.path.strip_prefix(&machine.root).expect("inside"))
        .map(|path| path.to_string_lossy().into_owned())
        .collect();
    found.sort();
    found
}

#[test]
fn the_policy_is_read_only_in_both_shapes() {
    for yaml in [WRITE, AGENT] {
        let machine = Machine::new();
        machine.file("work/notes.txt", "");
        let policy = in_workspace(&machine, yaml);
        let sees = |name: &str| machine.sees(&policy, name).contains('w');
        assert!(!sees("work/policy.yaml"), "{yaml}");
        assert!(sees("work/notes.txt") && sees("work/new"), "{yaml}");
        let reserved = reserved(&machine, &policy);
        for name in ["AGENT-CLI.md", "CLI.md", "SANDBOX.md", "agentproto.toml"] {
            assert!(reserved.contains(&format!("work/{name}")), "{yaml} {name}");
        }
    }
}

#[test]
fn referenced_files_are_protected_also_missing_ones() {
    let machine = Machine::new();
    let cli = "---\nsandbox:\n  fs: {write: ['./**']}\n  exec: {allow: false}\nauth: {ref: ./conf/SECRETS.md}\nrunner: ./RUNNER.md\ncommands:\n  up: ./tools/up/TOOL.md\n---\n";
    machine.file("work/CLI.md", cli);
    machine.file("work/tools/up/TOOL.md", "---\nid: up\n---\n");
    machine.file("work/RUNNER.md", "---\nengine: subprocess\n---\n");
    machine.dir("work/conf");
    let policy = machine.resolve("work/CLI.md").expect("a policy");
    assert_eq!(machine.sees(&policy, "work/RUNNER.md"), "r");
    assert_eq!(machine.sees(&policy, "work/tools/up/TOOL.md"), "r");
    assert_eq!(machine.sees(&policy, "work/tools/up/other"), "w");
    let reserved = reserved(&machine, &policy);
    for name in ["work/conf/SECRETS.md", "work/AGENT-CLI.md"] {
        assert!(reserved.contains(&name.to_owned()), "{name} {reserved:?}");
    }
}

#[test]
fn a_nearer_bundle_of_a_tool_cannot_be_created() {
    let machine = Machine::new();
    let cli = "---\nsandbox:\n  fs: {write: ['./**']}\n  exec: {allow: false}\n---\n";
    machine.file("work/CLI.md", cli);
    machine.file("work/a/b/TOOL.md", "---\nid: x\nrunner: {cli: x}\n---\n");
    let policy = machine.resolve("work/a/b/TOOL.md").expect("a policy");
    let reserved = reserved(&machine, &policy);
    for name in ["work/a/b/CLI.md", "work/a/CLI.md"] {
        assert!(reserved.contains(&name.to_owned()), "{name} {reserved:?}");
    }
}

#[test]
fn a_policy_that_is_a_link_in_a_writable_directory_is_refused() {
    let machine = Machine::new();
    machine.file("bundle/real.yaml", WRITE);
    machine.link("work/policy.yaml", machine.root.join("bundle/real.yaml"));
    let policy = machine.resolve("work/policy.yaml").expect("a policy");
    let why = unenforceable(&policy).join("\n");
    assert!(
        why.contains("work/policy.yaml` is a symbolic link"),
        "{why}"
    );
}

#[test]
fn a_policy_with_another_name_is_refused() {
    let machine = Machine::new();
    machine.file("work/policy.yaml", WRITE);
    let other = machine.root.join("work/other");
    std::fs::hard_link(machine.root.join("work/policy.yaml"), &other).expect("linked");
    let policy = machine.resolve("work/policy.yaml").expect("a policy");
    let why = unenforceable(&policy).join("\n");
    assert!(why.contains("has 2 names"), "{why}");
    std::fs::remove_file(other).expect("removed");
    let policy = machine.resolve("work/policy.yaml").expect("a policy");
    assert_eq!(unenforceable(&policy), [""; 0]);
}

#[test]
fn grants_do_not_follow_links_that_the_program_could_create() {
    let machine = Machine::new();
    machine.file("victim/key", "");
    machine.link("work/cache", machine.root.join("victim"));
    machine.dir("work/real");
    let planted = machine.policy("fs: {write: ['./**', './cache/**']}\n");
    let why = unenforceable(&planted).join("\n");
    assert!(why.contains("work/cache` is a symbolic link"), "{why}");
    let file = machine.policy("fs: {read: [./cache/key], write: ['./**']}\n");
    assert_eq!(unenforceable(&file).len(), 1);
    let plain = machine.policy("fs: {write: ['./**', './real/**']}\n");
    assert_eq!(unenforceable(&plain), [""; 0]);
    // A program in this sandbox cannot have created this link.
    let outside = machine.policy("fs: {write: ['./cache/**']}\n");
    assert_eq!(unenforceable(&outside), [""; 0]);
    assert_eq!(machine.sees(&outside, "victim/key"), "w");
}

#[test]
fn state_paths_of_a_login_do_not_follow_planted_links() {
    let machine = Machine::new();
    machine.dir("victim");
    machine.link("work/state", machine.root.join("victim"));
    let agent = "---\nprotocol: acp\nbin: tool\nsandbox: {inline: {provider: local}}\nauth: {state: {paths: ['./state/**']}}\n---\n";
    machine.file("bundle/AGENT-CLI.md", agent);
    let policy = machine.resolve("bundle/AGENT-CLI.md").expect("a policy");
    let why = unenforceable(&policy).join("\n");
    assert!(why.contains("work/state` is a symbolic link"), "{why}");
}

#[test]
fn a_linked_program_in_the_workspace_must_lead_to_something_visible() {
    let machine = Machine::new();
    machine.program("victim/lib/tool/bin/x");
    machine.dir("victim/lib/tool/share");
    machine.link("work/x", machine.root.join("victim/lib/tool/bin/x"));
    machine.link("work/sh", "/bin/sh");
    machine.file("bundle/policy.yaml", AGENT);
    let manifest = SandboxManifest::load(&machine.root.join("bundle/policy.yaml")).expect("read");
    let refused = |name: &str| {
        let command = machine.root.join(name).into_os_string();
        let policy = resolve(&manifest, &machine.host_context(), &[command]).expect("a policy");
        !unenforceable(&policy).is_empty()
    };
    assert!(refused("work/x"));
    assert!(!refused("work/sh"));
    assert!(!refused("bin/tool"));
}

#[test]
fn control_files_of_repositories_are_read_only() {
    let machine = Machine::new();
    for dir in [
        "work/.git/objects",
        "work/.git/refs",
        "work/.git/hooks",
        "work/.vscode",
    ] {
        machine.dir(dir);
    }
    machine.file("work/.git/HEAD", "ref: refs/heads/main\n");
    let config = "[core]\n\thooksPath = ci/hooks\n[include]\n\tpath = ../shared.gitconfig\n";
    machine.file("work/.git/config", config);
    machine.file("work/shared.gitconfig", "");
    machine.dir("work/ci");
    machine.dir("work/.git/modules/a/b/objects");
    machine.dir("work/.git/modules/a/b/refs");
    machine.file("work/.git/modules/a/b/HEAD", "x");
    machine.file("work/.git/modules/a/b/config", "");
    let policy = machine.policy(AGENT);
    let writable = |name: &str| machine.sees(&policy, name).contains('w');
    for name in [
        "work/.git/config",
        "work/.git/hooks",
        "work/.git/hooks/pre-commit",
        "work/.vscode/tasks.json",
        "work/shared.gitconfig",
        "work/.git/modules/a/b/config",
    ] {
        assert!(!writable(name), "{name}");
    }
    for name in [
        "work/.git/index",
        "work/.git/refs/heads/x",
        "work/src/x",
        "work/ci/build.sh",
    ] {
        assert!(writable(name), "{name}");
    }
    let reserved = reserved(&machine, &policy);
    for name in [
        "work/.git/commondir",
        "work/ci/hooks",
        "work/.idea",
        "work/.git/modules/a/b/hooks",
    ] {
        assert!(reserved.contains(&name.to_owned()), "{name} {reserved:?}");
    }
}

#[test]
fn the_directory_of_a_worktree_is_found_through_its_pointer() {
    let machine = Machine::new();
    for dir in [
        "work/main/.git/worktrees/side",
        "work/main/.git/hooks",
        "work/side",
    ] {
        machine.dir(dir);
    }
    machine.file("work/side/.git", "gitdir: ../main/.git/worktrees/side\n");
    machine.file("work/main/.git/worktrees/side/commondir", "../..\n");
    machine.file("work/main/.git/config", "");
    let policy = machine.policy(AGENT);
    for name in [
        "work/side/.git",
        "work/main/.git/worktrees/side/commondir",
        "work/main/.git/config",
        "work/main/.git/hooks",
    ] {
        assert!(!machine.sees(&policy, name).contains('w'), "{name}");
    }
    assert!(
        machine
            .sees(&policy, "work/main/.git/worktrees/side/HEAD")
            .contains('w')
    );
}

#[test]
fn a_name_can_be_unprotected_by_the_user_or_by_a_clause() {
    let machine = Machine::new();
    machine.dir("work/.vscode");
    machine.dir("work/.idea");
    machine.dir("work/.github");
    machine.file("bundle/policy.yaml", WRITE);
    let manifest = SandboxManifest::load(&machine.root.join("bundle/policy.yaml")).expect("read");
    let mut context = machine.host_context();
    context.protection.unprotected = vec![".vscode".into()];
    context.protection.names = vec![".github".into()];
    let policy = resolve(&manifest, &context, &[]).expect("a policy");
    assert_eq!(machine.sees(&policy, "work/.vscode/x"), "w");
    assert_eq!(machine.sees(&policy, "work/.idea/x"), "r");
    assert_eq!(machine.sees(&policy, "work/.github/x"), "r");
    assert_eq!(machine.sees(&policy, "work/.git/config"), "-");
    context.protection.unprotected = vec![".git".into()];
    let policy = resolve(&manifest, &context, &[]).expect("a policy");
    assert_eq!(machine.sees(&policy, "work/.git/config"), "w");
    let named = machine.policy("fs: {write: ['./**', './.idea/**']}\nexec: {allow: true}\n");
    assert_eq!(machine.sees(&named, "work/.idea/x"), "w");
}

#[test]
fn the_state_is_hidden_except_for_the_bundle_and_tools() {
    let machine = Machine::new();
    machine.file("work/state/runtime.json", "");
    machine.file("work/state/adapters/one/policy.yaml", WRITE);
    machine.file("work/state/adapters/two/x", "");
    let manifest = SandboxManifest::load(&machine.root.join("work/state/adapters/one/policy.yaml"))
        .expect("read");
    for yaml in [WRITE, AGENT] {
        machine.file("work/state/adapters/one/policy.yaml", yaml);
        let mut context = machine.host_context();
        context.protection.state = vec![machine.root.join("work/state")];
        context.bundle = machine.root.join("work/state/adapters/one");
        let policy = resolve(&manifest, &context, &["tool".into()]).expect("a policy");
        for name in [
            "work/state",
            "work/state/runtime.json",
            "work/state/adapters/two/x",
        ] {
            assert_eq!(machine.sees(&policy, name), "-", "{yaml} {name}");
        }
        let own = machine.sees(&policy, "work/state/adapters/one/policy.yaml");
        assert!(own.starts_with('r'), "{yaml} {own}");
        assert!(
            machine.sees(&policy, "work/other").starts_with('w'),
            "{yaml}"
        );
    }
}

#[test]
fn a_grant_in_the_state_is_refused() {
    let machine = Machine::new();
    machine.dir("home/.agentproto/secrets");
    let policy = machine.policy("fs: {read: ['~/.agentproto/secrets/**']}\n");
    let why = unenforceable(&policy).join("\n");
    assert!(why.contains("agentproto's own state"), "{why}");
}

#[test]
fn the_state_is_created_before_a_program_could_create_it() {
    let machine = Machine::new();
    let policy = machine.policy("fs: {write: ['~/**']}\n");
    let state = machine.root.join("home/.agentproto");
    assert_eq!(policy.create, std::slice::from_ref(&state));
    assert!(!state.exists(), "resolving a policy creates nothing");
    let elsewhere = machine.policy(WRITE);
    assert!(elsewhere.create.is_empty());
}

#[test]
fn pipes_in_read_only_directories_below_writable_ones_are_hidden() {
    let machine = Machine::new();
    machine.dir("work/conf");
    let pipe = machine.root.join("work/conf/pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo").success());
    machine.file("work/conf/file", "");
    let policy = machine.policy("fs: {read: ['./conf/**']}\n");
    assert_eq!(machine.sees(&policy, "work/conf/pipe"), "-");
    assert_eq!(machine.sees(&policy, "work/conf/file"), "r");
}

#[test]
fn the_root_of_the_machine_is_not_a_workspace() {
    let machine = Machine::new();
    machine.file("bundle/policy.yaml", AGENT);
    let manifest = SandboxManifest::load(&machine.root.join("bundle/policy.yaml")).expect("read");
    let mut context = machine.host_context();
    context.cwd = "/".into();
    let policy = resolve(&manifest, &context, &[]).expect("a policy");
    let why = unenforceable(&policy).join("\n");
    assert!(why.contains("the working directory is `/`"), "{why}");
}

#[test]
fn the_working_directory_is_not_a_link() {
    for (yaml, clause) in [(AGENT, false), (WRITE, true)] {
        let machine = Machine::new();
        machine.dir("victim");
        machine.link("inner", machine.root.join("victim"));
        machine.file("bundle/policy.yaml", yaml);
        let path = machine.root.join("bundle/policy.yaml");
        let manifest = SandboxManifest::load(&path).expect("read");
        let mut context = machine.host_context();
        context.cwd = machine.root.join("inner");
        let policy = resolve(&manifest, &context, &[]);
        match clause {
            true => assert_eq!(unenforceable(&policy.expect("a policy")).len(), 1),
            false => {
                let why = policy.expect_err("refused").to_string();
                assert!(why.contains("leads through a symbolic link"), "{why}");
            }
        }
    }
}

#[test]
fn hooks_of_a_bare_repository_are_protected_where_it_names_them() {
    let machine = Machine::new();
    for dir in ["objects", "refs", "own-hooks"] {
        machine.dir(&format!("work/bare.git/{dir}"));
    }
    machine.file("work/bare.git/HEAD", "ref: refs/heads/main\n");
    machine.file("work/bare.git/config", "[core]\n\thooksPath = own-hooks\n");
    let policy = in_workspace(&machine, WRITE);
    assert_eq!(machine.sees(&policy, "work/bare.git/own-hooks/x"), "r");
    assert_eq!(machine.sees(&policy, "work/bare.git/config"), "r");
    assert_eq!(machine.sees(&policy, "work/bare.git/objects/x"), "w");
}

#[test]
fn many_files_do_not_hide_a_repository() {
    let machine = Machine::new();
    for number in 0..5_000 {
        machine.file(&format!("work/{number}"), "");
    }
    machine.file("work/z/.git/config", "");
    let policy = in_workspace(&machine, WRITE);
    assert_eq!(machine.sees(&policy, "work/z/.git/config"), "r");
}

#[test]
fn a_repository_with_the_mode_of_a_placeholder_is_protected() {
    use std::os::unix::fs::PermissionsExt;
    let machine = Machine::new();
    machine.file("work/sub/.git/config", "");
    let mode = std::fs::Permissions::from_mode(crate::plan::PLACEHOLDER_MODE);
    let dot_git = machine.root.join("work/sub/.git");
    std::fs::set_permissions(dot_git, mode).expect("changed");
    let policy = in_workspace(&machine, WRITE);
    assert_eq!(machine.sees(&policy, "work/sub/.git/config"), "r");
}

#[test]
fn missing_parents_of_a_control_file_cannot_be_created() {
    let machine = Machine::new();
    machine.dir("work");
    let mut host = machine.host_context();
    host.protection.names = vec!["deep/er/file".into()];
    machine.file("work/policy.yaml", WRITE);
    let manifest = SandboxManifest::load(&machine.root.join("work/policy.yaml")).expect("read");
    let resolved = resolve(&manifest, &host, &["tool".into()]).expect("a policy");
    let names = reserved(&machine, &resolved);
    assert!(names.contains(&"work/deep".to_owned()), "{names:?}");
}

#[test]
fn a_deeper_grant_does_not_open_a_control_directory() {
    let machine = Machine::new();
    machine.file("work/.claude/settings.json", "{}");
    machine.file("work/.claude/state/x", "");
    let nested = "fs: {write: ['./**', './.claude/state/**']}\nexec: {allow: true}\n";
    let policy = in_workspace(&machine, nested);
    assert_eq!(machine.sees(&policy, "work/.claude/settings.json"), "r");
    assert_eq!(machine.sees(&policy, "work/.claude/state/x"), "w");
    let exact = "fs: {write: ['./**', './.claude/**']}\nexec: {allow: true}\n";
    let policy = in_workspace(&machine, exact);
    assert_eq!(machine.sees(&policy, "work/.claude/settings.json"), "w");
}

#[test]
fn a_wide_grant_protects_the_home_and_its_own_root() {
    let machine = Machine::new();
    machine.file("home/.bashrc", "");
    machine.file("home/other/x", "");
    let wide = "fs: {write: ['~/**', './**']}\nexec: {allow: true}\n";
    let policy = in_workspace(&machine, wide);
    assert_eq!(machine.sees(&policy, "home/.bashrc"), "r");
    assert_eq!(machine.sees(&policy, "home/other/x"), "w");
    let notes: Vec<&String> = policy.notes.iter().map(|(_, note)| note).collect();
    assert!(
        notes.iter().any(|note| note.contains("are not protected")),
        "{notes:?}"
    );
}

#[test]
fn a_broken_link_at_a_control_name_is_refused() {
    let machine = Machine::new();
    machine.link("work/.vscode", machine.root.join("nowhere"));
    let policy = in_workspace(&machine, WRITE);
    let why = unenforceable(&policy).join("\n");
    assert!(why.contains("work/.vscode` is a symbolic link"), "{why}");
}

#[test]
fn a_pipe_that_a_clause_names_is_hidden() {
    let machine = Machine::new();
    machine.dir("work");
    let pipe = machine.root.join("pipes/one");
    std::fs::create_dir_all(machine.root.join("pipes")).expect("created");
    let path = std::ffi::CString::new(pipe.to_string_lossy().as_bytes()).expect("a path");
    // SAFETY: a C string that outlives the call.
    assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o666) }, 0);
    for clause in [
        pipe.display().to_string(),
        format!("{}/pipes/*", machine.root.display()),
    ] {
        let yaml = format!("fs: {{read: ['{clause}'], write: ['./**']}}\nexec: {{allow: true}}\n");
        let policy = in_workspace(&machine, &yaml);
        let hidden = policy.denials.iter().any(|d| d.path == pipe);
        assert!(hidden, "{clause} {:?}", policy.denials);
    }
}
