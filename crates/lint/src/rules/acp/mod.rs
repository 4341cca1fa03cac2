//! ACP.md (AIP-44): side, transport, pinned revision, tier, capabilities and bindings.

mod catalog;

use catalog::*;

use crate::context::{Context, Draft, Place};
use crate::edits;
use crate::finding::Safety;
use crate::registry::{Check, Family};
use crate::rules::document::FM_TYPE;
use crate::shape::{self, Violation, repeated_texts};
use agentproto_manifest::{Doctype, Entry, Node, RefRole, Resolution, Style, Value};
use agentproto_text::closest_of;

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
    checks: &[Check {
        doctypes: &[Doctype::Acp],
        run: check,
    }],
};

fn needs_sandbox<'d>(ctx: &Context<'d>, v: &Violation<'d>) {
    let mut draft = Draft::new(
        v.rule,
        v.place.clone(),
        "tier `sandboxed` needs a `sandbox`, and none is named",
    )
    .help("add `sandbox: ./SANDBOX.md` under `metadata.aip44`, or lower the tier");
    if let Some(tier) = v.node.get("tier") {
        draft = draft.nearby(tier.span, "the tier");
    }
    ctx.report(draft);
}

fn numeric_revision<'d>(ctx: &Context<'d>, v: &Violation<'d>) {
    if !matches!(v.node.value, Value::Int(_) | Value::Float(_)) {
        let general = Violation {
            rule: &FM_TYPE,
            ..v.clone()
        };
        return ctx.report(shape::draft(ctx, &general));
    }
    let raw = ctx.doc.slice(v.node.span);
    let draft = Draft::new(
        &ACP_REV_NUMERIC,
        v.node,
        format!("YAML reads `{raw}` as a number, and a revision is a string"),
    );
    // Quotes alone do not help a text that is no commit.
    let draft = if is_revision(raw) {
        draft.help(format!("quote it: \"{raw}\"")).fix_if(
            Safety::Safe,
            format!("Quote `{raw}`"),
            edits::quote(ctx.doc, v.node),
        )
    } else {
        draft.help("write the commit, 7 to 40 hexadecimal digits, in quotes")
    };
    ctx.report(draft);
}

fn revision_pattern<'d>(node: &'d Node) -> Draft<'d> {
    let text = node.as_str().unwrap_or_default();
    let draft = |message| Draft::new(&ACP_REV_PATTERN, node, message);
    let hex = !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit());
    if hex && text.len() < 7 {
        draft(format!(
            "`acp_rev` has {} digits; a commit needs at least 7",
            text.len()
        ))
        .help("write all 40 digits of the commit")
    } else if hex && text.len() > 40 {
        draft(format!(
            "`acp_rev` has {} digits; a commit has 40",
            text.len()
        ))
        .help("copy the commit again")
    } else if hex {
        draft("`acp_rev` has capital letters; commits are written in lower case".to_owned())
            .help(format!("write \"{}\"", text.to_ascii_lowercase()))
    } else {
        draft("`acp_rev` is not the hexadecimal name of a commit".to_owned()).help(
            "pin the commit of the upstream protocol: 40 hexadecimal digits, no tag or branch",
        )
    }
}

fn repeated_transport<'d>(ctx: &Context<'d>, v: &Violation<'d>) {
    let draft = shape::draft(ctx, v);
    let Place::Value(item) = &v.place else {
        return ctx.report(draft);
    };
    let edits = ctx
        .root
        .get("transport")
        .and_then(|list| edits::remove_item(ctx.doc, list, item));
    ctx.report(draft.fix_if(Safety::Safe, "Remove the repeated transport", edits));
}

fn check(ctx: &Context<'_>) {
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

fn kind<'d>(ctx: &Context<'d>) -> Option<&'d str> {
    ctx.root.str_at(&["kind"])
}

