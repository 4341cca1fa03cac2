//! Removes the directories of finished runs in a background thread. On some disks, removal takes
//! longer than the runs themselves.

use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

/// Background thread that removes directories. Dropping it waits until the queue is empty.
#[derive(Debug, Default)]
pub struct Cleaner {
    work: Option<(Sender<Option<PathBuf>>, JoinHandle<()>)>,
}

/// A directory that is queued for removal when this value is dropped.
#[derive(Debug)]
pub struct RemoveOnDrop {
    path: PathBuf,
    to: Sender<Option<PathBuf>>,
}

impl Cleaner {
    pub fn new() -> Cleaner {
        let (to, from) = channel::<Option<PathBuf>>();
        let cleanup_thread = move || {
            while let Ok(Some(path)) = from.recv() {
                // A directory that cannot be removed here is removed with the whole workplace.
                let _ = std::fs::remove_dir_all(path);
            }
        };
        let thread = std::thread::Builder::new().name("sweeper".to_owned());
        let work = thread.spawn(cleanup_thread).ok().map(|thread| (to, thread));
        Cleaner { work }
    }

    /// Returns `None` if the thread could not be started. The directory then stays until the end.
    pub fn remove_on_drop(&self, path: PathBuf) -> Option<RemoveOnDrop> {
        let (to, _) = self.work.as_ref()?;
        let to = to.clone();
        Some(RemoveOnDrop { path, to })
    }
}

impl Drop for RemoveOnDrop {
    fn drop(&mut self) {
        let _ = self.to.send(Some(std::mem::take(&mut self.path)));
    }
}

impl Drop for Cleaner {
    fn drop(&mut self) {
        if let Some((to, thread)) = self.work.take() {
            let _ = to.send(None);
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn released_directories_are_removed_before_drop_returns() {
        let place = tempfile::tempdir().expect("a directory");
        let (one, two) = (place.path().join("one"), place.path().join("two"));
        for dir in [&one, &two] {
            std::fs::create_dir_all(dir.join("deep/er")).expect("created");
        }
        let cleaner = Cleaner::new();
        let kept = cleaner.remove_on_drop(one.clone());
        drop(cleaner.remove_on_drop(two.clone()));
        drop(cleaner);
        assert!(one.exists() && !two.exists());
        // The sweeper has ended, so this must not block.
        drop(kept);
    }
}
