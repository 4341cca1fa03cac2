//! Runs the rules over one document, or over many files on several threads.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use rustc_hash::FxHashSet;

use crate::context::{FindingDraft, Location, RuleContext, finish_draft};
use crate::finding::{Finding, Report};
use crate::index::{Index, IndexEntry};
use crate::registry::FAMILIES;
use crate::rule::Rule;
use crate::rules::{document, fields, registry_wide};
use crate::settings::RuleSet;
use crate::shape::{self, Keyword};
use crate::suppress;
use agentproto_manifest::{Doctype, Document, FileSource, KnownFiles, ReadError, Span, Workspace};

/// A file to lint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LintTarget {
    /// Path of the file, as reports print it.
    pub path: PathBuf,
    /// Whether the file is certainly a manifest: the user named it, or its file name is that of a
    /// manifest. Other files are linted only if their frontmatter looks like a manifest.
    pub named: bool,
    /// Whether a directory walk found the file. The walk then also found all other files of its
    /// directory.
    pub walked: bool,
}

impl LintTarget {
    /// A file that is certainly a manifest.
    pub fn named(path: impl Into<PathBuf>) -> Self {
        LintTarget {
            path: path.into(),
            named: true,
            walked: false,
        }
    }
    /// A file that is linted only if its frontmatter looks like a manifest.
    pub fn candidate(path: impl Into<PathBuf>) -> Self {
        LintTarget {
            path: path.into(),
            named: false,
            walked: false,
        }
    }
}

/// Settings of a run.
pub struct LintOptions<'a> {
    /// The rules that are on, with their severities.
    pub rules: &'a RuleSet,
    /// Where files are read from.
    pub files: &'a dyn FileSource,
    /// Workspace root: references must not lead out of this directory.
    pub root: PathBuf,
    /// Maximum number of threads.
    pub threads: usize,
    /// Set to true to stop the run. Files that are already being linted are finished.
    pub stop: Option<&'a AtomicBool>,
    /// Drops findings that the configuration turns off for single files.
    pub skip: Option<&'a Skip<'a>>,
}

/// Whether findings of a rule are dropped in a file.
pub type Skip<'a> = dyn Fn(&Path, &'static Rule) -> bool + Sync + 'a;

impl<'a> LintOptions<'a> {
    /// Options for one thread, without `stop` and `skip`.
    pub fn new(rules: &'a RuleSet, files: &'a dyn FileSource, root: impl Into<PathBuf>) -> Self {
        LintOptions {
            rules,
            files,
            root: root.into(),
            threads: 1,
            stop: None,
            skip: None,
        }
    }

    pub(super) fn stopped(&self) -> bool {
        self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
    }
}

/// Number of files that a thread takes at once. The files of a bundle are adjacent in path order,
/// so most references of a bundle stay within one batch.
const BATCH: usize = 32;

/// Lints files that are all manifests. `paths` must be sorted.
pub fn lint_files(paths: &[PathBuf], options: &LintOptions<'_>) -> Report {
    let targets: Vec<LintTarget> = paths.iter().map(LintTarget::named).collect();
    lint_targets(&targets, options)
}

