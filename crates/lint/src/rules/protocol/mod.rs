//! How the host talks to the agent: the protocol, its arm, and what the bound ACP.md and
//! the declared capabilities promise.

mod catalog;

use std::sync::Arc;

pub use catalog::*;

use crate::context::{Context, Draft, Place};
use crate::edits;
use crate::finding::Safety;
use crate::registry::{Check, Family};
use crate::rule::Profile;
use crate::rules::install::is_bin;
use crate::shape::{self, Keyword, Violation};
use agentproto_manifest::{Doctype, Document, Node, RefRole, Span};
use agentproto_text::{base_name, closest_of, one_of};

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
    checks: &[Check {
        doctypes: &[Doctype::AgentCli],
        run: check,
    }],
};

const PROTOCOLS: [&str; 3] = ["acp", "mcp", "proprietary"];

/// Protocol and the key of its arm.
const ARMS: [(&str, &str); 3] = [("acp", "acp"), ("mcp", "mcp"), ("proprietary", "adapter")];

fn transport_required<'d>(ctx: &Context<'d>, v: &Violation<'d>) {
    ctx.report(shape::draft(ctx, v).help(
        "write `transport: stdio`, the transport that AIP-45 asks of an MCP agent (§Conformance)",
    ));
}

fn unknown<'d>(ctx: &Context<'d>, node: &'d Node) -> Draft<'d> {
    if node.as_str() == Some("print") {
        let drift = match ctx.profile {
            Profile::Reference => " (known drift D1)",
            _ => "",
        };
        return Draft::new(
            &PROTOCOL_PRINT_EXTENSION,
            node,
            format!("`protocol: print` is an arm of the reference implementation alone{drift}"),
        )
        .help(format!(
            "AIP-45 knows {}; any other host must refuse this manifest",
            one_of(&PROTOCOLS)
        ));
    }
    let written = ctx.doc.slice(node.span);
    let draft = Draft::new(
        &PROTOCOL_UNKNOWN,
        node,
        format!(
            "`protocol` is `{written}`, which no host knows, so every host must refuse to load it"
        ),
    );
    match closest_of(written, PROTOCOLS) {
        Some(meant) => draft.help(format!("did you mean `{meant}`?")),
        None => draft.help(format!("allowed: {}", one_of(&PROTOCOLS))),
    }
}

fn arm_missing<'d>(ctx: &Context<'d>, v: &Violation<'d>) -> Draft<'d> {
    let arm = v.missing.as_deref().unwrap_or("");
    let place = ctx
        .root
        .get("protocol")
        .map_or_else(|| v.place.clone(), Place::Value);
    let protocol = ctx.root.str_at(&["protocol"]).unwrap_or("");
    let mut draft = Draft::new(
        &PROTOCOL_ARM_MISSING,
        place,
        format!("`protocol: {protocol}` needs the field `{arm}`, which is missing"),
    )
    .help(match arm {
        "acp" => "name the ACP.md of the agent, as in `acp: ./ACP.md`",
        "mcp" => "say how the MCP server starts, as in `mcp: { command: my-agent, transport: stdio }`",
        _ => "name the npm package that speaks for the agent, as in `adapter: \"@scope/adapter-name\"`",
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

fn adapter_pattern(node: &Node) -> Draft<'_> {
    let text = node.as_str().unwrap_or("");
    let (message, help) = match split_version(text) {
        Some((name, _)) if is_npm_name(name) => (
            "`adapter` is the name of a package and cannot carry a version",
            "write the bare name here and pin the version under `runner.needs.npm`",
        ),
        _ if is_npm_name(text) => (
            "`adapter` is a name that npm takes, but the schema of AIP-45 does not",
            "use lower-case letters, digits, `-` and `.`, after an optional `@scope/`",
        ),
        _ => (
            "`adapter` is not the name of an npm package",
            "write it like `@scope/adapter-name`: lower-case letters, digits, `-` and `.`",
        ),
    };
    Draft::new(&ADAPTER_PATTERN, node, message).help(help)
}

fn check(ctx: &Context<'_>) {
    let protocol = ctx.root.str_at(&["protocol"]);
    // A mistyped protocol may have meant any arm; only a known one makes the others idle.
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

fn arms(ctx: &Context<'_>, protocol: Option<&str>) {
    let Some((protocol, own)) = ARMS.into_iter().find(|(p, _)| Some(*p) == protocol) else {
        return;
    };
    // Without its own arm the manifest has the wrong one, and `protocol-arm-missing` says so.
    let Some(own_entry) = ctx.root.entry(own) else {
        return;
    };
    for (_, key) in ARMS.into_iter().filter(|(_, key)| *key != own) {
        if let Some(extra) = ctx.root.entry(key) {
            ctx.report(
                Draft::new(
                    &PROTOCOL_ARM_EXTRA,
                    extra,
                    format!(
                        "`{key}` has no effect: the protocol is `{protocol}`, whose arm is `{own}`"
                    ),
                )
                .help(format!(
                    "remove `{key}`, or give that protocol a manifest of its own"
                ))
                .nearby(own_entry.key_span, "the arm in use"),
            );
        }
    }
}

fn mcp(ctx: &Context<'_>) {
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
                Draft::new(
                    &MCP_NOT_STDIO,
                    transport,
                    format!("the MCP transport is `{name}`, but AIP-45 speaks of MCP over stdio"),
                )
                .help("offer the agent over stdio; hosts that follow the text know no other way"),
            );
            if !block.has("url") {
                ctx.report(
                    Draft::new(
                        &MCP_HTTP_URL,
                        transport,
                        format!("`mcp` says `transport: {name}` but no `url` to reach it at"),
                    )
                    .help("add `url`, as in `url: http://127.0.0.1:8080/mcp`"),
                );
            }
        }
        _ => {}
    }
}

