//! The value of an exit code is not a snake_case word.

use super::{CLI, OUTPUT, is_outcome, snake};
use crate::context::{Context, Draft};
use crate::edits;
use crate::finding::Safety;
use crate::rule::{FixKind, Rule};
use crate::shape::{Violation, draft};
use agentproto_text::short;

pub static EXIT_CODE_VALUE: Rule = Rule {
    slug: "out-exit-code-value",
    words: Some(bad_value),
    title: "The value of an exit code is not a snake_case word",
    source: OUTPUT,
    decides: &["A29-OUT-04"],
    doctypes: CLI,
    fix: FixKind::Safe,
    docs: include_str!("out-exit-code-value.md"),
    ..Rule::BASE
};

fn bad_value<'d>(ctx: &Context<'d>, violation: &Violation<'d>) {
    let Some(word) = violation.node.as_str() else {
        return ctx.report(draft(ctx, violation));
    };
    let mended = snake(word);
    let report = Draft::new(
        &EXIT_CODE_VALUE,
        violation.node,
        format!("`{}` is not a snake_case word", short(word, 40)),
    );
    ctx.report(if is_outcome(&mended) {
        report.help(format!("write `{mended}`")).fix_if(
            Safety::Safe,
            format!("Replace it with `{mended}`"),
            edits::set_scalar(ctx.doc, violation.node, &mended),
        )
    } else {
        report.help(
            "use two or more lower-case letters, digits and underscores, starting with a letter",
        )
    });
}
