//! The records of the protocol rules.

use super::*;
use crate::rule::{Example, FixKind, Level, Rule, Scope, Severity, Source};

const BASE: Rule = Rule::aip45("protocol discriminator");

const FILE: &str = "AGENT-CLI.md";

pub static PROTOCOL_UNKNOWN: Rule = Rule {
    slug: "protocol-unknown",
    words: Some(|ctx, v| ctx.report(unknown(ctx, v.node))),
    title: "The protocol is not one that AIP-45 knows",
    decides: &["A45-PROTO-04", "A45-FM-12"],
    what: "`protocol` is `acp`, `mcp` or `proprietary`.",
    why: "A host that does not know the protocol must refuse to load the manifest; it may not guess.",
    bad: Example::over("harbor", FILE, "protocol: apc\n"),
    good: Example::over("harbor", FILE, "protocol: acp\n"),
    ..BASE
};

pub static PROTOCOL_PRINT_EXTENSION: Rule = Rule {
    slug: "protocol-print-extension",
    title: "The protocol `print` exists in the reference implementation only",
    severity: Severity::Warning,
    spec_severity: Some(Severity::Error),
    decides: &["A45-PROTO-04"],
    what: "`protocol` is not `print`, an arm that no version of the spec has.",
    why: "Only hosts built on the reference implementation start such an agent; all others must refuse it.",
    bad: Example::over("harbor", FILE, "protocol: print\n"),
    good: Example::over("harbor", FILE, "protocol: acp\n"),
    note: Some(
        "D1: the reference implementation has a fourth arm with a `print` block. By the text it is an \
         unknown protocol, so profile `spec` makes it an error; elsewhere it is a warning, because \
         manifests with it do run somewhere.",
    ),
    ..BASE
};

pub static PROTOCOL_ARM_MISSING: Rule = Rule {
    slug: "protocol-arm-missing",
    words: Some(|ctx, v| ctx.report(arm_missing(ctx, v))),
    title: "The field that the protocol needs is missing",
    decides: &[
        "A45-PROTO-01",
        "A45-PROTO-02",
        "A45-PROTO-03",
        "A45-FM-13",
        "A45-FM-14",
        "A45-FM-15",
    ],
    scope: Scope::CrossField,
    what: "`protocol: acp` comes with `acp`, `mcp` with `mcp`, and `proprietary` with `adapter`.",
    why: "Without its arm the host knows the language but not whom to speak it with.",
    bad: Example::over("gull", FILE, "protocol: proprietary\n"),
    good: Example::over("gull", FILE, "protocol: mcp\n"),
    ..BASE
};

pub static PROTOCOL_ARM_EXTRA: Rule = Rule {
    slug: "protocol-arm-extra",
    title: "The manifest has an arm that its protocol does not use",
    severity: Severity::Warning,
    level: Level::Should,
    source: Source::aip45("Adapter guide"),
    decides: &["A45-FM-13", "A45-FM-14", "A45-FM-15"],
    scope: Scope::CrossField,
    fix: FixKind::Suggest,
    what: "Of `acp`, `mcp` and `adapter`, only the one that belongs to `protocol` is there.",
    why: "A second arm is never used; it misleads the reader and goes stale unnoticed.",
    bad: Example::over("gull", FILE, "adapter: \"@gullworks/adapter-gull\"\n"),
    good: Example::over("gull", FILE, "protocol: mcp\n"),
    note: Some(
        "C24: the adapter guide asks for exactly one arm, the JSON Schema permits several. A second \
         arm breaks nothing at run time, so it is a warning.",
    ),
    ..BASE
};

pub static MCP_TRANSPORT_REQUIRED: Rule = Rule {
    slug: "mcp-transport-required",
    words: Some(transport_required),
    title: "The MCP block does not name its transport",
    decides: &["A45-FM-14", "A45-PROTO-02"],
    what: "`mcp` has a `transport`.",
    why: "The transport decides whether the host starts a process or opens a connection.",
    bad: Example::over("gull", FILE, "mcp:\n  command: gull\n"),
    good: Example::over("gull", FILE, "mcp:\n  command: gull\n  transport: stdio\n"),
    ..BASE
};

