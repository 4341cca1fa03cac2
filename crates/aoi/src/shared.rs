//! Environment shared by several lint runs of one process: a directory for their runs, an isolation
//! that was tested once, and limits on concurrent runs.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::LintError;
use crate::cleanup::{Cleaner, RemoveOnDrop};
use crate::isolation::{self, Isolation, IsolationNeeds};
use crate::run::RunSpec;
use agentproto_sandbox::run_directory::RunDirectory;

/// Runs that mostly wait are cheap: this many of them are allowed for each busy one.
const WAITING_RUNS_PER_JOB: usize = 3;

/// Shared environment of lint runs.
pub struct SharedEnvironment {
    dir: RunDirectory,
    cleaner: Cleaner,
    /// Isolation of discovery runs. It also states what could not be isolated, so that no verdict
    /// relies on it.
    pub isolation: Isolation,
    /// Limits on concurrent runs.
    pub slots: Arc<RunSlots>,
    next_run: AtomicU64,
}

impl SharedEnvironment {
    /// Creates an environment for tools with the same needs.
    pub async fn new(
        needs: &IsolationNeeds<'_>,
        slots: RunSlots,
    ) -> Result<SharedEnvironment, LintError> {
        let dir = RunDirectory::new("aoi").map_err(LintError::RunDirectory)?;
        Ok(SharedEnvironment {
            isolation: isolation::establish(needs, dir.path()).await,
            cleaner: Cleaner::new(),
            slots: Arc::new(slots),
            next_run: AtomicU64::new(0),
            dir,
        })
    }

    /// Creates the directory of one lint run. It is removed when the second value is dropped.
    pub fn new_run_dir(&self) -> (PathBuf, Option<RemoveOnDrop>) {
        let number = self.next_run.fetch_add(1, Ordering::Relaxed);
        let new_run_dir = self.dir.path().join(format!("battery-{number}"));
        let cleanup = self.cleaner.remove_on_drop(new_run_dir.clone());
        (new_run_dir, cleanup)
    }
}

/// Limits on concurrent runs.
#[derive(Debug)]
pub struct RunSlots {
    jobs: Semaphore,
    waiting: Semaphore,
    all: u32,
}

impl RunSlots {
    /// Allows `jobs` busy runs, and `WAITING_RUNS_PER_JOB` times as many runs that mostly wait.
    pub fn new(jobs: usize) -> RunSlots {
        RunSlots::with_waiting(jobs, jobs.max(1).saturating_mul(WAITING_RUNS_PER_JOB))
    }

    /// Allows `jobs` busy runs and `waiting` runs that mostly wait.
    pub fn with_waiting(jobs: usize, waiting: usize) -> RunSlots {
        let jobs = jobs.max(1);
        RunSlots {
            jobs: Semaphore::new(jobs),
            waiting: Semaphore::new(waiting.max(1)),
            all: u32::try_from(jobs).unwrap_or(u32::MAX),
        }
    }

    /// Waits for a free slot. With `alone`, waits until no other busy run is active.
    pub async fn acquire(&self, spec: &RunSpec, alone: bool) -> Option<SemaphorePermit<'_>> {
        let permit = match spec.mostly_waits() {
            _ if alone => self.jobs.acquire_many(self.all).await,
            true => self.waiting.acquire().await,
            false => self.jobs.acquire().await,
        };
        permit.ok()
    }
}
