//! The rules of an operator's runtime binding (AIP-9).

use super::*;
use crate::rule::{Example, FixKind, Level, Rule, Scope, Source};
use agentproto_manifest::Doctype;

const OPERATOR: &[Doctype] = &[Doctype::Operator];

const AIP9: Source = Source {
    spec: "AIP-9",
    section: "Runtime binding",
};

/// Fragment over the operator of `harbor`, bound to the agent by path.
const fn harbor(yaml: &'static str) -> Example {
    Example::over("harbor", "OPERATOR.md", yaml)
}

/// Fragment over the operator of `fleet`, bound to the agent by slug.
const fn fleet(yaml: &'static str) -> Example {
    Example::over("fleet", "OPERATOR.md", yaml)
}

pub static OP_REF_REQUIRED: Rule = Rule {
    slug: "op-ref-required",
    words: Some(ref_required),
    title: "An operator on an agent CLI does not name it",
    source: AIP9,
    doctypes: OPERATOR,
    scope: Scope::CrossField,
    what: "`runtime.kind: agent-cli` comes with `runtime.ref`.",
    why: "The host cannot spawn an agent that is not named.",
    bad: harbor("runtime:\n  kind: agent-cli\n"),
    good: harbor("runtime:\n  kind: agent-cli\n  ref: ./AGENT-CLI.md\n"),
    ..Rule::BASE
};

pub static OP_REF_UNRESOLVED: Rule = Rule {
    slug: "op-ref-unresolved",
    title: "No agent has the id that the operator names",
    source: AIP9,
    doctypes: OPERATOR,
    scope: Scope::Registry,
    what: "A slug in `runtime.ref` is the `id` of an AGENT-CLI.md among the files of the run.",
    why: "The host must refuse to bind an operator to an agent that it does not know.",
    bad: fleet("runtime:\n  kind: agent-cli\n  ref: oter\n"),
    good: fleet("runtime:\n  kind: agent-cli\n  ref: otter\n"),
    note: Some(
        "C22: the schema of AIP-9 describes `ref` as `package#export` or a path, its prose and the \
         examples of AIP-45 use a bare slug. All three are accepted; only a slug is looked up here, \
         and only if the run holds any AGENT-CLI.md. A path is judged by ref-missing-file.",
    ),
    ..Rule::BASE
};

pub static OP_MODE_UNKNOWN: Rule = Rule {
    slug: "op-mode-unknown",
    title: "The agent has no such mode",
    source: AIP9,
    decides: &["A45-MODE-06"],
    doctypes: OPERATOR,
    scope: Scope::CrossFile,
    fix: FixKind::Suggest,
    what: "`runtime.config.mode` is the id of a mode of the bound AGENT-CLI.md.",
    why: "The host must refuse to bind the operator.",
    bad: harbor("runtime:\n  kind: agent-cli\n  ref: ./AGENT-CLI.md\n  config:\n    mode: plan\n"),
    good: harbor(
        "runtime:\n  kind: agent-cli\n  ref: ./AGENT-CLI.md\n  config:\n    mode: plan-only\n",
    ),
    ..Rule::BASE
};

pub static OP_OPTION_UNKNOWN: Rule = Rule {
    slug: "op-option-unknown",
    title: "The agent has no such option",
    source: AIP9,
    decides: &["A45-OPT-10"],
    doctypes: OPERATOR,
    scope: Scope::CrossFile,
    fix: FixKind::Suggest,
    what: "Each key of `runtime.config.options` is the id of an option of the bound AGENT-CLI.md.",
    why: "An unknown option is a hard error when the operator is loaded.",
    bad: harbor(
        "runtime:\n  kind: agent-cli\n  ref: ./AGENT-CLI.md\n  config:\n    options:\n      max_turns: 20\n",
    ),
    good: harbor(
        "runtime:\n  kind: agent-cli\n  ref: ./AGENT-CLI.md\n  config:\n    options:\n      turn_budget: 20\n",
    ),
    ..Rule::BASE
};

pub static OP_OPTION_VALUE: Rule = Rule {
    slug: "op-option-value",
    title: "The agent's option does not take this value",
    source: AIP9,
    decides: &["A45-OPT-09"],
    doctypes: OPERATOR,
    scope: Scope::CrossFile,
    fix: FixKind::Suggest,
    what: "Each value in `runtime.config.options` has the type of its option, is one of its \
           `enum` and lies within its `min` and `max`.",
    why: "The host checks the value before it spawns the agent, and refuses to bind the operator.",
    bad: harbor(
        "runtime:\n  kind: agent-cli\n  ref: ./AGENT-CLI.md\n  config:\n    options:\n      turn_budget: 900\n",
    ),
    good: harbor(
        "runtime:\n  kind: agent-cli\n  ref: ./AGENT-CLI.md\n  config:\n    options:\n      turn_budget: 250\n",
    ),
    ..Rule::BASE
};

pub static OP_CONTINUATION_UNSUPPORTED: Rule = Rule {
    slug: "op-continuation-unsupported",
    title: "The agent does not support this continuation",
    source: AIP9,
    decides: &["A45-CONT-10"],
    doctypes: OPERATOR,
    scope: Scope::CrossFile,
    what: "`runtime.config.continuation` is among `continuation.supported` of the bound AGENT-CLI.md.",
    why: "Hosts must refuse to dispatch with a strategy outside that list.",
    bad: harbor(
        "runtime:\n  kind: agent-cli\n  ref: ./AGENT-CLI.md\n  config:\n    continuation: pinned-session\n",
    ),
    good: harbor(
        "runtime:\n  kind: agent-cli\n  ref: ./AGENT-CLI.md\n  config:\n    continuation: transcript\n",
    ),
    note: Some("An agent without a `continuation` block is taken to support `none` only."),
    ..Rule::BASE
};

pub static OP_SESSION_RESUMABLE: Rule = Rule {
    slug: "op-session-resumable",
    title: "A resumable session on an agent that cannot resume",
    level: Level::Derived,
    source: AIP9,
    doctypes: OPERATOR,
    scope: Scope::CrossFile,
    what: "`runtime.session.mode: resumable` needs `capabilities.resumable: true` in the bound \
           AGENT-CLI.md.",
    why: "AIP-45 asks the same of the manifest's own session; the operator cannot override what \
          the program is able to do.",
    bad: fleet("runtime:\n  kind: agent-cli\n  ref: otter\n  session:\n    mode: resumable\n"),
    good: fleet("runtime:\n  kind: agent-cli\n  ref: otter\n  session:\n    mode: persistent\n"),
    ..Rule::BASE
};
