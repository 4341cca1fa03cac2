//! How the binary gets onto the machine: `bin`, `install`, `requires`.

mod catalog;
mod digest;
mod places;

pub use catalog::*;
use places::{OPERATING_SYSTEMS, is_absolute, served_by};

use crate::lint::context::{Context, Draft, Place};
use crate::lint::edits;
use crate::lint::finding::Safety;
use crate::lint::registry::{Check, Family};
use crate::lint::rule::{Rule, Severity};
use crate::lint::shape::{self, Keyword, Violation};
use crate::lint::text::{clip, closest_of, one_of};
use crate::manifest::{Doctype, Entry, Node, PathKind, Span, Style, Value, normalize};

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
    claim: Some(claim),
};

/// Methods that name a package of a package manager.
const MANAGERS: [&str; 10] = [
    "brew", "apt", "dnf", "pacman", "choco", "scoop", "npm", "pip", "cargo", "go",
];

/// More than any real list; what comes after is still judged, but not pair by pair.
const MOST_PAIRS: usize = 100;

fn claim<'d>(ctx: &Context<'d>, violation: &Violation<'d>) -> bool {
    if !matches!(ctx.doctype, Doctype::Cli | Doctype::AgentCli) {
        return false;
    }
    let rule = violation.rule;
    if rule == &BIN_PATTERN {
        bad_bin(ctx, violation.node);
    } else if rule == &BIN_ARGS_STRINGS {
        bad_argument(ctx, violation.node);
    } else if rule == &INSTALL_EMPTY {
        ctx.report(
            Draft::new(rule, violation.node, "`install` lists no way to install")
                .help("list at least one method, best first, as in `- { method: brew, package: my-tool }`"),
        );
    } else if rule == &INSTALL_METHOD_UNKNOWN {
        unknown_method(ctx, violation);
    } else if rule == &INSTALL_REQUIRED_FIELD {
        missing_field(ctx, violation);
    } else if rule == &INSTALL_EXTRA_FIELD {
        extra_field(ctx, violation);
    } else if rule == &INSTALL_SHA256_FORMAT {
        bad_digest(ctx, violation.node);
    } else if rule == &REQUIRES_OS_ENUM {
        outside_enum(ctx, violation, &OS_ALIASES);
    } else if rule == &REQUIRES_ARCH_ENUM {
        outside_enum(ctx, violation, &ARCH_ALIASES);
    } else {
        return is_numeric_stand_in(ctx, violation);
    }
    true
}

fn bad_bin(ctx: &Context<'_>, node: &Node) {
    let Some(node) = ctx.root.get("bin").filter(|bin| std::ptr::eq(*bin, node)) else {
        return;
    };
    let bin = node.as_str().unwrap_or("");
    if bin.is_empty() {
        ctx.report(
            Draft::new(&BIN_PATTERN, node, "`bin` is empty")
                .help("write the name of the binary, as in `bin: my-tool`"),
        );
        return;
    }
    if !bin.contains(char::is_whitespace) {
        let bad = bin.chars().find(|c| !is_bin_character(*c)).unwrap_or(' ');
        ctx.report(
            Draft::new(
                &BIN_PATTERN,
                node,
                format!("`bin` may not contain `{}`", bad.escape_debug()),
            )
            .help("use letters, digits, `.`, `_`, `-` and `/` only"),
        );
        return;
    }
    let mut words = bin.split_whitespace();
    let first = words.next().unwrap_or("");
    let rest: Vec<&str> = words.collect();
    let help = if rest.is_empty() {
        format!("remove the white space: `{}`", clip(first, 40))
    } else {
        format!(
            "keep `{}` in `bin` and put {} into `bin_args`",
            clip(first, 40),
            clip(&format!("`{}`", rest.join("`, `")), 80)
        )
    };
    ctx.report(
        Draft::new(
            &BIN_SINGLE_TOKEN,
            node,
            "`bin` is more than one word; it is run as it stands, without a shell",
        )
        .help(help),
    );
}

fn is_bin_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || "._-/".contains(c)
}

