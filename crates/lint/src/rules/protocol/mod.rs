//! How the host talks to the agent: the protocol, its arm, the referenced ACP.md and the declared
//! capabilities.

mod acp_ref;
mod adapter;
mod adapter_pattern;
mod caps_recommended;
mod caps_superset_of_acp;
mod mcp;
mod mcp_command_not_bin;
mod mcp_stdio_command;
mod mcp_transport_required;
mod protocol_arm_extra;
mod protocol_arm_missing;
mod protocol_name;

use crate::context::RuleContext;
use crate::registry::{Family, FamilyCheck};
use crate::rule::Rule;
use agentproto_manifest::Doctype;

use acp_ref::{ACP_REF_KIND, ACP_REF_VALID, bound_acp};
use adapter::{ADAPTER_NPM_NAME, ADAPTER_UNPINNED, adapter};
use adapter_pattern::ADAPTER_PATTERN;
use caps_recommended::{CAPS_RECOMMENDED, capabilities_declared};
use caps_superset_of_acp::{CAPS_SUPERSET_OF_ACP, capabilities_within};
use mcp::{MCP_HTTP_URL, MCP_NOT_STDIO, mcp};
use mcp_command_not_bin::{MCP_COMMAND_NOT_BIN, command_is_bin};
use mcp_stdio_command::{MCP_STDIO_COMMAND, no_command};
use mcp_transport_required::MCP_TRANSPORT_REQUIRED;
use protocol_arm_extra::{PROTOCOL_ARM_EXTRA, arms};
use protocol_arm_missing::PROTOCOL_ARM_MISSING;
use protocol_name::PROTOCOL_PRINT_EXTENSION;
pub use protocol_name::PROTOCOL_UNKNOWN;

pub static FAMILY: Family = Family {
    name: "protocol",
    rules: &[
        &PROTOCOL_UNKNOWN,
        &PROTOCOL_PRINT_EXTENSION,
        &PROTOCOL_ARM_MISSING,
        &PROTOCOL_ARM_EXTRA,
        &MCP_TRANSPORT_REQUIRED,
        &MCP_STDIO_COMMAND,
        &MCP_HTTP_URL,
        &MCP_NOT_STDIO,
        &MCP_COMMAND_NOT_BIN,
        &ADAPTER_PATTERN,
        &ADAPTER_NPM_NAME,
        &ADAPTER_UNPINNED,
        &ACP_REF_VALID,
        &ACP_REF_KIND,
        &CAPS_SUPERSET_OF_ACP,
        &CAPS_RECOMMENDED,
    ],
    checks: &[FamilyCheck {
        doctypes: &[Doctype::AgentCli],
        run: check,
    }],
};

const BASE: Rule = Rule::aip45("protocol discriminator");

const PROTOCOLS: [&str; 3] = ["acp", "mcp", "proprietary"];

/// Each protocol and the key of its arm.
const ARMS: [(&str, &str); 3] = [("acp", "acp"), ("mcp", "mcp"), ("proprietary", "adapter")];

fn check(ctx: &RuleContext<'_>) {
    let protocol = ctx.root.str_at(&["protocol"]);
    // A mistyped protocol may mean any arm. Only with a known protocol are the other arms unused.
    let idle =
        |arm: &str| protocol.is_some_and(|p| p != arm && (PROTOCOLS.contains(&p) || p == "print"));
    arms(ctx, protocol);
    if !idle("mcp") {
        mcp(ctx);
    }
    if !idle("proprietary") {
        adapter(ctx);
    }
    if !idle("acp") && ctx.root.has("acp") {
        bound_acp(ctx);
    }
    capabilities_declared(ctx);
}

/// Whether a name matches the pattern of the schema. Does not use a regex, for speed.
fn fits_schema(name: &str) -> bool {
    let name = name.strip_prefix('@').unwrap_or(name);
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    name.bytes().next().is_some_and(plain)
        && name
            .bytes()
            .all(|b| plain(b) || matches!(b, b'-' | b'.' | b'/'))
}

/// Whether npm accepts a name for a new package.
fn is_npm_name(name: &str) -> bool {
    let part = |text: &str| {
        !text.is_empty()
            && !text.starts_with(['.', '_'])
            && text.bytes().all(|b| {
                b.is_ascii_lowercase()
                    || b.is_ascii_digit()
                    || matches!(b, b'-' | b'.' | b'_' | b'~')
            })
    };
    name.len() <= 214
        && match name.strip_prefix('@') {
            Some(scoped) => scoped
                .split_once('/')
                .is_some_and(|(scope, name)| part(scope) && part(name)),
            None => part(name) && name != "node_modules" && name != "favicon.ico",
        }
}

/// Splits `@scope/name@1.2.3` into name and version.
fn split_version(package: &str) -> Option<(&str, &str)> {
    let at = package.rfind('@').filter(|at| *at > 0)?;
    Some((package.get(..at)?, package.get(at + 1..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn npm_names() {
        for good in ["a", "@a/b", "left-pad", "a.b_c~d", "@scope/adapter-x"] {
            assert!(is_npm_name(good), "{good}");
        }
        for bad in [
            "",
            "@a",
            "@/b",
            "a/b",
            "a//b",
            "@a/b/c",
            ".a",
            "_a",
            "A",
            "node_modules",
        ] {
            assert!(!is_npm_name(bad), "{bad}");
        }
        assert!(fits_schema("a//b") && fits_schema("@a") && !fits_schema("a_b"));
        assert!(!fits_schema("") && !fits_schema("@") && !fits_schema("./a"));
    }

    #[test]
    fn versions_of_packages() {
        assert_eq!(split_version("@a/b@1.0.0"), Some(("@a/b", "1.0.0")));
        assert_eq!(split_version("b@^1"), Some(("b", "^1")));
        assert_eq!(split_version("@a/b"), None);
        assert_eq!(split_version(""), None);
    }
}
