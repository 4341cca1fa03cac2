//! An MCP server over stdio has no command.

use super::BASE;
use crate::context::{FindingDraft, RuleContext};
use crate::edits;
use crate::finding::Safety;
use crate::rule::{FixKind, Level, Rule, Scope, Severity};

pub static MCP_STDIO_COMMAND: Rule = Rule {
    slug: "mcp-stdio-command",
    title: "An MCP server over stdio has no command",
    severity: Severity::Warning,
    level: Level::Derived,
    decides: &["A45-PROTO-02"],
    scope: Scope::CrossField,
    fix: FixKind::Safe,
    docs: include_str!("mcp-stdio-command.md"),
    ..BASE
};

pub(super) fn no_command(ctx: &RuleContext<'_>) {
    let Some(entry) = ctx.root.entry("mcp") else {
        return;
    };
    let mut draft = FindingDraft::new(
        &MCP_STDIO_COMMAND,
        entry,
        "`mcp` has `transport: stdio` but no `command`",
    );
    if let Some(bin) = ctx.root.get("bin")
        && let Some(name) = bin.as_str()
    {
        draft = draft
            .help(format!(
                "add `command: {name}`, the binary of this manifest"
            ))
            .nearby(bin.span, "the binary")
            .fix_if(
                Safety::Safe,
                format!("Add `command: {name}`"),
                edits::add_entry(ctx.doc, &entry.value, "command", &edits::string(name)),
            );
    }
    ctx.report(draft);
}
