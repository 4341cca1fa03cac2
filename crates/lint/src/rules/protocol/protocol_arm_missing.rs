//! The field that the protocol requires is missing.

use super::{ARMS, BASE};
use crate::context::{FindingDraft, Location, RuleContext};
use crate::rule::{Rule, Scope};
use crate::shape::SchemaViolation;

pub static PROTOCOL_ARM_MISSING: Rule = Rule {
    slug: "protocol-arm-missing",
    report: Some(|ctx, v| ctx.report(arm_missing(ctx, v))),
    title: "The field that the protocol requires is missing",
    decides: &[
        "A45-PROTO-01",
        "A45-PROTO-02",
        "A45-PROTO-03",
        "A45-FM-13",
        "A45-FM-14",
        "A45-FM-15",
    ],
    scope: Scope::CrossField,
    docs: include_str!("protocol-arm-missing.md"),
    ..BASE
};

fn arm_missing<'d>(ctx: &RuleContext<'d>, v: &SchemaViolation<'d>) -> FindingDraft<'d> {
    let arm = v.missing.as_deref().unwrap_or("");
    let place = ctx
        .root
        .get("protocol")
        .map_or_else(|| v.location.clone(), Location::Value);
    let protocol = ctx.root.str_at(&["protocol"]).unwrap_or("");
    let mut draft = FindingDraft::new(
        &PROTOCOL_ARM_MISSING,
        place,
        format!("`protocol: {protocol}` requires the field `{arm}`"),
    )
    .help(match arm {
        "acp" => "add the path of the agent's ACP.md, for example `acp: ./ACP.md`",
        "mcp" => "add how the MCP server starts, for example `mcp: { command: my-agent, transport: stdio }`",
        _ => "add the npm package of the adapter, for example `adapter: \"@scope/adapter-name\"`",
    });
    for (other, key) in ARMS {
        if let Some(entry) = ctx.root.entry(key) {
            draft = draft.nearby(
                entry.key_span,
                format!("this belongs to `protocol: {other}`"),
            );
        }
    }
    draft
}
