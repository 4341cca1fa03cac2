//! A private state directory for the sessions of one stdio server. It is removed when the server
//! ends. Several servers and a daemon can share a home without interfering with each other.

use std::fs;

use agentproto_runtime::Error;
use agentproto_runtime::home::{Home, Lock, unique};

/// Directory in the home that contains one directory per server.
const STDIO_DIR: &str = "stdio";
/// Lock held by the server that owns the directory.
const OWNER_LOCK: &str = "owner";

/// The directory is removed when this is dropped.
pub struct PrivateState {
    /// The directory.
    pub state: Home,
    _lock: Option<Lock>,
}

impl PrivateState {
    /// Creates a new directory, and removes those whose owner is gone.
    pub fn create(home: &Home) -> Result<PrivateState, Error> {
        // Prevents other processes from removing the new directory before it is locked.
        let _lock = home.lock(STDIO_DIR)?;
        let place = home.dir(STDIO_DIR)?;
        for entry in fs::read_dir(&place).into_iter().flatten().flatten() {
            let state = Home::new(entry.path());
            if let Ok(Some(_)) = state.try_lock(OWNER_LOCK) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        let name = format!("{}-{}", std::process::id(), unique());
        let state = Home::new(place.join(name));
        let lock = state.try_lock(OWNER_LOCK)?;
        Ok(PrivateState { state, _lock: lock })
    }
}

impl Drop for PrivateState {
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
        let place = |own: &PrivateState| own.state.root().to_owned();
        let first = PrivateState::create(&home).expect("made");
        let second = PrivateState::create(&home).expect("made");
        assert_ne!(place(&first), place(&second));
        // A directory left behind by a killed server.
        let left = home.dir("stdio/1-0").expect("made");
        fs::write(left.join("sessions.db"), "x").expect("written");
        let third = PrivateState::create(&home).expect("made");
        assert!(!left.exists());
        for own in [&first, &second, &third] {
            assert!(place(own).is_dir(), "what is owned stays");
        }
        let removed = place(&second);
        drop(second);
        assert!(!removed.exists() && place(&first).is_dir());
    }
}
