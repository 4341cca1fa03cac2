//! The sandbox of an agent: an inline AIP-36 block, or a reference to a SANDBOX.md.

use crate::context::{FindingDraft, Location, RuleContext};
use crate::registry::{Family, FamilyCheck};
use crate::rule::{FixKind, Level, Rule, Scope, Severity};
use crate::shape::{self, Keyword, SchemaViolation};
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
    checks: &[FamilyCheck {
        doctypes: &[Doctype::AgentCli],
        run: check,
    }],
};

const BASE: Rule = Rule::aip45("Sandbox integration");

pub static SANDBOX_REQUIRED: Rule = Rule {
    slug: "sandbox-required",
    report: Some(required),
    title: "The agent has no sandbox",
    decides: &["A45-SBX-01", "A45-FM-11"],
    docs: include_str!("sandbox45/sandbox-required.md"),
    ..BASE
};

pub static SANDBOX_INLINE_AIP36: Rule = Rule {
    slug: "sandbox-inline-aip36",
    title: "The inline sandbox is not a valid AIP-36 block",
    decides: &["A45-SBX-02", "A45-FM-11"],
    docs: include_str!("sandbox45/sandbox-inline-aip36.md"),
    ..BASE
};

pub static SANDBOX_AIP29_SHAPE_IN_45: Rule = Rule {
    slug: "sandbox-aip29-shape-in-45",
    title: "The inline sandbox uses fields of AIP-29",
    decides: &["A45-SBX-02"],
    fix: FixKind::Suggest,
    docs: include_str!("sandbox45/sandbox-aip29-shape-in-45.md"),
    ..BASE
};

pub static SANDBOX_ENV_SET_IN_45: Rule = Rule {
    slug: "sandbox-env-set-in-45",
    title: "The inline sandbox uses `env.set`, which AIP-36 does not define",
    decides: &["A45-SBX-02"],
    fix: FixKind::Suggest,
    docs: include_str!("sandbox45/sandbox-env-set-in-45.md"),
    ..BASE
};

pub static SANDBOX_NO_EGRESS: Rule = Rule {
    slug: "sandbox-no-egress",
    title: "The sandbox does not allow the agent to connect to any host",
    severity: Severity::Warning,
    level: Level::Derived,
    scope: Scope::CrossFile,
    fix: FixKind::Suggest,
    docs: include_str!("sandbox45/sandbox-no-egress.md"),
    ..BASE
};

pub static SANDBOX_READ_ONLY_AGENT: Rule = Rule {
    slug: "sandbox-read-only-agent",
    title: "The sandbox of the agent does not allow any command",
    severity: Severity::Warning,
    level: Level::Derived,
    scope: Scope::CrossFile,
    docs: include_str!("sandbox45/sandbox-read-only-agent.md"),
    ..BASE
};

/// Old keys of the lifecycle block. `sb36-lifecycle-legacy-keys` reports them (C12).
const LEGACY: [&str; 2] = ["pause_after_idle_ms", "destroy_on_workspace_close"];

fn required<'d>(ctx: &RuleContext<'d>, v: &SchemaViolation<'d>) {
    ctx.report(
        FindingDraft::new(
            &SANDBOX_REQUIRED,
            v.location.clone(),
            "missing required field `sandbox`: nothing confines the agent",
        )
        .help(
            "add the path of a SANDBOX.md, for example `sandbox: ./SANDBOX.md`, or an inline AIP-36 block",
        ),
    );
}

/// Reports a violation inside an inline block, which a general rule would report otherwise.
pub fn inside_inline_block<'d>(ctx: &RuleContext<'d>, v: &SchemaViolation<'d>) -> bool {
    if !ctx.is(Doctype::AgentCli) {
        return false;
    }
    let Some(sandbox) = ctx.sandbox().filter(|s| s.is_map()) else {
        return false;
    };
    sandbox.span.contains(v.node.span) && inline(ctx, v, sandbox)
}

