//! Messages for schema violations whose rule has no message of its own.

use super::compile::{Shape, ShapeId, Shapes, shapes_for, type_bit};
use super::evaluate::{Keyword, SchemaViolation, constant_text};
use crate::context::{FindingDraft, RuleContext};
use agentproto_manifest::{Doctype, Entry, Node};
use agentproto_text::{closest_of, lower_first, one_of, truncate};

/// The finding for a violation, with the general message of its keyword.
pub fn draft<'d>(ctx: &RuleContext<'d>, violation: &SchemaViolation<'d>) -> FindingDraft<'d> {
    let what = subject(ctx, violation.node);
    let expected = &violation.expected;
    let bound = expected.first().map_or("", String::as_str);
    let (message, help) = match violation.keyword {
        Keyword::Type => (
            format!(
                "{what} must be {}, found {}",
                type_list(expected),
                type_with_article(violation.node.type_name())
            ),
            type_help(ctx, violation.node, expected),
        ),
        Keyword::Enum | Keyword::Const => enumeration(ctx, violation.node, &what, expected),
        Keyword::Pattern => (
            format!(
                "invalid value `{}` for {what}",
                written(ctx, violation.node)
            ),
            description_help(violation, &what)
                .or_else(|| Some(format!("it must match the pattern `{bound}`"))),
        ),
        Keyword::Format => (
            format!("{what} is not an absolute URI"),
            Some("include the scheme, for example `https://example.com/path`".to_owned()),
        ),
        Keyword::MinLength if bound == "1" => (format!("{what} must not be empty"), None),
        Keyword::MinLength => (
            format!(
                "{what} must have at least {bound} characters, found {}",
                characters(violation.node)
            ),
            None,
        ),
        Keyword::MaxLength => (
            format!(
                "{what} must have at most {bound} characters, found {}",
                characters(violation.node)
            ),
            None,
        ),
        Keyword::Minimum => (
            format!(
                "{what} must be at least {bound}, found {}",
                written(ctx, violation.node)
            ),
            None,
        ),
        Keyword::Maximum => (
            format!(
                "{what} must be at most {bound}, found {}",
                written(ctx, violation.node)
            ),
            None,
        ),
        Keyword::MinItems if bound == "1" => (format!("{what} must have at least one item"), None),
        Keyword::MinItems => (
            format!(
                "{what} must have at least {}, found {}",
                items(bound),
                violation.node.items().len()
            ),
            None,
        ),
        Keyword::MaxItems => (
            format!(
                "{what} must have at most {}, found {}",
                items(bound),
                violation.node.items().len()
            ),
            None,
        ),
        Keyword::UniqueItems => {
            let list = ctx.doc.parent_of(violation.node);
            let item = written(ctx, violation.node);
            let message = match list {
                Some(list) => format!("duplicate item `{item}` in {}", subject(ctx, list)),
                None => format!("duplicate item `{item}`"),
            };
            (message, Some("remove one of them".to_owned()))
        }
        Keyword::Required => {
            let name = violation.missing.as_deref().unwrap_or("");
            let help = match (expected.as_slice(), violation.description) {
                ([], Some(text)) => format!("add `{name}`: {}", as_clause(text)),
                ([], None) => format!("add `{name}`"),
                _ => format!("set `{name}` to {}", one_of(expected)),
            };
            (
                format!(
                    "missing required field `{name}` in {}",
                    container(ctx, violation.node)
                ),
                Some(help),
            )
        }
        Keyword::AdditionalProperties => unknown(ctx, violation, expected),
        Keyword::PropertyNames => (
            format!(
                "the key `{}` does not match the pattern `{bound}`",
                key(violation.entry)
            ),
            None,
        ),
        Keyword::OneOf | Keyword::AnyOf => (alternatives(violation, &what), None),
        Keyword::Not => (
            format!("`{}` is not allowed here", key(violation.entry)),
            None,
        ),
    };
    let mut draft = FindingDraft::new(violation.rule, violation.location.clone(), message);
    if violation.keyword == Keyword::UniqueItems {
        draft = draft.nearby(violation.node.span, "first here");
    }
    let help = help
        .or_else(|| action_help(violation))
        .or_else(|| description_help(violation, &what));
    match help {
        Some(help) => draft.help(help),
        None => draft,
    }
}

/// Help that says what to write, followed by the description of the field: "write a string: what
/// the tool does".
fn action_help(violation: &SchemaViolation<'_>) -> Option<String> {
    let action = match violation.keyword {
        Keyword::Type => Some(format!("write {}", type_list(&violation.expected))),
        _ => bound_help(violation),
    };
    match (action?, violation.description) {
        // Such a description lists the accepted values.
        (_, Some(text)) if text.starts_with('`') => None,
        (action, Some(text)) => Some(format!("{action}: {}", as_clause(text))),
        // The message already names the type.
        (_, None) if violation.keyword == Keyword::Type => None,
        (action, None) => Some(action),
    }
}

