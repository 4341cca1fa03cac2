//! Tests for the AIP-36 block, and for how an AGENT-CLI.md refers to it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Machine;
use super::machine::{unenforceable, value};
use crate::policy::{Exec, LimitKind, Policy, PolicyError, SandboxSpec, resolve};

const LOCAL: &str = "provider: local\nconfig: {}\n";

fn agent(machine: &Machine, sandbox: &str) -> Result<Policy, PolicyError> {
    let text = format!(
        "---\nname: a\nbin: tool\nprotocol: acp\nauth: {{state: {{paths: ['~/.agent/**'], env: [KEY]}}}}\nsandbox: {sandbox}\n---\n"
    );
    machine.file("bundle/AGENT-CLI.md", &text);
    machine.resolve("bundle/AGENT-CLI.md")
}

#[test]
fn a45_sbx_02_a_local_sandbox_shows_the_system_and_the_workspace() {
    let machine = Machine::new();
    machine.file("home/.agent/auth.json", "");
    machine.file("home/.ssh/id", "");
    machine.file("work/x", "");
    let policy = agent(&machine, "{provider: local, config: {}}").expect("a policy");
    assert_eq!(policy.spec, SandboxSpec::Aip36);
    assert!(
        policy.unenforceable.is_empty(),
        "{:?}",
        policy.unenforceable
    );
    assert!(matches!(policy.exec, Exec::Visible));
    for (name, expected) in [
        ("work/x", "wx"),
        ("home/.agent/auth.json", "w"),
        ("home/.ssh/id", "-"),
        ("home", "-"),
        ("bundle/adapter", "rx"),
        ("bin/tool", "rx"),
        ("bin/other", "-"),
    ] {
        assert_eq!(machine.sees(&policy, name), expected, "{name}");
    }
    let system = policy.access(Path::new("/usr/bin/env")).expect("shown");
    assert!(system.exec);
    assert!(policy.access(Path::new("/etc/shadow")).is_none());
    assert!(policy.access(Path::new("/root/.ssh")).is_none());
    assert_eq!(policy.cwd, machine.root.join("work"));
    assert!(policy.egress.is_empty());
}

#[test]
fn the_agent_cannot_change_its_manifest() {
    let machine = Machine::new();
    machine.file(
        "work/SANDBOX.md",
        &format!("---\nschema: sandbox/v1\n{LOCAL}---\n"),
    );
    let target = crate::policy::SandboxManifest::load(&machine.root.join("work/SANDBOX.md"))
        .expect("a target");
    let mut around = machine.host_context();
    around.bundle = machine.root.join("work");
    let policy = resolve(&target, &around, &["tool".into()]).expect("a policy");
    assert_eq!(machine.sees(&policy, "work/SANDBOX.md"), "r");
    assert_eq!(machine.sees(&policy, "work/other"), "wx");
}

#[test]
fn a45_sbx_02_mounts_limits_environment_and_hosts_are_resolved() {
    let mut machine = Machine::new();
    for name in ["KEY", "NODE_ENV", "OTHER"] {
        machine.env.push((name.into(), "v".into()));
    }
    machine.dir("work/sub");
    let policy = machine.policy(
        "provider: local
config: {cwd: sub}
limits: {timeout_ms: 30000, memory_mb: 64, cpu_ms: 500}
env: {auth: {ref: ./SECRETS.md, state: {env: [KEY]}}, passthrough: [NODE_ENV]}
network: {egress: [api.x.io]}
mounts: [{source: workspace, at: /workspace}, {source: workspace, at: /ro, mode: read-only}]
lifecycle: {pause_after_idle_ms: 1}
",
    );
    assert!(
        policy.unenforceable.is_empty(),
        "{:?}",
        policy.unenforceable
    );
    let see = |path: &str| {
        policy
            .access(Path::new(path))
            .map(|g| (g.source.clone(), g.access))
    };
    use crate::policy::Access::{Read, Write};
    let work = machine.root.join("work");
    assert_eq!(see("/workspace/x"), Some((work.clone(), Write)));
    assert_eq!(see("/ro/x"), Some((work, Read)));
    assert_eq!(machine.sees(&policy, "work/x"), "-");
    assert_eq!(policy.cwd, PathBuf::from("/workspace/sub"));
    let limits: Vec<_> = policy.limits.iter().map(|l| l.kind).collect();
    assert_eq!(
        limits,
        [
            LimitKind::Timeout(Duration::from_secs(30)),
            LimitKind::Memory { bytes: 64 << 20 },
            LimitKind::Cpu(Duration::from_millis(500)),
        ]
    );
    assert_eq!(value(&policy, "KEY").as_deref(), Some("v"));
    assert_eq!(value(&policy, "NODE_ENV").as_deref(), Some("v"));
    assert_eq!(value(&policy, "OTHER"), None);
    assert_eq!(policy.egress.len(), 1);
    assert!(policy.notes.iter().any(|(c, _)| c.text == "lifecycle"));
}

