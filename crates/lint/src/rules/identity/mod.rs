//! Who a manifest is: name, id, version, description, tags.

mod catalog;
mod spelling;

use std::borrow::Cow;
use std::ffi::OsStr;
use std::path::Path;

pub use catalog::*;
pub use spelling::kebab;
use spelling::{is_kebab, mended_id, mended_version};

use crate::context::{Context, Draft, Place};
use crate::finding::Safety;
use crate::registry::{Check, Family};
use crate::shape::{Keyword, Violation};
use crate::{edits, shape};
use agentproto_manifest::{Doctype, Document, Node, Value, normalize};
use agentproto_text::short;

pub static FAMILY: Family = Family {
    name: "identity",
    rules: &[
        &ID_PATTERN,
        &NAME_LENGTH,
        &NAME_KEBAB_EQUALS_DIR,
        &FOLDER_EQUALS_ID,
        &DESCRIPTION_LENGTH,
        &VERSION_SEMVER,
        &VERSION_LOOSE_PATTERN,
        &TAG_PATTERN,
        &TAGS_UNIQUE,
        &METADATA_NOT_NAMESPACED,
    ],
    checks: &[
        Check {
            doctypes: &[
                Doctype::Cli,
                Doctype::AgentCli,
                Doctype::Acp,
                Doctype::Sandbox,
                Doctype::Tool,
                Doctype::Operator,
            ],
            run: version,
        },
        Check {
            doctypes: &[Doctype::AgentCli, Doctype::Acp],
            run: name_and_directory,
        },
        Check {
            doctypes: &[Doctype::Cli],
            run: id_and_folder,
        },
        Check {
            doctypes: &[Doctype::Cli],
            run: metadata,
        },
    ],
};

/// A version that YAML reads as a number is a version still.
pub fn numeric_version<'d>(ctx: &Context<'d>, v: &Violation<'d>) -> bool {
    let claimed = is_numeric_version(ctx, v);
    if claimed {
        bad_version(ctx, v);
    }
    claimed
}

fn bad_id<'d>(ctx: &Context<'d>, violation: &Violation<'d>) {
    let Some(id) = violation.node.as_str() else {
        return;
    };
    let pattern = pattern(violation);
    let scoped = pattern.starts_with("^@");
    let message = format!("the id `{}` {}", short(id, 60), id_trouble(id, pattern));
    let mended = mended_id(id, pattern);
    let help = match &mended {
        Some(mended) => format!("write `{mended}`"),
        None if scoped => "write `@owner/slug` in lower case, as in `@acme/build-box`".to_owned(),
        None => "write at least two lower-case letters, digits and dashes, beginning with a letter, as in `my-tool`".to_owned(),
    };
    let fix = mended.and_then(|mended| {
        let edits = edits::set_scalar(ctx.doc, violation.node, &mended)?;
        Some((format!("Change the id to `{mended}`"), edits))
    });
    let draft = Draft::new(&ID_PATTERN, violation.node, message).help(help);
    ctx.report(with_fix(draft, fix));
}

fn id_trouble(id: &str, pattern: &str) -> &'static str {
    let edges = |c: char| c == '-' || c == '.';
    // Only a tool's id may have dots.
    let dots = pattern.contains("0-9.");
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if id.is_empty() {
        "is empty"
    } else if pattern.starts_with("^@") {
        "is not of the form `@owner/slug`"
    } else if id.contains(|c: char| c.is_ascii_uppercase()) {
        "has upper-case letters"
    } else if id.contains(char::is_whitespace) {
        "has white space"
    } else if id.contains('_') {
        "has an underscore; use dashes"
    } else if !id.chars().all(|c| legal(c) || (dots && c == '.')) {
        "has characters other than lower-case letters, digits and dashes"
    } else if id.starts_with(edges) || id.ends_with(edges) {
        "begins or ends with a dash or a dot"
    } else if id.len() < 2 {
        "is too short"
    } else if id.starts_with(|c: char| c.is_ascii_digit()) && !pattern.starts_with("^[a-z0-9]") {
        "begins with a digit"
    } else {
        "is too long"
    }
}

fn bad_length<'d>(ctx: &Context<'d>, violation: &Violation<'d>) {
    let draft = if violation.keyword == Keyword::MinLength {
        let (message, help) = if violation.rule == &NAME_LENGTH {
            ("the name is empty", "write a name that tells it apart")
        } else {
            (
                "the description is empty",
                "say in a sentence what it does and when to use it",
            )
        };
        Draft::new(violation.rule, violation.node, message).help(help)
    } else {
        let length = violation.node.as_str().map_or(0, |s| s.chars().count());
        shape::draft(ctx, violation).help(format!(
            "it has {length} characters; move the rest into the body"
        ))
    };
    ctx.report(draft);
}

