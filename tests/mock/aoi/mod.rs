//! The mock AOI tool as a real process. These tests do not use the engine that checks such tools.

mod changes;
mod discovery;
mod fixtures;
mod input;
mod lists;
mod mutants;
mod runner;
mod signals;
mod variants;
