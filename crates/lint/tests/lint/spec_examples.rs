//! Lints the examples of the AIPs and compares the findings with the expected ones. The examples
//! are reproduced in `fixtures/spec-examples/`. `examples/spec_agreement` compares the originals
//! with their schemas.

use std::path::PathBuf;

use crate::common::{Bundle, markdown_below};
use agentproto_lint::shape::{shapes_for, violations};
use agentproto_lint::{LintOptions, Location, Profile, RuleSet, Severity, lint_files};
use agentproto_manifest::{Disk, Document};

/// A finding that the spec implies.
struct ExpectedFinding {
    /// `rule@file#pointer`
    mark: &'static str,
    severity: Severity,
    /// Whether the rule is derived. Derived rules are off in profile `spec`.
    derived: bool,
    why: &'static str,
}

const fn error(mark: &'static str, why: &'static str) -> ExpectedFinding {
    expected_finding(mark, Severity::Error, why)
}
const fn warning(mark: &'static str, why: &'static str) -> ExpectedFinding {
    expected_finding(mark, Severity::Warning, why)
}
const fn info(mark: &'static str, why: &'static str) -> ExpectedFinding {
    expected_finding(mark, Severity::Info, why)
}
const fn expected_finding(
    mark: &'static str,
    severity: Severity,
    why: &'static str,
) -> ExpectedFinding {
    ExpectedFinding {
        mark,
        severity,
        derived: false,
        why,
    }
}
const fn derived(mut finding: ExpectedFinding) -> ExpectedFinding {
    finding.derived = true;
    finding
}

const OPEN_RANGE: &str = "the range has no upper bound; the spec does not require one";
const NO_CONTINUATION: &str = "AIP-45 §Continuation: optional but recommended";
const UNPINNED: &str =
    "AIP-45 §Security: pin the adapter; the field itself cannot contain a version";
const REV: &str = "C28: `abc1234` matches the pattern but is not a commit";
const STDIO_ONLY: &str = "AIP-44: websocket is recommended for servers that are not local";
const SKIP_IF: &str = "AIP-29 §Setup: a step should have a check for whether it is done";

