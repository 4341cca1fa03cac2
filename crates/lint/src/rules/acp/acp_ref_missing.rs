//! Rule `acp-ref-missing`: ACP.md names a file that does not exist.

use super::{ACP, aip44};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{Rule, Scope};
use agentproto_manifest::Resolution;
use agentproto_text::closest_of;

pub static ACP_REF_MISSING: Rule = Rule {
    slug: "acp-ref-missing",
    title: "ACP.md names a file that does not exist",
    source: aip44("ACP.md frontmatter"),
    decides: &["A44-FM-10", "A44-FM-11", "A44-FM-12"],
    doctypes: ACP,
    scope: Scope::CrossFile,
    docs: include_str!("acp-ref-missing.md"),
    ..Rule::BASE
};

pub(super) fn references(ctx: &RuleContext<'_>) {
    for reference in ctx.refs() {
        let Resolution::Missing(target) = &reference.target else {
            continue;
        };
        let expected = reference.site.role.file_name();
        let name = |path: &std::path::Path| {
            path.file_name()
                .map(|n| n.to_string_lossy().into_owned())
                .unwrap_or_default()
        };
        let mut draft = FindingDraft::new(
            &ACP_REF_MISSING,
            reference.site.node,
            format!("`{}` does not exist", reference.site.text),
        );
        let siblings = target.parent().map(|dir| ctx.workspace.files.list(dir));
        let siblings = siblings.unwrap_or_default();
        draft = match closest_of(&name(target), siblings.iter().map(String::as_str)) {
            Some(near) => draft.help(format!(
                "did you mean `{near}`, which is in the same directory?"
            )),
            None => draft.help(format!(
                "write the path of {expected}, relative to this file, or remove the field"
            )),
        };
        ctx.report(draft);
    }
}