/// Lints targets. They must be sorted by path; the report has the same order.
pub fn lint_targets(targets: &[LintTarget], options: &LintOptions<'_>) -> Report {
    let known = Known {
        set: targets.iter().map(|t| t.path.as_os_str()).collect(),
        targets,
    };
    let linted = |path: &Path| known.contains(path);
    let next = AtomicUsize::new(0);
    let shared = Mutex::new(ThreadResults::default());
    let work = || {
        let mut results = ThreadResults::default();
        let workspace = Workspace::new(options.files, &options.root).with_known_files(&known);
        loop {
            let from = next.fetch_add(BATCH, Ordering::Relaxed);
            let Some(batch) = targets.get(from..).filter(|rest| !rest.is_empty()) else {
                break;
            };
            for (i, target) in batch.iter().take(BATCH).enumerate() {
                if options.stopped() {
                    break;
                }
                results.file(from + i, target, &workspace, options.rules, &linted);
            }
        }
        shared.lock().absorb(results);
    };
    let threads = options
        .threads
        .clamp(1, targets.len().div_ceil(BATCH).max(1));
    if threads == 1 {
        work();
    } else {
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(work);
            }
        });
    }
    let mut results = shared.into_inner();
    results.entries.sort_by_key(|(i, _)| *i);
    results.deferred.sort();
    results.files.sort();
    let index = Index {
        entries: results
            .entries
            .into_iter()
            .map(|(_, entry)| entry)
            .collect(),
    };
    let workspace = Workspace::new(options.files, &options.root);
    let mut findings = results.findings;
    for path in &results.deferred {
        if options.stopped() {
            break;
        }
        findings.extend(catch_panics(path, options.rules, || {
            workspace.load(path).map_or_else(
                |_| Vec::new(),
                |doc| lint_document(&doc, &workspace, options.rules, Some(&index), &linted),
            )
        }));
    }
    findings.extend(registry_wide::findings(&index, &workspace, options.rules));
    suppress::apply_registry_rules(
        &results.late_ignores,
        &workspace,
        options.rules,
        &mut findings,
    );
    let files = results
        .files
        .into_iter()
        .filter_map(|i| targets.get(i).map(|t| t.path.clone()));
    finish(findings, files.collect(), options)
}

/// Runs the rules that compare each manifest with an earlier revision of it, and adds their
/// findings to the report. `base` returns the text of that revision.
pub fn compare_with_base(
    report: &mut Report,
    options: &LintOptions<'_>,
    base: impl Fn(&Path) -> Option<String>,
) {
    let mut found = Vec::new();
    for path in &report.files {
        let Ok(new) = options.files.read(path) else {
            continue;
        };
        let new = Arc::new(Document::from_bytes(path, new));
        let mut findings = catch_panics(path, options.rules, || {
            base(path).map_or_else(Vec::new, |old| {
                registry_wide::compare_with_base(&Document::parse(path, old), &new, options.rules)
            })
        });
        drop_skipped(&mut findings, options);
        if !findings.is_empty() && report.source(path).is_none() {
            let at = report.sources.partition_point(|(p, _)| p < path);
            report.sources.insert(at, (path.clone(), new));
        }
        found.extend(findings);
    }
    report.findings.extend(found);
    report.findings.sort_by(Finding::order);
}

/// Answers questions about files from the targets of a run, without asking the file system.
struct Known<'t> {
    set: FxHashSet<&'t OsStr>,
    /// Sorted by the bytes of their paths if they come from a walk.
    targets: &'t [LintTarget],
}

impl KnownFiles for Known<'_> {
    fn contains(&self, path: &Path) -> bool {
        self.set.contains(path.as_os_str())
    }

    fn list(&self, dir: &Path) -> Option<Vec<String>> {
        let mut prefix = dir.as_os_str().as_encoded_bytes().to_vec();
        if !prefix.is_empty() {
            prefix.push(b'/');
        }
        fn bytes(target: &LintTarget) -> &[u8] {
            target.path.as_os_str().as_encoded_bytes()
        }
        let from = self
            .targets
            .partition_point(|t| bytes(t) < prefix.as_slice());
        let mut names: Vec<String> = Vec::new();
        for target in self.targets.get(from..)? {
            let Some(rest) = bytes(target).strip_prefix(prefix.as_slice()) else {
                break;
            };
            if !target.walked {
                return None;
            }
            let name = rest.split(|b| *b == b'/').next().unwrap_or(rest);
            let name = String::from_utf8_lossy(name);
            if names.last().is_none_or(|last| *last != name) {
                names.push(name.into_owned());
            }
        }
        (!names.is_empty()).then_some(names)
    }
}

