//! References between files: where they may point, and what the target must be.

use std::path::Path;
use std::sync::Arc;

use crate::context::{FindingDraft, ResolvedRef, RuleContext};
use crate::registry::{Family, FamilyCheck};
use crate::rule::{FixKind, Level, Rule, Scope, Severity, Source};
use crate::shape::subject;
use agentproto_manifest::{
    Doctype, Document, PathKind, ReadError, RefRole, Resolution, Span, normalize,
};
use agentproto_text::{closest_of, truncate};

const WITH_REFS: &[Doctype] = &[
    Doctype::Cli,
    Doctype::AgentCli,
    Doctype::Acp,
    Doctype::Sandbox,
    Doctype::Tool,
    Doctype::Operator,
];

pub static FAMILY: Family = Family {
    name: "refs",
    rules: &[
        &REF_ABSOLUTE_PATH,
        &REF_ESCAPES_BUNDLE,
        &REF_MISSING_FILE,
        &REF_TARGET_NOT_MANIFEST,
        &REF_TARGET_WRONG_DOCTYPE,
    ],
    checks: &[FamilyCheck {
        doctypes: WITH_REFS,
        run: references,
    }],
};

pub static REF_ABSOLUTE_PATH: Rule = Rule {
    slug: "ref-absolute-path",
    title: "A reference is an absolute path",
    severity: Severity::Warning,
    level: Level::Must,
    source: Source {
        spec: "AIP-29",
        section: "Optional fields",
    },
    decides: &["A29-OPT-05"],
    doctypes: WITH_REFS,
    fix: FixKind::Suggest,
    docs: include_str!("refs/ref-absolute-path.md"),
    ..Rule::BASE
};

pub static REF_ESCAPES_BUNDLE: Rule = Rule {
    slug: "ref-escapes-bundle",
    title: "A reference points outside the workspace",
    severity: Severity::Warning,
    level: Level::Derived,
    source: Source {
        spec: "agentproto",
        section: "References",
    },
    doctypes: WITH_REFS,
    scope: Scope::CrossFile,
    docs: include_str!("refs/ref-escapes-bundle.md"),
    ..Rule::BASE
};

pub static REF_MISSING_FILE: Rule = Rule {
    slug: "ref-missing-file",
    title: "A referenced file does not exist",
    level: Level::Must,
    source: Source {
        spec: "AIP-45",
        section: "Conformance",
    },
    decides: &["A45-PROTO-01", "A29-OPT-05", "A29-AUTH-01"],
    doctypes: WITH_REFS,
    scope: Scope::CrossFile,
    fix: FixKind::Suggest,
    docs: include_str!("refs/ref-missing-file.md"),
    ..Rule::BASE
};

pub static REF_TARGET_NOT_MANIFEST: Rule = Rule {
    slug: "ref-target-not-manifest",
    title: "A reference points to a file that is not a manifest",
    level: Level::Must,
    source: Source {
        spec: "AIP-45",
        section: "Conformance",
    },
    decides: &["A29-CMD-03"],
    doctypes: WITH_REFS,
    scope: Scope::CrossFile,
    fix: FixKind::Suggest,
    docs: include_str!("refs/ref-target-not-manifest.md"),
    ..Rule::BASE
};

pub static REF_TARGET_WRONG_DOCTYPE: Rule = Rule {
    slug: "ref-target-wrong-doctype",
    title: "A reference points to the wrong kind of manifest",
    level: Level::Must,
    source: Source {
        spec: "AIP-45",
        section: "Protocol",
    },
    decides: &["A45-PROTO-01", "A29-CMD-03"],
    doctypes: WITH_REFS,
    scope: Scope::CrossFile,
    docs: include_str!("refs/ref-target-wrong-doctype.md"),
    ..Rule::BASE
};

/// Slug of the rule of another family that reports a missing file for this role.
pub fn specific_missing_rule(role: RefRole, doctype: Doctype) -> Option<&'static str> {
    match (role, doctype) {
        (_, Doctype::Acp) => Some("acp-ref-missing"),
        (RefRole::Tool, _) => Some("cmd-ref-missing"),
        (RefRole::Intent, _) => Some("intent-ref-missing"),
        (RefRole::AgentCli, Doctype::Operator) => Some("op-ref-unresolved"),
        _ => None,
    }
}