pub static MCP_STDIO_COMMAND: Rule = Rule {
    slug: "mcp-stdio-command",
    title: "An MCP server over stdio has no command",
    severity: Severity::Warning,
    level: Level::Derived,
    decides: &["A45-PROTO-02"],
    scope: Scope::CrossField,
    fix: FixKind::Safe,
    what: "With `mcp.transport: stdio` there is an `mcp.command`.",
    why: "Over stdio the host starts the server itself and has to know how.",
    bad: Example::over("gull", FILE, "mcp:\n  transport: stdio\n"),
    good: Example::over("gull", FILE, "mcp:\n  command: gull\n  transport: stdio\n"),
    note: Some("C11: the schema requires neither `command` nor `url` for any transport."),
    ..BASE
};

pub static MCP_HTTP_URL: Rule = Rule {
    slug: "mcp-http-url",
    title: "An MCP server over HTTP has no address",
    level: Level::Derived,
    scope: Scope::CrossField,
    what: "With `mcp.transport` `http` or `sse` there is an `mcp.url`.",
    why: "There is no process to start and no address to call, so no turn can ever be sent.",
    bad: Example::over("gull", FILE, "mcp:\n  transport: http\n"),
    good: Example::over(
        "gull",
        FILE,
        "mcp:\n  transport: http\n  url: http://127.0.0.1:8091/mcp\n",
    ),
    note: Some("C11: the schema requires neither `command` nor `url` for any transport."),
    ..BASE
};

pub static MCP_NOT_STDIO: Rule = Rule {
    slug: "mcp-not-stdio",
    title: "The MCP transport is not stdio",
    severity: Severity::Warning,
    source: Source::aip45("Conformance"),
    decides: &["A45-CONF-04"],
    what: "`mcp.transport` is `stdio`.",
    why: "The conformance list speaks of MCP over stdio; a host may know nothing else.",
    bad: Example::over(
        "gull",
        FILE,
        "mcp:\n  transport: sse\n  url: http://127.0.0.1:8091/mcp\n",
    ),
    good: Example::over("gull", FILE, "mcp:\n  command: gull\n  transport: stdio\n"),
    note: Some(
        "C11: the conformance list says MCP over stdio, the schema also takes `http` and `sse`. \
         Since the schema accepts it, this is a warning.",
    ),
    ..BASE
};

pub static MCP_COMMAND_NOT_BIN: Rule = Rule {
    slug: "mcp-command-not-bin",
    title: "The MCP command starts another program than the manifest's binary",
    severity: Severity::Warning,
    level: Level::Derived,
    scope: Scope::CrossField,
    what: "`mcp.command` names the same program as `bin`.",
    why: "Installation, version check and sandbox are about `bin`; another program escapes all three.",
    bad: Example::over(
        "gull",
        FILE,
        "mcp:\n  command: seagull\n  transport: stdio\n",
    ),
    good: Example::over(
        "gull",
        FILE,
        "mcp:\n  command: ./bin/gull\n  transport: stdio\n",
    ),
    ..BASE
};

pub static ADAPTER_PATTERN: Rule = Rule {
    slug: "adapter-pattern",
    words: Some(|ctx, v| ctx.report(adapter_pattern(v.node))),
    title: "The adapter is not written as a package name",
    decides: &["A45-FM-15"],
    what: "`adapter` matches the schema's pattern for a package name.",
    why: "The host imports the package by this name.",
    bad: Example::over(
        "quill",
        FILE,
        "adapter: \"@quillworks/adapter-quill@2.1.0\"\n",
    ),
    good: Example::over("quill", FILE, "adapter: \"@quillworks/adapter-quill\"\n"),
    ..BASE
};

pub static ADAPTER_NPM_NAME: Rule = Rule {
    slug: "adapter-npm-name",
    title: "The adapter cannot be the name of an npm package",
    severity: Severity::Warning,
    level: Level::Should,
    decides: &["A45-FM-15"],
    what: "`adapter` is a name that npm would accept: `name` or `@scope/name`.",
    why: "The schema's pattern lets through names such as `a//b` that no registry can hold.",
    bad: Example::over("quill", FILE, "adapter: quillworks/adapter-quill\n"),
    good: Example::over("quill", FILE, "adapter: \"@quillworks/adapter-quill\"\n"),
    ..BASE
};

