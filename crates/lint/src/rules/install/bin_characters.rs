//! Rules `bin-pattern` and `bin-single-token`.

use super::{CLI_AND_AGENT_CLI, REQUIRED, is_bin_character};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::Rule;
use agentproto_manifest::Node;
use agentproto_text::truncate;

pub static BIN_PATTERN: Rule = Rule {
    slug: "bin-pattern",
    report: Some(|ctx, v| bad_bin(ctx, v.node)),
    title: "`bin` contains characters that are not allowed",
    source: REQUIRED,
    decides: &["A29-REQ-07", "A45-FM-05"],
    doctypes: CLI_AND_AGENT_CLI,
    docs: include_str!("bin-pattern.md"),
    ..Rule::BASE
};

pub static BIN_SINGLE_TOKEN: Rule = Rule {
    slug: "bin-single-token",
    title: "`bin` contains whitespace",
    source: REQUIRED,
    decides: &["A29-REQ-08"],
    doctypes: CLI_AND_AGENT_CLI,
    docs: include_str!("bin-single-token.md"),
    ..Rule::BASE
};

fn bad_bin(ctx: &RuleContext<'_>, node: &Node) {
    let Some(node) = ctx.root.get("bin").filter(|bin| std::ptr::eq(*bin, node)) else {
        return;
    };
    let bin = node.as_str().unwrap_or("");
    if bin.is_empty() {
        ctx.report(
            FindingDraft::new(&BIN_PATTERN, node, "`bin` is empty")
                .help("write the name of the binary, for example `bin: my-tool`"),
        );
        return;
    }
    if !bin.contains(char::is_whitespace) {
        let bad = bin.chars().find(|c| !is_bin_character(*c)).unwrap_or(' ');
        ctx.report(
            FindingDraft::new(
                &BIN_PATTERN,
                node,
                format!("`bin` must not contain `{}`", bad.escape_debug()),
            )
            .help("use only letters, digits, `.`, `_`, `-` and `/`"),
        );
        return;
    }
    let mut words = bin.split_whitespace();
    let first = words.next().unwrap_or("");
    let rest: Vec<&str> = words.collect();
    let help = if rest.is_empty() {
        format!("remove the whitespace: `{}`", truncate(first, 40))
    } else {
        format!(
            "keep `{}` in `bin` and move {} to `bin_args`",
            truncate(first, 40),
            truncate(&format!("`{}`", rest.join("`, `")), 80)
        )
    };
    let message = if rest.is_empty() {
        "`bin` has leading or trailing whitespace"
    } else {
        "`bin` contains several words, but hosts run it as one program name, without a shell"
    };
    ctx.report(FindingDraft::new(&BIN_SINGLE_TOKEN, node, message).help(help));
}