/// Help from the description of the field in the schema.
fn description_help(violation: &SchemaViolation<'_>, what: &str) -> Option<String> {
    let text = as_clause(violation.description?);
    // Such a description lists the accepted values.
    Some(if text.starts_with('`') {
        format!("use {text}")
    } else {
        format!("{what}: {text}")
    })
}

/// A description as a part of a sentence: in lower case and without the final period.
fn as_clause(text: &str) -> String {
    lower_first(text.trim_end_matches('.'))
}

/// Help for a value that is out of range.
fn bound_help(violation: &SchemaViolation<'_>) -> Option<String> {
    let bound = violation.expected.first()?;
    let opposite = violation.expected.get(1);
    Some(match (violation.keyword, opposite) {
        (Keyword::Minimum, Some(most)) => format!("use a value from {bound} to {most}"),
        (Keyword::Maximum, Some(least)) => format!("use a value from {least} to {bound}"),
        (Keyword::Minimum, None) => format!("use {bound} or more"),
        (Keyword::Maximum, None) => format!("use {bound} or less"),
        (Keyword::MinLength, _) if bound == "1" => "write a text, or remove the field".to_owned(),
        (Keyword::MinLength, _) => format!("write at least {bound} characters"),
        (Keyword::MaxLength, _) => format!("shorten it to {bound} characters"),
        (Keyword::MinItems, _) => format!("add items until there are at least {bound}"),
        (Keyword::MaxItems, _) => format!("remove items until there are at most {bound}"),
        _ => return None,
    })
}

/// The message for a value that fits no arm of a union, or more than one.
fn alternatives(violation: &SchemaViolation<'_>, what: &str) -> String {
    let types: Vec<String> = violation
        .expected
        .iter()
        .filter(|word| type_bit(word) != 0)
        .cloned()
        .collect();
    if !types.is_empty() {
        return format!(
            "{what} must be {}, found {}",
            type_list(&types),
            type_with_article(violation.node.type_name())
        );
    }
    let how_many = match violation.keyword {
        Keyword::AnyOf => "at least",
        _ => "exactly",
    };
    format!(
        "{what} must have {how_many} one of {}",
        one_of(&violation.expected)
    )
}

/// Number of characters of a text.
fn characters(node: &Node) -> usize {
    node.as_str().map_or(0, |text| text.chars().count())
}

