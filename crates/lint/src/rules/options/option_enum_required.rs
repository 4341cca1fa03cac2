//! Rule `option-enum-required`: an option of type `enum` does not list its values.

use super::BASE;
use crate::context::{FindingDraft, Location, RuleContext};
use crate::rule::{Rule, Source};
use crate::shape::SchemaViolation;

pub static OPTION_ENUM_REQUIRED: Rule = Rule {
    slug: "option-enum-required",
    report: Some(enum_required),
    title: "An option of type `enum` does not list its values",
    source: Source::aip45("Conformance"),
    decides: &["A45-CONF-11"],
    docs: include_str!("option-enum-required.md"),
    ..BASE
};

fn enum_required<'d>(ctx: &RuleContext<'d>, v: &SchemaViolation<'d>) {
    let place = v
        .node
        .get("type")
        .map_or_else(|| v.location.clone(), Location::Value);
    ctx.report(
        FindingDraft::new(
            &OPTION_ENUM_REQUIRED,
            place,
            "an option of type `enum` requires `enum`, the list of its values",
        )
        .help("add `enum` with every allowed value, or use `type: string`"),
    );
}
