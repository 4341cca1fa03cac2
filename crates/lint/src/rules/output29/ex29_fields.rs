//! An example has missing or unknown fields.

use super::{CLI, EXAMPLES};
use crate::context::RuleContext;
use crate::rule::Rule;
use crate::shape::{Keyword, SchemaViolation, draft};
use agentproto_text::closest_of;

pub static EXAMPLE_FIELDS: Rule = Rule {
    slug: "ex29-fields",
    report: Some(bad_example),
    title: "An example has missing or unknown fields",
    source: EXAMPLES,
    decides: &["A29-OPT-13"],
    doctypes: CLI,
    docs: include_str!("ex29-fields.md"),
    ..Rule::BASE
};

fn bad_example<'d>(ctx: &RuleContext<'d>, violation: &SchemaViolation<'d>) {
    // `command:` instead of `cmd:` is one mistake. It is reported as a missing field.
    let misspelt = !violation.node.has("cmd") || !violation.node.has("goal");
    if violation.keyword == Keyword::AdditionalProperties && misspelt {
        return;
    }
    let Some(missing) = violation.missing.as_deref() else {
        return ctx.report(draft(ctx, violation));
    };
    let mut report = draft(ctx, violation);
    let others = violation.node.entries().iter().map(|e| e.key.as_str());
    let near = others
        .filter(|key| !matches!(*key, "goal" | "cmd" | "note"))
        .find(|key| {
            closest_of(key, [missing]).is_some()
                || (missing == "cmd" && matches!(*key, "command" | "run"))
        });
    report = match near {
        Some(key) => report.help(format!("rename `{key}` to `{missing}`")),
        None if missing == "goal" => report.help("describe in `goal` what the command does"),
        None => report.help("add the whole command line as `cmd`"),
    };
    ctx.report(report);
}
