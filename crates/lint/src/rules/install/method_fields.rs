//! Rules `install-required-field` and `install-extra-field`.

use super::{CLI_AND_AGENT_CLI, METHODS};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{FixKind, Rule, Scope};
use crate::shape::{self, SchemaViolation};
use agentproto_text::{closest_of, one_of, truncate};

pub static INSTALL_REQUIRED_FIELD: Rule = Rule {
    slug: "install-required-field",
    report: Some(missing_field),
    title: "An install method is missing a required field",
    source: METHODS,
    decides: &[
        "A29-INSTALL-02",
        "A29-INSTALL-03",
        "A29-INSTALL-04",
        "A29-INSTALL-05",
        "A29-INSTALL-06",
        "A29-INSTALL-07",
        "A29-INSTALL-08",
        "A29-INSTALL-09",
        "A29-INSTALL-10",
        "A29-INSTALL-11",
        "A29-INSTALL-12",
        "A29-INSTALL-14",
        "A29-INSTALL-15",
        "A45-CONF-02",
    ],
    doctypes: CLI_AND_AGENT_CLI,
    scope: Scope::CrossField,
    docs: include_str!("install-required-field.md"),
    ..Rule::BASE
};

pub static INSTALL_EXTRA_FIELD: Rule = Rule {
    slug: "install-extra-field",
    report: Some(extra_field),
    title: "An install method has an unknown field",
    source: METHODS,
    decides: &[
        "A29-INSTALL-02",
        "A29-INSTALL-03",
        "A29-INSTALL-04",
        "A29-INSTALL-05",
        "A29-INSTALL-06",
        "A29-INSTALL-07",
        "A29-INSTALL-08",
        "A29-INSTALL-09",
        "A29-INSTALL-10",
        "A29-INSTALL-11",
    ],
    doctypes: CLI_AND_AGENT_CLI,
    scope: Scope::CrossField,
    fix: FixKind::Suggest,
    docs: include_str!("install-extra-field.md"),
    ..Rule::BASE
};

fn missing_field<'d>(ctx: &RuleContext<'d>, violation: &SchemaViolation<'d>) {
    let missing = violation.missing.as_deref().unwrap_or("");
    if missing == "method" {
        ctx.report(
            FindingDraft::new(
                &INSTALL_REQUIRED_FIELD,
                violation.location.clone(),
                "this entry of `install` has no `method`",
            )
            .help(format!("set `method` to {}", one_of(&violation.expected))),
        );
        return;
    }
    // `install-extra-field` already reports a misspelled key.
    let misspelled = ctx.on(&INSTALL_EXTRA_FIELD)
        && violation
            .node
            .entries()
            .iter()
            .any(|entry| intended_key(&entry.key, &[missing]).is_some());
    if misspelled {
        return;
    }
    let method = violation.node.str_at(&["method"]).unwrap_or("");
    let hint = match missing {
        "package" => "add the name of the package in the package manager",
        "url" => "add the absolute URL to fetch",
        "extract_bin" => "add the path of the binary inside the archive",
        _ => "add the path of the binary, relative to this file",
    };
    ctx.report(
        FindingDraft::new(
            &INSTALL_REQUIRED_FIELD,
            violation.location.clone(),
            format!("install method `{method}` requires `{missing}`"),
        )
        .help(hint),
    );
}

fn extra_field<'d>(ctx: &RuleContext<'d>, violation: &SchemaViolation<'d>) {
    let Some(entry) = violation.entry else {
        return ctx.report(shape::draft(ctx, violation));
    };
    let method = violation.node.str_at(&["method"]).unwrap_or("");
    let known: Vec<&str> = violation.expected.iter().map(String::as_str).collect();
    let help = match intended_key(&entry.key, &known) {
        Some(meant) if !violation.node.has(meant) => format!("did you mean `{meant}`?"),
        _ => format!("expected {}", one_of(&known)),
    };
    ctx.report(
        FindingDraft::new(
            &INSTALL_EXTRA_FIELD,
            entry,
            format!(
                "unknown field `{}` for install method `{method}`",
                truncate(&entry.key, 60)
            ),
        )
        .help(help),
    );
}

/// The known key that an unknown key was probably meant to be. `None` for a known key.
fn intended_key<'k>(key: &str, known: &[&'k str]) -> Option<&'k str> {
    if known.contains(&key) {
        return None;
    }
    let alias = match key.to_ascii_lowercase().as_str() {
        "sha256" | "sha" | "checksum" | "digest" => "verify_sha256",
        "pkg" | "formula" | "crate" | "module" | "name" => "package",
        "uri" | "href" | "link" => "url",
        "bin" | "extract" | "extractbin" => "extract_bin",
        _ => "",
    };
    known
        .iter()
        .copied()
        .find(|k| *k == alias)
        .or_else(|| closest_of(key, known.iter().copied()))
}
