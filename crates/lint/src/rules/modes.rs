//! Modes: named sets of arguments and variables. One mode is active per turn.

use crate::context::{FindingDraft, RuleContext};
use crate::edits;
use crate::finding::Safety;
use crate::registry::{Family, FamilyCheck};
use crate::rule::{FixKind, Level, Rule, Scope, Severity, Source};
use crate::shape::{SchemaViolation, draft, duplicate_texts};
use agentproto_manifest::{Doctype, Node};
use agentproto_text::closest_of;

pub static FAMILY: Family = Family {
    name: "modes",
    rules: &[
        &MODE_ID_PATTERN,
        &MODE_ID_UNIQUE,
        &MODE_EXTRA_PATCH,
        &MODE_EMPTY,
        &MODE_DANGEROUS,
    ],
    checks: &[FamilyCheck {
        doctypes: &[Doctype::AgentCli],
        run: check,
    }],
};

const BASE: Rule = Rule::aip45("Conformance");

pub static MODE_ID_PATTERN: Rule = Rule {
    slug: "mode-id-pattern",
    report: Some(|ctx, v| ctx.report(id_pattern(ctx, v.node))),
    title: "The id of a mode does not have the required form",
    decides: &["A45-CONF-07", "A45-FM-19"],
    fix: FixKind::Safe,
    docs: include_str!("modes/mode-id-pattern.md"),
    ..BASE
};

pub static MODE_ID_UNIQUE: Rule = Rule {
    slug: "mode-id-unique",
    title: "Two modes have the same id",
    decides: &["A45-CONF-06"],
    scope: Scope::CrossField,
    docs: include_str!("modes/mode-id-unique.md"),
    ..BASE
};

pub static MODE_EXTRA_PATCH: Rule = Rule {
    slug: "mode-extra-patch",
    report: Some(extra_patch),
    title: "A mode changes more than arguments and environment",
    decides: &["A45-CONF-08"],
    docs: include_str!("modes/mode-extra-patch.md"),
    ..BASE
};

pub static MODE_EMPTY: Rule = Rule {
    slug: "mode-empty",
    title: "A mode changes nothing",
    severity: Severity::Info,
    level: Level::May,
    source: Source::aip45("Modes"),
    decides: &["A45-MODE-05"],
    scope: Scope::CrossField,
    docs: include_str!("modes/mode-empty.md"),
    ..BASE
};

pub static MODE_DANGEROUS: Rule = Rule {
    slug: "mode-dangerous",
    title: "A mode disables the agent's own permission checks",
    severity: Severity::Warning,
    level: Level::Derived,
    source: Source::aip45("Modes"),
    docs: include_str!("modes/mode-dangerous.md"),
    ..BASE
};

const KNOWN: [&str; 4] = ["id", "description", "bin_args_append", "env"];

fn extra_patch<'d>(ctx: &RuleContext<'d>, v: &SchemaViolation<'d>) {
    let Some(entry) = v.entry else {
        return ctx.report(draft(ctx, v));
    };
    let key = entry.key.as_str();
    let draft = FindingDraft::new(
        &MODE_EXTRA_PATCH,
        entry,
        format!("unknown field `{key}` in a mode"),
    )
    .help(match closest_of(key, KNOWN) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => "a mode can only change `bin_args_append` and `env`".to_owned(),
    });
    ctx.report(draft);
}

fn id_pattern<'d>(ctx: &RuleContext<'d>, node: &'d Node) -> FindingDraft<'d> {
    let draft = FindingDraft::new(
        &MODE_ID_PATTERN,
        node,
        "the id of a mode must consist of lower-case letters, digits and `-`, and start with a letter or digit",
    );
    let Some(fixed) = node.as_str().and_then(|text| fix_id(text, '-')) else {
        return draft.help("choose another id, for example `plan-only`");
    };
    let taken = ctx
        .root
        .get("modes")
        .is_some_and(|modes| has_id(modes, &fixed));
    if taken {
        return draft.help("choose an id that no other mode uses");
    }
    let edits = edits::set_scalar(ctx.doc, node, &fixed);
    draft.help(format!("write `{fixed}`")).fix_if(
        Safety::Safe,
        format!("Replace it with `{fixed}`"),
        edits,
    )
}

/// Whether an entry of `modes` or `options` has this id.
pub fn has_id(list: &Node, id: &str) -> bool {
    list.items()
        .iter()
        .any(|item| item.str_at(&["id"]) == Some(id))
}

