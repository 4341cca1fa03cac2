//! The rules of ACP.md (AIP-44).

use super::*;
use crate::rule::{Example, FixKind, Level, Rule, Scope, Severity, Source};
use agentproto_manifest::Doctype;

const ACP: &[Doctype] = &[Doctype::Acp];

const fn aip44(section: &'static str) -> Source {
    Source {
        spec: "AIP-44",
        section,
    }
}

/// Fragment over the endpoint of `harbor`, the base bundle with a server.
const fn harbor(yaml: &'static str) -> Example {
    Example::over("harbor", "harbor.ACP.md", yaml)
}

/// Fragment over the bridge of `fleet`.
const fn otter(yaml: &'static str) -> Example {
    Example::over("fleet", "adapters/otter/ACP.md", yaml)
}

pub static ACP_KIND_ENUM: Rule = Rule {
    slug: "acp-kind-enum",
    title: "`kind` is not a side of the protocol",
    source: aip44("Roles"),
    decides: &["A44-ROLE-01", "A44-FM-05"],
    doctypes: ACP,
    fix: FixKind::Suggest,
    what: "`kind` is `client`, `server` or `bridge`.",
    why: "The kind decides who starts the handshake; a host cannot place an endpoint without it.",
    bad: harbor("kind: agent\n"),
    good: harbor("kind: server\n"),
    ..Rule::BASE
};

pub static ACP_TRANSPORT_ENUM: Rule = Rule {
    slug: "acp-transport-enum",
    title: "A transport that AIP-44 does not have",
    source: aip44("Transports"),
    decides: &["A44-FM-06"],
    doctypes: ACP,
    fix: FixKind::Suggest,
    what: "`transport` is `stdio`, `websocket` or a list of these.",
    why: "A peer picks the transport from this list and knows only these two.",
    bad: harbor("transport: [stdio, http]\n"),
    good: harbor("transport: [stdio, websocket]\n"),
    ..Rule::BASE
};

pub static ACP_TRANSPORT_STDIO: Rule = Rule {
    slug: "acp-transport-stdio",
    title: "The endpoint does not offer stdio",
    source: aip44("Transports"),
    decides: &["A44-TRANS-03"],
    doctypes: ACP,
    scope: Scope::CrossField,
    fix: FixKind::Safe,
    what: "`transport` is, or contains, `stdio`.",
    why: "Every implementation must support stdio: it is how a host drives a local agent.",
    bad: harbor("transport: websocket\n"),
    good: harbor("transport: [stdio, websocket]\n"),
    ..Rule::BASE
};

pub static ACP_TRANSPORT_UNIQUE: Rule = Rule {
    slug: "acp-transport-unique",
    words: Some(repeated_transport),
    title: "A transport stands twice in the list",
    source: aip44("ACP.md frontmatter"),
    decides: &["A44-FM-06"],
    doctypes: ACP,
    fix: FixKind::Safe,
    what: "Each transport stands once in the list.",
    why: "The schema refuses a list with repeated items; the reference implementation does not \
          notice, so the mistake surfaces in another host.",
    bad: harbor("transport: [stdio, websocket, stdio]\n"),
    good: harbor("transport: [stdio, websocket]\n"),
    ..Rule::BASE
};

pub static ACP_REV_PATTERN: Rule = Rule {
    slug: "acp-rev-pattern",
    words: Some(|ctx, v| ctx.report(revision_pattern(v.node))),
    title: "`acp_rev` is not a commit of the protocol",
    source: aip44("ACP.md frontmatter"),
    decides: &["A44-FM-07"],
    doctypes: ACP,
    what: "`metadata.aip44.acp_rev` is 7 to 40 lower-case hexadecimal digits.",
    why: "Conformance is judged against one commit of the upstream text; a tag or a branch name \
          can move.",
    bad: harbor(
        "metadata:\n  aip44:\n    acp_rev: v0.4.2\n    tier: governance-aware\n    operator: ./keeper.OPERATOR.md\n",
    ),
    good: harbor(
        "metadata:\n  aip44:\n    acp_rev: \"f694e5a847f73ea64dd7cec7d4a9dac485e09f05\"\n    tier: governance-aware\n    operator: ./keeper.OPERATOR.md\n",
    ),
    ..Rule::BASE
};

