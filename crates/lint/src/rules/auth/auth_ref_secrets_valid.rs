//! The secrets file that auth names breaks its schema.

use super::{AUTH, BOTH};
use crate::context::{Context, Draft, Place, Ref};
use crate::rule::{Rule, Scope};
use crate::shape;
use agentproto_manifest::{Doctype, Document, Span};
use agentproto_text::short;
use std::sync::Arc;

pub static AUTH_REF_SECRETS_VALID: Rule = Rule {
    slug: "auth-ref-secrets-valid",
    title: "The secrets file that auth names breaks its schema",
    source: AUTH,
    decides: &["A29-AUTH-01", "A45-FM-10", "A45-AUTH-02"],
    doctypes: BOTH,
    scope: Scope::CrossFile,
    docs: include_str!("auth-ref-secrets-valid.md"),
    ..Rule::BASE
};

pub(super) fn secrets_valid<'d>(ctx: &Context<'d>, reference: &Ref<'d>, secrets: &Arc<Document>) {
    // Its own findings stand there when it is part of the run.
    if ctx.is_linted(&secrets.path) {
        return;
    }
    let Some(root) = &secrets.root else {
        return;
    };
    let name = short(reference.site.text, 60);
    if let Some(slots) = root.entry("slots").filter(|_| !root.has("secrets")) {
        let message = format!("`{name}` lists its secrets as `slots`, which AIP-19 does not have");
        ctx.report(
            Draft::new(&AUTH_REF_SECRETS_VALID, reference.site.node, message)
                .help("lint that file with `--fix` to turn `slots` into `secrets`")
                .related(secrets, slots.key_span, "the old form"),
        );
        return;
    }
    let open = secrets.front.map_or(Span::default(), |front| front.open);
    let found = shape::violations(
        shape::shapes_for(Doctype::Secrets),
        root,
        Place::Bytes(open),
    );
    let Some(first) = found.first() else {
        return;
    };
    let span = match first.place {
        Place::Value(node) => node.span,
        Place::Key(entry) => entry.key_span,
        Place::Part(_, span) | Place::Bytes(span) => span,
    };
    let what = match (&first.missing, first.entry) {
        (Some(name), _) => format!("`{name}` is missing"),
        (None, Some(entry)) => format!("`{}` may not stand here", entry.key),
        _ => "this value does not fit AIP-19".to_owned(),
    };
    let count = match found.len() {
        1 => "one mistake".to_owned(),
        n => format!("{n} mistakes"),
    };
    ctx.report(
        Draft::new(
            &AUTH_REF_SECRETS_VALID,
            reference.site.node,
            format!("`{name}` has {count} against AIP-19"),
        )
        .help("lint that file as well to see them all")
        .related(secrets, span, what),
    );
}
