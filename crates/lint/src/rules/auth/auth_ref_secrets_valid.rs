//! Rule `auth-ref-secrets-valid`: the SECRETS.md that `auth.ref` names is not valid.

use super::{AUTH, CLI_AND_AGENT_CLI};
use crate::context::{FindingDraft, Location, ResolvedRef, RuleContext};
use crate::rule::{Rule, Scope};
use crate::shape;
use agentproto_manifest::{Doctype, Document, Span};
use agentproto_text::truncate;
use std::sync::Arc;

pub static AUTH_REF_SECRETS_VALID: Rule = Rule {
    slug: "auth-ref-secrets-valid",
    title: "The SECRETS.md that `auth.ref` names is not valid",
    source: AUTH,
    decides: &["A29-AUTH-01", "A45-FM-10", "A45-AUTH-02"],
    doctypes: CLI_AND_AGENT_CLI,
    scope: Scope::CrossFile,
    docs: include_str!("auth-ref-secrets-valid.md"),
    ..Rule::BASE
};

pub(super) fn secrets_valid<'d>(
    ctx: &RuleContext<'d>,
    reference: &ResolvedRef<'d>,
    secrets: &Arc<Document>,
) {
    // A file that is linted in the same run has its own findings.
    if ctx.is_linted(&secrets.path) {
        return;
    }
    let Some(root) = &secrets.root else {
        return;
    };
    let name = truncate(reference.site.text, 60);
    if let Some(slots) = root.entry("slots").filter(|_| !root.has("secrets")) {
        let message = format!("`{name}` lists its secrets as `slots`, which AIP-19 does not have");
        ctx.report(
            FindingDraft::new(&AUTH_REF_SECRETS_VALID, reference.site.node, message)
                .help("lint that file with `--fix` to convert `slots` to `secrets`")
                .related(secrets, slots.key_span, "the old form"),
        );
        return;
    }
    let open = secrets
        .frontmatter
        .map_or(Span::default(), |front| front.open);
    let found = shape::violations(
        shape::shapes_for(Doctype::Secrets),
        root,
        Location::Bytes(open),
    );
    let Some(first) = found.first() else {
        return;
    };
    let span = match first.location {
        Location::Value(node) => node.span,
        Location::Key(entry) => entry.key_span,
        Location::Part(_, span) | Location::Bytes(span) => span,
    };
    let what = match (&first.missing, first.entry) {
        (Some(name), _) => format!("`{name}` is missing"),
        (None, Some(entry)) => format!("`{}` is not allowed here", entry.key),
        _ => "this value is not valid in AIP-19".to_owned(),
    };
    let count = match found.len() {
        1 => "one violation".to_owned(),
        n => format!("{n} violations"),
    };
    ctx.report(
        FindingDraft::new(
            &AUTH_REF_SECRETS_VALID,
            reference.site.node,
            format!("`{name}` has {count} of AIP-19"),
        )
        .help("lint that file to see all findings")
        .related(secrets, span, what),
    );
}