/// Each folder with all expected findings.
const EXAMPLES: &[(&str, &[ExpectedFinding])] = &[
    (
        "gh",
        &[
            error(
                "install-sha256-placeholder@CLI.md#/install/3/verify_sha256",
                "C14: the spec requires 64 hex digits, but its example has an ellipsis",
            ),
            warning(
                "intents-vs-actions@CLI.md#/intents",
                "C2: the prose uses `intents`, the schema `actions`",
            ),
        ],
    ),
    (
        "gh-sandbox",
        &[warning(
            "sb29-spawn-without-allow@CLI.md#/sandbox/exec/spawn",
            "C8: `spawn` only applies if `allow` is true",
        )],
    ),
    (
        "kubectl",
        &[
            error(
                "install-sha256-placeholder@CLI.md#/install/3/verify_sha256",
                "C14",
            ),
            warning(
                "auth-expiry-code-ambiguous@CLI.md#/auth/expiry/detect",
                "C19: exit code 1 is reserved for `error`, and `output` also maps it to `error`",
            ),
        ],
    ),
    (
        "openclaw",
        &[
            info(
                "install-few-managers@CLI.md#/install",
                "the author guide of AIP-29 asks for three managers and a download",
            ),
            info("setup-no-skip-if@CLI.md#/setup/1", SKIP_IF),
            info("setup-no-skip-if@CLI.md#/setup/2", SKIP_IF),
            info("setup-no-skip-if@CLI.md#/setup/3", SKIP_IF),
        ],
    ),
    (
        "claude-code-modes",
        &[
            derived(info(
                "vc-range-unbounded@AGENT-CLI.md#/version_check/range",
                OPEN_RANGE,
            )),
            info("adapter-unpinned@AGENT-CLI.md#/adapter", UNPINNED),
            derived(warning(
                "mode-dangerous@AGENT-CLI.md#/modes/3/bin_args_append/1",
                "the spec does not forbid it, but operators should know",
            )),
        ],
    ),
    (
        "hermes",
        &[
            derived(info(
                "install-curl-mutable-url@AGENT-CLI.md#/install/0/url",
                "a branch cannot be pinned with a digest",
            )),
            error(
                "install-sha256-placeholder@AGENT-CLI.md#/install/0/verify_sha256",
                "C14",
            ),
            // `resumable: false` with `loadSession: true` is a subset and therefore valid (C10).
            // The operator refers to `hermes` by its id (C22).
            info(
                "acp-remote-websocket@hermes-acp.ACP.md#/transport",
                STDIO_ONLY,
            ),
            warning(
                "acp-server-operator@hermes-acp.ACP.md#/metadata/aip44",
                "C5: required by the table, missing in the example",
            ),
            warning(
                "acp-rev-placeholder@hermes-acp.ACP.md#/metadata/aip44/acp_rev",
                REV,
            ),
        ],
    ),
    (
        "goose",
        &[
            warning("cont-recommended@AGENT-CLI.md#", NO_CONTINUATION),
            derived(info(
                "vc-range-unbounded@AGENT-CLI.md#/version_check/range",
                OPEN_RANGE,
            )),
            derived(info(
                "session-ephemeral-idle@AGENT-CLI.md#/session/idle_timeout_ms",
                "an ephemeral session ends with the connection",
            )),
        ],
    ),
    (
        "gemini-cli",
        &[
            warning("cont-recommended@AGENT-CLI.md#", NO_CONTINUATION),
            derived(info(
                "vc-range-unbounded@AGENT-CLI.md#/version_check/range",
                OPEN_RANGE,
            )),
            info("adapter-unpinned@AGENT-CLI.md#/adapter", UNPINNED),
        ],
    ),
    (
        "claude-code",
        &[
            warning("cont-recommended@AGENT-CLI.md#", NO_CONTINUATION),
            derived(info(
                "vc-range-unbounded@AGENT-CLI.md#/version_check/range",
                OPEN_RANGE,
            )),
            info(
                "acp-remote-websocket@claude-code-acp.ACP.md#/transport",
                STDIO_ONLY,
            ),
        ],
    ),
    (
        "guilde",
        &[
            warning(
                "acp-rev-placeholder@governance-bridge.ACP.md#/metadata/aip44/acp_rev",
                REV,
            ),
            warning(
                "acp-rev-placeholder@guilde.ACP.md#/metadata/aip44/acp_rev",
                REV,
            ),
            warning(
                "acp-rev-placeholder@hermes-client.ACP.md#/metadata/aip44/acp_rev",
                REV,
            ),
            derived(warning(
                "acp-governance-binding@hermes-client.ACP.md#/metadata/aip44/tier",
                "the tier requires governance, but no operator is declared",
            )),
        ],
    ),
    (
        "modal",
        &[
            error(
                "sb36-lifecycle-legacy-keys@modal.SANDBOX.md#/lifecycle/pause_after_idle_ms",
                "C12: the names in the schema apply",
            ),
            error(
                "sb36-lifecycle-legacy-keys@modal.SANDBOX.md#/lifecycle/destroy_on_workspace_close",
                "C12: the names in the schema apply",
            ),
        ],
    ),
    // Five examples of AIP-19 in one file. All are conforming.
    ("stripe", &[]),
    (
        "pricing-snapshot",
        &[error(
            "fm-range@TOOL.md#/mutates",
            "C27: `approval: auto` requires an empty `mutates`",
        )],
    ),
];

fn folder(name: &str) -> PathBuf {
    let examples = crate::common::repository().join("fixtures/spec-examples");
    examples.join(name)
}

