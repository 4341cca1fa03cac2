//! How the binary gets onto the machine: `bin`, `install`, `requires`.

mod catalog;
mod claims;
mod digest;
mod places;

pub use catalog::*;
use claims::placeholder;
pub use claims::{is_bin, numeric_digest};
use places::{OPERATING_SYSTEMS, is_absolute, served_by};

use crate::context::{Context, Draft, Place};
use crate::edits;
use crate::finding::Safety;
use crate::registry::{Check, Family};
use crate::rule::Rule;
use crate::shape;
use agentproto_manifest::{Doctype, Entry, Node, PathKind, Span, Style, normalize};
use agentproto_text::short;

pub static FAMILY: Family = Family {
    name: "install",
    rules: &[
        &BIN_PATTERN,
        &BIN_SINGLE_TOKEN,
        &BIN_NOT_PATH,
        &BIN_ARGS_STRINGS,
        &INSTALL_EMPTY,
        &INSTALL_METHOD_UNKNOWN,
        &INSTALL_REQUIRED_FIELD,
        &INSTALL_EXTRA_FIELD,
        &INSTALL_URL_URI,
        &INSTALL_URL_HTTPS,
        &INSTALL_SHA256_FORMAT,
        &INSTALL_SHA256_PLACEHOLDER,
        &INSTALL_CURL_NO_SHA256,
        &INSTALL_DOWNLOAD_NO_SHA256,
        &INSTALL_CURL_MUTABLE_URL,
        &INSTALL_ALL_EXPERIMENTAL,
        &INSTALL_DUPLICATE,
        &INSTALL_VENDORED_MISSING,
        &INSTALL_VENDORED_TRAVERSAL,
        &INSTALL_EXTRACT_BIN_TRAVERSAL,
        &INSTALL_NPM_UNPINNED,
        &INSTALL_OS_COVERAGE,
        &INSTALL_FEW_MANAGERS,
        &REQUIRES_OS_ENUM,
        &REQUIRES_ARCH_ENUM,
        &REQUIRES_ARCH_PROSE,
    ],
    checks: &[Check {
        doctypes: &[Doctype::Cli, Doctype::AgentCli],
        run: check,
    }],
};

/// Methods that name a package of a package manager.
const MANAGERS: [&str; 10] = [
    "brew", "apt", "dnf", "pacman", "choco", "scoop", "npm", "pip", "cargo", "go",
];

fn methods<'d>(ctx: &Context<'d>) -> &'d [Node] {
    ctx.root.get("install").map_or(&[], Node::items)
}

fn check(ctx: &Context<'_>) {
    bin(ctx);
    let methods = methods(ctx);
    for method in methods {
        match method.str_at(&["method"]) {
            Some("curl") => {
                fetched(ctx, method, &INSTALL_CURL_NO_SHA256);
                mutable_url(ctx, method);
            }
            Some("download") => {
                fetched(ctx, method, &INSTALL_DOWNLOAD_NO_SHA256);
                extract_bin(ctx, method);
            }
            Some("vendored") => vendored(ctx, method),
            _ => {}
        }
    }
    for (method, first) in shape::repeats(methods) {
        duplicate(ctx, method, first);
    }
    if let Some(entry) = ctx.root.entry("install") {
        all_experimental(ctx, entry, methods);
        if ctx.is(Doctype::Cli) {
            few_managers(ctx, entry, methods);
        }
    }
    requires(ctx, methods);
}

fn bin(ctx: &Context<'_>) {
    let Some(node) = ctx.root.get("bin") else {
        return;
    };
    let Some(bin) = node.as_str() else {
        return;
    };
    if ctx.is(Doctype::Cli) && bin.contains('/') && is_bin(bin) {
        let last = bin.rsplit('/').find(|part| !part.is_empty());
        ctx.report(
            Draft::new(
                &BIN_NOT_PATH,
                node,
                format!("`bin` is a path, `{}`, not a name on $PATH", short(bin, 60)),
            )
            .help(match last {
                Some(name) => format!("write `{name}`; a `vendored` method holds the path"),
                None => "write the name of the binary".to_owned(),
            }),
        );
    }
    if matches!(bin, "npx" | "bunx" | "pnpx") {
        unpinned(ctx, bin);
    }
}

/// The package that the launcher fetches at each start.
fn unpinned(ctx: &Context<'_>, launcher: &str) {
    let mut arguments = ctx.root.get("bin_args").map_or(&[][..], Node::items).iter();
    while let Some(node) = arguments.next() {
        let Some(argument) = node.as_str() else {
            return;
        };
        let (text, node) = match argument {
            "-p" | "--package" => match arguments.next() {
                Some(next) => (next.as_str().unwrap_or(""), next),
                None => return,
            },
            _ => match argument.strip_prefix("--package=") {
                Some(package) => (package, node),
                None if argument.starts_with('-') => continue,
                None => (argument, node),
            },
        };
        let version = text.get(1..).and_then(|rest| rest.split_once('@'));
        let pinned = version.is_some_and(|(_, v)| v.contains(|c: char| c.is_ascii_digit()));
        if is_package(text) && !pinned {
            ctx.report(
                Draft::new(
                    &INSTALL_NPM_UNPINNED,
                    node,
                    format!(
                        "`{launcher}` fetches `{}` without a version, so each start may run another one",
                        short(text, 60)
                    ),
                )
                .help("name the version that the manifest was tested with, as in `package@1.2.3`"),
            );
        }
        return;
    }
}

