//! Rules `vc-parse-valid-regex`, `vc-parse-capture-group`, `vc-parse-double-escaped` and
//! `vc-parse-redos`.

use super::{CLI_AND_AGENT_CLI, VERSION, is_double_escaped, pattern};
use crate::context::{FindingDraft, RuleContext};
use crate::edits;
use crate::finding::Safety;
use crate::rule::{FixKind, Level, Rule, Severity};
use agentproto_manifest::Node;
use agentproto_text::lower_first;

pub static VC_PARSE_VALID_REGEX: Rule = Rule {
    slug: "vc-parse-valid-regex",
    title: "`version_check.parse` is not a valid regular expression",
    source: VERSION,
    decides: &["A29-VER-03"],
    doctypes: CLI_AND_AGENT_CLI,
    docs: include_str!("vc-parse-valid-regex.md"),
    ..Rule::BASE
};

pub static VC_PARSE_CAPTURE_GROUP: Rule = Rule {
    slug: "vc-parse-capture-group",
    title: "`version_check.parse` has no capture group",
    source: VERSION,
    decides: &["A29-VER-03"],
    doctypes: CLI_AND_AGENT_CLI,
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
    doctypes: CLI_AND_AGENT_CLI,
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
    doctypes: CLI_AND_AGENT_CLI,
    docs: include_str!("vc-parse-redos.md"),
    ..Rule::BASE
};

pub(super) fn parse<'d>(ctx: &RuleContext<'d>, node: &'d Node, text: &str) {
    let verdict = pattern::analyze(text);
    if let Some(error) = &verdict.error {
        let error = lower_first(error.trim_end_matches('.'));
        let help = if text.contains("(?P<") {
            "write a named group as `(?<name>…)`, or remove the name"
        } else if text.starts_with("(?i)") {
            "match both cases, for example `[Vv]`: inline flags are not supported"
        } else if error.contains("parenthesis") {
            r"close every `(`, and write `\(` or `\)` for a literal parenthesis"
        } else if error.contains("bracket") {
            r"close every `[`, and write `\[` or `\]` for a literal bracket"
        } else {
            r"use the syntax of JavaScript, for example `(\d+\.\d+\.\d+)`"
        };
        ctx.report(
            FindingDraft::new(
                &VC_PARSE_VALID_REGEX,
                node,
                format!(
                    "`version_check.parse` is not a valid ECMAScript regular expression: {error}"
                ),
            )
            .help(help),
        );
        return;
    }
    if verdict.groups == 0 {
        ctx.report(
            FindingDraft::new(
                &VC_PARSE_CAPTURE_GROUP,
                node,
                "`version_check.parse` has no capture group, so no version can be read from the output",
            )
            .help(r"put parentheses around the version, for example `(\d+\.\d+\.\d+)`"),
        );
    }
    if verdict.backtracks {
        ctx.report(
            FindingDraft::new(
                &VC_PARSE_REDOS,
                node,
                "a repeated group in `version_check.parse` can match the same text in several ways and backtrack catastrophically",
            )
            .help(r"repeat only once, for example `\d+`, or separate the repetitions with a fixed character, for example `(?:\d+\.)+`"),
        );
    }
    if is_double_escaped(text) {
        ctx.report(
            FindingDraft::new(
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
