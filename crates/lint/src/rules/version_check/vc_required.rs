//! Rule `vc-required`: `version_check` is missing a required field.

use super::{CLI_AND_AGENT_CLI, VERSION};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::Rule;
use crate::shape::SchemaViolation;

pub static VC_REQUIRED: Rule = Rule {
    slug: "vc-required",
    report: Some(required),
    title: "`version_check` is missing a required field",
    source: VERSION,
    decides: &["A29-REQ-10", "A29-VER-01", "A45-CONF-02", "A45-FM-08"],
    doctypes: CLI_AND_AGENT_CLI,
    docs: include_str!("vc-required.md"),
    ..Rule::BASE
};

fn required<'d>(ctx: &RuleContext<'d>, v: &SchemaViolation<'d>) {
    let missing = v.missing.as_deref().unwrap_or("");
    let help = match missing {
        "cmd" => "add the command that prints the version, for example `cmd: mytool --version`",
        "parse" => {
            r"add a regular expression for the output, for example `parse: '(\d+\.\d+\.\d+)'`"
        }
        _ => "add the supported versions, for example `range: \">=1.2.0 <2.0.0\"`",
    };
    let message = format!("`version_check` is missing `{missing}`");
    ctx.report(FindingDraft::new(v.rule, v.location.clone(), message).help(help));
}
