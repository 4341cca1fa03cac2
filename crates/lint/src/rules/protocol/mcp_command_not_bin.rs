//! The MCP command starts another program than the manifest's binary.

use super::BASE;
use crate::context::{Context, Draft};
use crate::rule::{Level, Rule, Scope, Severity};
use crate::rules::install::is_bin;
use agentproto_manifest::Node;
use agentproto_text::base_name;

pub static MCP_COMMAND_NOT_BIN: Rule = Rule {
    slug: "mcp-command-not-bin",
    title: "The MCP command starts another program than the manifest's binary",
    severity: Severity::Warning,
    level: Level::Derived,
    scope: Scope::CrossField,
    docs: include_str!("mcp-command-not-bin.md"),
    ..BASE
};

pub(super) fn command_is_bin<'d>(ctx: &Context<'d>, command: &'d Node) {
    let (Some(name), Some(bin)) = (command.as_str(), ctx.root.get("bin")) else {
        return;
    };
    // A malformed `bin` is a mistake of its own.
    let Some(bin_name) = bin.as_str().filter(|bin| is_bin(bin)) else {
        return;
    };
    if base_name(name) != base_name(bin_name) {
        ctx.report(
            Draft::new(
                &MCP_COMMAND_NOT_BIN,
                command,
                format!("`mcp.command` starts `{name}`, while `bin` is `{bin_name}`"),
            )
            .help("`install` and `version_check` vouch for `bin` only; start that one")
            .nearby(bin.span, "installed and checked"),
        );
    }
}
