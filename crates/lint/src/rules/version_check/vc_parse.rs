//! Rules `vc-parse-valid-regex`, `vc-parse-capture-group`, `vc-parse-double-escaped` and
//! `vc-parse-redos`.

use super::{BOTH, VERSION, is_double_escaped, pattern};
use crate::context::{Context, Draft};
use crate::edits;
use crate::finding::Safety;
use crate::rule::{FixKind, Level, Rule, Severity};
use agentproto_manifest::Node;

pub static VC_PARSE_VALID_REGEX: Rule = Rule {
    slug: "vc-parse-valid-regex",
    title: "`version_check.parse` is not a valid regular expression",
    source: VERSION,
    decides: &["A29-VER-03"],
    doctypes: BOTH,
    docs: include_str!("vc-parse-valid-regex.md"),
    ..Rule::BASE
};

pub static VC_PARSE_CAPTURE_GROUP: Rule = Rule {
    slug: "vc-parse-capture-group",
    title: "`version_check.parse` has no capture group",
    source: VERSION,
    decides: &["A29-VER-03"],
    doctypes: BOTH,
    fix: FixKind::Suggest,
    docs: include_str!("vc-parse-capture-group.md"),
    ..Rule::BASE
};

pub static VC_PARSE_DOUBLE_ESCAPED: Rule = Rule {
    slug: "vc-parse-double-escaped",
    title: "`version_check.parse` has doubled backslashes",
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
    title: "`version_check.parse` can backtrack catastrophically",
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
            format!("`version_check.parse` is not a valid ECMAScript regular expression: {error}"),
        );
        if text.contains("(?P<") {
            draft = draft.help("write a named group as `(?<name>…)`, or remove the name");
        } else if text.starts_with("(?i)") {
            draft =
                draft.help("match both cases, for example `[Vv]`: inline flags are not supported");
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
            .help(r"put parentheses around the version, for example `(\d+\.\d+\.\d+)`"),
        );
    }
    if verdict.backtracks {
        ctx.report(
            Draft::new(
                &VC_PARSE_REDOS,
                node,
                "a repeated group in `version_check.parse` can match the same text in several ways and backtrack catastrophically",
            )
            .help(r"repeat only once, for example `\d+`, or separate the repetitions with a fixed character, for example `(?:\d+\.)+`"),
        );
    }
    if is_double_escaped(text) {
        ctx.report(
            Draft::new(
                &VC_PARSE_DOUBLE_ESCAPED,
                node,
                "the doubled backslashes in `version_check.parse` match a backslash in the output",
            )
            .help("write one backslash: only double-quoted YAML strings need two")
            .fix_if(
                Safety::Safe,
                "Replace each double backslash with one",
                edits::set_scalar(ctx.doc, node, &text.replace(r"\\", r"\")),
            ),
        );
    }
}