/// The findings in all manifests of an example, as `rule@file#pointer`.
fn findings_of(name: &str, profile: Profile) -> Vec<(String, Severity)> {
    let dir = folder(name);
    let mut files = Vec::new();
    markdown_below(&dir, &mut files);
    files.retain(|path| {
        let text = std::fs::read_to_string(path).expect("UTF-8");
        Document::parse(path.clone(), text).doctype.is_some()
    });
    files.sort();
    let rules = RuleSet::profile_defaults(profile);
    let findings = lint_files(&files, &LintOptions::new(&rules, &Disk, &dir)).findings;
    let mut out: Vec<(String, Severity)> = findings
        .iter()
        .map(|f| {
            let file = f.file.strip_prefix(&dir).expect("inside").display();
            (format!("{}@{file}#{}", f.rule.slug, f.pointer), f.severity)
        })
        .collect();
    out.sort();
    out
}

#[test]
fn spec_examples_have_the_expected_findings() {
    for (name, expected_finding) in EXAMPLES {
        for profile in [Profile::Default, Profile::Spec, Profile::Reference] {
            let mut expected: Vec<(String, Severity)> = expected_finding
                .iter()
                .filter(|i| !(i.derived && profile == Profile::Spec))
                .map(|i| (i.mark.to_owned(), i.severity))
                .collect();
            expected.sort();
            let reasons: Vec<&str> = expected_finding.iter().map(|i| i.why).collect();
            let found = findings_of(name, profile);
            assert_eq!(
                found, expected,
                "{name} in {profile:?}; reasons: {reasons:#?}"
            );
        }
    }
}

#[test]
fn every_folder_of_examples_is_tested() {
    for entry in std::fs::read_dir(folder("")).expect("fixtures").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        assert!(EXAMPLES.iter().any(|(n, _)| *n == name), "{name}");
    }
}

/// A change that the spec forbids: bundle, file, old text, new text, the expected error, and the
/// requirement.
type Forbidden = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
);

/// Changes that the prose forbids but the published schema accepts.
const FORBIDDEN_BY_PROSE: &[Forbidden] = &[
    (
        "gull",
        "AGENT-CLI.md",
        "  default: transcript\n",
        "  default: pinned-session\n",
        "cont-default-in-supported@/continuation/default",
        "AIP-45 conformance 8, C15: the default is one of `supported`",
    ),
    (
        "quill",
        "AGENT-CLI.md",
        "  - id: proofread\n",
        "  - id: default\n",
        "mode-id-unique@/modes/1/id",
        "AIP-45 conformance 6, C15: mode ids are unique",
    ),
    (
        "harbor",
        "AGENT-CLI.md",
        "  - id: region\n",
        "  - id: model\n",
        "option-id-unique@/options/2/id",
        "AIP-45 conformance 7, C15: option ids are unique",
    ),
    (
        "harbor",
        "AGENT-CLI.md",
        "    default: north\n",
        "    default: north\n    min: 1\n",
        "option-minmax-non-integer@/options/2/min",
        "AIP-45 conformance 7, C15: `min` and `max` are for integers",
    ),
    (
        "gull",
        "AGENT-CLI.md",
        "    default: 2\n",
        "    default: deep\n",
        "option-default-type@/options/0/default",
        "AIP-45 §Options: the default has the declared type",
    ),
    (
        "forge",
        "CLI.md",
        "    every: PT8H\n",
        "    every: Pfoo\n",
        "auth-refresh-every-iso8601@/auth/refresh/every",
        "C17: an ISO-8601 duration, although the pattern accepts more",
    ),
    (
        "forge",
        "CLI.md",
        "parse: 'forge version (\\d+\\.\\d+\\.\\d+)'",
        "parse: 'forge version \\d+'",
        "vc-parse-capture-group@/version_check/parse",
        "AIP-29 §Version detection: at least one capture group",
    ),
    (
        "forge",
        "CLI.md",
        "range: \">=3.2.0 <4.0.0\"",
        "range: newest",
        "vc-range-valid@/version_check/range",
        "AIP-29 §Version detection: a semver range",
    ),
    (
        "forge",
        "CLI.md",
        "      - api.forge.example\n",
        "      - 10.0.0.0/8\n",
        "sb29-egress-cidr-port-scheme@/sandbox/network/egress/0",
        "AIP-29 §Sandbox: only host names and globs; CIDR blocks are not supported yet",
    ),
];

