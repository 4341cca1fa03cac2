//! Tests for the AIP-29 block.

use super::Machine;
use super::machine::{unenforceable, value};
use crate::policy::{Exec, HiddenKind, SandboxSpec};

const QUIET: &str = "exec: {allow: false}\n";

#[test]
fn a29_sbx_02_only_listed_hosts_are_allowed() {
    let machine = Machine::new();
    let policy = machine
        .policy("network: {egress: [api.x.io, '*.y.io'], ingress: ['http://localhost/cb']}\n");
    assert_eq!(policy.spec, SandboxSpec::Aip29);
    let hosts: Vec<_> = policy
        .egress
        .iter()
        .map(|(c, h)| (c.pointer.as_str(), h.as_str()))
        .collect();
    assert_eq!(
        hosts,
        [
            ("/network/egress/0", "api.x.io"),
            ("/network/egress/1", "*.y.io")
        ]
    );
    assert_eq!(policy.ingress.len(), 1);
    assert!(machine.policy(QUIET).egress.is_empty());
    // A29-SBX-03
    let policy = machine.policy("network: {egress: ['10.0.0.0/8', ok.io]}\n");
    assert_eq!(policy.egress.len(), 1);
    assert!(unenforceable(&policy)[0].contains("address range"));
}

#[test]
fn a29_sbx_05_06_only_granted_globs_are_visible() {
    let machine = Machine::new();
    machine.file("home/.config/gh/hosts.yml", "");
    machine.file("home/.config/other/x", "");
    machine.file("work/a/.git/config", "");
    machine.file("work/a/b/.git/config", "");
    machine.file("work/a/secret", "");
    machine.file("work/out/x", "");
    let policy = machine.policy(
        "fs: {read: ['**/.git/**', '~/.config/gh/**'], write: ['$HOME/.config/gh/**', out]}\n",
    );
    assert!(
        policy.unenforceable.is_empty(),
        "{:?}",
        policy.unenforceable
    );
    for (name, expected) in [
        ("home/.config/gh/hosts.yml", "w"),
        ("home/.config/gh/new", "w"),
        ("home/.config/other/x", "-"),
        ("home", "-"),
        ("work/a/.git/config", "r"),
        ("work/a/b/.git/config", "r"),
        ("work/a/secret", "-"),
        ("work/out/x", "w"),
        ("work", "-"),
        ("bin/tool", "rx"),
        ("bin/other", "-"),
    ] {
        assert_eq!(machine.sees(&policy, name), expected, "{name}");
    }
}

#[test]
fn a29_sbx_06_readable_paths_inside_writable_ones_stay_writable() {
    let machine = Machine::new();
    machine.dir("work/a/b");
    let policy = machine.policy("fs: {read: ['a/b/**'], write: ['a/**']}\n");
    assert_eq!(machine.sees(&policy, "work/a/b/x"), "w");
    let policy = machine.policy("fs: {read: ['a/**'], write: ['a/b/**']}\n");
    assert_eq!(machine.sees(&policy, "work/a/b/x"), "w");
    assert_eq!(machine.sees(&policy, "work/a/x"), "r");
}

#[test]
fn a_missing_directory_is_created_and_a_missing_file_is_reported() {
    let machine = Machine::new();
    let policy = machine.policy("fs: {write: ['~/.state/**', ./out.txt], read: [nowhere]}\n");
    let made = policy
        .grants
        .iter()
        .find(|g| g.create.is_some())
        .expect("one to make");
    assert_eq!(made.source, machine.root.join("home/.state"));
    let ineffective: Vec<_> = policy
        .ineffective
        .iter()
        .map(|(c, _)| c.text.as_str())
        .collect();
    assert_eq!(ineffective, ["fs.read nowhere", "fs.write ./out.txt"]);
    assert!(policy.ineffective[1].1.contains("create it"));
}

#[test]
fn a29_sbx_07_deny_takes_precedence() {
    let machine = Machine::new();
    machine.file("home/.ssh/id", "");
    machine.file("home/.ssh/known_hosts", "");
    machine.file("home/x", "");
    machine.file("home/a/b/key", "");
    let policy = machine.policy(
        "fs:\n  read: ['~/**', ~/.ssh/known_hosts]\n  deny: ['~/.ssh/**', ~/a/b/key, '/nowhere/**']\n",
    );
    assert!(
        policy.unenforceable.is_empty(),
        "{:?}",
        policy.unenforceable
    );
    for (name, expected) in [
        ("home/.ssh/id", "-"),
        ("home/.ssh/known_hosts", "-"),
        ("home/.ssh", "-"),
        ("home/x", "r"),
        ("home/a/b/key", "-"),
        ("home/a/b/other", "r"),
    ] {
        assert_eq!(machine.sees(&policy, name), expected, "{name}");
    }
    let kinds: Vec<_> = policy.denials.iter().map(|d| d.kind).collect();
    assert_eq!(kinds, [HiddenKind::Directory, HiddenKind::File]);
    let ineffective: Vec<_> = policy
        .ineffective
        .iter()
        .map(|(c, _)| c.text.as_str())
        .collect();
    assert_eq!(
        ineffective,
        ["fs.read ~/.ssh/known_hosts", "fs.deny /nowhere/**"]
    );
}

