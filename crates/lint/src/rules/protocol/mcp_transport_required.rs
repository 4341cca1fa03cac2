//! The MCP block does not name its transport.

use super::BASE;
use crate::context::Context;
use crate::rule::Rule;
use crate::shape::{self, Violation};

pub static MCP_TRANSPORT_REQUIRED: Rule = Rule {
    slug: "mcp-transport-required",
    words: Some(transport_required),
    title: "The MCP block does not name its transport",
    decides: &["A45-FM-14", "A45-PROTO-02"],
    docs: include_str!("mcp-transport-required.md"),
    ..BASE
};

fn transport_required<'d>(ctx: &Context<'d>, v: &Violation<'d>) {
    ctx.report(shape::draft(ctx, v).help(
        "write `transport: stdio`, the transport that AIP-45 asks of an MCP agent (§Conformance)",
    ));
}
