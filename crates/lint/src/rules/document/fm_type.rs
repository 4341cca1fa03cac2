//! Rule `fm-type`: a field has the wrong type.

use super::{SCHEMA, report_general};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{FixKind, Level, Rule};
use agentproto_manifest::{Doctype, Entry, KeyKind};

pub static FM_TYPE: Rule = Rule {
    slug: "fm-type",
    report: Some(report_general),
    title: "A field has the wrong type",
    level: Level::Must,
    source: SCHEMA,
    decides: &[
        "A45-CONF-01",
        "A44-CONF-04",
        "A29-OPT-09",
        "A29-OPT-12",
        "A45-FM-18",
        "A45-CAP-02",
        "A45-CAP-03",
        "A45-CAP-04",
        "A45-CAP-05",
        "A45-CAP-06",
        "A45-CAP-07",
        "A45-CAP-08",
    ],
    doctypes: &Doctype::ALL,
    fix: FixKind::Suggest,
    docs: include_str!("fm-type.md"),
    ..Rule::BASE
};

pub(super) fn key_is_not_text<'d>(ctx: &RuleContext<'d>, entry: &'d Entry) {
    let written = ctx.doc.slice(entry.key_span);
    // A key that is a collection is already reported as a problem of the document.
    if entry.key == "?" && entry.key_kind == KeyKind::Other {
        return;
    }
    let kind = match entry.key_kind {
        KeyKind::Int => "an integer",
        _ => "null, a boolean or a number with a fraction",
    };
    ctx.report(
        FindingDraft::new(
            &FM_TYPE,
            entry,
            format!("the key `{written}` is {kind}, not a string"),
        )
        .help(format!("quote it: \"{written}\"")),
    );
}
