//! ACP.md (AIP-44): kind, transport, pinned revision, tier, capabilities and bindings.

mod acp_basic_governed;
mod acp_caps_unknown;
mod acp_kind_enum;
mod acp_ref_missing;
mod acp_rev_numeric;
mod acp_rev_pattern;
mod acp_sandboxed_needs_sandbox;
mod acp_tier_enum;
mod acp_transport_enum;
mod acp_transport_unique;
mod bindings;
mod capabilities;
mod mcp_servers;
mod revision;
mod transport;

use crate::context::RuleContext;
use crate::registry::{Family, FamilyCheck};
use crate::rule::Source;
use agentproto_manifest::Doctype;

use acp_basic_governed::{ACP_BASIC_GOVERNED, basic_governed};
use acp_caps_unknown::ACP_CAPS_UNKNOWN;
use acp_kind_enum::ACP_KIND_ENUM;
use acp_ref_missing::{ACP_REF_MISSING, references};
use acp_rev_numeric::ACP_REV_NUMERIC;
use acp_rev_pattern::ACP_REV_PATTERN;
use acp_sandboxed_needs_sandbox::ACP_SANDBOXED_NEEDS_SANDBOX;
use acp_tier_enum::ACP_TIER_ENUM;
use acp_transport_enum::ACP_TRANSPORT_ENUM;
use acp_transport_unique::ACP_TRANSPORT_UNIQUE;
use bindings::{
    ACP_AUDIT_EXTERNAL_REF, ACP_AUDIT_OFF, ACP_GOVERNANCE_BINDING, ACP_SERVER_OPERATOR, bindings,
};
use capabilities::{
    ACP_BASIC_EXCESS_CAPS, ACP_CLIENT_CAPS_ON_SERVER, ACP_TIER_CAPS_LOAD, ACP_TIER_CAPS_MCP,
    capabilities,
};
use mcp_servers::{ACP_MCP_SERVER_NAME_UNIQUE, ACP_MCP_TRANSPORT_CAP, mcp_servers};
use revision::{ACP_REV_PLACEHOLDER, ACP_REV_SHORT, revision};
use transport::{ACP_REMOTE_WEBSOCKET, ACP_TRANSPORT_STDIO, transport};

pub static FAMILY: Family = Family {
    name: "acp",
    rules: &[
        &ACP_KIND_ENUM,
        &ACP_TRANSPORT_ENUM,
        &ACP_TRANSPORT_STDIO,
        &ACP_TRANSPORT_UNIQUE,
        &ACP_REV_PATTERN,
        &ACP_REV_NUMERIC,
        &ACP_REV_PLACEHOLDER,
        &ACP_REV_SHORT,
        &ACP_TIER_ENUM,
        &ACP_SERVER_OPERATOR,
        &ACP_SANDBOXED_NEEDS_SANDBOX,
        &ACP_TIER_CAPS_LOAD,
        &ACP_TIER_CAPS_MCP,
        &ACP_BASIC_EXCESS_CAPS,
        &ACP_BASIC_GOVERNED,
        &ACP_CAPS_UNKNOWN,
        &ACP_REMOTE_WEBSOCKET,
        &ACP_GOVERNANCE_BINDING,
        &ACP_AUDIT_OFF,
        &ACP_AUDIT_EXTERNAL_REF,
        &ACP_MCP_SERVER_NAME_UNIQUE,
        &ACP_MCP_TRANSPORT_CAP,
        &ACP_REF_MISSING,
        &ACP_CLIENT_CAPS_ON_SERVER,
    ],
    checks: &[FamilyCheck {
        doctypes: &[Doctype::Acp],
        run: check,
    }],
};

const ACP: &[Doctype] = &[Doctype::Acp];

const fn aip44(section: &'static str) -> Source {
    Source {
        spec: "AIP-44",
        section,
    }
}

fn check(ctx: &RuleContext<'_>) {
    transport(ctx);
    let Some(entry) = ctx.root.entry_at(&["metadata", "aip44"]) else {
        return;
    };
    if !entry.value.is_map() {
        return;
    }
    revision(ctx, &entry.value);
    bindings(ctx, entry);
    capabilities(ctx, &entry.value);
    mcp_servers(ctx, &entry.value);
    references(ctx);
}

fn kind<'d>(ctx: &RuleContext<'d>) -> Option<&'d str> {
    ctx.root.str_at(&["kind"])
}

fn is_revision(text: &str) -> bool {
    (7..=40).contains(&text.len()) && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether a revision repeats one digit, or a well-known word or sequence.
fn is_placeholder_revision(text: &str) -> bool {
    const WORDS: [&str; 12] = [
        "0123456789abcdef",
        "1234567890abcdef",
        "123456789abcdef0",
        "1234567890",
        "abcdef0123456789",
        "abcdef1234567890",
        "abc1234567890def",
        "abcdef",
        "abc123",
        "deadbeef",
        "cafebabe",
        "c0ffee",
    ];
    let bytes = text.as_bytes();
    bytes.windows(2).all(|pair| pair.first() == pair.last())
        || WORDS
            .iter()
            .any(|word| bytes.iter().zip(word.bytes().cycle()).all(|(a, b)| *a == b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_distinguished_from_commits() {
        for fake in [
            "abc1234",
            "0000000",
            "deadbeef",
            "deadbee",
            "deadbeefdeadbeefdeadbeefdeadbeefdeadbeef",
            "1234567",
            "0123456789abcdef0123456789abcdef01234567",
            "ffffffffffffffffffffffffffffffffffffffff",
        ] {
            assert!(is_revision(fake) && is_placeholder_revision(fake), "{fake}");
        }
        for real in [
            "f694e5a",
            "abc1235",
            "9a297e02caacef8ae3733281c000ab982a7ca15e",
        ] {
            assert!(
                is_revision(real) && !is_placeholder_revision(real),
                "{real}"
            );
        }
        assert!(!is_revision("abc123") && !is_revision("ABC1234") && !is_revision("v1.0.0"));
    }
}
