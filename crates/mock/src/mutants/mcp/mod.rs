//! Single-fault MCP servers. The requirement is an id of the suite `mcp`, which says the statement
//! and its place in the specification.

mod base;
mod client;
mod tools;
mod utilities;

use super::Mutant;

pub static GROUPS: &[&[Mutant]] = &[
    base::MUTANTS,
    tools::MUTANTS,
    client::MUTANTS,
    utilities::MUTANTS,
];
