//! Rules `requires-os-enum` and `requires-arch-enum`.

use super::{CLI_AND_AGENT_CLI, OPTIONAL};
use crate::context::{FindingDraft, RuleContext};
use crate::finding::Safety;
use crate::rule::{FixKind, Rule};
use crate::shape::SchemaViolation;
use crate::{edits, shape};
use agentproto_text::{closest_of, one_of, truncate};

pub static REQUIRES_OS_ENUM: Rule = Rule {
    slug: "requires-os-enum",
    report: Some(|ctx, v| outside_enum(ctx, v, &OS_ALIASES)),
    title: "`requires.os` contains an unknown operating system",
    source: OPTIONAL,
    decides: &["A29-OPT-10"],
    doctypes: CLI_AND_AGENT_CLI,
    fix: FixKind::Unsafe,
    docs: include_str!("requires-os-enum.md"),
    ..Rule::BASE
};

pub static REQUIRES_ARCH_ENUM: Rule = Rule {
    slug: "requires-arch-enum",
    report: Some(|ctx, v| outside_enum(ctx, v, &ARCH_ALIASES)),
    title: "`requires.arch` contains an unknown architecture",
    source: OPTIONAL,
    decides: &["A29-OPT-11"],
    doctypes: CLI_AND_AGENT_CLI,
    fix: FixKind::Unsafe,
    docs: include_str!("requires-arch-enum.md"),
    ..Rule::BASE
};

const OS_ALIASES: [(&str, &str); 8] = [
    ("macos", "darwin"),
    ("osx", "darwin"),
    ("mac", "darwin"),
    ("win32", "windows"),
    ("win64", "windows"),
    ("win", "windows"),
    ("ubuntu", "linux"),
    ("debian", "linux"),
];

const ARCH_ALIASES: [(&str, &str); 10] = [
    ("x86_64", "x64"),
    ("x86-64", "x64"),
    ("amd64", "x64"),
    ("aarch64", "arm64"),
    ("armv8", "arm64"),
    ("i386", "x86"),
    ("i686", "x86"),
    ("ia32", "x86"),
    ("armv7", "arm"),
    ("armhf", "arm"),
];

fn outside_enum<'d>(
    ctx: &RuleContext<'d>,
    violation: &SchemaViolation<'d>,
    aliases: &[(&str, &'static str)],
) {
    let node = violation.node;
    let found = node.as_str().unwrap_or("");
    let meant = aliases
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(found))
        .map(|(_, value)| (*value).to_owned())
        .or_else(|| {
            let known = violation.expected.iter().map(String::as_str);
            closest_of(found, known).map(str::to_owned)
        });
    let Some(meant) = meant else {
        return ctx.report(shape::draft(ctx, violation));
    };
    let what = if violation.rule == &REQUIRES_OS_ENUM {
        "operating system"
    } else {
        "architecture"
    };
    let edits = edits::set_scalar(ctx.doc, node, &meant);
    ctx.report(
        FindingDraft::new(
            violation.rule,
            node,
            format!("unknown {what} `{}`", truncate(found, 40)),
        )
        .help(format!(
            "write `{meant}` (expected {})",
            one_of(&violation.expected)
        ))
        .fix_if(
            Safety::Unsafe,
            format!("Replace `{}` with `{meant}`", truncate(found, 40)),
            edits,
        ),
    );
}
