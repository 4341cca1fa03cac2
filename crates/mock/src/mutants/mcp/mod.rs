//! MCP servers with a single defect. The requirement is an id of the suite `mcp`, which has its
//! text and its source in the specification.

mod base;
mod client;
mod tools;
mod utilities;

use super::AgentMutant;

pub fn mutants() -> Vec<AgentMutant> {
    let groups = [
        base::mutants(),
        tools::mutants(),
        client::mutants(),
        utilities::mutants(),
    ];
    groups.into_iter().flatten().collect()
}
