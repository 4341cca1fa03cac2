//! How long the processes of an agent waited for a processor. The kernel counts this time for every
//! thread. On an idle machine it is almost zero, whatever the agent does.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::time::Duration;

/// The waiting time of each thread of an agent since that thread started.
pub struct ProcessorWaits {
    threads: HashMap<u32, Duration>,
}

impl ProcessorWaits {
    /// Reads the times of a process and all its descendants. The result is empty if the kernel does
    /// not count them.
    pub fn of(root: u32) -> ProcessorWaits {
        let mut threads = HashMap::new();
        for process in with_descendants(root) {
            let tasks = fs::read_dir(format!("/proc/{process}/task"));
            for task in tasks.into_iter().flatten().flatten() {
                let id = task.file_name().to_str().and_then(|id| id.parse().ok());
                let counters = fs::read_to_string(task.path().join("schedstat"));
                if let (Some(id), Some(wait)) = (id, counters.ok().and_then(|text| wait_of(&text)))
                {
                    threads.insert(id, wait);
                }
            }
        }
        ProcessorWaits { threads }
    }

    /// How long the threads waited since an earlier measurement, all together. Threads that ended
    /// in between are not counted.
    pub fn since(&self, earlier: &ProcessorWaits) -> Duration {
        let added = self.threads.iter().map(|(id, wait)| {
            let before = earlier.threads.get(id).copied().unwrap_or_default();
            wait.saturating_sub(before)
        });
        added.sum()
    }
}

/// The second number of `schedstat`: nanoseconds on a run queue.
fn wait_of(text: &str) -> Option<Duration> {
    let wait = text.split_ascii_whitespace().nth(1)?;
    Some(Duration::from_nanos(wait.parse().ok()?))
}

fn with_descendants(root: u32) -> HashSet<u32> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    for id in ids {
        let stat = fs::read_to_string(format!("/proc/{id}/stat"));
        if let Some(parent) = stat.ok().and_then(|text| parent_of(&text)) {
            children.entry(parent).or_default().push(id);
        }
    }
    let mut found = HashSet::from([root]);
    let mut open = vec![root];
    while let Some(id) = open.pop() {
        for child in children.remove(&id).unwrap_or_default() {
            if found.insert(child) {
                open.push(child);
            }
        }
    }
    found
}

/// The parent in `/proc/PID/stat`. The name before it may contain spaces and parentheses.
fn parent_of(stat: &str) -> Option<u32> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::process::{Child, Command};
    use std::time::Instant;

    /// Processes that keep all processors busy until they are dropped.
    pub struct BusyMachine(Vec<Child>);

    impl BusyMachine {
        pub fn new() -> BusyMachine {
            let cores = std::thread::available_parallelism().map_or(2, |n| n.get());
            let hog = || {
                Command::new("sh")
                    .args(["-c", "while :; do :; done"])
                    .spawn()
            };
            BusyMachine((0..4 * cores).map(|_| hog().expect("sh")).collect())
        }
    }

    impl Drop for BusyMachine {
        fn drop(&mut self) {
            for hog in &mut self.0 {
                let _ = hog.kill();
                let _ = hog.wait();
            }
        }
    }

    #[test]
    fn only_processes_that_want_to_run_wait_for_a_processor() {
        let _busy = BusyMachine::new();
        let measure = |program: &str| {
            // `sh` is the parent, so that the time of a child is found as well.
            let script = format!("sh -c '{program}'; true");
            let mut child = Command::new("sh").args(["-c", &script]).spawn().unwrap();
            std::thread::sleep(Duration::from_millis(300));
            let before = ProcessorWaits::of(child.id());
            let begun = Instant::now();
            std::thread::sleep(Duration::from_millis(700));
            let waited = ProcessorWaits::of(child.id()).since(&before);
            let window = begun.elapsed();
            // The child of `sh` must end as well.
            for process in with_descendants(child.id()) {
                let _ = Command::new("kill").arg(process.to_string()).status();
            }
            let _ = child.wait();
            (waited, window)
        };
        let (waited, window) = measure("while :; do :; done");
        assert!(waited * 3 > window, "{waited:?} of {window:?}");
        let (waited, window) = measure("sleep 20");
        assert!(waited * 10 < window, "{waited:?} of {window:?}");
    }

    #[test]
    fn names_may_contain_parentheses() {
        assert_eq!(parent_of("7 (a) b (c)) S 3 7 7 0"), Some(3));
        assert_eq!(parent_of("7 (a"), None);
        assert_eq!(wait_of("1 2500 3\n"), Some(Duration::from_nanos(2500)));
        assert_eq!(wait_of(""), None);
    }
}
