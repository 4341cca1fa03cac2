//! What batteries of one process share: a place for their runs, walls that were proven once, and
//! how much goes on at a time.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::LintError;
use crate::isolation::{self, Isolation, Needs};
use crate::run::Launch;
use crate::sweep::{Lent, Sweeper};
use agentproto_sandbox::workplace::Workplace;

/// Runs that mostly wait cost little: so many of them for each other one.
const WAITERS: usize = 3;

pub struct Ground {
    place: Workplace,
    sweeper: Sweeper,
    /// What discovery is shut off from, and what it cannot be: nothing that needs that is
    /// proven then.
    pub isolation: Isolation,
    pub lanes: Arc<Lanes>,
    batteries: AtomicU64,
}

impl Ground {
    /// For tools that need and may see the same.
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

    /// The directory of one battery, which goes away with what comes with it.
    pub fn part(&self) -> (PathBuf, Option<Lent>) {
        let number = self.batteries.fetch_add(1, Ordering::Relaxed);
        let part = self.place.path().join(format!("battery-{number}"));
        let lent = self.sweeper.lend(part.clone());
        (part, lent)
    }
}

/// How much goes on at a time.
#[derive(Debug)]
pub struct Lanes {
    jobs: Semaphore,
    waiters: Semaphore,
    all: u32,
}

impl Lanes {
    pub fn new(jobs: usize) -> Lanes {
        Lanes::with_waiters(jobs, jobs.max(1).saturating_mul(WAITERS))
    }

    /// So many runs that keep the machine busy, and so many that mostly wait.
    pub fn with_waiters(jobs: usize, waiters: usize) -> Lanes {
        let jobs = jobs.max(1);
        Lanes {
            jobs: Semaphore::new(jobs),
            waiters: Semaphore::new(waiters.max(1)),
            all: u32::try_from(jobs).unwrap_or(u32::MAX),
        }
    }

    /// Waits for its turn; `alone`, until nothing goes on that keeps the machine busy.
    pub async fn enter(&self, launch: &Launch, alone: bool) -> Option<SemaphorePermit<'_>> {
        let turn = match launch.waits() {
            _ if alone => self.jobs.acquire_many(self.all).await,
            true => self.waiters.acquire().await,
            false => self.jobs.acquire().await,
        };
        turn.ok()
    }
}