fn bad_argument(ctx: &Context<'_>, node: &Node) {
    let list = ctx.root.get("bin_args").map_or(&[][..], Node::items);
    let Some(node) = list.iter().find(|item| std::ptr::eq(*item, node)) else {
        return;
    };
    let written = clip(ctx.doc.slice(node.span), 40);
    let draft = match &node.value {
        Value::Null => Draft::new(&BIN_ARGS_STRINGS, node, "this argument is empty")
            .help("remove the item, or write `\"\"` if an empty argument is meant"),
        Value::Map(_) => Draft::new(
            &BIN_ARGS_STRINGS,
            node,
            "this argument is a mapping, because of the colon in it",
        )
        .help("put quotes around the whole argument"),
        Value::Seq(_) => Draft::new(&BIN_ARGS_STRINGS, node, "this argument is a list")
            .help("write one argument per item"),
        _ => Draft::new(
            &BIN_ARGS_STRINGS,
            node,
            format!(
                "this argument is a {}, not a string: {written}",
                node.type_name()
            ),
        )
        .help(format!("quote it: \"{written}\"")),
    };
    let edits = match node.value {
        Value::Bool(_) | Value::Int(_) | Value::Float(_) => edits::quote(ctx.doc, node),
        _ => None,
    };
    ctx.report(draft.fix_if(Safety::Safe, "Quote the argument", edits));
}

/// What the method of another tool or spec is called here.
const METHOD_ALIASES: [(&str, &str); 17] = [
    ("homebrew", "brew"),
    ("apt-get", "apt"),
    ("deb", "apt"),
    ("yum", "dnf"),
    ("rpm", "dnf"),
    ("chocolatey", "choco"),
    ("winget", "choco"),
    ("npx", "npm"),
    ("pnpm", "npm"),
    ("yarn", "npm"),
    ("pip3", "pip"),
    ("pipx", "pip"),
    ("uv", "pip"),
    ("script", "curl"),
    ("wget", "curl"),
    ("binary", "download"),
    ("bundled", "vendored"),
];

fn unknown_method<'d>(ctx: &Context<'d>, violation: &Violation<'d>) {
    let node = violation.node;
    let found = clip(ctx.doc.slice(node.span), 40);
    let owner = methods(ctx).iter().find(|method| {
        method
            .get("method")
            .is_some_and(|value| std::ptr::eq(value, node))
    });
    let experimental = owner
        .and_then(|method| method.entry("experimental"))
        .filter(|entry| entry.value.is_true());
    let meant = node.as_str().and_then(|word| {
        let alias = METHOD_ALIASES
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(word));
        match alias {
            Some((_, method)) => Some(*method),
            None => closest_of(word, violation.expected.iter().map(String::as_str)),
        }
    });
    let allowed = format!("allowed: {}", one_of(&violation.expected));
    let help = match meant {
        Some(meant) => format!("did you mean `{meant}`? ({allowed})"),
        None => allowed,
    };
    let draft = Draft::new(
        &INSTALL_METHOD_UNKNOWN,
        node,
        format!("there is no install method `{found}`"),
    );
    let draft = match experimental {
        Some(entry) => draft
            .severity(Severity::Warning)
            .nearby(entry.key_span, "marked experimental: hosts skip it")
            .help(help),
        None => draft.help(help),
    };
    ctx.report(draft);
}

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
                clip(&entry.key, 60)
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

fn bad_digest<'d>(ctx: &Context<'d>, node: &'d Node) {
    let text = node.as_str().unwrap_or("");
    if let Some(why) = digest::stand_in(text) {
        return placeholder(ctx, node, why);
    }
    let draft = |message: String| Draft::new(&INSTALL_SHA256_FORMAT, node, message);
    if let Some(hex) = digest::mended(text) {
        let edits = edits::set_scalar(ctx.doc, node, &hex);
        return ctx.report(
            draft("the digest is not written as 64 lower-case hex digits".to_owned())
                .help(format!("write `{hex}`"))
                .fix_if(Safety::Safe, "Write the digest in lower-case hex", edits),
        );
    }
    let length = text.chars().count();
    let message = if length == 64 {
        "the digest has characters other than 0-9 and a-f".to_owned()
    } else {
        format!("the digest has {length} characters; SHA-256 has 64 hex digits")
    };
    ctx.report(draft(message).help("compute it anew: `sha256sum FILE`"));
}

fn placeholder<'d>(ctx: &Context<'d>, node: &'d Node, why: &str) {
    ctx.report(
        Draft::new(
            &INSTALL_SHA256_PLACEHOLDER,
            node,
            format!("this digest {why}"),
        )
        .help("download the file, check it, and write what `sha256sum FILE` prints"),
    );
}

