//! Runs rules over documents: one document, or many files on several threads.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use rustc_hash::FxHashSet;

use crate::context::{Context, Draft, Place, conclude};
use crate::finding::{Finding, Report};
use crate::index::{Card, Index};
use crate::registry::FAMILIES;
use crate::rule::Rule;
use crate::rules::{document, fields, registry_wide};
use crate::settings::RuleSet;
use crate::shape::{self, Keyword};
use crate::suppress;
use agentproto_manifest::{Doctype, Document, FileSource, KnownFiles, ReadError, Span, Workspace};

/// A file to lint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub path: PathBuf,
    /// Named by the user or by its own name. Other files count only if their frontmatter
    /// has the shape of a manifest.
    pub named: bool,
    /// Found by a walk, which found every other file of its directory, too.
    pub walked: bool,
}

impl Target {
    pub fn named(path: impl Into<PathBuf>) -> Self {
        Target {
            path: path.into(),
            named: true,
            walked: false,
        }
    }
    pub fn perhaps(path: impl Into<PathBuf>) -> Self {
        Target {
            path: path.into(),
            named: false,
            walked: false,
        }
    }
}

/// What a run needs besides the files.
pub struct Options<'a> {
    pub rules: &'a RuleSet,
    pub files: &'a dyn FileSource,
    /// References may not leave this directory.
    pub root: PathBuf,
    pub threads: usize,
    /// Once true, the run ends after the files under way.
    pub stop: Option<&'a AtomicBool>,
    /// Findings that the configuration does not want: rule by file.
    pub skip: Option<&'a Skip<'a>>,
}

pub type Skip<'a> = dyn Fn(&Path, &'static Rule) -> bool + Sync + 'a;

impl<'a> Options<'a> {
    pub fn new(rules: &'a RuleSet, files: &'a dyn FileSource, root: impl Into<PathBuf>) -> Self {
        Options {
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

/// Files that one thread takes at a time; bundles are neighbours in path order, so a
/// bundle's references mostly stay inside one take.
const TAKE: usize = 32;

/// Lints files, all of them manifests. `paths` must be sorted.
pub fn lint_files(paths: &[PathBuf], options: &Options<'_>) -> Report {
    let targets: Vec<Target> = paths.iter().map(Target::named).collect();
    lint_targets(&targets, options)
}

/// Lints targets, which must be sorted by path; the report is in the same order.
pub fn lint_targets(targets: &[Target], options: &Options<'_>) -> Report {
    let known = Known {
        set: targets.iter().map(|t| t.path.as_os_str()).collect(),
        targets,
    };
    let linted = |path: &Path| known.contains(path);
    let next = AtomicUsize::new(0);
    let shared = Mutex::new(Pass::default());
    let work = || {
        let mut pass = Pass::default();
        let workspace = Workspace::new(options.files, &options.root).knowing(&known);
        loop {
            let from = next.fetch_add(TAKE, Ordering::Relaxed);
            let Some(take) = targets.get(from..).filter(|rest| !rest.is_empty()) else {
                break;
            };
            for (i, target) in take.iter().take(TAKE).enumerate() {
                if options.stopped() {
                    break;
                }
                pass.file(from + i, target, &workspace, options.rules, &linted);
            }
        }
        shared.lock().absorb(pass);
    };
    let threads = options
        .threads
        .clamp(1, targets.len().div_ceil(TAKE).max(1));
    if threads == 1 {
        work();
    } else {
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(work);
            }
        });
    }
    let mut pass = shared.into_inner();
    pass.cards.sort_by_key(|(i, _)| *i);
    pass.deferred.sort();
    pass.files.sort();
    let index = Index {
        cards: pass.cards.into_iter().map(|(_, card)| card).collect(),
    };
    let workspace = Workspace::new(options.files, &options.root);
    let mut findings = pass.findings;
    for path in &pass.deferred {
        if options.stopped() {
            break;
        }
        findings.extend(guarded(path, options.rules, || {
            workspace.load(path).map_or_else(
                |_| Vec::new(),
                |doc| lint_document(&doc, &workspace, options.rules, Some(&index), &linted),
            )
        }));
    }
    findings.extend(registry_wide::findings(&index, &workspace, options.rules));
    suppress::apply_late(&pass.waiting, &workspace, options.rules, &mut findings);
    let files = pass
        .files
        .into_iter()
        .filter_map(|i| targets.get(i).map(|t| t.path.clone()));
    finish(findings, files.collect(), options)
}

/// Adds to a report what the rules find that hold each manifest against an earlier revision
/// of it; `base` is the text of that revision.
pub fn compare_with_base(
    report: &mut Report,
    options: &Options<'_>,
    base: impl Fn(&Path) -> Option<String>,
) {
    let mut found = Vec::new();
    for path in &report.files {
        let Ok(new) = options.files.read(path) else {
            continue;
        };
        let new = Arc::new(Document::from_bytes(path, new));
        let mut findings = guarded(path, options.rules, || {
            base(path).map_or_else(Vec::new, |old| {
                registry_wide::compare_with_base(&Document::parse(path, old), &new, options.rules)
            })
        });
        retain_wanted(&mut findings, options);
        if !findings.is_empty() && report.source(path).is_none() {
            let at = report.sources.partition_point(|(p, _)| p < path);
            report.sources.insert(at, (path.clone(), new));
        }
        found.extend(findings);
    }
    report.findings.extend(found);
    report.findings.sort_by(Finding::order);
}

