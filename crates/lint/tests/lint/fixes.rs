//! Applies every fix to its mutant. The finding must be gone and no new one may appear. Comments
//! and line breaks must be kept, and a second run must change nothing.

use std::collections::BTreeMap;

use crate::common::cases::{Case, cases};
use crate::common::{Bundle, base_dir, mark};
use agentproto_lint::edits::apply_edits;
use agentproto_lint::{
    Finding, FixKind, FixOutcome, LintOptions, RuleSet, Safety, Severity, fix_documents,
    lint_files, registry,
};
use agentproto_manifest::Document;
use agentproto_manifest::comments::comments;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Variant {
    Plain,
    Crlf,
    Bom,
}

impl Variant {
    fn of(self, text: &str) -> String {
        match self {
            Variant::Plain => text.to_owned(),
            Variant::Crlf => text.replace("\r\n", "\n").replace('\n', "\r\n"),
            Variant::Bom => format!("\u{feff}{}", text.trim_start_matches('\u{feff}')),
        }
    }
}

/// The mutant, with the finding's file converted to a variant.
fn written(case: &Case, variant: Variant) -> Bundle {
    let mut bundle = case.bundle();
    if let Some(file) = case.finding_file() {
        let text = variant.of(&bundle.text(file));
        bundle.set(file, Some(text));
    }
    bundle
}

/// The finding that the mutant is expected to have.
fn own<'f>(case: &Case, bundle: &Bundle, findings: &'f [Finding]) -> Option<&'f Finding> {
    findings.iter().find(|f| {
        f.rule.slug == case.rule
            && Some(&bundle.name_of(f)) == case.finding_file()
            && f.pointer == case.at.as_deref().unwrap_or("")
    })
}

fn tally(findings: &[Finding], least: Severity) -> BTreeMap<(String, &'static str), usize> {
    let mut counts = BTreeMap::new();
    for f in findings
        .iter()
        .filter(|f| f.counts() && f.severity >= least)
    {
        let key = (f.file.display().to_string(), f.rule.slug);
        *counts.entry(key).or_insert(0) += 1;
    }
    counts
}

fn comment_texts(text: &str) -> Option<Vec<String>> {
    let doc = Document::parse("AGENT-CLI.md", text.to_owned());
    doc.root.as_ref()?;
    let mut texts: Vec<String> = comments(&doc)
        .iter()
        .map(|span| doc.slice(*span).to_owned())
        .collect();
    texts.sort();
    Some(texts)
}

/// Checks the fix of a mutant. `Ok(false)` if there is none.
fn check_fix(case: &Case, variant: Variant) -> Result<bool, String> {
    let mut bundle = written(case, variant);
    let paths = case.paths(&bundle);
    let rules = RuleSet::profile_defaults(case.profile());
    let run = |bundle: &Bundle, unsafe_too: bool| -> FixOutcome {
        fix_documents(
            &paths,
            &LintOptions::new(&rules, &bundle.files, &bundle.dir),
            unsafe_too,
        )
    };
    let before = lint_files(
        &paths,
        &LintOptions::new(&rules, &bundle.files, &bundle.dir),
    )
    .findings;
    let Some(finding) = own(case, &bundle, &before) else {
        return Ok(false);
    };
    let Some(fix) = &finding.fix else {
        return Ok(false);
    };
    let declared = match fix.safety {
        Safety::Safe => finding.rule.fix == FixKind::Safe,
        Safety::Unsafe => finding.rule.fix != FixKind::None,
    };
    if !declared {
        return Err(format!(
            "has a {} fix that the rule does not declare",
            fix.safety.as_str()
        ));
    }
    let unsafe_too = fix.safety == Safety::Unsafe;
    let outcome = run(&bundle, unsafe_too);
    let Some(changed) = outcome.changed.iter().find(|c| c.path == finding.file) else {
        let text = apply_edits(&bundle.text(&bundle.name_of(finding)), &fix.edits);
        bundle.files.texts.insert(finding.file.clone(), text);
        let options = LintOptions::new(&rules, &bundle.files, &bundle.dir);
        let then: Vec<String> = lint_files(&paths, &options)
            .findings
            .iter()
            .map(|f| mark(&bundle, f))
            .collect();
        return Err(format!(
            "the fix `{}` is not applied; findings with it: {then:?}",
            fix.title
        ));
    };
    let key = (finding.file.display().to_string(), finding.rule.slug);
    let count = |findings: &[Finding]| {
        tally(findings, Severity::Info)
            .get(&key)
            .copied()
            .unwrap_or(0)
    };
    let after = &outcome.report.findings;
    let shown = || format!("{}\n--- after\n{}", fix.title, changed.new);
    if count(after) >= count(&before) {
        return Err(format!("the finding is still there: {}", shown()));
    }
    let old = tally(&before, Severity::Warning);
    let new = tally(after, Severity::Warning);
    if let Some(more) = new.iter().find(|(k, n)| old.get(k).is_none_or(|o| *n > o)) {
        return Err(format!("new finding: {more:?}: {}", shown()));
    }
    if case.rule != "ignore-unused"
        && let (Some(old), Some(new)) = (comment_texts(&changed.old), comment_texts(&changed.new))
        && !old.iter().all(|comment| new.contains(comment))
    {
        return Err(format!("comments are lost: {}", shown()));
    }
    let crlf = changed.new.matches("\r\n").count();
    if variant == Variant::Crlf && crlf != changed.new.matches('\n').count() {
        return Err(format!("line breaks are mixed: {:?}", changed.new));
    }
    for changed in &outcome.changed {
        bundle
            .files
            .texts
            .insert(changed.path.clone(), Some(changed.new.clone()));
    }
    let again = run(&bundle, unsafe_too);
    if !again.changed.is_empty() || again.applied != 0 {
        return Err(format!("a second run changes more: {:?}", again.changed));
    }
    Ok(true)
}

