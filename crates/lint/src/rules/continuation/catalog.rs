//! The records of the continuation rules.

use super::*;
use crate::rule::{Example, FixKind, Level, Rule, Scope, Severity, Source};

const BASE: Rule = Rule::aip45("Continuation");

const CONFORMANCE: Source = Source::aip45("Conformance");

const fn over(yaml: &'static str) -> Example {
    Example::over("quill", "AGENT-CLI.md", yaml)
}

pub static CONT_RECOMMENDED: Rule = Rule {
    slug: "cont-recommended",
    title: "The manifest does not say how turns continue",
    severity: Severity::Warning,
    level: Level::Should,
    decides: &["A45-CONT-01"],
    fix: FixKind::Safe,
    what: "The manifest has a `continuation` block.",
    why: "Without it every turn starts from nothing, even where the agent could remember.",
    bad: Example::file(
        "quill",
        "AGENT-CLI.md",
        "---\nname: quill\nid: quill\ndescription: Writing agent.\nversion: 3.0.1\nbin: quill\n\
         install:\n  - method: npm\n    package: \"@quillworks/quill@2.6.0\"\n\
         version_check:\n  cmd: quill --version\n  parse: 'quill (\\d+\\.\\d+\\.\\d+)'\n  range: ^2.6.0\n\
         sandbox: ./quill.SANDBOX.md\n\
         protocol: proprietary\nadapter: \"@quillworks/adapter-quill\"\n\
         session:\n  mode: persistent\n---\n",
    ),
    good: over(
        "continuation:\n  default: pinned-session\n  supported: [pinned-session, transcript, none]\n",
    ),
    ..BASE
};

pub static CONT_DEFAULT_IN_SUPPORTED: Rule = Rule {
    slug: "cont-default-in-supported",
    title: "The default continuation is not among the supported ones",
    source: CONFORMANCE,
    decides: &["A45-CONF-13"],
    scope: Scope::CrossField,
    fix: FixKind::Safe,
    what: "`continuation.default` is one of the strategies in `continuation.supported`.",
    why: "A host must refuse a strategy outside the list, so this manifest cannot be dispatched at all.",
    bad: over("continuation:\n  default: transcript\n  supported: [pinned-session, none]\n"),
    good: over("continuation:\n  default: transcript\n  supported: [transcript, none]\n"),
    note: Some(
        "C15: the JSON Schema does not say this; the conformance list does, and we follow it.",
    ),
    ..BASE
};

pub static CONT_STRATEGY_ENUM: Rule = Rule {
    slug: "cont-strategy-enum",
    title: "The continuation strategy is not one that AIP-45 knows",
    decides: &["A45-CONT-02", "A45-FM-21"],
    fix: FixKind::Suggest,
    what: "Strategies are `none`, `pinned-session`, `transcript` and `native-resume`.",
    why: "Hosts look a strategy up by its name; an unknown one cannot be carried out.",
    bad: over("continuation:\n  default: none\n  supported: [none, transcripts]\n"),
    good: over("continuation:\n  default: none\n  supported: [none, transcript]\n"),
    ..BASE
};

pub static CONT_SUPPORTED_UNIQUE: Rule = Rule {
    slug: "cont-supported-unique",
    words: Some(|ctx, v| ctx.report(listed_twice(ctx, v))),
    title: "A continuation strategy is listed twice",
    decides: &["A45-CONT-02"],
    fix: FixKind::Safe,
    what: "Every strategy stands once in `continuation.supported`.",
    why: "The list is a set, and the schema refuses a second copy.",
    bad: over("continuation:\n  default: none\n  supported: [none, transcript, none]\n"),
    good: over("continuation:\n  default: none\n  supported: [none, transcript]\n"),
    ..BASE
};

pub static CONT_KEYSCOPE_ENUM: Rule = Rule {
    slug: "cont-keyscope-enum",
    title: "The key of pinned sessions has a part that AIP-45 does not know",
    decides: &["A45-CONT-13"],
    fix: FixKind::Suggest,
    what: "Parts of `key_scope` are `conversation`, `operator`, `user`, `guild` and `workspace`.",
    why: "The key decides who shares a process; a part that no host knows separates nobody.",
    bad: over(
        "continuation:\n  default: pinned-session\n  supported: [pinned-session]\n  pinned_session:\n    key_scope: [conversation, team]\n",
    ),
    good: over(
        "continuation:\n  default: pinned-session\n  supported: [pinned-session]\n  pinned_session:\n    key_scope: [conversation, guild]\n",
    ),
    ..BASE
};

pub static CONT_IDLE_MIN: Rule = Rule {
    slug: "cont-idle-min",
    words: Some(idle_min),
    title: "The idle timeout of pinned sessions is below one second",
    decides: &["A45-CONT-12"],
    fix: FixKind::Suggest,
    what: "`pinned_session.idle_timeout_ms` is at least 1000.",
    why: "The value is in milliseconds; a smaller one drops the process before the next turn can come.",
    bad: over(
        "continuation:\n  default: pinned-session\n  supported: [pinned-session]\n  pinned_session:\n    idle_timeout_ms: 900\n",
    ),
    good: over(
        "continuation:\n  default: pinned-session\n  supported: [pinned-session]\n  pinned_session:\n    idle_timeout_ms: 900000\n",
    ),
    ..BASE
};

