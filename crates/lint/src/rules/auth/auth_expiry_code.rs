//! Rules `auth-expiry-code-unmapped` and `auth-expiry-code-ambiguous`.

use super::{AUTH, CLI};
use crate::context::{FindingDraft, RuleContext};
use crate::edits;
use crate::finding::Safety;
use crate::rule::{FixKind, Level, Rule, Scope, Severity};
use agentproto_manifest::Node;
use agentproto_text::truncate;

pub static AUTH_EXPIRY_CODE_UNMAPPED: Rule = Rule {
    slug: "auth-expiry-code-unmapped",
    title: "The exit code of `auth.expiry.detect` is not mapped to `auth_required`",
    severity: Severity::Warning,
    level: Level::May,
    source: AUTH,
    decides: &["A29-AUTH-10"],
    doctypes: CLI,
    scope: Scope::CrossField,
    fix: FixKind::Safe,
    docs: include_str!("auth-expiry-code-unmapped.md"),
    ..Rule::BASE
};

pub static AUTH_EXPIRY_CODE_AMBIGUOUS: Rule = Rule {
    slug: "auth-expiry-code-ambiguous",
    title: "The exit code of `auth.expiry.detect` has another meaning",
    severity: Severity::Warning,
    level: Level::May,
    source: AUTH,
    decides: &["A29-AUTH-10"],
    doctypes: CLI,
    scope: Scope::CrossField,
    docs: include_str!("auth-expiry-code-ambiguous.md"),
    ..Rule::BASE
};

/// Codes whose meaning AIP-29 reserves.
const RESERVED: [(u64, &str); 6] = [
    (0, "ok"),
    (1, "error"),
    (2, "usage_error"),
    (4, "auth_required"),
    (124, "timeout"),
    (137, "killed"),
];

pub(super) fn expiry_code<'d>(ctx: &RuleContext<'d>, auth: &'d Node) {
    let Some(detect) = auth.at(&["expiry", "detect"]) else {
        return;
    };
    let Some(code) = detect
        .as_str()
        .and_then(|text| text.strip_prefix("exit_code:"))
        .and_then(|code| code.parse::<u64>().ok())
    else {
        return;
    };
    let table = ctx.root.at(&["output", "exit_codes"]);
    if table.is_some_and(|t| !t.is_map()) {
        return;
    }
    let mapped = table.and_then(|table| {
        table
            .entries()
            .iter()
            .find(|e| e.key.parse::<u64>() == Ok(code))
    });
    let reserved = RESERVED.iter().find(|(n, _)| *n == code).map(|(_, m)| *m);
    let meaning = match mapped {
        Some(entry) => entry.value.as_str(),
        None => reserved,
    };
    match (meaning, mapped) {
        (Some("auth_required"), Some(_)) => {}
        // Without a table, the reserved meanings apply.
        (Some("auth_required"), None) if table.is_none() => {}
        (Some(other), _) if other != "auth_required" => {
            let draft = FindingDraft::new(
                &AUTH_EXPIRY_CODE_AMBIGUOUS,
                detect,
                format!(
                    "exit code {code} means `{}`, not that the login has expired",
                    truncate(other, 40)
                ),
            )
            .help(
                "use an exit code that the binary returns only for an expired login, and map it to `auth_required`",
            );
            ctx.report(match mapped {
                Some(entry) => draft.nearby(entry.span(), "mapped here"),
                None => draft,
            });
        }
        (_, Some(_)) => {}
        (_, None) => {
            let draft = FindingDraft::new(
                &AUTH_EXPIRY_CODE_UNMAPPED,
                detect,
                format!("`output.exit_codes` does not map exit code {code} to `auth_required`"),
            )
            .help(format!(
                "add `{code}: auth_required` to `output.exit_codes`"
            ));
            ctx.report(match table {
                Some(table) => draft.nearby(table.span, "the mapped exit codes").fix_if(
                    Safety::Safe,
                    "Map the exit code",
                    edits::add_entry(ctx.doc, table, &code.to_string(), "auth_required"),
                ),
                None => draft,
            });
        }
    }
}
