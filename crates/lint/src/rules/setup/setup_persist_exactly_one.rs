//! Rule `setup-persist-exactly-one`: `persist` does not have exactly one target.

use super::{BOTH, SETUP};
use crate::context::{Context, Draft};
use crate::rule::Rule;
use crate::shape::Violation;

pub static SETUP_PERSIST_EXACTLY_ONE: Rule = Rule {
    slug: "setup-persist-exactly-one",
    words: Some(exactly_one),
    title: "`persist` does not have exactly one target",
    source: SETUP,
    decides: &["A29-SETUP-16"],
    doctypes: BOTH,
    docs: include_str!("setup-persist-exactly-one.md"),
    ..Rule::BASE
};

const TARGETS: [&str; 3] = ["env", "secret_slug", "cmd"];

fn exactly_one<'d>(ctx: &Context<'d>, v: &Violation<'d>) {
    let found: Vec<&str> = TARGETS.into_iter().filter(|t| v.node.has(t)).collect();
    // A misspelled key is already reported as an unknown field.
    if found.is_empty() && !v.node.entries().is_empty() {
        return;
    }
    let message = match found.as_slice() {
        [] => "`persist` has no target".to_owned(),
        _ => format!(
            "`persist` must have one target, found {}: {}",
            found.len(),
            found.join(", ")
        ),
    };
    ctx.report(
        Draft::new(v.rule, v.place.clone(), message)
            .help("use exactly one of `env`, `secret_slug` and `cmd`"),
    );
}
