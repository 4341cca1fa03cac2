//! ACP agents with a single defect, in the order of the requirement catalogue.

mod continuation;
mod design;
mod effects;
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

use super::AgentMutant;

pub fn mutants() -> Vec<AgentMutant> {
    let groups = [
        transport::mutants(),
        process::mutants(),
        start::mutants(),
        sessions::mutants(),
        places::mutants(),
        turns::mutants(),
        prompts::mutants(),
        updates::mutants(),
        settings::mutants(),
        services::mutants(),
        effects::mutants(),
        continuation::mutants(),
        design::mutants(),
    ];
    groups.into_iter().flatten().collect()
}