fn name(case: &Case) -> String {
    let file = case.finding_file().map_or("", String::as_str);
    let at = case.at.as_deref().unwrap_or("");
    format!("{}@{}/{file}#{at}", case.rule, case.bundle)
}

/// Fixes that must not be applied. The rule adds an empty block that denies all network access, but
/// the rest of the bundle needs it.
const NOT_APPLIED: [&str; 1] = ["sb29-required-blocks@forge/CLI.md#/sandbox"];

/// The results for all variants of a mutant. Empty if it has no fix.
fn results_of(case: &Case) -> Vec<(Variant, Result<bool, String>)> {
    let plain = check_fix(case, Variant::Plain);
    if plain == Ok(false) {
        return Vec::new();
    }
    vec![
        (Variant::Plain, plain),
        (Variant::Crlf, check_fix(case, Variant::Crlf)),
        (Variant::Bom, check_fix(case, Variant::Bom)),
    ]
}

#[test]
fn every_fix_removes_its_finding_and_adds_none() {
    let cases = cases();
    let kills: Vec<&Case> = cases
        .iter()
        .filter(|c| !c.spare && c.odd.is_empty())
        .collect();
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let results: Vec<_> = std::thread::scope(|scope| {
        let chunks = kills.chunks(kills.len().div_ceil(threads).max(1));
        let work: Vec<_> = chunks
            .map(|chunk| {
                scope.spawn(|| {
                    chunk
                        .iter()
                        .map(|c| (*c, results_of(c)))
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        work.into_iter()
            .flat_map(|w| w.join().expect("a result"))
            .collect()
    });
    let mut wrong = Vec::new();
    let mut fixed = Vec::new();
    for (case, results_of) in &results {
        let name = name(case);
        for (variant, verdict) in results_of {
            match verdict {
                Ok(true) => fixed.push(case.rule.as_str()),
                Ok(false) => wrong.push(format!("{name} {variant:?}: no fix")),
                Err(_) if NOT_APPLIED.contains(&name.as_str()) => {}
                Err(why) => wrong.push(format!("{name} {variant:?}: {why}")),
            }
        }
    }
    for rule in registry::rules() {
        let needed = matches!(rule.fix, FixKind::Safe | FixKind::Unsafe);
        if needed && !fixed.contains(&rule.slug) {
            wrong.push(format!("{}: no mutant is fixed", rule.slug));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} problems\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn conforming_bundles_are_not_changed() {
    for entry in std::fs::read_dir(base_dir())
        .expect("fixtures/base")
        .flatten()
    {
        let bundle = Bundle::new(&entry.file_name().to_string_lossy());
        let rules = RuleSet::profile_defaults(agentproto_lint::Profile::Default);
        let options = LintOptions::new(&rules, &bundle.files, &bundle.dir);
        let outcome = fix_documents(&bundle.manifests(), &options, true);
        assert!(outcome.changed.is_empty(), "{:?}", outcome.changed);
    }
}
