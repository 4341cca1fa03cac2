//! First-run steps: their fields, the values that they capture, and where the values are stored.

mod persist;
mod prompt;
mod repeatable;
mod select;
mod setup_external_url;
mod setup_extra_field;
mod setup_id_pattern;
mod setup_id_unique;
mod setup_interp_forward_ref;
mod setup_kind_enum;
mod setup_oauth_slug;
mod setup_options_not_select;
mod setup_persist_exactly_one;
mod setup_persist_on_oauth;
mod setup_required_field;

use crate::context::{FindingDraft, RuleContext};
use crate::registry::{Family, FamilyCheck};
use crate::rule::Source;
use crate::shape::{SchemaViolation, duplicate_texts};
use agentproto_manifest::{Doctype, Node};
use agentproto_text::truncate;
use std::collections::HashMap;

use persist::{
    SETUP_PERSIST_CMD_NO_VALUE, SETUP_PERSIST_ENV_NAME, SETUP_PERSIST_SLUG_UNDECLARED,
    SETUP_SECRET_PERSISTED_ENV, persist,
};
use prompt::{SETUP_BOOLEAN_DEFAULT, SETUP_SECRET_DEFAULT, prompt};
use repeatable::{SETUP_NO_SKIP_IF, SETUP_SKIPIF_SAME_AS_CMD, repeatable};
use select::{SETUP_DEFAULT_NOT_IN_OPTIONS, SETUP_SELECT_NO_OPTIONS, select};
use setup_external_url::SETUP_EXTERNAL_URL;
use setup_extra_field::SETUP_EXTRA_FIELD;
use setup_id_pattern::SETUP_ID_PATTERN;
use setup_id_unique::{SETUP_ID_UNIQUE, unique};
use setup_interp_forward_ref::{SETUP_INTERP_FORWARD_REF, inputs};
use setup_kind_enum::SETUP_KIND_ENUM;
use setup_oauth_slug::{SETUP_OAUTH_SLUG_KIND, SETUP_OAUTH_SLUG_UNDECLARED, oauth};
use setup_options_not_select::{SETUP_OPTIONS_NOT_SELECT, options_without_select};
use setup_persist_exactly_one::SETUP_PERSIST_EXACTLY_ONE;
use setup_persist_on_oauth::SETUP_PERSIST_ON_OAUTH;
use setup_required_field::SETUP_REQUIRED_FIELD;

pub static FAMILY: Family = Family {
    name: "setup",
    rules: &[
        &SETUP_KIND_ENUM,
        &SETUP_REQUIRED_FIELD,
        &SETUP_EXTRA_FIELD,
        &SETUP_ID_PATTERN,
        &SETUP_ID_UNIQUE,
        &SETUP_PERSIST_EXACTLY_ONE,
        &SETUP_PERSIST_ON_OAUTH,
        &SETUP_PERSIST_ENV_NAME,
        &SETUP_PERSIST_CMD_NO_VALUE,
        &SETUP_SECRET_PERSISTED_ENV,
        &SETUP_SECRET_DEFAULT,
        &SETUP_SELECT_NO_OPTIONS,
        &SETUP_OPTIONS_NOT_SELECT,
        &SETUP_DEFAULT_NOT_IN_OPTIONS,
        &SETUP_BOOLEAN_DEFAULT,
        &SETUP_OAUTH_SLUG_UNDECLARED,
        &SETUP_OAUTH_SLUG_KIND,
        &SETUP_PERSIST_SLUG_UNDECLARED,
        &SETUP_INTERP_FORWARD_REF,
        &SETUP_NO_SKIP_IF,
        &SETUP_SKIPIF_SAME_AS_CMD,
        &SETUP_EXTERNAL_URL,
    ],
    checks: &[FamilyCheck {
        doctypes: &[Doctype::Cli, Doctype::AgentCli],
        run: check,
    }],
};

const CLI_AND_AGENT_CLI: &[Doctype] = &[Doctype::Cli, Doctype::AgentCli];

const SETUP: Source = Source {
    spec: "AIP-29",
    section: "Setup",
};

/// The name of a step for messages: "step `pick-host`", or "this step" if it has no id.
fn named(step: &Node) -> String {
    match step.str_at(&["id"]) {
        Some(id) => format!("step `{}`", truncate(id, 64)),
        None => "this step".to_owned(),
    }
}

fn report<'d>(ctx: &RuleContext<'d>, v: &SchemaViolation<'d>, message: String, help: String) {
    ctx.report(FindingDraft::new(v.rule, v.location.clone(), message).help(help));
}

/// Converts a text to a step id: lower-case letters, digits and single dashes.
fn slug(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if c.is_ascii_alphanumeric() {
            out.push(c.to_ascii_lowercase());
        } else if !out.is_empty() && !out.ends_with('-') {
            out.push('-');
        }
    }
    out.truncate(64);
    out.trim_end_matches('-').to_owned()
}

fn check(ctx: &RuleContext<'_>) {
    let Some(setup) = ctx.root.get("setup") else {
        return;
    };
    let steps = setup.items();
    for (id, first) in duplicate_texts(steps.iter().filter_map(|step| step.get("id"))) {
        unique(ctx, id, first);
    }
    let order = Order::of(steps);
    for (at, step) in steps.iter().enumerate() {
        prompt(ctx, step);
        persist(ctx, step);
        oauth(ctx, step);
        repeatable(ctx, step);
        for text in texts(step) {
            inputs(ctx, text, at, &order);
        }
    }
}

/// Texts of a step in which `${input.X}` is replaced.
fn texts(step: &Node) -> impl Iterator<Item = &Node> {
    [
        step.get("cmd"),
        step.get("url"),
        step.get("prompt"),
        step.get("default"),
        step.at(&["skip_if", "cmd"]),
        step.at(&["persist", "cmd"]),
        step.at(&["options", "cmd"]),
    ]
    .into_iter()
    .flatten()
}

/// The steps, and the index of the first step with each id.
struct Order<'d> {
    steps: &'d [Node],
    first: HashMap<&'d str, usize>,
    /// Index of the first step with each id that captures a value.
    first_with_value: HashMap<&'d str, usize>,
}

impl<'d> Order<'d> {
    fn of(steps: &'d [Node]) -> Self {
        let (mut first, mut first_with_value) = (HashMap::new(), HashMap::new());
        for (at, step) in steps.iter().enumerate() {
            if let Some(id) = step.str_at(&["id"]) {
                first.entry(id).or_insert(at);
                if has_value(step) {
                    first_with_value.entry(id).or_insert(at);
                }
            }
        }
        Order {
            steps,
            first,
            first_with_value,
        }
    }
}

fn has_value(step: &Node) -> bool {
    step.str_at(&["kind"]) != Some("oauth")
}

#[cfg(test)]
mod tests {
    use super::slug;

    #[test]
    fn ids_become_slugs() {
        assert_eq!(slug("Pick_Host"), "pick-host");
        assert_eq!(slug("  pick  host! "), "pick-host");
        assert_eq!(slug("ä"), "");
        assert_eq!(slug(&"a".repeat(80)).len(), 64);
    }
}
