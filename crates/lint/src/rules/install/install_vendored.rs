//! Rules `install-vendored-missing` and `install-vendored-traversal`.

use super::platforms::is_absolute;
use super::{CLI_AND_AGENT_CLI, METHODS};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{Level, Rule, Scope, Source};
use agentproto_manifest::{Node, PathKind, normalize};
use agentproto_text::truncate;

pub static INSTALL_VENDORED_MISSING: Rule = Rule {
    slug: "install-vendored-missing",
    title: "The vendored binary is missing or not executable",
    source: ADAPTER,
    decides: &["A29-INSTALL-15"],
    doctypes: CLI_AND_AGENT_CLI,
    scope: Scope::CrossFile,
    docs: include_str!("install-vendored-missing.md"),
    ..Rule::BASE
};

pub static INSTALL_VENDORED_TRAVERSAL: Rule = Rule {
    slug: "install-vendored-traversal",
    title: "The vendored binary is outside the workspace",
    level: Level::Derived,
    source: METHODS,
    doctypes: CLI_AND_AGENT_CLI,
    scope: Scope::CrossFile,
    docs: include_str!("install-vendored-traversal.md"),
    ..Rule::BASE
};

const ADAPTER: Source = Source {
    spec: "AIP-29",
    section: "ADAPTER: Install method dispatch",
};

pub(super) fn vendored<'d>(ctx: &RuleContext<'d>, method: &'d Node) {
    let Some(node) = method.get("path") else {
        return;
    };
    let Some(path) = node.as_str().filter(|path| !path.is_empty()) else {
        return;
    };
    let target = normalize(&ctx.doc.dir().join(path));
    if is_absolute(path) || !ctx.workspace.contains(&target) {
        ctx.report(
            FindingDraft::new(
                &INSTALL_VENDORED_TRAVERSAL,
                node,
                format!("`{}` is outside the workspace", truncate(path, 60)),
            )
            .help("ship the binary inside the bundle, for example as `./bin/my-tool`"),
        );
        return;
    }
    if !ctx.on(&INSTALL_VENDORED_MISSING) {
        return;
    }
    let (message, help) = match ctx.workspace.files.kind(&target) {
        Some(PathKind::File { executable: true }) => return,
        Some(PathKind::File { executable: false }) => (
            "is not executable",
            format!("run `chmod +x {}`", truncate(path, 60)),
        ),
        Some(PathKind::Directory) => (
            "is a directory",
            "write the path of the binary itself, relative to this file".to_owned(),
        ),
        None => (
            "does not exist",
            "correct the path: it is relative to the directory of this file".to_owned(),
        ),
    };
    ctx.report(
        FindingDraft::new(
            &INSTALL_VENDORED_MISSING,
            node,
            format!("the vendored binary `{}` {message}", truncate(path, 60)),
        )
        .help(help),
    );
}
