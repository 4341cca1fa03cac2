//! Applies fixes. Every change is first tried in memory. It is kept only if linting the result
//! shows fewer problems, so a failed fix never damages a file.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use crate::edits::apply_edits;
use crate::engine::{LintOptions, LintTarget, lint_targets};
use crate::finding::{Edit, Finding, Fix, Report, Safety};
use crate::rule::Severity;
use agentproto_manifest::{Document, Overlay};

/// Maximum number of rounds. A fix that conflicts with another one (two edits of one line) is
/// applied in the next round. More rounds than this mean that two rules undo each other's fixes.
const MAX_ROUNDS: usize = 10;

/// A file that was changed by fixes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedFile {
    /// Path of the file.
    pub path: PathBuf,
    /// The text before.
    pub old: String,
    /// The text after.
    pub new: String,
}

/// The result of fixing files.
#[derive(Debug, Default)]
pub struct FixOutcome {
    /// Changed files in path order. They are not written to disk: the caller does that.
    pub changed: Vec<ChangedFile>,
    /// Number of applied fixes.
    pub applied: usize,
    /// The report for the changed texts: the findings that remain.
    pub report: Report,
}

/// Applies fixes in order, each completely or not at all. A fix that overlaps an earlier one is
/// skipped. Returns the new text and the indices of the applied and of the skipped fixes.
pub fn apply(text: &str, fixes: &[&Fix]) -> (String, Vec<usize>, Vec<usize>) {
    let mut taken: Vec<&Edit> = Vec::new();
    let (mut applied, mut skipped) = (Vec::new(), Vec::new());
    for (i, fix) in fixes.iter().enumerate() {
        let free = !fix.edits.is_empty()
            && fix
                .edits
                .iter()
                .all(|edit| taken.iter().all(|other| !collide(edit, other)))
            && apply_edits(text, &fix.edits).is_some();
        if free {
            taken.extend(&fix.edits);
            applied.push(i);
        } else {
            skipped.push(i);
        }
    }
    let edits: Vec<Edit> = taken.into_iter().cloned().collect();
    match apply_edits(text, &edits) {
        Some(new) => (new, applied, skipped),
        None => (text.to_owned(), Vec::new(), (0..fixes.len()).collect()),
    }
}

fn collide(a: &Edit, b: &Edit) -> bool {
    if a.span.is_empty() || b.span.is_empty() {
        // Two insertions of whole lines at one place are both applied. Any other adjacent edits may
        // conflict.
        let new_line = |e: &Edit| e.span.is_empty() && e.text.starts_with(['\n', '\r']);
        return a.span.start <= b.span.end
            && b.span.start <= a.span.end
            && !(new_line(a) && new_line(b));
    }
    a.span.start < b.span.end && b.span.start < a.span.end
}

/// Fixes files that are all manifests. `paths` must be sorted. See [`fix_targets`].
pub fn fix_documents(
    paths: &[PathBuf],
    options: &LintOptions<'_>,
    include_unsafe: bool,
) -> FixOutcome {
    let targets: Vec<LintTarget> = paths.iter().map(LintTarget::named).collect();
    fix_targets(&targets, options, include_unsafe)
}

/// Lints, applies fixes and lints again, until no fix can be applied. A second run over the result
/// changes nothing. `targets` must be sorted by path.
///
/// `include_unsafe` also applies fixes that may change the meaning of a manifest.
pub fn fix_targets(
    targets: &[LintTarget],
    options: &LintOptions<'_>,
    include_unsafe: bool,
) -> FixOutcome {
    let mut originals = BTreeMap::new();
    let mut texts: BTreeMap<PathBuf, String> = BTreeMap::new();
    let mut report = lint_targets(targets, options);
    let mut applied = 0;
    for _ in 0..MAX_ROUNDS {
        if options.stopped() {
            break;
        }
        let mut round = Round::new(targets, options, &texts, &report, include_unsafe);
        round.accept(0..round.candidates.len());
        let Some((found, changes)) = round.best else {
            break;
        };
        applied += round.accepted.len();
        for (path, new) in changes {
            if let Some(doc) = report.source(&path) {
                originals
                    .entry(path.clone())
                    .or_insert_with(|| doc.text.clone());
            }
            texts.insert(path, new);
        }
        report = found;
    }
    let changed = originals
        .into_iter()
        .filter_map(|(path, old)| {
            let new = texts.remove(&path)?;
            (new != old).then_some(ChangedFile { path, old, new })
        })
        .collect();
    FixOutcome {
        changed,
        applied,
        report,
    }
}