pub static ACP_REV_NUMERIC: Rule = Rule {
    slug: "acp-rev-numeric",
    words: Some(numeric_revision),
    title: "`acp_rev` is read as a number",
    source: aip44("ACP.md frontmatter"),
    decides: &["A44-FM-07"],
    doctypes: ACP,
    fix: FixKind::Safe,
    what: "A revision that YAML would read as a number is quoted.",
    why: "A revision of digits alone, or like `1234567e10`, becomes a number: leading zeros and \
          most digits are lost, and the schema asks for a string.",
    bad: harbor(
        "metadata:\n  aip44:\n    acp_rev: 7043618295501846327709158264403915720683\n    tier: governance-aware\n    operator: ./keeper.OPERATOR.md\n",
    ),
    good: harbor(
        "metadata:\n  aip44:\n    acp_rev: \"7043618295501846327709158264403915720683\"\n    tier: governance-aware\n    operator: ./keeper.OPERATOR.md\n",
    ),
    note: Some(
        "C28: the examples of AIP-44 quote their revision, but its text never says that one must.",
    ),
    ..Rule::BASE
};

pub static ACP_REV_PLACEHOLDER: Rule = Rule {
    slug: "acp-rev-placeholder",
    title: "`acp_rev` looks like a placeholder",
    severity: Severity::Warning,
    source: aip44("ACP.md frontmatter"),
    decides: &["A44-FM-07"],
    doctypes: ACP,
    what: "`acp_rev` is not a made-up value such as `abc1234`, `deadbeef` or all zeros.",
    why: "Nobody can check an endpoint against a commit that does not exist.",
    bad: harbor(
        "metadata:\n  aip44:\n    acp_rev: \"abc1234\"\n    tier: governance-aware\n    operator: ./keeper.OPERATOR.md\n",
    ),
    good: harbor(
        "metadata:\n  aip44:\n    acp_rev: \"f694e5a847f73ea64dd7cec7d4a9dac485e09f05\"\n    tier: governance-aware\n    operator: ./keeper.OPERATOR.md\n",
    ),
    note: Some(
        "C28: every example of AIP-44 says `abc1234`, so copies of it are common. It matches the \
         schema, hence a warning and not an error.",
    ),
    ..Rule::BASE
};

pub static ACP_REV_SHORT: Rule = Rule {
    slug: "acp-rev-short",
    title: "`acp_rev` is an abbreviated commit",
    severity: Severity::Info,
    level: Level::May,
    source: aip44("ACP.md frontmatter"),
    decides: &["A44-FM-07"],
    doctypes: ACP,
    what: "`acp_rev` has all 40 digits of the commit.",
    why: "An abbreviation may come to mean two commits as the upstream repository grows.",
    bad: harbor(
        "metadata:\n  aip44:\n    acp_rev: \"f694e5a\"\n    tier: governance-aware\n    operator: ./keeper.OPERATOR.md\n",
    ),
    good: harbor(
        "metadata:\n  aip44:\n    acp_rev: \"f694e5a847f73ea64dd7cec7d4a9dac485e09f05\"\n    tier: governance-aware\n    operator: ./keeper.OPERATOR.md\n",
    ),
    ..Rule::BASE
};

pub static ACP_TIER_ENUM: Rule = Rule {
    slug: "acp-tier-enum",
    title: "A tier that AIP-44 does not have",
    source: aip44("Capability negotiation"),
    decides: &["A44-TIER-01", "A44-FM-08"],
    doctypes: ACP,
    fix: FixKind::Suggest,
    what: "`metadata.aip44.tier` is `basic`, `governance-aware` or `sandboxed`.",
    why: "The tier stands for a set of capabilities; an unknown one stands for nothing.",
    bad: harbor(
        "metadata:\n  aip44:\n    acp_rev: \"f694e5a847f73ea64dd7cec7d4a9dac485e09f05\"\n    tier: governed\n    operator: ./keeper.OPERATOR.md\n",
    ),
    good: harbor(
        "metadata:\n  aip44:\n    acp_rev: \"f694e5a847f73ea64dd7cec7d4a9dac485e09f05\"\n    tier: governance-aware\n    operator: ./keeper.OPERATOR.md\n",
    ),
    ..Rule::BASE
};

