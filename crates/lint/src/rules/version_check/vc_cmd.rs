//! Rules `vc-cmd-not-bin`, `vc-cmd-registry-probe` and `vc-cmd-shell-features`.

use super::{CLI_AND_AGENT_CLI, VERSION, is_assignment, is_registry_probe, shell_feature};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{FixKind, Level, Rule, Scope, Severity};
use crate::rules::install::is_valid_bin;
use agentproto_manifest::Node;
use agentproto_text::{base_name, truncate};

pub static VC_CMD_NOT_BIN: Rule = Rule {
    slug: "vc-cmd-not-bin",
    title: "`version_check.cmd` does not run the binary",
    severity: Severity::Warning,
    level: Level::May,
    source: VERSION,
    decides: &["A29-VER-01"],
    doctypes: CLI_AND_AGENT_CLI,
    scope: Scope::CrossField,
    fix: FixKind::Suggest,
    docs: include_str!("vc-cmd-not-bin.md"),
    ..Rule::BASE
};

pub static VC_CMD_REGISTRY_PROBE: Rule = Rule {
    slug: "vc-cmd-registry-probe",
    title: "`version_check.cmd` queries a registry instead of the installed binary",
    severity: Severity::Warning,
    level: Level::Derived,
    source: VERSION,
    doctypes: CLI_AND_AGENT_CLI,
    scope: Scope::CrossField,
    fix: FixKind::Suggest,
    docs: include_str!("vc-cmd-registry-probe.md"),
    ..Rule::BASE
};

pub static VC_CMD_SHELL_FEATURES: Rule = Rule {
    slug: "vc-cmd-shell-features",
    title: "`version_check.cmd` requires a shell",
    severity: Severity::Warning,
    level: Level::Derived,
    source: VERSION,
    doctypes: CLI_AND_AGENT_CLI,
    docs: include_str!("vc-cmd-shell-features.md"),
    ..Rule::BASE
};

pub(super) fn cmd<'d>(ctx: &RuleContext<'d>, node: &'d Node, text: &str) {
    let shell = shell_feature(text);
    if let Some(feature) = shell {
        ctx.report(
            FindingDraft::new(
                &VC_CMD_SHELL_FEATURES,
                node,
                format!("`version_check.cmd` uses {feature}, which requires a shell"),
            )
            .help("run only the binary, and use `parse` to extract the version from its output"),
        );
    }
    let mut words = text.split_whitespace().skip_while(|w| is_assignment(w));
    let Some(first) = words.next() else {
        return;
    };
    if is_registry_probe(base_name(first), words) && ctx.on(&VC_CMD_REGISTRY_PROBE) {
        ctx.report(
            FindingDraft::new(
                &VC_CMD_REGISTRY_PROBE,
                node,
                "`version_check.cmd` queries a package registry, so it passes even if nothing is installed",
            )
            .help("run the installed binary, for example `mytool --version`"),
        );
        return;
    }
    let Some(bin_node) = ctx.root.get("bin") else {
        return;
    };
    // An invalid `bin` has its own finding.
    let Some(bin) = bin_node.as_str().filter(|b| is_valid_bin(b)).map(base_name) else {
        return;
    };
    let runs_bin = base_name(first) == bin
        || (shell.is_some() && text.split_whitespace().any(|word| base_name(word) == bin));
    if !runs_bin && !bin.is_empty() {
        ctx.report(
            FindingDraft::new(
                &VC_CMD_NOT_BIN,
                node,
                format!(
                    "`version_check.cmd` runs `{}`, but the binary is `{bin}`",
                    truncate(first, 40)
                ),
            )
            .help(format!(
                "run the binary itself, for example `{bin} --version`"
            ))
            .nearby(bin_node.span, "the binary whose version is checked"),
        );
    }
}
