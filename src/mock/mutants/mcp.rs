//! Single-fault MCP servers.

use super::Mutant;

pub static MUTANTS: &[Mutant] = &[];
