//! From a manifest to a running process: confined, watched, and gone when it should be.

pub mod sandbox;
pub mod spawn;
