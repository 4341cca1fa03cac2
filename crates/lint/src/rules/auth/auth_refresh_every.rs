//! Rules `auth-refresh-every-iso8601` and `auth-refresh-every-missing`.

use super::{AUTH, CLI_AND_AGENT_CLI, duration};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{Level, Rule, Scope, Severity};
use agentproto_manifest::Node;
use agentproto_text::truncate;

pub static AUTH_REFRESH_EVERY_ISO8601: Rule = Rule {
    slug: "auth-refresh-every-iso8601",
    // `refresh` checks every text, including those that the schema's pattern accepts (C17).
    report: Some(|_, _| {}),
    title: "`auth.refresh.every` is not an ISO-8601 duration",
    source: AUTH,
    decides: &["A29-AUTH-08"],
    doctypes: CLI_AND_AGENT_CLI,
    docs: include_str!("auth-refresh-every-iso8601.md"),
    ..Rule::BASE
};

pub static AUTH_REFRESH_EVERY_MISSING: Rule = Rule {
    slug: "auth-refresh-every-missing",
    title: "`auth.refresh` has no `every`",
    severity: Severity::Warning,
    level: Level::Derived,
    source: AUTH,
    doctypes: CLI_AND_AGENT_CLI,
    scope: Scope::CrossField,
    docs: include_str!("auth-refresh-every-missing.md"),
    ..Rule::BASE
};

pub(super) fn refresh<'d>(ctx: &RuleContext<'d>, auth: &'d Node) {
    let Some(entry) = auth.entry("refresh").filter(|e| e.value.is_map()) else {
        return;
    };
    let Some(every) = entry.value.get("every") else {
        ctx.report(
            FindingDraft::new(
                &AUTH_REFRESH_EVERY_MISSING,
                entry,
                "`auth.refresh` has no `every`, so hosts do not know how often to refresh",
            )
            .help("add `every` with an ISO-8601 duration, for example `every: PT24H`"),
        );
        return;
    };
    let Some(text) = every.as_str() else {
        return;
    };
    if let Some(error) = agentproto_text::time::duration_error(text) {
        let help = match duration::suggestion(text) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => "write a duration such as `PT24H`, `P7D` or `P1W`".to_owned(),
        };
        ctx.report(
            FindingDraft::new(
                &AUTH_REFRESH_EVERY_ISO8601,
                every,
                format!(
                    "`{}` is not an ISO-8601 duration: {error}",
                    truncate(text, 40)
                ),
            )
            .help(help),
        );
    }
}
