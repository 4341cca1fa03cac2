//! Single-fault ACP agents, in the order of the catalogue of requirements.

mod design;
mod places;
mod process;
mod prompts;
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
    process::MUTANTS,
    start::MUTANTS,
    sessions::MUTANTS,
    places::MUTANTS,
    turns::MUTANTS,
    prompts::MUTANTS,
    updates::MUTANTS,
    settings::MUTANTS,
    services::MUTANTS,
    design::MUTANTS,
];
