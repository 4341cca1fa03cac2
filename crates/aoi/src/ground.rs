//! Environment shared by several lint runs of one process: a directory for their runs, an isolation
//! that was tested once, and limits on concurrent runs.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::LintError;
use crate::isolation::{self, Isolation, Needs};
use crate::run::Launch;
use crate::sweep::{Lent, Sweeper};
use agentproto_sandbox::workplace::Workplace;

/// Runs that mostly wait are cheap: this many of them are allowed for each busy one.
const WAITERS: usize = 3;

/// Shared environment of lint runs.
pub struct Ground {
    place: Workplace,
    sweeper: Sweeper,
    /// Isolation of discovery runs. It also states what could not be isolated, so that no verdict
    /// relies on it.
    pub isolation: Isolation,
    /// Limits on concurrent runs.
    pub lanes: Arc<Lanes>,
    batteries: AtomicU64,
}

impl Ground {
    /// Creates an environment for tools with the same needs.
    pub async fn new(needs: &Needs<'_>, lanes: Lanes) -> Result<Ground, LintError> {
        let place = Workplace::new("aoi").map_err(LintError::Workplace)?;
        Ok(Ground {
            isolation: isolation::establish(needs, place.path()).await,
            sweeper: Sweeper::new(),
            lanes: Arc::new(lanes),
            batteries: AtomicU64::new(0),
            place,
        })
    }

    /// Creates the directory of one lint run. It is removed when the second value is dropped.
    pub fn part(&self) -> (PathBuf, Option<Lent>) {
        let number = self.batteries.fetch_add(1, Ordering::Relaxed);
        let part = self.place.path().join(format!("battery-{number}"));
        let lent = self.sweeper.lend(part.clone());
        (part, lent)
    }
}

/// Limits on concurrent runs.
#[derive(Debug)]
pub struct Lanes {
    jobs: Semaphore,
    waiters: Semaphore,
    all: u32,
}

impl Lanes {
    /// Allows `jobs` busy runs, and `WAITERS` times as many runs that mostly wait.
    pub fn new(jobs: usize) -> Lanes {
        Lanes::with_waiters(jobs, jobs.max(1).saturating_mul(WAITERS))
    }

    /// Allows `jobs` busy runs and `waiters` runs that mostly wait.
    pub fn with_waiters(jobs: usize, waiters: usize) -> Lanes {
        let jobs = jobs.max(1);
        Lanes {
            jobs: Semaphore::new(jobs),
            waiters: Semaphore::new(waiters.max(1)),
            all: u32::try_from(jobs).unwrap_or(u32::MAX),
        }
    }

    /// Waits for a free slot. With `alone`, waits until no other busy run is active.
    pub async fn enter(&self, launch: &Launch, alone: bool) -> Option<SemaphorePermit<'_>> {
        let turn = match launch.waits() {
            _ if alone => self.jobs.acquire_many(self.all).await,
            true => self.waiters.acquire().await,
            false => self.jobs.acquire().await,
        };
        turn.ok()
    }
}
