//! Read access to the home directory includes the SSH keys.

use super::SANDBOX;
use super::values::literal_head;
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{FixKind, Level, Rule, Scope, Severity};
use agentproto_manifest::{Doctype, Node, globs};

pub static SSH_NOT_DENIED: Rule = Rule {
    slug: "sb29-ssh-not-denied",
    title: "Read access to the home directory includes the SSH keys",
    severity: Severity::Info,
    level: Level::Derived,
    source: SANDBOX,
    doctypes: &[Doctype::Cli],
    scope: Scope::CrossField,
    fix: FixKind::Suggest,
    docs: include_str!("sb29-ssh-not-denied.md"),
    ..Rule::BASE
};

/// Typical paths of SSH keys: with `~`, and in the usual home directories.
const KEYS: [&str; 4] = [
    "~/.ssh/id_ed25519",
    "/root/.ssh/id_ed25519",
    "/home/user/.ssh/id_ed25519",
    "/Users/user/.ssh/id_ed25519",
];

pub(super) fn check_ssh<'d>(ctx: &RuleContext<'d>, read: &'d Node, deny: Option<&'d Node>) {
    for (glob, node) in read.strings() {
        // A grant that names `.ssh` is intentional. Only a broad grant is an oversight.
        if glob.contains(".ssh") || !glob.starts_with(['~', '/', '$']) {
            continue;
        }
        let head = literal_head(glob);
        let reached = KEYS.iter().find(|key| {
            (key.starts_with(head) || glob.starts_with('$')) && globs::matches(glob, key)
        });
        let Some(key) = reached else {
            continue;
        };
        let denied = deny.is_some_and(|deny| {
            deny.strings()
                .any(|(d, _)| globs::matches(d, key) || globs::matches(d, KEYS[0]))
        });
        if !denied {
            let report = FindingDraft::new(
                &SSH_NOT_DENIED,
                node,
                format!("`{glob}` lets the command read the SSH keys"),
            )
            .help("add `~/.ssh/**` to `sandbox.fs.deny`");
            ctx.report(report);
            return;
        }
    }
}