struct Candidate<'r> {
    finding: &'r Finding,
    fix: &'r Fix,
}

/// One round: the fixes of a report, and which of them are accepted.
struct Round<'r> {
    targets: &'r [LintTarget],
    options: &'r LintOptions<'r>,
    texts: &'r BTreeMap<PathBuf, String>,
    report: &'r Report,
    before: Counts<'r>,
    candidates: Vec<Candidate<'r>>,
    accepted: Vec<usize>,
    /// The report with all accepted fixes applied, and the resulting texts.
    best: Option<(Report, Vec<(PathBuf, String)>)>,
}

impl<'r> Round<'r> {
    fn new(
        targets: &'r [LintTarget],
        options: &'r LintOptions<'r>,
        texts: &'r BTreeMap<PathBuf, String>,
        report: &'r Report,
        include_unsafe: bool,
    ) -> Self {
        let offered: Vec<Candidate<'r>> = report
            .findings
            .iter()
            .filter(|f| f.counts() && report.files.binary_search(&f.file).is_ok())
            // Nothing is written through a symbolic link.
            .filter(|f| f.fix.is_none() || options.files.link_target(&f.file).is_none())
            .filter_map(|finding| {
                let fix = finding.fix.as_ref()?;
                (fix.safety == Safety::Safe || include_unsafe).then_some(Candidate { finding, fix })
            })
            .collect();
        Round {
            targets,
            options,
            texts,
            report,
            before: Counts::of(&report.findings),
            candidates: without_collisions(offered, report),
            accepted: Vec::new(),
            best: None,
        }
    }

    /// Accepts as many candidates as possible: all of them, or else those that can be accepted from
    /// each half.
    fn accept(&mut self, part: std::ops::Range<usize>) {
        if part.is_empty() {
            return;
        }
        let trial: Vec<usize> = self.accepted.iter().copied().chain(part.clone()).collect();
        if let Some(best) = self.attempt(&trial) {
            self.best = Some(best);
            self.accepted = trial;
        } else if part.len() > 1 {
            let middle = part.start + part.len() / 2;
            self.accept(part.start..middle);
            self.accept(middle..part.end);
        }
    }

    fn attempt(&self, trial: &[usize]) -> Option<(Report, Vec<(PathBuf, String)>)> {
        let selected = || trial.iter().filter_map(|i| self.candidates.get(*i));
        let mut by_file: BTreeMap<&Path, Vec<&Fix>> = BTreeMap::new();
        for candidate in selected() {
            by_file
                .entry(&candidate.finding.file)
                .or_default()
                .push(candidate.fix);
        }
        let mut files = Overlay::new(self.options.files);
        for (path, text) in self.texts {
            files.texts.insert(path.clone(), Some(text.clone()));
        }
        let mut changes = Vec::with_capacity(by_file.len());
        for (path, fixes) in by_file {
            let old = self.report.source(path)?;
            let (new, _, skipped) = apply(&old.text, &fixes);
            if !skipped.is_empty() || !still_parses(old, &new) {
                return None;
            }
            files.texts.insert(path.to_owned(), Some(new.clone()));
            changes.push((path.to_owned(), new));
        }
        let options = LintOptions {
            rules: self.options.rules,
            files: &files,
            root: self.options.root.clone(),
            threads: self.options.threads,
            stop: self.options.stop,
            skip: self.options.skip,
        };
        let after = lint_targets(self.targets, &options);
        // The report of a stopped run is incomplete.
        if options.stopped() {
            return None;
        }
        let fixed = Counts::of(selected().map(|c| c.finding));
        Counts::of(&after.findings)
            .is_better_than(&self.before, &fixed)
            .then_some((after, changes))
    }
}

