//! Rule `install-extract-bin-traversal`: `extract_bin` points outside the archive.

use super::platforms::is_absolute;
use super::{CLI_AND_AGENT_CLI, METHODS};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{Level, Rule};
use agentproto_manifest::Node;
use agentproto_text::truncate;

pub static INSTALL_EXTRACT_BIN_TRAVERSAL: Rule = Rule {
    slug: "install-extract-bin-traversal",
    title: "`extract_bin` points outside the archive",
    level: Level::Derived,
    source: METHODS,
    doctypes: CLI_AND_AGENT_CLI,
    docs: include_str!("install-extract-bin-traversal.md"),
    ..Rule::BASE
};

pub(super) fn extract_bin<'d>(ctx: &RuleContext<'d>, method: &'d Node) {
    let Some(node) = method.get("extract_bin") else {
        return;
    };
    let Some(path) = node.as_str() else {
        return;
    };
    let climbs = path.split(['/', '\\']).any(|part| part == "..");
    if climbs || is_absolute(path) {
        ctx.report(
            FindingDraft::new(
                &INSTALL_EXTRACT_BIN_TRAVERSAL,
                node,
                format!("`{}` points outside the archive", truncate(path, 60)),
            )
            .help("write the path of the binary inside the archive, without `..` and without a leading slash"),
        );
    }
}
