//! Single-fault ACP agents.

use super::Mutant;

pub static MUTANTS: &[Mutant] = &[];
