//! The common part of all self-tests: runs mutants and conforming variants, and counts the
//! results.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Serialize;
use tokio::sync::Semaphore;

use agentproto_harness::run::Progress;

/// Result for a mutant.
pub trait MutantResult: Serialize + Send + 'static {
    /// Name of the mutant.
    fn name(&self) -> &str;
    /// Its defect.
    fn defect(&self) -> &str;
    /// Whether anything was found that is not found on the correct mock.
    fn is_killed(&self) -> bool;
    /// Whether the broken requirement was found.
    fn is_attributed(&self) -> bool;
    /// If the mutant was not caught as expected, its name and what was found instead.
    fn failure(&self) -> Option<String>;
}

/// Result for a conforming variant.
pub trait VariantResult: Serialize + Send + 'static {
    /// Name of the variant.
    fn name(&self) -> &str;
    /// Number of requirements that passed. Zero means that the variant was not really tested.
    fn verified(&self) -> usize;
    /// Findings, which are all false positives.
    fn false_positives(&self) -> &[String];
    /// What is wrong with the result, one line each.
    fn problems(&self) -> Vec<String>;
}

/// Results of a self-test.
#[derive(Clone, Debug)]
pub struct SelftestResults<M, V> {
    /// Results for mutants.
    pub mutants: Vec<M>,
    /// Results for conforming variants.
    pub variants: Vec<V>,
    /// Duration in milliseconds.
    pub wall_ms: f64,
    /// Whether the run was stopped before its end.
    pub partial: bool,
}

impl<M, V> Default for SelftestResults<M, V> {
    fn default() -> Self {
        SelftestResults {
            mutants: Vec::new(),
            variants: Vec::new(),
            wall_ms: 0.0,
            partial: false,
        }
    }
}

impl<M: MutantResult, V: VariantResult> SelftestResults<M, V> {
    /// Adds the results of another run.
    pub fn add(&mut self, other: SelftestResults<M, V>) {
        self.mutants.extend(other.mutants);
        self.variants.extend(other.variants);
    }

    /// Whether nothing was tested.
    pub fn is_empty(&self) -> bool {
        self.mutants.is_empty() && self.variants.is_empty()
    }

    /// Number of killed mutants.
    pub fn killed(&self) -> usize {
        self.mutants.iter().filter(|m| m.is_killed()).count()
    }

    /// Number of mutants that were caught with the right requirement.
    pub fn attributed(&self) -> usize {
        self.mutants.iter().filter(|m| m.is_attributed()).count()
    }

    /// Number of false positives on conforming variants.
    pub fn false_positive_count(&self) -> usize {
        self.variants
            .iter()
            .map(|v| v.false_positives().len())
            .sum()
    }

    /// Whether every variant was tested and none has a finding.
    pub fn has_no_false_positives(&self) -> bool {
        let mut variants = self.variants.iter();
        variants.all(|v| v.false_positives().is_empty() && v.verified() > 0)
    }
}

/// Mutants and variants of one kind, addressed by index.
pub trait MutantSet: Send + Sync + 'static {
    /// Result for a mutant.
    type Mutant: MutantResult;
    /// Result for a variant.
    type Variant: VariantResult;
    /// Maximum number of concurrent runs.
    const MAX_CONCURRENT: usize;

    /// Number of mutants.
    fn mutants(&self) -> usize;
    /// Number of variants.
    fn variants(&self) -> usize;
    /// Runs one mutant. `None` if the run was stopped.
    fn mutant(&self, at: usize) -> impl Future<Output = Option<Self::Mutant>> + Send;
    /// Runs one variant. `None` if the run was stopped.
    fn variant(&self, at: usize) -> impl Future<Output = Option<Self::Variant>> + Send;
}

/// Runs all variants, then all mutants. Mutants are compared with the plain variants.
pub async fn run<S: MutantSet>(
    subject: &Arc<S>,
    progress: &ProgressCounter,
) -> SelftestResults<S::Mutant, S::Variant> {
    let (mutants, variants) = (subject.mutants(), subject.variants());
    progress.expect(mutants + variants);
    let variant = |at| {
        let subject = Arc::clone(subject);
        async move { subject.variant(at).await }
    };
    let variants = each::<S, _, _>(variants, variant, progress, S::Variant::name).await;
    let mutant = |at| {
        let subject = Arc::clone(subject);
        async move { subject.mutant(at).await }
    };
    let mutants = each::<S, _, _>(mutants, mutant, progress, S::Mutant::name).await;
    SelftestResults {
        mutants,
        variants,
        ..SelftestResults::default()
    }
}

async fn each<S: MutantSet, T: Send + 'static, F: Future<Output = Option<T>> + Send + 'static>(
    count: usize,
    try_one: impl Fn(usize) -> F,
    progress: &ProgressCounter,
    name: fn(&T) -> &str,
) -> Vec<T> {
    let slots = Arc::new(Semaphore::new(S::MAX_CONCURRENT));
    let mut running = tokio::task::JoinSet::new();
    for at in 0..count {
        let (slots, run) = (Arc::clone(&slots), try_one(at));
        running.spawn(async move {
            let _slot = slots.acquire_owned().await;
            run.await
        });
    }
    let mut rows = Vec::new();
    while let Some(ended) = running.join_next().await {
        let Ok(Some(row)) = ended else { continue };
        progress.finish_one(name(&row));
        rows.push(row);
    }
    rows.sort_by(|a, b| name(a).cmp(name(b)));
    rows
}

/// Progress over all subjects.
pub struct ProgressCounter {
    done: AtomicUsize,
    all: AtomicUsize,
    progress: Arc<dyn Progress>,
}

impl ProgressCounter {
    /// Creates a counter that reports to `progress`.
    pub fn new(progress: Arc<dyn Progress>) -> ProgressCounter {
        ProgressCounter {
            done: AtomicUsize::new(0),
            all: AtomicUsize::new(0),
            progress,
        }
    }

    fn expect(&self, more: usize) {
        self.all.fetch_add(more, Ordering::Relaxed);
    }

    fn finish_one(&self, name: &str) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        let all = self.all.load(Ordering::Relaxed);
        self.progress.done(name, done, all);
    }
}
