//! Targets that are made for the trial: bundles, and hosts of sessions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Semaphore;

use super::{Base, Count, Depth, JOBS, MutantRow, Outcome, Trial, VariantRow, judge, tally};
use crate::{lifecycle, sessions};
use agentproto_harness::model::Report;
use agentproto_runtime::context::Sandboxing;

/// What is wrong with one of them: its id, the statement that it breaks, and how.
type Wrong = (&'static str, &'static str, &'static str);
/// One that conforms: its id, and what is odd about it.
type Odd = (&'static str, &'static str);

/// A kind of targets, each found by its place.
pub trait Field: Send + Sync + 'static {
    const NAME: &'static str;
    /// Trials side by side.
    const AT_ONCE: usize;

    fn mutants(&self) -> Vec<Wrong>;
    fn variants(&self) -> Vec<Odd>;
    fn mutant(
        &self,
        at: usize,
        only: &[String],
    ) -> impl Future<Output = Result<Report, String>> + Send;
    fn variant(&self, at: usize) -> impl Future<Output = Result<Report, String>> + Send;
}

pub struct Bundles {
    mutants: Vec<lifecycle::Mutant>,
    variants: Vec<lifecycle::Variant>,
}

impl Bundles {
    pub fn new() -> Bundles {
        Bundles {
            mutants: lifecycle::mutants(),
            variants: lifecycle::variants(),
        }
    }
}

impl Field for Bundles {
    const NAME: &'static str = "lifecycle";
    const AT_ONCE: usize = JOBS;

    fn mutants(&self) -> Vec<Wrong> {
        let all = self.mutants.iter();
        all.map(|m| (m.id, m.requirement, m.wrong)).collect()
    }

    fn variants(&self) -> Vec<Odd> {
        self.variants.iter().map(|v| (v.id, v.what)).collect()
    }

    async fn mutant(&self, at: usize, only: &[String]) -> Result<Report, String> {
        let mutant = self.mutants.get(at).ok_or("no such mutant")?;
        lifecycle::trial(&mutant.bundle, only, JOBS, Sandboxing::Auto).await
    }

    async fn variant(&self, at: usize) -> Result<Report, String> {
        let variant = self.variants.get(at).ok_or("no such variant")?;
        lifecycle::trial(&variant.bundle, &[], JOBS, Sandboxing::Auto).await
    }
}

pub struct Hosts {
    pub stage: sessions::Stage,
    mutants: Vec<sessions::Mutant>,
    variants: Vec<sessions::Variant>,
}

impl Hosts {
    pub fn new() -> Result<Hosts, String> {
        Ok(Hosts {
            stage: sessions::Stage::open()?,
            mutants: sessions::mutants(),
            variants: sessions::variants(),
        })
    }
}

impl Field for Hosts {
    const NAME: &'static str = "sessions";
    /// They are in this process, and mostly wait.
    const AT_ONCE: usize = 6;

    fn mutants(&self) -> Vec<Wrong> {
        let all = self.mutants.iter();
        all.map(|m| (m.id, m.requirement, m.wrong)).collect()
    }

    fn variants(&self) -> Vec<Odd> {
        self.variants.iter().map(|v| (v.id, v.what)).collect()
    }

    async fn mutant(&self, at: usize, only: &[String]) -> Result<Report, String> {
        let mutant = self.mutants.get(at).ok_or("no such mutant")?;
        self.stage.trial(&mutant.host, only, JOBS).await
    }

    async fn variant(&self, at: usize) -> Result<Report, String> {
        let variant = self.variants.get(at).ok_or("no such variant")?;
        self.stage.trial(&variant.host, &[], JOBS).await
    }
}

/// Their suite over those that are wrong, and those that are right.
pub async fn run<F: Field>(
    field: &Arc<F>,
    trial: &Trial,
    stop: &'static AtomicBool,
    heard: &Count,
) -> Outcome {
    let mut outcome = Outcome::default();
    let depth = trial.depth;
    let mutants = field.mutants().into_iter().enumerate();
    let mutants: Vec<(usize, Wrong)> = mutants
        .filter(|(_, (id, requirement, _))| trial.has(&[id, requirement, F::NAME]))
        .collect();
    let variants = field.variants().into_iter().enumerate();
    let variants: Vec<(usize, Odd)> = variants
        .filter(|(_, (id, _))| trial.has(&[id, F::NAME]))
        .collect();
    heard.expect(mutants.len() + variants.len());
    let places = Arc::new(Semaphore::new(F::AT_ONCE));
    let mut running = tokio::task::JoinSet::new();
    for (at, (id, what)) in variants {
        let (places, field) = (Arc::clone(&places), Arc::clone(field));
        running.spawn(async move {
            let _place = places.acquire_owned().await;
            let report = match stop.load(Ordering::Relaxed) {
                true => Err("stopped".to_owned()),
                false => field.variant(at).await,
            };
            let (passed, blamed) = match report {
                Ok(report) => tally(&report.results),
                Err(error) => (0, vec![error]),
            };
            VariantRow {
                mock: F::NAME,
                variant: id.to_owned(),
                what: what.to_owned(),
                passed,
                blamed,
            }
        });
    }
    while let Some(ended) = running.join_next().await {
        let Ok(row) = ended else { continue };
        heard.one(&row.variant);
        outcome.variants.push(row);
    }
    let mut running = tokio::task::JoinSet::new();
    for (at, (id, requirement, wrong)) in mutants {
        let (places, field) = (Arc::clone(&places), Arc::clone(field));
        running.spawn(async move {
            let _place = places.acquire_owned().await;
            let mut row = MutantRow::new(F::NAME, id, requirement, wrong);
            let own = [requirement.to_owned()];
            let rounds: &[&[String]] = match depth {
                Depth::Quick => &[&own, &[]],
                Depth::Full => &[&[]],
            };
            for only in rounds {
                if row.attributed || stop.load(Ordering::Relaxed) {
                    break;
                }
                if let Ok(report) = field.mutant(at, only).await {
                    judge(&mut row, &Base::default(), &report.results);
                }
            }
            row
        });
    }
    let mut rows = Vec::new();
    while let Some(ended) = running.join_next().await {
        let Ok(row) = ended else { continue };
        heard.one(&row.mutant);
        rows.push(row);
    }
    rows.sort_by(|a, b| a.mutant.cmp(&b.mutant));
    outcome.mutants.extend(rows);
    outcome
}