/// The results of one thread.
#[derive(Default)]
struct ThreadResults {
    findings: Vec<Finding>,
    entries: Vec<(usize, IndexEntry)>,
    /// Operators. They are linted last, when all manifests that they may refer to are known.
    deferred: Vec<PathBuf>,
    /// Indices of the targets that turned out to be manifests.
    files: Vec<usize>,
    /// Files that ignore rules which need all files of the run.
    late_ignores: Vec<PathBuf>,
}

impl ThreadResults {
    fn file(
        &mut self,
        order: usize,
        target: &LintTarget,
        workspace: &Workspace<'_>,
        rules: &RuleSet,
        linted: &dyn Fn(&Path) -> bool,
    ) {
        let path = target.path.as_path();
        let doc = match workspace.load(path) {
            Ok(doc) => doc,
            Err(error) => {
                if target.named {
                    self.files.push(order);
                    self.findings.extend(unreadable(path, &error, rules));
                }
                return;
            }
        };
        if !target.named && doc.doctype.is_none() {
            return;
        }
        self.files.push(order);
        if suppress::ignores_registry_rules(&doc) {
            self.late_ignores.push(path.to_owned());
        }
        self.entries
            .extend(IndexEntry::of(&doc).map(|entry| (order, entry)));
        if doc.doctype == Some(Doctype::Operator) {
            self.deferred.push(path.to_owned());
            return;
        }
        let findings = catch_panics(path, rules, || {
            lint_document(&doc, workspace, rules, None, linted)
        });
        self.findings.extend(findings);
    }

    fn absorb(&mut self, other: ThreadResults) {
        self.findings.extend(other.findings);
        self.entries.extend(other.entries);
        self.deferred.extend(other.deferred);
        self.files.extend(other.files);
        self.late_ignores.extend(other.late_ignores);
    }
}

/// Runs the rules on one file. A panic (a bug in agentproto) becomes a finding, and the other files
/// are still linted.
fn catch_panics(path: &Path, rules: &RuleSet, work: impl FnOnce() -> Vec<Finding>) -> Vec<Finding> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or_else(|_| {
        let rule = &document::INTERNAL_FAULT;
        let empty = Document::parse(path, String::new());
        let draft = FindingDraft::new(
            rule,
            Location::Bytes(Span::default()),
            "internal error: a rule panicked while checking this file",
        );
        let severity = rules.severity(rule).unwrap_or(rule.severity);
        vec![finish_draft(&empty, draft, severity)]
    })
}

/// A finding for a file that could not be read.
fn unreadable(path: &Path, error: &ReadError, rules: &RuleSet) -> Option<Finding> {
    let rule = match error {
        ReadError::TooLarge(_) => &document::FILE_TOO_LARGE,
        ReadError::LeavesTree { .. } => &document::MANIFEST_LINK_ESCAPES,
        _ => &document::FILE_UNREADABLE,
    };
    let severity = rules.severity(rule)?;
    let empty = Document::parse(path, String::new());
    let draft = FindingDraft::new(rule, Location::Bytes(Span::default()), error.to_string());
    let draft = match error {
        ReadError::LeavesTree { .. } => draft.help(
            "replace the link with a copy of the file, or lint from a directory that contains both",
        ),
        _ => draft,
    };
    Some(finish_draft(&empty, draft, severity))
}

