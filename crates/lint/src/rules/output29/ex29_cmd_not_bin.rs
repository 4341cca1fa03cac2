//! An example runs a different program than `bin`.

use super::{CLI, EXAMPLES, check_path, is_assignment};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{Level, Rule, Scope, Severity};
use crate::rules::install::is_valid_bin;
use agentproto_manifest::Node;
use agentproto_text::truncate;

pub static EXAMPLE_NOT_BIN: Rule = Rule {
    slug: "ex29-cmd-not-bin",
    title: "An example runs a different program than `bin`",
    severity: Severity::Warning,
    level: Level::Derived,
    source: EXAMPLES,
    doctypes: CLI,
    scope: Scope::CrossField,
    docs: include_str!("ex29-cmd-not-bin.md"),
    ..Rule::BASE
};

pub(super) fn check_example<'d>(ctx: &RuleContext<'d>, cmd: &'d Node) {
    // An invalid `bin` is reported by another rule.
    let bin = ctx.root.str_at(&["bin"]).filter(|bin| is_valid_bin(bin));
    let (Some(text), Some(bin)) = (cmd.as_str(), bin) else {
        return;
    };
    // No example can match a `bin` with other characters; another rule reports it.
    let is_name = |b: u8| b.is_ascii_alphanumeric() || b"._-/".contains(&b);
    if bin.is_empty() || !bin.bytes().all(is_name) {
        return;
    }
    let mut words = text
        .split_whitespace()
        .map(|word| word.trim_matches(['"', '\'']))
        .skip_while(|word| is_assignment(word));
    let Some(program) = words.next() else {
        return;
    };
    let file_name = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
    if program != bin && file_name(program) != file_name(bin) {
        let report = FindingDraft::new(
            &EXAMPLE_NOT_BIN,
            cmd,
            format!(
                "the example runs `{}`, but `bin` is `{bin}`",
                truncate(program, 40)
            ),
        )
        .help(format!("start the command with `{bin}`"));
        ctx.report(match ctx.root.get("bin") {
            Some(node) => report.nearby(node.span, "the binary"),
            None => report,
        });
        return;
    }
    if let Some(commands) = ctx.root.entry("commands") {
        check_path(ctx, cmd, commands, words);
    }
}
