//! Validation at load: a manifest with errors is refused (A45-CONF-01, A45-API-01).
//!
//! The rules are those of `agentproto lint --profile spec`. A comment that ignores a rule silences
//! the linter, but not this check, because the author of a manifest must not decide what a host
//! accepts. Only the caller can (`--allow-invalid`).

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::context::Context;
use crate::error::{Code, Error};
use agentproto_lint::{
    Finding, LintOptions, LintTarget, Profile, Report, RuleSet, Severity, lint_targets,
};
use agentproto_manifest::{Disk, Document, Overlay, RefRole, Workspace, ref_sites};
use agentproto_text::count;

/// Maximum number of findings in the details of an error and in the audit log.
const MAX_LISTED: usize = 50;

static RULES: LazyLock<RuleSet> = LazyLock::new(|| RuleSet::profile_defaults(Profile::Spec));

/// Whether a later step decides about a finding, with an error code of its own: a vendored file
/// that is missing on this machine, a digest that is well formed but looks like a placeholder
/// (AIP-29 § Install methods), and the sandbox of a tool that is wider than that of its bundle.
fn is_checked_later(finding: &Finding, report: &Report) -> bool {
    let text = || {
        let doc = report.source(&finding.file)?;
        Some(doc.slice(finding.span).trim_matches(['"', '\'']))
    };
    let is_digest = |text: &str| text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
    match finding.rule.slug {
        "install-vendored-missing" | "tool-sandbox-widens" => true,
        "install-sha256-placeholder" => text().is_some_and(is_digest),
        _ => false,
    }
}

/// Refuses a bundle with errors under lint profile `spec`. The bundle is its manifest, the ACP.md,
/// SANDBOX.md, SECRETS.md and RUNNER.md that it refers to, and the files `also`, such as the
/// TOOL.md that is called or the caller's OPERATOR.md.
///
/// With `allow_invalid` the run continues. The observer gets the warning `manifest_invalid`, and
/// the audit log gets an entry.
pub fn check(ctx: &Context, also: &[PathBuf], allow_invalid: bool) -> Result<(), Error> {
    let errors = errors(&ctx.bundle.manifest, also);
    if errors.is_empty() {
        return Ok(());
    }
    let error = refusal(&errors, ctx.bundle.path());
    if !allow_invalid {
        return Err(error);
    }
    let what = format!(
        "the manifest is invalid, and the run continues: {}",
        error.message
    );
    ctx.observer.warning(Code::ManifestInvalid.as_str(), &what);
    ctx.audit.record("manifest.invalid", *error.details)
}

/// Why a manifest is refused, if it is. For callers without a [`Context`].
pub fn refused(manifest: &Document, also: &[PathBuf]) -> Option<Error> {
    let errors = errors(manifest, also);
    (!errors.is_empty()).then(|| refusal(&errors, &manifest.path))
}

/// The errors in a manifest and in the files that a run of it uses. Those of the manifest come
/// first. This takes less than a millisecond for most bundles, so the result is not kept.
pub fn errors(manifest: &Document, also: &[PathBuf]) -> Vec<Finding> {
    // The text that was loaded, even if the file changed since then.
    let mut files = Overlay::new(&Disk);
    let text = Some(manifest.text.clone());
    files.texts.insert(manifest.path.clone(), text);
    let mut paths = vec![manifest.path.clone()];
    add_used(&Workspace::new(&Disk, "/"), manifest, &mut paths);
    for path in also {
        paths.push(std::path::absolute(path).unwrap_or_else(|_| path.clone()));
    }
    paths.sort_by(|a, b| a.as_os_str().cmp(b.as_os_str()));
    paths.dedup();
    let targets: Vec<LintTarget> = paths.into_iter().map(LintTarget::named).collect();
    let report = lint_targets(&targets, &LintOptions::new(&RULES, &files, "/"));
    let refuses = |finding: &&Finding| {
        finding.severity == Severity::Error && !is_checked_later(finding, &report)
    };
    let mut errors: Vec<Finding> = report.findings.iter().filter(refuses).cloned().collect();
    errors.sort_by_key(|finding| finding.file != manifest.path);
    errors
}

/// Adds the files that a run of this manifest reads.
fn add_used(workspace: &Workspace<'_>, doc: &Document, paths: &mut Vec<PathBuf>) {
    let sites = ref_sites(doc)
        .into_iter()
        .map(|site| (site.role, site.text));
    let wrapped = [
        (RefRole::Sandbox, ["sandbox", "ref"]),
        (RefRole::Runner, ["runner", "file"]),
    ];
    let wrapped = wrapped.iter().filter_map(|(role, path)| {
        let text = doc.root.as_ref()?.str_at(path)?;
        Some((*role, text))
    });
    for (role, text) in sites.chain(wrapped) {
        let is_used = matches!(
            role,
            RefRole::Acp | RefRole::Sandbox | RefRole::Secrets | RefRole::Runner
        );
        let target = is_used.then(|| workspace.resolve(doc, role, text));
        let Some(target) = target.as_ref().and_then(|target| target.document()) else {
            // A reference that leads nowhere is a finding in the file that contains it.
            continue;
        };
        // A file of another kind is a finding at the reference.
        if target.doctype != role.doctype() || paths.contains(&target.path) {
            continue;
        }
        paths.push(target.path.clone());
        if role == RefRole::Sandbox {
            // A SANDBOX.md may refer to a SECRETS.md.
            add_used(workspace, target, paths);
        }
    }
}

/// The error for these findings. Some have a code of their own.
fn refusal(errors: &[Finding], manifest: &Path) -> Error {
    let coded = errors.iter().find_map(|f| Some((f, own_code(f)?)));
    let first = coded.or_else(|| Some((errors.first()?, Code::ManifestInvalid)));
    let Some((first, code)) = first else {
        return Error::new(Code::ManifestInvalid, "the manifest is invalid");
    };
    let rest = match errors.len() - 1 {
        0 => String::new(),
        more => format!(", and {}", count(more, "more error", "more errors")),
    };
    let message = format!(
        "{}:{}:{}: {} [{}]{rest}",
        first.file.display(),
        first.start.line,
        first.start.column,
        first.message,
        first.rule.slug
    );
    Error::new(code, message)
        .hint(format!(
            "run `agentproto lint --profile spec {}` to see how to fix it; `--allow-invalid` runs it as it is",
            manifest.display()
        ))
        .details(json!({
            "findings": errors.iter().take(MAX_LISTED).map(as_json).collect::<Vec<_>>(),
            "errors": errors.len(),
        }))
}

/// The code of a finding that has a more specific one than `manifest_invalid`.
fn own_code(finding: &Finding) -> Option<Code> {
    match finding.rule.slug {
        "protocol-unknown" | "protocol-print-extension" => Some(Code::ProtocolUnknown),
        "caps-superset-of-acp" => Some(Code::CapabilityMismatch),
        "ref-missing-file" if finding.pointer == "/sandbox" => Some(Code::SandboxRefUnresolvable),
        "op-mode-unknown" => Some(Code::ModeUnknown),
        "op-option-unknown" => Some(Code::OptionUnknown),
        "op-option-value" => Some(Code::OptionInvalid),
        "op-continuation-unsupported" => Some(Code::ContinuationUnsupported),
        _ => None,
    }
}

fn as_json(finding: &Finding) -> Value {
    json!({
        "rule": finding.rule.slug,
        "message": finding.message,
        "file": finding.file.to_string_lossy(),
        "line": finding.start.line,
        "column": finding.start.column,
        "pointer": finding.pointer,
    })
}
