//! The MCP command starts a different program than `bin`.

use super::BASE;
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{Level, Rule, Scope, Severity};
use crate::rules::install::is_valid_bin;
use agentproto_manifest::Node;
use agentproto_text::base_name;

pub static MCP_COMMAND_NOT_BIN: Rule = Rule {
    slug: "mcp-command-not-bin",
    title: "The MCP command starts a different program than `bin`",
    severity: Severity::Warning,
    level: Level::Derived,
    scope: Scope::CrossField,
    docs: include_str!("mcp-command-not-bin.md"),
    ..BASE
};

pub(super) fn command_is_bin<'d>(ctx: &RuleContext<'d>, command: &'d Node) {
    let (Some(name), Some(bin)) = (command.as_str(), ctx.root.get("bin")) else {
        return;
    };
    // An invalid `bin` is reported by another rule.
    let Some(bin_name) = bin.as_str().filter(|bin| is_valid_bin(bin)) else {
        return;
    };
    if base_name(name) != base_name(bin_name) {
        ctx.report(
            FindingDraft::new(
                &MCP_COMMAND_NOT_BIN,
                command,
                format!("`mcp.command` starts `{name}`, but `bin` is `{bin_name}`"),
            )
            .help("start `bin`: `install` and `version_check` apply to `bin` only")
            .nearby(bin.span, "this program is installed and checked"),
        );
    }
}
