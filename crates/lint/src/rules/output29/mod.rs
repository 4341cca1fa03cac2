//! How hosts read the output of the binary, and the examples of the manifest.

mod ex29_cmd_not_bin;
mod ex29_cmd_not_in_tree;
mod ex29_fields;
mod out_exit_code_key;
mod out_exit_code_value;
mod output;

use crate::context::RuleContext;
use crate::registry::{Family, FamilyCheck};
use crate::rule::Source;
use crate::shape::{Keyword, SchemaViolation};
use agentproto_manifest::{Doctype, Entry, Node};

use ex29_cmd_not_bin::{EXAMPLE_NOT_BIN, check_example};
use ex29_cmd_not_in_tree::{EXAMPLE_NOT_IN_TREE, check_path};
use ex29_fields::EXAMPLE_FIELDS;
use out_exit_code_key::EXIT_CODE_KEY;
use out_exit_code_value::EXIT_CODE_VALUE;
use output::{CODE_RANGE, JSON_ARGS_NO_FLAG, RESERVED_CODE, check_output};

pub static FAMILY: Family = Family {
    name: "output29",
    rules: &[
        &EXIT_CODE_KEY,
        &EXIT_CODE_VALUE,
        &RESERVED_CODE,
        &CODE_RANGE,
        &JSON_ARGS_NO_FLAG,
        &EXAMPLE_FIELDS,
        &EXAMPLE_NOT_BIN,
        &EXAMPLE_NOT_IN_TREE,
    ],
    checks: &[FamilyCheck {
        doctypes: &[Doctype::Cli],
        run: check,
    }],
};

const OUTPUT: Source = Source {
    spec: "AIP-29",
    section: "Output conventions",
};

const EXAMPLES: Source = Source {
    spec: "AIP-29",
    section: "Optional fields",
};

const CLI: &[Doctype] = &[Doctype::Cli];

/// Whether a violation is about the value of a swapped entry such as `ok: 0`. The key reports it,
/// so the wrong type of the value must not be reported again.
pub fn swapped_value<'d>(ctx: &RuleContext<'d>, v: &SchemaViolation<'d>) -> bool {
    ctx.is(Doctype::Cli)
        && v.keyword == Keyword::Type
        && swapped_entry(ctx).is_some_and(|mut all| all.any(|e| std::ptr::eq(&e.value, v.node)))
}

fn exit_codes<'d>(ctx: &RuleContext<'d>) -> Option<&'d Node> {
    ctx.root.at(&["output", "exit_codes"])
}

fn is_code(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|b| b.is_ascii_digit())
}

fn swapped_entry<'d>(ctx: &RuleContext<'d>) -> Option<impl Iterator<Item = &'d Entry> + use<'d>> {
    let codes = exit_codes(ctx)?;
    Some(
        codes
            .entries()
            .iter()
            .filter(|e| !is_code(&e.key) && e.value.as_int().is_some_and(|code| code >= 0)),
    )
}

/// Converts a word to snake case: `Rate-Limited` and `rateLimited` become `rate_limited`.
fn snake(word: &str) -> String {
    let mut out = String::with_capacity(word.len() + 2);
    let mut after_small = false;
    for c in word.trim().chars() {
        if c.is_ascii_alphanumeric() {
            if c.is_ascii_uppercase() && after_small {
                out.push('_');
            }
            out.push(c.to_ascii_lowercase());
            after_small = c.is_ascii_lowercase() || c.is_ascii_digit();
        } else if matches!(c, '-' | ' ' | '_' | '.' | '/') {
            if !out.is_empty() && !out.ends_with('_') {
                out.push('_');
            }
            after_small = false;
        } else {
            // Other characters are kept, so that the result is recognized as invalid.
            out.push(c);
        }
    }
    out.trim_end_matches('_').to_owned()
}

fn is_outcome(word: &str) -> bool {
    word.len() > 1
        && word.starts_with(|c: char| c.is_ascii_lowercase())
        && word
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

fn check(ctx: &RuleContext<'_>) {
    if let Some(output) = ctx.root.get("output") {
        check_output(ctx, output);
    }
    if let Some(examples) = ctx.root.get("examples") {
        for cmd in examples.items().iter().filter_map(|e| e.get("cmd")) {
            check_example(ctx, cmd);
        }
    }
}

/// Whether a word is a variable assignment before the program (`NAME=value`).
fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_snake_case() {
        assert_eq!(snake("Rate-Limited"), "rate_limited");
        assert_eq!(snake("rateLimited"), "rate_limited");
        assert_eq!(snake("AUTH REQUIRED"), "auth_required");
        assert_eq!(snake("HTTP2Error"), "http2_error");
        assert_eq!(snake("__x-"), "x");
        assert!(!is_outcome(&snake("größe")));
        assert!(!is_outcome("x") && !is_outcome("2x") && is_outcome("x2"));
    }

    #[test]
    fn assignments_are_recognized() {
        assert!(is_assignment("A_1=x") && is_assignment("A="));
        assert!(!is_assignment("1A=x") && !is_assignment("--a=x") && !is_assignment("gh"));
    }
}
