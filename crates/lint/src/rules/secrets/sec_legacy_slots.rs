//! SECRETS.md uses the old field `slots`.

use super::{SECRETS, VALUE_KEYS, aip19, migrate, value_present};
use crate::context::{FindingDraft, RuleContext};
use crate::finding::Safety;
use crate::rule::{FixKind, Rule};
use agentproto_manifest::Entry;

pub static SEC_LEGACY_SLOTS: Rule = Rule {
    slug: "sec-legacy-slots",
    title: "SECRETS.md uses the old field `slots`",
    source: aip19("Frontmatter"),
    doctypes: SECRETS,
    fix: FixKind::Safe,
    docs: include_str!("sec-legacy-slots.md"),
    ..Rule::BASE
};

pub(super) fn legacy<'d>(ctx: &RuleContext<'d>, slots: &'d Entry) {
    let mut has_value = false;
    for slot in slots.value.items() {
        for entry in slot.entries() {
            if VALUE_KEYS.contains(&entry.key.as_str()) {
                has_value = true;
                ctx.report(value_present(entry));
            }
        }
    }
    // No fix if there is a secret value, because the fix would keep it in a comment.
    let edits = if has_value {
        None
    } else {
        migrate::to_secrets(ctx.doc, ctx.root)
    };
    ctx.report(
        FindingDraft::new(
            &SEC_LEGACY_SLOTS,
            slots,
            "`slots` is an old field; AIP-19 uses `secrets`",
        )
        .help("declare each secret under `secrets` with `slug`, `name` and `description`")
        .fix_if(Safety::Safe, "Convert `slots` to `secrets`", edits),
    );
}
