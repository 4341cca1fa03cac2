//! Models that the agent can use, and the examples of the manifest.

use super::options::is_env_name;
use crate::context::{FindingDraft, RuleContext};
use crate::edits;
use crate::finding::{Edit, Safety};
use crate::registry::{Family, FamilyCheck};
use crate::rule::{FixKind, Level, Profile, Rule, Scope, Severity};
use crate::shape::{self, Keyword, SchemaViolation};
use agentproto_manifest::{Doctype, Node, RefRole};
use agentproto_text::closest_of;

pub static FAMILY: Family = Family {
    name: "models",
    rules: &[
        &MODELS_ALLOWED_TYPE,
        &MODELS_DEFAULT_IN_ALLOWED,
        &MODELS_OPTION_MISMATCH,
        &MODELS_ENV_NOT_IN_AUTH,
        &MODELS_DENY_HITS_ALLOWED,
        &EX45_FIELDS,
    ],
    checks: &[FamilyCheck {
        doctypes: &[Doctype::AgentCli],
        run: check,
    }],
};

const BASE: Rule = Rule {
    scope: Scope::CrossField,
    ..Rule::aip45("Frontmatter")
};

pub static MODELS_ALLOWED_TYPE: Rule = Rule {
    slug: "models-allowed-type",
    report: Some(allowed_type),
    title: "An item of `models.allowed` is not a string",
    decides: &["A45-FM-17"],
    scope: Scope::Field,
    docs: include_str!("models/models-allowed-type.md"),
    ..BASE
};

pub static MODELS_DEFAULT_IN_ALLOWED: Rule = Rule {
    slug: "models-default-in-allowed",
    title: "The default model is not in `models.allowed`",
    severity: Severity::Warning,
    level: Level::Derived,
    decides: &["A45-FM-17"],
    docs: include_str!("models/models-default-in-allowed.md"),
    ..BASE
};

pub static MODELS_OPTION_MISMATCH: Rule = Rule {
    slug: "models-option-mismatch",
    title: "The option `model` has a value that is not in `models.allowed`",
    severity: Severity::Warning,
    level: Level::Derived,
    docs: include_str!("models/models-option-mismatch.md"),
    ..BASE
};

pub static MODELS_ENV_NOT_IN_AUTH: Rule = Rule {
    slug: "models-env-not-in-auth",
    title: "A variable in `models.env` is not listed in `auth.state.env`",
    severity: Severity::Warning,
    level: Level::Derived,
    fix: FixKind::Safe,
    docs: include_str!("models/models-env-not-in-auth.md"),
    ..BASE
};

pub static MODELS_DENY_HITS_ALLOWED: Rule = Rule {
    slug: "models-deny-hits-allowed",
    title: "A model is both allowed and denied",
    level: Level::Derived,
    docs: include_str!("models/models-deny-hits-allowed.md"),
    ..BASE
};

pub static EX45_FIELDS: Rule = Rule {
    slug: "ex45-fields",
    report: Some(example),
    title: "An example has missing or unknown fields",
    decides: &["A45-CONF-01"],
    scope: Scope::Field,
    fix: FixKind::Suggest,
    docs: include_str!("models/ex45-fields.md"),
    ..BASE
};

fn allowed_type<'d>(ctx: &RuleContext<'d>, v: &SchemaViolation<'d>) {
    match v.node.is_map() {
        true => object(ctx, v.node),
        false => ctx.report(shape::draft(ctx, v)),
    }
}

/// Reports a list of mappings, as the reference implementation uses it. It is one mistake, reported
/// at the first mapping.
fn object<'d>(ctx: &RuleContext<'d>, node: &'d Node) {
    let items = ctx
        .root
        .at(&["models", "allowed"])
        .map_or(&[][..], Node::items);
    let mut objects = items.iter().filter(|item| item.is_map());
    if !objects
        .next()
        .is_some_and(|first| std::ptr::eq(first, node))
    {
        return;
    }
    let message = match objects.count() {
        0 => "this model must be a string, found a mapping".to_owned(),
        more => {
            format!("models must be strings, found a mapping here and {more} more in the list")
        }
    };
    ctx.report(
        FindingDraft::new(&MODELS_ALLOWED_TYPE, node, message)
            .help("write the name of each model as a plain string"),
    );
}

fn example<'d>(ctx: &RuleContext<'d>, v: &SchemaViolation<'d>) {
    let item = v.node;
    if v.keyword == Keyword::Required {
        // `cmd` instead of `prompt` is one mistake, reported at `cmd`.
        let replaced = v.missing.as_deref() == Some("prompt") && item.has("cmd");
        if !replaced {
            ctx.report(shape::draft(ctx, v).help("add a `goal` and the `prompt` to send"));
        }
        return;
    }
    let Some(entry) = v.entry else {
        return ctx.report(shape::draft(ctx, v));
    };
    if entry.key == "cmd" {
        ctx.report(
            FindingDraft::new(
                &EX45_FIELDS,
                entry,
                "`cmd` is a field of AIP-29 examples; an agent needs a `prompt`",
            )
            .help("replace `cmd` with `prompt`, and write a message to the agent"),
        );
    } else {
        ctx.report(shape::draft(ctx, v));
    }
}

fn check(ctx: &RuleContext<'_>) {
    let Some(models) = ctx.root.get("models") else {
        return;
    };
    let allowed = models.get("allowed");
    if let Some(allowed) = allowed.filter(|list| comparable(list)) {
        if let Some(default) = models.get("default") {
            default_allowed(ctx, default, allowed);
        }
        option_allowed(ctx, allowed);
    }
    if let Some(env) = models.get("env") {
        variables(ctx, env);
    }
    if ctx.profile == Profile::Reference
        && let (Some(allowed), Some(deny)) = (allowed, models.get("deny"))
    {
        denied(ctx, allowed, deny);
    }
}

