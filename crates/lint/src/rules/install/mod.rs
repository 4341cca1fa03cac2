//! Installation of the binary: `bin`, `install` and `requires`.

mod bin_args_strings;
mod bin_characters;
mod bin_not_path;
mod digest;
mod install_all_experimental;
mod install_curl_mutable_url;
mod install_duplicate;
mod install_empty;
mod install_extract_bin_traversal;
mod install_few_managers;
mod install_method_unknown;
mod install_no_sha256;
mod install_npm_unpinned;
mod install_sha256_format;
mod install_sha256_placeholder;
mod install_url_https;
mod install_url_uri;
mod install_vendored;
mod method_fields;
mod platforms;
mod requires;
mod requires_enum;

use crate::context::RuleContext;
use crate::registry::{Family, FamilyCheck};
use crate::rule::Source;
use crate::shape::{self, Keyword, SchemaViolation};
use agentproto_manifest::{Doctype, Node, Value};
use agentproto_text::truncate;

use bin_args_strings::BIN_ARGS_STRINGS;
use bin_characters::{BIN_PATTERN, BIN_SINGLE_TOKEN};
pub use bin_not_path::is_valid_bin;
use bin_not_path::{BIN_NOT_PATH, bin};
use install_all_experimental::{INSTALL_ALL_EXPERIMENTAL, all_experimental};
use install_curl_mutable_url::{INSTALL_CURL_MUTABLE_URL, mutable_url};
use install_duplicate::{INSTALL_DUPLICATE, duplicate};
use install_empty::INSTALL_EMPTY;
use install_extract_bin_traversal::{INSTALL_EXTRACT_BIN_TRAVERSAL, extract_bin};
use install_few_managers::{INSTALL_FEW_MANAGERS, few_managers};
pub use install_method_unknown::INSTALL_METHOD_UNKNOWN;
use install_no_sha256::{INSTALL_CURL_NO_SHA256, INSTALL_DOWNLOAD_NO_SHA256, check_fetched_file};
use install_npm_unpinned::{INSTALL_NPM_UNPINNED, unpinned};
use install_sha256_format::INSTALL_SHA256_FORMAT;
use install_sha256_placeholder::{INSTALL_SHA256_PLACEHOLDER, placeholder};
use install_url_https::{INSTALL_URL_HTTPS, plain_http};
use install_url_uri::INSTALL_URL_URI;
use install_vendored::{INSTALL_VENDORED_MISSING, INSTALL_VENDORED_TRAVERSAL, vendored};
use method_fields::{INSTALL_EXTRA_FIELD, INSTALL_REQUIRED_FIELD};
use requires::{INSTALL_OS_COVERAGE, REQUIRES_ARCH_PROSE, requires};
use requires_enum::{REQUIRES_ARCH_ENUM, REQUIRES_OS_ENUM};

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
    checks: &[FamilyCheck {
        doctypes: &[Doctype::Cli, Doctype::AgentCli],
        run: check,
    }],
};

const CLI_AND_AGENT_CLI: &[Doctype] = &[Doctype::Cli, Doctype::AgentCli];

const METHODS: Source = Source {
    spec: "AIP-29",
    section: "Install methods",
};

const REQUIRED: Source = Source {
    spec: "AIP-29",
    section: "Required fields",
};

const OPTIONAL: Source = Source {
    spec: "AIP-29",
    section: "Optional fields",
};

const SECURITY: Source = Source {
    spec: "AIP-29",
    section: "Security considerations",
};

/// A URL as messages show it: without scheme, credentials and query, which may contain secrets.
fn without_query(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let path = rest.split(['?', '#']).next().unwrap_or(rest);
    let host_end = path.find('/').unwrap_or(path.len());
    let start = path[..host_end].rfind('@').map_or(0, |at| at + 1);
    truncate(&path[start..], 80)
}

fn methods<'d>(ctx: &RuleContext<'d>) -> &'d [Node] {
    ctx.root.get("install").map_or(&[], Node::items)
}

fn check(ctx: &RuleContext<'_>) {
    bin(ctx);
    let methods = methods(ctx);
    for method in methods {
        match method.str_at(&["method"]) {
            Some("curl") => {
                check_fetched_file(ctx, method, &INSTALL_CURL_NO_SHA256);
                mutable_url(ctx, method);
            }
            Some("download") => {
                check_fetched_file(ctx, method, &INSTALL_DOWNLOAD_NO_SHA256);
                extract_bin(ctx, method);
            }
            Some("vendored") => vendored(ctx, method),
            _ => {}
        }
    }
    for (method, first) in shape::duplicates(methods) {
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

pub fn report_numeric_placeholder_digest<'d>(
    ctx: &RuleContext<'d>,
    v: &SchemaViolation<'d>,
) -> bool {
    matches!(ctx.doctype, Doctype::Cli | Doctype::AgentCli) && report_numeric_placeholder(ctx, v)
}

fn is_bin_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || "._-/".contains(c)
}

/// Reports an unquoted placeholder digest. YAML reads a row of zeros as a number, but the mistake
/// is the placeholder and not the type. Returns true if it reported one.
fn report_numeric_placeholder<'d>(ctx: &RuleContext<'d>, violation: &SchemaViolation<'d>) -> bool {
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
    match digest::placeholder_reason(ctx.doc.slice(violation.node.span)) {
        Some(why) => {
            placeholder(ctx, violation.node, why);
            true
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::without_query;

    #[test]
    fn urls_in_messages_contain_no_secrets() {
        for (url, shown) in [
            ("https://get.example/x.sh", "get.example/x.sh"),
            (
                "https://user:pass@get.example/x@1?sig=abc#y",
                "get.example/x@1",
            ),
            ("get.example", "get.example"),
            ("ftp://é@é", "é"),
            ("", ""),
        ] {
            assert_eq!(without_query(url), shown);
        }
    }
}
