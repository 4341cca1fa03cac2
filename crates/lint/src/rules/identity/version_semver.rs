//! The manifest's version is not a semantic version.

use super::spelling::corrected_version;
use super::with_fix;
use crate::context::{FindingDraft, RuleContext};
use crate::edits;
use crate::rule::{FixKind, Rule, Source};
use crate::shape::SchemaViolation;
use agentproto_manifest::{Doctype, Value};
use agentproto_text::truncate;

pub static VERSION_SEMVER: Rule = Rule {
    slug: "version-semver",
    report: Some(bad_version),
    title: "The manifest's version is not a semantic version",
    source: Source {
        spec: "AIP-29",
        section: "Required fields",
    },
    decides: &["A29-REQ-05", "A44-FM-04", "A45-FM-04"],
    doctypes: &[
        Doctype::Cli,
        Doctype::AgentCli,
        Doctype::Acp,
        Doctype::Sandbox,
        Doctype::Tool,
        Doctype::Operator,
    ],
    fix: FixKind::Safe,
    docs: include_str!("version-semver.md"),
    ..Rule::BASE
};

pub(super) fn bad_version<'d>(ctx: &RuleContext<'d>, violation: &SchemaViolation<'d>) {
    let node = violation.node;
    let text = node.as_str().unwrap_or_else(|| ctx.doc.slice(node.span));
    let both_parts = semver::Version::parse(text).is_ok();
    let message = if both_parts {
        format!(
            "the version `{text}` has a pre-release and a build part, but the schema allows only one"
        )
    } else if text.trim().is_empty() {
        "the version is empty".to_owned()
    } else {
        format!(
            "the version `{}` does not have the form MAJOR.MINOR.PATCH",
            truncate(text, 40)
        )
    };
    let corrected = (!both_parts).then(|| corrected_version(text)).flatten();
    let help = match &corrected {
        Some(corrected) => format!("write `{corrected}`"),
        None if both_parts => "remove one of the two parts".to_owned(),
        None => "write three numbers, for example `1.0.0`".to_owned(),
    };
    let fix = corrected.and_then(|corrected| {
        let edits = match node.value {
            Value::Str(_) => edits::set_scalar(ctx.doc, node, &corrected)?,
            _ => edits::set_raw(ctx.doc, node, &corrected)?,
        };
        Some((format!("Change the version to `{corrected}`"), edits))
    });
    let draft = FindingDraft::new(&VERSION_SEMVER, node, message).help(help);
    ctx.report(with_fix(draft, fix));
}
