//! Self-test of generated targets: bundles and session hosts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Depth, JOBS, MutantRow, Reference, SelftestOptions, VariantRow};
use crate::common::MutantSet;
use crate::{lifecycle, sessions};
use agentproto_harness::model::Report;
use agentproto_mock::model::{Mutant, Variant};
use agentproto_runtime::context::Sandboxing;

/// Runs a suite on targets of one kind.
pub trait SuiteRunner: Send + Sync + 'static {
    /// How a target is generated.
    type Spec: Send + Sync + 'static;
    /// Name of the suite.
    const NAME: &'static str;
    /// Maximum number of concurrent runs.
    const MAX_CONCURRENT: usize;

    /// Runs the suite on one target.
    fn run_suite(
        &self,
        spec: &Self::Spec,
        only: &[String],
    ) -> impl Future<Output = Result<Report, String>> + Send;
}

/// Runs the lifecycle suite on bundles.
pub struct Bundles;

impl SuiteRunner for Bundles {
    type Spec = lifecycle::BundleSpec;
    const NAME: &'static str = "lifecycle";
    const MAX_CONCURRENT: usize = JOBS;

    async fn run_suite(
        &self,
        spec: &lifecycle::BundleSpec,
        only: &[String],
    ) -> Result<Report, String> {
        lifecycle::run_suite(spec, only, JOBS, Sandboxing::Auto).await
    }
}

impl SuiteRunner for sessions::HostBench {
    type Spec = sessions::HostSpec;
    const NAME: &'static str = "sessions";
    /// The hosts are in this process and mostly wait.
    const MAX_CONCURRENT: usize = 6;

    async fn run_suite(
        &self,
        spec: &sessions::HostSpec,
        only: &[String],
    ) -> Result<Report, String> {
        sessions::HostBench::run_suite(self, spec, only, JOBS).await
    }
}

/// Mutants and variants of one kind of target.
pub struct GeneratedTargets<G: SuiteRunner> {
    pub runner: G,
    mutants: Vec<Mutant<G::Spec>>,
    variants: Vec<Variant<G::Spec>>,
    depth: Depth,
    stop: &'static AtomicBool,
}

impl<G: SuiteRunner> GeneratedTargets<G> {
    pub fn new(
        runner: G,
        mut mutants: Vec<Mutant<G::Spec>>,
        mut variants: Vec<Variant<G::Spec>>,
        options: &SelftestOptions,
        stop: &'static AtomicBool,
    ) -> Arc<GeneratedTargets<G>> {
        mutants.retain(|m| options.has(&[m.id, m.requirement, G::NAME]));
        variants.retain(|v| options.has(&[v.name, G::NAME]));
        Arc::new(GeneratedTargets {
            runner,
            mutants,
            variants,
            depth: options.depth,
            stop,
        })
    }
}

impl<G: SuiteRunner> MutantSet for GeneratedTargets<G> {
    type Mutant = MutantRow;
    type Variant = VariantRow;
    const MAX_CONCURRENT: usize = G::MAX_CONCURRENT;

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
            false => self.runner.run_suite(&variant.data, &[]).await,
        };
        let mut row = VariantRow::new(G::NAME, variant.name, variant.description);
        match report {
            Ok(report) => row.tally(&report.results),
            Err(error) => row.false_positives.push(error),
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
            if let Ok(report) = self.runner.run_suite(&mutant.data, only).await {
                row.evaluate(&Reference::default(), &report.results);
            }
        }
        Some(row)
    }
}