pub static ACP_SERVER_OPERATOR: Rule = Rule {
    slug: "acp-server-operator",
    title: "A server names no operator",
    severity: Severity::Warning,
    source: aip44("ACP.md frontmatter"),
    decides: &["A44-OP-01", "A44-FM-10"],
    doctypes: ACP,
    scope: Scope::CrossField,
    what: "An endpoint with `kind: server` names the OPERATOR.md that it exposes.",
    why: "Governance, memory and the audit log of a session are those of the operator; without \
          one, clients get an agent that answers to nobody.",
    bad: harbor(
        "metadata:\n  aip44:\n    acp_rev: \"f694e5a847f73ea64dd7cec7d4a9dac485e09f05\"\n    tier: governance-aware\n",
    ),
    good: harbor(
        "metadata:\n  aip44:\n    acp_rev: \"f694e5a847f73ea64dd7cec7d4a9dac485e09f05\"\n    tier: governance-aware\n    operator: ./keeper.OPERATOR.md\n",
    ),
    note: Some(
        "C5: the field table and the schema's text require it, the section on operators says MAY, \
         the schema does not enforce it and the first example leaves it out. A warning.",
    ),
    ..Rule::BASE
};

pub static ACP_SANDBOXED_NEEDS_SANDBOX: Rule = Rule {
    slug: "acp-sandboxed-needs-sandbox",
    words: Some(needs_sandbox),
    title: "Tier `sandboxed` without a sandbox",
    source: aip44("Capability negotiation"),
    decides: &["A44-TIER-04", "A44-FM-12"],
    doctypes: ACP,
    scope: Scope::CrossField,
    what: "An endpoint of tier `sandboxed` names its SANDBOX.md.",
    why: "The tier promises that network and files go through a declared sandbox.",
    bad: otter(
        "metadata:\n  aip44:\n    acp_rev: \"9a297e02caacef8ae3733281c000ab982a7ca15e\"\n    tier: sandboxed\n    governance: ./GOVERNANCE.md\n",
    ),
    good: otter(
        "metadata:\n  aip44:\n    acp_rev: \"9a297e02caacef8ae3733281c000ab982a7ca15e\"\n    tier: sandboxed\n    governance: ./GOVERNANCE.md\n    sandbox: ./SANDBOX.md\n",
    ),
    ..Rule::BASE
};

pub static ACP_TIER_CAPS_LOAD: Rule = Rule {
    slug: "acp-tier-caps-load",
    title: "The tier includes loading sessions, the capability map denies it",
    severity: Severity::Warning,
    source: aip44("Capability negotiation"),
    decides: &["A44-TIER-02", "A44-TIER-06"],
    doctypes: ACP,
    scope: Scope::CrossField,
    what: "From tier `governance-aware` on, `capabilities.agent.loadSession` is not `false`.",
    why: "The tier says that sessions can be taken up again. The explicit map wins, so a reader \
          of the tier is misled.",
    bad: otter(
        "metadata:\n  aip44:\n    acp_rev: \"9a297e02caacef8ae3733281c000ab982a7ca15e\"\n    tier: governance-aware\n    capabilities:\n      agent:\n        loadSession: false\n    governance: ./GOVERNANCE.md\n",
    ),
    good: otter(
        "metadata:\n  aip44:\n    acp_rev: \"9a297e02caacef8ae3733281c000ab982a7ca15e\"\n    tier: governance-aware\n    capabilities:\n      agent:\n        loadSession: true\n    governance: ./GOVERNANCE.md\n",
    ),
    ..Rule::BASE
};

pub static ACP_TIER_CAPS_MCP: Rule = Rule {
    slug: "acp-tier-caps-mcp",
    title: "The tier includes MCP, the capability map denies it",
    severity: Severity::Warning,
    source: aip44("Capability negotiation"),
    decides: &["A44-TIER-04", "A44-TIER-06"],
    doctypes: ACP,
    scope: Scope::CrossField,
    what: "At tier `sandboxed`, an explicit `capabilities.agent.mcpCapabilities` enables `http` or `sse`.",
    why: "The tier says that MCP servers can be offered to the agent. The explicit map wins, so a \
          reader of the tier is misled.",
    bad: otter(
        "metadata:\n  aip44:\n    acp_rev: \"9a297e02caacef8ae3733281c000ab982a7ca15e\"\n    tier: sandboxed\n    capabilities:\n      agent:\n        mcpCapabilities:\n          http: false\n          sse: false\n    governance: ./GOVERNANCE.md\n    sandbox: ./SANDBOX.md\n",
    ),
    good: otter(
        "metadata:\n  aip44:\n    acp_rev: \"9a297e02caacef8ae3733281c000ab982a7ca15e\"\n    tier: sandboxed\n    capabilities:\n      agent:\n        mcpCapabilities:\n          http: true\n    governance: ./GOVERNANCE.md\n    sandbox: ./SANDBOX.md\n",
    ),
    ..Rule::BASE
};

