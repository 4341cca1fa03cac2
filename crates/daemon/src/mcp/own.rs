//! A private state directory for the sessions of one stdio server. It is removed when the server
//! ends. Several servers and a daemon can share a home without interfering with each other.

use std::fs;

use agentproto_runtime::Fault;
use agentproto_runtime::home::{Home, Lock, unique};

/// Directory in the home that contains one directory per server.
const PLACE: &str = "stdio";
/// Lock held by the server that owns the directory.
const OWNER: &str = "owner";

/// The directory is removed when this is dropped.
pub struct Own {
    pub state: Home,
    _lock: Option<Lock>,
}

impl Own {
    /// Creates a new directory, and removes those whose owner is gone.
    pub fn make(home: &Home) -> Result<Own, Fault> {
        // Prevents other processes from removing the new directory before it is locked.
        let _turn = home.lock(PLACE)?;
        let place = home.dir(PLACE)?;
        for left in fs::read_dir(&place).into_iter().flatten().flatten() {
            let state = Home::new(left.path());
            if let Ok(Some(_)) = state.try_lock(OWNER) {
                let _ = fs::remove_dir_all(left.path());
            }
        }
        let name = format!("{}-{}", std::process::id(), unique());
        let state = Home::new(place.join(name));
        let lock = state.try_lock(OWNER)?;
        Ok(Own { state, _lock: lock })
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(self.state.root());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_separate_and_stale_ones_are_removed() {
        let dir = tempfile::tempdir().expect("a directory");
        let home = Home::new(dir.path());
        let place = |own: &Own| own.state.root().to_owned();
        let first = Own::make(&home).expect("made");
        let second = Own::make(&home).expect("made");
        assert_ne!(place(&first), place(&second));
        // A directory left behind by a killed server.
        let left = home.dir("stdio/1-0").expect("made");
        fs::write(left.join("sessions.db"), "x").expect("written");
        let third = Own::make(&home).expect("made");
        assert!(!left.exists());
        for own in [&first, &second, &third] {
            assert!(place(own).is_dir(), "what is owned stays");
        }
        let gone = place(&second);
        drop(second);
        assert!(!gone.exists() && place(&first).is_dir());
    }
}
