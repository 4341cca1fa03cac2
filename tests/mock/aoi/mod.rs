//! The mock AOI tool as a real process, looked at from outside. Nothing here uses the engine that
//! judges such tools.

mod changes;
mod discovery;
mod fixtures;
mod input;
mod lists;
mod mutants;
mod runner;
mod signals;
mod variants;