pub static ACP_BASIC_EXCESS_CAPS: Rule = Rule {
    slug: "acp-basic-excess-caps",
    title: "Tier `basic` with capabilities beyond it",
    severity: Severity::Warning,
    source: aip44("Capability negotiation"),
    decides: &["A44-TIER-01"],
    doctypes: ACP,
    scope: Scope::CrossField,
    what: "An endpoint of tier `basic` declares no stored sessions, no MCP and no file access.",
    why: "Hosts that choose by tier pass this endpoint over although it could do more.",
    bad: otter(
        "metadata:\n  aip44:\n    acp_rev: \"9a297e02caacef8ae3733281c000ab982a7ca15e\"\n    tier: basic\n    capabilities:\n      agent:\n        loadSession: true\n",
    ),
    good: otter(
        "metadata:\n  aip44:\n    acp_rev: \"9a297e02caacef8ae3733281c000ab982a7ca15e\"\n    tier: basic\n    capabilities:\n      agent:\n        loadSession: false\n",
    ),
    ..Rule::BASE
};

pub static ACP_BASIC_GOVERNED: Rule = Rule {
    slug: "acp-basic-governed",
    title: "Tier `basic` bound to a governed operator",
    severity: Severity::Warning,
    source: aip44("Capability negotiation"),
    decides: &["A44-TIER-03"],
    doctypes: ACP,
    scope: Scope::CrossFile,
    what: "An endpoint that is bound to governance (AIP-7), by itself or through its operator, has \
           at least tier `governance-aware`.",
    why: "Governance needs the stream of tool calls; at tier `basic` there is none to approve or \
          to log.",
    bad: otter(
        "metadata:\n  aip44:\n    acp_rev: \"9a297e02caacef8ae3733281c000ab982a7ca15e\"\n    tier: basic\n    governance: ./GOVERNANCE.md\n",
    ),
    good: otter(
        "metadata:\n  aip44:\n    acp_rev: \"9a297e02caacef8ae3733281c000ab982a7ca15e\"\n    tier: governance-aware\n    governance: ./GOVERNANCE.md\n",
    ),
    ..Rule::BASE
};

pub static ACP_CAPS_UNKNOWN: Rule = Rule {
    slug: "acp-caps-unknown",
    title: "A capability that the protocol does not have",
    source: aip44("Capability negotiation"),
    decides: &["A44-FM-09", "A44-CAP-02", "A44-CAP-03", "A44-CAP-04"],
    doctypes: ACP,
    fix: FixKind::Suggest,
    what: "`capabilities` holds only the flags that are exchanged in `initialize`.",
    why: "A misspelt flag is not negotiated, so the capability is silently off.",
    bad: otter(
        "metadata:\n  aip44:\n    acp_rev: \"9a297e02caacef8ae3733281c000ab982a7ca15e\"\n    tier: governance-aware\n    capabilities:\n      agent:\n        loadSessions: true\n    governance: ./GOVERNANCE.md\n",
    ),
    good: otter(
        "metadata:\n  aip44:\n    acp_rev: \"9a297e02caacef8ae3733281c000ab982a7ca15e\"\n    tier: governance-aware\n    capabilities:\n      agent:\n        loadSession: true\n    governance: ./GOVERNANCE.md\n",
    ),
    ..Rule::BASE
};

pub static ACP_REMOTE_WEBSOCKET: Rule = Rule {
    slug: "acp-remote-websocket",
    title: "A server that can only be used on its own machine",
    severity: Severity::Info,
    level: Level::Should,
    source: aip44("Transports"),
    decides: &["A44-TRANS-04"],
    doctypes: ACP,
    scope: Scope::CrossField,
    what: "A server offers `websocket` beside `stdio`, if it is meant for remote use.",
    why: "Browsers and remote hosts cannot reach a server that speaks stdio alone.",
    bad: harbor("transport: stdio\n"),
    good: harbor("transport: [stdio, websocket]\n"),
    note: Some(
        "A manifest cannot say whether remote use is meant, so this is a remark. Turn it off where \
         the server is only ever spawned locally.",
    ),
    ..Rule::BASE
};

