//! Identity of a manifest: name, id, version, description, tags.

mod folder_equals_id;
mod id_pattern;
mod length;
mod metadata_not_namespaced;
mod name_kebab_equals_dir;
mod spelling;
mod tag_pattern;
mod tags_unique;
mod version_loose_pattern;
mod version_semver;

use crate::context::{FindingDraft, RuleContext};
use crate::finding::Safety;
use crate::registry::{Family, FamilyCheck};
use crate::shape::{Keyword, SchemaViolation};
use agentproto_manifest::{Doctype, Document, Value, normalize};
use std::borrow::Cow;
use std::ffi::OsStr;
use std::path::Path;

use folder_equals_id::{FOLDER_EQUALS_ID, id_and_folder};
use id_pattern::ID_PATTERN;
pub use id_pattern::id_problem;
use length::{DESCRIPTION_LENGTH, NAME_LENGTH};
use metadata_not_namespaced::{METADATA_NOT_NAMESPACED, metadata};
use name_kebab_equals_dir::{NAME_KEBAB_EQUALS_DIR, name_and_directory};
use tag_pattern::TAG_PATTERN;
use tags_unique::TAGS_UNIQUE;
use version_loose_pattern::{VERSION_LOOSE_PATTERN, version};
use version_semver::{VERSION_SEMVER, bad_version};

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
        FamilyCheck {
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
        FamilyCheck {
            doctypes: &[Doctype::AgentCli, Doctype::Acp],
            run: name_and_directory,
        },
        FamilyCheck {
            doctypes: &[Doctype::Cli],
            run: id_and_folder,
        },
        FamilyCheck {
            doctypes: &[Doctype::Cli],
            run: metadata,
        },
    ],
};

/// Reports a version that YAML reads as a number with `version-semver` instead of `fm-type`.
pub fn numeric_version<'d>(ctx: &RuleContext<'d>, v: &SchemaViolation<'d>) -> bool {
    let claimed = is_numeric_version(ctx, v);
    if claimed {
        bad_version(ctx, v);
    }
    claimed
}

/// Whether a violation is about a version such as `1.2` or `2`, which YAML reads as a number.
/// Such a version is incomplete; quoting it would not help.
fn is_numeric_version(ctx: &RuleContext<'_>, violation: &SchemaViolation<'_>) -> bool {
    violation.keyword == Keyword::Type
        && matches!(violation.node.value, Value::Int(_) | Value::Float(_))
        && ctx
            .root
            .get("version")
            .is_some_and(|node| std::ptr::eq(node, violation.node))
}

fn with_fix(draft: FindingDraft<'_>, fix: Option<(String, Vec<crate::Edit>)>) -> FindingDraft<'_> {
    match fix {
        Some((title, edits)) => draft.fix(Safety::Safe, title, edits),
        None => draft,
    }
}

fn pattern<'v>(violation: &'v SchemaViolation<'_>) -> &'v str {
    violation.expected.first().map_or("", String::as_str)
}

/// Whether a text matches a pattern. Only called after a violation, so compiling the pattern again
/// is affordable.
fn fits(pattern: &str, text: &str) -> bool {
    regress::Regex::new(pattern).is_ok_and(|regex| regex.find(text).is_some())
}

/// Name of the directory that contains the file. For a bare `CLI.md` this is the working
/// directory. `None` for text that was not read from a Markdown file.
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
