//! Removes the directories of runs while others go on: on some disks that takes longer than the
//! runs themselves.

use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

/// Ends, when it is dropped, after everything that it was given is gone.
#[derive(Debug, Default)]
pub struct Sweeper {
    work: Option<(Sender<Option<PathBuf>>, JoinHandle<()>)>,
}

/// A directory that is swept away when nobody holds it any more.
#[derive(Debug)]
pub struct Lent {
    path: PathBuf,
    to: Sender<Option<PathBuf>>,
}

impl Sweeper {
    pub fn new() -> Sweeper {
        let (to, from) = channel::<Option<PathBuf>>();
        let sweep = move || {
            while let Ok(Some(path)) = from.recv() {
                // Whatever resists goes with the whole place.
                let _ = std::fs::remove_dir_all(path);
            }
        };
        let thread = std::thread::Builder::new().name("sweeper".to_owned());
        let work = thread.spawn(sweep).ok().map(|thread| (to, thread));
        Sweeper { work }
    }

    /// `None` where there is no sweeper: the directory stays to the end.
    pub fn lend(&self, path: PathBuf) -> Option<Lent> {
        let (to, _) = self.work.as_ref()?;
        let to = to.clone();
        Some(Lent { path, to })
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let _ = self.to.send(Some(std::mem::take(&mut self.path)));
    }
}

impl Drop for Sweeper {
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
    fn what_nobody_holds_is_gone_when_the_sweeper_is() {
        let place = tempfile::tempdir().expect("a directory");
        let (one, two) = (place.path().join("one"), place.path().join("two"));
        for dir in [&one, &two] {
            std::fs::create_dir_all(dir.join("deep/er")).expect("created");
        }
        let sweeper = Sweeper::new();
        let kept = sweeper.lend(one.clone());
        drop(sweeper.lend(two.clone()));
        drop(sweeper);
        assert!(one.exists() && !two.exists());
        // Its sweeper is gone: nothing hangs.
        drop(kept);
    }
}
