//! Rule `vc-required`: `version_check` is missing a required field.

use super::{BOTH, VERSION};
use crate::context::{Context, Draft};
use crate::rule::Rule;
use crate::shape::Violation;

pub static VC_REQUIRED: Rule = Rule {
    slug: "vc-required",
    words: Some(required),
    title: "`version_check` is missing a required field",
    source: VERSION,
    decides: &["A29-REQ-10", "A29-VER-01", "A45-CONF-02", "A45-FM-08"],
    doctypes: BOTH,
    docs: include_str!("vc-required.md"),
    ..Rule::BASE
};

fn required<'d>(ctx: &Context<'d>, v: &Violation<'d>) {
    let missing = v.missing.as_deref().unwrap_or("");
    let help = match missing {
        "cmd" => "add the command that prints the version, for example `cmd: mytool --version`",
        "parse" => {
            r"add a regular expression for the output, for example `parse: '(\d+\.\d+\.\d+)'`"
        }
        _ => "add the supported versions, for example `range: \">=1.2.0 <2.0.0\"`",
    };
    let message = format!("`version_check` is missing `{missing}`");
    ctx.report(Draft::new(v.rule, v.place.clone(), message).help(help));
}
