//! Self-test of generated targets: bundles and session hosts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Base, Depth, JOBS, MutantRow, Trial, VariantRow};
use crate::frame::Subject;
use crate::{lifecycle, sessions};
use agentproto_harness::model::Report;
use agentproto_mock::model::{Mutant, Variant};
use agentproto_runtime::context::Sandboxing;

/// Runs a suite on targets of one kind.
pub trait Ground: Send + Sync + 'static {
    /// How a target is generated.
    type Made: Send + Sync + 'static;
    /// Name of the suite.
    const NAME: &'static str;
    /// Maximum number of concurrent runs.
    const AT_ONCE: usize;

    /// Runs the suite on one target.
    fn trial(
        &self,
        made: &Self::Made,
        only: &[String],
    ) -> impl Future<Output = Result<Report, String>> + Send;
}

/// Runs the lifecycle suite on bundles.
pub struct Bundles;

impl Ground for Bundles {
    type Made = lifecycle::Made;
    const NAME: &'static str = "lifecycle";
    const AT_ONCE: usize = JOBS;

    async fn trial(&self, made: &lifecycle::Made, only: &[String]) -> Result<Report, String> {
        lifecycle::trial(made, only, JOBS, Sandboxing::Auto).await
    }
}

impl Ground for sessions::Stage {
    type Made = sessions::Made;
    const NAME: &'static str = "sessions";
    /// The hosts are in this process and mostly wait.
    const AT_ONCE: usize = 6;

    async fn trial(&self, made: &sessions::Made, only: &[String]) -> Result<Report, String> {
        sessions::Stage::trial(self, made, only, JOBS).await
    }
}

/// Mutants and variants of one kind of target.
pub struct Field<G: Ground> {
    pub ground: G,
    mutants: Vec<Mutant<G::Made>>,
    variants: Vec<Variant<G::Made>>,
    depth: Depth,
    stop: &'static AtomicBool,
}

impl<G: Ground> Field<G> {
    pub fn new(
        ground: G,
        mut mutants: Vec<Mutant<G::Made>>,
        mut variants: Vec<Variant<G::Made>>,
        trial: &Trial,
        stop: &'static AtomicBool,
    ) -> Arc<Field<G>> {
        mutants.retain(|m| trial.has(&[m.id, m.requirement, G::NAME]));
        variants.retain(|v| trial.has(&[v.name, G::NAME]));
        Arc::new(Field {
            ground,
            mutants,
            variants,
            depth: trial.depth,
            stop,
        })
    }
}

impl<G: Ground> Subject for Field<G> {
    type Mutant = MutantRow;
    type Variant = VariantRow;
    const AT_ONCE: usize = G::AT_ONCE;

    fn mutants(&self) -> usize {
        self.mutants.len()
    }

    fn variants(&self) -> usize {
        self.variants.len()
    }

    async fn variant(&self, at: usize) -> Option<VariantRow> {
        let variant = self.variants.get(at)?;
        let report = match self.stop.load(Ordering::Relaxed) {
            true => Err("stopped".to_owned()),
            false => self.ground.trial(&variant.made, &[]).await,
        };
        let mut row = VariantRow::new(G::NAME, variant.name, variant.what);
        match report {
            Ok(report) => row.tally(&report.results),
            Err(error) => row.blamed.push(error),
        }
        Some(row)
    }

    async fn mutant(&self, at: usize) -> Option<MutantRow> {
        let mutant = self.mutants.get(at)?;
        let mut row = MutantRow::new(G::NAME, mutant);
        let own = [mutant.requirement.to_owned()];
        let rounds: &[&[String]] = match self.depth {
            Depth::Quick => &[&own, &[]],
            Depth::Full => &[&[]],
        };
        for only in rounds {
            if row.attributed || self.stop.load(Ordering::Relaxed) {
                break;
            }
            if let Ok(report) = self.ground.trial(&mutant.made, only).await {
                row.judge(&Base::default(), &report.results);
            }
        }
        Some(row)
    }
}