fn transport(ctx: &Context<'_>) {
    let Some(node) = ctx.root.get("transport") else {
        return;
    };
    let known = |word: &str| matches!(word, "stdio" | "websocket");
    let items = node.items();
    let all_known = match &node.value {
        Value::Str(word) => known(word),
        // A misspelt item may be the missing one: acp-transport-enum speaks then.
        Value::Seq(items) => {
            !items.is_empty() && items.iter().all(|i| i.as_str().is_some_and(known))
        }
        _ => false,
    };
    if !all_known {
        return;
    }
    let has =
        |word: &str| node.as_str() == Some(word) || items.iter().any(|i| i.as_str() == Some(word));
    if !has("stdio") {
        let edits = if node.is_seq() {
            edits::append_item(ctx.doc, node, "stdio")
        } else {
            edits::set_raw(ctx.doc, node, "[stdio, websocket]")
        };
        ctx.report(
            Draft::new(
                &ACP_TRANSPORT_STDIO,
                node,
                "`transport` leaves out `stdio`, which every implementation must support",
            )
            .help("write `transport: [stdio, websocket]`")
            .fix_if(Safety::Safe, "Add `stdio`", edits),
        );
    } else if !has("websocket") && kind(ctx) == Some("server") {
        ctx.report(
            Draft::new(
                &ACP_REMOTE_WEBSOCKET,
                node,
                "this server speaks `stdio` only, so nothing on another machine can use it",
            )
            .help("add `websocket` if the server is meant for remote use; otherwise leave it"),
        );
    }
}

fn revision<'d>(ctx: &Context<'d>, aip44: &'d Node) {
    let Some(node) = aip44.get("acp_rev") else {
        return;
    };
    let text = match &node.value {
        Value::Str(text) => text.as_str(),
        // Judged as it will read once it is quoted.
        Value::Int(_) | Value::Float(_) if node.style == Style::Plain => ctx.doc.slice(node.span),
        _ => return,
    };
    if !is_revision(text) {
        return;
    }
    if is_placeholder_revision(text) {
        ctx.report(
            Draft::new(
                &ACP_REV_PLACEHOLDER,
                node,
                format!("`{text}` looks like a placeholder, not like a commit"),
            )
            .help("pin the commit of the upstream protocol that the endpoint was tested against"),
        );
    } else if text.len() < 40 {
        ctx.report(
            Draft::new(
                &ACP_REV_SHORT,
                node,
                format!(
                    "`acp_rev` has {} of the 40 digits of the commit",
                    text.len()
                ),
            )
            .help("write all 40 digits: abbreviations become ambiguous"),
        );
    }
}

fn is_revision(text: &str) -> bool {
    (7..=40).contains(&text.len()) && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether a revision is one digit, or one well-known word or run, again and again.
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

fn bindings<'d>(ctx: &Context<'d>, entry: &'d Entry) {
    let aip44 = &entry.value;
    let kind_node = ctx.root.get("kind");
    let tier = aip44.get("tier");
    let is_server = kind(ctx) == Some("server");
    let orphan_server = is_server && !aip44.has("operator");
    if orphan_server && let Some(kind) = kind_node {
        ctx.report(
            Draft::new(
                &ACP_SERVER_OPERATOR,
                entry,
                "a server should name the operator that it exposes",
            )
            .help("add `operator: ./OPERATOR.md` under `metadata.aip44`")
            .nearby(kind.span, "declared a server here"),
        );
    }
    let audit = aip44.get("audit");
    match audit.and_then(|a| a.str_at(&["kind"])) {
        Some("off") => {
            if let Some(node) = audit.and_then(|a| a.get("kind")) {
                ctx.report(
                    Draft::new(
                        &ACP_AUDIT_OFF,
                        node,
                        "the audit is off, but every tool call must be copied to the audit log",
                    )
                    .help("write `kind: governance`, or `kind: external` with a `ref`"),
                );
            }
        }
        Some("external") if !audit.is_some_and(|a| a.has("ref")) => {
            if let Some(audit) = aip44.entry("audit") {
                ctx.report(
                    Draft::new(
                        &ACP_AUDIT_EXTERNAL_REF,
                        audit,
                        "the audit log is `external`, but `ref` does not say where it is",
                    )
                    .help("add `ref` with the name or address of the log"),
                );
            }
        }
        _ => {}
    }
    let Some(tier) = tier else {
        return;
    };
    // Of a server without an operator, acp-server-operator has said it.
    let said = orphan_server && ctx.on(&ACP_SERVER_OPERATOR);
    let bound = ["operator", "governance", "audit"]
        .iter()
        .any(|key| aip44.has(key));
    match tier.as_str() {
        Some(word @ ("governance-aware" | "sandboxed")) if !bound && !said => {
            ctx.report(
                Draft::new(
                    &ACP_GOVERNANCE_BINDING,
                    tier,
                    format!("tier `{word}` without `operator`, `governance` or `audit`"),
                )
                .help("name the governance or the operator, or declare tier `basic`"),
            );
        }
        Some("basic") => basic_governed(ctx, aip44, tier),
        _ => {}
    }
}

