//! Rules `acp-mcp-server-name-unique` and `acp-mcp-transport-cap`.

use super::{ACP, aip44};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{Level, Rule, Scope, Severity};
use crate::shape::duplicate_texts;
use agentproto_manifest::Node;

pub static ACP_MCP_SERVER_NAME_UNIQUE: Rule = Rule {
    slug: "acp-mcp-server-name-unique",
    title: "Two MCP servers have the same name",
    severity: Severity::Warning,
    level: Level::Derived,
    source: aip44("MCP-over-ACP"),
    doctypes: ACP,
    scope: Scope::CrossField,
    docs: include_str!("acp-mcp-server-name-unique.md"),
    ..Rule::BASE
};

pub static ACP_MCP_TRANSPORT_CAP: Rule = Rule {
    slug: "acp-mcp-transport-cap",
    title: "An MCP server uses a transport that the agent does not support",
    level: Level::Derived,
    source: aip44("MCP-over-ACP"),
    doctypes: ACP,
    scope: Scope::CrossField,
    docs: include_str!("acp-mcp-transport-cap.md"),
    ..Rule::BASE
};

pub(super) fn mcp_servers<'d>(ctx: &RuleContext<'d>, aip44: &'d Node) {
    let servers = aip44.get("mcp_servers").map_or(&[][..], Node::items);
    let agent = aip44.at(&["capabilities", "agent"]);
    // Tier `sandboxed` enables MCP, unless the map contains `mcpCapabilities`.
    let by_tier = aip44.str_at(&["tier"]) == Some("sandboxed")
        && !agent.is_some_and(|a| a.has("mcpCapabilities"));
    for (name, first) in duplicate_texts(servers.iter().filter_map(|s| s.get("name"))) {
        let text = name.as_str().unwrap_or("");
        ctx.report(
            FindingDraft::new(
                &ACP_MCP_SERVER_NAME_UNIQUE,
                name,
                format!("duplicate MCP server name `{text}`"),
            )
            .help("give each server a unique name")
            .nearby(first.span, "first here"),
        );
    }
    for server in servers {
        let (Some(agent), Some(transport)) = (agent, server.get("transport")) else {
            continue;
        };
        let Some(word @ ("http" | "sse")) = transport.as_str() else {
            continue;
        };
        let flag = agent.at(&["mcpCapabilities", word]);
        if by_tier || flag.is_some_and(|f| f.as_bool() != Some(false)) {
            continue;
        }
        let mut draft = FindingDraft::new(
            &ACP_MCP_TRANSPORT_CAP,
            transport,
            format!(
                "the agent does not declare `mcpCapabilities.{word}`, so it cannot use this server"
            ),
        )
        .help(format!(
            "set `mcpCapabilities.{word}: true`, or offer the server over `stdio`"
        ));
        if let Some(flag) = flag {
            draft = draft.nearby(flag.span, "disabled here");
        } else if let Some(caps) = agent.entry("mcpCapabilities") {
            draft = draft.nearby(caps.key_span, format!("`{word}` is not among these"));
        }
        ctx.report(draft);
    }
}
