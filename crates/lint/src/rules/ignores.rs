//! Rules about inline ignores. `lint::suppress` checks and reports them.

use crate::registry::Family;
use crate::rule::{FixKind, Level, Rule, Scope, Severity, Source};
use agentproto_manifest::Doctype;

pub static FAMILY: Family = Family {
    name: "ignores",
    rules: &[&UNUSED, &UNKNOWN_RULE, &NO_REASON, &INVALID],
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
    docs: include_str!("ignores/ignore-unused.md"),
    ..Rule::BASE
};

pub static UNKNOWN_RULE: Rule = Rule {
    slug: "ignore-unknown-rule",
    title: "An inline ignore names an unknown rule",
    severity: Severity::Warning,
    level: Level::May,
    source: SOURCE,
    doctypes: &Doctype::ALL,
    scope: Scope::Field,
    fix: FixKind::Suggest,
    docs: include_str!("ignores/ignore-unknown-rule.md"),
    ..Rule::BASE
};

pub static NO_REASON: Rule = Rule {
    slug: "ignore-no-reason",
    title: "An inline ignore has no reason",
    severity: Severity::Info,
    level: Level::May,
    source: SOURCE,
    doctypes: &Doctype::ALL,
    scope: Scope::Field,
    fix: FixKind::Suggest,
    docs: include_str!("ignores/ignore-no-reason.md"),
    ..Rule::BASE
};

pub static INVALID: Rule = Rule {
    slug: "ignore-malformed",
    title: "An inline ignore is invalid",
    severity: Severity::Warning,
    level: Level::May,
    source: SOURCE,
    doctypes: &Doctype::ALL,
    scope: Scope::Field,
    fix: FixKind::Suggest,
    docs: include_str!("ignores/ignore-malformed.md"),
    ..Rule::BASE
};
