//! Rule `install-npm-unpinned`: a package is fetched at each start without a fixed version.

use super::{CLI_AND_AGENT_CLI, METHODS};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{FixKind, Level, Rule, Scope, Severity};
use agentproto_manifest::Node;
use agentproto_text::truncate;

pub static INSTALL_NPM_UNPINNED: Rule = Rule {
    slug: "install-npm-unpinned",
    title: "A package is fetched at each start without a fixed version",
    severity: Severity::Info,
    level: Level::Derived,
    source: METHODS,
    doctypes: CLI_AND_AGENT_CLI,
    scope: Scope::CrossField,
    fix: FixKind::Suggest,
    docs: include_str!("install-npm-unpinned.md"),
    ..Rule::BASE
};

/// Reports a package that the launcher fetches at each start without a fixed version.
pub(super) fn unpinned(ctx: &RuleContext<'_>, launcher: &str) {
    let mut arguments = ctx.root.get("bin_args").map_or(&[][..], Node::items).iter();
    while let Some(node) = arguments.next() {
        let Some(argument) = node.as_str() else {
            return;
        };
        let (text, node) = match argument {
            "-p" | "--package" => match arguments.next() {
                Some(next) => (next.as_str().unwrap_or(""), next),
                None => return,
            },
            _ => match argument.strip_prefix("--package=") {
                Some(package) => (package, node),
                None if argument.starts_with('-') => continue,
                None => (argument, node),
            },
        };
        let version = text.get(1..).and_then(|rest| rest.split_once('@'));
        let pinned = version.is_some_and(|(_, v)| v.contains(|c: char| c.is_ascii_digit()));
        if is_package(text) && !pinned {
            ctx.report(
                FindingDraft::new(
                    &INSTALL_NPM_UNPINNED,
                    node,
                    format!(
                        "`{launcher}` fetches `{}` without a version, so each start may run a different version",
                        truncate(text, 60)
                    ),
                )
                .help("add the version that the manifest was tested with, for example `package@1.2.3`"),
            );
        }
        return;
    }
}

/// Whether the text is a name in the npm registry, and not a path, a URL or a template.
fn is_package(text: &str) -> bool {
    !text.is_empty()
        && !text.contains(['{', '$', ':'])
        && !text.starts_with(['.', '/'])
        && (text.starts_with('@') || !text.contains('/'))
}