/// A corrected id: in lower case, with `joiner` between the words.
pub fn fix_id(text: &str, joiner: char) -> Option<String> {
    let mut id = String::new();
    for c in text.trim().chars() {
        match c {
            'a'..='z' | '0'..='9' => id.push(c),
            'A'..='Z' => id.push(c.to_ascii_lowercase()),
            '-' | '_' | ' ' | '.' | '/' | ':' => {
                if !id.is_empty() && !id.ends_with(joiner) {
                    id.push(joiner);
                }
            }
            _ => return None,
        }
    }
    while id.ends_with(joiner) {
        id.pop();
    }
    (1..=64).contains(&id.len()).then_some(id)
}

/// Reports duplicate ids in a list of modes or options.
pub fn unique_ids<'d>(ctx: &RuleContext<'d>, rule: &'static Rule, list: &'d Node, what: &str) {
    for (id, first) in duplicate_texts(list.items().iter().filter_map(|item| item.get("id"))) {
        let text = id.as_str().unwrap_or("");
        ctx.report(
            FindingDraft::new(rule, id, format!("duplicate {what} `{text}`"))
                .help("give one of them another id, or remove it")
                .nearby(first.span, "first here"),
        );
    }
}

fn check(ctx: &RuleContext<'_>) {
    let Some(modes) = ctx.root.get("modes") else {
        return;
    };
    unique_ids(ctx, &MODE_ID_UNIQUE, modes, "mode");
    for mode in modes.items() {
        empty(ctx, mode);
        dangerous(ctx, mode);
    }
}

fn empty<'d>(ctx: &RuleContext<'d>, mode: &'d Node) {
    let Some(id) = mode.get("id") else {
        return;
    };
    let patched = mode.entries().iter().any(|e| match e.key.as_str() {
        "id" | "description" => false,
        // An empty list or mapping changes nothing. A wrong type or key is reported by another
        // rule.
        "bin_args_append" => !e.value.is_seq() || !e.value.items().is_empty(),
        "env" => !e.value.is_map() || !e.value.entries().is_empty(),
        _ => true,
    });
    if patched || id.as_str().is_none_or(|id| id == "default") {
        return;
    }
    ctx.report(
        FindingDraft::new(
            &MODE_EMPTY,
            id,
            "this mode adds no arguments and no variables, so it has no effect",
        )
        .help("add `bin_args_append` or `env`; only the mode `default` may have neither"),
    );
}

/// Parts of arguments that disable permissions, approvals or the sandbox.
const DANGEROUS: [&str; 9] = [
    "bypass",
    "yolo",
    "skip-permission",
    "skip_permission",
    "skippermission",
    "dangerously",
    "danger-full-access",
    "no-sandbox",
    "disable-sandbox",
];

fn is_dangerous(text: &str) -> bool {
    let lower;
    let text = if text.bytes().any(|b| b.is_ascii_uppercase()) {
        lower = text.to_ascii_lowercase();
        &lower
    } else {
        text
    };
    DANGEROUS.iter().any(|word| text.contains(word))
}

/// Reports one finding per mode: at the dangerous argument or variable, or else at the id.
fn dangerous<'d>(ctx: &RuleContext<'d>, mode: &'d Node) {
    let args = mode.get("bin_args_append");
    let variables = mode.get("env").map_or(&[][..], Node::entries).iter();
    let place = args
        .and_then(|args| {
            args.items()
                .iter()
                .find(|a| a.as_str().is_some_and(is_dangerous))
        })
        .or_else(|| {
            let on = |value: &Node| !matches!(value.as_str(), Some("" | "0" | "false"));
            variables
                .clone()
                .find(|e| is_dangerous(&e.key) && on(&e.value))
                .map(|e| &e.value)
        })
        .or_else(|| {
            mode.get("id")
                .filter(|id| id.as_str().is_some_and(is_dangerous))
        });
    if let Some(node) = place {
        ctx.report(
            FindingDraft::new(
                &MODE_DANGEROUS,
                node,
                "this mode disables the agent's own permission checks",
            )
            .help("remove it, or restrict it with the host's policy and mention that in `description`"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_corrected() {
        assert_eq!(fix_id("Plan_Only", '-').as_deref(), Some("plan-only"));
        assert_eq!(fix_id("max-turns", '_').as_deref(), Some("max_turns"));
        assert_eq!(fix_id("-a--b-", '-').as_deref(), Some("a-b"));
        assert_eq!(fix_id("", '-'), None);
        assert_eq!(fix_id("---", '-'), None);
        assert_eq!(fix_id("plän", '-'), None);
        assert_eq!(fix_id(&"a".repeat(65), '-'), None);
    }

    #[test]
    fn dangerous_arguments_are_found_in_any_case() {
        assert!(is_dangerous("bypassPermissions"));
        assert!(is_dangerous("--dangerously-skip-permissions"));
        assert!(is_dangerous("--YOLO"));
        assert!(!is_dangerous("acceptEdits"));
    }
}
