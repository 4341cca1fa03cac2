//! Who judges the judge: every mutant of the mock tool must be caught by its own check, and
//! nothing may be found on conforming tools, however they look and however often they are tried.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use futures::stream::{self, StreamExt};
use serde::Serialize;

use super::model::{Check, Finding, Report, Verdict};
use super::probe::{self, Probe};
use super::session::Options;
use super::{LintError, lint};
use crate::mock::mutants::aoi as mutants;
use crate::mock::variants::aoi as variants;

/// What may be done with the mock tool.
const PROBE: &str = include_str!("../../fixtures/aoi/mock.yaml");
/// Tools side by side, and runs of each.
const TOOLS: usize = 2;
const JOBS: usize = 3;
/// Checks that live on signals and pipes are tried so often on the conforming tool.
const REPEATS: usize = 20;
const PIPES: Check = Check::Number(10);

#[derive(Clone, Debug, Serialize)]
pub struct MutantRow {
    pub mutant: String,
    pub check: Check,
    pub wrong: String,
    /// Something was found that is not found on the correct tool.
    pub killed: bool,
    /// By its own check.
    pub attributed: bool,
    /// Rules that found something.
    pub found: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
pub struct VariantRow {
    pub variant: String,
    pub what: String,
    /// Pairs that were proven, so that nothing is proven by nothing.
    pub proven: usize,
    pub blamed: Vec<String>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Outcome {
    pub mutants: Vec<MutantRow>,
    pub variants: Vec<VariantRow>,
    /// Of so many repeats of the checks of signals and pipes…
    pub repeats: usize,
    /// …so many said something else than the first.
    pub flakes: usize,
    pub wall_ms: f64,
    pub partial: bool,
}

impl Outcome {
    pub fn killed(&self) -> usize {
        self.mutants.iter().filter(|m| m.killed).count()
    }
    pub fn attributed(&self) -> usize {
        self.mutants.iter().filter(|m| m.attributed).count()
    }
    pub fn false_findings(&self) -> usize {
        self.variants.iter().map(|v| v.blamed.len()).sum()
    }
    /// Nothing of what was tried went wrong.
    pub fn is_clean(&self) -> bool {
        self.killed() == self.mutants.len() && self.false_findings() == 0 && !self.partial
    }

