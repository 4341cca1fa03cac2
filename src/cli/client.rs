//! The daemon, as our own commands reach it.

use serde::Deserialize;

use crate::runtime::Fault;
use crate::runtime::home::Home;

/// Where a running host is.
#[derive(Clone, Debug, Deserialize)]
pub struct Runtime {
    pub url: String,
    pub pid: u32,
    pub token: String,
}

impl Runtime {
    /// `None` where no host has written it; a file of something else is none, either.
    pub fn read(home: &Home) -> Result<Option<Runtime>, Fault> {
        let bytes = home.read(super::serve::RUNTIME)?;
        Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    }
}
