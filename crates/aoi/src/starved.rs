//! How long a run stood still because the machine was busy with others: its processes in the queue
//! for a processor, and we, who were to look at it. What such a run shows about time is no fault
//! of the tool.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use tokio::time::sleep;

/// Between two looks.
const TICK: Duration = Duration::from_millis(100);
/// A pause is drawn out to so many times its length.
const MOST_PAUSES: usize = 20;
/// A tree of processes is looked at so far.
const MOST_PROCESSES: usize = 64;

/// Looks on while a run is under way, until it is dropped.
pub struct Watch {
    micros: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl Watch {
    /// Over a process and all that it started.
    pub fn over(pid: libc::pid_t) -> Watch {
        let micros = Arc::new(AtomicU64::new(0));
        let told = Arc::clone(&micros);
        let task = tokio::spawn(async move {
            let (mut late, mut queued) = (Duration::ZERO, Duration::ZERO);
            loop {
                let asked = Instant::now();
                sleep(TICK).await;
                late += asked.elapsed().saturating_sub(TICK);
                // Who has ended is not counted any more.
                queued = queued.max(in_queue(pid));
                let all = u64::try_from((late + queued).as_micros()).unwrap_or(u64::MAX);
                told.store(all, Ordering::Relaxed);
            }
        });
        Watch { micros, task }
    }

    pub fn so_far(&self) -> Duration {
        Duration::from_micros(self.micros.load(Ordering::Relaxed))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// So long at least, and until the process has had a processor whenever it wanted one: what it was
/// about to do is done then. A machine that is always busy is waited for only so long.
pub async fn pause(pid: libc::pid_t, time: Duration) {
    for _ in 0..MOST_PAUSES {
        let before = in_queue(pid);
        sleep(time).await;
        if in_queue(pid).saturating_sub(before) < time / 4 {
            return;
        }
    }
}

/// How long the threads of a process and of its descendants have waited for a processor; nothing
/// where the system does not tell.
fn in_queue(pid: libc::pid_t) -> Duration {
    let mut waited = Duration::ZERO;
    let mut left = vec![pid.to_string()];
    let mut seen = 0;
    while let Some(pid) = left.pop() {
        seen += 1;
        let threads = fs::read_dir(format!("/proc/{pid}/task"));
        for thread in threads.into_iter().flatten().flatten() {
            let at = thread.path();
            let stat = fs::read_to_string(at.join("schedstat")).unwrap_or_default();
            waited += delay(&stat);
            let children = fs::read_to_string(at.join("children")).unwrap_or_default();
            let room = MOST_PROCESSES.saturating_sub(seen + left.len());
            left.extend(children.split_whitespace().take(room).map(str::to_owned));
        }
    }
    waited
}

/// `schedstat` is the time on a processor, the time in the queue, and how often; in nanoseconds.
fn delay(stat: &str) -> Duration {
    let queued = stat.split_whitespace().nth(1);
    let nanos = queued.and_then(|text| text.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_in_the_queue_is_the_second_number() {
        assert_eq!(delay("100 2500 7\n"), Duration::from_nanos(2500));
        for odd in ["", "100", "100 x 7"] {
            assert_eq!(delay(odd), Duration::ZERO, "{odd:?}");
        }
    }

    #[tokio::test]
    async fn a_process_that_only_waits_is_not_starved() {
        let mut child = std::process::Command::new("sleep")
            .arg("5")
            .spawn()
            .unwrap();
        let watch = Watch::over(child.id() as libc::pid_t);
        sleep(Duration::from_secs(1)).await;
        let seen = watch.so_far();
        let asked = Instant::now();
        pause(child.id() as libc::pid_t, Duration::from_millis(50)).await;
        let paused = asked.elapsed();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(seen < Duration::from_millis(500), "{seen:?}");
        assert!(paused >= Duration::from_millis(50), "{paused:?}");
        assert!(paused < Duration::from_millis(500), "{paused:?}");
    }

    /// Keeps a process on the first processor that we may use.
    fn pin(pid: libc::pid_t) {
        // SAFETY: a set of our own, of the size that is told.
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
    async fn processes_that_share_a_processor_are_seen_to_wait_for_it() {
        let spin = || {
            let mut command = std::process::Command::new("sh");
            command.args(["-c", "while :; do :; done"]).spawn().unwrap()
        };
        let mut children = [spin(), spin(), spin(), spin()];
        let pids = children.each_ref().map(|child| child.id() as libc::pid_t);
        pids.into_iter().for_each(pin);
        let watch = Watch::over(pids[0]);
        sleep(Duration::from_secs(2)).await;
        let seen = watch.so_far();
        let asked = Instant::now();
        pause(pids[0], Duration::from_millis(50)).await;
        let paused = asked.elapsed();
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert!(seen > Duration::from_secs(1), "{seen:?}");
        assert!(paused > Duration::from_millis(150), "{paused:?}");
    }
}
