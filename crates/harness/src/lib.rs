//! Certification: suites of cases drive an agent over its raw wire, monitors watch every line,
//! and each statement of a spec gets a verdict with the lines that prove it.

pub mod lifecycle;
pub mod model;
pub mod monitor;
mod probe;
pub mod render;
pub mod run;
pub mod sessions;
pub mod shape;
pub mod suite;
