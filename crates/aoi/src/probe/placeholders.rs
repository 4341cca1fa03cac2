//! Placeholders in the strings of a probe file, such as `{uniq}`, and their escape with doubled
//! braces.

use std::borrow::Cow;

use agentproto_manifest::fields::FieldReader;
use agentproto_manifest::{Node, Value};
use agentproto_text::{closest_of, one_of};

/// Known placeholders.
const NAMES: [&str; 6] = ["dir", "world", "here", "uniq", "id", "canary"];

/// Noncharacters that represent doubled braces until the word is used.
const OPEN: char = '\u{fdd0}';
const CLOSE: char = '\u{fdd1}';

/// A name in braces, and its position.
struct Braced<'t> {
    name: &'t str,
    start: usize,
    end: usize,
    is_doubled: bool,
}

fn next(text: &str, from: usize) -> Option<Braced<'_>> {
    let rest = text.get(from..)?;
    rest.match_indices('{').find_map(|(at, _)| {
        let start = from + at;
        let is_doubled = text.get(start + 1..)?.starts_with('{');
        let begins = start + if is_doubled { 2 } else { 1 };
        let name = name(text.get(begins..)?)?;
        let after = text.get(begins + name.len()..)?;
        let closing = if is_doubled { "}}" } else { "}" };
        // `${HOME}` belongs to a shell.
        let is_shell = text.get(..start)?.ends_with('$');
        (after.starts_with(closing) && !is_shell).then_some(Braced {
            name,
            start,
            end: begins + name.len() + closing.len(),
            is_doubled,
        })
    })
}

/// The identifier at the start of a string.
fn name(text: &str) -> Option<&str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let end = text.find(|c| !is_part(c)).unwrap_or(text.len());
    let name = text.get(..end)?;
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        .then_some(name)
}

/// Replaces doubled braces by `OPEN` and `CLOSE`, so that placeholders in them are not filled. Also
/// replaces `{dir}` by its older name `{world}`.
pub fn protect(text: &mut String) {
    let mut from = 0;
    while let Some(found) = next(text, from) {
        from = found.end;
        let plain = match found.name {
            name if found.is_doubled => format!("{OPEN}{name}{CLOSE}"),
            "dir" => "{world}".to_owned(),
            _ => continue,
        };
        let start = found.start;
        text.replace_range(start..found.end, &plain);
        from = start + plain.len();
    }
}

/// The word as the tool gets it, with single braces.
pub fn unprotect(text: &str) -> Cow<'_, str> {
    match text.contains([OPEN, CLOSE]) {
        true => Cow::Owned(text.replace(OPEN, "{").replace(CLOSE, "}")),
        false => Cow::Borrowed(text),
    }
}

/// Like `unprotect`, for the input of a tool.
pub fn unprotect_bytes(bytes: Vec<u8>) -> Vec<u8> {
    match std::str::from_utf8(&bytes) {
        Ok(text) if text.contains([OPEN, CLOSE]) => unprotect(text).into_owned().into_bytes(),
        _ => bytes,
    }
}

/// Reports every unknown placeholder.
pub fn check(node: &Node, reader: &mut FieldReader) {
    walk(node, false, reader);
}

/// With `is_arbitrary`, the text may be anything, so only names that resemble a placeholder are
/// reported.
fn walk(node: &Node, is_arbitrary: bool, reader: &mut FieldReader) {
    match &node.value {
        Value::Str(text) => {
            let mut from = 0;
            while let Some(found) = next(text, from) {
                from = found.end;
                if found.is_doubled || NAMES.contains(&found.name) {
                    continue;
                }
                let name = found.name;
                let hint = match closest_of(name, NAMES) {
                    Some(closest) => format!("did you mean {{{closest}}}?"),
                    None if is_arbitrary => continue,
                    None => format!("known names are {}", one_of(&NAMES)),
                };
                let message = format!(
                    "unknown placeholder {{{name}}}; {hint} (write {{{{{name}}}}} for a literal \
                     {{{name}}})"
                );
                reader.error(node.span, message);
            }
        }
        _ if node.is_seq() => {
            for item in node.items() {
                walk(item, is_arbitrary, reader);
            }
        }
        _ => {
            for entry in node.entries() {
                let key = entry.key.as_str();
                if key != "title" {
                    let is_arbitrary = is_arbitrary || matches!(key, "bad" | "stdin");
                    walk(&entry.value, is_arbitrary, reader);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_has_two_names() {
        for (written, read) in [
            ("{dir}/state", "{world}/state"),
            ("{world}/state", "{world}/state"),
            ("{{dir}}", "{dir}"),
            ("${dir}", "${dir}"),
        ] {
            let mut text = written.to_owned();
            protect(&mut text);
            assert_eq!(unprotect(&text), read, "{written}");
        }
    }

    #[test]
    fn doubled_braces_become_literal_braces() {
        for (written, closest) in [
            ("{{id}}", "{id}"),
            ("a{{x}}b{{y-1}}", "a{x}b{y-1}"),
            ("{{{name}}}", "{{name}}"),
            ("{id}", "{id}"),
            (r#"{"a":{"b":1}}"#, r#"{"a":{"b":1}}"#),
            ("{{}} {{ a }} {{a} {a}}", "{{}} {{ a }} {{a} {a}}"),
            ("{{é}}", "{{é}}"),
            ("{{", "{{"),
        ] {
            let mut text = written.to_owned();
            protect(&mut text);
            assert!(!text.contains("{id}") || written == "{id}", "{written}");
            assert_eq!(unprotect(&text), closest, "{written}");
            let bytes = unprotect_bytes(text.into_bytes());
            assert_eq!(bytes, closest.as_bytes(), "{written}");
        }
    }
}
