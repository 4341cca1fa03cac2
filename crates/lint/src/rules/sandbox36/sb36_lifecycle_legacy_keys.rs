//! A lifecycle field has an old name.

use super::{BLOCKS, OLD_DESTROY_KEYS, OLD_PAUSE_KEYS, aip36};
use crate::context::{FindingDraft, RuleContext};
use crate::edits;
use crate::finding::{Edit, Safety};
use crate::rule::{FixKind, Rule};
use agentproto_manifest::{Entry, Node};

pub static SB36_LIFECYCLE_LEGACY_KEYS: Rule = Rule {
    slug: "sb36-lifecycle-legacy-keys",
    title: "A lifecycle field has an old name",
    source: aip36("The `sandbox` block"),
    doctypes: BLOCKS,
    fix: FixKind::Safe,
    docs: include_str!("sb36-lifecycle-legacy-keys.md"),
    ..Rule::BASE
};

pub(super) fn lifecycle<'d>(ctx: &RuleContext<'d>, block: &'d Node) {
    let Some(lifecycle) = block.entry("lifecycle") else {
        return;
    };
    for entry in lifecycle.value.entries() {
        let key = entry.key.as_str();
        let (new, value) = if OLD_PAUSE_KEYS.contains(&key) {
            // `idle-N` is in whole seconds, so other values cannot be converted exactly.
            let ms = entry.value.as_int().filter(|ms| *ms > 0 && ms % 1000 == 0);
            (
                "pause_after_idle",
                ms.map(|ms| format!("idle-{}", ms / 1000)),
            )
        } else if OLD_DESTROY_KEYS.contains(&key) {
            let on = entry.value.as_bool();
            (
                "destroy_on",
                on.map(|on| {
                    if on {
                        "workspace-close".to_owned()
                    } else {
                        String::new()
                    }
                }),
            )
        } else {
            continue;
        };
        let draft = FindingDraft::new(
            &SB36_LIFECYCLE_LEGACY_KEYS,
            entry,
            format!("`{key}` is an old name for `{new}`"),
        );
        ctx.report(match value.as_deref() {
            None => draft.help("write `pause_after_idle: idle-N` (seconds) or `destroy_on: EVENT`"),
            Some("") => draft
                .help(format!(
                    "remove it: without `{new}`, the sandbox is not destroyed early"
                ))
                .fix_if(
                    Safety::Safe,
                    format!("Remove `{key}`"),
                    remove(ctx, block, lifecycle, entry),
                ),
            Some(_) if lifecycle.value.has(new) => draft
                .help(format!("remove it: `{new}` is already set"))
                .fix_if(
                    Safety::Safe,
                    format!("Remove `{key}`"),
                    remove(ctx, block, lifecycle, entry),
                ),
            Some(value) => draft.help(format!("write `{new}: {value}`")).fix_if(
                Safety::Safe,
                format!("Replace with `{new}: {value}`"),
                replace(ctx, entry, new, value),
            ),
        });
    }
}

fn replace(ctx: &RuleContext<'_>, entry: &Entry, key: &str, value: &str) -> Option<Vec<Edit>> {
    let mut all = edits::rename_key(ctx.doc, entry, key)?;
    all.extend(edits::set_raw(ctx.doc, &entry.value, value)?);
    Some(all)
}

/// Removes an entry. If it is the only one, removes the whole mapping: `lifecycle:` would be null.
fn remove(ctx: &RuleContext<'_>, block: &Node, holder: &Entry, entry: &Entry) -> Option<Vec<Edit>> {
    if holder.value.entries().len() == 1 {
        edits::remove_entry(ctx.doc, block, holder)
    } else {
        edits::remove_entry(ctx.doc, &holder.value, entry)
    }
}
