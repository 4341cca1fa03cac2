//! Rule `auth-expiry-format`: `auth.expiry.detect` is not an exit code.

use super::{AUTH, CLI_AND_AGENT_CLI};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::Rule;
use crate::shape::SchemaViolation;

pub static AUTH_EXPIRY_FORMAT: Rule = Rule {
    slug: "auth-expiry-format",
    report: Some(expiry_format),
    title: "`auth.expiry.detect` is not an exit code",
    source: AUTH,
    decides: &["A29-AUTH-10", "A45-CONF-02"],
    doctypes: CLI_AND_AGENT_CLI,
    docs: include_str!("auth-expiry-format.md"),
    ..Rule::BASE
};

fn expiry_format<'d>(ctx: &RuleContext<'d>, v: &SchemaViolation<'d>) {
    ctx.report(
        FindingDraft::new(
            v.rule,
            v.location.clone(),
            "`auth.expiry.detect` does not name an exit code",
        )
        .help("write `exit_code:` and a number, for example `exit_code:4`"),
    );
}