#[test]
fn a45_sbx_02_unenforceable_clauses_have_a_reason() {
    let machine = Machine::new();
    for (yaml, why) in [
        ("mounts: [{source: {ref: '@a/libs'}, at: /v}]", "`@a/libs`"),
        ("mounts: [{source: elsewhere, at: /v}]", "`elsewhere`"),
        (
            "mounts: [{source: workspace, at: work}]",
            "not an absolute path",
        ),
        ("mounts: [{source: workspace, at: /a/../b}]", "`..`"),
        ("mounts: [{source: workspace, at: /}]", "the root"),
        (
            "mounts: [{source: workspace, at: /usr/x}]",
            "a system directory",
        ),
        ("config: {cwd: /etc}", "outside the workspace"),
        ("config: {cwd: ../home}", "outside the workspace"),
        ("config: {cwd: nowhere}", "no such directory"),
        ("limits: {disk_mb: 1}", "no such key"),
        ("env: {set: {A: b}}", "no such key"),
        ("network: {deny: [x]}", "no such key"),
        ("policy: {}", "AIP-38"),
        ("fs: {}", "no such key"),
    ] {
        let policy = machine.policy(&format!("provider: local\n{yaml}\n"));
        assert!(
            unenforceable(&policy)[0].contains(why),
            "{yaml}: {:?}",
            unenforceable(&policy)
        );
    }
}

#[test]
fn a45_sbx_03_other_providers_and_read_only_are_refused() {
    let machine = Machine::new();
    for provider in ["mastra-e2b", "mastra-modal", "node-permission", "own"] {
        let error = machine
            .block(&format!("provider: {provider}\nconfig: {{}}\n"))
            .expect_err(provider);
        assert_eq!(error.code(), "sandbox_unsupported_provider");
        assert!(error.to_string().contains(provider));
    }
    let error = machine
        .block(&format!("{LOCAL}read_only: true\n"))
        .expect_err("refused");
    assert_eq!(error.code(), "sandbox_read_only");
    assert!(machine.block(&format!("{LOCAL}read_only: false\n")).is_ok());
    for yaml in [
        "provider: 1\n",
        "provider: local\nlimits: {memory_mb: 0}\n",
        "provider: local\nmounts: [{at: /x}]\n",
        "provider: local\nmounts: {}\n",
        "provider: local\nmounts: [{source: workspace, at: /x, mode: rw}]\n",
    ] {
        assert_eq!(
            machine.block(yaml).expect_err(yaml).code(),
            "manifest_invalid"
        );
    }
}

#[test]
fn a45_sbx_01_02_the_sandbox_is_inline_or_referenced() {
    let machine = Machine::new();
    machine.file(
        "bundle/SANDBOX.md",
        &format!("---\n{LOCAL}network: {{egress: [x.io]}}\n---\n"),
    );
    for sandbox in [
        "./SANDBOX.md",
        "{ref: ./SANDBOX.md}",
        "{inline: {provider: local, network: {egress: [x.io]}}}",
    ] {
        let policy = agent(&machine, sandbox).expect(sandbox);
        assert_eq!(
            (policy.spec, policy.egress.len()),
            (SandboxSpec::Aip36, 1),
            "{sandbox}"
        );
    }
    let policy = agent(
        &machine,
        "{network: {egress: [x.io]}, fs: {}, exec: {allow: true}}",
    )
    .expect("a policy");
    assert_eq!(policy.spec, SandboxSpec::Aip29);
    for sandbox in [
        "./NONE.md",
        "{ref: '@a/b'}",
        "/etc/SANDBOX.md",
        "{ref: ./AGENT-CLI.md}",
    ] {
        let error = agent(&machine, sandbox).expect_err(sandbox);
        assert_eq!(error.code(), "sandbox_ref_unresolvable", "{sandbox}");
    }
    for sandbox in [
        "{ref: ./SANDBOX.md, inline: {}}",
        "{ref: ./SANDBOX.md, network: {}}",
        "{}",
        "[]",
        "{env: {}}",
    ] {
        let error = agent(&machine, sandbox).expect_err(sandbox);
        assert_eq!(error.code(), "manifest_invalid", "{sandbox}");
    }
}

#[test]
fn an_installation_directory_is_recognized() {
    let machine = Machine::new();
    machine.file("apps/agent/lib/data", "");
    machine.file("apps/secret", "");
    let program = machine.program("apps/agent/bin/run");
    machine.program("loose/run");
    machine.file("loose/secret", "");
    machine.file("bundle/policy.yaml", LOCAL);
    let target = crate::policy::SandboxManifest::load(&machine.root.join("bundle/policy.yaml"))
        .expect("a target");
    let around = machine.host_context();
    let policy = resolve(&target, &around, &[program.into()]).expect("a policy");
    assert_eq!(machine.sees(&policy, "apps/agent/lib/data"), "rx");
    assert_eq!(machine.sees(&policy, "apps/secret"), "-");
    let loose = machine.root.join("loose/run");
    let policy = resolve(&target, &around, &[loose.into()]).expect("a policy");
    assert_eq!(machine.sees(&policy, "loose/run"), "rx");
    assert_eq!(machine.sees(&policy, "loose/secret"), "-");
}

#[test]
fn directories_above_a_read_only_file_cannot_be_moved() {
    let machine = Machine::new();
    machine.file("work/a/b/SANDBOX.md", &format!("---\n{LOCAL}---\n"));
    let policy = machine.resolve("work/a/b/SANDBOX.md").expect("a policy");
    assert_eq!(machine.sees(&policy, "work/a/b/SANDBOX.md"), "r");
    assert_eq!(machine.sees(&policy, "work/a/b/other"), "wx");
    for dir in ["work/a", "work/a/b"] {
        let at = machine.root.join(dir);
        assert!(policy.grants.iter().any(|g| g.at == at), "{dir}");
    }
}