#[test]
fn violations_of_the_prose_are_errors() {
    for (name, file, old, new, mark, why) in FORBIDDEN_BY_PROSE {
        let mut bundle = Bundle::new(name);
        bundle.replace(file, old, new);
        let doc = Document::parse(bundle.dir.join(file), bundle.text(file));
        let root = doc.root.as_ref().expect("a mapping");
        let shapes = shapes_for(doc.doctype.expect("a doctype"));
        let by_schema = violations(shapes, root, Location::Value(root));
        assert!(by_schema.is_empty(), "{mark}: the schema also forbids it");
        for profile in [Profile::Default, Profile::Spec, Profile::Reference] {
            let errors: Vec<String> = bundle
                .lint(profile)
                .iter()
                .filter(|f| f.severity == Severity::Error && bundle.name_of(f) == *file)
                .map(|f| format!("{}@{}", f.rule.slug, f.pointer))
                .collect();
            assert_eq!(errors, [*mark], "{why} ({profile:?})");
        }
    }
}

/// Changes that the schema forbids. Each is an error at the right place.
const FORBIDDEN_BY_SCHEMA: &[Forbidden] = &[
    (
        "quill",
        "AGENT-CLI.md",
        "  - id: proofread\n",
        "  - id: _proofread\n",
        "mode-id-pattern@/modes/1/id",
        "AIP-45 §Modes: ids start with a letter or a digit",
    ),
    (
        "gull",
        "AGENT-CLI.md",
        "  default: transcript\n  supported:\n    - transcript\n",
        "  default: native-resume\n  supported:\n    - native-resume\n",
        "cont-native-resume-cap@/continuation/default",
        "AIP-45 §Continuation: native-resume requires `capabilities.resumable`",
    ),
    (
        "gull",
        "AGENT-CLI.md",
        "  mode: ephemeral\n",
        "  mode: resumable\n",
        "session-resumable-cap@/session/mode",
        "AIP-45 §Session model: resumable requires `capabilities.resumable`",
    ),
    (
        "harbor",
        "harbor.ACP.md",
        "    tier: governance-aware\n",
        "    tier: sandboxed\n",
        "acp-sandboxed-needs-sandbox@/metadata/aip44",
        "AIP-44: tier `sandboxed` requires a sandbox",
    ),
];

#[test]
fn violations_of_the_schema_are_reported_at_the_right_place() {
    for (name, file, old, new, mark, why) in FORBIDDEN_BY_SCHEMA {
        let mut bundle = Bundle::new(name);
        bundle.replace(file, old, new);
        let errors: Vec<String> = bundle
            .lint(Profile::Spec)
            .iter()
            .filter(|f| f.severity == Severity::Error && bundle.name_of(f) == *file)
            .map(|f| format!("{}@{}", f.rule.slug, f.pointer))
            .collect();
        assert!(errors.contains(&mark.to_string()), "{why}: {errors:?}");
    }
}

#[test]
fn schema_violations_cite_the_spec_of_the_schema() {
    let dir = folder("pricing-snapshot");
    let rules = RuleSet::profile_defaults(Profile::Spec);
    let options = LintOptions::new(&rules, &Disk, &dir);
    let findings = lint_files(&[dir.join("TOOL.md")], &options).findings;
    let specs: Vec<&str> = findings.iter().map(|f| f.source.spec).collect();
    assert_eq!(specs, ["AIP-14"]);
}
