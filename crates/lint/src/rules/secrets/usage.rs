//! Finds declared secrets that no manifest in the same directory uses.

use super::{SECRETS, aip19};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{Level, Rule, Scope, Severity};
use agentproto_manifest::{Doctype, Document, Node, RefRole, normalize, ref_sites};
use std::sync::Arc;

pub static SEC_UNUSED_SLUG: Rule = Rule {
    slug: "sec-unused-slug",
    title: "No manifest in the same directory uses the secret",
    severity: Severity::Info,
    level: Level::Derived,
    source: aip19("Bindings"),
    doctypes: SECRETS,
    scope: Scope::CrossFile,
    docs: include_str!("sec-unused-slug.md"),
    ..Rule::BASE
};

struct Candidate<'d> {
    slug: &'d Node,
    /// The slug, and the names of the variables that may hold the secret.
    names: Vec<String>,
}

impl Candidate<'_> {
    fn is_named_in(&self, doc: &Document) -> bool {
        let text = doc.frontmatter.map_or("", |front| doc.slice(front.yaml));
        self.names.iter().any(|name| text.contains(name.as_str()))
    }
}

pub fn unused(ctx: &RuleContext<'_>) {
    if !ctx.on(&SEC_UNUSED_SLUG) {
        return;
    }
    let entries = ctx.root.get("secrets").map_or(&[][..], Node::items);
    let mut left: Vec<Candidate<'_>> = entries.iter().filter_map(candidate).collect();
    if left.is_empty() {
        return;
    }
    let names = ctx.workspace.manifests_in(ctx.doc.dir());
    let markdown = names.iter().filter(|name| name.ends_with(".md"));
    let (named, free): (Vec<&String>, Vec<&String>) =
        markdown.partition(|name| Doctype::from_file_name(name).is_some());
    let load = |names: Vec<&String>| -> Vec<Arc<Document>> {
        names
            .into_iter()
            .filter_map(|name| ctx.workspace.load(&ctx.doc.dir().join(name)).ok())
            .filter(|doc| doc.root.is_some())
            .filter(|doc| doc.doctype.is_some_and(|d| d != Doctype::Secrets))
            .collect()
    };
    let mut users = load(named);
    left.retain(|c| !users.iter().any(|doc| c.is_named_in(doc)));
    if left.is_empty() {
        return;
    }
    // Rarely reached: now also search files with other names, and the files that these manifests
    // refer to.
    users.extend(load(free));
    if !users.iter().any(|doc| refers_to(doc, ctx.doc)) {
        return;
    }
    let beyond: Vec<Arc<Document>> = users
        .iter()
        .flat_map(|doc| {
            ref_sites(doc)
                .into_iter()
                .filter(|site| site.role != RefRole::Secrets)
                .filter_map(|site| {
                    let target = ctx.workspace.resolve(doc, site.role, site.text);
                    target.document().cloned()
                })
                .collect::<Vec<_>>()
        })
        .collect();
    users.extend(beyond);
    left.retain(|c| !users.iter().any(|doc| c.is_named_in(doc)));
    for unused in left {
        let slug = unused.slug.as_str().unwrap_or_default();
        let variable = unused.names.get(1).map_or("", String::as_str);
        ctx.report(
            FindingDraft::new(
                &SEC_UNUSED_SLUG,
                unused.slug,
                format!("no manifest in this directory uses the secret `{slug}`"),
            )
            .help(format!(
                "remove it, or add it where it is needed (`{variable}` in `auth.state.env`)"
            )),
        );
    }
}

/// The slug of an entry whose user is unknown. `None` if the entry itself names its user.
fn candidate(entry: &Node) -> Option<Candidate<'_>> {
    let node = entry.get("slug")?;
    // An invalid slug is reported by another rule.
    let slug = node.as_str().filter(|slug| is_well_formed(slug))?;
    let grants = entry.get("access").map_or(&[][..], Node::entries);
    let names_user = grants
        .iter()
        .flat_map(|grant| grant.value.items())
        .any(|grantee| grantee.has("tool") || grantee.has("workflow"));
    let exposures = entry.get("exposures").map_or(&[][..], Node::items);
    let by_host = exposures
        .iter()
        .any(|e| matches!(e.str_at(&["kind"]), Some("file" | "egress-substitute")));
    if names_user || by_host {
        return None;
    }
    let variable = |slug: &str| slug.replace(['-', '/'], "_").to_ascii_uppercase();
    let mut names = vec![slug.to_owned(), variable(slug)];
    if let Some((_, own)) = slug.split_once('/') {
        names.push(variable(own));
    }
    let exposed = exposures.iter().filter_map(|e| e.str_at(&["name"]));
    names.extend(exposed.map(str::to_owned));
    let bound = entry.at(&["metadata", "bindings", "env"]);
    names.extend(
        bound
            .into_iter()
            .flat_map(Node::strings)
            .map(|(name, _)| name.to_owned()),
    );
    Some(Candidate { slug: node, names })
}

fn is_well_formed(slug: &str) -> bool {
    let part = |text: &str| {
        text.len() > 1
            && text.starts_with(|c: char| c.is_ascii_lowercase())
            && !text.ends_with('-')
            && text
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    let (group, name) = slug.split_once('/').unwrap_or(("ok", slug));
    slug.len() <= 80 && part(group) && part(name)
}

fn refers_to(doc: &Document, secrets: &Document) -> bool {
    let here = normalize(&secrets.path);
    ref_sites(doc)
        .iter()
        .any(|site| site.role == RefRole::Secrets && normalize(&doc.dir().join(site.text)) == here)
}
