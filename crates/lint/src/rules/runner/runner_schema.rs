//! The runner block does not conform to AIP-17.

use super::{DOCTYPES, WRAPPERS, check_block, check_inner};
use crate::context::{FindingDraft, Location, RuleContext};
use crate::rule::{Rule, Scope, Severity, Source};
use crate::shape::{Keyword, SchemaViolation, draft, shapes_for, violations};
use agentproto_manifest::{Doctype, Document, Entry, Node, RefRole, Resolution, Value};
use agentproto_text::{one_of, truncate};

pub static SCHEMA: Rule = Rule {
    slug: "runner-schema",
    report: Some(report_violation),
    title: "The runner block does not conform to AIP-17",
    source: Source {
        spec: "AIP-17",
        section: "The runner block",
    },
    decides: &["A29-OPT-05", "A45-FM-22"],
    doctypes: DOCTYPES,
    scope: Scope::CrossFile,
    docs: include_str!("runner-schema.md"),
    ..Rule::BASE
};

fn report_violation<'d>(ctx: &RuleContext<'d>, violation: &SchemaViolation<'d>) {
    if violation.keyword == Keyword::OneOf {
        let report = FindingDraft::new(
            &SCHEMA,
            violation.location.clone(),
            format!(
                "`runner` must be a string or a mapping, found {}",
                article(violation.node)
            ),
        )
        .help(
            "write the path of a RUNNER.md, or a mapping with `engine`, `image`, `needs` and `limits`",
        );
        return ctx.report(report);
    }
    let unknown = violation.keyword == Keyword::AdditionalProperties;
    let Some(entry) = violation.entry.filter(|_| unknown) else {
        return ctx.report(draft(ctx, violation));
    };
    if is_wrapper(ctx, violation.node, entry) {
        // Checked by `check_holder` and `check_own_block`.
        return;
    }
    let in_limits = ctx
        .doc
        .pointer_of(violation.node)
        .is_some_and(|pointer| pointer.ends_with("/limits"));
    let mut report = draft(ctx, violation);
    if in_limits {
        report = report
            .severity(Severity::Warning)
            .help("only some hosts may support this limit; a portable manifest uses only `memory_mb`, `timeout_ms` and `cpu_ms`");
    } else if entry.key == "mode" {
        report = report.help("`mode` is the old name for `engine`; rename it");
    } else if matches!(
        &*entry.key,
        "env" | "fs" | "network" | "resources" | "secrets"
    ) {
        report = report.help(format!(
            "move `{}` to the manifest's own blocks; a runner only defines the process boundary",
            entry.key
        ));
    }
    ctx.report(report);
}

fn article(node: &Node) -> &'static str {
    match node.value {
        Value::Null => "null",
        Value::Seq(_) => "a list",
        Value::Bool(_) => "a boolean",
        _ => "a number",
    }
}

fn is_wrapper(ctx: &RuleContext<'_>, block: &Node, entry: &Entry) -> bool {
    if ctx.is(Doctype::Runner) {
        return std::ptr::eq(block, ctx.root) && entry.key == "runner" && entry.value.is_map();
    }
    let at_top = ctx
        .root
        .get("runner")
        .is_some_and(|runner| std::ptr::eq(runner, block));
    at_top && WRAPPERS.contains(&&*entry.key) && !ctx.is(Doctype::Tool)
}

pub(super) fn check_wrapper<'d>(ctx: &RuleContext<'d>, wrapper: &'d Entry) {
    if wrapper.key == "inline" {
        check_inner(ctx, wrapper);
        return check_block(ctx, &wrapper.value);
    }
    let Some(text) = wrapper.value.as_str() else {
        let report = FindingDraft::new(
            &SCHEMA,
            &wrapper.value,
            format!("`runner.{}` must be a string", wrapper.key),
        );
        return ctx.report(report);
    };
    // `ref` is an id in a registry, which cannot be checked against files.
    if wrapper.key != "file" {
        return;
    }
    let target = ctx.workspace.resolve(ctx.doc, RefRole::Runner, text);
    if let Resolution::Missing(_) = target {
        let report = FindingDraft::new(
            &SCHEMA,
            &wrapper.value,
            format!("file `{}` not found", truncate(text, 60)),
        )
        .help("write the path of a RUNNER.md relative to this file");
        return ctx.report(report);
    }
    check_target(ctx, &wrapper.value, &target);
}

/// Checks a referenced RUNNER.md that is not linted in the same run.
pub(super) fn check_target<'d>(ctx: &RuleContext<'d>, reference: &'d Node, target: &Resolution) {
    let Some(doc) = target.document() else {
        return;
    };
    let Some(root) = doc.root.as_ref() else {
        return;
    };
    if doc.doctype != Some(Doctype::Runner) || ctx.is_linted(&doc.path) {
        return;
    }
    let block = root
        .get("runner")
        .filter(|inner| inner.is_map())
        .unwrap_or(root);
    let found = violations(shapes_for(Doctype::Runner), block, Location::Value(block));
    let Some(first) = found.first() else {
        return;
    };
    let mut report = FindingDraft::new(
        &SCHEMA,
        reference,
        format!(
            "the referenced RUNNER.md does not conform to AIP-17: {}",
            short_message(doc, first)
        ),
    )
    .help("fix that file; lint it to see all findings");
    for violation in found.iter().take(5) {
        let span = match &violation.location {
            Location::Key(entry) => entry.key_span,
            Location::Part(_, span) | Location::Bytes(span) => *span,
            Location::Value(node) => node.span,
        };
        report = report.related(doc, span, short_message(doc, violation));
    }
    ctx.report(report);
}

/// A short message for a violation in another file.
fn short_message(doc: &Document, violation: &SchemaViolation<'_>) -> String {
    let pointer = doc.pointer_of(violation.node).unwrap_or_default();
    let name = pointer.trim_start_matches('/').replace('/', ".");
    match (violation.keyword, violation.entry) {
        (Keyword::AdditionalProperties, Some(entry)) => {
            format!("unknown field `{}`", truncate(&entry.key, 40))
        }
        (Keyword::Enum | Keyword::Const, _) => {
            format!("`{name}` must be {}", one_of(&violation.expected))
        }
        (Keyword::Type, _) => format!("`{name}` has the wrong type"),
        (Keyword::Minimum, _) => format!("`{name}` is too small"),
        _ => format!("`{name}` has an invalid value"),
    }
}
