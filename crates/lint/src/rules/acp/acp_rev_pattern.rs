//! Rule `acp-rev-pattern`: `acp_rev` is not a commit hash.

use super::{ACP, aip44};
use crate::context::FindingDraft;
use crate::rule::Rule;
use agentproto_manifest::Node;

pub static ACP_REV_PATTERN: Rule = Rule {
    slug: "acp-rev-pattern",
    report: Some(|ctx, v| ctx.report(revision_pattern(v.node))),
    title: "`acp_rev` is not a commit hash",
    source: aip44("ACP.md frontmatter"),
    decides: &["A44-FM-07"],
    doctypes: ACP,
    docs: include_str!("acp-rev-pattern.md"),
    ..Rule::BASE
};

fn revision_pattern<'d>(node: &'d Node) -> FindingDraft<'d> {
    let text = node.as_str().unwrap_or_default();
    let draft = |message| FindingDraft::new(&ACP_REV_PATTERN, node, message);
    let hex = !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit());
    if hex && text.len() < 7 {
        draft(format!(
            "`acp_rev` must have at least 7 digits, found {}",
            text.len()
        ))
        .help("write all 40 digits of the commit")
    } else if hex && text.len() > 40 {
        draft(format!(
            "`acp_rev` must have at most 40 digits, found {}",
            text.len()
        ))
        .help("copy the commit again")
    } else if hex {
        draft("`acp_rev` must be in lower case".to_owned())
            .help(format!("write \"{}\"", text.to_ascii_lowercase()))
    } else {
        draft("`acp_rev` is not a hexadecimal commit hash".to_owned()).help(
            "write the full commit hash (40 hexadecimal digits) of the ACP repository, not a tag or branch",
        )
    }
}