/// `version: 1.2` and `version: 2` are numbers to YAML: a version that lacks parts, not a
/// string that lacks quotes.
fn is_numeric_version(ctx: &Context<'_>, violation: &Violation<'_>) -> bool {
    violation.keyword == Keyword::Type
        && matches!(violation.node.value, Value::Int(_) | Value::Float(_))
        && ctx
            .root
            .get("version")
            .is_some_and(|node| std::ptr::eq(node, violation.node))
}

fn bad_version<'d>(ctx: &Context<'d>, violation: &Violation<'d>) {
    let node = violation.node;
    let text = node.as_str().unwrap_or_else(|| ctx.doc.slice(node.span));
    let both_parts = semver::Version::parse(text).is_ok();
    let message = if both_parts {
        format!("the version `{text}` has a pre-release and a build part; the schema takes one")
    } else if text.trim().is_empty() {
        "the version is empty".to_owned()
    } else {
        format!("the version `{}` is not MAJOR.MINOR.PATCH", short(text, 40))
    };
    let mended = (!both_parts).then(|| mended_version(text)).flatten();
    let help = match &mended {
        Some(mended) => format!("write `{mended}`"),
        None if both_parts => "leave one of the two parts out".to_owned(),
        None => "write three numbers, as in `1.0.0`".to_owned(),
    };
    let fix = mended.and_then(|mended| {
        let edits = match node.value {
            Value::Str(_) => edits::set_scalar(ctx.doc, node, &mended)?,
            _ => edits::set_raw(ctx.doc, node, &mended)?,
        };
        Some((format!("Write the version as `{mended}`"), edits))
    });
    let draft = Draft::new(&VERSION_SEMVER, node, message).help(help);
    ctx.report(with_fix(draft, fix));
}

fn bad_tag<'d>(ctx: &Context<'d>, violation: &Violation<'d>) {
    let (node, pattern) = (violation.node, pattern(violation));
    let Some(tag) = node.as_str() else {
        return;
    };
    let trouble = if tag.is_empty() {
        "is empty"
    } else if !tag.contains(|c: char| !c.is_ascii_lowercase() && !c.is_ascii_digit() && c != '-') {
        "begins with the wrong character or is too long"
    } else {
        "has more than lower-case letters, digits and dashes"
    };
    let message = format!("the tag `{}` {trouble}", short(tag, 60));
    let draft = Draft::new(&TAG_PATTERN, node, message);
    let Some(mended) = kebab(tag, false).filter(|m| fits(pattern, m)) else {
        ctx.report(draft.help("write a short word such as `code-hosting`"));
        return;
    };
    // Two spellings of one tag become one tag, not a duplicate.
    let list = ctx.root.get("tags");
    let taken = list.map_or(&[][..], Node::items).iter().any(|other| {
        let before = other.span.start < node.span.start;
        other.as_str().is_some_and(|text| {
            text == mended || (before && kebab(text, false).as_deref() == Some(&mended))
        })
    });
    let fix = match list.filter(|_| taken) {
        Some(list) => edits::remove_item(ctx.doc, list, node)
            .map(|edits| (format!("Remove it; `{mended}` is already listed"), edits)),
        None => edits::set_scalar(ctx.doc, node, &mended)
            .map(|edits| (format!("Change the tag to `{mended}`"), edits)),
    };
    let draft = draft.help(format!("write `{mended}`"));
    ctx.report(with_fix(draft, fix));
}

fn double_tag<'d>(ctx: &Context<'d>, violation: &Violation<'d>) {
    let first = violation.node;
    let (Place::Value(again), Some(tag)) = (&violation.place, first.as_str()) else {
        return;
    };
    let fix = ctx
        .root
        .get("tags")
        .and_then(|list| edits::remove_item(ctx.doc, list, again))
        .map(|edits| (format!("Remove the second `{}`", short(tag, 40)), edits));
    let message = format!("the tag `{}` is listed twice", short(tag, 60));
    let draft = Draft::new(&TAGS_UNIQUE, *again, message)
        .help("remove one of them")
        .nearby(first.span, "first here");
    ctx.report(with_fix(draft, fix));
}