#[test]
fn a29_sbx_07_denied_missing_paths_cannot_be_created() {
    let machine = Machine::new();
    machine.dir("home/a");
    let policy = machine.policy("fs: {write: ['~/**'], deny: ['~/.ssh/keys/**', '~/a/b/c']}\n");
    let held: Vec<_> = policy
        .denials
        .iter()
        .filter(|d| d.kind == HiddenKind::Missing)
        .map(|d| {
            (
                d.path
                    .strip_prefix(&machine.root)
                    .expect("inside")
                    .to_owned(),
                d.kind,
            )
        })
        .collect();
    assert_eq!(
        held,
        [
            ("home/.ssh".into(), HiddenKind::Missing),
            ("home/a/b".into(), HiddenKind::Missing)
        ]
    );
    // Without a mount, `~/a` could be renamed and created again.
    let pin = policy
        .grants
        .iter()
        .find(|g| g.at == machine.root.join("home/a"));
    assert!(pin.is_some_and(|g| g.clause.is_none()));
    let policy = machine.policy("fs: {write: ['~/.new/sub/**'], deny: [~/.new/sub/x/y]}\n");
    assert_eq!(machine.sees(&policy, "home/.new/sub/x/y"), "-");
    assert_eq!(machine.sees(&policy, "home/.new/sub/other"), "w");
    let policy = machine.policy("fs: {read: ['~/**'], deny: ['~/.ssh/**']}\n");
    assert!(policy.denials.is_empty());
    assert!(
        policy
            .notes
            .iter()
            .any(|(_, n)| n.contains("does not exist now"))
    );
}

#[test]
fn a29_sbx_07_deny_wildcards_in_writable_directories_are_refused() {
    let machine = Machine::new();
    machine.file("work/src/.env", "");
    machine.file("work/src/x.rs", "");
    let policy = machine.policy("fs: {read: ['**'], deny: ['**/.env']}\n");
    assert!(policy.unenforceable.is_empty());
    assert_eq!(machine.sees(&policy, "work/src/.env"), "-");
    assert_eq!(machine.sees(&policy, "work/src/x.rs"), "r");
    for deny in ["**/.env", "src/.e*", "sr?/**"] {
        let policy = machine.policy(&format!("fs: {{write: ['**'], deny: ['{deny}']}}\n"));
        assert!(
            unenforceable(&policy)[0].contains("during the run would not be hidden"),
            "{deny}"
        );
    }
    let policy = machine.policy("fs: {write: ['**'], deny: ['src/**', src/sub/*.x]}\n");
    assert!(
        policy.unenforceable.is_empty(),
        "{:?}",
        policy.unenforceable
    );
    let policy = machine.policy("fs: {write: ['out/**'], deny: ['**/.env'], read: ['src/**']}\n");
    assert_eq!(policy.unenforceable.len(), 1);
    let policy = machine.policy("fs: {write: ['out/**'], deny: ['src/*.env']}\n");
    assert!(policy.unenforceable.is_empty());
}

#[test]
fn links_are_followed_and_kept_but_grant_nothing_else() {
    let machine = Machine::new();
    machine.file("data/real/x", "");
    machine.file("data/secret", "");
    machine.link("work/link", machine.root.join("data/real"));
    machine.link("data/real/out", "../secret");
    let policy = machine.policy("fs: {read: ['link/**']}\n");
    assert_eq!(machine.sees(&policy, "data/real/x"), "r");
    assert_eq!(machine.sees(&policy, "data/secret"), "-");
    let link = policy
        .links
        .iter()
        .find(|l| l.at == machine.root.join("work/link"));
    assert_eq!(link.expect("kept").to, machine.root.join("data/real"));
    // Denying a link denies its target.
    let policy = machine.policy("fs: {read: ['../data/**'], deny: ['link/**']}\n");
    assert_eq!(machine.sees(&policy, "data/real/x"), "-");
    assert_eq!(machine.sees(&policy, "data/secret"), "r");
    let policy = machine.policy("fs: {write: ['**'], deny: ['link/**']}\n");
    assert!(unenforceable(&policy)[0].contains("symbolic link"));
}

