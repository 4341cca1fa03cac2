//! `out-reserved-code`, `out-code-range`, `out-json-args-no-flag`.

use super::{CLI, OUTPUT, is_code, snake};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{Level, Rule, Scope, Severity};
use agentproto_manifest::Node;
use agentproto_text::truncate;

pub static RESERVED_CODE: Rule = Rule {
    slug: "out-reserved-code",
    title: "A reserved exit code has a different meaning",
    severity: Severity::Warning,
    level: Level::May,
    source: OUTPUT,
    decides: &[
        "A29-OUT-05",
        "A29-OUT-06",
        "A29-OUT-07",
        "A29-OUT-08",
        "A29-OUT-09",
        "A29-OUT-10",
    ],
    doctypes: CLI,
    docs: include_str!("out-reserved-code.md"),
    ..Rule::BASE
};

pub static CODE_RANGE: Rule = Rule {
    slug: "out-code-range",
    title: "An exit code is above 255",
    severity: Severity::Warning,
    level: Level::Derived,
    source: OUTPUT,
    doctypes: CLI,
    docs: include_str!("out-code-range.md"),
    ..Rule::BASE
};

pub static JSON_ARGS_NO_FLAG: Rule = Rule {
    slug: "out-json-args-no-flag",
    title: "`json_flag_args` is set without `json_flag`",
    severity: Severity::Warning,
    level: Level::Derived,
    source: OUTPUT,
    decides: &["A29-OUT-03"],
    doctypes: CLI,
    scope: Scope::CrossField,
    docs: include_str!("out-json-args-no-flag.md"),
    ..Rule::BASE
};

/// The meaning of a reserved exit code.
fn reserved(code: i64) -> Option<&'static str> {
    Some(match code {
        0 => "ok",
        1 => "error",
        2 => "usage_error",
        4 => "auth_required",
        124 => "timeout",
        137 => "killed",
        _ => return None,
    })
}

pub(super) fn check_output<'d>(ctx: &RuleContext<'d>, output: &'d Node) {
    for entry in output.get("exit_codes").map_or(&[][..], Node::entries) {
        if !is_code(&entry.key) {
            continue;
        }
        // A number that does not fit is also out of range.
        let code = entry.key.parse::<i64>().unwrap_or(i64::MAX);
        if let (Some(meaning), Some(word)) = (reserved(code), entry.value.as_str())
            && word != meaning
            && snake(word) != meaning
        {
            let report = FindingDraft::new(
                &RESERVED_CODE,
                &entry.value,
                format!(
                    "exit code {code} is reserved for `{meaning}`, found `{}`",
                    truncate(word, 40)
                ),
            )
            .help(format!(
                "write `{code}: {meaning}`, and use codes that are not reserved for other outcomes"
            ));
            ctx.report(report);
        }
        if code > 255 && !windows_only(ctx) {
            let report = FindingDraft::new(
                &CODE_RANGE,
                entry,
                format!("exit code {} is out of range", truncate(&entry.key, 20)),
            )
            .help("use a code between 0 and 255; Unix keeps only eight bits of larger ones");
            ctx.report(report);
        }
    }
    if let Some(args) = output.entry("json_flag_args")
        && !args.value.items().is_empty()
        && !output.has("json_flag")
    {
        let report = FindingDraft::new(
            &JSON_ARGS_NO_FLAG,
            args,
            "`json_flag_args` has no effect without `json_flag`",
        )
        .help("add `json_flag`, for example `json_flag: --json`");
        ctx.report(report);
    }
}

fn windows_only(ctx: &RuleContext<'_>) -> bool {
    let systems = ctx.root.at(&["requires", "os"]);
    systems
        .is_some_and(|os| !os.items().is_empty() && os.strings().all(|(name, _)| name == "windows"))
}
