//! The explicit table of all rules and checks.

use crate::context::Context;
use crate::rule::Rule;
use crate::rules;
use agentproto_manifest::Doctype;
use agentproto_text::closest_of;

/// A function that looks at one document and reports for any rule of its family.
pub struct Check {
    pub doctypes: &'static [Doctype],
    pub run: fn(&Context<'_>),
}

/// Rules that belong together and the checks that decide them.
pub struct Family {
    pub name: &'static str,
    pub rules: &'static [&'static Rule],
    pub checks: &'static [Check],
}

/// In the order in which `rules` and the reference print them.
pub static FAMILIES: &[&Family] = rules::FAMILIES;

pub fn rules() -> impl Iterator<Item = &'static Rule> {
    FAMILIES
        .iter()
        .flat_map(|family| family.rules.iter().copied())
}

pub fn find(slug: &str) -> Option<&'static Rule> {
    rules().find(|rule| rule.slug == slug)
}

/// The slug that a mistyped one was meant to be.
pub fn closest(slug: &str) -> Option<&'static str> {
    closest_of(slug, rules().map(|rule| rule.slug))
}
