//! Rule `auth-expiry-format`: `auth.expiry.detect` is not an exit code.

use super::{AUTH, BOTH};
use crate::context::{Context, Draft};
use crate::rule::Rule;
use crate::shape::Violation;

pub static AUTH_EXPIRY_FORMAT: Rule = Rule {
    slug: "auth-expiry-format",
    words: Some(expiry_format),
    title: "`auth.expiry.detect` is not an exit code",
    source: AUTH,
    decides: &["A29-AUTH-10", "A45-CONF-02"],
    doctypes: BOTH,
    docs: include_str!("auth-expiry-format.md"),
    ..Rule::BASE
};

fn expiry_format<'d>(ctx: &Context<'d>, v: &Violation<'d>) {
    ctx.report(
        Draft::new(
            v.rule,
            v.place.clone(),
            "`auth.expiry.detect` does not name an exit code",
        )
        .help("write `exit_code:` and a number, for example `exit_code:4`"),
    );
}