pub static ACP_GOVERNANCE_BINDING: Rule = Rule {
    slug: "acp-governance-binding",
    title: "A governance tier without anything that governs",
    severity: Severity::Warning,
    level: Level::Derived,
    source: aip44("Capability negotiation"),
    decides: &["A44-TIER-03"],
    doctypes: ACP,
    scope: Scope::CrossField,
    what: "From tier `governance-aware` on, the endpoint names an operator, a governance manifest \
           or an audit target.",
    why: "The tier promises approvals and a log, and this manifest does not say whose.",
    bad: otter(
        "metadata:\n  aip44:\n    acp_rev: \"9a297e02caacef8ae3733281c000ab982a7ca15e\"\n    tier: governance-aware\n",
    ),
    good: otter(
        "metadata:\n  aip44:\n    acp_rev: \"9a297e02caacef8ae3733281c000ab982a7ca15e\"\n    tier: governance-aware\n    governance: ./GOVERNANCE.md\n",
    ),
    note: Some(
        "AIP-44 says that the tier is needed to bind to a governed operator (see \
         acp-basic-governed); that the tier needs a binding is our conclusion. For a server \
         without an operator, acp-server-operator speaks instead.",
    ),
    ..Rule::BASE
};

pub static ACP_AUDIT_OFF: Rule = Rule {
    slug: "acp-audit-off",
    title: "The audit of tool calls is switched off",
    severity: Severity::Warning,
    source: aip44("Tool-call audit"),
    decides: &["A44-AUDIT-01", "A44-FM-13"],
    doctypes: ACP,
    what: "`metadata.aip44.audit.kind` is not `off`.",
    why: "Every tool call must have its copy in the operator's audit log.",
    bad: otter(
        "metadata:\n  aip44:\n    acp_rev: \"9a297e02caacef8ae3733281c000ab982a7ca15e\"\n    tier: governance-aware\n    governance: ./GOVERNANCE.md\n    audit:\n      kind: off\n",
    ),
    good: otter(
        "metadata:\n  aip44:\n    acp_rev: \"9a297e02caacef8ae3733281c000ab982a7ca15e\"\n    tier: governance-aware\n    governance: ./GOVERNANCE.md\n    audit:\n      kind: governance\n",
    ),
    note: Some("The schema allows `off` while the prose says MUST: a warning."),
    ..Rule::BASE
};

pub static ACP_AUDIT_EXTERNAL_REF: Rule = Rule {
    slug: "acp-audit-external-ref",
    title: "An external audit log without an address",
    severity: Severity::Warning,
    level: Level::Derived,
    source: aip44("Tool-call audit"),
    decides: &["A44-FM-13"],
    doctypes: ACP,
    scope: Scope::CrossField,
    what: "`audit.kind: external` comes with `audit.ref`.",
    why: "A host cannot write to a log that is not named.",
    bad: otter(
        "metadata:\n  aip44:\n    acp_rev: \"9a297e02caacef8ae3733281c000ab982a7ca15e\"\n    tier: governance-aware\n    governance: ./GOVERNANCE.md\n    audit:\n      kind: external\n",
    ),
    good: otter(
        "metadata:\n  aip44:\n    acp_rev: \"9a297e02caacef8ae3733281c000ab982a7ca15e\"\n    tier: governance-aware\n    governance: ./GOVERNANCE.md\n    audit:\n      kind: external\n      ref: audit:fleet/otter\n",
    ),
    ..Rule::BASE
};

