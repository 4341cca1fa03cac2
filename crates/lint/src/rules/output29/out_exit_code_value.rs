//! The value of an exit code is not a snake_case word.

use super::{CLI, OUTPUT, is_outcome, snake};
use crate::context::{FindingDraft, RuleContext};
use crate::edits;
use crate::finding::Safety;
use crate::rule::{FixKind, Rule};
use crate::shape::{SchemaViolation, draft};
use agentproto_text::truncate;

pub static EXIT_CODE_VALUE: Rule = Rule {
    slug: "out-exit-code-value",
    report: Some(bad_value),
    title: "The value of an exit code is not a snake_case word",
    source: OUTPUT,
    decides: &["A29-OUT-04"],
    doctypes: CLI,
    fix: FixKind::Safe,
    docs: include_str!("out-exit-code-value.md"),
    ..Rule::BASE
};

fn bad_value<'d>(ctx: &RuleContext<'d>, violation: &SchemaViolation<'d>) {
    let Some(word) = violation.node.as_str() else {
        return ctx.report(draft(ctx, violation));
    };
    let corrected = snake(word);
    let report = FindingDraft::new(
        &EXIT_CODE_VALUE,
        violation.node,
        format!("`{}` is not a snake_case word", truncate(word, 40)),
    );
    ctx.report(if is_outcome(&corrected) {
        report.help(format!("write `{corrected}`")).fix_if(
            Safety::Safe,
            format!("Replace it with `{corrected}`"),
            edits::set_scalar(ctx.doc, violation.node, &corrected),
        )
    } else {
        report.help(
            "use two or more lower-case letters, digits and underscores, starting with a letter",
        )
    });
}
