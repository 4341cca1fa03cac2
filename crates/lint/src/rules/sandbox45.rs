//! The sandbox of an agent: an AIP-36 block in place, or a SANDBOX.md by reference.

use crate::context::{Context, Draft, Place};
use crate::registry::{Check, Family};
use crate::rule::{FixKind, Level, Rule, Scope, Severity};
use crate::shape::{self, Keyword, Violation};
use agentproto_manifest::{Doctype, Entry, Node, RefRole, Span};

pub static FAMILY: Family = Family {
    name: "sandbox45",
    rules: &[
        &SANDBOX_REQUIRED,
        &SANDBOX_INLINE_AIP36,
        &SANDBOX_AIP29_SHAPE_IN_45,
        &SANDBOX_ENV_SET_IN_45,
        &SANDBOX_NO_EGRESS,
        &SANDBOX_READ_ONLY_AGENT,
    ],
    checks: &[Check {
        doctypes: &[Doctype::AgentCli],
        run: check,
    }],
};

const BASE: Rule = Rule::aip45("Sandbox integration");

pub static SANDBOX_REQUIRED: Rule = Rule {
    slug: "sandbox-required",
    words: Some(required),
    title: "The agent has no sandbox",
    decides: &["A45-SBX-01", "A45-FM-11"],
    docs: include_str!("sandbox45/sandbox-required.md"),
    ..BASE
};

pub static SANDBOX_INLINE_AIP36: Rule = Rule {
    slug: "sandbox-inline-aip36",
    title: "The inline sandbox is not an AIP-36 block",
    decides: &["A45-SBX-02", "A45-FM-11"],
    docs: include_str!("sandbox45/sandbox-inline-aip36.md"),
    ..BASE
};

pub static SANDBOX_AIP29_SHAPE_IN_45: Rule = Rule {
    slug: "sandbox-aip29-shape-in-45",
    title: "The sandbox is written in the form of AIP-29",
    decides: &["A45-SBX-02"],
    fix: FixKind::Suggest,
    docs: include_str!("sandbox45/sandbox-aip29-shape-in-45.md"),
    ..BASE
};

pub static SANDBOX_ENV_SET_IN_45: Rule = Rule {
    slug: "sandbox-env-set-in-45",
    title: "The sandbox sets variables in a way that AIP-36 does not have",
    decides: &["A45-SBX-02"],
    fix: FixKind::Suggest,
    docs: include_str!("sandbox45/sandbox-env-set-in-45.md"),
    ..BASE
};

pub static SANDBOX_NO_EGRESS: Rule = Rule {
    slug: "sandbox-no-egress",
    title: "The sandbox lets the agent reach no host",
    severity: Severity::Warning,
    level: Level::Derived,
    scope: Scope::CrossFile,
    fix: FixKind::Suggest,
    docs: include_str!("sandbox45/sandbox-no-egress.md"),
    ..BASE
};

pub static SANDBOX_READ_ONLY_AGENT: Rule = Rule {
    slug: "sandbox-read-only-agent",
    title: "The sandbox of the agent forbids every command",
    severity: Severity::Warning,
    level: Level::Derived,
    scope: Scope::CrossFile,
    docs: include_str!("sandbox45/sandbox-read-only-agent.md"),
    ..BASE
};

/// Keys of an older lifecycle block; the rules of AIP-36 itself speak of them (C12).
const LEGACY: [&str; 2] = ["pause_after_idle_ms", "destroy_on_workspace_close"];

fn required<'d>(ctx: &Context<'d>, v: &Violation<'d>) {
    ctx.report(
        Draft::new(
            &SANDBOX_REQUIRED,
            v.place.clone(),
            "the manifest has no `sandbox`, so nothing confines the agent",
        )
        .help(
            "name a SANDBOX.md, as in `sandbox: ./SANDBOX.md`, or write the AIP-36 block in place",
        ),
    );
}

/// A general rule about a place inside an inline block.
pub fn inside_inline_block<'d>(ctx: &Context<'d>, v: &Violation<'d>) -> bool {
    if !ctx.is(Doctype::AgentCli) {
        return false;
    }
    let Some(sandbox) = ctx.sandbox().filter(|s| s.is_map()) else {
        return false;
    };
    sandbox.span.contains(v.node.span) && inline(ctx, v, sandbox)
}