pub static ACP_MCP_SERVER_NAME_UNIQUE: Rule = Rule {
    slug: "acp-mcp-server-name-unique",
    title: "Two MCP servers have the same name",
    severity: Severity::Warning,
    level: Level::Derived,
    source: aip44("MCP-over-ACP"),
    doctypes: ACP,
    scope: Scope::CrossField,
    what: "Each entry of `mcp_servers` has a name of its own.",
    why: "Agents address a tool by server and name; with two servers of one name, one is hidden.",
    bad: otter(
        "metadata:\n  aip44:\n    acp_rev: \"9a297e02caacef8ae3733281c000ab982a7ca15e\"\n    tier: governance-aware\n    governance: ./GOVERNANCE.md\n    mcp_servers:\n      - name: files\n        transport: stdio\n      - name: files\n        transport: stdio\n",
    ),
    good: otter(
        "metadata:\n  aip44:\n    acp_rev: \"9a297e02caacef8ae3733281c000ab982a7ca15e\"\n    tier: governance-aware\n    governance: ./GOVERNANCE.md\n    mcp_servers:\n      - name: files\n        transport: stdio\n      - name: notes\n        transport: stdio\n",
    ),
    ..Rule::BASE
};

pub static ACP_MCP_TRANSPORT_CAP: Rule = Rule {
    slug: "acp-mcp-transport-cap",
    title: "An MCP server over a transport that the agent does not support",
    level: Level::Derived,
    source: aip44("MCP-over-ACP"),
    doctypes: ACP,
    scope: Scope::CrossField,
    what: "An MCP server over `http` or `sse` needs the same flag in `capabilities.agent.mcpCapabilities`.",
    why: "A capability that is not announced counts as unsupported, so this server is never offered.",
    bad: otter(
        "metadata:\n  aip44:\n    acp_rev: \"9a297e02caacef8ae3733281c000ab982a7ca15e\"\n    tier: governance-aware\n    capabilities:\n      agent:\n        mcpCapabilities:\n          http: true\n          sse: false\n    governance: ./GOVERNANCE.md\n    mcp_servers:\n      - name: feed\n        transport: sse\n",
    ),
    good: otter(
        "metadata:\n  aip44:\n    acp_rev: \"9a297e02caacef8ae3733281c000ab982a7ca15e\"\n    tier: governance-aware\n    capabilities:\n      agent:\n        mcpCapabilities:\n          http: true\n          sse: false\n    governance: ./GOVERNANCE.md\n    mcp_servers:\n      - name: feed\n        transport: http\n",
    ),
    ..Rule::BASE
};

pub static ACP_REF_MISSING: Rule = Rule {
    slug: "acp-ref-missing",
    title: "ACP.md names a file that does not exist",
    source: aip44("ACP.md frontmatter"),
    decides: &["A44-FM-10", "A44-FM-11", "A44-FM-12"],
    doctypes: ACP,
    scope: Scope::CrossFile,
    what: "The files behind `operator`, `governance`, `sandbox` and `mcp_servers[].ref` exist.",
    why: "A host loads them before the first session and refuses to start without them.",
    bad: harbor(
        "metadata:\n  aip44:\n    acp_rev: \"f694e5a847f73ea64dd7cec7d4a9dac485e09f05\"\n    tier: governance-aware\n    operator: ./nobody.OPERATOR.md\n",
    ),
    good: otter(
        "metadata:\n  aip44:\n    acp_rev: \"9a297e02caacef8ae3733281c000ab982a7ca15e\"\n    tier: governance-aware\n    governance: ./GOVERNANCE.md\n",
    ),
    note: Some("`audit.ref` may name a channel, so it is not looked up."),
    ..Rule::BASE
};

pub static ACP_CLIENT_CAPS_ON_SERVER: Rule = Rule {
    slug: "acp-client-caps-on-server",
    title: "A server lists capabilities of the client",
    severity: Severity::Info,
    level: Level::Derived,
    source: aip44("Capability negotiation"),
    doctypes: ACP,
    scope: Scope::CrossField,
    what: "An endpoint with `kind: server` has no `capabilities.client`.",
    why: "File access and terminals are offered by the client; a server cannot announce them.",
    bad: harbor(
        "metadata:\n  aip44:\n    acp_rev: \"f694e5a847f73ea64dd7cec7d4a9dac485e09f05\"\n    tier: governance-aware\n    capabilities:\n      client:\n        terminal: true\n    operator: ./keeper.OPERATOR.md\n",
    ),
    good: harbor(
        "metadata:\n  aip44:\n    acp_rev: \"f694e5a847f73ea64dd7cec7d4a9dac485e09f05\"\n    tier: governance-aware\n    capabilities:\n      agent:\n        loadSession: true\n    operator: ./keeper.OPERATOR.md\n",
    ),
    ..Rule::BASE
};
