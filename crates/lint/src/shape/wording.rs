//! General sentences for schema violations; families word their own rules better.

use super::evaluate::{Keyword, Violation};
use crate::context::{Context, Draft};
use agentproto_manifest::{Entry, Node};
use agentproto_text::{closest_of, one_of, short};

/// A finding for a violation whose rule has no words of its own.
pub fn draft<'d>(ctx: &Context<'d>, violation: &Violation<'d>) -> Draft<'d> {
    let what = subject(ctx, violation.node);
    let expected = &violation.expected;
    let bound = expected.first().map_or("", String::as_str);
    let (message, help) = match violation.keyword {
        Keyword::Type => (
            format!(
                "{what} must be {}, not {}",
                articles(expected),
                article(violation.node.type_name())
            ),
            type_help(ctx, violation.node, expected),
        ),
        Keyword::Enum | Keyword::Const => enumeration(ctx, violation.node, &what, expected),
        Keyword::Pattern => (format!("{what} does not match `{bound}`"), None),
        Keyword::Format => (
            format!("{what} is not an absolute URI"),
            Some("write the scheme too, as in `https://example.com/path`".to_owned()),
        ),
        Keyword::MinLength => (format!("{what} is shorter than {bound} characters"), None),
        Keyword::MaxLength => (format!("{what} is longer than {bound} characters"), None),
        Keyword::Minimum => (
            format!("{what} is below the least allowed value {bound}"),
            None,
        ),
        Keyword::Maximum => (
            format!("{what} is above the greatest allowed value {bound}"),
            None,
        ),
        Keyword::MinItems => (format!("{what} needs at least {}", items(bound)), None),
        Keyword::MaxItems => (format!("{what} may have at most {}", items(bound)), None),
        Keyword::UniqueItems => ("this item stands twice in the list".to_owned(), None),
        Keyword::Required => {
            let name = violation.missing.as_deref().unwrap_or("");
            let help =
                (!expected.is_empty()).then(|| format!("`{name}` is one of {}", one_of(expected)));
            (
                format!(
                    "{} lacks the required field `{name}`",
                    holder(ctx, violation.node)
                ),
                help,
            )
        }
        Keyword::AdditionalProperties => unknown(ctx, violation, expected),
        Keyword::PropertyNames => (
            format!(
                "the key `{}` does not match `{bound}`",
                key(violation.entry)
            ),
            None,
        ),
        Keyword::OneOf | Keyword::AnyOf => (
            format!("{what} must be exactly one of {}", one_of(expected)),
            None,
        ),
        Keyword::Not => (
            format!("`{}` is not allowed here", key(violation.entry)),
            None,
        ),
    };
    let mut draft = Draft::new(violation.rule, violation.place.clone(), message);
    if violation.keyword == Keyword::UniqueItems {
        draft = draft.nearby(violation.node.span, "first here");
    }
    match help {
        Some(help) => draft.help(help),
        None => draft,
    }
}

fn items(bound: &str) -> String {
    match bound {
        "1" => "one item".to_owned(),
        _ => format!("{bound} items"),
    }
}

fn key(entry: Option<&Entry>) -> &str {
    entry.map_or("", |e| &e.key)
}

/// "`continuation.default`", "`install[2].url`", or "the frontmatter".
pub fn subject(ctx: &Context<'_>, node: &Node) -> String {
    match ctx.doc.pointer_of(node).as_deref() {
        None | Some("") => "the frontmatter".to_owned(),
        Some(pointer) => format!("`{}`", dotted(pointer)),
    }
}

fn holder(ctx: &Context<'_>, node: &Node) -> String {
    match ctx.doc.pointer_of(node).as_deref() {
        None | Some("") => ctx.doctype.file_name().to_owned(),
        Some(pointer) => format!("`{}`", dotted(pointer)),
    }
}

/// `/install/2/url` → `install[2].url`.
pub fn dotted(pointer: &str) -> String {
    let mut out = String::new();
    for token in pointer.split('/').skip(1) {
        let token = token.replace("~1", "/").replace("~0", "~");
        if !token.is_empty() && token.bytes().all(|b| b.is_ascii_digit()) {
            out.push_str(&format!("[{token}]"));
        } else {
            if !out.is_empty() {
                out.push('.');
            }
            out.push_str(&token);
        }
    }
    out
}

fn article(word: &str) -> String {
    match word {
        "null" => "empty".to_owned(),
        "array" | "object" | "integer" => format!("an {}", plain(word)),
        _ => format!("a {}", plain(word)),
    }
    .replace("an list", "a list")
    .replace("an mapping", "a mapping")
}

/// JSON's words in YAML's terms.
fn plain(word: &str) -> &str {
    match word {
        "array" => "list",
        "object" => "mapping",
        other => other,
    }
}

fn articles(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|w| article(w)).collect();
    match words.split_last() {
        None => String::new(),
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
    }
}

fn type_help(ctx: &Context<'_>, node: &Node, expected: &[String]) -> Option<String> {
    let wants_text = expected.iter().any(|e| e == "string");
    let is_scalar = !node.is_map() && !node.is_seq() && !node.is_null();
    (wants_text && is_scalar)
        .then(|| format!("quote it: \"{}\"", short(ctx.doc.slice(node.span), 40)))
}

fn enumeration(
    ctx: &Context<'_>,
    node: &Node,
    what: &str,
    expected: &[String],
) -> (String, Option<String>) {
    let found = short(ctx.doc.slice(node.span), 40);
    let message = format!("{what} is `{found}`, which is not one of the allowed values");
    let allowed = format!("allowed: {}", one_of(expected));
    let meant = node
        .as_str()
        .and_then(|word| closest_of(word, expected.iter().map(String::as_str)));
    let help = match meant {
        Some(meant) => format!("did you mean `{meant}`? ({allowed})"),
        None => allowed,
    };
    (message, Some(help))
}

fn unknown(
    ctx: &Context<'_>,
    violation: &Violation<'_>,
    expected: &[String],
) -> (String, Option<String>) {
    let name = key(violation.entry);
    let place = match ctx.doc.pointer_of(violation.node).as_deref() {
        None | Some("") => format!("a field of {}", ctx.doctype.file_name()),
        Some(pointer) => format!("a field of `{}`", dotted(pointer)),
    };
    let message = format!("`{name}` is not {place}");
    let help = match closest_of(name, expected.iter().map(String::as_str)) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None if expected.len() <= 12 && !expected.is_empty() => {
            format!("known here: {}", one_of(expected))
        }
        None => "remove it, or keep private data under a namespaced key of `metadata`".to_owned(),
    };
    (message, Some(help))
}
