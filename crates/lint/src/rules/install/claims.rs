//! Schema violations of `bin`, `bin_args`, `install` and `requires`, in plain words.

use super::{catalog::*, digest};
use crate::context::{Context, Draft};
use crate::edits;
use crate::finding::Safety;
use crate::rule::Severity;
use crate::shape::{self, Keyword, Violation};
use agentproto_manifest::{Doctype, Node, Value};
use agentproto_text::{closest_of, one_of, short};

pub fn no_method<'d>(ctx: &Context<'d>, v: &Violation<'d>) {
    ctx.report(
        Draft::new(v.rule, v.node, "`install` lists no way to install").help(
            "list at least one method, best first, as in `- { method: brew, package: my-tool }`",
        ),
    );
}

pub fn numeric_digest<'d>(ctx: &Context<'d>, v: &Violation<'d>) -> bool {
    matches!(ctx.doctype, Doctype::Cli | Doctype::AgentCli) && is_numeric_stand_in(ctx, v)
}

pub fn bad_bin(ctx: &Context<'_>, node: &Node) {
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
        format!("remove the white space: `{}`", short(first, 40))
    } else {
        format!(
            "keep `{}` in `bin` and put {} into `bin_args`",
            short(first, 40),
            short(&format!("`{}`", rest.join("`, `")), 80)
        )
    };
    let message = if rest.is_empty() {
        "`bin` has white space around it"
    } else {
        "`bin` is more than one word; it is run as it stands, without a shell"
    };
    ctx.report(Draft::new(&BIN_SINGLE_TOKEN, node, message).help(help));
}

/// Whether `bin` can be compared with other fields; one that cannot is reported as such.
pub fn is_bin(text: &str) -> bool {
    !text.is_empty() && text.chars().all(is_bin_character)
}

pub fn is_bin_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || "._-/".contains(c)
}

pub fn bad_argument(ctx: &Context<'_>, node: &Node) {
    let list = ctx.root.get("bin_args").map_or(&[][..], Node::items);
    let Some(node) = list.iter().find(|item| std::ptr::eq(*item, node)) else {
        return;
    };
    let written = short(ctx.doc.slice(node.span), 40);
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
        _ => {
            let kind = match node.value {
                Value::Bool(_) => "boolean",
                _ => "number",
            };
            let message = format!("YAML reads the argument {written} as a {kind}, not as text");
            Draft::new(&BIN_ARGS_STRINGS, node, message).help(format!("quote it: \"{written}\""))
        }
    };
    let edits = match node.value {
        Value::Bool(_) | Value::Int(_) | Value::Float(_) => edits::quote(ctx.doc, node),
        _ => None,
    };
    ctx.report(draft.fix_if(Safety::Safe, "Quote the argument", edits));
}

/// What the method of another tool or spec is called here.
pub const METHOD_ALIASES: [(&str, &str); 17] = [
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

pub fn unknown_method<'d>(ctx: &Context<'d>, violation: &Violation<'d>) {
    let node = violation.node;
    let found = short(ctx.doc.slice(node.span), 40);
    let experimental = ctx
        .doc
        .parent_of(node)
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

pub fn missing_field<'d>(ctx: &Context<'d>, violation: &Violation<'d>) {
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

pub fn extra_field<'d>(ctx: &Context<'d>, violation: &Violation<'d>) {
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
pub fn meant_key<'k>(key: &str, known: &[&'k str]) -> Option<&'k str> {
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

pub fn bad_url<'d>(ctx: &Context<'d>, node: &'d Node) {
    let url = node.as_str().unwrap_or("");
    let (message, help) = if url.is_empty() {
        ("the URL is empty", "give the absolute URL to fetch")
    } else if url.contains(char::is_whitespace) {
        ("the URL has white space in it", "write a space as `%20`")
    } else if !url.contains("://") {
        (
            "the URL does not say by which protocol",
            "write the scheme too, as in `https://example.com/install.sh`",
        )
    } else {
        (
            "this is not a valid URL",
            "encode characters that a URL may not have, as in `%7B` for `{`",
        )
    };
    ctx.report(Draft::new(&INSTALL_URL_URI, node, message).help(help));
}

pub fn bad_digest<'d>(ctx: &Context<'d>, node: &'d Node) {
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

pub fn placeholder<'d>(ctx: &Context<'d>, node: &'d Node, why: &str) {
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
pub fn is_numeric_stand_in<'d>(ctx: &Context<'d>, violation: &Violation<'d>) -> bool {
    let number = matches!(violation.node.value, Value::Int(_) | Value::Float(_));
    if violation.keyword != Keyword::Type || !number {
        return false;
    }
    let is_digest = ctx
        .doc
        .parent_of(violation.node)
        .and_then(|method| method.get("verify_sha256"))
        .is_some_and(|node| std::ptr::eq(node, violation.node));
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

pub const OS_ALIASES: [(&str, &str); 8] = [
    ("macos", "darwin"),
    ("osx", "darwin"),
    ("mac", "darwin"),
    ("win32", "windows"),
    ("win64", "windows"),
    ("win", "windows"),
    ("ubuntu", "linux"),
    ("debian", "linux"),
];

pub const ARCH_ALIASES: [(&str, &str); 10] = [
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

pub fn outside_enum<'d>(
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
            format!("`{}` is not a name of an {what} here", short(found, 40)),
        )
        .help(format!(
            "write `{meant}` (allowed: {})",
            one_of(&violation.expected)
        ))
        .fix_if(
            Safety::Unsafe,
            format!("Replace `{}` by `{meant}`", short(found, 40)),
            edits,
        ),
    );
}
