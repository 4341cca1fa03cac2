//! Tests for tools of a bundle: they inherit its sandbox, may narrow it, and never widen it.

use super::Machine;
use super::machine::value;
use crate::policy::{Exec, Policy, PolicyError};

fn tool(sandbox: &str) -> (Machine, Result<Policy, PolicyError>) {
    let mut machine = Machine::new();
    machine.env.push(("GH_TOKEN".into(), "t".into()));
    machine.dir("home/.config/gh/sub");
    machine.file(
        "bundle/CLI.md",
        "---\nname: gh\nbin: gh\ncommands: {pr: ./tools/pr/TOOL.md}\nsandbox:\n  network: {egress: ['*.x.io', y.io]}\n  fs: {read: ['~/.config/**'], write: ['~/.config/gh/**'], deny: ['~/.ssh/**']}\n  exec: {allow: true, spawn: [other]}\n  env: {pass: ['GH_*'], set: {A: '1'}}\n---\n",
    );
    machine.file(
        "bundle/tools/pr/TOOL.md",
        &format!("---\nname: pr\nrunner: {{cli: ../../CLI.md, argv: [pr]}}\n{sandbox}---\n"),
    );
    let policy = machine.resolve("bundle/tools/pr/TOOL.md");
    (machine, policy)
}

#[test]
fn a29_inherit_01_a_tool_without_a_block_has_the_bundles_sandbox() {
    agentproto_suites::proves!("A29-INHERIT-01");
    let (machine, policy) = tool("");
    let policy = policy.expect("a policy");
    assert_eq!(policy.egress.len(), 2);
    assert_eq!(machine.sees(&policy, "home/.config/gh/x"), "w");
    assert!(machine.runs(&policy, "bin/other"));
    assert_eq!(value(&policy, "A").as_deref(), Some("1"));
    assert_eq!(value(&policy, "GH_TOKEN").as_deref(), Some("t"));
}

#[test]
fn a29_inherit_02_a_tool_may_narrow() {
    agentproto_suites::proves!("A29-INHERIT-02");
    let (machine, policy) = tool(
        "sandbox: {network: {egress: [a.x.io]}, fs: {write: []}, exec: {allow: false}, env: {pass: [GH_HOST]}}\n",
    );
    let policy = policy.expect("a policy");
    assert_eq!(policy.egress.len(), 1);
    assert_eq!(machine.sees(&policy, "home/.config/gh/x"), "r");
    assert!(matches!(policy.exec, Exec::Listed { fork: false, .. }));
    assert!(!machine.runs(&policy, "bin/other"));
    assert_eq!(value(&policy, "A").as_deref(), Some("1"));
    assert_eq!(value(&policy, "GH_TOKEN"), None);
}

#[test]
fn a29_inherit_03_04_a_clause_that_widens_is_refused() {
    agentproto_suites::proves!("A29-INHERIT-03");
    for (sandbox, clause) in [
        ("{network: {egress: [z.io]}}", "network.egress z.io"),
        (
            "{network: {ingress: ['http://x/']}}",
            "network.ingress http://x/",
        ),
        ("{fs: {read: ['~/**']}}", "fs.read ~/**"),
        ("{fs: {write: ['~/.config/**']}}", "fs.write ~/.config/**"),
        ("{fs: {deny: []}}", "fs.deny ~/.ssh/**"),
        ("{exec: {spawn: [third]}}", "exec.spawn third"),
        ("{env: {pass: [SECRET]}}", "env.pass SECRET"),
        ("{env: {set: {A: '2'}}}", "env.set.A"),
        ("{env: {set: {B: '2'}}}", "env.set.B"),
        ("{tty: {required: true}}", "tty.required true"),
    ] {
        let (_, policy) = tool(&format!("sandbox: {sandbox}\n"));
        let error = policy.expect_err(sandbox);
        assert_eq!(error.code(), "sandbox_widens", "{sandbox}");
        assert!(error.to_string().contains(clause), "{error}");
    }
    for sandbox in [
        "{fs: {deny: ['~/.ssh/**', ~/x]}}",
        "{fs: {write: ['~/.config/gh/sub/**']}}",
        "{env: {set: {GH_HOST: x}}}",
        "{exec: {allow: true, spawn: []}}",
        "{}",
    ] {
        let (_, policy) = tool(&format!("sandbox: {sandbox}\n"));
        assert!(policy.is_ok(), "{sandbox}: {:?}", policy.err());
    }
}

#[test]
fn a_tool_without_its_bundle_has_no_sandbox() {
    let machine = Machine::new();
    machine.file(
        "bundle/t/TOOL.md",
        "---\nname: pr\nrunner: {cli: ./CLI.md}\n---\n",
    );
    let error = machine.resolve("bundle/t/TOOL.md").expect_err("none");
    assert_eq!(error.code(), "sandbox_ref_unresolvable");
}