fn inline<'d>(ctx: &RuleContext<'d>, v: &SchemaViolation<'d>, sandbox: &'d Node) -> bool {
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
                FindingDraft::new(
                    &SANDBOX_ENV_SET_IN_45,
                    entry,
                    "`sandbox.env.set` does not exist in AIP-36, which defines an agent's sandbox",
                )
                .help("list secrets under `env.auth.state.env` and host variables under `env.passthrough`; put other settings in `env` of a mode or option"),
            );
            return true;
        }
        if here(&["lifecycle"]) && LEGACY.contains(&key) {
            return false;
        }
    }
    let general = SchemaViolation {
        rule: &SANDBOX_INLINE_AIP36,
        ..v.clone()
    };
    ctx.report(shape::draft(ctx, &general));
    true
}

fn aip29_shape<'d>(place: Location<'d>, key: &str) -> FindingDraft<'d> {
    let help = match key {
        "fs" => {
            "use `mounts`: in AIP-36 it defines which directories are visible and which are writable"
        }
        "exec" => "remove it: AIP-36 restricts commands with `limits` and `policy`, not by name",
        "tty" => "remove it: AIP-36 has no setting for terminals",
        _ => "remove it: AIP-36 only has settings for outgoing connections",
    };
    FindingDraft::new(
        &SANDBOX_AIP29_SHAPE_IN_45,
        place,
        format!("`{key}` is a sandbox field of AIP-29, but an agent's sandbox is an AIP-36 block"),
    )
    .help(help)
}

fn check(ctx: &RuleContext<'_>) {
    let Some(entry) = ctx.root.entry("sandbox") else {
        return;
    };
    if entry.value.is_map() {
        let block = &entry.value;
        if let Some((place, message)) = no_egress(block) {
            let draft = FindingDraft::new(&SANDBOX_NO_EGRESS, place.unwrap_or(entry), message);
            ctx.report(draft.help(EGRESS_HELP));
        }
        if let Some(flag) = block.get("read_only").filter(|flag| flag.is_true()) {
            ctx.report(
                FindingDraft::new(&SANDBOX_READ_ONLY_AGENT, flag, READ_ONLY).help(READ_ONLY_HELP),
            );
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
        let open = target
            .frontmatter
            .map_or(Span::default(), |front| front.open);
        let place = place.map_or(open, Entry::span);
        ctx.report(
            FindingDraft::new(&SANDBOX_NO_EGRESS, site, message)
                .help(EGRESS_HELP)
                .related(target, place, "no host is listed here"),
        );
    }
    if let Some(flag) = block.entry("read_only").filter(|e| e.value.is_true()) {
        ctx.report(
            FindingDraft::new(&SANDBOX_READ_ONLY_AGENT, site, READ_ONLY)
                .help(READ_ONLY_HELP)
                .related(target, flag.span(), "read-only here"),
        );
    }
}

const EGRESS_HELP: &str = "list the hosts that the agent connects to under `network.egress`";
const READ_ONLY: &str =
    "the sandbox is read-only, so it does not allow any command, not even the agent itself";
const READ_ONLY_HELP: &str =
    "set `read_only: false`, and mount directories that must not change as `read-only`";

/// Why the agent has no network access: the entry to point at (`None` for the whole block) and the
/// message.
fn no_egress(block: &Node) -> Option<(Option<&Entry>, &'static str)> {
    // Without a provider it is not an AIP-36 sandbox, which another rule reports.
    if !block.has("provider") {
        return None;
    }
    let Some(network) = block.entry("network") else {
        return Some((
            None,
            "the sandbox has no `network` block, so the agent cannot connect to any host",
        ));
    };
    if !network.value.is_map() {
        return None;
    }
    match network.value.entry("egress") {
        None => Some((
            Some(network),
            "the sandbox has no `network.egress`, so the agent cannot connect to any host",
        )),
        Some(egress) if egress.value.is_seq() && egress.value.items().is_empty() => Some((
            Some(egress),
            "`network.egress` is empty, so the agent cannot connect to any host",
        )),
        Some(_) => None,
    }
}
