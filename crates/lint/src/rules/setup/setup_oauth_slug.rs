//! Rules `setup-oauth-slug-undeclared` and `setup-oauth-slug-kind`.

use super::{CLI_AND_AGENT_CLI, SETUP};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{Rule, Scope};
use crate::rules::auth::{secrets_in, secrets_of, secrets_place};
use agentproto_manifest::Node;
use agentproto_text::{closest_of, truncate};

pub static SETUP_OAUTH_SLUG_UNDECLARED: Rule = Rule {
    slug: "setup-oauth-slug-undeclared",
    title: "An oauth step names an undeclared secret",
    source: SETUP,
    decides: &["A29-SETUP-07"],
    doctypes: CLI_AND_AGENT_CLI,
    scope: Scope::CrossFile,
    docs: include_str!("setup-oauth-slug-undeclared.md"),
    ..Rule::BASE
};

pub static SETUP_OAUTH_SLUG_KIND: Rule = Rule {
    slug: "setup-oauth-slug-kind",
    title: "An oauth step names a secret of another kind",
    source: SETUP,
    decides: &["A29-SETUP-07"],
    doctypes: CLI_AND_AGENT_CLI,
    scope: Scope::CrossFile,
    docs: include_str!("setup-oauth-slug-kind.md"),
    ..Rule::BASE
};

pub(super) fn oauth<'d>(ctx: &RuleContext<'d>, step: &'d Node) {
    if step.str_at(&["kind"]) != Some("oauth") {
        return;
    }
    let Some(node) = step.get("secret_slug") else {
        return;
    };
    let Some(slug) = node.as_str() else {
        return;
    };
    let Some((reference, doc)) = secrets_of(ctx) else {
        // The reference rules report a broken `auth.ref`.
        if ctx.root.at(&["auth", "ref"]).is_none() {
            ctx.report(
                FindingDraft::new(
                    &SETUP_OAUTH_SLUG_UNDECLARED,
                    node,
                    format!(
                        "the secret `{}` is not declared, because `auth.ref` is missing",
                        truncate(slug, 80)
                    ),
                )
                .help(
                    "add `auth.ref` with a SECRETS.md that declares the secret with `kind: oauth`",
                ),
            );
        }
        return;
    };
    let declared = || secrets_in(doc).iter().filter_map(|s| s.str_at(&["slug"]));
    let Some(secret) = secrets_in(doc)
        .iter()
        .find(|s| s.str_at(&["slug"]) == Some(slug))
    else {
        ctx.report(
            FindingDraft::new(
                &SETUP_OAUTH_SLUG_UNDECLARED,
                node,
                format!(
                    "`{}` does not declare the secret `{}`",
                    truncate(reference.site.text, 60),
                    truncate(slug, 80)
                ),
            )
            .help(match closest_of(slug, declared()) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => "declare it there with `kind: oauth`".to_owned(),
            })
            .related(doc, secrets_place(doc), "the declared secrets"),
        );
        return;
    };
    let kind = secret.get("kind");
    let word = kind.map_or(Some("opaque"), Node::as_str);
    // An unknown kind has its own finding in the SECRETS.md.
    if let Some(word) = word.filter(|w| ["opaque", "keypair", "json"].contains(w)) {
        ctx.report(
            FindingDraft::new(
                &SETUP_OAUTH_SLUG_KIND,
                node,
                format!(
                    "the secret `{}` is of kind `{}`, not `oauth`",
                    truncate(slug, 80),
                    truncate(word, 40)
                ),
            )
            .help("set `kind: oauth` there, or name another secret")
            .related(
                doc,
                kind.or_else(|| secret.get("slug"))
                    .map_or(secret.span, |n| n.span),
                match kind {
                    Some(_) => "declared here",
                    None => "declared here (`opaque`, because it has no `kind`)",
                },
            ),
        );
    }
}
