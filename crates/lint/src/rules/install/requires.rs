//! Rules `install-os-coverage` and `requires-arch-prose`.

use super::platforms::{OPERATING_SYSTEMS, supports_os};
use super::{CLI_AND_AGENT_CLI, METHODS, OPTIONAL};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{Level, Rule, Scope, Severity};
use agentproto_manifest::Node;

pub static INSTALL_OS_COVERAGE: Rule = Rule {
    slug: "install-os-coverage",
    title: "No install method works on an operating system in `requires.os`",
    severity: Severity::Warning,
    level: Level::Derived,
    source: METHODS,
    doctypes: CLI_AND_AGENT_CLI,
    scope: Scope::CrossField,
    docs: include_str!("install-os-coverage.md"),
    ..Rule::BASE
};

pub static REQUIRES_ARCH_PROSE: Rule = Rule {
    slug: "requires-arch-prose",
    title: "An architecture is in the schema of AIP-29 but not in its prose",
    severity: Severity::Info,
    level: Level::May,
    source: OPTIONAL,
    decides: &["A29-OPT-11"],
    doctypes: CLI_AND_AGENT_CLI,
    docs: include_str!("requires-arch-prose.md"),
    ..Rule::BASE
};

pub(super) fn requires(ctx: &RuleContext<'_>, methods: &[Node]) {
    let Some(requires) = ctx.root.get("requires") else {
        return;
    };
    for (arch, node) in requires.get("arch").into_iter().flat_map(Node::strings) {
        if matches!(arch, "x86" | "arm") {
            ctx.report(
                FindingDraft::new(
                    &REQUIRES_ARCH_PROSE,
                    node,
                    format!("`{arch}` is in the schema of AIP-29, but not in its prose"),
                )
                .help("prefer `x64` and `arm64`: a host that follows the prose accepts only these"),
            );
        }
    }
    let Some(os) = requires.get("os") else {
        return;
    };
    let known = os
        .strings()
        .all(|(name, _)| OPERATING_SYSTEMS.contains(&name));
    if !known || methods.is_empty() {
        return;
    }
    for (name, node) in os.strings() {
        if !methods.iter().any(|method| supports_os(method, name)) {
            ctx.report(
                FindingDraft::new(
                    &INSTALL_OS_COVERAGE,
                    node,
                    format!("no install method works on `{name}`"),
                )
                .help(format!(
                    "add a method for `{name}`, or remove it from `requires.os`"
                )),
            );
        }
    }
}
