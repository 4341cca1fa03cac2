//! `mcp-http-url`, `mcp-not-stdio`.

use super::{BASE, command_is_bin, no_command};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{Level, Rule, Scope, Severity, Source};

pub static MCP_HTTP_URL: Rule = Rule {
    slug: "mcp-http-url",
    title: "An MCP server over HTTP has no URL",
    level: Level::Derived,
    scope: Scope::CrossField,
    docs: include_str!("mcp-http-url.md"),
    ..BASE
};

pub static MCP_NOT_STDIO: Rule = Rule {
    slug: "mcp-not-stdio",
    title: "The MCP transport is not stdio",
    severity: Severity::Warning,
    source: Source::aip45("Conformance"),
    decides: &["A45-CONF-04"],
    docs: include_str!("mcp-not-stdio.md"),
    ..BASE
};

pub(super) fn mcp(ctx: &RuleContext<'_>) {
    let Some(entry) = ctx.root.entry("mcp").filter(|e| e.value.is_map()) else {
        return;
    };
    let block = &entry.value;
    let Some(transport) = block.get("transport") else {
        return;
    };
    match transport.as_str() {
        Some("stdio") => match block.get("command") {
            None => no_command(ctx),
            Some(command) => command_is_bin(ctx, command),
        },
        Some(name @ ("http" | "sse")) => {
            ctx.report(
                FindingDraft::new(
                    &MCP_NOT_STDIO,
                    transport,
                    format!("the MCP transport is `{name}`, but AIP-45 specifies MCP over stdio"),
                )
                .help(
                    "use `transport: stdio`; hosts that follow the spec support no other transport",
                ),
            );
            if !block.has("url") {
                ctx.report(
                    FindingDraft::new(
                        &MCP_HTTP_URL,
                        transport,
                        format!("`mcp` has `transport: {name}` but no `url`"),
                    )
                    .help("add `url`, for example `url: http://127.0.0.1:8080/mcp`"),
                );
            }
        }
        _ => {}
    }
}
