//! Time limits for an agent. Time in which the agent had to wait for a processor does not count, so
//! that an agent gets the same verdict on an idle and on a busy machine.

use std::time::Duration;

use tokio::time::Instant;

use super::processor_waits::ProcessorWaits;

/// Time after which the first measurement is made. Shorter waits need none.
const FIRST_CHECK: Duration = Duration::from_millis(500);
/// A limit is extended at most to this multiple.
const MAX_FACTOR: u32 = 4;
/// The part of a wait, as its divisor, from which on the machine is called busy.
const BUSY_PART: u32 = 5;

/// The time limit of one wait for an agent.
pub struct TimeLimit {
    process: u32,
    start: Instant,
    until: Instant,
    latest: Instant,
    first_check: Instant,
    measured: Option<(Instant, ProcessorWaits)>,
    /// How long the agent waited for a processor.
    waited: Duration,
    is_starved: bool,
}

impl TimeLimit {
    /// A limit for the process with this id and its descendants, from now on.
    pub fn new(process: u32, within: Duration) -> TimeLimit {
        let start = Instant::now();
        TimeLimit {
            process,
            start,
            until: start + within,
            latest: start + within * MAX_FACTOR,
            first_check: start + FIRST_CHECK.min(within / 4),
            measured: None,
            waited: Duration::ZERO,
            is_starved: false,
        }
    }

    /// When `is_over` must be called at the latest.
    pub fn next_check(&self) -> Instant {
        match self.measured {
            None => self.first_check,
            Some(_) => self.until,
        }
    }

    /// Whether the limit is over. Extends it if the agent had to wait for a processor.
    pub fn is_over(&mut self) -> bool {
        let now = Instant::now();
        let due = self.next_check();
        if now < due {
            return false;
        }
        let current = ProcessorWaits::of(self.process);
        let Some((at, earlier)) = self.measured.replace((now, current)) else {
            // If this process itself was late, so was the agent.
            self.until = self.until.max(now + (now - due)).min(self.latest);
            return now >= self.until;
        };
        let window = now - at;
        let waited = match &self.measured {
            Some((_, current)) => current.since(&earlier),
            None => Duration::ZERO,
        };
        // If this process itself was late, the whole machine was stopped.
        let waited = waited.max(now - due).min(window);
        if waited * BUSY_PART < window {
            return true;
        }
        self.waited += waited;
        self.is_starved = now >= self.latest;
        self.until = (now + waited).min(self.latest);
        self.is_starved
    }

    /// Whether the machine was too busy to tell whether the agent is too slow.
    pub fn is_starved(&self) -> bool {
        self.is_starved
    }

    /// Time since the start of the wait, and how much of it the agent waited for a processor.
    pub fn times(&self) -> (Duration, Duration) {
        (self.start.elapsed(), self.waited)
    }
}

#[cfg(test)]
mod tests {
    use super::super::processor_waits::tests::BusyMachine;
    use super::*;
    use std::process::{Child, Command};

    fn until_over(program: &str, within: Duration) -> (Duration, bool) {
        let mut child: Child = Command::new("sh").args(["-c", program]).spawn().unwrap();
        let mut limit = TimeLimit::new(child.id(), within);
        let start = Instant::now();
        while !limit.is_over() {
            let pause = limit.next_check().saturating_duration_since(Instant::now());
            std::thread::sleep(pause);
        }
        let took = start.elapsed();
        let _ = child.kill();
        let _ = child.wait();
        (took, limit.is_starved())
    }

    #[test]
    fn a_limit_is_extended_only_for_an_agent_that_waits_for_a_processor() {
        let within = Duration::from_secs(1);
        let _busy = BusyMachine::new();
        let (took, starved) = until_over("while :; do :; done", within);
        assert!(starved && took >= within * MAX_FACTOR, "{took:?}");
        // This agent hangs, so more time would not help it.
        let (took, starved) = until_over("exec sleep 30", within);
        assert!(!starved && took < within * 2, "{took:?}");
    }
}