/// The value as it is written in the file, shortened.
fn written(ctx: &RuleContext<'_>, node: &Node) -> String {
    truncate(ctx.doc.slice(node.span), 40)
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

/// How messages refer to a node: "`continuation.default`", "`install[2].url`" or "the frontmatter".
pub fn subject(ctx: &RuleContext<'_>, node: &Node) -> String {
    match ctx.doc.pointer_of(node).as_deref() {
        None | Some("") => "the frontmatter".to_owned(),
        Some(pointer) => format!("`{}`", dotted(pointer)),
    }
}

/// How messages refer to a mapping: its path, or the file name for the frontmatter.
fn container(ctx: &RuleContext<'_>, node: &Node) -> String {
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

/// A type of JSON Schema in plain words, with its article: `array` → `a list`.
pub fn type_with_article(word: &str) -> String {
    match word {
        "null" => "null".to_owned(),
        "array" | "object" | "integer" => format!("an {}", plain(word)),
        _ => format!("a {}", plain(word)),
    }
    .replace("an list", "a list")
    .replace("an mapping", "a mapping")
}

/// The YAML term for a JSON type.
fn plain(word: &str) -> &str {
    match word {
        "array" => "list",
        "object" => "mapping",
        other => other,
    }
}

fn type_list(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|w| type_with_article(w)).collect();
    match words.split_last() {
        None => String::new(),
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
    }
}

fn type_help(ctx: &RuleContext<'_>, node: &Node, expected: &[String]) -> Option<String> {
    let wants = |name: &str| expected.iter().any(|e| e == name);
    let is_scalar = !node.is_map() && !node.is_seq() && !node.is_null();
    let number = || {
        node.as_str()
            .and_then(|text| text.trim().parse::<i64>().ok())
    };
    if wants("string") && is_scalar {
        Some(format!("quote it: \"{}\"", written(ctx, node)))
    } else if expected == ["boolean"] {
        Some("write `true` or `false`".to_owned())
    } else if let Some(number) = number().filter(|_| wants("integer") || wants("number")) {
        Some(format!("write `{number}`, without quotes"))
    } else if expected == ["array"] && is_scalar {
        Some(list_help(ctx, node))
    } else {
        None
    }
}

/// Help for a single value that must be a list. The example is valid: an item of the right type,
/// and one of the accepted values.
fn list_help(ctx: &RuleContext<'_>, node: &Node) -> String {
    let found = written(ctx, node);
    let shapes = shapes_for(ctx.doctype);
    let pointer = ctx.doc.pointer_of(node).unwrap_or_default();
    let list = shape_at(shapes, shapes.root, pointer.split('/').skip(1));
    let takes_arguments = pointer
        .rsplit('/')
        .next()
        .is_some_and(|name| name.contains("arg"));
    if let Some(help) = arguments_help(node).filter(|_| takes_arguments) {
        return help;
    }
    let Some(item) = list.and_then(|list| shapes.get(list.items?)) else {
        return format!("write a list: `[{found}]`");
    };
    let accepted: Vec<String> = item.allowed.iter().map(constant_text).collect();
    let is_mapping = item.types == type_bit("object") || !item.one_of.is_empty();
    match (&item.discriminator, accepted.first()) {
        (Some(key), _) => {
            format!("write a list of mappings, each with `{key}`: `[{{ {key}: … }}]`")
        }
        _ if is_mapping => "write a list of mappings".to_owned(),
        (None, Some(first)) if !accepted.contains(&found) => {
            let lower = found.to_lowercase();
            let same = accepted.iter().find(|value| **value == lower);
            let meant = same.map_or_else(
                || closest_of(&found, accepted.iter().map(String::as_str)),
                |value| Some(value.as_str()),
            );
            let example = meant.unwrap_or(first);
            format!(
                "write a list, for example `[{example}]` (expected {})",
                one_of(&accepted)
            )
        }
        _ => format!("write a list: `[{found}]`"),
    }
}

/// Help for a text of several words where a list of arguments is expected: each word becomes an
/// item. Without this, the whole text would be one argument.
fn arguments_help(node: &Node) -> Option<String> {
    let text = node.as_str()?;
    let words: Vec<&str> = text.split_whitespace().collect();
    if words.len() < 2 {
        return None;
    }
    let is_simple = text.len() <= 60 && !text.contains(['"', '\'', '\\', '`']);
    if !is_simple {
        return Some("write a list with one item per argument".to_owned());
    }
    let items: Vec<String> = words.into_iter().map(flow_item).collect();
    let items = items.join(", ");
    Some(format!("write one item per argument: `[{items}]`"))
}

/// A word as an item of a YAML list in brackets, with quotes unless it is certainly a string.
fn flow_item(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=+".contains(c);
    let starts = word.trim_start_matches('-').chars().next();
    let is_text = starts.is_some_and(|c| c.is_ascii_alphabetic() || c == '/' || c == '_');
    let is_keyword = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"]
        .contains(&word.to_ascii_lowercase().as_str());
    match is_text && !is_keyword && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("\"{word}\""),
    }
}

/// The shape of the value at a JSON Pointer, if the path does not lead through a union.
fn shape_at<'s, 'p>(
    shapes: &'s Shapes,
    id: ShapeId,
    mut tokens: impl Iterator<Item = &'p str> + Clone,
) -> Option<&'s Shape> {
    let shape = shapes.get(id)?;
    let rest = tokens.clone();
    let Some(token) = tokens.next() else {
        return Some(shape);
    };
    let property = shape.properties.iter().find(|(name, _)| **name == *token);
    match property.map(|(_, id)| *id).or(shape.items) {
        Some(below) => shape_at(shapes, below, tokens),
        None => {
            let parts = shape.all_of.iter();
            parts
                .copied()
                .find_map(|part| shape_at(shapes, part, rest.clone()))
        }
    }
}

fn enumeration(
    ctx: &RuleContext<'_>,
    node: &Node,
    what: &str,
    expected: &[String],
) -> (String, Option<String>) {
    let found = written(ctx, node);
    let message = format!("invalid value `{found}` for {what}");
    let allowed = format!("expected {}", one_of(expected));
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
    ctx: &RuleContext<'_>,
    violation: &SchemaViolation<'_>,
    expected: &[String],
) -> (String, Option<String>) {
    let name = key(violation.entry);
    let message = format!(
        "unknown field `{name}` in {}",
        container(ctx, violation.node)
    );
    let pointer = ctx.doc.pointer_of(violation.node);
    let is_sandbox_ref =
        ctx.is(Doctype::AgentCli) && name == "ref" && pointer.is_some_and(|p| p == "/sandbox");
    let help = match closest_of(name, expected.iter().map(String::as_str)) {
        _ if is_sandbox_ref => "to use a SANDBOX.md, write `sandbox: ./SANDBOX.md`".to_owned(),
        Some(meant) => format!("did you mean `{meant}`?"),
        None if expected.len() <= 12 && !expected.is_empty() => {
            format!("expected {}", one_of(expected))
        }
        None => {
            "remove it, or move custom data below a key of your own: `metadata: { TOOL: { … } }`"
                .to_owned()
        }
    };
    (message, Some(help))
}
