//! `install-required-field`, `install-extra-field`.

use super::{BOTH, METHODS};
use crate::context::{Context, Draft};
use crate::rule::{FixKind, Rule, Scope};
use crate::shape::{self, Violation};
use agentproto_text::{closest_of, one_of, short};

pub static INSTALL_REQUIRED_FIELD: Rule = Rule {
    slug: "install-required-field",
    words: Some(missing_field),
    title: "An install method lacks a field that it needs",
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
    doctypes: BOTH,
    scope: Scope::CrossField,
    docs: include_str!("install-required-field.md"),
    ..Rule::BASE
};

pub static INSTALL_EXTRA_FIELD: Rule = Rule {
    slug: "install-extra-field",
    words: Some(extra_field),
    title: "An install method has a field that it does not take",
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
    doctypes: BOTH,
    scope: Scope::CrossField,
    fix: FixKind::Suggest,
    docs: include_str!("install-extra-field.md"),
    ..Rule::BASE
};

fn missing_field<'d>(ctx: &Context<'d>, violation: &Violation<'d>) {
    let missing = violation.missing.as_deref().unwrap_or("");
    if missing == "method" {
        ctx.report(
            Draft::new(
                &INSTALL_REQUIRED_FIELD,
                violation.place.clone(),
                "this way to install does not say its `method`",
            )
            .help(format!(
                "`method` is one of {}",
                one_of(&violation.expected)
            )),
        );
        return;
    }
    // A misspelled key is one mistake: `install-extra-field` names it.
    let misspelled = ctx.on(&INSTALL_EXTRA_FIELD)
        && violation
            .node
            .entries()
            .iter()
            .any(|entry| meant_key(&entry.key, &[missing]).is_some());
    if misspelled {
        return;
    }
    let method = violation.node.str_at(&["method"]).unwrap_or("");
    let hint = match missing {
        "package" => "name the package as the package manager knows it",
        "url" => "give the absolute URL to fetch",
        "extract_bin" => "give the path of the binary inside the archive",
        _ => "give the path of the binary, relative to this file",
    };
    ctx.report(
        Draft::new(
            &INSTALL_REQUIRED_FIELD,
            violation.place.clone(),
            format!("the method `{method}` needs `{missing}`"),
        )
        .help(hint),
    );
}

fn extra_field<'d>(ctx: &Context<'d>, violation: &Violation<'d>) {
    let Some(entry) = violation.entry else {
        return ctx.report(shape::draft(ctx, violation));
    };
    let method = violation.node.str_at(&["method"]).unwrap_or("");
    let known: Vec<&str> = violation.expected.iter().map(String::as_str).collect();
    let help = match meant_key(&entry.key, &known) {
        Some(meant) if !violation.node.has(meant) => format!("did you mean `{meant}`?"),
        _ => format!(
            "`{method}` takes {}",
            one_of(&known).replace(" or ", " and ")
        ),
    };
    ctx.report(
        Draft::new(
            &INSTALL_EXTRA_FIELD,
            entry,
            format!(
                "the method `{method}` has no field `{}`",
                short(&entry.key, 60)
            ),
        )
        .help(help),
    );
}

/// The known key that another one was meant to be; never itself.
fn meant_key<'k>(key: &str, known: &[&'k str]) -> Option<&'k str> {
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