fn with_fix(draft: Draft<'_>, fix: Option<(String, Vec<crate::Edit>)>) -> Draft<'_> {
    match fix {
        Some((title, edits)) => draft.fix(Safety::Safe, title, edits),
        None => draft,
    }
}

fn pattern<'v>(violation: &'v Violation<'_>) -> &'v str {
    violation.expected.first().map_or("", String::as_str)
}

/// Only reached once a violation is certain, so the pattern may be compiled anew.
fn fits(pattern: &str, text: &str) -> bool {
    regress::Regex::new(pattern).is_ok_and(|regex| regex.find(text).is_some())
}

fn version(ctx: &Context<'_>) {
    let Some(node) = ctx.root.get("version") else {
        return;
    };
    let Some(text) = node.as_str() else {
        return;
    };
    let Err(error) = semver::Version::parse(text) else {
        return;
    };
    // A number too large for the parser is odd but legal.
    let mut numbers = text.split(|c: char| !c.is_ascii_digit());
    let too_large = numbers.any(|digits| digits.len() > 19);
    // OPERATOR.md's own pattern already refuses the underscore.
    let refused = ctx.is(Doctype::Operator) && text.contains('_');
    if !too_large && !refused && fits(spelling::LOOSE_VERSION, text) {
        let message = format!("`{}` is not a semantic version: {error}", short(text, 40));
        ctx.report(
            Draft::new(&VERSION_LOOSE_PATTERN, node, message)
                .help("write it without leading zeros, underscores or empty parts, as in `1.2.3` or `1.2.3-rc.1`"),
        );
    }
}

fn name_and_directory(ctx: &Context<'_>) {
    let Some(node) = ctx.root.get("name") else {
        return;
    };
    // An empty or overlong name is `name-length`'s business.
    let fits = |name: &&str| !name.is_empty() && name.chars().count() <= 80;
    let Some(name) = node.as_str().filter(fits) else {
        return;
    };
    let slug = slug_of_file(ctx.doc, ctx.doctype);
    if slug == Some(name) && is_kebab(name) {
        return;
    }
    let Some(dir) = directory_name(ctx.doc) else {
        return;
    };
    let Some(dir) = dir.to_str() else {
        return;
    };
    if dir == name && is_kebab(name) {
        return;
    }
    let wanted = slug.unwrap_or(dir);
    let message = if dir == name || slug == Some(name) {
        format!("the name `{}` is not kebab case", short(name, 60))
    } else {
        format!(
            "the name `{}` is not that of the directory, `{dir}`",
            short(name, 60)
        )
    };
    let help = match kebab(wanted, false) {
        Some(kebab) if kebab != wanted => {
            format!("rename the directory to `{kebab}` and write that name here")
        }
        _ if is_kebab(name) => format!("write `{wanted}`, or rename the directory to `{name}`"),
        _ => format!("write `{wanted}`"),
    };
    ctx.report(Draft::new(&NAME_KEBAB_EQUALS_DIR, node, message).help(help));
}

fn id_and_folder(ctx: &Context<'_>) {
    let Some(node) = ctx.root.get("id") else {
        return;
    };
    let Some(id) = node.as_str().filter(|id| !id.is_empty()) else {
        return;
    };
    let Some(dir) = directory_name(ctx.doc) else {
        return;
    };
    let Some(dir) = dir.to_str() else {
        return;
    };
    // An id that is only misspelled is `id-pattern`'s business.
    if dir == id || (!is_kebab(id) && kebab(id, false).as_deref() == Some(dir)) {
        return;
    }
    let message = format!(
        "the folder is called `{dir}`, the id is `{}`",
        short(id, 60)
    );
    ctx.report(
        Draft::new(&FOLDER_EQUALS_ID, node, message)
            .help("rename the folder, or change the id if it was never published"),
    );
}

fn metadata(ctx: &Context<'_>) {
    for entry in ctx.root.get("metadata").map_or(&[][..], Node::entries) {
        if entry.value.is_map() || entry.key.contains(['.', '/', ':']) {
            continue;
        }
        let message = format!("`metadata.{}` has no namespace", short(&entry.key, 60));
        ctx.report(
            Draft::new(&METADATA_NOT_NAMESPACED, entry, message).help(format!(
                "put it below the name of the tool that reads it: `metadata.TOOL.{}`",
                short(&entry.key, 60)
            )),
        );
    }
}

/// `harbor` of `harbor.ACP.md`.
fn slug_of_file(doc: &Document, doctype: Doctype) -> Option<&str> {
    let file = doc.path.file_name()?.to_str()?;
    let slug = file.strip_suffix(doctype.file_name())?.strip_suffix('.')?;
    (!slug.is_empty()).then_some(slug)
}

/// Name of the directory that holds the file. A bare `CLI.md` lies in the current
/// directory; text that came from no file has none.
fn directory_name(doc: &Document) -> Option<Cow<'_, OsStr>> {
    if doc.path.extension().is_none_or(|ext| ext != "md") {
        return None;
    }
    let dir = doc.dir();
    match dir.file_name() {
        Some(name) => Some(Cow::Borrowed(name)),
        None => {
            let dir = if dir.as_os_str().is_empty() {
                Path::new(".")
            } else {
                dir
            };
            let absolute = std::path::absolute(dir).ok()?;
            let name = normalize(&absolute).file_name()?.to_owned();
            Some(Cow::Owned(name))
        }
    }
}
