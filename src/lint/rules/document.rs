//! The file as a whole: fences, YAML, and the general schema rules.

use crate::lint::registry::Family;
use crate::lint::rule::{Example, FixKind, Level, Rule, Scope, Severity, Source};
use crate::lint::{Finding, RuleSet};
use crate::manifest::{Doctype, Document};

pub static FAMILY: Family = Family {
    name: "document",
    rules: &[
        &FM_TYPE,
        &FM_ENUM,
        &FM_RANGE,
        &FM_REQUIRED_MISSING,
        &FM_UNKNOWN_FIELD,
        &FILE_TOO_LARGE,
        &FILE_UNREADABLE,
        &INTERNAL_FAULT,
    ],
    checks: &[],
    claim: None,
};

pub static FM_TYPE: Rule = Rule {
    slug: "fm-type",
    title: "A field has the wrong type",
    severity: Severity::Error,
    level: Level::Must,
    source: Source {
        spec: "AIP-45",
        section: "Conformance",
    },
    decides: &["A45-CONF-01", "A44-CONF-04", "A29-OPT-09", "A29-OPT-12"],
    doctypes: &Doctype::ALL,
    scope: Scope::Field,
    fix: FixKind::Suggest,
    what: "Every field has the type that its schema gives it.",
    why: "A host reads the field by its type; another type is refused or, worse, misread.",
    bad: Example::over("harbor", "AGENT-CLI.md", "description: [a, list]\n"),
    good: Example::over(
        "harbor",
        "AGENT-CLI.md",
        "description: Talks to the harbour.\n",
    ),
    ..Rule::BASE
};

pub static FM_ENUM: Rule = Rule {
    slug: "fm-enum",
    title: "A field has a value outside its enumeration",
    ..Rule::BASE
};
pub static FM_RANGE: Rule = Rule {
    slug: "fm-range",
    title: "A field is outside its bounds",
    ..Rule::BASE
};
pub static FM_REQUIRED_MISSING: Rule = Rule {
    slug: "fm-required-missing",
    title: "A required field is missing",
    ..Rule::BASE
};
pub static FM_UNKNOWN_FIELD: Rule = Rule {
    slug: "fm-unknown-field",
    title: "A field that the schema does not know",
    ..Rule::BASE
};
pub static FILE_TOO_LARGE: Rule = Rule {
    slug: "file-too-large",
    title: "The file is too large to be a manifest",
    ..Rule::BASE
};
pub static FILE_UNREADABLE: Rule = Rule {
    slug: "file-unreadable",
    title: "The file cannot be read",
    ..Rule::BASE
};

pub static INTERNAL_FAULT: Rule = Rule {
    slug: "internal-fault",
    title: "A rule failed inside agentproto",
    ..Rule::BASE
};

/// The rules for schema violations that have no slug of their own.
pub fn is_general(rule: &'static Rule) -> bool {
    rule == &FM_TYPE
        || rule == &FM_ENUM
        || rule == &FM_RANGE
        || rule == &FM_REQUIRED_MISSING
        || rule == &FM_UNKNOWN_FIELD
}

/// Findings for what kept the file from being read; these need no doctype.
pub fn problem_findings(_doc: &Document, _rules: &RuleSet) -> Vec<Finding> {
    Vec::new()
}
