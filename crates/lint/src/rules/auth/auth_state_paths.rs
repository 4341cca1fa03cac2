//! `auth-state-paths-not-whitelisted`, `auth-state-paths-denied`.

use super::{AUTH, TOOL};
use crate::context::{Context, Draft};
use crate::edits;
use crate::finding::Safety;
use crate::rule::{FixKind, Rule, Scope};
use agentproto_manifest::{Node, globs};
use agentproto_text::short;

pub static AUTH_STATE_PATHS_NOT_WHITELISTED: Rule = Rule {
    slug: "auth-state-paths-not-whitelisted",
    title: "The sandbox does not open a path of the login",
    source: AUTH,
    decides: &["A29-AUTH-03"],
    doctypes: TOOL,
    scope: Scope::CrossField,
    fix: FixKind::Safe,
    docs: include_str!("auth-state-paths-not-whitelisted.md"),
    ..Rule::BASE
};

pub static AUTH_STATE_PATHS_DENIED: Rule = Rule {
    slug: "auth-state-paths-denied",
    title: "The sandbox denies a path of the login",
    source: AUTH,
    decides: &["A29-AUTH-03"],
    doctypes: TOOL,
    scope: Scope::CrossField,
    docs: include_str!("auth-state-paths-denied.md"),
    ..Rule::BASE
};

pub(super) fn paths_reachable<'d>(ctx: &Context<'d>, auth: &'d Node, sandbox: &'d Node) {
    let (Some(paths), Some(fs)) = (auth.at(&["state", "paths"]), sandbox.entry("fs")) else {
        return;
    };
    if !fs.value.is_map() {
        return;
    }
    let list = |key: &str| fs.value.get(key);
    let opens = |key: &str, path: &str| {
        list(key).and_then(|l| l.strings().find(|(glob, _)| takes_in(glob, path)))
    };
    for (path, node) in paths.strings() {
        if let Some((glob, denied)) = opens("deny", path) {
            ctx.report(
                Draft::new(
                    &AUTH_STATE_PATHS_DENIED,
                    node,
                    format!(
                        "`sandbox.fs.deny` closes `{}` to the binary",
                        short(path, 60)
                    ),
                )
                .help("take the login out of the denied paths; a denial beats every grant")
                .nearby(denied.span, format!("`{}` takes it in", short(glob, 60))),
            );
        } else if opens("read", path).is_none() && opens("write", path).is_none() {
            let grant = grant_for(path);
            // The login is read, and written when it is renewed.
            let edits = ["read", "write"]
                .into_iter()
                .filter_map(list)
                .map(|l| edits::append_item(ctx.doc, l, &grant))
                .collect::<Option<Vec<_>>>()
                .map(|edits| edits.concat());
            ctx.report(
                Draft::new(
                    &AUTH_STATE_PATHS_NOT_WHITELISTED,
                    node,
                    format!(
                        "neither `sandbox.fs.read` nor `sandbox.fs.write` takes in `{}`",
                        short(path, 60)
                    ),
                )
                .help(format!("add `{}` to both lists", short(&grant, 60)))
                .nearby(fs.key_span, "paths outside these lists are closed")
                .fix_if(Safety::Safe, "Open the path", edits),
            );
        }
    }
}

/// The glob that opens a state path: a name with an ending is a file, any other a directory.
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

/// A state path may be a file or a directory; for the latter all that is in it counts.
fn takes_in(glob: &str, path: &str) -> bool {
    globs::covers(glob, path)
        || (glob.ends_with("/*")
            && globs::covers(glob, &format!("{}/*", path.trim_end_matches('/'))))
}
