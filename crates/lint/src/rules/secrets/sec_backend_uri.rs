//! `backend` is not the URI of a vault entry.

use super::{SECRETS, aip19};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::Rule;
use crate::shape::SchemaViolation;

pub static SEC_BACKEND_URI: Rule = Rule {
    slug: "sec-backend-uri",
    report: Some(backend_uri),
    title: "`backend` is not the URI of a vault entry",
    source: aip19("Frontmatter"),
    doctypes: SECRETS,
    docs: include_str!("sec-backend-uri.md"),
    ..Rule::BASE
};

fn backend_uri<'d>(ctx: &RuleContext<'d>, v: &SchemaViolation<'d>) {
    ctx.report(
        FindingDraft::new(
            v.rule,
            v.location.clone(),
            "`backend` does not start with a scheme",
        )
        .help("write `vault://driver/path`, or remove `backend`: hosts find the entry by its slug"),
    );
}