/// Lints one document that has already been read.
///
/// `index` holds all manifests of the run, if they are known. `linted` says whether a path is
/// linted in the same run.
pub fn lint_document(
    doc: &Document,
    workspace: &Workspace<'_>,
    rules: &RuleSet,
    index: Option<&Index>,
    linted: &dyn Fn(&Path) -> bool,
) -> Vec<Finding> {
    let mut findings = document::problem_findings(doc, rules);
    if let (Some(root), Some(doctype)) = (&doc.root, doc.doctype) {
        let ctx = RuleContext::new(doc, root, doctype, workspace, rules, index, linted);
        let open = doc.frontmatter.map_or(Span::default(), |front| front.open);
        // The last unknown key that was reported: its mapping, and the index of its finding.
        let mut last_unknown = None;
        for violation in shape::violations(shape::shapes_for(doctype), root, Location::Bytes(open))
        {
            let reported = ctx.finding_count();
            if !fields::report_key_mistake(&ctx, &violation) {
                match violation.rule.report {
                    Some(report) => report(&ctx, &violation),
                    None => ctx.report(shape::draft(&ctx, &violation)),
                }
            }
            // No finding is added if the rule is off or leaves the report to another finding.
            if violation.keyword == Keyword::AdditionalProperties && ctx.finding_count() > reported
            {
                last_unknown = Some((violation.node, reported));
            }
            if violation.unlisted > 0
                && let Some((mapping, finding)) = last_unknown
                && std::ptr::eq(mapping, violation.node)
            {
                ctx.append_unlisted_count(finding, violation.unlisted);
            }
        }
        for run in checks_for(doctype) {
            run(&ctx);
        }
        findings.extend(ctx.into_findings());
    }
    if findings.len() > 1 {
        drop_general_findings(&mut findings);
    }
    suppress::apply(doc, rules, &mut findings);
    findings
}

type Run = fn(&RuleContext<'_>);

fn checks_for(doctype: Doctype) -> &'static [Run] {
    static TABLE: [OnceLock<Vec<Run>>; 8] = [const { OnceLock::new() }; 8];
    TABLE[doctype as usize].get_or_init(|| {
        let checks = FAMILIES.iter().flat_map(|family| family.checks);
        checks
            .filter(|check| check.doctypes.contains(&doctype))
            .map(|check| check.run)
            .collect()
    })
}

/// Reports each mistake once. If a specific rule has a finding at a place, findings of the general
/// schema rules at the same place are dropped. A finding about a scalar that YAML 1.1 reads
/// differently is dropped if another finding is about the same scalar.
fn drop_general_findings(findings: &mut Vec<Finding>) {
    let is_note = |f: &Finding| f.rule == &document::FM_YAML11_SCALAR;
    if findings.iter().any(is_note) {
        let wrong: HashSet<Span> = findings
            .iter()
            .filter(|f| !is_note(f))
            .map(|f| f.span)
            .collect();
        findings.retain(|f| !is_note(f) || !wrong.contains(&f.span));
    }
    let specific: HashSet<(Span, String)> = findings
        .iter()
        .filter(|f| !document::is_general(f.rule) && !is_note(f))
        .map(|f| (f.span, f.pointer.clone()))
        .collect();
    findings.retain(|f| {
        !document::is_general(f.rule)
            || f.rule == &document::FM_REQUIRED_MISSING
            || !specific.contains(&(f.span, f.pointer.clone()))
    });
}

fn drop_skipped(findings: &mut Vec<Finding>, options: &LintOptions<'_>) {
    if let Some(skip) = options.skip {
        // Internal errors are always kept: otherwise a file that was not checked would look clean.
        findings.retain(|f| f.rule == &document::INTERNAL_FAULT || !skip(&f.file, f.rule));
    }
}

fn finish(mut findings: Vec<Finding>, files: Vec<PathBuf>, options: &LintOptions<'_>) -> Report {
    drop_skipped(&mut findings, options);
    findings.sort_by(Finding::order);
    let mut quoted: Vec<PathBuf> = findings
        .iter()
        .flat_map(|f| std::iter::once(&f.file).chain(f.related.iter().map(|r| &r.file)))
        .cloned()
        .collect();
    quoted.sort();
    quoted.dedup();
    // Files with findings are read again. Keeping all texts in memory would be wasteful: most
    // files of a large run have no findings.
    let workspace = Workspace::new(options.files, &options.root);
    let sources = quoted
        .into_iter()
        .filter_map(|path| workspace.load(&path).ok().map(|doc| (path, doc)))
        .collect();
    Report {
        findings,
        files,
        sources,
    }
}