fn inline<'d>(ctx: &Context<'d>, v: &Violation<'d>, sandbox: &'d Node) -> bool {
    if v.keyword == Keyword::AdditionalProperties
        && let Some(entry) = v.entry
    {
        let key = entry.key.as_str();
        let here = |path: &[&str]| sandbox.at(path).is_some_and(|n| std::ptr::eq(n, v.node));
        if here(&[]) && matches!(key, "fs" | "exec" | "tty")
            || here(&["network"]) && key == "ingress"
        {
            ctx.report(aip29_shape(entry.into(), key));
            return true;
        }
        if here(&["env"]) && key == "set" {
            ctx.report(
                Draft::new(
                    &SANDBOX_ENV_SET_IN_45,
                    entry,
                    "`sandbox.env.set` does not exist in AIP-36, whose block this is",
                )
                .help("list secrets under `env.auth.state.env` and host variables under `env.passthrough`; plain settings go into `env` of a mode or option"),
            );
            return true;
        }
        if here(&["lifecycle"]) && LEGACY.contains(&key) {
            return false;
        }
    }
    let general = Violation {
        rule: &SANDBOX_INLINE_AIP36,
        ..v.clone()
    };
    ctx.report(shape::draft(ctx, &general));
    true
}

fn aip29_shape<'d>(place: Place<'d>, key: &str) -> Draft<'d> {
    let help = match key {
        "fs" => {
            "in AIP-36 `mounts` says which directories are seen, and whether they may be written"
        }
        "exec" => "AIP-36 limits commands by `limits` and `policy`, not by name",
        "tty" => "AIP-36 has no setting for terminals; remove it",
        _ => "AIP-36 knows outgoing connections only; remove it",
    };
    Draft::new(
        &SANDBOX_AIP29_SHAPE_IN_45,
        place,
        format!("`{key}` belongs to the sandbox of AIP-29; an agent's sandbox is an AIP-36 block"),
    )
    .help(help)
}

fn check(ctx: &Context<'_>) {
    let Some(entry) = ctx.root.entry("sandbox") else {
        return;
    };
    if entry.value.is_map() {
        let block = &entry.value;
        if let Some((place, message)) = no_egress(block) {
            let draft = Draft::new(&SANDBOX_NO_EGRESS, place.unwrap_or(entry), message);
            ctx.report(draft.help(EGRESS_HELP));
        }
        if let Some(flag) = block.get("read_only").filter(|flag| flag.is_true()) {
            ctx.report(Draft::new(&SANDBOX_READ_ONLY_AGENT, flag, READ_ONLY).help(READ_ONLY_HELP));
        }
        return;
    }
    let Some((reference, target)) = ctx.bound(RefRole::Sandbox) else {
        return;
    };
    let Some(block) = &target.root else {
        return;
    };
    let site = reference.site.node;
    if let Some((place, message)) = no_egress(block) {
        let open = target.front.map_or(Span::default(), |front| front.open);
        let place = place.map_or(open, Entry::span);
        ctx.report(
            Draft::new(&SANDBOX_NO_EGRESS, site, message)
                .help(EGRESS_HELP)
                .related(target, place, "no host is listed here"),
        );
    }
    if let Some(flag) = block.entry("read_only").filter(|e| e.value.is_true()) {
        ctx.report(
            Draft::new(&SANDBOX_READ_ONLY_AGENT, site, READ_ONLY)
                .help(READ_ONLY_HELP)
                .related(target, flag.span(), "read-only here"),
        );
    }
}

const EGRESS_HELP: &str = "list the hosts that the agent calls under `network.egress`";
const READ_ONLY: &str =
    "the sandbox is read-only, so not even the agent itself may be started in it";
const READ_ONLY_HELP: &str =
    "set `read_only: false`, and mount what must not change as `read-only`";

/// What leaves the agent without network: an entry of the block, or the block as a whole.
fn no_egress(block: &Node) -> Option<(Option<&Entry>, &'static str)> {
    // Without a provider it is no sandbox of AIP-36, and is told as that.
    if !block.has("provider") {
        return None;
    }
    let Some(network) = block.entry("network") else {
        return Some((
            None,
            "the sandbox has no `network` block, so the agent can reach no host",
        ));
    };
    if !network.value.is_map() {
        return None;
    }
    match network.value.entry("egress") {
        None => Some((
            Some(network),
            "the sandbox lists no host under `network.egress`, so the agent can reach none",
        )),
        Some(egress) if egress.value.is_seq() && egress.value.items().is_empty() => Some((
            Some(egress),
            "`network.egress` is empty, so the agent can reach no host",
        )),
        Some(_) => None,
    }
}
