//! Rules `auth-state-paths-not-whitelisted` and `auth-state-paths-denied`.

use super::{AUTH, CLI};
use crate::context::{FindingDraft, RuleContext};
use crate::edits;
use crate::finding::Safety;
use crate::rule::{FixKind, Rule, Scope};
use agentproto_manifest::{Node, globs};
use agentproto_text::truncate;

pub static AUTH_STATE_PATHS_NOT_WHITELISTED: Rule = Rule {
    slug: "auth-state-paths-not-whitelisted",
    title: "The sandbox does not grant access to a login path",
    source: AUTH,
    decides: &["A29-AUTH-03"],
    doctypes: CLI,
    scope: Scope::CrossField,
    fix: FixKind::Safe,
    docs: include_str!("auth-state-paths-not-whitelisted.md"),
    ..Rule::BASE
};

pub static AUTH_STATE_PATHS_DENIED: Rule = Rule {
    slug: "auth-state-paths-denied",
    title: "The sandbox denies access to a login path",
    source: AUTH,
    decides: &["A29-AUTH-03"],
    doctypes: CLI,
    scope: Scope::CrossField,
    docs: include_str!("auth-state-paths-denied.md"),
    ..Rule::BASE
};

pub(super) fn paths_reachable<'d>(ctx: &RuleContext<'d>, auth: &'d Node, sandbox: &'d Node) {
    let (Some(paths), Some(fs)) = (auth.at(&["state", "paths"]), sandbox.entry("fs")) else {
        return;
    };
    if !fs.value.is_map() {
        return;
    }
    let list = |key: &str| fs.value.get(key);
    let opens = |key: &str, path: &str| {
        list(key).and_then(|l| l.strings().find(|(glob, _)| covers_path(glob, path)))
    };
    for (path, node) in paths.strings() {
        if let Some((glob, denied)) = opens("deny", path) {
            ctx.report(
                FindingDraft::new(
                    &AUTH_STATE_PATHS_DENIED,
                    node,
                    format!(
                        "`sandbox.fs.deny` blocks the login path `{}`",
                        truncate(path, 60)
                    ),
                )
                .help(format!(
                    "remove `{}` from `sandbox.fs.deny`, or make it narrower: `deny` overrides `read` and `write`",
                    truncate(glob, 60)
                ))
                .nearby(denied.span, format!("`{}` covers it", truncate(glob, 60))),
            );
        } else if opens("read", path).is_none() && opens("write", path).is_none() {
            let grant = grant_for(path);
            // The binary reads the login, and writes it on renewal.
            let edits = ["read", "write"]
                .into_iter()
                .filter_map(list)
                .map(|l| edits::append_item(ctx.doc, l, &grant))
                .collect::<Option<Vec<_>>>()
                .map(|edits| edits.concat());
            ctx.report(
                FindingDraft::new(
                    &AUTH_STATE_PATHS_NOT_WHITELISTED,
                    node,
                    format!(
                        "neither `sandbox.fs.read` nor `sandbox.fs.write` covers `{}`",
                        truncate(path, 60)
                    ),
                )
                .help(format!("add `{}` to both lists", truncate(&grant, 60)))
                .nearby(
                    fs.key_span,
                    "the binary can access only the paths in these lists",
                )
                .fix_if(Safety::Safe, "Allow access to the path", edits),
            );
        }
    }
}

/// The glob that grants access to a state path. A name with an extension is a file, any other name
/// a directory.
fn grant_for(path: &str) -> String {
    let path = path.trim_end_matches('/');
    let name = path.rsplit('/').next().unwrap_or(path);
    let is_file = name.char_indices().any(|(at, c)| c == '.' && at > 0);
    if is_file || globs::has_wildcard(path) {
        path.to_owned()
    } else {
        format!("{path}/**")
    }
}

/// Whether a glob covers a state path, which may be a file or a directory. For a directory, a glob
/// that covers its contents is enough.
fn covers_path(glob: &str, path: &str) -> bool {
    globs::covers(glob, path)
        || (glob.ends_with("/*")
            && globs::covers(glob, &format!("{}/*", path.trim_end_matches('/'))))
}