fn no_command(ctx: &Context<'_>) {
    let Some(entry) = ctx.root.entry("mcp") else {
        return;
    };
    let mut draft = Draft::new(
        &MCP_STDIO_COMMAND,
        entry,
        "`mcp` talks over stdio but does not say which `command` to start",
    );
    if let Some(bin) = ctx.root.get("bin")
        && let Some(name) = bin.as_str()
    {
        draft = draft
            .help(format!(
                "add `command: {name}`, the binary of this manifest"
            ))
            .nearby(bin.span, "the binary")
            .fix_if(
                Safety::Safe,
                format!("Add `command: {name}`"),
                edits::add_entry(ctx.doc, &entry.value, "command", &edits::string(name)),
            );
    }
    ctx.report(draft);
}

fn command_is_bin<'d>(ctx: &Context<'d>, command: &'d Node) {
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

fn adapter(ctx: &Context<'_>) {
    let Some(node) = ctx.root.get("adapter") else {
        return;
    };
    let Some(name) = node.as_str() else {
        return;
    };
    if !is_npm_name(name) {
        // Where the schema's pattern speaks already, this would be the same mistake.
        if fits_schema(name) {
            ctx.report(
                Draft::new(
                    &ADAPTER_NPM_NAME,
                    node,
                    "`adapter` fits the schema's pattern, but npm has no package of such a name",
                )
                .help("write `name` or `@scope/name`"),
            );
        }
        return;
    }
    if !fits_schema(name) || pinned(ctx, name) {
        return;
    }
    ctx.report(
        Draft::new(
            &ADAPTER_UNPINNED,
            node,
            "nothing pins the version of the adapter, which the host imports as code",
        )
        .help(format!(
            "name it under `runner.needs.npm` with a version, as in `{name}@1.2.3`"
        )),
    );
}

/// The pattern of the schema, without a regex.
fn fits_schema(name: &str) -> bool {
    let name = name.strip_prefix('@').unwrap_or(name);
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    name.bytes().next().is_some_and(plain)
        && name
            .bytes()
            .all(|b| plain(b) || matches!(b, b'-' | b'.' | b'/'))
}

/// The rules of npm for names of new packages.
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

/// `@scope/name@1.2.3` → name and version.
fn split_version(package: &str) -> Option<(&str, &str)> {
    let at = package.rfind('@').filter(|at| *at > 0)?;
    Some((package.get(..at)?, package.get(at + 1..)?))
}

/// Whether the runner, inline or in its own file, names the package at one exact version.
fn pinned(ctx: &Context<'_>, adapter: &str) -> bool {
    let names_it = |runner: &Node| {
        runner.at(&["needs", "npm"]).is_some_and(|list| {
            list.strings().any(|(text, _)| {
                split_version(text).is_some_and(|(name, version)| {
                    name == adapter && semver::Version::parse(version).is_ok()
                })
            })
        })
    };
    match ctx.root.get("runner") {
        None => false,
        Some(runner) if runner.is_map() => names_it(runner),
        Some(_) => ctx
            .bound(RefRole::Runner)
            .and_then(|(_, doc)| doc.root.as_ref())
            .is_some_and(names_it),
    }
}

fn bound_acp(ctx: &Context<'_>) {
    let Some((reference, acp)) = ctx.bound(RefRole::Acp) else {
        return;
    };
    let Some(root) = &acp.root else {
        return;
    };
    let site = reference.site.node;
    if !ctx.is_linted(&acp.path)
        && ctx.on(&ACP_REF_VALID)
        && let Some((span, what)) = first_violation(acp, root)
    {
        ctx.report(
            Draft::new(
                &ACP_REF_VALID,
                site,
                format!("the ACP.md that `acp` names breaks its own schema: {what}"),
            )
            .help("mend that file; `protocol: acp` rests on a valid AIP-44 manifest")
            .related(acp, span, "the first violation"),
        );
    }
    if let Some(kind) = root.get("kind")
        && kind.as_str() == Some("client")
    {
        ctx.report(
            Draft::new(
                &ACP_REF_KIND,
                site,
                "the ACP.md that `acp` names describes a client, not an agent that a host can drive",
            )
            .help("bind a manifest of kind `server` or `bridge`")
            .related(acp, kind.span, "declared as a client here"),
        );
    }
    capabilities_within(ctx, acp, root);
}