/// A list that has items, all of them strings.
fn comparable(list: &Node) -> bool {
    let items = list.items();
    !items.is_empty() && items.iter().all(|item| item.as_str().is_some())
}

fn contains(list: &Node, text: &str) -> bool {
    list.strings().any(|(item, _)| item == text)
}

fn default_allowed<'d>(ctx: &RuleContext<'d>, default: &'d Node, allowed: &'d Node) {
    let Some(name) = default.as_str().filter(|name| !contains(allowed, name)) else {
        return;
    };
    let draft = FindingDraft::new(
        &MODELS_DEFAULT_IN_ALLOWED,
        default,
        format!("the default model `{name}` is not in `models.allowed`"),
    )
    .nearby(allowed.span, "allowed models");
    ctx.report(
        match closest_of(name, allowed.strings().map(|(item, _)| item)) {
            Some(meant) => draft.help(format!(
                "did you mean `{meant}`? Otherwise add `{name}` to the list"
            )),
            None => draft.help(format!(
                "add `{name}` to the list, or choose a default from it"
            )),
        },
    );
}

fn option_allowed<'d>(ctx: &RuleContext<'d>, allowed: &'d Node) {
    let options = ctx.root.get("options").map_or(&[][..], Node::items);
    let model = options
        .iter()
        .find(|o| o.str_at(&["id"]) == Some("model") && o.str_at(&["type"]) == Some("enum"));
    let Some(choices) = model.and_then(|option| option.get("enum")) else {
        return;
    };
    for (name, item) in choices
        .strings()
        .filter(|(name, _)| !contains(allowed, name))
    {
        ctx.report(
            FindingDraft::new(
                &MODELS_OPTION_MISMATCH,
                item,
                format!(
                    "the option `model` has the value `{name}`, which is not in `models.allowed`"
                ),
            )
            .help("add it to `models.allowed`, or remove it from the option")
            .nearby(allowed.span, "allowed models"),
        );
    }
}

fn variables<'d>(ctx: &RuleContext<'d>, env: &'d Node) {
    // A missing `auth` is reported by another rule.
    let Some(auth) = ctx.root.get("auth").filter(|auth| auth.is_map()) else {
        return;
    };
    let listed = auth.at(&["state", "env"]);
    for entry in env.entries() {
        let Some(name) = entry.value.as_str() else {
            continue;
        };
        // Invalid variable names, here or in the list, are reported by other rules.
        let settled = listed.is_some_and(|list| {
            !list.is_seq()
                || list
                    .strings()
                    .any(|(item, _)| item == name || !is_env_name(item))
        });
        if settled || !is_env_name(name) {
            continue;
        }
        let mut draft = FindingDraft::new(
            &MODELS_ENV_NOT_IN_AUTH,
            &entry.value,
            format!(
                "`models.env.{}` uses `{name}`, which `auth.state.env` does not list",
                entry.key
            ),
        )
        .help(format!(
            "add `{name}` to `auth.state.env` and declare its secret in SECRETS.md"
        ));
        if let Some(list) = listed {
            draft = draft.nearby(list.span, "variables that are filled from SECRETS.md");
        }
        ctx.report(draft.fix_if(
            Safety::Safe,
            format!("Add `{name}` to `auth.state.env`"),
            listing(ctx, listed, name),
        ));
    }
}

/// Adds the variable to the list. `None` if SECRETS.md does not declare its secret, because the fix
/// would then cause another finding.
fn listing(ctx: &RuleContext<'_>, listed: Option<&Node>, name: &str) -> Option<Vec<Edit>> {
    let list = listed?;
    if let Some((_, secrets)) = ctx.bound(RefRole::Secrets) {
        let slug = name.to_ascii_lowercase().replace('_', "-");
        let declared = secrets.root.as_ref()?.get("secrets")?.items();
        declared
            .iter()
            .find(|secret| secret.str_at(&["slug"]) == Some(&slug))?;
    }
    edits::append_item(ctx.doc, list, name)
}

fn denied<'d>(ctx: &RuleContext<'d>, allowed: &'d Node, deny: &'d Node) {
    for item in allowed.items() {
        let Some(name) = item.as_str().or_else(|| item.str_at(&["id"])) else {
            continue;
        };
        if let Some((pattern, node)) = deny.strings().find(|(pattern, _)| hits(pattern, name)) {
            ctx.report(
                FindingDraft::new(
                    &MODELS_DENY_HITS_ALLOWED,
                    item,
                    format!("`{name}` is allowed here, but `models.deny` contains `{pattern}`"),
                )
                .help("remove it from one of the two lists")
                .nearby(node.span, "denied here"),
            );
        }
    }
}

/// Whether a pattern matches a name. `*` matches any text.
fn hits(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else {
        return false;
    };
    let Some(last) = parts.next_back() else {
        return rest.is_empty();
    };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = rest.get(at + part.len()..).unwrap_or(""),
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::hits;

    #[test]
    fn patterns_hit_names() {
        for (pattern, name) in [
            ("a", "a"),
            ("a*", "abc"),
            ("*c", "abc"),
            ("a*c", "abc"),
            ("*", ""),
            ("a*b*c", "axbyc"),
        ] {
            assert!(hits(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("a", "ab"),
            ("a*", "ba"),
            ("ab*bc", "abc"),
            ("", "a"),
            ("a*b*c", "acb"),
        ] {
            assert!(!hits(pattern, name), "{pattern} {name}");
        }
    }
}
