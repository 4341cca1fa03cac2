//! Measures how long a run was delayed because the machine was busy: the time its processes waited
//! for a CPU, and the time we ourselves were late. The timing of a delayed run is not the tool's
//! fault.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use tokio::time::sleep;

/// Time between two measurements.
const TICK: Duration = Duration::from_millis(100);
/// Maximum number of times that a pause is repeated.
const MAX_PAUSES: usize = 20;
/// Maximum number of processes measured per run.
const MAX_PROCESSES: usize = 64;

/// Measures the delay of a run until it is dropped.
pub struct DelayMeter {
    micros: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl DelayMeter {
    /// Measures a process and all its descendants.
    pub fn start(pid: libc::pid_t) -> DelayMeter {
        let micros = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&micros);
        let task = tokio::spawn(async move {
            let (mut late, mut queued) = (Duration::ZERO, Duration::ZERO);
            loop {
                let start = Instant::now();
                sleep(TICK).await;
                late += start.elapsed().saturating_sub(TICK);
                // Processes that have exited are missing from the count, so keep the maximum.
                queued = queued.max(total_queue_time(pid));
                let all = u64::try_from((late + queued).as_micros()).unwrap_or(u64::MAX);
                counter.store(all, Ordering::Relaxed);
            }
        });
        DelayMeter { micros, task }
    }

    /// Delay measured so far.
    pub fn delay(&self) -> Duration {
        Duration::from_micros(self.micros.load(Ordering::Relaxed))
    }
}

impl Drop for DelayMeter {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Sleeps for at least `time`, and until the process hardly waited for a CPU meanwhile. It can then
/// finish what it was doing. The number of repetitions is limited.
pub async fn pause(pid: libc::pid_t, time: Duration) {
    for _ in 0..MAX_PAUSES {
        let before = total_queue_time(pid);
        sleep(time).await;
        if total_queue_time(pid).saturating_sub(before) < time / 4 {
            return;
        }
    }
}

/// Time that the threads of a process and its descendants have waited for a CPU. Zero if the system
/// does not report it.
fn total_queue_time(pid: libc::pid_t) -> Duration {
    let mut waited = Duration::ZERO;
    let mut left = vec![pid.to_string()];
    let mut processes = 0;
    while let Some(pid) = left.pop() {
        processes += 1;
        let threads = fs::read_dir(format!("/proc/{pid}/task"));
        for thread in threads.into_iter().flatten().flatten() {
            let at = thread.path();
            let stat = fs::read_to_string(at.join("schedstat")).unwrap_or_default();
            waited += queue_time(&stat);
            let children = fs::read_to_string(at.join("children")).unwrap_or_default();
            let room = MAX_PROCESSES.saturating_sub(processes + left.len());
            left.extend(children.split_whitespace().take(room).map(str::to_owned));
        }
    }
    waited
}

/// Parses `schedstat`: time on a CPU and time in the queue in nanoseconds, then the number of time
/// slices.
fn queue_time(stat: &str) -> Duration {
    let queued = stat.split_whitespace().nth(1);
    let nanos = queued.and_then(|text| text.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_time_is_the_second_field_of_schedstat() {
        assert_eq!(queue_time("100 2500 7\n"), Duration::from_nanos(2500));
        for invalid in ["", "100", "100 x 7"] {
            assert_eq!(queue_time(invalid), Duration::ZERO, "{invalid:?}");
        }
    }

    #[tokio::test]
    async fn a_process_that_only_waits_is_not_delayed() {
        let mut child = std::process::Command::new("sleep")
            .arg("5")
            .spawn()
            .unwrap();
        let meter = DelayMeter::start(child.id() as libc::pid_t);
        sleep(Duration::from_secs(1)).await;
        let delay = meter.delay();
        let start = Instant::now();
        pause(child.id() as libc::pid_t, Duration::from_millis(50)).await;
        let paused = start.elapsed();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(delay < Duration::from_millis(500), "{delay:?}");
        assert!(paused >= Duration::from_millis(50), "{paused:?}");
        assert!(paused < Duration::from_millis(500), "{paused:?}");
    }

    /// Pins a process to the first CPU that we may use.
    fn pin(pid: libc::pid_t) {
        // SAFETY: the CPU set is ours and has the given size.
        unsafe {
            let mut ours: libc::cpu_set_t = std::mem::zeroed();
            let size = size_of::<libc::cpu_set_t>();
            assert_eq!(libc::sched_getaffinity(0, size, &mut ours), 0);
            let first = (0..libc::CPU_SETSIZE as usize).find(|cpu| libc::CPU_ISSET(*cpu, &ours));
            let mut one: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(first.unwrap(), &mut one);
            assert_eq!(libc::sched_setaffinity(pid, size, &one), 0);
        }
    }

    #[tokio::test]
    async fn processes_that_share_a_cpu_are_delayed() {
        let spin = || {
            let mut command = std::process::Command::new("sh");
            command.args(["-c", "while :; do :; done"]).spawn().unwrap()
        };
        let mut children = [spin(), spin(), spin(), spin()];
        let pids = children.each_ref().map(|child| child.id() as libc::pid_t);
        pids.into_iter().for_each(pin);
        let meter = DelayMeter::start(pids[0]);
        sleep(Duration::from_secs(2)).await;
        let delay = meter.delay();
        let start = Instant::now();
        pause(pids[0], Duration::from_millis(50)).await;
        let paused = start.elapsed();
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert!(delay > Duration::from_secs(1), "{delay:?}");
        assert!(paused > Duration::from_millis(150), "{paused:?}");
    }
}
