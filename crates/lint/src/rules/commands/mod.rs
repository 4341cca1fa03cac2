//! The tree of subcommands (`commands`), their TOOL.md files, and the intents of a bundle.

mod argv;
mod cmd_duplicate_ref;
mod cmd_orphan_tool;
mod cmd_ref;
mod cmd_tree_leaf_type;
mod intents;
mod tool;
mod tree;
mod widen;

use crate::context::{FindingDraft, RuleContext};
use crate::registry::{Family, FamilyCheck};
use crate::rule::Source;
use crate::shape::{Keyword, SchemaViolation};
use agentproto_manifest::Doctype;

use argv::{
    ARGV_SECRET, ARGV_SHELL, ARGV_UNKNOWN_FILTER, ARGV_UNKNOWN_INPUT, INPUT_REQUIRED_UNKNOWN,
};
use cmd_duplicate_ref::{DUPLICATE_REF, check_leaves};
use cmd_orphan_tool::{ORPHAN_TOOL, check_orphans};
use cmd_ref::{REF_MISSING, REF_NOT_TOOL, check_tool_name, report_folder, report_missing};
use cmd_tree_leaf_type::TREE_LEAF_TYPE;
use intents::{INTENT_REF_MISSING, INTENTS_VS_ACTIONS, check_intents};
use tool::{ARGV_PREFIX, BACKREF};
use tree::{EMPTY, PATH_TOKEN, check_tree};
use widen::SANDBOX_WIDENS;

pub static FAMILY: Family = Family {
    name: "commands",
    rules: &[
        &TREE_LEAF_TYPE,
        &EMPTY,
        &REF_MISSING,
        &REF_NOT_TOOL,
        &PATH_TOKEN,
        &DUPLICATE_REF,
        &ORPHAN_TOOL,
        &BACKREF,
        &ARGV_PREFIX,
        &ARGV_SHELL,
        &ARGV_UNKNOWN_INPUT,
        &ARGV_UNKNOWN_FILTER,
        &ARGV_SECRET,
        &INPUT_REQUIRED_UNKNOWN,
        &SANDBOX_WIDENS,
        &INTENTS_VS_ACTIONS,
        &INTENT_REF_MISSING,
    ],
    checks: &[
        FamilyCheck {
            doctypes: &[Doctype::Cli],
            run: check_cli,
        },
        FamilyCheck {
            doctypes: &[Doctype::Tool],
            run: tool::check,
        },
    ],
};

const SUBCOMMANDS: Source = Source {
    spec: "AIP-29",
    section: "Subcommands",
};

const ARGS: Source = Source {
    spec: "AIP-29",
    section: "Args template",
};

const CLI: &[Doctype] = &[Doctype::Cli];

const TOOL: &[Doctype] = &[Doctype::Tool];

/// AIP-14: only a tool that changes nothing may run without approval. Returns true if it reported a
/// violation.
pub fn report_missing_approval<'d>(ctx: &RuleContext<'d>, violation: &SchemaViolation<'d>) -> bool {
    if violation.keyword != Keyword::MaxItems || !ctx.is(Doctype::Tool) {
        return false;
    }
    let Some(entry) = ctx.root.entry("mutates") else {
        return false;
    };
    if !std::ptr::eq(&entry.value, violation.node) {
        return false;
    }
    let approval = ctx.root.get("approval");
    let message = match approval {
        Some(_) => "`approval: auto` is not allowed for a tool with a non-empty `mutates`",
        None => {
            "a tool with a non-empty `mutates` requires `approval`, otherwise it runs without asking"
        }
    };
    let mut report = FindingDraft::new(violation.rule, entry, message)
        .help("set `approval` to `on-mutate` or `always`, or make `mutates` empty");
    if let Some(approval) = approval {
        report = report.nearby(approval.span, "runs without approval");
    }
    ctx.report(report);
    true
}

fn check_cli(ctx: &RuleContext<'_>) {
    check_intents(ctx);
    let Some(commands) = ctx.root.entry("commands") else {
        return;
    };
    if commands.value.is_map() {
        check_tree(ctx, commands);
        check_leaves(ctx);
        check_orphans(ctx, commands);
    }
}

fn token_error(key: &str) -> Option<&'static str> {
    if key.is_empty() {
        Some("is empty")
    } else if key.contains(char::is_whitespace) {
        Some("contains whitespace")
    } else if key.contains([
        '|', '&', ';', '<', '>', '(', ')', '$', '`', '\\', '"', '\'', '*', '?', '{', '}', '!', '#',
    ]) {
        Some("contains a shell metacharacter")
    } else {
        None
    }
}

/// Whether a word can only be a subcommand, and not an option, a template or a path.
fn is_plain_word(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_alphabetic())
        && word
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_words_are_recognized() {
        for key in [
            "merge",
            "run-logs",
            "v2",
            "a.b",
            "config:set",
            "@scope",
            "+x",
        ] {
            assert_eq!(token_error(key), None, "{key}");
        }
        for key in ["", "merge open", "a|b", "$x", "tab\tbed", "a\u{a0}b"] {
            assert!(token_error(key).is_some(), "{key:?}");
        }
        assert!(is_plain_word("run-logs") && !is_plain_word("--x") && !is_plain_word("a/b"));
    }
}