pub static CONT_NATIVE_RESUME_CAP: Rule = Rule {
    slug: "cont-native-resume-cap",
    words: Some(native_resume_cap),
    title: "Native resume by default without the capability to resume",
    source: CONFORMANCE,
    decides: &["A45-CONF-14", "A45-CONT-09"],
    scope: Scope::CrossField,
    what: "`continuation.default: native-resume` comes with `capabilities.resumable: true`.",
    why: "The strategy hands a session id to the agent's own resume flag, which then has to exist.",
    bad: over("continuation:\n  default: native-resume\n  supported: [native-resume, none]\n"),
    good: over(
        "continuation:\n  default: native-resume\n  supported: [native-resume, none]\ncapabilities:\n  resumable: true\n",
    ),
    ..BASE
};

pub static CONT_SUPPORTED_NATIVE_RESUME_CAP: Rule = Rule {
    slug: "cont-supported-native-resume-cap",
    title: "Native resume is offered without the capability to resume",
    severity: Severity::Warning,
    level: Level::Must,
    decides: &["A45-CONT-09"],
    scope: Scope::CrossField,
    what: "`native-resume` stands in `continuation.supported` only with `capabilities.resumable: true`.",
    why: "An operator may choose any supported strategy, and this one then fails at start.",
    bad: over("continuation:\n  default: none\n  supported: [none, native-resume]\n"),
    good: over("continuation:\n  default: none\n  supported: [none, transcript]\n"),
    note: Some(
        "The table of strategies requires the capability; the JSON Schema asks for it only where \
         `native-resume` is the default, so elsewhere this is a warning.",
    ),
    ..BASE
};

pub static CONT_PINNED_NEEDS_PERSISTENT: Rule = Rule {
    slug: "cont-pinned-needs-persistent",
    title: "A pinned session that has nothing to keep",
    severity: Severity::Warning,
    level: Level::Should,
    decides: &["A45-CONT-06"],
    scope: Scope::CrossField,
    what: "`pinned-session` goes with a session that outlives a turn and has `context_carryover` on.",
    why: "The strategy keeps the process so that its memory carries over; an ephemeral or forgetful session has none.",
    bad: over("session:\n  mode: ephemeral\n"),
    good: over("session:\n  mode: persistent\n  context_carryover: true\n"),
    note: Some(
        "The table speaks of `persistent` sessions. A `resumable` one outlives the process too, so it passes.",
    ),
    ..BASE
};

pub static CONT_PINNED_BLOCK_UNUSED: Rule = Rule {
    slug: "cont-pinned-block-unused",
    title: "Settings for a strategy that is not supported",
    severity: Severity::Info,
    level: Level::May,
    decides: &["A45-CONT-12"],
    scope: Scope::CrossField,
    fix: FixKind::Safe,
    what: "`pinned_session` is there only where `pinned-session` is supported.",
    why: "No host ever reads the block, so a change to it changes nothing.",
    bad: over(
        "continuation:\n  default: none\n  supported: [none]\n  pinned_session:\n    idle_timeout_ms: 900000\n",
    ),
    good: over(
        "continuation:\n  default: none\n  supported: [none, pinned-session]\n  pinned_session:\n    idle_timeout_ms: 900000\n",
    ),
    ..BASE
};

pub static CONT_PINNED_IDLE_GT_SESSION: Rule = Rule {
    slug: "cont-pinned-idle-gt-session",
    title: "A pinned process is to idle longer than its session lives",
    severity: Severity::Warning,
    level: Level::Derived,
    scope: Scope::CrossField,
    what: "`pinned_session.idle_timeout_ms` is not greater than `session.idle_timeout_ms`.",
    why: "Both times count, and the session ends first; the longer one promises memory that is gone.",
    bad: over("session:\n  mode: persistent\n  idle_timeout_ms: 60000\n"),
    good: over("session:\n  mode: persistent\n  idle_timeout_ms: 900000\n"),
    ..BASE
};

pub static CONT_KEYSCOPE_NO_CONVERSATION: Rule = Rule {
    slug: "cont-keyscope-no-conversation",
    title: "Conversations share one pinned process",
    severity: Severity::Warning,
    level: Level::Derived,
    what: "`key_scope` has `conversation` in it.",
    why: "What is said in one conversation would be in the agent's memory in the next.",
    bad: over(
        "continuation:\n  default: pinned-session\n  supported: [pinned-session]\n  pinned_session:\n    key_scope: [operator]\n",
    ),
    good: over(
        "continuation:\n  default: pinned-session\n  supported: [pinned-session]\n  pinned_session:\n    key_scope: [conversation]\n",
    ),
    ..BASE
};