/// The targets of a run, as answers to questions about files.
struct Known<'t> {
    set: FxHashSet<&'t OsStr>,
    /// Sorted by the bytes of their paths, where they come from a walk.
    targets: &'t [Target],
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
        fn bytes(target: &Target) -> &[u8] {
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

/// What one thread found.
#[derive(Default)]
struct Pass {
    findings: Vec<Finding>,
    cards: Vec<(usize, Card)>,
    /// Operators wait until every manifest that they could name is known.
    deferred: Vec<PathBuf>,
    /// Indices of the targets that turned out to be manifests.
    files: Vec<usize>,
    /// Files with ignores of rules over all files.
    waiting: Vec<PathBuf>,
}

impl Pass {
    fn file(
        &mut self,
        order: usize,
        target: &Target,
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
        if suppress::waits(&doc) {
            self.waiting.push(path.to_owned());
        }
        self.cards.extend(Card::of(&doc).map(|card| (order, card)));
        if doc.doctype == Some(Doctype::Operator) {
            self.deferred.push(path.to_owned());
            return;
        }
        let findings = guarded(path, rules, || {
            lint_document(&doc, workspace, rules, None, linted)
        });
        self.findings.extend(findings);
    }

    fn absorb(&mut self, other: Pass) {
        self.findings.extend(other.findings);
        self.cards.extend(other.cards);
        self.deferred.extend(other.deferred);
        self.files.extend(other.files);
        self.waiting.extend(other.waiting);
    }
}

/// Runs the rules on one file; a defect of ours becomes a finding, and the other files are
/// still linted.
fn guarded(path: &Path, rules: &RuleSet, work: impl FnOnce() -> Vec<Finding>) -> Vec<Finding> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or_else(|_| {
        let rule = &document::INTERNAL_FAULT;
        let empty = Document::parse(path, String::new());
        let draft = Draft::new(
            rule,
            Place::Bytes(Span::default()),
            "a rule failed inside agentproto while it judged this file",
        );
        let severity = rules.severity(rule).unwrap_or(rule.severity);
        vec![conclude(&empty, draft, severity)]
    })
}

/// A finding for a file that could not become a document.
fn unreadable(path: &Path, error: &ReadError, rules: &RuleSet) -> Option<Finding> {
    let rule = match error {
        ReadError::TooLarge(_) => &document::FILE_TOO_LARGE,
        _ => &document::FILE_UNREADABLE,
    };
    let severity = rules.severity(rule)?;
    let empty = Document::parse(path, String::new());
    let draft = Draft::new(rule, Place::Bytes(Span::default()), error.to_string());
    Some(conclude(&empty, draft, severity))
}

/// Lints one document that is already read.
pub fn lint_document(
    doc: &Document,
    workspace: &Workspace<'_>,
    rules: &RuleSet,
    index: Option<&Index>,
    linted: &dyn Fn(&Path) -> bool,
) -> Vec<Finding> {
    let mut findings = document::problem_findings(doc, rules);
    if let (Some(root), Some(doctype)) = (&doc.root, doc.doctype) {
        let ctx = Context::new(doc, root, doctype, workspace, rules, index, linted);
        let open = doc.front.map_or(Span::default(), |front| front.open);
        // The last unknown key that was told: its mapping, and which finding it is.
        let mut last_unknown = None;
        for violation in shape::violations(shape::shapes_for(doctype), root, Place::Bytes(open)) {
            let told = ctx.told();
            if !fields::mistaken_key(&ctx, &violation) {
                match violation.rule.words {
                    Some(words) => words(&ctx, &violation),
                    None => ctx.report(shape::draft(&ctx, &violation)),
                }
            }
            // A rule may be off, or leave the word to another finding.
            if violation.keyword == Keyword::AdditionalProperties && ctx.told() > told {
                last_unknown = Some((violation.node, told));
            }
            if violation.unlisted > 0
                && let Some((mapping, finding)) = last_unknown
                && std::ptr::eq(mapping, violation.node)
            {
                ctx.say_unlisted(finding, violation.unlisted);
            }
        }
        for run in checks_for(doctype) {
            run(&ctx);
        }
        findings.extend(ctx.into_findings());
    }
    if findings.len() > 1 {
        drop_general_beside_specific(&mut findings);
    }
    suppress::apply(doc, rules, &mut findings);
    findings
}

type Run = fn(&Context<'_>);

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

/// One mistake, one finding: where a rule with a name of its own speaks about a place,
/// the general schema rules are silent about the same place. A word that YAML 1.1 reads
/// otherwise is no news where it is wrong in YAML 1.2 already.
fn drop_general_beside_specific(findings: &mut Vec<Finding>) {
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

fn retain_wanted(findings: &mut Vec<Finding>, options: &Options<'_>) {
    if let Some(skip) = options.skip {
        // Nobody can wish to take a file that was not judged for a clean one.
        findings.retain(|f| f.rule == &document::INTERNAL_FAULT || !skip(&f.file, f.rule));
    }
}

fn finish(mut findings: Vec<Finding>, files: Vec<PathBuf>, options: &Options<'_>) -> Report {
    retain_wanted(&mut findings, options);
    findings.sort_by(Finding::order);
    let mut quoted: Vec<PathBuf> = findings
        .iter()
        .flat_map(|f| std::iter::once(&f.file).chain(f.related.iter().map(|r| &r.file)))
        .cloned()
        .collect();
    quoted.sort();
    quoted.dedup();
    // Texts are read again rather than kept: most files of a large run have no findings.
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