/// The fixes that can be applied together. Of two that overlap, the first is kept.
fn without_collisions<'r>(offered: Vec<Candidate<'r>>, report: &Report) -> Vec<Candidate<'r>> {
    let mut by_file: BTreeMap<&Path, Vec<Candidate<'r>>> = BTreeMap::new();
    for candidate in offered {
        let file: &'r Path = &candidate.finding.file;
        by_file.entry(file).or_default().push(candidate);
    }
    let mut kept = Vec::new();
    for (path, candidates) in by_file {
        let Some(doc) = report.source(path) else {
            continue;
        };
        let fixes: Vec<&Fix> = candidates.iter().map(|c| c.fix).collect();
        let (_, applied, _) = apply(&doc.text, &fixes);
        let mut applied = applied.into_iter().peekable();
        for (i, candidate) in candidates.into_iter().enumerate() {
            if applied.next_if_eq(&i).is_some() {
                kept.push(candidate);
            }
        }
    }
    kept
}

fn still_parses(old: &Document, new: &str) -> bool {
    let after = Document::parse(old.path.clone(), new.to_owned());
    after.root.is_some() >= old.root.is_some() && after.problems.len() <= old.problems.len()
}

type Key<'r> = (&'r Path, &'static str);

/// Number of findings per file and rule. Fixes move lines and pointers, so the findings of two runs
/// can only be compared by count.
#[derive(Default)]
struct Counts<'r> {
    all: HashMap<Key<'r>, usize>,
    /// Errors and warnings.
    errors_and_warnings: HashMap<Key<'r>, usize>,
}

impl<'r> Counts<'r> {
    fn of(findings: impl IntoIterator<Item = &'r Finding>) -> Self {
        let mut counts = Counts::default();
        for finding in findings.into_iter().filter(|f| f.counts()) {
            let key = (finding.file.as_path(), finding.rule.slug);
            *counts.all.entry(key).or_default() += 1;
            if finding.severity >= Severity::Warning {
                *counts.errors_and_warnings.entry(key).or_default() += 1;
            }
        }
        counts
    }

    /// Whether no errors or warnings were added, and all findings of `fixed` are gone.
    fn is_better_than(&self, before: &Counts<'_>, fixed: &Counts<'_>) -> bool {
        let count =
            |map: &HashMap<Key<'_>, usize>, key: &Key<'_>| map.get(key).copied().unwrap_or(0);
        self.errors_and_warnings
            .iter()
            .all(|(key, now)| *now <= count(&before.errors_and_warnings, key))
            && fixed
                .all
                .iter()
                .all(|(key, gone)| count(&self.all, key) + gone <= count(&before.all, key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use agentproto_manifest::Span;

    fn fix(edits: &[(usize, usize, &str)]) -> Fix {
        Fix {
            safety: Safety::Safe,
            title: String::new(),
            edits: edits
                .iter()
                .map(|(start, end, text)| Edit {
                    span: Span::new(*start, *end),
                    text: (*text).to_owned(),
                })
                .collect(),
        }
    }

    fn applied(text: &str, fixes: &[Fix]) -> (String, Vec<usize>, Vec<usize>) {
        apply(text, &fixes.iter().collect::<Vec<_>>())
    }

    #[test]
    fn overlapping_fixes_are_skipped() {
        let fixes = [
            fix(&[(4, 5, "E")]),
            fix(&[(0, 2, "A"), (6, 6, "!")]),
            fix(&[(1, 3, "x")]),
        ];
        assert_eq!(
            applied("abcdef", &fixes),
            ("AcdEf!".to_owned(), vec![0, 1], vec![2])
        );
    }

    #[test]
    fn line_insertions_at_one_place_are_all_applied() {
        let lines = [fix(&[(1, 1, "\nb")]), fix(&[(1, 1, "\nc")])];
        assert_eq!(applied("a\n", &lines).0, "a\nb\nc\n");
        let commas = [fix(&[(1, 1, ", b")]), fix(&[(1, 1, ", c")])];
        assert_eq!(applied("a", &commas), ("a, b".to_owned(), vec![0], vec![1]));
    }

    #[test]
    fn edits_outside_the_text_or_inside_a_character_are_skipped() {
        let fixes = [fix(&[(9, 10, "x")]), fix(&[(1, 2, "x")]), fix(&[])];
        assert_eq!(
            applied("ü", &fixes),
            ("ü".to_owned(), vec![], vec![0, 1, 2])
        );
    }
}