/// The first thing that the schema of AIP-44 holds against a file, in words.
fn first_violation(doc: &Document, root: &Node) -> Option<(Span, String)> {
    let open = doc.front.map_or(Span::default(), |front| front.open);
    let violations = shape::violations(shape::shapes_for(Doctype::Acp), root, Place::Bytes(open));
    let first = violations.first()?;
    let pointer = doc.pointer_of(first.node).unwrap_or_default();
    let subject = match shape::dotted(&pointer) {
        name if name.is_empty() => "the frontmatter".to_owned(),
        name => format!("`{name}`"),
    };
    let what = match first.keyword {
        Keyword::Required => format!(
            "{subject} lacks `{}`",
            first.missing.as_deref().unwrap_or("")
        ),
        Keyword::AdditionalProperties => format!(
            "{subject} has no field `{}`",
            first.entry.map_or("", |e| e.key.as_str())
        ),
        Keyword::Enum => format!("{subject} must be {}", one_of(&first.expected)),
        Keyword::Type => format!("{subject} has the wrong type"),
        other => format!("{subject} fails `{}`", other.as_str()),
    };
    let span = match first.place {
        Place::Value(node) => node.span,
        Place::Key(entry) => entry.key_span,
        Place::Part(_, span) | Place::Bytes(span) => span,
    };
    Some((span, what))
}

/// The two capabilities that AIP-44 has words for (C10).
fn capabilities_within(ctx: &Context<'_>, acp: &Arc<Document>, root: &Node) {
    let (Some(declared), Some(aip44)) = (
        ctx.root.get("capabilities"),
        root.at(&["metadata", "aip44"]),
    ) else {
        return;
    };
    let claims = |key: &str| declared.get(key).filter(|node| node.is_true());
    if let Some(resumable) = claims("resumable")
        && let Some((span, why)) = no_load_session(aip44)
    {
        ctx.report(
            Draft::new(
                &CAPS_SUPERSET_OF_ACP,
                resumable,
                "`resumable` is claimed, but the bound ACP.md cannot load a session",
            )
            .help("declare `loadSession: true` there if the agent answers session/load; else this is `resumable: false`")
            .related(acp, span, why),
        );
    }
    if let Some(multimodal) = claims("multimodal")
        && let Some((span, why)) = text_only(aip44)
    {
        ctx.report(
            Draft::new(
                &CAPS_SUPERSET_OF_ACP,
                multimodal,
                "`multimodal` is claimed, but the bound ACP.md takes neither images nor sound",
            )
            .help("declare `promptCapabilities.image` or `.audio` there; else this is `multimodal: false`")
            .related(acp, span, why),
        );
    }
}

/// Where an ACP.md says that sessions cannot be loaded. An explicit flag beats the tier.
fn no_load_session(aip44: &Node) -> Option<(Span, &'static str)> {
    if let Some(entry) = aip44.entry_at(&["capabilities", "agent", "loadSession"]) {
        let denied = entry.value.as_bool() == Some(false);
        return denied.then(|| (entry.span(), "`loadSession` is off"));
    }
    let tier = aip44.entry("tier")?;
    (tier.value.as_str() == Some("basic")).then(|| (tier.span(), "tier `basic` keeps no sessions"))
}

/// Where an ACP.md fails to say that prompts may be more than text; no tier implies it.
fn text_only(aip44: &Node) -> Option<(Span, &'static str)> {
    let agent = aip44.entry_at(&["capabilities", "agent"]);
    let prompt = agent.and_then(|agent| agent.value.entry("promptCapabilities"));
    if let Some(prompt) = prompt {
        let flags = ["image", "audio"].map(|key| prompt.value.entry(key));
        let set = flags.iter().flatten();
        if set.clone().any(|e| e.value.as_bool() != Some(false)) || !prompt.value.is_map() {
            return None;
        }
        let place = set.clone().next().map_or(prompt.key_span, |e| e.span());
        return Some((place, "neither image nor audio is on"));
    }
    let place = agent
        .map(|agent| agent.key_span)
        .or_else(|| aip44.entry("tier").map(|tier| tier.span()))?;
    Some((place, "no `promptCapabilities`, and no tier implies them"))
}

fn capabilities_declared(ctx: &Context<'_>) {
    if ctx.root.has("capabilities") {
        return;
    }
    // Where something needs `resumable`, its own rule asks for the block.
    let needed = ctx.root.str_at(&["session", "mode"]) == Some("resumable")
        || ctx.root.str_at(&["continuation", "default"]) == Some("native-resume");
    if needed {
        return;
    }
    let open = ctx.doc.front.map_or(Span::default(), |front| front.open);
    ctx.report(
        Draft::new(
            &CAPS_RECOMMENDED,
            open,
            "the manifest does not declare `capabilities`",
        )
        .help("state at least `streaming`, `tool_calls` and `resumable`, so that hosts can choose before they start it"),
    );
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
