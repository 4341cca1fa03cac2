//! Which rules are on in a run, and with which severity.

use std::collections::HashMap;

use crate::registry;
use crate::rule::{Profile, Rule, Severity};

/// The rules that are on, with their severities.
#[derive(Clone, Debug)]
pub struct RuleSet {
    profile: Profile,
    on: HashMap<usize, Severity>,
}

/// A selector matches no rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown rule `{name}`{}", did_you_mean(name, suggestion))]
pub struct UnknownRule {
    /// The selector.
    pub name: String,
    /// A rule with a similar name.
    pub suggestion: Option<&'static str>,
}

fn did_you_mean(name: &str, suggestion: &Option<&'static str>) -> String {
    // A selector without a star is a full name.
    let is_prefix = |rule: &Rule| {
        let rest = rule.slug.strip_prefix(name);
        !name.is_empty() && rest.is_some_and(|rest| rest.starts_with('-') || name.ends_with('-'))
    };
    if registry::rules().any(is_prefix) {
        let prefix = name.trim_end_matches('-');
        return format!("; to select by prefix, write `{prefix}-*`");
    }
    match suggestion {
        Some(slug) => format!("; did you mean `{slug}`?"),
        None => "; `agentproto rules` lists all rules".to_owned(),
    }
}

fn key(rule: &'static Rule) -> usize {
    std::ptr::from_ref(rule) as usize
}

impl RuleSet {
    /// All rules that are on in a profile, with their severities there.
    pub fn profile_defaults(profile: Profile) -> Self {
        let on = registry::rules()
            .filter_map(|rule| Some((key(rule), rule.severity_in(profile)?)))
            .collect();
        RuleSet { profile, on }
    }

    /// The profile that the set was made from.
    pub fn profile(&self) -> Profile {
        self.profile
    }

    /// Severity of a rule. `None` if the rule is off.
    pub fn severity(&self, rule: &'static Rule) -> Option<Severity> {
        self.on.get(&key(rule)).copied()
    }

    /// Keeps only the rules that a selector matches. Selected rules are turned on even if they are
    /// off in the profile.
    pub fn select(&mut self, selectors: &[String]) -> Result<(), UnknownRule> {
        let mut kept = HashMap::new();
        for selector in selectors {
            for rule in matching(selector)? {
                let severity = self.severity(rule).unwrap_or(rule.severity);
                kept.insert(key(rule), severity);
            }
        }
        self.on = kept;
        Ok(())
    }

    /// Turns off the rules that a selector matches.
    pub fn ignore(&mut self, selectors: &[String]) -> Result<(), UnknownRule> {
        for selector in selectors {
            for rule in matching(selector)? {
                self.on.remove(&key(rule));
            }
        }
        Ok(())
    }

    /// Sets the severity of the rules that the selector `slug` matches. `None` turns them off.
    pub fn set(&mut self, slug: &str, severity: Option<Severity>) -> Result<(), UnknownRule> {
        for rule in matching(slug)? {
            match severity {
                Some(severity) => self.on.insert(key(rule), severity),
                None => self.on.remove(&key(rule)),
            };
        }
        Ok(())
    }
}

/// The rules that a selector matches. A selector is a slug, or a prefix with a star (`setup-*`,
/// `*`).
pub fn matching(selector: &str) -> Result<Vec<&'static Rule>, UnknownRule> {
    let selector = selector.trim();
    let hits: Vec<_> = match selector.strip_suffix('*') {
        Some(prefix) => registry::rules()
            .filter(|r| r.slug.starts_with(prefix))
            .collect(),
        None => registry::rules().filter(|r| r.slug == selector).collect(),
    };
    if hits.is_empty() {
        return Err(UnknownRule {
            name: selector.to_owned(),
            suggestion: registry::closest(selector),
        });
    }
    Ok(hits)
}
