//! `vc-parse-valid-regex`, `vc-parse-capture-group`, `vc-parse-double-escaped`, `vc-parse-redos`.

use super::{BOTH, VERSION, is_double_escaped, pattern};
use crate::context::{Context, Draft};
use crate::edits;
use crate::finding::Safety;
use crate::rule::{FixKind, Level, Rule, Severity};
use agentproto_manifest::Node;

pub static VC_PARSE_VALID_REGEX: Rule = Rule {
    slug: "vc-parse-valid-regex",
    title: "The version pattern is not a regular expression",
    source: VERSION,
    decides: &["A29-VER-03"],
    doctypes: BOTH,
    docs: include_str!("vc-parse-valid-regex.md"),
    ..Rule::BASE
};

pub static VC_PARSE_CAPTURE_GROUP: Rule = Rule {
    slug: "vc-parse-capture-group",
    title: "The version pattern has no capture group",
    source: VERSION,
    decides: &["A29-VER-03"],
    doctypes: BOTH,
    fix: FixKind::Suggest,
    docs: include_str!("vc-parse-capture-group.md"),
    ..Rule::BASE
};

pub static VC_PARSE_DOUBLE_ESCAPED: Rule = Rule {
    slug: "vc-parse-double-escaped",
    title: "The version pattern has doubled backslashes",
    severity: Severity::Warning,
    level: Level::Derived,
    source: VERSION,
    doctypes: BOTH,
    fix: FixKind::Safe,
    docs: include_str!("vc-parse-double-escaped.md"),
    ..Rule::BASE
};

pub static VC_PARSE_REDOS: Rule = Rule {
    slug: "vc-parse-redos",
    title: "The version pattern can backtrack without end",
    severity: Severity::Warning,
    level: Level::Derived,
    source: VERSION,
    doctypes: BOTH,
    docs: include_str!("vc-parse-redos.md"),
    ..Rule::BASE
};

pub(super) fn parse<'d>(ctx: &Context<'d>, node: &'d Node, text: &str) {
    let verdict = pattern::judge(text);
    if let Some(error) = &verdict.error {
        let error = error.trim_end_matches('.');
        let mut draft = Draft::new(
            &VC_PARSE_VALID_REGEX,
            node,
            format!("`version_check.parse` is not an ECMAScript regular expression: {error}"),
        );
        if text.contains("(?P<") {
            draft = draft.help("write a named group as `(?<name>…)`, or leave the name out");
        } else if text.starts_with("(?i)") {
            draft = draft.help("there are no inline flags; spell both cases, as in `[Vv]`");
        }
        ctx.report(draft);
        return;
    }
    if verdict.groups == 0 {
        ctx.report(
            Draft::new(
                &VC_PARSE_CAPTURE_GROUP,
                node,
                "`version_check.parse` has no capture group, so no version can be read from the output",
            )
            .help(r"put parentheses around the version, as in `(\d+\.\d+\.\d+)`"),
        );
    }
    if verdict.backtracks {
        ctx.report(
            Draft::new(
                &VC_PARSE_REDOS,
                node,
                "a repeated group of `version_check.parse` repeats within itself and can backtrack for ever",
            )
            .help(r"repeat once, as in `\d+`, or put a fixed character between the rounds, as in `(?:\d+\.)+`"),
        );
    }
    if is_double_escaped(text) {
        ctx.report(
            Draft::new(
                &VC_PARSE_DOUBLE_ESCAPED,
                node,
                "the doubled backslashes of `version_check.parse` look for a backslash in the output",
            )
            .help("write one backslash; only double quotes in YAML need two")
            .fix_if(
                Safety::Safe,
                "Halve the backslashes",
                edits::set_scalar(ctx.doc, node, &text.replace(r"\\", r"\")),
            ),
        );
    }
}
