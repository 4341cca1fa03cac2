//! A place for the sessions of one stdio server. They end with it, and so does what was kept of
//! them; several such servers, and a daemon, share a home without getting in each other's way.

use std::fs;

use agentproto_runtime::Fault;
use agentproto_runtime::home::{Home, Lock, unique};

/// Below the home; one directory for each server.
const PLACE: &str = "stdio";
/// Held by the server whose directory it is.
const OWNER: &str = "owner";

/// Gone when it is dropped.
pub struct Own {
    pub state: Home,
    _lock: Option<Lock>,
}

impl Own {
    /// A new place; those that nobody owns any more are cleared away.
    pub fn make(home: &Home) -> Result<Own, Fault> {
        // Nobody clears away what was made and is not locked yet.
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
    fn places_are_apart_and_do_not_pile_up() {
        let dir = tempfile::tempdir().expect("a directory");
        let home = Home::new(dir.path());
        let place = |own: &Own| own.state.root().to_owned();
        let first = Own::make(&home).expect("made");
        let second = Own::make(&home).expect("made");
        assert_ne!(place(&first), place(&second));
        // As a server that was killed leaves it.
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
