//! Rules `cmd-ref-missing` and `cmd-ref-not-tool`.

use super::{CLI, SUBCOMMANDS};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{FixKind, Level, Rule, Scope, Severity};
use agentproto_manifest::{Doctype, Document, Node, PathKind};
use agentproto_text::{closest_of, truncate};
use std::path::Path;

pub static REF_MISSING: Rule = Rule {
    slug: "cmd-ref-missing",
    title: "The TOOL.md of a subcommand does not exist",
    source: SUBCOMMANDS,
    decides: &["A29-CMD-01", "A29-SKILL-05"],
    doctypes: CLI,
    scope: Scope::CrossFile,
    fix: FixKind::Suggest,
    docs: include_str!("cmd-ref-missing.md"),
    ..Rule::BASE
};

pub static REF_NOT_TOOL: Rule = Rule {
    slug: "cmd-ref-not-tool",
    title: "The file of a subcommand is not named TOOL.md",
    severity: Severity::Warning,
    level: Level::May,
    source: SUBCOMMANDS,
    decides: &["A29-CMD-01"],
    doctypes: CLI,
    scope: Scope::CrossFile,
    docs: include_str!("cmd-ref-not-tool.md"),
    ..Rule::BASE
};

/// Reports a leaf that names a directory. With a TOOL.md in the directory only the path is wrong,
/// without one the tool is missing.
pub(super) fn report_folder<'d>(ctx: &RuleContext<'d>, node: &'d Node, text: &str, path: &Path) {
    let inside = path.join("TOOL.md");
    let has_tool = matches!(
        ctx.workspace.files.kind(&inside),
        Some(PathKind::File { .. })
    );
    let folder = truncate(text, 60);
    ctx.report(if has_tool {
        FindingDraft::new(
            &REF_NOT_TOOL,
            node,
            format!("`{folder}` is a directory, not the TOOL.md in it"),
        )
        .help(format!("write `{}/TOOL.md`", text.trim_end_matches('/')))
    } else {
        FindingDraft::new(
            &REF_MISSING,
            node,
            format!("`{folder}` is a directory without a TOOL.md"),
        )
        .help("create the TOOL.md and write its path here, or remove the subcommand")
    });
}

/// Reports a tool whose file is not named TOOL.md. The reference rules report a target of another
/// doctype.
pub(super) fn check_tool_name<'d>(
    ctx: &RuleContext<'d>,
    node: &'d Node,
    text: &str,
    doc: &Document,
) {
    let name = text.rsplit(['/', '\\']).next().unwrap_or(text);
    if doc.doctype == Some(Doctype::Tool) && Doctype::from_file_name(name) != Some(Doctype::Tool) {
        let report = FindingDraft::new(
            &REF_NOT_TOOL,
            node,
            format!(
                "`{}` contains a tool but is not named TOOL.md",
                truncate(text, 60)
            ),
        )
        .help("rename the file to TOOL.md, in its own directory");
        ctx.report(report);
    }
}

pub(super) fn report_missing<'d>(ctx: &RuleContext<'d>, node: &'d Node, text: &str, path: &Path) {
    let report = FindingDraft::new(
        &REF_MISSING,
        node,
        format!("`{}` does not exist", truncate(text, 80)),
    );
    ctx.report(report.help(match similar(ctx, path) {
        Some(name) => format!("did you mean `{name}`? Otherwise create the TOOL.md"),
        None => "create the TOOL.md, or remove the subcommand".to_owned(),
    }));
}

/// The path of a TOOL.md whose directory has a similar name, relative to this document.
fn similar(ctx: &RuleContext<'_>, missing: &Path) -> Option<String> {
    let dir = missing.parent()?;
    let parent = dir.parent()?;
    let names = ctx.workspace.manifests_in(parent);
    let expected = dir.file_name()?.to_str()?;
    let name = closest_of(
        expected,
        names.iter().map(String::as_str).filter(|n| *n != expected),
    )?;
    let found = parent.join(name).join("TOOL.md");
    matches!(
        ctx.workspace.files.kind(&found),
        Some(PathKind::File { .. })
    )
    .then_some(())?;
    let base = agentproto_manifest::normalize(ctx.doc.dir());
    let inside = found.strip_prefix(base).ok()?;
    Some(format!("./{}", inside.to_str()?.replace('\\', "/")))
}