/// A row of zeros without quotes is a number to YAML; what is wrong is the row of zeros.
fn is_numeric_stand_in<'d>(ctx: &Context<'d>, violation: &Violation<'d>) -> bool {
    let number = matches!(violation.node.value, Value::Int(_) | Value::Float(_));
    if violation.keyword != Keyword::Type || !number {
        return false;
    }
    let is_digest = methods(ctx).iter().any(|method| {
        method
            .get("verify_sha256")
            .is_some_and(|node| std::ptr::eq(node, violation.node))
    });
    if !is_digest {
        return false;
    }
    match digest::stand_in(ctx.doc.slice(violation.node.span)) {
        Some(why) => {
            placeholder(ctx, violation.node, why);
            true
        }
        None => false,
    }
}

const OS_ALIASES: [(&str, &str); 8] = [
    ("macos", "darwin"),
    ("osx", "darwin"),
    ("mac", "darwin"),
    ("win32", "windows"),
    ("win64", "windows"),
    ("win", "windows"),
    ("ubuntu", "linux"),
    ("debian", "linux"),
];

const ARCH_ALIASES: [(&str, &str); 10] = [
    ("x86_64", "x64"),
    ("x86-64", "x64"),
    ("amd64", "x64"),
    ("aarch64", "arm64"),
    ("armv8", "arm64"),
    ("i386", "x86"),
    ("i686", "x86"),
    ("ia32", "x86"),
    ("armv7", "arm"),
    ("armhf", "arm"),
];

fn outside_enum<'d>(
    ctx: &Context<'d>,
    violation: &Violation<'d>,
    aliases: &[(&str, &'static str)],
) {
    let node = violation.node;
    let found = node.as_str().unwrap_or("");
    let meant = aliases
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(found))
        .map(|(_, value)| (*value).to_owned())
        .or_else(|| {
            let known = violation.expected.iter().map(String::as_str);
            closest_of(found, known).map(str::to_owned)
        });
    let Some(meant) = meant else {
        return ctx.report(shape::draft(ctx, violation));
    };
    let what = if violation.rule == &REQUIRES_OS_ENUM {
        "operating system"
    } else {
        "architecture"
    };
    let edits = edits::set_scalar(ctx.doc, node, &meant);
    ctx.report(
        Draft::new(
            violation.rule,
            node,
            format!("`{}` is not a name of an {what} here", clip(found, 40)),
        )
        .help(format!(
            "write `{meant}` (allowed: {})",
            one_of(&violation.expected)
        ))
        .fix_if(
            Safety::Unsafe,
            format!("Replace `{}` by `{meant}`", clip(found, 40)),
            edits,
        ),
    );
}

fn methods<'d>(ctx: &Context<'d>) -> &'d [Node] {
    ctx.root.get("install").map_or(&[], Node::items)
}

fn check(ctx: &Context<'_>) {
    bin(ctx);
    let methods = methods(ctx);
    for (i, method) in methods.iter().enumerate() {
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
        if i < MOST_PAIRS {
            duplicate(ctx, methods, i);
        }
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
    if ctx.is(Doctype::Cli) && bin.contains('/') && bin.chars().all(is_bin_character) {
        let last = bin.rsplit('/').find(|part| !part.is_empty());
        ctx.report(
            Draft::new(
                &BIN_NOT_PATH,
                node,
                format!("`bin` is a path, `{}`, not a name on $PATH", clip(bin, 60)),
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
                        clip(text, 60)
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
                format!("`{}` points outside the archive", clip(path, 60)),
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
                format!("`{}` lies outside the workspace", clip(path, 60)),
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
            format!("run `chmod +x {}`", clip(path, 60)),
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
            format!("the vendored binary `{}` {message}", clip(path, 60)),
        )
        .help(help),
    );
}

fn duplicate<'d>(ctx: &Context<'d>, methods: &'d [Node], at: usize) {
    let Some(method) = methods.get(at).filter(|m| !m.entries().is_empty()) else {
        return;
    };
    let earlier = methods.get(..at).unwrap_or(&[]);
    let Some(first) = earlier.iter().find(|other| shape::same(other, method)) else {
        return;
    };
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
