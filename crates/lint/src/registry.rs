//! The table of all rules and checks.

use crate::context::RuleContext;
use crate::rule::Rule;
use crate::rules;
use agentproto_manifest::Doctype;
use agentproto_text::closest_of;

/// A function that checks one document and may report any rule of its family.
pub struct FamilyCheck {
    /// The doctypes that the check runs on.
    pub doctypes: &'static [Doctype],
    /// Reports findings to the context.
    pub run: fn(&RuleContext<'_>),
}

/// Related rules, and the checks that report them.
pub struct Family {
    /// Name in snake case: the directory of its pages and snapshots.
    pub name: &'static str,
    /// The rules, in the order of the reference.
    pub rules: &'static [&'static Rule],
    /// The checks. Rules without a check are reported by schema constraints or by the engine.
    pub checks: &'static [FamilyCheck],
}

/// All families, in the order in which `rules` and docs/rules.md print them.
pub static FAMILIES: &[&Family] = rules::FAMILIES;

/// All rules.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    FAMILIES
        .iter()
        .flat_map(|family| family.rules.iter().copied())
}

/// The rule with this slug.
pub fn find(slug: &str) -> Option<&'static Rule> {
    rules().find(|rule| rule.slug == slug)
}

/// The existing slug that is most similar to a mistyped one.
pub fn closest(slug: &str) -> Option<&'static str> {
    closest_of(slug, rules().map(|rule| rule.slug))
}
