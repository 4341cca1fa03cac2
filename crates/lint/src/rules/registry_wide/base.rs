//! Changes between two revisions of a manifest that require a new version.

use super::{IDENTITY, major};
use crate::rule::{FixKind, Level, Scope, Severity, Source};
use crate::{Finding, FindingDraft, Rule, RuleSet, finish_draft, suppress};
use agentproto_manifest::range::Range;
use agentproto_manifest::{Doctype, Document, Node, Span};
use agentproto_text::truncate;

/// Rule `range-major-bump`.
pub static RANGE_MAJOR_BUMP: Rule = Rule {
    slug: "range-major-bump",
    title: "The range accepts a new major version of the binary, but the manifest's major is unchanged",
    severity: Severity::Warning,
    level: Level::Should,
    source: IDENTITY,
    decides: &["A29-ID-04"],
    doctypes: &[Doctype::Cli, Doctype::AgentCli],
    scope: Scope::Registry,
    fix: FixKind::Suggest,
    docs: include_str!("range-major-bump.md"),
    ..Rule::BASE
};

/// Rule `shape-version-bump`.
pub static SHAPE_VERSION_BUMP: Rule = Rule {
    slug: "shape-version-bump",
    title: "Permissions or install methods changed, but the version did not",
    severity: Severity::Warning,
    level: Level::Should,
    source: Source {
        spec: "AIP-29",
        section: "Required fields",
    },
    decides: &["A29-REQ-06"],
    doctypes: &[Doctype::Cli],
    scope: Scope::Registry,
    fix: FixKind::Suggest,
    docs: include_str!("shape-version-bump.md"),
    ..Rule::BASE
};

/// Compares a manifest with its base revision. `old` and `new` are the same file.
pub fn compare_with_base(old: &Document, new: &Document, rules: &RuleSet) -> Vec<Finding> {
    let (Some(before), Some(after), Some(doctype)) = (&old.root, &new.root, new.doctype) else {
        return Vec::new();
    };
    let same_bundle = old.doctype == new.doctype
        && before.str_at(&["id"]) == after.str_at(&["id"])
        && matches!(doctype, Doctype::Cli | Doctype::AgentCli);
    if !same_bundle {
        return Vec::new();
    }
    let mut findings = Vec::new();
    if let Some(severity) = rules.severity(&RANGE_MAJOR_BUMP)
        && let Some(draft) = range(before, after)
    {
        findings.push(finish_draft(new, draft, severity));
    }
    if doctype == Doctype::Cli
        && let Some(severity) = rules.severity(&SHAPE_VERSION_BUMP)
        && let Some(draft) = shape(before, after)
    {
        findings.push(finish_draft(new, draft, severity));
    }
    suppress::mark(new, rules, &mut findings);
    findings
}

/// Whether a rule needs an earlier revision of the manifest.
pub fn needs_base(rule: &'static Rule) -> bool {
    rule == &RANGE_MAJOR_BUMP || rule == &SHAPE_VERSION_BUMP
}

fn range<'d>(before: &Node, after: &'d Node) -> Option<FindingDraft<'d>> {
    let node = after.at(&["version_check", "range"])?;
    let (old, new) = (before.str_at(&["version_check", "range"])?, node.as_str()?);
    let version = after.get("version")?;
    let (was, is) = (
        major(before.str_at(&["version"])?)?,
        major(version.as_str()?)?,
    );
    if old == new || is > was {
        return None;
    }
    let added = new_major(old, new)?;
    Some(
        FindingDraft::new(
            &RANGE_MAJOR_BUMP,
            node,
            format!(
                "the range now accepts major version {added} of the binary (before: `{}`)",
                truncate(old, 40)
            ),
        )
        .help(format!("raise `version` to {}.0.0", was.saturating_add(1)))
        .nearby(
            version.span,
            format!("the manifest's major version is still {is}"),
        ),
    )
}

/// The lowest major version that `new` accepts and `old` does not.
fn new_major(old: &str, new: &str) -> Option<u64> {
    let parse = |text: &str| match text.trim() {
        "" => None,
        text => Range::parse(text).ok(),
    };
    parse(new)?.first_major_beyond(&parse(old)?)
}

fn shape<'d>(before: &Node, after: &'d Node) -> Option<FindingDraft<'d>> {
    let version = after.get("version")?;
    let parse = |text: &str| semver::Version::parse(text).ok();
    let (old, new) = (before.str_at(&["version"])?, version.as_str()?);
    let bumped = match (parse(old), parse(new)) {
        (Some(old), Some(new)) => new > old,
        _ => new != old,
    };
    if bumped {
        return None;
    }
    let (what, span) = sandbox_key(before, after).or_else(|| removed_method(before, after))?;
    Some(
        FindingDraft::new(
            &SHAPE_VERSION_BUMP,
            version,
            format!("{what}, but the version is still {}", truncate(new, 40)),
        )
        .help("raise `version`, so that hosts read the bundle again")
        .nearby(span, "changed here"),
    )
}

/// A new key of `sandbox` or of one of its blocks.
fn sandbox_key(before: &Node, after: &Node) -> Option<(String, Span)> {
    let (old, new) = (before.get("sandbox")?, after.get("sandbox")?);
    for block in new.entries() {
        let Some(was) = old.get(&block.key) else {
            return Some((format!("`sandbox.{}` is new", block.key), block.key_span));
        };
        for entry in block.value.entries() {
            if was.is_map() && !was.has(&entry.key) {
                let what = format!("`sandbox.{}.{}` is new", block.key, entry.key);
                return Some((what, entry.key_span));
            }
        }
    }
    None
}

fn removed_method(before: &Node, after: &Node) -> Option<(String, Span)> {
    let install = after.entry("install")?;
    let has = |method: &str| {
        let mut items = install.value.items().iter();
        items.any(|item| item.str_at(&["method"]) == Some(method))
    };
    let lost = before
        .get("install")?
        .items()
        .iter()
        .filter_map(|item| item.str_at(&["method"]))
        .find(|method| !has(method))?;
    let what = format!("the install method `{}` was removed", truncate(lost, 40));
    Some((what, install.key_span))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_ranges_are_not_compared() {
        assert_eq!(new_major("^1.0.0", "^1.0.0 || ^7.0.0"), Some(7));
        assert_eq!(new_major("", "^1.0.0"), None);
        assert_eq!(new_major("^1.0.0", " "), None);
        assert_eq!(new_major("nonsense", "^1.0.0"), None);
        assert_eq!(new_major("^1.0.0", "<99999999999999999999999"), None);
    }
}