/// A name in the npm registry, not a path, a URL or a template.
fn is_package(text: &str) -> bool {
    !text.is_empty()
        && !text.contains(['{', '$', ':'])
        && !text.starts_with(['.', '/'])
        && (text.starts_with('@') || !text.contains('/'))
}

fn fetched<'d>(ctx: &Context<'d>, method: &'d Node, no_digest: &'static Rule) {
    let digest = method.get("verify_sha256");
    if let Some(node) = digest
        && let Some(text) = node.as_str()
        && digest::is_well_formed(text)
        && let Some(why) = digest::too_regular(text)
    {
        placeholder(ctx, node, why);
    }
    let Some(node) = method.get("url") else {
        return;
    };
    let Some(url) = node.as_str() else {
        return;
    };
    if digest.is_none() && !method.has("sha256") {
        let message = "what this URL returns is not pinned by a digest";
        let help = if no_digest == &INSTALL_CURL_NO_SHA256 {
            "add `verify_sha256`; hosts decline a script without it in production"
        } else {
            "add `verify_sha256` with what `sha256sum FILE` prints"
        };
        ctx.report(Draft::new(no_digest, node, message).help(help));
    }
    plain_http(ctx, node, url);
}

fn plain_http<'d>(ctx: &Context<'d>, node: &'d Node, url: &str) {
    let Some((scheme, rest)) = url.split_once("://") else {
        return;
    };
    let http = scheme.eq_ignore_ascii_case("http");
    if !http && !scheme.eq_ignore_ascii_case("ftp") {
        return;
    }
    let host = rest.split(['/', ':']).next().unwrap_or("");
    if matches!(host, "localhost" | "127.0.0.1" | "[") {
        return;
    }
    let secure = format!("https://{rest}");
    let edits = http
        .then(|| edits::set_scalar(ctx.doc, node, &secure))
        .flatten();
    ctx.report(
        Draft::new(
            &INSTALL_URL_HTTPS,
            node,
            format!(
                "this is fetched over {}, which anybody on the way can change",
                scheme.to_ascii_lowercase()
            ),
        )
        .help("use `https`")
        .fix_if(Safety::Safe, "Use https", edits),
    );
}

/// Names that a branch or a moving tag usually has.
const MOVING: [&str; 9] = [
    "main", "master", "HEAD", "head", "trunk", "develop", "latest", "nightly", "next",
];

fn mutable_url<'d>(ctx: &Context<'d>, method: &'d Node) {
    let Some(node) = method.get("url") else {
        return;
    };
    let Some(url) = node.as_str() else {
        return;
    };
    let path = url.split_once("://").map_or(url, |(_, rest)| rest);
    let path = path.split(['?', '#']).next().unwrap_or("");
    let moving = path
        .split('/')
        .skip(1)
        .find(|part| MOVING.contains(part))
        .or_else(|| path.contains("/refs/heads/").then_some("refs/heads"));
    let Some(part) = moving else {
        return;
    };
    ctx.report(
        Draft::new(
            &INSTALL_CURL_MUTABLE_URL,
            part_of(ctx, node, &format!("/{part}")),
            format!("`{part}` moves: the script behind this URL changes without notice"),
        )
        .help("name a release tag or a commit, so that a digest can stay valid"),
    );
}

/// A piece of a one-line scalar, without its leading slash.
fn part_of<'d>(ctx: &Context<'d>, node: &'d Node, piece: &str) -> Place<'d> {
    let one_line = matches!(
        node.style,
        Style::Plain | Style::SingleQuoted | Style::DoubleQuoted
    );
    match ctx.doc.slice(node.span).find(piece).filter(|_| one_line) {
        Some(at) => {
            let start = node.span.start as usize + at + 1;
            Place::Part(node, Span::new(start, start + piece.len() - 1))
        }
        None => Place::Value(node),
    }
}

fn extract_bin<'d>(ctx: &Context<'d>, method: &'d Node) {
    let Some(node) = method.get("extract_bin") else {
        return;
    };
    let Some(path) = node.as_str() else {
        return;
    };
    let climbs = path.split(['/', '\\']).any(|part| part == "..");
    if climbs || is_absolute(path) {
        ctx.report(
            Draft::new(
                &INSTALL_EXTRACT_BIN_TRAVERSAL,
                node,
                format!("`{}` points outside the archive", short(path, 60)),
            )
            .help("give the path of the binary inside the archive, without `..` and without a leading slash"),
        );
    }
}

