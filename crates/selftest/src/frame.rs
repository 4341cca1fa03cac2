//! The frame of every trial of a judge: mutants that it must catch, variants that it must leave
//! alone, and the tally of both.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Serialize;
use tokio::sync::Semaphore;

use agentproto_harness::run::Progress;

/// What a judge made of a mutant.
pub trait Caught: Serialize + Send + 'static {
    fn name(&self) -> &str;
    /// What is wrong with it.
    fn wrong(&self) -> &str;
    /// Something was blamed that is not blamed on the correct one.
    fn is_killed(&self) -> bool;
    /// For the right reason.
    fn is_attributed(&self) -> bool;
    /// Where it was not caught as it should be: its name, and how.
    fn missed(&self) -> Option<String>;
}

/// What a judge made of a variant.
pub trait Spared: Serialize + Send + 'static {
    fn name(&self) -> &str;
    /// What was proven, so that nothing is proven by nothing.
    fn proven(&self) -> usize;
    fn blamed(&self) -> &[String];
    /// What is wrong about that, a line each.
    fn complaints(&self) -> Vec<String>;
}

#[derive(Clone, Debug)]
pub struct Outcome<M, V> {
    pub mutants: Vec<M>,
    pub variants: Vec<V>,
    pub wall_ms: f64,
    /// Stopped before its end.
    pub partial: bool,
}

impl<M, V> Default for Outcome<M, V> {
    fn default() -> Self {
        Outcome {
            mutants: Vec::new(),
            variants: Vec::new(),
            wall_ms: 0.0,
            partial: false,
        }
    }
}

impl<M: Caught, V: Spared> Outcome<M, V> {
    pub fn add(&mut self, other: Outcome<M, V>) {
        self.mutants.extend(other.mutants);
        self.variants.extend(other.variants);
    }

    /// Nothing was tried.
    pub fn is_empty(&self) -> bool {
        self.mutants.is_empty() && self.variants.is_empty()
    }

    pub fn killed(&self) -> usize {
        self.mutants.iter().filter(|m| m.is_killed()).count()
    }

    pub fn attributed(&self) -> usize {
        self.mutants.iter().filter(|m| m.is_attributed()).count()
    }

    /// What conforming ones were blamed for.
    pub fn false_blames(&self) -> usize {
        self.variants.iter().map(|v| v.blamed().len()).sum()
    }

    /// Every variant was proven, and none was blamed.
    pub fn spares_all(&self) -> bool {
        let mut variants = self.variants.iter();
        variants.all(|v| v.blamed().is_empty() && v.proven() > 0)
    }
}

/// What is tried: mutants and variants of one kind, each found by its place.
pub trait Subject: Send + Sync + 'static {
    type Mutant: Caught;
    type Variant: Spared;
    /// Trials side by side.
    const AT_ONCE: usize;

    fn mutants(&self) -> usize;
    fn variants(&self) -> usize;
    /// Nothing where it was not heard to its end.
    fn mutant(&self, at: usize) -> impl Future<Output = Option<Self::Mutant>> + Send;
    fn variant(&self, at: usize) -> impl Future<Output = Option<Self::Variant>> + Send;
}

/// All variants, then all mutants: the plain variants are what mutants are compared with.
pub async fn run<S: Subject>(subject: &Arc<S>, heard: &Count) -> Outcome<S::Mutant, S::Variant> {
    let (mutants, variants) = (subject.mutants(), subject.variants());
    heard.expect(mutants + variants);
    let variant = |at| {
        let subject = Arc::clone(subject);
        async move { subject.variant(at).await }
    };
    let variants = each::<S, _, _>(variants, variant, heard, S::Variant::name).await;
    let mutant = |at| {
        let subject = Arc::clone(subject);
        async move { subject.mutant(at).await }
    };
    let mutants = each::<S, _, _>(mutants, mutant, heard, S::Mutant::name).await;
    Outcome {
        mutants,
        variants,
        ..Outcome::default()
    }
}

async fn each<S: Subject, T: Send + 'static, F: Future<Output = Option<T>> + Send + 'static>(
    count: usize,
    try_one: impl Fn(usize) -> F,
    heard: &Count,
    name: fn(&T) -> &str,
) -> Vec<T> {
    let places = Arc::new(Semaphore::new(S::AT_ONCE));
    let mut running = tokio::task::JoinSet::new();
    for at in 0..count {
        let (places, tried) = (Arc::clone(&places), try_one(at));
        running.spawn(async move {
            let _place = places.acquire_owned().await;
            tried.await
        });
    }
    let mut rows = Vec::new();
    while let Some(ended) = running.join_next().await {
        let Ok(Some(row)) = ended else { continue };
        heard.one(name(&row));
        rows.push(row);
    }
    rows.sort_by(|a, b| name(a).cmp(name(b)));
    rows
}

/// How far all of them together have come.
pub struct Count {
    done: AtomicUsize,
    all: AtomicUsize,
    progress: Arc<dyn Progress>,
}

impl Count {
    pub fn new(progress: Arc<dyn Progress>) -> Count {
        Count {
            done: AtomicUsize::new(0),
            all: AtomicUsize::new(0),
            progress,
        }
    }

    fn expect(&self, more: usize) {
        self.all.fetch_add(more, Ordering::Relaxed);
    }

    fn one(&self, name: &str) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        let all = self.all.load(Ordering::Relaxed);
        self.progress.done(name, done, all);
    }
}