pub static ADAPTER_UNPINNED: Rule = Rule {
    slug: "adapter-unpinned",
    title: "Nothing pins the version of the adapter",
    severity: Severity::Info,
    level: Level::May,
    source: Source::aip45("Security considerations"),
    decides: &["A45-SEC-07"],
    scope: Scope::CrossField,
    what: "The package of `adapter` stands with an exact version under `runner.needs.npm`.",
    why: "Hosts must treat the adapter like any dependency and pin it; the field itself has no room for a version.",
    bad: Example::over(
        "quill",
        FILE,
        "runner:\n  engine: sandbox\n  image: quill-node\n",
    ),
    good: Example::over(
        "quill",
        FILE,
        "runner:\n  engine: sandbox\n  image: quill-node\n  needs:\n    npm: [\"@quillworks/adapter-quill@2.1.0\"]\n",
    ),
    ..BASE
};

pub static ACP_REF_VALID: Rule = Rule {
    slug: "acp-ref-valid",
    title: "The bound ACP.md does not conform to AIP-44",
    source: Source::aip45("Conformance"),
    decides: &["A45-CONF-03", "A45-FM-13"],
    scope: Scope::CrossFile,
    what: "The file that `acp` names validates against the schema of AIP-44.",
    why: "The agent's side of the protocol is pinned there; a broken profile pins nothing. Silent where \
          that file is linted in the same run, since its mistakes are then reported in place.",
    bad: Example::over("harbor", "harbor.ACP.md", "kind: waiter\n"),
    good: Example::over("harbor", "harbor.ACP.md", "kind: server\n"),
    ..BASE
};

pub static ACP_REF_KIND: Rule = Rule {
    slug: "acp-ref-kind",
    title: "The bound ACP.md describes a client",
    severity: Severity::Warning,
    level: Level::Derived,
    scope: Scope::CrossFile,
    what: "The ACP.md that `acp` names has kind `server` or `bridge`.",
    why: "The host is the client; the agent has to be the side that answers prompts.",
    bad: Example::over("harbor", "harbor.ACP.md", "kind: client\n"),
    good: Example::over("harbor", "harbor.ACP.md", "kind: bridge\n"),
    ..BASE
};

pub static CAPS_SUPERSET_OF_ACP: Rule = Rule {
    slug: "caps-superset-of-acp",
    title: "A capability is claimed that the bound ACP.md does not have",
    source: Source::aip45("Capabilities"),
    decides: &["A45-CAP-09", "A45-CAP-06", "A45-CAP-07", "A45-SESS-08"],
    scope: Scope::CrossFile,
    what: "`resumable` needs `loadSession` in the bound ACP.md, `multimodal` needs `image` or `audio`; \
           an explicit map there counts before its tier.",
    why: "The declared capabilities must be a subset of those of the ACP.md, and the runner refuses the \
          manifest at load time otherwise.",
    bad: Example::over(
        "fleet",
        "adapters/otter/AGENT-CLI.md",
        "capabilities:\n  streaming: true\n  multimodal: true\n",
    ),
    good: Example::over(
        "fleet",
        "adapters/otter/AGENT-CLI.md",
        "capabilities:\n  streaming: true\n  multimodal: false\n",
    ),
    note: Some(
        "C10: the two vocabularies share two ideas. `resumable` is judged against `loadSession` and \
         `multimodal` against `image` and `audio`; the other five flags have no counterpart and are \
         not judged. The rule also runs where `protocol` is mistyped.",
    ),
    ..BASE
};

pub static CAPS_RECOMMENDED: Rule = Rule {
    slug: "caps-recommended",
    title: "The manifest declares no capabilities",
    severity: Severity::Warning,
    level: Level::Should,
    source: Source::aip45("Adapter guide"),
    decides: &["A45-FM-18"],
    what: "The manifest has a `capabilities` block.",
    why: "Hosts choose an agent before they start it, and this block is all they can go by.",
    bad: Example::file(
        "gull",
        FILE,
        "---\nname: gull\nid: gull\ndescription: Research agent.\nversion: 1.5.0\nbin: gull\n\
         install:\n  - method: pacman\n    package: gull-bin\n\
         version_check:\n  cmd: gull version\n  parse: 'gull (\\d+\\.\\d+\\.\\d+)'\n  range: ^1.8.0\n\
         sandbox:\n  provider: local\n  config: {}\n\
         protocol: mcp\nmcp:\n  command: gull\n  transport: stdio\n---\n",
    ),
    good: Example::over(
        "gull",
        FILE,
        "capabilities:\n  streaming: true\n  tool_calls: true\n",
    ),
    ..BASE
};
