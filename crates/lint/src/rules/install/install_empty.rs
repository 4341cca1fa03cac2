//! Rule `install-empty`: `install` lists no method.

use super::{BOTH, REQUIRED};
use crate::context::{Context, Draft};
use crate::rule::Rule;
use crate::shape::Violation;

pub static INSTALL_EMPTY: Rule = Rule {
    slug: "install-empty",
    words: Some(no_method),
    title: "`install` lists no method",
    source: REQUIRED,
    decides: &["A29-REQ-09", "A45-FM-07"],
    doctypes: BOTH,
    docs: include_str!("install-empty.md"),
    ..Rule::BASE
};

fn no_method<'d>(ctx: &Context<'d>, v: &Violation<'d>) {
    ctx.report(
        Draft::new(v.rule, v.node, "`install` is empty").help(
            "list at least one method, the preferred one first, for example `- { method: brew, package: my-tool }`",
        ),
    );
}