fn vendored<'d>(ctx: &Context<'d>, method: &'d Node) {
    let Some(node) = method.get("path") else {
        return;
    };
    let Some(path) = node.as_str().filter(|path| !path.is_empty()) else {
        return;
    };
    let target = normalize(&ctx.doc.dir().join(path));
    if is_absolute(path) || !ctx.workspace.contains(&target) {
        ctx.report(
            Draft::new(
                &INSTALL_VENDORED_TRAVERSAL,
                node,
                format!("`{}` lies outside the workspace", short(path, 60)),
            )
            .help("ship the binary inside the bundle, as in `./bin/my-tool`"),
        );
        return;
    }
    if !ctx.on(&INSTALL_VENDORED_MISSING) {
        return;
    }
    let (message, help) = match ctx.workspace.files.kind(&target) {
        Some(PathKind::File { executable: true }) => return,
        Some(PathKind::File { executable: false }) => (
            "is not executable",
            format!("run `chmod +x {}`", short(path, 60)),
        ),
        Some(PathKind::Directory) => (
            "is a directory",
            "name the binary itself, relative to this file".to_owned(),
        ),
        None => (
            "does not exist",
            "the path is read relative to the folder of this file".to_owned(),
        ),
    };
    ctx.report(
        Draft::new(
            &INSTALL_VENDORED_MISSING,
            node,
            format!("the vendored binary `{}` {message}", short(path, 60)),
        )
        .help(help),
    );
}

fn duplicate<'d>(ctx: &Context<'d>, method: &'d Node, first: &'d Node) {
    if method.entries().is_empty() {
        return;
    }
    let edits = ctx
        .root
        .get("install")
        .and_then(|list| edits::remove_item(ctx.doc, list, method));
    ctx.report(
        Draft::new(
            &INSTALL_DUPLICATE,
            method,
            "this way to install is listed twice",
        )
        .help(
            "remove one; hosts try them in order, and it fails the second time as it did the first",
        )
        .nearby(first.span, "first here")
        .fix_if(Safety::Safe, "Remove the second entry", edits),
    );
}

fn all_experimental<'d>(ctx: &Context<'d>, entry: &'d Entry, methods: &[Node]) {
    let experimental = |method: &Node| method.get("experimental").is_some_and(Node::is_true);
    if !methods.is_empty() && methods.iter().all(experimental) {
        ctx.report(
            Draft::new(
                &INSTALL_ALL_EXPERIMENTAL,
                entry,
                "every way to install is experimental, and hosts skip those",
            )
            .help("add a method that is not marked `experimental`"),
        );
    }
}

fn few_managers<'d>(ctx: &Context<'d>, entry: &'d Entry, methods: &[Node]) {
    let (mut managers, mut download, mut own) = (0_u16, false, 0);
    for method in methods {
        match method.str_at(&["method"]) {
            Some("download") => download = true,
            Some("vendored") => own += 1,
            Some(name) => {
                if let Some(i) = MANAGERS.iter().position(|known| *known == name) {
                    managers |= 1 << i;
                }
            }
            None => {}
        }
    }
    // A binary that ships with the bundle is in no package manager.
    let found = managers.count_ones();
    if methods.len() == own || (found >= 3 && download) {
        return;
    }
    let message = match (found >= 3, download) {
        (true, _) => {
            "there is no `download` for machines without these package managers".to_owned()
        }
        (false, true) => format!("only {found} package manager(s) are covered"),
        (false, false) => {
            format!("only {found} package manager(s) are covered, and there is no `download`")
        }
    };
    ctx.report(
        Draft::new(&INSTALL_FEW_MANAGERS, entry, message)
            .help("cover at least three package managers and a `download` as the last resort"),
    );
}

fn requires(ctx: &Context<'_>, methods: &[Node]) {
    let Some(requires) = ctx.root.get("requires") else {
        return;
    };
    for (arch, node) in requires.get("arch").into_iter().flat_map(Node::strings) {
        if matches!(arch, "x86" | "arm") {
            ctx.report(
                Draft::new(
                    &REQUIRES_ARCH_PROSE,
                    node,
                    format!("`{arch}` is in the schema, but not in the text of AIP-29"),
                )
                .help("a host that follows the text knows `x64` and `arm64` only"),
            );
        }
    }
    let Some(os) = requires.get("os") else {
        return;
    };
    let known = os
        .strings()
        .all(|(name, _)| OPERATING_SYSTEMS.contains(&name));
    if !known || methods.is_empty() {
        return;
    }
    for (name, node) in os.strings() {
        if !methods.iter().any(|method| served_by(method, name)) {
            ctx.report(
                Draft::new(
                    &INSTALL_OS_COVERAGE,
                    node,
                    format!("no way to install works on `{name}`"),
                )
                .help(format!(
                    "add a method for `{name}`, or drop it from `requires.os`"
                )),
            );
        }
    }
}
