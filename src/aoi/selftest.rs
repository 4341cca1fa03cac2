//! Who judges the judge: every mutant of the mock tool must be caught by its own check, and
//! nothing may be found on conforming tools, however they look and however often they are tried.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use futures::stream::{self, StreamExt};
use serde::Serialize;

use super::model::{Check, Finding, Report, Verdict};
use super::probe::{self, Observe, Probe};
use super::rules::{self, Level};
use super::session::Options;
use super::{LintError, lint};
use crate::mock::mutants::aoi::{self as mutants, Mutant};
use crate::mock::variants::aoi as variants;

/// What may be done with the mock tool.
const PROBE: &str = include_str!("../../fixtures/aoi/mock.yaml");
/// Tools side by side, and runs of each.
const TOOLS: usize = 4;
const JOBS: usize = 3;
/// Checks that live on signals and pipes are tried so often on the conforming tool.
const REPEATS: usize = 20;
const QUICK_REPEATS: usize = 3;
const PIPES: Check = Check::Number(10);

#[derive(Clone, Debug, Serialize)]
pub struct MutantRow {
    pub mutant: String,
    pub check: Check,
    /// What it breaks.
    pub rule: String,
    pub wrong: String,
    /// Something was found that is not found on the correct tool.
    pub killed: bool,
    /// By its own check.
    pub attributed: bool,
    /// By the very rule that it breaks.
    pub named: bool,
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
    pub fn named(&self) -> usize {
        self.mutants.iter().filter(|m| m.named).count()
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

    let plain = try_one(&Trial::default(), stop).await?;
    let usual: BTreeSet<String> = blamed(&plain).map(key).collect();
    if wanted("conforming") {
        outcome
            .variants
            .push(row("conforming", "the tool as it is", &plain, &[]));
    }
    let picked = variants::VARIANTS.iter().filter(|v| wanted(v.name));
    let tried = stream::iter(picked.map(|variant| async move {
        let report = try_one(&Trial::variant(variant.name), stop).await;
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

    let usual = &usual;
    let picked = mutants::all().filter(|m| wanted(m.id));
    let tried = stream::iter(picked.map(|mutant| async move {
        let own = check_of(mutant.id);
        let mut found = Vec::new();
        // The own check on its own commands first; everything only where that finds nothing.
        if quick {
            let report = try_one(&Trial::narrow(mutant, own), stop).await?;
            found = news(&report, usual, mutant);
        }
        if !found.iter().any(|f| f.check == own) {
            let report = try_one(&Trial::whole(mutant), stop).await?;
            found = news(&report, usual, mutant);
        }
        Ok::<_, LintError>(MutantRow {
            mutant: mutant.id.to_owned(),
            check: own,
            rule: mutant.rule.to_owned(),
            wrong: mutant.wrong.to_owned(),
            killed: !found.is_empty(),
            attributed: found.iter().any(|f| f.check == own),
            named: found.iter().any(|f| f.rule == mutant.rule),
            found: found.iter().map(|f| f.rule.clone()).collect(),
        })
    }));
    let mut tried = tried.buffered(TOOLS);
    while let Some(done) = tried.next().await {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let row = done?;
        heard(&row.mutant);
        outcome.mutants.push(row);
    }

    if only.is_empty() {
        let mut first: Option<Vec<String>> = None;
        let repeats = if quick { QUICK_REPEATS } else { REPEATS };
        for _ in 0..repeats {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let trial = Trial {
                check: Some(PIPES),
                ..Trial::default()
            };
            let report = try_one(&trial, stop).await?;
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

/// One battery over the mock tool, or a part of one.
#[derive(Default)]
struct Trial {
    /// Words before the tool's own, which make it wrong or odd.
    words: Vec<String>,
    /// A mutant or variant that wants to be asked otherwise.
    name: &'static str,
    check: Option<Check>,
    /// Only this command, and what it needs; where it is none, `search`.
    command: Option<&'static str>,
}

impl Trial {
    fn variant(name: &'static str) -> Trial {
        Trial {
            words: vec!["--variant".to_owned(), name.to_owned()],
            name,
            ..Trial::default()
        }
    }

    fn whole(mutant: &'static Mutant) -> Trial {
        Trial {
            words: vec!["--mutant".to_owned(), mutant.id.to_owned()],
            name: mutant.id,
            ..Trial::default()
        }
    }

    fn narrow(mutant: &'static Mutant, own: Check) -> Trial {
        Trial {
            check: Some(own),
            command: Some(mutant.shows.first().copied().unwrap_or_default()),
            ..Trial::whole(mutant)
        }
    }

    /// What the probe file says, as it is true of this tool.
    fn fit(&self, probe: &mut Probe) {
        match self.name {
            "format-flag" => probe.machine_args = vec!["--format".into(), "jsonl".into()],
            "aoi-advisory-other-flag" => probe.machine_args = vec!["--jsonl".into()],
            // It has nothing of what is optional.
            "bare" => {
                probe.commands.retain(|command| command.name != "purge");
                for command in &mut probe.commands {
                    command.limit = None;
                    command.idempotency = None;
                    command.dry_run = None;
                    let names_limit = |line: &Vec<String>| line.iter().any(|w| w == "--limit");
                    command.malformed.retain(|line| !names_limit(line));
                }
                if let Some(Observe::Command { args, .. }) = &mut probe.observe {
                    args.truncate(1);
                }
            }
            _ => {}
        }
        let Some(name) = self.command else {
            return;
        };
        let known = |name: &str| probe.commands.iter().any(|command| command.name == name);
        let mut kept = vec![if known(name) { name } else { "search" }.to_owned()];
        let mut at = 0;
        while let Some(name) = kept.get(at).cloned() {
            at += 1;
            let command = probe.commands.iter().find(|command| command.name == name);
            kept.extend(command.and_then(|command| command.target_from.clone()));
        }
        probe
            .commands
            .retain(|command| kept.contains(&command.name));
    }
}

async fn try_one(trial: &Trial, stop: &'static AtomicBool) -> Result<Report, LintError> {
    let mut probe = probe()?;
    let own = crate::runtime::helper::own_path().map_err(LintError::Workplace)?;
    // The words of the probe file, with ourselves in front and the defect before the tool's own.
    let mut tool = vec![own.to_string_lossy().into_owned()];
    let said = probe.tool.iter().skip(1).map(String::as_str);
    for word in said {
        if word == "--" {
            tool.extend(trial.words.iter().cloned());
        }
        tool.push(word.to_owned());
    }
    probe.tool = tool;
    trial.fit(&mut probe);
    let options = Options {
        jobs: JOBS,
        only: trial.check.into_iter().collect(),
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

/// What the mutant has and the correct tool has not. What breaks a MUST must fail.
fn news(report: &Report, usual: &BTreeSet<String>, mutant: &Mutant) -> Vec<Finding> {
    let is_must = rules::find(mutant.rule).is_none_or(|rule| rule.level == Level::Must);
    let counts = |f: &&Finding| match mutant.verdict {
        // A tool that hides its state cannot be proven; that is what must be said of it.
        mutants::Verdict::NotVerified => {
            !matches!(f.verdict, Verdict::Pass | Verdict::NotApplicable)
        }
        _ if is_must => f.verdict == Verdict::Fail,
        _ => matches!(f.verdict, Verdict::Fail | Verdict::Warn),
    };
    let found = report.checks.iter().filter(counts);
    found
        .filter(|f| !usual.contains(&key(f)))
        .cloned()
        .collect()
}

fn row(name: &str, what: &str, report: &Report, allowed: &[&str]) -> VariantRow {
    let excused = |f: &&Finding| f.verdict == Verdict::Warn && allowed.contains(&f.rule.as_str());
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
