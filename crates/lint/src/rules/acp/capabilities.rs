//! Rules `acp-tier-caps-load`, `acp-tier-caps-mcp`, `acp-basic-excess-caps` and
//! `acp-client-caps-on-server`.

use super::{ACP, aip44, kind};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{Level, Rule, Scope, Severity};
use agentproto_manifest::Node;

pub static ACP_TIER_CAPS_LOAD: Rule = Rule {
    slug: "acp-tier-caps-load",
    title: "The tier includes `loadSession`, but the capabilities disable it",
    severity: Severity::Warning,
    source: aip44("Capability negotiation"),
    decides: &["A44-TIER-02", "A44-TIER-06"],
    doctypes: ACP,
    scope: Scope::CrossField,
    docs: include_str!("acp-tier-caps-load.md"),
    ..Rule::BASE
};

pub static ACP_TIER_CAPS_MCP: Rule = Rule {
    slug: "acp-tier-caps-mcp",
    title: "The tier includes MCP, but the capabilities disable it",
    severity: Severity::Warning,
    source: aip44("Capability negotiation"),
    decides: &["A44-TIER-04", "A44-TIER-06"],
    doctypes: ACP,
    scope: Scope::CrossField,
    docs: include_str!("acp-tier-caps-mcp.md"),
    ..Rule::BASE
};

pub static ACP_BASIC_EXCESS_CAPS: Rule = Rule {
    slug: "acp-basic-excess-caps",
    title: "An endpoint of tier `basic` declares capabilities of a higher tier",
    severity: Severity::Warning,
    source: aip44("Capability negotiation"),
    decides: &["A44-TIER-01"],
    doctypes: ACP,
    scope: Scope::CrossField,
    docs: include_str!("acp-basic-excess-caps.md"),
    ..Rule::BASE
};

pub static ACP_CLIENT_CAPS_ON_SERVER: Rule = Rule {
    slug: "acp-client-caps-on-server",
    title: "A server declares client capabilities",
    severity: Severity::Info,
    level: Level::Derived,
    source: aip44("Capability negotiation"),
    doctypes: ACP,
    scope: Scope::CrossField,
    docs: include_str!("acp-client-caps-on-server.md"),
    ..Rule::BASE
};

pub(super) fn capabilities<'d>(ctx: &RuleContext<'d>, aip44: &'d Node) {
    // Without an explicit map the capabilities of the tier apply, and nothing contradicts them.
    let (Some(caps), Some(tier)) = (aip44.get("capabilities"), aip44.get("tier")) else {
        return;
    };
    if let Some(client) = caps.entry("client")
        && kind(ctx) == Some("server")
    {
        ctx.report(
            FindingDraft::new(
                &ACP_CLIENT_CAPS_ON_SERVER,
                client,
                "these are client capabilities, but this endpoint is a server",
            )
            .help("remove `client`, or declare `kind: bridge` if the endpoint is both"),
        );
    }
    let load = caps.at(&["agent", "loadSession"]);
    let mcp = caps.at(&["agent", "mcpCapabilities"]);
    let word = tier.as_str().unwrap_or_default();
    if matches!(word, "governance-aware" | "sandboxed")
        && let Some(load) = load.filter(|n| n.as_bool() == Some(false))
    {
        ctx.report(
            FindingDraft::new(
                &ACP_TIER_CAPS_LOAD,
                load,
                format!("tier `{word}` includes `loadSession`, but it is disabled here"),
            )
            .help("enable it, or declare tier `basic`")
            .nearby(tier.span, "the tier"),
        );
    }
    if word == "sandboxed"
        && let Some(mcp) = caps.entry_at(&["agent", "mcpCapabilities"])
        && !mcp.value.entries().is_empty()
        && mcp
            .value
            .entries()
            .iter()
            .all(|e| e.value.as_bool() == Some(false))
    {
        ctx.report(
            FindingDraft::new(
                &ACP_TIER_CAPS_MCP,
                mcp,
                "tier `sandboxed` includes MCP, but all of its transports are disabled here",
            )
            .help("enable `http` or `sse`, or declare tier `governance-aware`")
            .nearby(tier.span, "the tier"),
        );
    }
    if word == "basic" {
        let fs = caps.at(&["client", "fs"]);
        let flags = [mcp, fs]
            .into_iter()
            .flatten()
            .flat_map(Node::entries)
            .map(|e| &e.value);
        let excess: Vec<&Node> = load
            .into_iter()
            .chain(flags)
            .filter(|n| n.is_true())
            .collect();
        if !excess.is_empty() {
            let mut draft = FindingDraft::new(
                &ACP_BASIC_EXCESS_CAPS,
                tier,
                "tier `basic` excludes stored sessions, MCP and file access, \
                 but the capabilities declare some of them",
            )
            .help("declare a higher tier, or disable the capability");
            for node in excess {
                draft = draft.nearby(node.span, "not part of `basic`");
            }
            ctx.report(draft);
        }
    }
}