#[test]
fn the_sandbox_has_its_own_devices() {
    let machine = Machine::new();
    for path in ["/proc/**", "/sys/kernel", "/dev/kvm", "/proc/self/environ"] {
        let policy = machine.policy(&format!("fs: {{read: ['{path}']}}\n"));
        assert!(
            unenforceable(&policy)[0].contains("its own /proc"),
            "{path}"
        );
    }
    let policy = machine.policy("fs: {read: [/dev/null]}\n");
    assert!(policy.unenforceable.is_empty());
    let policy = machine.policy("fs: {read: ['/**']}\n");
    assert!(policy.unenforceable.is_empty());
    assert!(
        policy
            .notes
            .iter()
            .any(|(_, n)| n.contains("whole machine"))
    );
    assert!(
        !policy
            .grants
            .iter()
            .any(|g| g.at.starts_with("/proc") || g.at.as_os_str() == "/")
    );
}

#[test]
fn a29_sbx_08_09_only_listed_programs_run() {
    let machine = Machine::new();
    let fork = |yaml: &str| match machine.policy(yaml).exec {
        Exec::Listed { fork, .. } => fork,
        Exec::Visible => panic!("AIP-29 lists programs"),
    };
    assert!(!fork("exec: {allow: false, spawn: [other]}\n"));
    assert!(!fork("fs: {}\n"));
    assert!(fork("exec: {allow: true}\n"));
    let policy = machine.policy("exec: {allow: false, spawn: [other]}\n");
    assert!(machine.runs(&policy, "bin/tool") && !machine.runs(&policy, "bin/other"));
    assert_eq!(machine.sees(&policy, "bin/other"), "-");
    let policy = machine.policy("exec: {allow: true, spawn: [other, no-such-program]}\n");
    assert!(machine.runs(&policy, "bin/tool") && machine.runs(&policy, "bin/other"));
    assert!(!machine.runs(&policy, "bin/third"));
    assert_eq!(machine.sees(&policy, "bin/third"), "-");
    assert!(
        policy
            .ineffective
            .iter()
            .any(|(c, _)| c.text.contains("no-such-program"))
    );
    let policy = machine.policy("exec: {allow: true, spawn: ['*']}\n");
    assert!(unenforceable(&policy)[0].contains("not patterns"));
}

#[test]
fn programs_stay_read_only_and_libraries_are_single_files() {
    let machine = Machine::new();
    let policy = machine.policy("fs: {write: ['../bin/**', ../bin/tool]}\n");
    assert_eq!(machine.sees(&policy, "bin/tool"), "rx");
    assert_eq!(machine.sees(&policy, "bin/other"), "w");
    for grant in policy.grants.iter().filter(|g| g.exec) {
        assert!(grant.source.is_file(), "{}", grant.source.display());
        assert_eq!(grant.access, crate::policy::Access::Read);
    }
}

#[test]
fn denials_also_hide_system_files() {
    let machine = Machine::new();
    let open = machine.policy(QUIET);
    let closed = machine.policy("fs: {deny: ['/etc/**']}\n");
    let passwd = std::path::Path::new("/etc/passwd");
    if passwd.exists() {
        assert!(open.access(passwd).is_some());
    }
    assert!(closed.access(passwd).is_none());
    assert!(
        closed.unenforceable.is_empty(),
        "{:?}",
        closed.unenforceable
    );
    for secret in [
        "/etc/shadow",
        "/etc/sudoers",
        "/etc/ssl/private/x",
        "/root/.ssh",
        "/home",
    ] {
        assert!(
            open.access(std::path::Path::new(secret)).is_none(),
            "{secret}"
        );
    }
    let policy = machine.policy("fs: {deny: [/bin/sh]}\n");
    assert!(unenforceable(&policy)[0].contains("needs to start"));
}