fn basic_governed<'d>(ctx: &Context<'d>, aip44: &'d Node, tier: &'d Node) {
    let draft = Draft::new(
        &ACP_BASIC_GOVERNED,
        tier,
        "tier `basic` cannot be bound to governance, and this endpoint is",
    )
    .help("declare tier `governance-aware`, with `loadSession` and streamed tool calls");
    if let Some(governance) = aip44.entry("governance") {
        ctx.report(draft.nearby(governance.span(), "governed by this"));
    } else if aip44.has("operator")
        && let Some((_, operator)) = ctx.bound(RefRole::Operator)
        && let Some(entry) = operator.root.as_ref().and_then(|r| r.entry("governance"))
    {
        ctx.report(draft.related(operator, entry.key_span, "the operator is governed"));
    }
}

fn capabilities<'d>(ctx: &Context<'d>, aip44: &'d Node) {
    // Without an explicit map the tier's own set holds, and nothing can contradict it.
    let (Some(caps), Some(tier)) = (aip44.get("capabilities"), aip44.get("tier")) else {
        return;
    };
    if let Some(client) = caps.entry("client")
        && kind(ctx) == Some("server")
    {
        ctx.report(
            Draft::new(
                &ACP_CLIENT_CAPS_ON_SERVER,
                client,
                "these are capabilities of a client, and this endpoint is a server",
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
            Draft::new(
                &ACP_TIER_CAPS_LOAD,
                load,
                format!("tier `{word}` includes `loadSession`, which is switched off here"),
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
            Draft::new(
                &ACP_TIER_CAPS_MCP,
                mcp,
                "tier `sandboxed` includes MCP, and every transport of it is switched off here",
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
            let mut draft = Draft::new(
                &ACP_BASIC_EXCESS_CAPS,
                tier,
                "tier `basic` has no stored sessions, no MCP and no file access, \
                 but the capabilities declare some",
            )
            .help("declare the tier that fits, or switch the capability off");
            for node in excess {
                draft = draft.nearby(node.span, "beyond `basic`");
            }
            ctx.report(draft);
        }
    }
}

fn mcp_servers<'d>(ctx: &Context<'d>, aip44: &'d Node) {
    let servers = aip44.get("mcp_servers").map_or(&[][..], Node::items);
    let agent = aip44.at(&["capabilities", "agent"]);
    // At tier `sandboxed` MCP is on unless the map says otherwise.
    let by_tier = aip44.str_at(&["tier"]) == Some("sandboxed")
        && !agent.is_some_and(|a| a.has("mcpCapabilities"));
    for (name, first) in repeated_texts(servers.iter().filter_map(|s| s.get("name"))) {
        let text = name.as_str().unwrap_or("");
        ctx.report(
            Draft::new(
                &ACP_MCP_SERVER_NAME_UNIQUE,
                name,
                format!("another MCP server is called `{text}` too"),
            )
            .help("give each server its own name")
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
        let mut draft = Draft::new(
            &ACP_MCP_TRANSPORT_CAP,
            transport,
            format!(
                "the agent does not announce `mcpCapabilities.{word}`, so it cannot use this server"
            ),
        )
        .help(format!(
            "set `mcpCapabilities.{word}: true`, or offer the server over `stdio`"
        ));
        if let Some(flag) = flag {
            draft = draft.nearby(flag.span, "switched off here");
        } else if let Some(caps) = agent.entry("mcpCapabilities") {
            draft = draft.nearby(caps.key_span, format!("`{word}` is not among these"));
        }
        ctx.report(draft);
    }
}

fn references(ctx: &Context<'_>) {
    for reference in ctx.refs() {
        let Resolution::Missing(target) = &reference.target else {
            continue;
        };
        let wanted = reference.site.role.file_name();
        let name = |path: &std::path::Path| {
            path.file_name()
                .map(|n| n.to_string_lossy().into_owned())
                .unwrap_or_default()
        };
        let mut draft = Draft::new(
            &ACP_REF_MISSING,
            reference.site.node,
            format!("`{}` does not exist", reference.site.text),
        );
        let beside = target.parent().map(|dir| ctx.workspace.files.list(dir));
        let beside = beside.unwrap_or_default();
        draft = match closest_of(&name(target), beside.iter().map(String::as_str)) {
            Some(near) => draft.help(format!("did you mean `{near}` beside it?")),
            None => draft.help(format!(
                "give the path of {wanted}, relative to this file, or remove the field"
            )),
        };
        ctx.report(draft);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_told_from_commits() {
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
