//! `sb36-mount-at`, `sb36-mount-overlap`.

use super::{BLOCKS, aip36, covers};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{Level, Rule, Scope, Severity};
use agentproto_manifest::Node;

pub static SB36_MOUNT_AT: Rule = Rule {
    slug: "sb36-mount-at",
    // The check below reports invalid paths.
    report: Some(|_, _| {}),
    title: "A mount point is not an absolute path",
    source: aip36("Mounts"),
    decides: &["A45-SBX-02"],
    doctypes: BLOCKS,
    docs: include_str!("sb36-mount-at.md"),
    ..Rule::BASE
};

pub static SB36_MOUNT_OVERLAP: Rule = Rule {
    slug: "sb36-mount-overlap",
    title: "A mount hides an earlier one",
    severity: Severity::Warning,
    level: Level::Derived,
    source: aip36("Mounts"),
    doctypes: BLOCKS,
    scope: Scope::CrossField,
    docs: include_str!("sb36-mount-overlap.md"),
    ..Rule::BASE
};

/// Each mount is compared with at most this many earlier mounts, so that long lists stay fast.
const MAX_COMPARED_MOUNTS: usize = 500;

pub(super) fn mounts<'d>(ctx: &RuleContext<'d>, block: &'d Node) {
    let mounts = block.get("mounts").map_or(&[][..], Node::items);
    for (i, mount) in mounts.iter().enumerate() {
        let Some(at) = mount.get("at") else {
            continue;
        };
        let Some(path) = at.as_str() else {
            continue;
        };
        let problem = if !path.starts_with('/') {
            Some("is not absolute")
        } else if path.split('/').any(|part| part == "..") {
            Some("contains `..`")
        } else {
            None
        };
        if let Some(problem) = problem {
            ctx.report(
                FindingDraft::new(
                    &SB36_MOUNT_AT,
                    at,
                    format!("the mount point `{path}` {problem}"),
                )
                .help("write the full path inside the sandbox, such as `/workspace`"),
            );
            continue;
        }
        let earlier = mounts.iter().take(i.min(MAX_COMPARED_MOUNTS));
        let hidden = earlier
            .filter_map(|m| m.get("at"))
            .find(|other| other.as_str().is_some_and(|other| covers(path, other)));
        if let Some(hidden) = hidden {
            ctx.report(
                FindingDraft::new(
                    &SB36_MOUNT_OVERLAP,
                    at,
                    format!("the mount at `{path}` hides an earlier one"),
                )
                .help("mount the outer path first, and each path once")
                .nearby(hidden.span, "hidden mount"),
            );
        }
    }
}