#[test]
fn a29_sbx_10_11_only_declared_variables_are_set() {
    agentproto_suites::proves!("A29-SBX-10", "A29-SBX-11");
    let mut machine = Machine::new();
    for (name, text) in [
        ("GH_TOKEN", "t"),
        ("GH_HOST", "h"),
        ("SECRET", "s"),
        ("LANG", "C"),
        ("FORCED", "host"),
    ] {
        machine.env.push((name.into(), text.into()));
    }
    machine.extra.push(("ADDED".into(), "last".into()));
    let policy =
        machine.policy("env: {pass: ['GH_*', FORCED, MISSING], set: {FORCED: '1'}}\nfs: {}\n");
    let get = |name| value(&policy, name);
    assert_eq!(get("GH_TOKEN").as_deref(), Some("t"));
    assert_eq!(get("GH_HOST").as_deref(), Some("h"));
    assert_eq!(get("FORCED").as_deref(), Some("1"));
    assert_eq!(get("LANG").as_deref(), Some("C"));
    assert_eq!(get("ADDED").as_deref(), Some("last"));
    assert_eq!(get("TMPDIR").as_deref(), Some("/tmp"));
    assert_eq!(get("SECRET"), None);
    assert_eq!(get("MISSING"), None);
    let mut names: Vec<_> = policy
        .env
        .iter()
        .map(|(n, _)| n.to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert_eq!(
        names,
        [
            "ADDED", "FORCED", "GH_HOST", "GH_TOKEN", "HOME", "LANG", "PATH", "TMPDIR"
        ]
    );
}

#[test]
fn a29_sbx_12_a_terminal_can_be_required() {
    agentproto_suites::proves!("A29-SBX-12");
    let machine = Machine::new();
    assert!(
        machine
            .policy("fs: {}\ntty: {required: true}\n")
            .tty
            .is_some()
    );
    assert!(
        machine
            .policy("fs: {}\ntty: {required: false}\n")
            .tty
            .is_none()
    );
}

#[test]
fn a29_sec_01_wrong_types_are_errors_with_a_position() {
    agentproto_suites::proves!("A29-SEC-01");
    let machine = Machine::new();
    for (yaml, place, what) in [
        (
            "fs:\n  read: ~/x\n",
            ":2:9:",
            "`fs.read` must be a list, found a string",
        ),
        (
            "fs:\n  deny: [1]\n",
            ":2:10:",
            "`fs.deny[0]` must be a string, found an integer",
        ),
        ("fs: []\n", ":1:5:", "`fs` must be a mapping, found a list"),
        (
            "exec: {allow: 'false'}\n",
            ":1:15:",
            "`exec.allow` must be true or false, found a string",
        ),
        (
            "fs: {}\nenv: {set: {A: 1}}\n",
            ":2:16:",
            "`env.set.A` must be a string, found an integer",
        ),
        ("fs: {read: ['[a']}\n", ":1:13:", "invalid glob"),
        (
            "network: null\n",
            ":1:10:",
            "`network` must be a mapping, found null",
        ),
        (
            "fs: {}\nenv: {set: {'A=B': x}}\n",
            ":2:20:",
            "not a valid variable name",
        ),
    ] {
        let error = machine.block(yaml).expect_err(yaml);
        assert_eq!(error.code(), "manifest_invalid");
        let text = error.to_string();
        assert!(text.contains(place) && text.contains(what), "{text}");
    }
    for yaml in ["fs: {}\nfs: {}\n", "- a\n", "", "a: b\n", "fs: {", "\u{0}"] {
        assert_eq!(
            machine.block(yaml).expect_err(yaml).code(),
            "manifest_invalid"
        );
    }
    let policy = machine.policy("fs: {denny: ['~/.ssh/**']}\n");
    assert!(unenforceable(&policy)[0].contains("did you mean `deny`?"));
}

#[test]
fn auth_state_of_a_bundle_is_granted() {
    let machine = Machine::new();
    machine.file("home/.config/gh/hosts.yml", "");
    machine.file(
        "bundle/CLI.md",
        "---\nname: gh\nbin: gh\nauth: {state: {paths: ['~/.config/gh']}}\nsandbox: {network: {}, fs: {}, exec: {allow: false}}\n---\n",
    );
    let policy = machine.resolve("bundle/CLI.md").expect("a policy");
    assert_eq!(machine.sees(&policy, "home/.config/gh/hosts.yml"), "w");
    assert_eq!(machine.sees(&policy, "home/.config/other"), "-");
}

#[test]
fn missing_programs_and_manifests_are_errors() {
    let machine = Machine::new();
    machine.file("bundle/policy.yaml", QUIET);
    std::fs::remove_file(machine.root.join("bin/tool")).expect("removed");
    let error = machine.resolve("bundle/policy.yaml").expect_err("none");
    assert_eq!(error.code(), "program_not_found");
    let error = machine.resolve("bundle/none.yaml").expect_err("none");
    assert_eq!(error.code(), "manifest_unreadable");
}

#[test]
fn too_many_matches_are_refused() {
    let machine = Machine::new();
    for i in 0..2100 {
        machine.file(&format!("work/many/{i}.txt"), "");
    }
    let policy = machine.policy("fs: {read: ['many/*.txt']}\n");
    assert!(unenforceable(&policy)[0].contains("too many to show"));
    let policy = machine.policy("fs: {read: ['many/**'], deny: ['many/*.txt']}\n");
    assert!(unenforceable(&policy)[0].contains("too many to hide"));
    let policy = machine.policy("fs: {read: ['many/1?.txt']}\n");
    assert!(policy.unenforceable.is_empty());
}

#[test]
fn passing_everything_gives_a_note() {
    let mut machine = Machine::new();
    machine.env.push(("SECRET".into(), "s".into()));
    let policy = machine.policy("fs: {}\nenv: {pass: ['*', LD_PRELOAD]}\n");
    assert_eq!(value(&policy, "SECRET").as_deref(), Some("s"));
    assert_eq!(
        policy
            .notes
            .iter()
            .filter(|(c, _)| c.text.starts_with("env.pass"))
            .count(),
        2
    );
}
