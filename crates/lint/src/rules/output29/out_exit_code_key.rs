//! A key of `exit_codes` is not a number.

use super::{CLI, OUTPUT, is_outcome, snake};
use crate::context::{FindingDraft, RuleContext};
use crate::edits;
use crate::finding::{Edit, Safety};
use crate::rule::{FixKind, Rule};
use crate::shape::{SchemaViolation, draft};
use agentproto_manifest::Entry;
use agentproto_text::truncate;

pub static EXIT_CODE_KEY: Rule = Rule {
    slug: "out-exit-code-key",
    report: Some(bad_key),
    title: "A key of `exit_codes` is not a number",
    source: OUTPUT,
    decides: &["A29-OUT-04"],
    doctypes: CLI,
    fix: FixKind::Safe,
    docs: include_str!("out-exit-code-key.md"),
    ..Rule::BASE
};

fn bad_key<'d>(ctx: &RuleContext<'d>, violation: &SchemaViolation<'d>) {
    let Some(entry) = violation.entry else {
        return ctx.report(draft(ctx, violation));
    };
    let codes = violation.node;
    let key = truncate(&entry.key, 40);
    if let Some(code) = entry.value.as_int().filter(|code| *code >= 0) {
        let code = code.to_string();
        let report = FindingDraft::new(
            &EXIT_CODE_KEY,
            entry,
            format!("key and value are swapped in `{key}: {code}`"),
        )
        .help(format!("write `{code}: {}`", snake(&entry.key)));
        let free = !codes.has(&code);
        let edits = free.then(|| swap(ctx, entry, &code)).flatten();
        ctx.report(report.fix_if(
            Safety::Safe,
            format!("Write `{code}: {}`", snake(&entry.key)),
            edits,
        ));
        return;
    }
    let mut report = FindingDraft::new(
        &EXIT_CODE_KEY,
        entry,
        format!("`{key}` is not an exit code: keys must consist of digits"),
    );
    // Offer a fix only if the key contains exactly one number and that code is not used yet.
    let mut runs = entry
        .key
        .split(|c: char| !c.is_ascii_digit())
        .filter(|run| !run.is_empty());
    let only = runs.next().filter(|_| runs.next().is_none());
    match only {
        Some(code) if !codes.has(code) && !entry.key.starts_with('-') => {
            report = report.help(format!("write `{code}`")).fix_if(
                Safety::Safe,
                format!("Rename the key to `{code}`"),
                rename(ctx, entry, code),
            );
        }
        _ => {
            report = report.help(
                "write the exit code of the process as a number, for example `3: rate_limited`",
            )
        }
    }
    ctx.report(report);
}

fn swap(ctx: &RuleContext<'_>, entry: &Entry, code: &str) -> Option<Vec<Edit>> {
    let word = snake(&entry.key);
    if !is_outcome(&word) {
        return None;
    }
    let mut all = rename(ctx, entry, code)?;
    all.extend(edits::set_raw(ctx.doc, &entry.value, &word)?);
    Some(all)
}

/// Renames a key. A plain key stays plain, because exit codes are usually written without quotes.
fn rename(ctx: &RuleContext<'_>, entry: &Entry, code: &str) -> Option<Vec<Edit>> {
    if ctx.doc.slice(entry.key_span) != entry.key {
        return edits::rename_key(ctx.doc, entry, code);
    }
    Some(vec![Edit {
        span: entry.key_span,
        text: code.to_owned(),
    }])
}
