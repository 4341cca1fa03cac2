//! The name is not in kebab case or differs from the directory name.

use super::directory_name;
use super::spelling::{is_kebab, kebab};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{FixKind, Level, Rule, Scope, Severity, Source};
use agentproto_manifest::{Doctype, Document};
use agentproto_text::truncate;

pub static NAME_KEBAB_EQUALS_DIR: Rule = Rule {
    slug: "name-kebab-equals-dir",
    title: "The name is not in kebab case or differs from the directory name",
    severity: Severity::Warning,
    level: Level::Must,
    source: Source {
        spec: "AIP-45",
        section: "Frontmatter",
    },
    decides: &["A44-FM-01", "A45-FM-01"],
    doctypes: &[Doctype::AgentCli, Doctype::Acp],
    scope: Scope::CrossFile,
    fix: FixKind::Suggest,
    docs: include_str!("name-kebab-equals-dir.md"),
    ..Rule::BASE
};

pub(super) fn name_and_directory(ctx: &RuleContext<'_>) {
    let Some(node) = ctx.root.get("name") else {
        return;
    };
    // An empty or overlong name is reported by `name-length`.
    let fits = |name: &&str| !name.is_empty() && name.chars().count() <= 80;
    let Some(name) = node.as_str().filter(fits) else {
        return;
    };
    let slug = slug_of_file(ctx.doc, ctx.doctype);
    if slug == Some(name) && is_kebab(name) {
        return;
    }
    let Some(dir) = directory_name(ctx.doc) else {
        return;
    };
    let Some(dir) = dir.to_str() else {
        return;
    };
    if dir == name && is_kebab(name) {
        return;
    }
    let expected = slug.unwrap_or(dir);
    let message = if dir == name || slug == Some(name) {
        format!("the name `{}` is not in kebab case", truncate(name, 60))
    } else {
        format!(
            "the name `{}` differs from the directory name `{dir}`",
            truncate(name, 60)
        )
    };
    let help = match kebab(expected, false) {
        Some(kebab) if kebab != expected => {
            format!("rename the directory to `{kebab}` and use that name here")
        }
        _ if is_kebab(name) => format!("write `{expected}`, or rename the directory to `{name}`"),
        _ => format!("write `{expected}`"),
    };
    ctx.report(FindingDraft::new(&NAME_KEBAB_EQUALS_DIR, node, message).help(help));
}

/// The slug in a file name, for example `harbor` in `harbor.ACP.md`.
fn slug_of_file(doc: &Document, doctype: Doctype) -> Option<&str> {
    let file = doc.path.file_name()?.to_str()?;
    let slug = file.strip_suffix(doctype.file_name())?.strip_suffix('.')?;
    (!slug.is_empty()).then_some(slug)
}
