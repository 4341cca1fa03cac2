//! Rules about the inline ignores themselves. `lint::suppress` finds and reports them.

use crate::registry::Family;
use crate::rule::{Example, FixKind, Level, Rule, Scope, Severity, Source};
use agentproto_manifest::Doctype;

pub static FAMILY: Family = Family {
    name: "ignores",
    rules: &[&UNUSED, &UNKNOWN_RULE, &NO_REASON, &MALFORMED],
    checks: &[],
};

const SOURCE: Source = Source {
    spec: "agentproto",
    section: "Inline ignores",
};

pub static UNUSED: Rule = Rule {
    slug: "ignore-unused",
    title: "An inline ignore suppresses nothing",
    severity: Severity::Warning,
    level: Level::May,
    source: SOURCE,
    doctypes: &Doctype::ALL,
    scope: Scope::Field,
    fix: FixKind::Safe,
    what: "Every rule that an ignore names has a finding on that line, or in that file for `ignore-file`. Rules that are off in the run are not judged.",
    why: "A dead ignore hides the next mistake of its kind, and tells readers of an exception that is no longer there.",
    bad: Example::over(
        "quill",
        "AGENT-CLI.md",
        "bin: quill # agentproto: ignore[fm-unknown-field] kept for an old host\n",
    ),
    good: Example::over("quill", "AGENT-CLI.md", "bin: quill\n"),
    ..Rule::BASE
};

pub static UNKNOWN_RULE: Rule = Rule {
    slug: "ignore-unknown-rule",
    title: "An inline ignore names a rule that does not exist",
    severity: Severity::Warning,
    level: Level::May,
    source: SOURCE,
    doctypes: &Doctype::ALL,
    scope: Scope::Field,
    fix: FixKind::Suggest,
    what: "Every name between the brackets of an ignore is the full name of a rule; there are no wildcards.",
    why: "A mistyped name ignores nothing, so the finding that it was written for still counts.",
    bad: Example::over(
        "quill",
        "AGENT-CLI.md",
        "surprise: true # agentproto: ignore[fm-unknown-feild] kept for an old host\n",
    ),
    good: Example::over(
        "quill",
        "AGENT-CLI.md",
        "surprise: true # agentproto: ignore[fm-unknown-field] kept for an old host\n",
    ),
    ..Rule::BASE
};

pub static NO_REASON: Rule = Rule {
    slug: "ignore-no-reason",
    title: "An inline ignore gives no reason",
    severity: Severity::Info,
    level: Level::May,
    source: SOURCE,
    doctypes: &Doctype::ALL,
    scope: Scope::Field,
    fix: FixKind::Suggest,
    what: "Some text follows the closing bracket of an ignore.",
    why: "Who reads the exception later cannot tell whether it still holds.",
    bad: Example::over(
        "quill",
        "AGENT-CLI.md",
        "surprise: true # agentproto: ignore[fm-unknown-field]\n",
    ),
    good: Example::over(
        "quill",
        "AGENT-CLI.md",
        "surprise: true # agentproto: ignore[fm-unknown-field] kept for an old host\n",
    ),
    ..Rule::BASE
};

pub static MALFORMED: Rule = Rule {
    slug: "ignore-malformed",
    title: "A comment addresses agentproto in a form that it does not know",
    severity: Severity::Warning,
    level: Level::May,
    source: SOURCE,
    doctypes: &Doctype::ALL,
    scope: Scope::Field,
    fix: FixKind::Suggest,
    what: "A comment that starts with `agentproto:` goes on with `ignore[rule, …] reason` or `ignore-file[rule, …] reason`; below the frontmatter only the latter, in an HTML comment.",
    why: "A directive in another form does nothing, and nobody would notice.",
    bad: Example::over(
        "quill",
        "AGENT-CLI.md",
        "surprise: true # agentproto: ignore fm-unknown-field\n",
    ),
    good: Example::over(
        "quill",
        "AGENT-CLI.md",
        "surprise: true # agentproto: ignore[fm-unknown-field] kept for an old host\n",
    ),
    ..Rule::BASE
};
