//! Single-fault ACP agents, in the order of the catalogue of requirements.

mod services;
mod sessions;
mod settings;
mod start;
mod transport;
mod turns;
mod updates;

use super::Mutant;

pub static GROUPS: &[&[Mutant]] = &[
    transport::MUTANTS,
    start::MUTANTS,
    sessions::MUTANTS,
    turns::MUTANTS,
    updates::MUTANTS,
    settings::MUTANTS,
    services::MUTANTS,
];