    /// Everything killed, nearly all by their own check, nobody blamed, nothing left to chance.
    pub fn is_sound(&self) -> bool {
        let (all, own) = (self.mutants.len(), self.attributed());
        !self.partial
            && all > 0
            && self.killed() == all
            && own * 100 >= all * 98
            && self.flakes == 0
            && self
                .variants
                .iter()
                .all(|v| v.blamed.is_empty() && v.proven > 0)
    }
}

/// Only these: ids of mutants, names of variants; nothing means everything.
pub async fn run(
    only: &[String],
    quick: bool,
    stop: &'static AtomicBool,
    heard: &(dyn Fn(&str) + Sync),
) -> Result<Outcome, LintError> {
    let begun = Instant::now();
    let wanted = |name: &str| only.is_empty() || only.iter().any(|one| one == name);
    let mut outcome = Outcome::default();

    let plain = try_one(&[], None, None, stop).await?;
    let usual: BTreeSet<String> = blamed(&plain).map(key).collect();
    if wanted("conforming") {
        outcome
            .variants
            .push(row("conforming", "the tool as it is", &plain, None));
    }
    let picked = variants::VARIANTS.iter().filter(|v| wanted(v.name));
    let tried = stream::iter(picked.map(|variant| async move {
        let words = ["--variant", variant.name];
        let report = try_one(&words, Some(variant.name), None, stop).await;
        report.map(|report| (variant, report))
    }));
    let mut tried = tried.buffered(TOOLS);
    while let Some(done) = tried.next().await {
        let (variant, report) = done?;
        heard(variant.name);
        let allowed = variant.warns;
        outcome
            .variants
            .push(row(variant.name, variant.what, &report, allowed));
    }

    let picked = mutants::all().filter(|m| wanted(m.id));
    let tried = stream::iter(picked.map(|mutant| async move {
        let own = check_of(mutant.id);
        // The own check first; everything only where that finds nothing.
        let words = ["--mutant", mutant.id];
        let first = quick.then_some(own);
        let report = try_one(&words, None, first, stop).await;
        report.map(|report| (mutant, own, report))
    }));
    let mut tried = tried.buffered(TOOLS);
    while let Some(done) = tried.next().await {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let (mutant, own, mut report) = done?;
        heard(mutant.id);
        let mut found = news(&report, &usual, mutant.verdict);
        if quick && !found.iter().any(|f| f.check == own) {
            report = try_one(&["--mutant", mutant.id], None, None, stop).await?;
            found = news(&report, &usual, mutant.verdict);
        }
        outcome.mutants.push(MutantRow {
            mutant: mutant.id.to_owned(),
            check: own,
            wrong: mutant.wrong.to_owned(),
            killed: !found.is_empty(),
            attributed: found.iter().any(|f| f.check == own),
            found: found.iter().map(|f| f.rule.clone()).collect(),
        });
    }

    if only.is_empty() {
        let mut first: Option<Vec<String>> = None;
        for _ in 0..REPEATS {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let report = try_one(&[], None, Some(PIPES), stop).await?;
            let said = report
                .checks
                .iter()
                .map(|f| format!("{}={}", key(f), f.verdict.as_str()));
            let said: Vec<String> = said.collect();
            outcome.repeats += 1;
            match &first {
                Some(first) if *first != said => outcome.flakes += 1,
                Some(_) => {}
                None => first = Some(said),
            }
        }
    }
    outcome.partial = stop.load(Ordering::Relaxed);
    outcome.wall_ms = begun.elapsed().as_secs_f64() * 1000.0;
    Ok(outcome)
}

/// One battery over the mock tool, or one check of it.
async fn try_one(
    words: &[&str],
    variant: Option<&str>,
    check: Option<Check>,
    stop: &'static AtomicBool,
) -> Result<Report, LintError> {
    let mut probe = probe()?;
    let own = crate::runtime::helper::own_path().map_err(LintError::Workplace)?;
    // The words of the probe file, with ourselves in front and the defect before the tool's own.
    let mut tool = vec![own.to_string_lossy().into_owned()];
    let said = probe.tool.iter().skip(1).map(String::as_str);
    for word in said {
        if word == "--" {
            tool.extend(words.iter().map(|word| (*word).to_owned()));
        }
        tool.push(word.to_owned());
    }
    probe.tool = tool;
    if variant == Some("format-flag") {
        probe.machine_args = vec!["--format".into(), "jsonl".into()];
    }
    let options = Options {
        jobs: JOBS,
        only: check.map(|check| vec![check]).unwrap_or_default(),
        ..Options::default()
    };
    lint(probe, options, stop).await
}

fn probe() -> Result<Probe, LintError> {
    probe::parse(PROBE, Path::new("/")).map_err(|mistakes| {
        let first = mistakes
            .first()
            .map(|m| format!("{}: {}", m.line, m.message));
        LintError::NoProgram(first.unwrap_or_default())
    })
}

/// Broken rules, whatever their weight.
fn blamed(report: &Report) -> impl Iterator<Item = &Finding> {
    let is_broken =
        |f: &&Finding| matches!(f.verdict, Verdict::Fail | Verdict::Warn | Verdict::Error);
    report.checks.iter().filter(is_broken)
}

fn key(finding: &Finding) -> String {
    format!("{} {}", finding.rule, finding.command)
}

/// What the mutant has and the correct tool has not.
fn news(report: &Report, usual: &BTreeSet<String>, expected: mutants::Verdict) -> Vec<Finding> {
    let counts = |f: &&Finding| match expected {
        // A tool that hides its state cannot be proven; that is what must be said of it.
        mutants::Verdict::NotVerified => {
            !matches!(f.verdict, Verdict::Pass | Verdict::NotApplicable)
        }
        _ => matches!(f.verdict, Verdict::Fail | Verdict::Warn),
    };
    let found = report.checks.iter().filter(counts);
    found
        .filter(|f| !usual.contains(&key(f)))
        .cloned()
        .collect()
}

fn row(name: &str, what: &str, report: &Report, allowed: Option<&str>) -> VariantRow {
    let excused = |f: &&Finding| f.verdict == Verdict::Warn && allowed.is_some();
    VariantRow {
        variant: name.to_owned(),
        what: what.to_owned(),
        proven: report.summary.pairs_proven,
        blamed: blamed(report)
            .filter(|f| !excused(f))
            .map(|f| format!("{} {}: {}", f.rule, f.command, f.message))
            .collect(),
    }
}

/// `aoi-03-…` is of check 3.
fn check_of(id: &str) -> Check {
    let number = id.split('-').nth(1).and_then(|part| part.parse().ok());
    number.map_or(Check::Advisory, Check::Number)
}
