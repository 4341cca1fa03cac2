//! Tests for `runner` (AIP-17): its limits, and what this host refuses.

use std::time::Duration;

use super::Machine;
use super::machine::unenforceable;
use crate::policy::{LimitKind, Policy, PolicyError};

fn agent(machine: &Machine, limits: &str, runner: &str) -> Result<Policy, PolicyError> {
    let text = format!(
        "---\nname: a\nbin: tool\nprotocol: acp\nsandbox: {{provider: local, config: {{}}{limits}}}\nrunner: {runner}\n---\n"
    );
    machine.file("bundle/AGENT-CLI.md", &text);
    machine.resolve("bundle/AGENT-CLI.md")
}

fn limits(policy: &Policy) -> Vec<LimitKind> {
    policy.limits.iter().map(|limit| limit.kind).collect()
}

#[test]
fn the_lower_limit_applies() {
    let machine = Machine::new();
    let sandbox = ", limits: {memory_mb: 64, cpu_ms: 500}";
    let runner = "{limits: {memory_mb: 32, cpu_ms: 900, timeout_ms: 10}}";
    let policy = agent(&machine, sandbox, runner).expect("a policy");
    assert_eq!(
        limits(&policy),
        [
            LimitKind::Memory { bytes: 32 << 20 },
            LimitKind::Cpu(Duration::from_millis(500)),
            LimitKind::Timeout(Duration::from_millis(10)),
        ]
    );
    let ineffective = policy.ineffective.iter().map(|(c, _)| c.text.as_str());
    let ineffective: Vec<&str> = ineffective.collect();
    assert_eq!(
        ineffective,
        ["limits.memory_mb 64", "runner.limits.cpu_ms 900"]
    );
}

#[test]
fn a_limit_replaces_the_default_of_the_host() {
    let machine = Machine::new();
    let text = "---\nname: a\nid: a\nbin: tool\nsandbox:\n  network: {egress: []}\n  fs: {read: [], write: []}\n  exec: {allow: true}\nrunner: {limits: {memory_mb: 8}}\ncommands: {}\n---\n";
    machine.file("bundle/CLI.md", text);
    let policy = machine.resolve("bundle/CLI.md").expect("a policy");
    let memory = limits(&policy)
        .into_iter()
        .filter(|kind| matches!(kind, LimitKind::Memory { .. }));
    assert_eq!(
        memory.collect::<Vec<_>>(),
        [LimitKind::Memory { bytes: 8 << 20 }]
    );
}

#[test]
fn a_runner_md_is_followed() {
    let machine = Machine::new();
    for text in [
        "---\nlimits: {memory_mb: 8}\n---\n",
        "---\nrunner:\n  limits: {memory_mb: 8}\n---\n",
    ] {
        machine.file("bundle/RUNNER.md", text);
        for runner in ["./RUNNER.md", "{file: ./RUNNER.md}"] {
            let policy = agent(&machine, "", runner).expect("a policy");
            assert_eq!(limits(&policy), [LimitKind::Memory { bytes: 8 << 20 }]);
        }
    }
    for runner in [
        "./NOPE.md",
        "{file: ./NOPE.md}",
        "{ref: x}",
        "{file: 7}",
        "7",
    ] {
        let error = agent(&machine, "", runner).expect_err(runner);
        assert_eq!(error.code(), "manifest_invalid", "{runner}");
    }
}

#[test]
fn what_the_host_cannot_provide_is_unenforceable() {
    let machine = Machine::new();
    for (runner, clause) in [
        ("{engine: docker}", "runner.engine docker: "),
        ("{engine: sandbox, image: x}", "runner.image x: "),
        ("{limits: {gpu: 1}}", "runner.limits.gpu"),
        ("{mood: calm}", "runner.mood"),
    ] {
        let policy = agent(&machine, "", runner).expect("a policy");
        let found = unenforceable(&policy);
        assert_eq!(found.len(), 1, "{runner}: {found:?}");
        assert!(found[0].starts_with(clause), "{found:?}");
    }
    for runner in [
        "{}",
        "{engine: subprocess, image: x}",
        "{engine: sandbox}",
        "{engine: in-process, needs: {npm: ['a@1']}}",
    ] {
        let policy = agent(&machine, "", runner).expect("a policy");
        assert_eq!(unenforceable(&policy), Vec::<String>::new(), "{runner}");
    }
}
