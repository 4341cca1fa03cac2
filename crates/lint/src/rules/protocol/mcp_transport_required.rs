//! The MCP block has no transport.

use super::BASE;
use crate::context::RuleContext;
use crate::rule::Rule;
use crate::shape::{self, SchemaViolation};

pub static MCP_TRANSPORT_REQUIRED: Rule = Rule {
    slug: "mcp-transport-required",
    report: Some(transport_required),
    title: "The MCP block has no transport",
    decides: &["A45-FM-14", "A45-PROTO-02"],
    docs: include_str!("mcp-transport-required.md"),
    ..BASE
};

fn transport_required<'d>(ctx: &RuleContext<'d>, v: &SchemaViolation<'d>) {
    ctx.report(
        shape::draft(ctx, v)
            .help("add `transport: stdio`, which AIP-45 requires of an MCP agent (§Conformance)"),
    );
}