fn references(ctx: &RuleContext<'_>) {
    for reference in ctx.refs() {
        match &reference.target {
            Resolution::Document(target) => check_target(ctx, reference, target),
            Resolution::External => {}
            Resolution::Absolute => absolute(ctx, reference),
            Resolution::Escapes(_) => escapes(ctx, reference),
            Resolution::Missing(path) => {
                if specific_missing_rule(reference.site.role, ctx.doctype).is_none() {
                    missing(ctx, reference, path);
                }
            }
            Resolution::Unreadable(path, error) => unreadable(ctx, reference, path, error),
        }
    }
}

fn absolute<'d>(ctx: &RuleContext<'d>, reference: &ResolvedRef<'d>) {
    let name = reference.site.text.rsplit(['/', '\\']).next();
    let name = name.filter(|n| !n.is_empty());
    let what = subject(ctx, reference.site.node);
    ctx.report(
        FindingDraft::new(
            &REF_ABSOLUTE_PATH,
            reference.site.node,
            format!("{what} is an absolute path, which may not exist on other machines"),
        )
        .help(format!(
            "write a path relative to this file, for example `./{}`",
            name.unwrap_or(reference.site.role.file_name())
        )),
    );
}

fn escapes<'d>(ctx: &RuleContext<'d>, reference: &ResolvedRef<'d>) {
    let what = subject(ctx, reference.site.node);
    ctx.report(
        FindingDraft::new(
            &REF_ESCAPES_BUNDLE,
            reference.site.node,
            format!("{what} points outside the workspace; the file is not read"),
        )
        .help("move the file into the workspace, or lint from a directory that contains both"),
    );
}

fn missing<'d>(ctx: &RuleContext<'d>, reference: &ResolvedRef<'d>, path: &Path) {
    let what = subject(ctx, reference.site.node);
    let shown = truncate(reference.site.text, 80);
    ctx.report(
        FindingDraft::new(
            &REF_MISSING_FILE,
            reference.site.node,
            format!("{what} refers to `{shown}`, which does not exist"),
        )
        .help(missing_help(ctx, reference, path)),
    );
}

/// Help for a reference to a missing file. Other families with a rule for missing files also use
/// it.
pub fn missing_help(ctx: &RuleContext<'_>, reference: &ResolvedRef<'_>, path: &Path) -> String {
    let text = reference.site.text;
    let role = reference.site.role;
    if text.contains('\\') {
        return format!(
            "write the path with forward slashes: `{}`",
            text.replace('\\', "/")
        );
    }
    if let Some(meant) = nearby_file(ctx, role, path, text) {
        return format!("did you mean `{meant}`?");
    }
    let from_root = normalize(&ctx.workspace.root().join(text));
    if ctx.workspace.contains(&from_root)
        && let Some(PathKind::File { .. }) = ctx.workspace.files.kind(&from_root)
    {
        let ups = ctx
            .doc
            .dir()
            .strip_prefix(ctx.workspace.root())
            .map_or(0, |inner| inner.components().count());
        return format!(
            "paths are relative to the directory of this file: write `{}{}`",
            "../".repeat(ups),
            text.trim_start_matches("./")
        );
    }
    format!(
        "create that {}, or correct the path; it is relative to the directory of this file",
        role.file_name()
    )
}

fn nearby_file(ctx: &RuleContext<'_>, role: RefRole, path: &Path, text: &str) -> Option<String> {
    let files = ctx.workspace.files;
    let name = path.file_name()?.to_str()?;
    let siblings = files.list(or_current_dir(path.parent()?));
    let fits = |n: &&String| {
        role.doctype()
            .is_some_and(|d| Doctype::from_file_name(n) == Some(d))
    };
    let prefix = text.strip_suffix(name).unwrap_or("./");
    let typed = closest_of(name, siblings.iter().map(String::as_str)).map(str::to_owned);
    if let Some(meant) = typed.or_else(|| only(siblings.iter().filter(fits))) {
        return Some(format!("{prefix}{meant}"));
    }
    let here = files.list(or_current_dir(ctx.doc.dir()));
    only(here.iter().filter(fits)).map(|meant| format!("./{meant}"))
}

