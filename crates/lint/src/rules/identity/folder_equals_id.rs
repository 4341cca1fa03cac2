//! The bundle's directory is not named after its id.

use super::directory_name;
use super::spelling::{is_kebab, kebab};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{FixKind, Level, Rule, Scope, Severity, Source};
use agentproto_manifest::Doctype;
use agentproto_text::truncate;

pub static FOLDER_EQUALS_ID: Rule = Rule {
    slug: "folder-equals-id",
    title: "The bundle's directory is not named after its id",
    severity: Severity::Warning,
    level: Level::Should,
    source: Source {
        spec: "AIP-29",
        section: "File location",
    },
    decides: &["A29-FILE-03"],
    doctypes: &[Doctype::Cli],
    scope: Scope::CrossFile,
    fix: FixKind::Suggest,
    docs: include_str!("folder-equals-id.md"),
    ..Rule::BASE
};

pub(super) fn id_and_folder(ctx: &RuleContext<'_>) {
    let Some(node) = ctx.root.get("id") else {
        return;
    };
    let Some(id) = node.as_str().filter(|id| !id.is_empty()) else {
        return;
    };
    let Some(dir) = directory_name(ctx.doc) else {
        return;
    };
    let Some(dir) = dir.to_str() else {
        return;
    };
    // If the id is only misspelled, `id-pattern` reports it.
    if dir == id || (!is_kebab(id) && kebab(id, false).as_deref() == Some(dir)) {
        return;
    }
    let message = format!(
        "the directory is named `{dir}`, but the id is `{}`",
        truncate(id, 60)
    );
    ctx.report(
        FindingDraft::new(&FOLDER_EQUALS_ID, node, message)
            .help("rename the directory, or change the id if it was never published"),
    );
}