/// Replaces an empty path with `.`. The parent of a bare file name is empty and cannot be listed.
pub fn or_current_dir(dir: &Path) -> &Path {
    if dir.as_os_str().is_empty() {
        Path::new(".")
    } else {
        dir
    }
}

fn only<'a>(mut names: impl Iterator<Item = &'a String>) -> Option<String> {
    let first = names.next()?;
    names.next().is_none().then(|| first.clone())
}

fn unreadable<'d>(
    ctx: &RuleContext<'d>,
    reference: &ResolvedRef<'d>,
    path: &Path,
    error: &ReadError,
) {
    // If the file is linted as a manifest in this run, it is reported there.
    let name = path.file_name().and_then(|n| n.to_str());
    if name.and_then(Doctype::from_file_name).is_some() && ctx.is_linted(path) {
        return;
    }
    if let ReadError::LeavesTree { .. } = error {
        escapes(ctx, reference);
        return;
    }
    // A directory as a leaf of `commands` is reported by another rule.
    if reference.site.role == RefRole::Tool
        && *error == ReadError::IsDirectory
        && !reference.site.text.trim().is_empty()
    {
        return;
    }
    let what = subject(ctx, reference.site.node);
    let message = if reference.site.text.trim().is_empty() {
        format!("{what} is empty")
    } else {
        match error {
            ReadError::IsDirectory => format!("{what} refers to a directory, not a file"),
            ReadError::TooLarge(_) => {
                format!("{what} refers to a file that is too large for a manifest")
            }
            error => format!("{what} refers to a file that cannot be read: {error}"),
        }
    };
    ctx.report(
        FindingDraft::new(&REF_TARGET_NOT_MANIFEST, reference.site.node, message).help(format!(
            "write the path of the file itself: {}",
            reference.site.role.file_name()
        )),
    );
}

fn check_target<'d>(ctx: &RuleContext<'d>, reference: &ResolvedRef<'d>, target: &Arc<Document>) {
    let Some(expected) = reference.site.role.doctype() else {
        return;
    };
    if target.doctype == Some(expected) && target.root.is_some() {
        return;
    }
    let what = subject(ctx, reference.site.node);
    match target.doctype {
        Some(found) if found != expected => ctx.report(
            FindingDraft::new(
                &REF_TARGET_WRONG_DOCTYPE,
                reference.site.node,
                format!(
                    "{what} must refer to {} ({}), found {} ({})",
                    expected.file_name(),
                    expected.spec(),
                    found.file_name(),
                    found.spec()
                ),
            )
            .help(format!(
                "write the path of the {} ({})",
                expected.file_name(),
                expected.spec()
            ))
            .related(target, first_field(target), "the referenced file"),
        ),
        Some(_) if ctx.is_linted(&target.path) => {}
        _ => not_manifest(ctx, reference, target, expected, &what),
    }
}

fn not_manifest<'d>(
    ctx: &RuleContext<'d>,
    reference: &ResolvedRef<'d>,
    target: &Arc<Document>,
    expected: Doctype,
    what: &str,
) {
    let message = match (&target.frontmatter, &target.root) {
        (_, Some(_)) => format!(
            "{what} refers to a file that does not have the fields of {}",
            expected.file_name()
        ),
        (Some(_), None) => {
            format!("{what} refers to a file with invalid frontmatter")
        }
        (None, None) => format!("{what} refers to a file without frontmatter"),
    };
    let kind = format!("{} ({})", expected.file_name(), expected.spec());
    let help = match target.root {
        Some(_) => format!("write the path of the {kind}"),
        None => format!("write the path of the {kind}, or fix the frontmatter of that file"),
    };
    let reason = target
        .problems
        .first()
        .map_or("the referenced file", |p| p.message.as_str());
    let at = target
        .problems
        .first()
        .map_or_else(|| first_field(target), |p| p.span);
    ctx.report(
        FindingDraft::new(&REF_TARGET_NOT_MANIFEST, reference.site.node, message)
            .related(target, at, reason)
            .help(help),
    );
}

fn first_field(doc: &Document) -> Span {
    let field = doc.root.as_ref().and_then(|root| root.entries().first());
    field.map_or(Span::default(), |entry| entry.key_span)
}
